//! `vidon predict`: what a trained network answers to sensors.

mod answers;
mod questions;

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use vidon::data::{Channel, Group, Kind, Meta, Missing, Rows, Sample, TableWriter};
use vidon::plot::Picture;
use vidon::{Observer, Operator};

use crate::choice::one_of;
use crate::commands::draw_heads;
use crate::commands::import::MISSING;
use crate::commands::predict::answers::Answers;
use crate::commands::predict::questions::{Question, Questions};
use crate::failure::{Failure, Result};
use crate::outputs;
use crate::ui::{Ui, count};

/// Predict a function from sensors
///
/// The sensors are a table (CSV or Parquet) with a column for every coordinate and value, by the names the
/// network was trained with (`vidon inspect` shows them). The function is predicted on a grid over the domain
/// of the training data, or at the places of another table, whose other columns (a station's id, say) are carried
/// along.
///
/// Many samples at once: --sample names the column that says whose a line is, in every table of sensors, as at
/// import. Where the table of places has it too, every sample is asked at its own places, else all at the same.
/// --data takes the samples of a dataset, and asks at its own queries, or where --grid or --queries say. The
/// answers have the sample's name in front.
///
/// A network that was trained with several groups of sensors takes a table of each (--group); parameters can be
/// given one by one (--scalar), for all samples. The season and the hour that `vidon import` made of dates come from a
/// date (--date), or from the names of the samples where those are dates.
#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).multiple(true).args(["grid", "queries", "data"])), after_help = "Examples:
  vidon predict runs/mine --sensors s.csv --grid 65x65 --out v.csv --plot v.png
  vidon predict best.safetensors --sensors s.csv --queries q.csv --out v.parquet
  vidon predict runs/fronts --sensors s.csv --grid 76x76x41 --out v.npy
  vidon predict runs/soot --group air=air.csv --group chimneys=c.csv --scalar pressure=1013 \\
    --queries places.csv --out soot.csv
  vidon predict runs/air --group air=today.csv --group air_1=yesterday.csv --date 2005-03-15 \\
    --queries places.csv --out tomorrow.csv
  A month of days, at all stations, where some readings are missing:
    vidon predict runs/stations --sensors days.csv --sample day --missing skip \\
      --queries stations.csv --out answers.csv --plot day.png --plot-sample 2026-11-03
  What a test set's samples are answered:
    vidon predict runs/stations --data test.parquet --out answers.parquet")]
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
    /// Column with the name of the sample, in every table of sensors: many samples are asked at once [with --data:
    /// in the table of places, default sample]
    #[arg(long, value_name = "COLUMN")]
    sample: Option<String>,

    /// A dataset whose samples are asked, in place of tables
    #[arg(long, value_name = "FILE.parquet", conflicts_with_all = ["sensors", "group", "scalar"])]
    data: Option<PathBuf>,

    /// Points per axis of the grid to predict on, such as 65x65
    #[arg(long, value_name = "N1xN2…", value_parser = parse_grid, conflicts_with = "queries")]
    grid: Option<Grid>,

    /// Table of places to predict at
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,

    /// What to do where a number is missing in a table (an empty cell, NA, NaN, null)
    #[arg(long, value_parser = one_of(MISSING), default_value = "refuse")]
    missing: Missing,

    /// Where to write the values: .csv, .npy or .parquet
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["plot", "plot_heads"])]
    out: Option<PathBuf>,

    /// Draw sensors and prediction (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Draw on the sensors what VIDON's heads look at (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot_heads: Option<PathBuf>,

    /// Which of many samples to draw [default: the first]
    #[arg(long, value_name = "NAME")]
    plot_sample: Option<String>,
}

impl Arguments {
    /// What can be said before anything is worked out.
    fn check(&self) -> Result<()> {
        for picture in self.plot.iter().chain(&self.plot_heads) {
            Picture::check_name(picture)?;
        }
        if let Some(out) = &self.out {
            Rows::check_name(out)?;
            if self.many() && TableWriter::check_name(out).is_err() && self.grid.is_none() {
                return Err(Failure::Words(format!(
                    "{}: samples with places of their own are no array; write .csv or .parquet, or ask on a --grid",
                    out.display()
                )));
            }
        }
        if self.plot_sample.is_some() && !(self.many() && self.draws()) {
            return Err(Failure::Words(
                "--plot-sample says which of many samples (--sample, --data) is drawn by --plot or --plot-heads"
                    .into(),
            ));
        }
        let tables = self
            .sensors
            .iter()
            .chain(&self.queries)
            .chain(&self.data)
            .chain([&self.model]);
        let read = tables.chain(self.group.iter().map(|(_, file)| file));
        let written = [
            ("--out", &self.out),
            ("--plot", &self.plot),
            ("--plot-heads", &self.plot_heads),
        ];
        outputs::check(read, written.into_iter().filter_map(outputs::given))
    }

    /// Whether more samples than one may be asked.
    fn many(&self) -> bool {
        self.sample.is_some() || self.data.is_some()
    }

