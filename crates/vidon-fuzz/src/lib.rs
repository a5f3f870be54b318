//! Hostile files for every reader: small real files, mutated a great many times. Whatever the bytes, a reader
//! gives an answer or an error: it neither panics nor aborts, nor takes memory or time out of proportion.
//!
//! Two programs drive the same [`Reader`]s: `vidon-fuzz`, with a seeded loop of its own on any toolchain, and
//! the libFuzzer targets in the folder `fuzz`, which are guided by what code an input reaches.
//!
//! Checksums guard most files, so that a flipped bit says nothing of the code behind them. A [`Format`]
//! therefore takes a file apart, and puts mutated parts together again with all lengths and checksums right.

mod format;
mod mutate;
mod readers;
mod seeds;

pub use format::Format;
pub use mutate::Mutator;

use std::path::Path;

/// A reader of files, with all that is needed to try it.
pub struct Reader {
    pub name: &'static str,
    pub format: Format,
    /// Small real files, made by the library itself. The same bytes every time.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Puts what stands beside the file into an empty folder.
    prepare: fn(&Path),
    /// Reads the bytes as a file in that folder.
    read: fn(&Path, &[u8]) -> vidon::Result<()>,
}

/// A folder in which a [`Reader`] can be tried any number of times.
pub struct Bench<'a> {
    reader: &'a Reader,
    folder: tempfile::TempDir,
}

impl Reader {
    /// The reader of that name.
    pub fn named(name: &str) -> Option<&'static Reader> {
        READERS.iter().find(|reader| reader.name == name)
    }

    /// In the folder for temporary files, which is best kept in memory.
    pub fn bench(&self) -> Bench<'_> {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        (self.prepare)(folder.path());
        Bench {
            reader: self,
            folder,
        }
    }
}

impl Bench<'_> {
    /// What the reader says of a file that holds these bytes.
    pub fn read(&self, bytes: &[u8]) -> vidon::Result<()> {
        (self.reader.read)(self.folder.path(), bytes)
    }
}

/// Lets readers do all their work on the calling thread, from which no small file is worth handing it on. To be
/// called first.
pub fn work_alone() {
    let pool = rayon::ThreadPoolBuilder::new();
    let pool = pool.num_threads(1).use_current_thread().build_global();
    pool.expect("nothing has worked before");
}

/// All of them.
pub static READERS: [Reader; 9] = [
    Reader {
        name: "dataset",
        format: Format::Parquet,
        seeds: seeds::datasets,
        prepare: readers::nothing,
        read: readers::dataset,
    },
    Reader {
        name: "description",
        format: Format::Json,
        seeds: seeds::descriptions,
        prepare: readers::nothing,
        read: readers::description,
    },
    Reader {
        name: "table",
        format: Format::Plain,
        seeds: seeds::tables,
        prepare: readers::nothing,
        read: readers::table,
    },
    Reader {
        name: "npz",
        format: Format::Npz,
        seeds: seeds::archives,
        prepare: readers::nothing,
        read: readers::npz,
    },
    Reader {
        name: "weights",
        format: Format::Tensors,
        seeds: seeds::weights,
        prepare: readers::nothing,
        read: readers::weights,
    },
    Reader {
        name: "checkpoint",
        format: Format::Tensors,
        seeds: seeds::checkpoints,
        prepare: seeds::run_folder,
        read: readers::checkpoint,
    },
    Reader {
        name: "history",
        format: Format::Lines,
        seeds: seeds::histories,
        prepare: seeds::run_folder,
        read: readers::history,
    },
    Reader {
        name: "recipe",
        format: Format::Plain,
        seeds: seeds::recipes,
        prepare: readers::nothing,
        read: readers::recipe,
    },
    Reader {
        name: "cache",
        format: Format::Sealed,
        seeds: seeds::caches,
        prepare: readers::nothing,
        read: readers::cache,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every seed is a file that its reader takes, also when it was taken apart and put together again.
    #[test]
    fn seeds_are_real_files() {
        for reader in &READERS {
            let bench = reader.bench();
            let seeds = (reader.seeds)();
            assert!(!seeds.is_empty(), "{}", reader.name);
            assert_eq!(seeds, (reader.seeds)(), "{}", reader.name);
            for (i, seed) in seeds.iter().enumerate() {
                let name = format!("{}, seed {i}", reader.name);
                bench.read(seed).unwrap_or_else(|e| panic!("{name}: {e}"));
                let parts = reader.format.parts(seed).expect("parts");
                let again = reader.format.whole(&parts);
                bench.read(&again).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }

    /// A mutation gets past the checksums: what was changed behind them is read.
    #[test]
    fn mended_checksums_hold() {
        for name in ["cache", "weights"] {
            let reader = Reader::named(name).expect("a reader");
            let seed = (reader.seeds)().remove(0);
            let mut parts = reader.format.parts(&seed).expect("parts");
            let last = parts.last_mut().expect("numbers");
            let end = last.len() - 4;
            last[end] ^= 1;
            let changed = reader.format.whole(&parts);
            assert_ne!(seed, changed);
            let read = reader.bench().read(&changed);
            read.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }

    /// Files that once made their reader panic, hang or take too much, by its name.
    #[test]
    fn what_once_failed_is_read_or_refused() {
        let found = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/found"));
        for entry in found.expect("the folder of what was found") {
            let path = entry.expect("a file").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let reader = name.split('-').next().and_then(Reader::named);
            let bytes = std::fs::read(&path).expect("a file");
            let _ = reader.expect("the name of a reader").bench().read(&bytes);
        }
    }
}
