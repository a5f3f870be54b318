//! Opening a Parquet file. Its decoder makes room for whatever the footer announces, so the footer is walked through
//! first: every list must be there, and no group of columns may have more children than there are columns.
//!
//! A footer is a struct in Thrift's compact protocol, whose second field lists the columns; the fifth field of a column
//! counts its children.

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;

/// The end of a file: the length of the footer, and these letters.
const MAGIC: &[u8] = b"PAR1";
const END: usize = 8;
/// Structs within structs.
const DEEPEST: usize = 32;
/// Field of the footer that lists the columns, and field of a column that counts its children.
const COLUMNS: i64 = 2;
const CHILDREN: i64 = 5;

/// A decoder of the file.
pub(super) fn open<R: ChunkReader + 'static>(
    file: R,
) -> Result<ParquetRecordBatchReaderBuilder<R>, String> {
    check(&file)?;
    ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| e.to_string())
}

/// Whether all that the footer announces can be there. What is no Parquet file at all is left to the decoder.
fn check(file: &impl ChunkReader) -> Result<(), String> {
    let length = file.len() as usize;
    let Some(start) = length.checked_sub(END) else {
        return Ok(());
    };
    let bytes = |start: usize, count: usize| {
        let bytes = file.get_bytes(start as u64, count);
        bytes.map_err(|e| e.to_string())
    };
    let end = bytes(start, END)?;
    if end[4..] != *MAGIC {
        return Ok(());
    }
    let count = u32::from_le_bytes(end[..4].try_into().expect("four bytes")) as usize;
    let Some(start) = start.checked_sub(count) else {
        return Ok(());
    };
    let footer = bytes(start, count)?;
    let mut walk = Walk {
        rest: &footer,
        path: Vec::new(),
        columns: 0,
    };
    walk.fields()
        .ok_or_else(|| "its footer announces more than there is".into())
}

/// A way through nested structs. None is a footer that cannot be.
struct Walk<'a> {
    rest: &'a [u8],
    /// The fields around this place.
    path: Vec<i64>,
    /// Columns that are listed.
    columns: usize,
}

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn pass(&mut self, count: usize) -> Option<()> {
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    fn count(&mut self) -> Option<u64> {
        let mut all = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            all |= ((byte & 0x7f) as u64) << shift;
            if byte < 0x80 {
                return Some(all);
            }
        }
        None
    }

    /// A number with a sign, which is the last bit.
    fn integer(&mut self) -> Option<i64> {
        let bits = self.count()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The fields of a struct.
    fn fields(&mut self) -> Option<()> {
        let mut id = 0i64;
        loop {
            let (step, kind) = match self.byte()? {
                0 => return Some(()),
                byte => (byte >> 4, byte & 15),
            };
            id = match step {
                0 => self.integer()?,
                step => id.checked_add(step as i64)?,
            };
            // The number of a field that is true or false is all there is of it.
            if kind > 2 {
                self.path.push(id);
                self.value(kind)?;
                self.path.pop();
            }
        }
    }

    fn value(&mut self, kind: u8) -> Option<()> {
        match kind {
            1..=3 => self.pass(1),
            4..=6 => {
                let number = self.integer()?;
                // A number below zero is one above it to whoever keeps the last 32 bits.
                let children = 0..=self.columns as i64;
                let possible = self.path != [COLUMNS, CHILDREN] || children.contains(&number);
                possible.then_some(())
            }
            7 => self.pass(8),
            8 => {
                let count = self.count()?;
                self.pass(usize::try_from(count).ok()?)
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.count()?,
                    count => count as u64,
                };
                if self.path == [COLUMNS] {
                    self.columns = usize::try_from(count).ok()?;
                }
                (0..count).try_for_each(|_| self.value(byte & 15))
            }
            11 => {
                let count = self.count()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.value(kinds >> 4)?;
                    self.value(kinds & 15)
                })
            }
            12 if self.path.len() < DEEPEST => self.fields(),
            13 => self.pass(16),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// A file that is a footer alone.
    fn file(footer: &[u8]) -> Bytes {
        let length = (footer.len() as u32).to_le_bytes();
        Bytes::from([footer, &length, MAGIC].concat())
    }

    /// A footer of two columns, the first of which claims so many children.
    fn of_columns(children: &[u8]) -> Bytes {
        // Version 1; two structs in field 2: name "r" (4) and children (5); type 1 (1) and name "x" (4).
        let root = [&[0x48, 1, b'r', 0x15], children, &[0]].concat();
        file(
            &[
                &[0x15, 2, 0x19, 0x2c],
                &root[..],
                &[0x15, 2, 0x38, 1, b'x', 0, 0],
            ]
            .concat(),
        )
    }

    #[test]
    fn what_a_footer_announces_must_be_there() {
        assert_eq!(check(&of_columns(&[2])), Ok(()));
        // 268 435 455 children.
        let many = of_columns(&[0xfe, 0xff, 0xff, 0xff, 1]);
        assert!(check(&many).is_err());
        assert!(open(many).is_err());
        // Fewer than none, of which 32 bits are many.
        let below = of_columns(&[0xff, 0xff, 0xff, 0xff, 0xfb, 0xff, 0xff, 0xff, 0xff, 1]);
        assert!(check(&below).is_err());
        // A list of 2⁶³ structs, a name beyond the end, a field of no known kind, structs without end.
        let list = [&[0x19, 0xfc][..], &[0xff; 9], &[0]].concat();
        let deep = [0x1c; 100];
        for footer in [&list[..], &[0x18, 100, b'x'], &[0x1e, 0], &deep] {
            assert!(check(&file(footer)).is_err(), "{footer:?}");
        }
        // What is no Parquet file at all.
        assert_eq!(check(&Bytes::from_static(b"day,x,y\n")), Ok(()));
        assert_eq!(check(&Bytes::new()), Ok(()));
    }
}
