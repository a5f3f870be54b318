//! Padded NumPy arrays of an `.npz`.

use std::path::Path;

use crate::data::import::npz::{Archive, NumpyArray};
use crate::data::import::{Collector, Details, Imported};
use crate::data::meta::{Channel, Group, Kind, Meta, coordinates};
use crate::error::{Error, Result};

/// An array, and what its columns are called.
#[derive(Clone, Debug, Default)]
pub struct NamedArray {
    pub array: String,
    /// Not named: numbered.
    pub columns: Vec<String>,
}

impl NamedArray {
    pub fn of(array: impl Into<String>) -> Self {
        Self {
            array: array.into(),
            columns: Vec::new(),
        }
    }
}

/// The arrays of one group of sensors, or of the targets.
#[derive(Clone, Debug)]
pub struct GroupArrays {
    /// (n, m, d); (1, m, d) or, for n ≠ m, (m, d) where all samples share it. Scalars have none.
    pub coords: NamedArray,
    /// Which columns of `coords` are covariates; they must be named, and the last.
    pub covariates: Vec<String>,
    /// (n, m, d_v) or (n, m); of scalars (n, d_v) or (n). Points of which there is no such array are samples
    /// of a density.
    pub values: NamedArray,
    /// (n): how many of the m sensors are real. Not named: `counts` behind the group's name if there is one,
    /// else all.
    pub counts: Option<String>,
}

/// The arrays of a `.npz`, n samples padded to a common length.
#[derive(Clone, Debug)]
pub struct ArrayNames {
    /// With name and kind.
    pub groups: Vec<(String, Kind, GroupArrays)>,
    pub targets: GroupArrays,
}

impl GroupArrays {
    /// Arrays called `coords`, `values` and `counts` behind this, such as `target_`.
    pub fn called(before: &str) -> Self {
        let named = |part: &str| NamedArray::of(format!("{before}{part}"));
        Self {
            coords: named("coords"),
            covariates: Vec::new(),
            values: named("values"),
            counts: None,
        }
    }

    /// The name of the array of counts: the one that was given, or the usual one where it is there.
    fn find_counts(&self, before: &str, there: &[String]) -> std::result::Result<String, String> {
        let usual = format!("{before}counts");
        match &self.counts {
            Some(given) => Ok(given.clone()),
            None if there.contains(&usual) => Ok(usual),
            None => Err(usual),
        }
    }
}

impl Default for ArrayNames {
    /// One group of sensors, and the targets.
    fn default() -> Self {
        Self {
            groups: vec![(Group::USUAL.into(), Kind::Field, GroupArrays::called(""))],
            targets: GroupArrays::called("target_"),
        }
    }
}

impl ArrayNames {
    /// What stands before the usual names of a group's arrays.
    pub fn before(group: &str) -> String {
        match group {
            Group::USUAL => String::new(),
            name => format!("{name}_"),
        }
    }

    /// The names of the arrays that an archive has.
    pub fn there(path: &Path) -> Result<Vec<String>> {
        Ok(Archive::open(path)?.names())
    }

    /// Turns padded NumPy arrays into a dataset. Samples are named by their index.
    pub fn import(&self, path: &Path, details: &Details, out: &Path) -> Result<Imported> {
        let mut archive = Archive::open(path)?;
        let there = archive.names();
        let mut notes = Vec::new();
        let mut counts = |own: &GroupArrays, before: &str| {
            let found = own.find_counts(before, &there);
            found
                .map_err(|usual| {
                    notes.push(format!(
                        "no array {usual}: all entries of every sample are taken as real; where fewer are, such an array says how many"
                    ));
                })
                .ok()
        };
        let (mut sides, mut groups): (Vec<Padded>, Vec<Group>) = (Vec::new(), Vec::new());
        for (name, kind, own) in &self.groups {
            let samples = sides.first().map(|side| side.counts.len());
            let density = *kind == Kind::Points && !there.contains(&own.values.array);
            let padded = match kind {
                Kind::Scalars => Padded::scalars(path, &mut archive, samples, own)?,
                _ => {
                    let counts = counts(own, &Self::before(name));
                    Padded::read(path, &mut archive, samples, own, density, counts)?
                }
            };
            let stem = match &name[..] {
                Group::USUAL => &own.values.array,
                name => name,
            };
            groups.push(Group {
                name: name.clone(),
                kind: *kind,
                coords: padded.channels(path, 0, own, "x")?,
                values: padded.channels(path, 1, own, stem)?,
                gaps: false,
            });
            sides.push(padded);
        }
        let n = sides.first().map_or(0, |side| side.counts.len());
        let own = &self.targets;
        let target_counts = counts(own, "target_");
        let targets = Padded::read(path, &mut archive, Some(n), own, false, target_counts)?;
        let meta = Meta::of_groups(
            &path.file_stem().unwrap_or_default().to_string_lossy(),
            groups,
            targets.channels(path, 0, own, "y")?,
            targets.channels(path, 1, own, &own.values.array)?,
        );
        notes.extend(self.other_names(&meta));
        sides.push(targets);
        let sources = vec![path; sides.len()];
        if details.times.wanted() {
            let what = "samples of an archive have no names and no dates; tables have";
            return Err(Error::data(path, what));
        }
        let mut collector = Collector::new(&sources, out, meta, details)?;
        for (side, padded) in sides.iter().enumerate() {
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
                    let (coords, values) = (coords.iter().copied(), values.iter().copied());
                    let at = || format!("sample {i}, entry {k}");
                    collector
                        .add(sample, side, coords, values, at)
                        .map_err(|gap| {
                            let what = "is missing (NaN); fill it, or leave such entries out with --missing skip, or keep what their other columns have with --missing keep";
                            place(Error::data(path, what), gap)
                        })?;
                }
            }
        }
        collector.notes = notes;
        collector.finish()
    }
}

