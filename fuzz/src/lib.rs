//! What all targets share: libFuzzer changes one part of a file behind its checksums, and a reader reads it.

pub use libfuzzer_sys;

use std::sync::OnceLock;

use libfuzzer_sys::fuzzer_mutate;
use vidon_fuzz::{Bench, Reader};

/// The target of the reader of this name.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            $crate::read($name, data);
        });
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8],
                                              size: usize,
                                              max_size: usize,
                                              seed: u32| {
            $crate::mutate($name, data, size, max_size, seed)
        });
    };
}

fn reader(name: &str) -> &'static Reader {
    Reader::named(name).expect("a reader")
}

pub fn read(name: &str, data: &[u8]) {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    let bench = BENCH.get_or_init(|| {
        vidon_fuzz::work_alone();
        reader(name).bench()
    });
    // An error is an answer too.
    let _ = bench.read(data);
}

/// Changes a part that the seed chooses, or once in eight times the file as it lies there. Gives the new
/// size.
pub fn mutate(name: &str, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let format = reader(name).format;
    let Some(mut parts) = format
        .parts(&data[..size])
        .filter(|p| !p.is_empty() && seed % 8 > 0)
    else {
        return fuzzer_mutate(data, size, max_size);
    };
    let at = (seed / 8) as usize % parts.len();
    let part = &mut parts[at];
    let (before, room) = (part.len(), max_size - size.min(max_size) + part.len());
    part.resize(room, 0);
    let after = fuzzer_mutate(part, before, room);
    part.truncate(after);
    let whole = format.whole(&parts);
    if whole.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..whole.len()].copy_from_slice(&whole);
    whole.len()
}
