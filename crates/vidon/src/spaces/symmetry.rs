//! Symmetries of a problem on the box of its sensors: flips of axes, swaps of axes and, on a torus, shifts
//! along the axes. With `odd` a mirror image (an odd number of flips and swaps) changes the sign of values
//! and targets, as that of a vorticity does; they are scaled so that zero stays zero.
//!
//! With every axis scaled to [0, 1], a symmetry takes the point x to x', x'_i = ±x_{from(i)} + shift_i (mod
//! 1), and the function f to ±f with f'(x') = ±f(x).

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Which symmetries a problem has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Symmetries {
    pub flips: bool,
    pub swaps: bool,
    pub shifts: bool,
    pub odd: bool,
}

/// Where an axis of a transformed function comes from, with axes scaled to [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub from: usize,
    pub flip: bool,
    /// How far it is shifted after the flip.
    pub shift: f64,
}

/// One symmetry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Symmetry {
    pub axes: Vec<Axis>,
    /// Whether values and targets change their sign.
    pub negative: bool,
}

impl Symmetries {
    pub fn any(self) -> bool {
        self.flips || self.swaps || self.shifts
    }

    /// One of them, drawn at random, for so many axes.
    pub(crate) fn draw(self, dim: usize, rng: &mut Rng) -> Symmetry {
        let mut order: Vec<usize> = (0..dim).collect();
        let mut mirrored = false;
        if self.swaps {
            for i in (1..dim).rev() {
                let j = rng.random_range(0..=i);
                order.swap(i, j);
                mirrored ^= i != j;
            }
        }
        let axes = order.into_iter().map(|from| {
            let flip = self.flips && rng.random::<bool>();
            mirrored ^= flip;
            let shift = if self.shifts { rng.random() } else { 0.0 };
            Axis { from, flip, shift }
        });
        Symmetry {
            axes: axes.collect(),
            negative: self.odd && mirrored,
        }
    }

    /// All flips and swaps (no shifts) of so many axes, the one that changes nothing first.
    pub(crate) fn all(self, dim: usize) -> Vec<Symmetry> {
        let mut orders = vec![(Vec::new(), false)];
        for _ in 0..dim {
            let longer = orders.iter().flat_map(|(order, odd): &(Vec<usize>, bool)| {
                let left = (0..dim).filter(|axis| !order.contains(axis));
                let left: Vec<usize> = match self.swaps {
                    true => left.collect(),
                    false => left.take(1).collect(),
                };
                // The n-th of those that are left is n exchanges away.
                left.into_iter()
                    .enumerate()
                    .map(move |(n, axis)| ([&order[..], &[axis]].concat(), odd ^ (n % 2 == 1)))
            });
            orders = longer.collect();
        }
        let flips = if self.flips { 1 << dim } else { 1 };
        let flipped = |(order, odd): &(Vec<usize>, bool)| {
            let (order, odd) = (order.clone(), *odd);
            (0..flips).map(move |bits: usize| {
                let axis = |(i, from): (usize, &usize)| Axis {
                    from: *from,
                    flip: bits >> i & 1 == 1,
                    shift: 0.0,
                };
                let mirrored = odd ^ (bits.count_ones() % 2 == 1);
                Symmetry {
                    axes: order.iter().enumerate().map(axis).collect(),
                    negative: self.odd && mirrored,
                }
            })
        };
        orders.iter().flat_map(flipped).collect()
    }
}

impl Symmetry {
    /// The symmetry that undoes this one, which must not shift.
    pub fn inverse(&self) -> Self {
        let mut axes = self.axes.clone();
        for (to, axis) in self.axes.iter().enumerate() {
            debug_assert!(axis.shift == 0.0, "shifts are not undone");
            axes[axis.from] = Axis { from: to, ..*axis };
        }
        Self {
            axes,
            negative: self.negative,
        }
    }

