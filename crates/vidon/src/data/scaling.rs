//! Min–max scaling to [0, 1], per component: `x ↦ (x - lo)/(hi - lo)`. Where zero must stay zero (of strengths
//! always), lo = 0 and hi is the largest magnitude: to [-1, 1]. What is missing stays missing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::meta::{Channel, Kind, Meta};
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
        // A number that is missing is not far.
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
        !self.log || rows.data().iter().all(|v| *v > 0.0 || v.is_nan())
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
        if self.lo.is_empty() {
            return true;
        }
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
        for row in rows.data_mut().chunks_exact_mut(width.max(1)) {
            for (i, v) in row.iter_mut().enumerate() {
                *v = map(*v, self.lo[i], self.span(i));
            }
        }
    }
}

/// Of what is not positive, that of the smallest float.
fn logarithm(v: f32) -> f32 {
    match v.is_nan() {
        true => v,
        false => v.max(f32::MIN_POSITIVE).ln(),
    }
}

/// The scaling of an operator's inputs and outputs, fitted on training data and kept with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Of the values of every group.
    pub groups: Vec<MinMax>,
    pub targets: MinMax,
}

/// A sample as a network sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaledSample {
    pub groups: Vec<Sensors>,
    pub queries: Arc<Rows>,
    pub targets: Rows,
}

impl From<Sample> for ScaledSample {
    /// Of a network that sees physical units.
    fn from(sample: Sample) -> Self {
        Self {
            groups: sample.groups,
            queries: sample.query_coords,
            targets: sample.targets,
        }
    }
}

/// Where zero stays zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Centred {
    /// In the readings of fields; in strengths it always does.
    pub readings: bool,
    pub targets: bool,
}

impl Scaling {
    /// Extremes over training samples, in one pass; of the logarithm of the readings of fields where
    /// `log_values`.
    pub fn fit<'a>(
        meta: &Meta,
        training: impl IntoIterator<Item = &'a Sample>,
        log_values: bool,
        centred: Centred,
    ) -> Result<Self> {
        let nothing = |width: usize, log: bool| MinMax::nothing(width, log);
        let groups = meta.groups.iter();
        let mut fitted = Self {
            groups: groups
                .map(|g| nothing(g.values.len(), log_values && g.kind == Kind::Field))
                .collect(),
            targets: nothing(meta.targets.len(), false),
        };
        let mut samples = 0;
        for (i, sample) in training.into_iter().enumerate() {
            fitted.check(i, &sample.groups)?;
            let pairs = fitted.groups.iter_mut().zip(&sample.groups);
            pairs.for_each(|(own, sensors)| own.include(&sensors.values));
            fitted.targets.include(&sample.targets);
            samples += 1;
        }
        if samples == 0 {
            let what = "scaling needs at least one training sample";
            return Err(Error::Unsuitable(what.into()));
        }
        for (own, group) in fitted.groups.iter_mut().zip(&meta.groups) {
            if group.kind == Kind::Points || centred.readings && group.kind == Kind::Field {
                own.centre();
            }
        }
        if centred.targets {
            fitted.targets.centre();
        }
        fitted.check_known(meta)?;
        Ok(fitted)
    }

    /// What makes it none for such data, if anything.
    pub(crate) fn fault(&self, meta: &Meta) -> Option<String> {
        let widths = meta.groups.iter().map(|g| g.values.len());
        let fits = self.groups.iter().map(MinMax::width).eq(widths)
            && self.targets.width() == meta.targets.len();
        if !fits {
            return Some("does not fit its data".into());
        }
        let all = self.groups.iter().chain([&self.targets]);
        let mut ends = all.flat_map(|own| own.lo.iter().zip(&own.hi));
        let proper = |(lo, hi): (&f32, &f32)| lo <= hi && (hi - lo).is_finite();
        let (lo, hi) = ends.find(|(lo, hi)| !proper((lo, hi)))?;
        Some(format!(
            "goes from {lo:?} to {hi:?}; two finite numbers are wanted, the lower one first"
        ))
    }

    /// Whether it takes the logarithm of readings.
    pub(crate) fn takes_logarithms(&self) -> bool {
        self.groups.iter().any(|own| own.log)
    }

    /// A column of which no number is known has no size, and one that goes too far has none in float32.
    fn check_known(&self, meta: &Meta) -> Result<()> {
        let groups = self.groups.iter().zip(&meta.groups);
        let groups = groups.map(|(own, g)| (own, &g.values, format!("values of {}", g.name)));
        let all = groups.chain([(&self.targets, &meta.targets, "targets".to_string())]);
        for (own, channels, part) in all {
            let unknown = (0..channels.len()).find(|&c| !own.hi[c].is_finite());
            if let Some(c) = unknown {
                return Err(Error::Unsuitable(format!(
                    "no training sample has a number in the column {} of the {part}",
                    channels[c].name
                )));
            }
            let vast = (0..channels.len()).find(|&c| !(own.hi[c] - own.lo[c]).is_finite());
            if let Some(c) = vast {
                return Err(Error::Unsuitable(format!(
                    "the column {} of the {part} goes from {:e} to {:e}, which is further than float32 numbers reach: choose another unit",
                    channels[c].name, own.lo[c], own.hi[c]
                )));
            }
        }
        Ok(())
    }

    /// Refuses readings of a sample that it cannot scale.
    pub(crate) fn check(&self, index: usize, groups: &[Sensors]) -> Result<()> {
        let mut pairs = self.groups.iter().zip(groups);
        if pairs.all(|(own, sensors)| own.takes(&sensors.values)) {
            return Ok(());
        }
        Err(Error::sample(
            index,
            "the network takes the logarithm of its sensors' values (log_values), but a sensor reads a value that is not positive",
        ))
    }
}

