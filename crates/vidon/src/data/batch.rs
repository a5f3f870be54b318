//! Ragged batches: all sensors of all samples in one matrix, plus offsets. No padding, no mask.

use std::sync::Arc;

use rand::seq::index;

use crate::data::sample::{Rows, Sample};
use crate::rng::Rng;

/// How many sensors and queries of a sample a training step uses; all where none is given or fewer exist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Subset {
    pub sensors: Option<usize>,
    pub queries: Option<usize>,
}

/// Several samples, laid out for a network. Sample i has the sensor rows `sensor_offsets[i]..sensor_offsets[i + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub sensor_coords: Rows,
    pub sensor_values: Rows,
    pub sensor_offsets: Vec<usize>,
    pub query_coords: Rows,
    /// Offsets into `query_coords`; none where all samples are asked at the same points.
    pub query_offsets: Option<Vec<usize>>,
    /// Targets of all samples, one after the other.
    pub targets: Rows,
    /// What a projection of the sensors gives, a row a sample, where that is known already.
    pub fits: Option<Rows>,
    /// What the targets are in the basis of a fixed trunk, for steps that compare coefficients.
    pub(crate) answers: Option<Answers>,
}

/// Targets as coefficients.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answers {
    /// A row a sample.
    pub coefs: Rows,
    /// Root mean squares of the functions that the coefficients belong to.
    pub roots: Arc<Vec<f32>>,
    /// Root mean squares of every sample's targets in physical units.
    pub norms: Vec<f32>,
}

impl Batch {
    /// All sensors and queries of the samples.
    ///
    /// # Panics
    /// Without samples, or if their widths differ.
    pub fn new(samples: &[&Sample]) -> Self {
        Self::build(samples, |_| None, |_| None)
    }

    /// Random sensors and queries of every sample, without repetition. Shared queries stay shared.
    pub fn random(samples: &[&Sample], subset: Subset, rng: &mut Rng) -> Self {
        let pick = |rng: &mut Rng, wanted: Option<usize>, available: usize| {
            let wanted = wanted.filter(|&n| n < available)?;
            Some(index::sample(rng, available, wanted).into_vec())
        };
        let sensors: Vec<_> = samples
            .iter()
            .map(|s| pick(rng, subset.sensors, s.sensor_coords.len()))
            .collect();
        let queries: Vec<_> = if shared(samples) {
            vec![pick(rng, subset.queries, samples[0].query_coords.len()); samples.len()]
        } else {
            samples
                .iter()
                .map(|s| pick(rng, subset.queries, s.query_coords.len()))
                .collect()
        };
        Self::build(
            samples,
            |i| sensors[i].as_deref(),
            |i| queries[i].as_deref(),
        )
    }

    /// Gives every sample queries of its own, where they were shared.
    pub(crate) fn separate_queries(&mut self) {
        if self.query_offsets.is_some() {
            return;
        }
        let (count, shared) = (self.query_coords.len(), self.query_coords.clone());
        for _ in 1..self.len() {
            self.query_coords.extend(&shared);
        }
        self.query_offsets = Some((0..=self.len()).map(|i| i * count).collect());
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.sensor_offsets.len() - 1
    }

    /// Never: a batch has at least one sample.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn build<'a>(
        samples: &[&Sample],
        sensors: impl Fn(usize) -> Option<&'a [usize]>,
        queries: impl Fn(usize) -> Option<&'a [usize]>,
    ) -> Self {
        let gather = |part: usize, picked: &dyn Fn(usize) -> Option<&'a [usize]>, count: usize| {
            let mut all = Rows::new(samples[0].parts()[part].width(), Vec::new());
            let mut offsets = vec![0];
            for (i, sample) in samples[..count].iter().enumerate() {
                match picked(i) {
                    Some(indices) => all.extend(&sample.parts()[part].select(indices)),
                    None => all.extend(sample.parts()[part]),
                }
                offsets.push(all.len());
            }
            (all, offsets)
        };
        let shared = shared(samples);
        let (sensor_coords, sensor_offsets) = gather(0, &sensors, samples.len());
        let (sensor_values, _) = gather(1, &sensors, samples.len());
        let (query_coords, offsets) = gather(2, &queries, if shared { 1 } else { samples.len() });
        let (targets, _) = gather(3, &queries, samples.len());
        Self {
            sensor_coords,
            sensor_values,
            sensor_offsets,
            query_coords,
            query_offsets: (!shared).then_some(offsets),
            targets,
            fits: None,
            answers: None,
        }
    }
}

fn shared(samples: &[&Sample]) -> bool {
    let first = &samples[0].query_coords;
    samples[1..]
        .iter()
        .all(|s| Arc::ptr_eq(&s.query_coords, first) || s.query_coords == *first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::small;
    use crate::rng::stream;
    use proptest::prelude::*;

    #[test]
    fn a_batch_is_its_samples_one_after_the_other() {
        let (a, b) = (small(3, 2), small(5, 4));
        let batch = Batch::new(&[&a, &b]);
        assert_eq!(batch.sensor_offsets, [0, 3, 8]);
        assert_eq!(batch.query_offsets, Some(vec![0, 2, 6]));
        assert_eq!(batch.sensor_coords.row(3), b.sensor_coords.row(0));
        assert_eq!(batch.targets.row(2), b.targets.row(0));
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn equal_queries_are_kept_once() {
        let batch = Batch::new(&[&small(3, 4), &small(5, 4)]);
        assert_eq!(
            (
                batch.query_offsets,
                batch.query_coords.len(),
                batch.targets.len()
            ),
            (None, 4, 8)
        );
    }

    proptest! {
        /// A random subset has the wanted size, no repetitions, and keeps places and values together.
        #[test]
        fn subsets_are_parts_of_the_samples(
            sizes in prop::collection::vec((1usize..20, 1usize..20), 1..5), sensors in 1usize..25, queries in 1usize..25, seed: u64,
        ) {
            let samples: Vec<Sample> = sizes.iter().map(|&(m, q)| small(m, q)).collect();
            let refs: Vec<&Sample> = samples.iter().collect();
            let subset = Subset { sensors: Some(sensors), queries: Some(queries) };
            let batch = Batch::random(&refs, subset, &mut stream(seed, "test", 0));
            for (i, sample) in samples.iter().enumerate() {
                let range = batch.sensor_offsets[i]..batch.sensor_offsets[i + 1];
                prop_assert_eq!(range.len(), sensors.min(sample.sensor_coords.len()));
                let mut seen = Vec::new();
                for row in range {
                    let place = sample.sensor_coords.iter().position(|p| p == batch.sensor_coords.row(row)).unwrap();
                    prop_assert!(!seen.contains(&place));
                    seen.push(place);
                    prop_assert_eq!(batch.sensor_values.row(row), sample.sensor_values.row(place));
                }
            }
            let asked: usize = samples.iter().map(|s| queries.min(s.query_coords.len())).sum();
            prop_assert_eq!(batch.targets.len(), asked);
        }
    }
}
