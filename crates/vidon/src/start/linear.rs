//! A linear start: the best linear map of what encoders without learned weights see of a sample, z, to the coefficients
//! of a fixed decoder,
//!
//!   β = b + M z,   M = M_0 + A X D⁻¹,   Σ_t |T_t (b + M z_t) - v_t|²/q_t + λ |X|²  as small as can be,
//!
//! with the decoder's functions at the sample's queries in T_t and its targets in v_t, so that coefficients which few
//! targets leave undetermined stay small: A falls with the frequency, D with the spread of z. M_0 is persistence where
//! the targets are readings elsewhere, else zero. λ is chosen by validation samples; the equations are solved by
//! conjugate gradients, from strong ridges to weak ones.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::encoders::Encoded;
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor, linear};
use crate::spaces::linalg::{Factor, Matrix};

/// Numbers of z that vary less than this share of all of their block are as good as constant.
const CONSTANT: f64 = 1e-6;
/// How much less b is drawn to zero than the rest.
const FREE: f64 = 30.0;
/// Choices of λ beside the mean square of T z, strong ones first, and tries without a better one.
const RIDGES: [f64; 11] = [1e2, 10.0, 1.0, 0.3, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8];
const PATIENCE: usize = 2;
/// Rounds of conjugate gradients for each, and the share of the square of the first gradient that is nothing.
const ROUNDS: usize = 30;
const ENOUGH: f64 = 1e-14;

/// A linear start; it has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {}

/// The places of M and b among the numbers of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearKeys {
    map: Key,
    bias: Key,
    inputs: usize,
    outputs: usize,
}

impl LinearKeys {
    pub fn new(plan: &mut Plan, inputs: usize, outputs: usize) -> Self {
        let mut fixed =
            |name: &str, shape: &[usize]| plan.add(format!("linear.{name}"), shape, Init::Fixed);
        Self {
            map: fixed("map", &[outputs, inputs]),
            bias: fixed("bias", &[outputs]),
            inputs,
            outputs,
        }
    }

    pub fn set(&self, entries: &mut [Entry], found: &LinearMap) {
        let single = |numbers: &[f64]| numbers.iter().map(|v| *v as f32).collect();
        self.map.set(entries, single(found.map.numbers()));
        self.bias.set(entries, single(&found.bias));
    }

    /// β of a batch, `[samples, outputs]`.
    pub fn forward(&self, params: &Params, codes: &[&Vec<Encoded>]) -> Tensor<2> {
        let numbers: Vec<f32> = codes.iter().flat_map(|code| numbers_of(code)).collect();
        let seen = params.place().tensor(numbers, [codes.len(), self.inputs]);
        let bias = params.get::<1>(self.bias).reshape([1, self.outputs]);
        linear(seen, params.get::<2>(self.map)) + bias
    }
}

/// z: all numbers that encoders without learned weights made of a sample.
pub(crate) fn numbers_of(code: &[Encoded]) -> Vec<f32> {
    let numbers = code.iter().flat_map(|encoded| match encoded {
        Encoded::Numbers(numbers) => &numbers[..],
        _ => &[],
    });
    numbers.copied().collect()
}

/// What a map is fitted to: a sample as the network sees it.
pub(crate) struct Seen {
    pub numbers: Vec<f32>,
    pub asked: Asked,
}

/// What β is compared with.
#[derive(Clone)]
pub(crate) enum Asked {
    /// T, a row a query and shared where queries are, and the targets, a column a component.
    Values(Arc<Matrix>, Matrix),
    /// The roots that T has on its diagonal, and the coefficients of every component.
    Coefficients(Arc<Vec<f32>>, Vec<f32>),
}

/// What a map knows beforehand.
pub(crate) struct Known {
    /// Numbers in each block of z, which has a unit of its own.
    pub blocks: Vec<usize>,
    /// A for the functions of a component.
    pub amplitudes: Vec<f64>,
    pub components: usize,
    /// M_0
    pub persistence: Option<Matrix>,
}

