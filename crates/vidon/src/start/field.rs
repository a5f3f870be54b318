//! A random field: what kriging would be if it had seen all the samples before. Every quantity q (the columns of the
//! readings, and the targets, where they are other quantities) is
//!
//!   u_q(x) = f(x)ᵀ(c_q + E_q(x) s) + s_q(x) + noise,
//!
//! - smooth functions f with coefficients c ~ N(μ, Σ), of all quantities together: mean and covariance are what many
//!   samples have in common (seasons, lapse rates, what today says of tomorrow), learned by expectation and maximisation,
//! - a short range s with the covariance S_qq' k(x, x'), k = (1 - a) exp(-√Σ_i ((x_i - x'_i)/r_i)²) + a [x = x'], of which
//!   a sensor knows its neighbourhood, and a share a that is the place's alone; x_i are coordinates and covariates alike
//!   (valleys and peaks side by side are no neighbours),
//! - noise of a size σ_q in every reading, whatever the number of sensors,
//! - known places (`places.rs`): what is peculiar to a place that reports again and again.
//!
//! The answer is the mean of the field at a query where the readings are known,
//!
//!   v(y) = f(y)ᵀμ + k(y)ᵀ V⁻¹ (u - Fμ),   V = F Σ Fᵀ + S ⊗ k + σ²,   k(y) = F Σ f(y) + S k(·, y).
//!
//! A reading that is missing counts for nothing; without any, the answer is the mean.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Group, Kind, Meta, Rows, Sensors};
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Plan};
use crate::spaces::linalg::{Factor, Matrix};
use crate::start::features::{Features, FeaturesConfig};

/// Most functions of a place, of all quantities together.
const MOST_FUNCTIONS: usize = 1024;
/// Most places that are known by themselves.
pub(super) const MOST_PLACES: usize = 4096;
/// Queries that are answered at a time.
const QUERIES: usize = 4096;

/// A field; all but its group is chosen from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldConfig {
    /// Which group; the only one that reads a function where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(flatten)]
    pub features: FeaturesConfig,
    /// Whether the targets are quantities of their own, and not the readings elsewhere.
    pub apart: bool,
    /// Places that are known by themselves, and the directions of the field that their peculiarities go with.
    pub places: usize,
    pub directions: usize,
}

impl FieldConfig {
    /// Which group of the data it sees.
    pub(crate) fn group_among(&self, groups: &[Group]) -> std::result::Result<usize, String> {
        let fields = || {
            groups
                .iter()
                .enumerate()
                .filter(|(_, g)| g.kind == Kind::Field)
        };
        let names = || {
            fields()
                .map(|(_, g)| &g.name[..])
                .collect::<Vec<_>>()
                .join(", ")
        };
        match &self.group {
            Some(name) => {
                let found = fields().find(|(_, g)| g.name == *name).map(|(i, _)| i);
                found.ok_or_else(|| {
                    format!(
                        "start: no group {name} reads a function; there are: {}",
                        names()
                    )
                })
            }
            None if fields().count() == 1 => Ok(fields().next().expect("one").0),
            None => Err(format!(
                "start: which group is meant? Those that read a function: {}; give one, as in {{ kind = \"field\", group = \"…\" }}",
                names()
            )),
        }
    }

