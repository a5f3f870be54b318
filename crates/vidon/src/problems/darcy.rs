//! Darcy flow `-∇·(a∇u) = f` on [0,1]²: from the permeability a to the pressure u.
//!
//! | boundary    | u                      | f                   | Gaussian field g                                     |
//! |-------------|------------------------|---------------------|------------------------------------------------------|
//! | `dirichlet` | 0 on the boundary      | 1                   | cosine basis, amplitudes 3/(π²\|k\|² + 9)            |
//! | `periodic`  | zero mean on the torus | sin(2πx)·sin(2πy)   | periodic basis, amplitudes 1/(4π²\|k\|² + 9)         |
//!
//! In both, `a = 10·(g − min g) + 0.5`. Centred second-order differences on 251 × 251 nodes; on a face a is the
//! mean of its two nodes.
//!
//! Solver: with `w = √a·u` the scaled matrix `A_ij/√(a_i a_j)` differs from the five-point Laplacian by little
//! more than a potential, so conjugate gradients preconditioned by a fast Poisson solver need about a dozen steps
//! whatever the grid (Concus and Golub, 1973).

use std::f64::consts::TAU;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::BoxDomain;
use crate::error::{Error, Result};
use crate::problems::field::GridField;
use crate::problems::poisson::{DirichletPoisson, FastPoisson, PeriodicPoisson};
use crate::problems::random_field::{cosine_field, periodic_field};
use crate::problems::{Drawn, FunctionPair, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::{Pool, SensorSpec};

/// Nodes per axis of the grid on which a and u are known.
const NODES: usize = 251;
/// Degree of the periodic field: all that 250 periodic nodes resolve.
const PERIODIC_DEGREE: usize = 124;
/// `‖f - Au‖₂ / ‖f‖₂` at which the solver stops.
const TOLERANCE: f64 = 1e-8;
const MAX_ITERATIONS: usize = 500;
/// Rejected permeabilities in a row after which something must be wrong.
const MAX_DRAWS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// u = 0 on the boundary; what the published numbers were computed on.
    #[default]
    Dirichlet,
    /// The torus; what the paper prints.
    Periodic,
}

/// The problem with its random permeabilities.
pub struct Darcy {
    boundary: Boundary,
    solvers: Mutex<Vec<DarcySolver>>,
}

impl Darcy {
    pub fn new(boundary: Boundary) -> Self {
        Self {
            boundary,
            solvers: Mutex::default(),
        }
    }

    /// A random permeability on the solver's nodes.
    pub fn permeability(&self, rng: &mut Rng) -> Vec<f64> {
        let mut g = match self.boundary {
            Boundary::Dirichlet => cosine_field(NODES, |k2| 3.0 / (k2 + 9.0), rng),
            Boundary::Periodic => {
                periodic_field(PERIODIC_DEGREE, |k2| 1.0 / (k2 + 9.0), rng).on_torus_grid(NODES - 1)
            }
        };
        let lowest = g.iter().copied().fold(f64::INFINITY, f64::min);
        g.iter_mut().for_each(|v| *v = 10.0 * (*v - lowest) + 0.5);
        g
    }

    /// Solves for permeabilities from `next` until a solution is finite and (Dirichlet) nowhere negative.
    fn draw_from(&self, mut next: impl FnMut() -> Vec<f64>) -> Result<Drawn> {
        let lock = || self.solvers.lock().expect("nothing panics under the lock");
        let idle = lock().pop();
        let mut solver = idle.unwrap_or_else(|| DarcySolver::new(NODES - 1, self.boundary));
        let source = self.source();
        let physical = |u: &f64| match self.boundary {
            Boundary::Dirichlet => u.is_finite() && *u >= 0.0,
            Boundary::Periodic => u.is_finite(),
        };
        for redrawn in 0..MAX_DRAWS {
            let a = next();
            let Ok(solution) = solver.solve(&a, &source) else {
                continue;
            };
            if solution.u.iter().all(physical) {
                lock().push(solver);
                let values = [self.with_ends(&a), self.with_ends(&solution.u)].concat();
                return Ok(Drawn { values, redrawn });
            }
        }
        Err(Error::Numerics(format!(
            "{MAX_DRAWS} permeabilities in a row had no physical solution"
        )))
    }

    /// The right-hand side on the solver's nodes.
    pub fn source(&self) -> Vec<f64> {
        match self.boundary {
            Boundary::Dirichlet => vec![1.0; NODES * NODES],
            Boundary::Periodic => {
                let n = NODES - 1;
                let sine = |i: usize| (TAU * i as f64 / n as f64).sin();
                (0..n * n).map(|i| sine(i / n) * sine(i % n)).collect()
            }
        }
    }

    /// Solver nodes to the 251 × 251 nodes with both ends: on the torus the first row and column come again.
    fn with_ends(&self, values: &[f64]) -> Vec<f32> {
        let n = match self.boundary {
            Boundary::Dirichlet => NODES,
            Boundary::Periodic => NODES - 1,
        };
        let mut out = Vec::with_capacity(NODES * NODES);
        for i in 0..NODES {
            let row = &values[i % n * n..][..n];
            out.extend(row.iter().chain(row).take(NODES).map(|&v| v as f32));
        }
        out
    }
}

