//! Real trigonometric polynomials on the unit torus, the exact form of every periodic field here:
//!
//!   f(x, y) = Re Σ_{|p| ≤ K, 0 ≤ q ≤ K} c_{pq} e^{2πi(px + qy)}

use std::f64::consts::TAU;

use rustfft::num_complex::Complex64;

use crate::error::Result;
use crate::problems::field::Field;
use crate::problems::transform::Fourier2d;

/// Points evaluated together, one per vector lane.
const LANES: usize = 8;

/// A real trigonometric polynomial of degree K per axis.
#[derive(Clone)]
pub struct TrigField {
    degree: usize,
    /// `c_{pq}` at `(p + K)·(K + 1) + q`.
    coefs: Vec<Complex64>,
}

impl TrigField {
    /// The polynomial whose coefficient at (p, q), `|p| ≤ degree`, `0 ≤ q ≤ degree`, is `coef(p, q)`.
    pub fn from_coefs(degree: usize, mut coef: impl FnMut(i64, i64) -> Complex64) -> Self {
        let k = degree as i64;
        let coefs = (-k..=k)
            .flat_map(|p| (0..=k).map(move |q| (p, q)))
            .map(|(p, q)| coef(p, q))
            .collect();
        Self { degree, coefs }
    }

    /// The interpolant of an `n × n` periodic grid (node i at i/n), of degree ⌈n/2⌉ − 1.
    pub fn from_torus_grid(values: &[f32], n: usize) -> Self {
        assert_eq!(values.len(), n * n);
        let mut spectrum: Vec<Complex64> = values
            .iter()
            .map(|&v| Complex64::new(v as f64, 0.0))
            .collect();
        Fourier2d::new(n).forward(&mut spectrum);
        let scale = 1.0 / (n * n) as f64;
        Self::from_coefs(n.div_ceil(2) - 1, |p, q| {
            let c = spectrum[q as usize * n + p.rem_euclid(n as i64) as usize] * scale;
            if q == 0 { c } else { c * 2.0 }
        })
    }

    #[cfg(test)]
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// `c_{pq}`, zero beyond the degree.
    pub fn coef(&self, p: i64, q: i64) -> Complex64 {
        let k = self.degree as i64;
        if p.abs() > k || !(0..=k).contains(&q) {
            return Complex64::default();
        }
        self.coefs[((p + k) * (k + 1) + q) as usize]
    }

    /// Values on the `n × n` periodic grid, node i at i/n; needs `n > 2·degree`.
    pub fn on_torus_grid(&self, n: usize) -> Vec<f64> {
        assert!(
            n > 2 * self.degree,
            "a grid of {n} is too coarse for degree {}",
            self.degree
        );
        let mut values = vec![Complex64::default(); n * n];
        let k = self.degree as i64;
        for (row, p) in self.coefs.chunks(self.degree + 1).zip(-k..=k) {
            for (q, c) in row.iter().enumerate() {
                values[q * n + p.rem_euclid(n as i64) as usize] = *c;
            }
        }
        Fourier2d::new(n).inverse(&mut values);
        values.iter().map(|v| v.re).collect()
    }

    /// `e^{2πi·k·x}` for k = 0..=K at up to LANES places, as `[k][lane]` of (cos, sin).
    fn waves(&self, x: &[f64]) -> Vec<([f64; LANES], [f64; LANES])> {
        let mut waves = vec![([0.0; LANES], [0.0; LANES]); self.degree + 1];
        for (lane, &x) in x.iter().enumerate() {
            let step = Complex64::from_polar(1.0, TAU * x);
            let mut turn = Complex64::new(1.0, 0.0);
            for wave in &mut waves {
                (wave.0[lane], wave.1[lane]) = (turn.re, turn.im);
                turn *= step;
            }
        }
        waves
    }

    /// `s_p = Σ_q c_{pq} e^{2πiqy}` for every p, at LANES places y.
    fn row_sums(
        &self,
        waves: &[([f64; LANES], [f64; LANES])],
    ) -> Vec<([f64; LANES], [f64; LANES])> {
        let sum = |row: &[Complex64]| {
            let mut s = ([0.0; LANES], [0.0; LANES]);
            for (c, wave) in row.iter().zip(waves) {
                for lane in 0..LANES {
                    s.0[lane] += c.re * wave.0[lane] - c.im * wave.1[lane];
                    s.1[lane] += c.re * wave.1[lane] + c.im * wave.0[lane];
                }
            }
            s
        };
        self.coefs.chunks(self.degree + 1).map(sum).collect()
    }

