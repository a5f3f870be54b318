//! What the dates of samples are for: sines and cosines of season and hour as parameters, the readings of earlier
//! samples as further groups, and files in the order of time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::data::dates::{self, Date, FORMS, Step};
use crate::data::import::{Collector, Gathered, Side};
use crate::data::meta::{Group, Kind, Meta};
use crate::data::sample::Sample;
use crate::error::{Error, Result};

/// Most earlier samples whose readings are taken along.
const MOST_EARLIER: usize = 64;
/// What files in the order of time are called, where there are two of them and where there are three.
const NAMES: [&[&str]; 2] = [&["train", "val"], &["train", "val", "test"]];

/// What is to be made of the dates of the samples.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The column of the targets' table that has the date; the sample's name where not given.
    pub column: Option<String>,
    /// Sine and cosine of the time of the year, and of the day.
    pub season: bool,
    pub hour: bool,
    /// From so many samples before, one step each, the readings of functions are taken along.
    pub earlier: usize,
    pub split: Split,
}

/// How samples are dealt to files.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Split {
    /// All in one.
    #[default]
    None,
    /// In the order of time, by shares of their number.
    Shares(Vec<f64>),
    /// In the order of time, each file before the next of these dates.
    Until(Vec<String>),
}

impl Split {
    fn parts(&self) -> usize {
        match self {
            Split::None => 1,
            Split::Shares(shares) => shares.len(),
            Split::Until(dates) => dates.len() + 1,
        }
    }

    fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::setting("split", what));
        if *self != Split::None && !(2..=3).contains(&self.parts()) {
            return refuse(
                "samples are dealt to two files (train, val) or to three (train, val, test)",
            );
        }
        match self {
            Split::Shares(shares) if !shares.iter().all(|s| s.is_finite() && *s > 0.0) => {
                refuse("shares are positive numbers, such as 0.8,0.1,0.1")
            }
            Split::Until(texts) => {
                let date = |text: &String| {
                    let refuse = || Error::setting("until", format!("is no date; {FORMS}"));
                    Date::parse(text).ok_or_else(|| refuse().with_value(text))
                };
                let dates = texts.iter().map(date).collect::<Result<Vec<Date>>>()?;
                match dates.is_sorted_by(|a, b| a.seconds() < b.seconds()) {
                    true => Ok(()),
                    false => refuse("dates are given in the order of time, each once"),
                }
            }
            _ => Ok(()),
        }
    }

    /// The files, beside what would be the only one: `stations_train.parquet` beside `stations.parquet`.
    fn files(&self, out: &Path) -> Vec<PathBuf> {
        if *self == Split::None {
            return vec![out.to_path_buf()];
        }
        let stem = out.file_stem().unwrap_or_default().to_string_lossy();
        let names = NAMES[self.parts() - 2].iter();
        let file = |name: &&str| out.with_file_name(format!("{stem}_{name}.parquet"));
        names.map(file).collect()
    }

    /// The file of every sample. Samples of one date stay together.
    fn deal(&self, dates: &[Date]) -> Vec<usize> {
        let mut order: Vec<i64> = dates.iter().map(|d| d.seconds()).collect();
        order.sort_unstable();
        let ends: Vec<i64> = match self {
            Split::None => Vec::new(),
            Split::Until(texts) => {
                let dates = texts.iter().filter_map(|text| Date::parse(text));
                dates.map(Date::seconds).collect()
            }
            Split::Shares(shares) => {
                let (whole, mut sum) = (shares.iter().sum::<f64>(), 0.0);
                let ends = shares[..shares.len() - 1].iter().map(|share| {
                    sum += share / whole;
                    let first = (sum * order.len() as f64).round() as usize;
                    order.get(first).copied().unwrap_or(i64::MAX)
                });
                ends.collect()
            }
        };
        let file = |d: &Date| ends.iter().filter(|end| d.seconds() >= **end).count();
        dates.iter().map(file).collect()
    }
}

/// A file that was written.
#[derive(Clone, Debug)]
pub struct Written {
    pub path: PathBuf,
    pub samples: usize,
    /// The first and the last of the samples in the order of time, where that was asked for.
    pub span: Option<[String; 2]>,
}

impl Times {
    /// Whether dates are looked at at all.
    pub(super) fn wanted(&self) -> bool {
        self.season || self.hour || self.earlier > 0 || self.split != Split::None
    }