    /// What makes it impossible for such data, if anything.
    pub(crate) fn fault(&self, meta: &Meta) -> Option<String> {
        let group = match self.group_among(&meta.groups) {
            Ok(group) => &meta.groups[group],
            Err(fault) => return Some(fault),
        };
        let asked: Vec<&str> = meta.query_coords.iter().map(|c| &c.name[..]).collect();
        let missing = group.coords.iter().find(|c| !asked.contains(&&c.name[..]));
        if let Some(missing) = missing {
            return Some(format!(
                "start: a field needs {} at the queries too",
                missing.name
            ));
        }
        let other = meta.query_coords.iter().zip(&group.coords);
        let mut other = other.map(|(a, b)| (&a.name, a.covariate) == (&b.name, b.covariate));
        if asked.len() != group.coords.len() || !other.all(|same| same) {
            return Some("start: a field has the same coordinates and covariates at sensors and queries, in one order".into());
        }
        let functions = self
            .features
            .place
            .saturating_mul(1 + 2 * group.coords.len());
        if functions.saturating_mul(self.quantities(meta)) > MOST_FUNCTIONS {
            return Some(format!(
                "start: a field has at most {MOST_FUNCTIONS} functions"
            ));
        }
        if self.places > MOST_PLACES || self.directions > MOST_FUNCTIONS {
            return Some(format!("start: a field knows at most {MOST_PLACES} places"));
        }
        match self.features.place {
            0 => None,
            _ => self.features.frame.fault(group.coordinates()),
        }
    }

    /// What is still to be chosen from data, if anything.
    pub(crate) fn unknown(&self) -> Option<String> {
        (self.features.place == 0)
            .then(|| "start: a field is fitted by a training; it has no functions yet".into())
    }

    /// Quantities: the readings' columns, then those targets that are quantities of their own.
    pub(super) fn quantities(&self, meta: &Meta) -> usize {
        let group = self.group_among(&meta.groups).expect("checked before");
        meta.groups[group].values.len() + if self.apart { meta.targets.len() } else { 0 }
    }
}

/// Where the targets are among the quantities, if they are the group's readings elsewhere.
pub(crate) fn among_readings(group: &Group, meta: &Meta) -> Option<Vec<usize>> {
    let place = |target: &Channel| {
        let same = |c: &Channel| c.name == target.name && c.unit == target.unit;
        group.values.iter().position(same)
    };
    meta.targets.iter().map(place).collect()
}

/// Where a covariance is none.
pub(super) fn indefinite() -> Error {
    Error::Numerics(
        "the covariance of the readings is not positive: do sensors stand far outside of the box of the training data?"
            .into(),
    )
}

/// A field that answers.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(super) group: usize,
    pub(super) features: Features,
    /// Which quantity every target is.
    pub(super) targets: Vec<usize>,
    pub(super) numbers: Numbers,
    /// Where a place is in the table of those known.
    pub(super) known: HashMap<Vec<u32>, usize>,
}

/// All that was found in the data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Mean and spread of every covariate, `[covariates, 2]`.
    pub covariates: Vec<[f64; 2]>,
    /// Mean and spread of every quantity; all that follows is in units of the spread.
    pub units: Vec<[f64; 2]>,
    /// μ and Σ.
    pub mean: Vec<f64>,
    pub covariance: Matrix,
    pub near: Near,
    pub places: Places,
}

/// The short range and the noise.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Near {
    /// r of every coordinate and covariate.
    pub ranges: Vec<f64>,
    /// a
    pub alone: f64,
    /// S_qq
    pub sizes: Vec<f64>,
    /// σ_q²
    pub noises: Vec<f64>,
    /// For every quantity which other it goes with, and how closely.
    pub partners: Vec<usize>,
    pub ties: Vec<f64>,
}

/// What is peculiar to places: see `places.rs`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Places {
    /// `[places, d + covariates]`
    pub coords: Vec<f32>,
    /// `[places, quantities·(1 + directions)]`, and the same made ready for places in between.
    pub effects: Matrix,
    pub between: Matrix,
    /// `[directions, functions of all readings]`: a direction's score is its product with Σ Fᵀ V⁻¹ (u - Fμ).
    pub directions: Matrix,
}

impl Near {
    /// k(x, x')
    pub fn kernel(&self, a: &[f32], b: &[f32]) -> f64 {
        if a == b {
            return 1.0;
        }
        let axes = a.iter().zip(b).zip(&self.ranges);
        let square: f64 = axes.map(|((a, b), r)| ((a - b) as f64 / r).powi(2)).sum();
        (1.0 - self.alone) * (-square.sqrt()).exp()
    }

