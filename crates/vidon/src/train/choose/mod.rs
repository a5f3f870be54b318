//! A recipe for data of which nothing is said: family, functions, core, start, units and metric are chosen by the data,
//! and every choice is told in a line.
//!
//! 1. Units: a positive column that piles up near its low end is tried as its logarithm.
//! 2. Functions: those of every group that reads a function, and those of the decoder, by how well they predict sensors
//!    (or targets) that are left out. Where least squares misses them by half their spread, heads look at the group;
//!    where samples have too little to leave any out, heads look, and learned functions answer if no field does.
//! 3. Family: a field of many samples with a small correction where the targets are asked where sensors may stand; a
//!    linear map corrected by a perceptron; an FNO. Each is tried for a moment, and validation decides.

mod functions;
mod units;

use std::path::Path;
use std::time::Instant;

use crate::config::ModelConfig;
use crate::cores::{Activation, CoreConfig, FnoConfig, MlpConfig};
use crate::data::{Channel, Group, Kind, Meta, Rows, Sample, Sensors, Transform};
use crate::decoders::{BasisConfig, DecoderConfig, LearnedConfig};
use crate::encoders::{EncoderConfig, HeadsConfig, MomentsConfig, ProjectionConfig, ScalarsConfig};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::spaces::{Family, Frame, all_along};
use crate::start::{FieldConfig, LinearConfig, StartConfig};
use crate::train::Training;
use crate::train::budget::Budget;
use crate::train::choose::functions::functions;
use crate::train::choose::units::straightened;
use crate::train::metric::Metric;
use crate::train::optimiser::Optimiser;
use crate::train::recipe::{DataRecipe, Loss, Recipe, TrainRecipe};
use crate::train::samples::{Loaded, fill_ranges};
use crate::train::schedule::Schedule;
use crate::train::suits::POOR_FIT;

/// Samples that short trainings look at, and validation samples.
const SAMPLES: usize = 600;
const VALIDATION: usize = 100;
/// Samples by which functions are chosen.
const FITTED: usize = 12;
/// Where left-out sensors are missed by less than this share of their spread, readings are dense and hardly noisy, and a
/// random field has nothing to add to least squares.
const DENSE: f64 = 0.05;
/// Functions of moments, and most of a decoder.
const MOMENTS: usize = 400;
const MOST_ANSWERED: usize = 400;
/// Share of the budget that one trial takes, and the least seconds.
const TRIAL: f64 = 0.05;
const LEAST_SECONDS: f64 = 5.0;

impl Recipe {
    /// A recipe for these files, to be trained for so long. The observer is told what was chosen, and why.
    pub fn choose(
        train: &Path,
        val: Option<&Path>,
        budget: Budget,
        observer: &dyn Observer,
    ) -> Result<Recipe> {
        let data = DataRecipe {
            train: Some(train.to_path_buf()),
            val: val.map(Path::to_path_buf),
            ..DataRecipe::default()
        };
        let start = Recipe {
            data,
            model: ModelConfig::default(),
            train: TrainRecipe {
                budget: Some(budget),
                ..TrainRecipe::default()
            },
        };
        let mut loaded = Loaded::of_recipe(&start, None, observer)?;
        fill_ranges(&mut loaded.meta, &loaded.train);
        Chooser::new(start, loaded, observer).choose()
    }
}

struct Chooser<'a> {
    /// Data and budget.
    recipe: Recipe,
    meta: Meta,
    train: Vec<Sample>,
    val: Vec<Sample>,
    observer: &'a dyn Observer,
}

/// A recipe to try.
struct Candidate {
    name: String,
    recipe: Recipe,
    /// Whether what it starts from is all that a moment can tell of it.
    at_once: bool,
}

impl<'a> Chooser<'a> {
    fn new(recipe: Recipe, loaded: Loaded, observer: &'a dyn Observer) -> Self {
        Self {
            recipe,
            train: loaded.train,
            val: loaded.val,
            meta: loaded.meta,
            observer,
        }
    }

