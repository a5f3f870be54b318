//! Fast solvers for the five-point Laplacian `4w - w_E - w_W - w_N - w_S = r` on an m × m grid, in single
//! precision: they precondition an iteration that is carried out in double precision.

use std::f64::consts::PI;

use rustfft::num_complex::Complex64;

use crate::problems::transform::{Fourier2d, SineTransform};

/// Solves with the boundary values that its kind implies, in place.
pub(crate) trait FastPoisson: Send {
    fn solve(&mut self, r: &mut [f32]);
}

/// Zero outside the grid: sine transforms along the rows, then one tridiagonal system per mode along
/// the columns, all modes side by side, so nothing is ever transposed.
pub(crate) struct DirichletPoisson {
    m: usize,
    sine: SineTransform,
    /// Thomas factors `g_0 = 1/b_k`, `g_i = 1/(b_k - g_{i-1})`, `b_k = 4 - 2cos(πk/(m+1))`, at `[i][k]`.
    factors: Vec<f32>,
}

impl DirichletPoisson {
    pub fn new(m: usize) -> Self {
        let mut factors = vec![0.0; m * m];
        for k in 0..m {
            let b = 4.0 - 2.0 * (PI * (k + 1) as f64 / (m + 1) as f64).cos();
            let mut g = 0.0;
            for i in 0..m {
                g = 1.0 / (b - g);
                factors[i * m + k] = g as f32;
            }
        }
        Self {
            m,
            sine: SineTransform::new(m + 1),
            factors,
        }
    }
}

impl FastPoisson for DirichletPoisson {
    fn solve(&mut self, r: &mut [f32]) {
        let m = self.m;
        self.sine.rows(r);
        let scale = 2.0 / (m + 1) as f32;
        for (x, g) in r[..m].iter_mut().zip(&self.factors[..m]) {
            *x *= scale * g;
        }
        for i in 1..m {
            let (above, row) = r[(i - 1) * m..(i + 1) * m].split_at_mut(m);
            let g = &self.factors[i * m..(i + 1) * m];
            for k in 0..m {
                row[k] = (scale * row[k] + above[k]) * g[k];
            }
        }
        for i in (0..m - 1).rev() {
            let (row, below) = r[i * m..(i + 2) * m].split_at_mut(m);
            let g = &self.factors[i * m..(i + 1) * m];
            for k in 0..m {
                row[k] += g[k] * below[k];
            }
        }
        self.sine.rows(r);
    }
}

/// On the torus, mean removed: Fourier transforms along both axes.
pub(crate) struct PeriodicPoisson {
    m: usize,
    fourier: Fourier2d,
    eigen: Vec<f64>,
    work: Vec<Complex64>,
}

impl PeriodicPoisson {
    pub fn new(m: usize) -> Self {
        let eigen = (0..m).map(|k| 2.0 - 2.0 * (2.0 * PI * k as f64 / m as f64).cos());
        Self {
            m,
            fourier: Fourier2d::new(m),
            eigen: eigen.collect(),
            work: vec![Complex64::default(); m * m],
        }
    }
}

impl FastPoisson for PeriodicPoisson {
    fn solve(&mut self, r: &mut [f32]) {
        let m = self.m;
        for (z, &v) in self.work.iter_mut().zip(r.iter()) {
            *z = Complex64::new(v as f64, 0.0);
        }
        self.fourier.forward(&mut self.work);
        let scale = 1.0 / (m * m) as f64;
        for (i, z) in self.work.iter_mut().enumerate() {
            *z *= scale / (self.eigen[i / m] + self.eigen[i % m]);
        }
        self.work[0] = Complex64::default();
        self.fourier.inverse(&mut self.work);
        for (v, z) in r.iter_mut().zip(&self.work) {
            *v = z.re as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest difference between `r` and the five-point operator applied to its solution.
    fn residual(solver: &mut dyn FastPoisson, r: &[f32], m: usize, periodic: bool) -> f32 {
        let mut w = r.to_vec();
        solver.solve(&mut w);
        let at = |i: i64, j: i64| {
            let inside = |k: i64| (0..m as i64).contains(&k);
            let wrap = |k: i64| k.rem_euclid(m as i64) as usize;
            if periodic || (inside(i) && inside(j)) {
                w[wrap(i) * m + wrap(j)]
            } else {
                0.0
            }
        };
        let mut worst = 0f32;
        for i in 0..m as i64 {
            for j in 0..m as i64 {
                let neighbours = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
                let back = 4.0 * at(i, j) - neighbours;
                worst = worst.max((back - r[i as usize * m + j as usize]).abs());
            }
        }
        worst
    }

    #[test]
    fn both_solvers_invert_the_five_point_operator() {
        for m in [1, 3, 9, 49] {
            let r: Vec<f32> = (0..m * m).map(|i| ((i * i + 5 * i) as f32).sin()).collect();
            assert!(residual(&mut DirichletPoisson::new(m), &r, m, false) < 1e-4);
            if m > 1 {
                let mean = r.iter().sum::<f32>() / (m * m) as f32;
                let r: Vec<f32> = r.iter().map(|v| v - mean).collect();
                assert!(residual(&mut PeriodicPoisson::new(m), &r, m, true) < 1e-4);
            }
        }
    }
}