/// M and b.
#[derive(Clone, Debug)]
pub(crate) struct LinearMap {
    pub map: Matrix,
    pub bias: Vec<f64>,
    /// The error on the validation samples, as a share of the targets' own size there.
    pub missed: f64,
}

/// The best map for these samples.
pub(crate) fn fit(known: &Known, train: &[Seen], val: &[Seen]) -> Result<LinearMap> {
    let standard = Standard::new(&known.blocks, train);
    let outputs = known.amplitudes.len() * known.components;
    let inputs = train[0].numbers.len();
    let first = known.persistence.clone();
    let first = first.unwrap_or_else(|| Matrix::zeros(outputs, inputs));
    let amplitudes: Vec<f64> = known.amplitudes.repeat(known.components);
    let problem = Problem::new(&standard, &amplitudes, known.components, &first, train);
    let judged = Problem::new(&standard, &amplitudes, known.components, &first, val);
    let size = problem.mean_square();
    let mut x = Matrix::zeros(inputs + 1, outputs);
    let (mut best, mut worse) = ((f64::INFINITY, x.clone()), 0);
    for ridge in RIDGES {
        problem.solve(ridge * size, &mut x);
        let missed = judged.error(&x);
        if missed < best.0 {
            (best, worse) = ((missed, x.clone()), 0);
        } else {
            worse += 1;
        }
        if worse == PATIENCE {
            break;
        }
    }
    let (missed, x) = best;
    let (map, bias) = standard.undo(&x, &amplitudes, first);
    let finite = map.numbers().iter().chain(&bias).all(|v| v.is_finite());
    match finite {
        true => Ok(LinearMap { map, bias, missed }),
        false => Err(Error::Numerics(
            "the linear start is not finite: do sensors or targets stand far outside of a frame of the recipe?"
                .into(),
        )),
    }
}

/// Mean of z, and D: between the spread of every number and that of its whole block.
struct Standard {
    mean: Vec<f64>,
    units: Vec<f64>,
}

impl Standard {
    fn new(blocks: &[usize], train: &[Seen]) -> Self {
        let (inputs, count) = (train[0].numbers.len(), train.len() as f64);
        let mut mean = vec![0.0; inputs];
        for seen in train {
            let pairs = mean.iter_mut().zip(&seen.numbers);
            pairs.for_each(|(m, v)| *m += *v as f64 / count);
        }
        let mut squares = vec![0.0; inputs];
        for seen in train {
            let all = squares.iter_mut().zip(&seen.numbers).zip(&mean);
            all.for_each(|((s, v), m)| *s += (*v as f64 - m).powi(2) / count);
        }
        let mut units = Vec::with_capacity(inputs);
        let mut rest = &squares[..];
        for &block in blocks {
            let (own, after) = rest.split_at(block);
            let whole = own.iter().sum::<f64>().sqrt();
            let unit = |s: &f64| (whole * s.sqrt().max(CONSTANT * whole)).sqrt();
            units.extend(own.iter().map(unit).map(|u| if u > 0.0 { u } else { 1.0 }));
            rest = after;
        }
        Self { mean, units }
    }

    /// z about its mean, in its units, and a constant behind it: a row a sample.
    fn of(&self, samples: &[Seen]) -> Matrix {
        let row = |seen: &Seen| -> Vec<f64> {
            let all = seen.numbers.iter().zip(&self.mean).zip(&self.units);
            let own = all.map(|((v, m), u)| (*v as f64 - m) / u);
            own.chain([FREE]).collect()
        };
        let rows: Vec<Vec<f64>> = samples.par_iter().map(row).collect();
        Matrix::of(self.mean.len() + 1, rows.concat())
    }

