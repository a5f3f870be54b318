//! Everything a training needs to go on as if it had never stopped.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;
use crate::data::{ScalingKind, Transform};
use crate::error::{Error, Result};
use crate::files::{plain_file, read_json};
use crate::network::{Entry, Params, Place, Tensor, device, to_vec, training_device};
use crate::tensors::{Named, TensorFile, write_tensors};
use crate::train::metric::Metric;
use crate::train::optimiser::{Moments, plain, take};
use crate::train::recipe::{DataRecipe, Recipe};
use crate::train::run_folder::{BEST_NOTE, CHECKPOINT};

/// The best validation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub step: u64,
    /// On the validation data, as the metric measures it.
    pub error: f64,
    pub metric: Metric,
}

impl Best {
    /// Of the operator that is kept in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = plain_file(folder, BEST_NOTE)?;
        path.exists().then(|| read_json(&path)).transpose()
    }
}

/// What changes from step to step.
pub(crate) struct State {
    pub params: Params,
    pub moments: Moments,
    /// The running mean of the parameters.
    pub mean: Option<Vec<Tensor<1>>>,
    pub progress: Progress,
}

/// What a checkpoint belongs to; with anything else it is no longer the same training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub model: ModelConfig,
    /// Without the paths of files, which may move.
    pub data: DataRecipe,
    /// Checksums of what the files hold.
    pub contents: Option<[u32; 2]>,
    /// Checksum of the numbers that it started from, where it goes on from another training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<u32>,
    pub seed: u64,
    /// How values and targets are transformed and scaled, and whether about zero.
    pub transforms: BTreeMap<String, Transform>,
    pub scaling: ScalingKind,
    pub odd: bool,
    /// By what the best weights were chosen.
    pub metric: Metric,
    pub micro_batches: usize,
}

impl Subject {
    /// Of the checkpoint in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        Ok(Header::of(folder)?.subject)
    }

    /// `model` with the boxes that it took from the data.
    pub fn new(
        recipe: &Recipe,
        model: &ModelConfig,
        contents: Option<[u32; 2]>,
        origin: Option<u32>,
    ) -> Self {
        let train = &recipe.train;
        Self {
            model: model.clone(),
            data: DataRecipe {
                train: None,
                val: None,
                ..recipe.data.clone()
            },
            contents,
            origin,
            seed: train.seed,
            transforms: train.transforms.clone(),
            scaling: train.scaling,
            odd: train.symmetries.odd,
            metric: train.metric,
            micro_batches: train.micro_batches,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    progress: Progress,
    subject: Subject,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub step: u64,
    pub seconds: f64,
    /// Up to this step; what is kept on the disk may be of a later one.
    pub best: Option<Best>,
    pub unrecorded: Losses,
}

/// Of the steps since the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Losses {
    pub steps: u64,
    pub sum: f64,
}

impl Losses {
    pub fn add(&mut self, loss: f64) {
        self.steps += 1;
        self.sum += loss;
    }

    pub fn mean(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.sum / self.steps as f64)
    }
}

impl Progress {
    /// Of the checkpoint in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        Ok(Header::of(folder)?.progress)
    }
}

impl Header {
    /// Of the checkpoint in `folder`.
    fn of(folder: &Path) -> Result<Self> {
        let path = plain_file(folder, CHECKPOINT)?;
        Self::read(&path, &TensorFile::read(&path)?)
    }

    fn read(path: &Path, file: &TensorFile) -> Result<Self> {
        serde_json::from_str(&file.json)
            .map_err(|e| Error::data(path, format!("cannot be read: {e}")))
    }
}

const GROUPS: [&str; 4] = ["params", "first", "second", "mean"];

impl State {
    pub fn new(entries: &[Entry], with_mean: bool) -> Self {
        let params = Params::new(entries, &Place::single(training_device()));
        Self {
            moments: Moments::new(&params),
            mean: with_mean.then(|| params.tensors.iter().map(plain).collect()),
            params,
            progress: Progress::default(),
        }
    }

