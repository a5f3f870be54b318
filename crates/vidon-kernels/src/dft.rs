//! The lowest frequencies of functions on a grid of one, two or three axes with C channels, and back: along
//! the last axis (the columns) those of real numbers, 0 to modes - 1; then along the others (the rows), the
//! last of them first, those of complex numbers, 0 to modes - 1 and -modes to -1.
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

use crate::arena::{Buffer, Shared};
use crate::isa::{Isa, dispatch};
use crate::product::{Matrix, product};
use crate::simd::Simd;

pub(crate) struct Dft {
    isa: Isa,
    modes: usize,
    channels: usize,
    /// Along the columns: as it is, and with the weights of a real inverse transform (1, 2, 2, …, over all
    /// points).
    pub columns: Folded,
    pub scaled: Folded,
    /// Along the other axes, the last of them first.
    rows: Vec<Folded>,
}

/// Where the real and the imaginary channels of the k-th frequency so far are in a line: from k·step, and
/// `gap` further on.
#[derive(Clone, Copy)]
struct Line {
    count: usize,
    step: usize,
    gap: usize,
}

impl Line {
    fn parts(self, k: usize) -> [usize; 2] {
        [k * self.step, k * self.step + self.gap]
    }

    fn len(self, channels: usize) -> usize {
        2 * self.count * channels
    }
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
    /// The frequencies along the columns, real, then imaginary parts, for every row.
    half: Buffer,
    /// For every axis of rows.
    stages: Vec<Stage>,
}

/// What the transform along an axis of rows needs.
struct Stage {
    /// Lines, folded.
    even: Buffer,
    odd: Buffer,
    /// Sums with cosines (frequencies 0 to modes) and with sines (1 to modes).
    cosines: Buffer,
    sines: Buffer,
    /// The lines that the next axis sees, one for every point of it; none for the last.
    planes: Buffer,
}

impl Dft {
    pub fn new(isa: Isa, grid: &[usize], modes: usize, channels: usize) -> Self {
        let points: usize = grid.iter().product();
        let scale = |k: usize| if k == 0 { 1.0 } else { 2.0 } / points as f32;
        let (columns, others) = grid.split_last().expect("a grid has an axis");
        let low = [0..modes, 0..modes];
        let rows = |n: &usize| Folded::new(*n, [0..modes + 1, 1..modes + 1], 1.0, |_| 1.0);
        Self {
            isa,
            modes,
            channels,
            columns: Folded::new(*columns, low.clone(), -1.0, |_| 1.0),
            scaled: Folded::new(*columns, low, -1.0, scale),
            rows: others.iter().rev().map(rows).collect(),
        }
    }

    /// The lines that the axis of rows `stage` sees.
    fn line(&self, stage: usize) -> Line {
        let (m, c) = (self.modes, self.channels);
        match stage {
            0 => Line {
                count: m,
                step: c,
                gap: m * c,
            },
            _ => Line {
                count: m * (2 * m).pow(stage as u32),
                step: 2 * c,
                gap: c,
            },
        }
    }

    pub fn scratch(&self) -> Scratch {
        let c = self.channels;
        let stage = |i: usize| {
            let (rows, width) = (&self.rows[i], self.line(i).len(c));
            let next = self.rows.get(i + 1).map_or(0, |next| next.n);
            Stage {
                even: Buffer::take(rows.even() * width),
                odd: Buffer::take(rows.odd() * width),
                cosines: Buffer::take((self.modes + 1) * width),
                sines: Buffer::take(self.modes * width),
                planes: Buffer::take(next * self.line(i + 1).len(c)),
            }
        };
        // Lines of the first axis of rows, or of no rows at all.
        let lines = self.rows.first().map_or(1, |rows| rows.n);
        Scratch {
            even: Buffer::take(self.columns.even() * c),
            odd: Buffer::take(self.columns.odd() * c),
            half: Buffer::take(lines * self.line(0).len(c)),
            stages: (0..self.rows.len()).map(stage).collect(),
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

    /// From the grid to the spectrum of one sample: `place` says where the numbers of a frequency go, first
    /// the real, then the imaginary channels. Frequencies are counted axis by axis, the last axis fastest.
    pub fn analyse<'a>(
        &self,
        columns: &Folded,
        x: &[f32],
        place: impl Fn(usize) -> &'a mut [f32],
        scratch: &mut Scratch,
    ) {
        let (m, c) = (self.modes, self.channels);
        let (line, row) = (self.line(0).len(c), columns.n * c);
        let Scratch {
            even,
            odd,
            half,
            stages,
        } = scratch;
        let mut columns_of = |x: &[f32], half: &mut [f32]| {
            for (x, half) in x.chunks_exact(row).zip(half.chunks_exact_mut(line)) {
                fold(self.isa, x, c, even, odd);
                let (re, im) = half.split_at_mut(m * c);
                self.apply(&columns.cos, even, re, c);
                self.apply(&columns.sin, odd, im, c);
            }
        };
        match &mut stages[..] {
            [] => {
                columns_of(x, half);
                for k in 0..m {
                    let (re, im) = place(k).split_at_mut(c);
                    let [from_re, from_im] = self.line(0).parts(k);
                    re.copy_from_slice(&half[from_re..][..c]);
                    im.copy_from_slice(&half[from_im..][..c]);
                }
            }
            [only] => {
                columns_of(x, half);
                self.rows_in(0, half, place, only);
            }
            [first, second] => {
                let plane = self.line(1).len(c);
                let mut planes = std::mem::replace(&mut first.planes, Buffer::take(0));
                let slabs = x.chunks_exact(self.rows[0].n * row);
                for (x, plane) in slabs.zip(planes.chunks_exact_mut(plane)) {
                    columns_of(x, half);
                    let shared = Shared::new(plane);
                    // SAFETY: every frequency has a place of its own, asked for once.
                    let place = |wave: usize| unsafe { shared.part(wave * 2 * c, 2 * c) };
                    self.rows_in(0, half, place, first);
                }
                self.rows_in(1, &planes, place, second);
                first.planes = planes;
            }
            _ => unreachable!("a grid has at most three axes"),
        }
    }

    /// Along the axis of rows `stage`, from its lines.
    fn rows_in<'a>(
        &self,
        stage: usize,
        half: &[f32],
        place: impl Fn(usize) -> &'a mut [f32],
        scratch: &mut Stage,
    ) {
        let (m, c, rows, line) = (
            self.modes,
            self.channels,
            &self.rows[stage],
            self.line(stage),
        );
        let width = line.len(c);
        fold(self.isa, half, width, &mut scratch.even, &mut scratch.odd);
        self.apply(&rows.cos, &scratch.even, &mut scratch.cosines, width);
        self.apply(&rows.sin, &scratch.odd, &mut scratch.sines, width);
        // What has no mirror image is put where nothing is read.
        let nowhere = &mut scratch.even;
        let (cosines, sines) = (&scratch.cosines[..], &scratch.sines[..]);
        for k in 0..line.count {
            let part = |f: usize, at: usize| f * width + at..f * width + at + c;
            let [re, im] = line.parts(k);
            let (zero_re, zero_im) = place(k).split_at_mut(c);
            zero_re.copy_from_slice(&cosines[part(0, re)]);
            zero_im.copy_from_slice(&cosines[part(0, im)]);
            for f in 1..=m {
                let cos = [re, im].map(|at| &cosines[part(f, at)]);
                let sin = [re, im].map(|at| &sines[part(f - 1, at)]);
                let (negative_re, negative_im) =
                    place((2 * m - f) * line.count + k).split_at_mut(c);
                let positive = match f < m {
                    true => place(f * line.count + k),
                    false => &mut nowhere[..2 * c],
                };
                let (positive_re, positive_im) = positive.split_at_mut(c);
                sum_and_difference(cos[0], sin[1], positive_re, negative_re);
                sum_and_difference(cos[1], sin[0], negative_im, positive_im);
            }
        }
    }

