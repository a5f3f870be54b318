//! Padded NumPy arrays of an `.npz`.

use std::path::Path;

use crate::data::import::npz::{Archive, NumpyArray};
use crate::data::import::{Collector, Details, Imported};
use crate::data::meta::{Channel, Meta};
use crate::error::{Error, Result};

/// The arrays of a `.npz`, n samples padded to a common length.
#[derive(Clone, Debug)]
pub struct ArrayNames {
    /// (n, m, d); (1, m, d) or, for n ≠ m, (m, d) where all samples share it.
    pub coords: String,
    /// (n, m, d_v) or (n, m).
    pub values: String,
    /// (n): how many of the m sensors are real. Not named: `counts` if there is one, else all.
    pub counts: Option<String>,
    /// (n, q, d_y), or shared like `coords`.
    pub target_coords: String,
    /// (n, q, d_u) or (n, q).
    pub target_values: String,
    /// (n): how many of the q targets are real. Not named: `target_counts` if there is one, else all.
    pub target_counts: Option<String>,
}

impl Default for ArrayNames {
    fn default() -> Self {
        Self {
            coords: "coords".into(),
            values: "values".into(),
            counts: None,
            target_coords: "target_coords".into(),
            target_values: "target_values".into(),
            target_counts: None,
        }
    }
}

impl ArrayNames {
    /// Turns padded NumPy arrays into a dataset. Samples are named by their index.
    pub fn import(&self, path: &Path, details: &Details, out: &Path) -> Result<Imported> {
        let mut archive = Archive::open(path)?;
        let there = archive.names();
        let mut notes = Vec::new();
        let mut counts = |given: &Option<String>, usual: &str| {
            let name = given
                .clone()
                .or_else(|| there.iter().find(|n| *n == usual).cloned());
            if name.is_none() {
                notes.push(format!(
                    "no array {usual}: all entries of every sample are taken as real"
                ));
            }
            name
        };
        let sensor_counts = counts(&self.counts, "counts");
        let target_counts = counts(&self.target_counts, "target_counts");
        let sensors = Padded::read(
            path,
            &mut archive,
            None,
            [&self.coords, &self.values],
            sensor_counts,
        )?;
        let n = sensors.counts.len();
        let target_names = [&self.target_coords, &self.target_values];
        let targets = Padded::read(path, &mut archive, Some(n), target_names, target_counts)?;
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
            numbered(&self.values, sensors.widths[1]),
            numbered("y", targets.widths[0]),
            numbered(&self.target_values, targets.widths[1]),
        );
        for (side, array) in [
            (&meta.channels()[..2], &self.values),
            (&meta.channels()[2..], &self.target_values),
        ] {
            let mut all: Vec<&str> = side
                .iter()
                .flat_map(|c| c.iter().map(|c| &c.name[..]))
                .collect();
            all.sort_unstable();
            if all.windows(2).any(|w| w[0] == w[1]) {
                let what = "would be called as a coordinate; the coordinates of sensors are x, x0, x1 …, of targets y, y0, y1 …: give the array another name";
                return Err(Error::data(path, what).in_column(array));
            }
        }
        let mut collector = Collector::new([path, path], out, meta, details)?;
        for (pair, padded) in [&sensors, &targets].into_iter().enumerate() {
            for i in 0..n {
                let sample = collector.sample(&i.to_string());
                for k in 0..padded.counts[i] {
                    let [coords, values] = padded.entry(i, k);
                    let place = |error: Error, component: usize| {
                        let array = &padded.names[usize::from(component >= coords.len())];
                        error.at(format!("sample {i}, entry {k}")).in_column(array)
                    };
                    let mut numbers = coords.iter().chain(values);
                    let too_large = |v: &f64| !v.is_nan() && v.abs() > f32::MAX as f64;
                    if let Some(component) = numbers.position(too_large) {
                        return Err(place(
                            Error::data(path, "is not a finite float32"),
                            component,
                        ));
                    }
                    collector
                        .add(sample, pair, coords.iter().copied(), values.iter().copied())
                        .map_err(|gap| {
                            let what = "is missing (NaN); fill it, or leave such entries out with --missing skip";
                            place(Error::data(path, what), gap)
                        })?;
                }
            }
        }
        collector.notes = notes;
        collector.finish(out)
    }
}

/// Coordinates and values of one side (sensors or targets), padded to `most` entries a sample.
struct Padded {
    names: [String; 2],
    arrays: [NumpyArray; 2],
    /// Whether all samples have the same coordinates.
    shared: bool,
    widths: [usize; 2],
    most: usize,
    counts: Vec<usize>,
}

