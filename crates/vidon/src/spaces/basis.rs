//! Fixed bases on a box: for positional encodings, projections and trunks without weights.
//!
//! With x scaled to [0,1] per axis and k a vector of whole numbers:
//!
//! - `periodic`: 1, then cos(2πk·x) and sin(2πk·x) for every k of one half-space,
//! - `cosine`: Π_i cos(πk_i x_i), k_i ≥ 0,
//! - `sine`: Π_i sin(πk_i x_i), k_i ≥ 1, for functions that vanish on the boundary,
//! - `legendre`: Π_i √(2k_i + 1)·P_{k_i}(2x_i - 1), by total degree.
//!
//! The others come in the order of |k|. With `times = L` the last axis has functions of its own, the first L
//! Legendre polynomials, each with every function of the other axes: for outputs that live in space and time.

use std::f64::consts::PI;

use rayon::prelude::*;

use crate::data::Channel;
use crate::spaces::frame::{Family, Frame};
use crate::spaces::symmetry::{Symmetries, Symmetry};

/// Rows worked out at a time.
const BLOCK: usize = 256;

/// The first functions of a basis.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    frame: Frame,
    /// k of every function, and whether it is the sine (periodic only).
    waves: Vec<(Vec<i32>, bool)>,
    /// The largest |k_i|.
    reach: usize,
    /// Where the factors of every function are in the tables of the axes.
    places: Vec<u32>,
    /// The function of every k within reach, the cosine; none where there are too many k.
    index: Vec<u32>,
}

/// Most k that are kept an index of.
const MOST_WAVES: usize = 1 << 20;

/// Where a symmetry takes a coefficient: multiplied by the cosine, and for the pair of a wave turned by the angle.
struct Transfer {
    from: usize,
    to: usize,
    cos: f32,
    sin: f32,
    /// Of a cosine and its sine, with the sign of the new sine.
    pair: Option<f32>,
}

impl Basis {
    pub fn new(frame: Frame, count: usize) -> Self {
        let space = count.div_ceil(frame.times.max(1));
        let mut waves = first_waves(&frame, space);
        waves.truncate(space);
        if frame.times > 0 {
            let timed = |(k, sine): (Vec<i32>, bool)| {
                (0..frame.times as i32).map(move |l| ([&k[..], &[l]].concat(), sine))
            };
            waves = waves.into_iter().flat_map(timed).collect();
        }
        waves.truncate(count);
        Self::of(frame, waves)
    }

    /// At least so many functions, with all that have the |k| of the last: flips and swaps of the axes lead
    /// to no others.
    pub(crate) fn whole(frame: Frame, count: usize) -> Self {
        let mut waves = first_waves(&frame, count);
        let order = |k: &[i32]| order(k, frame.family);
        let last = count.checked_sub(1).map_or(0, |i| order(&waves[i].0));
        let shell = waves[count..].iter().take_while(|w| order(&w.0) == last);
        waves.truncate(count + shell.count());
        Self::of(frame, waves)
    }

    fn of(frame: Frame, waves: Vec<(Vec<i32>, bool)>) -> Self {
        let largest = waves.iter().flat_map(|w| &w.0).map(|k| k.unsigned_abs());
        let reach = largest.max().unwrap_or(0) as usize;
        let place = |(axis, k): (usize, &i32)| {
            let side = 2 * reach + 1;
            (axis * side) as u32 + (reach as i32 + k) as u32
        };
        let places = waves
            .iter()
            .flat_map(|(k, _)| k.iter().enumerate().map(place))
            .collect();
        let dim = waves.first().map_or(0, |w| w.0.len());
        let size = (2 * reach + 1).checked_pow(dim as u32);
        let mut basis = Self {
            index: vec![u32::MAX; size.filter(|s| *s <= MOST_WAVES).unwrap_or(0)],
            frame,
            waves,
            reach,
            places,
        };
        if !basis.index.is_empty() {
            for (i, (k, sine)) in basis.waves.iter().enumerate() {
                if !sine {
                    let place = basis.place(k.iter().copied());
                    basis.index[place] = i as u32;
                }
            }
        }
        basis
    }

