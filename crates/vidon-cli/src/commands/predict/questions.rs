//! Samples that are asked, and where: from tables, or from a dataset.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use vidon::data::{
    Cells, Channel, Dataset, Group, Kind, Meta, Missing, Places, Readings, Rows, Sample, Sensors,
};

use crate::commands::predict::{Arguments, TOGETHER, go_on, names};
use crate::failure::{Failure, Result};
use crate::ui::{Progress, Ui, count};
use vidon::Observer;

/// A sample, and what else stands at its queries.
pub struct Question {
    /// Which one it is, counted from 0.
    pub number: usize,
    pub sample: Sample,
    pub carried: Vec<Cells>,
}

/// All samples that are asked.
pub struct Questions {
    source: Source,
    asked: Asked,
    /// The column that names samples, where there may be many.
    column: Option<String>,
    /// Columns of the places' table that go along.
    carried: Vec<String>,
    targets: usize,
}

enum Source {
    Tables(Vec<(String, Vec<Sensors>)>),
    Data(Dataset),
}

/// Where samples are asked.
enum Asked {
    /// At the queries of the dataset.
    Own,
    /// All at the same places.
    Same(Arc<Rows>, Vec<Cells>),
    /// Every sample at its lines of a table.
    Each(HashMap<String, Vec<usize>>, Places),
}

/// The column of the samples' names in a dataset.
const SAMPLE: &str = "sample";

impl Questions {
    pub fn of(arguments: &Arguments, meta: &Meta, ui: &Ui) -> Result<Self> {
        let column = match &arguments.data {
            Some(_) => Some(arguments.sample.clone().unwrap_or_else(|| SAMPLE.into())),
            None => arguments.sample.clone(),
        };
        let mut carried = Vec::new();
        let asked = match (&arguments.grid, &arguments.queries) {
            (Some(grid), _) => Asked::Same(Arc::new(meta.query_points(&grid.0)?), Vec::new()),
            (None, Some(path)) => {
                let (names, asked) = places(path, meta, column.as_deref(), arguments.missing, ui)?;
                carried = names;
                asked
            }
            (None, None) => Asked::Own,
        };
        let source = match &arguments.data {
            Some(path) => {
                let data = Dataset::open(path)?;
                let both = ["the data of the model", "this"];
                meta.check_same_channels(&data.meta()?, both)?;
                if matches!(asked, Asked::Each(..)) && !data.meta()?.named_samples {
                    return Err(Failure::Words(format!(
                        "the samples of {} have no names, so that the column {} of the places says nothing of them; leave it out to ask all samples at all places",
                        path.display(),
                        column.as_deref().unwrap_or(SAMPLE)
                    )));
                }
                Source::Data(data)
            }
            None => {
                let mut samples = arguments.samples(meta, ui)?;
                if let (Asked::Each(places, _), Some(path)) = (&asked, &arguments.queries) {
                    choose_asked(&mut samples, places, path, arguments.missing, ui)?;
                }
                Source::Tables(samples)
            }
        };
        Ok(Self {
            source,
            asked,
            column,
            carried,
            targets: meta.targets.len(),
        })
    }

