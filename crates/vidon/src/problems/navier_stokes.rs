//! Incompressible Navier–Stokes on the torus [0,1]² in vorticity form, from ω(0) to ω(T):
//!
//!   ∂ω/∂t + u·∇ω = νΔω,   u = (∂ψ/∂y, -∂ψ/∂x),   -Δψ = ω,   ν = 10⁻³, T = 5, no forcing.
//!
//! ω(0) ~ N(0, 7^{3/2}(-Δ + 49)^{-2.5}), zero mean: amplitudes √2·7^{3/2}·(4π²|k|² + 49)^{-5/4}, modes up to 31.
//!
//! Pseudo-spectral, de-aliased by the 2/3 rule. The transport term is taken in the form
//! `u·∇ω = (∂xx - ∂yy)(uv) - ∂xy(u² - v²)`, which needs one complex FFT for u + iv and one back for the two
//! products. Heun's third-order Runge–Kutta with the viscous term integrated exactly.

use std::f64::consts::TAU;
use std::sync::Mutex;

use rustfft::num_complex::Complex64;
use serde_json::json;

use crate::error::{Error, Result};
use crate::problems::field::Field;
use crate::problems::random_field::periodic_field;
use crate::problems::transform::Fourier2d;
use crate::problems::trigonometric::TrigField;
use crate::problems::{Parameters, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::SensorSpec;

/// Nodes per axis of the solver's grid, and of the stored fields.
const NODES: usize = 64;
/// Highest mode per axis of the initial vorticity: all that the stored grid resolves.
const INITIAL_DEGREE: usize = NODES / 2 - 1;
const VISCOSITY: f64 = 1e-3;
const FINAL_TIME: f64 = 5.0;
/// Δt = 0.04: ω(T) then differs from that of half the step by about 10⁻⁷, the precision it is stored with.
const STEPS: usize = 125;

/// The problem with its random initial vorticities.
#[derive(Default)]
pub struct NavierStokes {
    solvers: Mutex<Vec<VorticitySolver>>,
}

impl NavierStokes {
    pub fn new() -> Self {
        Self::default()
    }

    /// A random initial vorticity.
    pub fn initial(&self, rng: &mut Rng) -> TrigField {
        let scale = 2f64.sqrt() * 7f64.powf(1.5);
        periodic_field(INITIAL_DEGREE, |k2| scale * (k2 + 49.0).powf(-1.25), rng)
    }
}

impl Problem for NavierStokes {
    fn name(&self) -> &'static str {
        "navier-stokes"
    }

    fn about(&self) -> &'static str {
        "Decaying vortices on the torus: vorticity at t = 0 to t = 5"
    }

    fn parameters(&self) -> Parameters {
        let numbers = [
            ("viscosity", json!(VISCOSITY)),
            ("final_time", json!(FINAL_TIME)),
            ("nodes", json!(NODES)),
            ("steps", json!(STEPS)),
        ];
        numbers
            .map(|(name, value)| (name.into(), value))
            .into_iter()
            .collect()
    }

    fn spec(&self) -> Spec {
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]; 2], vec![33; 2], None).expect("a grid"),
            test_grid: vec![65; 2],
            train_times: None,
            test_times: None,
            coord_names: vec!["x", "y"],
            input_name: "w0",
            output_name: "w",
        }
    }

    fn stored_len(&self) -> usize {
        2 * NODES * NODES
    }

    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>> {
        let idle = self
            .solvers
            .lock()
            .expect("no panic while a solver is taken")
            .pop();
        let mut solver = idle.unwrap_or_else(|| VorticitySolver::new(NODES, VISCOSITY));
        let before = self.initial(rng);
        let after = solver.evolve(&before, FINAL_TIME, STEPS)?;
        self.solvers
            .lock()
            .expect("no panic while a solver is returned")
            .push(solver);
        let stored = [before, after]
            .map(|field| field.on_torus_grid(NODES))
            .concat();
        Ok(Some(stored.iter().map(|&v| v as f32).collect()))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let (before, after) = stored.split_at(NODES * NODES);
        [before, after]
            .map(|values| -> Box<dyn Field> { Box::new(TrigField::from_torus_grid(values, NODES)) })
    }
}

