//! The one error type of the library. Every variant says what is wrong and where.

use std::path::{Path, PathBuf};

/// What can go wrong, worded for the person who has to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read, write or rename a file.
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A file holds something it must not hold.
    #[error("{}{}{}: {what}", file.display(), part("", at), part("column ", column))]
    Data {
        file: PathBuf,
        /// Such as `row 3` (counted from 0, as in pandas) or `line 17` of a text file.
        at: Option<String>,
        column: Option<String>,
        what: String,
    },
    /// Settings that contradict each other or the problem.
    #[error("{0}")]
    Setting(String),
    /// A numerical method did not reach its tolerance.
    #[error("{0}")]
    Numerics(String),
    /// The user asked to stop.
    #[error("interrupted; nothing was written under its final name")]
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

fn part(kind: &str, name: &Option<String>) -> String {
    match name {
        Some(name) => format!(", {kind}{name}"),
        None => String::new(),
    }
}

impl Error {
    /// Closure for `map_err`: the failed action on `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn data(file: &Path, what: impl Into<String>) -> Error {
        Error::Data {
            file: file.to_path_buf(),
            at: None,
            column: None,
            what: what.into(),
        }
    }

    /// Adds the place in the file to a data error.
    pub(crate) fn at(mut self, place: impl std::fmt::Display) -> Error {
        if let Error::Data { at, .. } = &mut self {
            *at = Some(place.to_string());
        }
        self
    }

    /// Adds the column to a data error.
    pub(crate) fn in_column(mut self, name: &str) -> Error {
        if let Error::Data { column, .. } = &mut self {
            *column = Some(name.to_string());
        }
        self
    }
}
