//! The data of a training, in memory and in physical units.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Channel, Meta, Normalisation, Rows, Sample, Source, Watch};
use crate::error::{Error, Result};
use crate::eval::relative_l2;
use crate::models::{Basis, Dims, Entry, Model, Projection, Symmetries, all_along};
use crate::rng::stream;
use crate::train::fitted::Fitted;
use crate::train::recipe::Recipe;

/// Training samples whose fits are compared with their targets, and targets of each.
const LOOKED_AT: usize = 16;
const MOST_TARGETS: usize = 4096;

pub(crate) struct Data {
    pub meta: Meta,
    pub train: Vec<Sample>,
    pub val: Vec<Sample>,
    pub normalisation: Option<Normalisation>,
    /// Checksums of training and validation samples, where they are from files.
    pub contents: Option<[u32; 2]>,
    /// Root mean square of all training targets.
    pub size: f64,
    /// What the network's projection gives for every training sample, where no step sees anything else.
    pub sensor_fits: Option<Vec<Vec<f32>>>,
    /// The training targets in the functions of the trunk, where steps compare coefficients.
    pub target_fits: Option<Fitted>,
    pub floors: Floors,
}

/// How far the functions of a network are from its training data, however well it learns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floors {
    /// The functions of the projection, at sensors that a fit does not see, as a share of the spread of the readings.
    pub sensors: Option<f64>,
    /// Those of the trunk, at the targets that they were fitted to: a relative L² error. None where the targets are too few to tell.
    pub targets: Option<f64>,
}

impl Data {
    pub fn load(recipe: &Recipe, cache: Option<&Path>, watch: &dyn Watch) -> Result<Self> {
        let (train_source, val_source) = recipe.data.sources(cache)?;
        let mut meta = train_source.meta()?;
        meta.query_grid = None;
        let count = |wanted: Option<usize>, source: &Source, name: &str| match wanted {
            Some(0) => Err(Error::Setting(format!(
                "[data]: {name}_samples must be at least 1"
            ))),
            Some(n) => match source {
                Source::File(file) if file.len() < n => Err(Error::Setting(format!(
                    "[data]: {name}_samples = {n}, but the file has {}",
                    file.len()
                ))),
                _ => Ok(n),
            },
            None => Ok(source.size()),
        };
        let mut train = train_source.collect(
            count(recipe.data.train_samples, &train_source, "train")?,
            watch,
        )?;
        let mut val = match &val_source {
            Some(source) => {
                let both = ["the training data", "the validation data"];
                meta.check_same_channels(&source.meta()?, both)?;
                source.collect(count(recipe.data.val_samples, source, "val")?, watch)?
            }
            None => {
                let held = recipe.data.val_samples.unwrap_or((train.len() / 10).max(1));
                if held == 0 || held >= train.len() {
                    return Err(Error::Setting(format!(
                        "[data]: {held} of {} samples cannot be held out for validation; give a file val",
                        train.len()
                    )));
                }
                train.split_off(train.len() - held)
            }
        };
        let contents = match train_source {
            Source::File(_) => Some([checksum(&train), checksum(&val)]),
            Source::Problem(_) => None,
        };
        if let Some(wanted) = recipe.train.validation_queries {
            for (i, sample) in val.iter_mut().enumerate() {
                let available = sample.query_coords.len();
                if wanted < available {
                    let rng = &mut stream(recipe.train.seed, "validation", i as u64);
                    let picked = index::sample(rng, available, wanted).into_vec();
                    sample.query_coords = Arc::new(sample.query_coords.select(&picked));
                    sample.targets = sample.targets.select(&picked);
                }
            }
        }
        // A query's that is a sensor's too has the sensor's ends.
        let sensors = &meta.sensor_coords;
        let own = |c: &&Channel| sensors.iter().all(|s| s.name != c.name);
        let others = meta.query_coords.iter().take(sensors.len()).filter(own);
        let open = sensors.iter().chain(others).find(|c| c.range.is_none());
        let (shifts, waves) = (recipe.train.symmetries.shifts, recipe.model.takes_periods());
        if let Some(channel) = open.filter(|_| shifts || waves) {
            return Err(Error::Setting(format!(
                "shifts and periodic functions need the period of every coordinate, but the data do not say that of {0}; vidon import --range {0}=0:1 does",
                channel.name
            )));
        }
        fill_ranges(&mut meta, &train);
        let normalisation = match recipe.train.normalise {
            true => {
                let (log_values, odd) = (recipe.train.log_values, recipe.train.symmetries.odd);
                Some(Normalisation::fit(&train, log_values, odd)?)
            }
            false => None,
        };
        if let Some(scaling) = &normalisation {
            val.iter().try_for_each(|s| scaling.check(s))?;
        }
        Ok(Self {
            size: root_mean_square(&train),
            meta,
            train,
            val,
            normalisation,
            contents,
            sensor_fits: None,
            target_fits: None,
            floors: Floors::default(),
        })
    }

