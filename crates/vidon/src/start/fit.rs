//! How a field is found in the data.
//!
//! 1. Mean and covariance of the smooth functions by expectation and maximisation, with R = S ⊗ k + σ² given:
//!
//!    P_t = (Σ⁻¹ + FᵀR⁻¹F)⁻¹,  m_t = μ + P_t FᵀR⁻¹(u_t - Fμ),
//!    μ = mean m_t,  Σ = (Σ_t (m_t - μ)(m_t - μ)ᵀ + P_t + ν Σ_0)/(T + ν),
//!
//!    drawn a little towards a diagonal Σ_0 that falls with the frequency.
//! 2. Ranges, sizes and noises by the likelihood of the readings of some samples, one after the other.
//! 3. How many functions, whether the targets are quantities of their own, and whether places are known by themselves, by
//!    the error at the targets of the validation samples.

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Meta, Rows, Sample, Sensors};
use crate::error::{Error, Result};
use crate::rng::stream;
use crate::spaces::linalg::{Factor, Matrix};
use crate::spaces::{Family, Frame, all_along};
use crate::start::features::{Features, FeaturesConfig, standards};
use crate::start::field::{
    Field, FieldConfig, Near, Numbers, Observed, Places, among_readings, indefinite,
};
use crate::start::places;

/// Training samples that are looked at, and readings of each.
pub(super) const SAMPLES: usize = 1024;
const READINGS: usize = 384;
/// Samples by which ranges, sizes and noises are judged, and readings of each.
const JUDGED: usize = 48;
const READINGS_JUDGED: usize = 192;
/// Rounds of expectation and maximisation, before the short range is known and after.
pub(super) const FIRST_ROUNDS: usize = 4;
pub(super) const ROUNDS: usize = 8;
/// ν
const DRAW: f64 = 5.0;
/// Choices of the number of functions of a place; products are a third of them, squares a sixth.
const FUNCTIONS: [usize; 4] = [6, 12, 20, 36];
/// Ranges are between such shares of the sides of the box.
const NARROW: f64 = 64.0;
const WIDE: f64 = 4.0;
/// Rounds over the numbers of the short range.
const SEARCHES: usize = 4;

/// What a sample gives the fit.
pub(super) struct Example {
    /// Sensors and targets together, and sensors alone.
    pub all: Observed,
    pub sensors: Observed,
}

/// A field for these samples, and its configuration with all that was chosen. In physical units.
pub(crate) fn fit(
    config: &FieldConfig,
    meta: &Meta,
    train: &[Sample],
    val: &[Sample],
) -> Result<(FieldConfig, Field)> {
    let refuse = |what: String| Error::setting("model.start", what);
    if let Some(fault) = config.fault(meta) {
        return Err(refuse(fault));
    }
    let group = config.group_among(&meta.groups).map_err(refuse)?;
    let some: Vec<&Sample> = all_along(train, SAMPLES).collect();
    let small: Vec<Sample> = some
        .iter()
        .enumerate()
        .map(|(i, s)| fewer(s, group, i))
        .collect();
    let val: Vec<&Sample> = all_along(val, SAMPLES).collect();
    let own = &meta.groups[group];
    let (axes, coords) = (own.coordinates().len(), own.coordinates());
    let places = small.iter().map(|s| &s.groups[group].coords);
    let covariates = standards(places, axes);
    let mut frame = Frame {
        family: Family::Cosine,
        ..config.features.frame.clone()
    };
    frame.fill(coords);
    if let Some(fault) = frame.fault(coords) {
        return Err(refuse(fault));
    }
    let alike = among_readings(own, meta).is_some();
    let kinds: Vec<bool> = if alike { vec![false, true] } else { vec![true] };
    let mut best: Option<(f64, FieldConfig, Field)> = None;
    for apart in kinds {
        let mut near: Option<Near> = None;
        for place in FUNCTIONS {
            let chosen = FieldConfig {
                group: config.group.clone(),
                features: FeaturesConfig {
                    frame: frame.clone(),
                    place,
                    products: place.div_ceil(3),
                    squares: place.div_ceil(6),
                },
                apart,
                places: 0,
                directions: 0,
            };
            let mut field = begin(&chosen, meta, covariates.clone(), &small, near.take())?;
            let examples = examples(&field, &small, group);
            if place == FUNCTIONS[0] {
                expect_and_maximise(&mut field, &examples, FIRST_ROUNDS)?;
                search(&mut field, &examples);
            }
            expect_and_maximise(&mut field, &examples, ROUNDS)?;
            search(&mut field, &examples);
            expect_and_maximise(&mut field, &examples, FIRST_ROUNDS)?;
            near = Some(field.numbers.near.clone());
            let known = places::STRENGTHS
                .iter()
                .map(|&strength| places::learn(&chosen, meta, &field, &examples, strength));
            let known: Vec<(FieldConfig, Field)> = known.collect::<Result<_>>()?;
            for (config, field) in std::iter::once((chosen, field)).chain(known) {
                let miss = error(&field, &val)?;
                if best.as_ref().is_none_or(|b| miss < b.0) {
                    best = Some((miss, config, field));
                }
            }
        }
    }
    let (_, config, field) = best.expect("there are choices");
    Ok((config, field))
}

