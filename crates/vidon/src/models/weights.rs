//! Weights as safetensors: a file alone is enough to predict.
//!
//! The tensors have the names and shapes of the plan, float32. The key `vidon` of the metadata holds JSON: the model's
//! configuration, the description of the data it was made for, and the normalisation.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use crate::data::{Meta, Normalisation};
use crate::error::{Error, Result};
use crate::files::write_file;
use crate::models::{Dims, Entry, Model, ModelConfig};

const KEY: &str = "vidon";
const FORMAT: u32 = 1;

/// A model with its numbers, its normalisation and the description of its data.
pub struct Weights {
    pub model: Model,
    pub entries: Vec<Entry>,
    pub meta: Meta,
    /// None where the network sees physical units.
    pub normalisation: Option<Normalisation>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    model: ModelConfig,
    data: Meta,
    normalisation: Option<Normalisation>,
}

impl Weights {
    pub fn save(&self, path: &Path) -> Result<()> {
        let header = Header {
            format: FORMAT,
            model: self.model.config().clone(),
            data: self.meta.clone(),
            normalisation: self.normalisation.clone(),
        };
        let json = serde_json::to_string(&header).expect("a configuration is plain JSON");
        let bytes: Vec<Vec<u8>> = self
            .entries
            .iter()
            .map(|e| e.values.iter().flat_map(|v| v.to_le_bytes()).collect())
            .collect();
        let views = self.entries.iter().zip(&bytes).map(|(entry, bytes)| {
            let view = TensorView::new(Dtype::F32, entry.shape.clone(), bytes);
            (
                entry.name.clone(),
                view.expect("as many bytes as the shape says"),
            )
        });
        let data = serialize(views, Some(HashMap::from([(KEY.to_string(), json)])))
            .map_err(|e| Error::data(path, e.to_string()))?;
        write_file(path, |out| out.write_all(&data))
    }

    pub fn load(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).map_err(Error::io("read", path))?;
        let damaged = |what: String| Error::data(path, what);
        let (_, metadata) = SafeTensors::read_metadata(&data)
            .map_err(|e| damaged(format!("is not a whole safetensors file: {e}")))?;
        let json = metadata
            .metadata()
            .as_ref()
            .and_then(|pairs| pairs.get(KEY))
            .ok_or_else(|| {
                damaged(
                    "has no configuration (metadata key \"vidon\"); it is not a model of vidon"
                        .into(),
                )
            })?;
        let header: Header = serde_json::from_str(json)
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
        let (model, mut entries) = Model::with_at_most(data.len() / 4, &header.model, dims, 0)?;
        let tensors = SafeTensors::deserialize(&data).map_err(|e| damaged(e.to_string()))?;
        for entry in &mut entries {
            let wrong = |what: String| damaged(what).in_column(&entry.name);
            let view = tensors
                .tensor(&entry.name)
                .map_err(|_| wrong("this tensor is missing".into()))?;
            if view.dtype() != Dtype::F32 || view.shape() != entry.shape {
                let what = format!(
                    "is {:?} {:?}, not float32 {:?}",
                    view.dtype(),
                    view.shape(),
                    entry.shape
                );
                return Err(wrong(what));
            }
            let numbers = view
                .data()
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")));
            let values: Vec<f32> = numbers.collect();
            if values.iter().any(|v| !v.is_finite()) {
                return Err(wrong("holds a number that is not finite".into()));
            }
            entry.values = values;
        }
        Ok(Self {
            model,
            entries,
            meta: header.data,
            normalisation: header.normalisation,
        })
    }
}
