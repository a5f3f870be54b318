//! Samples and what is done with them: transforms, scaling, files, import.
//!
//! A sample has one or several groups of sensors (places and values) and the answers (targets) at some queries.
//! Numbers of sensors and queries are free and differ from sample to sample. A number that is missing is NaN in
//! memory and null in a file, where the description allows it.

mod answers;
mod cells;
mod dataset;
mod dates;
mod footer;
mod generate;
mod guard;
mod import;
mod meta;
mod quantiles;
mod questions;
pub(crate) mod sample;
pub(crate) mod scaling;
mod source;
mod summary;
pub(crate) mod transform;

pub use answers::{ArrayWriter, TableWriter};
pub use cells::Cells;
#[cfg(test)]
pub(crate) use dataset::{DatasetReader, DatasetWriter};
pub use import::{
    ArrayNames, Columns, Details, GroupArrays, GroupColumns, Imported, Missing, NamedArray, Split,
    Times, Written,
};
pub use meta::{Channel, Group, Kind, Meta};
pub(crate) use meta::{coordinates, domain_of};
pub use questions::{Places, Readings};
pub use sample::{Rows, Sample, Sensors};
pub use scaling::ScalingKind;
pub(crate) use scaling::{Centred, ScaledSample, Scaling, scale_covariates};
pub use source::{Dataset, ProblemSource, SampleSource};
pub use summary::Summary;
pub use transform::Transform;
pub(crate) use transform::Transforms;
