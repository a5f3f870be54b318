//! A layer of a Fourier neural operator on a grid of one, two or three axes with C channels: `y = σ( K x + x
//! Wᵀ + b )`, where K transforms the lowest `modes` frequencies per axis, multiplies each by its complex
//! matrix and transforms back.
//!
//! With F the transform along the columns, G that along the rows ([`Dft`]) and s the weights of a real inverse
//! transform (1, 2, 2, …, over all points),
//!
//!   K = (F s)ᵀ Gᵀ R G F,   and backward   Kᵀ = Fᵀ Gᵀ Rᵀ G (F s).
//!
//! The complex matrix R = A + iB of a frequency stays as it is stored, real and imaginary parts in turn (A|B).
//! The real and the imaginary part of a spectrum z = x + iy are two rows, multiplied by (A|B) alike and put
//! together afterwards:
//!
//!   x(A|B) = (xA|xB),   y(A|B) = (yA|yB),   zR = xA - yB + i(xB + yA),
//!
//! and backward, with e + if coming in:   dx = (e|f)(A|B)ᵀ,   dy = (f|-e)(A|B)ᵀ,   d(A|B) = xᵀ(e|f) + yᵀ(f|-e).
//!
//! All sums of a sample are over its own numbers, term after term: no sample depends on another of its batch.

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::{Buffer, Shared};
use crate::chunks::{split, split_some};
use crate::dft::{Dft, transpose, transposed};
use crate::isa::{Isa, dispatch};
use crate::product::{Matrix, product};
use crate::simd::Simd;

/// Sizes of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FourierLayer {
    pub samples: usize,
    /// Points per axis, one to three axes.
    pub grid: Vec<usize>,
    /// A multiple of [`CHANNELS`](Self::CHANNELS).
    pub channels: usize,
    pub modes: usize,
    pub activation: Activation,
}

impl FourierLayer {
    /// Channels come in so many.
    pub const CHANNELS: usize = 16;

    fn check(&self, x: &[f32], weights: &Weights) {
        assert!(
            (1..=3).contains(&self.grid.len()),
            "one to three axes: {:?}",
            self.grid
        );
        let (c, waves) = (self.channels, self.waves());
        assert!(
            c > 0 && c.is_multiple_of(Self::CHANNELS),
            "channels come in sixteens: {c}"
        );
        assert!(
            self.modes > 0 && self.grid.iter().all(|n| 2 * self.modes <= *n),
            "at least one mode, and at most half as many as an axis has points: {} of {:?}",
            self.modes,
            self.grid
        );
        let numbers = self.samples * self.points() * c;
        assert_eq!(x.len(), numbers, "numbers of the Fourier layer's samples");
        assert_eq!(
            [weights.spectral, weights.point, weights.bias].map(|w| w.len()),
            [2 * waves * c * c, c * c, c],
            "weights of the Fourier layer"
        );
    }

    fn points(&self) -> usize {
        self.grid.iter().product()
    }

    /// Frequencies that are kept.
    fn waves(&self) -> usize {
        self.modes * (2 * self.modes).pow(self.grid.len() as u32 - 1)
    }

    /// Where the spectrum of a sample is, real then imaginary channels: frequency by frequency, so that a
    /// frequency's samples are together.
    fn place(&self, wave: usize, sample: usize) -> usize {
        (wave * self.samples + sample) * 2 * self.channels
    }
}

/// The numbers of a layer: R `[2·modes, …, modes, C, C, 2]` (rows 0..modes, then -modes..0; real and
/// imaginary part), W `[C, C]` and b.
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

/// `z = σ(z)`
#[inline(always)]
fn activate_generic<S: Simd>(s: S, act: Activation, z: &mut [f32]) {
    for v in z.chunks_exact_mut(S::LANES) {
        s.store(v, act.apply(s, s.load(v)));
    }
}
dispatch!(fn activate = activate_generic(act: Activation, z: &mut [f32]));

/// `to = d·σ'(seen)`
#[inline(always)]
fn slope_generic<S: Simd>(s: S, act: Activation, seen: &[f32], d: &[f32], to: &mut [f32]) {
    let from = seen.chunks_exact(S::LANES).zip(d.chunks_exact(S::LANES));
    for (to, (seen, d)) in to.chunks_exact_mut(S::LANES).zip(from) {
        s.store(to, s.mul(s.load(d), act.slope(s, s.load(seen))));
    }
}
dispatch!(fn slope = slope_generic(act: Activation, seen: &[f32], d: &[f32], to: &mut [f32]));

