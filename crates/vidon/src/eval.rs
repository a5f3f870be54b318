//! How far answers are from the truth, in physical units: of every sample the relative L² error
//! `‖prediction - truth‖₂ / ‖truth‖₂` over its targets, of every column the errors of all its targets.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::data::{Channel, Dataset, Meta, Rows, Sample, coordinates};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::operator::Operator;

/// The errors of an operator on some data.
#[derive(Clone, Debug)]
pub struct Errors {
    /// Names of the samples, where they have any.
    pub names: Vec<Option<String>>,
    /// Of every sample.
    pub relative_l2: Vec<f64>,
    /// Of every sample those of every column.
    pub samples: Vec<Vec<ColumnErrors>>,
    /// Of every column of the targets.
    pub columns: Vec<ColumnErrors>,
}

impl Errors {
    /// What a sample is called: its name, or its number, counted from 0.
    pub fn name(&self, sample: usize) -> String {
        let name = self.names[sample].clone();
        name.unwrap_or_else(|| sample.to_string())
    }
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
        self.errors_and(data, count, observer, |_, _| Ok(()))
    }

    /// The same; every sample is also shown with its answer.
    pub fn errors_and(
        &self,
        data: &Dataset,
        count: usize,
        observer: &dyn Observer,
        mut show: impl FnMut(&Sample, &Rows) -> Result<()> + Send,
    ) -> Result<Errors> {
        let both = ["the data of the model", "this"];
        self.meta().check_same_channels(&data.meta()?, both)?;
        let targets = &self.meta().targets;
        let mut sums = vec![ErrorSums::default(); targets.len()];
        let (mut names, mut errors, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        data.blocks(count, observer, |block| {
            let found = self.predict_samples(&block.iter().collect::<Vec<_>>())?;
            for (found, sample) in found.iter().zip(block) {
                errors.push(relative_l2(found, &sample.targets));
                names.push(sample.name.clone());
                let own = of_columns(found, &sample.targets);
                sums.iter_mut()
                    .zip(&own)
                    .for_each(|(sum, own)| sum.join(own));
                let own = own.into_iter().zip(targets);
                samples.push(own.map(|(sums, channel)| sums.of(channel)).collect());
                show(sample, found)?;
            }
            Ok(())
        })?;
        let columns = targets.iter().zip(sums);
        Ok(Errors {
            names,
            relative_l2: errors,
            samples,
            columns: columns.map(|(channel, sums)| sums.of(channel)).collect(),
        })
    }
}

/// Of every column of a sample.
fn of_columns(found: &Rows, truth: &Rows) -> Vec<ErrorSums> {
    let column = |c: usize| {
        let mut sums = ErrorSums::default();
        let pairs = found.column(c).zip(truth.column(c));
        pairs.for_each(|pair| sums.add(pair));
        sums
    };
    (0..truth.width()).map(column).collect()
}

/// Sums of the errors of a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorSums {
    count: usize,
    errors: f64,
    sizes: f64,
    squares: f64,
}

impl ErrorSums {
    pub fn add(&mut self, (found, truth): (f32, f32)) {
        if !truth.is_nan() {
            let error = found as f64 - truth as f64;
            self.count += 1;
            self.errors += error;
            self.sizes += error.abs();
            self.squares += error * error;
        }
    }

    fn join(&mut self, other: &ErrorSums) {
        self.count += other.count;
        self.errors += other.errors;
        self.sizes += other.sizes;
        self.squares += other.squares;
    }

    pub fn of(self, channel: &Channel) -> ColumnErrors {
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

/// Places that are told apart at most.
const MOST_PLACES: usize = 1 << 20;

/// Gathers errors by place, for data whose places recur.
pub struct ByPlace {
    meta: Meta,
    known: HashMap<Vec<u32>, usize>,
    places: Vec<Place>,
    /// Covariates that are not the same whenever a place is asked.
    changing: Vec<bool>,
}

struct Place {
    coords: Vec<f32>,
    sums: Vec<ErrorSums>,
}

/// The errors at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceErrors {
    pub coords: Vec<f32>,
    pub columns: Vec<ColumnErrors>,
}

impl ByPlace {
    pub fn new(meta: &Meta) -> Self {
        Self {
            changing: vec![false; meta.query_coords.len()],
            meta: meta.clone(),
            known: HashMap::new(),
            places: Vec::new(),
        }
    }

