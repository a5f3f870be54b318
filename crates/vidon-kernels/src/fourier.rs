//! A layer of a Fourier neural operator on an n1 × n2 grid with C channels: `y = σ( K x + x Wᵀ + b )`, where K transforms the lowest `modes`
//! frequencies per axis, multiplies each by its complex matrix and transforms back.
//!
//! With few modes the transforms are products with small real matrices, and everything is `out += M X` with M broadcast and rows of X as vectors of
//! channels. With F the transform along the columns, G that along the rows and s the weights of a real inverse transform (1, 2, 2, …, over n1·n2),
//!
//!   K = (F s)ᵀ Gᵀ R G F,   and backward   Kᵀ = Fᵀ Gᵀ Rᵀ G (F s).
//!
//! The complex matrix R = A + iB of a frequency stays as it is stored, real and imaginary parts in turn (A|B). The real and the imaginary part of a
//! spectrum z = x + iy are two rows, multiplied by (A|B) alike and put together afterwards:
//!
//!   x(A|B) = (xA|xB),   y(A|B) = (yA|yB),   zR = xA - yB + i(xB + yA),
//!
//! and backward, with d = e + if coming in and the rows (e|f), (f|-e):   dz = both (A|B)ᵀ,   d(A|B) = xᵀ(e|f) + yᵀ(f|-e).

use std::f64::consts::TAU;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::{Buffer, Shared};
use crate::isa::{Isa, dispatch};
use crate::mlp::products;
use crate::simd::Simd;

/// Sizes of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FourierLayer {
    pub samples: usize,
    pub grid: [usize; 2],
    /// A multiple of 16.
    pub channels: usize,
    pub modes: usize,
    pub activation: Activation,
}

impl FourierLayer {
    fn points(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Frequencies that are kept.
    fn waves(&self) -> usize {
        2 * self.modes * self.modes
    }

    /// Where the spectrum of a sample is, real then imaginary channels: frequency by frequency, so that a frequency's samples are together.
    fn place(&self, row: usize, column: usize, sample: usize) -> usize {
        ((row * self.modes + column) * self.samples + sample) * 2 * self.channels
    }
}

/// The numbers of a layer: R `[2, modes, modes, C, C, 2]` (rows 0..modes and -modes..0; real and imaginary part), W `[C, C]` and b.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    pub spectral: &'a [f32],
    pub point: &'a [f32],
    pub bias: &'a [f32],
}

/// What the way back needs.
pub(crate) struct Kept {
    spectrum: Buffer,
    /// Inputs of the activation.
    inputs: Option<Buffer>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Kept({})", self.spectrum.len())
    }
}

/// The matrices of the transforms.
struct Transforms {
    /// F `[2·modes, n2]`: real parts, then imaginary; and its transpose.
    columns: Vec<f32>,
    columns_back: Vec<f32>,
    /// F s, and its transpose.
    scaled: Vec<f32>,
    scaled_back: Vec<f32>,
    /// G `[4·modes, 2·n1]` over (frequency, part) and (row, part); and its transpose.
    rows: Vec<f32>,
    rows_back: Vec<f32>,
}

fn transpose(matrix: &[f32], columns: usize, out: &mut [f32]) {
    let rows = matrix.len() / columns;
    for (j, column) in out.chunks_exact_mut(rows).enumerate() {
        for (i, v) in column.iter_mut().enumerate() {
            *v = matrix[i * columns + j];
        }
    }
}

fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    let mut out = vec![0.0; matrix.len()];
    transpose(matrix, columns, &mut out);
    out
}

