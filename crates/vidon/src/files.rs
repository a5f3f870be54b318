//! Files appear under their final name whole or not at all, and folders that may have come from anybody lead
//! nowhere else.
//!
//! A path that the user gave is taken as it is, links included. What the program itself puts into a folder or
//! looks for there (a run, a report, the cache) goes through [`plain_file`] and [`plain_folder`]: a link
//! under such a name is refused, and so is whatever else is not a plain file.

use std::ffi::OsStr;
use std::fs::{File, FileType, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use crate::checksum::{from_json, to_json};
use crate::error::{Error, Result};
use crate::input;

/// The path of a file in `folder`, whether or not it is there. No link is followed, and what is there must be
/// a plain file: neither another's data nor a pipe that waits for ever.
pub fn plain_file(folder: &Path, name: impl AsRef<Path>) -> Result<PathBuf> {
    let name = name.as_ref();
    let above = plain_folder(folder, name.parent().unwrap_or(Path::new("")))?;
    let path = above.join(name.file_name().expect("a file has a name"));
    match unlinked(&path)? {
        Some(kind) if kind.is_dir() => {
            Err(Error::data(&path, "is a folder; a file should be here"))
        }
        Some(kind) if !kind.is_file() => Err(not_plain(&path)),
        _ => Ok(path),
    }
}

/// The path of a folder in `folder`, by which no link is followed either.
pub fn plain_folder(folder: &Path, name: impl AsRef<Path>) -> Result<PathBuf> {
    let mut path = folder.to_path_buf();
    for part in name.as_ref() {
        path.push(part);
        if unlinked(&path)?.is_some_and(|kind| !kind.is_dir()) {
            return Err(Error::data(&path, "is not a folder"));
        }
    }
    Ok(path)
}

/// What is there, if anything is.
fn unlinked(path: &Path) -> Result<Option<FileType>> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(Error::data(
            path,
            "is a link, and links in such a folder are not followed; put the file itself here, or remove the link",
        )),
        Ok(there) => Ok(Some(there.file_type())),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::io("look at", path)(e)),
    }
}

fn not_plain(path: &Path) -> Error {
    Error::data(path, "is not a plain file; it is left as it is")
}

/// A file that one process at a time holds, until it drops it.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Of a file in `folder`, made if need be; none where another process holds it.
    pub fn take(folder: &Path, name: &str) -> Result<Option<Self>> {
        loop {
            let (path, file) = Self::open(folder, name)?;
            match file.try_lock() {
                // Whoever held it before may have removed it with its folder.
                Ok(()) if is_at(&file, &path) => return Ok(Some(Self { _file: file })),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path)(e)),
            }
        }
    }

    /// Waits for it. A file system without locks gives it to everybody.
    pub fn wait(folder: &Path, name: &str) -> Result<Self> {
        let (_, file) = Self::open(folder, name)?;
        let _ = file.lock();
        Ok(Self { _file: file })
    }

    fn open(folder: &Path, name: &str) -> Result<(PathBuf, File)> {
        let path = plain_file(folder, name)?;
        let mut options = File::options();
        // What is there is nobody's to empty.
        let file = options.write(true).create(true).truncate(false).open(&path);
        Ok((path.clone(), file.map_err(Error::io("write", &path))?))
    }
}

