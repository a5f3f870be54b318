//! Every component to about [0, 1], by `x ↦ (x - lo)/(hi - lo)`:
//!
//! | kind | lo | hi |
//! |---|---|---|
//! | `extremes` | the smallest number of the training data | the largest one |
//! | `robust` | their median | as far above it as the 5 % quantile is below the 95 % quantile |
//!
//! so that of `robust` one absurd number does not squeeze all others. Where zero must stay zero (of strengths always),
//! lo = 0 and hi is the largest magnitude, of `robust` that of the two quantiles. What is missing stays missing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::meta::{Channel, Group, Kind, Meta};
use crate::data::quantiles::quantiles;
use crate::data::sample::{Rows, Sample, Sensors};
use crate::error::{Error, Result};

/// Shares of the numbers below the quantiles that are looked at: what is seldom exceeded, and wider ends for
/// columns of which most numbers are the same.
const SHARES: [f64; 9] = [0.0, 0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999, 1.0];
const MEDIAN: usize = 4;

/// By what values and targets are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScalingKind {
    /// The extremes of the training data.
    #[default]
    Extremes,
    /// Their median and quantiles.
    Robust,
    /// Nothing: the network sees the numbers as they are.
    None,
}

/// Two ends per component. A component that never varies is only shifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    lo: Vec<f32>,
    hi: Vec<f32>,
    /// Between what nearly all numbers lie, where that is not between lo and hi.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    usual: Vec<[f32; 2]>,
}

impl Ends {
    #[cfg(test)]
    pub(crate) fn between(lo: &[f32], hi: &[f32]) -> Self {
        Self {
            lo: lo.to_vec(),
            hi: hi.to_vec(),
            usual: Vec::new(),
        }
    }

