//! The discrete Darcy problem: centred second-order differences for `-∇·(a∇u) = f`, a on a face the mean of its
//! two nodes.
//!
//! With `w = √a·u` the scaled matrix `A_ij/√(a_i a_j)` differs from the five-point Laplacian by little more than a
//! potential, so conjugate gradients preconditioned by a fast Poisson solver need about a dozen steps whatever the
//! grid (Concus and Golub, 1973).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::problems::poisson::{DirichletPoisson, FastPoisson, PeriodicPoisson};

/// `‖f - Au‖₂ / ‖f‖₂` at which the solver stops.
pub(crate) const TOLERANCE: f64 = 1e-8;
const MAX_ITERATIONS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// u = 0 on the boundary; what the published numbers were computed on.
    #[default]
    Dirichlet,
    /// The torus; what the paper prints.
    Periodic,
}

/// The discrete problem on `n` intervals per axis, with its workspace.
pub struct DarcySolver {
    n: usize,
    boundary: Boundary,
    /// Unknowns per axis: the interior nodes, or all nodes of the torus.
    m: usize,
    poisson: Box<dyn FastPoisson>,
    matrix: ScaledMatrix,
    /// Solution, residual, search direction and its image of the conjugate gradients.
    work: [Vec<f64>; 4],
    /// The preconditioned residual.
    z: Vec<f32>,
}

impl DarcySolver {
    /// `intervals` must be even for Dirichlet boundaries.
    pub fn new(intervals: usize, boundary: Boundary) -> Self {
        let (m, poisson): (usize, Box<dyn FastPoisson>) = match boundary {
            Boundary::Dirichlet => (
                intervals - 1,
                Box::new(DirichletPoisson::new(intervals - 1)),
            ),
            Boundary::Periodic => (intervals, Box::new(PeriodicPoisson::new(intervals))),
        };
        Self {
            n: intervals,
            boundary,
            m,
            poisson,
            matrix: ScaledMatrix::new(m),
            work: std::array::from_fn(|_| vec![0.0; m * m]),
            z: vec![0.0; m * m],
        }
    }

    /// The solution, and the iterations that it took; `a` and `f` on (n+1)² nodes with ends (Dirichlet) or on
    /// n² nodes (periodic; f must have zero mean).
    pub fn solve(&mut self, a: &[f64], f: &[f64]) -> Result<(Vec<f64>, usize)> {
        let m = self.m;
        let (nodes, first) = match self.boundary {
            Boundary::Dirichlet => (self.n + 1, 1),
            Boundary::Periodic => (self.n, 0),
        };
        assert!(
            a.len() == nodes * nodes && f.len() == nodes * nodes,
            "a and f must fill the grid"
        );
        if let Some(bad) = a.iter().find(|&&v| !(v > 0.0 && v.is_finite())) {
            return Err(Error::Numerics(format!(
                "the permeability must be positive and finite everywhere; it has the value {bad}"
            )));
        }
        self.matrix.fill(a, nodes, first);
        let ([w, r, direction, image], z) = (&mut self.work, &mut self.z);
        let h2 = 1.0 / (self.n * self.n) as f64;
        for i in 0..m {
            let f = &f[(i + first) * nodes + first..][..m];
            let sqrt_a = &self.matrix.sqrt_a[i * m..][..m];
            for ((r, f), sqrt_a) in r[i * m..][..m].iter_mut().zip(f).zip(sqrt_a) {
                *r = h2 * f / sqrt_a;
            }
        }
        w.fill(0.0);
        direction.fill(0.0);
        let norm = self.matrix.unscaled_square(r).sqrt();
        let mut residual = if norm > 0.0 { 1.0 } else { 0.0 };
        let (mut rz_before, mut iterations) = (f64::INFINITY, 0);

        while residual > TOLERANCE {
            // Scaled to about 1, so that single precision neither over- nor underflows.
            let size = residual * norm;
            let scale = 1.0 / size;
            for (z, r) in z.iter_mut().zip(&*r) {
                *z = (scale * r) as f32;
            }
            self.poisson.solve(z);
            let rz = lanes(r.len(), |i| r[i] * z[i] as f64) * size;
            let beta = rz / rz_before;
            for (d, z) in direction.iter_mut().zip(&*z) {
                *d = *z as f64 * size + beta * *d;
            }
            self.matrix.apply(direction, image);
            let alpha = rz / dot(direction, image);
            for (w, d) in w.iter_mut().zip(&*direction) {
                *w += alpha * d;
            }
            for (r, d) in r.iter_mut().zip(&*image) {
                *r -= alpha * d;
            }
            rz_before = rz;
            residual = self.matrix.unscaled_square(r).sqrt() / norm;
            iterations += 1;
            if iterations == MAX_ITERATIONS || !residual.is_finite() {
                return Err(Error::Numerics(format!(
                    "the Darcy solver stands at a residual of {residual:.1e} after {iterations} iterations (wanted: {TOLERANCE:e})"
                )));
            }
        }

        let mut u = vec![0.0; nodes * nodes];
        for i in 0..m {
            let w = w[i * m..][..m]
                .iter()
                .zip(&self.matrix.sqrt_a[i * m..][..m]);
            for (u, (w, sqrt_a)) in u[(i + first) * nodes + first..][..m].iter_mut().zip(w) {
                *u = w / sqrt_a;
            }
        }
        if self.boundary == Boundary::Periodic {
            let mean = u.iter().sum::<f64>() / u.len() as f64;
            u.iter_mut().for_each(|v| *v -= mean);
        }
        Ok((u, iterations))
    }
}

