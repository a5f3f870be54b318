//! Values on a grid made larger, with zeros at the far ends, or smaller, by leaving the far ends out:
//!
//!   y_i = x_i   where i is on both grids,   0 elsewhere.
//!
//! Backward it is the same from the second grid to the first.

use rayon::prelude::*;

/// Numbers of a point, and points per axis before and after; the last axis is the fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    pub channels: usize,
    pub from: Vec<usize>,
    pub to: Vec<usize>,
}

impl Resize {
    /// From the second grid to the first.
    pub fn back(&self) -> Self {
        Self {
            channels: self.channels,
            from: self.to.clone(),
            to: self.from.clone(),
        }
    }

    /// Points before and after.
    pub(crate) fn points(&self) -> [usize; 2] {
        [&self.from, &self.to].map(|grid| grid.iter().product())
    }
}

/// Of `[samples·points, channels]`.
pub(crate) fn resize(x: &[f32], call: &Resize) -> Vec<f32> {
    let channels = call.channels;
    let [before, after] = call.points();
    let axes = call.from.len();
    assert!(axes > 0 && axes == call.to.len() && before * after * channels > 0);
    let samples = x.len() / (before * channels);
    assert_eq!(x.len(), samples * before * channels, "whole samples");
    let lines = call.from.iter().zip(&call.to).map(|(a, b)| *a.min(b));
    let mut lines: Vec<usize> = lines.collect();
    let length = channels * lines.pop().expect("an axis");
    let count: usize = lines.iter().product();
    let mut out = vec![0.0; samples * after * channels];
    let pairs = out
        .par_chunks_mut(after * channels)
        .zip(x.par_chunks(before * channels));
    pairs.for_each(|(out, x)| {
        for line in 0..count {
            // Where the line begins on both grids.
            let (mut left, mut scale, mut at) = (line, [1, 1], [0, 0]);
            for axis in (0..axes).rev() {
                let i = match axis + 1 == axes {
                    true => 0,
                    false => left % lines[axis],
                };
                at = [at[0] + i * scale[0], at[1] + i * scale[1]];
                scale = [scale[0] * call.from[axis], scale[1] * call.to[axis]];
                if axis + 1 < axes {
                    left /= lines[axis];
                }
            }
            let [from, to] = at.map(|point| point * channels);
            out[to..to + length].copy_from_slice(&x[from..from + length]);
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_grow_and_shrink_at_their_far_ends() {
        let call = Resize {
            channels: 2,
            from: vec![2, 2],
            to: vec![3, 4],
        };
        let x: Vec<f32> = (1..17).map(|v| v as f32).collect();
        let larger = resize(&x, &call);
        let first = [
            1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(larger[..24], first.map(|v| v as f32));
        assert_eq!((larger.len(), larger[24]), (48, 9.0));
        assert_eq!(resize(&larger, &call.back()), x);
        for grid in [vec![5], vec![3, 2, 4]] {
            let to = grid.iter().map(|n| n + 1).collect();
            let call = Resize {
                channels: 3,
                from: grid,
                to,
            };
            let x: Vec<f32> = (0..3 * call.points()[0]).map(|v| v as f32).collect();
            let larger = resize(&x, &call);
            assert_eq!(larger.iter().filter(|v| **v != 0.0).count(), x.len() - 1);
            assert_eq!(resize(&larger, &call.back()), x);
        }
    }
}