    /// Where k is in the index.
    fn place(&self, k: impl Iterator<Item = i32>) -> usize {
        let side = 2 * self.reach + 1;
        k.fold(0, |place, k| {
            place * side + (k + self.reach as i32) as usize
        })
    }

    /// Number of functions.
    pub(crate) fn len(&self) -> usize {
        self.waves.len()
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The largest |k_i|.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }

    /// |k| of every function; the total degree for polynomials.
    pub(crate) fn orders(&self) -> Vec<f64> {
        let order = |(k, _): &(Vec<i32>, bool)| (order(k, self.frame.family) as f64).sqrt();
        self.waves.iter().map(order).collect()
    }

    /// Which function is the constant, if one is.
    pub(crate) fn constant(&self) -> Option<usize> {
        let constant = |w: &(Vec<i32>, bool)| w.0.iter().all(|k| *k == 0);
        match self.frame.family {
            Family::Sine => None,
            _ => self.waves.iter().position(constant),
        }
    }

    /// What `axis` has.
    fn family(&self, axis: usize) -> Family {
        match self.frame.times {
            0 => self.frame.family,
            _ if axis + 1 < self.frame.lo.len() => self.frame.family,
            _ => Family::Legendre,
        }
    }

    /// Whether [`transform`](Self::transform) can take symmetries, with or without shifts.
    pub(crate) fn has_symmetries(&self, shifts: bool) -> bool {
        let indexed = self.frame.times == 0 && !self.index.is_empty();
        indexed && (!shifts || self.frame.family == Family::Periodic)
    }

    /// Whether it can take such symmetries of the box of these coordinates.
    pub(crate) fn has_symmetries_of(&self, symmetries: Symmetries, coords: &[Channel]) -> bool {
        let ends = coords.iter().map(|c| c.range.unwrap_or([f64::NAN; 2]));
        self.frame.is_box(ends) && self.has_symmetries(symmetries.shifts)
    }

    /// Takes the coefficients of functions (one after the other) to those of their images: f'(x') = ±f(x).
    pub(crate) fn transform(&self, coefs: &mut [f32], symmetry: &Symmetry) {
        let transfers = self.transfers(symmetry);
        let mut before = vec![0.0; self.len()];
        for own in coefs.chunks_exact_mut(self.len()) {
            before.copy_from_slice(own);
            for t in &transfers {
                let a = before[t.from];
                own[t.to] = a * t.cos;
                if let Some(sign) = t.pair {
                    let b = before[t.from + 1];
                    own[t.to] -= b * t.sin;
                    own[t.to + 1] = (a * t.sin + b * t.cos) * sign;
                }
            }
        }
        symmetry.turn_sign(coefs);
    }

    fn transfers(&self, symmetry: &Symmetry) -> Vec<Transfer> {
        let (family, axes) = (self.frame.family, &symmetry.axes);
        let cosines = self.waves.iter().enumerate().filter(|(_, w)| !w.1);
        let transfer = |(from, (k, _)): (usize, &(Vec<i32>, bool))| {
            let to = || axes.iter().map(|axis| (k[axis.from], axis.flip));
            if family != Family::Periodic {
                let odd =
                    |(k, flip): &(i32, bool)| *flip && (k % 2 == 1) != (family == Family::Sine);
                let negative = to().filter(odd).count() % 2 == 1;
                return Transfer {
                    from,
                    to: self.index[self.place(to().map(|(k, _)| k))] as usize,
                    cos: if negative { -1.0 } else { 1.0 },
                    sin: 0.0,
                    pair: None,
                };
            }
            let to = || to().map(|(k, flip)| if flip { -k } else { k });
            let shift: f64 = to().zip(axes).map(|(k, axis)| k as f64 * axis.shift).sum();
            let (sin, cos) = (2.0 * PI * shift).sin_cos();
            // The other half-space has the same cosine and minus the sine.
            let sign = to().find(|k| *k != 0).unwrap_or(0).signum();
            Transfer {
                from,
                to: self.index[self.place(to().map(|k| if sign < 0 { -k } else { k }))] as usize,
                cos: cos as f32,
                sin: sin as f32,
                // The sine of a wave follows its cosine; the constant has none.
                pair: (sign != 0).then_some(sign as f32),
            }
        };
        cosines.map(transfer).collect()
    }

