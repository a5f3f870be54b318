//! Parquet's decoder panics on some damaged files. Here such a panic becomes an error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode` on the content of `path`; a panic inside is reported as damage, and not printed.
pub(crate) fn guarded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(false);
    outcome.unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied())
            .unwrap_or("it cannot be decoded");
        Err(Error::data(path, format!("is damaged: {words}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_names_the_file() {
        let error = guarded::<()>(Path::new("a.parquet"), || panic!("length {}", -1)).unwrap_err();
        assert_eq!(error.to_string(), "a.parquet: is damaged: length -1");
        assert_eq!(guarded(Path::new("a.parquet"), || Ok(3)).unwrap(), 3);
    }
}
