//! The heads of VIDON, the variable-input deep operator network (Prasthofer, De Ryck, Mishra, 2022):
//!
//!   ψ_j = Ψ_c(x_j) + Ψ_v(u(x_j)),   ω_j = softmax_j( ω̃(ψ_j)/√d_enc ),   ν = Σ_j ω_j ν̃(ψ_j),   ν of every head.
//!
//! Any number of sensors m ≥ 1, anywhere, in any order; cost O(m). With `encoding = product` ψ_j is the product
//! Ψ_c(x_j) ⊙ Ψ_v(u(x_j)); with `positional = fourier` Ψ_c sees fixed Fourier features of x_j.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::MOST_PARTS;
use crate::data::{Channel, Sensors};
use crate::encoders::{Encoded, Encoder, gather};
use crate::error::Result;
use crate::network::{Activation, Entry, Extent, Mlp, Params, Plan, Sets, Tensor, to_vec};
use crate::spaces::{Basis, Frame, Symmetries, Symmetry};

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

/// All sizes. The default is the paper's for Darcy flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadsConfig {
    pub encoding: Encoding,
    pub positional: Positional,
    pub d_enc: usize,
    /// Hidden layers of Ψ_c and Ψ_v.
    pub encoder_hidden: Vec<usize>,
    /// Number of heads.
    pub count: usize,
    /// Hidden layers of ω̃ and ν̃.
    pub hidden: Vec<usize>,
    /// Numbers that a head gives.
    pub outputs: usize,
}

impl Default for HeadsConfig {
    fn default() -> Self {
        Self {
            encoding: Encoding::Sum,
            positional: Positional::default(),
            d_enc: 40,
            encoder_hidden: vec![40; 3],
            count: 4,
            hidden: vec![128; 4],
            outputs: 64,
        }
    }
}

impl HeadsConfig {
    pub(super) fn fault(&self, coords: usize) -> Option<String> {
        if self.count > MOST_PARTS {
            return Some(format!("more than {MOST_PARTS} heads"));
        }
        let single = [self.d_enc, self.count, self.outputs];
        let mut sizes = single
            .iter()
            .chain(&self.encoder_hidden)
            .chain(&self.hidden);
        if sizes.any(|n| *n == 0) {
            return Some("every size must be at least 1".into());
        }
        match &self.positional {
            Positional::Mlp {} => None,
            Positional::Fourier { functions, .. } if !(1..=MOST_PARTS).contains(functions) => Some(
                format!("a Fourier encoding has 1 to {MOST_PARTS} functions"),
            ),
            Positional::Fourier { frame, .. } => frame.fault(coords),
        }
    }