impl ArrayNames {
    /// Coordinates of targets without names beside named ones of sensors: are they the same?
    fn other_names(&self, meta: &Meta) -> Option<String> {
        let (own, theirs) = (meta.space(), coordinates(&meta.query_coords));
        let named = |arrays: &GroupArrays| !arrays.coords.columns.is_empty();
        let first = self
            .groups
            .iter()
            .find(|(_, kind, _)| *kind != Kind::Scalars);
        let doubtful = first.is_some_and(|(_, _, own)| named(own)) && !named(&self.targets);
        let list = |channels: &[Channel]| {
            let names: Vec<&str> = channels.iter().map(|c| &c.name[..]).collect();
            names.join(", ")
        };
        (doubtful && own.len() == theirs.len()).then(|| {
            format!(
                "the coordinates of the targets are called {}, those of the sensors {}: if they are the same, name them so",
                list(theirs),
                list(own)
            )
        })
    }
}

/// Coordinates and values of one side (sensors or targets), padded to `most` entries a sample.
struct Padded {
    names: [String; 2],
    /// Where there is nothing, an array of width 0.
    arrays: [NumpyArray; 2],
    /// Whether all samples have the same coordinates.
    shared: bool,
    widths: [usize; 2],
    most: usize,
    counts: Vec<usize>,
}

/// No numbers.
fn nothing() -> NumpyArray {
    NumpyArray {
        shape: vec![0],
        values: Vec::new(),
    }
}

impl Padded {
    /// `samples`: how many there must be, if that is known; `density`: whether there are no values.
    fn read(
        path: &Path,
        archive: &mut Archive,
        samples: Option<usize>,
        own: &GroupArrays,
        density: bool,
        counts_name: Option<String>,
    ) -> Result<Self> {
        let names = [&own.coords.array, &own.values.array].map(String::clone);
        let coords = archive.array(&names[0])?;
        let wrong = |name: &str, what: String| Err(Error::data(path, what).in_column(name));
        let (values, [n, most, value_width]) = match density {
            true => match coords.shape[..] {
                [n, most, width] if n * most * width > 0 => (nothing(), [n, most, 0]),
                _ => {
                    let what = format!(
                        "has the shape {:?}; wanted, for points without values: (samples, entries, d), none of them 0",
                        coords.shape
                    );
                    return wrong(&names[0], what);
                }
            },
            false => {
                let values = archive.array(&names[1])?;
                let sizes = match values.shape[..] {
                    [n, most] if n * most > 0 => [n, most, 1],
                    [n, most, width] if n * most * width > 0 => [n, most, width],
                    _ => {
                        let what = format!(
                            "has the shape {:?}; wanted: (samples, entries) or (samples, entries, components), none of them 0",
                            values.shape
                        );
                        return wrong(&names[1], what);
                    }
                };
                (values, sizes)
            }
        };
        let counted = &names[usize::from(!density)];
        check_samples(path, counted, n, samples)?;
        let (shared, coord_width) = match coords.shape[..] {
            [k, width] if k == most && width > 0 && n != most => (true, width),
            [1, k, width] if k == most && width > 0 => (true, width),
            [s, k, width] if s == n && k == most && width > 0 => (false, width),
            _ => {
                let what = format!(
                    "has the shape {:?}; wanted: ({n}, {most}, d), or (1, {most}, d) for all samples",
                    coords.shape
                );
                return wrong(&names[0], what);
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
            names,
            arrays: [coords, values],
            shared,
            widths: [coord_width, value_width],
            most,
            counts,
        })
    }

