//! The networks, all with one interface: sensors and queries of a batch in, one row a target out.

mod basis;
mod core;
mod deeponet;
mod fno;
mod frame;
mod inputs;
mod least_squares;
mod mlp;
mod paper;
mod params;
mod pod;
mod projection;
mod symmetries;
mod timing;
mod trunk;
mod vidon;
mod weights;

pub use basis::Basis;
pub(crate) use basis::Turn;
pub use core::{CoreConfig, FnoCoreConfig};
pub use deeponet::{DeepOnet, DeepOnetConfig};
pub use fno::{Fno, FnoConfig};
pub use frame::{Family, Frame};
pub use inputs::{Inputs, Sets, rows_tensor, to_vec};
pub(crate) use least_squares::LeastSquares;
pub use mlp::{Activation, Mlp};
pub use paper::{ModelName, paper_config};
pub use params::{Entry, Key, Params};
pub use projection::ProjectionConfig;
pub(crate) use projection::{Projection, all_along};
pub use symmetries::Symmetries;
pub use timing::time_set_branch;
pub use trunk::{Trunk, TrunkConfig};
pub use vidon::{Encoding, Positional, Vidon, VidonConfig};
pub use weights::Weights;

use std::borrow::Cow;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::data::{Meta, Sample};
use crate::error::{Error, Result};
use crate::models::params::Plan;
use crate::rng::stream;
use crate::sensors::Layout;

/// More numbers than any network here has a use for.
const MOST_PARAMETERS: usize = 1 << 31;
/// Most heads, layers or basis functions.
const MOST_PARTS: usize = 1 << 16;

/// Most functions of a projection, which solves a system of that size for every sample.
pub(crate) const MOST_PROJECTED: usize = 4096;

/// Widths of the four parts of a sample: d, d_v, d_y, d_u.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dims {
    pub sensor_coords: usize,
    pub sensor_values: usize,
    pub query_coords: usize,
    pub targets: usize,
}

impl From<&Meta> for Dims {
    fn from(meta: &Meta) -> Self {
        let [sensor_coords, sensor_values, query_coords, targets] = meta.widths();
        Self {
            sensor_coords,
            sensor_values,
            query_coords,
            targets,
        }
    }
}

/// Which network, with all its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum ModelConfig {
    Vidon(VidonConfig),
    DeepOnet(DeepOnetConfig),
    Fno(FnoConfig),
}

