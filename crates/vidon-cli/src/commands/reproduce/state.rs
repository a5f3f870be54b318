//! How a cell stands, read from the folder of its run.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vidon::eval::ErrorSummary;
use vidon::files::{plain_file, read_json, write_json};
use vidon::train::{Budget, Recipe, RunState};

use super::machine::{machine, program, today};
use crate::failure::Result;
use crate::ui::{clock, count, grouped, percent};

/// Its file in the folder of a run.
const TEST: &str = "test.json";

/// What a test found, and where.
#[derive(Clone, Serialize, Deserialize)]
pub struct Tested {
    /// The step of the weights that were tested.
    weights: u64,
    pub relative_l2: ErrorSummary,
    pub machine: String,
    pub program: String,
    pub date: String,
}

pub struct State {
    pub standing: Option<RunState>,
    /// Of the weights that are the best now.
    pub tested: Option<Tested>,
}

impl State {
    pub fn read(folder: &Path) -> Result<Self> {
        let standing = RunState::read(folder)?;
        let best = standing.as_ref().and_then(|s| s.best);
        let path = plain_file(folder, TEST)?;
        let tested: Option<Tested> = path.exists().then(|| read_json(&path)).transpose()?;
        Ok(Self {
            tested: tested.filter(|t| best.is_some_and(|b| b.step == t.weights)),
            standing,
        })
    }

    /// Whether at least so many samples were tested.
    pub fn has_tested(&self, samples: usize) -> bool {
        let tested = self.tested.as_ref();
        tested.is_some_and(|t| t.relative_l2.samples >= samples)
    }

    /// Whether the training has used up its limits.
    pub fn finished(&self) -> bool {
        self.standing.as_ref().is_some_and(RunState::finished)
    }

    /// Seconds that the training will still take at most, where it has a budget; `recipe` is for one that has
    /// not begun.
    pub fn seconds_left(&self, recipe: &Recipe, budget: Option<Budget>) -> Option<f64> {
        match &self.standing {
            _ if !self.goes_on(budget) => Some(0.0),
            None => recipe.train.budget.map(Budget::seconds),
            Some(standing) => match budget {
                Some(budget) => Some(budget.seconds() - standing.seconds()),
                None => standing.seconds_left(),
            },
        }
    }

    /// Whether there is something left to train, with `budget` for the whole training or with the run's own
    /// limits.
    pub fn goes_on(&self, budget: Option<Budget>) -> bool {
        match (&self.standing, budget) {
            (None, _) => true,
            (Some(standing), Some(budget)) => budget.seconds() > standing.seconds(),
            (Some(standing), None) => !standing.finished(),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Some(standing) = &self.standing else {
            return write!(f, "not begun");
        };
        let step = standing.step() as usize;
        match &self.tested {
            _ if !standing.finished() => write!(f, "at step {}", grouped(step)),
            None => write!(f, "trained for {}, not tested", count(step, "step")),
            Some(tested) => {
                let errors = &tested.relative_l2;
                let samples = count(errors.samples, "test sample");
                let spent = clock(standing.seconds());
                write!(
                    f,
                    "done: {} on {samples}, after {spent}",
                    percent(errors.mean)
                )
            }
        }
    }
}

/// Keeps what a test of the best weights found.
pub fn keep_test(folder: &Path, relative_l2: ErrorSummary) -> Result<()> {
    let best = RunState::read(folder)?.and_then(|s| s.best);
    let tested = Tested {
        weights: best.map_or(0, |b| b.step),
        relative_l2,
        machine: machine(),
        program: program(),
        date: today(),
    };
    Ok(write_json(&plain_file(folder, TEST)?, &tested)?)
}