impl Padded {
    /// `samples`: how many there must be, if that is known.
    fn read(
        path: &Path,
        archive: &mut Archive,
        samples: Option<usize>,
        names: [&String; 2],
        counts_name: Option<String>,
    ) -> Result<Self> {
        let (coords, values) = (archive.array(names[0])?, archive.array(names[1])?);
        let wrong = |name: &str, what: String| Err(Error::data(path, what).in_column(name));
        let (n, most, value_width) = match values.shape[..] {
            [n, most] if n * most > 0 => (n, most, 1),
            [n, most, width] if n * most * width > 0 => (n, most, width),
            _ => {
                let what = format!(
                    "has the shape {:?}; wanted: (samples, entries) or (samples, entries, components), none of them 0",
                    values.shape
                );
                return wrong(names[1], what);
            }
        };
        if samples.is_some_and(|s| s != n) {
            let what = format!(
                "has {n} samples where the sensor values have {}",
                samples.unwrap_or(0)
            );
            return wrong(names[1], what);
        }
        let (shared, coord_width) = match coords.shape[..] {
            [k, width] if k == most && width > 0 && n != most => (true, width),
            [1, k, width] if k == most && width > 0 => (true, width),
            [s, k, width] if s == n && k == most && width > 0 => (false, width),
            _ => {
                let what = format!(
                    "has the shape {:?}; wanted: ({n}, {most}, d), or (1, {most}, d) for all samples",
                    coords.shape
                );
                return wrong(names[0], what);
            }
        };
        let counts = match counts_name {
            None => vec![most; n],
            Some(name) => {
                let array = archive.array(&name)?;
                let whole = |&v: &f64| v.fract() == 0.0 && (0.0..=most as f64).contains(&v);
                if array.shape != [n] || !array.values.iter().all(whole) {
                    let what = format!("must hold {n} whole numbers between 0 and {most}");
                    return wrong(&name, what);
                }
                array.values.iter().map(|&v| v as usize).collect()
            }
        };
        Ok(Self {
            names: names.map(String::clone),
            arrays: [coords, values],
            shared,
            widths: [coord_width, value_width],
            most,
            counts,
        })
    }

    /// Coordinates and values of entry `k` of sample `i`.
    fn entry(&self, i: usize, k: usize) -> [&[f64]; 2] {
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
    use crate::data::Missing;
    use std::io::Write;
    use std::path::PathBuf;
    use tempfile::TempDir;

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
            ("target_coords", &[1, 2, 2], &[0.0, 0.1, 0.2, 0.3]),
            (
                "target_values",
                &[2, 2, 2],
                &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            ),
        ]);
        let out = folder.path().join("o.parquet");
        ArrayNames::default()
            .import(&path, &Details::default(), &out)
            .unwrap();
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
        let import = |arrays: &[_], details: &Details| {
            let (folder, path) = npz(arrays);
            ArrayNames::default().import(&path, details, &folder.path().join("o.parquet"))
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
            let error = import(&arrays, &Details::default())
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        let skip = Details {
            missing: Missing::Skip,
            ..Details::default()
        };
        let found = import(&[coords, values, target_coords, targets], &skip).unwrap();
        assert_eq!(found.skipped_readings, 1);
        assert!(found.notes[0].contains("no array counts"));
    }

    #[test]
    fn doubtful_shapes_and_names_are_refused() {
        let zeros = [0.0; 9];
        let square: [(&str, &[usize], &[f32]); 4] = [
            ("coords", &[3, 3], &zeros),
            ("values", &[3, 3], &zeros),
            ("target_coords", &[3, 1, 1], &zeros[..3]),
            ("target_values", &[3, 1], &zeros[..3]),
        ];
        let (folder, path) = npz(&square);
        let out = folder.path().join("o.parquet");
        let import = |names: &ArrayNames| names.import(&path, &Details::default(), &out);
        let error = import(&ArrayNames::default()).unwrap_err().to_string();
        assert!(
            error.contains("(3, 3, d), or (1, 3, d) for all samples"),
            "{error}"
        );
        let mut good = square;
        good[0].1 = &[3, 3, 1];
        let (_folder, path) = npz(&good);
        let counts = Some("n_sensors".to_string());
        let names = ArrayNames {
            counts,
            ..Default::default()
        };
        let error = names
            .import(&path, &Details::default(), &out)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("column n_sensors: there is no such array"),
            "{error}"
        );
        let mut twice = good;
        twice[1].0 = "x";
        let (_folder, path) = npz(&twice);
        let names = ArrayNames {
            values: "x".into(),
            ..Default::default()
        };
        let error = names
            .import(&path, &Details::default(), &out)
            .unwrap_err()
            .to_string();
        assert!(error.contains("would be called as a coordinate"), "{error}");
        let (_folder, path) = npz(&[("coords", &[1, 1], &[0.0]), ("values", &[1 << 50, 0], &[])]);
        let error = ArrayNames::default()
            .import(&path, &Details::default(), &out)
            .unwrap_err();
        assert!(error.to_string().contains("none of them 0"), "{error}");
    }
}
