//! Multilayer perceptrons over rows: `h ↦ σ(h Wᵀ + b)`, the last layer without σ.
//!
//! The paper's start: in the first and the last layer weights and biases uniform in ±1/√fan_in; between them
//! weights Xavier-normal, biases as before. Weights are stored as `[out, in]`, as PyTorch does.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vidon_kernels::Shape;

use crate::network::params::{Init, Key, Params, Plan};
use crate::network::{Extent, Tensor, activation, affine};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    #[default]
    Tanh,
    Gelu,
    Relu,
    Identity,
}

impl Activation {
    pub(crate) fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Activation::Tanh => x.tanh(),
            Activation::Gelu => activation::gelu(x),
            Activation::Relu => activation::relu(x),
            Activation::Identity => x,
        }
    }
}

impl From<Activation> for vidon_kernels::Activation {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Tanh => Self::Tanh,
            Activation::Gelu => Self::Gelu,
            Activation::Relu => Self::Relu,
            Activation::Identity => Self::Identity,
        }
    }
}

/// A perceptron; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub(crate) struct Mlp {
    layers: Vec<Linear>,
    activation: Activation,
    shape: Arc<Shape>,
}

/// `x Wᵀ + b` over rows.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    weight: Key,
    bias: Key,
}

impl Linear {
    pub fn new(plan: &mut Plan, name: &str, fan_in: usize, fan_out: usize, weight: Init) -> Self {
        Self {
            weight: plan.add(format!("{name}.weight"), &[fan_out, fan_in], weight),
            bias: plan.add(format!("{name}.bias"), &[fan_out], Init::FanIn(fan_in)),
        }
    }

    /// Weights, then biases.
    pub fn flat(&self, params: &Params) -> [Tensor<1>; 2] {
        [self.weight, self.bias].map(|key| params.flat(key))
    }

    /// `[rows, in]` to `[rows, out]`
    pub fn forward(&self, params: &Params, x: Tensor<2>) -> Tensor<2> {
        affine(x, params.get(self.weight), params.get(self.bias))
    }
}

impl Mlp {
    /// From `fan_in` over the `hidden` widths to `fan_out`. Parameters are named `name.0.weight`,
    /// `name.0.bias`, ….
    pub fn new(
        plan: &mut Plan,
        name: &str,
        fan_in: usize,
        hidden: &[usize],
        fan_out: usize,
        activation: Activation,
    ) -> Self {
        let widths = [&[fan_in], hidden, &[fan_out]].concat();
        let last = widths.len() - 2;
        let layers = (0..=last)
            .map(|i| {
                let (a, b) = (widths[i], widths[i + 1]);
                let init = if i == 0 || i == last {
                    Init::FanIn(a)
                } else {
                    Init::XavierNormal(a, b)
                };
                Linear::new(plan, &format!("{name}.{i}"), a, b, init)
            })
            .collect();
        let shape = Shape {
            widths,
            hidden: activation.into(),
            last: vidon_kernels::Activation::Identity,
        };
        Self {
            layers,
            activation,
            shape: Arc::new(shape),
        }
    }

    /// `[rows, in]` to `[rows, out]`
    pub fn forward(&self, params: &Params, rows: Tensor<2>) -> Tensor<2> {
        if vidon_kernels::fused(&rows) {
            let weights = Tensor::cat(self.flat(params).collect(), 0);
            return vidon_kernels::mlp(&self.shape, rows, weights);
        }
        self.forward_composed(params, rows)
    }

    /// The same from ordinary operations, for every device.
    pub fn forward_composed(&self, params: &Params, rows: Tensor<2>) -> Tensor<2> {
        let (last, hidden) = self.layers.split_last().expect("at least one layer");
        let x = hidden.iter().fold(rows, |x, layer| {
            self.activation.apply(layer.forward(params, x))
        });
        last.forward(params, x)
    }

    /// Weights and biases in the order of the kernels, layer by layer.
    pub fn flat<'a>(&'a self, params: &'a Params) -> impl Iterator<Item = Tensor<1>> + 'a {
        self.layers.iter().flat_map(|layer| layer.flat(params))
    }

    /// The layers before the last, and the last.
    pub fn split_last(&self) -> (&[Linear], &Linear) {
        let (last, hidden) = self.layers.split_last().expect("at least one layer");
        (hidden, last)
    }

    /// Sum of the hidden widths.
    pub fn hidden(&self) -> usize {
        let widths = &self.shape.widths;
        widths[1..widths.len() - 1].iter().sum()
    }

    /// Layers with weights, the widest hidden or output layer, weights and biases.
    pub fn extent(&self) -> Extent {
        Extent {
            depth: self.layers.len(),
            width: self.shape.widths[1..].iter().copied().max().unwrap_or(0),
            size: self.shape.numbers(),
        }
    }
}
