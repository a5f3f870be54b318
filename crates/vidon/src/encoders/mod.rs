//! Encoders: from a group of sensors to what a core sees, one file each.
//!
//! An encoder works in two steps. `Encoder::encode` has no learned weights: what it gives for a set of
//! sensors never changes, so it is worked out once and kept. `Encoder::forward` makes a tensor of what was
//! kept for a batch.

mod coefficients;
mod grid;
mod heads;
mod krige;
mod moments;
mod projection;
mod scalars;
mod vector;

pub use heads::{Encoding, HeadsConfig, Positional};
pub use krige::KrigeConfig;
pub use moments::MomentsConfig;
pub(crate) use projection::Projection;
pub use projection::ProjectionConfig;
pub use scalars::ScalarsConfig;
pub use vector::VectorConfig;

use std::fmt::Debug;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Group, Kind, Rows, Sensors};
use crate::error::Result;
use crate::network::{Entry, Extent, Params, Plan, Tensor};
use crate::sensors::Layout;
use crate::spaces::{Basis, FittedBasis, Frame, Symmetries, Symmetry};

/// Which encoder, with its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EncoderConfig {
    Heads(HeadsConfig),
    Projection(ProjectionConfig),
    Moments(MomentsConfig),
    Vector(VectorConfig),
    Krige(KrigeConfig),
    /// FNO's: the readings on a regular grid; it has no sizes, the grid is that of the data.
    Grid {},
    Scalars(ScalarsConfig),
}

impl EncoderConfig {
    /// Its name in recipes.
    pub fn kind(&self) -> &'static str {
        match self {
            EncoderConfig::Heads(_) => "heads",
            EncoderConfig::Projection(_) => "projection",
            EncoderConfig::Moments(_) => "moments",
            EncoderConfig::Vector(_) => "vector",
            EncoderConfig::Krige(_) => "krige",
            EncoderConfig::Grid {} => "grid",
            EncoderConfig::Scalars(_) => "scalars",
        }
    }

    /// The kinds of groups that it encodes.
    fn takes(&self) -> &'static [Kind] {
        match self {
            EncoderConfig::Heads(_) => &[Kind::Field, Kind::Points],
            EncoderConfig::Moments(_) => &[Kind::Points],
            EncoderConfig::Scalars(_) => &[Kind::Scalars],
            _ => &[Kind::Field],
        }
    }

    /// Whether it needs no gaps in the training data to work with gaps later.
    pub(crate) fn takes_gaps(&self) -> bool {
        matches!(
            self,
            EncoderConfig::Projection(_) | EncoderConfig::Moments(_) | EncoderConfig::Krige(_)
        )
    }

    /// The name of the group that it encodes, where a recipe gives one.
    fn group(&self) -> Option<&str> {
        match self {
            EncoderConfig::Heads(HeadsConfig { group, .. })
            | EncoderConfig::Projection(ProjectionConfig { group, .. })
            | EncoderConfig::Moments(MomentsConfig { group, .. })
            | EncoderConfig::Vector(VectorConfig { group, .. })
            | EncoderConfig::Krige(KrigeConfig { group, .. })
            | EncoderConfig::Scalars(ScalarsConfig { group }) => group.as_deref(),
            EncoderConfig::Grid {} => None,
        }
    }

    /// Which of the groups it encodes: the one it names, or the only one of its kind. Else what is wrong.
    pub(crate) fn group_among(&self, groups: &[Group]) -> std::result::Result<usize, String> {
        let (kind, takes) = (self.kind(), self.takes());
        let list = |groups: &[&Group]| {
            let names: Vec<&str> = groups.iter().map(|g| &g.name[..]).collect();
            names.join(", ")
        };
        if let Some(name) = self.group() {
            let found = groups.iter().position(|g| g.name == name);
            let there = || list(&groups.iter().collect::<Vec<_>>());
            let index = found.ok_or_else(|| {
                format!("{kind}: there is no group {name}; there are {}", there())
            })?;
            let own = groups[index].kind;
            return match takes.contains(&own) {
                true => Ok(index),
                false => Err(format!(
                    "{kind} cannot take the group {name}, which is of the kind {}; {}",
                    own.name(),
                    match own {
                        Kind::Field => "readings of a function are for projection, heads or krige",
                        Kind::Points => "points are for moments or heads",
                        Kind::Scalars => "scalars are for scalars",
                    }
                )),
            };
        }
        let fitting = groups.iter().enumerate();
        let fitting: Vec<(usize, &Group)> =
            fitting.filter(|(_, g)| takes.contains(&g.kind)).collect();
        match &fitting[..] {
            [(index, _)] => Ok(*index),
            [] => {
                let kinds: Vec<&str> = takes.iter().map(|k| k.name()).collect();
                Err(format!(
                    "{kind} takes a group of the kind {}, and the data have none",
                    kinds.join(" or ")
                ))
            }
            several => {
                let names = list(&several.iter().map(|(_, g)| *g).collect::<Vec<_>>());
                if let EncoderConfig::Grid {} = self {
                    return Err(format!(
                        "grid takes one group of readings, and the data have {names}; projections take several"
                    ));
                }
                Err(format!(
                    "{kind}: which group is meant? The data have {names}; give one, as in {{ kind = \"{kind}\", group = \"{}\" }}",
                    several[0].1.name
                ))
            }
        }
    }

    /// What makes it impossible for such a group, if anything.
    pub(crate) fn fault(&self, group: &Group) -> Option<String> {
        let coords = group.coordinates();
        match self {
            EncoderConfig::Heads(c) => c.fault(group),
            EncoderConfig::Projection(c) => c.fault(coords),
            EncoderConfig::Moments(c) => c.fault(coords),
            EncoderConfig::Vector(c) => c.fault().or_else(|| refuse_gaps(group, "a DeepONet")),
            EncoderConfig::Krige(c) => c.fault(coords.len()),
            EncoderConfig::Grid {} => {
                grid::fault(coords.len()).or_else(|| refuse_gaps(group, "an FNO"))
            }
            EncoderConfig::Scalars(_) => None,
        }
    }

    /// The box of its functions, where it has any.
    pub(crate) fn frame(&mut self) -> Option<&mut Frame> {
        match self {
            EncoderConfig::Heads(c) => c.frame(),
            EncoderConfig::Projection(c) => Some(&mut c.frame),
            EncoderConfig::Moments(c) => Some(&mut c.frame),
            _ => None,
        }
    }

    /// For such a group, with names that begin with `prefix`. `standardised`: whether the core wants numbers of
    /// size one.
    pub(crate) fn build(
        &self,
        plan: &mut Plan,
        prefix: &str,
        group: &Group,
        standardised: bool,
    ) -> Box<dyn Encoder> {
        match self {
            EncoderConfig::Heads(c) => Box::new(heads::Heads::new(plan, c, prefix, group)),
            EncoderConfig::Projection(c) => {
                Box::new(Projection::new(plan, c, prefix, group, standardised))
            }
            EncoderConfig::Moments(c) => {
                Box::new(moments::Moments::new(plan, c, prefix, group, standardised))
            }
            EncoderConfig::Vector(c) => Box::new(vector::Vector::new(plan, c, prefix, group)),
            EncoderConfig::Krige(c) => Box::new(krige::Krige::new(plan, c, prefix, group)),
            EncoderConfig::Grid {} => Box::new(grid::Grid::new(group)),
            EncoderConfig::Scalars(_) => Box::new(scalars::Scalars::new(plan, prefix, group)),
        }
    }
}

