//! A layer of a Fourier neural operator on an n1 × n2 grid with C channels: `y = σ( K x + x Wᵀ + b )`, where K transforms the lowest `modes`
//! frequencies per axis, multiplies each by its complex matrix and transforms back.
//!
//! With F the transform along the columns, G that along the rows ([`Dft`]) and s the weights of a real inverse transform (1, 2, 2, …, over n1·n2),
//!
//!   K = (F s)ᵀ Gᵀ R G F,   and backward   Kᵀ = Fᵀ Gᵀ Rᵀ G (F s).
//!
//! The complex matrix R = A + iB of a frequency stays as it is stored, real and imaginary parts in turn (A|B). The real and the imaginary part of a
//! spectrum z = x + iy are two rows, multiplied by (A|B) alike and put together afterwards:
//!
//!   x(A|B) = (xA|xB),   y(A|B) = (yA|yB),   zR = xA - yB + i(xB + yA),
//!
//! and backward, with e + if coming in:   dx = (e|f)(A|B)ᵀ,   dy = (f|-e)(A|B)ᵀ,   d(A|B) = xᵀ(e|f) + yᵀ(f|-e).

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::{Buffer, Shared};
use crate::dft::{Dft, transpose, transposed};
use crate::isa::{Isa, dispatch};
use crate::product::{Product, product};
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
    fn check(&self, x: &[f32], weights: &Weights) {
        let (c, waves) = (self.channels, self.waves());
        assert!(c.is_multiple_of(16), "channels come in sixteens");
        assert!(
            2 * self.modes <= self.grid[0].min(self.grid[1]),
            "fewer modes than the grid has"
        );
        assert_eq!(x.len(), self.samples * self.points() * c);
        let Weights {
            spectral,
            point,
            bias,
        } = weights;
        assert_eq!(
            [spectral.len(), point.len(), bias.len()],
            [2 * waves * c * c, c * c, c]
        );
    }

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

impl Kept {
    pub fn numbers(&self) -> usize {
        self.spectrum.len() + self.inputs.as_ref().map_or(0, |i| i.len())
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Kept({})", self.spectrum.len())
    }
}

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