    /// Saves it, unless a parameter is not finite; says whether it did.
    pub fn save(&self, entries: &[Entry], subject: &Subject, path: &Path) -> Result<bool> {
        let groups = self.groups();
        let mut numbers: Vec<(String, &[usize], Vec<f32>)> = Vec::new();
        for (group, tensors) in GROUPS.iter().zip(&groups) {
            for (entry, tensor) in entries.iter().zip(tensors) {
                let name = format!("{group}/{}", entry.name);
                numbers.push((name, &entry.shape, to_vec(tensor.clone())));
            }
        }
        if numbers.iter().any(|n| n.2.iter().any(|v| !v.is_finite())) {
            return Ok(false);
        }
        let named: Vec<Named> = numbers
            .iter()
            .map(|(name, shape, values)| (name.clone(), *shape, &values[..]))
            .collect();
        let header = Header {
            progress: self.progress,
            subject: subject.clone(),
        };
        write_tensors(path, &header, &named)?;
        Ok(true)
    }

    /// Reads what [`save`](Self::save) wrote for the same network.
    pub fn load(
        entries: &[Entry],
        with_mean: bool,
        subject: &Subject,
        path: &Path,
    ) -> Result<Self> {
        let file = TensorFile::read(path)?;
        let header = Header::read(path, &file)?;
        if header.subject != *subject {
            return Err(Error::data(
                path,
                "was made with another model, data, transforms, scaling, metric or seed than the recipe beside it and the files that it names have now; put them back, or begin a new training",
            ));
        }
        let read = |group: &str| -> Result<Vec<Entry>> {
            let entry = |e: &Entry| -> Result<Entry> {
                let values = file.get(&format!("{group}/{}", e.name), &e.shape)?;
                Ok(Entry {
                    values,
                    ..e.clone()
                })
            };
            entries.iter().map(entry).collect()
        };
        let tensors = |group: &str| -> Result<Vec<Tensor<1>>> {
            let tensor = |e: Entry| {
                let count = e.values.len();
                Place::single(device()).tensor(e.values, [count])
            };
            Ok(read(group)?.into_iter().map(tensor).collect())
        };
        Ok(Self {
            params: Params::new(&read(GROUPS[0])?, &Place::single(training_device())),
            moments: Moments {
                first: tensors(GROUPS[1])?,
                second: tensors(GROUPS[2])?,
            },
            mean: with_mean.then(|| tensors(GROUPS[3])).transpose()?,
            progress: header.progress,
        })
    }

    /// Whether all parameters are.
    pub fn is_finite(&self) -> bool {
        let finite = |t: &Tensor<1>| to_vec(t.clone()).iter().all(|v| v.is_finite());
        self.groups().iter().flatten().all(finite)
    }

    /// The entries, with what is not trained as it is here.
    pub fn fixed(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut known = entries.to_vec();
        for (entry, tensor) in known.iter_mut().zip(&self.params.tensors) {
            if !entry.trained {
                entry.values = to_vec(tensor.clone());
            }
        }
        known
    }

    /// Changes numbers that are not trained.
    pub fn set(&mut self, index: usize, values: &[f32]) {
        let place = Place::single(training_device());
        let tensor: Tensor<1> = place.tensor(values.to_vec(), [values.len()]);
        if let Some(mean) = &mut self.mean {
            mean[index] = plain(&tensor);
        }
        self.params.tensors[index] = tensor;
    }

    /// Moves the running mean of the parameters.
    pub fn average(&mut self, entries: &[Entry], decay: f64) {
        // Early on, when the mean remembers little, it follows faster.
        let steps = self.progress.step as f64;
        let decay = decay.min((1.0 + steps) / (10.0 + steps));
        let means = self.mean.iter_mut().flatten();
        for ((mean, param), entry) in means.zip(&self.params.tensors).zip(entries) {
            if entry.trained {
                let param = plain(param);
                *mean = match vidon_kernels::fused(&param) {
                    true => vidon_kernels::blend(take(mean), param, decay as f32),
                    false => take(mean) * decay + param * (1.0 - decay),
                };
            }
        }
    }

    /// The parameters to be judged and kept: the running mean, where there is one.
    pub fn entries(&self, entries: &[Entry]) -> Vec<Entry> {
        let groups = self.groups();
        let shown = groups.get(3).unwrap_or(&groups[0]);
        let entry = |(e, t): (&Entry, &Tensor<1>)| Entry {
            values: to_vec(t.clone()),
            ..e.clone()
        };
        entries.iter().zip(shown).map(entry).collect()
    }

    fn groups(&self) -> Vec<Vec<Tensor<1>>> {
        let params = self.params.tensors.iter().map(plain).collect();
        let moments = [self.moments.first.clone(), self.moments.second.clone()];
        [params]
            .into_iter()
            .chain(moments)
            .chain(self.mean.clone())
            .collect()
    }
}