impl ModelConfig {
    /// What makes a network of these sizes impossible, if anything.
    fn fault(&self, dims: Dims) -> Option<String> {
        let widths = [
            dims.sensor_coords,
            dims.sensor_values,
            dims.query_coords,
            dims.targets,
        ];
        if widths.contains(&0) {
            return Some(
                "sensors, values, queries and targets need at least one component each".into(),
            );
        }
        let parts = match self {
            ModelConfig::Vidon(c) => c
                .heads
                .max(c.trunk.functions(c.p))
                .max(c.projection.as_ref().map_or(0, |p| p.functions))
                .max(c.core.parts())
                .max(c.positional.functions()),
            ModelConfig::DeepOnet(c) => c.trunk.functions(c.p),
            ModelConfig::Fno(c) => c.layers.max(c.modes),
        };
        if parts > MOST_PARTS {
            return Some(format!("more than {MOST_PARTS} heads, layers or functions"));
        }
        let zero = |sizes: &[usize]| {
            sizes
                .contains(&0)
                .then(|| "every size must be at least 1".to_string())
        };
        match self {
            ModelConfig::Vidon(c) => {
                let sizes = [
                    &[c.d_enc, c.head_output, c.p],
                    &c.encoder_hidden[..],
                    &c.head_hidden,
                    &c.combine_hidden,
                ];
                let frame = match &c.positional {
                    Positional::Mlp {} => None,
                    Positional::Fourier { functions: 0, .. } => {
                        Some("a Fourier encoding needs functions".into())
                    }
                    Positional::Fourier { frame, .. } => frame.fault(dims.sensor_coords),
                };
                let projection = match &c.projection {
                    None if c.heads == 0 => {
                        Some("without heads the branch needs a projection".into())
                    }
                    Some(p) if !(1..=MOST_PROJECTED).contains(&p.functions) => Some(format!(
                        "a projection has 1 to {MOST_PROJECTED} functions, not {}",
                        p.functions
                    )),
                    Some(p) if p.frame.times > 0 => {
                        Some("times belong to the frame of a trunk, not of a projection".into())
                    }
                    Some(p) => p.frame.fault(dims.sensor_coords),
                    None => None,
                };
                let core = || match &c.core {
                    CoreConfig::Mlp {} => {
                        let fixed = matches!(c.trunk, TrunkConfig::Fourier { .. });
                        let many = c.p / dims.targets > MOST_PROJECTED;
                        (c.projection.is_some() && fixed && many).then(|| {
                            format!("behind a projection a fixed basis has at most {MOST_PROJECTED} functions a component")
                        })
                    }
                    CoreConfig::Fno(_) if c.heads > 0 || c.projection.is_none() => Some(
                        "an FNO core works on a projection alone: heads = 0, projection = { … }"
                            .into(),
                    ),
                    CoreConfig::Fno(_) if c.skip => {
                        Some("skip belongs to the perceptron, not to an FNO core".into())
                    }
                    CoreConfig::Fno(core) => {
                        let seen = c.projection.as_ref().map_or(0, |p| p.functions);
                        core.fault(seen, &c.trunk, c.p, dims)
                    }
                };
                zero(&sizes.concat())
                    .or(projection)
                    .or(frame)
                    .or_else(|| c.trunk.fault(dims.query_coords, c.p, dims.targets))
                    .or_else(core)
            }
            ModelConfig::DeepOnet(c) => {
                let sizes = [&[c.sensors, c.p], &c.branch_hidden[..]];
                let grid = c.krige.as_ref().and_then(|grid| {
                    let fits = grid.len() == dims.sensor_coords
                        && grid.iter().all(|&n| n > 1)
                        && grid.iter().try_fold(1usize, |a, &b| a.checked_mul(b)) == Some(c.sensors);
                    (!fits).then(|| {
                        format!(
                            "krige = {grid:?} must be a grid of {} axes, at least 2 points each, with {} points in all",
                            dims.sensor_coords, c.sensors
                        )
                    })
                });
                zero(&sizes.concat())
                    .or(grid)
                    .or_else(|| c.trunk.fault(dims.query_coords, c.p, dims.targets))
            }
            ModelConfig::Fno(c) => {
                let plane = (dims.sensor_coords, dims.query_coords) == (2, 2);
                c.fault()
                    .or((!plane).then(|| {
                        format!(
                            "it maps functions of two coordinates to functions of the same two; here they have {} and {}",
                            dims.sensor_coords, dims.query_coords
                        )
                    }))
            }
        }
    }

    /// Takes the boxes of Fourier bases from the data where the configuration leaves them open.
    pub fn fill_frames(&mut self, meta: &Meta) {
        let (sensors, queries) = self.frames();
        sensors.for_each(|frame| frame.fill(&meta.sensor_coords));
        queries.for_each(|frame| frame.fill(&meta.query_coords));
    }

    /// Whether a basis takes its periods from the data.
    pub(crate) fn takes_periods(&self) -> bool {
        let mut own = self.clone();
        let (mut sensors, mut queries) = own.frames();
        let takes = |frame: &mut Frame| frame.is_open() && frame.family == Family::Periodic;
        sensors.any(takes) || queries.any(takes)
    }

    /// Those of functions of the sensors' places, and of the queries'.
    fn frames(
        &mut self,
    ) -> (
        impl Iterator<Item = &mut Frame>,
        impl Iterator<Item = &mut Frame>,
    ) {
        let (positional, projection, trunk) = match self {
            ModelConfig::Vidon(c) => (
                Some(&mut c.positional),
                c.projection.as_mut(),
                Some(&mut c.trunk),
            ),
            ModelConfig::DeepOnet(c) => (None, None, Some(&mut c.trunk)),
            ModelConfig::Fno(_) => (None, None, None),
        };
        let positional = positional.and_then(|p| match p {
            Positional::Fourier { frame, .. } => Some(frame),
            Positional::Mlp {} => None,
        });
        let trunk = trunk.and_then(|t| match t {
            TrunkConfig::Fourier { frame } | TrunkConfig::Pod { frame, .. } => Some(frame),
            TrunkConfig::Mlp { .. } => None,
        });
        let sensors = positional
            .into_iter()
            .chain(projection.map(|p| &mut p.frame));
        (sensors, trunk.into_iter())
    }

    pub fn name(&self) -> &'static str {
        match self {
            ModelConfig::Vidon(_) => "VIDON",
            ModelConfig::DeepOnet(_) => "DeepONet",
            ModelConfig::Fno(_) => "FNO",
        }
    }
}

/// Depth, width and size (number of weights and biases) of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub depth: usize,
    pub width: usize,
    pub size: usize,
}

impl Extent {
    fn of(mlp: &Mlp) -> Self {
        Self {
            depth: mlp.depth(),
            width: mlp.width(),
            size: mlp.size(),
        }
    }
}

