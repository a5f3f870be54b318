//! Fast sine, cosine and 2-D Fourier transforms on top of RustFFT.
//!
//! The real transforms work on two rows at a time, packed as one complex row `a + i·b`.

use std::f64::consts::PI;
use std::sync::Arc;

use rustfft::num_complex::{Complex32, Complex64};
use rustfft::{Fft, FftPlanner};

/// DST-I in single precision (it serves a preconditioner): `S_k = Σ_{j=1}^{n-1} x_j sin(πjk/n)` for `k =
/// 1..n-1`. It is its own inverse up to the factor 2/n.
///
/// One complex FFT of length n does two rows (after Cooley, Lewis and Welch: the auxiliary sequence
/// `sin(πj/n)(x_j + x_{n-j}) + ½(x_j - x_{n-j})` has a spectrum whose imaginary parts are the even
/// coefficients and whose real parts are the differences of the odd ones).
pub(crate) struct SineTransform {
    n: usize,
    sines: Vec<f32>,
    fft: Arc<dyn Fft<f32>>,
    packed: Vec<Complex32>,
    scratch: Vec<Complex32>,
}

impl SineTransform {
    /// `n` intervals, so rows of `n - 1` interior points; `n` must be even.
    pub fn new(n: usize) -> Self {
        assert!(
            n.is_multiple_of(2) && n >= 2,
            "the sine transform needs an even number of intervals"
        );
        let fft = FftPlanner::new().plan_fft_forward(n);
        Self {
            n,
            sines: (0..n)
                .map(|j| (PI * j as f64 / n as f64).sin() as f32)
                .collect(),
            packed: vec![Complex32::default(); n],
            scratch: vec![Complex32::default(); fft.get_inplace_scratch_len()],
            fft,
        }
    }

    /// Transforms every row of `rows` (each `n - 1` long) in place.
    pub fn rows(&mut self, rows: &mut [f32]) {
        for pair in rows.chunks_mut(2 * (self.n - 1)) {
            let (a, b) = pair.split_at_mut(self.n - 1);
            if b.is_empty() {
                let mut zero = vec![0.0; self.n - 1];
                self.pair(a, &mut zero);
            } else {
                self.pair(a, b);
            }
        }
    }

    fn pair(&mut self, a: &mut [f32], b: &mut [f32]) {
        let n = self.n;
        let (a, b) = (&mut a[..n - 1], &mut b[..n - 1]);
        self.packed[0] = Complex32::default();
        for j in 1..=n / 2 {
            // Entries j and n - j together: their sums and differences are the same but for the sign.
            let x = Complex32::new(a[j - 1], b[j - 1]);
            let y = Complex32::new(a[n - 1 - j], b[n - 1 - j]);
            let (sum, half) = ((x + y) * self.sines[j], (x - y) * 0.5);
            self.packed[j] = sum + half;
            self.packed[n - j] = sum - half;
        }
        self.fft
            .process_with_scratch(&mut self.packed, &mut self.scratch);
        let z = &self.packed;
        // The spectra of the two rows: A_k = (Z_k + conj Z_{n-k})/2, B_k = (Z_k - conj Z_{n-k})/(2i).
        (a[0], b[0]) = (0.5 * z[0].re, 0.5 * z[0].im);
        for k in 1..n / 2 {
            let (p, q) = (z[k], z[n - k]);
            a[2 * k - 1] = 0.5 * (q.im - p.im);
            b[2 * k - 1] = 0.5 * (p.re - q.re);
            a[2 * k] = a[2 * k - 2] + 0.5 * (p.re + q.re);
            b[2 * k] = b[2 * k - 2] + 0.5 * (p.im + q.im);
        }
    }
}

/// Orthonormal inverse DCT-II of an `n × n` array, in place:
/// `x_j = Σ_k α_k X_k cos(πk(2j+1)/(2n))` along both axes, `α_0 = √(1/n)`, `α_k = √(2/n)`.
pub(crate) fn inverse_cosine_2d(values: &mut [f64], n: usize) {
    let fft = FftPlanner::new().plan_fft_inverse(n);
    let phases: Vec<Complex64> = (0..n)
        .map(|k| {
            let alpha = if k == 0 {
                (1.0 / n as f64).sqrt()
            } else {
                (0.5 / n as f64).sqrt()
            };
            Complex64::from_polar(alpha, PI * k as f64 / (2 * n) as f64)
        })
        .collect();
    let mut packed = vec![Complex64::default(); n];
    let mut scratch = vec![Complex64::default(); fft.get_inplace_scratch_len()];
    for _axis in 0..2 {
        for pair in values.chunks_mut(2 * n) {
            let (a, b) = pair.split_at_mut(n);
            let at = |k: usize| Complex64::new(a[k], b.get(k).copied().unwrap_or(0.0));
            packed[0] = at(0) * phases[0];
            for k in 1..n {
                // Makhoul's reordering: one FFT of length n instead of 4n. Complex-linear, so two rows fit.
                packed[k] = (at(k) - Complex64::i() * at(n - k)) * phases[k];
            }
            fft.process_with_scratch(&mut packed, &mut scratch);
            for j in 0..n {
                let z = packed[if j % 2 == 0 { j / 2 } else { n - 1 - j / 2 }];
                a[j] = z.re;
                if let Some(b) = b.get_mut(j) {
                    *b = z.im;
                }
            }
        }
        transpose_square(values, n);
    }
}

