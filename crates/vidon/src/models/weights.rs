//! Weights as safetensors: a file alone is enough to predict.
//!
//! The tensors have the names and shapes of the plan, float32 (float16 is read as well). The key `vidon` of the metadata holds JSON: the model's
//! configuration, the description of the data it was made for, the normalisation and the symmetries it was trained with.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::{Meta, Normalisation};
use crate::error::{Error, Result};
use crate::models::{Dims, Entry, Model, ModelConfig, Symmetries};
use crate::tensors::{Named, TensorFile, write_tensors};

const FORMAT: u32 = 1;

/// A model with its numbers, its normalisation and the description of its data.
pub struct Weights {
    pub model: Model,
    pub entries: Vec<Entry>,
    pub meta: Meta,
    /// None where the network sees physical units.
    pub normalisation: Option<Normalisation>,
    /// Those that it was trained with.
    pub symmetries: Symmetries,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    model: ModelConfig,
    data: Meta,
    normalisation: Option<Normalisation>,
    #[serde(default)]
    symmetries: Symmetries,
}

impl Weights {
    pub fn save(&self, path: &Path) -> Result<()> {
        let header = Header {
            format: FORMAT,
            model: self.model.config().clone(),
            data: self.meta.clone(),
            normalisation: self.normalisation.clone(),
            symmetries: self.symmetries,
        };
        let json = serde_json::to_string(&header).expect("a configuration is plain JSON");
        let tensors: Vec<Named> = self
            .entries
            .iter()
            .map(|e| (e.name.clone(), &e.shape[..], &e.values[..]))
            .collect();
        write_tensors(path, json, &tensors)
    }

    pub fn load(path: &Path) -> Result<Self> {
        Self::from_file(path, TensorFile::read(path)?)
    }

    /// From the bytes of a file; errors call it `name`.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        let path = Path::new(name);
        Self::from_file(path, TensorFile::parse(path, bytes.to_vec())?)
    }

    fn from_file(path: &Path, file: TensorFile) -> Result<Self> {
        let damaged = |what: String| Error::data(path, what);
        let header: Header = serde_json::from_str(&file.json)
            .map_err(|e| damaged(format!("its configuration cannot be read: {e}")))?;
        if header.format != FORMAT {
            return Err(damaged(format!(
                "is of format {}; this program reads format {FORMAT}",
                header.format
            )));
        }
        if let Some(fault) = header.data.fault() {
            return Err(damaged(format!("the description of its data {fault}")));
        }
        let widths = header.data.widths();
        let fits = |n: &Normalisation| {
            n.sensor_values.width() == widths[1] && n.targets.width() == widths[3]
        };
        if !header.normalisation.as_ref().is_none_or(fits) {
            return Err(damaged("its normalisation does not fit its data".into()));
        }
        // No more numbers than the file can hold.
        let dims = Dims::from(&header.data);
        let (model, mut entries) = Model::with_at_most(file.len() / 2, &header.model, dims, 0)?;
        for entry in &mut entries {
            entry.values = file.get(&entry.name, &entry.shape)?;
        }
        Ok(Self {
            model,
            entries,
            meta: header.data,
            normalisation: header.normalisation,
            symmetries: header.symmetries,
        })
    }
}
