//! Plain tables of numbers: sensors and queries in, predictions out.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use parquet::arrow::ArrowWriter;

use crate::data::import::table::read_table;
use crate::data::meta::{Channel, Group, Kind};
use crate::data::sample::{Rows, Sensors};
use crate::error::{Error, Result};
use crate::files::{AtomicFile, ending, write_file};

impl Rows {
    /// The named columns of a CSV or Parquet table.
    pub fn read(path: &Path, names: &[String]) -> Result<Rows> {
        Ok(read_parts(path, [(names, false), (&[], false)])?[0].clone())
    }

    /// Writes values with their places as `.csv` or `.parquet` (one column each, `names` in order, those of
    /// the places first), or the values alone as `.npy`, in the `shape` of a grid where there is one.
    pub fn write(
        &self,
        path: &Path,
        names: &[String],
        places: &Rows,
        shape: Option<&[usize]>,
    ) -> Result<()> {
        match ending(path, "values", &ENDINGS)? {
            "csv" => write_csv(path, names, places, self),
            "parquet" => write_parquet(path, names, places, self),
            _ => write_npy(path, self, shape),
        }
    }

    /// An error where [`write`](Self::write) has no format for a file of this name.
    pub fn check_name(path: &Path) -> Result<()> {
        ending(path, "values", &ENDINGS).map(|_| ())
    }
}

impl Sensors {
    /// A group of sensors from a CSV or Parquet table with columns for its coordinates and values. Scalars
    /// stand in one line.
    pub fn read(path: &Path, group: &Group) -> Result<Sensors> {
        let names = |channels: &[Channel]| Vec::from_iter(channels.iter().map(|c| c.name.clone()));
        let (places, readings) = (names(&group.coords), names(&group.values));
        let [coords, values] = read_parts(path, [(&places, false), (&readings, group.gaps)])?;
        if group.kind == Kind::Scalars && values.len() != 1 {
            let lines = values.len();
            let what = format!(
                "has {lines} lines; the parameters {} of a sample stand in one",
                group.name
            );
            return Err(Error::data(path, what));
        }
        Ok(Sensors { coords, values })
    }
}

/// Columns of a table, in two parts, each with whether its numbers may be missing.
fn read_parts(path: &Path, parts: [(&[String], bool); 2]) -> Result<[Rows; 2]> {
    let all = parts.iter().flat_map(|(names, _)| names.iter());
    let names: Vec<&str> = all.map(String::as_str).collect();
    let table = read_table(path, None, &names)?;
    let mut columns = table.numbers.iter().zip(&names);
    let mut read = |(names, gaps): (&[String], bool)| -> Result<Rows> {
        let own: Vec<(&Vec<f64>, &&str)> = columns.by_ref().take(names.len()).collect();
        for (column, name) in own.iter().filter(|_| !gaps) {
            if let Some(i) = column.iter().position(|v| !v.is_finite()) {
                let error = Error::data(path, "is missing; fill it, or leave such lines out");
                return Err(error.at(table.place(i)).in_column(name));
            }
        }
        if own.is_empty() {
            return Ok(Rows::without_columns(table.len()));
        }
        let row = |i: usize| own.iter().map(move |(c, _)| c[i] as f32);
        let rows = (0..table.len()).flat_map(row);
        Ok(Rows::of(own.len(), rows.collect()))
    };
    let [first, second] = parts;
    Ok([read(first)?, read(second)?])
}

const ENDINGS: [&str; 3] = ["csv", "npy", "parquet"];

fn write_csv(path: &Path, names: &[String], places: &Rows, values: &Rows) -> Result<()> {
    write_file(path, |out| {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(names)?;
        for (place, value) in places.iter().zip(values.iter()) {
            writer.write_record(place.iter().chain(value).map(f32::to_string))?;
        }
        writer.flush()
    })
}

fn write_parquet(path: &Path, names: &[String], places: &Rows, values: &Rows) -> Result<()> {
    let column = |rows: &Rows, k: usize| -> ArrayRef {
        Arc::new(Float32Array::from_iter_values(rows.iter().map(|r| r[k])))
    };
    let all = (0..places.width()).map(|k| column(places, k));
    let all = all.chain((0..values.width()).map(|k| column(values, k)));
    let wrong = |e: String| Error::data(path, e);
    let batch =
        RecordBatch::try_from_iter(names.iter().zip(all)).map_err(|e| wrong(e.to_string()))?;
    let file = AtomicFile::create(path)?;
    let mut writer = ArrowWriter::try_new(file.handle()?, batch.schema(), None)
        .map_err(|e| wrong(e.to_string()))?;
    writer.write(&batch).map_err(|e| wrong(e.to_string()))?;
    writer.close().map_err(|e| wrong(e.to_string()))?;
    file.finish().map(drop)
}

/// NumPy's format, version 1: a padded header in Python's notation, then the numbers.
fn write_npy(path: &Path, values: &Rows, shape: Option<&[usize]>) -> Result<()> {
    let rows = [values.len()];
    let mut sizes = shape.unwrap_or(&rows).to_vec();
    if values.width() > 1 {
        sizes.push(values.width());
    }
    let sizes: String = sizes.iter().map(|n| format!("{n}, ")).collect();
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}",
        sizes.trim_end()
    );
    let unpadded = 10 + header.len() + 1;
    header += &" ".repeat(unpadded.next_multiple_of(64) - unpadded);
    header.push('\n');
    write_file(path, |out| {
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&(header.len() as u16).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        for block in values.data().chunks(1 << 14) {
            let bytes: Vec<u8> = block.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_and_gaps_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = Rows::of(2, vec![0.0, 1.0, 0.1, 1.0 / 3.0, 2.0, 3e-8]);
        let values = Rows::of(1, vec![-1.5, 2.0, 1e20]);
        let names: Vec<String> = ["x", "y", "u"].map(String::from).to_vec();
        for ending in ["csv", "parquet"] {
            let path = folder.path().join(format!("t.{ending}"));
            values.write(&path, &names, &places, None).unwrap();
            let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
            let group = Group::field("sensor", channels(&["x", "y"]), channels(&["u"]));
            let read = Sensors::read(&path, &group).unwrap();
            assert_eq!((&read.coords, &read.values), (&places, &values));
            let u = Rows::read(&path, &["u".to_string()]).unwrap();
            assert_eq!(u, values);
        }
        let gap = folder.path().join("gap.csv");
        std::fs::write(&gap, "x,u\n1,2\n,3\n").unwrap();
        let error = Rows::read(&gap, &["x".to_string()]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("line 3, column x: is missing"), "{error}");
        let mut group = Group::field("air", vec![Channel::named("u")], vec![Channel::named("x")]);
        let refused = |group: &Group| Sensors::read(&gap, group).unwrap_err().to_string();
        assert!(refused(&group).contains("line 3, column x: is missing"));
        group.gaps = true;
        assert!(Sensors::read(&gap, &group).unwrap().values.row(1)[0].is_nan());
        (group.kind, group.coords) = (Kind::Scalars, vec![]);
        assert!(refused(&group).contains("has 2 lines; the parameters air"));
        let error = values.write(&folder.path().join("t.txt"), &names, &places, None);
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains(".csv, .npy or .parquet")
        );
    }

    #[test]
    fn npy_has_the_shape_of_the_grid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        write_npy(&path, &Rows::of(1, vec![0.5; 6]), Some(&[2, 3])).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        assert_eq!((header % 64, bytes.len()), (0, header + 24));
        assert!(String::from_utf8_lossy(&bytes[10..header]).contains("'shape': (2, 3,)"));
    }
}
