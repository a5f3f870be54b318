//! Long tables, one line a reading: CSV (comma, semicolon or tab) and Parquet.

use std::path::Path;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;

use crate::data::cells::Cells;
use crate::data::footer;
use crate::data::guard::guarded;
use crate::data::import::cells;
use crate::error::{Error, Result};
use crate::input;
use crate::memory::Need;

/// The columns asked for: whose reading it is, and numbers (NaN where the cell is empty).
pub(crate) struct Table {
    /// Empty where no id was asked for.
    pub ids: Vec<String>,
    /// One vector a column.
    pub numbers: Vec<Vec<f64>>,
    /// Line of each row in a text file.
    lines: Option<Vec<usize>>,
}

impl Table {
    /// How to name row `i` to the user.
    pub fn place(&self, i: usize) -> String {
        match &self.lines {
            Some(lines) => format!("line {}", lines[i]),
            None => format!("row {i}"),
        }
    }

    pub fn len(&self) -> usize {
        self.numbers.first().map_or(self.ids.len(), Vec::len)
    }
}

/// Reads the id column (where there is one) and the number columns of a table.
pub(crate) fn read_table(path: &Path, id: Option<&str>, numbers: &[&str]) -> Result<Table> {
    let wanted = Wanted {
        id,
        numbers,
        others: false,
    };
    Ok(read(path, &wanted)?.0)
}

/// Reads number columns, and all the others as they stand there.
pub(crate) fn read_whole_table(path: &Path, numbers: &[&str]) -> Result<(Table, Others)> {
    let wanted = Wanted {
        id: None,
        numbers,
        others: true,
    };
    read(path, &wanted)
}

/// Columns that were not asked for by name.
type Others = Vec<(String, Cells)>;

/// What is asked of a table.
struct Wanted<'a> {
    id: Option<&'a str>,
    numbers: &'a [&'a str],
    others: bool,
}

impl Wanted<'_> {
    /// The positions of the columns asked for by name, and of the others where they are wanted.
    fn find(&self, path: &Path, found: &[String]) -> Result<(Vec<usize>, Vec<usize>)> {
        let named: Vec<&str> = self.id.iter().chain(self.numbers).copied().collect();
        let named = find_columns(path, found, &named)?;
        let others = (0..found.len()).filter(|i| self.others && !named.contains(i));
        let others: Vec<usize> = others.collect();
        let names: Vec<&str> = others.iter().map(|&i| &found[i][..]).collect();
        find_columns(path, found, &names)?;
        Ok((named, others))
    }
}

fn read(path: &Path, wanted: &Wanted) -> Result<(Table, Others)> {
    let bytes = input::read(path)?;
    let (table, others) = if bytes.is_empty() {
        return Err(Error::data(path, "is empty"));
    } else if bytes.starts_with(b"PAR1") {
        guarded(path, || read_parquet(path, bytes, wanted))?
    } else if bytes.starts_with(b"PK\x03\x04") {
        return Err(Error::data(
            path,
            "is a zip file; name it .npz if it holds NumPy arrays",
        ));
    } else {
        read_csv(path, &bytes, wanted)?
    };
    match table.len() {
        0 => Err(Error::data(path, "has a header, but no lines below it")),
        _ => Ok((table, others)),
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

/// Lines with something in them and their numbers, without the remarks (`#`) that may stand before the header.
fn content_lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(usize, &'a str)>> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()]
            .iter()
            .filter(|&&b| b == b'\n')
            .count();
        Error::data(path, "is not UTF-8 text; is this a CSV file?").at(format!("line {line}"))
    })?;
    let numbered = text.trim_start_matches('\u{feff}').lines().enumerate();
    let mut lines = numbered.map(|(i, line)| (i + 1, line.trim_start_matches('\u{feff}')));
    let header = lines.find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let filled = lines.filter(|(_, line)| !line.trim().is_empty());
    let all: Vec<(usize, &str)> = header.into_iter().chain(filled).collect();
    match all.iter().find(|(_, line)| line.contains('\r')) {
        Some((line, _)) => {
            let what = "has a carriage return within the line; end all lines with \\n or \\r\\n";
            Err(Error::data(path, what).at(format!("line {line}")))
        }
        None => Ok(all),
    }
}

