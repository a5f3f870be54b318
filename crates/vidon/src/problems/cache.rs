//! Drawn function pairs, kept on disk so that every layout of a problem reuses them.
//!
//! `<cache>/<problem>-<split>-seed<seed>-<hash>/` holds `key.json` (everything that determines the functions;
//! the hash is made from it) and the pairs in files of a fixed number of samples. A file is, in little-endian
//! order: the magic `VIDONF01`, the number of pairs, the numbers per pair and the rejected draws (u64 each),
//! the numbers (f32), and the CRC-32 of all that. Files are written atomically. One process at a time draws
//! for a folder; another that wants the same waits, then reads.

use std::io::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::json;

use crate::error::{Error, Result};
use crate::files::{Lock, plain_file, plain_folder, write_file};
use crate::problems::{Problem, Split};
use crate::rng::{fnv1a, stream};

/// Raised whenever a change to the code changes the functions drawn from a seed.
const GENERATION: u32 = 1;
const MAGIC: &[u8; 8] = b"VIDONF01";
const HEADER: usize = 32;
/// About how many numbers one file holds.
const FILE_NUMBERS: usize = 1 << 20;

/// Draws in a row that were not physical, after which something must be wrong.
const MOST_DRAWS: usize = 100;

/// Asked between draws whether to stop.
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

/// The function pairs of one split of a problem: sample k is a function of (seed, split, k).
pub struct FunctionSource<'a> {
    problem: &'a dyn Problem,
    split: Split,
    seed: u64,
    folder: Option<PathBuf>,
}

/// Consecutive stored pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    values: Vec<f32>,
    pair_len: usize,
    /// Draws that were rejected on the way.
    pub redrawn: usize,
    /// How many of the pairs were read from the cache.
    pub from_cache: usize,
}

impl Pairs {
    /// The stored numbers of each pair.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.pair_len)
    }

    fn count(&self) -> usize {
        self.values.len() / self.pair_len
    }
}

impl<'a> FunctionSource<'a> {
    /// `cache`: the folder to keep pairs in, or none to draw them every time.
    pub fn new(
        problem: &'a dyn Problem,
        split: Split,
        seed: u64,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let folder = match cache {
            Some(cache) => Some(prepare(problem, split, seed, cache)?),
            None => None,
        };
        Ok(Self {
            problem,
            split,
            seed,
            folder,
        })
    }

    /// Samples per file, and the number that [`chunk`](Self::chunk) counts in.
    pub fn chunk_len(&self) -> usize {
        (FILE_NUMBERS / self.problem.stored_len()).clamp(32, 4096)
    }

    /// The first `count` pairs of chunk `index`, from the cache as far as it has them.
    pub fn chunk(&self, index: usize, count: usize, stopped: &Stopped) -> Result<Pairs> {
        let first = index * self.chunk_len();
        let Some(folder) = &self.folder else {
            let mut pairs = self.none();
            self.draw_up_to(first, count, &mut pairs, stopped)?;
            return Ok(pairs);
        };
        let file = plain_file(folder, format!("{index:05}.fields"))?;
        if let Some(pairs) = self.read(&file, Some(count)) {
            return Ok(pairs);
        }
        // The folder may have been deleted since.
        std::fs::create_dir_all(folder).map_err(Error::io("create the cache folder", folder))?;
        // Held until the file is written; without it, work is only done twice.
        let _lock = Lock::wait(folder, "lock")?;
        if let Some(pairs) = self.read(&file, Some(count)) {
            return Ok(pairs);
        }
        let mut pairs = self.read(&file, None).unwrap_or_else(|| self.none());
        pairs.from_cache = pairs.count();
        self.draw_up_to(first, count, &mut pairs, stopped)?;
        write_file(&file, |out| write_pairs(out, &pairs))?;
        Ok(pairs)
    }

    fn none(&self) -> Pairs {
        Pairs {
            pair_len: self.problem.stored_len(),
            ..Pairs::default()
        }
    }

