//! Projection heads: what scattered sensors say of a function, by regularised least squares in a basis φ,
//!
//!   c = P (AᵀA/m + λI)⁻¹ Aᵀu/m,   A_jk = P_k φ_k(x_j),   P_k = (1 + |k|²)^{-decay/2} e^{-fall |k|}.
//!
//! It takes any number of sensors, anywhere, in any order; where there are few, the prior P takes over. Averages over random sensors are off by
//! m^{-1/2}; this is nearly exact on smooth functions. The prior and λ are chosen by how well left-out sensors of training samples are predicted: powers for
//! functions of finite smoothness, exponentials for analytic ones. The network sees the coefficients with the mean and spread of the training set taken out.

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Sample};
use crate::error::{Error, Result};
use crate::models::basis::{Basis, Frame, Turn};
use crate::models::inputs::{Inputs, to_vec};
use crate::models::params::{Entry, Init, Key, Params, Plan};
use crate::rng::stream;

/// Choices of decay, of fall (one of the two is zero) and of λ.
const DECAYS: [f64; 8] = [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0];
const FALLS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
const RIDGES: [f64; 8] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8];
/// Training samples that the choice looks at, and the share of their sensors that is left out.
const TRIALS: usize = 24;
const LEFT_OUT: usize = 8;
/// Training samples whose coefficients give means and spreads.
pub(crate) const MEASURED: usize = 64;
/// Spreads are at least this share of the largest.
const LEAST_SPREAD: f64 = 1e-3;

/// A projection in the branch of a VIDON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionConfig {
    #[serde(default)]
    pub frame: Frame,
    /// Number of basis functions, at least: those with the |k| of the last all belong to it.
    pub functions: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Projection {
    basis: Basis,
    values: usize,
    /// Not trained: decay, λ and fall, and mean and spread of every coefficient.
    prior: Key,
    mean: Key,
    spread: Key,
}

impl Projection {
    pub fn new(plan: &mut Plan, config: &ProjectionConfig, values: usize) -> Self {
        let basis = Basis::whole(config.frame.clone(), config.functions);
        let outputs = basis.len() * values;
        Self {
            basis,
            values,
            prior: plan.add("projection.prior".into(), &[3], Init::Fixed),
            mean: plan.add("projection.mean".into(), &[outputs], Init::Fixed),
            spread: plan.add("projection.spread".into(), &[outputs], Init::Fixed),
        }
    }

    /// With numbers of its own, outside of any network.
    pub fn alone(config: &ProjectionConfig, values: usize) -> (Self, Vec<Entry>) {
        let mut plan = Plan::new(stream(0, "projection", 0), usize::MAX);
        let projection = Self::new(&mut plan, config, values);
        (projection, plan.entries)
    }

    /// Numbers it gives for a sample.
    pub fn outputs(&self) -> usize {
        self.basis.len() * self.values
    }

    /// Chooses the prior and λ, and measures the coefficients of the training set.
    pub fn fit(&self, entries: &mut [Entry], samples: &[Sample]) -> Result<()> {
        self.choose(entries, samples);
        let few = &samples[..samples.len().min(MEASURED)];
        let fits = self.fits(entries, few);
        let (mean, spread) = mean_and_spread(&fits)?;
        entries[self.mean.place()].values = mean;
        entries[self.spread.place()].values = spread;
        Ok(())
    }

    /// Chooses the prior and λ by how well left-out sensors are predicted.
    pub fn choose(&self, entries: &mut [Entry], samples: &[Sample]) {
        let trials: Vec<Trial> = samples
            .par_iter()
            .take(TRIALS)
            .filter(|s| s.sensor_coords.len() >= 2 * LEFT_OUT)
            .map(|s| Trial::new(self, s))
            .collect();
        let mut best = (f64::INFINITY, [2.0, 1e-3, 0.0]);
        let powers = DECAYS.map(|decay| (decay, 0.0));
        let exponentials = FALLS.map(|fall| (0.0, fall));
        let mut shapes: Vec<(f64, f64)> = powers.into_iter().chain(exponentials).collect();
        // Where samples have few sensors, none is left out, and the choice stays what it is.
        if trials.is_empty() {
            shapes.clear();
        }
        for (decay, fall) in shapes {
            let amplitudes = self.amplitudes(decay, fall);
            let mut before = f64::INFINITY;
            for ridge in RIDGES {
                let misses = trials.par_iter().map(|t| t.miss(self, &amplitudes, ridge));
                // In order, for the same bits on any number of threads.
                let miss: f64 = misses.collect::<Vec<f64>>().iter().sum();
                if miss < best.0 {
                    best = (miss, [decay as f32, ridge as f32, fall as f32]);
                }
                // A smaller λ than the best only follows the noise more closely.
                if miss > before {
                    break;
                }
                before = miss;
            }
        }
        entries[self.prior.place()].values = best.1.to_vec();
    }