    /// Takes a point to its image in the box with these ends; coordinates beyond those of the box stay.
    pub fn move_point(&self, point: &mut [f32], ends: &[[f64; 2]]) {
        let scaled: Vec<f64> = point
            .iter()
            .zip(ends)
            .map(|(x, [lo, hi])| (*x as f64 - lo) / (hi - lo))
            .collect();
        for (to, (axis, [lo, hi])) in point.iter_mut().zip(self.axes.iter().zip(ends)) {
            let mut x = scaled[axis.from];
            if axis.flip {
                x = 1.0 - x;
            }
            if axis.shift > 0.0 {
                x = (x + axis.shift).rem_euclid(1.0);
            }
            *to = (lo + x * (hi - lo)) as f32;
        }
    }

    /// Takes readings to those of the image.
    pub fn turn_sign(&self, values: &mut [f32]) {
        if self.negative {
            values.iter_mut().for_each(|v| *v = -*v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    const UNIT: [[f64; 2]; 2] = [[0.0, 1.0]; 2];

    /// A function that has the symmetries is still itself afterwards.
    #[test]
    fn invariant_functions_stay_what_they_are() {
        let tau = std::f32::consts::TAU;
        // Even under flips and swaps on the unit square.
        let even = |p: &[f32]| (tau * p[0]).cos() + (tau * p[1]).cos();
        let symmetries = Symmetries {
            flips: true,
            swaps: true,
            ..Symmetries::default()
        };
        let mut moved = false;
        for seed in 0..20 {
            let symmetry = symmetries.draw(2, &mut stream(seed, "test", 0));
            for i in 0..20 {
                let place = [((i * 37) % 41) as f32 / 41.0, ((i * 17) % 41) as f32 / 41.0];
                let mut image = place;
                symmetry.move_point(&mut image, &UNIT);
                assert!((even(&place) - even(&image)).abs() < 1e-5);
                moved |= place != image;
            }
        }
        assert!(moved);
    }

    /// With `odd`, sin(2πx) stays itself under flips of x; shifts keep points in the box.
    #[test]
    fn mirrored_values_change_sign_and_shifts_wrap() {
        let wave = |x: f32| (std::f32::consts::TAU * x).sin();
        let odd = Symmetries {
            flips: true,
            odd: true,
            ..Symmetries::default()
        };
        let shifts = Symmetries {
            shifts: true,
            ..Symmetries::default()
        };
        for seed in 0..10 {
            let flip = odd.draw(1, &mut stream(seed, "test", 0));
            let shift = shifts.draw(1, &mut stream(seed, "test", 1));
            for i in 0..30 {
                let (mut x, mut value) = ([i as f32 / 30.0], [wave(i as f32 / 30.0)]);
                flip.move_point(&mut x, &UNIT[..1]);
                flip.turn_sign(&mut value);
                assert!((wave(x[0]) - value[0]).abs() < 1e-5);
                shift.move_point(&mut x, &UNIT[..1]);
                assert!((0.0..=1.0).contains(&x[0]));
            }
        }
    }

    #[test]
    fn all_are_different_and_can_be_undone() {
        let symmetries = Symmetries {
            flips: true,
            swaps: true,
            odd: true,
            shifts: false,
        };
        let all = symmetries.all(3);
        assert_eq!(all.len(), 48);
        assert_eq!(all.iter().filter(|s| s.negative).count(), 24);
        let image = |symmetry: &Symmetry, mut point: [f32; 3]| {
            symmetry.move_point(&mut point, &[[0.0, 1.0]; 3]);
            point.map(|x| (100.0 * x).round() as i32)
        };
        let place = [0.1, 0.25, 0.7];
        assert_eq!(image(&all[0], place), [10, 25, 70]);
        let images: std::collections::HashSet<_> = all.iter().map(|s| image(s, place)).collect();
        assert_eq!(images.len(), 48);
        for symmetry in &all {
            let there = image(symmetry, place).map(|x| x as f32 / 100.0);
            assert_eq!(image(&symmetry.inverse(), there), [10, 25, 70]);
        }
    }
}
