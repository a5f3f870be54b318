//! What a command fails with: an error of the library, or words about the command line.

use std::fmt;

#[derive(Debug)]
pub enum Failure {
    Library(vidon::Error),
    /// Options, or what they name; worded for the person who typed them.
    Words(String),
    /// The user stopped it, and was told how to go on.
    Stopped,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl From<vidon::Error> for Failure {
    fn from(error: vidon::Error) -> Self {
        Self::Library(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Library(error) => error.fmt(f),
            Failure::Words(words) => f.write_str(words),
            Failure::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Library(error) => error.source(),
            Failure::Words(_) | Failure::Stopped => None,
        }
    }
}