/// Whether the file still has this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let both = (file.metadata(), std::fs::symlink_metadata(path));
    matches!(both, (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

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

/// A file that is written beside its final place, as `.name.XXXXXX.part`, and moved there by
/// [`finish`](Self::finish). Dropped before that, it leaves nothing behind; what is left by a process that
/// was killed is removed when the same file is written again.
pub(crate) struct AtomicFile {
    target: PathBuf,
    temporary: NamedTempFile,
}

/// What the name of an unfinished file ends with, and how many random characters stand before that.
const PART: &str = ".part";
const RANDOM: usize = 6;

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
        let there = std::fs::metadata(target).ok();
        match &there {
            Some(there) if there.is_dir() => {
                return Err(Error::data(target, "is a folder; give a file name"));
            }
            Some(there) if !there.is_file() => return Err(not_plain(target)),
            _ => {}
        }
        let name = target
            .file_name()
            .ok_or_else(|| Error::data(target, "is not a file name"))?;
        remove_left(folder, name);
        let temporary = locked_part(folder, name)?;
        if let Some(there) = there {
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

    /// Flushes to disk and gives the file its name; it stays open at its end.
    pub fn finish(self) -> Result<File> {
        let Self { target, temporary } = self;
        temporary
            .as_file()
            .sync_all()
            .map_err(Error::io("write", &target))?;
        temporary
            .persist(&target)
            .map_err(|e| Error::io("write", &target)(e.error))
    }
}

/// Writes a whole file atomically.
pub fn write_file(
    target: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    write_and_keep(target, fill).map(drop)
}

/// The same; the file stays open, and more can be written behind its end.
pub(crate) fn write_and_keep(
    target: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<File> {
    let file = AtomicFile::create(target)?;
    let mut out = BufWriter::new(file.handle()?);
    fill(&mut out)
        .and_then(|()| out.flush())
        .map_err(Error::io("write", target))?;
    drop(out);
    file.finish()
}

fn part_prefix(name: &OsStr) -> std::ffi::OsString {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// A new unfinished file, locked as long as it is written.
fn locked_part(folder: &Path, name: &OsStr) -> Result<NamedTempFile> {
    let prefix = part_prefix(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(PART).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    loop {
        let part = builder
            .tempfile_in(folder)
            .map_err(Error::io("create a file in", folder))?;
        let taken = matches!(part.as_file().try_lock(), Err(TryLockError::WouldBlock));
        // Before it was locked, another process may have taken it for one that was left.
        if !taken && is_at(part.as_file(), part.path()) {
            return Ok(part);
        }
    }
}

/// Removes unfinished files of this name whose writers are gone: they hold no lock any more.
pub(crate) fn remove_left(folder: &Path, name: &OsStr) {
    let prefix = part_prefix(name);
    let is_part = |name: &OsStr| {
        let rest = name.as_encoded_bytes();
        let rest = rest.strip_prefix(prefix.as_encoded_bytes());
        let random = rest.and_then(|rest| rest.strip_suffix(PART.as_bytes()));
        random.is_some_and(|r| r.len() == RANDOM && r.iter().all(u8::is_ascii_alphanumeric))
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file());
        if plain
            && is_part(&entry.file_name())
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Writes a structure as JSON that says whether it is whole.
pub fn write_json(target: &Path, content: &impl Serialize) -> Result<()> {
    write_file(target, |out| out.write_all(to_json(content).as_bytes()))
}

/// Reads what [`write_json`] wrote.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = input::read(path)?;
    from_json(&bytes).map_err(|what| Error::data(path, what))
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

    /// A folder with something of every kind under names of its own, and a file of the user's outside.
    #[cfg(unix)]
    fn strange_folder() -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::symlink;
        let all = tempfile::tempdir().unwrap();
        let (folder, victim) = (all.path().join("folder"), all.path().join("victim"));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::write(&victim, "dear").unwrap();
        symlink(&victim, folder.join("link")).unwrap();
        symlink(all.path().join("new"), folder.join("dangling")).unwrap();
        symlink("/dev/zero", folder.join("device")).unwrap();
        symlink(all.path(), folder.join("out")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        (all, folder)
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_leads_nowhere_else() {
        let (all, folder) = strange_folder();
        for (name, words) in [
            ("link", "link: is a link"),
            ("dangling", "dangling: is a link"),
            ("device", "device: is a link"),
            ("out/victim", "out: is a link"),
            ("pipe", "is not a plain file"),
            ("inner", "is a folder"),
        ] {
            let refused = |error: Error| assert!(error.to_string().contains(words), "{error}");
            refused(plain_file(&folder, name).unwrap_err());
            refused(Lock::take(&folder, name).err().unwrap());
            refused(Lock::wait(&folder, name).err().unwrap());
        }
        assert!(plain_folder(&folder, "out").is_err() && plain_folder(&folder, "pipe").is_err());
        assert_eq!(plain_file(&folder, "a").unwrap(), folder.join("a"));
        assert_eq!(plain_folder(&folder, "b/c").unwrap(), folder.join("b/c"));
        assert_eq!(std::fs::read(all.path().join("victim")).unwrap(), b"dear");
        assert!(!all.path().join("new").exists());
    }

    #[test]
    fn a_lock_is_held_by_one_and_empties_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, "content").unwrap();
        let take = || Lock::take(folder.path(), "lock").unwrap();
        let held = take().expect("nobody holds it");
        assert!(take().is_none());
        // Who removes the file first lets another have a lock of its own, and no third the old one.
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        let other = take().expect("a new file");
        assert!(take().is_none());
        drop((held, other));
        assert!(take().is_some());
        assert_eq!(
            std::fs::read(folder.path().join("old")).unwrap(),
            b"content"
        );
    }

    /// What a killed writer left goes; what is being written stays, and so does what is not ours.
    #[test]
    fn unfinished_files_are_removed_once_their_writer_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let foreign = [
            ".a.txt.part",
            ".a.txt.long-name.part",
            ".b.txt.AbC123.part",
            "a.txt.AbC123.part",
        ];
        for name in foreign {
            std::fs::write(at(name), "foreign").unwrap();
        }
        std::fs::create_dir(at(".a.txt.folder.part")).unwrap();
        std::fs::write(at(".a.txt.AbC123.part"), "left").unwrap();
        let mut slow = AtomicFile::create(&at("a.txt")).unwrap();
        assert!(!at(".a.txt.AbC123.part").exists());
        write_file(&at("a.txt"), |out| out.write_all(b"quick")).unwrap();
        slow.temporary.write_all(b"slow").unwrap();
        slow.finish().unwrap();
        assert_eq!(std::fs::read(at("a.txt")).unwrap(), b"slow");
        assert!(foreign.iter().all(|name| at(name).exists()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 6);
    }
}
