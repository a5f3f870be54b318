//! The lowest frequencies of functions on an n1 × n2 grid with C channels, and back.
//!
//! With few frequencies the transforms are products with small matrices. Cosines are even and sines odd, so that
//! a function is folded first,
//!
//!   Σ_j x_j cos(kj) = Σ_{j ≤ n/2} (x_j + x_{-j}) cos(kj),   Σ_j x_j sin(kj) = Σ_{0 < j < n/2} (x_j - x_{-j}) sin(kj),
//!
//! (x_0 and x_{n/2}, their own mirror images, count once), and ±k share their sums: with z = x + iy,
//!
//!   ẑ_{±k} = Σ x cos ± Σ y sin + i (Σ y cos ∓ Σ x sin).
//!
//! The way back is the transpose.

use std::f64::consts::TAU;
use std::ops::Range;

use crate::arena::Buffer;
use crate::isa::{Isa, dispatch};
use crate::product::{Matrix, product};
use crate::simd::Simd;

pub(crate) struct Dft {
    isa: Isa,
    grid: [usize; 2],
    modes: usize,
    channels: usize,
    /// Along the columns: as it is, and with the weights of a real inverse transform (1, 2, 2, …, over n1·n2).
    pub columns: Folded,
    pub scaled: Folded,
    rows: Folded,
}

/// Cosines and sines of some frequencies on the folded circle.
pub(crate) struct Folded {
    n: usize,
    cos: Waves,
    sin: Waves,
    cos_back: Waves,
    sin_back: Waves,
}

struct Waves {
    rows: usize,
    columns: usize,
    numbers: Vec<f32>,
}

impl Waves {
    fn transposed(&self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            numbers: transposed(&self.numbers, self.columns),
        }
    }
}

pub(crate) fn transpose(matrix: &[f32], columns: usize, out: &mut [f32]) {
    if matrix.is_empty() {
        return;
    }
    let rows = matrix.len() / columns;
    for (j, column) in out.chunks_exact_mut(rows).enumerate() {
        for (i, v) in column.iter_mut().enumerate() {
            *v = matrix[i * columns + j];
        }
    }
}

pub(crate) fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    let mut out = vec![0.0; matrix.len()];
    transpose(matrix, columns, &mut out);
    out
}

impl Folded {
    /// Cosines and sines of these frequencies, times the `weight` of the frequency; the sines also times `sign`.
    fn new(
        n: usize,
        [cosines, sines]: [Range<usize>; 2],
        sign: f32,
        weight: impl Fn(usize) -> f32,
    ) -> Self {
        let angles = (0..n).map(|j| TAU * j as f64 / n as f64);
        let circle: Vec<[f32; 2]> = angles.map(|a| [a.cos() as f32, a.sin() as f32]).collect();
        let (even, odd) = (0..n / 2 + 1, 1..n.div_ceil(2));
        let numbers = |waves: Range<usize>, places: &Range<usize>, part: usize, sign: f32| {
            let row = |k: usize| {
                let places = places.clone();
                let (weight, circle) = (sign * weight(k), &circle);
                places.map(move |j| weight * circle[k * j % n][part])
            };
            Waves {
                rows: waves.len(),
                columns: places.len(),
                numbers: waves.flat_map(row).collect(),
            }
        };
        let (cos, sin) = (
            numbers(cosines, &even, 0, 1.0),
            numbers(sines, &odd, 1, sign),
        );
        Self {
            n,
            cos_back: cos.transposed(),
            sin_back: sin.transposed(),
            cos,
            sin,
        }
    }

    fn even(&self) -> usize {
        self.n / 2 + 1
    }

    fn odd(&self) -> usize {
        self.n.div_ceil(2) - 1
    }
}

/// `even_0 = x_0`, `even_j = x_j + x_{n-j}`, `odd_j = x_j - x_{n-j}`, for rows of `width` floats.
#[inline(always)]
fn fold_generic<S: Simd>(s: S, x: &[f32], width: usize, even: &mut [f32], odd: &mut [f32]) {
    let n = x.len() / width;
    let row = |j: usize| &x[j * width..][..width];
    even[..width].copy_from_slice(row(0));
    let pairs = even[width..]
        .chunks_exact_mut(width)
        .zip(odd.chunks_exact_mut(width));
    for (j, (sum, difference)) in (1..n.div_ceil(2)).zip(pairs) {
        let (a, b) = (
            row(j).chunks_exact(S::LANES),
            row(n - j).chunks_exact(S::LANES),
        );
        let to = sum
            .chunks_exact_mut(S::LANES)
            .zip(difference.chunks_exact_mut(S::LANES));
        for ((a, b), (sum, difference)) in a.zip(b).zip(to) {
            let (a, b) = (s.load(a), s.load(b));
            s.store(sum, s.add(a, b));
            s.store(difference, s.fnma(s.splat(1.0), b, a));
        }
    }
    if n.is_multiple_of(2) {
        even[n / 2 * width..][..width].copy_from_slice(row(n / 2));
    }
}
dispatch!(fn fold = fold_generic(x: &[f32], width: usize, even: &mut [f32], odd: &mut [f32]));

