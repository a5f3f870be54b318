//! A recipe: what to train on what, and how. Read from TOML; every setting but `[model]` and the data has a
//! default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;
use crate::data::{Dataset, ProblemSource, ScalingKind, Transform};
use crate::error::{Error, Result};
use crate::input;
use crate::problems::{Parameters, Split, named};
use crate::sensors::Layout;
use crate::spaces::Symmetries;
use crate::train::amount::Amount;
use crate::train::budget::Budget;
use crate::train::metric::Metric;
use crate::train::optimiser::Optimiser;
use crate::train::schedule::Schedule;

/// Sections in which a setting can be.
const MOST_SECTIONS: usize = 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    #[serde(default)]
    pub data: DataRecipe,
    pub model: ModelConfig,
    #[serde(default)]
    pub train: TrainRecipe,
}

/// Either one of the paper's problems (`problem`, `layout`, …), or files (`train`, `val`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataRecipe {
    pub problem: Option<String>,
    /// Settings of the problem, such as `boundary = "periodic"` of darcy.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    pub layout: Option<Layout>,
    pub seed: u64,
    /// All of a file, or as many as in the paper.
    pub train_samples: Option<usize>,
    pub val_samples: Option<usize>,
    pub train: Option<PathBuf>,
    /// None: a part of `train` is held out.
    pub val: Option<PathBuf>,
    /// What is held out where no validation data are given.
    pub hold_out: HoldOut,
    /// How much of it; a tenth of the samples, a fifth of the places where not given.
    pub val_share: Option<f64>,
}

/// What validation data consist of that are held out of the training data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldOut {
    /// The last samples.
    #[default]
    Samples,
    /// Places that recur from sample to sample, in blocks of neighbours; `seed` draws them.
    Places,
}

impl DataRecipe {
    /// The training data, and the validation data unless it is to be held out.
    pub(crate) fn sources(&self, cache: Option<&Path>) -> Result<(Dataset, Option<Dataset>)> {
        let setting = |words: &str| Err(Error::setting("data", words));
        match (&self.problem, &self.train) {
            (Some(_), Some(_)) => setting("give either a problem or the file train, not both"),
            (None, None) => setting("give a problem and a layout, or the file train"),
            (Some(name), None) => {
                if self.val.is_some() {
                    return setting("val belongs to the file train; a problem makes its own");
                }
                let Some(layout) = self.layout else {
                    return setting("a problem needs a layout");
                };
                let source = |split: Split| -> Result<Dataset> {
                    Ok(Dataset::from_source(ProblemSource {
                        problem: named(name, &self.parameters)?,
                        layout,
                        split,
                        seed: self.seed,
                        sensor_seed: self.seed,
                        cache: cache.map(Path::to_path_buf),
                        sensors_on_grid: false,
                        scattered: None,
                    }))
                };
                Ok((source(Split::Train)?, Some(source(Split::Val)?)))
            }
            (None, Some(train)) => {
                if !self.parameters.is_empty() || self.layout.is_some() {
                    return setting(
                        "parameters and layout belong to a problem; a file is what it is",
                    );
                }
                let val = self.val.as_deref().map(Dataset::open).transpose()?;
                Ok((Dataset::open(train)?, val))
            }
        }
    }
}

/// What is made small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The mean square over all targets of the batch, as the network sees them.
    #[default]
    Mse,
    /// The mean over the samples of the relative L² error before scaling: in physical units, transformed where
    /// targets are.
    RelativeL2,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainRecipe {
    /// Chooses the starting weights, the order of the samples and the subsets.
    pub seed: u64,
    /// Samples a step.
    pub batch: usize,
    /// Parts that a step is worked out in, one after the other. More parts take less memory; each number
    /// gives bits of its own.
    pub micro_batches: usize,
    /// Sensors and queries of a sample that a step uses, drawn anew each time; all where not given.
    pub sensors: Option<Amount>,
    pub queries: Option<Amount>,
    /// Share of a sample's sensors that a step does not see, and asks for as further targets.
    pub left_out: Option<f64>,
    /// Fit the targets once in the functions of a fixed basis and compare coefficients with coefficients, in
    /// place of values at queries. Where not given, the number of targets decides.
    pub coefficients: Option<bool>,
    /// Symmetries of the problem, one drawn for each sample in every step.
    pub symmetries: Symmetries,
    pub loss: Loss,
    pub optimiser: Optimiser,
    pub rate: f64,
    pub decay: f64,
    /// Steps over which the rate rises from 0.
    pub warm_up: u64,
    pub schedule: Schedule,
    /// Longest gradient.
    pub clip: Option<f64>,
    /// Decay of the running mean of the weights that is validated and kept.
    pub ema: Option<f64>,
    /// Formulas that columns are taken through before anything else, by their names: readings, parameters and
    /// targets of a name alike.
    pub transforms: BTreeMap<String, Transform>,
    /// By what values and targets are scaled then.
    pub scaling: ScalingKind,
    /// What chooses the best weights.
    pub metric: Metric,
    /// Gigabytes that activations may take until further ones are worked out again instead of kept; a third
    /// of what is free where not given.
    pub memory_gb: Option<f64>,
    /// The first limit that is reached ends the training.
    pub steps: Option<u64>,
    pub epochs: Option<f64>,
    pub budget: Option<Budget>,
    /// Validations in a row without a better one that end the training.
    pub patience: Option<u64>,
    /// Steps between validations; once an epoch where not given.
    pub validate_every: Option<u64>,
    /// Steps between checkpoints; every half minute where not given.
    pub checkpoint_every: Option<u64>,
    /// Queries of a sample that a validation looks at, always the same; all where not given.
    pub validation_queries: Option<usize>,
}

