//! Min–max scaling to [0, 1], per component: `x ↦ (x - lo)/(hi - lo)`. Where zero must stay zero, lo = 0 and
//! hi is the largest magnitude: to [-1, 1].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::sample::{Rows, Sample, Sensors};
use crate::error::{Error, Result};

/// Extremes per component. A component that never varies is only shifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MinMax {
    lo: Vec<f32>,
    hi: Vec<f32>,
    /// Whether the extremes are those of the logarithm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    log: bool,
}

impl MinMax {
    /// Extremes of nothing yet.
    fn nothing(width: usize, log: bool) -> Self {
        Self {
            log,
            lo: vec![f32::INFINITY; width],
            hi: vec![f32::NEG_INFINITY; width],
        }
    }

    #[cfg(test)]
    pub(crate) fn between(lo: &[f32], hi: &[f32]) -> Self {
        Self {
            lo: lo.to_vec(),
            hi: hi.to_vec(),
            log: false,
        }
    }

    /// How many rows have a number that is further outside of the extremes than half of what lies between
    /// them. `odd`: the extremes are [centred](Self::centre).
    pub(crate) fn far(&self, rows: &Rows, odd: bool) -> usize {
        let far = |row: &&[f32]| {
            let ends = self.lo.iter().zip(&self.hi);
            ends.zip(*row).any(|((&lo, &hi), &v)| {
                let lo = if odd { -hi } else { lo };
                let (v, slack) = (if self.log { logarithm(v) } else { v }, 0.5 * (hi - lo));
                v < lo - slack || v > hi + slack
            })
        };
        rows.iter().filter(far).count()
    }

    fn include(&mut self, rows: &Rows) {
        for row in rows.iter() {
            for ((lo, hi), &v) in self.lo.iter_mut().zip(&mut self.hi).zip(row) {
                let v = if self.log { logarithm(v) } else { v };
                *lo = lo.min(v);
                *hi = hi.max(v);
            }
        }
    }

    /// Keeps zero where it is.
    fn centre(&mut self) {
        for (lo, hi) in self.lo.iter_mut().zip(&mut self.hi) {
            *hi = hi.abs().max(lo.abs());
            *lo = 0.0;
        }
    }

    /// Whether it can scale such numbers: a logarithm needs positive ones.
    fn takes(&self, rows: &Rows) -> bool {
        !self.log || rows.data().iter().all(|v| *v > 0.0)
    }

    /// Number of components; none if its two ends disagree.
    pub(crate) fn width(&self) -> usize {
        if self.lo.len() == self.hi.len() {
            self.lo.len()
        } else {
            0
        }
    }

    /// To [0, 1] where the rows lie within the extremes.
    pub fn apply(&self, rows: &mut Rows) {
        let log = self.log;
        self.each(rows, |v, lo, span| {
            let v = if log { logarithm(v) } else { v };
            (v - lo) / span
        });
    }

    /// Back to physical units.
    pub fn invert(&self, rows: &mut Rows) {
        let log = self.log;
        self.each(rows, |v, lo, span| {
            let v = lo + v * span;
            if log { v.exp() } else { v }
        });
    }

    /// What component `i` is divided by.
    pub(crate) fn span(&self, i: usize) -> f32 {
        let span = self.hi[i] - self.lo[i];
        if span > 0.0 { span } else { 1.0 }
    }

    /// Whether zero stays (nearly) zero.
    pub(crate) fn keeps_zero(&self) -> bool {
        let mut zero = Rows::of(self.lo.len(), vec![0.0; self.lo.len()]);
        self.apply(&mut zero);
        zero.data().iter().all(|z| z.abs() <= 1e-3)
    }

    fn each(&self, rows: &mut Rows, map: impl Fn(f32, f32, f32) -> f32) {
        let width = rows.width();
        assert_eq!(
            width,
            self.lo.len(),
            "rows of another width than the extremes"
        );
        for row in rows.data_mut().chunks_exact_mut(width) {
            for (i, v) in row.iter_mut().enumerate() {
                *v = map(*v, self.lo[i], self.span(i));
            }
        }
    }
}

/// Of what is not positive, that of the smallest float.
fn logarithm(v: f32) -> f32 {
    v.max(f32::MIN_POSITIVE).ln()
}

/// The scaling of an operator's inputs and outputs, fitted on training data and kept with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    pub sensor_values: MinMax,
    pub targets: MinMax,
}

/// A sample as a network sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaledSample {
    pub sensors: Sensors,
    pub queries: Arc<Rows>,
    pub targets: Rows,
}

