//! Allen–Cahn `u_t = Δu - u(u² - 1)/ε²` on [0,2]² × [0, 0.05]: from u(·, 0) to u in space-time.
//!
//! The solutions are its exact travelling waves
//!
//!   u = ½ - ½·tanh( (c·(x - o) - s·t) / (2√2·ε) ),   s = 3/(√2·ε),   |c| = 1,
//!
//! with ε ∈ [0.13, 0.18], o ∈ [0,2]², |c_x| ∈ [0,1] uniform and both signs of c random.

use std::ops::{Add, Mul, Sub};

use rand::RngExt;
use serde_json::json;

use crate::error::Result;
use crate::problems::field::{Field, Formula};
use crate::problems::{Parameters, Problem, Spec};
use crate::rng::Rng;
use crate::sensors::SensorSpec;

const EPSILON: (f64, f64) = (0.13, 0.18);
const SIDE: f64 = 2.0;
const FINAL_TIME: f64 = 0.05;

/// The problem with its random waves.
#[derive(Default)]
pub struct AllenCahn;

impl AllenCahn {
    pub fn new() -> Self {
        Self
    }
}

impl Problem for AllenCahn {
    fn name(&self) -> &'static str {
        "allen-cahn"
    }

    fn about(&self) -> &'static str {
        "Travelling fronts on [0,2]²: the start to all of space-time"
    }

    fn parameters(&self) -> Parameters {
        let epsilon = json!([EPSILON.0, EPSILON.1]);
        Parameters::from_iter([
            ("epsilon".into(), epsilon),
            ("final_time".into(), json!(FINAL_TIME)),
        ])
    }

    fn spec(&self) -> Spec {
        let times = |n: usize| {
            (0..n)
                .map(|i| FINAL_TIME * i as f64 / (n - 1) as f64)
                .collect()
        };
        Spec {
            sensors: SensorSpec::new(&[[0.0, SIDE]; 2], vec![26; 2], Some(vec![76; 2]))
                .expect("nested grids"),
            test_grid: vec![76; 2],
            train_times: Some(times(21)),
            test_times: Some(times(41)),
            coord_names: vec!["x", "y"],
            input_name: "u0",
            output_name: "u",
        }
    }

    /// ε, o_x, o_y, c_x and the sign of c_y.
    fn stored_len(&self) -> usize {
        5
    }

    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>> {
        let epsilon = rng.random_range(EPSILON.0..=EPSILON.1);
        let origin = [0, 1].map(|_| rng.random_range(0.0..=SIDE));
        let c_x = rng.random_range(0.0..=1.0);
        let [sign_x, sign_y] = [0, 1].map(|_| if rng.random::<bool>() { 1.0 } else { -1.0 });
        let values = [epsilon, origin[0], origin[1], sign_x * c_x, sign_y].map(|v: f64| v as f32);
        Ok(Some(values.to_vec()))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let [epsilon, o_x, o_y, c_x, sign_y] = [0, 1, 2, 3, 4].map(|i| stored[i] as f64);
        let c_y = sign_y * (1.0 - c_x * c_x).max(0.0).sqrt();
        let wave = Wave {
            epsilon,
            origin: [o_x, o_y],
            direction: [c_x, c_y],
        };
        [
            Box::new(Formula(2, move |p| wave.value(p[0], p[1], 0.0))),
            Box::new(Formula(3, move |p| wave.value(p[0], p[1], p[2]))),
        ]
    }
}

/// One travelling wave, a function of (x, y, t).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wave {
    pub epsilon: f64,
    pub origin: [f64; 2],
    /// Unit vector along which the front runs.
    pub direction: [f64; 2],
}

impl Wave {
    /// u(x, y, t), for plain numbers and for numbers that carry derivatives.
    pub(crate) fn value<T: Smooth>(&self, x: T, y: T, t: T) -> T {
        let [o, c] = [self.origin.map(T::from), self.direction.map(T::from)];
        let speed = T::from(3.0 / (2f64.sqrt() * self.epsilon));
        let steepness = T::from(1.0 / (2.0 * 2f64.sqrt() * self.epsilon));
        let along = c[0] * (x - o[0]) + c[1] * (y - o[1]) - speed * t;
        T::from(0.5) - T::from(0.5) * (along * steepness).tanh()
    }
}

/// Numbers on which the wave can be evaluated.
pub(crate) trait Smooth:
    Copy + From<f64> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    fn tanh(self) -> Self;
}