    /// M and b of X.
    fn undo(&self, x: &Matrix, amplitudes: &[f64], mut map: Matrix) -> (Matrix, Vec<f64>) {
        let inputs = self.mean.len();
        let mut bias = Vec::with_capacity(amplitudes.len());
        for (k, a) in amplitudes.iter().enumerate() {
            let mut constant = FREE * x[(inputs, k)] * a;
            for i in 0..inputs {
                let v = a * x[(i, k)] / self.units[i];
                constant -= v * self.mean[i];
                map[(k, i)] += v;
            }
            bias.push(constant);
        }
        (map, bias)
    }
}

/// Samples as X sees them.
struct Problem<'a> {
    /// A row a sample.
    seen: Matrix,
    /// T A and what M_0 leaves of the targets, sample by sample.
    asked: Vec<(&'a Asked, Vec<f64>)>,
    amplitudes: &'a [f64],
    components: usize,
}

impl<'a> Problem<'a> {
    fn new(
        standard: &Standard,
        amplitudes: &'a [f64],
        components: usize,
        first: &Matrix,
        samples: &'a [Seen],
    ) -> Self {
        let plain = vec![1.0; amplitudes.len()];
        let rest = samples.par_iter().map(|seen| {
            let z = Matrix::single(1, &seen.numbers);
            let mut beta = Matrix::zeros(first.rows(), 1);
            beta.add_product(1.0, first.view(), z.view());
            let found = seen.asked.values(beta.numbers(), &plain, components);
            let pairs = seen.asked.truth().into_iter().zip(found);
            (&seen.asked, pairs.map(|(v, f)| v - f).collect())
        });
        Self {
            asked: rest.collect(),
            seen: standard.of(samples),
            amplitudes,
            components,
        }
    }

    /// The mean square of T A over functions: what λ is measured by.
    fn mean_square(&self) -> f64 {
        let ones = vec![1.0; self.amplitudes.len()];
        let own = self.asked.par_iter().map(|(asked, rest)| {
            let pulled = asked.pull(
                &asked.values(&ones, self.amplitudes, self.components),
                self.amplitudes,
                self.components,
            );
            pulled.iter().map(|v| v.abs()).sum::<f64>() / (rest.len() * pulled.len()) as f64
        });
        let all: Vec<f64> = own.collect();
        (all.iter().sum::<f64>() / self.amplitudes.len() as f64).max(f64::MIN_POSITIVE)
    }

    /// Σ_t z_t (T_tᵀ r_t)ᵀ/q_t of what `residual` makes of the answers to X.
    fn gradient(&self, x: &Matrix, residual: impl Fn(f64, f64) -> f64 + Sync) -> Matrix {
        let outputs = self.amplitudes.len();
        let mut beta = Matrix::zeros(self.seen.rows(), outputs);
        beta.add_product(1.0, self.seen.view(), x.view());
        let rows = beta.numbers().par_chunks(outputs).zip(&self.asked);
        let rows = rows.map(|(beta, (asked, rest))| {
            let mut found = asked.values(beta, self.amplitudes, self.components);
            let count = found.len() as f64;
            for (f, v) in found.iter_mut().zip(rest) {
                *f = if v.is_nan() {
                    0.0
                } else {
                    residual(*f, *v) / count
                };
            }
            asked.pull(&found, self.amplitudes, self.components)
        });
        let rows = Matrix::of(outputs, rows.collect::<Vec<Vec<f64>>>().concat());
        let mut sum = Matrix::zeros(x.rows(), outputs);
        sum.add_product(1.0, self.seen.view().transposed(), rows.view());
        sum
    }

    /// Moves X towards the solution for this λ.
    fn solve(&self, ridge: f64, x: &mut Matrix) {
        let dot = |a: &Matrix, b: &Matrix| -> f64 {
            let pairs = a.numbers().iter().zip(b.numbers());
            pairs.map(|(a, b)| a * b).sum()
        };
        let mut residual = self.gradient(x, |f, v| v - f);
        residual.add(-ridge, x);
        let mut direction = residual.clone();
        let mut square = dot(&residual, &residual);
        let enough = ENOUGH * square;
        for _ in 0..ROUNDS {
            if square <= enough {
                break;
            }
            let mut image = self.gradient(&direction, |f, _| f);
            image.add(ridge, &direction);
            let step = square / dot(&direction, &image);
            x.add(step, &direction);
            residual.add(-step, &image);
            let before = std::mem::replace(&mut square, dot(&residual, &residual));
            direction = direction.scaled(square / before);
            direction.add(1.0, &residual);
        }
    }

