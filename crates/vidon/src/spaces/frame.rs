//! A box and which functions a basis has on it.

use serde::{Deserialize, Serialize};

use crate::data::Channel;

/// Ends beyond this leave no room for the squares of distances.
const FARTHEST: f64 = 1e30;
/// Most polynomials of time.
const MOST_TIMES: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    #[default]
    Cosine,
    Periodic,
    Sine,
    Legendre,
}

/// A box and the functions on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Ends per axis; where a recipe gives none, those of the data.
    #[serde(default)]
    pub lo: Vec<f64>,
    #[serde(default)]
    pub hi: Vec<f64>,
    #[serde(default)]
    pub family: Family,
    /// Legendre polynomials that the last axis has of its own; 0 where it is an axis like the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Frame {
    /// Whether it has no ends yet.
    pub(crate) fn is_open(&self) -> bool {
        self.lo.is_empty() && self.hi.is_empty()
    }

    /// Takes the ends from the data where there are none yet.
    pub(crate) fn fill(&mut self, coords: &[Channel]) {
        if self.is_open() {
            let ends = |k: usize| {
                coords
                    .iter()
                    .map(move |c| c.range.map_or(f64::NAN, |r| r[k]))
            };
            (self.lo, self.hi) = (ends(0).collect(), ends(1).collect());
        }
    }

    /// Whether it is this box, up to what single precision and printing leave of its ends.
    pub(crate) fn is_box(&self, ends: impl ExactSizeIterator<Item = [f64; 2]>) -> bool {
        let own = self.lo.iter().zip(&self.hi);
        let near = |((lo, hi), other): ((&f64, &f64), [f64; 2])| {
            let slack = 1e-5 * (hi - lo);
            (lo - other[0]).abs() <= slack && (hi - other[1]).abs() <= slack
        };
        self.lo.len() == ends.len() && own.zip(ends).all(near)
    }

    /// Without time.
    pub(crate) fn space(&self) -> Self {
        let axes = self.lo.len() - (self.times > 0) as usize;
        Self {
            lo: self.lo[..axes].to_vec(),
            hi: self.hi[..axes].to_vec(),
            family: self.family,
            times: 0,
        }
    }

    /// The last axis alone, with the polynomials that it has with `times`.
    pub(crate) fn time(&self) -> Self {
        let last = self.lo.len() - 1;
        Self {
            lo: self.lo[last..].to_vec(),
            hi: self.hi[last..].to_vec(),
            family: Family::Legendre,
            times: 0,
        }
    }

    /// What is wrong with it as a box of these coordinates, if anything.
    pub(crate) fn fault(&self, coords: &[Channel]) -> Option<String> {
        let dim = coords.len();
        let fits = self.lo.len() == dim && self.hi.len() == dim;
        if self.times > 0 && dim < 2 {
            return Some("times belong to the last of at least two axes".into());
        }
        if self.times > MOST_TIMES {
            return Some(format!(
                "times = {}: an axis has at most {MOST_TIMES}",
                self.times
            ));
        }
        if !fits {
            return Some(format!(
                "a frame needs {dim} lower and upper ends; got {:?} and {:?}",
                self.lo, self.hi
            ));
        }
        let ends = self.lo.iter().zip(&self.hi);
        ends.zip(coords).find_map(|((lo, hi), coord)| {
            let name = &coord.name;
            if lo.is_nan() || hi.is_nan() {
                return Some(format!(
                    "the coordinate {name} is the same in all of the data, so that its box is not known: give it a range when the data is imported, or the frame its lo and hi"
                ));
            }
            if lo >= hi {
                return Some(format!("the frame of {name} has the lower end {lo:?} and the upper end {hi:?}; the lower one is less"));
            }
            let far = lo.abs().max(hi.abs()) >= FARTHEST;
            far.then(|| {
                format!("the frame of {name}, {lo:?} to {hi:?}, goes beyond {FARTHEST:e}: choose another unit")
            })
        })
    }
}
