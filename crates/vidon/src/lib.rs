//! Operators between functions, from scattered sensors whose number and places change from sample to sample.

pub mod data;
pub mod domain;
mod error;
pub mod eval;
pub mod files;
mod linalg;
pub mod models;
pub mod plot;
mod predict;
pub mod problems;
pub mod rng;
pub mod sensors;
mod tensors;
pub mod train;

pub use error::{Error, Result};
pub use predict::{BEST, Predictor};
