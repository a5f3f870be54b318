//! `vidon predict`: what a trained network answers to sensors.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use vidon::Operator;
use vidon::data::{Channel, Rows, Sample};
use vidon::plot::Picture;

use crate::commands::draw_heads;
use crate::failure::{Failure, Result};
use crate::ui::{Ui, count};

/// Predict a function from sensors
///
/// The sensors are a table (CSV or Parquet) with a column for every coordinate and value, by the names the
/// network was trained with (`vidon inspect` shows them). The function is predicted on a grid over the domain
/// of the training data, or at the places of another table.
#[derive(Args)]
#[command(group(ArgGroup::new("where").required(true).args(["grid", "queries"])), after_help = "Examples:
  vidon predict runs/mine --sensors s.csv --grid 65x65 --out v.csv --plot v.png
  vidon predict best.safetensors --sensors s.csv --queries q.csv --out v.parquet
  vidon predict runs/fronts --sensors s.csv --grid 76x76x41 --out v.npy")]
pub struct Arguments {
    /// Folder of a run, or a weights file (.safetensors)
    model: PathBuf,

    /// Table of sensors: coordinates and values
    #[arg(long, value_name = "FILE")]
    sensors: PathBuf,

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
            let mut read = [Some(&self.sensors), self.queries.as_ref()]
                .into_iter()
                .flatten();
            let same = |file: &PathBuf| matches!((file.canonicalize(), out.canonicalize()), (Ok(a), Ok(b)) if a == b);
            if read.any(same) {
                return Err(Failure::Words(format!(
                    "{} is to be read and written at once; choose another --out",
                    out.display()
                )));
            }
        }
        Ok(())
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
    let columns = [names(&meta.sensor_coords), names(&meta.sensor_values)];
    let [coords, values] = Rows::read(&arguments.sensors, &columns)?;
    let queries = match (&arguments.grid, &arguments.queries) {
        (Some(grid), _) => meta.query_points(&grid.0)?,
        (None, Some(path)) => {
            let [queries] = Rows::read(path, &[names(&meta.query_coords)])?;
            queries
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    for note in operator.doubts(&coords, &values, &queries) {
        ui.note(format!("note: {note}"));
    }
    let found = operator.predict(&coords, &values, &queries)?;
    let sample = Sample {
        name: None,
        sensor_coords: coords,
        sensor_values: values,
        query_coords: Arc::new(queries),
        targets: found.clone(),
    };
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
            count(sample.sensor_coords.len(), "sensor")
        ));
    }
    if let Some(path) = &arguments.plot {
        Picture::prediction(meta, &sample, &found).save(path)?;
        ui.note(format!("{}: sensors and prediction", path.display()));
    }
    Ok(())
}
