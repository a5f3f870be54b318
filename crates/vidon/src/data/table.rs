//! Long tables, one line a reading: CSV (comma, semicolon or tab) and Parquet.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use arrow_array::{Array, RecordBatch, cast::AsArray, types::Float64Type};
use arrow_cast::cast;
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::data::guard::guarded;
use crate::error::{Error, Result};
use crate::files::head;

/// The columns asked for: whose reading it is, and numbers (NaN where the cell is empty).
pub(crate) struct Table {
    pub ids: Vec<String>,
    /// One vector a column.
    pub numbers: Vec<Vec<f64>>,
    /// `line` of a CSV (the header is line 1) or `row` of a Parquet file (from 0).
    row_word: &'static str,
    row_base: usize,
}

impl Table {
    /// How to name row `i` to the user.
    pub fn place(&self, i: usize) -> String {
        format!("{} {}", self.row_word, i + self.row_base)
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Reads the id column and the number columns of a table.
pub(crate) fn read_table(path: &Path, id: &str, numbers: &[&str]) -> Result<Table> {
    match &head(path)?[..] {
        [] => Err(Error::data(path, "is empty")),
        b"PAR1" => guarded(path, || read_parquet(path, id, numbers)),
        b"PK\x03\x04" => Err(Error::data(
            path,
            "is a zip file; name it .npz if it holds NumPy arrays",
        )),
        _ => read_csv(path, id, numbers),
    }
}

/// The positions of the wanted columns, or an error that lists what there is.
fn find_columns(path: &Path, found: &[String], wanted: &[&str]) -> Result<Vec<usize>> {
    let position = |name: &&str| {
        let mut places = found.iter().enumerate().filter(|(_, f)| f == name);
        match (places.next(), places.next()) {
            (Some((i, _)), None) => Ok(i),
            (Some(_), Some(_)) => Err(Error::data(path, "appears twice").in_column(name)),
            (None, _) => {
                let what = format!(
                    "there is no such column; the table has {}",
                    found.join(", ")
                );
                Err(Error::data(path, what).in_column(name))
            }
        }
    };
    wanted.iter().map(position).collect()
}

fn read_csv(path: &Path, id: &str, numbers: &[&str]) -> Result<Table> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut input = BufReader::new(file);
    let start = input.fill_buf().map_err(Error::io("read", path))?;
    let first_line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    let separator = *b",;\t"
        .iter()
        .max_by_key(|&&s| (first_line.iter().filter(|&&b| b == s).count(), s == b','))
        .expect("three candidates");
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(input);
    let csv_error = |e: csv::Error| {
        let line = e.position().map(|p| p.line());
        let what = match e.kind() {
            csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                format!("has {len} cells where the header has {expected_len}")
            }
            csv::ErrorKind::Utf8 { .. } => "is not UTF-8 text; is this a CSV file?".to_string(),
            _ => e.to_string(),
        };
        let error = Error::data(path, what);
        match line {
            Some(line) => error.at(format!("line {line}")),
            None => error,
        }
    };
    let header = reader.headers().map_err(csv_error)?;
    let found: Vec<String> = header
        .iter()
        .map(|h| h.trim_start_matches('\u{feff}').to_string())
        .collect();
    let wanted: Vec<&str> = [&[id], numbers].concat();
    let columns = find_columns(path, &found, &wanted)?;

    let mut ids = Vec::new();
    let mut values = vec![Vec::new(); numbers.len()];
    let mut record = csv::StringRecord::new();
    let mut last_line = 1;
    let mut even = true;
    while reader.read_record(&mut record).map_err(csv_error)? {
        let line = record.position().map_or(0, |p| p.line());
        even &= line == last_line + 1;
        last_line = line;
        let cell = |column: usize| record.get(columns[column]).unwrap_or("");
        if cell(0).is_empty() {
            return Err(Error::data(path, "the sample's name is empty")
                .at(format!("line {line}"))
                .in_column(id));
        }
        ids.push(cell(0).to_string());
        for (i, name) in numbers.iter().enumerate() {
            let number = parse_number(cell(i + 1)).map_err(|what| {
                Error::data(path, what)
                    .at(format!("line {line}"))
                    .in_column(name)
            })?;
            values[i].push(number);
        }
    }
    let (row_word, row_base) = if even { ("line", 2) } else { ("record", 1) };
    Ok(Table {
        ids,
        numbers: values,
        row_word,
        row_base,
    })
}