impl Transforms {
    fn new(layer: &FourierLayer) -> Self {
        let ([n1, n2], m) = (layer.grid, layer.modes);
        let circle = |n: usize| -> Vec<(f32, f32)> {
            let angles = (0..n).map(|j| TAU * j as f64 / n as f64);
            angles.map(|a| (a.cos() as f32, a.sin() as f32)).collect()
        };
        let (across, down) = (circle(n2), circle(n1));
        let (mut columns, mut scaled) = (vec![0.0; 2 * m * n2], vec![0.0; 2 * m * n2]);
        for k in 0..m {
            let scale = if k == 0 { 1.0 } else { 2.0 } / (n1 * n2) as f32;
            for j in 0..n2 {
                let (cos, sin) = across[k * j % n2];
                (columns[k * n2 + j], columns[(m + k) * n2 + j]) = (cos, -sin);
                (scaled[k * n2 + j], scaled[(m + k) * n2 + j]) = (scale * cos, -scale * sin);
            }
        }
        let mut rows = vec![0.0; 4 * m * 2 * n1];
        for f in 0..2 * m {
            let k = if f < m {
                f as i64
            } else {
                f as i64 - 2 * m as i64
            };
            for i in 0..n1 {
                let (cos, sin) = down[(k * i as i64).rem_euclid(n1 as i64) as usize];
                let at = |part: usize, from: usize| (2 * f + part) * 2 * n1 + 2 * i + from;
                (rows[at(0, 0)], rows[at(0, 1)]) = (cos, sin);
                (rows[at(1, 0)], rows[at(1, 1)]) = (-sin, cos);
            }
        }
        Self {
            columns_back: transposed(&columns, n2),
            scaled_back: transposed(&scaled, n2),
            rows_back: transposed(&rows, 2 * n1),
            columns,
            scaled,
            rows,
        }
    }
}

/// `out[p] (+)= Σ_q M[p·row + q·step]·X[q]`, for rows of `width` floats (a multiple of 16).
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub matrix: *const f32,
    pub row: usize,
    pub step: usize,
    pub rows: usize,
    pub terms: usize,
    pub x: *const f32,
    pub x_line: usize,
    pub out: *mut f32,
    pub out_line: usize,
    pub width: usize,
    pub add: bool,
}

#[inline(always)]
unsafe fn product_block<S: Simd, const R: usize, const V: usize>(
    p: &Product,
    r0: usize,
    first: usize,
) {
    unsafe {
        let mut acc = [[S::splat(0.0); V]; R];
        let out = p.out.add(r0 * p.out_line + first);
        if p.add {
            for r in 0..R {
                for v in 0..V {
                    acc[r][v] = S::load(out.add(r * p.out_line + v * S::LANES));
                }
            }
        }
        let matrix = (p.matrix.add(r0 * p.row), p.row, p.step);
        products::<S, R, V>(&mut acc, matrix, (p.x.add(first), p.x_line), p.terms);
        for r in 0..R {
            for v in 0..V {
                S::store(out.add(r * p.out_line + v * S::LANES), acc[r][v]);
            }
        }
    }
}

#[inline(always)]
unsafe fn product_generic<S: Simd>(p: &Product) {
    unsafe {
        let mut first = 0;
        while first < p.width {
            let vectors = S::VECTORS.min((p.width - first) / S::LANES);
            let mut r = 0;
            while r < p.rows {
                let block = S::ROWS.min(p.rows - r);
                match (block == S::ROWS, S::ROWS, vectors) {
                    (true, 6, 4) if S::VECTORS > 3 => product_block::<S, 6, 4>(p, r, first),
                    (true, 6, 3) if S::VECTORS > 2 => product_block::<S, 6, 3>(p, r, first),
                    (true, 6, 2) => product_block::<S, 6, 2>(p, r, first),
                    (true, 6, 1) => product_block::<S, 6, 1>(p, r, first),
                    (true, 2, 2) => product_block::<S, 2, 2>(p, r, first),
                    (_, _, 4) if S::VECTORS > 3 => {
                        (0..block).for_each(|i| product_block::<S, 1, 4>(p, r + i, first))
                    }
                    (_, _, 3) if S::VECTORS > 2 => {
                        (0..block).for_each(|i| product_block::<S, 1, 3>(p, r + i, first))
                    }
                    (_, _, 2) => (0..block).for_each(|i| product_block::<S, 1, 2>(p, r + i, first)),
                    _ => (0..block).for_each(|i| product_block::<S, 1, 1>(p, r + i, first)),
                }
                r += block;
            }
            first += vectors * S::LANES;
        }
    }
}
dispatch!(pub(crate) unsafe fn product = product_generic(p: &Product));

