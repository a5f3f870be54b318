//! Burgers' equation `u_t + u·u_x = ν u_xx` on the circle [0, 1], from u(·, 0) to u(·, 1): waves that steepen to
//! fronts.
//!
//! The solutions are exact, by Cole and Hopf: with φ(·, 0) = exp(-∫u(·, 0)/(2ν)), which spreads like heat,
//!
//!   u = -2ν φ_x/φ,   φ(x, t) = Σ_k φ̂_k e^{-ν(2πk)²t} e^{2πikx}.
//!
//! The start is Σ_k (a_k cos 2πkx + b_k sin 2πkx)/k, k = 1 … 6, with normal a_k and b_k.

use std::f64::consts::TAU;

use rand::RngExt;
use rand_distr::StandardNormal;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;
use serde_json::json;

use crate::error::Result;
use crate::problems::field::{Field, Formula};
use crate::problems::{Parameters, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::SensorSpec;

const VISCOSITY: f64 = 0.01;
const FINAL_TIME: f64 = 1.0;
const WAVES: usize = 6;
/// Size of a_k and b_k.
const SIZE: f64 = 0.25;
/// Points on which φ(·, 0) is taken.
const POINTS: usize = 512;
/// Waves of φ that are left at the end: the next one has shrunk to e^{-100}.
const LEFT: usize = 16;

/// The problem with its random waves.
#[derive(Default)]
pub struct Burgers;

impl Problem for Burgers {
    fn name(&self) -> &'static str {
        "burgers"
    }

    fn about(&self) -> &'static str {
        "Waves that steepen on a circle: the start to t = 1"
    }

    fn parameters(&self) -> Parameters {
        Parameters::from_iter([
            ("viscosity".into(), json!(VISCOSITY)),
            ("final_time".into(), json!(FINAL_TIME)),
        ])
    }

    fn spec(&self) -> Spec {
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]], vec![41], None).expect("a grid"),
            test_grid: vec![257],
            train_times: None,
            test_times: None,
            coord_names: vec!["x"],
            input_name: "u0",
            output_name: "u",
        }
    }

    /// a_k and b_k, one after the other.
    fn stored_len(&self) -> usize {
        2 * WAVES
    }

    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>> {
        let mut normal = || SIZE * rng.sample::<f64, _>(StandardNormal);
        Ok(Some((0..2 * WAVES).map(|_| normal() as f32).collect()))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let start = Start(
            stored
                .chunks(2)
                .map(|ab| [ab[0] as f64, ab[1] as f64])
                .collect(),
        );
        let spread = start.spread();
        [
            Box::new(Formula(1, move |x| start.at(x[0]))),
            Box::new(Formula(1, move |x| {
                let [phi, slope] = sum(&spread, x[0]);
                -2.0 * VISCOSITY * slope / phi
            })),
        ]
    }
}

/// u(·, 0) by its a_k and b_k.
struct Start(Vec<[f64; 2]>);

impl Start {
    fn at(&self, x: f64) -> f64 {
        let waves = self.0.iter().zip(1..);
        let wave = |([a, b], k): (&[f64; 2], i32)| {
            let (sin, cos) = (TAU * k as f64 * x).sin_cos();
            (a * cos + b * sin) / k as f64
        };
        waves.map(wave).sum()
    }

    /// ∫u(·, 0) from 0, but for a constant.
    fn integral(&self, x: f64) -> f64 {
        let waves = self.0.iter().zip(1..);
        let wave = |([a, b], k): (&[f64; 2], i32)| {
            let (k, (sin, cos)) = (k as f64, (TAU * k as f64 * x).sin_cos());
            (a * sin - b * cos) / (TAU * k * k)
        };
        waves.map(wave).sum()
    }

    /// φ̂_k at the end, k = 0 … `LEFT`, those of k and -k together.
    fn spread(&self) -> Vec<Complex64> {
        let phi = |i: usize| (-self.integral(i as f64 / POINTS as f64) / (2.0 * VISCOSITY)).exp();
        let mut waves: Vec<Complex64> = (0..POINTS).map(|i| phi(i).into()).collect();
        FftPlanner::new()
            .plan_fft_forward(POINTS)
            .process(&mut waves);
        let shrunk = |(k, wave): (usize, &Complex64)| {
            let both = if k == 0 { 1.0 } else { 2.0 };
            wave * both / POINTS as f64 * (-VISCOSITY * (TAU * k as f64).powi(2) * FINAL_TIME).exp()
        };
        waves[..=LEFT].iter().enumerate().map(shrunk).collect()
    }
}

/// Σ_k c_k e^{2πikx} and its derivative, real parts.
fn sum(waves: &[Complex64], x: f64) -> [f64; 2] {
    let wave = |(k, c): (usize, &Complex64)| {
        let turn = TAU * k as f64;
        let c = c * Complex64::from_polar(1.0, turn * x);
        [c.re, -turn * c.im]
    };
    let waves = waves.iter().enumerate().map(wave);
    waves.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// Against many small steps of finite differences from the same start.
    #[test]
    fn the_end_is_that_of_small_steps() {
        let drawn = Burgers.draw(&mut stream(0, "burgers", 3)).unwrap();
        let [start, end] = Burgers.functions(&drawn.expect("every start will do"));
        let n = 512;
        let axis: Vec<f64> = (0..n).map(|i| i as f64 / n as f64).collect();
        let mut u: Vec<f64> = start.at(&axis).unwrap().iter().map(|v| *v as f64).collect();
        let (steps, h) = (20_000, 1.0 / n as f64);
        let dt = FINAL_TIME / steps as f64;
        // Central differences and Heun's method.
        let slope = |u: &[f64]| -> Vec<f64> {
            let at = |i: usize| {
                let (before, here, after) = (u[(i + n - 1) % n], u[i], u[(i + 1) % n]);
                let flux = (after * after - before * before) / (4.0 * h);
                VISCOSITY * (after - 2.0 * here + before) / (h * h) - flux
            };
            (0..n).map(at).collect()
        };
        for _ in 0..steps {
            let first = slope(&u);
            let ahead: Vec<f64> = u.iter().zip(&first).map(|(u, s)| u + dt * s).collect();
            let second = slope(&ahead);
            for (u, (a, b)) in u.iter_mut().zip(first.iter().zip(&second)) {
                *u += 0.5 * dt * (a + b);
            }
        }
        let exact = end.at(&axis).unwrap();
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
        let pairs = || exact.iter().zip(&u);
        let far = norm(&mut pairs().map(|(a, b)| *a as f64 - b)) / norm(&mut u.iter().copied());
        println!("exact and stepped solutions differ by {far:.1e} relative");
        assert!(far < 1e-3, "{far}");
    }
}