    fn amplitudes(&self, decay: f64, fall: f64) -> Vec<f64> {
        let orders = self.basis.orders();
        orders
            .iter()
            .map(|k| (1.0 + k * k).powf(-0.5 * decay) * (-fall * k).exp())
            .collect()
    }

    /// The coefficients of every sample, one row each: `prior` was found by [`fit`](Self::fit).
    pub fn project(
        &self,
        prior: &[f32],
        coords: &[f32],
        values: &[f32],
        offsets: &[usize],
    ) -> Vec<f32> {
        let [decay, ridge, fall] = [0, 1, 2].map(|i| prior[i] as f64);
        let amplitudes = self.amplitudes(decay, fall);
        let dim = coords.len() / offsets[offsets.len() - 1];
        let fits: Vec<Vec<f32>> = offsets
            .par_windows(2)
            .map(|w| {
                let (coords, values) = (
                    &coords[w[0] * dim..w[1] * dim],
                    &values[w[0] * self.values..w[1] * self.values],
                );
                self.coefs(coords, values, &amplitudes, ridge)
            })
            .collect();
        fits.concat()
    }

    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Whether fits can be [moved](Self::move_fit) instead of the sensors, for such symmetries on such a box.
    pub fn moves(&self, shifts: bool, coords: &[Channel]) -> bool {
        let frame = self.basis.frame();
        let ends = frame.lo.iter().zip(&frame.hi);
        let same = frame.lo.len() == coords.len()
            && ends
                .zip(coords)
                .all(|((lo, hi), c)| c.range == Some([*lo, *hi]));
        same && self.basis.can_turn(shifts)
    }

    /// The coefficients of a sample, from those before its axes were turned and, where `negative`, the sign of its values changed.
    pub fn move_fit(&self, fit: &mut [f32], turns: &[Turn], negative: bool) {
        self.basis.turn(fit, turns);
        if negative {
            fit.iter_mut().for_each(|v| *v = -*v);
        }
    }

    /// The coefficients of every sample, as the network sees its values: for training steps that use all sensors.
    pub fn fits(&self, entries: &[Entry], samples: &[Sample]) -> Vec<Vec<f32>> {
        let prior = &entries[self.prior.place()].values;
        let fit = |s: &Sample| {
            let offsets = [0, s.sensor_coords.len()];
            self.project(
                prior,
                s.sensor_coords.data(),
                s.sensor_values.data(),
                &offsets,
            )
        };
        samples.par_iter().map(fit).collect()
    }

    /// The coefficients of the batch's samples, `[samples, outputs]`, without gradient.
    pub fn coefficients(&self, params: &Params, inputs: &Inputs) -> Tensor<2> {
        if let Some(known) = &inputs.fits {
            return known.clone();
        }
        let (device, dtype) = (inputs.sensor_coords.device(), inputs.sensor_coords.dtype());
        let values = self.project(
            &to_vec(params.get::<1>(self.prior)),
            &to_vec(inputs.sensor_coords.clone()),
            &to_vec(inputs.sensor_values.clone()),
            inputs.sensors.offsets(),
        );
        let shape = [inputs.samples(), self.outputs()];
        Tensor::from_data(TensorData::new(values, shape), (&device, dtype))
    }

    /// Coefficients with the mean and spread of the training set taken out.
    pub fn standardise(&self, params: &Params, coefs: Tensor<2>) -> Tensor<2> {
        let [mean, spread] = [self.mean, self.spread].map(|key| params.get::<1>(key).unsqueeze());
        (coefs - mean) / spread
    }

    /// Coefficients of one sample, component by component.
    fn coefs(&self, coords: &[f32], values: &[f32], prior: &[f64], ridge: f64) -> Vec<f32> {
        let normal = Normal::new(self, coords, values);
        let solved = normal.solve(prior, ridge);
        solved.iter().map(|c| *c as f32).collect()
    }
}