    /// Extremes of the columns of some rows; infinite where no number is known.
    fn extremes<'a>(width: usize, all: impl Iterator<Item = &'a Rows>, centred: bool) -> Self {
        let mut own = Self {
            lo: vec![f32::INFINITY; width],
            hi: vec![f32::NEG_INFINITY; width],
            usual: Vec::new(),
        };
        for row in all.flat_map(Rows::iter) {
            for ((lo, hi), &v) in own.lo.iter_mut().zip(&mut own.hi).zip(row) {
                *lo = lo.min(v);
                *hi = hi.max(v);
            }
        }
        if centred {
            for (lo, hi) in own.lo.iter_mut().zip(&mut own.hi) {
                *hi = hi.abs().max(lo.abs());
                *lo = 0.0;
            }
        }
        own
    }

    /// The same from quantiles.
    fn robust<'a>(
        width: usize,
        all: impl Iterator<Item = &'a Rows> + Clone,
        centred: bool,
    ) -> Self {
        let mut own = Self {
            lo: vec![f32::INFINITY; width],
            hi: vec![f32::NEG_INFINITY; width],
            usual: vec![[0.0; 2]; width],
        };
        for c in 0..width {
            let column = || all.clone().flat_map(move |rows| rows.column(c));
            let Some(found) = quantiles(column, &SHARES) else {
                continue;
            };
            // The first pair from inside that is apart.
            let pairs = (0..MEDIAN).rev().map(|i| [found[i], found[2 * MEDIAN - i]]);
            let apart = pairs.clone().find(|[a, b]| a < b);
            let [low, high] = apart.unwrap_or([found[MEDIAN]; 2]);
            let larger = |[a, b]: [f32; 2]| a.abs().max(b.abs());
            let [least, most] = [found[1], found[2 * MEDIAN - 1]];
            (own.lo[c], own.hi[c], own.usual[c]) = match centred {
                true => {
                    let most = larger([least, most]);
                    (0.0, larger([low, high]), [-most, most])
                }
                false => {
                    let median = found[MEDIAN];
                    (median, median + (high - low), [least, most])
                }
            };
        }
        own
    }

    /// How many rows have a number that is further outside of what was seen than half of what lies between its
    /// ends: of the extremes, or of 99.8 % of the numbers. `odd`: zero was [kept](Centred).
    pub(crate) fn far(&self, rows: &Rows, odd: bool) -> usize {
        let seen = |i: usize| match self.usual.get(i) {
            Some(usual) => *usual,
            None if odd => [-self.hi[i], self.hi[i]],
            None => [self.lo[i], self.hi[i]],
        };
        // A number that is missing is not far.
        let far = |row: &&[f32]| {
            row.iter().enumerate().any(|(i, &v)| {
                let [lo, hi] = seen(i);
                let slack = 0.5 * (hi - lo);
                v < lo - slack || v > hi + slack
            })
        };
        rows.iter().filter(far).count()
    }

    /// Number of components; none if its ends disagree.
    pub(crate) fn width(&self) -> usize {
        let usual = self.usual.len();
        match self.lo.len() == self.hi.len() && (usual == 0 || usual == self.lo.len()) {
            true => self.lo.len(),
            false => 0,
        }
    }

    /// To the units of the network.
    pub fn apply(&self, rows: &mut Rows) {
        self.each(rows, |v, lo, span| (v - lo) / span);
    }

    /// Back from them.
    pub fn invert(&self, rows: &mut Rows) {
        self.each(rows, |v, lo, span| lo + v * span);
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

/// The scaling of an operator's inputs and outputs, fitted on training data and kept with it. It is of the numbers
/// as they are where they are transformed, and of corrections where those are learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// Of the values of every group.
    pub groups: Vec<Ends>,
    pub targets: Ends,
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
    /// Fitted on training samples; none where nothing is to be scaled.
    pub fn fit<'a, I: Iterator<Item = &'a Sample> + Clone>(
        meta: &Meta,
        training: impl IntoIterator<IntoIter = I>,
        kind: ScalingKind,
        centred: Centred,
    ) -> Result<Option<Self>> {
        let training = training.into_iter();
        if kind == ScalingKind::None {
            return Ok(None);
        }
        if training.clone().next().is_none() {
            let what = "scaling needs at least one training sample";
            return Err(Error::Unsuitable(what.into()));
        }
        let robust = kind == ScalingKind::Robust;
        let group = |(i, group): (usize, &Group)| {
            let values = training.clone().map(move |s| &s.groups[i].values);
            let zero = group.kind == Kind::Points || centred.readings && group.kind == Kind::Field;
            match robust {
                true => Ends::robust(group.values.len(), values, zero),
                false => Ends::extremes(group.values.len(), values, zero),
            }
        };
        let (width, targets) = (meta.targets.len(), training.clone().map(|s| &s.targets));
        let fitted = Self {
            groups: meta.groups.iter().enumerate().map(group).collect(),
            targets: match robust {
                true => Ends::robust(width, targets, centred.targets),
                false => Ends::extremes(width, targets, centred.targets),
            },
        };
        fitted.check_known(meta)?;
        Ok(Some(fitted))
    }

    /// What makes it none for such data, if anything.
    pub(crate) fn fault(&self, meta: &Meta) -> Option<String> {
        let widths = meta.groups.iter().map(|g| g.values.len());
        let fits = self.groups.iter().map(Ends::width).eq(widths)
            && self.targets.width() == meta.targets.len();
        if !fits {
            return Some("does not fit its data".into());
        }
        let all = self.groups.iter().chain([&self.targets]);
        let mut ends = all.flat_map(|own| {
            let ends = own.lo.iter().zip(&own.hi).map(|(lo, hi)| [*lo, *hi]);
            ends.chain(own.usual.iter().copied())
        });
        let [lo, hi] = ends.find(|[lo, hi]| !(lo <= hi && (hi - lo).is_finite()))?;
        Some(format!(
            "goes from {lo:?} to {hi:?}; two finite numbers are wanted, the lower one first"
        ))
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

    fn fit(samples: &[Sample], kind: ScalingKind, centred: Centred) -> Result<Scaling> {
        let fitted = Scaling::fit(&small_meta(), samples, kind, centred)?;
        Ok(fitted.expect("a kind that scales"))
    }

    fn fitted(samples: &[Sample], centred: Centred) -> Scaling {
        fit(samples, ScalingKind::Extremes, centred).unwrap()
    }

    #[test]
    fn training_data_fills_the_unit_interval_and_comes_back() {
        let samples = [small(3, 4), small(6, 2)];
        let scaling = fitted(&samples, Centred::default());
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
        let refused = fit(&[sample], ScalingKind::Extremes, Centred::default());
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
            groups: vec![Ends::between(&[0.0], &[1.0])],
            targets: Ends::between(&[0.0, lo], &[1.0, hi]),
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
            targets: Ends::between(&[0.0], &[1.0]),
            ..scaling(0.0, 1.0)
        };
        assert_eq!(narrow.fault(&meta).unwrap(), "does not fit its data");
    }

    #[test]
    fn a_constant_component_stays_finite() {
        let mut sample = small(2, 2);
        sample.targets = Rows::of(2, vec![3.0, 1.0, 3.0, 2.0]);
        let scaling = fitted(std::slice::from_ref(&sample), Centred::default());
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
        let scaling = fitted(&samples, both);
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

    /// One absurd reading among many does not squeeze the others, and does not make the next one usual.
    #[test]
    fn robust_scaling_goes_by_what_is_usual() {
        let mut sample = small(1, 2001);
        let all: Vec<f32> = (0..2001).map(|i| i as f32 / 100.0).collect();
        sample.targets = Rows::of(2, all.iter().flat_map(|v| [*v, -7.0]).collect());
        sample.targets.data_mut()[0] = 1e9;
        sample.targets.data_mut()[3] = f32::NAN;
        let samples = [sample];
        let robust = fit(&samples, ScalingKind::Robust, Centred::default()).unwrap();
        let (lo, hi) = (&robust.targets.lo, &robust.targets.hi);
        // Without the first, the median of 0.01 to 20 is 10.01 with one absurd number above.
        assert!((lo[0] - 10.01).abs() < 1e-4 && (hi[0] - lo[0] - 18.0).abs() < 0.02);
        // A column that never varies is only shifted.
        assert_eq!((lo[1], robust.targets.span(1)), (-7.0, 1.0));
        let mut targets = samples[0].targets.clone();
        robust.targets.apply(&mut targets);
        let largest = targets.column(0).skip(1).map(f32::abs).fold(0.0, f32::max);
        assert!((0.5..0.6).contains(&largest), "{largest}");
        let asked = Rows::of(2, vec![25.0, -7.0, 35.0, -7.0, 1e5, -7.0, -9.0, f32::NAN]);
        assert_eq!(robust.targets.far(&asked, false), 2);
        let both = Centred {
            readings: true,
            targets: true,
        };
        let centred = fit(&samples, ScalingKind::Robust, both).unwrap();
        assert!(centred.targets.keeps_zero() && (centred.targets.hi[0] - 19.0).abs() < 0.02);
        assert_eq!(centred.targets.far(&asked, true), 1);
        assert_eq!(centred.fault(&small_meta()), None);
        // Nearly all the same: wider quantiles tell the rest apart.
        let mut rain = vec![0.0f32; 990];
        rain.extend((1..=10).map(|i| i as f32));
        let mut sample = small(1, 1000);
        sample.targets = Rows::of(2, rain.iter().flat_map(|v| [*v, 1.0]).collect());
        let robust = fit(&[sample], ScalingKind::Robust, Centred::default()).unwrap();
        assert_eq!((robust.targets.lo[0], robust.targets.hi[0]), (0.0, 9.0));
    }

    #[test]
    fn no_training_data_is_an_error() {
        assert!(fit(&[], ScalingKind::Extremes, Centred::default()).is_err());
        let none = Scaling::fit(&small_meta(), &[], ScalingKind::None, Centred::default());
        assert_eq!(none.unwrap(), None);
    }
}