    /// The column of the samples' names; none where there is one sample.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    pub fn carried(&self) -> Vec<String> {
        self.carried.clone()
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        match &self.source {
            Source::Tables(samples) => samples.len(),
            Source::Data(data) => data.usual(),
        }
    }

    /// Places that all samples are asked at.
    pub fn places(&self) -> usize {
        match &self.asked {
            Asked::Same(places, _) => places.len(),
            Asked::Own | Asked::Each(..) => 0,
        }
    }

    /// The number of the sample that is to be drawn, counted from 0.
    pub fn drawn(&self, wanted: Option<&str>) -> Result<usize> {
        let Some(wanted) = wanted else { return Ok(0) };
        match &self.source {
            Source::Tables(samples) => {
                let found = samples.iter().position(|(name, _)| name == wanted);
                found.ok_or_else(|| {
                    let shown: Vec<&str> =
                        samples.iter().take(5).map(|(name, _)| &name[..]).collect();
                    let more = if samples.len() > 5 { ", …" } else { "" };
                    Failure::Words(format!(
                        "--plot-sample {wanted}: there is no such sample; there are {}{more}",
                        shown.join(", ")
                    ))
                })
            }
            Source::Data(data) => Ok(data.number_of(wanted, &())?),
        }
    }

    /// Hands on all samples, or the one with a number, in blocks.
    pub fn each(
        &self,
        only: Option<usize>,
        progress: &Progress,
        mut hand_on: impl FnMut(Vec<Question>) -> vidon::Result<()> + Send,
    ) -> Result<()> {
        let mut answered: HashSet<String> = HashSet::new();
        let wanted = |number: usize| only.is_none_or(|n| n == number);
        match &self.source {
            Source::Tables(samples) => {
                for (block, some) in samples.chunks(TOGETHER).enumerate() {
                    go_on(progress)?;
                    let numbered = some.iter().enumerate();
                    let some = numbered.map(|(i, own)| (TOGETHER * block + i, own));
                    let some = some.filter(|(number, _)| wanted(*number));
                    let all = some.filter_map(|(number, (name, groups))| {
                        let sample = Sample {
                            name: Some(name.clone()).filter(|_| self.column.is_some()),
                            groups: groups.clone(),
                            query_coords: Arc::new(Rows::without_columns(0)),
                            targets: Rows::without_columns(0),
                        };
                        self.question(number, sample)
                    });
                    hand_on(all.collect())?;
                    progress.advance(TOGETHER.min(samples.len()));
                }
            }
            Source::Data(data) => {
                let count = only.map_or(data.usual(), |n| n + 1);
                let mut number = 0;
                data.blocks(count, progress, |block| {
                    let numbered = block.iter().enumerate().map(|(i, s)| (number + i, s));
                    let some = numbered.filter(|(n, _)| wanted(*n));
                    let all = some.filter_map(|(n, s)| {
                        let mut sample = s.clone();
                        sample.name.get_or_insert_with(|| n.to_string());
                        self.question(n, sample)
                    });
                    let all: Vec<Question> = all.collect();
                    answered.extend(all.iter().filter_map(|q| q.sample.name.clone()));
                    number += block.len();
                    hand_on(all)
                })?;
                if let (Asked::Each(places, _), None) = (&self.asked, only)
                    && let Some(name) = places.keys().filter(|n| !answered.contains(*n)).min()
                {
                    return Err(Failure::Words(format!(
                        "the sample \"{name}\" is asked, but the dataset has none of this name"
                    )));
                }
            }
        }
        Ok(())
    }

    /// A sample with its places; none where nothing is asked of it.
    fn question(&self, number: usize, mut sample: Sample) -> Option<Question> {
        let mut carried = Vec::new();
        match &self.asked {
            Asked::Own => {}
            Asked::Same(places, others) => {
                sample.query_coords = places.clone();
                carried = others.clone();
            }
            Asked::Each(lines, places) => {
                let lines = lines.get(sample.name.as_deref()?)?;
                sample.query_coords = Arc::new(places.coords.select(lines));
                let others = places.others.iter();
                carried = others.map(|(_, cells)| cells.select(lines)).collect();
            }
        }
        let blank = vec![f32::NAN; self.targets * sample.query_coords.len()];
        sample.targets = Rows::new(self.targets, blank).expect("whole rows");
        Some(Question {
            number,
            sample,
            carried,
        })
    }
}

