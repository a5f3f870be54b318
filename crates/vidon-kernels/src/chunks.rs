//! How work is shared out: chunks of tiles, a function of the number of rows alone. So sums are taken in the
//! same order, and give the same bits, on any number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::mlp::TILE;

/// Most chunks; each has gradients of its own.
const MOST: usize = 16;
/// Tiles that are worth a chunk.
const TILES: usize = 4;
/// Floats added up at a time.
const BLOCK: usize = 1 << 14;

/// Rows a tile for a perceptron: where there are few, they are shared out evenly to an even number of tiles.
pub(crate) fn even_tile(rows: usize) -> usize {
    if rows > TILES * TILE {
        return TILE;
    }
    let tiles = rows.div_ceil(TILE).next_multiple_of(2).max(2);
    rows.div_ceil(tiles).max(1)
}

/// Chunks for so many tiles: an even number, which two cores share evenly, if there are two tiles.
pub(crate) fn chunk_count(tiles: usize) -> usize {
    let even = tiles.div_ceil(TILES).next_multiple_of(2);
    even.min(tiles).clamp(1, MOST)
}

/// The tiles of so many rows, `size` each, in chunks.
pub(crate) fn chunks(rows: usize, size: usize) -> Vec<Range<usize>> {
    let tiles = rows.div_ceil(size);
    let count = chunk_count(tiles);
    (0..count)
        .map(|c| c * tiles / count..(c + 1) * tiles / count)
        .collect()
}

/// The rows of a tile.
pub(crate) fn rows_of(tile: usize, rows: usize, size: usize) -> Range<usize> {
    tile * size..((tile + 1) * size).min(rows)
}

/// `all` cut into parts of these lengths, so that each can be worked on by itself.
pub(crate) fn split<T>(all: &mut [T], lengths: impl IntoIterator<Item = usize>) -> Vec<&mut [T]> {
    let mut rest = all;
    let mut parts = Vec::new();
    for length in lengths {
        let (part, others) = rest.split_at_mut(length);
        parts.push(part);
        rest = others;
    }
    parts
}

/// As [`split`], of what may not be there.
pub(crate) fn split_some(
    all: Option<&mut [f32]>,
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Vec<Option<&mut [f32]>> {
    match all {
        Some(all) => split(all, lengths).into_iter().map(Some).collect(),
        None => lengths.map(|_| None).collect(),
    }
}

/// The parts added up in order, into the first.
pub(crate) fn add_up(parts: &mut [crate::arena::Buffer]) {
    let (first, others) = parts.split_first_mut().expect("at least one chunk");
    first
        .par_chunks_mut(BLOCK)
        .enumerate()
        .for_each(|(b, sum)| {
            for other in others.iter() {
                for (s, x) in sum.iter_mut().zip(&other[b * BLOCK..]) {
                    *s += x;
                }
            }
        });
}