    fn choose(self) -> Result<Recipe> {
        self.observer.note(&self.what_there_is());
        let units = self.units();
        let mut candidates = self.fields(&units);
        let (fast, mut refused) = self.fast(&units, candidates.is_empty());
        candidates.extend(fast);
        if candidates.len() == 1 {
            let only = candidates.remove(0);
            self.observer.note(&format!(
                "chosen: {}, which alone goes with these data",
                only.name
            ));
            return Ok(only.recipe);
        }
        let none = "the answers are not finite".to_string();
        let mut best: Option<(f64, Candidate)> = None;
        for candidate in candidates {
            if self.observer.stopped() {
                return Err(Error::Interrupted);
            }
            let began = Instant::now();
            // What cannot be trained on these data is no choice, and says why.
            let error = match self.error(&candidate) {
                Ok(error) if error.is_finite() => Ok(error),
                Ok(_) => Err(none.clone()),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => Err(why.to_string()),
            };
            let error = match error {
                Ok(error) => error,
                Err(why) => {
                    let words = format!("{}: {why}", candidate.name);
                    self.observer.note(&format!("tried: {words}"));
                    refused.push(words);
                    continue;
                }
            };
            self.observer.note(&format!(
                "tried: {}: RMSE {error:.4} on validation data after {:.0} s",
                candidate.name,
                began.elapsed().as_secs_f64()
            ));
            if best.as_ref().is_none_or(|b| error < b.0) {
                best = Some((error, candidate));
            }
        }
        let (_, best) = best.ok_or_else(|| {
            Error::Unsuitable(format!(
                "no network of the chooser goes with these data; begin with a recipe (recipes/own)\n  {}",
                refused.join("\n  ")
            ))
        })?;
        self.observer
            .note(&format!("chosen: {}, best of those tried", best.name));
        Ok(best.recipe)
    }

    fn what_there_is(&self) -> String {
        let groups = self.meta.groups.iter().enumerate().map(|(g, group)| {
            let mut counts: Vec<usize> = self.train.iter().map(|s| s.groups[g].len()).collect();
            counts.sort_unstable();
            let [first, last] = [0, counts.len() - 1].map(|i| counts[i]);
            let own = |channels: &[Channel]| {
                let names: Vec<&str> = channels.iter().map(|c| &c.name[..]).collect();
                names.join(", ")
            };
            match group.kind {
                Kind::Scalars => format!("parameters {}", own(&group.values)),
                _ => format!(
                    "{first} to {last} {} of {} ({})",
                    match group.kind {
                        Kind::Field => "sensors",
                        _ => "points",
                    },
                    own(&group.values),
                    own(&group.coords)
                ),
            }
        });
        let groups: Vec<String> = groups.collect();
        format!(
            "data: {} training samples with {}; asked for {}",
            self.train.len(),
            groups.join(", "),
            self.meta
                .targets
                .iter()
                .map(|c| &c.name[..])
                .collect::<Vec<_>>()
                .join(", ")
        )
    }

    /// Columns that are learned as their logarithms, if any leans: by name.
    fn units(&self) -> Vec<(String, Transform)> {
        let mut found: Vec<(String, Option<Transform>)> = Vec::new();
        for name in self.columns() {
            if found.iter().all(|(known, _)| *known != name) {
                let transform = straightened(|| self.values(&name));
                found.push((name, transform));
            }
        }
        let leaning = found.into_iter();
        leaning
            .filter_map(|(name, transform)| Some((name, transform?)))
            .collect()
    }

    /// Names of all columns of readings and targets.
    fn columns(&self) -> Vec<String> {
        let fields = self.meta.groups.iter().filter(|g| g.kind == Kind::Field);
        let all = fields.flat_map(|g| &g.values).chain(&self.meta.targets);
        all.map(|c| c.name.clone()).collect()
    }

    /// All numbers of columns of this name, in validation too: of readings, parameters and targets.
    fn values(&self, name: &str) -> impl Iterator<Item = f32> {
        let place = |channels: &[Channel]| channels.iter().position(|c| c.name == name);
        let groups = self.meta.groups.iter().enumerate();
        let readings: Vec<(usize, usize)> = groups
            .filter_map(|(g, group)| Some((g, place(&group.values)?)))
            .collect();
        let targets = place(&self.meta.targets);
        self.train.iter().chain(&self.val).flat_map(move |s| {
            let readings = readings.iter().map(|&(g, c)| (&s.groups[g].values, c));
            let own: Vec<(&Rows, usize)> =
                readings.chain(targets.map(|c| (&s.targets, c))).collect();
            own.into_iter().flat_map(|(rows, c)| rows.column(c))
        })
    }

