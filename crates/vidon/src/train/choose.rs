//! A recipe for data of which nothing is said: family, functions, core, start, units and metric are chosen by the data,
//! and every choice is told in a line.
//!
//! 1. Units: a positive column that piles up near its low end is tried as its logarithm.
//! 2. Functions: those of every group that reads a function, and those of the decoder, by how well they predict sensors
//!    (or targets) that are left out. Where least squares misses them by half their spread, heads look at the group.
//! 3. Family: a field of many samples with a small correction where the targets are asked where sensors may stand; a
//!    linear map corrected by a perceptron; the same by an FNO. Each is tried for a moment, and validation decides.

use std::path::Path;
use std::time::Instant;

use crate::config::ModelConfig;
use crate::cores::{Activation, CoreConfig, FnoConfig, MlpConfig};
use crate::data::{Channel, Group, Kind, Meta, Sample, Sensors, Transform, coordinates};
use crate::decoders::{BasisConfig, DecoderConfig, LearnedConfig};
use crate::encoders::{
    Encoder, EncoderConfig, HeadsConfig, MomentsConfig, Projection, ProjectionConfig, ScalarsConfig,
};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::spaces::{Family, Frame, all_along};
use crate::start::{FieldConfig, LinearConfig, StartConfig};
use crate::train::Training;
use crate::train::budget::Budget;
use crate::train::metric::Metric;
use crate::train::optimiser::Optimiser;
use crate::train::recipe::{DataRecipe, Loss, Recipe, TrainRecipe};
use crate::train::samples::{Loaded, fill_ranges};
use crate::train::schedule::Schedule;
use crate::train::suits::POOR_FIT;

