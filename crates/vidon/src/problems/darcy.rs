//! Darcy flow `-∇·(a∇u) = f` on [0,1]²: from the permeability a to the pressure u.
//!
//! | boundary    | u                      | f                   | Gaussian field g                                     |
//! |-------------|------------------------|---------------------|------------------------------------------------------|
//! | `dirichlet` | 0 on the boundary      | 1                   | cosine basis, amplitudes 3/(π²\|k\|² + 9)            |
//! | `periodic`  | zero mean on the torus | sin(2πx)·sin(2πy)   | periodic basis, amplitudes 1/(4π²\|k\|² + 9)         |
//!
//! In both, `a = 10·(g − min g) + 0.5`. Centred second-order differences on 251 × 251 nodes; on a face a is the
//! mean of its two nodes.

use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::error::{Error, Result};
use crate::problems::darcy_solver::{Boundary, DarcySolver, TOLERANCE};
use crate::problems::field::{Field, GridField};
use crate::problems::random_field::{cosine_field, periodic_field};
use crate::problems::{Parameters, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::SensorSpec;

/// Nodes per axis of the grid on which a and u are known.
const NODES: usize = 251;
/// Degree of the periodic field: all that 250 periodic nodes resolve.
const PERIODIC_DEGREE: usize = 124;
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

    /// The pair of a permeability; none if its solution is not finite or, with Dirichlet's boundary,
    /// somewhere negative.
    fn solve(&self, a: &[f64]) -> Option<Vec<f32>> {
        let lock = || self.solvers.lock().expect("nothing panics under the lock");
        let idle = lock().pop();
        let mut solver = idle.unwrap_or_else(|| DarcySolver::new(NODES - 1, self.boundary));
        let solution = solver.solve(a, &self.source());
        lock().push(solver);
        let physical = |u: &f64| match self.boundary {
            Boundary::Dirichlet => u.is_finite() && *u >= 0.0,
            Boundary::Periodic => u.is_finite(),
        };
        let (u, _) = solution.ok()?;
        let fine = u.iter().all(physical);
        fine.then(|| [self.with_ends(a), self.with_ends(&u)].concat())
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

    fn about(&self) -> &'static str {
        "Porous flow on the unit square: permeability to pressure (boundary: dirichlet, f = 1, or periodic)"
    }

    fn parameters(&self) -> Parameters {
        let boundary = json!(self.boundary);
        let numbers = [
            ("boundary", boundary),
            ("nodes", json!(NODES)),
            ("tolerance", json!(TOLERANCE)),
        ];
        numbers
            .map(|(name, value)| (name.into(), value))
            .into_iter()
            .collect()
    }

    fn with(&self, changed: &Parameters) -> Result<Arc<dyn Problem>> {
        let refuse =
            |name: &str, what: String| Error::setting(format!("data.parameters.{name}"), what);
        if let Some(other) = changed.keys().find(|key| *key != "boundary") {
            return Err(refuse(
                other,
                "darcy lets nobody choose it; there is boundary".into(),
            ));
        }
        let boundary = changed.get("boundary").cloned().unwrap_or_default();
        let boundary = serde_json::from_value(boundary.clone()).map_err(|_| {
            refuse(
                "boundary",
                format!("is {boundary}; there are dirichlet and periodic"),
            )
        })?;
        Ok(Arc::new(Self::new(boundary)))
    }

    fn spec(&self) -> Spec {
        let pool = Some(vec![NODES; 2]);
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]; 2], vec![51; 2], pool).expect("nested grids"),
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

    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>> {
        Ok(self.solve(&self.permeability(rng)))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let (a, u) = stored.split_at(NODES * NODES);
        [a, u].map(|values| -> Box<dyn Field> {
            let field = GridField::new(&[[0.0, 1.0]; 2], vec![NODES; 2], values.to_vec());
            Box::new(field.expect("a value a node"))
        })
    }
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
                let (u, taken) = solver.solve(&a, &f).unwrap();
                worst = worst.max(residual(&a, &f, &u, nodes, boundary));
                iterations += taken;
                match boundary {
                    Boundary::Dirichlet => assert!(u.iter().all(|&u| u >= 0.0)),
                    Boundary::Periodic => assert!(u.iter().sum::<f64>().abs() < 1e-8),
                }
            }
            println!(
                "{boundary:?}: worst residual {worst:.2e}, {:.1} iterations",
                iterations as f64 / samples as f64
            );
            assert!(worst <= 1e-8);
        }
    }

    #[test]
    fn what_has_no_physical_solution_is_not_taken() {
        let problem = Darcy::new(Boundary::Dirichlet);
        let solve = |a: f64| problem.solve(&vec![a; NODES * NODES]);
        assert!(solve(1.0).is_some());
        assert!(solve(f64::NAN).is_none() && solve(-1.0).is_none());
    }

    #[test]
    fn torus_fields_repeat_at_their_ends() {
        let problem = Darcy::new(Boundary::Periodic);
        let values = problem.draw(&mut stream(0, "test", 0)).unwrap();
        for field in problem.functions(&values.expect("it is physical")) {
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