    /// Sensors of a group in some samples, in units of their own.
    fn sensors(&self, g: usize, units: &[&(String, Transform)]) -> Vec<Sensors> {
        let group = &self.meta.groups[g];
        let own = |s: &Sample| {
            let mut own = s.groups[g].clone();
            for (c, channel) in group.values.iter().enumerate() {
                if let Some((_, unit)) = units.iter().find(|(name, _)| *name == channel.name) {
                    let width = own.values.width();
                    let column = own.values.data_mut().iter_mut().skip(c).step_by(width);
                    column.for_each(|v| *v = unit.apply(*v));
                }
            }
            own
        };
        all_along(&self.train, FITTED).map(own).collect()
    }

    /// Fields that all samples have taught, in the units of the data and in others.
    fn fields(&self, units: &[(String, Transform)]) -> Vec<Candidate> {
        let fields = self.meta.groups.iter().filter(|g| g.kind == Kind::Field);
        let mut possible = fields.filter_map(|group| {
            let config = FieldConfig {
                group: (self.meta.groups.len() > 1).then(|| group.name.clone()),
                ..FieldConfig::default()
            };
            config
                .fault(&self.meta)
                .is_none()
                .then_some((config, group))
        });
        let Some((config, group)) = possible.next() else {
            return Vec::new();
        };
        let g = config.group_among(&self.meta.groups).expect("just checked");
        let all: Vec<&(String, Transform)> = units.iter().collect();
        let dense = functions(&group.coords, &self.sensors(g, &all), usize::MAX);
        if dense.is_some_and(|found| found.missed < DENSE) {
            return Vec::new();
        }
        let scalars = self.scalars();
        let projection = EncoderConfig::Projection(ProjectionConfig {
            group: config.group.clone(),
            frame: Frame::default(),
            functions: 30,
        });
        let model = ModelConfig {
            start: Some(StartConfig::Field(config)),
            encoders: [vec![projection], scalars].concat(),
            core: CoreConfig::Mlp(MlpConfig {
                hidden: vec![64],
                activation: Activation::Gelu,
                skip: false,
            }),
            decoder: DecoderConfig::Learned(learned_decoder()),
        };
        let train = TrainRecipe {
            metric: Metric::Rmse,
            rate: 1e-3,
            decay: 1e-2,
            ..self.usual(50, Loss::Mse)
        };
        let name = format!(
            "a field of {} that all samples have taught, with a small correction",
            group.name
        );
        let plain = Candidate {
            name: name.clone(),
            recipe: Recipe {
                model,
                train,
                data: self.recipe.data.clone(),
            },
            at_once: true,
        };
        let own: Vec<&(String, Transform)> = units
            .iter()
            .filter(|(name, _)| {
                group
                    .values
                    .iter()
                    .chain(&self.meta.targets)
                    .any(|c| c.name == *name)
            })
            .collect();
        if own.is_empty() {
            return vec![plain];
        }
        let mut other = plain.recipe.clone();
        other.train.transforms = own.iter().map(|(name, t)| (name.clone(), *t)).collect();
        let words: Vec<String> = own
            .iter()
            .map(|(name, t)| format!("{} of {name}", t.name()))
            .collect();
        let other = Candidate {
            name: format!("{name}, learned as {}", words.join(", ")),
            recipe: other,
            at_once: true,
        };
        vec![plain, other]
    }

    /// Encoders of every group, and what they are, in words.
    fn encoders(&self, logs: &[&(String, Transform)]) -> (Vec<EncoderConfig>, Vec<String>) {
        let (mut encoders, mut words) = (Vec::new(), Vec::new());
        for (g, group) in self.meta.groups.iter().enumerate() {
            let named = (self.meta.groups.len() > 1).then(|| group.name.clone());
            match group.kind {
                Kind::Scalars => {}
                Kind::Points => {
                    words.push(format!("{MOMENTS} moments"));
                    encoders.push(EncoderConfig::Moments(MomentsConfig {
                        group: named,
                        ..MomentsConfig::usual(MOMENTS)
                    }));
                }
                Kind::Field => {
                    let sensors = self.sensors(g, logs);
                    match functions(&group.coords, &sensors, usize::MAX) {
                        Some(found) if found.missed < POOR_FIT => {
                            words.push(found.words());
                            encoders.push(EncoderConfig::Projection(ProjectionConfig {
                                group: named,
                                frame: found.frame(),
                                functions: found.functions,
                            }));
                        }
                        found => {
                            let why = match found {
                                Some(found) => format!(
                                    "least squares misses left-out sensors by {:.0} % of their spread",
                                    100.0 * found.missed
                                ),
                                None => "too few sensors to leave any out".into(),
                            };
                            words.push(format!("heads ({why})"));
                            encoders.push(EncoderConfig::Heads(HeadsConfig {
                                group: named,
                                ..HeadsConfig::default()
                            }));
                        }
                    }
                }
            }
        }
        encoders.extend(self.scalars());
        (encoders, words)
    }

