//! What a file would take in memory, before any of it is decoded: run lengths and packing let a few bytes
//! stand for any number of values.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{Error, Result};
use crate::input;
use crate::memory::{Need, size};

/// Bytes decoded at a time, where a row has no more.
const READ_BYTES: usize = 16 << 20;
/// Bytes that the numbers of a row group have at most: in any file, and for each byte of a larger one.
const LEAST: usize = 128 << 20;
const FOLD: usize = 16;
/// What decoding takes for each byte of numbers: levels, the decoder's own numbers, and those of the samples.
const COPIES: usize = 4;

/// How many rows to decode at a time, if all row groups can be decoded.
pub(super) fn rows_at_once(path: &Path, metadata: &ParquetMetaData) -> Result<usize> {
    rows_within(LEAST, path, metadata)
}

/// The same for files of which each may have row groups of so many bytes.
fn rows_within(least: usize, path: &Path, metadata: &ParquetMetaData) -> Result<usize> {
    let file = Arc::new(input::open(path)?);
    let length = file.metadata().map_err(Error::io("read", path))?.len() as usize;
    let most = least.max(FOLD.saturating_mul(length));
    let mut at_once = 256;
    for (i, group) in metadata.row_groups().iter().enumerate() {
        let refuse = |what: String| Err(Error::data(path, what).at(format!("row group {i}")));
        let rows = group.num_rows().max(1) as usize;
        let (mut bytes, mut texts) = (0usize, 0usize);
        for column in group.columns() {
            let name = column.column_path().string();
            let values = values(file.clone(), column, rows);
            let values = values
                .map_err(|e| Error::data(path, format!("is damaged: {e}")).in_column(&name))?;
            if values as i64 != column.num_values() {
                let claimed = column.num_values();
                let what = format!("{claimed} values are announced, but its pages have {values}");
                return Err(Error::data(path, what).in_column(&name));
            }
            match column.column_type() {
                Type::BYTE_ARRAY => texts += column.uncompressed_size().max(0) as usize,
                _ => bytes = bytes.saturating_add(values.saturating_mul(4)),
            }
        }
        if bytes > most {
            return refuse(format!(
                "has {} of numbers in a file of {}; a row group has at most {}, or {FOLD} times what its file has: write it in groups of fewer rows",
                size(bytes),
                size(length),
                size(least)
            ));
        }
        if let Err(what) = Need::of(bytes, COPIES).check() {
            return refuse(format!("to be decoded it {what}"));
        }
        let of = |limit: usize, bytes: usize| (limit / bytes.max(1)).max(1);
        // Any text may be as long as all of them.
        at_once = at_once
            .min(of(READ_BYTES, bytes / rows))
            .min(of(LEAST, texts));
    }
    Ok(at_once)
}

/// Values of a column by the headers of its pages, which is what a decoder goes by.
fn values(
    file: Arc<File>,
    column: &ColumnChunkMetaData,
    rows: usize,
) -> std::result::Result<usize, ParquetError> {
    let mut pages = SerializedPageReader::new(Arc::new(Whole(file)), column, rows, None)?;
    let mut all = 0usize;
    while let Some(page) = pages.peek_next_page()? {
        all = all.saturating_add(page.num_levels.unwrap_or(0));
        pages.skip_next_page()?;
    }
    Ok(all)
}

/// A file whose end is an error: a damaged header that announces a list of texts would be read there for each of them.
struct Whole(Arc<File>);

/// What is read from a place on.
struct UpToTheEnd(BufReader<File>);

impl Length for Whole {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Whole {
    type T = UpToTheEnd;

    fn get_read(&self, start: u64) -> parquet::errors::Result<UpToTheEnd> {
        self.0.get_read(start).map(UpToTheEnd)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

impl Read for UpToTheEnd {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(bytes)? {
            0 if !bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::{small, small_meta};
    use crate::data::{DatasetWriter, Rows};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn a_small_file_stands_for_few_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.parquet");
        let mut sample = small(300_000, 1);
        sample.groups[0].coords = Rows::of(2, vec![0.5; 600_000]);
        sample.groups[0].values = Rows::of(1, vec![0.0; 300_000]);
        let mut writer = DatasetWriter::create(&path, small_meta()).unwrap();
        writer.write(&[sample, small(3, 1)]).unwrap();
        writer.finish().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 100_000);
        let file = input::open(&path).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        // Rows that are large at an average are decoded one by one.
        assert_eq!(rows_within(LEAST, &path, builder.metadata()).unwrap(), 9);
        let refused = rows_within(1 << 20, &path, builder.metadata());
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("row group 0: has 3.6 MB of numbers in a file of "),
            "{words}"
        );
    }
}