/// A matrix `[rows, terms]`, or the transpose of one `[terms, rows]`.
fn matrix(numbers: &[f32], [rows, terms]: [usize; 2], transposed: bool) -> Matrix<'_> {
    let (row, step) = if transposed { (1, rows) } else { (terms, 1) };
    Matrix {
        numbers,
        row,
        step,
        rows,
        terms,
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
    layer.check(x, &weights);
    let dft = Dft::new(isa, &layer.grid, layer.modes, layer.channels);
    let (c, points, samples) = (layer.channels, layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let (mut spectrum, mut made) = (Buffer::take(numbers), Buffer::take(numbers));
    let seen = Shared::new(&mut spectrum);
    x.par_chunks_exact(points * c).enumerate().for_each_init(
        || dft.scratch(),
        |scratch, (s, x)| {
            let place = |wave| {
                // SAFETY: every frequency of every sample has a place of its own, asked for once.
                unsafe { seen.part(layer.place(wave, s), 2 * c) }
            };
            dft.analyse(&dft.columns, x, place, scratch);
        },
    );
    // What a frequency has: its spectra, and its matrix.
    let (own, square) = ((samples * 2 * c).max(1), 2 * c * c);
    made.par_chunks_exact_mut(own)
        .zip(spectrum.par_chunks_exact(own))
        .zip(weights.spectral.par_chunks_exact(square))
        .for_each_init(
            || Buffer::take(2 * own),
            |rows, ((made, seen), r)| {
                let z = matrix(seen, [2 * samples, c], false);
                product(isa, z, (r, 2 * c), (rows, 2 * c), 2 * c, false);
                put_together(rows, made, c);
            },
        );
    let w = transposed(weights.point, c);
    let biases = weights.bias.repeat(points);
    let keeps = layer.activation != Activation::Identity;
    let mut inputs = keeps.then(|| Buffer::take(samples * points * c));
    // Each sample writes its own part first, on its own core: zeros would be written by one core before.
    let mut out = Vec::with_capacity(x.len());
    let targets = out.spare_capacity_mut()[..x.len()].par_chunks_exact_mut(points * c);
    let kept = split_some(inputs.as_deref_mut(), (0..samples).map(|_| points * c));
    targets.zip(kept).enumerate().for_each_init(
        || dft.scratch(),
        |scratch, (s, (target, kept))| {
            let from = |wave| &made[layer.place(wave, s)..][..2 * c];
            let (z, mut target) = match kept {
                Some(z) => {
                    z.copy_from_slice(&biases);
                    (z, Some(target))
                }
                None => (target.write_copy_of_slice(&biases), None),
            };
            dft.synthesise(&dft.scaled, from, z, scratch);
            // A grid row at a time, while it is in the cache.
            let columns = layer.grid[layer.grid.len() - 1];
            let row = columns * c;
            let x = x[s * points * c..][..points * c].chunks_exact(row);
            for (i, (x, z)) in x.zip(z.chunks_exact_mut(row)).enumerate() {
                let x = matrix(x, [columns, c], false);
                product(isa, x, (&w, c), (z, c), c, true);
                if let Some(target) = &mut target {
                    let out = target[i * row..][..row].write_copy_of_slice(z);
                    activate(isa, layer.activation, out);
                }
            }
        },
    );
    // SAFETY: every sample has written all rows of its part, and the parts are all of x's length.
    unsafe { out.set_len(x.len()) };
    (out, Kept { spectrum, inputs })
}

/// The gradients of the spectral weights, of W and b one after the other, and of x.
pub(crate) fn fourier_backward(
    isa: Isa,
    layer: &FourierLayer,
    x: &[f32],
    weights: Weights,
    kept: Kept,
    out: &[f32],
    d_out: &[f32],
) -> [Vec<f32>; 3] {
    layer.check(x, &weights);
    assert_eq!(
        [out.len(), d_out.len()],
        [x.len(); 2],
        "gradients of the output"
    );
    let dft = Dft::new(isa, &layer.grid, layer.modes, layer.channels);
    let (c, points, samples) = (layer.channels, layer.points(), layer.samples);
    let numbers = layer.waves() * samples * 2 * c;
    let mut slopes = Buffer::take(x.len());
    let (mut d_made, mut d_seen) = (Buffer::take(numbers), Buffer::take(numbers));
    let d_product = Shared::new(&mut d_made);
    let mut dx = Vec::with_capacity(x.len());
    let targets = dx.spare_capacity_mut()[..x.len()].par_chunks_exact_mut(points * c);
    // Per sample: the slope, W's and b's gradients, and the way into the spectrum.
    let point_grads: Vec<Vec<f32>> = slopes
        .par_chunks_exact_mut(points * c)
        .zip(targets)
        .enumerate()
        .map_init(
            || dft.scratch(),
            |scratch, (s, (dz, target))| {
                let own = s * points * c..(s + 1) * points * c;
                let d_out = &d_out[own.clone()];
                match &kept.inputs {
                    None => dz.copy_from_slice(d_out),
                    Some(inputs) => {
                        let seen = match layer.activation.keeps_input() {
                            true => &inputs[own.clone()],
                            false => &out[own.clone()],
                        };
                        slope(isa, layer.activation, seen, d_out, dz);
                    }
                }
                let mut grads = vec![0.0; c * c + c];
                let d = matrix(dz, [c, points], true);
                product(isa, d, (&x[own], c), (&mut grads, c), c, false);
                for row in dz.chunks_exact(c) {
                    for (sum, d) in grads[c * c..].iter_mut().zip(row) {
                        *sum += d;
                    }
                }
                let place = |wave| {
                    // SAFETY: every frequency of every sample has a place of its own, asked for once.
                    unsafe { d_product.part(layer.place(wave, s), 2 * c) }
                };
                dft.analyse(&dft.scaled, dz, place, scratch);
                // Any numbers will do to begin with.
                let target = target.write_copy_of_slice(dz);
                let d = matrix(dz, [points, c], false);
                product(isa, d, (weights.point, c), (target, c), c, false);
                grads
            },
        )
        .collect();
    // SAFETY: every sample has written all of its part, and the parts are all of x's length.
    unsafe { dx.set_len(x.len()) };
    let (own, square) = ((samples * 2 * c).max(1), 2 * c * c);
    let mut d_spectral = Vec::with_capacity(weights.spectral.len());
    let targets = &mut d_spectral.spare_capacity_mut()[..weights.spectral.len()];
    (targets.par_chunks_exact_mut(square))
        .zip(weights.spectral.par_chunks_exact(square))
        .enumerate()
        .zip(split(
            &mut d_seen,
            (0..layer.waves()).map(|_| samples * 2 * c),
        ))
        .for_each_init(
            || (Buffer::take(2 * own), Buffer::take(square)),
            |(rows, turned), ((wave, (grads, r)), d_seen)| {
                let range = wave * samples * 2 * c..(wave + 1) * samples * 2 * c;
                take_apart(&d_made[range.clone()], rows, c);
                transpose(r, 2 * c, turned);
                let d = matrix(rows, [2 * samples, 2 * c], false);
                product(isa, d, (turned, c), (d_seen, c), c, false);
                // Any numbers will do to begin with.
                let grads = grads.write_copy_of_slice(r);
                let z = matrix(&kept.spectrum[range], [c, 2 * samples], true);
                product(isa, z, (rows, 2 * c), (grads, 2 * c), 2 * c, false);
            },
        );
    // SAFETY: every frequency has written all of its matrix, and there is one of each.
    unsafe { d_spectral.set_len(weights.spectral.len()) };
    dx.par_chunks_exact_mut(points * c)
        .enumerate()
        .for_each_init(
            || dft.scratch(),
            |scratch, (s, dx)| {
                let from = |wave| &d_seen[layer.place(wave, s)..][..2 * c];
                dft.synthesise(&dft.columns, from, dx, scratch);
            },
        );
    let mut d_point = vec![0.0; c * c + c];
    for grads in &point_grads {
        d_point.iter_mut().zip(grads).for_each(|(sum, g)| *sum += g);
    }
    [d_spectral, d_point, dx]
}
