//! Long tables: one for every group of sensors, and one of targets; several of them may be the same file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::data::dates::{Date, FORMS};
use crate::data::import::table::{Table, read_table};
use crate::data::import::{Collector, Details, Imported, Missing};
use crate::data::meta::{Channel, Group, Kind, Meta, fault_of_name};
use crate::error::{Error, Result};

/// A group of sensors in a long table.
#[derive(Clone, Debug)]
pub struct GroupColumns {
    pub name: String,
    pub kind: Kind,
    pub table: PathBuf,
    /// None of scalars.
    pub coords: Vec<String>,
    pub covariates: Vec<String>,
    /// None of points that are samples of a density.
    pub values: Vec<String>,
}

/// The columns of long tables.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Which sample a line belongs to, in every table.
    pub sample: String,
    pub groups: Vec<GroupColumns>,
    pub target_table: PathBuf,
    pub target_coords: Vec<String>,
    pub target_covariates: Vec<String>,
    pub target_values: Vec<String>,
}

/// The columns of one side: a group, or the targets.
struct SideColumns<'a> {
    table: &'a Path,
    kind: Option<Kind>,
    places: Vec<&'a str>,
    values: Vec<&'a str>,
}

impl Columns {
    /// Turns the tables into a dataset.
    pub fn import(&self, details: &Details, out: &Path) -> Result<Imported> {
        let meta = self.meta();
        let sides = self.sides();
        let sources: Vec<&Path> = sides.iter().map(|side| side.table).collect();
        let mut collector = Collector::new(&sources, out, meta, details)?;
        let tables = self.read(&sides)?;
        for (i, side) in sides.iter().enumerate() {
            let same = |(path, _, _): &&(&Path, Vec<&str>, Table)| *path == side.table;
            let (_, names, table) = tables.iter().find(same).expect("it was read");
            let place = |name: &&str| names.iter().position(|n| n == name).expect("it was read");
            let at: Vec<usize> = side.places.iter().chain(&side.values).map(place).collect();
            let (places, values) = at.split_at(side.places.len());
            // The line in which a sample's parameters were found.
            let mut known: Vec<Option<usize>> = Vec::new();
            for line in 0..table.len() {
                if let Some(fault) = fault_of_name(&table.ids[line]) {
                    let error = Error::data(side.table, format!("the sample's name {fault}"));
                    return Err(error.at(table.place(line)).in_column(&self.sample));
                }
                let sample = collector.sample(&table.ids[line]);
                let cell = |&column: &usize| table.numbers[column][line];
                if side.kind == Some(Kind::Scalars) {
                    known.resize(known.len().max(sample + 1), None);
                    if let Some(before) = known[sample].replace(line) {
                        same_parameters(side, table, names, values, [before, line])?;
                        continue;
                    }
                }
                let (coords, readings) = (places.iter().map(cell), values.iter().map(cell));
                let added = collector.add(sample, i, coords, readings, || table.place(line));
                added.map_err(|gap| {
                    let remedy = match (gap < places.len(), details.missing) {
                        (false, Missing::Refuse) if values.len() > 1 => {
                            "leave such lines out with --missing skip, or keep what their other columns have with --missing keep"
                        }
                        _ => "leave such lines out with --missing skip",
                    };
                    let error = Error::data(side.table, format!("is missing; fill it, or {remedy}"));
                    error.at(table.place(line)).in_column(names[at[gap]])
                })?;
            }
        }
        let said = self.dates(details, &collector)?;
        collector.find_dates(&details.times, &said, &self.sample)?;
        collector.finish()
    }

    /// What a column of the targets' table says of the dates of samples.
    fn dates(&self, details: &Details, collector: &Collector) -> Result<HashMap<usize, Date>> {
        let mut dates = HashMap::new();
        let Some(column) = &details.times.column else {
            return Ok(dates);
        };
        let read = |id: &str| read_table(&self.target_table, Some(id), &[]);
        let (samples, texts) = (read(&self.sample)?, read(column)?);
        for (line, (name, text)) in samples.ids.iter().zip(&texts.ids).enumerate() {
            let refuse = |what: String| {
                let error = Error::data(&self.target_table, what);
                Err(error.at(texts.place(line)).in_column(column))
            };
            let Some(date) = Date::parse(text) else {
                return refuse(format!("\"{text}\" is no date; {FORMS}"));
            };
            let before = dates.insert(collector.places[name], date);
            if before.is_some_and(|before| before != date) {
                return refuse(format!(
                    "the sample \"{name}\" has {text} here and another date above: a sample has one"
                ));
            }
        }
        Ok(dates)
    }

