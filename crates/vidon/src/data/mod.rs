//! Samples and what is done with them: scaling, files, import.
//!
//! A sample is a set of sensors (places and values) and the answers (targets) at some queries. Numbers of
//! sensors and queries are free and differ from sample to sample; so are the four widths
//! d (sensor coordinates), d_v (sensor values), d_y (query coordinates) and d_u (targets).

mod dataset;
mod generate;
mod guard;
mod import;
mod meta;
mod numbers;
mod sample;
pub(crate) mod scaling;
mod source;
mod summary;

#[cfg(test)]
pub(crate) use dataset::{DatasetReader, DatasetWriter};
pub use import::{ArrayNames, Columns, Details, Imported, Missing};
pub(crate) use meta::Dims;
pub(crate) use meta::domain_of;
pub use meta::{Channel, Meta};
pub(crate) use sample::Sensors;
pub use sample::{Rows, Sample};
pub(crate) use scaling::{ScaledSample, Scaling};
pub use source::{Dataset, ProblemSource, SampleSource};
pub use summary::Summary;
