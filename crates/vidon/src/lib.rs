//! Operators between functions, from scattered sensors whose number and places change from sample to sample.
//!
//! Samples come from a file, a problem or memory ([`data::Dataset`]); a recipe says which network learns from
//! them and how ([`train::Recipe`]); what comes out is an [`Operator`]: sensors in, values anywhere out, in
//! physical units.
//!
//! Samples in memory, here of v(y) = ū·(1 + y), where ū is the mean of the readings:
//!
//! ```
//! use std::sync::Arc;
//! use vidon::data::{Channel, Dataset, Meta, Rows, Sample};
//!
//! # fn main() -> vidon::Result<()> {
//! # let data = made_up()?;
//! # assert_eq!(data.available(), Some(60));
//! # Ok(())
//! # }
//! # pub fn made_up() -> vidon::Result<Dataset> {
//! let channel = |name: &str| vec![Channel::named(name)];
//! let meta = Meta::new("levels", channel("x"), channel("u"), channel("y"), channel("v"));
//! let sample = |k: usize| {
//!     let (sensors, level) = (3 + k % 5, (k as f32).sin());
//!     let along = |n: usize| (0..n).map(|i| (i as f32 + 0.5) / n as f32).collect::<Vec<f32>>();
//!     let targets = along(6).iter().map(|y| level * (1.0 + y)).collect();
//!     let (coords, values) = (Rows::new(1, along(sensors))?, Rows::new(1, vec![level; sensors])?);
//!     Ok(Sample::of(coords, values, Arc::new(Rows::new(1, along(6))?), Rows::new(1, targets)?))
//! };
//! let samples = (0..60).map(sample).collect::<vidon::Result<Vec<Sample>>>()?;
//! let data = Dataset::from_samples(meta, samples)?;
//! # Ok(data)
//! # }
//! ```
//!
//! From samples to an operator, without any folder; [`train::Training`] does the same in a folder that can be
//! resumed:
//!
//! ```
//! # use std::sync::Arc;
//! # use vidon::data::{Channel, Dataset, Meta, Rows, Sample};
//! use vidon::{Operator, train::Recipe};
//!
//! # fn main() -> vidon::Result<()> {
//! # let channel = |name: &str| vec![Channel::named(name)];
//! # let meta = Meta::new("levels", channel("x"), channel("u"), channel("y"), channel("v"));
//! # let along = |n: usize| (0..n).map(|i| (i as f32 + 0.5) / n as f32).collect::<Vec<f32>>();
//! # let samples = (0..60).map(|k: usize| {
//! #     let (sensors, level) = (3 + k % 5, (k as f32).sin());
//! #     let targets = along(6).iter().map(|y| level * (1.0 + y)).collect();
//! #     let (coords, values) = (Rows::new(1, along(sensors))?, Rows::new(1, vec![level; sensors])?);
//! #     Ok(Sample::of(coords, values, Arc::new(Rows::new(1, along(6))?), Rows::new(1, targets)?))
//! # }).collect::<vidon::Result<Vec<Sample>>>()?;
//! # let data = Dataset::from_samples(meta, samples)?;
//! let recipe = Recipe::parse(
//!     r#"[model]
//!     encoders = [{ kind = "projection", functions = 4 }]
//!     core = { kind = "mlp", hidden = [16], skip = true }
//!     decoder = { kind = "basis", functions = 4 }
//!     [train]
//!     steps = 50
//!     rate = 1e-2"#,
//!     &[],
//! )?;
//! let operator = Operator::fit(&data, &recipe, &())?;
//!
//! // Any sensors, asked anywhere.
//! let places = Rows::new(1, vec![0.1, 0.4, 0.45, 0.9])?;
//! let readings = Rows::new(1, vec![0.5; 4])?;
//! let values = operator.predict(&places, &readings, &Rows::new(1, vec![0.0, 1.0])?)?;
//! assert_eq!(values.len(), 2);
//!
//! // A file alone is enough to answer again.
//! let file = std::env::temp_dir().join(format!("vidon-{}.safetensors", std::process::id()));
//! operator.save(&file)?;
//! let again = Operator::load(&file)?;
//! # std::fs::remove_file(&file).unwrap();
//! assert_eq!(again.predict(&places, &readings, &Rows::new(1, vec![0.0, 1.0])?)?, values);
//! # Ok(())
//! # }
//! ```
//!
//! The way of a sample is one line, and every room is on it once: [`problems`] and [`sensors`], or a file →
//! [`data`] → [`encoders`] → [`cores`] → [`decoders`] → answer → [`eval`], [`plot`]; [`spaces`] has the bases
//! that encoders and decoders use.

pub mod baseline;
mod checksum;
mod config;
pub mod cores;
pub mod data;
pub mod decoders;
mod domain;
pub mod encoders;
mod error;
pub mod eval;
pub mod files;
pub mod input;
mod memory;
mod network;
mod observer;
mod operator;
pub mod plot;
pub mod problems;
mod rng;
pub mod sensors;
pub mod spaces;
pub mod start;
mod tensors;
pub mod train;

pub use config::{ModelConfig, ModelName};
pub use error::{Error, Result};
pub use observer::Observer;
pub use operator::Operator;
