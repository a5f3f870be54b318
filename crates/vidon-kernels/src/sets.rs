//! How sets are cut up so that what a set gives depends on its own rows alone: a set is cut into segments of
//! [`SEGMENT`] rows from its own first row on, sums are taken row after row within a segment, and segment after
//! segment within a set. Chunks, the units of work, begin and end with segments; tiles are cut within a chunk,
//! whatever sets they meet. Where the cuts are depends on the offsets alone, not on the number of threads.

use std::ops::Range;

use crate::chunks::chunk_count;
use crate::mlp::TILE;

/// Rows of a segment.
const SEGMENT: usize = TILE;

/// Panics unless the sets, one after the other, are all of the rows.
pub(crate) fn check_offsets(offsets: &[usize], rows: usize) {
    assert!(offsets.first() == Some(&0), "offsets begin with 0");
    assert!(offsets.is_sorted(), "offsets grow from set to set");
    let last = offsets[offsets.len() - 1];
    assert_eq!(last, rows, "offsets end with the number of rows");
}

/// Consecutive segments that are worked on together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub segments: Range<usize>,
    pub rows: Range<usize>,
    /// Tiles of all chunks before.
    pub first_tile: usize,
}

impl Chunk {
    pub fn tiles(&self) -> usize {
        self.rows.len().div_ceil(TILE)
    }

    /// The rows of a tile, counted from the chunk's first.
    pub fn tile(&self, i: usize) -> Range<usize> {
        i * TILE..((i + 1) * TILE).min(self.rows.len())
    }
}

/// Sets, cut up.
pub(crate) struct Cut {
    /// First rows of the segments, and the end of the last.
    starts: Vec<usize>,
    /// For every set its first segment; and the number of segments.
    pub first_segments: Vec<usize>,
    pub chunks: Vec<Chunk>,
}

impl Cut {
    pub fn new(offsets: &[usize]) -> Self {
        let rows = offsets[offsets.len() - 1];
        let mut starts = Vec::new();
        let mut first_segments = vec![0];
        for w in offsets.windows(2) {
            starts.extend((w[0]..w[1]).step_by(SEGMENT));
            first_segments.push(starts.len());
        }
        let segments = starts.len();
        starts.push(rows);
        let count = chunk_count(rows.div_ceil(TILE));
        // The segment that begins nearest to where an even share would.
        let nearest = |c: usize| {
            let wanted = c * rows / count;
            let after = starts.partition_point(|&s| s < wanted);
            match after.checked_sub(1) {
                Some(before) if wanted - starts[before] < starts[after] - wanted => before,
                _ => after,
            }
        };
        let mut ends: Vec<usize> = (1..count).map(nearest).collect();
        ends.push(segments);
        let mut chunks: Vec<Chunk> = Vec::new();
        for end in ends {
            let (first, first_tile) = match chunks.last() {
                Some(c) => (c.segments.end, c.first_tile + c.tiles()),
                None => (0, 0),
            };
            if end > first {
                chunks.push(Chunk {
                    segments: first..end,
                    rows: starts[first]..starts[end],
                    first_tile,
                });
            }
        }
        Self {
            starts,
            first_segments,
            chunks,
        }
    }

    pub fn tiles(&self) -> usize {
        self.chunks.iter().map(Chunk::tiles).sum()
    }

    pub fn segments(&self) -> usize {
        self.starts.len() - 1
    }

    /// The parts of rows of a chunk that belong to one segment: the segment, counted from the chunk's first, and
    /// the rows, counted from the chunk's first.
    pub fn runs(
        &self,
        chunk: &Chunk,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        let starts = &self.starts[chunk.segments.start..=chunk.segments.end];
        let (from, first) = (
            chunk.rows.start,
            starts.partition_point(|&s| s <= rows.start + chunk.rows.start),
        );
        let spans = starts[first - 1..].windows(2).enumerate();
        spans
            .map(move |(i, w)| {
                let run = (w[0] - from).max(rows.start)..(w[1] - from).min(rows.end);
                (first - 1 + i, run)
            })
            .take_while(|(_, run)| !run.is_empty())
    }

    /// The set of a segment.
    pub fn set_of(&self, segment: usize) -> usize {
        self.first_segments.partition_point(|&s| s <= segment) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_run_of_its_set() {
        for sizes in [
            vec![1],
            vec![700],
            vec![2; 150],
            vec![95, 0, 96, 1, 1, 0, 300, 1089],
            vec![0],
        ] {
            let mut offsets = vec![0];
            sizes
                .iter()
                .for_each(|s| offsets.push(offsets[offsets.len() - 1] + s));
            let cut = Cut::new(&offsets);
            let mut seen = Vec::new();
            for chunk in &cut.chunks {
                assert_eq!(chunk.rows.start, seen.len());
                for tile in 0..chunk.tiles() {
                    for (segment, run) in cut.runs(chunk, chunk.tile(tile)) {
                        let set = cut.set_of(chunk.segments.start + segment);
                        seen.extend(run.map(|r| (set, chunk.rows.start + r)));
                    }
                }
            }
            let rows = |s: usize| (offsets[s]..offsets[s + 1]).map(move |r| (s, r));
            let wanted: Vec<_> = (0..sizes.len()).flat_map(rows).collect();
            assert_eq!(seen, wanted, "{sizes:?}");
        }
    }

    #[test]
    fn chunks_are_about_even() {
        let offsets: Vec<usize> = (0..=50).map(|i| i * 1089).collect();
        let cut = Cut::new(&offsets);
        assert_eq!(cut.chunks.len(), 16);
        assert!(
            cut.chunks
                .iter()
                .all(|c| c.rows.len().abs_diff(50 * 1089 / 16) < SEGMENT)
        );
    }
}
