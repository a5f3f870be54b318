//! NumPy arrays: the `.npy` format (versions 1 to 3) and `.npz` archives of them.
//!
//! A `.npy` is the magic `\x93NUMPY`, two version bytes, the length of the header (u16, from version 2 on
//! u32), the header (a Python dict with `descr`, `fortran_order` and `shape`) and the numbers.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// A numeric array in C order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NumpyArray {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

/// An archive of arrays, read one by one.
pub(crate) struct Archive<'a> {
    path: &'a Path,
    zip: zip::ZipArchive<BufReader<File>>,
}

impl<'a> Archive<'a> {
    pub fn open(path: &'a Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let zip = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| zip_error(path, e))?;
        Ok(Self { path, zip })
    }

    /// Names of the arrays, without `.npy`.
    pub fn names(&self) -> Vec<String> {
        self.zip
            .file_names()
            .map(|n| n.trim_end_matches(".npy").to_string())
            .collect()
    }

    /// The array of that name, or an error that lists what there is.
    pub fn array(&mut self, name: &str) -> Result<NumpyArray> {
        let fail = |what: String| Error::data(self.path, what).in_column(name);
        let found = self.names();
        if !found.iter().any(|n| n == name) {
            let what = format!(
                "there is no such array; the archive has {}",
                found.join(", ")
            );
            return Err(fail(what));
        }
        let mut bytes = Vec::new();
        self.zip
            .by_name(&format!("{name}.npy"))
            .map_err(|e| zip_error(self.path, e))?
            .read_to_end(&mut bytes)
            .map_err(|e| fail(format!("cannot be unpacked: {e}")))?;
        parse_npy(&bytes).map_err(fail)
    }
}

fn zip_error(path: &Path, error: zip::result::ZipError) -> Error {
    Error::data(
        path,
        format!("cannot be read as .npz (a zip archive): {error}"),
    )
}

/// Parses the bytes of a `.npy`.
fn parse_npy(bytes: &[u8]) -> std::result::Result<NumpyArray, String> {
    let cut = || "the array ends early".to_string();
    let rest = bytes
        .strip_prefix(b"\x93NUMPY")
        .ok_or("is not a NumPy array")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (header_len, rest) = if version[0] == 1 {
        let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        (u16::from_le_bytes(*len) as usize, rest)
    } else {
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        (u32::from_le_bytes(*len) as usize, rest)
    };
    let (header, body) = rest.split_at_checked(header_len).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "the array's header is damaged")?;
    let after = |key: &str| {
        let at = header
            .find(key)
            .ok_or(format!("the array's header lacks {key}"))?;
        Ok::<&str, String>(header[at + key.len()..].trim_start_matches([' ', ':']))
    };
    let kind = after("'descr'")?
        .strip_prefix('\'')
        .and_then(|s| s.split('\'').next())
        .ok_or("holds records or objects; only plain numbers can be read")?;
    let fortran = after("'fortran_order'")?.starts_with("True");
    let inner = after("'shape'")?
        .strip_prefix('(')
        .and_then(|s| s.split(')').next())
        .ok_or("the array's shape is damaged")?;
    let shape: Vec<usize> = inner
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| {
            s.parse()
                .map_err(|_| format!("the array's shape ({inner}) is damaged"))
        })
        .collect::<std::result::Result<_, _>>()?;
    let total = shape
        .iter()
        .try_fold(1usize, |n, &k| n.checked_mul(k))
        .ok_or("the array's shape is too large")?;
    let values = numbers(kind, body, total)?;
    Ok(NumpyArray {
        values: if fortran {
            to_c_order(&values, &shape)
        } else {
            values
        },
        shape,
    })
}

fn numbers(kind: &str, body: &[u8], total: usize) -> std::result::Result<Vec<f64>, String> {
    let (big, kind) = match kind.split_at_checked(1) {
        Some((">", kind)) => (true, kind),
        Some(("<" | "|" | "=", kind)) => (false, kind),
        _ => (false, kind),
    };
    macro_rules! read {
        ($type:ty) => {{
            const SIZE: usize = size_of::<$type>();
            if total.checked_mul(SIZE) != Some(body.len()) {
                return Err(format!(
                    "{total} numbers of {SIZE} bytes are announced, but {} bytes follow",
                    body.len()
                ));
            }
            let parse = |b: &[u8]| {
                let b: [u8; SIZE] = b.try_into().expect("exact chunks");
                (if big {
                    <$type>::from_be_bytes(b)
                } else {
                    <$type>::from_le_bytes(b)
                }) as f64
            };
            Ok(body.chunks_exact(SIZE).map(parse).collect())
        }};
    }
    match kind {
        "f8" => read!(f64),
        "f4" => read!(f32),
        "i8" => read!(i64),
        "i4" => read!(i32),
        "i2" => read!(i16),
        "i1" => read!(i8),
        "u8" => read!(u64),
        "u4" => read!(u32),
        "u2" => read!(u16),
        "u1" | "b1" => read!(u8),
        other => Err(format!(
            "holds numbers of type {other}; float32, float64 and integers can be read"
        )),
    }
}

/// First axis fastest to last axis fastest.
fn to_c_order(values: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut strides = vec![1; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    (0..values.len())
        .map(|mut place| {
            let mut from = 0;
            for axis in (0..shape.len()).rev() {
                from += place % shape[axis] * strides[axis];
                place /= shape[axis];
            }
            values[from]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(kind: &str, fortran: &str, shape: &str, body: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn types_orders_and_shapes() {
        let le: Vec<u8> = [1.5f32, -2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let array = parse_npy(&npy("<f4", "False", "(2, 3)", &le)).unwrap();
        assert_eq!(
            (array.shape, array.values),
            (vec![2, 3], vec![1.5, -2.0, 3.0, 4.0, 5.0, 6.0])
        );
        let array = parse_npy(&npy("<f4", "True", "(2, 3)", &le)).unwrap();
        assert_eq!(array.values, [1.5, 3.0, 5.0, -2.0, 4.0, 6.0]);
        let be: Vec<u8> = [7i16, -9].iter().flat_map(|v| v.to_be_bytes()).collect();
        assert_eq!(
            parse_npy(&npy(">i2", "False", "(2,)", &be)).unwrap().values,
            [7.0, -9.0]
        );
        assert_eq!(
            parse_npy(&npy("|u1", "False", "()", &[3])).unwrap().values,
            [3.0]
        );
    }

    #[test]
    fn damage_is_refused() {
        let good = npy("<f8", "False", "(2,)", &[0; 16]);
        assert!(parse_npy(&good).is_ok());
        for end in 0..good.len() {
            assert!(parse_npy(&good[..end]).is_err());
        }
        assert!(parse_npy(&npy("<f8", "False", "(18446744073709551615, 3)", &[0; 16])).is_err());
        assert!(parse_npy(&npy("<f8", "False", "(x,)", &[0; 16])).is_err());
        assert!(
            parse_npy(&npy("<c16", "False", "(1,)", &[0; 16]))
                .unwrap_err()
                .contains("c16")
        );
        assert!(
            parse_npy(&npy("<f8", "False", "(3,)", &[0; 16]))
                .unwrap_err()
                .contains("announced")
        );
    }
}