    pub(super) fn frame(&mut self) -> Option<&mut Frame> {
        match &mut self.positional {
            Positional::Mlp {} => None,
            Positional::Fourier { frame, .. } => Some(frame),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Heads {
    encoding: Encoding,
    features: Option<Basis>,
    /// Ψ_c and Ψ_v.
    encoders: [Mlp; 2],
    /// ω̃ and ν̃ of every head.
    heads: Vec<(Mlp, Mlp)>,
    d_enc: usize,
    outputs: usize,
    /// For the fused kernels, where the heads have hidden layers.
    fused: Option<Arc<vidon_kernels::Heads>>,
}

/// Sensors of a batch as tensors.
struct Seen {
    coords: Tensor<2>,
    values: Tensor<2>,
    sets: Sets,
}

impl Heads {
    pub fn new(plan: &mut Plan, config: &HeadsConfig, coords: usize, values: usize) -> Self {
        let tanh = Activation::Tanh;
        let (features, seen) = match &config.positional {
            Positional::Mlp {} => (None, coords),
            Positional::Fourier { frame, functions } => {
                (Some(Basis::new(frame.clone(), *functions)), *functions)
            }
        };
        let d_enc = config.d_enc;
        let mut encoder = |name: &str, inputs: usize| {
            Mlp::new(plan, name, inputs, &config.encoder_hidden, d_enc, tanh)
        };
        let encoders = [
            encoder("encode_coords", seen),
            encoder("encode_values", values),
        ];
        let heads = (0..config.count).map(|h| {
            let mut part = |name: &str, outputs: usize| {
                let name = format!("heads.{h}.{name}");
                Mlp::new(plan, &name, d_enc, &config.hidden, outputs, tanh)
            };
            (part("weight", 1), part("value", config.outputs))
        });
        let heads = heads.collect();
        let fused = (!config.hidden.is_empty()).then(|| {
            Arc::new(vidon_kernels::Heads {
                count: config.count,
                inputs: d_enc,
                hidden: config.hidden.clone(),
                activation: tanh.into(),
                scale: 1.0 / (d_enc as f32).sqrt(),
            })
        });
        Self {
            encoding: config.encoding,
            features,
            encoders,
            heads,
            d_enc,
            outputs: config.count * config.outputs,
            fused,
        }
    }

    fn see(&self, params: &Params, batch: &[&Encoded]) -> Seen {
        let sensors = || {
            batch.iter().map(|encoded| match encoded {
                Encoded::Sensors(sensors) => sensors,
                _ => unreachable!("made by this encoder"),
            })
        };
        let place = params.place();
        let (coords, offsets) = gather(sensors().map(|s| &s.coords));
        let (values, _) = gather(sensors().map(|s| &s.values));
        let coords = match &self.features {
            None => place.rows(coords),
            Some(basis) => {
                let features = basis.evaluate(coords.data(), basis.len());
                place.tensor(features, [coords.len(), basis.len()])
            }
        };
        Seen {
            coords,
            values: place.rows(values),
            sets: Sets::new(offsets, &place.device),
        }
    }

    /// ψ, `[sensors, d_enc]`.
    fn psi(&self, params: &Params, seen: &Seen) -> Tensor<2> {
        let [coords, values] = &self.encoders;
        let place = coords.forward(params, seen.coords.clone());
        let value = values.forward(params, seen.values.clone());
        match self.encoding {
            Encoding::Sum => place + value,
            Encoding::Product => place * value,
        }
    }

    /// ν of all heads, `[samples, heads·outputs]`, in one fused operation up to the linear output layers,
    /// which are applied once a sample: the weights of a sample's sensors sum up to one.
    fn pool_fused(
        &self,
        heads: &Arc<vidon_kernels::Heads>,
        params: &Params,
        psi: Tensor<2>,
        sets: &Sets,
    ) -> Tensor<2> {
        let weights = self.heads.iter().flat_map(|(weight, value)| {
            let hidden = value.split_last().0.iter();
            let hidden = hidden.flat_map(|layer| layer.flat(params));
            weight.flat(params).chain(hidden)
        });
        let weights = Tensor::cat(weights.collect(), 0);
        let pooled = vidon_kernels::pool(heads, sets.offsets(), psi, weights);
        let width = heads.outputs();
        let outputs = self.heads.iter().enumerate().map(|(h, (_, value))| {
            let own = pooled.clone().narrow(1, h * width, width);
            value.split_last().1.forward(params, own)
        });
        Tensor::cat(outputs.collect(), 1)
    }

    /// The same from ordinary operations.
    fn pool(&self, params: &Params, psi: Tensor<2>, sets: &Sets) -> Tensor<2> {
        let pooled = self.heads.iter().map(|(weight, value)| {
            let shares = self.shares(params, weight, psi.clone(), sets);
            sets.sum(shares * value.forward(params, psi.clone()))
        });
        Tensor::cat(pooled.collect(), 1)
    }

    /// ω_j of one head, `[sensors, 1]`.
    fn shares(&self, params: &Params, weight: &Mlp, psi: Tensor<2>, sets: &Sets) -> Tensor<2> {
        sets.softmax(weight.forward(params, psi) / (self.d_enc as f64).sqrt())
    }
}

impl Encoder for Heads {
    fn encode(&self, _: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        Ok(Encoded::Sensors(sensors.clone()))
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let seen = self.see(params, batch);
        let psi = self.psi(params, &seen);
        match &self.fused {
            Some(heads) if vidon_kernels::fused(&psi) => {
                self.pool_fused(heads, params, psi, &seen.sets)
            }
            _ => self.pool(params, psi, &seen.sets),
        }
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn has_symmetries(&self, _: Symmetries, _: &[Channel]) -> bool {
        true
    }

    fn transform(&self, encoded: &mut Encoded, symmetry: &Symmetry, ends: &[[f64; 2]]) {
        if let Encoded::Sensors(sensors) = encoded {
            sensors.transform(symmetry, ends);
        }
    }

    fn head_weights(&self, params: &Params, encoded: &Encoded) -> Option<Vec<f32>> {
        let seen = self.see(params, &[encoded]);
        let psi = self.psi(params, &seen);
        let heads = self.heads.iter();
        let shares = heads.map(|(weight, _)| self.shares(params, weight, psi.clone(), &seen.sets));
        Some(to_vec(Tensor::cat(shares.collect(), 1)))
    }

    fn extent(&self) -> Extent {
        let of = |part: fn(&(Mlp, Mlp)) -> &Mlp| {
            let extents = self.heads.iter().map(|h| part(h).extent());
            extents.fold(Extent::default(), beside)
        };
        let encoders = self.encoders.iter().map(Mlp::extent);
        let encoders = encoders.fold(Extent::default(), beside);
        encoders.and(of(|h| &h.0)).and(of(|h| &h.1))
    }

    fn activations(&self, sensors: usize) -> Vec<usize> {
        let heads = self.heads.iter().map(|(w, v)| w.hidden() + v.hidden());
        let encoders = self.encoders.iter().map(Mlp::hidden);
        vec![
            sensors * encoders.sum::<usize>(),
            sensors * heads.sum::<usize>(),
        ]
    }
}

/// Side by side: as deep as the deeper one.
fn beside(a: Extent, b: Extent) -> Extent {
    Extent {
        depth: a.depth.max(b.depth),
        width: a.width + b.width,
        size: a.size + b.size,
    }
}
