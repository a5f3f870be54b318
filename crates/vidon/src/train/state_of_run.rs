//! How far the training in a folder has come, read without its data.

use std::path::Path;

use crate::error::Result;
use crate::files::plain_file;
use crate::train::checkpoint::{Best, Progress};
use crate::train::metrics::Record;
use crate::train::recipe::Recipe;
use crate::train::run_folder::RECIPE;

/// A training that has begun.
pub struct RunState {
    recipe: Recipe,
    progress: Progress,
    steps_per_epoch: u64,
    /// The weights that did best on the validation data, none before the first look.
    pub best: Option<Best>,
}

impl RunState {
    /// None where no training has begun.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = plain_file(folder, RECIPE)?;
        if !path.exists() {
            return Ok(None);
        }
        // Any record tells how long an epoch is; the checkpoint alone tells where a resumed training goes on.
        let records = Record::read_all(folder)?;
        let last = records.last().filter(|r| r.step > 0);
        Ok(Some(Self {
            recipe: Recipe::read(&path)?,
            progress: Progress::read(folder)?,
            steps_per_epoch: last.map_or(u64::MAX, |r| (r.step as f64 / r.epoch).round() as u64),
            best: Best::read(folder)?,
        }))
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.progress.step
    }

    /// Time spent.
    pub fn seconds(&self) -> f64 {
        self.progress.seconds
    }

    /// Seconds that its budget leaves, where it has one.
    pub fn seconds_left(&self) -> Option<f64> {
        let budget = self.recipe.train.budget?.seconds();
        Some((budget - self.seconds()).max(0.0))
    }

    /// Whether steps, epochs, budget or patience are used up.
    pub fn finished(&self) -> bool {
        let Progress {
            step,
            seconds,
            best,
            ..
        } = self.progress;
        let (train, per_epoch) = (&self.recipe.train, self.steps_per_epoch);
        train.share(step, per_epoch, seconds) >= 1.0
            || train.out_of_patience(step, best.map(|b| b.step), per_epoch)
    }

    /// Whether `recipe`, of one of the paper's problems, would be the same training but for its limits.
    pub fn follows(&self, recipe: &Recipe) -> Result<bool> {
        let mut wanted = recipe.clone();
        let (source, _) = wanted.data.sources(None)?;
        wanted.model.fill_frames(&source.meta()?);
        let own = &self.recipe.train;
        // What the recipe leaves open was decided when the training began.
        wanted.train.coefficients = wanted.train.coefficients.or(own.coefficients);
        (wanted.train.steps, wanted.train.epochs) = (own.steps, own.epochs);
        wanted.train.budget = own.budget;
        Ok(wanted == self.recipe)
    }
}