    /// S_qq'
    pub fn size(&self, q: usize, p: usize) -> f64 {
        match (q == p, self.partners[q] == p && q != p) {
            (true, _) => self.sizes[q],
            (_, true) => self.ties[q] * (self.sizes[q] * self.sizes[p]).sqrt(),
            _ => 0.0,
        }
    }
}

/// Readings of a sample: at which of its places, of which quantity, in units of its spread.
#[derive(Clone)]
pub(super) struct Observed {
    /// Coordinates and covariates, and the functions there.
    pub coords: Rows,
    pub functions: Matrix,
    pub readings: Vec<Reading>,
}

#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub place: usize,
    pub quantity: usize,
    pub value: f64,
}

/// What the readings of a sample say, ready to be asked.
struct Known<'a> {
    observed: &'a Observed,
    /// V⁻¹(u - …)
    weights: Vec<f64>,
    /// μ + Σ Fᵀ weights
    coefs: Vec<f64>,
    /// 1, and the scores of the directions.
    scores: Vec<f64>,
}

impl Field {
    pub(super) fn with_numbers(config: &FieldConfig, meta: &Meta, numbers: Numbers) -> Self {
        let group = config.group_among(&meta.groups).expect("checked before");
        let own = &meta.groups[group];
        let first = own.values.len();
        let targets = match config.apart {
            true => (first..first + meta.targets.len()).collect(),
            false => among_readings(own, meta).expect("targets are readings"),
        };
        let places = numbers.places.coords.chunks(own.coords.len());
        let bits = |place: &[f32]| place.iter().map(|v| v.to_bits()).collect();
        Self {
            group,
            features: Features::new(&config.features, numbers.covariates.clone()),
            targets,
            known: places
                .map(bits)
                .enumerate()
                .map(|(i, bits)| (bits, i))
                .collect(),
            numbers,
        }
    }

    /// The readings of sensors, of quantities from the first.
    pub(super) fn observe(&self, sensors: &Sensors) -> Observed {
        let quantities: Vec<usize> = (0..sensors.values.width()).collect();
        self.observe_as(&sensors.coords, &sensors.values, &quantities)
    }

    /// Values at places, a column a quantity; what is missing is left out.
    pub(super) fn observe_as(
        &self,
        places: &Rows,
        values: &Rows,
        quantities: &[usize],
    ) -> Observed {
        let mut readings = Vec::with_capacity(values.data().len());
        for (place, row) in values.iter().enumerate() {
            for (&quantity, v) in quantities.iter().zip(row).filter(|(_, v)| !v.is_nan()) {
                let [mean, spread] = self.numbers.units[quantity];
                let value = (*v as f64 - mean) / spread;
                readings.push(Reading {
                    place,
                    quantity,
                    value,
                });
            }
        }
        Observed {
            coords: places.clone(),
            functions: self.features.at(places),
            readings,
        }
    }

    /// F, a row a reading: the functions of its place, in the block of its quantity.
    pub(super) fn rows(&self, observed: &Observed) -> Matrix {
        let (n, width) = (self.features.len(), self.numbers.mean.len());
        let mut all = Matrix::zeros(observed.readings.len(), width);
        for (i, reading) in observed.readings.iter().enumerate() {
            for k in 0..n {
                all[(i, reading.quantity * n + k)] = observed.functions[(reading.place, k)];
            }
        }
        all
    }

    /// S ⊗ k + σ²
    pub(super) fn near(&self, observed: &Observed) -> Matrix {
        let near = &self.numbers.near;
        let (coords, readings) = (&observed.coords, &observed.readings);
        let mut all = Matrix::zeros(readings.len(), readings.len());
        for (i, a) in readings.iter().enumerate() {
            for (j, b) in readings[..i].iter().enumerate() {
                let size = near.size(a.quantity, b.quantity);
                if size != 0.0 {
                    let v = size * near.kernel(coords.row(a.place), coords.row(b.place));
                    all[(i, j)] = v;
                    all[(j, i)] = v;
                }
            }
            all[(i, i)] = near.sizes[a.quantity] + near.noises[a.quantity];
        }
        all
    }