/// `D^{-1/2} (h²A) D^{-1/2}` with `D = diag(a)`, as its five diagonals. Indices wrap around; with Dirichlet
/// boundaries the wrapping couplings are zero.
struct ScaledMatrix {
    m: usize,
    sqrt_a: Vec<f64>,
    diagonal: Vec<f64>,
    /// Minus the coupling to the next column and to the next row.
    east: Vec<f64>,
    south: Vec<f64>,
}

impl ScaledMatrix {
    fn new(m: usize) -> Self {
        let zeros = || vec![0.0; m * m];
        Self {
            m,
            sqrt_a: zeros(),
            diagonal: zeros(),
            east: zeros(),
            south: zeros(),
        }
    }

    /// From a on `nodes × nodes` nodes, of which `first..first + m` per axis are unknowns.
    fn fill(&mut self, a: &[f64], nodes: usize, first: usize) {
        let m = self.m;
        let roots: Vec<f64> = a.iter().map(|v| v.sqrt()).collect();
        let wraps = m == nodes;
        let row = |i: usize| (i % nodes) * nodes..(i % nodes + 1) * nodes;
        for i in 0..m {
            let (here, north, south) = (
                row(i + first),
                row(i + first + nodes - 1),
                row(i + first + 1),
            );
            let (root, root_south) = (&roots[here.clone()], &roots[south.clone()]);
            let (here, north, south) = (&a[here], &a[north], &a[south]);
            for j in 0..m {
                let c = j + first;
                let east = if c + 1 == nodes { 0 } else { c + 1 };
                let west = if c == 0 { nodes - 1 } else { c - 1 };
                let around = north[c] + south[c] + here[east] + here[west];
                let k = i * m + j;
                self.sqrt_a[k] = root[c];
                // The four faces (a + a')/2, over a.
                self.diagonal[k] = 2.0 + 0.5 * around / here[c];
                let coupling =
                    |other: f64, other_root: f64| 0.5 * (here[c] + other) / (root[c] * other_root);
                self.east[k] = if wraps || j + 1 < m {
                    coupling(here[east], root[east])
                } else {
                    0.0
                };
                self.south[k] = if wraps || i + 1 < m {
                    coupling(south[c], root_south[c])
                } else {
                    0.0
                };
            }
        }
    }

    fn apply(&self, x: &[f64], y: &mut [f64]) {
        let m = self.m;
        for i in 0..m {
            let above = if i == 0 { m - 1 } else { i - 1 };
            let below = if i + 1 == m { 0 } else { i + 1 };
            let (here, up, down) = (&x[i * m..][..m], &x[above * m..][..m], &x[below * m..][..m]);
            let (diagonal, east) = (&self.diagonal[i * m..][..m], &self.east[i * m..][..m]);
            let (south, north) = (&self.south[i * m..][..m], &self.south[above * m..][..m]);
            let out = &mut y[i * m..][..m];
            for j in 0..m {
                out[j] = diagonal[j] * here[j] - south[j] * down[j] - north[j] * up[j];
            }
            for j in 0..m - 1 {
                out[j] -= east[j] * here[j + 1];
            }
            for j in 1..m {
                out[j] -= east[j - 1] * here[j - 1];
            }
            out[m - 1] -= east[m - 1] * here[0];
            out[0] -= east[m - 1] * here[m - 1];
        }
    }