impl Default for TrainRecipe {
    fn default() -> Self {
        Self {
            seed: 0,
            batch: 50,
            micro_batches: 1,
            sensors: None,
            queries: None,
            left_out: None,
            coefficients: None,
            symmetries: Symmetries::default(),
            loss: Loss::Mse,
            optimiser: Optimiser::Adam,
            rate: 1e-3,
            decay: 0.0,
            warm_up: 0,
            schedule: Schedule::default(),
            clip: None,
            ema: None,
            transforms: BTreeMap::new(),
            scaling: ScalingKind::default(),
            metric: Metric::default(),
            memory_gb: None,
            steps: None,
            epochs: None,
            budget: None,
            patience: None,
            validate_every: None,
            checkpoint_every: None,
            validation_queries: None,
        }
    }
}

impl Recipe {
    pub fn read(path: &Path) -> Result<Self> {
        let text = input::read_text(path)?;
        Self::parse(&text, &[]).map_err(|error| Error::data(path, error.to_string()))
    }

    /// From TOML, with settings such as `train.rate=1e-4` put over it.
    pub fn parse(text: &str, settings: &[String]) -> Result<Self> {
        let recipe: Self = Self::read_as(text, settings)?;
        recipe.train.check()?;
        Ok(recipe)
    }

    /// The same for a training that goes on from a network: where the section `[model]` is left out, it is that of the
    /// network.
    pub fn parse_for(model: &ModelConfig, text: &str, settings: &[String]) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Open {
            #[serde(default)]
            data: DataRecipe,
            model: Option<ModelConfig>,
            #[serde(default)]
            train: TrainRecipe,
        }
        let Open {
            data,
            model: own,
            train,
        } = Self::read_as(text, settings)?;
        train.check()?;
        Ok(Self {
            data,
            model: own.unwrap_or_else(|| model.clone()),
            train,
        })
    }

    fn read_as<T: DeserializeOwned>(text: &str, settings: &[String]) -> Result<T> {
        let words = |e: toml::de::Error| Error::setting("recipe", e.to_string().trim_end());
        match settings {
            // Errors then name the line.
            [] => toml::from_str(text).map_err(words),
            _ => {
                let mut table: toml::Table = toml::from_str(text).map_err(words)?;
                for setting in settings {
                    let refuse = |what: String| Error::setting(setting, what);
                    let (key, value) = setting
                        .split_once('=')
                        .ok_or_else(|| refuse("a setting is written key=value".into()))?;
                    if key.split('.').count() > MOST_SECTIONS {
                        let what = format!("it is more than {MOST_SECTIONS} sections deep");
                        return Err(refuse(what));
                    }
                    let value = parse_value(value.trim()).map_err(refuse)?;
                    put(&mut table, key.trim(), value).map_err(refuse)?;
                }
                table.try_into().map_err(words)
            }
        }
    }

    /// An error where a path is not Unicode.
    pub fn to_toml(&self) -> Result<String> {
        let refuse = |e| Error::setting("recipe", format!("it cannot be written: {e}"));
        toml::to_string(self).map_err(refuse)
    }
}

