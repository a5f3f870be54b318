//! Gaussian random fields by their Karhunen–Loève expansions.

use std::f64::consts::PI;

use rand::RngExt;
use rand_distr::StandardNormal;
use rustfft::num_complex::Complex64;

use crate::problems::transform::inverse_cosine_2d;
use crate::problems::trigonometric::TrigField;
use crate::rng::Rng;

/// `n·(orthonormal inverse DCT-II of ξ_k·amplitude(π²|k|²))` on `n × n` points, `ξ_k ~ N(0,1)`, without the
/// constant mode: a field in the cosine (Neumann) basis. `n` is at once the number of modes per axis.
pub fn cosine_field(n: usize, amplitude: impl Fn(f64) -> f64, rng: &mut Rng) -> Vec<f64> {
    let mut values = vec![0.0; n * n];
    for (i, value) in values.iter_mut().enumerate() {
        let (p, q) = ((i / n) as f64, (i % n) as f64);
        let xi: f64 = rng.sample(StandardNormal);
        *value = n as f64 * xi * amplitude(PI * PI * (p * p + q * q));
    }
    values[0] = 0.0;
    inverse_cosine_2d(&mut values, n);
    values
}

/// The real part of `Σ_{|p|,|q| ≤ degree} ζ_k·amplitude(4π²|k|²)·e^{2πik·x}` on the torus, real and
/// imaginary part of ζ_k standard normal, without the constant mode. Its variance is `Σ amplitude²`.
///
/// The modes k and −k fall together in the real part, so for q > 0 one mode with √2 times the amplitude is drawn.
pub fn periodic_field(degree: usize, amplitude: impl Fn(f64) -> f64, rng: &mut Rng) -> TrigField {
    TrigField::from_coefs(degree, |p, q| {
        let zeta = Complex64::new(rng.sample(StandardNormal), rng.sample(StandardNormal));
        let fold = if q == 0 { 1.0 } else { 2f64.sqrt() };
        match (p, q) {
            (0, 0) => Complex64::default(),
            _ => zeta * fold * amplitude(4.0 * PI * PI * (p * p + q * q) as f64),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    fn mean_square(fields: impl Iterator<Item = Vec<f64>>) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for field in fields {
            sum += field.iter().map(|v| v * v).sum::<f64>();
            count += field.len();
        }
        sum / count as f64
    }

    #[test]
    fn periodic_variance_is_the_sum_of_squared_amplitudes() {
        let amplitude = |k2: f64| (k2 + 49.0).powf(-1.0);
        let mut exact = 0.0;
        for p in -5i64..=5 {
            for q in -5i64..=5 {
                if (p, q) != (0, 0) {
                    exact += amplitude(4.0 * PI * PI * (p * p + q * q) as f64).powi(2);
                }
            }
        }
        let found = mean_square(
            (0..2000)
                .map(|i| periodic_field(5, amplitude, &mut stream(1, "t", i)).on_torus_grid(12)),
        );
        assert!(
            (found / exact - 1.0).abs() < 0.05,
            "{found} against {exact}"
        );
    }

    #[test]
    fn cosine_variance_is_the_sum_of_squared_amplitudes() {
        // Parseval: the mean square over the points of n·IDCT(c) is Σ c².
        let amplitude = |k2: f64| 3.0 / (k2 + 9.0);
        let n = 9usize;
        let exact: f64 = (1..n * n)
            .map(|i| amplitude(PI * PI * ((i / n).pow(2) + (i % n).pow(2)) as f64).powi(2))
            .sum();
        let found =
            mean_square((0..2000).map(|i| cosine_field(n, amplitude, &mut stream(1, "t", i))));
        assert!(
            (found / exact - 1.0).abs() < 0.05,
            "{found} against {exact}"
        );
    }
}