    /// V = F Σ Fᵀ + S ⊗ k + σ², in factors.
    pub(super) fn covariance(&self, observed: &Observed, rows: &Matrix) -> Option<Factor> {
        let mut all = self.near(observed);
        all.add(1.0, &self.smooth(rows));
        Factor::new(all)
    }

    /// F Σ Fᵀ
    pub(super) fn smooth(&self, rows: &Matrix) -> Matrix {
        let mut spread = Matrix::zeros(rows.rows(), rows.columns());
        spread.add_product(1.0, rows.view(), self.numbers.covariance.view());
        let mut all = Matrix::zeros(rows.rows(), rows.rows());
        all.add_product(1.0, spread.view(), rows.view().transposed());
        all
    }

    /// What readings differ from the mean.
    pub(super) fn departures(&self, observed: &Observed, rows: &Matrix) -> Vec<f64> {
        let mean = |row: &[f64]| {
            row.iter()
                .zip(&self.numbers.mean)
                .map(|(f, m)| f * m)
                .sum::<f64>()
        };
        let means = rows.numbers().chunks(rows.columns().max(1)).map(mean);
        let pairs = observed.readings.iter().zip(means);
        pairs.map(|(reading, mean)| reading.value - mean).collect()
    }

    /// Where a place is among those known.
    pub(super) fn place(&self, coords: &[f32]) -> Option<usize> {
        let bits: Vec<u32> = coords.iter().map(|v| v.to_bits()).collect();
        self.known.get(&bits).copied()
    }

    /// What is peculiar to a quantity at a place, for such scores.
    fn effect(&self, coords: &[f32], quantity: usize, scores: &[f64]) -> f64 {
        let places = &self.numbers.places;
        let width = scores.len();
        let part = |table: &Matrix, place: usize| -> f64 {
            let own = (0..width).map(|k| table[(place, quantity * width + k)] * scores[k]);
            own.sum()
        };
        match self.place(coords) {
            _ if places.coords.is_empty() => 0.0,
            Some(place) => part(&places.effects, place),
            None => {
                let all = places.coords.chunks(coords.len()).enumerate();
                let near = &self.numbers.near;
                all.map(|(i, there)| near.kernel(coords, there) * part(&places.between, i))
                    .sum()
            }
        }
    }

