//! `vidon reproduce`: the paper's tables, cell by cell, as a report.

mod cells;
mod machine;
mod page;
pub mod published;
mod report;
mod state;

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::Error;
use vidon::files::plain_folder;
use vidon::train::{Budget, Recipe, Stop, Training, remove_unfinished};

use crate::commands::cache::Cache;
use crate::commands::eval::test_run;
use crate::commands::train::{draw_learning, run_training};
use crate::failure::{Failure, Result};
use crate::ui::{Ui, clock, count, percent, print};
use cells::{Cell, Selection};
use report::write_report;
use state::{State, keep_test};

/// Train and test the cells of the paper's tables, and report them beside the paper's numbers
///
/// A cell is a problem, a sensor layout and a network. Each is trained by its recipe, which the program
/// carries, measured on test functions it has never seen, and written into report.md and report.html (with
/// all figures inside) as soon as it is done.
///
/// The same command goes on where it stopped, by Ctrl-C or otherwise: what is trained is not trained again,
/// what is tested is not tested again. A larger --budget trains on to it, more --samples test again. Without
/// --budget a run keeps the limits it began with.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon reproduce --list
  vidon reproduce --problem darcy --layout variable --budget 2m
  vidon reproduce
  vidon reproduce --family paper --model fno --model deeponet --layout regular --budget 30m
  vidon reproduce --samples 5000 --out report")]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,

    /// How long to train each cell in all, such as 90s, 30m, 1h30m [default: as its recipe or run says]
    #[arg(long, value_name = "TIME")]
    budget: Option<Budget>,

    /// Test samples to measure the error with, of the paper's 5000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=5000))]
    samples: u16,

    /// Change a setting of the recipes; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Folder for the report and its runs
    #[arg(long, short, value_name = "FOLDER", default_value = "report")]
    out: PathBuf,

    /// Only say how the cells stand
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    cache: Cache,
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let cells = arguments.selection.cells()?;
    if arguments.list {
        return print(&overview(&cells, &arguments.out)?);
    }
    let (mut work, mut left) = (Vec::new(), Some(0.0));
    for cell in &cells {
        let recipe = cell.recipe(&arguments.set, arguments.budget)?;
        let folder = plain_folder(&arguments.out, cell.run())?;
        let state = State::read(&folder)?;
        check(&folder, &state, &recipe)?;
        let own = state.seconds_left(&recipe, arguments.budget);
        left = left.zip(own).map(|(all, own)| all + own);
        work.push((cell, recipe));
    }
    ui.note(match left {
        Some(seconds) => format!("up to {} of training to go", clock(seconds)),
        None => "training as long as the authors did takes hours (FNO) to weeks (VIDON) for a cell; --budget cuts it short"
            .into(),
    });
    let session = Session {
        out: &arguments.out,
        budget: arguments.budget,
        samples: arguments.samples as usize,
        cache: arguments.cache.folder()?,
        ui,
    };
    let mut failed = Vec::new();
    for (i, (cell, recipe)) in work.into_iter().enumerate() {
        ui.note(format!("{} of {}: {}", i + 1, cells.len(), cell.name()));
        match session.reproduce(cell, recipe) {
            Ok(()) => {}
            Err(Failure::Library(Error::Interrupted)) => {
                ui.note("the same command goes on from here");
                return Err(Failure::Stopped);
            }
            // One network that does not learn leaves the others worth having.
            Err(Failure::Library(Error::Numerics(what))) => {
                failed.push(format!("{}: {what}", cell.name()))
            }
            Err(other) => return Err(other),
        }
        write_report(&arguments.out)?;
    }
    let report = arguments.out.join("report.md");
    print(&format!(
        "{}\n\n{}\n{}",
        overview(&cells, &arguments.out)?,
        report.display(),
        report.with_extension("html").display()
    ))?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Words(failed.join("\n"))),
    }
}

/// A line for every cell: how it stands, and what the paper has.
fn overview(cells: &[Cell], out: &Path) -> Result<String> {
    let line = |cell: &Cell| -> Result<String> {
        let state = State::read(&plain_folder(out, cell.run())?)?;
        let paper = cell
            .published()
            .map(|p| format!("paper {}", percent(p.mean)));
        Ok(format!(
            "{:<34} {:<14} {state}",
            cell.name(),
            paper.unwrap_or_default()
        ))
    };
    let lines: Vec<String> = cells.iter().map(line).collect::<Result<_>>()?;
    Ok(lines.join("\n"))
}

/// A run that was begun by another recipe is no part of this report.
fn check(folder: &Path, state: &State, recipe: &Recipe) -> Result<()> {
    match &state.standing {
        Some(standing) if !standing.follows(recipe)? => Err(Failure::Words(format!(
            "{} was begun by another recipe (older, or with other --set settings); remove it, or choose another folder with --out",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// What all cells share.
struct Session<'a> {
    out: &'a Path,
    budget: Option<Budget>,
    samples: usize,
    cache: Option<PathBuf>,
    ui: &'a Ui,
}

impl Session<'_> {
    /// Trains and tests what of a cell is not done yet.
    fn reproduce(&self, cell: &Cell, recipe: Recipe) -> Result<()> {
        let folder = plain_folder(self.out, cell.run())?;
        let state = State::read(&folder)?;
        if state.goes_on(self.budget) {
            self.train(&folder, &state, recipe)?;
        } else if let Some(standing) = &state.standing {
            let (steps, time) = (standing.step() as usize, clock(standing.seconds()));
            let steps = count(steps, "step");
            self.ui.note(format!("trained already: {steps} in {time}"));
            // It may have been killed after its last step.
            remove_unfinished(&folder);
            draw_learning(&folder)?;
        }
        if !State::read(&folder)?.has_tested(self.samples) {
            let errors = test_run(&folder, self.samples, self.cache.clone(), self.ui)?;
            keep_test(&folder, errors)?;
        }
        Ok(())
    }

    fn train(&self, folder: &Path, state: &State, recipe: Recipe) -> Result<()> {
        let cache = self.cache.as_deref();
        let watch = self.ui.spinner("making or reading the data");
        let training = match &state.standing {
            None => Training::begin(recipe, folder, cache, &watch)?,
            Some(standing) => {
                if let (true, Some(budget)) = (state.finished(), self.budget) {
                    let time = clock(standing.seconds());
                    self.ui
                        .note(format!("trained for {time} already, now on to {budget}"));
                }
                Training::resume(folder, None, self.budget, cache, &watch)?
            }
        };
        drop(watch);
        match run_training(training, folder, self.ui)?.stop {
            Stop::Interrupted => Err(Error::Interrupted.into()),
            _ => Ok(()),
        }
    }
}
