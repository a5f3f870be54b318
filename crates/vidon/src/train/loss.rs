//! What a step makes small: a sum over some samples and what it counts, to be divided when all parts of a step are
//! together.
//!
//!   mse = Σ (found - target)² / number of targets,   relative L² = Σ_samples ‖found - target‖/‖target‖ / samples,
//!
//! over the targets that are known.

use crate::data::{Rows, Scaling};
use crate::network::{Place, Sets, Tensor};
use crate::train::coefficients::TargetCoefficients;
use crate::train::recipe::Loss;

/// Keeps the root of a vanishing relative error differentiable.
const TINY: f64 = 1e-12;
/// Norms are at least this share of the root mean square of all targets.
const LEAST: f64 = 1e-3;

/// An unnormalised loss, and by what it is to be divided.
pub(crate) struct LossSum {
    pub sum: Tensor<1>,
    pub count: f64,
}

/// How errors are measured: in units of the network (`scaling` leads to them), beside targets of `size` (their
/// root mean square before scaling, transformed where they are).
#[derive(Clone, Copy)]
pub(crate) struct Measure<'a> {
    pub loss: Loss,
    pub scaling: Option<&'a Scaling>,
    pub size: f64,
}

impl Measure<'_> {
    /// What a component's unit is for the network, before scaling.
    fn spans(&self, width: usize) -> Vec<f32> {
        let span = |c: usize| self.scaling.map_or(1.0, |s| s.targets.span(c));
        (0..width).map(span).collect()
    }

    /// Of answers at queries, a row each; `targets` as the network sees them, one sample after the other.
    pub fn of_values(&self, found: Tensor<2>, targets: &[&Rows]) -> LossSum {
        let width = targets[0].width();
        let (mut all, mut offsets) = (Rows::of(width, vec![]), vec![0]);
        for own in targets {
            all.extend(own);
            offsets.push(all.len());
        }
        let place = Place::of(&found);
        match self.loss {
            Loss::Mse => {
                let known = all.data().iter().filter(|v| !v.is_nan()).count();
                let apart = apart(found, all);
                LossSum {
                    sum: (apart.clone() * apart).sum(),
                    count: known as f64,
                }
            }
            Loss::RelativeL2 => {
                let factors = self.factors(&all, &offsets);
                let factors: Tensor<2> = place.tensor(factors, [all.len(), width]);
                let apart = apart(found, all) * factors;
                let squares = Sets::new(offsets, &place.device).sum(apart.clone() * apart);
                LossSum {
                    sum: (squares.sum_dim(1) + TINY).sqrt().sum(),
                    count: targets.len() as f64,
                }
            }
        }
    }

    /// What an error counts: relative to the norm of its sample's targets before scaling; nothing where the
    /// target is not known.
    fn factors(&self, targets: &Rows, offsets: &[usize]) -> Vec<f32> {
        let (width, mut truth) = (targets.width(), targets.clone());
        if let Some(scaling) = self.scaling {
            scaling.targets.invert(&mut truth);
        }
        let spans = self.spans(width);
        let mut factors = Vec::with_capacity(truth.data().len());
        for w in offsets.windows(2) {
            let values = &truth.data()[w[0] * width..w[1] * width];
            let known = values.iter().filter(|v| !v.is_nan());
            let square: f64 = known.clone().map(|v| (*v as f64).powi(2)).sum();
            let count = known.count() as f64 / width as f64;
            let least = LEAST * self.size * count.sqrt();
            let norm = square.sqrt().max(least).max(TINY);
            let row: Vec<f32> = spans.iter().map(|s| (*s as f64 / norm) as f32).collect();
            let own = values.iter().zip(row.iter().cycle());
            factors.extend(own.map(|(v, factor)| if v.is_nan() { 0.0 } else { *factor }));
        }
        factors
    }

    /// The same for coefficients β `[samples, p]`: every function counts by its norm.
    pub fn of_coefficients(&self, beta: Tensor<2>, answers: &[&TargetCoefficients]) -> LossSum {
        let ([samples, p], place) = (beta.dims(), Place::of(&beta));
        let (roots, outputs) = (&answers[0].roots, answers[0].outputs);
        let spans = self.spans(outputs);
        let coefs: Vec<f32> = answers.iter().flat_map(|a| &a.coefs).copied().collect();
        // Those of a component of which a sample knows nothing do not count.
        let apart = apart(beta, Rows::of(p, coefs));
        let count = samples as f64;
        match self.loss {
            Loss::Mse => {
                let share = 1.0 / (outputs as f32).sqrt();
                let counts = roots.iter().map(|r| r * share).collect();
                let apart = apart * place.tensor(counts, [1, p]);
                let sum = (apart.clone() * apart).sum();
                LossSum { sum, count }
            }
            Loss::RelativeL2 => {
                let counts = (0..p).map(|k| roots[k] * spans[k * outputs / p]).collect();
                let least = (LEAST * self.size).max(TINY) as f32;
                let shares = answers.iter().map(|a| 1.0 / a.norm.max(least)).collect();
                let apart =
                    apart * place.tensor(counts, [1, p]) * place.tensor(shares, [samples, 1]);
                let roots = ((apart.clone() * apart).sum_dim(1) + TINY).sqrt();
                LossSum {
                    sum: roots.sum(),
                    count,
                }
            }
        }
    }
}

