//! A perceptron Φ on what the encoders saw, side by side,
//!
//!   β = Φ(ν^1, …, ν^H) [+ A·(ν^1, …, ν^H)],
//!
//! with `skip` the linear map A beside it. Before a fixed basis Φ gives numbers of size one: β is scaled by the spread of the training outputs' coefficients, and moved by their mean.

use serde::{Deserialize, Serialize};

use crate::config::MOST_LAYERS;
use crate::cores::{Core, Training};
use crate::data::ScaledSample;
use crate::decoders::target_fits;
use crate::error::Result;
use crate::network::{Activation, Entry, Extent, Init, Key, Mlp, Params, Plan, Tensor};
use crate::spaces::{MEASURED, all_along, mean_and_spread};

/// The default is the paper's VIDON for Darcy flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpConfig {
    pub hidden: Vec<usize>,
    pub activation: Activation,
    /// Adds a linear map.
    pub skip: bool,
}

impl Default for MlpConfig {
    fn default() -> Self {
        Self {
            hidden: vec![256; 4],
            activation: Activation::Tanh,
            skip: false,
        }
    }
}

impl MlpConfig {
    pub(super) fn fault(&self) -> Option<String> {
        if self.hidden.len() > MOST_LAYERS {
            return Some(format!("more than {MOST_LAYERS} hidden layers"));
        }
        let none = self.hidden.contains(&0);
        none.then(|| "every size must be at least 1".into())
    }
}

#[derive(Clone, Debug)]
pub(super) struct MlpCore {
    mlp: Mlp,
    skip: Option<Mlp>,
    /// Mean and spread of β, not trained.
    scale: Option<Key>,
}

impl MlpCore {
    pub fn new(
        plan: &mut Plan,
        config: &MlpConfig,
        inputs: usize,
        outputs: usize,
        scaled: bool,
    ) -> Self {
        let (hidden, activation) = (&config.hidden, config.activation);
        let mlp = Mlp::new(plan, "core", inputs, hidden, outputs, activation);
        let linear =
            |plan: &mut Plan| Mlp::new(plan, "core.skip", inputs, &[], outputs, activation);
        let skip = config.skip.then(|| linear(plan));
        let scale = scaled.then(|| plan.add("core.scale".into(), &[2, outputs], Init::Fixed));
        Self { mlp, skip, scale }
    }
}

impl Core for MlpCore {
    fn fit(&self, entries: &mut [Entry], training: &Training) -> Result<()> {
        if let (Some(key), Some(basis)) = (self.scale, &training.answer) {
            let few: Vec<&ScaledSample> = all_along(training.samples, MEASURED).collect();
            let fits = target_fits(basis, &few);
            let (mean, spread) = mean_and_spread(&fits, few[0].targets.width())?;
            key.set(entries, [mean, spread].concat());
        }
        Ok(())
    }

    fn forward(
        &self,
        params: &Params,
        seen: Vec<Tensor<2>>,
        _: Option<&[usize]>,
    ) -> Result<Tensor<2>> {
        let seen = Tensor::cat(seen, 1);
        let mut beta = self.mlp.forward(params, seen.clone());
        if let Some(skip) = &self.skip {
            beta = beta + skip.forward(params, seen);
        }
        if let Some(scale) = self.scale {
            let [mean, spread] = [0, 1].map(|i| params.get::<2>(scale).narrow(0, i, 1));
            beta = mean + beta * spread;
        }
        Ok(beta)
    }

    fn extent(&self) -> Extent {
        let Extent { depth, width, size } = self.mlp.extent();
        let skip = self.skip.as_ref().map_or(0, |skip| skip.extent().size);
        Extent {
            depth,
            width,
            size: size + skip,
        }
    }
}
