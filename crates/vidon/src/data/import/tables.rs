//! Long tables: a table of readings, and one of targets.

use std::path::Path;

use crate::data::import::table::read_table;
use crate::data::import::{Collector, Details, Imported};
use crate::data::meta::{Channel, Meta};
use crate::error::{Error, Result};

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

impl Columns {
    /// Turns a table of readings and a table of targets (none: the same one) into a dataset.
    pub fn import(
        &self,
        readings: &Path,
        targets: Option<&Path>,
        details: &Details,
        out: &Path,
    ) -> Result<Imported> {
        let channels = |names: &[String]| -> Vec<Channel> {
            let unit = |name: &String| details.units.get(name).cloned().unwrap_or_default();
            names
                .iter()
                .map(|n| Channel {
                    unit: unit(n),
                    ..Channel::named(n.as_str())
                })
                .collect()
        };
        let meta = Meta::new(
            &readings.file_stem().unwrap_or_default().to_string_lossy(),
            channels(&self.coords),
            channels(&self.values),
            channels(&self.target_coords),
            channels(&self.target_values),
        );
        let sources = [readings, targets.unwrap_or(readings)];
        let mut collector = Collector::new(sources, out, meta, details)?;
        let sides = [
            (&self.coords, &self.values),
            (&self.target_coords, &self.target_values),
        ];
        // One table for both sides is read once: it may be a pipe.
        let wanted = |sides: &[(&Vec<String>, &Vec<String>)]| -> Vec<String> {
            let mut names: Vec<String> = Vec::new();
            for name in sides
                .iter()
                .flat_map(|(coords, values)| coords.iter().chain(*values))
            {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            names
        };
        let mut tables = Vec::new();
        for (path, names) in match targets {
            None => vec![(readings, wanted(&sides))],
            Some(targets) => vec![
                (readings, wanted(&sides[..1])),
                (targets, wanted(&sides[1..])),
            ],
        } {
            let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
            tables.push((read_table(path, Some(&self.sample), &borrowed)?, names));
        }
        for (pair, (coords, values)) in sides.into_iter().enumerate() {
            let (table, names) = &tables[pair.min(tables.len() - 1)];
            let place = |name: &String| names.iter().position(|n| n == name).expect("it was read");
            let at: Vec<usize> = coords.iter().chain(values).map(place).collect();
            for i in 0..table.len() {
                let sample = collector.sample(&table.ids[i]);
                let cell = |&column: &usize| table.numbers[column][i];
                let (coord_cells, value_cells) = at.split_at(coords.len());
                collector
                    .add(
                        sample,
                        pair,
                        coord_cells.iter().map(cell),
                        value_cells.iter().map(cell),
                    )
                    .map_err(|gap| {
                        let what =
                            "is missing; fill it, or leave such lines out with --missing skip";
                        Error::data(sources[pair], what)
                            .at(table.place(i))
                            .in_column(&names[at[gap]])
                    })?;
            }
        }
        collector.finish(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Missing;
    use crate::data::{DatasetReader, Sample};
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::path::PathBuf;
    use std::sync::Arc;
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
        let found = {
            let details = Details {
                missing,
                ..Details::default()
            };
            columns.import(&path, None, &details, &out)?
        };
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
        let details = Details {
            units: [("t".into(), "s".into())].into(),
            ranges: [("x".into(), [0.0, 8.0])].into(),
            ..Details::default()
        };
        columns
            .import(&readings, Some(&targets), &details, &out)
            .unwrap();
        let reader = DatasetReader::open(&out).unwrap();
        let Meta {
            sensor_coords,
            query_coords,
            ..
        } = reader.meta();
        assert_eq!(query_coords[1].label(), "t [s]");
        let ranges = [&sensor_coords[0], &query_coords[0], &query_coords[1]].map(|c| c.range);
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
            let refused = columns.import(&readings, Some(&targets), &details, &out);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(reader.sample(0).unwrap().query_coords.data(), [4.0, 0.2]);
        assert_eq!(reader.sample(1).unwrap().targets.data(), [1.0]);
        std::fs::write(&targets, "run,t,x,u\n2,0.1,3,1\n").unwrap();
        let lacking = columns.import(&readings, Some(&targets), &details, &out);
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
            let error = import(&text, &columns(), Missing::Refuse)
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        let (folder, path) = folder_with("t.csv", b"run,x,y,p,u,v\n\xff\xfe,1,1,1,1,1\n");
        let out = folder.path().join("o.parquet");
        let error = columns().import(&path, None, &Details::default(), &out);
        assert!(error.unwrap_err().to_string().contains("UTF-8"));
        assert!(!out.exists());
    }

    #[test]
    fn coordinates_that_float32_cannot_tell_apart_are_refused() {
        let epoch = "run,x,y,p,u,v\nA,1700000000,0,101325.1,0,0\nA,1700000010,1,101325.2,1,1\n";
        let error = import(epoch, &columns(), Missing::Refuse)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("column x: lies between 1700000000.0 and 1700000010.0"),
            "{error}"
        );
        let tiny = epoch
            .replace("1700000000", "1e-50")
            .replace("1700000010", "2e-50");
        assert!(
            import(&tiny, &columns(), Missing::Refuse)
                .unwrap_err()
                .to_string()
                .contains("column x")
        );
        let values = epoch.replace("17000000", "");
        let (found, _) = import(&values, &columns(), Missing::Refuse).unwrap();
        assert!(
            found.notes[0].contains("p lies between 101325.1"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn samples_keep_their_names() {
        let text = TABLE.replace("B,", "#7,");
        let (_, samples) = import(&text, &columns(), Missing::Refuse).unwrap();
        let names: Vec<_> = samples.iter().map(|s| s.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["#7", "A"]);
    }

    #[test]
    fn the_input_is_never_written_over() {
        let (_folder, path) = folder_with("t.csv", TABLE);
        let refused = columns().import(&path, None, &Details::default(), &path);
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
        columns()
            .import(&path, None, &Details::default(), &out)
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
            (
                number(&[1.0, 4.0, 1e300]),
                "row 2, column p: 1e300 is not a finite float32",
            ),
        ] {
            let (_folder, path) = table(p, run());
            let refused = columns().import(&path, None, &Details::default(), &out);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
