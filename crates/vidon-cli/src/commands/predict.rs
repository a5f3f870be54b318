//! `vidon predict`: what a trained network answers to sensors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use vidon::Operator;
use vidon::data::{Channel, Group, Kind, Meta, Rows, Sample, Sensors};
use vidon::plot::Picture;

use crate::commands::draw_heads;
use crate::failure::{Failure, Result};
use crate::outputs;
use crate::ui::{Ui, count};

/// Predict a function from sensors
///
/// The sensors are a table (CSV or Parquet) with a column for every coordinate and value, by the names the
/// network was trained with (`vidon inspect` shows them). The function is predicted on a grid over the domain
/// of the training data, or at the places of another table.
///
/// A network that was trained with several groups of sensors takes a table of each (--group); parameters can be
/// given one by one (--scalar), and the season and the hour that `vidon import` made of dates by a date (--date).
#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).args(["grid", "queries"])), after_help = "Examples:
  vidon predict runs/mine --sensors s.csv --grid 65x65 --out v.csv --plot v.png
  vidon predict best.safetensors --sensors s.csv --queries q.csv --out v.parquet
  vidon predict runs/fronts --sensors s.csv --grid 76x76x41 --out v.npy
  vidon predict runs/soot --group air=air.csv --group chimneys=c.csv --scalar pressure=1013 \\
    --queries places.csv --out soot.csv
  vidon predict runs/air --group air=today.csv --group air_1=yesterday.csv --date 2005-03-15 \\
    --queries places.csv --out tomorrow.csv")]
pub struct Arguments {
    /// Folder of a run, or a weights file (.safetensors)
    model: PathBuf,

    /// Table of sensors: coordinates and values
    #[arg(long, value_name = "FILE")]
    sensors: Option<PathBuf>,

    /// Table of a group of sensors, such as air=air.csv; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_group)]
    group: Vec<(String, PathBuf)>,

    /// A parameter of the sample, such as inflow=2.5; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_scalar, allow_hyphen_values = true)]
    scalar: Vec<(String, f32)>,

    /// When it is, for a network that knows season or hour: 1987-03, 1987-03-15 or 1987-03-15T06:00
    #[arg(long, value_name = "DATE")]
    date: Option<String>,

    /// Points per axis of the grid to predict on, such as 65x65
    #[arg(long, value_name = "N1xN2…", value_parser = parse_grid)]
    grid: Option<Grid>,

    /// Table of places to predict at
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,

    /// Where to write the values: .csv, .npy or .parquet
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["plot", "plot_heads"])]
    out: Option<PathBuf>,

    /// Draw sensors and prediction (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Draw on the sensors what VIDON's heads look at (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot_heads: Option<PathBuf>,
}

impl Arguments {
    /// What can be said before anything is worked out.
    fn check(&self) -> Result<()> {
        for picture in self.plot.iter().chain(&self.plot_heads) {
            Picture::check_name(picture)?;
        }
        if let Some(out) = &self.out {
            Rows::check_name(out)?;
        }
        let tables = self
            .sensors
            .iter()
            .chain(&self.queries)
            .chain([&self.model]);
        let read = tables.chain(self.group.iter().map(|(_, file)| file));
        let written = [
            ("--out", &self.out),
            ("--plot", &self.plot),
            ("--plot-heads", &self.plot_heads),
        ];
        outputs::check(read, written.into_iter().filter_map(outputs::given))
    }
}

fn parse_group(text: &str) -> std::result::Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !file.is_empty() => Ok((name.trim().into(), file.into())),
        _ => Err("write a group and its table, such as air=air.csv".into()),
    }
}

fn parse_scalar(text: &str) -> std::result::Result<(String, f32), String> {
    let wrong = || "write a parameter and its value, such as inflow=2.5".to_string();
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value: f32 = value.trim().parse().map_err(|_| wrong())?;
    match value.is_finite() {
        true => Ok((name.trim().into(), value)),
        false => Err("the value of a parameter must be finite".into()),
    }
}

/// Points per axis.
#[derive(Clone)]
struct Grid(Vec<usize>);

/// More points than anyone draws; a typing error.
const MOST_POINTS: usize = 1 << 24;

