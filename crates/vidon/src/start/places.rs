//! Known places. A place that reports again and again is known by more than where it is: by what it differs from the
//! field on average, and by how that goes with the state of the field (a valley is cold in winter),
//!
//!   E_q(x)·(1, s_1 … s_Z),   s_z the scores of the field along the leading directions of its covariance.
//!
//! An effect is found by ridge regression of what a reading differs from what all the others say of it, and so shrunken
//! the more the fewer the reports. A place in between takes the effects of its neighbours.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::data::Meta;
use crate::error::Result;
use crate::spaces::linalg::{Factor, Matrix, symmetric_eigen};
use crate::start::field::{Field, FieldConfig, MOST_PLACES, Observed, Places, indefinite};
use crate::start::fit::Example;

/// A place is known once it is in so many samples.
const REPORTS: usize = 8;
/// How large effects are taken to be beside the noise, to choose from; one that goes with a direction is smaller.
pub(super) const STRENGTHS: [f64; 2] = [0.3, 3.0];
const DIRECTED: f64 = 0.1;
/// Directions.
const DIRECTIONS: usize = 12;
const ROUNDS: usize = 2;
/// How much of an effect is the place's alone, beside what it shares with its neighbours.
const ALONE: f64 = 0.2;

/// What is peculiar to a reading: of which place and quantity, its scores, and by how much it is off, in units of what it
/// could be off by chance.
struct Peculiar {
    effect: (usize, usize),
    scores: Vec<f64>,
    off: f64,
}

impl Places {
    /// No place is known, of so many quantities and functions of all of them.
    pub(super) fn none(quantities: usize, width: usize) -> Self {
        Self {
            coords: Vec::new(),
            effects: Matrix::of(quantities, Vec::new()),
            between: Matrix::of(quantities, Vec::new()),
            directions: Matrix::of(width, Vec::new()),
        }
    }
}

impl Field {
    /// The same field, which knows no place by itself; `config` has none either.
    pub(super) fn without_places(&self, config: &FieldConfig, meta: &Meta) -> Self {
        let mut numbers = self.numbers.clone();
        numbers.places = Places::none(numbers.units.len(), numbers.mean.len());
        Self::with_numbers(config, meta, numbers)
    }
}

/// The field with the places that report often, or with what is found of those that it knows already; as it was where
/// there are none.
pub(super) fn learn(
    config: &FieldConfig,
    meta: &Meta,
    field: &Field,
    examples: &[Example],
    strength: f64,
) -> Result<(FieldConfig, Field)> {
    let (coords, directions) = match config.places {
        0 => (frequent(examples), directions(field, meta, config)),
        _ => (
            field.numbers.places.coords.clone(),
            field.numbers.places.directions.clone(),
        ),
    };
    if coords.is_empty() {
        return Ok((config.clone(), field.clone()));
    }
    let count = coords.len() / examples[0].all.coords.width();
    let quantities = field.numbers.units.len();
    let width = quantities * (1 + directions.rows());
    let config = FieldConfig {
        places: count,
        directions: directions.rows(),
        ..config.clone()
    };
    let mut numbers = field.numbers.clone();
    numbers.places = Places {
        coords,
        effects: Matrix::zeros(count, width),
        between: Matrix::zeros(count, width),
        directions,
    };
    let mut field = Field::with_numbers(&config, meta, numbers);
    let readings = quantities - if config.apart { field.targets.len() } else { 0 };
    let examples = examples.par_iter().map(|e| scored(&field, e));
    let examples: Vec<(Vec<f64>, &Example)> = examples.collect::<Result<_>>()?;
    for _ in 0..ROUNDS {
        let off = examples.par_iter().map(|(scores, example)| {
            let observed = if config.apart {
                &example.sensors
            } else {
                &example.all
            };
            peculiar(&field, observed, scores)
        });
        let off: Vec<Vec<Peculiar>> = off.collect::<Result<_>>()?;
        regress(&mut field, off.into_iter().flatten(), 0..readings, strength)?;
    }
    if config.apart {
        let off = examples
            .par_iter()
            .map(|(scores, example)| unforeseen(&field, example, scores, readings));
        let off: Vec<Vec<Peculiar>> = off.collect::<Result<_>>()?;
        regress(
            &mut field,
            off.into_iter().flatten(),
            readings..quantities,
            strength,
        )?;
    }
    spread_out(&mut field)?;
    Ok((config, field))
}

