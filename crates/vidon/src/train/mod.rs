//! Training: an operator learns from a dataset by a recipe. The loop works without a folder; a run has one
//! (`run_folder`) and can be stopped, or killed, at any moment.
//!
//! All randomness of step k comes from the seed and k. A training that was stopped and resumed is the
//! training that was never stopped, bit for bit.

mod amount;
mod batch;
mod budget;
mod checkpoint;
mod choose;
mod coefficients;
mod events;
mod held_out;
mod linear_start;
mod loss;
mod metric;
mod metrics;
mod optimiser;
mod origin;
mod outcome;
mod readings;
mod recipe;
pub(crate) mod run_folder;
mod samples;
mod schedule;
mod state_of_run;
mod step;
mod suits;
mod views;

pub use amount::Amount;
pub use budget::Budget;
pub use checkpoint::Best;
pub use metric::Metric;
pub use metrics::Record;
pub use optimiser::Optimiser;
pub use outcome::{Outcome, Stop};
pub use recipe::{DataRecipe, HoldOut, Loss, Recipe, TrainRecipe};
pub use run_folder::remove_unfinished;
pub use samples::Floors;
pub use schedule::Schedule;
pub use state_of_run::RunState;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vidon_kernels::{memory_limit, set_memory_limit};

use crate::config::ModelConfig;
use crate::data::{Dataset, Kind, Rows, Sample};
use crate::error::{Error, Result};
use crate::files::plain_file;
use crate::network::Entry;
use crate::observer::Observer;
use crate::operator::{Design, Operator};
use crate::train::batch::{Order, draw};
use crate::train::checkpoint::{Losses, State, Subject};
use crate::train::held_out::{Divided, check_nothing_is_held_out, hold_out};
use crate::train::metrics::now;
use crate::train::run_folder::{BEST, RunFolder};
use crate::train::samples::{Known, Loaded, TrainingSamples, prepare};
use crate::train::step::take_step;

/// Time between checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);
/// Steps between records.
const RECORD_EVERY: u64 = 10;

/// A training that has its data and can begin or go on.
pub struct Training {
    recipe: Recipe,
    design: Arc<Design>,
    samples: TrainingSamples,
    /// Names, shapes and what is not trained.
    entries: Vec<Entry>,
    state: State,
    order: Order,
    subject: Subject,
    /// The numbers of the best validation so far, where they were found in this process.
    best: Option<Vec<Entry>>,
    /// The best validation whose numbers are kept. A training that was killed may have been further than its
    /// checkpoint.
    kept: Option<Best>,
    folder: Option<RunFolder>,
}

impl Training {
    /// On samples in memory, without any folder. Where no validation samples are given, a part is held out, as the
    /// recipe says.
    pub fn new(
        recipe: Recipe,
        train: &Dataset,
        val: Option<&Dataset>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        Self::in_memory(None, recipe, train, val, observer)
    }

    /// The same from an operator that other data have taught: its weights are where the training starts, and its
    /// scaling and frames stay. Model, columns and units must be the same.
    pub fn new_from(
        origin: Operator,
        recipe: Recipe,
        train: &Dataset,
        val: Option<&Dataset>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        Self::in_memory(Some(origin), recipe, train, val, observer)
    }

    fn in_memory(
        origin: Option<Operator>,
        mut recipe: Recipe,
        train: &Dataset,
        val: Option<&Dataset>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        if let Some(origin) = &origin {
            origin::take_model(&mut recipe, origin)?;
        }
        let mut meta = train.meta()?;
        meta.query_grid = None;
        let samples = train.collect(train.usual(), observer)?;
        let Divided { train, val, notes } = match val {
            Some(val) => {
                check_nothing_is_held_out(&recipe.data)?;
                let both = ["the training data", "the validation data"];
                meta.check_same_channels(&val.meta()?, both)?;
                Divided {
                    train: samples,
                    val: val.collect(val.usual(), observer)?,
                    notes: Vec::new(),
                }
            }
            None => hold_out(&recipe.data, &meta, samples)?,
        };
        let loaded = Loaded {
            meta,
            train,
            val,
            contents: None,
            notes,
            origin,
        };
        Self::put_together(recipe, loaded, None, false, observer)
    }

