//! Operators between functions, from scattered sensors whose number and places change from sample to sample.

pub mod data;
pub mod domain;
mod error;
pub mod files;
mod linalg;
pub mod models;
pub mod plot;
pub mod problems;
pub mod rng;
pub mod sensors;

pub use error::{Error, Result};
