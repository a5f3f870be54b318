//! Views: a training that leaves out part of a sample's sensors does so several times before the first step, and keeps
//! what it finds. A step then draws one of the views, and nothing is fitted in it.
//!
//! Sensors that are left out are asked for, as further targets: so a network learns to answer at places that it does not
//! see. What a start says is asked of the sensors that remain.

use std::sync::Arc;

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Kind, Meta, Sample};
use crate::error::{Error, Result};
use crate::memory::Need;
use crate::rng::{Rng, stream};
use crate::train::amount::Amount;
use crate::train::readings::Readings;
use crate::train::recipe::TrainRecipe;

/// Views of a sample, or as many (two at least) as have so many numbers in all: the same on every machine.
pub(super) const VIEWS: usize = 8;
const MOST_NUMBERS: usize = 1 << 28;

/// What a view leaves out.
pub(super) struct Views<'a> {
    meta: &'a Meta,
    seed: u64,
    /// The sensors that are asked for, and their share.
    left_out: Option<(Readings, f64)>,
    /// What the sensors of a group that remain are thinned out to, where a start has to be asked anew for that.
    sensors: Option<Amount>,
}

impl<'a> Views<'a> {
    /// As a recipe wants them, `started` from something that answers without a network; none where samples are seen
    /// as they are, or thinned out anew in every step.
    pub fn of(options: &TrainRecipe, meta: &'a Meta, started: bool) -> Result<Option<Self>> {
        let left_out = options.left_out.map(|share| {
            let readings = Readings::of(meta);
            let readings = readings.map_err(|what| Error::setting("train.left_out", what))?;
            Ok((readings, share))
        });
        let views = Self {
            meta,
            seed: options.seed,
            left_out: left_out.transpose()?,
            sensors: options.sensors.filter(|_| started),
        };
        let any = views.left_out.is_some() || views.sensors.is_some();
        Ok(any.then_some(views))
    }

    /// The views of all samples, in physical units: the first of every sample, then the second of every sample, and so
    /// on.
    pub fn draw(&self, samples: &[Sample]) -> Result<Vec<Sample>> {
        let numbers = |s: &Sample| {
            s.parts()
                .iter()
                .map(|rows| rows.data().len())
                .sum::<usize>()
        };
        let all: usize = samples.iter().map(numbers).sum();
        let count = (MOST_NUMBERS / all.max(1)).clamp(2, VIEWS);
        let need = Need::of(all.saturating_mul(count), size_of::<f32>());
        need.check().map_err(|what| {
            let views =
                format!("{count} views of every sample, with other sensors left out, {what}");
            Error::Unsuitable(format!("{views}; fewer samples or targets take less"))
        })?;
        let pairs = (0..count * samples.len()).into_par_iter();
        Ok(pairs
            .map(|at| {
                let (k, i) = (at / samples.len(), at % samples.len());
                let rng = &mut stream(self.seed, "view", (i * VIEWS + k) as u64);
                self.one(&samples[i], rng)
            })
            .collect())
    }

    fn one(&self, sample: &Sample, rng: &mut Rng) -> Sample {
        let mut sample = sample.clone();
        if let Some((readings, share)) = &self.left_out {
            let own = sample.groups[readings.group].clone().reporting();
            // One remains; what has no other cannot be left out.
            let count = Amount::Share(*share).of(own.len());
            let count = count.min(own.len().saturating_sub(1));
            let mut remain = vec![true; own.len()];
            let out = sorted(rng, own.len(), count);
            out.iter().for_each(|&i| remain[i] = false);
            let rest: Vec<usize> = (0..own.len()).filter(|&i| remain[i]).collect();
            let (places, answers) = readings.as_targets(&own.select(&out));
            let mut queries = (*sample.query_coords).clone();
            queries.extend(&places);
            sample.query_coords = Arc::new(queries);
            sample.targets.extend(&answers);
            sample.groups[readings.group] = own.select(&rest);
        }
        if let Some(amount) = self.sensors {
            let both = sample.groups.iter_mut().zip(&self.meta.groups);
            for (own, _) in both.filter(|(_, g)| g.kind == Kind::Field) {
                let there = own.clone().reporting();
                *own = there.select(&sorted(rng, there.len(), amount.of(there.len())));
            }
        }
        sample
    }
}

