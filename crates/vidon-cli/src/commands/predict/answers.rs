//! Answers on their way into a file.

use vidon::Result;
use vidon::data::{ArrayWriter, Cells, Meta, Rows, TableWriter};

use crate::commands::predict::questions::{Question, Questions};
use crate::commands::predict::{Arguments, names};

/// A file of answers that grows sample by sample.
pub struct Answers {
    out: Out,
    /// Whether every line says whose it is.
    named: bool,
    values: usize,
}

enum Out {
    Table(TableWriter),
    Array(ArrayWriter),
}

impl Answers {
    /// For the file that was asked for, if any was.
    pub fn create(
        arguments: &Arguments,
        meta: &Meta,
        questions: &Questions,
    ) -> Result<Option<Self>> {
        let Some(path) = &arguments.out else {
            return Ok(None);
        };
        let named = questions.column();
        let out = match TableWriter::check_name(path) {
            Ok(()) => {
                let mut columns: Vec<String> = named.map(String::from).into_iter().collect();
                columns.extend(names(&meta.query_coords));
                columns.extend(questions.carried());
                columns.extend(names(&meta.targets));
                Out::Table(TableWriter::create(path, columns)?)
            }
            Err(_) => {
                let mut shape: Vec<usize> = named.map(|_| questions.len()).into_iter().collect();
                match &arguments.grid {
                    Some(grid) => shape.extend(&grid.0),
                    None => shape.push(questions.places()),
                }
                let width = meta.targets.len();
                shape.extend((width > 1).then_some(width));
                Out::Array(ArrayWriter::create(path, &shape)?)
            }
        };
        Ok(Some(Self {
            out,
            named: named.is_some(),
            values: 0,
        }))
    }

    pub fn write(&mut self, question: &Question, found: &Rows) -> Result<()> {
        self.values += found.len();
        match &mut self.out {
            Out::Array(out) => out.write(found.data()),
            Out::Table(out) => {
                let name = question.sample.name.clone().unwrap_or_default();
                let names = self.named.then(|| Cells::Texts(vec![name; found.len()]));
                let mut cells: Vec<Cells> = names.into_iter().collect();
                cells.extend(question.sample.query_coords.cells());
                cells.extend(question.carried.iter().cloned());
                cells.extend(found.cells());
                out.write(&cells)
            }
        }
    }

    /// Lines that were written.
    pub fn values(&self) -> usize {
        self.values
    }

    pub fn finish(self) -> Result<()> {
        match self.out {
            Out::Table(out) => out.finish(),
            Out::Array(out) => out.finish(),
        }
    }
}