/// What reads all sensors at once needs all of them.
fn refuse_gaps(group: &Group, who: &str) -> Option<String> {
    group.gaps.then(|| {
        format!(
            "{who} needs a reading of every sensor, but some of {} are missing; kriging fills them in (encoders = [{{ kind = \"krige\", … }}]), and projections and heads do without",
            group.name
        )
    })
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

    /// The basis in which it gives functions by their coefficients, if that is what it does. Other numbers of a
    /// row come behind them.
    fn basis(&self) -> Option<&Basis> {
        None
    }

    /// How many functions it gives in its basis.
    fn functions(&self) -> usize {
        0
    }

    /// That basis with its functions of covariates.
    fn fitted(&self, _entries: &[Entry]) -> Option<FittedBasis<'_>> {
        None
    }

    /// What it makes of the covariates of its sensors, in words, where it has chosen that.
    fn drift(&self, _entries: &[Entry]) -> Option<String> {
        None
    }

    /// Mean and spread of each of those functions over places and training data.
    fn function_moments(&self, _entries: &[Entry], _training: &[&Sensors]) -> Vec<[f32; 2]> {
        Vec::new()
    }

    /// Whether it sees covariates beside the coordinates.
    fn sees_covariates(&self) -> bool {
        false
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

    /// Numbers that a sensor has at its widest on the way through it.
    fn widest(&self) -> usize {
        0
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
    let first = rows.clone().next().expect("a batch has samples");
    let (mut all, mut offsets) = (first.select(&[]), vec![0]);
    for own in rows {
        all.extend(own);
        offsets.push(all.len());
    }
    (all, offsets)
}
