//! Encoders: from a group of sensors to what a core sees, one file each.
//!
//! An encoder works in two steps. `Encoder::encode` has no learned weights: what it gives for a set of
//! sensors never changes, so it is worked out once and kept. `Encoder::forward` makes a tensor of what was
//! kept for a batch.

mod grid;
mod heads;
mod krige;
mod projection;
mod vector;

pub use heads::{Encoding, HeadsConfig, Positional};
pub use krige::KrigeConfig;
pub(crate) use projection::Projection;
pub use projection::ProjectionConfig;
pub use vector::VectorConfig;

use std::fmt::Debug;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Rows, Sensors};
use crate::error::Result;
use crate::network::{Entry, Extent, Params, Plan, Tensor};
use crate::sensors::Layout;
use crate::spaces::{Basis, Frame, Symmetries, Symmetry};

/// Which encoder, with its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EncoderConfig {
    Heads(HeadsConfig),
    Projection(ProjectionConfig),
    Vector(VectorConfig),
    Krige(KrigeConfig),
    /// FNO's: the readings on a regular grid; it has no sizes, the grid is that of the data.
    Grid {},
}

impl EncoderConfig {
    /// What makes it impossible for sensors with so many coordinates and values, if anything.
    pub(crate) fn fault(&self, coords: usize) -> Option<String> {
        match self {
            EncoderConfig::Heads(c) => c.fault(coords),
            EncoderConfig::Projection(c) => c.fault(coords),
            EncoderConfig::Vector(c) => c.fault(),
            EncoderConfig::Krige(c) => c.fault(coords),
            EncoderConfig::Grid {} => grid::fault(coords),
        }
    }

    /// The box of its functions, where it has any.
    pub(crate) fn frame(&mut self) -> Option<&mut Frame> {
        match self {
            EncoderConfig::Heads(c) => c.frame(),
            EncoderConfig::Projection(c) => Some(&mut c.frame),
            _ => None,
        }
    }

    /// `standardised`: whether the core wants numbers of size one.
    pub(crate) fn build(
        &self,
        plan: &mut Plan,
        coords: usize,
        values: usize,
        standardised: bool,
    ) -> Box<dyn Encoder> {
        match self {
            EncoderConfig::Heads(c) => Box::new(heads::Heads::new(plan, c, coords, values)),
            EncoderConfig::Projection(c) => {
                Box::new(Projection::new(plan, c, values, standardised))
            }
            EncoderConfig::Vector(c) => Box::new(vector::Vector::new(plan, c, coords, values)),
            EncoderConfig::Krige(c) => Box::new(krige::Krige::new(plan, c, coords, values)),
            EncoderConfig::Grid {} => Box::new(grid::Grid::new(coords, values)),
        }
    }
}

/// What an encoder makes of one sample's sensors without learned weights. Values are as the network sees them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Encoded {
    /// The sensors themselves.
    Sensors(Sensors),
    /// Always as many numbers: coefficients, or readings at fixed places.
    Numbers(Vec<f32>),
    /// Readings on a grid with so many points per axis.
    Grid { shape: Vec<usize>, sensors: Sensors },
}

impl Encoded {
    /// Sensors that a network still has to look at.
    pub fn sensors(&self) -> usize {
        match self {
            Encoded::Sensors(sensors) | Encoded::Grid { sensors, .. } => sensors.len(),
            Encoded::Numbers(_) => 0,
        }
    }
}

pub(crate) trait Encoder: Debug + Send + Sync {
    /// Finds what it takes from training data, described by `coords`.
    fn fit(
        &self,
        _entries: &mut [Entry],
        _coords: &[Channel],
        _training: &[&Sensors],
    ) -> Result<()> {
        Ok(())
    }

    /// What never changes for these sensors, or why they cannot be taken.
    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded>;

    /// The same for many samples; each result has the bits of [`encode`](Self::encode).
    fn encode_all(&self, entries: &[Entry], samples: &[&Sensors]) -> Result<Vec<Encoded>> {
        let encode = |sensors: &&Sensors| self.encode(entries, sensors);
        samples.par_iter().map(encode).collect()
    }

    /// A row a sample, `[samples, outputs]`; of a grid a row a point.
    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2>;

    /// Numbers that a row has.
    fn outputs(&self) -> usize;

    /// The functions whose coefficients it gives, value by value, if that is what it does.
    fn basis(&self) -> Option<&Basis> {
        None
    }

    /// Whether [`transform`](Self::transform) can take such symmetries of a box.
    fn has_symmetries(&self, _symmetries: Symmetries, _coords: &[Channel]) -> bool {
        false
    }

    /// Takes what it made of sensors to what it would make of their image.
    fn transform(&self, _encoded: &mut Encoded, _symmetry: &Symmetry, _ends: &[[f64; 2]]) {
        unreachable!("it has no symmetries")
    }

    /// The layouts that it takes.
    fn layouts(&self) -> &'static [Layout] {
        &Layout::ALL
    }

    /// How far it misses readings that it does not see, as a share of their spread, where that can be told.
    fn left_out(&self, _entries: &[Entry], _training: &[&Sensors]) -> Option<f64> {
        None
    }

    /// What it looks at: a weight for each sensor and head, `[sensors, heads]`, where it has heads.
    fn head_weights(&self, _params: &Params, _encoded: &Encoded) -> Option<Vec<f32>> {
        None
    }

    fn extent(&self) -> Extent {
        Extent::default()
    }

    /// Numbers of activations that its operations keep for so many sensors.
    fn activations(&self, _sensors: usize) -> Vec<usize> {
        Vec::new()
    }
}

/// Fixed numbers of a batch, one sample after the other.
fn numbers<'a>(batch: &'a [&Encoded]) -> impl Iterator<Item = &'a [f32]> {
    batch.iter().map(|encoded| match encoded {
        Encoded::Numbers(numbers) => &numbers[..],
        _ => unreachable!("made by this encoder"),
    })
}

/// The rows of all samples in one, and where each begins.
fn gather<'a>(rows: impl Iterator<Item = &'a Rows> + Clone) -> (Rows, Vec<usize>) {
    let width = rows.clone().next().map_or(1, Rows::width);
    let (mut all, mut offsets) = (Rows::of(width, Vec::new()), vec![0]);
    for own in rows {
        all.extend(own);
        offsets.push(all.len());
    }
    (all, offsets)
}