    /// `‖D^{1/2} r‖²`: the residual of the matrix before the scaling.
    fn unscaled_square(&self, r: &[f64]) -> f64 {
        lanes(r.len(), |i| (self.sqrt_a[i] * r[i]).powi(2))
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    lanes(x.len().min(y.len()), |i| x[i] * y[i])
}

/// `Σ term(i)` in eight running sums, so that it vectorises and always adds in the same order.
fn lanes(n: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let whole = n / 8 * 8;
    for i in (0..whole).step_by(8) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += term(i + lane);
        }
    }
    sums.iter().sum::<f64>() + (whole..n).map(term).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::problems::random_field::cosine_field;
    use crate::rng::stream;

    /// Relative L² error for `u = sin(2πx)·sin(2πy)` (zero on the boundary, and periodic) with
    /// `a = 2 + cos(2πx)·sin(2πy)`.
    fn manufactured_error(points: usize, boundary: Boundary) -> f64 {
        let intervals = points - 1;
        let nodes = match boundary {
            Boundary::Dirichlet => points,
            Boundary::Periodic => intervals,
        };
        let on_nodes = |g: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            let at = |i: usize| i as f64 / intervals as f64;
            (0..nodes * nodes)
                .map(|i| g(at(i / nodes), at(i % nodes)))
                .collect()
        };
        let waves = |x: f64, y: f64| {
            (
                (TAU * x).sin(),
                (TAU * x).cos(),
                (TAU * y).sin(),
                (TAU * y).cos(),
            )
        };
        let exact = on_nodes(&|x, y| {
            let (sx, _, sy, _) = waves(x, y);
            sx * sy
        });
        let a = on_nodes(&|x, y| {
            let (_, cx, sy, _) = waves(x, y);
            2.0 + cx * sy
        });
        let f = on_nodes(&|x, y| {
            let (sx, cx, sy, cy) = waves(x, y);
            let (a, a_x, a_y) = (2.0 + cx * sy, -TAU * sx * sy, TAU * cx * cy);
            let (u_x, u_y) = (TAU * cx * sy, TAU * sx * cy);
            2.0 * TAU * TAU * a * sx * sy - a_x * u_x - a_y * u_y
        });
        let u = DarcySolver::new(intervals, boundary)
            .solve(&a, &f)
            .unwrap()
            .0;
        let apart: f64 = u.iter().zip(&exact).map(|(x, y)| (x - y).powi(2)).sum();
        (apart / exact.iter().map(|v| v * v).sum::<f64>()).sqrt()
    }

    #[test]
    fn manufactured_solution_converges_with_second_order() {
        for boundary in [Boundary::Dirichlet, Boundary::Periodic] {
            let points = [63, 127, 251];
            let errors = points.map(|n| manufactured_error(n, boundary));
            let order = (errors[0] / errors[2]).ln() / (250f64 / 62.0).ln();
            println!("{boundary:?}: errors {errors:?}, order {order:.3}");
            assert!(order >= 1.95);
        }
    }

    /// Cholesky factorisation of the assembled band matrix: no scaling, no transforms, no iteration.
    fn direct(a: &[f64], nodes: usize) -> Vec<f64> {
        let m = nodes - 2;
        let h2 = 1.0 / ((nodes - 1) * (nodes - 1)) as f64;
        // band[i][d] = A_{i, i-d}, d = 0..=m.
        let mut band = vec![vec![0.0; m + 1]; m * m];
        for (i, row) in band.iter_mut().enumerate() {
            let here = (i / m + 1) * nodes + i % m + 1;
            let face = |other: usize| 0.5 * (a[here] + a[other]) / h2;
            row[0] = face(here - 1) + face(here + 1) + face(here - nodes) + face(here + nodes);
            if i % m > 0 {
                row[1] = -face(here - 1);
            }
            if i >= m {
                row[m] = -face(here - nodes);
            }
        }
        for i in 0..m * m {
            for j in i.saturating_sub(m)..=i {
                let low = i.saturating_sub(m);
                let inner: f64 = (low..j)
                    .map(|k| band[i][i - k] * band[j].get(j - k).copied().unwrap_or(0.0))
                    .sum();
                let value = band[i][i - j] - inner;
                band[i][i - j] = if i == j {
                    value.sqrt()
                } else {
                    value / band[j][0]
                };
            }
        }
        let mut u = vec![1.0; m * m];
        for i in 0..m * m {
            let inner: f64 = (i.saturating_sub(m)..i)
                .map(|k| band[i][i - k] * u[k])
                .sum();
            u[i] = (u[i] - inner) / band[i][0];
        }
        for i in (0..m * m).rev() {
            u[i] /= band[i][0];
            for k in i.saturating_sub(m)..i {
                u[k] -= band[i][i - k] * u[i];
            }
        }
        u
    }

    #[test]
    fn agrees_with_a_direct_solve() {
        let nodes = 101;
        let mut a = cosine_field(nodes, |k2| 3.0 / (k2 + 9.0), &mut stream(4, "test", 0));
        let lowest = a.iter().copied().fold(f64::INFINITY, f64::min);
        a.iter_mut().for_each(|v| *v = 10.0 * (*v - lowest) + 0.5);
        let f = vec![1.0; nodes * nodes];
        let u = DarcySolver::new(nodes - 1, Boundary::Dirichlet)
            .solve(&a, &f)
            .unwrap()
            .0;
        let exact = direct(&a, nodes);
        let m = nodes - 2;
        let inner = |i: usize| u[(i / m + 1) * nodes + i % m + 1];
        let apart: f64 = exact
            .iter()
            .enumerate()
            .map(|(i, v)| (v - inner(i)).powi(2))
            .sum();
        let relative = (apart / exact.iter().map(|v| v * v).sum::<f64>()).sqrt();
        println!("relative difference from the direct solve {relative:.1e}");
        assert!(relative < 1e-8);
    }

    #[test]
    fn a_permeability_that_is_not_positive_is_an_error() {
        let mut a = vec![1.0; 11 * 11];
        a[60] = f64::NAN;
        let mut solver = DarcySolver::new(10, Boundary::Dirichlet);
        assert!(solver.solve(&a, &[1.0; 121]).is_err());
        a[60] = -1.0;
        assert!(solver.solve(&a, &[1.0; 121]).is_err());
    }
}