    /// Parameters: one entry a sample, nowhere.
    fn scalars(
        path: &Path,
        archive: &mut Archive,
        samples: Option<usize>,
        own: &GroupArrays,
    ) -> Result<Self> {
        let name = &own.values.array;
        let values = archive.array(name)?;
        let (n, width) = match values.shape[..] {
            [n] if n > 0 => (n, 1),
            [n, width] if n * width > 0 => (n, width),
            _ => {
                let what = format!(
                    "has the shape {:?}; wanted, for scalars: (samples) or (samples, components), none of them 0",
                    values.shape
                );
                return Err(Error::data(path, what).in_column(name));
            }
        };
        check_samples(path, name, n, samples)?;
        Ok(Self {
            names: [String::new(), name.clone()],
            arrays: [nothing(), values],
            shared: true,
            widths: [0, width],
            most: 1,
            counts: vec![1; n],
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

    /// What the columns of coordinates (`side` 0) or values are called: as they were named, or numbered.
    fn channels(
        &self,
        path: &Path,
        side: usize,
        own: &GroupArrays,
        stem: &str,
    ) -> Result<Vec<Channel>> {
        let (width, named) = (self.widths[side], [&own.coords, &own.values][side]);
        let wrong = |what: String| Err(Error::data(path, what).in_column(&self.names[side]));
        let names: Vec<String> = match (&named.columns[..], width) {
            ([], 1) => vec![stem.to_string()],
            ([], _) => (0..width).map(|i| format!("{stem}{i}")).collect(),
            (given, _) if given.len() == width => given.to_vec(),
            (given, _) => {
                let what = format!("has {width} columns, but {} are named", given.len());
                return wrong(what);
            }
        };
        let coordinates = ["x", "y"].map(|stem| (0..3).map(move |i| format!("{stem}{i}")));
        let mut usual = ["x".to_string(), "y".to_string()]
            .into_iter()
            .chain(coordinates.into_iter().flatten());
        if side == 1 && named.columns.is_empty() && usual.any(|c| names.contains(&c)) {
            let what = "would be called as a coordinate; the coordinates of sensors are x, x0, x1 …, of targets y, y0, y1 …: give the array another name, or its columns";
            return wrong(what.into());
        }
        let covariates: &[String] = if side == 0 { &own.covariates } else { &[] };
        if let Some(unknown) = covariates.iter().find(|c| !names.contains(c)) {
            return wrong(format!(
                "has no column {unknown}; it has {}",
                names.join(", ")
            ));
        }
        let channel = |name: String| Channel {
            covariate: covariates.contains(&name),
            ..Channel::named(name)
        };
        Ok(names.into_iter().map(channel).collect())
    }
}

fn check_samples(path: &Path, name: &str, found: usize, wanted: Option<usize>) -> Result<()> {
    match wanted {
        Some(n) if n != found => {
            let what = format!("has {found} samples where the arrays before it have {n}");
            Err(Error::data(path, what).in_column(name))
        }
        _ => Ok(()),
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
        let first = reader.sample(0).unwrap();
        let widths: Vec<usize> = first.parts().iter().map(|p| p.width()).collect();
        assert_eq!(widths, [1, 1, 2, 2]);
        assert_eq!(first.groups[0].values.data(), [10.0, 11.0]);
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
                "column target_values: has 2 samples where the arrays before it have 1",
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
        let mut names = ArrayNames::default();
        names.groups[0].2.counts = Some("n_sensors".to_string());
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
        let mut names = ArrayNames::default();
        names.groups[0].2.values = NamedArray::of("x");
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

    /// Two groups, points without values, parameters; columns by name, and what is wrong with them.
    #[test]
    fn archives_have_groups_too() {
        let arrays: Vec<(&str, &[usize], &[f32])> = vec![
            ("air_coords", &[1, 2, 2], &[0.0, 8.0, 1.0, 9.0]),
            (
                "air_values",
                &[2, 2, 2],
                &[1.0, 2.0, f32::NAN, 4.0, 5.0, 6.0, 7.0, 8.0],
            ),
            ("drops_coords", &[2, 2, 1], &[0.1, 0.2, 0.3, 0.0]),
            ("drops_counts", &[2], &[2.0, 1.0]),
            ("run_values", &[2], &[0.5, 1.5]),
            ("target_coords", &[1, 1, 1], &[0.4]),
            ("target_values", &[2, 1], &[3.0, 4.0]),
        ];
        let group = |name: &str, kind: Kind| {
            let own = GroupArrays::called(&ArrayNames::before(name));
            (name.to_string(), kind, own)
        };
        let mut names = ArrayNames {
            groups: vec![
                group("air", Kind::Field),
                group("drops", Kind::Points),
                group("run", Kind::Scalars),
            ],
            ..ArrayNames::default()
        };
        names.groups[0].2.coords.columns = ["x", "height"].map(String::from).to_vec();
        names.groups[0].2.covariates = vec!["height".into()];
        names.targets.coords.columns = vec!["x".into()];
        let kept = Details {
            missing: Missing::Keep,
            ..Details::default()
        };
        let (folder, path) = npz(&arrays);
        let out = folder.path().join("o.parquet");
        names.import(&path, &kept, &out).unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        let [air, drops, run] = &reader.meta().groups[..] else {
            panic!("three groups")
        };
        assert!(air.gaps && air.coords[1].covariate && drops.values.is_empty());
        assert_eq!(
            (&air.values[1].name[..], &run.values[0].name[..]),
            ("air1", "run")
        );
        let sample = reader.sample(1).unwrap();
        assert_eq!(
            (sample.groups[1].len(), sample.groups[2].values.data()),
            (1, &[1.5][..])
        );
        let refused = |change: &dyn Fn(&mut ArrayNames), words: &str| {
            let mut names = names.clone();
            change(&mut names);
            let error = names.import(&path, &kept, &out).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(
            &|n| drop(n.groups[0].2.coords.columns.pop()),
            "column air_coords: has 2 columns, but 1 are named",
        );
        refused(
            &|n| n.groups[0].2.covariates = vec!["depth".into()],
            "has no column depth; it has x, height",
        );
        refused(
            &|n| n.groups[0].2.covariates = vec!["x".into()],
            "describes no channel of air_coords",
        );
        refused(
            &|n| n.groups[2].2.values.array = "drops_coords".into(),
            "wanted, for scalars: (samples) or (samples, components)",
        );
        refused(
            &|n| n.groups[1].2.coords.array = "air_coords".into(),
            "column air_coords: has 1 samples where the arrays before it have 2",
        );
        refused(
            &|n| n.groups[1].1 = Kind::Field,
            "column drops_values: there is no such array",
        );
    }

    /// Columns of the usual arrays have names and units, and what is not named is noted.
    #[test]
    fn columns_of_an_archive_have_units() {
        let arrays: Vec<(&str, &[usize], &[f32])> = vec![
            ("coords", &[2, 1, 2], &[0.0, 8.0, 1.0, 9.0]),
            ("values", &[2, 1], &[1.0, 2.0]),
            ("target_coords", &[2, 1, 2], &[0.0, 8.0, 1.0, 9.0]),
            ("target_values", &[2, 1], &[3.0, 4.0]),
        ];
        let (folder, path) = npz(&arrays);
        assert_eq!(ArrayNames::there(&path).unwrap().len(), 4);
        let out = folder.path().join("o.parquet");
        let mut names = ArrayNames::default();
        let named = |array: &mut NamedArray, columns: &[&str]| {
            array.columns = columns.iter().map(|c| c.to_string()).collect();
        };
        named(&mut names.groups[0].2.coords, &["x", "y"]);
        named(&mut names.groups[0].2.values, &["p"]);
        let mut details = Details {
            units: [
                ("p".to_string(), "bar".to_string()),
                ("x".into(), "m".into()),
            ]
            .into(),
            ..Details::default()
        };
        let found = names.import(&path, &details, &out).unwrap();
        let doubt = "the coordinates of the targets are called y0, y1, those of the sensors x, y: if they are the same";
        assert!(
            found.notes.iter().any(|n| n.starts_with(doubt)),
            "{:?}",
            found.notes
        );
        assert_eq!(found.meta.groups[0].values[0].label(), "p [bar]");
        assert_eq!(found.meta.query_coords[0].unit, "");
        named(&mut names.targets.coords, &["x", "y"]);
        let found = names.import(&path, &details, &out).unwrap();
        assert!(found.notes.iter().all(|n| !n.contains("are called")));
        assert_eq!(found.meta.query_coords[0].label(), "x [m]");
        details.units.insert("T".into(), "K".into());
        let words = names.import(&path, &details, &out).unwrap_err().to_string();
        let expected = "T is not a column of the import; there are x, y, p, target_values";
        assert!(words.contains(expected), "{words}");
    }
}
