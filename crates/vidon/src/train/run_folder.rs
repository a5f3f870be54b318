//! The folder of a run: its files, and the lock that keeps a second training out.
//!
//! | file | what it holds |
//! |---|---|
//! | `recipe.toml` | the recipe, complete |
//! | `best.safetensors`, `best.json` | the operator with the smallest validation error: what `eval` and `predict` use |
//! | `last.safetensors` | the operator at the end |
//! | `checkpoint.safetensors` | everything needed to go on |
//! | `origin.safetensors` | the operator that it started from, where that learned elsewhere |
//! | `metrics.jsonl`, `events.out.tfevents.vidon` | loss, rate, speed and validation error over the steps |

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{Lock, plain_file, remove_left, write_file, write_json};
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
pub(crate) const ORIGIN: &str = "origin.safetensors";
/// Beside the best operator: which it is. It may be newer than the checkpoint.
pub(crate) const BEST_NOTE: &str = "best.json";
pub(crate) const LINES: &str = "metrics.jsonl";
pub(crate) const EVENTS: &str = "events.out.tfevents.vidon";
const LOCK: &str = ".lock";
/// All that a training writes as a whole.
const WRITTEN: [&str; 8] = [
    RECIPE, LAST, CHECKPOINT, ORIGIN, BEST, BEST_NOTE, LINES, EVENTS,
];

/// Removes what trainings in this folder were writing when they were killed; what another one is writing now stays.
pub fn remove_unfinished(folder: &Path) {
    WRITTEN
        .iter()
        .for_each(|name| remove_left(folder, name.as_ref()));
}

/// A folder in which this process alone trains. Dropped before its training has begun (with the recipe, which
/// is written last), it is left as it was found.
pub(crate) struct RunFolder {
    path: PathBuf,
    metrics: Option<Metrics>,
    begun: bool,
    /// Files, and then folders from the inside out, that a training made which has not begun.
    made: [Vec<PathBuf>; 2],
    /// Keeps a second training out of the folder.
    _lock: Lock,
}

impl RunFolder {
    /// For a new training; must not hold one yet.
    pub fn make(path: &Path) -> Result<Self> {
        let folders = path.ancestors().filter(|p| !p.as_os_str().is_empty());
        let folders = folders.take_while(|p| !p.exists());
        let folders = folders.map(Path::to_path_buf).collect();
        std::fs::create_dir_all(path).map_err(Error::io("make the folder", path))?;
        let lock = plain_file(path, LOCK)?;
        let files = Vec::from_iter((!lock.exists()).then_some(lock));
        let folder = Self::lock(path)?;
        match plain_file(path, RECIPE)?.exists() {
            false => Ok(folder.beginning([files, folders])),
            true => Err(Error::data(
                path,
                "already holds a training; resume it, or choose another folder",
            )),
        }
    }

    fn beginning(mut self, made: [Vec<PathBuf>; 2]) -> Self {
        (self.begun, self.made) = (false, made);
        self
    }

    /// Of a training that has begun.
    pub fn open(path: &Path) -> Result<Self> {
        match plain_file(path, RECIPE)?.exists() {
            true => Self::lock(path),
            false => Err(Error::data(
                path,
                format!("holds no {RECIPE}: it is not the folder of a training"),
            )),
        }
    }

    fn lock(path: &Path) -> Result<Self> {
        let lock = Lock::take(path, LOCK)?.ok_or_else(|| {
            Error::data(
                &path.join(LOCK),
                "another training is running in this folder",
            )
        })?;
        remove_unfinished(path);
        Ok(Self {
            path: path.to_path_buf(),
            metrics: None,
            begun: true,
            made: Default::default(),
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file is to be written.
    fn place(&mut self, name: &str) -> Result<PathBuf> {
        let path = plain_file(&self.path, name)?;
        if !self.begun && !path.exists() {
            self.made[0].push(path.clone());
        }
        Ok(path)
    }

    pub fn read_recipe(&self) -> Result<Recipe> {
        Recipe::read(&plain_file(&self.path, RECIPE)?)
    }

    pub fn write_recipe(&mut self, recipe: &Recipe) -> Result<()> {
        let text = recipe.to_toml()?;
        let path = self.place(RECIPE)?;
        write_file(&path, |out| out.write_all(text.as_bytes()))?;
        self.begun = true;
        Ok(())
    }

    /// Starts the history, or goes on with what it had up to `step`.
    pub fn open_metrics(&mut self, step: Option<u64>) -> Result<()> {
        let known = match step {
            Some(_) if plain_file(&self.path, LINES)?.exists() => Record::read_all(&self.path)?,
            _ => Vec::new(),
        };
        // Step 0 is looked at again, by a training that is resumed there too.
        let step = step.filter(|s| *s > 0);
        let records = known.into_iter().filter(|r| Some(r.step) <= step);
        let files = [self.place(LINES)?, self.place(EVENTS)?];
        self.metrics = Some(Metrics::open(files, &Vec::from_iter(records))?);
        Ok(())
    }

    pub fn record(&mut self, record: &Record) -> Result<()> {
        match &mut self.metrics {
            Some(metrics) => metrics.write(record),
            None => Ok(()),
        }
    }

    /// Writes the checkpoint, unless a number is not finite; says whether it did.
    pub fn save_state(
        &mut self,
        state: &State,
        entries: &[Entry],
        subject: &Subject,
    ) -> Result<bool> {
        state.save(entries, subject, &self.place(CHECKPOINT)?)
    }

    pub fn load_state(&self, entries: &[Entry], mean: bool, subject: &Subject) -> Result<State> {
        let path = plain_file(&self.path, CHECKPOINT)?;
        State::load(entries, mean, subject, &path)
    }

    /// Keeps what the training starts from: where that comes from may change.
    pub fn save_origin(&mut self, operator: &Operator) -> Result<()> {
        operator.save(&self.place(ORIGIN)?)
    }

    /// What the training of the checkpoint started from. One that never began may have left another's.
    pub fn read_origin(&self) -> Result<Option<Operator>> {
        let path = plain_file(&self.path, ORIGIN)?;
        let own = path.exists() && Subject::read(&self.path)?.origin.is_some();
        own.then(|| Operator::load(&path)).transpose()
    }

    /// Which operator is kept as the best.
    pub fn read_best(&self) -> Result<Option<Best>> {
        Best::read(&self.path)
    }

    pub fn save_best(&mut self, operator: &Operator, best: &Best) -> Result<()> {
        operator.save(&self.place(BEST)?)?;
        write_json(&self.place(BEST_NOTE)?, best)
    }

    pub fn save_last(&mut self, operator: &Operator) -> Result<()> {
        operator.save(&self.place(LAST)?)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.begun {
            let [files, folders] = &self.made;
            // Not all of the files were written in the end, and folders may hold more than these.
            files.iter().for_each(|f| drop(std::fs::remove_file(f)));
            folders.iter().for_each(|f| drop(std::fs::remove_dir(f)));
        }
    }
}