/// The examples without what is peculiar to their places.
pub(super) fn without(field: &Field, examples: &[Example]) -> Result<Vec<Example>> {
    let rest = examples.par_iter().map(|example| {
        let (scores, _) = scored(field, example)?;
        let less = |observed: &Observed| {
            let mut rest = observed.clone();
            let effects = field.effects(observed, &scores);
            let pairs = rest.readings.iter_mut().zip(effects);
            pairs.for_each(|(reading, effect)| reading.value -= effect);
            rest
        };
        Ok(Example {
            all: less(&example.all),
            sensors: less(&example.sensors),
        })
    });
    rest.collect()
}

/// Coordinates of the places that are in many samples, those of most first.
fn frequent(examples: &[Example]) -> Vec<f32> {
    let mut counts: HashMap<Vec<u32>, usize> = HashMap::new();
    for example in examples {
        let mut own: Vec<Vec<u32>> = example
            .all
            .coords
            .iter()
            .map(|p| p.iter().map(|v| v.to_bits()).collect())
            .collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter()
            .for_each(|place| *counts.entry(place).or_default() += 1);
    }
    let mut often: Vec<(Vec<u32>, usize)> =
        counts.into_iter().filter(|(_, n)| *n >= REPORTS).collect();
    often.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
    often.truncate(MOST_PLACES);
    often
        .into_iter()
        .flat_map(|(place, _)| place)
        .map(f32::from_bits)
        .collect()
}

/// The leading eigenvectors of the readings' part of Σ, over the roots of their eigenvalues.
fn directions(field: &Field, meta: &Meta, config: &FieldConfig) -> Matrix {
    let group = &meta.groups[field.group];
    let all = field.numbers.mean.len();
    let own = match config.apart {
        true => field.features.len() * group.values.len(),
        false => all,
    };
    let covariance = Matrix::from_fn(own, own, |i, j| field.numbers.covariance[(i, j)]);
    let (values, vectors) = symmetric_eigen(covariance);
    let count = DIRECTIONS.min(own);
    Matrix::from_fn(count, all, |z, i| match i < own {
        true => vectors[(z, i)] / values[z].max(1e-12).sqrt(),
        false => 0.0,
    })
}

fn column(numbers: &[f64]) -> Matrix {
    Matrix::of(1, numbers.to_vec())
}

/// The scores of a sample, as a prediction will see them: by its sensors.
fn scored<'a>(field: &Field, example: &'a Example) -> Result<(Vec<f64>, &'a Example)> {
    let observed = &example.sensors;
    let rows = field.rows(observed);
    let factor = field.covariance(observed, &rows).ok_or_else(indefinite)?;
    let weights = factor.solve(&column(&field.departures(observed, &rows)));
    Ok((field.scores(&field.pull(&rows, weights.numbers())), example))
}

/// What the readings at known places differ from what all the others say of them,
///
///   off_i = (V⁻¹e)_i/(V⁻¹)_ii with the variance 1/(V⁻¹)_ii.
fn peculiar(field: &Field, observed: &Observed, scores: &[f64]) -> Result<Vec<Peculiar>> {
    let rows = field.rows(observed);
    let inverse = field
        .covariance(observed, &rows)
        .ok_or_else(indefinite)?
        .inverse();
    let effects = field.effects(observed, scores);
    let departures = field.departures(observed, &rows);
    let rest: Vec<f64> = departures
        .iter()
        .zip(&effects)
        .map(|(d, e)| d - e)
        .collect();
    let each = observed
        .readings
        .iter()
        .enumerate()
        .filter_map(|(i, reading)| {
            let place = field.place(observed.coords.row(reading.place))?;
            let row = inverse.numbers()[i * rest.len()..(i + 1) * rest.len()].iter();
            let root = inverse[(i, i)].sqrt();
            let weighed: f64 = row.zip(&rest).map(|(a, b)| a * b).sum();
            Some(Peculiar {
                effect: (place, reading.quantity),
                scores: scores.iter().map(|s| s * root).collect(),
                off: weighed / root + effects[i] * root,
            })
        });
    Ok(each.collect())
}

