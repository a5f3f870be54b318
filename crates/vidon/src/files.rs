//! Files appear under their final name whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// Whether both are there and the same.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Which of these endings a file that is to hold `what` has, in any letters.
pub(crate) fn ending<'a>(path: &Path, what: &str, endings: &[&'a str]) -> Result<&'a str> {
    let own = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    let found = endings.iter().find(|e| own.as_deref() == Some(**e));
    found.copied().ok_or_else(|| {
        let [others @ .., last] = endings else {
            unreachable!("there are endings")
        };
        let wanted = format!(".{} or .{last}", others.join(", ."));
        Error::data(path, format!("{what} are written as {wanted}"))
    })
}

/// A file that is written beside its final place and moved there by [`finish`](Self::finish).
/// Dropped before that, it leaves nothing behind.
pub(crate) struct AtomicFile {
    target: PathBuf,
    temporary: NamedTempFile,
}

impl AtomicFile {
    /// A link is followed; what is there but is not a plain file (a folder, a device) is refused.
    pub fn create(target: &Path) -> Result<Self> {
        let followed = target.canonicalize();
        if followed.is_err() && target.is_symlink() {
            return Err(Error::data(target, "is a link to a file that is not there"));
        }
        let target = followed.as_deref().unwrap_or(target);
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        match std::fs::metadata(target) {
            Ok(there) if there.is_dir() => {
                return Err(Error::data(target, "is a folder; give a file name"));
            }
            Ok(there) if !there.is_file() => {
                return Err(Error::data(
                    target,
                    "is not a plain file; it is left as it is",
                ));
            }
            _ => {}
        }
        let name = target
            .file_name()
            .ok_or_else(|| Error::data(target, "is not a file name"))?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.to_string_lossy());
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let temporary = builder
            .tempfile_in(folder)
            .map_err(Error::io("create a file in", folder))?;
        if let Ok(there) = std::fs::metadata(target) {
            let kept = temporary.as_file().set_permissions(there.permissions());
            kept.map_err(Error::io("write", target))?;
        }
        Ok(Self {
            target: target.to_path_buf(),
            temporary,
        })
    }

    /// The open file, for writers that want to own a handle.
    pub fn handle(&self) -> Result<File> {
        self.temporary
            .as_file()
            .try_clone()
            .map_err(Error::io("open", self.temporary.path()))
    }

    /// Flushes to disk and gives the file its name.
    pub fn finish(self) -> Result<()> {
        let Self { target, temporary } = self;
        temporary
            .as_file()
            .sync_all()
            .map_err(Error::io("write", &target))?;
        temporary
            .persist(&target)
            .map_err(|e| Error::io("write", &target)(e.error))?;
        Ok(())
    }
}

/// Writes a whole file atomically.
pub fn write_file(
    target: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let file = AtomicFile::create(target)?;
    let mut out = BufWriter::new(file.handle()?);
    fill(&mut out)
        .and_then(|()| out.flush())
        .map_err(Error::io("write", target))?;
    drop(out);
    file.finish()
}

/// Removes what an earlier process left unfinished in a folder that nobody else writes to.
pub(crate) fn remove_parts(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".part") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The first four bytes (fewer if there are no more), by which file formats can be told apart.
pub(crate) fn head(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(4)
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let failed = write_file(&path, |out| {
            out.write_all(b"half")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write_file(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, |out| out.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        write_file(&link, |out| out.write_all(b"private")).unwrap();
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        std::fs::remove_file(&file).unwrap();
        assert!(write_file(&link, |_| Ok(())).is_err());
        let error = write_file(Path::new("/dev/null"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("not a plain file"), "{error}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let error = write_file(Path::new("/no/such/folder/a.txt"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
