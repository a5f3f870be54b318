//! The history of a training: one JSON object a line, and the same numbers for TensorBoard.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::write_file;
use crate::input;
use crate::train::events::{write_header, write_scalars};
use crate::train::run_folder::{EVENTS, LINES};

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
    /// Mean relative L² error on the validation data, where it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_error: Option<f64>,
    /// The smallest of them so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_error: Option<f64>,
}

impl Record {
    fn scalars(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("train/loss", self.loss),
            ("train/rate", Some(self.rate)),
            ("train/samples_per_second", self.samples_per_second),
            ("val/relative_l2", self.val_error),
            ("val/best_relative_l2", self.best_error),
        ];
        let known = all
            .iter()
            .filter_map(|(tag, value)| Some((*tag, (*value)?)));
        known.collect()
    }
}

impl Record {
    /// The records of the run in `folder`; a last line that was cut short is left out.
    pub fn read_all(folder: &Path) -> Result<Vec<Record>> {
        let path = folder.join(LINES);
        let text = input::read_text(&path)?;
        let mut records = Vec::new();
        for (i, line) in text.lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(record) => records.push(record),
                Err(_) if !text.ends_with('\n') && i + 1 == text.lines().count() => {}
                Err(e) => {
                    return Err(Error::data(&path, e.to_string()).at(format!("line {}", i + 1)));
                }
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
    /// Keeps the records up to `step` and forgets what came after the checkpoint.
    pub fn open(folder: &Path, step: Option<u64>) -> Result<Self> {
        let mut records = match step {
            Some(_) if folder.join(LINES).exists() => Record::read_all(folder)?,
            _ => Vec::new(),
        };
        // Step 0 is looked at again, by a training that is resumed there too.
        let step = step.filter(|s| *s > 0);
        records.retain(|r| Some(r.step) <= step);
        let lines = folder.join(LINES);
        write_file(&lines, |out| {
            records
                .iter()
                .try_for_each(|r| out.write_all(line(r).as_bytes()))
        })?;
        let events = folder.join(EVENTS);
        write_file(&events, |out| {
            write_header(out, records.first().map_or_else(now, |r| r.time))?;
            records
                .iter()
                .try_for_each(|r| write_scalars(out, r.time, r.step, &r.scalars()))
        })?;
        let append = |path: PathBuf| -> Result<(PathBuf, File)> {
            let file = OpenOptions::new().append(true).open(&path);
            let file = file.map_err(Error::io("open", &path))?;
            Ok((path, file))
        };
        Ok(Self {
            lines: append(lines)?,
            events: append(events)?,
        })
    }

    pub fn write(&mut self, record: &Record) -> Result<()> {
        let (path, file) = &mut self.lines;
        file.write_all(line(record).as_bytes())
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

fn line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record is plain JSON") + "\n"
}
