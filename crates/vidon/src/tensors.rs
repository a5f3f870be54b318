//! Named float32 tensors and a line of JSON in a safetensors file (metadata key `vidon`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

use crate::error::{Error, Result};
use crate::files::write_file;

const KEY: &str = "vidon";

/// Name, shape and numbers.
pub(crate) type Named<'a> = (String, &'a [usize], &'a [f32]);

/// Writes the file whole or not at all.
pub(crate) fn write_tensors(path: &Path, json: String, tensors: &[Named]) -> Result<()> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes);
        (name, view.expect("as many bytes as the shape says"))
    });
    let data = serialize(views, Some(HashMap::from([(KEY.to_string(), json)])))
        .map_err(|e| Error::data(path, e.to_string()))?;
    write_file(path, |out| out.write_all(&data))
}

/// A file that has been read.
pub(crate) struct TensorFile {
    path: PathBuf,
    data: Vec<u8>,
    pub json: String,
}

impl TensorFile {
    pub fn read(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).map_err(Error::io("read", path))?;
        let damaged = |what: String| Error::data(path, what);
        SafeTensors::deserialize(&data)
            .map_err(|e| damaged(format!("is not a whole safetensors file: {e}")))?;
        let (_, metadata) =
            SafeTensors::read_metadata(&data).map_err(|e| damaged(e.to_string()))?;
        let json = metadata
            .metadata()
            .as_ref()
            .and_then(|pairs| pairs.get(KEY))
            .ok_or_else(|| {
                damaged(format!(
                    "has no configuration (metadata key \"{KEY}\"); it is not a file of vidon"
                ))
            })?
            .clone();
        Ok(Self {
            path: path.to_path_buf(),
            data,
            json,
        })
    }

    /// Bytes of the whole file.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// The finite numbers of a tensor of this shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let wrong = |what: String| Error::data(&self.path, what).in_column(name);
        let tensors = SafeTensors::deserialize(&self.data).map_err(|e| wrong(e.to_string()))?;
        let view = tensors
            .tensor(name)
            .map_err(|_| wrong("this tensor is missing".into()))?;
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            let (found, dtype) = (view.shape(), view.dtype());
            return Err(wrong(format!(
                "is {dtype:?} {found:?}, not float32 {shape:?}"
            )));
        }
        let numbers = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")));
        let values: Vec<f32> = numbers.collect();
        if values.iter().any(|v| !v.is_finite()) {
            return Err(wrong(
                "holds a number that is not finite: was it ever trained?".into(),
            ));
        }
        Ok(values)
    }
}
