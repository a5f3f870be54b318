//! Named float32 tensors and a line of JSON in a safetensors file (metadata key `vidon`), which begins with
//! the checksum of the whole file. Half precision is read as well, to half the size of files that are passed
//! on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::Serialize;

use crate::checksum;
use crate::error::{Error, Result};
use crate::files::write_file;
use crate::input;

const KEY: &str = "vidon";

/// Name, shape and numbers.
pub(crate) type Named<'a> = (String, &'a [usize], &'a [f32]);

/// Writes the file whole or not at all.
pub(crate) fn write_tensors(path: &Path, header: &impl Serialize, tensors: &[Named]) -> Result<()> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes);
        (name, view.expect("as many bytes as the shape says"))
    });
    let json = checksum::with_room(header);
    let mut data = serialize(views, Some(HashMap::from([(KEY.to_string(), json)])))
        .map_err(|e| Error::data(path, e.to_string()))?;
    checksum::seal(&mut data);
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
        Self::parse(path, input::read(path)?)
    }

    /// The bytes of a file that is known as `path`.
    pub fn parse(path: &Path, data: Vec<u8>) -> Result<Self> {
        let damaged = |what: String| Error::data(path, what);
        let whole = checksum::check(&data);
        let read = SafeTensors::deserialize(&data).and_then(|_| SafeTensors::read_metadata(&data));
        let (_, metadata) =
            read.map_err(|e| damaged(format!("is damaged, or not a safetensors file: {e}")))?;
        let json = metadata
            .metadata()
            .as_ref()
            .and_then(|pairs| pairs.get(KEY))
            .ok_or_else(|| {
                damaged(format!(
                    "has no configuration (metadata key \"{KEY}\"): it is damaged, or not a file of vidon"
                ))
            })?
            .clone();
        whole.map_err(|what| damaged(what.into()))?;
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
        let dtype = view.dtype();
        if !matches!(dtype, Dtype::F32 | Dtype::F16) || view.shape() != shape {
            let found = view.shape();
            return Err(wrong(format!(
                "is {dtype:?} {found:?}, not float32 or float16 {shape:?}"
            )));
        }
        let bytes = view.data();
        let values: Vec<f32> = if dtype == Dtype::F16 {
            let number = |b: &[u8]| from_half(u16::from_le_bytes([b[0], b[1]]));
            bytes.chunks_exact(2).map(number).collect()
        } else {
            let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            bytes.chunks_exact(4).map(number).collect()
        };
        if values.iter().any(|v| !v.is_finite()) {
            return Err(wrong(
                "holds a number that is not finite: was it ever trained?".into(),
            ));
        }
        Ok(values)
    }
}

/// A number of half precision: a sign, 5 bits of exponent, 10 of fraction.
fn from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 1023) as f32 / 1024.0);
    let size = match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction > 0.0 => f32::NAN,
        31 => f32::INFINITY,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    sign * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read() {
        let known = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, value) in known {
            assert_eq!(from_half(bits), value);
        }
        assert!(from_half(0x7e00).is_nan());
    }
}
