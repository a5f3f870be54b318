//! VIDON, the variable-input deep operator network (Prasthofer, De Ryck, Mishra, 2022):
//!
//!   ψ_j = Ψ_c(x_j) + Ψ_v(u(x_j)),   ω_j = softmax_j( ω̃(ψ_j)/√d_enc ),   ν = Σ_j ω_j ν̃(ψ_j),
//!   β = Φ(ν^1, …, ν^H),   v(y) = τ_0(y) + Σ_k β_k τ_k(y).
//!
//! Any number of sensors m ≥ 1, anywhere, in any order; cost O(m). With `encoding = product` ψ_j is the
//! product Ψ_c(x_j) ⊙ Ψ_v(u(x_j)); with `positional = fourier` Ψ_c sees fixed Fourier features of x_j. With a `projection` Φ also sees (or, without heads, only
//! sees) the coefficients of the sensors in a basis; `core = fno` puts a Fourier neural operator in the place of Φ.

use std::sync::Arc;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use vidon_kernels::Heads;

use crate::data::Sample;
use crate::error::Result;
use crate::models::basis::Basis;
use crate::models::core::{CoreConfig, FnoCore};
use crate::models::frame::Frame;
use crate::models::inputs::Inputs;
use crate::models::mlp::{Activation, Mlp};
use crate::models::params::{Entry, Init, Key, Params, Plan};
use crate::models::pod::target_fits;
use crate::models::projection::{
    MEASURED, Projection, ProjectionConfig, all_along, mean_and_spread,
};
use crate::models::trunk::{Trunk, TrunkConfig};
use crate::models::{Dims, Extent};

/// How value and place of a sensor are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// The paper's.
    #[default]
    Sum,
    Product,
}

/// What Ψ_c sees of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Positional {
    /// The coordinates, as in the paper. With braces, which make serde refuse the settings of others.
    Mlp {},
    /// The first functions of a Fourier basis on the box of the sensors.
    Fourier {
        #[serde(default)]
        frame: Frame,
        functions: usize,
    },
}

impl Default for Positional {
    fn default() -> Self {
        Self::Mlp {}
    }
}

impl Positional {
    /// Number of fixed basis functions.
    pub(crate) fn functions(&self) -> usize {
        match self {
            Positional::Mlp {} => 0,
            Positional::Fourier { functions, .. } => *functions,
        }
    }
}

/// All sizes of a VIDON. The default is the paper's for Darcy flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VidonConfig {
    pub encoding: Encoding,
    pub positional: Positional,
    pub d_enc: usize,
    pub encoder_hidden: Vec<usize>,
    pub heads: usize,
    pub head_hidden: Vec<usize>,
    pub head_output: usize,
    pub combine_hidden: Vec<usize>,
    pub combine_activation: Activation,
    /// Coefficients of the sensors in a basis, for Φ to see beside the heads (or alone, with `heads = 0`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projection: Option<ProjectionConfig>,
    /// What is in the place of Φ.
    pub core: CoreConfig,
    /// Adds a linear map of what Φ sees to β.
    pub skip: bool,
    /// Number of functions besides τ_0.
    pub p: usize,
    pub trunk: TrunkConfig,
}

