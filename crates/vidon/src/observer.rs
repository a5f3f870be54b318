//! Who looks on while something takes its time.

use crate::train::Record;

/// Told of progress, and asked whether to go on. Whatever is left out is not looked at; `()` looks at nothing.
pub trait Observer: Sync {
    /// So many more samples are made or read.
    fn advance(&self, _samples: usize) {}

    /// Something worth knowing, in words.
    fn note(&self, _words: &str) {}

    /// After every step of a training and every validation; with the share of the training that is over, 0 to
    /// 1, and the seconds still to go, at the speed so far.
    fn status(&self, _record: &Record, _share: f64, _eta: f64) {}

    /// Whether the user wants to stop.
    fn stopped(&self) -> bool {
        false
    }
}

impl Observer for () {}
