//! Operators between functions, from scattered sensors whose number and places change from sample to sample.
//!
//! A trained network is one call away: sensors in, values anywhere out.
//!
//! ```no_run
//! use vidon::{Predictor, data::Rows};
//!
//! # fn main() -> vidon::Result<()> {
//! // A weights file, or the folder of a training.
//! let predictor = Predictor::load("runs/demo".as_ref())?;
//! // Three sensors in the plane and what they read; as many as there are, anywhere.
//! let places = Rows::new(2, vec![0.1, 0.5, 0.2, 1.5, 1.9, 0.9]);
//! let readings = Rows::new(1, vec![1.0, 0.5, 0.0]);
//! // Where and when the answer is wanted: (x, y, t).
//! let queries = Rows::new(3, vec![1.0, 1.0, 0.0, 1.0, 1.0, 0.05]);
//! let values = predictor.predict(&places, &readings, &queries)?;
//! assert_eq!(values.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Such a network comes from a recipe ([`train`]), data from the paper's problems ([`problems`], [`sensors`]) or from
//! files ([`data`]); [`models`] are written with Burn tensors, [`eval`] measures them, [`plot`] draws.

pub mod data;
pub mod domain;
mod error;
pub mod eval;
pub mod files;
mod images;
mod linalg;
pub mod models;
pub mod plot;
mod predict;
pub mod problems;
mod published;
pub mod rng;
pub mod sensors;
mod tensors;
pub mod train;

pub use error::{Error, Result};
pub use predict::{BEST, Predictor};
pub use published::{Published, published};