/// A TOML value; what is none is a string.
fn parse_value(text: &str) -> std::result::Result<toml::Value, String> {
    let line = format!("value = {text}");
    match toml::from_str::<toml::Table>(&line) {
        Ok(mut table) if table.len() == 1 => {
            Ok(table.remove("value").expect("it was just written"))
        }
        Ok(_) => Err("one setting is given at a time; give the others by themselves".into()),
        Err(_) if text.contains(['\n', '\r']) => Err("a setting is written in one line".into()),
        Err(_) => Ok(toml::Value::String(text.into())),
    }
}

/// Sets `a.b.c` to a value.
fn put(table: &mut toml::Table, key: &str, value: toml::Value) -> std::result::Result<(), String> {
    let Some((section, rest)) = key.split_once('.') else {
        table.insert(key.to_string(), value);
        return Ok(());
    };
    let inner = table
        .entry(section)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    match inner {
        toml::Value::Table(inner) => put(inner, rest, value),
        // Of several, as in `model.encoders.0.functions`.
        toml::Value::Array(several) => {
            let (number, rest) = rest.split_once('.').ok_or_else(|| {
                format!("{section} is a list; which one, and which setting of it?")
            })?;
            let count = several.len();
            let one = number.parse().ok().and_then(|i: usize| several.get_mut(i));
            match one {
                Some(toml::Value::Table(inner)) => put(inner, rest, value),
                _ => Err(format!(
                    "{section} has sections 0 to {}",
                    count.saturating_sub(1)
                )),
            }
        }
        _ => Err(format!("{section} is not a section")),
    }
}

impl TrainRecipe {
    fn check(&self) -> Result<()> {
        let refuse = |name: &str, what: &str| Err(Error::setting(format!("train.{name}"), what));
        let numbers = [
            ("batch", Some(self.batch as f64), 1.0, f64::MAX),
            (
                "micro_batches",
                Some(self.micro_batches as f64),
                1.0,
                4096.0,
            ),
            ("left_out", self.left_out, f64::MIN_POSITIVE, 1.0 - 1e-9),
            ("patience", self.patience.map(|n| n as f64), 1.0, f64::MAX),
            ("rate", Some(self.rate), f64::MIN_POSITIVE, f64::MAX),
            ("decay", Some(self.decay), 0.0, f64::MAX),
            ("clip", self.clip, f64::MIN_POSITIVE, f64::MAX),
            ("ema", self.ema, 0.0, 1.0 - 1e-9),
            ("memory_gb", self.memory_gb, 0.0, f64::MAX),
            ("epochs", self.epochs, f64::MIN_POSITIVE, f64::MAX),
            (
                "validate_every",
                self.validate_every.map(|n| n as f64),
                1.0,
                f64::MAX,
            ),
            (
                "checkpoint_every",
                self.checkpoint_every.map(|n| n as f64),
                1.0,
                f64::MAX,
            ),
            (
                "validation_queries",
                self.validation_queries.map(|n| n as f64),
                1.0,
                f64::MAX,
            ),
        ];
        for (name, value, least, most) in numbers {
            match value {
                Some(v) if !(least..=most).contains(&v) => {
                    let setting = format!("train.{name}");
                    return Err(Error::setting(setting, "is out of range").with_value(v));
                }
                _ => {}
            }
        }
        if self.compares_coefficients() && self.left_out.is_some() {
            return refuse(
                "left_out",
                "coefficients = true compares the decoder's coefficients with those of all targets; sensors that are left out are further targets, other ones in every view: set coefficients = false",
            );
        }
        if self.compares_coefficients() && self.queries.is_some() {
            return refuse(
                "queries",
                "coefficients = true uses all targets at once; leave out queries",
            );
        }
        let Symmetries {
            flips, swaps, odd, ..
        } = self.symmetries;
        if odd && !flips && !swaps {
            return refuse(
                "symmetries",
                "odd ones change the sign of mirror images; add flips or swaps",
            );
        }
        if odd && !self.transforms.values().all(|t| t.is_odd()) {
            return refuse(
                "symmetries",
                "odd ones change signs, which of all transforms asinh alone keeps",
            );
        }
        if self.steps.is_none() && self.epochs.is_none() && self.budget.is_none() {
            return refuse(
                "budget",
                "say how long: steps, epochs or budget (such as \"30m\")",
            );
        }
        self.schedule.check()
    }

    /// Whether steps compare coefficients; of a recipe that leaves it open, not before the data have decided.
    pub(crate) fn compares_coefficients(&self) -> bool {
        self.coefficients == Some(true)
    }

