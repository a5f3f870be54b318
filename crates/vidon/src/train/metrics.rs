//! The history of a training: one JSON object a line, each with a checksum, and the same numbers for
//! TensorBoard.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::checksum::{from_json, to_json};
use crate::error::{Error, Result};
use crate::files::{plain_file, write_and_keep};
use crate::input;
use crate::train::events::{write_header, write_scalars};
use crate::train::metric::Metric;
use crate::train::run_folder::LINES;

/// What is known after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub step: u64,
    pub epoch: f64,
    /// Time spent on the training so far.
    pub seconds: f64,
    /// Seconds since 1970.
    pub time: f64,
    pub rate: f64,
    /// Mean over the steps since the last record; none before the first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_second: Option<f64>,
    /// How errors on the validation data are measured.
    pub metric: Metric,
    /// The error on the validation data, where it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_error: Option<f64>,
    /// The smallest of them so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_error: Option<f64>,
}

impl Record {
    fn scalars(&self) -> Vec<(&'static str, f64)> {
        let [error, best] = self.metric.tags();
        let all = [
            ("train/loss", self.loss),
            ("train/rate", Some(self.rate)),
            ("train/samples_per_second", self.samples_per_second),
            (error, self.val_error),
            (best, self.best_error),
        ];
        let known = all
            .iter()
            .filter_map(|(tag, value)| Some((*tag, (*value)?)));
        known.collect()
    }
}

impl Record {
    /// The records of the run in `folder`. Blank lines are nothing, and a last line that was cut short is
    /// left out; any other line must be whole.
    pub fn read_all(folder: &Path) -> Result<Vec<Record>> {
        let path = plain_file(folder, LINES)?;
        let bytes = input::read(&path)?;
        let mut records = Vec::new();
        for (i, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
            // A brace ends a record, and nothing else in it.
            let cut_short = !line.contains(&b'\n') && !line.contains(&b'}');
            if !cut_short && !line.trim_ascii().is_empty() {
                let record = from_json(line.trim_ascii()).map_err(|what| {
                    let what = format!("{what}; without the line, the rest can be used");
                    Error::data(&path, what).at(format!("line {}", i + 1))
                });
                records.push(record?);
            }
        }
        Ok(records)
    }
}

/// Both files, open for more.
pub(crate) struct Metrics {
    lines: (PathBuf, File),
    events: (PathBuf, File),
}

impl Metrics {
    /// Written anew, with these records.
    pub fn open([lines, events]: [PathBuf; 2], records: &[Record]) -> Result<Self> {
        let lines_file = write_and_keep(&lines, |out| {
            let mut all = records.iter();
            all.try_for_each(|r| writeln!(out, "{}", to_json(r)))
        })?;
        let events_file = write_and_keep(&events, |out| {
            write_header(out, records.first().map_or_else(now, |r| r.time))?;
            let mut all = records.iter();
            all.try_for_each(|r| write_scalars(out, r.time, r.step, &r.scalars()))
        })?;
        Ok(Self {
            lines: (lines, lines_file),
            events: (events, events_file),
        })
    }

    pub fn write(&mut self, record: &Record) -> Result<()> {
        let (path, file) = &mut self.lines;
        let line = to_json(record) + "\n";
        file.write_all(line.as_bytes())
            .map_err(Error::io("write", path))?;
        let mut bytes = Vec::new();
        let (path, file) = &mut self.events;
        write_scalars(&mut bytes, record.time, record.step, &record.scalars())
            .and_then(|()| file.write_all(&bytes))
            .map_err(Error::io("write", path))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |t| t.as_secs_f64())
}
