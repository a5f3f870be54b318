//! The folder of a run: its files, and the lock that keeps a second training out.
//!
//! | file | what it holds |
//! |---|---|
//! | `recipe.toml` | the recipe, complete |
//! | `best.safetensors`, `best.json` | the operator with the smallest validation error: what `eval` and `predict` use |
//! | `last.safetensors` | the operator at the end |
//! | `checkpoint.safetensors` | everything needed to go on |
//! | `metrics.jsonl`, `events.out.tfevents.vidon` | loss, rate, speed and validation error over the steps |

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{remove_parts, write_file};
use crate::network::Entry;
use crate::operator::Operator;
use crate::train::checkpoint::{Best, State, Subject};
use crate::train::metrics::{Metrics, Record};
use crate::train::recipe::Recipe;

/// The file that is read when a run's folder is named.
pub(crate) const BEST: &str = "best.safetensors";
pub(crate) const RECIPE: &str = "recipe.toml";
pub(crate) const LAST: &str = "last.safetensors";
pub(crate) const CHECKPOINT: &str = "checkpoint.safetensors";
/// Beside the best operator: which it is. It may be newer than the checkpoint.
pub(crate) const BEST_NOTE: &str = "best.json";
pub(crate) const LINES: &str = "metrics.jsonl";
pub(crate) const EVENTS: &str = "events.out.tfevents.vidon";
const LOCK: &str = ".lock";

/// A folder that this process alone writes to.
pub(crate) struct RunFolder {
    path: PathBuf,
    metrics: Option<Metrics>,
    /// Keeps a second training out of the folder.
    _lock: File,
}

impl RunFolder {
    /// For a new training; must not hold one yet.
    pub fn make(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(Error::io("make the folder", path))?;
        let folder = Self::lock(path)?;
        match path.join(RECIPE).exists() {
            false => Ok(folder),
            true => Err(Error::data(
                path,
                "already holds a training; resume it, or choose another folder",
            )),
        }
    }

    /// Of a training that has begun.
    pub fn open(path: &Path) -> Result<Self> {
        match path.join(RECIPE).exists() {
            true => Self::lock(path),
            false => Err(Error::data(
                path,
                format!("holds no {RECIPE}: it is not the folder of a training"),
            )),
        }
    }

    fn lock(path: &Path) -> Result<Self> {
        let lock = path.join(LOCK);
        let file = File::create(&lock).map_err(Error::io("write", &lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::data(
                    &lock,
                    "another training is running in this folder",
                ));
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &lock)(e)),
        }
        remove_parts(path);
        Ok(Self {
            path: path.to_path_buf(),
            metrics: None,
            _lock: file,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read_recipe(&self) -> Result<Recipe> {
        Recipe::read(&self.path.join(RECIPE))
    }

    pub fn write_recipe(&self, recipe: &Recipe) -> Result<()> {
        let text = recipe.to_toml()?;
        write_file(&self.path.join(RECIPE), |out| {
            out.write_all(text.as_bytes())
        })
    }

    /// Starts the history, or goes on with what it had up to `step`.
    pub fn open_metrics(&mut self, step: Option<u64>) -> Result<()> {
        self.metrics = Some(Metrics::open(&self.path, step)?);
        Ok(())
    }

    pub fn record(&mut self, record: &Record) -> Result<()> {
        match &mut self.metrics {
            Some(metrics) => metrics.write(record),
            None => Ok(()),
        }
    }

    /// Writes the checkpoint, unless a number is not finite; says whether it did.
    pub fn save_state(&self, state: &State, entries: &[Entry], subject: &Subject) -> Result<bool> {
        state.save(entries, subject, &self.path.join(CHECKPOINT))
    }

    pub fn load_state(&self, entries: &[Entry], mean: bool, subject: &Subject) -> Result<State> {
        let mut state = State::load(entries, mean, subject, &self.path.join(CHECKPOINT))?;
        if let Some(best) = Best::read(&self.path)
            && state.progress.best.is_none_or(|b| best.error < b.error)
        {
            state.progress.best = Some(best);
        }
        Ok(state)
    }

    pub fn save_best(&self, operator: &Operator, best: &Best) -> Result<()> {
        operator.save(&self.path.join(BEST))?;
        best.write(&self.path)
    }

    pub fn save_last(&self, operator: &Operator) -> Result<()> {
        operator.save(&self.path.join(LAST))
    }
}
