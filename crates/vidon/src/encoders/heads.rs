//! The heads of VIDON, the variable-input deep operator network (Prasthofer, De Ryck, Mishra, 2022):
//!
//!   ψ_j = Ψ_c(x_j) + Ψ_v(u(x_j)),   ω_j = softmax_j( ω̃(ψ_j)/√d_enc ),   ν = Σ_j ω_j ν̃(ψ_j),   ν of every head.
//!
//! Any number of sensors m ≥ 1, anywhere, in any order; cost O(m). With `encoding = product` ψ_j is the product
//! Ψ_c(x_j) ⊙ Ψ_v(u(x_j)); with `positional = fourier` Ψ_c sees fixed Fourier features of x_j. Ψ_c sees covariates
//! beside the coordinates. Where readings may be missing, every column c has an encoding of its own, and counts
//! where it is reported:
//!
//!   ψ_j = Ψ_c(x_j) + Σ_c Ψ_{v,c}(u_c(x_j)).
//!
//! Averages do not grow with the number of sensors. Of points there may be sums beside them: strengths add up,
//!
//!   σ = Σ_j u_j ν̃(Ψ_c(x_j))   (of samples of a density 1/m Σ_j ν̃(Ψ_c(x_j)), and their number m).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::{MOST_LAYERS, MOST_PARTS};
use crate::data::{Channel, Group, Kind, Rows, Sensors};
use crate::encoders::{Encoded, Encoder, gather};
use crate::error::{Error, Result};
use crate::network::{
    Activation, Entry, Extent, Init, Key, Mlp, Params, Place, Plan, Sets, Tensor, to_vec,
};
use crate::spaces::{Basis, Frame, Symmetries, Symmetry, means_and_deviations};

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
    /// Which group; the only one that heads can take where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub encoding: Encoding,
    pub positional: Positional,
    pub d_enc: usize,
    /// Hidden layers of Ψ_c and Ψ_v.
    pub encoder_hidden: Vec<usize>,
    /// Number of heads that average.
    pub count: usize,
    /// Number of heads that sum; for points.
    #[serde(skip_serializing_if = "is_zero")]
    pub sums: usize,
    /// Hidden layers of ω̃ and ν̃.
    pub hidden: Vec<usize>,
    /// Numbers that a head gives.
    pub outputs: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Default for HeadsConfig {
    fn default() -> Self {
        Self {
            group: None,
            encoding: Encoding::Sum,
            positional: Positional::default(),
            d_enc: 40,
            encoder_hidden: vec![40; 3],
            count: 4,
            sums: 0,
            hidden: vec![128; 4],
            outputs: 64,
        }
    }
}

