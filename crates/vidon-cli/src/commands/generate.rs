//! `vidon generate`: samples of the paper's problems as a dataset.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use vidon::data::Generator;
use vidon::problems::{Boundary, ProblemName, Split};
use vidon::sensors::Layout;
use vidon::{Error, Result};

use crate::choice::{Choice, one_of};
use crate::commands::cache::Cache;
use crate::ui::{Ui, count};

/// Make samples of one of the paper's problems
///
/// Each sample is a function seen by sensors, and the function that the problem maps it to. Training and validation
/// targets are known at the sample's own sensors (Allen–Cahn: at 21 times); test targets on a fine grid.
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
    #[arg(value_parser = one_of(PROBLEMS))]
    problem: ProblemName,

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

    /// Boundary condition (darcy)
    #[arg(long, value_parser = one_of(BOUNDARIES))]
    boundary: Option<Boundary>,

    /// The dataset to write
    #[arg(long, short, value_name = "FILE.parquet")]
    out: PathBuf,

    #[command(flatten)]
    cache: Cache,
}

pub const PROBLEMS: &[Choice<ProblemName>] = &[
    (
        ProblemName::Darcy,
        "darcy",
        "Porous flow on the unit square: permeability to pressure",
    ),
    (
        ProblemName::AllenCahn,
        "allen-cahn",
        "Travelling fronts on [0,2]²: the start to all of space-time",
    ),
    (
        ProblemName::NavierStokes,
        "navier-stokes",
        "Decaying vortices on the torus: vorticity at t = 0 to t = 5",
    ),
];

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

const BOUNDARIES: &[Choice<Boundary>] = &[
    (
        Boundary::Dirichlet,
        "dirichlet",
        "u = 0 on the boundary, f = 1 (the default)",
    ),
    (
        Boundary::Periodic,
        "periodic",
        "The torus, f = sin(2πx)·sin(2πy)",
    ),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let problem = arguments.problem.problem(arguments.boundary)?;
    let split = arguments.split;
    let samples = arguments.samples.unwrap_or(split.paper_size());
    if samples == 0 {
        return Err(Error::Setting("--samples must be at least 1".into()));
    }
    let cache = arguments.cache.folder()?;
    let sensor_seed = arguments.sensor_seed.unwrap_or(arguments.seed);
    let generator = Generator::new(
        &*problem,
        arguments.layout,
        split,
        arguments.seed,
        sensor_seed,
        cache.as_deref(),
    )?;
    if let Some(cache) = &cache {
        ui.note(format!("functions are kept in {}", cache.display()));
    }
    let start = Instant::now();
    let done = generator.write(samples, &arguments.out, &ui.progress(samples))?;
    let seconds = start.elapsed().as_secs_f64();
    let mut words = format!(
        "{}: {} in {seconds:.1} s ({:.1} ms each)",
        arguments.out.display(),
        count(done.samples, "sample"),
        1e3 * seconds / done.samples as f64
    );
    if done.from_cache > 0 {
        words += &format!(
            ", {} from the cache",
            count(done.from_cache, "function pair")
        );
    }
    if done.redrawn > 0 {
        words += &format!(", {} drawn again", count(done.redrawn, "function"));
    }
    ui.note(words);
    Ok(())
}
