//! Kriging with a drift: readings u at places with the functions F there are a trend, a random field with the
//! kernel k, and noise,
//!
//!   u = F b + s + noise,   cov(s) = σ² k(distance/range),   var(noise) = σ² nugget,
//!
//! and the answer at a place is its trend and what its neighbours say of the rest,
//!
//!   v = fᵀb + kᵀK⁻¹(u - F b),   b = (FᵀK⁻¹F)⁻¹ FᵀK⁻¹u.
//!
//! Kernel, range and nugget are those under which the readings of some samples are likeliest, whatever the
//! trend (restricted likelihood); targets are never looked at.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::spaces::linalg::{Factor, Matrix};

/// Ranges to choose from, as shares of the diagonal of the box, and nuggets.
const RANGES: [f64; 9] = [0.02, 0.034, 0.058, 0.098, 0.17, 0.28, 0.48, 0.82, 1.4];
const NUGGETS: [f64; 11] = [1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2];
const SHAPES: [Shape; 2] = [Shape::Exponential, Shape::Matern];
/// Every so many candidates are looked at first, then the neighbours of the best, this often.
const STRIDE: usize = 2;
const ROUNDS: usize = 4;
/// Sensors that are solved for at once; where there are more, every query goes by the nearest.
pub(super) const TOGETHER: usize = 1000;
const NEAREST: usize = 64;
/// A trend with w functions needs w times as many readings.
const READINGS: usize = 2;
/// What rounding leaves of the readings' square where a trend explains them all.
const LEAST: f64 = 1e-12;