    /// Σ Fᵀ w
    pub(super) fn pull(&self, rows: &Matrix, weights: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; rows.columns()];
        for (row, w) in rows.numbers().chunks(rows.columns().max(1)).zip(weights) {
            sums.iter_mut().zip(row).for_each(|(s, f)| *s += w * f);
        }
        let covariance = self.numbers.covariance.numbers().chunks(sums.len().max(1));
        covariance
            .map(|row| row.iter().zip(&sums).map(|(a, b)| a * b).sum())
            .collect()
    }

    /// 1, and how far the field is along its directions, as the readings say without any effect of places.
    pub(super) fn scores(&self, pulled: &[f64]) -> Vec<f64> {
        let directions = &self.numbers.places.directions;
        let score = |row: &[f64]| row.iter().zip(pulled).map(|(d, c)| d * c).sum::<f64>();
        let rows = directions.numbers().chunks(directions.columns().max(1));
        std::iter::once(1.0).chain(rows.map(score)).collect()
    }

    /// The effects of places in all readings.
    pub(super) fn effects(&self, observed: &Observed, scores: &[f64]) -> Vec<f64> {
        let own = |r: &Reading| self.effect(observed.coords.row(r.place), r.quantity, scores);
        observed.readings.iter().map(own).collect()
    }

    fn know<'a>(&self, observed: &'a Observed) -> Result<Known<'a>> {
        let rows = self.rows(observed);
        let factor = self.covariance(observed, &rows).ok_or_else(indefinite)?;
        let solve = |known: &[f64]| -> Vec<f64> {
            let column = Matrix::of(1, known.to_vec());
            factor.solve(&column).numbers().to_vec()
        };
        let departures = self.departures(observed, &rows);
        let mut weights = solve(&departures);
        let scores = self.scores(&self.pull(&rows, &weights));
        if !self.known.is_empty() {
            let effects = self.effects(observed, &scores);
            let rest: Vec<f64> = departures
                .iter()
                .zip(&effects)
                .map(|(d, e)| d - e)
                .collect();
            weights = solve(&rest);
        }
        let pulled = self.pull(&rows, &weights);
        let coefs = pulled.iter().zip(&self.numbers.mean).map(|(c, m)| c + m);
        Ok(Known {
            observed,
            coefs: coefs.collect(),
            weights,
            scores,
        })
    }

    /// The targets at queries, in physical units.
    pub(crate) fn predict(&self, groups: &[Sensors], queries: &Rows) -> Result<Rows> {
        let observed = self.observe(&groups[self.group]);
        let known = self.know(&observed)?;
        let mut answers = Vec::with_capacity(queries.len() * self.targets.len());
        let all: Vec<usize> = (0..queries.len()).collect();
        for part in all.chunks(QUERIES) {
            self.answer(&known, &queries.select(part), &mut answers);
        }
        match answers.iter().all(|v: &f32| v.is_finite()) {
            true => Ok(Rows::of(self.targets.len(), answers)),
            false => Err(Error::Numerics(
                "the field has no finite answer: do sensors or queries stand far outside of the box of the training data?".into(),
            )),
        }
    }

    fn answer(&self, known: &Known, queries: &Rows, answers: &mut Vec<f32>) {
        let (n, near) = (self.features.len(), &self.numbers.near);
        let functions = &self.features.at(queries);
        let Observed {
            coords: places,
            readings,
            ..
        } = known.observed;
        let answer = |i: usize| {
            let at = queries.row(i);
            let close: Vec<f64> = (0..places.len())
                .map(|j| near.kernel(at, places.row(j)))
                .collect();
            let value = move |&q: &usize| {
                let smooth = (0..n).map(|k| functions[(i, k)] * known.coefs[q * n + k]);
                let short = readings.iter().zip(&known.weights);
                let short = short.map(|(r, w)| near.size(q, r.quantity) * close[r.place] * w);
                let sum =
                    smooth.sum::<f64>() + short.sum::<f64>() + self.effect(at, q, &known.scores);
                let [mean, spread] = self.numbers.units[q];
                (mean + spread * sum) as f32
            };
            self.targets.iter().map(value).collect::<Vec<f32>>()
        };
        let rows: Vec<Vec<f32>> = (0..queries.len()).into_par_iter().map(answer).collect();
        answers.extend(rows.into_iter().flatten());
    }
}

/// The places of a field's numbers among those that are stored; none of them is trained.
#[derive(Clone, Debug)]
pub(crate) struct FieldKeys {
    config: FieldConfig,
    covariates: Option<Key>,
    units: Key,
    mean: Key,
    covariance: Key,
    /// r of every coordinate and covariate, and a.
    ranges: Key,
    /// S_qq, σ_q², partners and ties of every quantity.
    near: Key,
    places: Option<[Key; 3]>,
    directions: Option<Key>,
}