/// With at most so many of its readings and targets as a fit looks at.
pub(super) fn fewer(sample: &Sample, group: usize, index: usize) -> Sample {
    let pick = |count: usize, what: &str| {
        let rng = &mut stream(0, what, index as u64);
        let mut some = index::sample(rng, count, count.min(READINGS)).into_vec();
        some.sort_unstable();
        some
    };
    let mut sample = sample.clone();
    let sensors = pick(sample.groups[group].len(), "readings");
    sample.groups[group] = sample.groups[group].select(&sensors);
    let queries = pick(sample.query_coords.len(), "targets");
    sample.query_coords = sample.query_coords.select(&queries).into();
    sample.targets = sample.targets.select(&queries);
    sample
}

/// A field that knows nothing yet but the units.
fn begin(
    config: &FieldConfig,
    meta: &Meta,
    covariates: Vec<[f64; 2]>,
    samples: &[Sample],
    near: Option<Near>,
) -> Result<Field> {
    let group = config.group_among(&meta.groups).expect("checked before");
    let own = &meta.groups[group];
    let readings = |c: usize| -> Vec<f32> {
        samples
            .iter()
            .flat_map(|s| s.groups[group].values.column(c))
            .collect()
    };
    let targets =
        |c: usize| -> Vec<f32> { samples.iter().flat_map(|s| s.targets.column(c)).collect() };
    let mut columns: Vec<Vec<f32>> = (0..own.values.len()).map(readings).collect();
    if config.apart {
        columns.extend((0..meta.targets.len()).map(targets));
    }
    let units: Vec<[f64; 2]> = columns.iter().map(|c| mean_and_spread(c)).collect();
    let quantities = units.len();
    // A target goes with the reading of its name, in the short range; of another name with nobody.
    let mut partners: Vec<usize> = (0..quantities).collect();
    if config.apart {
        let named = |name: &str| own.values.iter().position(|c| c.name == name);
        for (t, target) in meta.targets.iter().enumerate() {
            if let Some(reading) = named(&target.name).or(own.values.len().eq(&1).then_some(0)) {
                let target = own.values.len() + t;
                if partners[reading] == reading {
                    (partners[reading], partners[target]) = (target, reading);
                }
            }
        }
    }
    let sides = config
        .features
        .frame
        .lo
        .iter()
        .zip(&config.features.frame.hi);
    let near = near.unwrap_or_else(|| Near {
        ranges: sides.map(|(lo, hi)| (hi - lo) / 6.0).collect(),
        alone: 0.2,
        sizes: vec![0.05; quantities],
        noises: vec![0.05; quantities],
        ties: vec![0.5; quantities],
        partners,
    });
    let features = Features::new(&config.features, covariates.clone());
    let amplitudes = features.amplitudes();
    let width = amplitudes.len() * quantities;
    let amplitude = |i: usize| amplitudes[i % amplitudes.len()];
    let diagonal = |i, j| if i == j { amplitude(i).powi(2) } else { 0.0 };
    let numbers = Numbers {
        covariates,
        units,
        mean: vec![0.0; width],
        covariance: Matrix::from_fn(width, width, diagonal),
        near,
        places: Places::none(quantities, width),
    };
    Ok(Field::with_numbers(config, meta, numbers))
}

fn mean_and_spread(values: &[f32]) -> [f64; 2] {
    let known = || values.iter().filter(|v| !v.is_nan()).map(|v| *v as f64);
    let count = known().count().max(1) as f64;
    let mean = known().sum::<f64>() / count;
    let variance = known().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    [mean, if variance > 0.0 { variance.sqrt() } else { 1.0 }]
}