/// The same of targets, beside what the sensors say of them.
fn unforeseen(
    field: &Field,
    example: &Example,
    scores: &[f64],
    readings: usize,
) -> Result<Vec<Peculiar>> {
    let rows = field.rows(&example.all);
    let asked = |i: &usize| example.all.readings[*i].quantity >= readings;
    let (targets, sensors): (Vec<usize>, Vec<usize>) =
        (0..example.all.readings.len()).partition(asked);
    let all = field.near(&example.all);
    let width = rows.columns();
    let mut covariance = all;
    let mut pulled = Matrix::zeros(rows.rows(), width);
    pulled.add_product(1.0, rows.view(), field.numbers.covariance.view());
    covariance.add_product(1.0, pulled.view(), rows.view().transposed());
    let seen = Matrix::from_fn(sensors.len(), sensors.len(), |i, j| {
        covariance[(sensors[i], sensors[j])]
    });
    let factor = Factor::new(seen).ok_or_else(indefinite)?;
    let (departures, effects) = (
        field.departures(&example.all, &rows),
        field.effects(&example.all, scores),
    );
    let rest: Vec<f64> = sensors
        .iter()
        .map(|&i| departures[i] - effects[i])
        .collect();
    let weights = factor.solve(&column(&rest));
    let each = targets.into_iter().filter_map(|i| {
        let reading = example.all.readings[i];
        let place = field.place(example.all.coords.row(reading.place))?;
        let said: f64 = sensors
            .iter()
            .zip(weights.numbers())
            .map(|(&j, w)| covariance[(i, j)] * w)
            .sum();
        // Of what the sensors leave open, the larger part is taken to be left.
        let root = (covariance[(i, i)].min(1.0)).sqrt().recip();
        Some(Peculiar {
            effect: (place, reading.quantity),
            scores: scores.iter().map(|s| s * root).collect(),
            off: (departures[i] - said) * root,
        })
    });
    Ok(each.collect())
}

/// Ridge regression of the effects of such quantities.
fn regress(
    field: &mut Field,
    all: impl Iterator<Item = Peculiar>,
    quantities: std::ops::Range<usize>,
    strength: f64,
) -> Result<()> {
    let width = 1 + field.numbers.places.directions.rows();
    let count = field.numbers.places.effects.rows();
    let noises = field.numbers.near.noises.clone();
    let size = |k: usize| strength * if k == 0 { 1.0 } else { DIRECTED };
    let ridge = |q: usize, k: usize| 1.0 / (noises[q] * size(k));
    let fresh = |q: usize| {
        let diagonal = |i, j| if i == j { ridge(q, i) } else { 0.0 };
        (Matrix::from_fn(width, width, diagonal), vec![0.0; width])
    };
    let mut sums: Vec<(Matrix, Vec<f64>)> = (0..count)
        .flat_map(|_| quantities.clone())
        .map(fresh)
        .collect();
    for own in all {
        let (place, quantity) = own.effect;
        let (square, right) = &mut sums[place * quantities.len() + quantity - quantities.start];
        for (i, a) in own.scores.iter().enumerate() {
            for (j, b) in own.scores.iter().enumerate() {
                square[(i, j)] += a * b;
            }
            right[i] += a * own.off;
        }
    }
    for (i, (square, right)) in sums.into_iter().enumerate() {
        let (place, quantity) = (
            i / quantities.len(),
            quantities.start + i % quantities.len(),
        );
        let found = Factor::new(square)
            .ok_or_else(indefinite)?
            .solve(&column(&right));
        for (k, v) in found.numbers().iter().enumerate() {
            field.numbers.places.effects[(place, quantity * width + k)] = *v;
        }
    }
    Ok(())
}

/// What a place in between takes of the effects, `(K + alone)⁻¹ E`.
fn spread_out(field: &mut Field) -> Result<()> {
    let places = &field.numbers.places;
    let count = places.effects.rows();
    let width = places.coords.len() / count;
    let at = |i: usize| &places.coords[i * width..(i + 1) * width];
    let kernel = |i: usize, j: usize| {
        field.numbers.near.kernel(at(i), at(j)) + if i == j { ALONE } else { 0.0 }
    };
    let factor = Factor::new(Matrix::from_fn(count, count, kernel)).ok_or_else(indefinite)?;
    field.numbers.places.between = factor.solve(&places.effects);
    Ok(())
}
