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
mod scaling;
mod source;
mod summary;

pub use dataset::{DatasetReader, DatasetWriter, Samples};
pub use generate::{Generated, Generator};
pub use import::{ArrayNames, Columns, Details, Imported, Missing, import_npz, import_tables};
pub(crate) use meta::Dims;
pub use meta::{Channel, Meta, domain_of};
pub use numbers::{read_rows, rows_ending, write_rows};
pub use sample::{Rows, Sample, Sensors};
pub(crate) use scaling::ScaledSample;
pub use scaling::{MinMax, Scaling};
pub use source::{Dataset, HandOn, ProblemSource, SampleSource};
pub use summary::{Counts, Range, Summary};

/// Told of progress in long work, and asked whether to go on.
pub trait Watch: Sync {
    /// `samples` more are done.
    fn advance(&self, _samples: usize) {}

    /// Whether the user wants to stop.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Watch for () {}
