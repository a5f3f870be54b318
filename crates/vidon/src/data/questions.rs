//! What is asked, as it stands in tables: sensors of one sample or of many, and places.

use std::collections::HashMap;
use std::path::Path;

use crate::data::cells::Cells;
use crate::data::import::Missing;
use crate::data::import::table::{Table, read_table, read_whole_table};
use crate::data::meta::{Channel, Group, Kind, fault_of_name};
use crate::data::sample::{Rows, Sensors};
use crate::error::{Error, Result};

/// A group of sensors as a table has it, line by line.
#[derive(Clone, Debug)]
pub struct Readings {
    /// By the samples' names, in order of first appearance; where no column names them all lines are one
    /// sample's, which is called "".
    pub samples: Vec<(String, Sensors)>,
    /// Lines left out because a number was missing.
    pub left_out: usize,
}

impl Readings {
    /// From the columns of a CSV or Parquet table that are called as those of the group; `sample` is the
    /// column that says whose a line is.
    pub fn read(
        path: &Path,
        group: &Group,
        sample: Option<&str>,
        missing: Missing,
    ) -> Result<Self> {
        let channels = || group.coords.iter().chain(&group.values);
        let names: Vec<&str> = channels().map(|c| &c.name[..]).collect();
        let table = read_table(path, sample, &names)?;
        let places = group.coords.len();
        let (mut samples, mut left_out) = (Vec::<(String, Vec<usize>)>::new(), 0);
        let mut known: HashMap<&str, usize> = HashMap::new();
        for line in 0..table.len() {
            let name = table.ids.get(line).map_or("", String::as_str);
            if let Some(fault) = fault_of_name(name) {
                let error = Error::data(path, format!("the sample's name {fault}"));
                return Err(error
                    .at(table.place(line))
                    .in_column(sample.unwrap_or_default()));
            }
            let own = *known.entry(name).or_insert_with(|| {
                samples.push((name.to_string(), Vec::new()));
                samples.len() - 1
            });
            if !keeps(path, group, &table, line, missing)? {
                left_out += 1;
                continue;
            }
            let lines = &mut samples[own].1;
            match lines.first() {
                Some(&first) if group.kind == Kind::Scalars => {
                    same_parameters(path, group, &table, [first, line])?;
                }
                _ => lines.push(line),
            }
        }
        let rows = |lines: &[usize], columns: std::ops::Range<usize>| match columns.len() {
            0 => Rows::without_columns(lines.len()),
            width => {
                let row = |&i: &usize| columns.clone().map(move |c| (c, i));
                let cells = lines.iter().flat_map(row);
                Rows::of(
                    width,
                    cells.map(|(c, i)| table.numbers[c][i] as f32).collect(),
                )
            }
        };
        let sensors = |lines: &[usize]| Sensors {
            coords: rows(lines, 0..places),
            values: rows(lines, places..names.len()),
        };
        let samples = samples.iter();
        Ok(Self {
            samples: samples
                .map(|(name, lines)| (name.clone(), sensors(lines)))
                .collect(),
            left_out,
        })
    }
}

/// Whether a line is one of the sample's; an error where a number is missing that may not be.
fn keeps(path: &Path, group: &Group, table: &Table, line: usize, missing: Missing) -> Result<bool> {
    let Some(gap) = table.numbers.iter().position(|c| c[line].is_nan()) else {
        return Ok(true);
    };
    let places = group.coords.len();
    let nothing = table.numbers[places..].iter().all(|c| c[line].is_nan());
    let nothing = nothing && group.kind != Kind::Scalars;
    let what = match missing {
        Missing::Refuse => "is missing; fill it, or leave such lines out",
        Missing::Keep if gap >= places && !nothing && group.gaps => return Ok(true),
        Missing::Keep if gap >= places && !nothing => {
            "is missing, and the network takes no gaps; fill it, or leave such lines out"
        }
        Missing::Skip | Missing::Keep => return Ok(false),
    };
    let mut channels = group.coords.iter().chain(&group.values);
    let column = &channels.nth(gap).expect("as many as columns").name;
    Err(Error::data(path, what)
        .at(table.place(line))
        .in_column(column))
}

/// Parameters may stand in every line of a sample, but only one value of each.
fn same_parameters(
    path: &Path,
    group: &Group,
    table: &Table,
    [first, line]: [usize; 2],
) -> Result<()> {
    for (channel, column) in group.values.iter().zip(&table.numbers) {
        let [a, b] = [first, line].map(|l| column[l]);
        if a != b && !(a.is_nan() && b.is_nan()) {
            let what = format!(
                "is {b} here and {a} in {}: a parameter is one number a sample",
                table.place(first)
            );
            let error = Error::data(path, what).at(table.place(line));
            return Err(error.in_column(&channel.name));
        }
    }
    Ok(())
}