    /// Takes in what was answered to a sample.
    pub fn add(&mut self, sample: &Sample, found: &Rows) -> Result<()> {
        let axes = coordinates(&self.meta.query_coords).len();
        for (q, coords) in sample.query_coords.iter().enumerate() {
            let key = coords[..axes].iter().map(|v| (v + 0.0).to_bits()).collect();
            let next = self.places.len();
            let at = *self.known.entry(key).or_insert(next);
            if at == next {
                if next == MOST_PLACES {
                    return Err(Error::Unsuitable(format!(
                        "errors by place are for places that recur, and there are more than {MOST_PLACES}: judge fewer samples, or look at them one by one"
                    )));
                }
                self.places.push(Place {
                    coords: coords.to_vec(),
                    sums: vec![ErrorSums::default(); found.width()],
                });
            }
            let place = &mut self.places[at];
            for c in axes..coords.len() {
                self.changing[c] |= place.coords[c] != coords[c];
            }
            let pairs = found.row(q).iter().zip(sample.targets.row(q));
            for (sums, (a, b)) in place.sums.iter_mut().zip(pairs) {
                sums.add((*a, *b));
            }
        }
        Ok(())
    }

    /// What is known of a place: its coordinates, and the covariates that never change there.
    pub fn channels(&self) -> Vec<Channel> {
        let kept = self.meta.query_coords.iter().zip(&self.changing);
        kept.filter(|(_, changes)| !**changes)
            .map(|(c, _)| c.clone())
            .collect()
    }

    /// The places where something was known, those with the largest errors (of the first column) first.
    pub fn places(&self) -> Vec<PlaceErrors> {
        let known = self
            .places
            .iter()
            .filter(|p| p.sums.iter().any(|s| s.count > 0));
        let mut all: Vec<PlaceErrors> = known
            .map(|place| {
                let coords = place.coords.iter().zip(&self.changing);
                let columns = place.sums.iter().zip(&self.meta.targets);
                PlaceErrors {
                    coords: coords
                        .filter(|(_, changes)| !**changes)
                        .map(|(v, _)| *v)
                        .collect(),
                    columns: columns.map(|(sums, c)| sums.clone().of(c)).collect(),
                }
            })
            .collect();
        all.sort_by(|a, b| b.columns[0].rmse.total_cmp(&a.columns[0].rmse));
        all
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
    use std::sync::Arc;

    #[test]
    fn errors_and_their_summary_are_those_of_the_formulas() {
        let rows = |v: &[f32]| Rows::of(1, v.to_vec());
        let error = relative_l2(&rows(&[3.0, 4.0]), &rows(&[0.0, 5.0]));
        assert!((error - (10.0f64).sqrt() / 5.0).abs() < 1e-9);
        assert_eq!(relative_l2(&rows(&[3.0, 4.0]), &rows(&[0.0, 0.0])), 5.0);
        let gap = rows(&[4.0, f32::NAN]);
        assert_eq!(relative_l2(&rows(&[3.0, 9.0]), &gap), 0.25);
        // What is not known counts for nothing.
        let sums = of_columns(&rows(&[3.0, 9.0]), &gap).remove(0);
        let found = sums.of(&Channel::named("u"));
        assert_eq!((found.targets, found.rmse, found.bias), (1, 1.0, -1.0));
        let summary = ErrorSummary::new(&[0.4, 0.1, 0.2, 0.1]);
        assert_eq!(
            (summary.samples, summary.worst, summary.worst_sample),
            (4, 0.4, 0)
        );
        assert!((summary.mean - 0.2).abs() < 1e-12 && (summary.median - 0.15).abs() < 1e-12);
        assert!((summary.std - 0.015f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn errors_are_gathered_by_place() {
        let covariate = Channel {
            covariate: true,
            ..Channel::named("wet")
        };
        let mut height = covariate.clone();
        height.name = "height".into();
        let named = |name: &str| vec![Channel::named(name)];
        let queries = vec![Channel::named("x"), height, covariate];
        let meta = Meta::new("t", named("x"), named("u"), queries, named("u"));
        let sample = |coords: &[f32], truth: &[f32]| {
            let one = || Rows::of(1, vec![0.0]);
            Sample::of(
                one(),
                one(),
                Arc::new(Rows::of(3, coords.to_vec())),
                Rows::of(1, truth.to_vec()),
            )
        };
        let mut by = ByPlace::new(&meta);
        let first = sample(&[0.0, 9.0, 1.0, 1.0, 8.0, 1.0], &[1.0, 2.0]);
        let second = sample(&[1.0, 8.0, 0.5, 2.0, 7.0, 1.0], &[6.0, f32::NAN]);
        by.add(&first, &Rows::of(1, vec![2.0, 2.0])).unwrap();
        by.add(&second, &Rows::of(1, vec![2.0, 2.0])).unwrap();
        let names: Vec<String> = by.channels().into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["x", "height"]);
        let places = by.places();
        assert_eq!(places.len(), 2);
        let worst = &places[0];
        assert_eq!(
            (&worst.coords[..], worst.columns[0].targets),
            (&[1.0, 8.0][..], 2)
        );
        assert_eq!(
            (worst.columns[0].rmse, worst.columns[0].bias),
            (8f64.sqrt(), -2.0)
        );
    }
}