fn read_csv(path: &Path, bytes: &[u8], wanted: &Wanted) -> Result<(Table, Others)> {
    let Wanted { id, numbers, .. } = *wanted;
    let content = content_lines(path, bytes)?;
    let Some((_, first)) = content.first() else {
        return Err(Error::data(path, "is empty"));
    };
    let separator = *b",;\t"
        .iter()
        .max_by_key(|&&s| (first.bytes().filter(|&b| b == s).count(), s == b','))
        .expect("three candidates");
    let text: String = content.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .terminator(csv::Terminator::Any(b'\n'))
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut found: Vec<String> = Vec::new();
    let (mut columns, mut beside) = (Vec::new(), Vec::new());
    let mut others: Vec<Vec<String>> = Vec::new();
    let (mut ids, mut lines) = (Vec::new(), Vec::new());
    let mut values = vec![Vec::new(); numbers.len()];
    for (record, &(line, _)) in reader.records().zip(&content) {
        let place = |error: Error| error.at(format!("line {line}"));
        let mut record = record.map_err(|e| place(Error::data(path, e.to_string())))?;
        // Every line is a record: one that goes on in the next line has an open quote.
        if record.iter().any(|cell| cell.contains('\n')) {
            return Err(place(Error::data(
                path,
                "a quote is not closed in its line",
            )));
        }
        record.trim();
        if columns.is_empty() {
            found = record.iter().map(str::to_string).collect();
            (columns, beside) = wanted.find(path, &found)?;
            others.resize(beside.len(), Vec::new());
            continue;
        }
        if record.len() != found.len() {
            let what = format!(
                "has {} cells where the header has {}",
                record.len(),
                found.len()
            );
            return Err(place(Error::data(path, what)));
        }
        let cells: Vec<&str> = columns.iter().map(|&c| &record[c]).collect();
        if let Some(id) = id {
            if cells[0].is_empty() {
                let error = Error::data(path, "the sample's name is empty");
                return Err(place(error.in_column(id)));
            }
            ids.push(cells[0].to_string());
        }
        let first = cells.len() - numbers.len();
        for (i, column) in numbers.iter().enumerate() {
            let number = parse_number(cells[first + i])
                .map_err(|what| place(Error::data(path, what).in_column(column)))?;
            values[i].push(number);
        }
        for (cells, &c) in others.iter_mut().zip(&beside) {
            cells.push(record[c].to_string());
        }
        lines.push(line);
    }
    let names = beside.iter().map(|&c| found[c].clone());
    let others = names.zip(others.into_iter().map(Cells::Texts)).collect();
    let table = Table {
        ids,
        numbers: values,
        lines: Some(lines),
    };
    Ok((table, others))
}

/// A number, NaN for a missing one.
fn parse_number(cell: &str) -> std::result::Result<f64, String> {
    let missing = ["", "na", "n/a", "nan", "null", "none", "-"];
    if missing.contains(&cell.to_ascii_lowercase().as_str()) {
        return Ok(f64::NAN);
    }
    match cell.parse::<f64>() {
        Ok(v) if v.is_finite() && v.abs() <= f32::MAX as f64 => Ok(v),
        Ok(_) => Err(format!("\"{cell}\" is not a finite float32")),
        Err(_) => Err(format!("\"{cell}\" is not a number")),
    }
}

fn read_parquet(path: &Path, bytes: Vec<u8>, wanted: &Wanted) -> Result<(Table, Others)> {
    let Wanted { id, numbers, .. } = *wanted;
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
    let builder = footer::open(Bytes::from(bytes)).map_err(|e| parquet_error(&e))?;
    let found: Vec<String> = builder
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let (columns, beside) = wanted.find(path, &found)?;
    let rows = builder.metadata().file_metadata().num_rows().max(0) as usize;
    let need = Need::of(rows, 2 * size_of::<f64>() * columns.len())
        .and(Need::of(rows, size_of::<String>() * (1 + beside.len())));
    need.check().map_err(|what| {
        Error::data(
            path,
            format!("has {rows} rows; to be read the table {what}"),
        )
    })?;
    let mask = ProjectionMask::roots(
        builder.parquet_schema(),
        columns.iter().chain(&beside).copied(),
    );
    let reader = builder
        .with_projection(mask)
        .build()
        .map_err(|e| parquet_error(&e))?;

    let mut table = Table {
        ids: Vec::new(),
        numbers: vec![Vec::new(); numbers.len()],
        lines: None,
    };
    let mut others: Others = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|e| parquet_error(&e))?;
        append_batch(path, id, numbers, &batch, &mut table)?;
        for &c in &beside {
            let column = batch.column_by_name(&found[c]).expect("projected");
            // What has no words, such as a list, is passed over.
            let Some(cells) = cells::as_they_are(column) else {
                continue;
            };
            match others.iter_mut().find(|(name, _)| *name == found[c]) {
                Some((_, all)) => all.append(cells),
                None => others.push((found[c].clone(), cells)),
            }
        }
    }
    Ok((table, others))
}

fn append_batch(
    path: &Path,
    id: Option<&str>,
    numbers: &[&str],
    batch: &RecordBatch,
    table: &mut Table,
) -> Result<()> {
    let first = table.len();
    let column = |name: &str| batch.column_by_name(name).expect("projected");
    let unfit = |name: &str, what: &str| {
        let kind = column(name).data_type();
        let what = format!("holds {kind}, which cannot be used as {what}");
        Error::data(path, what).in_column(name)
    };
    if let Some(id) = id {
        let names = cells::names(column(id)).ok_or_else(|| unfit(id, "a sample's name"))?;
        for (i, name) in names.into_iter().enumerate() {
            match name {
                Some(name) if !name.is_empty() => table.ids.push(name),
                _ => {
                    let error = Error::data(path, "the sample's name is empty").in_column(id);
                    return Err(error.at(format!("row {}", first + i)));
                }
            }
        }
    }
    for (name, values) in numbers.iter().zip(&mut table.numbers) {
        let cells = cells::numbers(column(name)).ok_or_else(|| unfit(name, "numbers"))?;
        for (i, cell) in cells.into_iter().enumerate() {
            let error = |what: String| {
                Error::data(path, what)
                    .at(format!("row {}", first + i))
                    .in_column(name)
            };
            match cell {
                None => values.push(f64::NAN),
                Some(Ok(v)) if v.is_nan() => values.push(f64::NAN),
                Some(Ok(v)) if v.abs() <= f32::MAX as f64 => values.push(v),
                Some(Ok(v)) => return Err(error(format!("{v:e} is not a finite float32"))),
                Some(Err(())) => return Err(error("is not a number".into())),
            }
        }
    }
    Ok(())
}