    /// Root mean square of what is missed, beside that of the targets.
    fn error(&self, x: &Matrix) -> f64 {
        let outputs = self.amplitudes.len();
        let mut beta = Matrix::zeros(self.seen.rows(), outputs);
        beta.add_product(1.0, self.seen.view(), x.view());
        let rows = beta.numbers().par_chunks(outputs).zip(&self.asked);
        let own = rows.map(|(beta, (asked, rest))| {
            let found = asked.values(beta, self.amplitudes, self.components);
            let truth = asked.truth();
            let known = found
                .iter()
                .zip(rest)
                .zip(&truth)
                .filter(|((_, v), _)| !v.is_nan());
            known.fold([0.0, 0.0], |[missed, all], ((f, v), t)| {
                [missed + (v - f).powi(2), all + t * t]
            })
        });
        let all: Vec<[f64; 2]> = own.collect();
        let [missed, size] = all.iter().fold([0.0, 0.0], |[a, b], [c, d]| [a + c, b + d]);
        let share = (missed / size.max(f64::MIN_POSITIVE)).sqrt();
        // What is not finite loses.
        if share.is_finite() {
            share
        } else {
            f64::INFINITY
        }
    }
}

impl Asked {
    /// T A β, component by component.
    fn values(&self, beta: &[f64], amplitudes: &[f64], components: usize) -> Vec<f64> {
        match self {
            Asked::Coefficients(roots, _) => {
                let all = roots.iter().zip(beta).zip(amplitudes);
                all.map(|((r, b), a)| *r as f64 * b * a).collect()
            }
            Asked::Values(functions, _) => {
                let count = beta.len() / components;
                let own = beta.chunks(count).zip(amplitudes.chunks(count));
                own.flat_map(|(beta, amplitudes)| {
                    let weighed: Vec<f64> =
                        beta.iter().zip(amplitudes).map(|(b, a)| b * a).collect();
                    let rows = functions.numbers().chunks(count);
                    rows.map(move |row| row.iter().zip(&weighed).map(|(f, b)| f * b).sum::<f64>())
                        .collect::<Vec<f64>>()
                })
                .collect()
            }
        }
    }

    /// A Tᵀ r
    fn pull(&self, residual: &[f64], amplitudes: &[f64], components: usize) -> Vec<f64> {
        match self {
            Asked::Coefficients(roots, _) => {
                let all = roots.iter().zip(residual).zip(amplitudes);
                all.map(|((r, v), a)| *r as f64 * v * a).collect()
            }
            Asked::Values(functions, _) => {
                let count = amplitudes.len() / components;
                let own = residual
                    .chunks(functions.rows())
                    .zip(amplitudes.chunks(count));
                own.flat_map(|(residual, amplitudes)| {
                    let mut sums = vec![0.0; count];
                    for (row, r) in functions.numbers().chunks(count).zip(residual) {
                        sums.iter_mut().zip(row).for_each(|(s, f)| *s += f * r);
                    }
                    sums.iter_mut().zip(amplitudes).for_each(|(s, a)| *s *= a);
                    sums
                })
                .collect()
            }
        }
    }

    /// v, component by component; NaN where a target is missing.
    fn truth(&self) -> Vec<f64> {
        match self {
            Asked::Coefficients(roots, coefs) => {
                let pairs = roots.iter().zip(coefs);
                pairs.map(|(r, c)| *r as f64 * *c as f64).collect()
            }
            Asked::Values(_, targets) => {
                let columns = 0..targets.columns();
                columns
                    .flat_map(|c| (0..targets.rows()).map(move |i| targets[(i, c)]))
                    .collect()
            }
        }
    }
}

