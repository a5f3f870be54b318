//! Datasets as Apache Parquet: one row a sample.
//!
//! | column          | type                                        | what                                      |
//! |-----------------|---------------------------------------------|-------------------------------------------|
//! | `sensor_coords` | list of fixed-size lists of float32         | where the sensors are, and covariates there |
//! | `sensor_values` | list of fixed-size lists of float32         | what they read; null where it is missing  |
//! | `query_coords`  | list of fixed-size lists of float32         | where targets are; absent with a query grid |
//! | `targets`       | list of fixed-size lists of float32         | the output function there; null as above  |
//! | `sample`        | string, optional                            | the user's name of the sample             |
//! | `crc32`         | uint32, optional                            | CRC-32 of the float32 in the order above, then the name |
//!
//! Several groups of sensors have a pair of columns each, called by the group: `air_coords`, `air_values`. What has
//! no columns (places of scalars, values of points that are only counted) is left out.
//!
//! The key `vidon` of the file's metadata holds a [`Meta`] as JSON, which says by a checksum of its own whether
//! it is whole. Files from elsewhere need neither checksum. Both directions stream: no more than a row group is
//! in memory, and how much that is was checked before ([`bounds`]).

mod bounds;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, ListArray, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde::Deserialize;

use crate::checksum::{check, to_json};
use crate::data::footer;
use crate::data::guard::guarded;
use crate::data::meta::{Kind, Meta, Part};
use crate::data::sample::{Rows, Sample, Sensors};
use crate::error::{Error, Result};
use crate::files::{AtomicFile, head};
use crate::input;

const META_KEY: &str = "vidon";
const CHECKSUM: &str = "crc32";
const NAME: &str = "sample";
const QUERIES: &str = "query_coords";
/// Bytes of the numbers of one row group, and so about what a reader or writer holds.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Writes samples in a stream; the file appears under its name when [`finish`](Self::finish) returns.
pub struct DatasetWriter {
    file: AtomicFile,
    path: PathBuf,
    meta: Meta,
    writer: ArrowWriter<File>,
    rows: usize,
    /// Bytes of the numbers in the row group that is being written.
    begun: usize,
}

impl DatasetWriter {
    /// An error where a dataset is not written to a file of this name.
    pub fn check_name(path: &Path) -> Result<()> {
        let own = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        match own.as_deref() {
            Some("parquet") => Ok(()),
            _ => Err(Error::data(path, "datasets are written as .parquet")),
        }
    }