/// Places of a table, with the names of the columns that are carried along.
fn places(
    path: &Path,
    meta: &Meta,
    column: Option<&str>,
    missing: Missing,
    ui: &Ui,
) -> Result<(Vec<String>, Asked)> {
    let found = Places::read(path, &meta.query_coords, missing);
    let mut places = found.map_err(name_remedy)?;
    if places.left_out > 0 {
        let lines = count(places.left_out, "line");
        ui.note(format!(
            "note: {lines} of {} with a missing number left out",
            path.display()
        ));
    }
    let whose = column.and_then(|column| places.take(column));
    for target in names(&meta.targets) {
        if places.take(&target).is_some() {
            ui.note(format!(
                "note: the column {target} of {} is not carried along: the answers are called so",
                path.display()
            ));
        }
    }
    let carried = places.others.iter().map(|(name, _)| name.clone()).collect();
    let asked = match whose {
        None => {
            let others = places.others.into_iter().map(|(_, cells)| cells);
            Asked::Same(Arc::new(places.coords), others.collect())
        }
        Some(names) => {
            let mut lines: HashMap<String, Vec<usize>> = HashMap::new();
            for i in 0..names.len() {
                let name = names.text(i);
                if name.is_empty() {
                    return Err(Failure::Words(format!(
                        "{}: place {} has no name of a sample in the column {}; fill it, or leave the column out to ask all samples at all places",
                        path.display(),
                        i + 1,
                        column.unwrap_or_default()
                    )));
                }
                lines.entry(name).or_default().push(i);
            }
            Asked::Each(lines, places)
        }
    };
    Ok((carried, asked))
}

/// Keeps the samples that are asked anything; those that are asked have to be there.
fn choose_asked(
    samples: &mut Vec<(String, Vec<Sensors>)>,
    places: &HashMap<String, Vec<usize>>,
    path: &Path,
    missing: Missing,
    ui: &Ui,
) -> Result<()> {
    let there: HashSet<&str> = samples.iter().map(|(name, _)| &name[..]).collect();
    let mut without: Vec<&str> = places
        .keys()
        .map(|n| &n[..])
        .filter(|n| !there.contains(n))
        .collect();
    without.sort_unstable();
    match (without.first(), missing) {
        (Some(name), Missing::Refuse) => {
            return Err(Failure::Words(format!(
                "{}: the sample \"{name}\" is asked, but no table has its sensors; mend it, or leave such places out with --missing skip",
                path.display()
            )));
        }
        (Some(_), _) => ui.note(format!(
            "note: {} asked, but without sensors: left out",
            count(without.len(), "sample")
        )),
        (None, _) => {}
    }
    let before = samples.len();
    samples.retain(|(name, _)| places.contains_key(name));
    if samples.is_empty() {
        return Err(Failure::Words(format!(
            "{}: no sample has both sensors and places: are their names the same in all tables?",
            path.display()
        )));
    }
    if samples.len() < before {
        let unasked = count(before - samples.len(), "sample");
        ui.note(format!(
            "note: {unasked} without places in {}: nothing is asked of them",
            path.display()
        ));
    }
    Ok(())
}

/// The options behind an error of a missing number.
fn name_remedy(error: vidon::Error) -> Failure {
    match error {
        vidon::Error::Data {
            file,
            at,
            column,
            mut what,
        } if what.starts_with("is missing") => {
            what += match what.contains("takes no gaps") {
                true => " with --missing skip",
                false => {
                    " with --missing skip, or keep what their other columns have with --missing keep"
                }
            };
            vidon::Error::Data {
                file,
                at,
                column,
                what,
            }
            .into()
        }
        other => other.into(),
    }
}

/// The sensors of a group: those of its table, or parameters that all samples share.
enum Given {
    Table(Readings),
    Same(Sensors),
    /// What the date says that a sample is called by.
    ByName,
}