impl FieldKeys {
    pub fn new(plan: &mut Plan, config: &FieldConfig, meta: &Meta) -> Self {
        let group = &meta.groups[config.group_among(&meta.groups).expect("checked before")];
        let (axes, quantities) = (group.coordinates().len(), config.quantities(meta));
        let covariates = group.coords.len() - axes;
        let features = Features::new(&config.features, vec![[0.0, 1.0]; covariates]);
        let width = features.len() * quantities;
        let mut fixed =
            |name: &str, shape: &[usize]| plan.add(format!("field.{name}"), shape, Init::Fixed);
        let some = |count: usize| (count > 0).then_some(());
        let effects = quantities * (1 + config.directions);
        Self {
            config: config.clone(),
            covariates: some(covariates).map(|()| fixed("covariates", &[covariates, 2])),
            units: fixed("units", &[quantities, 2]),
            mean: fixed("mean", &[width]),
            covariance: fixed("covariance", &[width, width]),
            ranges: fixed("ranges", &[group.coords.len() + 1]),
            near: fixed("near", &[4, quantities]),
            places: some(config.places).map(|()| {
                let coords = fixed("places", &[config.places, group.coords.len()]);
                let tables = ["effects", "between"];
                let [effects, between] = tables.map(|name| fixed(name, &[config.places, effects]));
                [coords, effects, between]
            }),
            directions: some(config.directions)
                .map(|()| fixed("directions", &[config.directions, width])),
        }
    }

    /// Stores what was found.
    pub fn set(&self, entries: &mut [Entry], field: &Field) {
        let single = |numbers: &[f64]| numbers.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let numbers = &field.numbers;
        if let Some(key) = self.covariates {
            key.set(entries, single(numbers.covariates.as_flattened()));
        }
        self.units
            .set(entries, single(numbers.units.as_flattened()));
        self.mean.set(entries, single(&numbers.mean));
        self.covariance
            .set(entries, single(numbers.covariance.numbers()));
        let ranges = [&numbers.near.ranges[..], &[numbers.near.alone]].concat();
        self.ranges.set(entries, single(&ranges));
        let Near {
            sizes,
            noises,
            partners,
            ties,
            ..
        } = &numbers.near;
        let partners: Vec<f64> = partners.iter().map(|p| *p as f64).collect();
        self.near.set(
            entries,
            single(&[&sizes[..], noises, &partners, ties].concat()),
        );
        if let Some([coords, effects, between]) = self.places {
            coords.set(entries, numbers.places.coords.clone());
            effects.set(entries, single(numbers.places.effects.numbers()));
            between.set(entries, single(numbers.places.between.numbers()));
        }
        if let Some(key) = self.directions {
            key.set(entries, single(numbers.places.directions.numbers()));
        }
    }

    /// The field of stored numbers.
    pub fn field(&self, entries: &[Entry], meta: &Meta) -> Field {
        let double = |key: Key| {
            key.of(entries)
                .iter()
                .map(|v| *v as f64)
                .collect::<Vec<f64>>()
        };
        let pairs = |key: Key| {
            double(key)
                .chunks(2)
                .map(|c| [c[0], c[1]])
                .collect::<Vec<[f64; 2]>>()
        };
        let (mean, units) = (double(self.mean), pairs(self.units));
        let near = double(self.near);
        let [sizes, noises, partners, ties] =
            [0, 1, 2, 3].map(|i| near[i * units.len()..(i + 1) * units.len()].to_vec());
        let partner = |p: &f64| (*p as usize).min(units.len() - 1);
        let mut ranges = double(self.ranges);
        let alone = ranges.pop().expect("planned");
        let width = mean.len();
        let effects = units.len() * (1 + self.config.directions);
        let table = |key: Key| Matrix::of(effects, double(key));
        let places = Places {
            coords: self
                .places
                .map_or(Vec::new(), |[key, ..]| key.of(entries).to_vec()),
            effects: self
                .places
                .map_or(Matrix::of(effects, vec![]), |keys| table(keys[1])),
            between: self
                .places
                .map_or(Matrix::of(effects, vec![]), |keys| table(keys[2])),
            directions: Matrix::of(width, self.directions.map_or(Vec::new(), double)),
        };
        let numbers = Numbers {
            covariates: self.covariates.map_or(Vec::new(), pairs),
            covariance: Matrix::of(width, double(self.covariance)),
            near: Near {
                ranges,
                alone,
                partners: partners.iter().map(partner).collect(),
                sizes,
                noises,
                ties,
            },
            mean,
            units,
            places,
        };
        Field::with_numbers(&self.config, meta, numbers)
    }
}
