//! Training: a recipe becomes a folder with the network that did best on the validation data.
//!
//! | file | what it holds |
//! |---|---|
//! | `recipe.toml` | the recipe, complete |
//! | `best.safetensors` | the weights with the smallest validation error: what `eval` and `predict` use |
//! | `last.safetensors` | the weights at the end |
//! | `checkpoint.safetensors` | everything needed to go on |
//! | `metrics.jsonl`, `events.out.tfevents.vidon` | loss, rate, speed and validation error over the steps |
//!
//! All randomness of step k comes from the seed and k. A training that was stopped, or killed, and resumed is the
//! training that was never stopped, bit for bit.

mod budget;
mod checkpoint;
mod data;
mod events;
mod fitted;
mod loss;
mod metrics;
mod motion;
mod observer;
mod optimiser;
mod recipe;
mod schedule;
mod standing;
mod step;

pub use budget::Budget;
pub use checkpoint::Best;
pub use data::Floors;
pub use metrics::{Record, read_metrics};
pub use observer::{Observer, Outcome, Status, Stop};
pub use optimiser::Optimiser;
pub use recipe::{DataRecipe, Loss, Recipe, TrainRecipe};
pub use schedule::Schedule;
pub use standing::Standing;
pub use step::time_steps;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use rand::seq::SliceRandom;
use vidon_kernels::{memory_limit, set_memory_limit};

use crate::data::{Batch, Rows, Sample, Subset, Watch};
use crate::error::{Error, Result};
use crate::eval::block_errors;
use crate::files::{remove_parts, write_file};
use crate::models::{Entry, Model, Weights, to_vec};
use crate::predict::{BEST, Predictor};
use crate::rng::stream;
use crate::train::checkpoint::{State, Subject};
use crate::train::data::Data;
use crate::train::metrics::{Metrics, now};
use crate::train::motion::{Known, move_batch};
use crate::train::step::take_step;

const RECIPE: &str = "recipe.toml";
const LAST: &str = "last.safetensors";
const LOCK: &str = ".lock";
/// Time between checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Steps between records.
const RECORD_EVERY: u64 = 10;

/// A training that has its data and can begin or go on.
pub struct Training {
    recipe: Recipe,
    folder: PathBuf,
    data: Data,
    model: Model,
    /// Names, shapes and what is not trained.
    entries: Vec<Entry>,
    state: State,
    metrics: Metrics,
    subject: Subject,
    /// Keeps a second training out of the folder.
    _lock: File,
}

impl Training {
    /// A new training in `folder`, which must not hold one yet. `cache` keeps computed functions.
    pub fn begin(
        recipe: Recipe,
        folder: &Path,
        cache: Option<&Path>,
        watch: &dyn Watch,
    ) -> Result<Self> {
        let made = !folder.exists();
        std::fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
        let lock = lock(folder)?;
        if folder.join(RECIPE).exists() {
            return Err(Error::data(
                folder,
                "already holds a training; resume it, or choose another folder",
            ));
        }
        let begun = Self::begin_locked(recipe, folder, cache, watch, lock);
        if begun.is_err() && made {
            // Nothing stays of a recipe that cannot run.
            let _ = std::fs::remove_dir_all(folder);
        }
        begun
    }

    fn begin_locked(
        mut recipe: Recipe,
        folder: &Path,
        cache: Option<&Path>,
        watch: &dyn Watch,
        lock: File,
    ) -> Result<Self> {
        for file in [&mut recipe.data.train, &mut recipe.data.val]
            .into_iter()
            .flatten()
        {
            *file = std::path::absolute(&*file).map_err(Error::io("find", file))?;
        }
        let text = |recipe: &Recipe| {
            recipe
                .to_toml()
                .map_err(|e| Error::Setting(format!("the recipe cannot be written: {e}")))
        };
        text(&recipe)?;
        let data = Data::load(&recipe, cache, watch)?;
        recipe.model.fill_frames(&data.meta);
        let text = text(&recipe)?;
        let training = Self::put_together(recipe, folder, data, false, lock)?;
        let first = &training.data.val[..1];
        block_errors(&Predictor::new(training.weights()), first)?;
        if !training.save()? {
            return Err(Error::Numerics(
                "the network's first numbers are not finite: do sensors or targets stand far outside of a frame of the recipe?"
                    .into(),
            ));
        }
        // Last, so that a folder with a recipe can be resumed.
        write_file(&folder.join(RECIPE), |out| out.write_all(text.as_bytes()))?;
        Ok(training)
    }