    pub fn create(path: &Path, meta: Meta) -> Result<Self> {
        if let Some(fault) = meta.fault() {
            return Err(Error::data(path, format!("the description {fault}")));
        }
        let file = AtomicFile::create(path)?;
        Self::check_name(path)?;
        let json = to_json(&meta);
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("vidon {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![KeyValue::new(META_KEY.to_string(), json)]))
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::None);
        // Coordinates repeat (grids, pools); measured values do not, and a dictionary of them is wasted work.
        for values in meta.parts().iter().filter(|part| !part.places) {
            properties = properties.set_column_dictionary_enabled(leaf(&values.name), false);
        }
        let writer = ArrowWriter::try_new(file.handle()?, schema(&meta), Some(properties.build()))
            .map_err(|e| Error::data(path, e.to_string()))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            meta,
            writer,
            rows: 0,
            begun: 0,
        })
    }

    /// Appends samples, each checked against the description.
    pub fn write(&mut self, samples: &[Sample]) -> Result<()> {
        for (i, sample) in samples.iter().enumerate() {
            if let Some((column, what)) = sample.fault(&self.meta) {
                return Err(Error::data(&self.path, what)
                    .at(format!("row {}", self.rows + i))
                    .in_column(&column));
            }
        }
        let mut from = 0;
        for (i, sample) in samples.iter().enumerate() {
            let stored = self.meta.parts().into_iter().zip(sample.parts());
            let stored = stored.filter(|(part, _)| is_stored(part, &self.meta));
            let own: usize = stored.map(|(_, rows)| 4 * rows.data().len()).sum();
            if self.begun > 0 && self.begun + own > ROW_GROUP_BYTES {
                self.append(&samples[from..i])?;
                self.writer
                    .flush()
                    .map_err(|e| write_error(e, &self.path))?;
                (from, self.begun) = (i, 0);
            }
            self.begun += own;
        }
        self.append(&samples[from..])
    }

    /// To the row group that is being written.
    fn append(&mut self, samples: &[Sample]) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let own_queries = self.meta.query_grid.is_none();
        let all: Vec<Vec<&Rows>> = samples.iter().map(Sample::parts).collect();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (i, part) in self.meta.parts().iter().enumerate() {
            if is_stored(part, &self.meta) {
                let own = all.iter().map(|parts| parts[i]);
                columns.push(Arc::new(ragged(own, part)));
            }
        }
        if self.meta.named_samples {
            let names = samples.iter().map(|s| s.name.clone().unwrap_or_default());
            columns.push(Arc::new(StringArray::from_iter_values(names)));
        }
        let checksums = samples.iter().map(|s| s.checksum(own_queries));
        columns.push(Arc::new(UInt32Array::from_iter_values(checksums)));
        let batch = RecordBatch::try_new(schema(&self.meta), columns)
            .map_err(|e| Error::data(&self.path, e.to_string()))?;
        self.writer
            .write(&batch)
            .map_err(|e| write_error(e, &self.path))?;
        self.rows += samples.len();
        Ok(())
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        if self.rows == 0 {
            return Err(Error::data(
                &self.path,
                "a dataset needs at least one sample",
            ));
        }
        self.writer
            .close()
            .map_err(|e| write_error(e, &self.path))?;
        self.file.finish().map(drop)
    }
}

/// Parquet's errors, with the system's own words where the disk is at fault.
fn write_error(error: parquet::errors::ParquetError, path: &Path) -> Error {
    match error {
        parquet::errors::ParquetError::External(inner) => {
            match inner.downcast::<std::io::Error>() {
                Ok(io) => Error::io("write", path)(*io),
                Err(other) => Error::data(path, other.to_string()),
            }
        }
        other => Error::data(path, other.to_string()),
    }
}

/// Queries on a grid that all samples share stand in the description.
fn is_stored(part: &Part, meta: &Meta) -> bool {
    part.name != QUERIES || meta.query_grid.is_none()
}

fn schema(meta: &Meta) -> Arc<Schema> {
    let parts = meta.parts();
    let stored = parts.iter().filter(|part| is_stored(part, meta));
    let column = |part: &Part| Field::new(&part.name, DataType::List(entry(part)), false);
    let mut fields: Vec<Field> = stored.map(column).collect();
    if meta.named_samples {
        fields.push(Field::new(NAME, DataType::Utf8, false));
    }
    fields.push(Field::new(CHECKSUM, DataType::UInt32, false));
    Arc::new(Schema::new(fields))
}

fn entry(part: &Part) -> Arc<Field> {
    let kind = DataType::FixedSizeList(number(part), part.channels.len() as i32);
    Arc::new(Field::new("item", kind, false))
}

fn number(part: &Part) -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, part.gaps))
}

/// The Parquet leaf under a list column.
fn leaf(column: &str) -> ColumnPath {
    let parts = [column, "list", "item", "list", "item"];
    ColumnPath::new(parts.iter().map(|s| s.to_string()).collect())
}

/// A part of every sample, as a column; what is missing is null.
fn ragged<'a>(rows: impl Iterator<Item = &'a Rows> + Clone, part: &Part) -> ListArray {
    let lengths = OffsetBuffer::<i32>::from_lengths(rows.clone().map(Rows::len));
    let numbers = rows.flat_map(|rows| rows.data()).copied();
    let numbers: Float32Array = match part.gaps {
        true => numbers.map(|v| (!v.is_nan()).then_some(v)).collect(),
        false => numbers.collect::<Vec<f32>>().into(),
    };
    let width = part.channels.len() as i32;
    let inner = FixedSizeListArray::new(number(part), width, Arc::new(numbers), None);
    ListArray::new(entry(part), lengths, Arc::new(inner), None)
}