impl Smooth for f64 {
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// f, f′ and f″ along one variable, carried through the arithmetic.
    #[derive(Clone, Copy)]
    struct Jet([f64; 3]);

    impl From<f64> for Jet {
        fn from(v: f64) -> Self {
            Jet([v, 0.0, 0.0])
        }
    }
    impl Add for Jet {
        type Output = Jet;
        fn add(self, o: Jet) -> Jet {
            Jet([0, 1, 2].map(|i| self.0[i] + o.0[i]))
        }
    }
    impl Sub for Jet {
        type Output = Jet;
        fn sub(self, o: Jet) -> Jet {
            Jet([0, 1, 2].map(|i| self.0[i] - o.0[i]))
        }
    }
    impl Mul for Jet {
        type Output = Jet;
        fn mul(self, o: Jet) -> Jet {
            let ([a, da, dda], [b, db, ddb]) = (self.0, o.0);
            Jet([a * b, da * b + a * db, dda * b + 2.0 * da * db + a * ddb])
        }
    }
    impl Smooth for Jet {
        fn tanh(self) -> Jet {
            let [z, dz, ddz] = self.0;
            let t = z.tanh();
            let slope = 1.0 - t * t;
            Jet([t, slope * dz, slope * ddz - 2.0 * t * slope * dz * dz])
        }
    }

    fn wave(index: u64) -> Wave {
        let drawn = AllenCahn.draw(&mut stream(0, "test", index));
        let values = drawn.unwrap().expect("every wave will do");
        let [epsilon, o_x, o_y, c_x, sign] = [0, 1, 2, 3, 4].map(|i| values[i] as f64);
        Wave {
            epsilon,
            origin: [o_x, o_y],
            direction: [c_x, sign * (1.0 - c_x * c_x).sqrt()],
        }
    }

    #[test]
    fn the_wave_solves_the_equation() {
        let mut worst = 0f64;
        for index in 0..200 {
            let wave = wave(index);
            let mut rng = stream(1, "points", index);
            let [x, y] = [0, 1].map(|_| rng.random_range(0.0..SIDE));
            let t = rng.random_range(0.0..FINAL_TIME);
            let run = |v: f64| Jet([v, 1.0, 0.0]);
            let along_x = wave.value(run(x), y.into(), t.into()).0;
            let along_y = wave.value(x.into(), run(y), t.into()).0;
            let along_t = wave.value(x.into(), y.into(), run(t)).0;
            let u = along_t[0];
            let reaction = u * (u * u - 1.0) / wave.epsilon.powi(2);
            let residual = along_t[1] - along_x[2] - along_y[2] + reaction;
            // The largest terms are of size 1/ε².
            worst = worst.max(residual.abs() * wave.epsilon.powi(2));
        }
        println!("worst relative residual {worst:.1e}");
        assert!(worst < 1e-14);
    }

    #[test]
    fn parameters_fill_their_ranges() {
        let waves: Vec<Wave> = (0..2000).map(wave).collect();
        let range = |f: &dyn Fn(&Wave) -> f64| {
            waves
                .iter()
                .map(f)
                .fold((f64::MAX, f64::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)))
        };
        let near = |(lo, hi): (f64, f64), (a, b): (f64, f64)| {
            let slack = 0.01 * (b - a);
            lo >= a - 1e-6 && hi <= b + 1e-6 && lo < a + slack && hi > b - slack
        };
        assert!(near(range(&|w| w.epsilon), EPSILON));
        assert!(near(range(&|w| w.origin[0]), (0.0, SIDE)));
        assert!(near(range(&|w| w.direction[0]), (-1.0, 1.0)));
        assert!(near(range(&|w| w.direction[1]), (-1.0, 1.0)));
        assert!(
            waves
                .iter()
                .all(|w| (w.direction[0].hypot(w.direction[1]) - 1.0).abs() < 1e-12)
        );
        let positive = waves.iter().filter(|w| w.direction[1] > 0.0).count();
        assert!((900..1100).contains(&positive));
    }

    #[test]
    fn input_is_the_output_at_the_start() {
        let drawn = AllenCahn.draw(&mut stream(3, "test", 0)).unwrap();
        let [input, output] = AllenCahn.functions(&drawn.expect("every wave will do"));
        let at_start = output.at(&[0.4, 1.9, 0.0]).unwrap();
        assert_eq!(input.at(&[0.4, 1.9]).unwrap(), at_start);
    }
}