impl Arguments {
    /// The groups of every sample, from tables and single parameters, in order of first appearance.
    fn samples(&self, meta: &Meta, ui: &Ui) -> Result<Vec<(String, Vec<Sensors>)>> {
        self.check_groups(meta)?;
        let given = meta.groups.iter().map(|g| self.given(g, meta, ui));
        let given: Vec<Given> = given.collect::<Result<_>>()?;
        let (mut order, mut seen) = (Vec::new(), HashSet::new());
        let mut tables: Vec<Option<HashMap<&str, &Sensors>>> = Vec::new();
        for own in &given {
            let Given::Table(readings) = own else {
                tables.push(None);
                continue;
            };
            let names = readings.samples.iter().map(|(name, _)| &name[..]);
            order.extend(names.filter(|name| seen.insert(*name)));
            let pairs = readings.samples.iter().map(|(name, own)| (&name[..], own));
            tables.push(Some(pairs.collect()));
        }
        if order.is_empty() {
            if let Some(column) = &self.sample {
                return Err(Failure::Words(format!(
                    "--sample {column}: there is no table of sensors that could have this column"
                )));
            }
            order.push("");
        }
        let (mut samples, mut left_out) = (Vec::new(), Vec::new());
        for name in order {
            let parts = meta.groups.iter().zip(given.iter().zip(&tables));
            let groups: std::result::Result<Vec<Sensors>, &Group> = parts
                .map(|(group, (given, table))| match (given, table) {
                    (Given::Same(own), _) => Ok(own.clone()),
                    (Given::Table(_), table) => {
                        let own = table.as_ref().and_then(|t| t.get(name).copied());
                        let own = own.filter(|own| !own.is_empty() || group.kind == Kind::Points);
                        // No point at all is an answer too.
                        let none = || (group.kind == Kind::Points).then(|| nothing(group));
                        own.cloned().or_else(none).ok_or(group)
                    }
                    (Given::ByName, _) => match Sensors::of_date(group, name) {
                        Some(Ok(own)) => Ok(own),
                        _ => Err(group),
                    },
                })
                .collect();
            match groups {
                Ok(groups) => samples.push((name.to_string(), groups)),
                Err(group) if self.sample.is_none() => {
                    return Err(Failure::Words(format!(
                        "no line of the table of {} is left: in all of them a number is missing",
                        group.name
                    )));
                }
                Err(group) if Sensors::of_date(group, "").is_some() => {
                    return Err(Failure::Words(format!(
                        "the network knows the season or the hour, but the sample's name \"{name}\" is no date, such as 2005-03-15; give the date of all samples with --date"
                    )));
                }
                Err(group) if self.missing == Missing::Refuse => {
                    return Err(Failure::Words(format!(
                        "the sample \"{name}\" has nothing of {}; mend it, or leave such samples out with --missing skip",
                        group.name
                    )));
                }
                Err(_) => left_out.push(name),
            }
        }
        if samples.is_empty() {
            return Err(Failure::Words(
                "no sample has sensors of all groups: are the samples' names the same in all tables?".into(),
            ));
        }
        if let Some(first) = left_out.first() {
            ui.note(format!(
                "note: {} without sensors left out, the first of them {first}",
                count(left_out.len(), "sample")
            ));
        }
        Ok(samples)
    }

    /// Whether the options are about groups and parameters that the network has.
    fn check_groups(&self, meta: &Meta) -> Result<()> {
        let known = |name: &str| meta.groups.iter().any(|g| g.name == name);
        let there = || {
            let names = meta.groups.iter().map(|g| &g.name[..]);
            names.collect::<Vec<_>>().join(", ")
        };
        if let Some((name, _)) = self.group.iter().find(|(name, _)| !known(name)) {
            return Err(Failure::Words(format!(
                "--group {name}: the network has no such group; it has {}",
                there()
            )));
        }
        if self.sensors.is_some() && meta.groups.len() > 1 && !known(Group::USUAL) {
            return Err(Failure::Words(format!(
                "the network takes several groups of sensors, {}: give a table of each with --group NAME=FILE",
                there()
            )));
        }
        let scalars = meta.groups.iter().filter(|g| g.kind == Kind::Scalars);
        let columns: Vec<&str> = scalars
            .flat_map(|g| &g.values)
            .map(|c| &c.name[..])
            .collect();
        let unknown = self.scalar.iter().find(|(n, _)| !columns.contains(&&n[..]));
        if let Some((name, _)) = unknown {
            return Err(Failure::Words(match columns.is_empty() {
                true => format!("--scalar {name}: the network takes no parameters"),
                false => format!(
                    "--scalar {name}: the network has no such parameter; it has {}",
                    columns.join(", ")
                ),
            }));
        }
        let dated = |g: &Group| Sensors::of_date(g, "").is_some();
        if self.date.is_some() && !meta.groups.iter().any(dated) {
            return Err(Failure::Words(
                "--date: the network was trained without dates (vidon import --season or --hour)"
                    .into(),
            ));
        }
        Ok(())
    }