impl HeadsConfig {
    pub(super) fn fault(&self, group: &Group) -> Option<String> {
        if self.count.max(self.sums) > MOST_PARTS {
            return Some(format!("more than {MOST_PARTS} heads"));
        }
        if self.hidden.len().max(self.encoder_hidden.len()) > MOST_LAYERS {
            return Some(format!("more than {MOST_LAYERS} hidden layers"));
        }
        if (self.count + self.sums) * (self.hidden.len() + 1) > MOST_PARTS {
            return Some(format!(
                "more than {MOST_PARTS} layers in all heads together"
            ));
        }
        if self.sums > 0 && group.kind != Kind::Points {
            return Some(format!(
                "sums are for points, whose strengths add up; {} are readings of a function",
                group.name
            ));
        }
        let single = [self.d_enc, self.count + self.sums, self.outputs];
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
            Positional::Fourier { frame, .. } => frame.fault(group.coordinates()),
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
    /// Coordinates; what else a place has are covariates.
    axes: usize,
    covariates: usize,
    encode_coords: Mlp,
    encode_values: EncodeValues,
    /// ω̃ and ν̃ of every head.
    heads: Vec<(Mlp, Mlp)>,
    /// ν̃ of every head that sums.
    sums: Vec<Mlp>,
    /// Strengths of points; none of samples of a density, and of fields.
    strengths: usize,
    /// Of samples of a density: mean and spread of their number, not trained.
    count: Option<Key>,
    d_enc: usize,
    outputs: usize,
    /// For the fused kernels, where the heads have hidden layers.
    fused: Option<Arc<vidon_kernels::Heads>>,
}

/// Ψ_v, where there are values.
#[derive(Clone, Debug)]
enum EncodeValues {
    Nothing,
    Together(Mlp),
    /// One for every column, because some may be missing.
    Apart(Vec<Mlp>),
}

/// Sensors of a batch as tensors.
struct Seen {
    places: Tensor<2>,
    values: Rows,
    sets: Sets,
}

impl Heads {
    pub fn new(plan: &mut Plan, config: &HeadsConfig, prefix: &str, group: &Group) -> Self {
        let tanh = Activation::Tanh;
        let (axes, values) = (group.coordinates().len(), group.values.len());
        let covariates = group.coords.len() - axes;
        let (features, seen) = match &config.positional {
            Positional::Mlp {} => (None, axes),
            Positional::Fourier { frame, functions } => {
                (Some(Basis::new(frame.clone(), *functions)), *functions)
            }
        };
        let d_enc = config.d_enc;
        let mut encoder = |name: &str, inputs: usize| {
            let name = format!("{prefix}{name}");
            Mlp::new(plan, &name, inputs, &config.encoder_hidden, d_enc, tanh)
        };
        let encode_coords = encoder("encode_coords", seen + covariates);
        let apart = group.gaps && group.kind == Kind::Field;
        let averages = config.count > 0;
        let encode_values = match values {
            // Nobody would look at it.
            _ if !averages => EncodeValues::Nothing,
            0 => EncodeValues::Nothing,
            _ if apart => EncodeValues::Apart(
                (0..values)
                    .map(|c| encoder(&format!("encode_values.{c}"), 1))
                    .collect(),
            ),
            _ => EncodeValues::Together(encoder("encode_values", values)),
        };
        let heads = (0..config.count).map(|h| {
            let mut part = |name: &str, outputs: usize| {
                let name = format!("{prefix}heads.{h}.{name}");
                Mlp::new(plan, &name, d_enc, &config.hidden, outputs, tanh)
            };
            (part("weight", 1), part("value", config.outputs))
        });
        let heads = heads.collect();
        let sums = (0..config.sums).map(|h| {
            let name = format!("{prefix}sums.{h}");
            Mlp::new(plan, &name, d_enc, &config.hidden, config.outputs, tanh)
        });
        let sums: Vec<Mlp> = sums.collect();
        let density = group.kind == Kind::Points && values == 0;
        let count = || plan.add(format!("{prefix}heads.points"), &[2], Init::Fixed);
        let count = density.then(count);
        let fused = (!config.hidden.is_empty() && averages).then(|| {
            Arc::new(vidon_kernels::Heads {
                count: config.count,
                inputs: d_enc,
                hidden: config.hidden.clone(),
                activation: tanh.into(),
                scale: 1.0 / (d_enc as f32).sqrt(),
            })
        });
        let summed = config.sums * values.max(1);
        Self {
            encoding: config.encoding,
            features,
            axes,
            covariates,
            encode_coords,
            encode_values,
            heads,
            sums,
            strengths: if group.kind == Kind::Points {
                values
            } else {
                0
            },
            d_enc,
            outputs: (config.count + summed)
                .saturating_mul(config.outputs)
                .saturating_add(usize::from(count.is_some())),
            count,
            fused,
        }
    }

    fn see(&self, params: &Params, batch: &[&Encoded]) -> Seen {
        let sensors = || sensors(batch);
        let place = params.place();
        let (coords, offsets) = gather(sensors().map(|s| &s.coords));
        let (values, _) = gather(sensors().map(|s| &s.values));
        let rows = coords.len();
        let places = match &self.features {
            None => place.rows(coords),
            Some(basis) => {
                let axes = coords.first_columns(self.axes);
                let features = basis.evaluate(axes.data(), basis.len());
                let features = place.tensor(features, [rows, basis.len()]);
                match self.covariates {
                    0 => features,
                    count => {
                        let behind = Vec::from_iter(self.axes..self.axes + count);
                        Tensor::cat(vec![features, place.rows(coords.columns(&behind))], 1)
                    }
                }
            }
        };
        Seen {
            places,
            values,
            sets: Sets::new(offsets, &place.device),
        }
    }

    /// ψ, `[sensors, d_enc]`, from Ψ_c of their places.
    fn psi(&self, params: &Params, place: Tensor<2>, values: &Rows) -> Tensor<2> {
        let on = Place::of(&place);
        let value = match &self.encode_values {
            EncodeValues::Nothing => return place,
            EncodeValues::Together(mlp) => {
                mlp.forward(params, on.rows(values.clone().without_gaps()))
            }
            EncodeValues::Apart(all) => {
                let column = |(c, mlp): (usize, &Mlp)| {
                    let own = values.columns(&[c]);
                    let known = on.rows(own.known());
                    mlp.forward(params, on.rows(own.without_gaps())) * known
                };
                let columns = all.iter().enumerate().map(column);
                columns.reduce(|a, b| a + b).expect("at least one column")
            }
        };
        match self.encoding {
            Encoding::Sum => place + value,
            Encoding::Product => place * value,
        }
    }

