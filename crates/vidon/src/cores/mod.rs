//! Cores: tensor to tensor, from what the encoders saw to what the decoder takes. No files, no units.

mod fno;
mod fno_between_bases;
mod grid_waves;
mod mlp;

pub use fno::FnoConfig;
pub use mlp::MlpConfig;

pub use crate::network::Activation;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::cores::fno::FnoOnGrid;
use crate::cores::fno_between_bases::FnoBetweenBases;
use crate::cores::mlp::MlpCore;
use crate::data::{Dims, ScaledSample};
use crate::decoders::DecoderConfig;
use crate::encoders::{Encoder, EncoderConfig};
use crate::error::Result;
use crate::network::{Entry, Extent, Params, Plan, Tensor};
use crate::spaces::Basis;

/// Which core, with its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CoreConfig {
    /// A perceptron, as in the paper.
    Mlp(MlpConfig),
    /// A Fourier neural operator: on the grid of a grid encoder, or on a grid of its own between two bases.
    Fno(FnoConfig),
}

impl CoreConfig {
    /// What is wrong with it between such encoders and such a decoder, if anything.
    pub(crate) fn fault(
        &self,
        encoders: &[EncoderConfig],
        decoder: &DecoderConfig,
        dims: Dims,
    ) -> Option<String> {
        let gridded = |e: &EncoderConfig| matches!(e, EncoderConfig::Grid {});
        match self {
            CoreConfig::Mlp(_) if encoders.iter().any(gridded) => {
                Some("a perceptron cannot take readings on a grid; an FNO core does".into())
            }
            CoreConfig::Mlp(config) => config.fault(),
            CoreConfig::Fno(config) => config.fault().or_else(|| match (encoders, decoder) {
                ([EncoderConfig::Grid {}], DecoderConfig::Grid {}) => fno::fault(config, dims),
                ([EncoderConfig::Projection(seen)], DecoderConfig::Basis(answer)) => {
                    let answer = (&answer.frame, answer.functions);
                    fno_between_bases::fault(config, seen.functions, answer, dims)
                }
                _ => Some("an FNO core works between a grid encoder and a grid decoder, or between a projection alone and a fixed basis".into()),
            }),
        }
    }

    /// Between these encoders and a decoder that takes `inputs` numbers, or coefficients of `answer` for
    /// every target.
    pub(crate) fn build(
        &self,
        plan: &mut Plan,
        encoders: &[Box<dyn Encoder>],
        (inputs, answer): (usize, Option<&Basis>),
        dims: Dims,
    ) -> Box<dyn Core> {
        let seen = encoders.iter().find_map(|e| e.basis());
        match (self, seen, answer) {
            (CoreConfig::Fno(config), Some(seen), Some(answer)) => {
                Box::new(FnoBetweenBases::new(plan, config, seen, answer, dims))
            }
            (CoreConfig::Fno(config), ..) => {
                let width = encoders.iter().map(|e| e.outputs()).sum();
                let axes = dims.sensor_coords;
                Box::new(FnoOnGrid::new(plan, config, axes, width, dims.targets))
            }
            (CoreConfig::Mlp(config), ..) => {
                let width = encoders.iter().map(|e| e.outputs()).sum();
                let scaled = seen.is_some() && answer.is_some();
                Box::new(MlpCore::new(plan, config, width, inputs, scaled))
            }
        }
    }
}

pub(crate) trait Core: Debug + Send + Sync {
    /// Finds what it takes from training data; `answer` are the functions of a fixed decoder.
    fn fit(
        &self,
        _entries: &mut [Entry],
        _training: &[ScaledSample],
        _answer: Option<&Basis>,
    ) -> Result<()> {
        Ok(())
    }

    /// From what every encoder saw, `[rows, outputs]`, to what the decoder takes. `grid` has the points per
    /// axis where a row is a point.
    fn forward(
        &self,
        params: &Params,
        seen: Vec<Tensor<2>>,
        grid: Option<&[usize]>,
    ) -> Result<Tensor<2>>;

    /// Numbers of activations that its operations keep for so many samples, with so many sensors in all.
    fn activations(&self, _samples: usize, _sensors: usize) -> Vec<usize> {
        Vec::new()
    }

    /// Rows that a sample has on its way through it.
    fn rows(&self) -> usize {
        1
    }

    fn extent(&self) -> Extent;
}