/// `out (+)= M X`, for M with its first number, steps from row to row and from number to number, rows and terms.
unsafe fn apply(
    isa: Isa,
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
    unsafe { product(isa, &p) }
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
    layer.check(x, &weights);
    let dft = Dft::new(isa, layer.grid, layer.modes, layer.channels);
    let (c, n2, points, samples) = (layer.channels, layer.grid[1], layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let (mut spectrum, mut product) = (Buffer::take(numbers), Buffer::take(numbers));
    let (seen, made) = (Shared::new(&mut spectrum), Shared::new(&mut product));
    (0..samples).into_par_iter().for_each_init(
        || dft.scratch(),
        |scratch, s| unsafe {
            let place = |row, column| seen.at(layer.place(row, column, s));
            dft.analyse(&dft.columns, x[s * points * c..].as_ptr(), place, scratch);
        },
    );
    // What a frequency has: its spectra, and its matrix.
    let (own, square) = (samples * 2 * c, 2 * c * c);
    (0..layer.waves()).into_par_iter().for_each_init(
        || Buffer::take(2 * own),
        |rows, wave| unsafe {
            let at = wave * own;
            let matrix = weights.spectral[wave * square..].as_ptr();
            let z = (seen.at(at) as *const f32, c, 1, 2 * samples, c);
            apply(isa, z, (matrix, 2 * c), (rows.ptr(), 2 * c), 2 * c, false);
            let out = std::slice::from_raw_parts_mut(made.at(at), own);
            put_together(rows, out, c);
        },
    );
    let w = transposed(weights.point, c);
    let keeps = layer.activation != Activation::Identity;
    let mut inputs = keeps.then(|| Buffer::take(samples * points * c));
    let mut out = Vec::with_capacity(x.len());
    let target = Shared::room(&mut out);
    let kept = inputs.as_mut().map(|i| Shared::new(i));
    (0..samples).into_par_iter().for_each_init(
        || dft.scratch(),
        |scratch, s| {
            let at = s * points * c;
            unsafe {
                let z = kept.unwrap_or(target).at(at);
                for row in 0..points {
                    z.add(row * c)
                        .copy_from_nonoverlapping(weights.bias.as_ptr(), c);
                }
                let from = |row, column| made.at(layer.place(row, column, s)) as *const f32;
                dft.synthesise(&dft.scaled, from, z, true, scratch);
                // A grid row at a time, while it is in the cache.
                for i in 0..layer.grid[0] {
                    let (x, z) = (x[at + i * n2 * c..].as_ptr(), z.add(i * n2 * c));
                    apply(isa, (x, c, 1, n2, c), (w.as_ptr(), c), (z, c), c, true);
                    if keeps {
                        activate(isa, layer.activation, z, target.at(at + i * n2 * c), n2 * c);
                    }
                }
            }
        },
    );
    // All points of all samples.
    unsafe { out.set_len(x.len()) };
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
    let dft = Dft::new(isa, layer.grid, layer.modes, layer.channels);
    let (c, points, samples) = (layer.channels, layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let mut dz = Buffer::take(samples * points * c);
    let (mut d_made, mut d_seen) = (Buffer::take(numbers), Buffer::take(numbers));
    let (slopes, d_product, d_spectrum) = (
        Shared::new(&mut dz),
        Shared::new(&mut d_made),
        Shared::new(&mut d_seen),
    );
    let mut dx = Vec::with_capacity(x.len());
    let target = Shared::room(&mut dx);
    // Per sample: the slope, W's and b's gradients, and the way into the spectrum.
    let point_grads: Vec<Vec<f32>> = (0..samples)
        .into_par_iter()
        .map_init(
            || dft.scratch(),
            |scratch, s| {
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
                    apply(
                        isa,
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
                    let place = |row, column| d_product.at(layer.place(row, column, s));
                    dft.analyse(&dft.scaled, dz, place, scratch);
                    apply(
                        isa,
                        (dz, c, 1, points, c),
                        (weights.point.as_ptr(), c),
                        (target.at(at), c),
                        c,
                        false,
                    );
                }
                grads
            },
        )
        .collect();
    let seen = Shared::new(&mut kept.spectrum);
    let (own, square) = (samples * 2 * c, 2 * c * c);
    let mut d_spectral = Vec::with_capacity(weights.spectral.len());
    let d_weights = Shared::room(&mut d_spectral);
    (0..layer.waves()).into_par_iter().for_each_init(
        || (Buffer::take(2 * own), Buffer::take(square)),
        |(rows, matrix), wave| unsafe {
            let at = wave * own;
            let d = std::slice::from_raw_parts(d_product.at(at), own);
            take_apart(d, rows, c);
            transpose(&weights.spectral[wave * square..][..square], 2 * c, matrix);
            let from = (rows.as_ptr(), 2 * c, 1, 2 * samples, 2 * c);
            apply(
                isa,
                from,
                (matrix.as_ptr(), c),
                (d_spectrum.at(at), c),
                c,
                false,
            );
            let z = (seen.at(at) as *const f32, 1, c, c, 2 * samples);
            let d = (rows.as_ptr(), 2 * c);
            let grads = d_weights.at(wave * square);
            apply(isa, z, d, (grads, 2 * c), 2 * c, false);
        },
    );
    (0..samples).into_par_iter().for_each_init(
        || dft.scratch(),
        |scratch, s| unsafe {
            let from = |row, column| d_spectrum.at(layer.place(row, column, s)) as *const f32;
            dft.synthesise(&dft.columns, from, target.at(s * points * c), true, scratch);
        },
    );
    // All points of all samples, all frequencies.
    unsafe {
        dx.set_len(x.len());
        d_spectral.set_len(weights.spectral.len());
    }
    let mut d_point = vec![0.0; c * c + c];
    for grads in &point_grads {
        d_point.iter_mut().zip(grads).for_each(|(sum, g)| *sum += g);
    }
    [d_spectral, d_point, dx]
}
