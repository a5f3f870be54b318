//! Answers as files: tables (.csv, .parquet) and arrays (.npy), written in parts, so that no more than a part
//! is in memory. They appear under their name when they are whole.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use crate::data::cells::Cells;
use crate::data::sample::Rows;
use crate::error::{Error, Result};
use crate::files::{AtomicFile, ending};

/// What a file of values may end with, and what of that is a table.
const ENDINGS: [&str; 3] = ["csv", "npy", "parquet"];
const TABLES: [&str; 2] = ["csv", "parquet"];

impl Rows {
    /// Writes values with their places as `.csv` or `.parquet` (one column each, `names` in order, those of
    /// the places first), or the values alone as `.npy`, in the `shape` of a grid where there is one.
    pub fn write(
        &self,
        path: &Path,
        names: &[String],
        places: &Rows,
        shape: Option<&[usize]>,
    ) -> Result<()> {
        if ending(path, "values", &ENDINGS)? == "npy" {
            let mut shape = shape.map_or(vec![self.len()], <[usize]>::to_vec);
            shape.extend((self.width() > 1).then_some(self.width()));
            let mut out = ArrayWriter::create(path, &shape)?;
            out.write(self.data())?;
            return out.finish();
        }
        let mut out = TableWriter::create(path, names.to_vec())?;
        out.write(&[places.cells(), self.cells()].concat())?;
        out.finish()
    }

    /// An error where [`write`](Self::write) has no format for a file of this name.
    pub fn check_name(path: &Path) -> Result<()> {
        ending(path, "values", &ENDINGS).map(|_| ())
    }

    /// Column by column.
    pub fn cells(&self) -> Vec<Cells> {
        let columns = 0..self.width();
        columns
            .map(|k| Cells::Singles(self.column(k).collect()))
            .collect()
    }
}

/// A table that is written in parts.
pub struct TableWriter {
    path: PathBuf,
    names: Vec<String>,
    file: AtomicFile,
    out: Out,
}

enum Out {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    /// Opened when the types of the columns are known.
    Parquet(Option<(Arc<Schema>, Box<ArrowWriter<File>>)>),
}

impl TableWriter {
    /// An error where a table is not written to a file of this name.
    pub fn check_name(path: &Path) -> Result<()> {
        ending(path, "tables", &TABLES).map(|_| ())
    }

    pub fn create(path: &Path, names: Vec<String>) -> Result<Self> {
        let kind = ending(path, "tables", &TABLES)?;
        let file = AtomicFile::create(path)?;
        let out = match kind {
            "csv" => {
                let mut writer = csv::Writer::from_writer(BufWriter::new(file.handle()?));
                let written = writer.write_record(&names);
                written.map_err(|e| Error::io("write", path)(e.into()))?;
                Out::Csv(Box::new(writer))
            }
            _ => Out::Parquet(None),
        };
        Ok(Self {
            path: path.to_path_buf(),
            names,
            file,
            out,
        })
    }