    /// σ of all heads that sum, `[samples, sums·strengths·outputs]`.
    fn summed(&self, params: &Params, place: &Tensor<2>, values: &Rows, sets: &Sets) -> Tensor<2> {
        let on = Place::of(place);
        let weights: Vec<Tensor<2>> = match self.strengths {
            0 => {
                let sizes = sets.offsets().windows(2).map(|w| w[1] - w[0]);
                let shares = sizes.flat_map(|m| std::iter::repeat_n(1.0 / m as f32, m));
                vec![on.tensor(shares.collect(), [values.len(), 1])]
            }
            all => (0..all)
                .map(|c| on.rows(values.columns(&[c]).without_gaps()))
                .collect(),
        };
        let heads = self.sums.iter().flat_map(|head| {
            let own = head.forward(params, place.clone());
            let sums = weights.iter().map(|w| sets.sum(own.clone() * w.clone()));
            sums.collect::<Vec<_>>()
        });
        Tensor::cat(heads.collect(), 1)
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

    /// Ψ_c, and Ψ_v where there are values.
    fn encoders(&self) -> impl Iterator<Item = &Mlp> {
        let values: &[Mlp] = match &self.encode_values {
            EncodeValues::Nothing => &[],
            EncodeValues::Together(mlp) => std::slice::from_ref(mlp),
            EncodeValues::Apart(all) => all,
        };
        std::iter::once(&self.encode_coords).chain(values)
    }

    /// ω_j of one head, `[sensors, 1]`.
    fn shares(&self, params: &Params, weight: &Mlp, psi: Tensor<2>, sets: &Sets) -> Tensor<2> {
        sets.softmax(weight.forward(params, psi) / (self.d_enc as f64).sqrt())
    }
}

/// Sensors of a batch.
fn sensors<'a>(batch: &'a [&Encoded]) -> impl Iterator<Item = &'a Sensors> + Clone {
    batch.iter().map(|encoded| match encoded {
        Encoded::Sensors(sensors) => sensors,
        _ => unreachable!("made by this encoder"),
    })
}

impl Encoder for Heads {
    fn fit(&self, entries: &mut [Entry], _: &[Channel], training: &[&Sensors]) -> Result<()> {
        if let Some(key) = self.count {
            let counts: Vec<f32> = training.iter().map(|s| s.len() as f32).collect();
            key.set(entries, means_and_deviations([&counts[..]].into_iter(), 1));
        }
        Ok(())
    }

    fn encode(&self, _: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        match sensors.is_empty() && !self.heads.is_empty() {
            false => Ok(Encoded::Sensors(sensors.clone())),
            true => Err(Error::sample(
                0,
                "it has no points, of which heads cannot take the average; sums alone (count = 0) and moments can do without",
            )),
        }
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let Seen {
            places,
            values,
            sets,
        } = self.see(params, batch);
        let place = params.place();
        let mut parts = Vec::new();
        // Of nothing at all there is nothing to work out: the sums are 0.
        if sets.offsets().last() == Some(&0) {
            let width = self.outputs - usize::from(self.count.is_some());
            let on = (&place.device, place.dtype);
            parts.push(Tensor::zeros([batch.len(), width], on));
        } else {
            let places = self.encode_coords.forward(params, places);
            if !self.heads.is_empty() {
                let psi = self.psi(params, places.clone(), &values);
                parts.push(match &self.fused {
                    Some(heads) if vidon_kernels::fused(&psi) => {
                        self.pool_fused(heads, params, psi, &sets)
                    }
                    _ => self.pool(params, psi, &sets),
                });
            }
            if !self.sums.is_empty() {
                parts.push(self.summed(params, &places, &values, &sets));
            }
        }
        if let Some(key) = self.count {
            let counts = sets.offsets().windows(2).map(|w| (w[1] - w[0]) as f32);
            let counts: Tensor<2> = place.tensor(counts.collect(), [batch.len(), 1]);
            let [mean, spread] = [0, 1].map(|i| params.flat(key).narrow(0, i, 1).unsqueeze());
            parts.push((counts - mean) / spread);
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Tensor::cat(parts, 1),
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
        if self.heads.is_empty() {
            return None;
        }
        let seen = self.see(params, &[encoded]);
        let places = self.encode_coords.forward(params, seen.places);
        let psi = self.psi(params, places, &seen.values);
        let heads = self.heads.iter();
        let shares = heads.map(|(weight, _)| self.shares(params, weight, psi.clone(), &seen.sets));
        Some(to_vec(Tensor::cat(shares.collect(), 1)))
    }

    fn extent(&self) -> Extent {
        let of = |part: fn(&(Mlp, Mlp)) -> &Mlp| {
            let extents = self.heads.iter().map(|h| part(h).extent());
            extents.fold(Extent::default(), beside)
        };
        let encoders = self.encoders().map(Mlp::extent);
        let encoders = encoders.fold(Extent::default(), beside);
        let sums = self.sums.iter().map(Mlp::extent);
        let values = of(|h| &h.1);
        let values = sums.fold(values, beside);
        encoders.and(of(|h| &h.0)).and(values)
    }

    fn sees_covariates(&self) -> bool {
        true
    }

    fn widest(&self) -> usize {
        self.d_enc.max(self.features.as_ref().map_or(0, Basis::len))
    }

    fn activations(&self, sensors: usize) -> Vec<usize> {
        let heads = self.heads.iter().map(|(w, v)| w.hidden() + v.hidden());
        let encoders = self.encoders().map(Mlp::hidden);
        let mut all = vec![
            sensors * encoders.sum::<usize>(),
            sensors * heads.sum::<usize>(),
        ];
        all.extend(self.sums.iter().map(|head| sensors * head.hidden()));
        all
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