    fn meta(&self) -> Meta {
        let channels = |names: &[String], covariates: &[String]| -> Vec<Channel> {
            let channel = |name: &String, covariate: bool| Channel {
                covariate,
                ..Channel::named(name.as_str())
            };
            let places = names.iter().map(|n| channel(n, false));
            places
                .chain(covariates.iter().map(|n| channel(n, true)))
                .collect()
        };
        let group = |g: &GroupColumns| Group {
            name: g.name.clone(),
            kind: g.kind,
            coords: channels(&g.coords, &g.covariates),
            values: channels(&g.values, &[]),
            gaps: false,
        };
        let first = self.groups.first().map_or(&self.target_table, |g| &g.table);
        Meta::of_groups(
            &first.file_stem().unwrap_or_default().to_string_lossy(),
            self.groups.iter().map(group).collect(),
            channels(&self.target_coords, &self.target_covariates),
            channels(&self.target_values, &[]),
        )
    }

    fn sides(&self) -> Vec<SideColumns<'_>> {
        fn borrowed<'a>(parts: &[&'a Vec<String>]) -> Vec<&'a str> {
            let names = parts.iter().flat_map(|part| part.iter());
            names.map(String::as_str).collect()
        }
        let groups = self.groups.iter().map(|g| SideColumns {
            table: &g.table,
            kind: Some(g.kind),
            places: borrowed(&[&g.coords, &g.covariates]),
            values: borrowed(&[&g.values]),
        });
        let targets = SideColumns {
            table: &self.target_table,
            kind: None,
            places: borrowed(&[&self.target_coords, &self.target_covariates]),
            values: borrowed(&[&self.target_values]),
        };
        groups.chain([targets]).collect()
    }

    /// Every table once: its path, the columns that are wanted of it, and what it holds.
    fn read<'a>(&self, sides: &[SideColumns<'a>]) -> Result<Vec<(&'a Path, Vec<&'a str>, Table)>> {
        let mut wanted: Vec<(&Path, Vec<&str>)> = Vec::new();
        for side in sides {
            if !wanted.iter().any(|(path, _)| *path == side.table) {
                wanted.push((side.table, Vec::new()));
            }
            let own = wanted.iter_mut().find(|(path, _)| *path == side.table);
            let (_, names) = own.expect("it is there now");
            for name in side.places.iter().chain(&side.values) {
                if !names.contains(name) {
                    names.push(name);
                }
            }
        }
        let read = |(path, names): (&'a Path, Vec<&'a str>)| {
            let table = read_table(path, Some(&self.sample), &names)?;
            Ok((path, names, table))
        };
        wanted.into_iter().map(read).collect()
    }
}

