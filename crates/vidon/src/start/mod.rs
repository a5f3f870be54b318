//! Where an operator starts: the best answer without a network. What a network learns is a correction to it,
//!
//!   v(y) = start(sensors, y) + g·network(sensors, y),   g = 0 before the first step.
//!
//! A start has no learned weights in the sense of a network: it is fitted to the training data before the first
//! step, and its numbers are stored beside the network's. A field works in the units of the data, a linear map on what
//! encoders and decoder work with.

mod features;
mod field;
mod fit;
mod linear;
mod places;
mod refit;
#[cfg(test)]
mod tests;

pub use features::FeaturesConfig;
pub use field::FieldConfig;
pub(crate) use field::{Field, FieldKeys, among_readings};
pub(crate) use fit::fit as fit_field;
pub use linear::LinearConfig;
pub(crate) use linear::{
    Asked as LinearAsked, Known as LinearKnown, LinearKeys, LinearMap, Seen, between,
    fit as fit_linear, numbers_of,
};
pub(crate) use refit::refit as refit_field;

use serde::{Deserialize, Serialize};

/// Which start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum StartConfig {
    /// A random field that many samples have taught: what kriging would be if it knew them all.
    Field(FieldConfig),
    /// The best linear map from what the encoders see to the coefficients of a fixed decoder.
    Linear(LinearConfig),
}