    /// Goes on with the training in `folder`, with other limits (in all, not from here) where they are given.
    pub fn resume(
        folder: &Path,
        steps: Option<u64>,
        budget: Option<Budget>,
        cache: Option<&Path>,
        watch: &dyn Watch,
    ) -> Result<Self> {
        let path = folder.join(RECIPE);
        if !path.exists() {
            return Err(Error::data(
                folder,
                format!("holds no {RECIPE}: it is not the folder of a training"),
            ));
        }
        let lock = lock(folder)?;
        let mut recipe = Recipe::read(&path)?;
        if steps.is_some() || budget.is_some() {
            (recipe.train.steps, recipe.train.budget) = (steps, budget);
            recipe.train.epochs = None;
        }
        let data = Data::load(&recipe, cache, watch)?;
        let training = Self::put_together(recipe, folder, data, true, lock)?;
        let progress = training.state.progress;
        let per_epoch = training.steps_per_epoch();
        let new_limits = steps.is_some() || budget.is_some();
        if new_limits
            && training
                .recipe
                .train
                .share(progress.step, per_epoch, progress.seconds)
                >= 1.0
        {
            return Err(Error::Setting(format!(
                "{} has had {} steps in {:.0} s already; steps and budget are those of the whole training",
                folder.display(),
                progress.step,
                progress.seconds
            )));
        }
        if new_limits {
            let text = training.recipe.to_toml().expect("it was read from TOML");
            write_file(&path, |out| out.write_all(text.as_bytes()))?;
        }
        Ok(training)
    }

    /// With the checkpoint of the folder, or from the start.
    fn put_together(
        recipe: Recipe,
        folder: &Path,
        mut data: Data,
        resumed: bool,
        lock: File,
    ) -> Result<Self> {
        remove_parts(folder);
        if let Some(gigabytes) = recipe.train.memory_gb {
            set_memory_limit((1e9 * gigabytes) as usize);
        }
        let (model, mut entries) = data.model(&recipe)?;
        let device = Device::flex().autodiff();
        let with_mean = recipe.train.ema.is_some();
        let subject = subject(&recipe, &data);
        let mut state = match resumed {
            true => State::load(&entries, &device, with_mean, &subject, folder)?,
            false => State::new(&entries, &device, with_mean),
        };
        // What was taken from the data then goes on to be used.
        for (entry, tensor) in entries.iter_mut().zip(&state.params.tensors) {
            if !entry.trained {
                entry.values = to_vec(tensor.clone());
            }
        }
        data.prepare(&recipe, &model, &entries)?;
        if resumed
            && let Some(best) = Best::read(folder)
            && state.progress.best.is_none_or(|b| best.error < b.error)
        {
            state.progress.best = Some(best);
        }
        let metrics = Metrics::open(folder, resumed.then_some(state.progress.step))?;
        Ok(Self {
            subject,
            recipe,
            folder: folder.to_path_buf(),
            data,
            model,
            entries,
            state,
            metrics,
            _lock: lock,
        })
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What may not have been meant, in words.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let [_, values, _, targets] = self.data.meta.widths();
        if self.recipe.train.symmetries.any() && values.max(targets) > 1 {
            notes.push(
                "symmetries move every component as a field of its own: right for temperature and salinity, wrong for the components of a vector (symmetries = {} leaves them out)"
                    .into(),
            );
        }
        let fewest = self.data.train.iter().map(|s| s.query_coords.len()).min();
        if let (Some(basis), Some(fewest), true) = (
            self.model.trunk_basis(),
            fewest,
            self.recipe.train.coefficients,
        ) && basis.len() > fewest
        {
            notes.push(format!(
                "the trunk has {} functions, but a sample has as few as {fewest} targets to fit them by; a smaller p may do better",
                basis.len()
            ));
        }
        notes
    }

    /// How far the functions of projection and trunk are from the training data.
    pub fn floors(&self) -> Floors {
        self.data.floors
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.state.progress.step
    }

    /// Bytes of activations that a step keeps for the way back, and the limit beyond which an operation's are worked out again.
    pub fn activation_bytes(&self) -> (usize, usize) {
        let train = &self.recipe.train;
        let count = |all: usize, limit: Option<usize>| limit.map_or(all, |l| l.min(all));
        let most =
            |of: &dyn Fn(&Sample) -> usize| self.data.train.iter().map(of).max().unwrap_or(0);
        let batch = train.batch.min(self.data.train.len());
        let sensors = batch * count(most(&|s| s.sensor_coords.len()), self.subset().sensors);
        let queries = batch * count(most(&|s| s.query_coords.len()), self.subset().queries);
        let limit = memory_limit();
        let parts = self.model.activations(batch, sensors, queries);
        let kept = parts.iter().map(|n| 4 * n).filter(|&n| n <= limit);
        (kept.sum(), limit)
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        let trained = self.entries.iter().filter(|e| e.trained);
        trained.map(|e| e.values.len()).sum()
    }