/// Some of so many, in order.
fn sorted(rng: &mut Rng, available: usize, count: usize) -> Vec<usize> {
    let mut some = index::sample(rng, available, count).into_vec();
    some.sort_unstable();
    some
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Channel, Rows};

    fn meta(target: &str, coords: &[&str]) -> Meta {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        Meta::new(
            "line",
            channels(&["x"]),
            channels(&["p", "T"]),
            channels(coords),
            channels(&[target]),
        )
    }

    /// Sensors at 0, 1, … that read (-x, 10 x), the first of which does not read T; asked at 0.5.
    fn sample(sensors: usize) -> Sample {
        let xs: Vec<f32> = (0..sensors).map(|i| i as f32).collect();
        let mut values: Vec<f32> = xs.iter().flat_map(|x| [-x, 10.0 * x]).collect();
        values[1] = f32::NAN;
        Sample::of(
            Rows::of(1, xs),
            Rows::of(2, values),
            Arc::new(Rows::of(1, vec![0.5])),
            Rows::of(1, vec![5.0]),
        )
    }

    fn options(left_out: Option<f64>, sensors: Option<Amount>) -> TrainRecipe {
        TrainRecipe {
            left_out,
            sensors,
            ..TrainRecipe::default()
        }
    }

    #[test]
    fn sensors_that_are_left_out_are_asked_for() {
        let meta = meta("T", &["x"]);
        let samples = [sample(10), sample(2), sample(1)];
        let views = Views::of(&options(Some(0.3), None), &meta, false)
            .unwrap()
            .unwrap();
        let drawn = views.draw(&samples).unwrap();
        assert_eq!(drawn.len(), 3 * VIEWS);
        let mut seen = Vec::new();
        for views in drawn.chunks(3) {
            let (own, pair, alone) = (&views[0], &views[1], &views[2]);
            assert_eq!(own.groups[0].len(), 7);
            let sensors = own.groups[0].coords.data();
            assert!(sensors.is_sorted());
            let asked = own.query_coords.data();
            assert!(asked.iter().all(|x| !sensors.contains(x)));
            // All are there once, but what does not read T is not asked for it.
            let left_out = if sensors.contains(&0.0) { 3 } else { 2 };
            assert_eq!(
                (asked.len(), own.targets.len()),
                (1 + left_out, 1 + left_out)
            );
            for (x, target) in asked.iter().zip(own.targets.data()) {
                assert_eq!(*target, 10.0 * x);
            }
            assert_eq!(pair.groups[0].len(), 1);
            assert_eq!((alone.groups[0].len(), alone.targets.len()), (1, 1));
            seen.push(sensors.to_vec());
        }
        seen.sort_by(|a, b| a.partial_cmp(b).unwrap());
        seen.dedup();
        assert!(seen.len() > 4, "{seen:?}");
        assert_eq!(views.draw(&samples).unwrap()[..3], drawn[..3]);
    }

    #[test]
    fn beside_a_start_sensors_are_thinned_out_before() {
        let meta = meta("T", &["x"]);
        let thin = options(None, Some(Amount::Share(0.5)));
        assert!(Views::of(&thin, &meta, false).unwrap().is_none());
        let views = Views::of(&thin, &meta, true).unwrap().unwrap();
        let drawn = views.draw(&[sample(10)]).unwrap();
        assert!(
            drawn
                .iter()
                .all(|s| s.groups[0].len() == 5 && s.targets.len() == 1)
        );
    }

    #[test]
    fn sensors_of_another_quantity_or_elsewhere_cannot_be_asked_for() {
        let refused = |meta: &Meta, words: &str| {
            let found = Views::of(&options(Some(0.2), None), meta, false);
            let found = found.err().unwrap().to_string();
            assert!(found.contains(words), "{found}");
        };
        refused(
            &meta("rain", &["x"]),
            "the targets are (rain), the readings (p, T)",
        );
        refused(
            &meta("T", &["x", "t"]),
            "the sensors have (x), the queries (x, t)",
        );
    }
}
