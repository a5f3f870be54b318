//! Moments: what sources with strengths, or samples of a density, say of a measure,
//!
//!   c_k = Σ_j u_j φ̂_k(x_j)   (strengths add up),   c_k = 1/m Σ_j φ̂_k(x_j)   (samples of a density),
//!
//! with φ̂ orthonormal in L². A measure is not a function: it has no readings that least squares could fit, and
//! its coefficients do not decay. What the core sees is therefore the measure made smooth,
//!
//!   Σ_k a_k c_k φ̂_k,   a_k = (1 + |k|²)^{-decay/2},
//!
//! whose linear images are those of the measure. Of samples of a density their number m goes with it, as one more
//! number. No source at all is the measure 0.

use serde::{Deserialize, Serialize};

use crate::config::MOST_PARTS;
use crate::data::{Channel, Group, Sensors};
use crate::encoders::coefficients::Coefficients;
use crate::encoders::{Encoded, Encoder};
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::spaces::{
    Basis, Frame, MEASURED, Symmetries, Symmetry, all_along, means_and_deviations,
};

/// Enough that a solution operator of second order, applied to points, gives nothing rougher.
const DECAY: f64 = 2.0;
/// Points whose functions are worked out at a time.
const AT_ONCE: usize = 1 << 12;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MomentsConfig {
    /// Which group; the only one of its kind where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default)]
    pub frame: Frame,
    /// Number of functions, at least: those with the |k| of the last all belong to it.
    pub functions: usize,
    /// How fast the amplitudes fall.
    #[serde(default = "usual_decay")]
    pub decay: f64,
}

impl MomentsConfig {
    /// So many functions of the only group of points.
    pub(crate) fn usual(functions: usize) -> Self {
        Self {
            group: None,
            frame: Frame::default(),
            functions,
            decay: usual_decay(),
        }
    }
}

fn usual_decay() -> f64 {
    DECAY
}

