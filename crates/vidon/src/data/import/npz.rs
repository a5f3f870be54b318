//! NumPy arrays: the `.npy` format (versions 1 to 3) and `.npz` archives of them.
//!
//! A `.npy` is the magic `\x93NUMPY`, two version bytes, the length of the header (u16, from version 2 on
//! u32), the header (a Python dict with `descr`, `fortran_order` and `shape`) and the numbers.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::input;
use crate::memory::Need;

/// Bytes that one packed byte can stand for, at most: deflate packs zeros that well.
const MOST_PACKED: u64 = 1032;
/// Bytes of a header, at most: NumPy itself reads no more.
const MOST_HEADER: usize = 1 << 16;
/// Numbers read at a time.
const BLOCK: usize = 1 << 13;

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
        let file = input::open(path)?;
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
        let entry = self.zip.by_name(&format!("{name}.npy"));
        let entry = entry.map_err(|e| zip_error(self.path, e))?;
        let packed = entry.compressed_size();
        read_npy(entry, packed).map_err(fail)
    }
}

fn zip_error(path: &Path, error: zip::result::ZipError) -> Error {
    Error::data(
        path,
        format!("cannot be read as .npz (a zip archive): {error}"),
    )
}

/// Reads a `.npy` that takes so many bytes in its file, and no more of it than its header announces.
fn read_npy(mut from: impl Read, packed: u64) -> std::result::Result<NumpyArray, String> {
    let Header {
        kind,
        fortran,
        shape,
    } = Header::read(&mut from)?;
    let total = shape.iter().try_fold(1usize, |n, &k| n.checked_mul(k));
    let total = total.ok_or("the array's shape is too large")?;
    let number = Number::of(&kind)?;
    let announced = || format!("{total} numbers of {} bytes are announced", number.size);
    let bytes = total.saturating_mul(number.size);
    if bytes as u64 / MOST_PACKED > packed {
        return Err(format!(
            "{}, which cannot come from {packed} bytes: the array ends early, or was made to deceive",
            announced()
        ));
    }
    // The numbers, and what is made of them.
    let need = Need::of(total, size_of::<f64>());
    need.and(need)
        .check()
        .map_err(|what| format!("{}: to be read the array {what}", announced()))?;
    let mut values: Vec<f64> = Vec::with_capacity(total);
    let mut block = vec![0; BLOCK * number.size];
    while values.len() < total {
        let wanted = block.len().min((total - values.len()) * number.size);
        let filled = fill(&mut from, &mut block[..wanted])?;
        if filled < wanted {
            let there = values.len() * number.size + filled;
            return Err(format!("{}, but {there} bytes follow", announced()));
        }
        let numbers = block[..wanted].chunks_exact(number.size);
        values.extend(numbers.map(|bytes| number.read(bytes)));
    }
    // Also what makes the archive look at its checksum.
    if fill(&mut from, &mut [0])? > 0 {
        return Err(format!("{}, but more bytes follow", announced()));
    }
    Ok(NumpyArray {
        values: if fortran {
            to_c_order(&values, &shape)
        } else {
            values
        },
        shape,
    })
}

/// Reads as many bytes as there are, up to the length of `to`.
fn fill(from: &mut impl Read, to: &mut [u8]) -> std::result::Result<usize, String> {
    let mut filled = 0;
    while filled < to.len() {
        match from.read(&mut to[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("cannot be unpacked: {e}")),
        }
    }
    Ok(filled)
}

/// What stands before the numbers.
struct Header {
    kind: String,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn read(from: &mut impl Read) -> std::result::Result<Self, String> {
        let mut bytes = |count: usize| -> std::result::Result<Vec<u8>, String> {
            let mut bytes = vec![0; count];
            match fill(from, &mut bytes)? == count {
                true => Ok(bytes),
                false => Err("the array ends early".into()),
            }
        };
        if bytes(6)? != b"\x93NUMPY" {
            return Err("is not a NumPy array".into());
        }
        let length = match bytes(2)?[0] {
            1 => bytes(2)?,
            _ => bytes(4)?,
        };
        let length = length.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
        if length > MOST_HEADER {
            return Err(format!(
                "the array's header has {length} bytes, more than {MOST_HEADER}"
            ));
        }
        let header = bytes(length)?;
        let header = std::str::from_utf8(&header).map_err(|_| "the array's header is damaged")?;
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
        let inner = after("'shape'")?
            .strip_prefix('(')
            .and_then(|s| s.split(')').next())
            .ok_or("the array's shape is damaged")?;
        let sizes = inner.split(',').map(str::trim).filter(|s| !s.is_empty());
        let size = |s: &str| {
            let damaged = |_| format!("the array's shape ({inner}) is damaged");
            s.parse().map_err(damaged)
        };
        Ok(Self {
            kind: kind.into(),
            fortran: after("'fortran_order'")?.starts_with("True"),
            shape: sizes.map(size).collect::<std::result::Result<_, _>>()?,
        })
    }
}