impl Problem for Darcy {
    fn name(&self) -> &'static str {
        "darcy"
    }

    fn parameters(&self) -> serde_json::Value {
        json!({ "boundary": self.boundary, "nodes": NODES, "tolerance": TOLERANCE })
    }

    fn spec(&self) -> Spec {
        let domain = BoxDomain::cube(2, 0.0, 1.0);
        let pool = Pool::Grid(vec![NODES; 2]);
        Spec {
            sensors: SensorSpec::new(domain, vec![51; 2], pool).expect("nested grids"),
            test_grid: vec![51; 2],
            train_times: None,
            test_times: None,
            coord_names: vec!["x", "y"],
            input_name: "a",
            output_name: "u",
        }
    }

    fn stored_len(&self) -> usize {
        2 * NODES * NODES
    }

    fn draw(&self, rng: &mut Rng) -> Result<Drawn> {
        self.draw_from(|| self.permeability(rng))
    }

    fn functions(&self, stored: &[f32]) -> FunctionPair {
        let (a, u) = stored.split_at(NODES * NODES);
        let field = |values: &[f32]| {
            Box::new(GridField::new(
                BoxDomain::cube(2, 0.0, 1.0),
                vec![NODES; 2],
                values.to_vec(),
            ))
        };
        FunctionPair {
            input: field(a),
            output: field(u),
        }
    }
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

/// What [`DarcySolver::solve`] found.
pub struct Solution {
    /// On the same nodes as a and f.
    pub u: Vec<f64>,
    pub iterations: usize,
    /// `‖f - Au‖₂ / ‖f‖₂`.
    pub residual: f64,
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

    /// `a` and `f` on (n+1)² nodes with ends (Dirichlet) or on n² nodes (periodic; f must have zero mean).
    pub fn solve(&mut self, a: &[f64], f: &[f64]) -> Result<Solution> {
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
        Ok(Solution {
            u,
            iterations,
            residual,
        })
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
    use super::*;
    use crate::rng::stream;

    /// `‖f - Au‖₂/‖f‖₂` from the definition of the scheme, written apart from the solver.
    fn residual(a: &[f64], f: &[f64], u: &[f64], nodes: usize, boundary: Boundary) -> f64 {
        let (range, h) = match boundary {
            Boundary::Dirichlet => (1..nodes - 1, 1.0 / (nodes - 1) as f64),
            Boundary::Periodic => (0..nodes, 1.0 / nodes as f64),
        };
        let at = |v: &[f64], i: usize, j: usize| v[i % nodes * nodes + j % nodes];
        let (mut apart, mut norm) = (0.0, 0.0);
        for i in range.clone() {
            for j in range.clone() {
                let flux = |di: usize, dj: usize| {
                    let (k, l) = (i + di, j + dj);
                    0.5 * (at(a, i, j) + at(a, k, l)) * (at(u, i, j) - at(u, k, l))
                };
                let divergence = flux(1, 0) + flux(nodes - 1, 0) + flux(0, 1) + flux(0, nodes - 1);
                apart += (at(f, i, j) - divergence / (h * h)).powi(2);
                norm += at(f, i, j).powi(2);
            }
        }
        f64::sqrt(apart / norm)
    }

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
            .u;
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

    #[test]
    fn random_samples_reach_the_tolerance_with_positive_pressure() {
        for (boundary, samples) in [(Boundary::Dirichlet, 50), (Boundary::Periodic, 5)] {
            let problem = Darcy::new(boundary);
            let mut solver = DarcySolver::new(NODES - 1, boundary);
            let f = problem.source();
            let nodes = f.len().isqrt();
            let (mut worst, mut iterations) = (0f64, 0);
            for index in 0..samples {
                let a = problem.permeability(&mut stream(0, "test", index));
                let solution = solver.solve(&a, &f).unwrap();
                worst = worst.max(residual(&a, &f, &solution.u, nodes, boundary));
                iterations += solution.iterations;
                match boundary {
                    Boundary::Dirichlet => assert!(solution.u.iter().all(|&u| u >= 0.0)),
                    Boundary::Periodic => assert!(solution.u.iter().sum::<f64>().abs() < 1e-8),
                }
            }
            println!(
                "{boundary:?}: worst residual {worst:.2e}, {:.1} iterations",
                iterations as f64 / samples as f64
            );
            assert!(worst <= 1e-8);
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
            .u;
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

    #[test]
    fn rejected_permeabilities_are_drawn_again_and_counted() {
        let problem = Darcy::new(Boundary::Dirichlet);
        let mut draws = 0;
        let drawn = problem.draw_from(|| {
            draws += 1;
            let a = if draws < 3 { f64::NAN } else { 1.0 };
            vec![a; NODES * NODES]
        });
        assert_eq!(drawn.unwrap().redrawn, 2);
        assert!(problem.draw_from(|| vec![-1.0; NODES * NODES]).is_err());
    }

    #[test]
    fn torus_fields_repeat_at_their_ends() {
        let problem = Darcy::new(Boundary::Periodic);
        let values = problem.draw(&mut stream(0, "test", 0)).unwrap().values;
        let pair = problem.functions(&values);
        for field in [pair.input, pair.output] {
            assert_eq!(
                field.at(&[0.0, 0.4]).unwrap(),
                field.at(&[1.0, 0.4]).unwrap()
            );
            assert_eq!(
                field.at(&[0.4, 0.0]).unwrap(),
                field.at(&[0.4, 1.0]).unwrap()
            );
        }
    }
}