/// How far apart they are, row by row; 0 where a target is missing.
fn apart(found: Tensor<2>, targets: Rows) -> Tensor<2> {
    let place = Place::of(&found);
    let known = targets.has_gaps().then(|| place.rows(targets.known()));
    let apart = found - place.rows(targets.without_gaps());
    match known {
        Some(known) => apart * known,
        None => apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::scaling::Ends;
    use crate::network::{device, to_vec};
    use std::sync::Arc;

    /// Two components of two functions each: 4·(1 + 1) + ¼·(9 + 4) = 11.25, over a norm of 5.
    #[test]
    fn coefficients_count_by_norm_and_component() {
        let place = Place::single(device());
        let beta = || place.tensor(vec![1.0f32, 2.0, 3.0, 4.0], [1, 4]);
        let answers = [&TargetCoefficients {
            coefs: vec![0.0; 4],
            roots: Arc::new(vec![1.0, 0.5, 1.0, 0.5]),
            outputs: 2,
            norm: 5.0,
        }];
        let scaling = Scaling {
            groups: vec![Ends::between(&[0.0], &[1.0])],
            targets: Ends::between(&[0.0, 0.0], &[2.0, 0.5]),
        };
        let measure = |loss: Loss, size: f64| Measure {
            loss,
            scaling: Some(&scaling),
            size,
        };
        for (loss, wanted) in [(Loss::RelativeL2, 11.25f32.sqrt() / 5.0), (Loss::Mse, 7.5)] {
            let found = measure(loss, 5.0).of_coefficients(beta(), &answers);
            assert!((to_vec(found.sum)[0] - wanted).abs() < 1e-5, "{loss:?}");
            assert_eq!(found.count, 1.0);
        }
        // A component that the sample does not know does not count.
        let unknown = TargetCoefficients {
            coefs: vec![0.0, 0.0, f32::NAN, f32::NAN],
            roots: answers[0].roots.clone(),
            ..*answers[0]
        };
        let found = measure(Loss::RelativeL2, 5.0).of_coefficients(beta(), &[&unknown]);
        assert!((to_vec(found.sum)[0] - 8f32.sqrt() / 5.0).abs() < 1e-5);
        // Beside targets a million times as large, those of this sample are as good as zero.
        let found = measure(Loss::RelativeL2, 5e6).of_coefficients(beta(), &answers);
        assert!((to_vec(found.sum)[0] - 11.25f32.sqrt() / 5e3).abs() < 1e-6);
    }

    /// Targets that are missing change nothing, in neither loss: what is left is measured as if it were all.
    #[test]
    fn only_known_targets_count() {
        let place = Place::single(device());
        let measure = |loss: Loss| Measure {
            loss,
            scaling: None,
            size: 1.0,
        };
        let with = Rows::of(2, vec![3.0, f32::NAN, f32::NAN, 4.0]);
        for (loss, sum, count) in [
            (Loss::Mse, 5.0, 2.0),
            (Loss::RelativeL2, 5f32.sqrt() / 5.0, 1.0),
        ] {
            let found = place.tensor(vec![2.0, 70.0, -80.0, 6.0], [2, 2]);
            let found = measure(loss).of_values(found, &[&with]);
            assert!((to_vec(found.sum)[0] - sum).abs() < 1e-5, "{loss:?}");
            assert_eq!(found.count, count);
        }
    }
}
