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
//! 4. Where places are known, 1 and 2 once more for what is not peculiar to them; and the level of targets that are
//!    quantities of their own, where that of the validation samples is surely another.

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Meta, Rows, Sample, Sensors};
use crate::error::{Error, Result};
use crate::observer::Observer;
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
/// Ranges are between such shares of how far a coordinate or covariate goes.
const NARROW: f64 = 64.0;
const WIDE: f64 = 4.0;
/// A level is another if so many samples say so by more than so many standard errors of their mean.
const FEWEST: usize = 20;
const SURE: f64 = 3.0;
/// Numbers of functions that are tried without a better one.
const PATIENCE: usize = 2;
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
    observer: &dyn Observer,
) -> Result<(FieldConfig, Field)> {
    let refuse = |what: String| Error::setting("model.start", what);
    if let Some(fault) = config.fault(meta) {
        return Err(refuse(fault));
    }
    let group = config.group_among(&meta.groups).map_err(refuse)?;
    let own = &meta.groups[group];
    let mut frame = Frame {
        family: Family::Cosine,
        ..config.features.frame.clone()
    };
    frame.fill(own.coordinates());
    if let Some(fault) = frame.fault(own.coordinates()) {
        return Err(refuse(fault));
    }
    let small = all_along(train, SAMPLES).enumerate();
    let small: Vec<Sample> = small.map(|(i, s)| fewer(s, group, i)).collect();
    let places = small.iter().map(|s| &s.groups[group].coords);
    let trials = Trials {
        group,
        frame,
        covariates: standards(places, own.coordinates().len()),
        meta,
        named: config.group.clone(),
        small,
        val: all_along(val, SAMPLES).collect(),
        observer,
    };
    // Few functions tell whether the targets are the readings elsewhere; then more are tried.
    let alike = among_readings(own, meta).is_some();
    let kinds: &[bool] = if alike { &[false, true] } else { &[true] };
    let functions = match config.features.place {
        0 => &FUNCTIONS[..],
        given => &[given],
    };
    let first = kinds
        .iter()
        .map(|&apart| trials.fit(apart, functions[0], None));
    let first = first.collect::<Result<Vec<Trial>>>()?.into_iter();
    let mut best = first
        .reduce(|a, b| if b.miss < a.miss { b } else { a })
        .expect("at least one");
    let (apart, mut near, mut worse) = (best.config.apart, best.plain_near.clone(), 0);
    for place in &functions[1..] {
        let found = trials.fit(apart, *place, Some(near))?;
        near = found.plain_near.clone();
        match found.miss < best.miss {
            true => (best, worse) = (found, 0),
            false => worse += 1,
        }
        if worse == PATIENCE {
            break;
        }
    }
    let Trial {
        config, mut field, ..
    } = trials.refine(best)?;
    if config.apart {
        level(&mut field, &trials.val)?;
    }
    Ok((config, field))
}

/// Moves quantities that are only asked for, never read, to the level of the validation samples where that is surely
/// another: what is measured changes with the years, and validation samples are often the last that are known.
fn level(field: &mut Field, samples: &[&Sample]) -> Result<()> {
    let own = |s: &&Sample| -> Result<Vec<Option<f64>>> {
        let found = field.predict(&s.groups, &s.query_coords)?;
        let off = |c: usize| {
            let pairs = s.targets.column(c).zip(found.column(c));
            let known = pairs.filter(|(t, _)| !t.is_nan());
            let off: Vec<f64> = known.map(|(t, f)| t as f64 - f as f64).collect();
            (!off.is_empty()).then(|| off.iter().sum::<f64>() / off.len() as f64)
        };
        Ok((0..field.targets.len()).map(off).collect())
    };
    let all: Vec<Vec<Option<f64>>> = samples.par_iter().map(own).collect::<Result<_>>()?;
    for (c, &q) in field.targets.clone().iter().enumerate() {
        let off: Vec<f64> = all.iter().filter_map(|own| own[c]).collect();
        let count = off.len() as f64;
        let mean = off.iter().sum::<f64>() / count;
        let spread = off.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        if off.len() > FEWEST && mean.abs() > SURE * (spread / count).sqrt() {
            field.numbers.units[q][0] += mean;
        }
    }
    Ok(())
}

/// What fields are tried on.
struct Trials<'a> {
    group: usize,
    /// The group's name in the recipe.
    named: Option<String>,
    frame: Frame,
    covariates: Vec<[f64; 2]>,
    meta: &'a Meta,
    small: Vec<Sample>,
    val: Vec<&'a Sample>,
    observer: &'a dyn Observer,
}

/// A field that was tried.
struct Trial {
    /// Its error on the validation samples.
    miss: f64,
    config: FieldConfig,
    field: Field,
    /// Its short range before places were known.
    plain_near: Near,
    /// How large what is peculiar to places is taken to be.
    strength: f64,
}

impl Trial {
    fn words(&self) -> String {
        let FieldConfig {
            features,
            apart,
            places,
            ..
        } = &self.config;
        format!(
            "a field of {} functions{}{} misses validation targets by {:.1} % of their spread",
            features.place,
            if *apart {
                ", targets apart from readings"
            } else {
                ""
            },
            match places {
                0 => String::new(),
                places => format!(", {places} known places"),
            },
            100.0 * self.miss,
        )
    }
}

