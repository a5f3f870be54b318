//! Mutations: every input is a function of the seed and its number.

use std::ops::Range;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Reader;

/// Integers at which lengths, counts and offsets go wrong.
const INTEGERS: [u64; 15] = [
    0,
    1,
    2,
    127,
    255,
    256,
    0x7fff,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// Numbers, and what stands for them, at which text goes wrong.
const WORDS: [&str; 24] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "64",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "-0.0",
    "1e-320",
    "3.5e38",
    "1e308",
    "1e999",
    "nan",
    "inf",
    "null",
    "\"\"",
];

/// Pieces that are repeated, or put in, are at most this long.
const LONGEST_PIECE: usize = 256;
/// Nothing grows beyond this.
const LONGEST: usize = 1 << 20;

/// Makes hostile files out of small real ones.
pub struct Mutator<'a> {
    reader: &'a Reader,
    seeds: Vec<Vec<u8>>,
    parts: Vec<Vec<Vec<u8>>>,
    seed: u64,
}

impl<'a> Mutator<'a> {
    pub fn new(reader: &'a Reader, seed: u64) -> Self {
        let seeds = (reader.seeds)();
        let parts = seeds.iter().map(|s| reader.format.parts(s));
        Self {
            parts: parts.map(|p| p.expect("seeds have parts")).collect(),
            reader,
            seeds,
            seed,
        }
    }

    /// Input `index`. One in eight is changed as it lies there, the others behind their checksums.
    pub fn input(&self, index: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(index);
        let rng = &mut rng;
        let own = rng.random_range(0..self.seeds.len());
        let other = rng.random_range(0..self.seeds.len());
        if rng.random_range(0..8) == 0 {
            let mut file = self.seeds[own].clone();
            mutate(rng, &mut file, &self.seeds[other]);
            return file;
        }
        let mut parts = self.parts[own].clone();
        let at = rng.random_range(0..parts.len());
        let others = &self.parts[other];
        mutate(rng, &mut parts[at], &others[at.min(others.len() - 1)]);
        if rng.random_range(0..8) == 0 {
            rearrange(rng, &mut parts);
        }
        self.reader.format.whole(&parts)
    }
}

/// Several changes, mostly few. Most of those of a text leave its grammar alone, and get past a parser; half of
/// those of other bytes leave their number alone, which is said elsewhere in the file.
fn mutate(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let length = bytes.len();
    let is_text = std::str::from_utf8(bytes).is_ok() && length > 0;
    let by_word = is_text && rng.random_range(0..8) > 0;
    let as_long = !is_text && length > 0 && rng.random();
    let changes = [1, 1, 1, 2, 4, 8].choose(rng).expect("some");
    for _ in 0..*changes {
        match by_word {
            true => reword(rng, bytes, other),
            false => change(rng, bytes, other),
        }
        bytes.truncate(LONGEST);
    }
    if as_long {
        bytes.resize(length, 0);
    }
}

/// Changes one value, or one line or member: another of its kind, twice, not at all.
fn reword(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let words = spans(bytes, is_word);
    let Some(word) = words.choose(rng).cloned() else {
        return change(rng, bytes, other);
    };
    let old = &bytes[word.clone()];
    match rng.random_range(0..12) {
        0..10 => {
            let new = match rng.random_range(0..8) {
                0 => WORDS.choose(rng).expect("words").as_bytes().to_vec(),
                1 | 2 if is_number(old) => near(rng, old),
                3 | 4 if is_number(old) => rng.random_range(0..9).to_string().into_bytes(),
                _ => {
                    let source = if rng.random() { &bytes[..] } else { other };
                    let mut all = spans(source, is_word);
                    all.retain(|span| role(source, span) == role(bytes, &word));
                    let chosen = all.choose(rng);
                    chosen.map_or(Vec::new(), |span| source[span.clone()].to_vec())
                }
            };
            bytes.splice(word, new);
        }
        way => {
            let between: fn(u8) -> bool = match rng.random_range(0..4) {
                0 => |b| b != b',' && b != b'\n',
                _ => |b| b != b'\n',
            };
            let source = if rng.random() {
                bytes.clone()
            } else {
                other.to_vec()
            };
            let (own, others) = (spans(bytes, between), spans(&source, between));
            let (Some(own), Some(another)) = (own.choose(rng), others.choose(rng)) else {
                return;
            };
            let another = &source[another.clone()];
            match way {
                10 if rng.random() => drop(bytes.drain(own.start..bytes.len().min(own.end + 1))),
                10 => drop(bytes.splice(own.clone(), another.iter().copied())),
                _ => {
                    let end = bytes.get(own.end).copied().unwrap_or(b'\n');
                    put(bytes, own.start, &[another, &[end]].concat());
                }
            }
        }
    }
}

