//! What is told of a training: while it goes on, and how it ended.

use crate::train::{Best, Record};

/// How a training stands after a step.
#[derive(Clone, Debug)]
pub struct Status {
    pub record: Record,
    /// How much is over, 0 to 1.
    pub share: f64,
    /// Seconds still to go, at the speed so far.
    pub eta: f64,
}

/// Told how a training goes, and asked whether to go on.
pub trait Observer {
    /// After every step and validation.
    fn status(&self, _status: &Status) {}

    /// Whether the user wants to stop.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody looks.
impl Observer for () {}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Steps, epochs or budget are used up.
    Finished,
    /// The user asked for it.
    Interrupted,
    /// A number was no longer finite; the last good checkpoint is kept.
    Diverged,
}

/// How a training ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub stop: Stop,
    pub step: u64,
    pub seconds: f64,
    pub best: Option<Best>,
    /// The step of the checkpoint.
    pub checkpoint: u64,
}