impl MomentsConfig {
    pub(super) fn fault(&self, coords: &[Channel]) -> Option<String> {
        if !(1..=MOST_PARTS).contains(&self.functions) {
            return Some(format!("moments are of 1 to {MOST_PARTS} functions"));
        }
        if !(0.0..=16.0).contains(&self.decay) {
            return Some("the decay of moments is a power between 0 and 16".into());
        }
        if self.frame.times > 0 {
            return Some("times belong to the frame of a decoder, not of moments".into());
        }
        self.frame.fault(coords)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Moments {
    basis: Basis,
    /// Measures: one a strength, or the density.
    measures: usize,
    /// a_k over the mean square of φ_k: from sums of φ_k to coefficients of φ_k.
    weights: Vec<f64>,
    coefficients: Coefficients,
    /// Of samples of a density: mean and spread of their number, not trained.
    count: Option<Key>,
}

impl Moments {
    pub fn new(
        plan: &mut Plan,
        config: &MomentsConfig,
        prefix: &str,
        group: &Group,
        standardised: bool,
    ) -> Self {
        let basis = Basis::whole(config.frame.clone(), config.functions);
        let measures = group.values.len().max(1);
        let amplitudes = basis.orders().into_iter().zip(basis.mean_squares());
        let weights =
            amplitudes.map(|(k, square)| (1.0 + k * k).powf(-0.5 * config.decay) / square);
        let (name, numbers) = (format!("{prefix}moments"), basis.len() * measures);
        let density = group.values.is_empty();
        Self {
            measures,
            weights: weights.collect(),
            coefficients: Coefficients::new(plan, &name, numbers, standardised),
            count: density.then(|| plan.add(format!("{name}.count"), &[2], Init::Fixed)),
            basis,
        }
    }

    /// a_k c_k, as coefficients of φ_k, measure by measure.
    fn coefficients_of(&self, sensors: &Sensors) -> Vec<f32> {
        let n = self.basis.len();
        let mut sums = vec![0.0f64; n * self.measures];
        // Some at a time: there may be many of both points and functions.
        let block = AT_ONCE * sensors.coords.width();
        let blocks = sensors.coords.data().chunks(block).enumerate();
        for (b, coords) in blocks {
            let features = self.basis.evaluate(coords, n);
            for (j, row) in features.chunks_exact(n).enumerate() {
                for (measure, sums) in sums.chunks_exact_mut(n).enumerate() {
                    let strength = match self.count {
                        None => sensors.values.row(b * AT_ONCE + j)[measure] as f64,
                        Some(_) => 1.0 / sensors.len() as f64,
                    };
                    // A strength that is missing adds nothing.
                    if !strength.is_nan() {
                        let pairs = sums.iter_mut().zip(row);
                        pairs.for_each(|(sum, f)| *sum += strength * *f as f64);
                    }
                }
            }
        }
        let weights = self.weights.iter().cycle();
        sums.iter()
            .zip(weights)
            .map(|(s, w)| (s * w) as f32)
            .collect()
    }
}

impl Encoder for Moments {
    fn fit(&self, entries: &mut [Entry], _: &[Channel], training: &[&Sensors]) -> Result<()> {
        let some = all_along(training, MEASURED);
        let some: Vec<Vec<f32>> = some.map(|s| self.coefficients_of(s)).collect();
        self.coefficients.fit(entries, &some, self.measures)?;
        if let Some(key) = self.count {
            let counts: Vec<f32> = training.iter().map(|s| s.len() as f32).collect();
            key.set(entries, means_and_deviations([&counts[..]].into_iter(), 1));
        }
        Ok(())
    }

    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        let mut all = self.coefficients_of(sensors);
        if all.iter().any(|c| !c.is_finite()) {
            return Err(Error::sample(
                0,
                "its points have no finite moments: do some stand far outside of the box of the training data?",
            ));
        }
        if let Some(key) = self.count {
            let [mean, spread] = [0, 1].map(|i| key.of(entries)[i]);
            all.push((sensors.len() as f32 - mean) / spread);
        }
        Ok(Encoded::Numbers(all))
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        if self.count.is_none() {
            return self.coefficients.forward(params, batch);
        }
        let split = |encoded: &&Encoded| match encoded {
            Encoded::Numbers(all) => {
                let (coefs, count) = all.split_at(self.coefficients.count());
                (Encoded::Numbers(coefs.to_vec()), count[0])
            }
            _ => unreachable!("made by this encoder"),
        };
        let (coefs, counts): (Vec<Encoded>, Vec<f32>) = batch.iter().map(split).unzip();
        let coefs: Vec<&Encoded> = coefs.iter().collect();
        let counts = params.place().tensor(counts, [batch.len(), 1]);
        Tensor::cat(vec![self.coefficients.forward(params, &coefs), counts], 1)
    }

    fn outputs(&self) -> usize {
        self.coefficients.count() + usize::from(self.count.is_some())
    }

    fn basis(&self) -> Option<&Basis> {
        Some(&self.basis)
    }

    fn functions(&self) -> usize {
        self.measures
    }

    /// Of the smooth functions over the box: their means are the coefficients of the constant.
    fn function_moments(&self, _: &[Entry], training: &[&Sensors]) -> Vec<[f32; 2]> {
        let n = self.basis.len();
        let some: Vec<Vec<f32>> = all_along(training, MEASURED)
            .map(|s| self.coefficients_of(s))
            .collect();
        let (squares, constant) = (self.basis.mean_squares(), self.basis.constant());
        let of_measure = |measure: usize| {
            let own = || some.iter().map(|c| &c[measure * n..][..n]);
            let count = some.len() as f64;
            let mean = constant.map_or(0.0, |k| own().map(|c| c[k] as f64).sum::<f64>() / count);
            let square = |c: &[f32]| -> f64 {
                let pairs = c.iter().zip(&squares);
                pairs.map(|(c, s)| (*c as f64).powi(2) * s).sum()
            };
            let square = own().map(square).sum::<f64>() / count;
            let variance = square - mean * mean;
            let spread = if variance > 0.0 { variance.sqrt() } else { 1.0 };
            [mean as f32, spread as f32]
        };
        (0..self.measures).map(of_measure).collect()
    }

    fn has_symmetries(&self, symmetries: Symmetries, coords: &[Channel]) -> bool {
        self.basis.has_symmetries_of(symmetries, coords)
    }

    fn transform(&self, encoded: &mut Encoded, symmetry: &Symmetry, _: &[[f64; 2]]) {
        if let Encoded::Numbers(all) = encoded {
            let coefs = &mut all[..self.coefficients.count()];
            self.basis.transform(coefs, symmetry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Kind, Rows};
    use crate::rng::stream;
    use crate::spaces::Family;
    use rand::RngExt;

    fn moments_of(family: Family, values: &[&str], decay: f64) -> (Moments, Vec<Entry>) {
        let config = MomentsConfig {
            group: None,
            frame: Frame {
                lo: vec![0.0; 2],
                hi: vec![2.0; 2],
                family,
                times: 0,
            },
            functions: 30,
            decay,
        };
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        let group = Group {
            kind: Kind::Points,
            ..Group::field("points", channels(&["x", "y"]), channels(values))
        };
        let mut plan = Plan::new(stream(0, "moments", 0), usize::MAX);
        let moments = Moments::new(&mut plan, &config, "", &group, false);
        (moments, plan.draw())
    }

    fn points(m: usize, width: usize, seed: u64) -> Sensors {
        let rng = &mut stream(seed, "points", 0);
        let mut rows = |width: usize, lo: f32| match width {
            0 => Rows::without_columns(m),
            _ => Rows::of(
                width,
                (0..m * width).map(|_| rng.random_range(lo..2.0)).collect(),
            ),
        };
        Sensors {
            coords: rows(2, 0.0),
            values: rows(width, -2.0),
        }
    }

    /// Two halves together are the sum of both, twice the strength is twice the measure, and nothing is 0.
    #[test]
    fn strengths_add_up() {
        let (moments, _) = moments_of(Family::Cosine, &["q", "r"], 1.0);
        let (a, b) = (points(5, 2, 1), points(8, 2, 2));
        let mut both = a.clone();
        both.coords.extend(&b.coords);
        both.values.extend(&b.values);
        let of = |s: &Sensors| moments.coefficients_of(s);
        for ((sum, a), b) in of(&both).iter().zip(of(&a)).zip(of(&b)) {
            assert!((sum - a - b).abs() < 1e-5);
        }
        let mut twice = a.clone();
        twice.values.data_mut().iter_mut().for_each(|v| *v *= 2.0);
        let pairs = of(&twice).into_iter().zip(of(&a));
        pairs.for_each(|(t, a)| assert!((t - 2.0 * a).abs() < 1e-5));
        assert!(of(&a.select(&[])).iter().all(|c| *c == 0.0));
        // A strength that is missing adds nothing to its own measure alone.
        let mut gap = a.clone();
        gap.values.data_mut()[1] = f32::NAN;
        let mut without = a.clone();
        without.values.data_mut()[1] = 0.0;
        assert_eq!(of(&gap), of(&without));
    }

    /// Without decay the coefficients are those of the measure: integrated against a function of the basis they
    /// give its value at the point.
    #[test]
    fn coefficients_are_those_of_the_measure() {
        for family in [
            Family::Sine,
            Family::Cosine,
            Family::Periodic,
            Family::Legendre,
        ] {
            let (moments, _) = moments_of(family, &["q"], 0.0);
            let one = points(1, 1, 3);
            let n = moments.basis.len();
            let values = moments.basis.evaluate(one.coords.data(), n);
            let (squares, strength) = (moments.basis.mean_squares(), one.values.data()[0]);
            for ((c, v), s) in moments
                .coefficients_of(&one)
                .iter()
                .zip(values)
                .zip(squares)
            {
                assert!((c * s as f32 - strength * v).abs() < 1e-5, "{family:?}");
            }
        }
    }

    #[test]
    fn of_a_density_the_mean_and_the_number_count() {
        let (moments, mut entries) = moments_of(Family::Cosine, &[], 2.0);
        let training: Vec<Sensors> = (1..40).map(|i| points(10 * i, 0, i as u64)).collect();
        let training: Vec<&Sensors> = training.iter().collect();
        moments.fit(&mut entries, &[], &training).unwrap();
        let a = points(6, 0, 7);
        let mut twice = a.clone();
        twice.coords.extend(&a.coords);
        twice.values.extend(&a.values);
        let [one, two] = [&a, &twice].map(|s| match moments.encode(&entries, s).unwrap() {
            Encoded::Numbers(numbers) => numbers,
            _ => unreachable!("numbers"),
        });
        let n = moments.basis.len();
        assert!((0..n).all(|k| (one[k] - two[k]).abs() < 1e-6));
        assert!(one[n] < two[n] && one.len() == n + 1);
        // The mean of a density is 1.
        let [mean, _] = moments.function_moments(&entries, &training)[0];
        assert!((mean - 1.0).abs() < 1e-5, "{mean}");
    }
}
