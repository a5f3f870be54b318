//! The lowest frequencies of functions on an n1 × n2 grid with C channels, and back.
//!
//! With few frequencies the transforms are products with small matrices. Cosines are even and sines odd, so that a function is folded first,
//!
//!   Σ_j x_j cos(kj) = Σ_{j ≤ n/2} (x_j + x_{-j}) cos(kj),   Σ_j x_j sin(kj) = Σ_{0 < j < n/2} (x_j - x_{-j}) sin(kj),
//!
//! (x_0 and x_{n/2}, their own mirror images, count once), and ±k share their sums: with z = x + iy,   ẑ_{±k} = Σ x cos ± Σ y sin + i (Σ y cos ∓ Σ x sin).   The way back is the transpose.

use std::f64::consts::TAU;
use std::ops::Range;

use crate::arena::Buffer;
use crate::isa::{Isa, dispatch};
use crate::product::{Product, product};
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
    cos: Matrix,
    sin: Matrix,
    cos_back: Matrix,
    sin_back: Matrix,
}

struct Matrix {
    rows: usize,
    columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
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
            Matrix {
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
unsafe fn fold_generic<S: Simd>(
    n: usize,
    width: usize,
    x: *const f32,
    line: usize,
    even: *mut f32,
    odd: *mut f32,
) {
    unsafe {
        even.copy_from_nonoverlapping(x, width);
        for j in 1..n.div_ceil(2) {
            let (a, b) = (x.add(j * line), x.add((n - j) * line));
            let (sum, difference) = (even.add(j * width), odd.add((j - 1) * width));
            sum_and_difference_generic::<S>(width, a, b, sum, difference);
        }
        if n.is_multiple_of(2) {
            let middle = even.add(n / 2 * width);
            middle.copy_from_nonoverlapping(x.add(n / 2 * line), width);
        }
    }
}
dispatch!(unsafe fn fold = fold_generic(n: usize, width: usize, x: *const f32, line: usize, even: *mut f32, odd: *mut f32));

/// The transpose: `x_j (+)= even_j + odd_j`, `x_{n-j} (+)= even_j - odd_j`.
#[inline(always)]
unsafe fn unfold_generic<S: Simd>(
    n: usize,
    width: usize,
    even: *const f32,
    odd: *const f32,
    x: *mut f32,
    line: usize,
    add: bool,
) {
    unsafe {
        let put = |to: *mut f32, v: S::V| {
            let v = if add { S::add(S::load(to), v) } else { v };
            S::store(to, v);
        };
        for i in (0..width).step_by(S::LANES) {
            put(x.add(i), S::load(even.add(i)));
            if n.is_multiple_of(2) {
                let middle = n / 2;
                put(
                    x.add(middle * line + i),
                    S::load(even.add(middle * width + i)),
                );
            }
        }
        for j in 1..n.div_ceil(2) {
            let (to, mirrored) = (x.add(j * line), x.add((n - j) * line));
            for i in (0..width).step_by(S::LANES) {
                let e = S::load(even.add(j * width + i));
                let o = S::load(odd.add((j - 1) * width + i));
                put(to.add(i), S::add(e, o));
                put(mirrored.add(i), S::fnma(S::splat(1.0), o, e));
            }
        }
    }
}
dispatch!(unsafe fn unfold = unfold_generic(n: usize, width: usize, even: *const f32, odd: *const f32, x: *mut f32, line: usize, add: bool));

/// `sum = a + b` and `difference = a - b`
#[inline(always)]
unsafe fn sum_and_difference_generic<S: Simd>(
    width: usize,
    a: *const f32,
    b: *const f32,
    sum: *mut f32,
    difference: *mut f32,
) {
    unsafe {
        for i in (0..width).step_by(S::LANES) {
            let (a, b) = (S::load(a.add(i)), S::load(b.add(i)));
            S::store(sum.add(i), S::add(a, b));
            S::store(difference.add(i), S::fnma(S::splat(1.0), b, a));
        }
    }
}
dispatch!(unsafe fn sum_and_difference = sum_and_difference_generic(width: usize, a: *const f32, b: *const f32, sum: *mut f32, difference: *mut f32));

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
    unsafe fn apply(&self, m: &Matrix, x: *const f32, out: *mut f32, width: usize) {
        let p = Product {
            matrix: m.numbers.as_ptr(),
            row: m.columns,
            step: 1,
            rows: m.rows,
            terms: m.columns,
            x,
            x_line: width,
            out,
            out_line: width,
            width,
            add: false,
        };
        unsafe { product(self.isa, &p) }
    }

    /// From the grid to the spectrum. `place(row, column)` is where a frequency goes, real, then imaginary channels; rows are 0..modes, then
    /// -modes..0.
    pub unsafe fn analyse(
        &self,
        columns: &Folded,
        x: *const f32,
        place: impl Fn(usize, usize) -> *mut f32,
        scratch: &mut Scratch,
    ) {
        let ([n1, n2], m, c, line) = (self.grid, self.modes, self.channels, self.line());
        unsafe {
            for i in 0..n1 {
                let (even, odd) = (scratch.even.ptr(), scratch.odd.ptr());
                fold(self.isa, n2, c, x.add(i * n2 * c), c, even, odd);
                let half = scratch.half.ptr().add(i * line);
                self.apply(&columns.cos, even, half, c);
                self.apply(&columns.sin, odd, half.add(m * c), c);
            }
            let (even, odd) = (scratch.half_even.ptr(), scratch.half_odd.ptr());
            fold(self.isa, n1, line, scratch.half.ptr(), line, even, odd);
            let (cosines, sines) = (scratch.cosines.ptr(), scratch.sines.ptr());
            self.apply(&self.rows.cos, even, cosines, line);
            self.apply(&self.rows.sin, odd, sines, line);
            // What has no mirror image is put where nothing is read.
            let nowhere = scratch.even.ptr();
            for k in 0..m {
                let (re, im) = (k * c, (m + k) * c);
                let zero = place(0, k);
                zero.copy_from_nonoverlapping(cosines.add(re), c);
                zero.add(c).copy_from_nonoverlapping(cosines.add(im), c);
                for f in 1..=m {
                    let (cos, sin) = (cosines.add(f * line), sines.add((f - 1) * line));
                    let negative = place(2 * m - f, k);
                    let (positive, positive_im) = match f < m {
                        true => (place(f, k), place(f, k).add(c)),
                        false => (nowhere, nowhere),
                    };
                    sum_and_difference(self.isa, c, cos.add(re), sin.add(im), positive, negative);
                    sum_and_difference(
                        self.isa,
                        c,
                        cos.add(im),
                        sin.add(re),
                        negative.add(c),
                        positive_im,
                    );
                }
            }
        }
    }

    /// The transpose: from the spectrum to the grid, added to what is there where `add`.
    pub unsafe fn synthesise(
        &self,
        columns: &Folded,
        place: impl Fn(usize, usize) -> *const f32,
        out: *mut f32,
        add: bool,
        scratch: &mut Scratch,
    ) {
        let ([n1, n2], m, c, line) = (self.grid, self.modes, self.channels, self.line());
        unsafe {
            let (cosines, sines) = (scratch.cosines.ptr(), scratch.sines.ptr());
            for k in 0..m {
                let (re, im) = (k * c, (m + k) * c);
                let zero = place(0, k);
                cosines.add(re).copy_from_nonoverlapping(zero, c);
                cosines.add(im).copy_from_nonoverlapping(zero.add(c), c);
                for f in 1..=m {
                    let (cos, sin) = (cosines.add(f * line), sines.add((f - 1) * line));
                    let negative = place(2 * m - f, k);
                    if f < m {
                        let positive = place(f, k);
                        sum_and_difference(
                            self.isa,
                            c,
                            positive,
                            negative,
                            cos.add(re),
                            sin.add(im),
                        );
                        let (a, b) = (negative.add(c), positive.add(c));
                        sum_and_difference(self.isa, c, a, b, cos.add(im), sin.add(re));
                    } else {
                        cos.add(re).copy_from_nonoverlapping(negative, c);
                        cos.add(im).copy_from_nonoverlapping(negative.add(c), c);
                        sin.add(re).copy_from_nonoverlapping(negative.add(c), c);
                        for i in 0..c {
                            *sin.add(im + i) = -*negative.add(i);
                        }
                    }
                }
            }
            let (even, odd) = (scratch.half_even.ptr(), scratch.half_odd.ptr());
            self.apply(&self.rows.cos_back, cosines, even, line);
            self.apply(&self.rows.sin_back, sines, odd, line);
            unfold(
                self.isa,
                n1,
                line,
                even,
                odd,
                scratch.half.ptr(),
                line,
                false,
            );
            for i in 0..n1 {
                let half = scratch.half.ptr().add(i * line);
                let (even, odd) = (scratch.even.ptr(), scratch.odd.ptr());
                self.apply(&columns.cos_back, half, even, c);
                self.apply(&columns.sin_back, half.add(m * c), odd, c);
                unfold(self.isa, n2, c, even, odd, out.add(i * n2 * c), c, add);
            }
        }
    }
}