#[inline(always)]
unsafe fn activate_generic<S: Simd>(act: Activation, from: *const f32, to: *mut f32, count: usize) {
    for i in (0..count).step_by(S::LANES) {
        unsafe { S::store(to.add(i), act.apply::<S>(S::load(from.add(i)))) };
    }
}
dispatch!(unsafe fn activate = activate_generic(act: Activation, from: *const f32, to: *mut f32, count: usize));

/// `to = d·σ'(seen)`
#[inline(always)]
unsafe fn slope_generic<S: Simd>(
    act: Activation,
    seen: *const f32,
    d: *const f32,
    to: *mut f32,
    count: usize,
) {
    for i in (0..count).step_by(S::LANES) {
        unsafe {
            let slope = act.slope::<S>(S::load(seen.add(i)));
            S::store(to.add(i), S::mul(S::load(d.add(i)), slope));
        }
    }
}
dispatch!(unsafe fn slope = slope_generic(act: Activation, seen: *const f32, d: *const f32, to: *mut f32, count: usize));

/// A matrix in memory, by rows.
fn by_rows(matrix: &[f32], columns: usize) -> (*const f32, usize, usize, usize, usize) {
    (matrix.as_ptr(), columns, 1, matrix.len() / columns, columns)
}

struct Work<'a> {
    isa: Isa,
    layer: &'a FourierLayer,
    transforms: Transforms,
}

impl Work<'_> {
    /// `out (+)= M X`
    unsafe fn apply(
        &self,
        (matrix, row, step, rows, terms): (*const f32, usize, usize, usize, usize),
        (x, x_line): (*const f32, usize),
        (out, out_line): (*mut f32, usize),
        width: usize,
        add: bool,
    ) {
        let p = Product {
            matrix,
            row,
            step,
            rows,
            terms,
            x,
            x_line,
            out,
            out_line,
            width,
            add,
        };
        unsafe { product(self.isa, &p) }
    }

    /// G F (or G F s) of a sample: from the grid to its places in the spectrum.
    unsafe fn analyse(
        &self,
        columns: &[f32],
        x: *const f32,
        sample: usize,
        spectrum: Shared,
        local: &mut [Buffer; 2],
    ) {
        let ([n1, n2], m, c) = (self.layer.grid, self.layer.modes, self.layer.channels);
        let [z, t] = local;
        unsafe {
            for i in 0..n1 {
                let row = x.add(i * n2 * c);
                self.apply(
                    by_rows(columns, n2),
                    (row, c),
                    (z.ptr().add(i * 2 * m * c), c),
                    c,
                    false,
                );
            }
            for k in 0..m {
                let column = z.ptr().add(k * c);
                self.apply(
                    by_rows(&self.transforms.rows, 2 * n1),
                    (column, m * c),
                    (t.ptr(), c),
                    c,
                    false,
                );
                for f in 0..2 * m {
                    let to = spectrum.at(self.layer.place(f, k, sample));
                    to.copy_from_nonoverlapping(t.ptr().add(2 * f * c), 2 * c);
                }
            }
        }
    }

    /// The transpose: from the spectrum to the grid, added to what is there where `add`.
    unsafe fn synthesise(
        &self,
        columns_back: &[f32],
        spectrum: Shared,
        sample: usize,
        out: *mut f32,
        add: bool,
        local: &mut [Buffer; 2],
    ) {
        let ([n1, n2], m, c) = (self.layer.grid, self.layer.modes, self.layer.channels);
        let [z, t] = local;
        unsafe {
            for k in 0..m {
                for f in 0..2 * m {
                    let from = spectrum.at(self.layer.place(f, k, sample));
                    t.ptr().add(2 * f * c).copy_from_nonoverlapping(from, 2 * c);
                }
                let column = z.ptr().add(k * c);
                self.apply(
                    by_rows(&self.transforms.rows_back, 4 * m),
                    (t.ptr(), c),
                    (column, m * c),
                    c,
                    false,
                );
            }
            for i in 0..n1 {
                let row = out.add(i * n2 * c);
                self.apply(
                    by_rows(columns_back, 2 * m),
                    (z.ptr().add(i * 2 * m * c), c),
                    (row, c),
                    c,
                    add,
                );
            }
        }
    }

    fn local(&self) -> [Buffer; 2] {
        let ([n1, _], m, c) = (self.layer.grid, self.layer.modes, self.layer.channels);
        [Buffer::take(n1 * 2 * m * c), Buffer::take(4 * m * c)]
    }
}

