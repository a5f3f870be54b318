//! Files that are read. Only plain ones are: a pipe or a device has no size, and its end may never come.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::memory::Need;

/// Opens a plain file.
pub(crate) fn open(path: &Path) -> Result<File> {
    // Before it is opened: a pipe would wait for somebody to write.
    let there = std::fs::metadata(path).map_err(Error::io("read", path))?;
    if there.is_dir() {
        return Err(Error::data(path, "is a folder, where a file is wanted"));
    }
    if !there.is_file() {
        let what = "is a pipe or a device; only plain files are read: write it to one first";
        return Err(Error::data(path, what));
    }
    File::open(path).map_err(Error::io("read", path))
}

/// All bytes of a plain file that fits into memory.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    Need::of(length as usize, 1)
        .check()
        .map_err(|what| Error::data(path, format!("to be read {what}")))?;
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// The text of a plain file.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|e| {
        let bytes = e.as_bytes();
        let before = &bytes[..e.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Error::data(path, "is not UTF-8 text").at(format!("line {line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_plain_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for (path, words) in [
            (pipe.as_path(), "is a pipe or a device"),
            (Path::new("/dev/zero"), "is a pipe or a device"),
            (folder.path(), "is a folder"),
            (&folder.path().join("none"), "cannot read"),
        ] {
            let error = read(path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn text_is_utf8() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        std::fs::write(&path, "a = 1\nb = \u{e9}\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a = 1\nb = \u{e9}\n");
        std::fs::write(&path, b"a = 1\nb = \xff\n").unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert!(error.contains("line 2: is not UTF-8 text"), "{error}");
    }
}