    /// The network for this data, with what it takes from the training set.
    pub fn model(&self, recipe: &Recipe) -> Result<(Model, Vec<Entry>)> {
        let train = &recipe.train;
        let (model, mut entries) = Model::new(&recipe.model, Dims::from(&self.meta), train.seed)?;
        if let Some(layout) = recipe.data.layout {
            model.check_layout(layout)?;
        }
        if train.log_values && model.kriges() {
            return Err(Error::Setting(
                "[train]: kriging interpolates the readings, not their logarithms, and may go below zero; leave out log_values"
                    .into(),
            ));
        }
        if train.sensors.is_some() && !model.takes_any_sensors() {
            return Err(Error::Setting(format!(
                "[train]: {} needs all of its sensors; leave out sensors",
                model.name()
            )));
        }
        if train.symmetries.any() && !model.takes_any_sensors() {
            return Err(Error::Setting(format!(
                "[train]: symmetries move the sensors, which {} cannot take",
                model.name()
            )));
        }
        let dims = model.dims();
        if train.symmetries.any() && dims.query_coords < dims.sensor_coords {
            return Err(Error::Setting(
                "[train]: symmetries move sensors and queries alike; here queries have fewer coordinates"
                    .into(),
            ));
        }
        let queries = &self.meta.query_coords;
        let elsewhere = |(i, s): &(usize, &Channel)| {
            queries[*i].name != s.name && queries.iter().any(|q| q.name == s.name)
        };
        let mut places = self.meta.sensor_coords.iter().enumerate();
        if train.symmetries.any()
            && let Some((_, channel)) = places.find(elsewhere)
        {
            return Err(Error::Setting(format!(
                "[train]: symmetries move sensors and queries alike, but {:?} has another place among the queries' coordinates; give the sensors' coordinates first and in the same order (vidon import --target-coords)",
                channel.name
            )));
        }
        let open = (self.meta.sensor_coords.iter()).find(|c| c.range.is_none());
        if let Some(channel) = open.filter(|_| train.symmetries.any()) {
            return Err(Error::Setting(format!(
                "[train]: symmetries move sensors in their box, but all sensors have the same {:?}",
                channel.name
            )));
        }
        let moved = |n: &Normalisation| !n.targets.keeps_zero();
        if model.vanishes() && self.normalisation.as_ref().is_some_and(moved) {
            return Err(Error::Setting(
                "[train]: a trunk of sines answers 0 on the boundary, but scaling moves the targets' 0. If the targets vanish on the boundary, set normalise = false; if not, choose another family for the trunk (cosine, legendre)"
                    .into(),
            ));
        }
        if model.answers_at_sensors() && (train.queries.or(train.validation_queries)).is_some() {
            return Err(Error::Setting(format!(
                "[train]: {} answers at all of its sensors at once; leave out queries",
                model.name()
            )));
        }
        match model.fits_numbers() {
            true => model.fit(&mut entries, &self.meta, &self.seen())?,
            false => model.fit(&mut entries, &self.meta, &self.train)?,
        }
        Ok((model, entries))
    }