    fn draw_up_to(
        &self,
        first: usize,
        count: usize,
        pairs: &mut Pairs,
        stopped: &Stopped,
    ) -> Result<()> {
        let purpose = format!("functions/{}/{}", self.problem.name(), self.split.name());
        let drawn: Result<Vec<_>> = (pairs.count()..count)
            .into_par_iter()
            .with_max_len(1)
            .map(|i| {
                if stopped() {
                    return Err(Error::Interrupted);
                }
                let rng = &mut stream(self.seed, &purpose, (first + i) as u64);
                for redrawn in 0..MOST_DRAWS {
                    if let Some(values) = self.problem.draw(rng)? {
                        return Ok((values, redrawn));
                    }
                }
                let name = self.problem.name();
                let what = format!("{MOST_DRAWS} draws of {name} in a row were not physical");
                Err(Error::Numerics(what))
            })
            .collect();
        for (values, redrawn) in drawn? {
            if values.len() != pairs.pair_len {
                let (name, found) = (self.problem.name(), values.len());
                let what = format!("{name} drew {found} numbers, not {}", pairs.pair_len);
                return Err(Error::Unsuitable(what));
            }
            pairs.values.extend(values);
            pairs.redrawn += redrawn;
        }
        Ok(())
    }

    /// The first `count` pairs of a file (or all), if it is whole and has as many.
    fn read(&self, file: &Path, count: Option<usize>) -> Option<Pairs> {
        let bytes = std::fs::read(file).ok()?;
        let (content, crc) = bytes.split_last_chunk::<4>()?;
        if !content.starts_with(MAGIC) || crc32(content) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (header, body) = content.split_at_checked(HEADER)?;
        let number =
            |i: usize| u64::from_le_bytes(header[8 * i..8 * i + 8].try_into().unwrap()) as usize;
        let pair_len = self.problem.stored_len();
        // What the file says must be what is there, not the other way round.
        let (stored, redrawn) = (body.len() / (4 * pair_len), number(3));
        let wanted = count.unwrap_or(stored);
        let fits = body.len().is_multiple_of(4 * pair_len)
            && (number(1), number(2)) == (stored, pair_len)
            && redrawn <= stored * MOST_DRAWS
            && stored >= wanted;
        fits.then(|| Pairs {
            values: body[..4 * wanted * pair_len]
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            pair_len,
            redrawn,
            from_cache: wanted,
        })
    }
}

