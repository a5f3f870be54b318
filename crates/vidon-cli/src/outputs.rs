//! What a command writes: every file once, and nothing that it reads.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Refuses two outputs in one file, and an output in an input.
pub fn check<'a>(
    inputs: impl IntoIterator<Item = &'a PathBuf>,
    outputs: impl IntoIterator<Item = (&'static str, &'a PathBuf)>,
) -> Result<()> {
    let read: Vec<PathBuf> = inputs.into_iter().map(|path| place(path)).collect();
    let mut written: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in outputs {
        let own = place(path);
        if read.contains(&own) {
            return Err(Failure::Words(format!(
                "{} is to be read and written at once; choose another {option}",
                path.display()
            )));
        }
        if let Some((other, _)) = written.iter().find(|(_, place)| *place == own) {
            return Err(Failure::Words(format!(
                "{} is to be written by {other} and by {option}; choose another {option}",
                path.display()
            )));
        }
        written.push((option, own));
    }
    Ok(())
}

/// An option with its path, where it has one.
pub fn given<'a>(
    (option, path): (&'static str, &'a Option<PathBuf>),
) -> Option<(&'static str, &'a PathBuf)> {
    Some((option, path.as_ref()?))
}

/// Where a file is, or would be: links are followed as far as there are files.
fn place(path: &Path) -> PathBuf {
    if let Ok(there) = path.canonicalize() {
        return there;
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_or_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("in.csv"), "x").unwrap();
        std::fs::create_dir(path("sub")).unwrap();
        let (input, a, b) = (path("in.csv"), path("a.png"), path("b.png"));
        let detour = path("sub/../a.png");
        check([&input], [("--plot", &a), ("--plot-heads", &b)]).unwrap();
        let words = check([], [("--plot", &a), ("--plot-heads", &detour)]).unwrap_err();
        assert!(
            words.to_string().contains("by --plot and by --plot-heads"),
            "{words}"
        );
        let detour = path("sub/../in.csv");
        let words = check([&input], [("--out", &detour)]).unwrap_err();
        assert!(
            words
                .to_string()
                .contains("read and written at once; choose another --out")
        );
    }
}