/// Time stepping on an n × n grid, with its workspace.
pub struct VorticitySolver {
    n: usize,
    /// Highest mode kept: products of two such modes do not alias back.
    degree: usize,
    viscosity: f64,
    fourier: Fourier2d,
    grid: Vec<Complex64>,
}

impl VorticitySolver {
    pub fn new(nodes: usize, viscosity: f64) -> Self {
        Self {
            n: nodes,
            degree: (nodes - 1) / 3,
            viscosity,
            fourier: Fourier2d::new(nodes),
            grid: vec![Complex64::default(); nodes * nodes],
        }
    }

    /// ω after `time`, in `steps` equal steps. Modes beyond the 2/3 cut-off are dropped.
    pub fn evolve(&mut self, initial: &TrigField, time: f64, steps: usize) -> Result<TrigField> {
        let dt = time / steps as f64;
        // e^{-ν|2πk|²·dt/3}: the exact viscous decay over a third of a step.
        let decay =
            |(p, q)| (-self.viscosity * TAU * TAU * (p * p + q * q) as f64 * dt / 3.0).exp();
        let third: Vec<f64> = self.modes().map(decay).collect();
        let mut w: Vec<Complex64> = self
            .modes()
            .map(|(p, q)| {
                let mirror = if q == 0 {
                    initial.coef(-p, 0).conj()
                } else {
                    Complex64::default()
                };
                (initial.coef(p, q) + mirror) * 0.5
            })
            .collect();
        let zeros = || vec![Complex64::default(); w.len()];
        let (mut stage, mut first, mut rate) = (zeros(), zeros(), zeros());
        for _ in 0..steps {
            self.transport(&w, &mut first);
            for i in 0..w.len() {
                stage[i] = (w[i] + first[i] * (dt / 3.0)) * third[i];
            }
            self.transport(&stage, &mut rate);
            for i in 0..w.len() {
                stage[i] = (w[i] * third[i] + rate[i] * (2.0 * dt / 3.0)) * third[i];
            }
            self.transport(&stage, &mut rate);
            for i in 0..w.len() {
                let decayed = (w[i] + first[i] * (dt / 4.0)) * (third[i] * third[i]);
                w[i] = (decayed + rate[i] * (3.0 * dt / 4.0)) * third[i];
            }
        }
        if w.iter().any(|c| !c.is_finite()) {
            return Err(Error::Numerics(format!(
                "the vorticity grew without bound with {steps} steps over a time of {time}; take more steps"
            )));
        }
        let mut modes = w.into_iter();
        let mut coefs = vec![Complex64::default(); modes.len()];
        for (p, q) in self.modes() {
            let c = modes.next().expect("one coefficient a mode");
            coefs[self.place(p, q)] = if q == 0 { c } else { c * 2.0 };
        }
        Ok(TrigField::from_coefs(self.degree, |p, q| {
            coefs[self.place(p, q)]
        }))
    }

    /// The modes (p, q) of a real field that are stored, in the order in which they are stored.
    fn modes(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let k = self.degree as i64;
        (0..=k).flat_map(move |q| (-k..=k).map(move |p| (p, q)))
    }

    fn place(&self, p: i64, q: i64) -> usize {
        let k = self.degree as i64;
        (q * (2 * k + 1) + p + k) as usize
    }

