//! `vidon demo`: from nothing to a trained network and a picture, in about two minutes.

use std::path::PathBuf;

use clap::Args;
use vidon::files::plain_file;
use vidon::sensors::Layout;
use vidon::train::{Budget, Recipe, Stop, Training};
use vidon::{Error, ModelName, Operator};

use crate::commands::cache::Cache;
use crate::commands::eval::{PREDICTION, test_network, test_run};
use crate::commands::reproduce::published::published;
use crate::commands::train::{how_to_go_on, run_training};
use crate::failure::{Failure, Result};
use crate::ui::{Ui, percent, print};

/// Learn travelling fronts from scattered sensors in two minutes: start here
///
/// Makes Allen–Cahn data (fronts that travel through a square) with randomly placed sensors, a different
/// number and different places in every sample, trains a VIDON (a least-squares projection of the sensors,
/// then a perceptron) to predict all of space-time from the sensors at t = 0, measures its error on functions
/// it has never seen, and draws them.
#[derive(Args)]
pub struct Arguments {
    /// Folder for the run and the pictures
    #[arg(long, short, value_name = "FOLDER", default_value = "runs/demo")]
    out: PathBuf,

    /// Train nothing: show what three networks that come with the program do, one for each problem
    #[arg(long, conflicts_with = "budget")]
    pretrained: bool,

    /// How long to train
    #[arg(long, value_name = "TIME", default_value = "100s")]
    budget: Budget,

    /// Test samples to measure the error with
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    samples: u16,

    #[command(flatten)]
    cache: Cache,
}

const RECIPE: &str = include_str!("../../../../recipes/fast/allen-cahn-variable.toml");

/// Networks that come with the program, trained on the layout `variable`.
const PRETRAINED: [(&str, &[u8]); 3] = [
    (
        "darcy",
        include_bytes!("../../../../models/darcy.safetensors"),
    ),
    (
        "allen-cahn",
        include_bytes!("../../../../models/allen-cahn.safetensors"),
    ),
    (
        "navier-stokes",
        include_bytes!("../../../../models/navier-stokes.safetensors"),
    ),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let folder = &arguments.out;
    if arguments.pretrained {
        return show_pretrained(&arguments, ui);
    }
    if plain_file(folder, "recipe.toml")?.exists() {
        return Err(Failure::Words(format!(
            "{0} holds a run already; remove it, or choose another folder with --out. To see what it learned:\n  vidon eval {0}",
            folder.display()
        )));
    }
    let cache = arguments.cache.folder()?;
    let mut recipe = Recipe::parse(RECIPE, &[])
        .map_err(|what| Failure::Words(format!("the demo's recipe: {what}")))?;
    recipe.train.budget = Some(arguments.budget);
    ui.note("1. data: 1000 fronts seen by 608 to 744 random sensors each");
    let watch = ui.spinner("making the data");
    let training = Training::begin(recipe, folder, cache.as_deref(), &watch)?;
    drop(watch);
    ui.note(format!("2. training for {}", arguments.budget));
    let outcome = run_training(training, folder, ui)?;
    if outcome.stop == Stop::Interrupted {
        return Err(how_to_go_on(folder, ui));
    }
    let samples = arguments.samples as usize;
    ui.note(format!(
        "3. testing on {samples} new fronts, on 76 × 76 points at 41 times"
    ));
    let summary = test_run(folder, samples, cache, ui)?;
    let paper = published("allen-cahn", Layout::Variable, ModelName::Vidon);
    print(&format!(
        "\nmean relative L² error on {samples} test samples: {} (the paper's VIDON, after 2 million steps on a GPU: {})

pictures
  {}   input, truth, prediction and error
  {}     learning curves

what to try next
  vidon eval {folder} --layout missing --samples 100         sensors as it has never seen them
  vidon train --resume {folder} --budget 10m                 train for longer
  vidon train recipes/fast/darcy-variable.toml --budget 5m   another problem
  vidon reproduce --list                                     the paper's tables, cell by cell
  vidon import --help                                        your own data",
        percent(summary.mean),
        percent(paper.expect("a cell of the paper's table").mean),
        folder.join(PREDICTION).display(),
        folder.join("learning.png").display(),
        folder = folder.display()
    ))
}

/// Tests and draws the networks that come with the program.
fn show_pretrained(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let (folder, samples) = (&arguments.out, arguments.samples as usize);
    std::fs::create_dir_all(folder).map_err(|source| Error::Io {
        action: "make the folder",
        path: folder.clone(),
        source,
    })?;
    let mut lines = vec![format!(
        "{:<16} {:>10} {:>12}  picture",
        "problem", "error", "the paper's"
    )];
    for (name, bytes) in PRETRAINED {
        ui.note(format!("{name}: testing on {samples} new functions"));
        let operator = Operator::from_bytes(name, bytes)?;
        let picture = plain_file(folder, format!("{name}.png"))?;
        let cache = arguments.cache.folder()?;
        let summary = test_network(&operator, samples, &picture, cache, ui)?;
        let paper = published(name, Layout::Variable, ModelName::Vidon);
        lines.push(format!(
            "{name:<16} {:>10} {:>12}  {}",
            percent(summary.mean),
            percent(paper.expect("a cell of the paper's table").mean),
            picture.display()
        ));
    }
    print(&format!(
        "\n{}\n\nmean relative L² error, sensors at random places, their number different in every sample\nthe networks are in the folder models of the repository: vidon predict --help, vidon eval --help",
        lines.join("\n")
    ))
}