    /// Mean square of every function over the box.
    pub(crate) fn mean_squares(&self) -> Vec<f64> {
        let mean_square = |(k, _): &(Vec<i32>, bool)| {
            let space = k.len() - (self.frame.times > 0) as usize;
            let waves = k[..space].iter().filter(|v| **v != 0).count() as i32;
            match self.frame.family {
                Family::Periodic => 0.5f64.powi(waves.min(1)),
                Family::Cosine | Family::Sine => 0.5f64.powi(waves),
                Family::Legendre => 1.0,
            }
        };
        self.waves.iter().map(mean_square).collect()
    }

    /// Values of all functions at points (`d` numbers each): one row a point, `stride` apart, zero beyond the
    /// functions.
    pub(crate) fn evaluate(&self, coords: &[f32], stride: usize) -> Vec<f32> {
        let dim = self.frame.lo.len();
        let mut values = vec![0.0; coords.len() / dim * stride];
        values
            .par_chunks_mut(BLOCK * stride)
            .zip(coords.par_chunks(BLOCK * dim))
            .for_each(|(values, coords)| {
                let mut tables = vec![[0.0f32; 2]; dim * self.side()];
                for (row, point) in values.chunks_mut(stride).zip(coords.chunks(dim)) {
                    self.fill_tables(point, &mut tables);
                    self.fill_row(&tables, &mut row[..self.waves.len()]);
                }
            });
        values
    }

    /// Entries of an axis' table: k = -reach..=reach.
    fn side(&self) -> usize {
        2 * self.reach + 1
    }

    /// The one-dimensional functions of every axis at a point: the value, or cosine and sine.
    fn fill_tables(&self, point: &[f32], tables: &mut [[f32; 2]]) {
        let reach = self.reach;
        for (axis, table) in tables.chunks_mut(self.side()).enumerate() {
            let (lo, hi) = (self.frame.lo[axis], self.frame.hi[axis]);
            let x = (point[axis] as f64 - lo) / (hi - lo);
            match self.family(axis) {
                Family::Legendre => {
                    let z = 2.0 * x - 1.0;
                    let (mut before, mut now) = (0.0, 1.0);
                    for (k, entry) in table[reach..].iter_mut().enumerate() {
                        let n = k as f64;
                        entry[0] = ((2.0 * n + 1.0).sqrt() * now) as f32;
                        (before, now) = (now, ((2.0 * n + 1.0) * z * now - n * before) / (n + 1.0));
                    }
                }
                family => {
                    let turn = if family == Family::Periodic {
                        2.0 * PI
                    } else {
                        PI
                    };
                    let (sin, cos) = (turn * x).sin_cos();
                    let mut wave = [1.0, 0.0];
                    for k in 0..=reach {
                        let [c, s] = wave.map(|v| v as f32);
                        table[reach - k] = [c, -s];
                        table[reach + k] = match family {
                            Family::Sine => [s, 0.0],
                            _ => [c, s],
                        };
                        wave = [wave[0] * cos - wave[1] * sin, wave[0] * sin + wave[1] * cos];
                    }
                }
            }
        }
    }

    fn fill_row(&self, tables: &[[f32; 2]], row: &mut [f32]) {
        let dim = self.frame.lo.len();
        let places = self.places.chunks_exact(dim);
        if self.frame.family == Family::Periodic {
            for ((value, places), (_, sine)) in row.iter_mut().zip(places).zip(&self.waves) {
                let mut wave = tables[places[0] as usize];
                for &place in &places[1..] {
                    let [cos, sin] = tables[place as usize];
                    wave = [wave[0] * cos - wave[1] * sin, wave[0] * sin + wave[1] * cos];
                }
                *value = wave[*sine as usize];
            }
            return;
        }
        let at = |place: u32| tables[place as usize][0];
        match dim {
            2 => {
                for (value, p) in row.iter_mut().zip(places) {
                    *value = at(p[0]) * at(p[1]);
                }
            }
            3 => {
                for (value, p) in row.iter_mut().zip(places) {
                    *value = at(p[0]) * at(p[1]) * at(p[2]);
                }
            }
            _ => {
                for (value, p) in row.iter_mut().zip(places) {
                    *value = p.iter().map(|&p| at(p)).product();
                }
            }
        }
    }
}

