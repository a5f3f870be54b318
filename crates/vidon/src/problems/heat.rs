//! Heat in a cube with insulated walls, `u_t = κΔu` on [0, 1]³, from u(·, 0) to u(·, 1):
//!
//!   u(x, t) = Σ_k a_k e^{-κπ²|k|²t} cos(πk₁x) cos(πk₂y) cos(πk₃z),   kᵢ = 0 … 3,
//!
//! with a_k normal, of size 1/(1 + |k|²).

use std::f64::consts::PI;

use rand::RngExt;
use rand_distr::StandardNormal;
use serde_json::json;

use crate::error::Result;
use crate::problems::field::{Field, Formula};
use crate::problems::{Parameters, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::SensorSpec;

const DIFFUSIVITY: f64 = 0.02;
const FINAL_TIME: f64 = 1.0;
/// Waves per axis.
const WAVES: usize = 4;

/// The problem with its random waves.
#[derive(Default)]
pub struct Heat;

impl Problem for Heat {
    fn name(&self) -> &'static str {
        "heat"
    }

    fn about(&self) -> &'static str {
        "Heat in a cube with insulated walls: the start to t = 1"
    }

    fn parameters(&self) -> Parameters {
        Parameters::from_iter([
            ("diffusivity".into(), json!(DIFFUSIVITY)),
            ("final_time".into(), json!(FINAL_TIME)),
        ])
    }

    fn spec(&self) -> Spec {
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]; 3], vec![9; 3], None).expect("a grid"),
            test_grid: vec![17; 3],
            train_times: None,
            test_times: None,
            coord_names: vec!["x", "y", "z"],
            input_name: "start",
            output_name: "end",
        }
    }

    /// a_k, the last axis fastest.
    fn stored_len(&self) -> usize {
        WAVES.pow(3)
    }

    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>> {
        let mut normal = || rng.sample::<f64, _>(StandardNormal);
        let amplitude = |k: [usize; 3]| (normal() / (1.0 + square(k))) as f32;
        Ok(Some(waves().map(amplitude).collect()))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let at = |time: f64| -> Box<dyn Field> {
            let left = |(a, k): (&f32, [usize; 3])| {
                *a as f64 * (-DIFFUSIVITY * PI * PI * square(k) * time).exp()
            };
            let left: Vec<f64> = stored.iter().zip(waves()).map(left).collect();
            Box::new(Formula(3, move |p| sum(&left, p)))
        };
        [at(0.0), at(FINAL_TIME)]
    }
}

/// All k, the last axis fastest.
fn waves() -> impl Iterator<Item = [usize; 3]> {
    let digit = |i: usize, axis: u32| i / WAVES.pow(axis) % WAVES;
    (0..WAVES.pow(3)).map(move |i| [2, 1, 0].map(|axis| digit(i, axis)))
}

fn square(k: [usize; 3]) -> f64 {
    k.iter().map(|k| (k * k) as f64).sum()
}

fn sum(amplitudes: &[f64], p: &[f64]) -> f64 {
    let cosines = |x: f64| -> [f64; WAVES] { std::array::from_fn(|k| (PI * k as f64 * x).cos()) };
    let [x, y, z] = [0, 1, 2].map(|axis| cosines(p[axis]));
    let pairs = amplitudes.iter().zip(waves());
    pairs.map(|(a, [i, j, k])| a * x[i] * y[j] * z[k]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// No heat leaves: the mean is that of the start; and it spreads.
    #[test]
    fn the_mean_stays_and_the_rest_shrinks() {
        let drawn = Heat.draw(&mut stream(0, "heat", 1)).unwrap();
        let [start, end] = Heat.functions(&drawn.expect("every start will do"));
        // Midpoints integrate these cosines exactly.
        let axis: Vec<f64> = (0..8).map(|i| (i as f64 + 0.5) / 8.0).collect();
        let [before, after] = [start, end].map(|f| {
            let values = f
                .on_axes(&[axis.clone(), axis.clone(), axis.clone()])
                .unwrap();
            let count = values.len() as f64;
            let mean = values.iter().map(|v| *v as f64).sum::<f64>() / count;
            let spread = values
                .iter()
                .map(|v| (*v as f64 - mean).powi(2))
                .sum::<f64>()
                / count;
            [mean, spread]
        });
        assert!((before[0] - after[0]).abs() < 1e-6);
        assert!(after[1] < 0.8 * before[1] && after[1] > 0.05 * before[1]);
    }
}