    /// The transpose of [`analyse`](Self::analyse), added to what is in `out`.
    pub fn synthesise<'a>(
        &self,
        columns: &Folded,
        place: impl Fn(usize) -> &'a [f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (m, c) = (self.modes, self.channels);
        let (line, row) = (self.line(0).len(c), columns.n * c);
        let Scratch {
            even,
            odd,
            half,
            stages,
        } = scratch;
        let mut columns_of = |half: &[f32], out: &mut [f32]| {
            for (out, half) in out.chunks_exact_mut(row).zip(half.chunks_exact(line)) {
                let (re, im) = half.split_at(m * c);
                self.apply(&columns.cos_back, re, even, c);
                self.apply(&columns.sin_back, im, odd, c);
                unfold(self.isa, even, odd, c, out, true);
            }
        };
        match &mut stages[..] {
            [] => {
                for k in 0..m {
                    let (re, im) = place(k).split_at(c);
                    let [to_re, to_im] = self.line(0).parts(k);
                    half[to_re..][..c].copy_from_slice(re);
                    half[to_im..][..c].copy_from_slice(im);
                }
                columns_of(half, out);
            }
            [only] => {
                self.rows_out(0, place, half, only);
                columns_of(half, out);
            }
            [first, second] => {
                let plane = self.line(1).len(c);
                let mut planes = std::mem::replace(&mut first.planes, Buffer::take(0));
                self.rows_out(1, place, &mut planes, second);
                let slabs = out.chunks_exact_mut(self.rows[0].n * row);
                for (out, plane) in slabs.zip(planes.chunks_exact(plane)) {
                    self.rows_out(0, |wave| &plane[wave * 2 * c..][..2 * c], half, first);
                    columns_of(half, out);
                }
                first.planes = planes;
            }
            _ => unreachable!("a grid has at most three axes"),
        }
    }

    /// The transpose of [`rows_in`](Self::rows_in).
    fn rows_out<'a>(
        &self,
        stage: usize,
        place: impl Fn(usize) -> &'a [f32],
        half: &mut [f32],
        scratch: &mut Stage,
    ) {
        let (m, c, rows, line) = (
            self.modes,
            self.channels,
            &self.rows[stage],
            self.line(stage),
        );
        let width = line.len(c);
        for k in 0..line.count {
            let [re, im] = line.parts(k);
            let (zero_re, zero_im) = place(k).split_at(c);
            scratch.cosines[re..][..c].copy_from_slice(zero_re);
            scratch.cosines[im..][..c].copy_from_slice(zero_im);
            for f in 1..=m {
                let cos = &mut scratch.cosines[f * width..][..width];
                let sin = &mut scratch.sines[(f - 1) * width..][..width];
                let (negative_re, negative_im) = place((2 * m - f) * line.count + k).split_at(c);
                if f < m {
                    let (positive_re, positive_im) = place(f * line.count + k).split_at(c);
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
        self.apply(&rows.cos_back, &scratch.cosines, &mut scratch.even, width);
        self.apply(&rows.sin_back, &scratch.sines, &mut scratch.odd, width);
        unfold(self.isa, &scratch.even, &scratch.odd, width, half, false);
    }
}