    /// Encoders of every group, a fixed basis (learned functions, where none is found and `alone` nothing else answers),
    /// and a core between them; and why not, where they do not go together.
    fn fast(&self, units: &[(String, Transform)], alone: bool) -> (Vec<Candidate>, Vec<String>) {
        let seen = |name: &str| self.meta.targets.iter().all(|c| c.name != name);
        let logs: Vec<&(String, Transform)> = units.iter().filter(|(name, _)| seen(name)).collect();
        let (encoders, mut words) = self.encoders(&logs);
        let mut learned = encoders
            .iter()
            .any(|e| matches!(e, EncoderConfig::Heads(_)));
        let answers = all_along(&self.train, FITTED).map(|s| Sensors {
            coords: (*s.query_coords).clone(),
            values: s.targets.clone(),
        });
        let answers: Vec<Sensors> = answers.collect();
        let found = functions(&self.meta.query_coords, &answers, MOST_ANSWERED);
        let decoder = match &found {
            Some(found) => {
                words.push(format!("answers in {}", found.words()));
                DecoderConfig::Basis(BasisConfig {
                    frame: found.frame(),
                    functions: found.functions,
                })
            }
            None if !alone => {
                let why = "a fixed basis: samples have too few targets to leave any out";
                return (Vec::new(), vec![why.into()]);
            }
            None => {
                words.push("answers in learned functions".into());
                learned = true;
                DecoderConfig::Learned(learned_decoder())
            }
        };
        let model = ModelConfig {
            start: (!learned).then_some(StartConfig::Linear(LinearConfig {})),
            encoders,
            core: CoreConfig::Mlp(MlpConfig {
                hidden: vec![256, 256],
                activation: Activation::Gelu,
                skip: learned,
            }),
            decoder,
        };
        let mut train = TrainRecipe {
            rate: 2e-3,
            decay: 1e-4,
            ..self.usual(20, Loss::RelativeL2)
        };
        train.transforms = logs.iter().map(|(name, t)| (name.clone(), *t)).collect();
        let recipe = Recipe {
            model,
            train,
            data: self.recipe.data.clone(),
        };
        let with = |core: CoreConfig, name: &str| {
            let mut recipe = recipe.clone();
            // An FNO learns more than a linear map that knows the training samples too well would leave it.
            recipe
                .model
                .start
                .take_if(|_| matches!(core, CoreConfig::Fno(_)));
            recipe.model.core = core;
            let mut filled = recipe.model.clone();
            filled.fill_frames(&self.meta);
            let before = match filled.start {
                Some(_) => "the best linear map, corrected by ",
                None => "",
            };
            let name = format!("{before}{name} ({})", words.join(", "));
            match filled.fault(&self.meta) {
                Some(fault) => Err(format!("{name}: {fault}")),
                None => Ok(Candidate {
                    name,
                    recipe,
                    at_once: false,
                }),
            }
        };
        let perceptron = with(recipe.model.core.clone(), "a perceptron");
        let periodic = found.is_some_and(|f| f.family == Family::Periodic);
        let fno = with(
            CoreConfig::Fno(FnoConfig {
                padding: if periodic { 0.0 } else { 0.25 },
                coords: periodic.then_some(false),
                ..FnoConfig::default()
            }),
            "an FNO",
        );
        let (mut candidates, mut refused) = (Vec::new(), Vec::new());
        for candidate in [perceptron, fno] {
            match candidate {
                Ok(candidate) => candidates.push(candidate),
                Err(why) => refused.push(why),
            }
        }
        (candidates, refused)
    }

    fn scalars(&self) -> Vec<EncoderConfig> {
        let scalars = self.meta.groups.iter().filter(|g| g.kind == Kind::Scalars);
        let encoder = |g: &Group| {
            EncoderConfig::Scalars(ScalarsConfig {
                group: (self.meta.groups.len() > 1).then(|| g.name.clone()),
            })
        };
        scalars.map(encoder).collect()
    }