    /// A new run in `folder`, which must not hold one yet. `cache` keeps computed functions.
    pub fn begin(
        recipe: Recipe,
        folder: &Path,
        cache: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        Self::in_folder(None, recipe, folder, cache, observer)
    }

    /// The same from an operator that other data have taught, as [`new_from`](Self::new_from). The folder keeps a copy
    /// of it.
    pub fn begin_from(
        origin: Operator,
        recipe: Recipe,
        folder: &Path,
        cache: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        Self::in_folder(Some(origin), recipe, folder, cache, observer)
    }

    fn in_folder(
        origin: Option<Operator>,
        mut recipe: Recipe,
        folder: &Path,
        cache: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        if let Some(origin) = &origin {
            origin::take_model(&mut recipe, origin)?;
        }
        let mut folder = RunFolder::make(folder)?;
        for file in [&mut recipe.data.train, &mut recipe.data.val]
            .into_iter()
            .flatten()
        {
            *file = std::path::absolute(&*file).map_err(Error::io("find", file))?;
        }
        // A path that cannot be written is found before the long part.
        recipe.to_toml()?;
        let mut loaded = Loaded::of_recipe(&recipe, cache, observer)?;
        if let Some(origin) = &origin {
            folder.save_origin(origin)?;
        }
        loaded.origin = origin;
        let mut training = Self::put_together(recipe, loaded, Some(folder), false, observer)?;
        let operator = training.operator();
        operator.in_physical_units(training.answers(&operator, 1)?)?;
        if !training.save()? {
            return Err(Error::Numerics(
                "the network's first numbers are not finite: do sensors or targets stand far outside of a frame of the recipe?"
                    .into(),
            ));
        }
        // Last, so that a folder with a recipe can be resumed.
        if let Some(folder) = &mut training.folder {
            folder.write_recipe(&training.recipe)?;
        }
        Ok(training)
    }

    /// Goes on with the training in `folder`, with other limits (in all, not from here) where they are given.
    pub fn resume(
        folder: &Path,
        steps: Option<u64>,
        budget: Option<Budget>,
        cache: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let run = RunFolder::open(folder)?;
        let mut recipe = run.read_recipe()?;
        let new_limits = steps.is_some() || budget.is_some();
        if new_limits {
            (recipe.train.steps, recipe.train.budget) = (steps, budget);
            recipe.train.epochs = None;
        }
        let mut loaded = Loaded::of_recipe(&recipe, cache, observer)?;
        loaded.origin = run.read_origin()?;
        if plain_file(folder, BEST)?.exists() {
            let both = ["the training so far", "the data now"];
            let before = Operator::load(folder)?;
            before.meta().check_same_channels(&loaded.meta, both)?;
        }
        let mut training = Self::put_together(recipe, loaded, Some(run), true, observer)?;
        let (progress, per_epoch) = (training.state.progress, training.steps_per_epoch());
        let limits = &training.recipe.train;
        if new_limits && limits.share(progress.step, per_epoch, progress.seconds) >= 1.0 {
            return Err(Error::setting(
                "train.steps",
                format!(
                    "{} has had {} steps in {:.0} s already; steps and budget are those of the whole training",
                    folder.display(),
                    progress.step,
                    progress.seconds
                ),
            ));
        }
        if let (true, Some(folder)) = (new_limits, &mut training.folder) {
            folder.write_recipe(&training.recipe)?;
        }
        Ok(training)
    }