impl From<Sample> for ScaledSample {
    /// Of a network that sees physical units.
    fn from(sample: Sample) -> Self {
        Self {
            sensors: Sensors {
                coords: sample.sensor_coords,
                values: sample.sensor_values,
            },
            queries: sample.query_coords,
            targets: sample.targets,
        }
    }
}

impl Scaling {
    /// Extremes over training samples, in one pass; of the logarithm of the values where `log_values`. With
    /// `centred`, zero stays zero.
    pub fn fit<'a>(
        training: impl IntoIterator<Item = &'a Sample>,
        log_values: bool,
        centred: bool,
    ) -> Result<Self> {
        let mut fitted: Option<Self> = None;
        for (i, sample) in training.into_iter().enumerate() {
            let scaling = fitted.get_or_insert_with(|| Self {
                sensor_values: MinMax::nothing(sample.sensor_values.width(), log_values),
                targets: MinMax::nothing(sample.targets.width(), false),
            });
            scaling.check(i, &sample.sensor_values)?;
            scaling.sensor_values.include(&sample.sensor_values);
            scaling.targets.include(&sample.targets);
        }
        let mut fitted = fitted.ok_or_else(|| {
            Error::Unsuitable("scaling needs at least one training sample".into())
        })?;
        if centred {
            fitted.sensor_values.centre();
            fitted.targets.centre();
        }
        Ok(fitted)
    }

    /// Refuses readings of a sample that it cannot scale.
    pub(crate) fn check(&self, index: usize, readings: &Rows) -> Result<()> {
        if self.sensor_values.takes(readings) {
            return Ok(());
        }
        Err(Error::sample(
            index,
            "the network takes the logarithm of its sensors' values (log_values), but a sensor reads a value that is not positive",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::small;

    #[test]
    fn training_data_fills_the_unit_interval_and_comes_back() {
        let samples = [small(3, 4), small(6, 2)];
        let scaling = Scaling::fit(&samples, false, false).unwrap();
        assert_eq!(
            (&scaling.sensor_values.lo[..], &scaling.sensor_values.hi[..]),
            (&[-5.0][..], &[0.0][..])
        );
        let mut targets = samples[0].targets.clone();
        scaling.targets.apply(&mut targets);
        assert!(targets.data().iter().all(|v| (0.0..=1.0).contains(v)));
        assert!(targets.data().contains(&0.0) && targets.data().contains(&1.0));
        scaling.targets.invert(&mut targets);
        for (a, b) in targets.data().iter().zip(samples[0].targets.data()) {
            assert!((a - b).abs() < 1e-5);
        }
    }

    #[test]
    fn a_constant_component_stays_finite() {
        let mut sample = small(2, 2);
        sample.targets = Rows::of(2, vec![3.0, 1.0, 3.0, 2.0]);
        let scaling = Scaling::fit([&sample], false, false).unwrap();
        scaling.targets.apply(&mut sample.targets);
        assert_eq!(sample.targets.data(), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn centred_scaling_keeps_zero_and_signs() {
        let samples = [small(3, 4), small(6, 2)];
        let scaling = Scaling::fit(&samples, false, true).unwrap();
        assert!(scaling.sensor_values.keeps_zero() && scaling.targets.keeps_zero());
        let mut values = samples[1].sensor_values.clone();
        scaling.sensor_values.apply(&mut values);
        let pairs = values.data().iter().zip(samples[1].sensor_values.data());
        for (scaled, value) in pairs {
            assert_eq!(*scaled, value / 5.0);
        }
        // As far below zero as above it is as near.
        let readings = Rows::of(1, vec![-11.0, -9.0, 9.0, 11.0]);
        assert_eq!(scaling.sensor_values.far(&readings, true), 2);
    }

    #[test]
    fn logarithms_refuse_what_is_not_positive() {
        let mut sample = small(2, 2);
        sample.sensor_values = Rows::of(1, vec![1.0, 3.0]);
        let scaling = Scaling::fit([&sample], true, false).unwrap();
        scaling.check(0, &sample.sensor_values).unwrap();
        sample.sensor_values = Rows::of(1, vec![1.0, 0.0]);
        let words = scaling
            .check(0, &sample.sensor_values)
            .err()
            .unwrap()
            .to_string();
        assert!(words.contains("not positive"), "{words}");
        assert!(Scaling::fit([&sample], true, false).is_err());
    }

    #[test]
    fn no_training_data_is_an_error() {
        assert!(Scaling::fit([], false, false).is_err());
    }
}