impl Default for VidonConfig {
    fn default() -> Self {
        Self {
            encoding: Encoding::Sum,
            positional: Positional::default(),
            d_enc: 40,
            encoder_hidden: vec![40; 3],
            heads: 4,
            head_hidden: vec![128; 4],
            head_output: 64,
            combine_hidden: vec![256; 4],
            combine_activation: Activation::Tanh,
            projection: None,
            core: CoreConfig::default(),
            skip: false,
            p: 100,
            trunk: TrunkConfig::Mlp {
                hidden: vec![250; 4],
            },
        }
    }
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub struct Vidon {
    encoding: Encoding,
    features: Option<Basis>,
    /// Ψ_c and Ψ_v; none without heads.
    encoders: Option<[Mlp; 2]>,
    /// ω̃ and ν̃ of every head.
    heads: Vec<(Mlp, Mlp)>,
    projection: Option<Projection>,
    core: Core,
    trunk: Trunk,
    d_enc: usize,
    /// For the fused kernels, where the heads have hidden layers.
    fused_heads: Option<Arc<Heads>>,
}

/// What gives β.
#[derive(Clone, Debug)]
enum Core {
    Mlp {
        combine: Mlp,
        skip: Option<Mlp>,
        /// Between a projection and a fixed basis: mean and spread of the training outputs' coefficients, not trained, so that Φ gives numbers of size one.
        scale: Option<Key>,
    },
    Fno(Box<FnoCore>),
}

impl Vidon {
    pub(crate) fn new(plan: &mut Plan, config: &VidonConfig, dims: Dims) -> Self {
        let tanh = Activation::Tanh;
        let (features, seen) = match &config.positional {
            Positional::Mlp {} => (None, dims.sensor_coords),
            Positional::Fourier { frame, functions } => {
                (Some(Basis::new(frame.clone(), *functions)), *functions)
            }
        };
        let d_enc = config.d_enc;
        let mut encoder = |name: &str, inputs: usize| {
            Mlp::new(plan, name, inputs, &config.encoder_hidden, d_enc, tanh)
        };
        let encoders = (config.heads > 0).then(|| {
            [
                encoder("encode_coords", seen),
                encoder("encode_values", dims.sensor_values),
            ]
        });
        let heads = (0..config.heads)
            .map(|h| {
                let mut part = |name: &str, outputs: usize| {
                    Mlp::new(
                        plan,
                        &format!("heads.{h}.{name}"),
                        d_enc,
                        &config.head_hidden,
                        outputs,
                        tanh,
                    )
                };
                (part("weight", 1), part("value", config.head_output))
            })
            .collect();
        let projection = config
            .projection
            .as_ref()
            .map(|c| Projection::new(plan, c, dims.sensor_values));
        let seen =
            config.heads * config.head_output + projection.as_ref().map_or(0, Projection::outputs);
        let core = match (&config.core, &projection, &config.trunk) {
            (CoreConfig::Fno(core), Some(projection), TrunkConfig::Fourier { frame }) => {
                let answer = (frame, config.p);
                let basis = projection.basis();
                Core::Fno(Box::new(FnoCore::new(plan, core, basis, answer, dims)))
            }
            _ => {
                let (hidden, activation) = (&config.combine_hidden, config.combine_activation);
                let combine = Mlp::new(plan, "combine", seen, hidden, config.p, activation);
                let linear = || Mlp::new(plan, "skip", seen, &[], config.p, activation);
                let skip = config.skip.then(linear);
                let scaled =
                    projection.is_some() && matches!(config.trunk, TrunkConfig::Fourier { .. });
                let scale =
                    scaled.then(|| plan.add("combine.scale".into(), &[2, config.p], Init::Fixed));
                Core::Mlp {
                    combine,
                    skip,
                    scale,
                }
            }
        };
        let trunk = Trunk::new(
            plan,
            &config.trunk,
            dims.query_coords,
            config.p,
            dims.targets,
        );
        let fused_heads = (!config.head_hidden.is_empty()).then(|| {
            Arc::new(Heads {
                count: config.heads,
                inputs: d_enc,
                hidden: config.head_hidden.clone(),
                activation: tanh.into(),
                scale: 1.0 / (d_enc as f32).sqrt(),
            })
        });
        Self {
            encoding: config.encoding,
            features,
            encoders,
            heads,
            projection,
            core,
            trunk,
            d_enc,
            fused_heads,
        }
    }

    /// β, `[samples, p]`.
    pub(crate) fn branch(&self, params: &Params, inputs: &Inputs) -> Result<Tensor<2>> {
        let mut seen = Vec::new();
        if !self.heads.is_empty() {
            let psi = self.encode(params, inputs);
            seen.push(match &self.fused_heads {
                Some(heads) if vidon_kernels::fused(&psi) => {
                    self.pool_fused(heads, params, psi, inputs)
                }
                _ => self.pool(params, psi, inputs),
            });
        }
        if let Some(projection) = &self.projection {
            let coefs = projection.coefficients(params, inputs)?;
            if let Core::Fno(core) = &self.core {
                return Ok(core.forward(params, coefs));
            }
            seen.push(projection.standardise(params, coefs));
        }
        let seen = Tensor::cat(seen, 1);
        Ok(match &self.core {
            Core::Fno(_) => unreachable!("it has a projection"),
            Core::Mlp {
                combine,
                skip,
                scale,
            } => {
                let mut beta = combine.forward(params, seen.clone());
                if let Some(skip) = skip {
                    beta = beta + skip.forward(params, seen);
                }
                if let Some(scale) = scale {
                    let [mean, spread] = [0, 1].map(|i| params.get::<2>(*scale).narrow(0, i, 1));
                    beta = mean + beta * spread;
                }
                beta
            }
        })
    }

    pub(crate) fn projection(&self) -> Option<&Projection> {
        self.projection.as_ref()
    }

    /// Finds what projection and core take from training data.
    pub(crate) fn fit(&self, entries: &mut [Entry], samples: &[Sample]) -> Result<()> {
        match (&self.core, self.trunk.basis()) {
            (Core::Fno(core), _) => core.fit(entries, samples),
            (
                Core::Mlp {
                    scale: Some(key), ..
                },
                Some(basis),
            ) => {
                let few: Vec<Sample> = all_along(samples, MEASURED).cloned().collect();
                let (mean, spread) =
                    mean_and_spread(&target_fits(basis, &few), few[0].targets.width())?;
                entries[key.place()].values = [mean, spread].concat();
            }
            _ => {}
        }
        match &self.projection {
            Some(projection) => projection.fit(entries, samples),
            None => Ok(()),
        }
    }

