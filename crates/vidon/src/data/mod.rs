//! Samples and what is done with them: batches, normalisation, files, import.
//!
//! A sample is a set of sensors (places and values) and the answers (targets) at some queries. Numbers of
//! sensors and queries are free and differ from sample to sample; so are the four widths
//! d (sensor coordinates), d_v (sensor values), d_y (query coordinates) and d_u (targets).

mod batch;
mod dataset;
mod generate;
mod guard;
mod import;
mod kriging;
mod meta;
mod normalise;
mod numbers;
mod sample;
mod source;
mod summary;

pub(crate) use batch::Answers;
pub use batch::{Batch, Subset};
pub use dataset::{DatasetReader, DatasetWriter, Samples};
pub use generate::{Generated, Generator};
pub use import::{ArrayNames, Columns, Details, Imported, Missing, import_npz, import_tables};
pub use kriging::krige;
pub use meta::{Channel, Meta, domain_of};
pub use normalise::{MinMax, Normalisation};
pub use numbers::{read_rows, rows_ending, write_rows};
pub use sample::{Rows, Sample};
pub use source::{ProblemSource, Source};
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