/// Reads a dataset, checking every row.
pub struct DatasetReader {
    path: PathBuf,
    meta: Meta,
    /// First row of every row group, and the end.
    starts: Vec<usize>,
    batch_rows: usize,
    /// The queries of the grid, once a sample was seen that has as many targets.
    shared: OnceLock<Arc<Rows>>,
}

impl DatasetReader {
    /// Opens the file and checks its description and schema.
    pub fn open(path: &Path) -> Result<Self> {
        guarded(path, || Self::open_checked(path))
    }

    fn open_checked(path: &Path) -> Result<Self> {
        let builder = Self::builder(path)?;
        let file = builder.metadata();
        let text = file
            .file_metadata()
            .key_value_metadata()
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == META_KEY))
            .and_then(|pair| pair.value.as_deref())
            .ok_or_else(|| {
                Error::data(
                    path,
                    "is a Parquet file, but not a vidon dataset (no metadata key \"vidon\"); `vidon import` turns tables into datasets",
                )
            })?;
        let meta = description(text).map_err(|what| {
            let what = format!("the description (metadata key \"vidon\") {what}");
            Error::data(path, what)
        })?;
        if let Some(fault) = meta.fault() {
            return Err(Error::data(path, format!("the description {fault}")));
        }
        check_schema(path, builder.schema(), &meta)?;
        let mut starts = vec![0];
        for group in file.row_groups() {
            starts.push(starts[starts.len() - 1] + group.num_rows().max(0) as usize);
        }
        let rows = starts[starts.len() - 1];
        let announced = file.file_metadata().num_rows();
        if announced != rows as i64 {
            let what =
                format!("announces {announced} samples, but has {rows}: the file is damaged");
            return Err(Error::data(path, what));
        }
        if rows == 0 {
            return Err(Error::data(path, "holds no samples"));
        }
        Ok(Self {
            path: path.to_path_buf(),
            batch_rows: bounds::rows_at_once(path, file)?,
            shared: OnceLock::new(),
            meta,
            starts,
        })
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// All samples in order. After an error the stream ends.
    pub fn samples(&self) -> Result<Samples<'_>> {
        self.stream(0, self.len())
    }

    /// One sample, without reading the others.
    pub fn sample(&self, row: usize) -> Result<Sample> {
        if row >= self.len() {
            let last = self.len() - 1;
            let what = format!("has samples 0 to {last}; there is no sample {row}");
            return Err(Error::data(&self.path, what));
        }
        let mut one = self.stream(row, row + 1)?;
        one.next()
            .expect("the stream ends with an error where a row is lacking")
    }

    /// Rows `row..end`; only the row groups from the first one needed are touched.
    fn stream(&self, row: usize, end: usize) -> Result<Samples<'_>> {
        let group = self.starts.partition_point(|&start| start <= row) - 1;
        let groups = group..self.starts.len() - 1;
        let reader = guarded(&self.path, || {
            let builder = Self::builder(&self.path)?;
            let stored = self.meta.parts().into_iter();
            let stored = stored.filter(|part| is_stored(part, &self.meta));
            let mut wanted: Vec<String> = stored.map(|part| part.name).collect();
            wanted.extend([NAME, CHECKSUM].map(String::from));
            let columns = builder.schema().fields().iter().enumerate();
            let columns = columns.filter(|(_, field)| wanted.contains(field.name()));
            let columns: Vec<usize> = columns.map(|(i, _)| i).collect();
            let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
            builder
                .with_projection(mask)
                .with_row_groups(groups.collect())
                .with_limit(end - self.starts[group])
                .with_batch_size(self.batch_rows)
                .build()
                .map_err(|e| Error::data(&self.path, e.to_string()))
        })?;
        let ready = Vec::new().into_iter();
        let first = self.starts[group];
        let mut samples = Samples {
            dataset: self,
            reader,
            row: first,
            end,
            ready,
            failed: false,
        };
        // Read and forgotten: Parquet's own way to skip rows never ends where a page has fewer than it announces.
        let mut skipped = samples.by_ref().take(row - first);
        skipped.try_for_each(|sample| sample.map(drop))?;
        Ok(samples)
    }

    fn builder(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
        let file = input::open(path)?;
        footer::open(file).map_err(|e| foreign(path, &e))
    }

    /// The queries of the grid, for a sample with as many targets: a description can claim any grid.
    fn grid(&self, points: usize, targets: usize) -> std::result::Result<Arc<Rows>, String> {
        if targets != points {
            return Err(format!(
                "has {targets} entries for the {points} queries of the grid in the description"
            ));
        }
        let made = || Arc::new(self.meta.shared_queries().expect("a grid"));
        Ok(self.shared.get_or_init(made).clone())
    }

    fn decode(&self, batch: &RecordBatch, first: usize) -> Result<Vec<Sample>> {
        let described = self.meta.parts();
        let column = |part: &Part| {
            let column = batch.column_by_name(&part.name);
            column.map(|c| c.as_list::<i32>().clone())
        };
        let parts: Vec<Option<ListArray>> = described.iter().map(column).collect();
        let names = batch.column_by_name(NAME).map(|c| c.as_string::<i32>());
        let checksums = batch
            .column_by_name(CHECKSUM)
            .map(|c| c.as_primitive::<UInt32Type>());
        (0..batch.num_rows())
            .map(|i| {
                let fail = |column: &str, what: &str| {
                    Error::data(&self.path, what).at(format!("row {}", first + i)).in_column(column)
                };
                let rows = |part: usize| -> Result<Rows> {
                    let list = parts[part].as_ref().expect("the schema was checked");
                    row(list, i, &described[part]).map_err(|what| fail(&described[part].name, what))
                };
                let mut at = 0;
                let mut next = |there: bool| -> Result<Option<Rows>> {
                    at += usize::from(there);
                    there.then(|| rows(at - 1)).transpose()
                };
                let mut groups = Vec::with_capacity(self.meta.groups.len());
                for group in &self.meta.groups {
                    let coords = next(!group.coords.is_empty())?;
                    let values = next(!group.values.is_empty())?;
                    // What has no columns has as many rows as what has.
                    let count = match group.kind {
                        Kind::Scalars => 1,
                        _ => coords.as_ref().map_or(0, Rows::len),
                    };
                    let nothing = || Rows::without_columns(count);
                    groups.push(Sensors {
                        coords: coords.unwrap_or_else(nothing),
                        values: values.unwrap_or_else(nothing),
                    });
                }
                let (queries, targets) = (described.len() - 2, described.len() - 1);
                let targets = rows(targets)?;
                let sample = Sample {
                    name: names.and_then(|n| n.is_valid(i).then(|| n.value(i).to_string())),
                    groups,
                    query_coords: match self.meta.grid_points() {
                        Some(points) => self.grid(points, targets.len()).map_err(|what| fail("targets", &what))?,
                        None => Arc::new(rows(queries)?),
                    },
                    targets,
                };
                if let Some((column, what)) = sample.fault(&self.meta) {
                    return Err(fail(&column, &what));
                }
                match checksums {
                    Some(sums) if sums.is_valid(i) && sums.value(i) != sample.checksum(self.meta.query_grid.is_none()) => {
                        Err(fail(CHECKSUM, "the numbers of this row are not those that were written: the file is damaged"))
                    }
                    _ => Ok(sample),
                }
            })
            .collect()
    }
}