/// Rows (xA|xB), (yA|yB) of every sample to the real, then the imaginary parts of zR.
fn put_together(rows: &[f32], out: &mut [f32], c: usize) {
    for (pair, out) in rows.chunks_exact(4 * c).zip(out.chunks_exact_mut(2 * c)) {
        let (x, y) = pair.split_at(2 * c);
        let (re, im) = out.split_at_mut(c);
        for b in 0..c {
            re[b] = x[2 * b] - y[2 * b + 1];
            im[b] = x[2 * b + 1] + y[2 * b];
        }
    }
}

/// Real, then imaginary parts of d to the rows (e|f), (f|-e) of every sample.
fn take_apart(d: &[f32], rows: &mut [f32], c: usize) {
    for (d, pair) in d.chunks_exact(2 * c).zip(rows.chunks_exact_mut(4 * c)) {
        let (e, f) = d.split_at(c);
        let (first, second) = pair.split_at_mut(2 * c);
        for b in 0..c {
            (first[2 * b], first[2 * b + 1]) = (e[b], f[b]);
            (second[2 * b], second[2 * b + 1]) = (f[b], -e[b]);
        }
    }
}

/// `[samples·n1·n2, C]` to the same.
pub(crate) fn fourier_forward(
    isa: Isa,
    layer: &FourierLayer,
    x: &[f32],
    weights: Weights,
) -> (Vec<f32>, Kept) {
    let work = Work {
        isa,
        layer,
        transforms: Transforms::new(layer),
    };
    let (c, n2, points, samples) = (layer.channels, layer.grid[1], layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let (mut spectrum, mut product) = (Buffer::take(numbers), Buffer::take(numbers));
    let (seen, made) = (Shared::new(&mut spectrum), Shared::new(&mut product));
    (0..samples).into_par_iter().for_each(|s| {
        let x = x[s * points * c..].as_ptr();
        unsafe { work.analyse(&work.transforms.columns, x, s, seen, &mut work.local()) };
    });
    // What a frequency has: its spectra, and its matrix.
    let (own, square) = (samples * 2 * c, 2 * c * c);
    (0..layer.waves()).into_par_iter().for_each_init(
        || Buffer::take(2 * own),
        |rows, wave| unsafe {
            let at = wave * own;
            let matrix = weights.spectral[wave * square..].as_ptr();
            let z = (seen.at(at) as *const f32, c, 1, 2 * samples, c);
            work.apply(z, (matrix, 2 * c), (rows.ptr(), 2 * c), 2 * c, false);
            let out = std::slice::from_raw_parts_mut(made.at(at), own);
            put_together(rows, out, c);
        },
    );
    let w = transposed(weights.point, c);
    let keeps = layer.activation != Activation::Identity;
    let mut inputs = keeps.then(|| Buffer::take(samples * points * c));
    let mut out = vec![0.0; samples * points * c];
    let target = Shared::new(&mut out);
    let kept = inputs.as_mut().map(|i| Shared::new(i));
    (0..samples).into_par_iter().for_each(|s| {
        let at = s * points * c;
        unsafe {
            let z = kept.unwrap_or(target).at(at);
            for row in 0..points {
                z.add(row * c)
                    .copy_from_nonoverlapping(weights.bias.as_ptr(), c);
            }
            work.synthesise(
                &work.transforms.scaled_back,
                made,
                s,
                z,
                true,
                &mut work.local(),
            );
            // A grid row at a time, while it is in the cache.
            for i in 0..layer.grid[0] {
                let (x, z) = (x[at + i * n2 * c..].as_ptr(), z.add(i * n2 * c));
                work.apply((x, c, 1, n2, c), (w.as_ptr(), c), (z, c), c, true);
                if keeps {
                    activate(isa, layer.activation, z, target.at(at + i * n2 * c), n2 * c);
                }
            }
        }
    });
    (out, Kept { spectrum, inputs })
}

/// The gradients of the spectral weights, of W and b one after the other, and of x.
pub(crate) fn fourier_backward(
    isa: Isa,
    layer: &FourierLayer,
    x: &[f32],
    weights: Weights,
    mut kept: Kept,
    out: &[f32],
    d_out: &[f32],
) -> [Vec<f32>; 3] {
    let work = Work {
        isa,
        layer,
        transforms: Transforms::new(layer),
    };
    let (c, points, samples) = (layer.channels, layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let mut dz = Buffer::take(samples * points * c);
    let (mut d_made, mut d_seen) = (Buffer::take(numbers), Buffer::take(numbers));
    let (slopes, d_product, d_spectrum) = (
        Shared::new(&mut dz),
        Shared::new(&mut d_made),
        Shared::new(&mut d_seen),
    );
    let mut dx = vec![0.0; x.len()];
    let target = Shared::new(&mut dx);
    // Per sample: the slope, W's and b's gradients, and the way into the spectrum.
    let point_grads: Vec<Vec<f32>> = (0..samples)
        .into_par_iter()
        .map(|s| {
            let at = s * points * c;
            let mut grads = vec![0.0; c * c + c];
            unsafe {
                let dz = slopes.at(at);
                match &kept.inputs {
                    None => dz.copy_from_nonoverlapping(d_out[at..].as_ptr(), points * c),
                    Some(inputs) => {
                        let seen = match layer.activation.keeps_input() {
                            true => inputs[at..].as_ptr(),
                            false => out[at..].as_ptr(),
                        };
                        slope(
                            isa,
                            layer.activation,
                            seen,
                            d_out[at..].as_ptr(),
                            dz,
                            points * c,
                        );
                    }
                }
                let x = x[at..].as_ptr();
                work.apply(
                    (dz, 1, c, c, points),
                    (x, c),
                    (grads.as_mut_ptr(), c),
                    c,
                    false,
                );
                for row in std::slice::from_raw_parts(dz, points * c).chunks_exact(c) {
                    for (sum, d) in grads[c * c..].iter_mut().zip(row) {
                        *sum += d;
                    }
                }
                work.analyse(&work.transforms.scaled, dz, s, d_product, &mut work.local());
                work.apply(
                    (dz, c, 1, points, c),
                    (weights.point.as_ptr(), c),
                    (target.at(at), c),
                    c,
                    false,
                );
            }
            grads
        })
        .collect();
    let seen = Shared::new(&mut kept.spectrum);
    let (own, square) = (samples * 2 * c, 2 * c * c);
    let mut d_spectral = vec![0.0; weights.spectral.len()];
    d_spectral.par_chunks_mut(square).enumerate().for_each_init(
        || (Buffer::take(2 * own), Buffer::take(square)),
        |(rows, matrix), (wave, grads)| unsafe {
            let at = wave * own;
            let d = std::slice::from_raw_parts(d_product.at(at), own);
            take_apart(d, rows, c);
            transpose(&weights.spectral[wave * square..][..square], 2 * c, matrix);
            let from = (rows.as_ptr(), 2 * c, 1, 2 * samples, 2 * c);
            work.apply(from, (matrix.as_ptr(), c), (d_spectrum.at(at), c), c, false);
            let z = (seen.at(at) as *const f32, 1, c, c, 2 * samples);
            let d = (rows.as_ptr(), 2 * c);
            work.apply(z, d, (grads.as_mut_ptr(), 2 * c), 2 * c, false);
        },
    );
    (0..samples).into_par_iter().for_each(|s| unsafe {
        let dx = target.at(s * points * c);
        work.synthesise(
            &work.transforms.columns_back,
            d_spectrum,
            s,
            dx,
            true,
            &mut work.local(),
        );
    });
    let mut d_point = vec![0.0; c * c + c];
    for grads in &point_grads {
        d_point.iter_mut().zip(grads).for_each(|(sum, g)| *sum += g);
    }
    [d_spectral, d_point, dx]
}
