//! Everything a training needs to go on as if it had never stopped.

use std::path::Path;

use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::write_file;
use crate::models::{Entry, ModelConfig, Params, to_vec};
use crate::tensors::{Named, TensorFile, write_tensors};
use crate::train::optimiser::{Moments, plain, take};
use crate::train::recipe::DataRecipe;

/// Its file in the folder of a run.
pub(crate) const CHECKPOINT: &str = "checkpoint.safetensors";

/// The best validation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub step: u64,
    /// Mean relative L² error on the validation data.
    pub error: f64,
}

/// Beside the best weights: which they are. They may be newer than the checkpoint.
const BEST_NOTE: &str = "best.json";

impl Best {
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string(self).expect("plain JSON");
        write_file(&folder.join(BEST_NOTE), |out| {
            out.write_all(json.as_bytes())
        })
    }

    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(BEST_NOTE)).ok()?;
        serde_json::from_str(&text).ok()
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
    pub seed: u64,
    /// How values and targets are scaled: normalise, log_values and odd.
    pub scaling: [bool; 3],
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
    pub best: Option<Best>,
}

impl Progress {
    /// Of the checkpoint in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CHECKPOINT);
        Ok(Header::read(&path, &TensorFile::read(&path)?)?.progress)
    }
}

impl Header {
    fn read(path: &Path, file: &TensorFile) -> Result<Self> {
        serde_json::from_str(&file.json)
            .map_err(|e| Error::data(path, format!("cannot be read: {e}")))
    }
}

const GROUPS: [&str; 4] = ["params", "first", "second", "mean"];

impl State {
    pub fn new(entries: &[Entry], device: &Device, with_mean: bool) -> Self {
        let params = Params::new(entries, device, DType::F32);
        Self {
            moments: Moments::new(&params),
            mean: with_mean.then(|| params.tensors.iter().map(plain).collect()),
            params,
            progress: Progress::default(),
        }
    }

    /// Saves it, unless a parameter is not finite; says whether it did.
    pub fn save(&self, entries: &[Entry], subject: &Subject, folder: &Path) -> Result<bool> {
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
        let json = serde_json::to_string(&header).expect("plain JSON");
        write_tensors(&folder.join(CHECKPOINT), json, &named)?;
        Ok(true)
    }

    /// Reads what [`save`](Self::save) wrote for the same network.
    pub fn load(
        entries: &[Entry],
        device: &Device,
        with_mean: bool,
        subject: &Subject,
        folder: &Path,
    ) -> Result<Self> {
        let path = folder.join(CHECKPOINT);
        let file = TensorFile::read(&path)?;
        let header = Header::read(&path, &file)?;
        if header.subject != *subject {
            return Err(Error::data(
                &path,
                "was made with another model, data, scaling or seed than the recipe beside it and the files that it names have now; put them back, or begin a new training",
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
                let place = (&Device::flex(), DType::F32);
                Tensor::from_data(TensorData::new(e.values, [count]), place)
            };
            Ok(read(group)?.into_iter().map(tensor).collect())
        };
        Ok(Self {
            params: Params::new(&read(GROUPS[0])?, device, DType::F32),
            moments: Moments {
                first: tensors(GROUPS[1])?,
                second: tensors(GROUPS[2])?,
            },
            mean: with_mean.then(|| tensors(GROUPS[3])).transpose()?,
            progress: header.progress,
        })
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
