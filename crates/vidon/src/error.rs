//! The one error type of the library. Every variant says what is wrong and where.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Characters that each part of a message shows: a cell of a file may be of any length.
const SHOWN: usize = 1200;

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
    #[error("{}{}{}: {}", file.display(), part("", at), part("column ", column), brief(what))]
    Data {
        file: PathBuf,
        /// Such as `row 3` (counted from 0, as in pandas) or `line 17` of a text file.
        at: Option<String>,
        column: Option<String>,
        what: String,
    },
    /// A sample that cannot be taken; counted from 0 among those that were given, or among those of `role`.
    #[error("{}sample {index}: {}", before(role), brief(what))]
    Sample {
        /// Such as `training` or `validation`.
        role: Option<&'static str>,
        index: usize,
        what: String,
    },
    /// A setting that is wrong in itself, or beside others.
    #[error("{}{}: {}", brief(setting), value.as_deref().map(|v| format!(" = {}", brief(v))).unwrap_or_default(), brief(what))]
    Setting {
        /// As in a recipe, such as `train.rate`, or the name of an argument.
        setting: String,
        value: Option<String>,
        what: String,
    },
    /// Data and networks that do not suit each other, or what is asked of them.
    #[error("{}", brief(.0))]
    Unsuitable(String),
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
        Some(name) => format!(", {kind}{}", brief(name)),
        None => String::new(),
    }
}

/// The beginning and the end of what is too long to be read.
fn brief(words: &str) -> Cow<'_, str> {
    let shown = |from: usize| {
        words
            .char_indices()
            .nth(from)
            .map_or(words.len(), |(at, _)| at)
    };
    if words.len() <= SHOWN || shown(SHOWN) == words.len() {
        return Cow::Borrowed(words);
    }
    let length = words.chars().count();
    let (first, last) = (shown(SHOWN / 2), shown(length - SHOWN / 4));
    let left_out = length - SHOWN / 2 - SHOWN / 4;
    Cow::Owned(format!(
        "{} … ({left_out} characters) … {}",
        &words[..first],
        &words[last..]
    ))
}

fn before(role: &Option<&'static str>) -> String {
    role.map(|r| format!("{r} ")).unwrap_or_default()
}

impl Error {
    /// Of a setting, in the words that follow its name.
    pub(crate) fn setting(name: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Setting {
            setting: name.into(),
            value: None,
            what: what.into(),
        }
    }

    /// Adds the value to the error of a setting.
    pub(crate) fn with_value(mut self, given: impl std::fmt::Display) -> Error {
        if let Error::Setting { value, .. } = &mut self {
            *value = Some(given.to_string());
        }
        self
    }

    /// Of one of the samples that were given.
    pub(crate) fn sample(index: usize, what: impl Into<String>) -> Error {
        Error::Sample {
            role: None,
            index,
            what: what.into(),
        }
    }

    /// Says whose a sample is.
    pub(crate) fn of(mut self, whose: &'static str) -> Error {
        if let Error::Sample { role, .. } = &mut self {
            *role = Some(whose);
        }
        self
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_an_end() {
        let cell = "é".repeat(5_000_000);
        let error = Error::data(Path::new("a.csv"), format!("\"{cell}\" is not a number"));
        let words = error.in_column(&cell).to_string();
        assert!(
            words.len() < 6000 && words.contains("characters) …"),
            "{}",
            words.len()
        );
        assert!(words.starts_with("a.csv, column é") && words.ends_with("is not a number"));
        let short = "a".repeat(SHOWN);
        assert_eq!(Error::Unsuitable(short.clone()).to_string(), short);
    }
}
