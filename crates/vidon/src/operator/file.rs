//! Operators as safetensors: a file alone is enough to predict.
//!
//! The tensors have the names and shapes of the plan, float32 (float16 is read as well). The key `vidon` of
//! the metadata holds JSON: the checksum of the file, the network's configuration, the description of the
//! data it was made for, the transforms, the scaling and the symmetries it was trained with.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;
use crate::data::{Meta, Scaling, Transform, Transforms};
use crate::error::{Error, Result};
use crate::files::plain_file;
use crate::operator::{Design, Operator, Parts};
use crate::spaces::Symmetries;
use crate::tensors::{Named, TensorFile, write_tensors};
use crate::train::run_folder::BEST;

const FORMAT: u32 = 4;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    format: u32,
    model: ModelConfig,
    data: Meta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    transforms: BTreeMap<String, Transform>,
    scaling: Option<Scaling>,
    #[serde(default)]
    symmetries: Symmetries,
}

impl Operator {
    pub(super) fn header(&self) -> Header {
        Header {
            format: FORMAT,
            model: self.config().clone(),
            data: self.meta().clone(),
            transforms: self.design.transforms.named().clone(),
            scaling: self.scaling().cloned(),
            symmetries: self.design.symmetries,
        }
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let entries = self.entries.iter();
        let tensors = entries.map(|e| (e.name.clone(), &e.shape[..], &e.values[..]));
        write_tensors(path, &self.header(), &tensors.collect::<Vec<Named>>())
    }

    /// From a file (`.safetensors`), or the best of a run's folder.
    pub fn load(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Self::from_file(path, TensorFile::read(path)?);
        }
        let best = plain_file(path, BEST)?;
        if !best.exists() {
            let what = format!(
                "holds no {BEST}: is it the folder of a training, and has that validated once?"
            );
            return Err(Error::data(path, what));
        }
        Self::from_file(&best, TensorFile::read(&best)?)
    }

    /// From the bytes of a file; errors call it `name`.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        let path = Path::new(name);
        Self::from_file(path, TensorFile::parse(path, bytes.to_vec())?)
    }

    fn from_file(path: &Path, file: TensorFile) -> Result<Self> {
        let damaged = |what: String| Error::data(path, what);
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let unread =
            |e: serde_json::Error| damaged(format!("its configuration cannot be read: {e}"));
        let Version { format } = serde_json::from_str(&file.json).map_err(unread)?;
        if format != FORMAT {
            return Err(damaged(format!(
                "is of format {format}; this program reads format {FORMAT}"
            )));
        }
        let header: Header = serde_json::from_str(&file.json).map_err(unread)?;
        if let Some(fault) = header.data.fault() {
            return Err(damaged(format!("the description of its data {fault}")));
        }
        let scaling = header.scaling.as_ref();
        if let Some(fault) = scaling.and_then(|s| s.fault(&header.data)) {
            return Err(damaged(format!("its scaling {fault}")));
        }
        let transforms = Transforms::new(&header.transforms, &header.data)
            .map_err(|fault| damaged(format!("its transforms: {fault}")))?;
        // No more numbers than the file can hold.
        let (parts, mut entries) =
            Parts::with_at_most(file.len() / 2, &header.model, &header.data)?;
        entries.extend(transforms.entry());
        for entry in &mut entries {
            entry.values = file.get(&entry.name, &entry.shape)?;
        }
        let (data, scaling) = (header.data, header.scaling);
        let design = Design::new(parts, data, transforms, scaling, header.symmetries);
        Ok(Self::with_numbers(design, entries))
    }
}