    fn steps_per_epoch(&self) -> u64 {
        self.data.train.len().div_ceil(self.recipe.train.batch) as u64
    }

    /// Trains to the end of the recipe, or until `observer` wants to stop.
    pub fn run(mut self, observer: &dyn Observer) -> Result<Outcome> {
        let started = Instant::now();
        let (step_before, before) = (self.step(), self.state.progress.seconds);
        let per_epoch = self.steps_per_epoch();
        let every = self.recipe.train.validate_every.unwrap_or(per_epoch);
        let (mut saved, mut saved_step) = (Instant::now(), step_before);
        let mut recorded = (Instant::now(), self.step());
        let (mut losses, mut samples) = (Vec::new(), 0);
        let mut stop = loop {
            let step = self.step();
            let share = self
                .recipe
                .train
                .share(step, per_epoch, self.state.progress.seconds);
            // A resumed training has looked at the step of its checkpoint already.
            let fresh = step > step_before || step == 0;
            let due = fresh && (step.is_multiple_of(every) || share >= 1.0);
            let seconds = before + started.elapsed().as_secs_f64();
            self.state.progress.seconds = seconds;
            let mut record = Record {
                step,
                epoch: step as f64 / per_epoch as f64,
                seconds,
                time: now(),
                rate: self.rate(),
                loss: losses.last().copied(),
                samples_per_second: None,
                val_error: None,
                best_error: None,
            };
            let interval = recorded.0.elapsed().as_secs_f64();
            if due {
                match self.validate()? {
                    Some(error) => record.val_error = Some(error),
                    None => break Stop::Diverged,
                }
            }
            record.best_error = self.state.progress.best.map(|b| b.error);
            if due || step.is_multiple_of(RECORD_EVERY) && step > recorded.1 {
                if samples > 0 {
                    record.samples_per_second = Some(samples as f64 / interval);
                    record.loss = Some(losses.iter().sum::<f64>() / losses.len() as f64);
                }
                self.metrics.write(&record)?;
                losses.clear();
                samples = 0;
                recorded = (Instant::now(), step);
            }
            let done = share - self.recipe.train.share(step_before, per_epoch, before);
            let pace = started.elapsed().as_secs_f64() / done.max(0.0);
            observer.status(&Status {
                share,
                eta: if share < 1.0 {
                    (1.0 - share) * pace
                } else {
                    0.0
                },
                record,
            });
            if share >= 1.0 {
                break Stop::Finished;
            }
            if observer.stopped() {
                break Stop::Interrupted;
            }
            let late = match self.recipe.train.checkpoint_every {
                Some(steps) => step > step_before && step.is_multiple_of(steps),
                None => saved.elapsed() >= CHECKPOINT_EVERY,
            };
            if late {
                if !self.save()? {
                    break Stop::Diverged;
                }
                (saved, saved_step) = (Instant::now(), step);
            }
            let (loss, seen) = self.advance()?;
            samples += seen;
            if !loss.is_finite() {
                break Stop::Diverged;
            }
            losses.push(loss);
        };
        if stop != Stop::Diverged {
            if self.save()? {
                saved_step = self.step();
                self.weights().save(&self.folder.join(LAST))?;
            } else {
                stop = Stop::Diverged;
            }
        }
        Ok(Outcome {
            stop,
            step: self.step(),
            seconds: self.state.progress.seconds,
            best: self.state.progress.best,
            checkpoint: saved_step,
        })
    }

    /// The learning rate of the next step.
    fn rate(&self) -> f64 {
        let train = &self.recipe.train;
        let (step, per_epoch) = (self.step(), self.steps_per_epoch());
        let share = train.share(step, per_epoch, self.state.progress.seconds);
        let rising = ((step + 1) as f64 / (train.warm_up + 1) as f64).min(1.0);
        train.rate * rising * train.schedule.factor(step as f64 / per_epoch as f64, share)
    }

