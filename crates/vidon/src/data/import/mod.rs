//! A user's own data: long tables (one line a reading) or padded NumPy arrays, to a dataset.

mod arrays;
mod cells;
mod npz;
pub(crate) mod table;
mod tables;
mod times;

pub use arrays::{ArrayNames, GroupArrays, NamedArray};
pub use tables::{Columns, GroupColumns};
pub use times::{Split, Times, Written};

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::data::dataset::DatasetWriter;
use crate::data::dates::{Date, Step};
use crate::data::meta::{Channel, Kind, Meta};
use crate::data::sample::{Rows, Sample, Sensors};
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
    /// Leave the whole reading or target out, and count it.
    Skip,
    /// Keep what the other columns of the reading or target have. Where a place is missing, or all columns
    /// are, it is left out and counted.
    Keep,
}

/// What to do with the numbers of an import, and what they do not say themselves.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub missing: Missing,
    /// By the names of columns.
    pub units: HashMap<String, String>,
    /// Ends of coordinates, by their names: the box (or the periods) of the problem.
    pub ranges: HashMap<String, [f64; 2]>,
    /// What the dates of the samples are for.
    pub times: Times,
}

/// What an import found.
#[derive(Clone, Debug)]
pub struct Imported {
    pub meta: Meta,
    pub summary: Summary,
    /// All that was written.
    pub files: Vec<Written>,
    /// Readings and targets left out because a number was missing.
    pub skipped_readings: usize,
    pub skipped_targets: usize,
    /// Samples left out because no sensor or no target remained.
    pub skipped_samples: Vec<String>,
    /// What the user may want to know besides.
    pub notes: Vec<String>,
}

/// Places and values of one side of a sample: a group of sensors, or the targets.
#[derive(Clone, Default)]
struct Gathered {
    rows: usize,
    coords: Vec<f32>,
    values: Vec<f32>,
}

/// A side of all samples: where it comes from, and what is known of its columns.
#[derive(Clone)]
struct Side {
    source: PathBuf,
    /// Of targets none.
    kind: Option<Kind>,
    /// Smallest and largest number of every column of coordinates and of values.
    extremes: [Vec<[f64; 2]>; 2],
    /// Of every column with numbers too small for float32: how many, the first, and where it stands.
    tiny: BTreeMap<usize, (usize, f64, String)>,
    skipped: usize,
    /// Whether a number is missing beside others that are there.
    gaps: bool,
}

impl Side {
    /// Of so many coordinates and values.
    fn of(source: PathBuf, kind: Option<Kind>, columns: [usize; 2]) -> Self {
        let empty = [f64::INFINITY, f64::NEG_INFINITY];
        Self {
            source,
            kind,
            extremes: columns.map(|count| vec![empty; count]),
            tiny: Default::default(),
            skipped: 0,
            gaps: false,
        }
    }
}

/// Samples take shape here: sensors and targets per name, in order of first appearance.
struct Collector {
    meta: Meta,
    missing: Missing,
    times: Times,
    files: Vec<PathBuf>,
    names: Vec<String>,
    /// Of every sample, where they are looked at.
    dates: Vec<Date>,
    step: Option<Step>,
    places: HashMap<String, usize>,
    /// The groups of sensors, then the targets.
    sides: Vec<Side>,
    /// The sides of every sample.
    samples: Vec<Vec<Gathered>>,
    notes: Vec<String>,
}

/// Coordinates and values of every side.
fn channels(meta: &Meta) -> Vec<[&[Channel]; 2]> {
    let groups = meta.groups.iter().map(|g| [&g.coords[..], &g.values[..]]);
    groups
        .chain([[&meta.query_coords[..], &meta.targets[..]]])
        .collect()
}

