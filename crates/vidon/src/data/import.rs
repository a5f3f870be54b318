//! A user's own data: long tables (one line a reading) or padded NumPy arrays, to a dataset.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::data::dataset::DatasetWriter;
use crate::data::meta::{Channel, Meta};
use crate::data::npz::{NumpyArray, read_npz};
use crate::data::sample::{Rows, Sample};
use crate::data::summary::Summary;
use crate::data::table::{Table, read_table};
use crate::error::{Error, Result};

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

/// The columns of long tables.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Which sample a line belongs to.
    pub sample: String,
    pub coords: Vec<String>,
    pub values: Vec<String>,
    pub target_coords: Vec<String>,
    pub target_values: Vec<String>,
}

/// The arrays of a `.npz`, n samples padded to a common length.
#[derive(Clone, Debug)]
pub struct ArrayNames {
    /// (n, m, d), or (m, d) where all samples share it.
    pub coords: String,
    /// (n, m, d_v) or (n, m).
    pub values: String,
    /// (n): how many of the m sensors are real; all where the array is absent.
    pub counts: String,
    /// (n, q, d_y), or (q, d_y) where all samples share it.
    pub target_coords: String,
    /// (n, q, d_u) or (n, q).
    pub target_values: String,
    /// (n): how many of the q targets are real; all where the array is absent.
    pub target_counts: String,
}

impl Default for ArrayNames {
    fn default() -> Self {
        Self {
            coords: "coords".into(),
            values: "values".into(),
            counts: "counts".into(),
            target_coords: "target_coords".into(),
            target_values: "target_values".into(),
            target_counts: "target_counts".into(),
        }
    }
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
}

/// Samples take shape here: sensors and targets per name, in order of first appearance.
struct Collector {
    source: String,
    meta: Meta,
    missing: Missing,
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The four parts of every sample.
    parts: Vec<[Vec<f32>; 4]>,
    skipped: [usize; 2],
}

impl Collector {
    fn new(path: &Path, meta: Meta, missing: Missing) -> Self {
        Self {
            source: path.display().to_string(),
            meta,
            missing,
            names: Vec::new(),
            places: HashMap::new(),
            parts: Vec::new(),
            skipped: [0; 2],
        }
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
        let parts = &mut self.parts[sample];
        parts[2 * pair].extend(coords.map(|v| v as f32));
        parts[2 * pair + 1].extend(values.map(|v| v as f32));
        Ok(())
    }

    /// Writes what was collected.
    fn finish(mut self, out: &Path, origin: serde_json::Value) -> Result<Imported> {
        self.meta.provenance = json!({
            "program": format!("vidon {}", env!("CARGO_PKG_VERSION")),
            "imported_from": origin,
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
                        sensor_coords: Rows::new(widths[0], coords),
                        sensor_values: Rows::new(widths[1], values),
                        query_coords: Arc::new(Rows::new(widths[2], queries)),
                        targets: Rows::new(widths[3], targets),
                    });
                    continue;
                }
            };
            if self.missing == Missing::Refuse {
                return Err(Error::data(
                    Path::new(&self.source),
                    format!(
                        "sample \"{name}\" has {lack}; mend it, or leave such samples out with --missing skip"
                    ),
                ));
            }
            skipped_samples.push(name);
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
        })
    }
}

/// Turns a table of readings and a table of targets (none: the same one) into a dataset.
pub fn import_tables(
    readings: &Path,
    targets: Option<&Path>,
    columns: &Columns,
    missing: Missing,
    units: &HashMap<String, String>,
    out: &Path,
) -> Result<Imported> {
    let channels = |names: &[String]| -> Vec<Channel> {
        let unit = |name: &String| units.get(name).cloned().unwrap_or_default();
        names
            .iter()
            .map(|n| Channel {
                unit: unit(n),
                ..Channel::named(n.as_str())
            })
            .collect()
    };
    let name = readings
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let meta = Meta::new(
        &name,
        channels(&columns.coords),
        channels(&columns.values),
        channels(&columns.target_coords),
        channels(&columns.target_values),
    );
    let mut collector = Collector::new(readings, meta, missing);
    let sides = [
        (readings, &columns.coords, &columns.values),
        (
            targets.unwrap_or(readings),
            &columns.target_coords,
            &columns.target_values,
        ),
    ];
    for (pair, (path, coords, values)) in sides.into_iter().enumerate() {
        let names: Vec<&str> = coords.iter().chain(values).map(String::as_str).collect();
        let table: Table = read_table(path, &columns.sample, &names)?;
        for i in 0..table.len() {
            let sample = collector.sample(&table.ids[i]);
            let cell = |column: usize| table.numbers[column][i];
            let added = collector.add(
                sample,
                pair,
                (0..coords.len()).map(cell),
                (coords.len()..names.len()).map(cell),
            );
            added.map_err(|gap| {
                Error::data(
                    path,
                    "is missing; fill it, or leave such lines out with --missing skip",
                )
                .at(table.place(i))
                .in_column(names[gap])
            })?;
        }
    }
    let origin = json!([
        readings.display().to_string(),
        targets.map(|t| t.display().to_string())
    ]);
    collector.finish(out, origin)
}