/// Samples that short trainings look at, and validation samples.
const SAMPLES: usize = 600;
const VALIDATION: usize = 100;
/// Samples, and sensors of each, by which functions are chosen.
const FITTED: usize = 24;
const SENSORS: usize = 1500;
/// Numbers of functions to choose from. A larger one must miss less than this share of what a smaller one misses.
const FUNCTIONS: [usize; 9] = [3, 6, 12, 24, 48, 100, 200, 400, 700];
const BETTER: f64 = 0.95;
/// Functions of moments, and most of a decoder.
const MOMENTS: usize = 400;
const MOST_ANSWERED: usize = 400;
/// A column leans if its skewness is beyond this, and its logarithm has less than this share of it.
const SKEWED: f64 = 1.0;
const STRAIGHTER: f64 = 0.5;
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
        let fast = self.fast(&units);
        candidates.extend(fast);
        if candidates.is_empty() {
            return Err(Error::Unsuitable(
                "no network of the chooser goes with these data; begin with a recipe (recipes/own)"
                    .into(),
            ));
        }
        if candidates.len() == 1 {
            let only = candidates.remove(0);
            self.observer.note(&format!(
                "chosen: {}, which alone goes with these data",
                only.name
            ));
            return Ok(only.recipe);
        }
        let mut best: Option<(f64, Candidate)> = None;
        for mut candidate in candidates {
            if self.observer.stopped() {
                return Err(Error::Interrupted);
            }
            let began = Instant::now();
            // What cannot be trained on these data is no choice, and says why.
            let error = match self.error(&mut candidate) {
                Ok(error) => error,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => {
                    self.observer
                        .note(&format!("tried: {}: {why}", candidate.name));
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
            Error::Unsuitable("none of the networks that were tried goes with these data".into())
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

    fn some(&self) -> impl Iterator<Item = &Sample> {
        all_along(&self.train, SAMPLES)
    }

    /// Columns that are learned as their logarithms, if any leans: by name.
    fn units(&self) -> Vec<(String, Transform)> {
        let fields = self
            .meta
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| g.kind == Kind::Field);
        let readings = fields.flat_map(|(g, group)| {
            let columns = group.values.iter().enumerate();
            columns.map(move |(c, channel)| {
                let own = self.some().flat_map(move |s| s.groups[g].values.column(c));
                (channel.name.clone(), own.collect::<Vec<f32>>())
            })
        });
        let targets = self.meta.targets.iter().enumerate().map(|(c, channel)| {
            let own = self.some().flat_map(move |s| s.targets.column(c));
            (channel.name.clone(), own.collect::<Vec<f32>>())
        });
        let mut all: Vec<(String, Vec<f32>)> = Vec::new();
        for (name, values) in readings.chain(targets) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(values),
                None => all.push((name, values)),
            }
        }
        let leaning = all.into_iter().filter_map(|(name, values)| {
            let transform = straightened(&values)?;
            Some((name, transform))
        });
        leaning.collect()
    }

    /// Fields that all samples have taught, in the units of the data and in others.
    fn fields(&self, units: &[(String, Transform)]) -> Vec<Candidate> {
        let fields = self.meta.groups.iter().filter(|g| g.kind == Kind::Field);
        let recurring = fields.filter_map(|group| {
            let config = FieldConfig {
                group: (self.meta.groups.len() > 1).then(|| group.name.clone()),
                ..FieldConfig::default()
            };
            config
                .fault(&self.meta)
                .is_none()
                .then_some((config, group))
        });
        let Some((config, group)) = recurring.into_iter().next() else {
            return Vec::new();
        };
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
            decoder: DecoderConfig::Learned(LearnedConfig {
                p: 20,
                hidden: vec![64, 64],
            }),
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

    /// Encoders of every group, a fixed basis, and a core between them.
    fn fast(&self, units: &[(String, Transform)]) -> Vec<Candidate> {
        let seen = |name: &str| self.meta.targets.iter().all(|c| c.name != name);
        let logs: Vec<&(String, Transform)> = units.iter().filter(|(name, _)| seen(name)).collect();
        let (mut encoders, mut words, mut learned) = (Vec::new(), Vec::new(), false);
        for (g, group) in self.meta.groups.iter().enumerate() {
            let own = |s: &Sample| s.groups[g].clone();
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
                    let mut sensors: Vec<Sensors> =
                        all_along(&self.train, FITTED).map(own).collect();
                    for (c, channel) in group.values.iter().enumerate() {
                        let Some((_, log)) = logs.iter().find(|(name, _)| *name == channel.name)
                        else {
                            continue;
                        };
                        for own in &mut sensors {
                            let width = own.values.width();
                            let column = own.values.data_mut().iter_mut().skip(c).step_by(width);
                            column.for_each(|v| *v = log.apply(*v));
                        }
                    }
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
                            let missed = found.map_or(1.0, |f| f.missed);
                            words.push(format!(
                                "heads (least squares misses left-out sensors by {:.0} % of their spread)",
                                100.0 * missed
                            ));
                            learned = true;
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
        if encoders.is_empty() {
            return Vec::new();
        }
        let answers = all_along(&self.train, FITTED).map(|s| Sensors {
            coords: (*s.query_coords).clone(),
            values: s.targets.clone(),
        });
        let answers: Vec<Sensors> = answers.collect();
        let found = functions(&self.meta.query_coords, &answers, MOST_ANSWERED);
        let Some(found) = found else {
            return Vec::new();
        };
        words.push(format!("answers in {}", found.words()));
        let model = ModelConfig {
            start: (!learned).then(|| StartConfig::Linear(LinearConfig {})),
            encoders,
            core: CoreConfig::Mlp(MlpConfig {
                hidden: vec![256, 256],
                activation: Activation::Gelu,
                skip: learned,
            }),
            decoder: DecoderConfig::Basis(BasisConfig {
                frame: found.frame(),
                functions: found.functions,
            }),
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
        let before = if learned {
            ""
        } else {
            "the best linear map, corrected by "
        };
        let with = |core: CoreConfig, name: &str| {
            let mut recipe = recipe.clone();
            recipe.model.core = core;
            let mut filled = recipe.model.clone();
            filled.fill_frames(&self.meta);
            filled.fault(&self.meta).is_none().then(|| Candidate {
                name: format!("{before}{name} ({})", words.join(", ")),
                recipe,
                at_once: false,
            })
        };
        let perceptron = with(recipe.model.core.clone(), "a perceptron");
        let periodic = found.family == Family::Periodic;
        let fno = with(
            CoreConfig::Fno(FnoConfig {
                padding: if periodic { 0.0 } else { 0.25 },
                coords: periodic.then_some(false),
                ..FnoConfig::default()
            }),
            "an FNO",
        );
        perceptron.into_iter().chain(fno).collect()
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

    /// The root mean square error on validation data after a moment of training. What a start found on the way is kept.
    fn error(&self, candidate: &mut Candidate) -> Result<f64> {
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
        let best = outcome.best.map_or(f64::INFINITY, |b| b.error);
        if let (Some(StartConfig::Field(found)), Some(StartConfig::Field(own))) =
            (&training.config().start, &mut candidate.recipe.model.start)
        {
            own.features = found.features.clone();
        }
        Ok(best)
    }
}

/// Says nothing, but stops with another.
struct Silent<'a>(&'a dyn Observer);

impl Observer for Silent<'_> {
    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}

/// The transform that makes such numbers lean less, if they lean.
fn straightened(values: &[f32]) -> Option<Transform> {
    let known: Vec<f64> = values
        .iter()
        .filter(|v| !v.is_nan())
        .map(|v| *v as f64)
        .collect();
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let transform = match least {
        least if least >= 1e-3 * mean && least > 0.0 => Transform::Log,
        // Zeros, or next to it; log1p leaves numbers far below one as they are.
        least if least >= 0.0 && mean >= 1.0 => Transform::Log1p,
        _ => return None,
    };
    let before = skewness(known.iter().copied());
    let after = skewness(known.iter().map(|v| transform.apply(*v as f32) as f64));
    (before > SKEWED && after.abs() < STRAIGHTER * before).then_some(transform)
}

fn skewness(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let moment = |power: i32| values.clone().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
    moment(3) / moment(2).powf(1.5).max(f64::MIN_POSITIVE)
}

/// Functions that predict what they do not see.
struct Found {
    family: Family,
    functions: usize,
    /// By which share of its spread what is left out is missed.
    missed: f64,
    /// What becomes of covariates, in words.
    drift: Option<String>,
}

impl Found {
    fn frame(&self) -> Frame {
        Frame {
            family: self.family,
            ..Frame::default()
        }
    }

    fn words(&self) -> String {
        let family = match self.family {
            Family::Cosine => "cosines",
            Family::Periodic => "waves",
            Family::Sine => "sines",
            Family::Legendre => "polynomials",
        };
        format!(
            "{} {family}{} that miss what is left out by {:.2} %",
            self.functions,
            self.drift
                .as_ref()
                .map_or(String::new(), |d| format!(" ({d})")),
            100.0 * self.missed
        )
    }
}

/// Family and number of functions by what is left out of samples at scattered places; none where too little is there to
/// leave any out. The channels are coordinates and covariates of the places.
fn functions(channels: &[Channel], samples: &[Sensors], most: usize) -> Option<Found> {
    let (coords, covariates) = channels.split_at(coordinates(channels).len());
    let few = |s: &Sensors| {
        let kept: Vec<usize> = all_along(&Vec::from_iter(0..s.len()), SENSORS)
            .copied()
            .collect();
        s.select(&kept)
    };
    let samples: Vec<Sensors> = samples.iter().map(few).collect();
    let samples: Vec<&Sensors> = samples.iter().collect();
    let mut counts: Vec<usize> = samples.iter().map(|s| s.len()).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0);
    let most = most.min(median.max(3));
    let missed = |family: Family, functions: usize| -> Option<(f64, Option<String>)> {
        let mut frame = Frame {
            family,
            ..Frame::default()
        };
        frame.fill(coords);
        frame.fault(coords).is_none().then_some(())?;
        let config = ProjectionConfig {
            group: None,
            frame,
            functions,
        };
        let width = samples.first()?.values.width();
        let (projection, mut entries) = Projection::alone(&config, width, covariates);
        projection.choose(&mut entries, &samples);
        let missed = projection.left_out(&entries, &samples)?;
        Some((missed, projection.drift(&entries)))
    };
    let mut best: Option<Found> = None;
    for family in [
        Family::Cosine,
        Family::Legendre,
        Family::Periodic,
        Family::Sine,
    ] {
        for functions in FUNCTIONS.into_iter().filter(|n| *n <= most) {
            let Some((missed, drift)) = missed(family, functions) else {
                continue;
            };
            if best.as_ref().is_none_or(|b| missed < BETTER * b.missed) {
                best = Some(Found {
                    family,
                    functions,
                    missed,
                    drift,
                });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;

    #[test]
    fn columns_that_lean_are_straightened() {
        let even: Vec<f32> = (0..1000).map(|i| 5.0 + (i as f32 * 0.7).sin()).collect();
        let log: Vec<f32> = even.iter().map(|v| v.exp()).collect();
        let zeros: Vec<f32> = log.iter().map(|v| (v - 50.0).max(0.0)).collect();
        let negative: Vec<f32> = log.iter().map(|v| v - 100.0).collect();
        let wide: Vec<f32> = (0..1000)
            .map(|i| (3.0 * (i as f32 * 0.7).sin()).exp())
            .collect();
        assert_eq!(straightened(&even), None);
        assert_eq!(straightened(&wide), Some(Transform::Log));
        assert_eq!(straightened(&negative), None);
        assert_eq!(straightened(&[]), None);
        // Gaps do not count.
        assert_eq!(
            straightened(&[&wide[..], &[f32::NAN]].concat()),
            Some(Transform::Log)
        );
        let far: Vec<f32> = zeros.iter().map(|v| v.powi(2)).collect();
        assert!(matches!(straightened(&far), None | Some(Transform::Log1p)));
    }

    #[test]
    fn functions_are_those_that_predict_what_they_do_not_see() {
        let coords = [Channel {
            range: Some([0.0, 1.0]),
            ..Channel::named("x")
        }];
        let sample = |k: usize, f: &dyn Fn(f32) -> f32| {
            let places: Vec<f32> = (0..60)
                .map(|i| ((i * 7 + k) as f32 * 0.618).fract())
                .collect();
            Sensors {
                values: Rows::of(1, places.iter().map(|x| f(*x)).collect()),
                coords: Rows::of(1, places),
            }
        };
        let wave: Vec<Sensors> = (0..12)
            .map(|k| {
                sample(k, &|x| {
                    (2.0 * std::f32::consts::PI * (x + 0.1 * k as f32)).sin()
                })
            })
            .collect();
        let found = functions(&coords, &wave, 100).unwrap();
        assert!(found.missed < 0.02, "{}", found.words());
        let noise: Vec<Sensors> = (0..12)
            .map(|k| sample(k, &|x| ((x * 12_345.6 + k as f32) * 997.0).fract()))
            .collect();
        assert!(functions(&coords, &noise, 100).unwrap().missed > 0.8);
        // What the place does not say its height may.
        let height = Channel {
            covariate: true,
            ..Channel::named("height")
        };
        let high: Vec<Sensors> = noise
            .into_iter()
            .map(|s| {
                let places = s.coords.data().iter().zip(s.values.data());
                let places = places.flat_map(|(x, v)| [*x, 3.0 - 2.0 * v]).collect();
                Sensors {
                    coords: Rows::of(2, places),
                    values: s.values,
                }
            })
            .collect();
        let found = functions(&[coords[0].clone(), height], &high, 100).unwrap();
        assert!(found.missed < 0.1, "{}", found.words());
        assert!(found.words().contains("with height"), "{}", found.words());
    }
}