impl Collector {
    /// `sources` are those of the groups, then that of the targets. Refuses to write over what is read.
    fn new(sources: &[&Path], out: &Path, mut meta: Meta, details: &Details) -> Result<Self> {
        set_units(&mut meta, &details.units)?;
        set_ranges(&mut meta, &details.ranges)?;
        let (files, whole) = details.times.plan(&meta, out)?;
        let written = |source: &&&Path| files.iter().any(|out| same_file(source, out));
        if let Some(source) = sources.iter().find(written) {
            return Err(Error::data(
                source,
                "is to be read and written at once; choose another --out",
            ));
        }
        DatasetWriter::check_name(out)?;
        meta.named_samples = true;
        if let Some(fault) = whole.fault() {
            return Err(Error::Unsuitable(format!("the import {fault}")));
        }
        let sides = channels(&meta);
        let sides = sides.iter().zip(sources).enumerate();
        let sides = sides.map(|(i, (channels, source))| {
            let kind = meta.groups.get(i).map(|g| g.kind);
            Side::of(source.to_path_buf(), kind, channels.map(<[Channel]>::len))
        });
        Ok(Self {
            sides: sides.collect(),
            meta,
            missing: details.missing,
            times: details.times.clone(),
            files,
            names: Vec::new(),
            dates: Vec::new(),
            step: None,
            places: HashMap::new(),
            samples: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn sample(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_string(), self.names.len());
        self.names.push(name.to_string());
        self.samples
            .push(vec![Gathered::default(); self.sides.len()]);
        self.names.len() - 1
    }

    /// Adds one reading or target, which stands at a place of its source. Gives the component that is missing, if
    /// it may not be.
    fn add(
        &mut self,
        sample: usize,
        side: usize,
        coords: impl Iterator<Item = f64> + Clone,
        values: impl Iterator<Item = f64> + Clone,
        place: impl Fn() -> String,
    ) -> std::result::Result<(), usize> {
        let own = &mut self.sides[side];
        if let Some(gap) = coords.clone().chain(values.clone()).position(f64::is_nan) {
            let nowhere = coords.clone().any(f64::is_nan);
            let nothing = values.clone().all(f64::is_nan) && own.kind != Some(Kind::Scalars);
            match self.missing {
                Missing::Refuse => return Err(gap),
                Missing::Keep if !nowhere && !nothing => own.gaps = true,
                Missing::Skip | Missing::Keep => {
                    own.skipped += 1;
                    return Ok(());
                }
            }
        }
        for (column, v) in coords.clone().chain(values.clone()).enumerate() {
            if v != 0.0 && v.abs() < f32::MIN_POSITIVE as f64 {
                let first = || (0, v, place());
                own.tiny.entry(column).or_insert_with(first).0 += 1;
            }
        }
        let to = &mut self.samples[sample][side];
        to.rows += 1;
        extend(&mut to.coords, &mut own.extremes[0], coords);
        extend(&mut to.values, &mut own.extremes[1], values);
        Ok(())
    }

    /// Coordinates that float32 cannot tell apart are refused, values noted.
    fn check_precision(&mut self) -> Result<()> {
        let all = channels(&self.meta);
        let parts = self.sides.iter().zip(&all).flat_map(|(side, channels)| {
            [0, 1].map(|part| (side, part, channels[part], &side.extremes[part]))
        });
        for (side, part, channels, extremes) in parts {
            for (channel, &[lo, hi]) in channels.iter().zip(extremes) {
                let relative = lo.abs().max(hi.abs()) * f32::EPSILON as f64;
                let step = relative.max(f32::from_bits(1) as f64);
                if hi <= lo || step <= COARSEST * (hi - lo) {
                    continue;
                }
                let what = format!(
                    "lies between {lo:?} and {hi:?}, where float32 numbers are {step:.1e} apart; subtract an offset or choose another unit"
                );
                if part == 0 {
                    return Err(Error::data(&side.source, what).in_column(&channel.name));
                }
                self.notes.push(format!("{} {what}", channel.name));
            }
        }
        Ok(())
    }

    /// Says where float32 makes nothing, or nearly nothing, of a number.
    fn note_tiny(&mut self) {
        for (side, channels) in self.sides.iter().zip(channels(&self.meta)) {
            for (column, (count, first, place)) in &side.tiny {
                let channel = channels.iter().flat_map(|c| c.iter()).nth(*column);
                let name = channel.map_or("", |c| &c.name);
                let numbers = if *count == 1 {
                    "number is"
                } else {
                    "numbers are"
                };
                self.notes.push(format!(
                    "{name}: {count} {numbers} smaller than float32 holds ({:.1e}), so that 0 or fewer digits are left, the first at {place} ({first:e}); choose another unit",
                    f32::MIN_POSITIVE
                ));
            }
        }
    }

    /// Coordinates stay in the ranges that were given.
    fn check_ranges(&self) -> Result<()> {
        for (side, [coords, _]) in self.sides.iter().zip(channels(&self.meta)) {
            for (channel, &[least, most]) in coords.iter().zip(&side.extremes[0]) {
                let Some([lo, hi]) = channel.range else {
                    continue;
                };
                let slack = COARSEST * (hi - lo);
                if least < lo - slack || most > hi + slack {
                    let what = format!(
                        "lies between {least:?} and {most:?}, which is not within its range {lo:?}:{hi:?}; state a wider one, or leave out what stands outside"
                    );
                    return Err(Error::data(&side.source, what).in_column(&channel.name));
                }
            }
        }
        Ok(())
    }

    /// What a sample lacks to be one.
    fn lack(&self, sides: &[Gathered]) -> Option<String> {
        let [groups @ .., targets] = sides else {
            unreachable!("there are targets")
        };
        let several = self.meta.groups.len() > 1;
        let lacking = groups.iter().zip(&self.meta.groups);
        let lacking = lacking.filter(|(own, g)| own.rows == 0 && g.kind != Kind::Points);
        let lacking: Vec<&str> = lacking.map(|(_, g)| &g.name[..]).collect();
        let sensors = match lacking.is_empty() {
            true => None,
            false if several => Some(format!("nothing of {}", lacking.join(", "))),
            false => Some("no sensors".into()),
        };
        match (sensors, targets.rows == 0) {
            (Some(sensors), true) => Some(format!("{sensors} and no targets")),
            (Some(sensors), false) => Some(format!("targets but {sensors}")),
            (None, true) => Some("sensors but no targets".into()),
            (None, false) => None,
        }
    }

    /// Writes what was collected.
    fn finish(mut self) -> Result<Imported> {
        self.check_precision()?;
        self.note_tiny();
        self.check_ranges()?;
        let times = std::mem::take(&mut self.times);
        self.add_times(&times)?;
        let mut sources: Vec<String> = Vec::new();
        for side in &self.sides {
            let name = side.source.display().to_string();
            if !sources.contains(&name) {
                sources.push(name);
            }
        }
        self.meta.provenance = json!({
            "program": format!("vidon {}", env!("CARGO_PKG_VERSION")),
            "imported_from": sources,
            "missing": self.missing,
        });
        if let Some(step) = self.step {
            self.meta.provenance["step"] = step.to_string().into();
        }
        let [groups @ .., targets] = &self.sides[..] else {
            unreachable!("there are targets")
        };
        for (group, side) in self.meta.groups.iter_mut().zip(groups) {
            group.gaps = side.gaps;
        }
        self.meta.target_gaps = targets.gaps;
        let skipped_readings = groups.iter().map(|side| side.skipped).sum();
        let skipped_targets = targets.skipped;
        let mut skipped_samples = Vec::new();
        let mut whole = Vec::new();
        let samples = std::mem::take(&mut self.samples);
        for (i, (name, sides)) in self.names.iter().zip(samples).enumerate() {
            match self.lack(&sides) {
                None => {
                    let date = self.dates.get(i).copied();
                    whole.push((assembled(name, sides, &self.meta), date));
                }
                Some(lack) if self.missing == Missing::Refuse => {
                    let what = format!(
                        "sample \"{name}\" has {lack}; mend it, or leave such samples out with --missing skip"
                    );
                    return Err(Error::data(&self.sides[0].source, what));
                }
                Some(_) => skipped_samples.push(name.clone()),
            }
        }
        if whole.is_empty() {
            return Err(Error::data(
                &self.sides[0].source,
                "no sample has both sensors and targets: are the samples' names the same in all tables?",
            ));
        }
        let mut summary = Summary::new(&self.meta);
        whole.iter().for_each(|(sample, _)| summary.add(sample));
        let parts = times::dealt(&times.split, &self.files, whole)?;
        let mut writers = Vec::new();
        for (file, samples) in &parts {
            let mut writer = DatasetWriter::create(&file.path, self.meta.clone())?;
            for block in samples.chunks(64) {
                writer.write(block)?;
            }
            writers.push(writer);
        }
        // All are whole before the first appears.
        writers
            .into_iter()
            .try_for_each(|writer| writer.finish().map(drop))?;
        Ok(Imported {
            meta: self.meta,
            summary,
            files: parts.into_iter().map(|(file, _)| file).collect(),
            skipped_readings,
            skipped_targets,
            skipped_samples,
            notes: self.notes,
        })
    }
}

/// States the units of columns, by their names.
fn set_units(meta: &mut Meta, units: &HashMap<String, String>) -> Result<()> {
    for (name, unit) in units {
        let groups = meta.groups.iter_mut();
        let groups = groups.flat_map(|g| g.coords.iter_mut().chain(&mut g.values));
        let all = groups
            .chain(&mut meta.query_coords)
            .chain(&mut meta.targets);
        let own: Vec<&mut Channel> = all.filter(|c| c.name == *name).collect();
        if own.is_empty() {
            let mut names: Vec<&str> = Vec::new();
            for channel in channels(meta).into_iter().flatten().flatten() {
                if !names.contains(&&channel.name[..]) {
                    names.push(&channel.name);
                }
            }
            let what = format!(
                "{name} is not a column of the import; there are {}",
                names.join(", ")
            );
            return Err(Error::setting(format!("a unit for {name}"), what));
        }
        own.into_iter().for_each(|c| c.unit = unit.clone());
    }
    Ok(())
}

/// States the ends of coordinates, by their names.
fn set_ranges(meta: &mut Meta, ranges: &HashMap<String, [f64; 2]>) -> Result<()> {
    for (name, range) in ranges {
        let groups = meta.groups.iter_mut().flat_map(|g| &mut g.coords);
        let own: Vec<&mut Channel> = groups
            .chain(&mut meta.query_coords)
            .filter(|c| c.name == *name)
            .collect();
        if own.is_empty() {
            let groups = meta.groups.iter().flat_map(|g| &g.coords);
            let names = groups.chain(&meta.query_coords).map(|c| c.name.as_str());
            let names: Vec<&str> = names.collect();
            let what = format!(
                "there is no such coordinate; there are {}",
                names.join(", ")
            );
            return Err(Error::setting(format!("a range for {name}"), what));
        }
        own.into_iter().for_each(|c| c.range = Some(*range));
    }
    Ok(())
}

fn extend(to: &mut Vec<f32>, extremes: &mut [[f64; 2]], numbers: impl Iterator<Item = f64>) {
    for (v, [lo, hi]) in numbers.zip(extremes) {
        *lo = lo.min(v);
        *hi = hi.max(v);
        to.push(v as f32);
    }
}

fn assembled(name: &str, sides: Vec<Gathered>, meta: &Meta) -> Sample {
    let mut pairs = sides.into_iter().zip(channels(meta)).map(|(own, [c, v])| {
        let rows = |channels: &[Channel], data: Vec<f32>| match channels.len() {
            0 => Rows::without_columns(own.rows),
            width => Rows::of(width, data),
        };
        [rows(c, own.coords), rows(v, own.values)]
    });
    let groups = pairs.by_ref().take(meta.groups.len());
    let groups = groups.map(|[coords, values]| Sensors { coords, values });
    let groups = groups.collect();
    let [queries, targets] = pairs.next().expect("targets come last");
    Sample {
        name: Some(name.into()),
        groups,
        query_coords: Arc::new(queries),
        targets,
    }
}