    /// Whether as many validations as are waited for were no better than that of step `best`.
    pub(crate) fn out_of_patience(
        &self,
        step: u64,
        best: Option<u64>,
        steps_per_epoch: u64,
    ) -> bool {
        let every = self.validate_every.unwrap_or(steps_per_epoch);
        match (self.patience, best) {
            (Some(patience), Some(best)) => step.saturating_sub(best) / every >= patience,
            _ => false,
        }
    }

    /// How much of the training is over, 0 to 1, after `step` steps and so many seconds.
    pub(crate) fn share(&self, step: u64, steps_per_epoch: u64, seconds: f64) -> f64 {
        let of = |done: f64, limit: Option<f64>| {
            limit.map_or(0.0, |l| if l > 0.0 { done / l } else { 1.0 })
        };
        let epochs = step as f64 / steps_per_epoch as f64;
        of(step as f64, self.steps.map(|s| s as f64))
            .max(of(epochs, self.epochs))
            .max(of(seconds, self.budget.map(|b| b.seconds())))
            .min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::{DecoderConfig, LearnedConfig};
    use crate::encoders::{EncoderConfig, HeadsConfig};

    const SMALL: &str = "[data]\nproblem = \"darcy\"\nlayout = \"variable\"\n[model]\nencoders = [{ kind = \"heads\" }]\ncore = { kind = \"mlp\" }\ndecoder = { kind = \"learned\" }\n[train]\nsteps = 10\n";

    #[test]
    fn a_recipe_is_read_changed_and_written() {
        let recipe = Recipe::parse(SMALL, &[]).unwrap();
        assert_eq!(
            Recipe::parse(&recipe.to_toml().unwrap(), &[]).unwrap(),
            recipe
        );
        let settings = [
            "train.rate=1e-2",
            "train.budget=30m",
            "model.decoder.p=7",
            "model.encoders.0.count=3",
            "data.layout=missing",
        ];
        let changed = Recipe::parse(SMALL, &settings.map(String::from)).unwrap();
        assert_eq!(
            (changed.train.rate, changed.train.budget.unwrap().seconds()),
            (1e-2, 1800.0)
        );
        assert_eq!(changed.data.layout, Some(Layout::Missing));
        let mut wanted = recipe.model.clone();
        wanted.decoder = DecoderConfig::Learned(LearnedConfig {
            p: 7,
            ..LearnedConfig::default()
        });
        wanted.encoders[0] = EncoderConfig::Heads(HeadsConfig {
            count: 3,
            ..HeadsConfig::default()
        });
        assert_eq!(changed.model, wanted);
        assert_eq!(recipe.model, ModelConfig::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |text: &str, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
            Recipe::parse(text, &settings).unwrap_err().to_string()
        };
        let expect = |found: String, words: &str| assert!(found.contains(words), "{found}");
        expect(
            fault(&SMALL.replace("steps", "stepz"), &[]),
            "unknown field `stepz`",
        );
        expect(fault(&SMALL.replace("steps", "stepz"), &[]), "line 9");
        expect(fault(&SMALL.replace("steps = 10", ""), &[]), "say how long");
        expect(
            fault(SMALL, &["train.rate=-1"]),
            "rate = -1: is out of range",
        );
        expect(fault(SMALL, &["train.budget=soon"]), "budget");
        // Also what belongs to another kind.
        for setting in [
            "train.schedule={kind=\"constant\",every=100}",
            "model.core={kind=\"mlp\",grid=64}",
            "model.encoders.0.positional={kind=\"mlp\",functions=64}",
        ] {
            expect(fault(SMALL, &[setting]), "unknown field");
        }
        expect(fault(SMALL, &["train"]), "key=value");
        let deep = "a.".repeat(60_000) + "b=1";
        expect(fault(SMALL, &[&deep]), "more than 16 sections deep");
        expect(
            fault(SMALL, &["train.rate=1e-2\nseed=3"]),
            "one setting is given at a time",
        );
        expect(
            fault(SMALL, &["data.layout=missing\nmore"]),
            "written in one line",
        );
        expect(
            fault(
                SMALL,
                &["train.schedule={kind=\"step\",every=0,factor=0.5}"],
            ),
            "schedule",
        );
        let sources = |text: &str| {
            let found = Recipe::parse(text, &[]).unwrap().data.sources(None);
            found.err().expect("an error").to_string()
        };
        expect(
            sources(&SMALL.replace("layout = \"variable\"", "")),
            "needs a layout",
        );
        expect(
            sources(&SMALL.replace("problem = \"darcy\"", "")),
            "give a problem and a layout",
        );
        expect(
            sources(&SMALL.replace("[model]", "train = \"a.parquet\"\n[model]")),
            "not both",
        );
    }
}