    /// The files to be written, and the description with all its groups; an error where something cannot be.
    pub(super) fn plan(&self, meta: &Meta, out: &Path) -> Result<(Vec<PathBuf>, Meta)> {
        self.split.check()?;
        if self.earlier > MOST_EARLIER {
            let what = format!("at most {MOST_EARLIER} samples before are taken along");
            return Err(Error::setting("earlier", what).with_value(self.earlier));
        }
        if self.column.is_some() && !self.wanted() {
            let what = "is given, but nothing is asked of it: a season, an hour, earlier samples or a split";
            return Err(Error::setting("the date's column", what));
        }
        let mut meta = meta.clone();
        meta.groups
            .extend(self.earlier_groups(&meta).into_iter().map(|(_, g)| g));
        meta.groups.extend(dates::group(self.season, self.hour));
        Ok((self.split.files(out), meta))
    }

    /// A group for every step back of every group of readings, and of which group it is.
    fn earlier_groups(&self, meta: &Meta) -> Vec<(usize, Group)> {
        let fields = meta.groups.iter().enumerate();
        let fields = fields.filter(|(_, g)| g.kind == Kind::Field);
        let earlier = fields.flat_map(|(i, g)| {
            let back = move |k: usize| Group {
                name: format!("{}_{k}", g.name),
                ..g.clone()
            };
            (1..=self.earlier).map(move |k| (i, back(k)))
        });
        earlier.collect()
    }
}

impl Collector {
    /// The date of every sample: that of the column, or its name. `said` are those of the column, by sample.
    pub(super) fn find_dates(
        &mut self,
        times: &Times,
        said: &HashMap<usize, Date>,
        column: &str,
    ) -> Result<()> {
        if !times.wanted() {
            return Ok(());
        }
        let source = &self.sides.last().expect("targets").source;
        let date = |(i, name): (usize, &String)| {
            match (&times.column, said.get(&i)) {
            (Some(_), Some(date)) => Ok(*date),
            (Some(column), None) => {
                let what = format!("says no date of the sample \"{name}\", which has no line here");
                Err(Error::data(source, what).in_column(column))
            }
            (None, _) => Date::parse(name).ok_or_else(|| {
                let what = format!(
                    "the sample \"{name}\" is not called by a date; {FORMS}, or a column of its own has the date"
                );
                Error::data(source, what).in_column(column)
            }),
        }
        };
        let all = self.names.iter().enumerate();
        self.dates = all.map(date).collect::<Result<_>>()?;
        Ok(())
    }

    /// Adds the groups of earlier readings and of the date to all samples.
    pub(super) fn add_times(&mut self, times: &Times) -> Result<()> {
        let added = times.earlier_groups(&self.meta);
        let before = self.before(times)?;
        let mut silent = 0;
        for (at, (from, group)) in added.iter().enumerate() {
            let back = at % times.earlier;
            let mut side = Side {
                skipped: 0,
                tiny: Default::default(),
                ..self.sides[*from].clone()
            };
            let mut own = Vec::with_capacity(self.samples.len());
            for (sample, before) in self.samples.iter().zip(&before) {
                let found = before[back].map(|i| &self.samples[i][*from]);
                own.push(match found.filter(|earlier| earlier.rows > 0) {
                    Some(earlier) => earlier.clone(),
                    None => {
                        (side.gaps, silent) = (true, silent + usize::from(at == 0));
                        sample[*from].without_values()
                    }
                });
            }
            self.add_group(group.clone(), side, own);
        }
        if times.earlier > 0 {
            let step = self.step.map_or("not known".into(), |s| s.to_string());
            self.notes.push(format!(
                "one step is {step}; {silent} of {} samples have none right before them",
                self.names.len()
            ));
        }
        let Some(group) = dates::group(times.season, times.hour) else {
            return Ok(());
        };
        let source = self.sides.last().expect("targets").source.clone();
        let scalars = |(date, name): (&Date, &String)| {
            let found = dates::scalars(&group, *date).expect("a group of dates");
            let refuse = |what: String| {
                Error::data(&source, format!("the date of the sample \"{name}\" {what}"))
            };
            Ok(Gathered {
                rows: 1,
                coords: Vec::new(),
                values: found.map_err(refuse)?,
            })
        };
        let own = self.dates.iter().zip(&self.names).map(scalars);
        let own = own.collect::<Result<Vec<Gathered>>>()?;
        let side = Side::of(source.clone(), Some(Kind::Scalars), [0, group.values.len()]);
        self.add_group(group, side, own);
        Ok(())
    }

