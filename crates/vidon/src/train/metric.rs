//! How far answers are from the truth on validation data, in one number that chooses the best weights:
//!
//! | metric | |
//! |---|---|
//! | `relative-l2` | mean over the samples of ‖found - truth‖/‖truth‖ |
//! | `rmse` | √(mean of (found - truth)²) over all targets of a column |
//! | `mae` | mean of abs(found - truth) over all targets of a column |
//!
//! all in the user's units, over the targets that are known. The errors e_c of several columns are compared with the
//! spreads s_c of their targets, √(mean_c (e_c/s_c)²); that of a single column keeps its unit.

use serde::{Deserialize, Serialize};

use crate::data::Rows;
use crate::eval::relative_l2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    #[default]
    RelativeL2,
    Rmse,
    Mae,
}

impl Metric {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Metric::RelativeL2 => "relative L²",
            Metric::Rmse => "RMSE",
            Metric::Mae => "MAE",
        }
    }

    /// What it and its smallest value so far are called among the numbers of TensorBoard.
    pub(crate) fn tags(self) -> [&'static str; 2] {
        match self {
            Metric::RelativeL2 => ["val/relative_l2", "val/best_relative_l2"],
            Metric::Rmse => ["val/rmse", "val/best_rmse"],
            Metric::Mae => ["val/mae", "val/best_mae"],
        }
    }

    /// Of at least one sample.
    pub(crate) fn error(self, found: &[Rows], truth: &[&Rows]) -> f64 {
        let size: fn(f64) -> f64 = match self {
            Metric::RelativeL2 => {
                let errors = found.iter().zip(truth).map(|(f, t)| relative_l2(f, t));
                return errors.sum::<f64>() / found.len() as f64;
            }
            Metric::Rmse => |e| e * e,
            Metric::Mae => f64::abs,
        };
        let width = truth[0].width();
        let column = |c: usize| -> Option<f64> {
            let (mut count, mut sums) = (0.0, [0.0; 3]);
            for (found, truth) in found.iter().zip(truth) {
                let pairs = found.column(c).zip(truth.column(c));
                for (found, truth) in pairs.filter(|(_, truth)| !truth.is_nan()) {
                    let truth = truth as f64;
                    count += 1.0;
                    sums[0] += size(found as f64 - truth);
                    sums[1] += truth;
                    sums[2] += truth * truth;
                }
            }
            let [errors, mean, square] = sums.map(|sum| sum / count);
            let error = if self == Metric::Rmse {
                errors.sqrt()
            } else {
                errors
            };
            let variance = square - mean * mean;
            let spread = if variance > 0.0 { variance.sqrt() } else { 1.0 };
            let unit = if width == 1 { 1.0 } else { spread };
            (count > 0.0).then_some(error / unit)
        };
        let errors: Vec<f64> = (0..width).filter_map(column).collect();
        match &errors[..] {
            [only] => *only,
            _ => {
                let squares: f64 = errors.iter().map(|e| e * e).sum();
                (squares / errors.len().max(1) as f64).sqrt()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_formulas() {
        let rows = |width: usize, v: &[f32]| Rows::of(width, v.to_vec());
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found}");
        // Errors of 3 and -1, and one that nobody knows.
        let found = [rows(1, &[5.0, 0.0]), rows(1, &[2.0])];
        let truth = [rows(1, &[2.0, f32::NAN]), rows(1, &[3.0])];
        let truth: Vec<&Rows> = truth.iter().collect();
        close(Metric::Rmse.error(&found, &truth), 5f64.sqrt());
        close(Metric::Mae.error(&found, &truth), 2.0);
        close(
            Metric::RelativeL2.error(&found, &truth),
            0.5 * (1.5 + 1.0 / 3.0),
        );
        // Two columns with spreads of 1 and 100, and errors of 2 and 100 everywhere.
        let truth = rows(2, &[1.0, 100.0, 3.0, 300.0]);
        let found = [rows(2, &[3.0, 0.0, 1.0, 400.0])];
        for metric in [Metric::Rmse, Metric::Mae] {
            close(
                metric.error(&found, &[&truth]),
                (0.5f64 * (4.0 + 1.0)).sqrt(),
            );
        }
    }
}