    /// The samples of step k: batches of a permutation that is drawn anew every epoch.
    fn batch(&self) -> Batch {
        let train = &self.recipe.train;
        let (step, per_epoch) = (self.step(), self.steps_per_epoch());
        let mut order: Vec<usize> = (0..self.data.train.len()).collect();
        order.shuffle(&mut stream(train.seed, "epoch", step / per_epoch));
        let start = (step % per_epoch) as usize * train.batch;
        let end = (start + train.batch).min(order.len());
        let samples: Vec<&Sample> = order[start..end]
            .iter()
            .map(|&i| &self.data.train[i])
            .collect();
        let mut rng = stream(train.seed, "step", step);
        let mut batch = Batch::random(&samples, self.subset(), &mut rng);
        batch.fits = self.data.sensor_fits.as_ref().map(|fits| {
            let rows = order[start..end].iter().map(|&i| &fits[i][..]);
            Rows::new(fits[0].len(), rows.collect::<Vec<_>>().concat())
        });
        let fitted = self.data.target_fits.as_ref();
        batch.answers = fitted.map(|f| f.of(&order[start..end]));
        if train.symmetries.any() {
            let known = Known {
                sensors: self.model.projection(),
                answers: fitted.map(|f| f.projection()),
            };
            let coords = &self.data.meta.sensor_coords;
            move_batch(train.symmetries, &mut batch, coords, known, &mut rng);
        }
        if let (Some(fitted), Some(answers)) = (fitted, &mut batch.answers) {
            fitted.arrange(answers);
        }
        batch
    }

    /// What a step looks at of a sample. Where fits say all, a sensor or a query stands for the rest.
    fn subset(&self) -> Subset {
        let train = &self.recipe.train;
        Subset {
            sensors: match self.data.sensor_fits {
                Some(_) if !self.model.looks_at_sensors() => Some(1),
                _ => train.sensors,
            },
            queries: match self.data.target_fits {
                Some(_) => Some(1),
                None => train.queries,
            },
        }
    }

    /// Writes the checkpoint, unless a number is not finite; says whether it did.
    fn save(&self) -> Result<bool> {
        self.state.save(&self.entries, &self.subject, &self.folder)
    }

    /// One step; gives its loss and number of samples, and changes nothing if the loss is not finite.
    fn advance(&mut self) -> Result<(f64, usize)> {
        let batch = self.batch();
        let samples = batch.len();
        let rate = self.rate();
        let scale = (self.data.normalisation.as_ref(), self.data.size);
        let train = &self.recipe.train;
        let found = take_step(&mut self.state, train, &self.model, scale, batch, rate)?;
        if let Some(decay) = train.ema
            && found.is_finite()
        {
            self.state.average(&self.entries, decay);
        }
        Ok((found, samples))
    }

    /// The mean relative L² error on the validation data; the best weights are kept. None if answers are no longer finite.
    fn validate(&mut self) -> Result<Option<f64>> {
        let weights = self.weights();
        let predictor = Predictor::new(weights);
        let errors = match block_errors(&predictor, &self.data.val) {
            // Before the first step it is the fault of the data.
            Err(Error::Numerics(_)) if self.step() > 0 => return Ok(None),
            found => found?,
        };
        let error = errors.iter().sum::<f64>() / errors.len() as f64;
        if self.state.progress.best.is_none_or(|b| error < b.error) {
            let best = Best {
                step: self.step(),
                error,
            };
            predictor.weights().save(&self.folder.join(BEST))?;
            best.write(&self.folder)?;
            self.state.progress.best = Some(best);
        }
        Ok(Some(error))
    }

    fn weights(&self) -> Weights {
        Weights {
            model: self.model.clone(),
            entries: self.state.entries(&self.entries),
            meta: self.data.meta.clone(),
            normalisation: self.data.normalisation.clone(),
            symmetries: self.recipe.train.symmetries,
        }
    }
}

fn subject(recipe: &Recipe, data: &Data) -> Subject {
    Subject {
        model: recipe.model.clone(),
        data: DataRecipe {
            train: None,
            val: None,
            ..recipe.data.clone()
        },
        contents: data.contents,
        seed: recipe.train.seed,
        scaling: [
            recipe.train.normalise,
            recipe.train.log_values,
            recipe.train.symmetries.odd,
        ],
    }
}

/// Keeps other trainings out of the folder for as long as the file is open.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(Error::io("write", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::data(
            &path,
            "another training is running in this folder",
        )),
        Err(TryLockError::Error(e)) => Err(Error::io("lock", &path)(e)),
    }
}

#[cfg(test)]
mod tests;