    /// With the checkpoint of the folder, or from the start.
    fn put_together(
        mut recipe: Recipe,
        loaded: Loaded,
        mut folder: Option<RunFolder>,
        resumed: bool,
        observer: &dyn Observer,
    ) -> Result<Self> {
        if let Some(gigabytes) = recipe.train.memory_gb {
            set_memory_limit((1e9 * gigabytes) as usize);
        }
        if let Some(origin) = &loaded.origin {
            origin::take_units(&mut recipe.train, origin)?;
        }
        let with_mean = recipe.train.ema.is_some();
        let contents = loaded.contents;
        let origin = loaded.origin.as_ref().map(origin::checksum);
        let options = recipe.clone();
        let subject = |config: &ModelConfig| Subject::new(&options, config, contents, origin);
        let mut state = None;
        let mut load = |config: &ModelConfig, entries: &[Entry]| {
            let folder = folder.as_ref().expect("what is resumed has a folder");
            let loaded = folder.load_state(entries, with_mean, &subject(config))?;
            let known = loaded.fixed(entries);
            state = Some(loaded);
            Ok(known)
        };
        let known: Option<Known> = match resumed {
            true => Some(&mut load),
            false => None,
        };
        let (design, entries, samples) = prepare(&mut recipe, loaded, known, observer)?;
        let subject = subject(design.parts.config());
        let state = state.unwrap_or_else(|| State::new(&entries, with_mean));
        let mut kept = None;
        if let Some(folder) = &mut folder {
            folder.open_metrics(resumed.then_some(state.progress.step))?;
            if resumed {
                kept = folder.read_best()?;
            }
        }
        let mut training = Self {
            recipe,
            design,
            samples,
            entries,
            state,
            order: Order::new(),
            subject,
            best: None,
            kept,
            folder,
        };
        let val: Vec<&Sample> = training.samples.val.iter().collect();
        let codes = training.operator().encode(0, &val);
        training.samples.val_codes = codes.map_err(|e| e.of("validation"))?;
        Ok(training)
    }

