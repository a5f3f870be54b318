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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DatasetReader;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::io::Write;
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn names(list: &str) -> Vec<String> {
        list.split(',').map(str::to_string).collect()
    }

    fn columns() -> Columns {
        Columns {
            sample: "run".into(),
            coords: names("x,y"),
            values: names("p"),
            target_coords: names("x,y"),
            target_values: names("u,v"),
        }
    }

    fn folder_with(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn import(text: &str, columns: &Columns, missing: Missing) -> Result<(Imported, Vec<Sample>)> {
        let (folder, path) = folder_with("t.csv", text);
        let out = folder.path().join("o.parquet");
        let found = import_tables(&path, None, columns, missing, &HashMap::new(), &out)?;
        let samples = DatasetReader::open(&out)?
            .samples()?
            .collect::<Result<_>>()?;
        Ok((found, samples))
    }

    const TABLE: &str = "run,x,y,p,u,v\nB,0,0,1,2,3\nA,1,1,4,5,6\nB,0.5,1,7,8,9\n";

    #[test]
    fn readings_are_gathered_by_sample_in_order_of_appearance() {
        let (found, samples) = import(TABLE, &columns(), Missing::Refuse).unwrap();
        assert_eq!(found.summary.samples, 2);
        assert_eq!(samples[0].sensor_coords.data(), [0.0, 0.0, 0.5, 1.0]);
        assert_eq!(samples[0].targets.data(), [2.0, 3.0, 8.0, 9.0]);
        assert_eq!(samples[1].sensor_values.data(), [4.0]);
        let semicolons = TABLE.replace(',', ";");
        let tabs = TABLE.replace(',', "\t").replace('\n', "\r\n");
        let quoted = format!("# a remark\n\u{feff}{}", TABLE.replace("B,", "\"B\","));
        for text in [semicolons, tabs] {
            assert_eq!(
                import(&text, &columns(), Missing::Refuse).unwrap().1,
                samples
            );
        }
        assert_eq!(
            import(&quoted, &columns(), Missing::Refuse).unwrap().1,
            samples
        );
    }

    #[test]
    fn missing_numbers_are_refused_or_skipped_as_told() {
        let gaps = TABLE.replace(
            "B,0.5,1,7,8,9",
            "B,0.5,1,,8,9\nB,0.7,1,3,NA,9\nC,1,2,3,nan,1",
        );
        let error = import(&gaps, &columns(), Missing::Refuse)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 4, column p: is missing"), "{error}");
        let (found, samples) = import(&gaps, &columns(), Missing::Skip).unwrap();
        assert_eq!((found.skipped_readings, found.skipped_targets), (1, 2));
        assert_eq!(found.skipped_samples, ["C"]);
        assert_eq!(
            (samples[0].sensor_coords.len(), samples[0].targets.len()),
            (2, 2)
        );
        assert_eq!(samples[0].query_coords.data(), [0.0, 0.0, 0.5, 1.0]);
    }

    #[test]
    fn a_second_table_has_the_targets() {
        let (folder, readings) = folder_with("r.csv", "run,x,p\n1,0,5\n1,1,6\n2,0,7\n");
        let targets = folder.path().join("q.csv");
        std::fs::write(&targets, "run,t,x,u\n2,0.1,3,1\n1,0.2,4,2\n").unwrap();
        let out = folder.path().join("o.parquet");
        let columns = Columns {
            coords: names("x"),
            target_coords: names("x,t"),
            target_values: names("u"),
            ..columns()
        };
        let units = HashMap::from([("t".to_string(), "s".to_string())]);
        import_tables(
            &readings,
            Some(&targets),
            &columns,
            Missing::Refuse,
            &units,
            &out,
        )
        .unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        assert_eq!(reader.meta().query_coords[1].label(), "t [s]");
        assert_eq!(reader.sample(0).unwrap().query_coords.data(), [4.0, 0.2]);
        assert_eq!(reader.sample(1).unwrap().targets.data(), [1.0]);
        std::fs::write(&targets, "run,t,x,u\n2,0.1,3,1\n").unwrap();
        let lacking = import_tables(
            &readings,
            Some(&targets),
            &columns,
            Missing::Refuse,
            &units,
            &out,
        );
        let error = lacking.unwrap_err().to_string();
        assert!(
            error.contains("sample \"1\" has sensors but no targets"),
            "{error}"
        );
    }

    #[test]
    fn faults_of_a_csv_are_placed() {
        for (text, words) in [
            (
                TABLE.replace("B,0,0,1", "B,0,zero,1"),
                "line 2, column y: \"zero\" is not a number",
            ),
            (
                TABLE.replace("4,5,6", "4,inf,6"),
                "line 3, column u: inf is not a finite float32",
            ),
            (
                TABLE.replace("A,1,1,4,5,6", "A,1,1,4"),
                "line 3: has 4 cells where the header has 6",
            ),
            (
                TABLE.replace("A,1", ",1"),
                "line 3, column run: the sample's name is empty",
            ),
            (
                TABLE.replace("run,x", "run,lon"),
                "column x: there is no such column; the table has run, lon",
            ),
            (
                TABLE.replace("run,x,y", "run,x,x"),
                "column x: appears twice",
            ),
            ("run,x,y,p,u,v\n".to_string(), "at least one sample"),
            (String::new(), "is empty"),
        ] {
            let error = import(&text, &columns(), Missing::Refuse)
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        let (folder, path) = folder_with("t.csv", b"run,x,y,p,u,v\n\xff\xfe,1,1,1,1,1\n");
        let out = folder.path().join("o.parquet");
        let error = import_tables(
            &path,
            None,
            &columns(),
            Missing::Refuse,
            &HashMap::new(),
            &out,
        );
        assert!(error.unwrap_err().to_string().contains("UTF-8"));
        assert!(!out.exists());
    }

    fn parquet_table(columns: Vec<(&str, ArrayRef)>) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        (folder, path)
    }

    #[test]
    fn parquet_tables_give_the_same_as_csv() {
        let number = |v: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(v.to_vec())) };
        let whole = |v: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(v.to_vec())) };
        let table = |p: ArrayRef, run: ArrayRef| {
            parquet_table(vec![
                ("run", run),
                ("y", whole(&[0, 1, 1])),
                ("x", number(&[0.0, 1.0, 0.5])),
                ("p", p),
                ("v", number(&[3.0, 6.0, 9.0])),
                ("u", number(&[2.0, 5.0, 8.0])),
            ])
        };
        let run = || -> ArrayRef { Arc::new(StringArray::from(vec!["B", "A", "B"])) };
        let (folder, path) = table(number(&[1.0, 4.0, 7.0]), run());
        let out = folder.path().join("o.parquet");
        import_tables(
            &path,
            None,
            &columns(),
            Missing::Refuse,
            &HashMap::new(),
            &out,
        )
        .unwrap();
        let samples: Vec<Sample> = DatasetReader::open(&out)
            .unwrap()
            .samples()
            .unwrap()
            .collect::<Result<_>>()
            .unwrap();
        assert_eq!(
            samples,
            import(TABLE, &columns(), Missing::Refuse).unwrap().1
        );

        let gap: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(7.0)]));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["1", "four", "7"]));
        for (p, message) in [
            (gap, "row 1, column p: is missing"),
            (words, "row 1, column p: is not a number"),
            (number(&[1.0, 4.0, 1e300]), "row 2, column p: 1000000000"),
        ] {
            let (_folder, path) = table(p, run());
            let refused = import_tables(
                &path,
                None,
                &columns(),
                Missing::Refuse,
                &HashMap::new(),
                &out,
            );
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    fn npy(shape: &[usize], values: &[f32]) -> Vec<u8> {
        let shape: Vec<String> = shape.iter().map(|n| format!("{n},")).collect();
        let header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}\n",
            shape.concat()
        );
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        bytes
    }

    fn npz(arrays: &[(&str, &[usize], &[f32])]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.npz");
        let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        for (i, (name, shape, values)) in arrays.iter().enumerate() {
            let method = [
                zip::CompressionMethod::Stored,
                zip::CompressionMethod::Deflated,
            ][i % 2];
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            writer.start_file(format!("{name}.npy"), options).unwrap();
            writer.write_all(&npy(shape, values)).unwrap();
        }
        writer.finish().unwrap();
        (folder, path)
    }

    #[test]
    fn padded_arrays_lose_their_padding() {
        let nan = f32::NAN;
        let (folder, path) = npz(&[
            ("coords", &[2, 3, 1], &[0.0, 1.0, nan, 5.0, 6.0, 7.0]),
            ("values", &[2, 3], &[10.0, 11.0, nan, 15.0, 16.0, 17.0]),
            ("counts", &[2], &[2.0, 3.0]),
            ("target_coords", &[2, 2], &[0.0, 0.1, 0.2, 0.3]),
            (
                "target_values",
                &[2, 2, 2],
                &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            ),
        ]);
        let out = folder.path().join("o.parquet");
        import_npz(&path, &ArrayNames::default(), Missing::Refuse, &out).unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        assert_eq!(reader.meta().widths(), [1, 1, 2, 2]);
        let first = reader.sample(0).unwrap();
        assert_eq!(first.sensor_values.data(), [10.0, 11.0]);
        assert_eq!(reader.sample(1).unwrap().query_coords, first.query_coords);
        assert_eq!(
            reader.sample(1).unwrap().targets.data(),
            [5.0, 6.0, 7.0, 8.0]
        );
    }

    #[test]
    fn faults_of_an_npz_are_placed() {
        let coords: (&str, &[usize], &[f32]) = ("coords", &[1, 2, 1], &[0.0, 1.0]);
        let values: (&str, &[usize], &[f32]) = ("values", &[1, 2], &[5.0, f32::NAN]);
        let target_coords: (&str, &[usize], &[f32]) = ("target_coords", &[1, 1, 1], &[0.0]);
        let targets: (&str, &[usize], &[f32]) = ("target_values", &[1, 1], &[0.0]);
        let import = |arrays: &[_], missing| {
            let (folder, path) = npz(arrays);
            import_npz(
                &path,
                &ArrayNames::default(),
                missing,
                &folder.path().join("o.parquet"),
            )
        };
        for (arrays, words) in [
            (
                vec![coords, values, target_coords, targets],
                "sample 0, entry 1, column values: is missing (NaN)",
            ),
            (
                vec![coords, values, targets],
                "column target_coords: there is no such array; the archive has coords",
            ),
            (
                vec![
                    ("coords", &[1, 3, 1], &[0.0; 3]),
                    values,
                    target_coords,
                    targets,
                ],
                "column coords: has the shape [1, 3, 1]; wanted: (1, 2, d)",
            ),
            (
                vec![
                    coords,
                    values,
                    target_coords,
                    ("target_values", &[2, 1], &[0.0; 2]),
                ],
                "column target_values: has 2 samples where",
            ),
            (
                vec![
                    coords,
                    values,
                    ("counts", &[1], &[3.0]),
                    target_coords,
                    targets,
                ],
                "column counts: must hold 1 whole numbers between 0 and 2",
            ),
        ] {
            let error = import(&arrays, Missing::Refuse).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let found = import(&[coords, values, target_coords, targets], Missing::Skip).unwrap();
        assert_eq!(found.skipped_readings, 1);
    }
}
