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
use crate::data::{Group, Meta, ScaledSample};
use crate::decoders::DecoderConfig;
use crate::encoders::{Encoder, EncoderConfig};
use crate::error::Result;
use crate::network::{Entry, Extent, Params, Plan, Tensor};
use crate::spaces::{CovariateBasis, FittedBasis};

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
    /// What is wrong with it between such encoders, each with its group, and such a decoder, if anything.
    pub(crate) fn fault(
        &self,
        encoders: &[(&EncoderConfig, &Group)],
        decoder: &DecoderConfig,
        meta: &Meta,
    ) -> Option<String> {
        let gridded = |e: &(&EncoderConfig, &Group)| matches!(e.0, EncoderConfig::Grid {});
        let fixed = |e: &(&EncoderConfig, &Group)| {
            matches!(e.0, EncoderConfig::Vector(_) | EncoderConfig::Krige(_))
        };
        let config = match self {
            CoreConfig::Mlp(_) if encoders.iter().any(gridded) => {
                return Some(
                    "a perceptron cannot take readings on a grid; an FNO core does".into(),
                );
            }
            CoreConfig::Mlp(config) => return config.fault(),
            CoreConfig::Fno(config) => config,
        };
        let seen = encoders
            .iter()
            .filter_map(|(encoder, group)| match encoder {
                EncoderConfig::Projection(c) => Some((c.functions, *group)),
                EncoderConfig::Moments(c) => Some((c.functions, *group)),
                _ => None,
            });
        let seen: Vec<(usize, &Group)> = seen.collect();
        config.fault().or_else(|| match (encoders, decoder) {
            ([(EncoderConfig::Grid {}, _)], DecoderConfig::Grid {}) => fno::fault(config, meta),
            (_, DecoderConfig::Basis(answer))
                if !seen.is_empty() && !encoders.iter().any(|e| gridded(e) || fixed(e)) =>
            {
                fno_between_bases::fault(config, &seen, answer, meta)
            }
            _ => Some("an FNO core works between a grid encoder and a grid decoder, or between projections or moments (with scalars and heads beside them) and a fixed basis".into()),
        })
    }

    /// Between these encoders and a decoder that takes `inputs` numbers, or coefficients of `answer` for
    /// every target.
    pub(crate) fn build(
        &self,
        plan: &mut Plan,
        encoders: &[Box<dyn Encoder>],
        (inputs, answer): (usize, Option<&CovariateBasis>),
        meta: &Meta,
    ) -> Box<dyn Core> {
        let widths = encoders.iter().map(|e| e.outputs());
        let width = widths.fold(0usize, usize::saturating_add);
        let targets = meta.targets.len();
        match (self, answer) {
            (CoreConfig::Fno(config), Some(answer)) => {
                Box::new(FnoBetweenBases::new(plan, config, encoders, answer, meta))
            }
            (CoreConfig::Fno(config), None) => {
                let axes = meta.space().len();
                Box::new(FnoOnGrid::new(plan, config, axes, width, targets))
            }
            (CoreConfig::Mlp(config), _) => {
                Box::new(MlpCore::new(plan, config, width, inputs, answer.is_some()))
            }
        }
    }
}

/// What a core takes from training data.
pub(crate) struct Training<'a> {
    pub samples: &'a [ScaledSample],
    /// The functions of a fixed decoder.
    pub answer: Option<FittedBasis<'a>>,
    /// Mean and spread of every function that encoders give by its coefficients, in order.
    pub seen: Vec<[f32; 2]>,
}

pub(crate) trait Core: Debug + Send + Sync {
    /// Finds what it takes from training data.
    fn fit(&self, _entries: &mut [Entry], _training: &Training) -> Result<()> {
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
