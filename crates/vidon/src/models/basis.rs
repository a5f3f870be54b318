//! Fixed Fourier bases on a box, for positional encodings and trunks without weights.
//!
//! With x scaled to [0,1] per axis and wave vectors k in order of |k|:
//!
//! - periodic: 1, then cos(2πk·x) and sin(2πk·x) for every k of one half-space,
//! - otherwise: Π_i cos(πk_i x_i) for every k ∈ N^d.

use std::f64::consts::PI;

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::data::Channel;

/// A box and whether functions repeat on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Ends per axis; where a recipe gives none, those of the data.
    #[serde(default)]
    pub lo: Vec<f64>,
    #[serde(default)]
    pub hi: Vec<f64>,
    #[serde(default)]
    pub periodic: bool,
}

impl Frame {
    /// Takes the ends from the data where there are none yet.
    pub(crate) fn fill(&mut self, coords: &[Channel]) {
        if self.lo.is_empty() && self.hi.is_empty() {
            let ends = |k: usize| {
                coords
                    .iter()
                    .map(move |c| c.range.map_or(f64::NAN, |r| r[k]))
            };
            (self.lo, self.hi) = (ends(0).collect(), ends(1).collect());
        }
    }

    /// What is wrong with it as a box of `dim` dimensions, if anything.
    pub(crate) fn fault(&self, dim: usize) -> Option<String> {
        let ends = self.lo.iter().zip(&self.hi);
        let fits = self.lo.len() == dim && self.hi.len() == dim;
        let proper = |(lo, hi): (&f64, &f64)| lo.is_finite() && hi.is_finite() && lo < hi;
        (!fits || !ends.into_iter().all(proper)).then(|| {
            format!(
                "a frame needs {dim} finite lower and upper ends, lower < upper; got {:?} and {:?}",
                self.lo, self.hi
            )
        })
    }
}

/// The first functions of a Fourier basis.
#[derive(Clone, Debug)]
pub struct FourierBasis {
    frame: Frame,
    /// Wave vector of every function, and whether it is the sine (periodic only).
    waves: Vec<(Vec<i32>, bool)>,
}

impl FourierBasis {
    pub fn new(frame: Frame, count: usize) -> Self {
        let dim = frame.lo.len();
        let mut waves = Vec::new();
        // Grow the box of wave vectors until its inscribed ball holds enough functions.
        let mut reach = 1i32;
        while waves.len() < count {
            waves = wave_vectors(dim, reach, frame.periodic);
            reach += 1;
        }
        waves.truncate(count);
        Self { frame, waves }
    }

    /// Number of functions.
    pub(crate) fn len(&self) -> usize {
        self.waves.len()
    }

    /// Mean square of every function over the box.
    pub(crate) fn mean_squares(&self) -> Vec<f64> {
        let mean_square = |(k, _): &(Vec<i32>, bool)| {
            let waves = k.iter().filter(|v| **v != 0).count() as i32;
            0.5f64.powi(if self.frame.periodic {
                waves.min(1)
            } else {
                waves
            })
        };
        self.waves.iter().map(mean_square).collect()
    }

    /// Values of all functions: `[rows, d]` to `[rows, functions]`.
    pub fn features(&self, coords: Tensor<2>) -> Tensor<2> {
        let (device, dtype) = (coords.device(), coords.dtype());
        let constant = |values: Vec<f32>| {
            let count = values.len();
            Tensor::<2>::from_data(TensorData::new(values, [1, count]), (&device, dtype))
        };
        let dim = self.frame.lo.len();
        let turn = if self.frame.periodic { 2.0 * PI } else { PI };
        let axis = |i: usize| {
            let scale = turn / (self.frame.hi[i] - self.frame.lo[i]);
            let x = (coords.clone().narrow(1, i, 1) - self.frame.lo[i]) * scale;
            x * constant(self.waves.iter().map(|(k, _)| k[i] as f32).collect())
        };
        if !self.frame.periodic {
            return (0..dim)
                .map(|i| axis(i).cos())
                .reduce(|a, b| a * b)
                .expect("at least one axis");
        }
        // sin(z) = cos(z - π/2)
        let phase = (0..dim)
            .map(axis)
            .reduce(|a, b| a + b)
            .expect("at least one axis");
        let quarter = |sine: bool| if sine { (PI / 2.0) as f32 } else { 0.0 };
        (phase - constant(self.waves.iter().map(|w| quarter(w.1)).collect())).cos()
    }
}

/// Wave vectors with |k| ≤ reach, by |k| and then in lexical order.
fn wave_vectors(dim: usize, reach: i32, periodic: bool) -> Vec<(Vec<i32>, bool)> {
    let lowest = if periodic { -reach } else { 0 };
    let side = (reach - lowest + 1) as usize;
    let mut all = Vec::new();
    for place in 0..side.pow(dim as u32) {
        let digit = |i: usize| (place / side.pow((dim - 1 - i) as u32) % side) as i32 + lowest;
        let k: Vec<i32> = (0..dim).map(digit).collect();
        let length: i32 = k.iter().map(|v| v * v).sum();
        let first = k.iter().find(|v| **v != 0).copied().unwrap_or(0);
        if length > reach * reach || (periodic && first < 0) {
            continue;
        }
        all.push((length, k.clone(), false));
        if periodic && length > 0 {
            all.push((length, k, true));
        }
    }
    all.sort();
    all.into_iter().map(|(_, k, sine)| (k, sine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::inputs::to_vec;
    use burn::tensor::Device;

    fn gram(periodic: bool, dim: usize, count: usize) -> Vec<f64> {
        let frame = Frame {
            lo: vec![-1.0; dim],
            hi: vec![3.0; dim],
            periodic,
        };
        let n = 24usize;
        // Midpoints integrate products of these functions exactly.
        let points: Vec<f32> = (0..n.pow(dim as u32))
            .flat_map(|p| {
                (0..dim)
                    .map(move |i| -1.0 + 4.0 * ((p / n.pow(i as u32) % n) as f32 + 0.5) / n as f32)
            })
            .collect();
        let rows = points.len() / dim;
        let coords = Tensor::<2>::from_data(TensorData::new(points, [rows, dim]), &Device::flex());
        let values = to_vec(FourierBasis::new(frame, count).features(coords));
        let mut gram = vec![0.0; count * count];
        for row in values.chunks(count) {
            for i in 0..count {
                for j in 0..count {
                    gram[i * count + j] += (row[i] * row[j]) as f64 / rows as f64;
                }
            }
        }
        gram
    }

    #[test]
    fn bases_are_orthogonal_and_start_with_the_constant() {
        for (periodic, dim, count) in [
            (true, 1, 9),
            (true, 2, 25),
            (false, 1, 8),
            (false, 2, 20),
            (true, 3, 15),
            (false, 3, 15),
        ] {
            let gram = gram(periodic, dim, count);
            assert!((gram[0] - 1.0).abs() < 1e-5);
            let frame = Frame {
                lo: vec![0.0; dim],
                hi: vec![1.0; dim],
                periodic,
            };
            let squares = FourierBasis::new(frame, count).mean_squares();
            assert!((0..count).all(|i| (gram[i * count + i] - squares[i]).abs() < 1e-5));
            for i in 0..count {
                for j in 0..count {
                    let value = gram[i * count + j];
                    assert!(
                        if i == j {
                            value > 0.1
                        } else {
                            value.abs() < 1e-5
                        },
                        "{i} {j}: {value}"
                    );
                }
            }
        }
    }
}