/// Not a closure: that would be compiled without the instructions of S.
#[inline(always)]
fn put<S: Simd>(s: S, to: &mut [f32], v: S::V, add: bool) {
    let v = if add { s.add(s.load(to), v) } else { v };
    s.store(to, v);
}

/// The transpose: `x_j (+)= even_j + odd_j`, `x_{n-j} (+)= even_j - odd_j`.
#[inline(always)]
fn unfold_generic<S: Simd>(
    s: S,
    even: &[f32],
    odd: &[f32],
    width: usize,
    x: &mut [f32],
    add: bool,
) {
    let n = x.len() / width;
    // Rows without a mirror image.
    let alone = if n.is_multiple_of(2) {
        &[0, n / 2][..]
    } else {
        &[0]
    };
    for j in alone {
        let to = x[j * width..][..width].chunks_exact_mut(S::LANES);
        for (to, from) in to.zip(even[j * width..].chunks_exact(S::LANES)) {
            put(s, to, s.load(from), add);
        }
    }
    for j in 1..n.div_ceil(2) {
        let (low, high) = x.split_at_mut((n - j) * width);
        let to = low[j * width..][..width].chunks_exact_mut(S::LANES);
        let mirrored = high[..width].chunks_exact_mut(S::LANES);
        let even = even[j * width..][..width].chunks_exact(S::LANES);
        let odd = odd[(j - 1) * width..][..width].chunks_exact(S::LANES);
        for ((to, mirrored), (e, o)) in to.zip(mirrored).zip(even.zip(odd)) {
            let (e, o) = (s.load(e), s.load(o));
            put(s, to, s.add(e, o), add);
            put(s, mirrored, s.fnma(s.splat(1.0), o, e), add);
        }
    }
}
dispatch!(fn unfold = unfold_generic(even: &[f32], odd: &[f32], width: usize, x: &mut [f32], add: bool));

/// `sum = a + b` and `difference = a - b`, of few numbers.
fn sum_and_difference(a: &[f32], b: &[f32], sum: &mut [f32], difference: &mut [f32]) {
    let pairs = a.iter().zip(b);
    for ((a, b), (sum, difference)) in pairs.zip(sum.iter_mut().zip(difference)) {
        (*sum, *difference) = (a + b, a - b);
    }
}

/// What the transform of one sample needs.
pub(crate) struct Scratch {
    /// A row of the grid, folded.
    even: Buffer,
    odd: Buffer,
    /// Real, then imaginary parts of the frequencies along the columns, for every row; and folded.
    half: Buffer,
    half_even: Buffer,
    half_odd: Buffer,
    /// Sums with cosines (frequencies 0 to modes) and with sines (1 to modes) along the rows.
    cosines: Buffer,
    sines: Buffer,
}

impl Dft {
    pub fn new(isa: Isa, grid: [usize; 2], modes: usize, channels: usize) -> Self {
        let [n1, n2] = grid;
        let scale = |k: usize| if k == 0 { 1.0 } else { 2.0 } / (n1 * n2) as f32;
        let low = [0..modes, 0..modes];
        Self {
            isa,
            grid,
            modes,
            channels,
            columns: Folded::new(n2, low.clone(), -1.0, |_| 1.0),
            scaled: Folded::new(n2, low, -1.0, scale),
            rows: Folded::new(n1, [0..modes + 1, 1..modes + 1], 1.0, |_| 1.0),
        }
    }

    /// Floats of a row of `half`.
    fn line(&self) -> usize {
        2 * self.modes * self.channels
    }

    pub fn scratch(&self) -> Scratch {
        let (c, line) = (self.channels, self.line());
        Scratch {
            even: Buffer::take(self.columns.even() * c),
            odd: Buffer::take(self.columns.odd() * c),
            half: Buffer::take(self.grid[0] * line),
            half_even: Buffer::take(self.rows.even() * line),
            half_odd: Buffer::take(self.rows.odd() * line),
            cosines: Buffer::take((self.modes + 1) * line),
            sines: Buffer::take(self.modes * line),
        }
    }

    /// `out = M X` for rows of `width` floats.
    fn apply(&self, m: &Waves, x: &[f32], out: &mut [f32], width: usize) {
        let matrix = Matrix {
            numbers: &m.numbers,
            row: m.columns,
            step: 1,
            rows: m.rows,
            terms: m.columns,
        };
        product(self.isa, matrix, (x, width), (out, width), width, false);
    }