/// Mean and standard deviation of every coefficient over the samples; no deviation is much smaller than the largest.
pub(crate) fn mean_and_spread<T: Copy + Into<f64>>(
    fits: &[Vec<T>],
) -> Result<(Vec<f32>, Vec<f32>)> {
    let (n, count) = (fits[0].len(), fits.len() as f64);
    let mean: Vec<f64> = (0..n)
        .map(|k| fits.iter().map(|f| f[k].into()).sum::<f64>() / count)
        .collect();
    let spread: Vec<f64> = (0..n)
        .map(|k| {
            let squares = fits.iter().map(|f| (f[k].into() - mean[k]).powi(2));
            (squares.sum::<f64>() / count).sqrt()
        })
        .collect();
    let largest = spread.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Err(Error::Setting(format!(
            "the first {} training samples are all the same: there is nothing to learn from",
            fits.len()
        )));
    }
    let spread = spread.iter().map(|s| s.max(LEAST_SPREAD * largest) as f32);
    Ok((mean.iter().map(|m| *m as f32).collect(), spread.collect()))
}

/// The normal equations of a sample: ΦᵀΦ/m and Φᵀu/m.
struct Normal {
    functions: usize,
    gram: Vec<f32>,
    right: Vec<f64>,
}

impl Normal {
    fn new(projection: &Projection, coords: &[f32], values: &[f32]) -> Self {
        let (n, width) = (projection.basis.len(), projection.values);
        let stride = n.next_multiple_of(16);
        let features = projection.basis.evaluate(coords, stride);
        let m = features.len() / stride;
        let gram = vidon_kernels::gram(&features, stride, n);
        let mut right = vec![0.0; n * width];
        for (row, value) in features.chunks(stride).zip(values.chunks(width)) {
            for (c, v) in value.iter().enumerate() {
                let share = *v as f64 / m as f64;
                for (r, f) in right[c * n..(c + 1) * n].iter_mut().zip(row) {
                    *r += share * *f as f64;
                }
            }
        }
        let gram = gram.iter().map(|g| g / m as f32).collect();
        Self {
            functions: n,
            gram,
            right,
        }
    }

    /// c for every component.
    fn solve(&self, prior: &[f64], ridge: f64) -> Vec<f64> {
        let n = self.functions;
        let mut matrix = self.gram.clone();
        for i in 0..n {
            for j in 0..=i {
                matrix[i * n + j] *= (prior[i] * prior[j]) as f32;
            }
            matrix[i * n + i] += ridge as f32;
        }
        let mut right: Vec<f32> = self
            .right
            .iter()
            .enumerate()
            .map(|(i, r)| (r * prior[i % n]) as f32)
            .collect();
        vidon_kernels::solve_positive(&mut matrix, n, &mut right);
        let scaled = right.iter().enumerate();
        scaled.map(|(i, c)| *c as f64 * prior[i % n]).collect()
    }
}

/// A sample with some sensors left out.
struct Trial {
    normal: Normal,
    left_out: Vec<f32>,
    truth: Vec<f32>,
    /// The square of all readings.
    norm: f64,
}

impl Trial {
    fn new(projection: &Projection, sample: &Sample) -> Self {
        let count = sample.sensor_coords.len();
        let (out, kept): (Vec<usize>, Vec<usize>) = (0..count).partition(|i| i % LEFT_OUT == 3);
        let (coords, values) = (
            sample.sensor_coords.select(&kept),
            sample.sensor_values.select(&kept),
        );
        let places = sample.sensor_coords.select(&out);
        Self {
            normal: Normal::new(projection, coords.data(), values.data()),
            left_out: projection
                .basis
                .evaluate(places.data(), projection.basis.len()),
            truth: sample.sensor_values.select(&out).data().to_vec(),
            norm: squares(sample.sensor_values.data()),
        }
    }

    /// The error on the left-out sensors, relative to all readings.
    fn miss(&self, projection: &Projection, prior: &[f64], ridge: f64) -> f64 {
        let (n, width) = (projection.basis.len(), projection.values);
        let coefs = self.normal.solve(prior, ridge);
        let mut far = 0.0;
        for (row, truth) in self.left_out.chunks(n).zip(self.truth.chunks(width)) {
            for (c, t) in truth.iter().enumerate() {
                let pairs = row.iter().zip(&coefs[c * n..]);
                let found: f64 = pairs.map(|(f, c)| *f as f64 * c).sum();
                far += (found - *t as f64).powi(2);
            }
        }
        // Sums that are not finite lose.
        if far.is_finite() {
            (far / self.norm.max(f64::MIN_POSITIVE)).sqrt()
        } else {
            f64::MAX
        }
    }
}