    fn draws(&self) -> bool {
        self.plot.is_some() || self.plot_heads.is_some()
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

/// Samples whose doubts are told one by one.
const TOLD: usize = 3;
/// Samples, and queries, that are answered at a time.
const TOGETHER: usize = 16;
const QUERIES: usize = 1 << 22;

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    arguments.check()?;
    let operator = Operator::load(&arguments.model)?;
    let questions = Questions::of(&arguments, operator.meta(), ui)?;
    let drawn = match arguments.draws() {
        true => Some(questions.drawn(arguments.plot_sample.as_deref())?),
        false => None,
    };
    let mut asking = Asking {
        operator: &operator,
        out: Answers::create(&arguments, operator.meta(), &questions)?,
        drawn,
        kept: None,
        samples: 0,
        doubtful: 0,
        sensors: Vec::new(),
        origin: None,
        many: arguments.many(),
        ui,
    };
    let progress = ui.progress(questions.len());
    // Who only wants a picture waits for one sample.
    let only = arguments.out.is_none().then_some(asking.drawn).flatten();
    questions.each(only, &progress, |block| asking.answer(&block))?;
    drop(progress);
    asking.finish(&arguments)
}

/// Samples on their way to their answers.
struct Asking<'a> {
    operator: &'a Operator,
    out: Option<Answers>,
    /// Which sample is drawn, counted from 0, and its answer once it is there.
    drawn: Option<usize>,
    kept: Option<(Sample, Rows)>,
    samples: usize,
    doubtful: usize,
    /// How many sensors the samples have, and what those of the first are.
    sensors: Vec<usize>,
    origin: Option<String>,
    many: bool,
    ui: &'a Ui,
}

impl Asking<'_> {
    fn answer(&mut self, block: &[Question]) -> vidon::Result<()> {
        let mut rest = block;
        while !rest.is_empty() {
            let mut queries = 0;
            let fits = rest.iter().take(TOGETHER).take_while(|q| {
                queries += q.sample.query_coords.len();
                queries <= QUERIES
            });
            let (some, others) = rest.split_at(fits.count().max(1));
            self.answer_together(some)?;
            rest = others;
        }
        Ok(())
    }

    fn answer_together(&mut self, some: &[Question]) -> vidon::Result<()> {
        for question in some {
            self.doubts(question);
        }
        let samples: Vec<&Sample> = some.iter().map(|q| &q.sample).collect();
        let found = self
            .operator
            .predict_samples(&samples)
            .map_err(|e| match e {
                vidon::Error::Sample { index, what, .. } if self.many => {
                    let name = samples.get(index).and_then(|s| s.name.as_deref());
                    vidon::Error::Unsuitable(format!("sample {}: {what}", name.unwrap_or("?")))
                }
                other => other,
            })?;
        for (question, found) in some.iter().zip(found) {
            if let Some(out) = &mut self.out {
                out.write(question, &found)?;
            }
            if self.drawn == Some(question.number) {
                self.kept = Some((question.sample.clone(), found));
            }
            self.samples += 1;
            let sensors = question.sample.groups.iter().map(|g| g.len());
            self.sensors.push(sensors.sum());
            let first = || origin(self.operator.meta(), &question.sample);
            self.origin.get_or_insert_with(first);
        }
        Ok(())
    }

    /// Tells what is doubtful of a sample; of many samples, of the first that are.
    fn doubts(&mut self, question: &Question) {
        let doubts = self.operator.doubts(&question.sample);
        self.doubtful += usize::from(!doubts.is_empty());
        for doubt in doubts.iter().filter(|_| self.doubtful <= TOLD) {
            match question.sample.name.as_deref().filter(|_| self.many) {
                Some(name) => self.ui.note(format!("note: sample {name}: {doubt}")),
                None => self.ui.note(format!("note: {doubt}")),
            }
        }
    }

    fn finish(self, arguments: &Arguments) -> Result<()> {
        let meta = self.operator.meta();
        if self.doubtful > TOLD {
            let more = count(self.doubtful - TOLD, "more sample");
            self.ui.note(format!(
                "note: {more} with such doubts; asked alone a sample tells its own"
            ));
        }
        let (sample, found) = match self.kept {
            Some((mut sample, found)) => {
                sample.targets = found.clone();
                (Some(sample), Some(found))
            }
            None => (None, None),
        };
        // First: a network may have no heads.
        if let (Some(path), Some(sample)) = (&arguments.plot_heads, &sample) {
            draw_heads(path, self.operator, meta, sample, self.ui)?;
        }
        if let (Some(out), Some(path)) = (self.out, &arguments.out) {
            let values = count(out.values(), "value");
            out.finish()?;
            let from = match (self.many, self.origin) {
                (false, Some(origin)) => format!("from {origin}"),
                _ => format!(
                    "of {}, {} to {} sensors each",
                    count(self.samples, "sample"),
                    self.sensors.iter().min().unwrap_or(&0),
                    self.sensors.iter().max().unwrap_or(&0)
                ),
            };
            self.ui.note(format!("{}: {values} {from}", path.display()));
        }
        if let (Some(path), Some(sample), Some(found)) = (&arguments.plot, &sample, &found) {
            Picture::prediction(meta, sample, found).save(path)?;
            let of = match sample.name.as_deref().filter(|_| self.many) {
                Some(name) => format!(" of sample {name}"),
                None => String::new(),
            };
            self.ui
                .note(format!("{}: sensors and prediction{of}", path.display()));
        }
        Ok(())
    }
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

/// The names of columns.
fn names(channels: &[Channel]) -> Vec<String> {
    channels.iter().map(|c| c.name.clone()).collect()
}

/// An error where the user wants to stop.
fn go_on(observer: &dyn Observer) -> vidon::Result<()> {
    match observer.stopped() {
        true => Err(vidon::Error::Interrupted),
        false => Ok(()),
    }
}