/// Turns padded NumPy arrays into a dataset.
pub fn import_npz(
    path: &Path,
    names: &ArrayNames,
    missing: Missing,
    out: &Path,
) -> Result<Imported> {
    let arrays = read_npz(path)?;
    let found: Vec<&str> = arrays.keys().map(String::as_str).collect();
    let get = |name: &str| {
        arrays.get(name).ok_or_else(|| {
            let what = format!(
                "there is no such array; the archive has {}",
                found.join(", ")
            );
            Error::data(path, what).in_column(name)
        })
    };
    let n = get(&names.values)?.shape.first().copied().unwrap_or(0);
    let sensors = Padded::new(path, n, &names.coords, &names.values, &names.counts, &get)?;
    let targets = Padded::new(
        path,
        n,
        &names.target_coords,
        &names.target_values,
        &names.target_counts,
        &get,
    )?;
    let numbered = |stem: &str, width: usize| -> Vec<Channel> {
        match width {
            1 => vec![Channel::named(stem)],
            _ => (0..width)
                .map(|i| Channel::named(format!("{stem}{i}")))
                .collect(),
        }
    };
    let meta = Meta::new(
        &path.file_stem().unwrap_or_default().to_string_lossy(),
        numbered("x", sensors.widths[0]),
        numbered(&names.values, sensors.widths[1]),
        numbered("y", targets.widths[0]),
        numbered(&names.target_values, targets.widths[1]),
    );
    let mut collector = Collector::new(path, meta, missing);
    for (pair, padded) in [&sensors, &targets].into_iter().enumerate() {
        for i in 0..n {
            let sample = collector.sample(&i.to_string());
            for k in 0..padded.counts[i] {
                let [coords, values] = padded.entry(i, k);
                let added =
                    collector.add(sample, pair, coords.iter().copied(), values.iter().copied());
                added.map_err(|gap| {
                    let array = if gap < coords.len() {
                        padded.names[0]
                    } else {
                        padded.names[1]
                    };
                    Error::data(
                        path,
                        "is missing (NaN); fill it, or leave such entries out with --missing skip",
                    )
                    .at(format!("sample {i}, entry {k}"))
                    .in_column(array)
                })?;
            }
        }
    }
    collector.finish(out, json!([path.display().to_string()]))
}

/// Coordinates and values of one side (sensors or targets), padded to `most` entries a sample.
struct Padded<'a> {
    names: [&'a str; 2],
    arrays: [&'a NumpyArray; 2],
    /// Whether all samples have the same coordinates.
    shared: bool,
    widths: [usize; 2],
    most: usize,
    counts: Vec<usize>,
}

impl<'a> Padded<'a> {
    fn new(
        path: &Path,
        n: usize,
        coords_name: &'a str,
        values_name: &'a str,
        counts_name: &str,
        get: &dyn Fn(&str) -> Result<&'a NumpyArray>,
    ) -> Result<Self> {
        let (coords, values) = (get(coords_name)?, get(values_name)?);
        let wrong = |name: &str, what: String| Err(Error::data(path, what).in_column(name));
        let (samples, most, value_width) = match values.shape[..] {
            [samples, most] => (samples, most, 1),
            [samples, most, width] if width > 0 => (samples, most, width),
            _ => {
                return wrong(
                    values_name,
                    format!(
                        "has the shape {:?}; wanted: (samples, entries) or (samples, entries, components)",
                        values.shape
                    ),
                );
            }
        };
        if samples != n {
            return wrong(
                values_name,
                format!("has {samples} samples where the sensor values have {n}"),
            );
        }
        let (shared, coord_width) = match coords.shape[..] {
            [k, width] if k == most && width > 0 => (true, width),
            [s, k, width] if s == n && k == most && width > 0 => (false, width),
            _ => {
                return wrong(
                    coords_name,
                    format!(
                        "has the shape {:?}; wanted: ({n}, {most}, d), or ({most}, d) for all samples",
                        coords.shape
                    ),
                );
            }
        };
        let counts = match get(counts_name) {
            Err(_) => vec![most; n],
            Ok(array) => {
                let whole = |&v: &f64| v.fract() == 0.0 && (0.0..=most as f64).contains(&v);
                if array.shape != [n] || !array.values.iter().all(whole) {
                    return wrong(
                        counts_name,
                        format!("must hold {n} whole numbers between 0 and {most}"),
                    );
                }
                array.values.iter().map(|&v| v as usize).collect()
            }
        };
        let padded = Self {
            names: [coords_name, values_name],
            arrays: [coords, values],
            shared,
            widths: [coord_width, value_width],
            most,
            counts,
        };
        for i in 0..n {
            for k in 0..padded.counts[i] {
                for (name, entry) in padded.names.iter().zip(padded.entry(i, k)) {
                    let too_large = |v: &&f64| !v.is_nan() && v.abs() > f32::MAX as f64;
                    if let Some(v) = entry.iter().find(too_large) {
                        let error = Error::data(path, format!("{v} is not a finite float32"));
                        return Err(error.at(format!("sample {i}, entry {k}")).in_column(name));
                    }
                }
            }
        }
        Ok(padded)
    }

    /// Coordinates and values of entry `k` of sample `i`.
    fn entry(&self, i: usize, k: usize) -> [&'a [f64]; 2] {
        let row = |side: usize, at: usize| {
            let width = self.widths[side];
            &self.arrays[side].values[at * width..(at + 1) * width]
        };
        let own = i * self.most + k;
        [row(0, if self.shared { k } else { own }), row(1, own)]
    }
}