/// At least so many functions in the order of |k|.
fn first_waves(frame: &Frame, count: usize) -> Vec<(Vec<i32>, bool)> {
    let dim = frame.lo.len() - (frame.times > 0) as usize;
    let mut waves = Vec::new();
    // Grow the box of k until its inscribed ball (or simplex) holds enough functions.
    let mut reach = 1i32;
    while waves.len() < count {
        waves = wave_vectors(dim, reach, frame.family);
        reach += 1;
    }
    waves
}

/// |k|², or the square of the total degree.
fn order(k: &[i32], family: Family) -> i32 {
    match family {
        Family::Legendre => k.iter().sum::<i32>().pow(2),
        _ => k.iter().map(|v| v * v).sum(),
    }
}

/// k within reach, in order.
fn wave_vectors(dim: usize, reach: i32, family: Family) -> Vec<(Vec<i32>, bool)> {
    let periodic = family == Family::Periodic;
    let lowest = match family {
        Family::Periodic => -reach,
        Family::Cosine | Family::Legendre => 0,
        Family::Sine => 1,
    };
    // Axis by axis, leaving out at once what is beyond reach or, of waves, in the other half-space.
    let mut inside = vec![Vec::new()];
    for _ in 0..dim {
        let longer = inside.iter().flat_map(|k: &Vec<i32>| {
            let first = periodic && k.iter().all(|v| *v == 0);
            let ends = if first { 0..=reach } else { lowest..=reach };
            ends.map(|next| [&k[..], &[next]].concat())
        });
        inside = longer
            .filter(|k| order(k, family) <= reach * reach)
            .collect();
    }
    let mut all = Vec::new();
    for k in inside {
        let length = order(&k, family);
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
    use crate::spaces::symmetry::Axis;

    /// The constant, and the first wave along each of twenty axes.
    #[test]
    fn many_axes_are_no_trouble() {
        let basis = basis(Family::Periodic, 20, 41);
        assert_eq!(basis.orders()[0], 0.0);
        assert!(basis.orders()[1..].iter().all(|k| *k == 1.0));
    }

    fn basis(family: Family, dim: usize, count: usize) -> Basis {
        let frame = Frame {
            lo: vec![-1.0; dim],
            hi: vec![3.0; dim],
            family,
            times: 0,
        };
        Basis::new(frame, count)
    }

    /// Midpoints integrate products of trigonometric functions exactly, those of polynomials nearly.
    fn gram(basis: &Basis, dim: usize, n: usize) -> Vec<f64> {
        let points: Vec<f32> = (0..n.pow(dim as u32))
            .flat_map(|p| {
                (0..dim)
                    .map(move |i| -1.0 + 4.0 * ((p / n.pow(i as u32) % n) as f32 + 0.5) / n as f32)
            })
            .collect();
        let (rows, count) = (points.len() / dim, basis.len());
        let mut gram = vec![0.0; count * count];
        for row in basis.evaluate(&points, count).chunks(count) {
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
        use Family::*;
        for (family, dim, count) in [
            (Periodic, 1, 9),
            (Periodic, 2, 25),
            (Cosine, 1, 8),
            (Cosine, 2, 20),
            (Periodic, 3, 15),
            (Cosine, 3, 15),
            (Sine, 2, 12),
            (Legendre, 1, 6),
            (Legendre, 2, 10),
        ] {
            let basis = basis(family, dim, count);
            let (n, tolerance) = if family == Legendre {
                (200, 5e-3)
            } else {
                (24, 1e-5)
            };
            let gram = gram(&basis, dim, n);
            if family != Sine {
                assert!((gram[0] - 1.0).abs() < 1e-5);
            }
            let squares = basis.mean_squares();
            for i in 0..count {
                for j in 0..count {
                    let wanted = if i == j { squares[i] } else { 0.0 };
                    let value = gram[i * count + j];
                    assert!(
                        (value - wanted).abs() < tolerance,
                        "{family:?} {i} {j}: {value}"
                    );
                }
            }
        }
    }

    /// The moved function at the moved place is the function at the place.
    #[test]
    fn coefficients_move_with_the_axes() {
        let symmetry = |axes: [(usize, bool, f64); 2], negative: bool| Symmetry {
            axes: axes
                .map(|(from, flip, shift)| Axis { from, flip, shift })
                .to_vec(),
            negative,
        };
        let symmetries = [
            symmetry([(0, true, 0.0), (1, false, 0.0)], true),
            symmetry([(1, false, 0.0), (0, false, 0.0)], false),
            symmetry([(1, true, 0.0), (0, true, 0.0)], false),
            symmetry([(1, true, 0.3), (0, false, 0.85)], true),
        ];
        use Family::*;
        for family in [Periodic, Cosine, Sine, Legendre] {
            let frame = basis(family, 2, 1).frame;
            let basis = Basis::whole(frame, 14);
            let n = basis.len();
            let coefs: Vec<f32> = (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect();
            for symmetry in &symmetries {
                let shifts = symmetry.axes.iter().any(|axis| axis.shift > 0.0);
                if !basis.has_symmetries(shifts) {
                    continue;
                }
                let mut image = coefs.clone();
                basis.transform(&mut image, symmetry);
                for place in [[-0.6, 1.8], [0.8, -0.2]] {
                    let mut went = place;
                    symmetry.move_point(&mut went, &[[-1.0, 3.0]; 2]);
                    let value = |coefs: &[f32], at: [f32; 2]| -> f32 {
                        let row = basis.evaluate(&at, n);
                        row.iter().zip(coefs).map(|(f, c)| f * c).sum()
                    };
                    let mut before = [value(&coefs, place)];
                    symmetry.turn_sign(&mut before);
                    let after = value(&image, went);
                    assert!(
                        (before[0] - after).abs() < 1e-3,
                        "{family:?} {symmetry:?}: {before:?} {after}"
                    );
                }
            }
        }
    }

    /// With times, every function of the other axes comes with every polynomial of the last.
    #[test]
    fn time_has_functions_of_its_own() {
        let frame = Frame {
            times: 3,
            ..basis(Family::Cosine, 3, 1).frame
        };
        let (timed, space) = (Basis::new(frame, 15), basis(Family::Cosine, 2, 5));
        let (x, y, t) = (0.3, 1.2, 2.0);
        let row = timed.evaluate(&[x, y, t], 15);
        let places = space.evaluate(&[x, y], 5);
        let z = 2.0 * (t + 1.0) / 4.0 - 1.0;
        let polynomials = [1.0, 3f32.sqrt() * z, 5f32.sqrt() * (1.5 * z * z - 0.5)];
        for (i, value) in row.iter().enumerate() {
            let wanted = places[i / 3] * polynomials[i % 3];
            assert!((value - wanted).abs() < 1e-5, "{i}: {value} {wanted}");
        }
    }

    #[test]
    fn sines_vanish_on_the_boundary_and_waves_repeat() {
        let sines = basis(Family::Sine, 2, 9).evaluate(&[-1.0, 0.3, 3.0, 2.0, 0.5, 3.0], 9);
        assert!(sines.iter().all(|v| v.abs() < 1e-6));
        let waves = basis(Family::Periodic, 2, 13).evaluate(&[-0.7, 0.2, 3.3, 4.2], 13);
        assert!(
            waves[..13]
                .iter()
                .zip(&waves[13..])
                .all(|(a, b)| (a - b).abs() < 1e-5)
        );
    }
}