/// Row `i` of a list column, or what is wrong with it.
fn row(list: &ListArray, i: usize, part: &Part) -> std::result::Result<Rows, &'static str> {
    if list.is_null(i) {
        return Err("is null; every sample needs a list");
    }
    let width = part.channels.len();
    let entries = list.value(i);
    let entries = entries.as_fixed_size_list();
    let numbers = entries.values().as_primitive::<Float32Type>();
    let from = entries.value_offset_at(0);
    let slice = numbers.slice(from, entries.len() * width);
    if entries.null_count() > 0 || slice.null_count() > 0 && !part.gaps {
        return Err("holds a null; only numbers are allowed");
    }
    let mut numbers = slice.values().to_vec();
    if slice.null_count() > 0 {
        let nulls = (0..numbers.len()).filter(|&at| slice.is_null(at));
        nulls.for_each(|at| numbers[at] = f32::NAN);
    }
    Ok(Rows::of(width, numbers))
}

/// The description, which must be whole if it has a checksum.
fn description(text: &str) -> std::result::Result<Meta, String> {
    #[derive(Deserialize)]
    struct Sealed {
        crc32: Option<String>,
    }
    let unread = |e: serde_json::Error| format!("is damaged, or cannot be read: {e}");
    let Sealed { crc32 } = serde_json::from_str(text).map_err(unread)?;
    if crc32.is_some() {
        let edited = "; who changes it on purpose leaves \"crc32\" out";
        check(text.as_bytes()).map_err(|what| format!("{what}{edited}"))?;
    }
    serde_json::from_str(text).map_err(unread)
}

