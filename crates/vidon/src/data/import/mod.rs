//! A user's own data: long tables (one line a reading) or padded NumPy arrays, to a dataset.

mod arrays;
mod cells;
mod npz;
pub(crate) mod table;
mod tables;

pub use arrays::ArrayNames;
pub use tables::Columns;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::data::dataset::DatasetWriter;
use crate::data::meta::Meta;
use crate::data::sample::{Rows, Sample};
use crate::data::summary::Summary;
use crate::error::{Error, Result};
use crate::files::same_file;

/// A column whose float32 numbers are further apart than this share of its range has lost what it says.
const COARSEST: f64 = 1e-4;

/// What to do with a reading or target that is missing (an empty cell, NaN, null).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Stop and say where it is.
    #[default]
    Refuse,
    /// Leave it out, and count it.
    Skip,
}

/// What to do with the numbers of an import, and what they do not say themselves.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub missing: Missing,
    /// By the names of columns.
    pub units: HashMap<String, String>,
    /// Ends of coordinates, by their names: the box (or the periods) of the problem.
    pub ranges: HashMap<String, [f64; 2]>,
}

/// What an import found.
#[derive(Clone, Debug)]
pub struct Imported {
    pub meta: Meta,
    pub summary: Summary,
    /// Readings and targets left out because a number was missing.
    pub skipped_readings: usize,
    pub skipped_targets: usize,
    /// Samples left out because no sensor or no target remained.
    pub skipped_samples: Vec<String>,
    /// What the user may want to know besides.
    pub notes: Vec<String>,
}

/// Samples take shape here: sensors and targets per name, in order of first appearance.
struct Collector {
    /// The files it comes from: readings and targets.
    sources: [PathBuf; 2],
    meta: Meta,
    missing: Missing,
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The four parts of every sample.
    parts: Vec<[Vec<f32>; 4]>,
    /// Smallest and largest number of every component of the four parts.
    extremes: [Vec<[f64; 2]>; 4],
    skipped: [usize; 2],
    notes: Vec<String>,
}

impl Collector {
    /// Refuses to write over what is read.
    fn new(sources: [&Path; 2], out: &Path, mut meta: Meta, details: &Details) -> Result<Self> {
        if let Some(source) = sources.iter().find(|s| same_file(s, out)) {
            return Err(Error::data(
                source,
                "is to be read and written at once; choose another --out",
            ));
        }
        meta.named_samples = true;
        for (name, range) in &details.ranges {
            let coords = meta.sensor_coords.iter_mut().chain(&mut meta.query_coords);
            let mut own = coords.filter(|c| c.name == *name).peekable();
            if own.peek().is_none() {
                drop(own);
                let coords = meta.sensor_coords.iter().chain(&meta.query_coords);
                let names: Vec<&str> = coords.map(|c| c.name.as_str()).collect();
                let what = format!(
                    "there is no such coordinate; there are {}",
                    names.join(", ")
                );
                return Err(Error::setting(format!("a range for {name}"), what));
            }
            own.for_each(|c| c.range = Some(*range));
        }
        let empty = [f64::INFINITY, f64::NEG_INFINITY];
        Ok(Self {
            sources: sources.map(Path::to_path_buf),
            extremes: meta.widths().map(|width| vec![empty; width]),
            meta,
            missing: details.missing,
            names: Vec::new(),
            places: HashMap::new(),
            parts: Vec::new(),
            skipped: [0; 2],
            notes: Vec::new(),
        })
    }