    /// Appends lines, column by column; columns have the same type in every part.
    pub fn write(&mut self, columns: &[Cells]) -> Result<()> {
        let lines = columns.first().map_or(0, Cells::len);
        let path = &self.path;
        let fits = columns.len() == self.names.len() && columns.iter().all(|c| c.len() == lines);
        if !fits {
            let what = format!("{} columns of one length are wanted", self.names.len());
            return Err(Error::data(path, what));
        }
        match &mut self.out {
            Out::Csv(writer) => {
                for i in 0..lines {
                    let written = writer.write_record(columns.iter().map(|c| c.text(i)));
                    written.map_err(|e| Error::io("write", path)(e.into()))?;
                }
            }
            Out::Parquet(writer) => {
                let wrong = |e: &dyn std::fmt::Display| Error::data(path, e.to_string());
                let arrays: Vec<ArrayRef> = columns.iter().map(array).collect();
                let (schema, writer) = match writer {
                    Some(begun) => begun,
                    None => {
                        let fields = self.names.iter().zip(&arrays).map(|(name, array)| {
                            let single = *array.data_type() == DataType::Float32;
                            Field::new(name, array.data_type().clone(), !single)
                        });
                        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                        let new = ArrowWriter::try_new(self.file.handle()?, schema.clone(), None);
                        writer.insert((schema, Box::new(new.map_err(|e| wrong(&e))?)))
                    }
                };
                let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(|e| wrong(&e))?;
                writer.write(&batch).map_err(|e| wrong(&e))?;
            }
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        let path = &self.path;
        match self.out {
            Out::Csv(mut writer) => writer.flush().map_err(Error::io("write", path))?,
            Out::Parquet(Some((_, writer))) => {
                let closed = writer.close();
                closed.map_err(|e| Error::data(path, e.to_string()))?;
            }
            Out::Parquet(None) => return Err(Error::data(path, "there are no lines to write")),
        }
        self.file.finish().map(drop)
    }
}

/// What is missing is null; single precision has no gaps.
fn array(cells: &Cells) -> ArrayRef {
    match cells {
        Cells::Texts(all) => Arc::new(StringArray::from_iter_values(all)),
        Cells::Whole(all) => Arc::new(Int64Array::from(all.clone())),
        Cells::Numbers(all) => {
            let known = all.iter().map(|v| (!v.is_nan()).then_some(*v));
            Arc::new(known.collect::<Float64Array>())
        }
        Cells::Singles(all) => Arc::new(Float32Array::from(all.clone())),
    }
}

/// A NumPy array of float32 that is written in parts: version 1 of the format, a padded header in Python's
/// notation, then the numbers.
pub struct ArrayWriter {
    path: PathBuf,
    file: AtomicFile,
    out: BufWriter<File>,
    /// Numbers still to come.
    left: usize,
}

impl ArrayWriter {
    pub fn create(path: &Path, shape: &[usize]) -> Result<Self> {
        let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
        let mut header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}",
            sizes.trim_end()
        );
        let unpadded = 10 + header.len() + 1;
        header += &" ".repeat(unpadded.next_multiple_of(64) - unpadded);
        header.push('\n');
        let file = AtomicFile::create(path)?;
        let mut out = BufWriter::new(file.handle()?);
        let length = (header.len() as u16).to_le_bytes();
        let parts = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes()];
        let written = parts.into_iter().try_for_each(|part| out.write_all(part));
        written.map_err(Error::io("write", path))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            out,
            left: shape.iter().product(),
        })
    }

    /// Appends numbers, last axis fastest.
    pub fn write(&mut self, numbers: &[f32]) -> Result<()> {
        self.left = self.left.checked_sub(numbers.len()).ok_or_else(|| {
            Error::data(&self.path, "more numbers come than the array's shape holds")
        })?;
        for block in numbers.chunks(1 << 14) {
            let bytes: Vec<u8> = block.iter().flat_map(|v| v.to_le_bytes()).collect();
            self.out
                .write_all(&bytes)
                .map_err(Error::io("write", &self.path))?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        if self.left > 0 {
            let what = format!("{} numbers of the array are still to come", self.left);
            return Err(Error::data(&self.path, what));
        }
        self.out.flush().map_err(Error::io("write", &self.path))?;
        self.file.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::import::Missing;
    use crate::data::import::table::read_whole_table;
    use crate::data::meta::{Channel, Group};
    use crate::data::questions::Readings;

    #[test]
    fn tables_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let places = Rows::of(2, vec![0.0, 1.0, 0.1, 1.0 / 3.0, 2.0, 3e-8]);
        let values = Rows::of(1, vec![-1.5, 2.0, 1e20]);
        let names: Vec<String> = ["x", "y", "u"].map(String::from).to_vec();
        for ending in ["csv", "parquet"] {
            let path = folder.path().join(format!("t.{ending}"));
            values.write(&path, &names, &places, None).unwrap();
            let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
            let group = Group::field("sensor", channels(&["x", "y"]), channels(&["u"]));
            let read = Readings::read(&path, &group, None, Missing::Refuse).unwrap();
            let (_, read) = &read.samples[0];
            assert_eq!((&read.coords, &read.values), (&places, &values));
        }
        let error = values.write(&folder.path().join("t.txt"), &names, &places, None);
        let words = error.unwrap_err().to_string();
        assert!(words.contains(".csv, .npy or .parquet"), "{words}");
    }

    /// Parts follow each other, and every type keeps what it says.
    #[test]
    fn tables_grow_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let part = |first: i64| {
            [
                Cells::Texts(vec![format!("0{first}"), "a,b".into()]),
                Cells::Whole(vec![Some(first), None]),
                Cells::Numbers(vec![0.1, f64::NAN]),
                Cells::Singles(vec![0.1, first as f32]),
            ]
        };
        let names: Vec<String> = ["id", "n", "e", "x"].map(String::from).to_vec();
        for ending in ["csv", "parquet"] {
            let path = folder.path().join(format!("t.{ending}"));
            let mut out = TableWriter::create(&path, names.clone()).unwrap();
            [1, 2].iter().for_each(|&k| out.write(&part(k)).unwrap());
            assert!(out.write(&part(1)[..3]).is_err());
            assert!(!path.exists());
            out.finish().unwrap();
            let (table, others) = read_whole_table(&path, &["x"]).unwrap();
            assert_eq!(table.numbers[0].len(), 4);
            assert_eq!(others[0].1.text(0), "01");
            let texts = |k: usize| (0..4).map(|i| others[k].1.text(i)).collect::<Vec<_>>();
            assert_eq!(texts(1), ["1", "", "2", ""]);
            assert_eq!(texts(2), ["0.1", "", "0.1", ""]);
        }
        let whole = read_whole_table(&folder.path().join("t.parquet"), &["x"])
            .unwrap()
            .1;
        assert_eq!(whole[1].1, Cells::Whole(vec![Some(1), None, Some(2), None]));
    }

    #[test]
    fn npy_has_the_shape_of_the_grid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        let mut out = ArrayWriter::create(&path, &[2, 3]).unwrap();
        out.write(&[0.5; 4]).unwrap();
        assert!(out.write(&[0.5; 3]).is_err());
        let mut out = ArrayWriter::create(&path, &[2, 3]).unwrap();
        out.write(&[0.5; 4]).unwrap();
        out.write(&[0.5; 2]).unwrap();
        out.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        assert_eq!((header % 64, bytes.len()), (0, header + 24));
        assert!(String::from_utf8_lossy(&bytes[10..header]).contains("'shape': (2, 3,)"));
        assert!(ArrayWriter::create(&path, &[2]).unwrap().finish().is_err());
    }
}