    /// The training samples as the network sees them.
    fn seen(&self) -> Cow<'_, [Sample]> {
        let Some(scaling) = &self.normalisation else {
            return Cow::Borrowed(&self.train);
        };
        let mut seen = self.train.clone();
        for sample in &mut seen {
            scaling.targets.apply(&mut sample.targets);
            scaling.sensor_values.apply(&mut sample.sensor_values);
        }
        Cow::Owned(seen)
    }

    /// Fits what steps see as coefficients, and gives every sample the form that the network takes.
    pub fn prepare(&mut self, recipe: &Recipe, model: &Model, entries: &[Entry]) -> Result<()> {
        let train = &recipe.train;
        let Symmetries { shifts, .. } = train.symmetries;
        let movable =
            |p: &&Projection| !train.symmetries.any() || p.moves(shifts, &self.meta.sensor_coords);
        if let Some(projection) = model.projection() {
            let seen = self.seen();
            let sensors = projection.left_out(entries, &seen);
            let once = movable(&projection) && train.sensors.is_none();
            let fits = once.then(|| projection.fits(entries, &*seen));
            check_finite("sensors", fits.as_deref().unwrap_or_default())?;
            (self.floors.sensors, self.sensor_fits) = (sensors, fits);
        }
        if train.coefficients {
            let basis = model.trunk_basis().ok_or_else(|| {
                Error::Setting(
                    "[train]: coefficients = true needs a fixed trunk: trunk = { kind = \"fourier\", … }"
                        .into(),
                )
            })?;
            let coords = &self.meta.sensor_coords;
            let seen = self.seen();
            let fitted = Fitted::new(basis, &seen, &self.train, train.symmetries, coords)?;
            check_finite("targets", fitted.fits())?;
            self.floors.targets = self.apart(basis, &fitted);
            self.target_fits = Some(fitted);
        }
        for sample in self.train.iter_mut().chain(&mut self.val) {
            *sample = model.prepare(entries, sample)?.into_owned();
        }
        Ok(())
    }

    /// The mean relative L² error of fits at the targets they were made from; none where functions can meet any targets.
    fn apart(&self, basis: &Basis, fitted: &Fitted) -> Option<f64> {
        let all: Vec<usize> = (0..self.train.len()).collect();
        let picked: Vec<usize> = all_along(&all, LOOKED_AT).copied().collect();
        let errors = picked.par_iter().map(|&i| {
            let Sample {
                query_coords,
                targets,
                ..
            } = &self.train[i];
            let available = query_coords.len();
            if available <= basis.len() {
                return None;
            }
            let rng = &mut stream(0, "targets", i as u64);
            let some = index::sample(rng, available, available.min(MOST_TARGETS)).into_vec();
            let mut found = fitted.evaluate(basis, i, &query_coords.select(&some));
            if let Some(scaling) = &self.normalisation {
                scaling.targets.invert(&mut found);
            }
            Some(relative_l2(&found, &targets.select(&some)))
        });
        let errors: Vec<f64> = errors.collect::<Option<_>>()?;
        Some(errors.iter().sum::<f64>() / errors.len() as f64)
    }
}

/// Functions of high degree are not finite far outside of their box, nor is then a fit.
fn check_finite(what: &str, fits: &[Vec<f32>]) -> Result<()> {
    match fits.iter().position(|f| f.iter().any(|v| !v.is_finite())) {
        Some(sample) => Err(Error::Setting(format!(
            "training sample {sample}: its {what} have no finite fit; do some stand far outside of the frame of the recipe?"
        ))),
        None => Ok(()),
    }
}

/// What identifies samples that were read from files.
fn checksum(samples: &[Sample]) -> u32 {
    let mut all = crc32fast::Hasher::new();
    for sample in samples {
        all.update(&sample.checksum(true).to_le_bytes());
    }
    all.finalize()
}

/// Of the targets of all samples; a target with components counts by its length.
pub(crate) fn root_mean_square(samples: &[Sample]) -> f64 {
    let squares = samples.iter().flat_map(|s| s.targets.data());
    let sum: f64 = squares.map(|v| (*v as f64).powi(2)).sum();
    let count: usize = samples.iter().map(|s| s.targets.len()).sum();
    (sum / count as f64).sqrt()
}

/// Ends of coordinates that the description leaves open: those of the data. Sensors and queries share them where they share the coordinate.
fn fill_ranges(meta: &mut Meta, train: &[Sample]) {
    let ends = |places: fn(&Sample) -> &Rows, axis: usize| {
        let numbers = train.iter().flat_map(|s| places(s).iter());
        numbers.fold([f64::MAX, f64::MIN], |[lo, hi], p| {
            [lo.min(p[axis] as f64), hi.max(p[axis] as f64)]
        })
    };
    let [of_sensors, of_queries]: [fn(&Sample) -> &Rows; 2] =
        [|s| &s.sensor_coords, |s| &*s.query_coords];
    let before = meta.clone();
    let sides = [
        (
            &mut meta.sensor_coords,
            &before.query_coords,
            of_sensors,
            of_queries,
        ),
        (
            &mut meta.query_coords,
            &before.sensor_coords,
            of_queries,
            of_sensors,
        ),
    ];
    for (channels, others, own, other) in sides {
        for (axis, channel) in channels.iter_mut().enumerate() {
            let same = others.iter().position(|c| c.name == channel.name);
            let known = same.and_then(|i| others[i].range);
            if channel.range.is_some() {
                continue;
            }
            let [mut lo, mut hi] = ends(own, axis);
            if let Some(other_axis) = same {
                let [least, most] = known.unwrap_or_else(|| ends(other, other_axis));
                (lo, hi) = (lo.min(least), hi.max(most));
            }
            channel.range = (lo < hi).then_some([lo, hi]);
        }
    }
}
