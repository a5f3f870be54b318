//! Randomness that is a function of what it is for: `stream(seed, purpose, index)`.
//!
//! Sample k of a dataset draws from its own ChaCha stream, so it does not depend on the number of
//! threads, on the samples before it, or on how many were asked for.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub type Rng = ChaCha8Rng;

/// The generator for item `index` of `purpose` (a short name such as `"darcy/train"`).
pub fn stream(seed: u64, purpose: &str, index: u64) -> Rng {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    for (lane, offset) in [0u64, 0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f]
        .iter()
        .enumerate()
    {
        let at = 8 * (lane + 1);
        key[at..at + 8].copy_from_slice(&fnv1a(purpose, *offset).to_le_bytes());
    }
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(index);
    rng
}

/// FNV-1a over the bytes of `text`, started from `0xcbf2…25 ^ offset`.
pub(crate) fn fnv1a(text: &str, offset: u64) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ offset, |hash, byte| {
            (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn streams_repeat_and_differ_in_every_argument() {
        let first = |seed, purpose: &str, index| stream(seed, purpose, index).random::<u64>();
        assert_eq!(first(1, "a", 2), first(1, "a", 2));
        let all = [
            first(1, "a", 2),
            first(2, "a", 2),
            first(1, "b", 2),
            first(1, "a", 3),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| x != y));
        }
    }
}