fn parse_grid(text: &str) -> std::result::Result<Grid, String> {
    let sizes: std::result::Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    let sizes = sizes.map_err(|_| "write points per axis, such as 65x65".to_string())?;
    let points = sizes.iter().try_fold(1usize, |n, &k| n.checked_mul(k));
    match (sizes.iter().all(|&n| n >= 2), points) {
        (false, _) => Err("every axis needs at least 2 points".into()),
        (_, Some(n)) if n <= MOST_POINTS => Ok(Grid(sizes)),
        _ => Err(format!("more than {MOST_POINTS} points")),
    }
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    arguments.check()?;
    let operator = Operator::load(&arguments.model)?;
    let meta = operator.meta();
    let names =
        |channels: &[Channel]| -> Vec<String> { channels.iter().map(|c| c.name.clone()).collect() };
    let groups = arguments.groups(meta)?;
    let queries = match (&arguments.grid, &arguments.queries) {
        (Some(grid), _) => meta.query_points(&grid.0)?,
        (None, Some(path)) => Rows::read(path, &names(&meta.query_coords))?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let mut sample = Sample {
        name: None,
        groups,
        query_coords: Arc::new(queries),
        targets: Rows::without_columns(0),
    };
    for note in operator.doubts(&sample) {
        ui.note(format!("note: {note}"));
    }
    let found = operator.predict_samples(&[&sample])?.remove(0);
    sample.targets = found.clone();
    // First: a network may have no heads.
    if let Some(path) = &arguments.plot_heads {
        draw_heads(path, &operator, meta, &sample, ui)?;
    }
    if let Some(path) = &arguments.out {
        let names = [names(&meta.query_coords), names(&meta.targets)].concat();
        let shape = arguments.grid.as_ref().map(|g| &g.0[..]);
        found.write(path, &names, &sample.query_coords, shape)?;
        ui.note(format!(
            "{}: {} from {}",
            path.display(),
            count(found.len(), "value"),
            origin(meta, &sample)
        ));
    }
    if let Some(path) = &arguments.plot {
        Picture::prediction(meta, &sample, &found).save(path)?;
        ui.note(format!("{}: sensors and prediction", path.display()));
    }
    Ok(())
}

/// How many sensors an answer comes from, group by group.
fn origin(meta: &Meta, sample: &Sample) -> String {
    let groups = meta.groups.iter().zip(&sample.groups);
    let words = groups.map(|(group, own)| match (group.kind, &group.name[..]) {
        (Kind::Scalars, name) => name.to_string(),
        (Kind::Points, name) => format!("{} of {name}", count(own.len(), "point")),
        (Kind::Field, Group::USUAL) => count(own.len(), "sensor"),
        (Kind::Field, name) => format!("{} of {name}", count(own.len(), "sensor")),
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Arguments {
    /// Every group of sensors from its table, or from single parameters.
    fn groups(&self, meta: &Meta) -> Result<Vec<Sensors>> {
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
        let dated = |g: &Group| self.date_of(g).is_some();
        if self.date.is_some() && !meta.groups.iter().any(dated) {
            return Err(Failure::Words(
                "--date: the network was trained without dates (vidon import --season or --hour)"
                    .into(),
            ));
        }
        meta.groups
            .iter()
            .map(|g| self.sensors_of(g, meta))
            .collect()
    }

    /// What the date says of a group, if it is that of the dates.
    fn date_of(&self, group: &Group) -> Option<Result<Sensors>> {
        let found = Sensors::of_date(group, self.date.as_deref()?)?;
        Some(found.map_err(Failure::from))
    }

    fn sensors_of(&self, group: &Group, meta: &Meta) -> Result<Sensors> {
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
        if let Some(found) = self.date_of(group) {
            return match table.is_some() || given {
                false => found,
                true => Err(Failure::Words(format!(
                    "the parameters {} come from --date, or from --group or --scalar, not both",
                    group.name
                ))),
            };
        }
        match (table, given) {
            (Some(path), false) => Ok(Sensors::read(path, group)?),
            (Some(_), true) => Err(Failure::Words(format!(
                "the parameters {} come from a table (--group) or one by one (--scalar), not both",
                group.name
            ))),
            (None, false) if Sensors::of_date(group, "").is_some() => Err(Failure::Words(
                "--date is needed: the network knows the season or the hour".into(),
            )),
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
                Ok(Sensors::scalars(&values?))
            }
        }
    }
}