/// Takes covariates to [0, 1] over their ranges; coordinates stay what they are.
pub(crate) fn scale_covariates(places: &mut Rows, channels: &[Channel]) {
    let ends = |c: &Channel| c.range.filter(|_| c.covariate);
    let ends: Vec<Option<[f64; 2]>> = channels.iter().map(ends).collect();
    if ends.iter().all(Option::is_none) {
        return;
    }
    let width = places.width();
    for row in places.data_mut().chunks_exact_mut(width.max(1)) {
        for (v, ends) in row.iter_mut().zip(&ends) {
            if let Some([lo, hi]) = ends {
                *v = ((*v as f64 - lo) / (hi - lo)) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::{small, small_meta};

    #[test]
    fn training_data_fills_the_unit_interval_and_comes_back() {
        let samples = [small(3, 4), small(6, 2)];
        let scaling = Scaling::fit(&small_meta(), &samples, false, Centred::default()).unwrap();
        assert_eq!(
            (&scaling.groups[0].lo[..], &scaling.groups[0].hi[..]),
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
    fn numbers_too_far_apart_are_refused() {
        let mut sample = small(2, 2);
        sample.targets = Rows::of(2, vec![3e38, 1.0, -3e38, 2.0]);
        let refused = Scaling::fit(&small_meta(), [&sample], false, Centred::default());
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("of the targets goes from -3e38 to 3e38"),
            "{words}"
        );
    }

    #[test]
    fn a_scaling_from_a_file_is_checked() {
        let meta = small_meta();
        let scaling = |lo: f32, hi: f32| Scaling {
            groups: vec![MinMax::between(&[0.0], &[1.0])],
            targets: MinMax::between(&[0.0, lo], &[1.0, hi]),
        };
        assert_eq!(scaling(2.0, 2.0).fault(&meta), None);
        for (lo, hi) in [
            (1.0, 0.0),
            (0.0, f32::INFINITY),
            (f32::NAN, 1.0),
            (-3e38, 3e38),
        ] {
            assert!(
                scaling(lo, hi)
                    .fault(&meta)
                    .unwrap()
                    .contains("two finite numbers")
            );
        }
        let narrow = Scaling {
            targets: MinMax::between(&[0.0], &[1.0]),
            ..scaling(0.0, 1.0)
        };
        assert_eq!(narrow.fault(&meta).unwrap(), "does not fit its data");
    }

    #[test]
    fn a_constant_component_stays_finite() {
        let mut sample = small(2, 2);
        sample.targets = Rows::of(2, vec![3.0, 1.0, 3.0, 2.0]);
        let scaling = Scaling::fit(&small_meta(), [&sample], false, Centred::default()).unwrap();
        scaling.targets.apply(&mut sample.targets);
        assert_eq!(sample.targets.data(), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn centred_scaling_keeps_zero_and_signs() {
        let samples = [small(3, 4), small(6, 2)];
        let both = Centred {
            readings: true,
            targets: true,
        };
        let scaling = Scaling::fit(&small_meta(), &samples, false, both).unwrap();
        assert!(scaling.groups[0].keeps_zero() && scaling.targets.keeps_zero());
        let mut values = samples[1].groups[0].values.clone();
        scaling.groups[0].apply(&mut values);
        let pairs = values.data().iter().zip(samples[1].groups[0].values.data());
        for (scaled, value) in pairs {
            assert_eq!(*scaled, value / 5.0);
        }
        // As far below zero as above it is as near.
        let readings = Rows::of(1, vec![-11.0, -9.0, 9.0, 11.0]);
        assert_eq!(scaling.groups[0].far(&readings, true), 2);
    }

    #[test]
    fn logarithms_refuse_what_is_not_positive() {
        let mut sample = small(2, 2);
        sample.groups[0].values = Rows::of(1, vec![1.0, 3.0]);
        let scaling = Scaling::fit(&small_meta(), [&sample], true, Centred::default()).unwrap();
        scaling.check(0, &sample.groups).unwrap();
        sample.groups[0].values = Rows::of(1, vec![1.0, 0.0]);
        let words = scaling.check(0, &sample.groups).err().unwrap().to_string();
        assert!(words.contains("not positive"), "{words}");
        assert!(Scaling::fit(&small_meta(), [&sample], true, Centred::default()).is_err());
    }

    #[test]
    fn no_training_data_is_an_error() {
        assert!(Scaling::fit(&small_meta(), [], false, Centred::default()).is_err());
    }
}