    /// From the grid to the spectrum. `place(row, column)` is where a frequency goes, real, then imaginary
    /// channels; rows are 0..modes, then -modes..0.
    pub fn analyse<'a>(
        &self,
        columns: &Folded,
        x: &[f32],
        place: impl Fn(usize, usize) -> &'a mut [f32],
        scratch: &mut Scratch,
    ) {
        let (isa, [n1, n2]) = (self.isa, self.grid);
        let (m, c, line) = (self.modes, self.channels, self.line());
        let rows = x[..n1 * n2 * c].chunks_exact(n2 * c);
        for (x, half) in rows.zip(scratch.half.chunks_exact_mut(line)) {
            fold(isa, x, c, &mut scratch.even, &mut scratch.odd);
            let (re, im) = half.split_at_mut(m * c);
            self.apply(&columns.cos, &scratch.even, re, c);
            self.apply(&columns.sin, &scratch.odd, im, c);
        }
        fold(
            isa,
            &scratch.half,
            line,
            &mut scratch.half_even,
            &mut scratch.half_odd,
        );
        self.apply(
            &self.rows.cos,
            &scratch.half_even,
            &mut scratch.cosines,
            line,
        );
        self.apply(&self.rows.sin, &scratch.half_odd, &mut scratch.sines, line);
        // What has no mirror image is put where nothing is read.
        let nowhere = &mut scratch.even;
        for k in 0..m {
            let part = |f: usize, at: usize| f * line + at..f * line + at + c;
            let (re, im) = (k * c, (m + k) * c);
            let (zero_re, zero_im) = place(0, k).split_at_mut(c);
            let (cosines, sines) = (&scratch.cosines[..], &scratch.sines[..]);
            zero_re.copy_from_slice(&cosines[part(0, re)]);
            zero_im.copy_from_slice(&cosines[part(0, im)]);
            for f in 1..=m {
                let cos = [re, im].map(|at| &cosines[part(f, at)]);
                let sin = [re, im].map(|at| &sines[part(f - 1, at)]);
                let (negative_re, negative_im) = place(2 * m - f, k).split_at_mut(c);
                let positive = match f < m {
                    true => place(f, k),
                    false => &mut nowhere[..2 * c],
                };
                let (positive_re, positive_im) = positive.split_at_mut(c);
                sum_and_difference(cos[0], sin[1], positive_re, negative_re);
                sum_and_difference(cos[1], sin[0], negative_im, positive_im);
            }
        }
    }

    /// The transpose: from the spectrum to the grid, added to what is there.
    pub fn synthesise<'a>(
        &self,
        columns: &Folded,
        place: impl Fn(usize, usize) -> &'a [f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (isa, [n1, n2]) = (self.isa, self.grid);
        let (m, c, line) = (self.modes, self.channels, self.line());
        for k in 0..m {
            let (re, im) = (k * c, (m + k) * c);
            let (zero_re, zero_im) = place(0, k).split_at(c);
            scratch.cosines[re..][..c].copy_from_slice(zero_re);
            scratch.cosines[im..][..c].copy_from_slice(zero_im);
            for f in 1..=m {
                let cos = &mut scratch.cosines[f * line..][..line];
                let sin = &mut scratch.sines[(f - 1) * line..][..line];
                let (negative_re, negative_im) = place(2 * m - f, k).split_at(c);
                if f < m {
                    let (positive_re, positive_im) = place(f, k).split_at(c);
                    let (to, from) = (&mut cos[re..][..c], &mut sin[im..][..c]);
                    sum_and_difference(positive_re, negative_re, to, from);
                    let (to, from) = (&mut cos[im..][..c], &mut sin[re..][..c]);
                    sum_and_difference(negative_im, positive_im, to, from);
                } else {
                    cos[re..][..c].copy_from_slice(negative_re);
                    cos[im..][..c].copy_from_slice(negative_im);
                    sin[re..][..c].copy_from_slice(negative_im);
                    for (to, v) in sin[im..][..c].iter_mut().zip(negative_re) {
                        *to = -v;
                    }
                }
            }
        }
        self.apply(
            &self.rows.cos_back,
            &scratch.cosines,
            &mut scratch.half_even,
            line,
        );
        self.apply(
            &self.rows.sin_back,
            &scratch.sines,
            &mut scratch.half_odd,
            line,
        );
        let (even, odd) = (&scratch.half_even, &scratch.half_odd);
        unfold(isa, even, odd, line, &mut scratch.half, false);
        let rows = out[..n1 * n2 * c].chunks_exact_mut(n2 * c);
        for (out, half) in rows.zip(scratch.half.chunks_exact(line)) {
            let (re, im) = half.split_at(m * c);
            self.apply(&columns.cos_back, re, &mut scratch.even, c);
            self.apply(&columns.sin_back, im, &mut scratch.odd, c);
            unfold(isa, &scratch.even, &scratch.odd, c, out, true);
        }
    }
}