    /// How all of them are trained.
    fn usual(&self, batch: usize, loss: Loss) -> TrainRecipe {
        TrainRecipe {
            batch,
            loss,
            optimiser: Optimiser::AdamW,
            warm_up: 100,
            schedule: Schedule::Cosine { end: 0.0 },
            clip: Some(1.0),
            ema: Some(0.99),
            validate_every: Some(100),
            ..self.recipe.train.clone()
        }
    }

    /// The root mean square error on validation data after a moment of training.
    fn error(&self, candidate: &Candidate) -> Result<f64> {
        let budget = self.recipe.train.budget.map_or(0.0, Budget::seconds);
        let mut recipe = candidate.recipe.clone();
        recipe.data = DataRecipe::default();
        recipe.train.metric = Metric::Rmse;
        match candidate.at_once {
            true => (recipe.train.steps, recipe.train.budget) = (Some(1), None),
            false => {
                let seconds = (TRIAL * budget).max(LEAST_SECONDS);
                recipe.train.budget = Some(Budget::of_seconds(seconds));
            }
        }
        // What is fitted at once chooses its own samples.
        let [train, val] = match candidate.at_once {
            true => [usize::MAX; 2],
            false => [SAMPLES, VALIDATION],
        };
        let some = |samples: &[Sample], count| all_along(samples, count).cloned().collect();
        let loaded = Loaded {
            meta: self.meta.clone(),
            train: some(&self.train, train),
            val: some(&self.val, val),
            contents: None,
            notes: Vec::new(),
            origin: None,
        };
        let mut training = Training::put_together(recipe, loaded, None, false, self.observer)?;
        let outcome = training.run(&Silent(self.observer))?;
        Ok(outcome.best.map_or(f64::INFINITY, |b| b.error))
    }
}

/// Functions that are learned, where no fixed ones are found or a little is to be corrected.
fn learned_decoder() -> LearnedConfig {
    LearnedConfig {
        p: 20,
        hidden: vec![64, 64],
    }
}

/// Says nothing, but stops with another.
struct Silent<'a>(&'a dyn Observer);

impl Observer for Silent<'_> {
    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of `targets` and as many sensors of u at places of their own, which are large numbers but for the last.
    fn chooser(targets: usize) -> Chooser<'static> {
        let channels = |name: &str| {
            vec![Channel {
                range: Some([0.0, 1.0]),
                ..Channel::named(name)
            }]
        };
        let sample = |k: usize| {
            let places = Rows::of(
                1,
                (0..targets)
                    .map(|i| ((i * 7 + k) as f32 * 0.618).fract())
                    .collect(),
            );
            let values = places
                .data()
                .iter()
                .map(|x| (4.0 * (9.0 * x + k as f32).sin()).exp());
            let mut values = Rows::of(1, values.collect());
            if k == 29 {
                values.data_mut()[0] = 0.0;
            }
            Sample::of(places.clone(), values.clone(), places.into(), values)
        };
        let mut train: Vec<Sample> = (0..30).map(sample).collect();
        let val = train.split_off(27);
        let budget = TrainRecipe {
            budget: Some("1s".parse().unwrap()),
            ..TrainRecipe::default()
        };
        Chooser {
            recipe: Recipe {
                data: DataRecipe::default(),
                model: ModelConfig::default(),
                train: budget,
            },
            meta: Meta::new(
                "large",
                channels("x"),
                channels("u"),
                channels("y"),
                channels("v"),
            ),
            train,
            val,
            observer: &(),
        }
    }

    /// A zero in validation is no logarithm either.
    #[test]
    fn units_take_all_numbers() {
        let mut chooser = chooser(40);
        let found = |chooser: &Chooser| chooser.units().iter().map(|(_, t)| *t).collect::<Vec<_>>();
        assert_eq!(found(&chooser), [Transform::Log1p; 2]);
        chooser.val.pop();
        assert_eq!(found(&chooser), [Transform::Log; 2]);
    }

    #[test]
    fn a_few_targets_are_answered_in_learned_functions() {
        for (targets, learned) in [(40, false), (9, true)] {
            let chooser = chooser(targets);
            let (found, _) = chooser.fast(&[], true);
            let decoder = &found[0].recipe.model.decoder;
            assert_eq!(matches!(decoder, DecoderConfig::Learned(_)), learned);
            let (found, refused) = chooser.fast(&[], false);
            assert_eq!((found.is_empty(), refused.is_empty()), (learned, !learned));
        }
        let chosen = Chooser {
            train: chooser(9).train[..3].to_vec(),
            ..chooser(9)
        }
        .choose();
        assert!(chosen.unwrap().model.start.is_none());
    }
}