/// Places that are asked at, with whatever else stands in their table.
#[derive(Clone, Debug)]
pub struct Places {
    pub coords: Rows,
    /// The other columns, as they stand there.
    pub others: Vec<(String, Cells)>,
    /// Lines left out because a number was missing.
    pub left_out: usize,
}

impl Places {
    /// From the columns of a CSV or Parquet table that are called as these.
    pub fn read(path: &Path, channels: &[Channel], missing: Missing) -> Result<Self> {
        let names: Vec<&str> = channels.iter().map(|c| &c.name[..]).collect();
        let (table, others) = read_whole_table(path, &names)?;
        let mut lines = Vec::new();
        for line in 0..table.len() {
            match (table.numbers.iter().position(|c| c[line].is_nan()), missing) {
                (None, _) => lines.push(line),
                (Some(gap), Missing::Refuse) => {
                    let error = Error::data(path, "is missing; fill it, or leave such lines out");
                    return Err(error.at(table.place(line)).in_column(names[gap]));
                }
                (Some(_), _) => {}
            }
        }
        if lines.is_empty() {
            return Err(Error::data(
                path,
                "has no line with a place: numbers are missing in all of them",
            ));
        }
        let cells = lines
            .iter()
            .flat_map(|&i| table.numbers.iter().map(move |c| c[i] as f32));
        let select = |(name, cells): (String, Cells)| (name, cells.select(&lines));
        Ok(Self {
            coords: Rows::of(names.len(), cells.collect()),
            left_out: table.len() - lines.len(),
            others: others.into_iter().map(select).collect(),
        })
    }

    /// Takes a column from the others, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Cells> {
        let at = self.others.iter().position(|(own, _)| own == name)?;
        Some(self.others.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(gaps: bool) -> Group {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        Group {
            gaps,
            ..Group::field("air", channels(&["x"]), channels(&["T", "q"]))
        }
    }

    const AIR: &str = "day,x,T,q\nb,0,1,2\na,1,,3\nb,2,4,5\na,3,,\nc,,6,7\n";

    #[test]
    fn lines_are_gathered_by_sample() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("air.csv");
        std::fs::write(&path, AIR).unwrap();
        let read = |gaps, sample, missing| Readings::read(&path, &group(gaps), sample, missing);
        let refused = |gaps, missing, words: &str| {
            let error = read(gaps, Some("day"), missing).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(
            true,
            Missing::Refuse,
            "line 3, column T: is missing; fill it",
        );
        refused(
            false,
            Missing::Keep,
            "line 3, column T: is missing, and the network takes no gaps",
        );
        let kept = read(true, Some("day"), Missing::Keep).unwrap();
        let names: Vec<&str> = kept.samples.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!((names, kept.left_out), (vec!["b", "a", "c"], 2));
        assert_eq!(kept.samples[0].1.coords.data(), [0.0, 2.0]);
        assert_eq!(kept.samples[1].1.values, Rows::of(2, vec![f32::NAN, 3.0]));
        assert!(kept.samples[2].1.is_empty());
        let skipped = read(true, None, Missing::Skip).unwrap();
        assert_eq!((skipped.samples.len(), skipped.left_out), (1, 3));
        assert_eq!(skipped.samples[0].1.values.data(), [1.0, 2.0, 4.0, 5.0]);
        let error = read(true, Some("run"), Missing::Skip)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("column run: there is no such column"),
            "{error}"
        );
    }

    #[test]
    fn a_parameter_is_one_number_a_sample() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("days.csv");
        let scalars = Group {
            kind: Kind::Scalars,
            coords: vec![],
            values: vec![Channel::named("sun")],
            ..group(false)
        };
        std::fs::write(&path, "day,sun\na,1\nb,2\na,1\n").unwrap();
        let read = |sample| Readings::read(&path, &scalars, sample, Missing::Refuse);
        let found = read(Some("day")).unwrap();
        assert_eq!(found.samples[1].1, Sensors::scalars(&[2.0]));
        assert_eq!(found.samples[0].1, Sensors::scalars(&[1.0]));
        let error = read(None).unwrap_err().to_string();
        assert!(
            error.contains("line 3, column sun: is 2 here and 1 in line 2"),
            "{error}"
        );
    }

    #[test]
    fn places_keep_their_other_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q.csv");
        std::fs::write(&path, "id,x,note\n007,1,a\n008,,b\n009,3,\n").unwrap();
        let wanted = [Channel::named("x")];
        let error = Places::read(&path, &wanted, Missing::Refuse)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 3, column x: is missing"), "{error}");
        let mut found = Places::read(&path, &wanted, Missing::Skip).unwrap();
        assert_eq!((found.coords.data(), found.left_out), (&[1.0, 3.0][..], 1));
        let texts = |all: &[&str]| Some(Cells::Texts(all.iter().map(|t| t.to_string()).collect()));
        assert_eq!(found.take("id"), texts(&["007", "009"]));
        assert_eq!(found.take("id"), None);
        assert_eq!(found.others[0].0, "note");
    }
}
