//! `vidon generate`: samples of a problem as a dataset.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::Value;
use vidon::data::{Dataset, ProblemSource};
use vidon::problems::{Split, named};
use vidon::sensors::Layout;

use crate::choice::{Choice, a_problem, one_of};
use crate::commands::cache::Cache;
use crate::failure::{Failure, Result};
use crate::ui::{Ui, count};

/// Make samples of a problem, such as those of the paper
///
/// Each sample is a function seen by sensors, and the function that the problem maps it to. Training and
/// validation targets are known at the sample's own sensors (Allen–Cahn: at 21 times); test targets on a fine
/// grid.
///
/// The same problem, seed and split always give the same functions, whatever the layout and the number of samples.
/// They are kept in the cache, so the second layout of a problem is quick.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon generate darcy --layout variable --split train --out train.parquet
  vidon generate allen-cahn --layout random --split test --samples 100 --out test.parquet
  vidon generate navier-stokes --layout regular --split val --seed 7 --out val.parquet")]
pub struct Arguments {
    /// Which problem
    #[arg(value_parser = a_problem())]
    problem: &'static str,

    /// Where the sensors are
    #[arg(long, value_parser = one_of(LAYOUTS))]
    layout: Layout,

    /// What the samples are for; each split has functions of its own
    #[arg(long, value_parser = one_of(SPLITS))]
    split: Split,

    /// How many [default: as in the paper: 1000 train, 32 val, 5000 test]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,

    /// Chooses the functions and the sensors
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Chooses the sensors alone, for several sensor sets on the same functions [default: the seed]
    #[arg(long, value_name = "S")]
    sensor_seed: Option<u64>,

    /// Change a setting of the problem, such as boundary=periodic (darcy); may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_parameter)]
    parameter: Vec<(String, Value)>,

    /// The dataset to write
    #[arg(long, short, value_name = "FILE.parquet")]
    out: PathBuf,

    #[command(flatten)]
    cache: Cache,
}

pub const LAYOUTS: &[Choice<Layout>] = &[
    (Layout::Regular, "regular", "Cartesian grid, ends included"),
    (
        Layout::Irregular,
        "irregular",
        "One random set, the same for every sample",
    ),
    (
        Layout::Missing,
        "missing",
        "The grid with a random 0–20 % removed",
    ),
    (
        Layout::Perturbed,
        "perturbed",
        "Grid points moved at random, their number ±10 %",
    ),
    (
        Layout::Random,
        "random",
        "Random places, new in every sample",
    ),
    (
        Layout::Variable,
        "variable",
        "Random places, their number ±10 %",
    ),
];

pub const SPLITS: &[Choice<Split>] = &[
    (
        Split::Train,
        "train",
        "To learn from; targets at the sensors",
    ),
    (Split::Val, "val", "To choose by; targets at the sensors"),
    (Split::Test, "test", "To judge by; targets on a fine grid"),
];

/// A setting of a problem: its name, and a value as in JSON, or a word.
fn parse_parameter(text: &str) -> std::result::Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into()));
    Ok((name.into(), value))
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let parameters = arguments.parameter.into_iter().collect();
    let problem = named(arguments.problem, &parameters)?;
    let split = arguments.split;
    let samples = arguments.samples.unwrap_or(split.paper_size());
    if samples == 0 {
        return Err(Failure::Words("--samples must be at least 1".into()));
    }
    let cache = arguments.cache.folder()?;
    let sensor_seed = arguments.sensor_seed.unwrap_or(arguments.seed);
    if let Some(cache) = &cache {
        ui.note(format!("functions are kept in {}", cache.display()));
    }
    let data = Dataset::from_source(ProblemSource {
        problem,
        layout: arguments.layout,
        split,
        seed: arguments.seed,
        sensor_seed,
        cache,
        sensors_on_grid: false,
        scattered: None,
    });
    let start = Instant::now();
    data.write(&arguments.out, samples, &ui.progress(samples))?;
    let seconds = start.elapsed().as_secs_f64();
    ui.note(format!(
        "{}: {} in {seconds:.1} s ({:.1} ms each)",
        arguments.out.display(),
        count(samples, "sample"),
        1e3 * seconds / samples as f64
    ));
    Ok(())
}