/// A network without its numbers.
#[derive(Clone, Debug)]
pub struct Model {
    config: ModelConfig,
    dims: Dims,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Vidon(Box<Vidon>),
    DeepOnet(DeepOnet),
    Fno(Fno),
}

impl Model {
    /// The network and its starting numbers, a function of the seed.
    pub fn new(config: &ModelConfig, dims: Dims, seed: u64) -> Result<(Self, Vec<Entry>)> {
        Self::with_at_most(MOST_PARAMETERS, config, dims, seed)
    }

    /// Refuses a network of more than `limit` numbers before it takes their memory.
    pub(crate) fn with_at_most(
        limit: usize,
        config: &ModelConfig,
        dims: Dims,
        seed: u64,
    ) -> Result<(Self, Vec<Entry>)> {
        if let Some(fault) = config.fault(dims) {
            return Err(Error::Setting(format!("{}: {fault}", config.name())));
        }
        let mut plan = Plan::new(stream(seed, "model", 0), limit);
        let kind = match config {
            ModelConfig::Vidon(c) => Kind::Vidon(Box::new(Vidon::new(&mut plan, c, dims))),
            ModelConfig::DeepOnet(c) => Kind::DeepOnet(DeepOnet::new(&mut plan, c, dims)),
            ModelConfig::Fno(c) => Kind::Fno(Fno::new(
                &mut plan,
                "",
                c,
                dims.sensor_values + 2,
                dims.targets,
            )),
        };
        if plan.too_large {
            return Err(Error::Setting(format!(
                "{}: more than {limit} numbers",
                config.name()
            )));
        }
        Ok((
            Self {
                config: config.clone(),
                dims,
                kind,
            },
            plan.entries,
        ))
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// One row a target, `d_u` wide, in the order of the batch.
    pub fn forward(&self, params: &Params, inputs: &Inputs) -> Result<Tensor<2>> {
        match (&self.kind, self.trunk()) {
            (Kind::Fno(model), _) => model.forward(params, inputs),
            (_, trunk) => {
                let beta = self.branch(params, inputs)?.expect("it has a trunk");
                let trunk = trunk.expect("it has a trunk");
                Ok(trunk.contract(params, beta, inputs))
            }
        }
    }

    /// β `[samples, p]`, where the network has a trunk.
    pub(crate) fn branch(&self, params: &Params, inputs: &Inputs) -> Result<Option<Tensor<2>>> {
        Ok(match &self.kind {
            Kind::Vidon(model) => Some(model.branch(params, inputs)?),
            Kind::DeepOnet(model) => Some(model.branch(params, inputs)?),
            Kind::Fno(_) => None,
        })
    }

    /// Finds what the network takes from training data before training: the functions of a POD trunk, the
    /// prior of a projection, means and spreads, the places of a DeepONet's sensors. Values and targets as the network will see them.
    pub fn fit(&self, entries: &mut [Entry], meta: &Meta, samples: &[Sample]) -> Result<()> {
        match &self.kind {
            Kind::Vidon(m) => {
                m.fit(entries, samples)?;
                m.trunk().fit(entries, samples)
            }
            Kind::DeepOnet(m) => {
                m.fit(entries, &meta.sensor_coords, samples)?;
                m.trunk().fit(entries, samples)
            }
            Kind::Fno(_) => Ok(()),
        }
    }

    /// The sample as the network can take it (a DeepONet may interpolate its sensors), or why it cannot.
    pub fn prepare<'a>(&self, entries: &[Entry], sample: &'a Sample) -> Result<Cow<'a, Sample>> {
        match &self.kind {
            Kind::DeepOnet(m) => m.prepare(entries, sample),
            Kind::Vidon(_) | Kind::Fno(_) => Ok(Cow::Borrowed(sample)),
        }
    }

    /// Whether any part of a sample's sensors will do.
    pub fn takes_any_sensors(&self) -> bool {
        matches!(self.kind, Kind::Vidon(_))
    }

    /// What the network sees of the sensors of each sample, where that can be worked out once for all steps: the coefficients of VIDON's projection.
    pub(crate) fn projection(&self) -> Option<&Projection> {
        match &self.kind {
            Kind::Vidon(m) => m.projection(),
            Kind::DeepOnet(_) | Kind::Fno(_) => None,
        }
    }

    /// What β is contracted with.
    pub(crate) fn trunk(&self) -> Option<&Trunk> {
        match &self.kind {
            Kind::Vidon(m) => Some(m.trunk()),
            Kind::DeepOnet(m) => Some(m.trunk()),
            Kind::Fno(_) => None,
        }
    }

    /// The functions of a fixed trunk: a basis for each component of its answers.
    pub(crate) fn trunk_basis(&self) -> Option<&Basis> {
        self.trunk()?.basis()
    }

    /// Whether it looks at the sensors themselves, not only at their projection.
    pub(crate) fn looks_at_sensors(&self) -> bool {
        !matches!(&self.config, ModelConfig::Vidon(c) if c.heads == 0)
    }

    /// Whether [`fit`](Self::fit) looks at values or targets.
    pub(crate) fn fits_numbers(&self) -> bool {
        if let ModelConfig::Vidon(c) = &self.config
            && c.projection.is_some()
        {
            return true;
        }
        let trunk = match &self.config {
            ModelConfig::Vidon(c) => Some(&c.trunk),
            ModelConfig::DeepOnet(c) => Some(&c.trunk),
            ModelConfig::Fno(_) => None,
        };
        matches!(trunk, Some(TrunkConfig::Pod { .. }))
    }

    /// Whether its answers vanish on the boundary of a box, whatever it learns.
    pub(crate) fn vanishes(&self) -> bool {
        let (ModelConfig::Vidon(VidonConfig { trunk, .. })
        | ModelConfig::DeepOnet(DeepOnetConfig { trunk, .. })) = &self.config
        else {
            return false;
        };
        let (TrunkConfig::Fourier { frame } | TrunkConfig::Pod { frame, .. }) = trunk else {
            return false;
        };
        frame.family == Family::Sine
    }

    /// Rows that a sample with so many sensors has on its widest way through the network.
    pub(crate) fn rows(&self, sensors: usize) -> usize {
        match &self.config {
            ModelConfig::Vidon(c) => sensors.max(c.core.points()),
            ModelConfig::DeepOnet(_) | ModelConfig::Fno(_) => sensors,
        }
    }

    /// Whether it answers at its sensors only.
    pub fn answers_at_sensors(&self) -> bool {
        matches!(self.kind, Kind::Fno(_))
    }

    /// Numbers of activations that each operation of a training step may keep, for so many samples, with so many sensors and (unshared) queries in all.
    pub fn activations(&self, samples: usize, sensors: usize, queries: usize) -> Vec<usize> {
        match &self.kind {
            Kind::Vidon(m) => {
                let mut parts = m.activations(samples, sensors);
                parts.push(queries * m.trunk().mlp().map_or(0, Mlp::hidden));
                parts
            }
            Kind::DeepOnet(m) => vec![queries * m.trunk().mlp().map_or(0, Mlp::hidden)],
            Kind::Fno(m) => m.activations(sensors),
        }
    }

    /// Whether it sees its sensors interpolated to a grid.
    pub(crate) fn kriges(&self) -> bool {
        matches!(&self.kind, Kind::DeepOnet(m) if m.kriges())
    }

    /// The layouts this network can learn from.
    pub fn layouts(&self) -> &'static [Layout] {
        match &self.kind {
            Kind::Vidon(_) => &Layout::ALL,
            Kind::DeepOnet(_) if self.kriges() => &Layout::ALL,
            Kind::DeepOnet(_) => &[Layout::Regular, Layout::Irregular],
            Kind::Fno(_) => &[Layout::Regular],
        }
    }

    /// An error that says which layouts it can do, if `layout` is not among them.
    pub fn check_layout(&self, layout: Layout) -> Result<()> {
        if self.layouts().contains(&layout) {
            return Ok(());
        }
        let can: Vec<&str> = self.layouts().iter().map(|l| l.name()).collect();
        Err(Error::Setting(format!(
            "{} cannot take the layout {layout}, only {}; VIDON takes every layout",
            self.name(),
            can.join(" and ")
        )))
    }

    pub fn name(&self) -> &'static str {
        self.config.name()
    }

    /// Branch and trunk as the paper measures them, where there are such.
    pub fn branch_and_trunk(&self) -> Option<[Extent; 2]> {
        let of = |trunk: &Trunk| trunk.mlp().map(Extent::of).unwrap_or_default();
        match &self.kind {
            Kind::Vidon(m) => Some([m.branch_extent(), of(m.trunk())]),
            Kind::DeepOnet(m) => Some([m.branch_extent(), of(m.trunk())]),
            Kind::Fno(_) => None,
        }
    }

    /// The weights ω_j of VIDON's heads, `[sensors, heads]`.
    pub fn head_weights(&self, params: &Params, inputs: &Inputs) -> Option<Tensor<2>> {
        match &self.kind {
            Kind::Vidon(model) => model.head_weights(params, inputs),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