/// The coefficients in a decoder's functions of those of an encoder, by least squares over places: `functions` and
/// `answers` are their values there, a row a place.
pub(crate) fn between(functions: &Matrix, answers: &Matrix) -> Option<Matrix> {
    let product = |a: &Matrix, b: &Matrix| {
        let mut found = Matrix::zeros(a.columns(), b.columns());
        found.add_product(1.0, a.view().transposed(), b.view());
        found
    };
    let factor = Factor::with_ridge(&product(answers, answers), 1e-9)?;
    Some(factor.solve(&product(answers, functions)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// v(y) = (a, b)·(y, 1 - y) with a and b that are linear in z, asked at three places of each sample's own.
    fn samples(range: std::ops::Range<usize>, gap: bool) -> Vec<Seen> {
        let sample = |t: usize| {
            let z = |k: usize| ((1 + t) as f32 * (1.3 + k as f32)).sin();
            let numbers: Vec<f32> = (0..4).map(z).collect();
            let [a, b] = [2.0 * z(0) - z(2) + 1.0, 100.0 * z(3) * 0.01 + z(1)].map(f64::from);
            let places = [0, 1, 2].map(|i| ((t * 3 + i) as f64 * 0.37).fract());
            let functions = Matrix::from_fn(3, 2, |i, k| [places[i], 1.0 - places[i]][k]);
            let value = |i: usize, _| match gap && t % 3 == i {
                true => f64::NAN,
                false => a * places[i] + b * (1.0 - places[i]),
            };
            let targets = Matrix::from_fn(3, 1, value);
            Seen {
                numbers,
                asked: Asked::Values(Arc::new(functions), targets),
            }
        };
        range.map(sample).collect()
    }

    fn known() -> Known {
        Known {
            blocks: vec![3, 1],
            amplitudes: vec![1.0, 0.5],
            components: 1,
            persistence: None,
        }
    }

    #[test]
    fn what_is_linear_is_found_through_few_targets() {
        for gap in [false, true] {
            let found = fit(&known(), &samples(0..80, gap), &samples(80..100, gap)).unwrap();
            assert!(found.missed < 1e-3, "{}", found.missed);
            let wanted = [[2.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 1.0]];
            for (k, row) in wanted.iter().enumerate() {
                for (i, v) in row.iter().enumerate() {
                    assert!((found.map[(k, i)] - v).abs() < 0.02, "{:?}", found.map);
                }
            }
            assert!((found.bias[0] - 1.0).abs() < 0.02 && found.bias[1].abs() < 0.02);
        }
    }

    #[test]
    fn persistence_stays_where_nothing_is_better() {
        let first = Matrix::from_fn(2, 4, |k, i| {
            [[2.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 1.0]][k][i]
        });
        let known = Known {
            persistence: Some(first.clone()),
            ..known()
        };
        // Two samples say nothing of four numbers.
        let found = fit(&known, &samples(0..2, false), &samples(80..100, false)).unwrap();
        assert!(found.missed < 0.5, "{}", found.missed);
    }

    #[test]
    fn coefficients_are_told_in_another_basis() {
        let places = |k: usize, i: usize| (i as f64 * 0.1).powi(k as i32);
        let functions = Matrix::from_fn(11, 2, |i, k| places(k, i));
        let answers = Matrix::from_fn(11, 2, |i, k| places(k, i) + if k == 1 { 1.0 } else { 0.0 });
        let found = between(&functions, &answers).unwrap();
        // y = (y + 1) - 1
        for (at, v) in [((0, 0), 1.0), ((1, 0), 0.0), ((0, 1), -1.0), ((1, 1), 1.0)] {
            assert!((found[at] - v).abs() < 1e-6, "{found:?}");
        }
    }
}
