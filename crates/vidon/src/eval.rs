//! How far answers are from the truth, in physical units: of every sample the relative L² error
//! `‖prediction - truth‖₂ / ‖truth‖₂` over its targets, of every column the errors of all its targets.

use serde::{Deserialize, Serialize};

use crate::data::{Channel, Dataset, Rows};
use crate::error::Result;
use crate::observer::Observer;
use crate::operator::Operator;

/// The errors of an operator on some data.
#[derive(Clone, Debug)]
pub struct Errors {
    /// Names of the samples, where they have any.
    pub names: Vec<Option<String>>,
    /// Of every sample.
    pub relative_l2: Vec<f64>,
    /// Of every column of the targets.
    pub columns: Vec<ColumnErrors>,
}

/// The errors of a column over all targets that are known, in its unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnErrors {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    pub targets: usize,
    pub rmse: f64,
    pub mae: f64,
    /// Mean of prediction - truth.
    pub bias: f64,
}

impl Operator {
    /// The errors on the first `count` samples, worked out a block at a time.
    pub fn errors(&self, data: &Dataset, count: usize, observer: &dyn Observer) -> Result<Errors> {
        let both = ["the data of the model", "this"];
        self.meta().check_same_channels(&data.meta()?, both)?;
        let mut sums = vec![Sums::default(); self.meta().targets.len()];
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        data.blocks(count, observer, |block| {
            let found = self.predict_samples(&block.iter().collect::<Vec<_>>())?;
            for (found, sample) in found.iter().zip(block) {
                errors.push(relative_l2(found, &sample.targets));
                names.push(sample.name.clone());
                for (c, sums) in sums.iter_mut().enumerate() {
                    found
                        .column(c)
                        .zip(sample.targets.column(c))
                        .for_each(|p| sums.add(p));
                }
            }
            Ok(())
        })?;
        let columns = self.meta().targets.iter().zip(sums);
        Ok(Errors {
            names,
            relative_l2: errors,
            columns: columns.map(|(channel, sums)| sums.of(channel)).collect(),
        })
    }
}

/// Sums of the errors of a column.
#[derive(Clone, Debug, Default)]
struct Sums {
    count: usize,
    errors: f64,
    sizes: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, (found, truth): (f32, f32)) {
        if !truth.is_nan() {
            let error = found as f64 - truth as f64;
            self.count += 1;
            self.errors += error;
            self.sizes += error.abs();
            self.squares += error * error;
        }
    }

    fn of(self, channel: &Channel) -> ColumnErrors {
        let mean = |sum: f64| sum / self.count.max(1) as f64;
        ColumnErrors {
            name: channel.name.clone(),
            unit: channel.unit.clone(),
            targets: self.count,
            rmse: mean(self.squares).sqrt(),
            mae: mean(self.sizes),
            bias: mean(self.errors),
        }
    }
}

/// `‖a - b‖₂/‖b‖₂` over all b that are known; where b is zero, the norm of a.
pub(crate) fn relative_l2(found: &Rows, truth: &Rows) -> f64 {
    let square = |v: f64| v * v;
    let pairs = found.data().iter().zip(truth.data());
    let known = pairs.filter(|(_, b)| !b.is_nan());
    let apart: f64 = known
        .clone()
        .map(|(a, b)| square(*a as f64 - *b as f64))
        .sum();
    let norm: f64 = known.map(|(_, b)| square(*b as f64)).sum();
    if norm > 0.0 {
        (apart / norm).sqrt()
    } else {
        apart.sqrt()
    }
}

/// Errors of many samples in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    pub samples: usize,
    pub mean: f64,
    pub std: f64,
    pub median: f64,
    pub worst: f64,
    /// Which sample that is, counted from 0.
    pub worst_sample: usize,
}

impl ErrorSummary {
    /// # Panics
    /// Without errors.
    pub fn new(errors: &[f64]) -> Self {
        let n = errors.len();
        assert!(n > 0, "no errors to summarise");
        let mean = errors.iter().sum::<f64>() / n as f64;
        let variance = errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / n as f64;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| errors[a].total_cmp(&errors[b]));
        let sorted = |i: usize| errors[order[i]];
        Self {
            samples: n,
            mean,
            std: variance.sqrt(),
            median: 0.5 * (sorted((n - 1) / 2) + sorted(n / 2)),
            worst: sorted(n - 1),
            worst_sample: order[n - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_their_summary_are_those_of_the_formulas() {
        let rows = |v: &[f32]| Rows::of(1, v.to_vec());
        let error = relative_l2(&rows(&[3.0, 4.0]), &rows(&[0.0, 5.0]));
        assert!((error - (10.0f64).sqrt() / 5.0).abs() < 1e-9);
        assert_eq!(relative_l2(&rows(&[3.0, 4.0]), &rows(&[0.0, 0.0])), 5.0);
        let gap = rows(&[4.0, f32::NAN]);
        assert_eq!(relative_l2(&rows(&[3.0, 9.0]), &gap), 0.25);
        let summary = ErrorSummary::new(&[0.4, 0.1, 0.2, 0.1]);
        assert_eq!(
            (summary.samples, summary.worst, summary.worst_sample),
            (4, 0.4, 0)
        );
        assert!((summary.mean - 0.2).abs() < 1e-12 && (summary.median - 0.15).abs() < 1e-12);
        assert!((summary.std - 0.015f64.sqrt()).abs() < 1e-12);
    }
}
