//! The cells of a column, as tables have them.

/// Text, or numbers that may be missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// As it stands there; empty where it is missing.
    Texts(Vec<String>),
    Whole(Vec<Option<i64>>),
    /// NaN where it is missing.
    Numbers(Vec<f64>),
    /// In single precision.
    Singles(Vec<f32>),
}

impl Cells {
    pub fn len(&self) -> usize {
        match self {
            Cells::Texts(all) => all.len(),
            Cells::Whole(all) => all.len(),
            Cells::Numbers(all) => all.len(),
            Cells::Singles(all) => all.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cells with these indices, in this order.
    pub fn select(&self, indices: &[usize]) -> Self {
        fn some<T: Clone>(all: &[T], indices: &[usize]) -> Vec<T> {
            indices.iter().map(|&i| all[i].clone()).collect()
        }
        match self {
            Cells::Texts(all) => Cells::Texts(some(all, indices)),
            Cells::Whole(all) => Cells::Whole(some(all, indices)),
            Cells::Numbers(all) => Cells::Numbers(some(all, indices)),
            Cells::Singles(all) => Cells::Singles(some(all, indices)),
        }
    }

    /// With the cells of another part of the same column behind its own.
    pub(crate) fn append(&mut self, other: Cells) {
        match (self, other) {
            (Cells::Texts(all), Cells::Texts(more)) => all.extend(more),
            (Cells::Whole(all), Cells::Whole(more)) => all.extend(more),
            (Cells::Numbers(all), Cells::Numbers(more)) => all.extend(more),
            (Cells::Singles(all), Cells::Singles(more)) => all.extend(more),
            _ => unreachable!("a column has one type"),
        }
    }

    /// A cell as it is written; nothing where it is missing.
    pub fn text(&self, i: usize) -> String {
        let number = |missing: bool, text: String| if missing { String::new() } else { text };
        match self {
            Cells::Texts(all) => all[i].clone(),
            Cells::Whole(all) => all[i].map_or(String::new(), |v| v.to_string()),
            Cells::Numbers(all) => number(all[i].is_nan(), all[i].to_string()),
            Cells::Singles(all) => number(all[i].is_nan(), all[i].to_string()),
        }
    }
}