    pub fn config(&self) -> &ModelConfig {
        self.design.parts.config()
    }

    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What may not have been meant, in words.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.samples.notes.clone();
        let (meta, parts) = (&self.design.meta, &self.design.parts);
        let sensors = self.samples.floors.sensors.iter();
        notes.extend(sensors.filter_map(|(name, share)| suits::poor_fit(name, *share)));
        for group in parts.unseen(&meta.groups) {
            let name = &meta.groups[group].name;
            notes.push(format!("no encoder of the recipe sees the group {name}"));
        }
        let groups = meta.groups.iter().enumerate();
        let places = groups.map(|(i, g)| (Some(i), &g.coords, g.name.as_str()));
        for (group, channels, name) in places.chain([(None, &meta.query_coords, "the queries")]) {
            let covariate = channels.iter().find(|c| c.covariate);
            if let Some(covariate) = covariate.filter(|_| !parts.sees_covariates(group)) {
                let who = match group.map(|g| meta.groups[g].kind) {
                    Some(Kind::Points) => "heads",
                    Some(_) => "a projection or heads",
                    None => "a fixed basis or a learned decoder",
                };
                notes.push(format!(
                    "the covariates of {name} ({} …) are not looked at: {who} would",
                    covariate.name
                ));
            }
        }
        let fields = meta.groups.iter().filter(|g| g.kind == Kind::Field);
        let widest = fields.map(|g| g.values.len()).max().unwrap_or(0);
        let targets = meta.targets.len();
        if self.recipe.train.symmetries.any() && widest.max(targets) > 1 {
            notes.push(
                "symmetries move every component as a field of its own: right for temperature and salinity, wrong for the components of a vector (symmetries = {} leaves them out)"
                    .into(),
            );
        }
        let fewest = self.samples.train.iter().map(|s| s.queries.len()).min();
        if let (Some(basis), Some(fewest), true) = (
            self.design.parts.decoder.basis(),
            fewest,
            self.recipe.train.compares_coefficients(),
        ) && basis.len() > fewest
        {
            notes.push(format!(
                "the decoder has {} functions, but a sample has as few as {fewest} targets to fit them by; fewer may do better",
                basis.len()
            ));
        }
        notes
    }

    /// What was chosen by the data where the recipe leaves it open, and why, in words.
    pub fn choice(&self) -> Option<&str> {
        self.samples.choice.as_deref()
    }

    /// The unit of the validation error: that of the targets, where there is one column and the metric keeps it.
    pub fn unit_of_error(&self) -> &str {
        match (self.recipe.train.metric, &self.design.meta.targets[..]) {
            (Metric::Rmse | Metric::Mae, [only]) => &only.unit,
            _ => "",
        }
    }

    /// How far the functions of the network are from the training data, however well it learns.
    pub fn floors(&self) -> &Floors {
        &self.samples.floors
    }

    /// The seconds that each of so many steps on all the samples takes, from the operator's numbers.
    pub fn time_steps(
        operator: &Operator,
        samples: &[Sample],
        recipe: &TrainRecipe,
        steps: usize,
    ) -> Result<Vec<f64>> {
        step::time_steps(operator, samples, recipe, steps)
    }

    /// Whether it started from what another training has learned.
    pub fn goes_on_from_another(&self) -> bool {
        self.subject.origin.is_some()
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.state.progress.step
    }

    /// Bytes of activations that a step keeps for the way back, and the limit beyond which they are worked
    /// out again.
    pub fn activation_bytes(&self) -> (usize, usize) {
        let train = &self.recipe.train;
        let count = |all: usize, limit: Option<Amount>| limit.map_or(all, |l| l.of(all));
        let samples = &self.samples.train;
        let sensors = samples.iter().map(|s| s.seen_sensors()).max().unwrap_or(0);
        let queries = match self.samples.targets {
            Some(_) => 0,
            None => samples.iter().map(|s| s.queries.len()).max().unwrap_or(0),
        };
        let batch = train.batch.min(self.samples.len());
        let batch = batch.div_ceil(train.micro_batches);
        let sensors = batch * count(sensors, train.sensors);
        let queries = batch * count(queries, train.queries);
        let limit = memory_limit();
        let parts = self.design.parts.activations(batch, sensors, queries);
        let kept = parts.iter().map(|n| 4 * n).fold(0, |kept, own| {
            let all = kept + own;
            if all <= limit { all } else { kept }
        });
        (kept, limit)
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        let trained = self.entries.iter().filter(|e| e.trained);
        trained.map(|e| e.values.len()).sum()
    }

    fn steps_per_epoch(&self) -> u64 {
        self.samples.len().div_ceil(self.recipe.train.batch) as u64
    }

    /// Trains to the end of the recipe, or until `observer` wants to stop.
    pub fn run(&mut self, observer: &dyn Observer) -> Result<Outcome> {
        let started = Instant::now();
        let (step_before, before) = (self.step(), self.state.progress.seconds);
        let per_epoch = self.steps_per_epoch();
        let every = self.recipe.train.validate_every.unwrap_or(per_epoch);
        let (mut saved, mut saved_step) = (Instant::now(), step_before);
        let mut recorded = (Instant::now(), self.step());
        let (mut last_loss, mut samples) = (None, 0);
        let mut out_of_patience = false;
        let mut stop = loop {
            let step = self.step();
            let seconds = before + started.elapsed().as_secs_f64();
            // Of the time that a checkpoint of this step has: it is never that of the end, unless this is the end.
            let share = self.recipe.train.share(step, per_epoch, seconds);
            self.state.progress.seconds = seconds;
            // A resumed training has looked at the step of its checkpoint already.
            let fresh = step > step_before || step == 0;
            let due = fresh && (step.is_multiple_of(every) || share >= 1.0);
            let mut record = Record {
                step,
                epoch: step as f64 / per_epoch as f64,
                seconds,
                time: now(),
                rate: self.rate(),
                loss: last_loss,
                samples_per_second: None,
                metric: self.recipe.train.metric,
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
                    record.loss = self.state.progress.unrecorded.mean();
                }
                if let Some(folder) = &mut self.folder {
                    folder.record(&record)?;
                }
                self.state.progress.unrecorded = Losses::default();
                samples = 0;
                recorded = (Instant::now(), step);
            }
            let done = share - self.recipe.train.share(step_before, per_epoch, before);
            let pace = started.elapsed().as_secs_f64() / done.max(0.0);
            let eta = if share < 1.0 {
                (1.0 - share) * pace
            } else {
                0.0
            };
            observer.status(&record, share, eta);
            let best = self.state.progress.best.map(|b| b.step);
            out_of_patience = self.recipe.train.out_of_patience(step, best, per_epoch);
            if share >= 1.0 || out_of_patience {
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
            last_loss = Some(loss);
            self.state.progress.unrecorded.add(loss);
        };
        if stop != Stop::Diverged {
            if self.state.is_finite() {
                let operator = self.operator();
                if let Some(folder) = &mut self.folder {
                    folder.save_last(&operator)?;
                }
                // Last: a training whose checkpoint is at its end has all that it leaves.
                self.save()?;
                saved_step = self.step();
            } else {
                stop = Stop::Diverged;
            }
        }
        Ok(Outcome {
            stop,
            out_of_patience,
            step: self.step(),
            seconds: self.state.progress.seconds,
            best: self.kept,
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

    /// Writes the checkpoint, unless a number is not finite; says whether all numbers are.
    fn save(&mut self) -> Result<bool> {
        match &mut self.folder {
            Some(folder) => folder.save_state(&self.state, &self.entries, &self.subject),
            None => Ok(self.state.is_finite()),
        }
    }

    /// One step; gives its loss and number of samples, and changes nothing if the loss is not finite.
    fn advance(&mut self) -> Result<(f64, usize)> {
        let (step, rate, train) = (self.step(), self.rate(), &self.recipe.train);
        let all = self.samples.len();
        let picked = self.order.batch(train, all, step);
        let (design, entries) = (&self.design, &self.entries);
        let batch = draw(train, design, entries, &self.samples, picked, step)?;
        let size = self.samples.size;
        let found = take_step(&mut self.state, train, design, size, &batch, rate)?;
        if let Some(decay) = train.ema
            && found.is_finite()
        {
            self.state.average(&self.entries, decay);
        }
        Ok((found, picked.len()))
    }

    /// The answers to the first validation samples, in the units in which the network learns.
    fn answers(&self, operator: &Operator, count: usize) -> Result<Vec<Rows>> {
        let val: Vec<&Sample> = self.samples.val.iter().take(count).collect();
        operator.answer_encoded(&self.samples.val_codes[..val.len()], &val)
    }

    /// The operator as it stands, with the spread of the validation targets around its answers, and the error there.
    fn look(&mut self) -> Result<(Operator, f64)> {
        let mut operator = self.operator();
        let found = self.answers(&operator, usize::MAX)?;
        let truth: Vec<&Rows> = self.samples.val.iter().map(|s| &s.targets).collect();
        if let Some(spread) = self.design.transforms.spread(&found, &truth) {
            self.state.set(self.entries.len() - 1, &spread);
            operator = self.operator();
        }
        let found = operator.in_physical_units(found)?;
        let error = self.recipe.train.metric.error(&found, &truth);
        Ok((operator, error))
    }

    /// The error on the validation data; the best numbers are kept. None if answers are no longer finite.
    fn validate(&mut self) -> Result<Option<f64>> {
        let (operator, error) = match self.look() {
            // Before the first step it is the fault of the data.
            Err(Error::Numerics(_)) if self.step() > 0 => return Ok(None),
            found => found?,
        };
        let best = Best {
            step: self.step(),
            error,
            metric: self.recipe.train.metric,
        };
        if self.state.progress.best.is_none_or(|b| error < b.error) {
            self.state.progress.best = Some(best);
            // Steps that are done again find again what is kept of them.
            if self.kept.is_none_or(|k| error <= k.error) {
                if let Some(folder) = &mut self.folder {
                    folder.save_best(&operator, &best)?;
                }
                self.best = Some(operator.entries().to_vec());
                self.kept = Some(best);
            }
        }
        Ok(Some(error))
    }

    /// The operator as it stands.
    pub(crate) fn operator(&self) -> Operator {
        Operator::with_numbers(self.design.clone(), self.state.entries(&self.entries))
    }

    /// The operator that did best on the validation data; as it stands, before the first validation.
    pub fn best_operator(&self) -> Result<Operator> {
        match (&self.best, &self.folder) {
            (Some(best), _) => Ok(Operator::with_numbers(self.design.clone(), best.clone())),
            (None, Some(folder)) if self.kept.is_some() => Operator::load(folder.path()),
            _ => Ok(self.operator()),
        }
    }
}

impl Operator {
    /// Learns from samples by a recipe, and gives the operator that did best on the validation data: the last
    /// tenth of the samples, or what else the recipe holds out.
    pub fn fit(data: &Dataset, recipe: &Recipe, observer: &dyn Observer) -> Result<Operator> {
        let mut training = Training::new(recipe.clone(), data, None, &())?;
        let outcome = training.run(observer)?;
        match outcome.stop {
            Stop::Diverged if outcome.best.is_none() => Err(Error::Numerics(
                "the training's numbers were no longer finite; a smaller rate, a warm_up or clip = 1.0 may help".into(),
            )),
            _ => training.best_operator(),
        }
    }
}

#[cfg(test)]
mod tests;