    /// For every sample those before it, one step each.
    fn before(&mut self, times: &Times) -> Result<Vec<Vec<Option<usize>>>> {
        if times.earlier == 0 {
            return Ok(Vec::new());
        }
        let mut known: HashMap<i64, usize> = HashMap::new();
        self.step = Step::between(&self.dates);
        let step = self.step.unwrap_or(Step::Seconds(i64::MAX));
        for (i, date) in self.dates.iter().enumerate() {
            if let Some(other) = known.insert(step.place(*date), i) {
                let [a, b] = [other, i].map(|i| &self.names[i]);
                let source = &self.sides.last().expect("targets").source;
                let what = format!(
                    "the samples \"{a}\" and \"{b}\" have one date; which of them is the earlier one of the next?"
                );
                return Err(Error::data(source, what));
            }
        }
        let earlier = |date: &Date| {
            let back = |k: usize| step.place(*date).checked_sub(step.times(k));
            let steps = (1..=times.earlier).map(|k| known.get(&back(k)?).copied());
            steps.collect()
        };
        Ok(self.dates.iter().map(earlier).collect())
    }

    /// Behind the other groups, before the targets.
    fn add_group(&mut self, group: Group, side: Side, own: Vec<Gathered>) {
        let place = self.meta.groups.len();
        self.meta.groups.push(group);
        self.sides.insert(place, side);
        for (sample, own) in self.samples.iter_mut().zip(own) {
            sample.insert(place, own);
        }
    }
}

/// Samples with their dates, file by file; none of them may be empty.
pub(super) fn dealt(
    split: &Split,
    files: &[PathBuf],
    samples: Vec<(Sample, Option<Date>)>,
) -> Result<Vec<(Written, Vec<Sample>)>> {
    let dates: Vec<Date> = samples.iter().filter_map(|(_, date)| *date).collect();
    let places = match split {
        Split::None => vec![0; samples.len()],
        _ => split.deal(&dates),
    };
    let mut parts: Vec<Vec<(Sample, Option<Date>)>> = files.iter().map(|_| Vec::new()).collect();
    for (sample, place) in samples.into_iter().zip(places) {
        parts[place].push(sample);
    }
    let part = |(path, mut own): (&PathBuf, Vec<(Sample, Option<Date>)>)| {
        if *split != Split::None {
            own.sort_by_key(|(_, date)| date.map(Date::seconds));
        }
        let name = |(sample, _): &(Sample, Option<Date>)| sample.name.clone().unwrap_or_default();
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            let what = "no sample is left for this file; choose other shares or dates";
            return Err(Error::data(path, what));
        };
        let written = Written {
            path: path.clone(),
            samples: own.len(),
            span: (*split != Split::None).then(|| [name(first), name(last)]),
        };
        Ok((written, own.into_iter().map(|(sample, _)| sample).collect()))
    };
    files.iter().zip(parts).map(part).collect()
}

impl Gathered {
    /// The same places, where nothing is read.
    fn without_values(&self) -> Self {
        Self {
            values: vec![f32::NAN; self.values.len()],
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_dealt_in_the_order_of_time() {
        let dates = ["1987-05", "1987-01", "1987-02", "1987-02", "1987-04"];
        let dates = dates.map(|d| Date::parse(d).unwrap());
        let dealt = |split: Split| {
            split.check().unwrap();
            split.deal(&dates)
        };
        // Two of one date stay together.
        assert_eq!(dealt(Split::Shares(vec![3.0, 1.0, 1.0])), [2, 0, 0, 0, 1]);
        assert_eq!(dealt(Split::Shares(vec![0.5, 0.5])), [1, 0, 0, 0, 1]);
        let until = |texts: &[&str]| Split::Until(texts.iter().map(|t| t.to_string()).collect());
        assert_eq!(dealt(until(&["1987-02", "1987-05"])), [2, 0, 1, 1, 1]);
        let files = Split::Shares(vec![1.0, 1.0]).files(Path::new("a/b.parquet"));
        assert_eq!(
            files,
            ["a/b_train.parquet", "a/b_val.parquet"].map(PathBuf::from)
        );
        let refused = |split: Split, words: &str| {
            let found = split.check().unwrap_err().to_string();
            assert!(found.contains(words), "{found}");
        };
        refused(
            Split::Shares(vec![1.0]),
            "to two files (train, val) or to three",
        );
        refused(Split::Shares(vec![1.0, 0.0]), "positive numbers");
        refused(until(&["1987-05", "1987-02"]), "in the order of time");
        refused(until(&["May"]), "until = May: is no date");
    }
}