/// The number with one added or taken, doubled, halved or negated.
fn near(rng: &mut ChaCha8Rng, number: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(number);
    let way = rng.random_range(0..5);
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(n), _) => match way {
            0 => n.wrapping_add(1),
            1 => n.wrapping_sub(1),
            2 => n.wrapping_mul(2),
            3 => n / 2,
            _ => n.wrapping_neg(),
        }
        .to_string(),
        (_, Ok(v)) => format!("{:?}", [v + 1.0, v - 1.0, 2.0 * v, v / 2.0, -v][way]),
        _ => text.into_owned(),
    }
    .into_bytes()
}

fn rearrange(rng: &mut ChaCha8Rng, parts: &mut [Vec<u8>]) {
    let (a, b) = (
        rng.random_range(0..parts.len()),
        rng.random_range(0..parts.len()),
    );
    match rng.random_range(0..3) {
        0 => parts.swap(a, b),
        1 => parts[a] = parts[b].clone(),
        _ => parts[a].clear(),
    }
}

fn change(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend(piece(rng, other));
        return;
    }
    let at = rng.random_range(0..bytes.len());
    match rng.random_range(0..14) {
        0 => bytes[at] ^= 1 << rng.random_range(0..8),
        1 => bytes[at] = rng.random(),
        2 | 3 => {
            let integer = integer(rng);
            let end = bytes.len().min(at + integer.len());
            bytes[at..end].copy_from_slice(&integer[..end - at]);
        }
        4 => put(bytes, at, &integer(rng)),
        5 => {
            let end = bytes.len().min(at + rng.random_range(1..LONGEST_PIECE));
            bytes.drain(at..end);
        }
        6 => {
            let piece = piece(rng, bytes).repeat(rng.random_range(1..4));
            put(bytes, at, &piece);
        }
        7 => bytes.truncate(at),
        8 => {
            let piece = piece(rng, other);
            put(bytes, at, &piece);
        }
        9 => {
            // The start of one, the end of the other.
            bytes.truncate(at);
            let from = rng.random_range(0..=other.len());
            bytes.extend(&other[from..]);
        }
        // Deep nesting, among other things.
        10 if rng.random_range(0..8) == 0 => {
            let long = [bytes[at]].repeat(1 << rng.random_range(4..17));
            put(bytes, at, &long);
        }
        10 | 11 => {
            let word = WORDS.choose(rng).expect("words").as_bytes();
            replace(bytes, at, is_numeric, word);
        }
        12 => {
            let from = rng.random_range(0..bytes.len());
            let (start, end) = run(bytes, from, is_word);
            let word = bytes[start..end].to_vec();
            replace(bytes, at, is_word, &word);
        }
        _ => {
            let to = rng.random_range(0..bytes.len());
            bytes.swap(at, to);
        }
    }
}

fn is_numeric(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.eE".contains(&byte)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte)
}

fn is_number(word: &[u8]) -> bool {
    matches!(
        word,
        [b'0'..=b'9', ..] | [b'-' | b'+' | b'.', b'0'..=b'9', ..]
    )
}

/// What tells numbers, keys and values apart, more or less: what stands around them.
fn role(bytes: &[u8], word: &Range<usize>) -> Option<(u8, u8)> {
    let before = bytes[..word.start].last().copied().unwrap_or(b'\n');
    let mut behind = bytes[word.end..].iter().filter(|b| !b"\" ".contains(b));
    let around = (before, behind.next().copied().unwrap_or(b'\n'));
    (!is_number(&bytes[word.clone()])).then_some(around)
}

/// All runs of such bytes.
fn spans(bytes: &[u8], belongs: fn(u8) -> bool) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (start, end) = run(bytes, at, belongs);
        if start < end {
            all.push(start..end);
        }
        at = end;
    }
    all
}

/// The next run of such bytes from a place on; nothing there where none follows.
fn run(bytes: &[u8], at: usize, belongs: fn(u8) -> bool) -> (usize, usize) {
    let next = |from: usize, wanted: bool| {
        let found = bytes[from..].iter().position(|&b| belongs(b) == wanted);
        found.map_or(bytes.len(), |n| from + n)
    };
    let start = next(at, true);
    (start, next(start, false))
}

fn replace(bytes: &mut Vec<u8>, at: usize, belongs: fn(u8) -> bool, with: &[u8]) {
    let (start, end) = run(bytes, at, belongs);
    bytes.splice(start..end, with.iter().copied());
}

fn put(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn piece(rng: &mut ChaCha8Rng, of: &[u8]) -> Vec<u8> {
    if of.is_empty() {
        return vec![0];
    }
    let at = rng.random_range(0..of.len());
    let end = of.len().min(at + rng.random_range(1..LONGEST_PIECE));
    of[at..end].to_vec()
}

/// 1, 2, 4 or 8 bytes, in either order; sometimes one beside the known ones.
fn integer(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let known = *INTEGERS.choose(rng).expect("integers");
    let value = known.wrapping_add(rng.random_range(0..3)).wrapping_sub(1);
    let size = 1 << rng.random_range(0..4);
    let mut bytes = value.to_le_bytes()[..size].to_vec();
    if rng.random() {
        bytes.reverse();
    }
    bytes
}
