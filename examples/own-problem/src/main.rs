//! A problem of one's own: heat in a rod with cold ends, u_t = κ u_xx on [0, 1], from u(·, 0) to u(·, 0.1).
//! With it
//!
//!     cargo run --release -p own-problem -- train examples/own-problem/rod.toml
//!     cargo run --release -p own-problem -- eval runs/rod --samples 200
//!
//! learn and judge it as they do the paper's problems.

use std::f64::consts::PI;
use std::process::ExitCode;

use rand::RngExt;
use vidon::problems::{Field, Formula, Problem, Rng, Spec, register};
use vidon::sensors::SensorSpec;

const DIFFUSIVITY: f64 = 0.05;
const TIME: f64 = 0.1;
/// Sine waves of the temperature at the start.
const WAVES: usize = 5;

struct Rod;

impl Problem for Rod {
    fn name(&self) -> &'static str {
        "rod"
    }

    fn about(&self) -> &'static str {
        "Heat in a rod with cold ends: the temperature at t = 0 to that at t = 0.1"
    }

    /// 18 to 22 sensors anywhere on the rod, test answers at 101 points.
    fn spec(&self) -> Spec {
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]], vec![20], None).expect("a grid"),
            test_grid: vec![101],
            train_times: None,
            test_times: None,
            coord_names: vec!["x"],
            input_name: "start",
            output_name: "end",
        }
    }

    fn stored_len(&self) -> usize {
        WAVES
    }

    /// The amplitude of every wave.
    fn draw(&self, rng: &mut Rng) -> vidon::Result<Option<Vec<f32>>> {
        let amplitude = |k: usize| rng.random_range(-1.0..1.0) / k as f32;
        Ok(Some((1..=WAVES).map(amplitude).collect()))
    }

    /// u(x, t) = Σ_k a_k exp(-κ(kπ)²t) sin(kπx)
    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let at = |time: f64| -> Box<dyn Field> {
            let waves: Vec<(f64, f64)> = (stored.iter().zip(1..))
                .map(|(a, k)| (*a as f64, k as f64 * PI))
                .map(|(a, k)| (a * (-DIFFUSIVITY * k * k * time).exp(), k))
                .collect();
            let u = move |x: &[f64]| waves.iter().map(|(a, k)| a * (k * x[0]).sin()).sum();
            Box::new(Formula(1, u))
        };
        [at(0.0), at(TIME)]
    }
}

fn main() -> ExitCode {
    register(Rod).expect("no other problem is called so");
    vidon_cli::run()
}