    /// `Re Σ_p s_p e^{2πipx}`, lane by lane.
    fn column_sum(
        &self,
        sums: &[([f64; LANES], [f64; LANES])],
        waves: &[([f64; LANES], [f64; LANES])],
    ) -> [f64; LANES] {
        let mut total = [0.0; LANES];
        for (p, s) in (-(self.degree as i64)..).zip(sums) {
            let wave = &waves[p.unsigned_abs() as usize];
            let sign = p.signum() as f64;
            for lane in 0..LANES {
                total[lane] += s.0[lane] * wave.0[lane] - sign * s.1[lane] * wave.1[lane];
            }
        }
        total
    }
}

impl Field for TrigField {
    fn dim(&self) -> usize {
        2
    }

    fn at(&self, points: &[f64]) -> Result<Vec<f32>> {
        let mut values = Vec::with_capacity(points.len() / 2);
        for block in points.chunks(2 * LANES) {
            let [x, y] = [0, 1].map(|axis| block.chunks(2).map(|p| p[axis]).collect::<Vec<f64>>());
            let total = self.column_sum(&self.row_sums(&self.waves(&y)), &self.waves(&x));
            values.extend(total[..x.len()].iter().map(|&v| v as f32));
        }
        Ok(values)
    }

    /// Separable: the inner sums over q are shared by a whole column of the grid.
    fn on_axes(&self, axes: &[Vec<f64>]) -> Result<Vec<f32>> {
        let [xs, ys] = axes else {
            panic!("a field on the torus has two axes")
        };
        let mut values = vec![0.0; xs.len() * ys.len()];
        let x_waves: Vec<_> = xs.iter().map(|&x| self.waves(&[x; LANES])).collect();
        for (block, places) in ys.chunks(LANES).enumerate() {
            let sums = self.row_sums(&self.waves(places));
            for (i, waves) in x_waves.iter().enumerate() {
                let total = self.column_sum(&sums, waves);
                for (lane, v) in total[..places.len()].iter().enumerate() {
                    values[i * ys.len() + block * LANES + lane] = *v as f32;
                }
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::product;

    fn sample() -> TrigField {
        TrigField::from_coefs(3, |p, q| {
            Complex64::new((p * 3 + q) as f64 * 0.1, (p - q) as f64 * 0.2)
        })
    }

    fn formula(field: &TrigField, x: f64, y: f64) -> f64 {
        let mut sum = 0.0;
        for p in -3..=3 {
            for q in 0..=3 {
                let turn = Complex64::from_polar(1.0, TAU * (p as f64 * x + q as f64 * y));
                sum += (field.coef(p, q) * turn).re;
            }
        }
        sum
    }

    #[test]
    fn points_axes_and_grids_agree_with_the_formula() {
        let field = sample();
        let axes = [
            vec![0.0, 0.13, 0.5, 1.0],
            (0..11).map(|j| j as f64 / 10.0).collect(),
        ];
        let points = product(&axes);
        let scattered = field.at(&points).unwrap();
        let gridded = field.on_axes(&axes).unwrap();
        for ((p, a), b) in points.chunks(2).zip(&scattered).zip(&gridded) {
            let exact = formula(&field, p[0], p[1]);
            assert!((exact - *a as f64).abs() < 1e-6 && (exact - *b as f64).abs() < 1e-6);
        }
        let torus = field.on_torus_grid(8);
        for (i, v) in torus.iter().enumerate() {
            assert!(
                (v - formula(&field, (i / 8) as f64 / 8.0, (i % 8) as f64 / 8.0)).abs() < 1e-12
            );
        }
    }

    #[test]
    fn a_grid_holds_the_whole_polynomial() {
        let field = sample();
        let grid: Vec<f32> = field.on_torus_grid(8).iter().map(|&v| v as f32).collect();
        let back = TrigField::from_torus_grid(&grid, 8);
        let points = [0.3, 0.7, 0.01, 0.99];
        for (a, b) in field
            .at(&points)
            .unwrap()
            .iter()
            .zip(back.at(&points).unwrap())
        {
            assert!((a - b).abs() < 1e-5);
        }
    }
}