fn squares(values: &[f32]) -> f64 {
    values.iter().map(|v| (*v as f64).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;
    use crate::models::basis::Family;
    use rand::RngExt;
    use std::sync::Arc;

    fn on_unit_square(family: Family, functions: usize) -> ProjectionConfig {
        let frame = Frame {
            lo: vec![0.0; 2],
            hi: vec![1.0; 2],
            family,
            times: 0,
        };
        ProjectionConfig { frame, functions }
    }

    fn smooth(m: usize, index: u64) -> Sample {
        let mut rng = stream(5, "smooth", index);
        let (a, b) = (
            rng.random_range(-1.0..1.0f32),
            rng.random_range(-1.0..1.0f32),
        );
        let places: Vec<f32> = (0..2 * m).map(|_| rng.random()).collect();
        let tau = std::f32::consts::TAU;
        let u = |p: &[f32]| 0.3 + a * (tau * p[0]).cos() + b * (tau * (p[0] - 2.0 * p[1])).sin();
        Sample {
            name: None,
            sensor_values: Rows::new(1, places.chunks(2).map(u).collect()),
            sensor_coords: Rows::new(2, places),
            query_coords: Arc::new(Rows::new(2, vec![0.0; 2])),
            targets: Rows::new(1, vec![0.0]),
        }
    }

    /// A trigonometric polynomial is recovered from scattered sensors; the order of the sensors does not matter; one sensor is enough for an answer.
    #[test]
    fn smooth_functions_are_recovered_from_scattered_sensors() {
        let config = on_unit_square(Family::Periodic, 49);
        let mut plan = Plan::new(stream(0, "plan", 0), 1 << 20);
        let projection = Projection::new(&mut plan, &config, 1);
        let mut entries = plan.entries;
        let samples: Vec<Sample> = (0..30).map(|i| smooth(150, i)).collect();
        projection.fit(&mut entries, &samples).unwrap();
        let fresh = smooth(150, 99);
        let coefs = projection
            .fits(&entries, std::slice::from_ref(&fresh))
            .remove(0);
        let features = projection.basis.evaluate(fresh.sensor_coords.data(), 49);
        let worst = features
            .chunks(49)
            .zip(fresh.sensor_values.data())
            .map(|(row, t)| (row.iter().zip(&coefs).map(|(f, c)| f * c).sum::<f32>() - t).abs());
        assert!(worst.fold(0.0, f32::max) < 2e-3);
        let run = |s: &Sample| {
            projection.project(
                &entries[0].values,
                s.sensor_coords.data(),
                s.sensor_values.data(),
                &[0, s.sensor_coords.len()],
            )
        };
        let order: Vec<usize> = (0..150).rev().collect();
        let mut turned = fresh.clone();
        turned.sensor_coords = fresh.sensor_coords.select(&order);
        turned.sensor_values = fresh.sensor_values.select(&order);
        for (a, b) in run(&fresh).iter().zip(run(&turned)) {
            assert!((a - b).abs() < 1e-2 * a.abs().max(1.0), "{a} {b}");
        }
        assert!(run(&smooth(1, 7)).iter().all(|c| c.is_finite()));
    }

    /// Coefficients of a front fall like e^{-c|k|}, which no power does: the exponential prior is found, and the front between its sensors.
    #[test]
    fn the_prior_of_analytic_functions_is_exponential() {
        let config = on_unit_square(Family::Legendre, 105);
        let (projection, mut entries) = Projection::alone(&config, 1);
        let front = |p: &[f32], index: u64| (6.0 * (p[0] + 0.5 * p[1]) - 0.3 * index as f32).tanh();
        let fronts: Vec<Sample> = (0..24)
            .map(|index| {
                let mut sample = smooth(400, index);
                let values = sample.sensor_coords.iter().map(|p| front(p, index));
                sample.sensor_values = Rows::new(1, values.collect());
                sample
            })
            .collect();
        projection.choose(&mut entries, &fronts);
        let [decay, _, fall] = entries[projection.prior.place()].values[..] else {
            panic!("a prior has three numbers");
        };
        assert!(decay == 0.0 && fall > 0.0, "{decay} {fall}");
        let coefs = projection.fits(&entries, &fronts[3..4]).remove(0);
        let places: Vec<f32> = (0..64).map(|i| 0.1 + 0.1 * (i % 8) as f32).collect();
        for place in places.chunks(2) {
            let row = projection.basis.evaluate(place, coefs.len());
            let found: f32 = row.iter().zip(&coefs).map(|(f, c)| f * c).sum();
            assert!((found - front(place, 3)).abs() < 0.02);
        }
    }
}
