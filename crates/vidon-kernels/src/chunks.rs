//! How work is shared out: chunks of tiles, a function of the number of rows alone. So sums are taken in the same order, and give the same bits, on any
//! number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::mlp::TILE;

/// Most chunks; each has gradients of its own.
const MOST: usize = 16;
/// Tiles that are worth a chunk.
const TILES: usize = 4;
/// Floats added up at a time.
const BLOCK: usize = 1 << 14;

/// The tiles of so many rows, in chunks.
pub(crate) fn chunks(rows: usize) -> Vec<Range<usize>> {
    let tiles = rows.div_ceil(TILE);
    let count = tiles.div_ceil(TILES).clamp(1, MOST);
    (0..count)
        .map(|c| c * tiles / count..(c + 1) * tiles / count)
        .collect()
}

/// The rows of a tile.
pub(crate) fn rows_of(tile: usize, rows: usize) -> Range<usize> {
    tile * TILE..((tile + 1) * TILE).min(rows)
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