    fn sample(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_string(), self.names.len());
        self.names.push(name.to_string());
        self.parts.push(Default::default());
        self.names.len() - 1
    }

    /// Adds one reading (`pair` 0) or target (`pair` 1). Gives the component that is missing, if it may not be.
    fn add(
        &mut self,
        sample: usize,
        pair: usize,
        coords: impl Iterator<Item = f64> + Clone,
        values: impl Iterator<Item = f64> + Clone,
    ) -> std::result::Result<(), usize> {
        if let Some(gap) = coords.clone().chain(values.clone()).position(f64::is_nan) {
            self.skipped[pair] += 1;
            return match self.missing {
                Missing::Skip => Ok(()),
                Missing::Refuse => Err(gap),
            };
        }
        self.extend(sample, 2 * pair, coords);
        self.extend(sample, 2 * pair + 1, values);
        Ok(())
    }

    fn extend(&mut self, sample: usize, part: usize, numbers: impl Iterator<Item = f64>) {
        for (v, [lo, hi]) in numbers.zip(&mut self.extremes[part]) {
            *lo = lo.min(v);
            *hi = hi.max(v);
            self.parts[sample][part].push(v as f32);
        }
    }

    /// Coordinates that float32 cannot tell apart are refused, values noted.
    fn check_precision(&mut self) -> Result<()> {
        let channels = self.meta.channels().map(<[_]>::to_vec);
        for (part, channels) in channels.iter().enumerate() {
            for (channel, &[lo, hi]) in channels.iter().zip(&self.extremes[part]) {
                let relative = lo.abs().max(hi.abs()) * f32::EPSILON as f64;
                let step = relative.max(f32::from_bits(1) as f64);
                if hi <= lo || step <= COARSEST * (hi - lo) {
                    continue;
                }
                let what = format!(
                    "lies between {lo:?} and {hi:?}, where float32 numbers are {step:.1e} apart; subtract an offset or choose another unit"
                );
                if part % 2 == 0 {
                    return Err(Error::data(&self.sources[part / 2], what).in_column(&channel.name));
                }
                self.notes.push(format!("{} {what}", channel.name));
            }
        }
        Ok(())
    }

    /// Coordinates stay in the ranges that were given.
    fn check_ranges(&self) -> Result<()> {
        for part in [0, 2] {
            let channels = self.meta.channels()[part];
            for (channel, &[least, most]) in channels.iter().zip(&self.extremes[part]) {
                let Some([lo, hi]) = channel.range else {
                    continue;
                };
                let slack = COARSEST * (hi - lo);
                if least < lo - slack || most > hi + slack {
                    let what = format!(
                        "lies between {least:?} and {most:?}, which is not within its range {lo:?}:{hi:?}"
                    );
                    return Err(Error::data(&self.sources[part / 2], what).in_column(&channel.name));
                }
            }
        }
        Ok(())
    }

    /// Writes what was collected.
    fn finish(mut self, out: &Path) -> Result<Imported> {
        self.check_precision()?;
        self.check_ranges()?;
        self.meta.provenance = json!({
            "program": format!("vidon {}", env!("CARGO_PKG_VERSION")),
            "imported_from": self.sources.each_ref().map(|s| s.display().to_string()),
            "missing": self.missing,
        });
        let widths = self.meta.widths();
        let mut skipped_samples = Vec::new();
        let mut samples = Vec::new();
        for (name, parts) in self.names.into_iter().zip(self.parts) {
            let lack = match (parts[0].is_empty(), parts[2].is_empty()) {
                (true, true) => "no sensors and no targets",
                (true, false) => "targets but no sensors",
                (false, true) => "sensors but no targets",
                (false, false) => {
                    let [coords, values, queries, targets] = parts;
                    samples.push(Sample {
                        name: Some(name),
                        sensor_coords: Rows::of(widths[0], coords),
                        sensor_values: Rows::of(widths[1], values),
                        query_coords: Arc::new(Rows::of(widths[2], queries)),
                        targets: Rows::of(widths[3], targets),
                    });
                    continue;
                }
            };
            if self.missing == Missing::Refuse {
                let what = format!(
                    "sample \"{name}\" has {lack}; mend it, or leave such samples out with --missing skip"
                );
                return Err(Error::data(&self.sources[0], what));
            }
            skipped_samples.push(name);
        }
        if samples.is_empty() {
            return Err(Error::data(
                &self.sources[0],
                "no sample has both sensors and targets",
            ));
        }
        let mut summary = Summary::new(&self.meta);
        samples.iter().for_each(|sample| summary.add(sample));
        let mut writer = DatasetWriter::create(out, self.meta.clone())?;
        for block in samples.chunks(64) {
            writer.write(block)?;
        }
        writer.finish()?;
        Ok(Imported {
            meta: self.meta,
            summary,
            skipped_readings: self.skipped[0],
            skipped_targets: self.skipped[1],
            skipped_samples,
            notes: self.notes,
        })
    }
}