    /// `rate = -(u·∇ω)^` for the vorticity with coefficients `w`.
    ///
    /// With κ = p + iq the velocity u + iv has the coefficients `κ·ŵ_k / (2π|κ|²)`; the square of u + iv is
    /// `(u² - v²) + 2i·uv`, and from its spectrum Z follows `rate_k = (2π)²/(4i)·(κ̄²·Z_k - κ²·conj Z_{-k})`.
    fn transport(&mut self, w: &[Complex64], rate: &mut [Complex64]) {
        let n = self.n;
        let at = |p: i64, q: i64| {
            let wrap = |k: i64| {
                if k < 0 {
                    (k + n as i64) as usize
                } else {
                    k as usize
                }
            };
            wrap(q) * n + wrap(p)
        };
        self.grid.fill(Complex64::default());
        for ((p, q), &c) in self.modes().zip(w) {
            if (p, q) == (0, 0) {
                continue;
            }
            let kappa = Complex64::new(p as f64, q as f64);
            let speed = kappa / (TAU * kappa.norm_sqr());
            self.grid[at(p, q)] = speed * c;
            if q > 0 {
                self.grid[at(-p, -q)] = -speed * c.conj();
            }
        }
        self.fourier.inverse(&mut self.grid);
        for velocity in &mut self.grid {
            *velocity *= *velocity;
        }
        self.fourier.forward(&mut self.grid);
        let scale = Complex64::new(0.0, -TAU * TAU / (4 * n * n) as f64);
        for ((p, q), rate) in self.modes().zip(rate) {
            let kappa = Complex64::new(p as f64, q as f64);
            let square = kappa * kappa;
            let mirror = self.grid[at(-p, -q)].conj();
            *rate = scale * (square.conj() * self.grid[at(p, q)] - square * mirror);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::field::Field;
    use crate::rng::stream;

    fn difference(a: &TrigField, b: &TrigField) -> f64 {
        let (a, b) = (a.on_torus_grid(128), b.on_torus_grid(128));
        let square = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>();
        let apart = square(&mut a.iter().zip(&b).map(|(x, y)| x - y));
        (apart / square(&mut b.iter().copied())).sqrt()
    }

    fn initial(index: u64) -> TrigField {
        NavierStokes::new().initial(&mut stream(0, "test", index))
    }

    #[test]
    fn taylor_green_vortex_decays_exactly() {
        // ω = cos(2πx)cos(2πy) transports itself nowhere and decays like e^{-8π²νt}.
        let half = Complex64::new(0.5, 0.0);
        let vortex = TrigField::from_coefs(1, |p, q| {
            if p.abs() == 1 && q == 1 {
                half
            } else {
                Complex64::default()
            }
        });
        let after = VorticitySolver::new(64, 1e-2)
            .evolve(&vortex, 2.0, 100)
            .unwrap();
        let factor = (-2.0 * TAU * TAU * 1e-2 * 2.0f64).exp();
        for p in [[0.0, 0.0], [0.1, 0.35], [0.8, 0.6]] {
            let exact = factor * (TAU * p[0]).cos() * (TAU * p[1]).cos();
            assert!((after.at(&p).unwrap()[0] as f64 - exact).abs() < 1e-8);
        }
        let exact = TrigField::from_coefs(1, |p, q| vortex.coef(p, q) * factor);
        assert!(difference(&after, &exact) < 1e-13);
    }

    #[test]
    fn transport_matches_the_textbook_form() {
        // -(u·∇ω) at the nodes, from analytic derivatives of a two-mode field.
        let n = 32;
        let (a, b) = (0.7, -0.4);
        let field = TrigField::from_coefs(3, |p, q| match (p, q) {
            (1, 2) => Complex64::new(a, 0.0),
            (-3, 1) => Complex64::new(0.0, b),
            _ => Complex64::default(),
        });
        let mut solver = VorticitySolver::new(n, 0.0);
        let w: Vec<Complex64> = solver
            .modes()
            .map(|(p, q)| field.coef(p, q) * 0.5)
            .collect();
        let mut rate = w.clone();
        solver.transport(&w, &mut rate);
        let found = TrigField::from_coefs(solver.degree, |p, q| {
            rate[solver.place(p, q)] * if q == 0 { 1.0 } else { 2.0 }
        });
        for (i, value) in found.on_torus_grid(n).iter().enumerate() {
            let (x, y) = ((i / n) as f64 / n as f64, (i % n) as f64 / n as f64);
            let (s, t) = (TAU * (x + 2.0 * y), TAU * (-3.0 * x + y));
            // ω = a cos s - b sin t; ψ = ω_k/(4π²|k|²).
            let (wx, wy) = (
                TAU * (-a * s.sin() + 3.0 * b * t.cos()),
                TAU * (-2.0 * a * s.sin() - b * t.cos()),
            );
            let (psi_x, psi_y) = (
                (-a * s.sin() / 5.0 + 3.0 * b * t.cos() / 10.0) / TAU,
                (-2.0 * a * s.sin() / 5.0 - b * t.cos() / 10.0) / TAU,
            );
            assert!((value + psi_y * wx - psi_x * wy).abs() < 1e-12);
        }
    }

    #[test]
    fn third_order_in_time() {
        // A flow ten times as fast, so that the error in time stands well above rounding.
        let fast = |field: &TrigField| {
            TrigField::from_coefs(field.degree(), |p, q| field.coef(p, q) * 10.0)
        };
        let start = fast(&initial(0));
        let mut solver = VorticitySolver::new(64, VISCOSITY);
        let [coarse, middle, fine, exact] =
            [50, 100, 200, 1600].map(|steps| solver.evolve(&start, 1.0, steps).unwrap());
        let error = [&coarse, &middle, &fine].map(|field| difference(field, &exact));
        let orders = [(error[0] / error[1]).log2(), (error[1] / error[2]).log2()];
        println!("errors {error:?}, orders {orders:?}");
        assert!(orders.iter().all(|&order| order >= 2.9));
    }

    #[test]
    fn default_resolution_is_fine_enough() {
        for index in 0..4 {
            let start = initial(index);
            let normal = VorticitySolver::new(NODES, VISCOSITY)
                .evolve(&start, FINAL_TIME, STEPS)
                .unwrap();
            let half_step = VorticitySolver::new(NODES, VISCOSITY)
                .evolve(&start, FINAL_TIME, 2 * STEPS)
                .unwrap();
            let double_grid = VorticitySolver::new(2 * NODES, VISCOSITY)
                .evolve(&start, FINAL_TIME, STEPS)
                .unwrap();
            let (time, space) = (
                difference(&normal, &half_step),
                difference(&normal, &double_grid),
            );
            println!("sample {index}: half the step {time:.1e}, double the grid {space:.1e}");
            assert!(time < 1e-4 && space < 1e-3);
        }
    }

    #[test]
    fn initial_vorticity_has_the_right_size() {
        let mut sum = 0.0;
        for index in 0..200 {
            let field = initial(index).on_torus_grid(NODES);
            assert!(field.iter().sum::<f64>().abs() < 1e-9);
            sum += field.iter().map(|v| v * v).sum::<f64>() / field.len() as f64;
        }
        let deviation = (sum / 200.0).sqrt();
        println!("standard deviation {deviation:.4}");
        assert!((deviation - 0.26).abs() <= 0.01);
    }

    #[test]
    fn samples_repeat_and_keep_their_fields() {
        let problem = NavierStokes::new();
        let draw = |index| {
            problem
                .draw(&mut stream(5, "test", index))
                .unwrap()
                .expect("all will do")
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let [input, _] = problem.functions(&draw(1));
        let exact = problem.initial(&mut stream(5, "test", 1));
        let points = [0.123, 0.456, 0.9, 0.01];
        let (found, exact) = (input.at(&points).unwrap(), exact.at(&points).unwrap());
        for (a, b) in found.iter().zip(exact) {
            assert!((a - b).abs() < 1e-6);
        }
    }
}