pub(super) fn examples(field: &Field, samples: &[Sample], group: usize) -> Vec<Example> {
    let example = |s: &Sample| {
        let sensors: &Sensors = &s.groups[group];
        let mut all = field.observe(sensors);
        let asked = field.observe_as(&s.query_coords, &s.targets, &field.targets);
        all.join(asked);
        Example {
            all,
            sensors: field.observe(sensors),
        }
    };
    samples.par_iter().map(example).collect()
}

impl Observed {
    /// Adds readings at other places.
    fn join(&mut self, other: Observed) {
        let places = self.coords.len();
        self.coords.extend(&other.coords);
        let columns = self.functions.columns().max(other.functions.columns());
        let numbers = [self.functions.numbers(), other.functions.numbers()].concat();
        self.functions = Matrix::of(columns, numbers);
        let moved = other.readings.into_iter().map(|mut r| {
            r.place += places;
            r
        });
        self.readings.extend(moved);
    }
}

/// FᵀR⁻¹F and FᵀR⁻¹u of a sample.
struct Normal {
    square: Matrix,
    right: Vec<f64>,
}

fn normal(field: &Field, example: &Example) -> Option<Normal> {
    let observed = &example.all;
    let rows = field.rows(observed);
    let weighed = Factor::new(field.near(observed))?.solve(&rows);
    let width = rows.columns();
    let mut square = Matrix::zeros(width, width);
    square.add_product(1.0, rows.view().transposed(), weighed.view());
    let values = Matrix::of(1, observed.readings.iter().map(|r| r.value).collect());
    let mut right = Matrix::zeros(width, 1);
    right.add_product(1.0, weighed.view().transposed(), values.view());
    Some(Normal {
        square,
        right: right.numbers().to_vec(),
    })
}

/// Moves μ and Σ to where they explain the samples best.
pub(super) fn expect_and_maximise(
    field: &mut Field,
    examples: &[Example],
    rounds: usize,
) -> Result<()> {
    let normals = examples
        .par_iter()
        .map(|e| normal(field, e).ok_or_else(indefinite));
    let normals: Vec<Normal> = normals.collect::<Result<_>>()?;
    let amplitudes = field.features.amplitudes();
    let width = field.numbers.mean.len();
    let count = normals.len() as f64;
    for _ in 0..rounds {
        let prior = Factor::with_ridge(&field.numbers.covariance, 1e-9)
            .ok_or_else(indefinite)?
            .inverse();
        let mean = Matrix::of(1, field.numbers.mean.clone());
        let expect = |n: &Normal| -> Result<(Vec<f64>, Matrix)> {
            let mut sum = prior.clone();
            sum.add(1.0, &n.square);
            let factor = Factor::new(sum).ok_or_else(indefinite)?;
            let mut rest = Matrix::of(1, n.right.clone());
            rest.add_product(-1.0, n.square.view(), mean.view());
            let step = factor.solve(&rest);
            let found = step
                .numbers()
                .iter()
                .zip(mean.numbers())
                .map(|(s, m)| s + m);
            Ok((found.collect(), factor.inverse()))
        };
        let found: Vec<(Vec<f64>, Matrix)> =
            normals.par_iter().map(expect).collect::<Result<_>>()?;
        let mut centre = vec![0.0; width];
        for (m, _) in &found {
            centre.iter_mut().zip(m).for_each(|(c, m)| *c += m / count);
        }
        let mut sum = Matrix::zeros(width, width);
        for (i, a) in (0..width).map(|i| (i, amplitudes[i % amplitudes.len()])) {
            sum[(i, i)] = DRAW * a * a;
        }
        let apart = found
            .iter()
            .flat_map(|(m, _)| m.iter().zip(&centre).map(|(m, c)| m - c));
        let apart = Matrix::of(width, apart.collect());
        sum.add_product(1.0, apart.view().transposed(), apart.view());
        found.iter().for_each(|(_, spread)| sum.add(1.0, spread));
        field.numbers.mean = centre;
        field.numbers.covariance = sum.scaled(1.0 / (count + DRAW));
    }
    Ok(())
}

/// Minus the logarithm of the likelihood of the readings of some samples; infinite where there is none.
fn surprise(field: &Field, judged: &[Observed]) -> f64 {
    let own = |observed: &Observed| -> f64 {
        let rows = field.rows(observed);
        let Some(factor) = field.covariance(observed, &rows) else {
            return f64::INFINITY;
        };
        let departures = Matrix::of(1, field.departures(observed, &rows));
        let solved = factor.solve(&departures);
        let square: f64 = departures
            .numbers()
            .iter()
            .zip(solved.numbers())
            .map(|(a, b)| a * b)
            .sum();
        0.5 * (square + factor.log_determinant())
    };
    judged
        .par_iter()
        .map(own)
        .collect::<Vec<f64>>()
        .iter()
        .sum()
}