impl Trials<'_> {
    /// With so many functions of a place, from a short range that did for fewer.
    fn fit(&self, apart: bool, place: usize, near: Option<Near>) -> Result<Trial> {
        let plain = FieldConfig {
            group: self.named.clone(),
            features: FeaturesConfig {
                frame: self.frame.clone(),
                place,
                products: place.div_ceil(3),
                squares: place.div_ceil(6),
            },
            apart,
            places: 0,
            directions: 0,
        };
        let fresh = near.is_none();
        let mut field = begin(
            &plain,
            self.meta,
            self.covariates.clone(),
            &self.small,
            near,
        )?;
        let examples = examples(&field, &self.small, self.group);
        if fresh {
            expect_and_maximise(&mut field, &examples, FIRST_ROUNDS)?;
            search(&mut field, &examples, self.observer)?;
        }
        expect_and_maximise(&mut field, &examples, ROUNDS)?;
        search(&mut field, &examples, self.observer)?;
        expect_and_maximise(&mut field, &examples, FIRST_ROUNDS)?;
        let mut best = Trial {
            miss: error(&field, &self.val)?,
            plain_near: field.numbers.near.clone(),
            config: plain.clone(),
            field: field.clone(),
            strength: 0.0,
        };
        for strength in places::STRENGTHS {
            go_on(self.observer)?;
            let (config, known) = places::learn(&plain, self.meta, &field, &examples, strength)?;
            let miss = error(&known, &self.val)?;
            if miss < best.miss {
                best = Trial {
                    miss,
                    config,
                    field: known,
                    strength,
                    ..best
                };
            }
        }
        self.observer.note(&best.words());
        Ok(best)
    }

    /// Where places are known, what is left of the readings is smoother: the field is fitted to that once more.
    fn refine(&self, mut best: Trial) -> Result<Trial> {
        if best.config.places == 0 {
            return Ok(best);
        }
        let mut field = best.field.clone();
        let examples = examples(&field, &self.small, self.group);
        let rest = places::without(&field, &examples)?;
        expect_and_maximise(&mut field, &rest, FIRST_ROUNDS)?;
        search(&mut field, &rest, self.observer)?;
        expect_and_maximise(&mut field, &rest, FIRST_ROUNDS)?;
        let (_, field) = places::learn(&best.config, self.meta, &field, &examples, best.strength)?;
        let miss = error(&field, &self.val)?;
        if miss < best.miss {
            (best.miss, best.field) = (miss, field);
        }
        Ok(best)
    }
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
    let features = Features::new(&config.features, covariates.clone());
    let (axes, sides) = (own.coordinates().len(), features.sides());
    let first = |(i, side): (usize, &f64)| if i < axes { side / 6.0 } else { *side };
    let near = near.unwrap_or_else(|| Near {
        ranges: sides.iter().enumerate().map(first).collect(),
        alone: 0.2,
        sizes: vec![0.05; quantities],
        noises: vec![0.05; quantities],
        ties: vec![0.5; quantities],
        partners,
    });
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

/// Readings by which the short range is judged, with all that does not depend on it.
struct Judged {
    observed: Observed,
    /// F Σ Fᵀ
    smooth: Matrix,
    /// u - Fμ
    departures: Matrix,
}

impl Judged {
    fn new(field: &Field, observed: Observed) -> Self {
        let rows = field.rows(&observed);
        Self {
            smooth: field.smooth(&rows),
            departures: Matrix::of(1, field.departures(&observed, &rows)),
            observed,
        }
    }

    /// Minus the logarithm of the likelihood of the readings; infinite where there is none.
    fn surprise(&self, field: &Field) -> f64 {
        let mut all = field.near(&self.observed);
        all.add(1.0, &self.smooth);
        let Some(factor) = Factor::new(all) else {
            return f64::INFINITY;
        };
        let solved = factor.solve(&self.departures);
        let pairs = self.departures.numbers().iter().zip(solved.numbers());
        0.5 * (pairs.map(|(a, b)| a * b).sum::<f64>() + factor.log_determinant())
    }
}

/// Moves ranges, sizes, noises and ties, one after the other, while the readings become less surprising.
pub(super) fn search(
    field: &mut Field,
    examples: &[Example],
    observer: &dyn Observer,
) -> Result<()> {
    let some = all_along(examples, JUDGED).enumerate();
    let judged: Vec<Judged> = some
        .map(|(i, e)| Judged::new(field, part(&e.all, i)))
        .collect();
    let surprise = |field: &Field| -> f64 {
        let all = judged.par_iter().map(|j| j.surprise(field));
        // In order, for the same bits on any number of threads.
        all.collect::<Vec<f64>>().iter().sum()
    };
    let mut best = surprise(field);
    let mut factor: f64 = 2.0;
    for _ in 0..SEARCHES {
        for step in &moves(field) {
            go_on(observer)?;
            for direction in [factor, 1.0 / factor] {
                loop {
                    let before = field.numbers.near.clone();
                    step.take(&mut field.numbers.near, direction);
                    let found = match field.numbers.near == before {
                        true => f64::INFINITY,
                        false => surprise(field),
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
    Ok(())
}

/// All that can be changed.
fn moves(field: &Field) -> Vec<Move> {
    let near = &field.numbers.near;
    let ranges = field.features.sides().into_iter().enumerate();
    let mut moves: Vec<Move> = ranges.map(|(i, side)| Move::Range(i, side)).collect();
    moves.push(Move::Alone);
    moves.extend((0..near.sizes.len()).map(Move::Size));
    moves.extend((0..near.noises.len()).map(Move::Noise));
    let pairs = near.partners.iter().enumerate().filter(|(q, p)| q < p);
    moves.extend(pairs.map(|(q, _)| Move::Tie(q)));
    moves
}

/// An error if somebody wants to stop.
fn go_on(observer: &dyn Observer) -> Result<()> {
    match observer.stopped() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// A number of the short range that can be changed.
enum Move {
    /// Of a coordinate or covariate that goes so far.
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