/// A number, NaN for a missing one.
fn parse_number(cell: &str) -> std::result::Result<f64, String> {
    let missing = ["", "na", "n/a", "nan", "null", "none", "-"];
    if missing.contains(&cell.to_ascii_lowercase().as_str()) {
        return Ok(f64::NAN);
    }
    match cell.parse::<f64>() {
        Ok(v) if v.is_finite() && v.abs() <= f32::MAX as f64 => Ok(v),
        Ok(v) => Err(format!("{v} is not a finite float32")),
        Err(_) => Err(format!("\"{cell}\" is not a number")),
    }
}

fn read_parquet(path: &Path, id: &str, numbers: &[&str]) -> Result<Table> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let parquet_error = |e: &dyn std::fmt::Display| {
        let says = e.to_string();
        match says.contains("ZSTD") || says.contains("BROTLI") {
            true => Error::data(
                path,
                format!(
                    "is compressed in a way this build cannot read; write it with snappy, gzip, lz4 or none ({says})"
                ),
            ),
            false => Error::data(path, format!("cannot be read as Parquet: {says}")),
        }
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| parquet_error(&e))?;
    let found: Vec<String> = builder
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let wanted: Vec<&str> = [&[id], numbers].concat();
    let columns = find_columns(path, &found, &wanted)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
    let reader = builder
        .with_projection(mask)
        .build()
        .map_err(|e| parquet_error(&e))?;

    let mut table = Table {
        ids: Vec::new(),
        numbers: vec![Vec::new(); numbers.len()],
        row_word: "row",
        row_base: 0,
    };
    for batch in reader {
        let batch = batch.map_err(|e| parquet_error(&e))?;
        append_batch(path, id, numbers, &batch, &mut table)?;
    }
    Ok(table)
}

fn append_batch(
    path: &Path,
    id: &str,
    numbers: &[&str],
    batch: &RecordBatch,
    table: &mut Table,
) -> Result<()> {
    let first = table.len();
    let column = |name: &str, to: &DataType, what: &str| {
        let column = batch.column_by_name(name).expect("projected");
        cast(column, to).map_err(|_| {
            let what = format!(
                "holds {}, which cannot be used as {what}",
                column.data_type()
            );
            Error::data(path, what).in_column(name)
        })
    };
    let ids = column(id, &DataType::Utf8, "a sample's name")?;
    for (i, name) in ids.as_string::<i32>().iter().enumerate() {
        match name {
            Some(name) if !name.is_empty() => table.ids.push(name.to_string()),
            _ => {
                let error = Error::data(path, "the sample's name is empty").in_column(id);
                return Err(error.at(format!("row {}", first + i)));
            }
        }
    }
    for (name, values) in numbers.iter().zip(&mut table.numbers) {
        let cells = column(name, &DataType::Float64, "numbers")?;
        // A cast that fails cell by cell gives null, so nulls must have been there before.
        let before = batch.column_by_name(name).expect("projected");
        for (i, cell) in cells.as_primitive::<Float64Type>().iter().enumerate() {
            let error = |what: String| {
                Error::data(path, what)
                    .at(format!("row {}", first + i))
                    .in_column(name)
            };
            match cell {
                Some(v) if v.is_nan() => values.push(f64::NAN),
                Some(v) if v.abs() <= f32::MAX as f64 => values.push(v),
                Some(v) => return Err(error(format!("{v} is not a finite float32"))),
                None if before.is_null(i) => values.push(f64::NAN),
                None => return Err(error("is not a number".into())),
            }
        }
    }
    Ok(())
}