/// How a number is stored.
struct Number {
    size: usize,
    big: bool,
    little_endian: fn(&[u8]) -> f64,
}

impl Number {
    fn of(kind: &str) -> std::result::Result<Self, String> {
        let (big, kind) = match kind.split_at_checked(1) {
            Some((">", kind)) => (true, kind),
            Some(("<" | "|" | "=", kind)) => (false, kind),
            _ => (false, kind),
        };
        macro_rules! stored {
            ($type:ty) => {
                Ok(Self {
                    size: size_of::<$type>(),
                    big,
                    little_endian: |b| {
                        <$type>::from_le_bytes(b.try_into().expect("as many as it has")) as f64
                    },
                })
            };
        }
        match kind {
            "f8" => stored!(f64),
            "f4" => stored!(f32),
            "i8" => stored!(i64),
            "i4" => stored!(i32),
            "i2" => stored!(i16),
            "i1" => stored!(i8),
            "u8" => stored!(u64),
            "u4" => stored!(u32),
            "u2" => stored!(u16),
            "u1" | "b1" => stored!(u8),
            other => Err(format!(
                "holds numbers of type {other}; float32, float64 and integers can be read"
            )),
        }
    }

    fn read(&self, bytes: &[u8]) -> f64 {
        if !self.big {
            return (self.little_endian)(bytes);
        }
        let mut turned = [0; 8];
        let turned = &mut turned[..bytes.len()];
        turned.copy_from_slice(bytes);
        turned.reverse();
        (self.little_endian)(turned)
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

    fn parse(bytes: &[u8]) -> std::result::Result<NumpyArray, String> {
        read_npy(bytes, bytes.len() as u64)
    }

    /// Counts what is read of an endless array.
    struct Endless<'a>(&'a [u8], u64);

    impl Read for Endless<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let length = match self.0.read(to)? {
                0 => to.len(),
                some => some,
            };
            self.1 += length as u64;
            Ok(length)
        }
    }

    #[test]
    fn no_more_is_read_than_announced() {
        let head = npy("<f8", "False", "(1000, 4)", &[]);
        let mut bomb = Endless(&head, 0);
        let error = read_npy(&mut bomb, 4 << 20).unwrap_err();
        assert!(error.contains("but more bytes follow"), "{error}");
        assert_eq!(bomb.1, head.len() as u64 + 32_000 + 1);

        let head = npy("<f4", "False", "(1000000, 1000)", &[]);
        let mut bomb = Endless(&head, 0);
        let error = read_npy(&mut bomb, 1 << 20).unwrap_err();
        assert!(error.contains("cannot come from 1048576 bytes"), "{error}");
        assert_eq!(bomb.1, head.len() as u64);

        let head = npy("<f4", "False", "(1000000, 1000000, 1000)", &[]);
        let error = read_npy(&mut Endless(&head, 0), 1 << 60).unwrap_err();
        assert!(
            error.contains("to be read the array takes about"),
            "{error}"
        );
    }

    #[test]
    fn types_orders_and_shapes() {
        let le: Vec<u8> = [1.5f32, -2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let array = parse(&npy("<f4", "False", "(2, 3)", &le)).unwrap();
        assert_eq!(
            (array.shape, array.values),
            (vec![2, 3], vec![1.5, -2.0, 3.0, 4.0, 5.0, 6.0])
        );
        let array = parse(&npy("<f4", "True", "(2, 3)", &le)).unwrap();
        assert_eq!(array.values, [1.5, 3.0, 5.0, -2.0, 4.0, 6.0]);
        let be: Vec<u8> = [7i16, -9].iter().flat_map(|v| v.to_be_bytes()).collect();
        assert_eq!(
            parse(&npy(">i2", "False", "(2,)", &be)).unwrap().values,
            [7.0, -9.0]
        );
        assert_eq!(
            parse(&npy("|u1", "False", "()", &[3])).unwrap().values,
            [3.0]
        );
    }

    #[test]
    fn damage_is_refused() {
        let good = npy("<f8", "False", "(2,)", &[0; 16]);
        assert!(parse(&good).is_ok());
        for end in 0..good.len() {
            assert!(parse(&good[..end]).is_err());
        }
        assert!(parse(&npy("<f8", "False", "(18446744073709551615, 3)", &[0; 16])).is_err());
        assert!(parse(&npy("<f8", "False", "(x,)", &[0; 16])).is_err());
        assert!(
            parse(&npy("<c16", "False", "(1,)", &[0; 16]))
                .unwrap_err()
                .contains("c16")
        );
        assert!(
            parse(&npy("<f8", "False", "(3,)", &[0; 16]))
                .unwrap_err()
                .contains("announced")
        );
    }
}
