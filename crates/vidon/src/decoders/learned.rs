//! The paper's trunk: all functions are the outputs of one perceptron of the query,
//!
//!   (τ_0(y), …, τ_p(y)) = T(y),
//!
//! which sees covariates beside the coordinates of y.

use serde::{Deserialize, Serialize};

use crate::config::MOST_LAYERS;
use crate::decoders::Functions;
use crate::network::{Activation, Extent, Mlp, Params, Plan, Tensor};

/// The default is the paper's for Darcy flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnedConfig {
    /// Number of functions besides τ_0.
    pub p: usize,
    pub hidden: Vec<usize>,
}

impl Default for LearnedConfig {
    fn default() -> Self {
        Self {
            p: 100,
            hidden: vec![250; 4],
        }
    }
}

impl LearnedConfig {
    pub(super) fn fault(&self) -> Option<String> {
        if self.hidden.len() > MOST_LAYERS {
            return Some(format!("more than {MOST_LAYERS} hidden layers"));
        }
        let none = self.p == 0 || self.hidden.contains(&0);
        none.then(|| "a decoder's layer has no width".into())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Learned {
    p: usize,
    mlp: Mlp,
}

impl Learned {
    pub fn new(plan: &mut Plan, config: &LearnedConfig, coords: usize, targets: usize) -> Self {
        let width = config.p.saturating_add(1).saturating_mul(targets);
        let tanh = Activation::Tanh;
        Self {
            p: config.p,
            mlp: Mlp::new(plan, "trunk", coords, &config.hidden, width, tanh),
        }
    }
}

impl Functions for Learned {
    fn count(&self) -> usize {
        self.p
    }

    fn at(&self, params: &Params, queries: Tensor<2>) -> Tensor<2> {
        self.mlp.forward(params, queries)
    }

    fn sees_covariates(&self) -> bool {
        true
    }

    fn extent(&self) -> Extent {
        self.mlp.extent()
    }

    fn hidden(&self) -> usize {
        self.mlp.hidden()
    }
}