    /// ν of all heads, `[samples, heads·outputs]`, in one fused operation up to the linear output layers, which are applied once a sample: the
    /// weights of a sample's sensors sum up to one.
    fn pool_fused(
        &self,
        heads: &Arc<Heads>,
        params: &Params,
        psi: Tensor<2>,
        inputs: &Inputs,
    ) -> Tensor<2> {
        let weights = self.heads.iter().flat_map(|(weight, value)| {
            let hidden = value
                .split_last()
                .0
                .iter()
                .flat_map(|layer| layer.flat(params));
            weight.flat(params).chain(hidden)
        });
        let weights = Tensor::cat(weights.collect(), 0);
        let pooled = vidon_kernels::pool(heads, inputs.sensors.offsets(), psi, weights);
        let width = heads.outputs();
        let outputs = self.heads.iter().enumerate().map(|(h, (_, value))| {
            let own = pooled.clone().narrow(1, h * width, width);
            value.split_last().1.forward(params, own)
        });
        Tensor::cat(outputs.collect(), 1)
    }

    /// The same from ordinary operations.
    fn pool(&self, params: &Params, psi: Tensor<2>, inputs: &Inputs) -> Tensor<2> {
        let pooled = self.heads.iter().map(|(weight, value)| {
            let shares = self.shares(params, weight, psi.clone(), inputs);
            inputs
                .sensors
                .sum(shares * value.forward(params, psi.clone()))
        });
        Tensor::cat(pooled.collect(), 1)
    }

    /// The weights ω_j of every head, `[sensors, heads]`: what the network looks at; none without heads.
    pub fn head_weights(&self, params: &Params, inputs: &Inputs) -> Option<Tensor<2>> {
        if self.heads.is_empty() {
            return None;
        }
        let psi = self.encode(params, inputs);
        let shares = self
            .heads
            .iter()
            .map(|(weight, _)| self.shares(params, weight, psi.clone(), inputs));
        Some(Tensor::cat(shares.collect(), 1))
    }

    fn encode(&self, params: &Params, inputs: &Inputs) -> Tensor<2> {
        let coords = inputs.sensor_coords.clone();
        let seen = match &self.features {
            Some(basis) => basis.features(coords),
            None => coords,
        };
        let [coords, values] = self.encoders.as_ref().expect("there are heads");
        let place = coords.forward(params, seen);
        let value = values.forward(params, inputs.sensor_values.clone());
        match self.encoding {
            Encoding::Sum => place + value,
            Encoding::Product => place * value,
        }
    }

    fn shares(&self, params: &Params, weight: &Mlp, psi: Tensor<2>, inputs: &Inputs) -> Tensor<2> {
        inputs
            .sensors
            .softmax(weight.forward(params, psi) / (self.d_enc as f64).sqrt())
    }

    /// Numbers of activations kept for so many samples and sensors: of the encoders, the heads, and an FNO core.
    pub(crate) fn activations(&self, samples: usize, sensors: usize) -> Vec<usize> {
        let heads = self.heads.iter().map(|(w, v)| w.hidden() + v.hidden());
        let encoders = self.encoders.iter().flatten().map(Mlp::hidden);
        let mut parts = vec![
            sensors * encoders.sum::<usize>(),
            sensors * heads.sum::<usize>(),
        ];
        if let Core::Fno(core) = &self.core {
            parts.extend(core.activations(samples));
        }
        parts
    }

    /// Depth, width and size of the branch as the paper's remark on size defines them.
    pub(crate) fn branch_extent(&self) -> Extent {
        let deepest =
            |of: &dyn Fn(&(Mlp, Mlp)) -> usize| self.heads.iter().map(of).max().unwrap_or(0);
        let total = |of: &dyn Fn(&Mlp) -> usize| -> usize {
            self.heads.iter().map(|h| of(&h.0) + of(&h.1)).sum()
        };
        let encoders = || self.encoders.iter().flatten();
        let core = match &self.core {
            Core::Fno(core) => core.extent(),
            Core::Mlp { combine, skip, .. } => Extent {
                depth: combine.depth(),
                width: combine.width(),
                size: combine.size() + skip.iter().map(Mlp::size).sum::<usize>(),
            },
        };
        Extent {
            depth: encoders().map(Mlp::depth).max().unwrap_or(0)
                + deepest(&|h| h.0.depth())
                + deepest(&|h| h.1.depth())
                + core.depth,
            width: encoders().map(Mlp::width).sum::<usize>() + total(&Mlp::width) + core.width,
            size: encoders().map(Mlp::size).sum::<usize>() + total(&Mlp::size) + core.size,
        }
    }

    pub(crate) fn trunk(&self) -> &Trunk {
        &self.trunk
    }
}