/// 2-D complex FFT on an `n × n` array, unnormalised in both directions.
pub(crate) struct Fourier2d {
    n: usize,
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
    scratch: Vec<Complex64>,
}

impl Fourier2d {
    pub fn new(n: usize) -> Self {
        let mut planner = FftPlanner::new();
        let (forward, inverse) = (planner.plan_fft_forward(n), planner.plan_fft_inverse(n));
        let scratch = forward
            .get_inplace_scratch_len()
            .max(inverse.get_inplace_scratch_len());
        Self {
            n,
            forward,
            inverse,
            scratch: vec![Complex64::default(); scratch],
        }
    }

    /// `F_{pq} = Σ f_{ij} e^{-2πi(pi+qj)/n}`; the result is stored **transposed**, as `F[q][p]`.
    pub fn forward(&mut self, values: &mut [Complex64]) {
        let fft = self.forward.clone();
        self.both_axes(&*fft, values);
    }

    /// The inverse of [`forward`](Self::forward) times n², from the transposed order back to rows.
    pub fn inverse(&mut self, values: &mut [Complex64]) {
        let fft = self.inverse.clone();
        self.both_axes(&*fft, values);
    }

    /// Rows, transpose, rows: one transpose is saved by leaving the result transposed.
    fn both_axes(&mut self, fft: &dyn Fft<f64>, values: &mut [Complex64]) {
        fft.process_with_scratch(values, &mut self.scratch);
        transpose_square(values, self.n);
        fft.process_with_scratch(values, &mut self.scratch);
    }
}

fn transpose_square<T: Copy>(values: &mut [T], n: usize) {
    const TILE: usize = 16;
    for top in (0..n).step_by(TILE) {
        for left in (top..n).step_by(TILE) {
            for i in top..(top + TILE).min(n) {
                for j in left.max(i + 1)..(left + TILE).min(n) {
                    values.swap(i * n + j, j * n + i);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| ((i * i * 37 + 11 * i) as f64).sin())
            .collect()
    }

    #[test]
    fn sine_transform_is_its_formula_and_its_own_inverse() {
        for (n, rows) in [(2, 1), (6, 3), (250, 2)] {
            let x: Vec<f32> = noise(rows * (n - 1)).iter().map(|&v| v as f32).collect();
            let mut transform = SineTransform::new(n);
            let mut s = x.clone();
            transform.rows(&mut s);
            for (row, out) in x.chunks(n - 1).zip(s.chunks(n - 1)) {
                for k in 1..n {
                    let sine = |j: usize| (PI * (j * k) as f64 / n as f64).sin();
                    let sum: f64 = (1..n).map(|j| row[j - 1] as f64 * sine(j)).sum();
                    assert!((sum - out[k - 1] as f64).abs() < 1e-6 * n as f64);
                }
            }
            transform.rows(&mut s);
            for (x, y) in x.iter().zip(&s) {
                assert!((x - y * 2.0 / n as f32).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn inverse_cosine_is_its_formula() {
        for n in [1usize, 2, 5, 8] {
            let coef = noise(n * n);
            let mut x = coef.clone();
            inverse_cosine_2d(&mut x, n);
            let alpha = |k: usize| (if k == 0 { 1.0 } else { 2.0 } / n as f64).sqrt();
            let cosine = |k: usize, j: usize| {
                alpha(k) * (PI * (k * (2 * j + 1)) as f64 / (2 * n) as f64).cos()
            };
            for i in 0..n {
                for j in 0..n {
                    let mut sum = 0.0;
                    for p in 0..n {
                        for q in 0..n {
                            sum += coef[p * n + q] * cosine(p, i) * cosine(q, j);
                        }
                    }
                    assert!((sum - x[i * n + j]).abs() < 1e-13 * n as f64);
                }
            }
        }
    }

    #[test]
    fn fourier_2d_is_its_formula_and_inverts() {
        let n = 5;
        let f: Vec<Complex64> = noise(n * n)
            .iter()
            .zip(noise(2 * n * n).iter().rev())
            .map(|(&a, &b)| Complex64::new(a, b))
            .collect();
        let mut transform = Fourier2d::new(n);
        let mut g = f.clone();
        transform.forward(&mut g);
        for p in 0..n {
            for q in 0..n {
                let mut sum = Complex64::default();
                for i in 0..n {
                    for j in 0..n {
                        let turn = -2.0 * PI * (p * i + q * j) as f64 / n as f64;
                        sum += f[i * n + j] * Complex64::from_polar(1.0, turn);
                    }
                }
                assert!((sum - g[q * n + p]).norm() < 1e-12);
            }
        }
        transform.inverse(&mut g);
        assert!(
            f.iter()
                .zip(&g)
                .all(|(a, b)| (a - b / (n * n) as f64).norm() < 1e-13)
        );
    }
}