fn write_pairs(out: &mut dyn Write, pairs: &Pairs) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER + 4 * pairs.values.len() + 4);
    bytes.extend(MAGIC);
    for number in [pairs.count(), pairs.pair_len, pairs.redrawn] {
        bytes.extend((number as u64).to_le_bytes());
    }
    bytes.extend(pairs.values.iter().flat_map(|v| v.to_le_bytes()));
    let crc = crc32(&bytes);
    bytes.extend(crc.to_le_bytes());
    out.write_all(&bytes)
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The folder for these functions, made if need be, with its key checked.
fn prepare(problem: &dyn Problem, split: Split, seed: u64, cache: &Path) -> Result<PathBuf> {
    let key = json!({
        "problem": problem.name(),
        "parameters": problem.parameters(),
        "split": split.name(),
        "seed": seed,
        "generation": GENERATION,
    });
    let text = format!("{key:#}\n");
    let hash = fnv1a(&text, 0);
    let name = format!("{}-{}-seed{seed}-{hash:016x}", problem.name(), split.name());
    let folder = plain_folder(cache, name)?;
    std::fs::create_dir_all(&folder).map_err(Error::io("create the cache folder", &folder))?;
    let key_file = plain_file(&folder, "key.json")?;
    match std::fs::read_to_string(&key_file) {
        Ok(found) if found == text => {}
        Ok(found) if serde_json::from_str::<serde_json::Value>(&found).is_ok() => {
            return Err(Error::data(
                &key_file,
                "does not describe the functions of this folder; remove the folder or choose another cache",
            ));
        }
        _ => write_file(&key_file, |out| out.write_all(text.as_bytes()))?,
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{AllenCahn, NavierStokes};

    fn files(folder: &Path) -> Vec<PathBuf> {
        let inner = std::fs::read_dir(folder)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let mut names: Vec<PathBuf> = std::fs::read_dir(inner)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        names.retain(|path| path.extension().is_some_and(|e| e == "fields"));
        names
    }

    #[test]
    fn cached_extended_and_fresh_pairs_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let problem = NavierStokes::new();
        let source = |cache| FunctionSource::new(&problem, Split::Train, 7, cache).unwrap();
        let fresh = source(None).chunk(0, 5, &|| false).unwrap();
        let cached = source(Some(folder.path()));
        assert_eq!(
            cached.chunk(0, 3, &|| false).unwrap().values,
            fresh.values[..3 * 8192]
        );
        let extended = cached.chunk(0, 5, &|| false).unwrap();
        assert_eq!((extended.from_cache, &extended.values), (3, &fresh.values));
        assert_eq!(cached.chunk(0, 5, &|| false).unwrap().from_cache, 5);
        assert_eq!(
            cached.chunk(0, 2, &|| false).unwrap().values,
            fresh.values[..2 * 8192]
        );
        let other = FunctionSource::new(&problem, Split::Test, 7, None).unwrap();
        assert_ne!(
            other.chunk(0, 1, &|| false).unwrap().values,
            fresh.values[..8192]
        );
    }

    #[test]
    fn a_damaged_cache_file_is_drawn_again() {
        let folder = tempfile::tempdir().unwrap();
        let source = FunctionSource::new(&AllenCahn, Split::Val, 0, Some(folder.path())).unwrap();
        let good = source.chunk(0, 32, &|| false).unwrap();
        let file = files(folder.path()).remove(0);
        let bytes = std::fs::read(&file).unwrap();
        for damage in [0, 10, 100, bytes.len() - 1] {
            let mut broken = bytes.clone();
            broken[damage] ^= 1;
            std::fs::write(&file, broken).unwrap();
            let again = source.chunk(0, 32, &|| false).unwrap();
            assert_eq!((again.from_cache, &again.values), (0, &good.values));
        }
        std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(source.chunk(0, 32, &|| false).unwrap().values, good.values);
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }

    #[test]
    fn a_deleted_folder_and_a_broken_key_are_mended() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FunctionSource::new(&AllenCahn, Split::Val, 0, Some(folder.path()));
        let source = open().unwrap();
        let inner = source.folder.clone().unwrap();
        std::fs::remove_dir_all(&inner).unwrap();
        source.chunk(0, 4, &|| false).unwrap();
        std::fs::write(inner.join("key.json"), "{\"half").unwrap();
        assert_eq!(
            open().unwrap().chunk(0, 4, &|| false).unwrap().from_cache,
            4
        );
        std::fs::write(inner.join("key.json"), "{}").unwrap();
        assert!(open().is_err());
    }

    #[test]
    fn stopping_is_heeded_between_draws() {
        let source = FunctionSource::new(&AllenCahn, Split::Val, 0, None).unwrap();
        assert!(matches!(
            source.chunk(0, 4, &|| true),
            Err(Error::Interrupted)
        ));
    }

    #[test]
    fn many_at_once_agree_and_leave_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let values: Vec<Vec<f32>> = std::thread::scope(|scope| {
            let run = || {
                let source =
                    FunctionSource::new(&AllenCahn, Split::Val, 0, Some(folder.path())).unwrap();
                source.chunk(0, 32, &|| false).unwrap().values
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(values.iter().all(|v| v == &values[0]));
        assert_eq!(files(folder.path()).len(), 1);
    }

    /// Numbers whose product is too large for the machine; the file is drawn again.
    #[test]
    fn a_crafted_file_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let source = FunctionSource::new(&AllenCahn, Split::Val, 0, Some(folder.path())).unwrap();
        let good = source.chunk(0, 1, &|| false).unwrap();
        let file = files(folder.path()).remove(0);
        let len = AllenCahn.stored_len() as u64;
        // 4 · 2^62 · length wraps to nothing, the length of the body.
        for numbers in [[1 << 62, len, 0], [u64::MAX, len, 0], [0, len, u64::MAX]] {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            let crc = crc32(&bytes);
            bytes.extend(crc.to_le_bytes());
            std::fs::write(&file, bytes).unwrap();
            let again = source.chunk(0, 1, &|| false).unwrap();
            assert_eq!(
                (again.from_cache, &again.values, again.redrawn),
                (0, &good.values, good.redrawn)
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn no_link_in_the_cache_is_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (cache, victim) = (folder.path().join("cache"), folder.path().join("victim"));
        std::fs::write(&victim, "dear").unwrap();
        let draw =
            || FunctionSource::new(&AllenCahn, Split::Val, 0, Some(&cache))?.chunk(0, 1, &|| false);
        draw().unwrap();
        let inner = files(&cache).remove(0).parent().unwrap().to_path_buf();
        for name in ["lock", "key.json", "00000.fields"] {
            // Where the file is whole, nobody asks for the lock.
            std::fs::remove_file(inner.join("00000.fields")).unwrap();
            let _ = std::fs::remove_file(inner.join(name));
            symlink(&victim, inner.join(name)).unwrap();
            let error = draw().unwrap_err().to_string();
            assert!(error.contains(&format!("{name}: is a link")), "{error}");
            std::fs::remove_file(inner.join(name)).unwrap();
            draw().unwrap();
        }
        std::fs::rename(&inner, folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), &inner).unwrap();
        assert!(draw().unwrap_err().to_string().contains("is a link"));
        assert_eq!(std::fs::read(&victim).unwrap(), b"dear");
    }
}
