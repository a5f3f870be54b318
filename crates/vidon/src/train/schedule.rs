//! Learning rates over the steps of a training.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How the learning rate changes. Times are epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// With braces, which make serde refuse the settings of others.
    Constant {},
    /// Multiplied by `factor` every so many epochs.
    Step { every: f64, factor: f64 },
    /// Multiplied by `factor` at each of these epochs.
    MultiStep { at: Vec<f64>, factor: f64 },
    /// Half a cosine from 1 down to `end` over the whole training.
    Cosine {
        #[serde(default)]
        end: f64,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Constant {}
    }
}

impl Schedule {
    pub(crate) fn check(&self) -> Result<()> {
        let proper = |v: f64| v.is_finite() && v > 0.0;
        let fine = match self {
            Schedule::Constant {} => true,
            Schedule::Step { every, factor } => proper(*every) && proper(*factor),
            Schedule::MultiStep { at, factor } => at.iter().all(|e| *e >= 0.0) && proper(*factor),
            Schedule::Cosine { end } => (0.0..=1.0).contains(end),
        };
        match fine {
            true => Ok(()),
            false => Err(Error::setting(
                "train.schedule",
                "times and factors must be positive, the end of a cosine in 0 to 1",
            )),
        }
    }

    /// The factor on the learning rate: after `epoch` epochs, at `share` (0 to 1) of the whole training.
    pub fn factor(&self, epoch: f64, share: f64) -> f64 {
        match self {
            Schedule::Constant {} => 1.0,
            Schedule::Step { every, factor } => factor.powf((epoch / every).floor()),
            Schedule::MultiStep { at, factor } => {
                factor.powi(at.iter().filter(|&&e| epoch >= e).count() as i32)
            }
            Schedule::Cosine { end } => {
                end + (1.0 - end) * 0.5 * (1.0 + (PI * share.clamp(0.0, 1.0)).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_their_formulas() {
        assert_eq!(Schedule::default().factor(7.0, 0.3), 1.0);
        let step = Schedule::Step {
            every: 100.0,
            factor: 0.5,
        };
        assert_eq!(
            [0.0, 99.9, 100.0, 250.0].map(|e| step.factor(e, 0.0)),
            [1.0, 1.0, 0.5, 0.25]
        );
        let multi = Schedule::MultiStep {
            at: vec![10.0, 20.0],
            factor: 0.5,
        };
        assert_eq!(
            [9.0, 10.0, 19.0, 30.0].map(|e| multi.factor(e, 0.0)),
            [1.0, 0.5, 0.5, 0.25]
        );
        let cosine = Schedule::Cosine { end: 0.1 };
        assert!((cosine.factor(0.0, 0.5) - 0.55).abs() < 1e-12);
        assert!((cosine.factor(0.0, 1.0) - 0.1).abs() < 1e-12);
    }
}