/// The shape of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// exp(-d)
    Exponential,
    /// (1 + √3 d) exp(-√3 d)
    #[serde(rename = "matern-3/2")]
    Matern,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Shape::Exponential => "exponential",
            Shape::Matern => "Matérn 3/2",
        }
    }

    /// At a distance in ranges.
    fn at(self, d: f64) -> f64 {
        match self {
            Shape::Exponential => (-d).exp(),
            Shape::Matern => {
                let d = 3f64.sqrt() * d;
                (1.0 + d) * (-d).exp()
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kernel {
    pub shape: Shape,
    pub range: f64,
    pub nugget: f64,
}

impl Kernel {
    fn at(&self, distance: f64) -> f64 {
        self.shape.at(distance / self.range)
    }

    /// Of K, from the distances of all readings.
    fn factor(&self, count: usize, distance: impl Fn(usize, usize) -> f64) -> Option<Factor> {
        let mut matrix = Matrix::zeros(count, count);
        for i in 0..count {
            for j in 0..i {
                matrix[(i, j)] = self.at(distance(i, j));
            }
            matrix[(i, i)] = 1.0 + self.nugget;
        }
        Factor::new(matrix)
    }
}

/// Places as lengths, and the functions of the longest trend there. Shorter trends have the first of them.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub axes: usize,
    pub coords: Vec<f64>,
    pub trend: Matrix,
}

impl Placed {
    pub fn len(&self) -> usize {
        self.trend.rows()
    }

    fn at(&self, i: usize) -> &[f64] {
        &self.coords[i * self.axes..(i + 1) * self.axes]
    }

    pub fn distance(&self, i: usize, other: &Placed, j: usize) -> f64 {
        let axes = self.at(i).iter().zip(other.at(j));
        axes.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    pub fn select(&self, some: &[usize]) -> Self {
        let coords = some.iter().flat_map(|&i| self.at(i));
        Self {
            axes: self.axes,
            coords: coords.copied().collect(),
            trend: Matrix::from_fn(some.len(), self.trend.columns(), |i, k| {
                self.trend[(some[i], k)]
            }),
        }
    }
}

/// The longest of some trends, by their widths, that so many readings can carry.
fn carried(widths: &[usize], readings: usize) -> usize {
    let fit = widths.iter().copied().filter(|w| READINGS * w <= readings);
    fit.max().unwrap_or(1)
}

/// The solution for some readings.
struct Solved {
    /// b
    coefs: Vec<f64>,
    /// K⁻¹(u - F b)
    weights: Vec<f64>,
    /// (u - F b)ᵀ K⁻¹ (u - F b)
    energy: f64,
    /// K⁻¹F, and the factors of A = FᵀK⁻¹F.
    spread: Matrix,
    normal: Factor,
}

/// With a trend of so many functions.
fn solve(factor: &Factor, trend: &Matrix, width: usize, values: &[f64]) -> Option<Solved> {
    let n = values.len();
    let right = Matrix::from_fn(n, width + 1, |i, k| match k < width {
        true => trend[(i, k)],
        false => values[i],
    });
    let found = factor.solve(&right);
    let product = |k: usize, l: usize| (0..n).map(|i| trend[(i, k)] * found[(i, l)]).sum::<f64>();
    let normal = Matrix::from_fn(width, width, product);
    let size = (0..width).map(|k| normal[(k, k)]).sum::<f64>() / width as f64;
    let normal = Factor::with_ridge(&normal, 1e-10 * size)?;
    let coefs = normal.solve(&Matrix::from_fn(width, 1, |k, _| product(k, width)));
    let coefs = coefs.numbers().to_vec();
    let line = |row: &dyn Fn(usize) -> f64| (0..width).map(|k| row(k) * coefs[k]).sum::<f64>();
    let weights: Vec<f64> = (0..n)
        .map(|i| found[(i, width)] - line(&|k| found[(i, k)]))
        .collect();
    let rest = |i: usize| values[i] - line(&|k| trend[(i, k)]);
    Some(Solved {
        energy: (0..n).map(|i| rest(i) * weights[i]).sum(),
        spread: Matrix::from_fn(n, width, |i, k| found[(i, k)]),
        coefs,
        weights,
        normal,
    })
}

/// What the readings of a column say at the queries, with the trend of one of these widths, the longest that
/// they carry.
pub(super) fn krige(
    kernel: &Kernel,
    widths: &[usize],
    sensors: &Placed,
    values: &[f64],
    queries: &Placed,
) -> Vec<f64> {
    if sensors.len() <= TOGETHER {
        return together(kernel, widths, sensors, values, queries);
    }
    let one = |q: usize| {
        let near = nearest(sensors, queries, q);
        let values: Vec<f64> = near.iter().map(|&i| values[i]).collect();
        together(
            kernel,
            widths,
            &sensors.select(&near),
            &values,
            &queries.select(&[q]),
        )[0]
    };
    (0..queries.len()).into_par_iter().map(one).collect()
}

fn together(
    kernel: &Kernel,
    widths: &[usize],
    sensors: &Placed,
    values: &[f64],
    queries: &Placed,
) -> Vec<f64> {
    let width = carried(widths, values.len());
    let factor = kernel.factor(values.len(), |i, j| sensors.distance(i, sensors, j));
    let solved = factor.and_then(|factor| solve(&factor, &sensors.trend, width, values));
    let Some(solved) = solved else {
        // Nothing that a kernel could tell apart.
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        return vec![mean; queries.len()];
    };
    let at = |q: usize| {
        let trend: f64 = (0..width)
            .map(|k| queries.trend[(q, k)] * solved.coefs[k])
            .sum();
        let near = solved.weights.iter().enumerate();
        let near = near.map(|(i, w)| w * kernel.at(queries.distance(q, sensors, i)));
        trend + near.sum::<f64>()
    };
    (0..queries.len()).map(at).collect()
}

/// The sensors nearest to a query, in their own order.
fn nearest(sensors: &Placed, queries: &Placed, q: usize) -> Vec<usize> {
    let mut all: Vec<(f64, usize)> = (0..sensors.len())
        .map(|i| (queries.distance(q, sensors, i), i))
        .collect();
    all.select_nth_unstable_by(NEAREST - 1, |a, b| a.partial_cmp(b).expect("finite"));
    let mut near: Vec<usize> = all[..NEAREST].iter().map(|(_, i)| *i).collect();
    near.sort_unstable();
    near
}

/// The readings of one sample, by which a kernel is chosen.
pub(super) struct Trial {
    placed: Placed,
    values: Vec<f64>,
    distances: Matrix,
}

impl Trial {
    /// None where the readings are all the same.
    pub fn new(placed: Placed, values: Vec<f64>) -> Option<Self> {
        let n = values.len();
        let distances = Matrix::from_fn(n, n, |i, j| match j < i {
            true => placed.distance(i, &placed, j),
            false => 0.0,
        });
        let differ = values.iter().any(|v| *v != values[0]);
        differ.then_some(Self {
            placed,
            values,
            distances,
        })
    }

    fn factor(&self, kernel: &Kernel) -> Option<Factor> {
        kernel.factor(self.values.len(), |i, j| self.distances[(i, j)])
    }

    /// Minus the logarithm of the restricted likelihood, for trends of these widths; 0 where there are too
    /// few readings.
    fn unlikeliness(&self, kernel: &Kernel, widths: &[usize]) -> Vec<f64> {
        let n = self.values.len();
        let mean = self.values.iter().sum::<f64>() / n as f64;
        let spread: f64 = self.values.iter().map(|v| (v - mean).powi(2)).sum();
        let factor = self.factor(kernel);
        let one = |width: usize| -> Option<f64> {
            let factor = factor.as_ref()?;
            let solved = solve(factor, &self.placed.trend, width, &self.values)?;
            let free = (n - width) as f64;
            let energy = solved.energy.max(LEAST * spread);
            let terms = free * (energy / free).ln() + factor.log_determinant();
            Some(0.5 * (terms + solved.normal.log_determinant()))
        };
        let each = widths.iter().map(|&w| match n >= READINGS * w {
            true => one(w).unwrap_or(f64::INFINITY),
            false => 0.0,
        });
        each.collect()
    }

    /// Sum and count of the squares by which readings are missed that are left out one at a time,
    /// (K⁻¹(u - Fb))_i / (K⁻¹ - K⁻¹F A⁻¹ FᵀK⁻¹)_ii.
    fn left_out(&self, kernel: &Kernel, widths: &[usize]) -> [f64; 2] {
        let width = carried(widths, self.values.len());
        let found = self.factor(kernel).and_then(|factor| {
            let solved = solve(&factor, &self.placed.trend, width, &self.values)?;
            Some((factor.inverse(), solved))
        });
        let Some((inverse, solved)) = found else {
            return [f64::INFINITY, 1.0];
        };
        let n = self.values.len();
        let turned = Matrix::from_fn(width, n, |k, i| solved.spread[(i, k)]);
        let normal = solved.normal.solve(&turned);
        let square = |i: usize| {
            let drawn: f64 = (0..width)
                .map(|k| solved.spread[(i, k)] * normal[(k, i)])
                .sum();
            (solved.weights[i] / (inverse[(i, i)] - drawn).max(1e-12)).powi(2)
        };
        [(0..n).map(square).sum(), n as f64]
    }
}

/// A kernel for trends of a width, and by how much it misses readings that are left out.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub kernel: Kernel,
    pub missed: f64,
}

/// The likeliest kernel for trends of every width; none where no sample has readings enough.
pub(super) fn choose(
    trials: &[Trial],
    widths: &[usize],
    diagonal: f64,
    observer: &dyn Observer,
) -> Result<Vec<Option<Choice>>> {
    let kernel = |[shape, range, nugget]: [usize; 3]| Kernel {
        shape: SHAPES[shape],
        range: RANGES[range] * diagonal,
        nugget: NUGGETS[nugget],
    };
    let mut known: BTreeMap<[usize; 3], Vec<f64>> = BTreeMap::new();
    let mut wanted = Vec::new();
    for shape in 0..SHAPES.len() {
        for range in (0..RANGES.len()).step_by(STRIDE) {
            wanted.extend(
                (0..NUGGETS.len())
                    .step_by(STRIDE)
                    .map(|n| [shape, range, n]),
            );
        }
    }
    for _ in 0..ROUNDS {
        for at in std::mem::take(&mut wanted) {
            if observer.stopped() {
                return Err(Error::Interrupted);
            }
            let own = |trial: &Trial| trial.unlikeliness(&kernel(at), widths);
            let each: Vec<Vec<f64>> = trials.par_iter().map(own).collect();
            let sum = |k: usize| each.iter().map(|own| own[k]).sum::<f64>();
            known.insert(at, (0..widths.len()).map(sum).collect());
        }
        for k in 0..widths.len() {
            let around = neighbours(best(&known, k));
            let new = |at: &[usize; 3]| !known.contains_key(at);
            wanted.extend(around.into_iter().filter(new));
        }
        wanted.sort_unstable();
        wanted.dedup();
    }
    let choice = |(k, &width): (usize, &usize)| {
        let enough = trials.iter().any(|t| t.values.len() >= READINGS * width);
        enough.then(|| {
            let kernel = kernel(best(&known, k));
            let own = |trial: &Trial| trial.left_out(&kernel, &widths[..=k]);
            let each: Vec<[f64; 2]> = trials.par_iter().map(own).collect();
            let sum = |i: usize| each.iter().map(|own| own[i]).sum::<f64>();
            let missed = (sum(0) / sum(1)).sqrt();
            Choice { kernel, missed }
        })
    };
    Ok(widths.iter().enumerate().map(choice).collect())
}

fn best(known: &BTreeMap<[usize; 3], Vec<f64>>, k: usize) -> [usize; 3] {
    let least = known.iter().min_by(|(_, a), (_, b)| a[k].total_cmp(&b[k]));
    *least.expect("candidates").0
}

fn neighbours([shape, range, nugget]: [usize; 3]) -> Vec<[usize; 3]> {
    let around = |i: usize, count: usize| i.saturating_sub(1)..=(i + 1).min(count - 1);
    let ranges = around(range, RANGES.len());
    let pairs = ranges.flat_map(|r| around(nugget, NUGGETS.len()).map(move |n| (r, n)));
    pairs.map(|(r, n)| [shape, r, n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use rand::RngExt;

    /// Places in the unit square, with the trend 1, x, y.
    fn scattered(count: usize, seed: u64) -> Placed {
        let mut rng = stream(seed, "kriging with a drift", 0);
        let coords: Vec<f64> = (0..2 * count).map(|_| rng.random_range(0.0..1.0)).collect();
        let trend = Matrix::from_fn(count, 3, |i, k| match k {
            0 => 1.0,
            k => coords[2 * i + k - 1],
        });
        Placed {
            axes: 2,
            coords,
            trend,
        }
    }

    const KERNEL: Kernel = Kernel {
        shape: Shape::Matern,
        range: 0.3,
        nugget: 1e-6,
    };

    fn plane(placed: &Placed) -> Vec<f64> {
        let place = |i: usize| placed.at(i);
        (0..placed.len())
            .map(|i| 5.0 + 3.0 * place(i)[0] - place(i)[1])
            .collect()
    }

    fn wave(placed: &Placed) -> Vec<f64> {
        let place = |i: usize| placed.at(i);
        (0..placed.len())
            .map(|i| (4.0 * place(i)[0]).sin() + place(i)[1])
            .collect()
    }

    fn miss(found: &[f64], truth: &[f64]) -> f64 {
        let squares = found.iter().zip(truth).map(|(a, b)| (a - b).powi(2));
        (squares.sum::<f64>() / truth.len() as f64).sqrt()
    }

    #[test]
    fn a_trend_goes_on_where_there_are_no_sensors() {
        let sensors = scattered(20, 1);
        let mut queries = scattered(5, 2);
        queries.coords.iter_mut().for_each(|v| *v += 3.0);
        queries.trend = Matrix::from_fn(5, 3, |i, k| {
            if k == 0 {
                1.0
            } else {
                queries.coords[2 * i + k - 1]
            }
        });
        let found = krige(&KERNEL, &[1, 3], &sensors, &plane(&sensors), &queries);
        assert!(miss(&found, &plane(&queries)) < 1e-4);
        // Without one it goes back to the mean, and too few readings carry none.
        let flat = krige(&KERNEL, &[1], &sensors, &plane(&sensors), &queries);
        assert!(miss(&flat, &plane(&queries)) > 1.0);
        let few = sensors.select(&[0, 1, 2, 3, 4]);
        let found = krige(&KERNEL, &[1, 3], &few, &plane(&few), &queries);
        assert!(found.iter().all(|v| (3.0..9.0).contains(v)));
        let one = sensors.select(&[7]);
        let found = krige(&KERNEL, &[1, 3], &one, &[2.5], &queries);
        assert!(found.iter().all(|v| (v - 2.5).abs() < 1e-9));
    }

    #[test]
    fn many_sensors_answer_by_the_nearest() {
        let (sensors, queries) = (scattered(TOGETHER + 500, 3), scattered(30, 4));
        let found = krige(&KERNEL, &[1, 3], &sensors, &wave(&sensors), &queries);
        assert!(miss(&found, &wave(&queries)) < 5e-3);
    }

    #[test]
    fn the_likeliest_kernel_knows_noise_and_left_out_readings() {
        let trials = |noise: f64| -> Vec<Trial> {
            let one = |seed: u64| {
                let placed = scattered(80, seed);
                let mut rng = stream(seed, "noise of readings", 0);
                let values = wave(&placed).into_iter();
                let values = values.map(|v| v + noise * rng.random_range(-1.0..1.0));
                let values = values.collect();
                Trial::new(placed, values).unwrap()
            };
            (10..16).map(one).collect()
        };
        let chosen = |noise: f64| {
            let found = choose(&trials(noise), &[1, 3], 1.4, &()).unwrap();
            found.into_iter().map(Option::unwrap).collect::<Vec<_>>()
        };
        let (clean, noisy) = (chosen(0.0), chosen(0.3));
        assert_eq!(clean[0].kernel.shape, Shape::Matern);
        let nuggets = [&clean, &noisy].map(|c| c[0].kernel.nugget);
        assert!(100.0 * nuggets[0] <= nuggets[1], "{nuggets:?}");
        assert!(clean[1].missed < 0.02, "{}", clean[1].missed);
        // The noise itself has a spread of 0.17.
        assert!(
            (0.15..0.25).contains(&noisy[1].missed),
            "{}",
            noisy[1].missed
        );
        // What is left out one by one is what the formula says.
        let trial = &trials(0.3)[0];
        let kernel = noisy[1].kernel;
        let [sum, count] = trial.left_out(&kernel, &[1, 3]);
        let squares = (0..80).map(|i| {
            let others: Vec<usize> = (0..80).filter(|j| *j != i).collect();
            let values: Vec<f64> = others.iter().map(|&j| trial.values[j]).collect();
            let placed = &trial.placed;
            let found = krige(
                &kernel,
                &[1, 3],
                &placed.select(&others),
                &values,
                &placed.select(&[i]),
            );
            (found[0] - trial.values[i]).powi(2)
        });
        assert!((squares.sum::<f64>() / sum - 1.0).abs() < 1e-6 && count == 80.0);
        assert!(Trial::new(scattered(5, 0), vec![1.0; 5]).is_none());
        let few = Trial::new(scattered(4, 0), vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(choose(&[few], &[1, 3], 1.0, &()).unwrap()[1].is_none());
    }
}