    fn given(&self, group: &Group, meta: &Meta, ui: &Ui) -> Result<Given> {
        let only = meta.groups.len() == 1 || group.name == Group::USUAL;
        let mut tables = self.group.iter().filter(|(name, _)| *name == group.name);
        let named = tables.next().map(|(_, file)| file.as_path());
        let table: Option<&Path> = named.or(self.sensors.as_deref().filter(|_| only));
        let given = group.kind == Kind::Scalars
            && self
                .scalar
                .iter()
                .any(|(n, _)| group.values.iter().any(|c| c.name == *n));
        if tables.next().is_some() || (named.is_some() && only && self.sensors.is_some()) {
            let what = format!("the group {} has two tables", group.name);
            return Err(Failure::Words(what));
        }
        let dated = Sensors::of_date(group, self.date.as_deref().unwrap_or_default());
        if let (Some(found), Some(_)) = (&dated, &self.date) {
            return match (table.is_some() || given, found) {
                (true, _) => Err(Failure::Words(format!(
                    "the parameters {} come from --date, or from --group or --scalar, not both",
                    group.name
                ))),
                (false, Ok(own)) => Ok(Given::Same(own.clone())),
                (false, Err(_)) => Err(dated.expect("just seen").unwrap_err().into()),
            };
        }
        match (table, given) {
            (None, false) if dated.is_some() && self.sample.is_some() => Ok(Given::ByName),
            (None, false) if dated.is_some() => Err(Failure::Words(
                "--date is needed: the network knows the season or the hour".into(),
            )),
            (Some(path), false) => {
                let found = Readings::read(path, group, self.sample.as_deref(), self.missing);
                let found = found.map_err(name_remedy)?;
                if found.left_out > 0 {
                    let lines = count(found.left_out, "line");
                    ui.note(format!(
                        "note: {lines} of {} with a missing number left out",
                        path.display()
                    ));
                }
                Ok(Given::Table(found))
            }
            (Some(_), true) => Err(Failure::Words(format!(
                "the parameters {} come from a table (--group) or one by one (--scalar), not both",
                group.name
            ))),
            (None, false) if group.kind == Kind::Scalars => Err(Failure::Words(format!(
                "the network takes the parameters {}: give --scalar {}=VALUE, or a table of one line with --group {}=FILE",
                group.name, group.values[0].name, group.name
            ))),
            (None, false) if only => Err(Failure::Words(
                "--sensors is needed: which table has the sensors?".into(),
            )),
            (None, false) => Err(Failure::Words(format!(
                "--group {}=FILE is needed: which table has these sensors?",
                group.name
            ))),
            (None, true) => {
                let value = |c: &Channel| {
                    let mut given = self.scalar.iter().filter(|(name, _)| *name == c.name);
                    match (given.next(), given.next()) {
                        (Some((_, value)), None) => Ok(*value),
                        (None, _) if group.gaps => Ok(f32::NAN),
                        (None, _) => Err(Failure::Words(format!(
                            "--scalar {}=VALUE is missing",
                            c.name
                        ))),
                        (Some(_), Some(_)) => {
                            Err(Failure::Words(format!("--scalar gives {} twice", c.name)))
                        }
                    }
                };
                let values: Result<Vec<f32>> = group.values.iter().map(value).collect();
                Ok(Given::Same(Sensors::scalars(&values?)))
            }
        }
    }
}

/// A group without any sensor.
fn nothing(group: &Group) -> Sensors {
    let rows = |channels: &[Channel]| match channels.len() {
        0 => Rows::without_columns(0),
        width => Rows::new(width, Vec::new()).expect("no rows are whole"),
    };
    Sensors {
        coords: rows(&group.coords),
        values: rows(&group.values),
    }
}