/// Why a file is no Parquet, in words that help.
fn foreign(path: &Path, parquet_says: &str) -> Error {
    let head = match head(path) {
        Ok(head) => head,
        Err(error) => return error,
    };
    let what = match &head[..] {
        [] => "is empty".to_string(),
        b"PAR1" => format!(
            "begins like a Parquet file, but its end is missing or damaged: was it cut short? ({parquet_says})"
        ),
        b"\x93NUM" | b"PK\x03\x04" => {
            "is a NumPy or zip file, not a dataset; `vidon import` reads .npz".to_string()
        }
        _ => {
            "is not a Parquet file; `vidon import` turns CSV, Parquet and .npz tables into datasets"
                .to_string()
        }
    };
    Error::data(path, what)
}

fn check_schema(path: &Path, schema: &Schema, meta: &Meta) -> Result<()> {
    for part in meta.parts() {
        if !is_stored(&part, meta) {
            continue;
        }
        let (name, width) = (&part.name[..], part.channels.len());
        let found: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let field = schema.field_with_name(name).map_err(|_| {
            Error::data(
                path,
                format!("is missing; the file has {}", found.join(", ")),
            )
            .in_column(name)
        })?;
        let fits = match field.data_type() {
            DataType::List(inner) => match inner.data_type() {
                DataType::FixedSizeList(number, w) => {
                    *w == width as i32 && number.data_type() == &DataType::Float32
                }
                _ => false,
            },
            _ => false,
        };
        if !fits {
            let what = format!(
                "must be a list of fixed-size lists of {width} float32 (as the description says), not {}",
                field.data_type()
            );
            return Err(Error::data(path, what).in_column(name));
        }
    }
    for (name, wanted) in [(CHECKSUM, DataType::UInt32), (NAME, DataType::Utf8)] {
        match schema.field_with_name(name).map(Field::data_type) {
            Ok(other) if other != &wanted => {
                let what = format!("must be {wanted}, not {other}");
                return Err(Error::data(path, what).in_column(name));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Samples of a dataset, in order.
pub struct Samples<'a> {
    dataset: &'a DatasetReader,
    reader: ParquetRecordBatchReader,
    /// The next row to decode, and the one after the last.
    row: usize,
    end: usize,
    ready: std::vec::IntoIter<Sample>,
    failed: bool,
}

impl Samples<'_> {
    /// Decodes the next rows.
    fn refill(&mut self) -> Result<()> {
        let (dataset, row, end) = (self.dataset, self.row, self.end);
        let path = &dataset.path;
        let samples = guarded(path, || match self.reader.next() {
            None => Err(Error::data(
                path,
                format!("ends after {row} of {end} samples"),
            )),
            Some(Err(e)) => Err(Error::data(path, format!("cannot be decoded: {e}"))
                .at(format!("row {row} or later"))),
            Some(Ok(batch)) => dataset.decode(&batch, row),
        })?;
        self.row += samples.len();
        self.ready = samples.into_iter();
        Ok(())
    }
}

impl Iterator for Samples<'_> {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        while !self.failed {
            if let Some(sample) = self.ready.next() {
                return Some(Ok(sample));
            }
            if self.row >= self.end {
                return None;
            }
            if let Err(error) = self.refill() {
                self.failed = true;
                return Some(Err(error));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