/// Parameters may stand in every line of a sample, but only one value of each.
fn same_parameters(
    side: &SideColumns,
    table: &Table,
    names: &[&str],
    values: &[usize],
    [before, line]: [usize; 2],
) -> Result<()> {
    for &column in values {
        let [a, b] = [before, line].map(|l| table.numbers[column][l]);
        if a != b && !(a.is_nan() && b.is_nan()) {
            let what = format!(
                "sample \"{}\" has {b} here and {a} in {}: a parameter is one number a sample",
                table.ids[line],
                table.place(before)
            );
            let error = Error::data(side.table, what).at(table.place(line));
            return Err(error.in_column(names[column]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Missing;
    use crate::data::{DatasetReader, Rows, Sample, Sensors};
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;
    use tempfile::TempDir;

    fn names(list: &str) -> Vec<String> {
        let list = list.split(',').filter(|name| !name.is_empty());
        list.map(str::to_string).collect()
    }

    /// Of a table with readings and targets.
    fn columns(table: &Path) -> Columns {
        Columns {
            sample: "run".into(),
            groups: vec![group(Group::USUAL, Kind::Field, table, "x,y", "p")],
            target_table: table.into(),
            target_coords: names("x,y"),
            target_covariates: vec![],
            target_values: names("u,v"),
        }
    }

    fn group(name: &str, kind: Kind, table: &Path, coords: &str, values: &str) -> GroupColumns {
        GroupColumns {
            name: name.into(),
            kind,
            table: table.into(),
            coords: names(coords),
            covariates: vec![],
            values: names(values),
        }
    }

    fn folder_with(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn import(text: &str, missing: Missing) -> Result<(Imported, Vec<Sample>)> {
        let (folder, path) = folder_with("t.csv", text);
        let out = folder.path().join("o.parquet");
        let found = {
            let details = Details {
                missing,
                ..Details::default()
            };
            columns(&path).import(&details, &out)?
        };
        let samples = DatasetReader::open(&out)?
            .samples()?
            .collect::<Result<_>>()?;
        Ok((found, samples))
    }

    const TABLE: &str = "run,x,y,p,u,v\nB,0,0,1,2,3\nA,1,1,4,5,6\nB,0.5,1,7,8,9\n";

    #[test]
    fn readings_are_gathered_by_sample_in_order_of_appearance() {
        let (found, samples) = import(TABLE, Missing::Refuse).unwrap();
        assert_eq!(found.summary.samples, 2);
        assert_eq!(samples[0].groups[0].coords.data(), [0.0, 0.0, 0.5, 1.0]);
        assert_eq!(samples[0].targets.data(), [2.0, 3.0, 8.0, 9.0]);
        assert_eq!(samples[1].groups[0].values.data(), [4.0]);
        let semicolons = TABLE.replace(',', ";");
        let tabs = TABLE.replace(',', "\t").replace('\n', "\r\n");
        let quoted = format!("# a remark\n\u{feff}{}", TABLE.replace("B,", "\"B\","));
        for text in [semicolons, tabs] {
            assert_eq!(import(&text, Missing::Refuse).unwrap().1, samples);
        }
        assert_eq!(import(&quoted, Missing::Refuse).unwrap().1, samples);
    }

    #[test]
    fn missing_numbers_are_refused_or_skipped_as_told() {
        let gaps = TABLE.replace(
            "B,0.5,1,7,8,9",
            "B,0.5,1,,8,9\nB,0.7,1,3,NA,9\nC,1,2,3,nan,1",
        );
        let error = import(&gaps, Missing::Refuse).unwrap_err().to_string();
        assert!(error.contains("line 4, column p: is missing"), "{error}");
        let (found, samples) = import(&gaps, Missing::Skip).unwrap();
        assert_eq!((found.skipped_readings, found.skipped_targets), (1, 2));
        assert_eq!(found.skipped_samples, ["C"]);
        assert_eq!(
            (samples[0].groups[0].coords.len(), samples[0].targets.len()),
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
            groups: vec![group(Group::USUAL, Kind::Field, &readings, "x", "p")],
            target_table: targets.clone(),
            target_coords: names("x,t"),
            target_values: names("u"),
            ..columns(&readings)
        };
        let details = Details {
            units: [("t".into(), "s".into())].into(),
            ranges: [("x".into(), [0.0, 8.0])].into(),
            ..Details::default()
        };
        columns.import(&details, &out).unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        let Meta {
            groups,
            query_coords,
            ..
        } = reader.meta();
        assert_eq!(query_coords[1].label(), "t [s]");
        let ranges = [&groups[0].coords[0], &query_coords[0], &query_coords[1]].map(|c| c.range);
        assert_eq!(ranges, [Some([0.0, 8.0]), Some([0.0, 8.0]), None]);
        for (name, words) in [
            (
                "x",
                "lies between 3.0 and 4.0, which is not within its range 0.0:3.5",
            ),
            (
                "z",
                "a range for z: there is no such coordinate; there are x, x, t",
            ),
        ] {
            let details = Details {
                ranges: [(name.into(), [0.0, 3.5])].into(),
                ..Details::default()
            };
            let refused = columns.import(&details, &out);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(reader.sample(0).unwrap().query_coords.data(), [4.0, 0.2]);
        assert_eq!(reader.sample(1).unwrap().targets.data(), [1.0]);
        std::fs::write(&targets, "run,t,x,u\n2,0.1,3,1\n").unwrap();
        let lacking = columns.import(&details, &out);
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
                "line 3, column u: \"inf\" is not a finite float32",
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
            (
                TABLE.replace("A,1", &format!("{},1", "A".repeat(300))),
                "line 3, column run: the sample's name has 300 bytes",
            ),
            ("run,x,y,p,u,v\n".to_string(), "no lines below it"),
            (String::new(), "is empty"),
            (
                TABLE.replace("A,1,1", "\"A,1,1"),
                "line 3: a quote is not closed",
            ),
            (
                TABLE.replace("7,8,9", "7,8,\"9"),
                "line 4: a quote is not closed",
            ),
            (
                TABLE.replace("4,5,6", "4,5,6\rC,1,1,1,1,1"),
                "line 3: has a carriage return within the line",
            ),
            // One quote within a cell and one that is never closed.
            (
                "run,x,y,p,u,v,n\nA,0,0,1,2,3,5\" a\nA,1,1,1,2,3,\"old\nB,0,0,1,2,3,4\n"
                    .to_string(),
                "line 3: a quote is not closed",
            ),
            // Line numbers hold whatever the line ends and empty lines are.
            (
                TABLE.replace('\n', "\r\n").replace("4,5,6", "4,?,6"),
                "line 3, column u: \"?\" is not a number",
            ),
            (
                format!("# remark\n\n{}", TABLE.replace("A,1", "\n\nA,?")),
                "line 7, column x",
            ),
        ] {
            let error = import(&text, Missing::Refuse).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let (folder, path) = folder_with("t.csv", b"run,x,y,p,u,v\n\xff\xfe,1,1,1,1,1\n");
        let out = folder.path().join("o.parquet");
        let error = columns(&path).import(&Details::default(), &out);
        assert!(error.unwrap_err().to_string().contains("UTF-8"));
        assert!(!out.exists());
    }

    #[test]
    fn coordinates_that_float32_cannot_tell_apart_are_refused() {
        let epoch = "run,x,y,p,u,v\nA,1700000000,0,101325.1,0,0\nA,1700000010,1,101325.2,1,1\n";
        let error = import(epoch, Missing::Refuse).unwrap_err().to_string();
        assert!(
            error.contains("column x: lies between 1700000000.0 and 1700000010.0"),
            "{error}"
        );
        let tiny = epoch
            .replace("1700000000", "1e-50")
            .replace("1700000010", "2e-50");
        assert!(
            import(&tiny, Missing::Refuse)
                .unwrap_err()
                .to_string()
                .contains("column x")
        );
        // A number that float32 makes 0 of is told, with its place.
        let tiny = TABLE.replace("4,5,6", "4,1e-50,6");
        let (found, _) = import(&tiny, Missing::Refuse).unwrap();
        let told = "u: 1 number is smaller than float32 holds (1.2e-38), so that 0 or fewer digits are left, the first at line 3 (1e-50); choose another unit";
        assert_eq!(found.notes, [told]);
        let values = epoch.replace("17000000", "");
        let (found, _) = import(&values, Missing::Refuse).unwrap();
        assert!(
            found.notes[0].contains("p lies between 101325.1"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn samples_keep_their_names() {
        let text = TABLE.replace("B,", "#7,");
        let (_, samples) = import(&text, Missing::Refuse).unwrap();
        let names: Vec<_> = samples.iter().map(|s| s.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["#7", "A"]);
    }

    #[test]
    fn the_input_is_never_written_over() {
        let (_folder, path) = folder_with("t.csv", TABLE);
        let refused = columns(&path).import(&Details::default(), &path);
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("read and written at once")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TABLE);
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
        columns(&path).import(&Details::default(), &out).unwrap();
        let samples: Vec<Sample> = DatasetReader::open(&out)
            .unwrap()
            .samples()
            .unwrap()
            .collect::<Result<_>>()
            .unwrap();
        assert_eq!(samples, import(TABLE, Missing::Refuse).unwrap().1);

        let gap: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(7.0)]));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["1", "four", "7"]));
        for (p, message) in [
            (gap, "row 1, column p: is missing"),
            (words, "row 1, column p: is not a number"),
            (
                number(&[1.0, 4.0, 1e300]),
                "row 2, column p: 1e300 is not a finite float32",
            ),
        ] {
            let (_folder, path) = table(p, run());
            let refused = columns(&path).import(&Details::default(), &out);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    const AIR: &str = "run,x,h,T,q\nA,0,9,1,2\nA,1,8,,3\nB,0.5,7,4,NA\nB,0.7,7,,\n";

    /// Two instruments, sources, parameters and targets in tables of their own.
    fn campaign(folder: &Path) -> Columns {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let air = write("air.csv", AIR);
        let masts = write("masts.csv", "run,x,w\nB,0.2,7\nA,0.1,5\nA,0.9,6\n");
        let sources = write("sources.csv", "run,x,s\nB,0.3,-1\n");
        let runs = write("runs.csv", "run,hours\nA,1\nB,2\nB,2\n");
        let targets = write("targets.csv", "run,x,h,u\nA,0.5,3,1\nB,0.6,4,2\n");
        let mut field = group("air", Kind::Field, &air, "x", "T,q");
        field.covariates = names("h");
        Columns {
            sample: "run".into(),
            groups: vec![
                field,
                group("masts", Kind::Field, &masts, "x", "w"),
                group("sources", Kind::Points, &sources, "x", "s"),
                group("run", Kind::Scalars, &runs, "", "hours"),
            ],
            target_table: targets,
            target_coords: names("x"),
            target_covariates: names("h"),
            target_values: names("u"),
        }
    }

    fn kept() -> Details {
        Details {
            missing: Missing::Keep,
            ..Details::default()
        }
    }

    #[test]
    fn several_tables_make_groups() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("o.parquet");
        let columns = campaign(folder.path());
        let found = columns.import(&kept(), &out).unwrap();
        // The last line of the air reports nothing at all.
        assert_eq!((found.skipped_readings, found.summary.missing()), (1, 2));
        let reader = DatasetReader::open(&out).unwrap();
        let gaps: Vec<bool> = reader.meta().groups.iter().map(|g| g.gaps).collect();
        assert_eq!(gaps, [true, false, false, false]);
        assert!(reader.meta().groups[0].coords[1].covariate);
        let [a, b] = [0, 1].map(|i| reader.sample(i).unwrap());
        assert_eq!(a.groups[0].coords.data(), [0.0, 9.0, 1.0, 8.0]);
        assert_eq!(
            a.groups[0].values,
            Rows::of(2, vec![1.0, 2.0, f32::NAN, 3.0])
        );
        assert_eq!(b.groups[0].values, Rows::of(2, vec![4.0, f32::NAN]));
        assert_eq!((a.groups[1].len(), b.groups[1].len()), (2, 1));
        // No source is an answer too.
        assert_eq!((a.groups[2].len(), b.groups[2].len()), (0, 1));
        assert_eq!(b.groups[3], Sensors::scalars(&[2.0]));
        assert_eq!(b.query_coords.data(), [0.6, 4.0]);
    }

    #[test]
    fn faults_of_groups_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("o.parquet");
        let refused = |change: &dyn Fn(&mut Columns), details: &Details, words: &str| {
            let mut columns = campaign(folder.path());
            change(&mut columns);
            let error = columns.import(details, &out).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(!out.exists());
        };
        let rewrite = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        refused(
            &|_| (),
            &Details::default(),
            "air.csv, line 3, column T: is missing; fill it, or leave such lines out with --missing skip, or keep",
        );
        refused(
            &|_| rewrite("runs.csv", "run,hours\nA,1\nB,2\nB,3\n"),
            &kept(),
            "runs.csv, line 4, column hours: sample \"B\" has 3 here and 2 in line 3",
        );
        refused(
            &|_| rewrite("air.csv", &AIR.replace("0,9", "0,")),
            &Details::default(),
            "air.csv, line 2, column h: is missing",
        );
        refused(
            &|c| c.groups[1].name = "air".into(),
            &kept(),
            "two groups air",
        );
        refused(
            &|c| c.groups[1].name = "a b".into(),
            &kept(),
            "a group \"a b\"",
        );
        refused(
            &|c| c.groups[3].coords = names("hours"),
            &kept(),
            "gives the scalars run places",
        );
        refused(
            &|c| c.groups[1].coords.clear(),
            &kept(),
            "describes no channel of masts_coords",
        );
        refused(
            &|c| c.groups[1].values.clear(),
            &kept(),
            "describes no channel of masts_values",
        );
        refused(
            &|c| c.groups[2].table = folder.path().join("none.csv"),
            &kept(),
            "none.csv",
        );
        refused(
            &|_| {
                rewrite("air.csv", &AIR.replace("B,", "A,"));
                rewrite("masts.csv", "run,x,w\nA,0,1\n");
            },
            &Details {
                missing: Missing::Keep,
                ranges: [("x".into(), [0.0, 0.5])].into(),
                ..Details::default()
            },
            "not within its range",
        );
    }

    #[test]
    fn samples_without_a_group_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("o.parquet");
        let columns = campaign(folder.path());
        std::fs::write(folder.path().join("air.csv"), "run,x,h,T,q\nA,0,9,1,2\n").unwrap();
        let refused = columns.import(&Details::default(), &out);
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("sample \"B\" has targets but nothing of air"),
            "{words}"
        );
        let found = columns.import(&kept(), &out).unwrap();
        assert_eq!(found.skipped_samples, ["B"]);
    }
}