/// Moves ranges, sizes, noises and ties, one after the other, while the readings become less surprising.
pub(super) fn search(field: &mut Field, examples: &[Example]) {
    let some = all_along(examples, JUDGED).enumerate();
    let judged: Vec<Observed> = some.map(|(i, e)| part(&e.all, i)).collect();
    let mut best = surprise(field, &judged);
    let Near {
        ranges,
        sizes,
        noises,
        partners,
        ..
    } = &field.numbers.near;
    let frame = field.features.frame();
    let sides: Vec<f64> = frame
        .lo
        .iter()
        .zip(&frame.hi)
        .map(|(lo, hi)| hi - lo)
        .collect();
    let mut moves: Vec<Move> = (0..ranges.len())
        .map(|i| Move::Range(i, sides[i]))
        .collect();
    moves.push(Move::Alone);
    moves.extend((0..sizes.len()).map(Move::Size));
    moves.extend((0..noises.len()).map(Move::Noise));
    let pairs = partners.iter().enumerate().filter(|(q, p)| q < p);
    moves.extend(pairs.map(|(q, _)| Move::Tie(q)));
    let mut factor: f64 = 2.0;
    for _ in 0..SEARCHES {
        for step in &moves {
            for direction in [factor, 1.0 / factor] {
                loop {
                    let before = field.numbers.near.clone();
                    step.take(&mut field.numbers.near, direction);
                    let found = if field.numbers.near == before {
                        f64::INFINITY
                    } else {
                        surprise(field, &judged)
                    };
                    if found >= best {
                        field.numbers.near = before;
                        break;
                    }
                    best = found;
                }
            }
        }
        factor = factor.sqrt();
    }
}

/// A number of the short range that can be changed.
enum Move {
    /// Of a coordinate whose box has this side.
    Range(usize, f64),
    Alone,
    Size(usize),
    Noise(usize),
    Tie(usize),
}

impl Move {
    fn take(&self, near: &mut Near, factor: f64) {
        match *self {
            Move::Range(i, side) => {
                near.ranges[i] = (near.ranges[i] * factor).clamp(side / NARROW, side * WIDE);
            }
            Move::Alone => near.alone = (near.alone + 0.15 * factor.ln()).clamp(0.0, 0.95),
            Move::Size(q) => near.sizes[q] = (near.sizes[q] * factor).clamp(1e-4, 4.0),
            Move::Noise(q) => near.noises[q] = (near.noises[q] * factor).clamp(1e-4, 4.0),
            Move::Tie(q) => {
                let other = near.partners[q];
                let tie = (near.ties[q] + 0.15 * factor.ln()).clamp(-0.98, 0.98);
                (near.ties[q], near.ties[other]) = (tie, tie);
            }
        }
    }
}

/// Some of the readings.
fn part(observed: &Observed, index: usize) -> Observed {
    let count = observed.readings.len();
    let rng = &mut stream(0, "judged", index as u64);
    let mut some = index::sample(rng, count, count.min(READINGS_JUDGED)).into_vec();
    some.sort_unstable();
    Observed {
        coords: observed.coords.clone(),
        functions: observed.functions.clone(),
        readings: some.into_iter().map(|i| observed.readings[i]).collect(),
    }
}

/// Root mean square error at the targets of samples, each target in units of its spread.
pub(super) fn error(field: &Field, samples: &[&Sample]) -> Result<f64> {
    let own = |s: &&Sample| -> Result<[f64; 2]> {
        let found: Rows = field.predict(&s.groups, &s.query_coords)?;
        let spreads: Vec<f64> = field
            .targets
            .iter()
            .map(|&q| field.numbers.units[q][1])
            .collect();
        let pairs = found
            .data()
            .iter()
            .zip(s.targets.data())
            .zip(spreads.iter().cycle());
        let known = pairs.filter(|((_, t), _)| !t.is_nan());
        let squares = known.map(|((f, t), spread)| (((f - t) as f64) / spread).powi(2));
        Ok(squares.fold([0.0, 0.0], |[sum, count], s| [sum + s, count + 1.0]))
    };
    let all: Vec<[f64; 2]> = samples.par_iter().map(own).collect::<Result<_>>()?;
    let [sum, count] = all.iter().fold([0.0, 0.0], |[a, b], [c, d]| [a + c, b + d]);
    Ok((sum / count.max(1.0)).sqrt())
}
