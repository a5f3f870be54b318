//! How a training ended.

use crate::train::Best;

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Steps, epochs, budget or patience are used up.
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
    /// Whether it was the recipe's patience that ended it.
    pub out_of_patience: bool,
    pub step: u64,
    pub seconds: f64,
    pub best: Option<Best>,
    /// The step of the checkpoint.
    pub checkpoint: u64,
}
