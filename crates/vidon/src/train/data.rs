//! The data of a training, in memory and in physical units.

use std::path::Path;
use std::sync::Arc;

use rand::seq::index;

use crate::data::{Channel, Meta, Normalisation, Rows, Sample, Source, Watch};
use crate::error::{Error, Result};
use crate::models::{Dims, Entry, Model};
use crate::rng::stream;
use crate::train::fitted::Fitted;
use crate::train::recipe::Recipe;
use crate::train::symmetry::Symmetries;

pub(crate) struct Data {
    pub meta: Meta,
    pub train: Vec<Sample>,
    pub val: Vec<Sample>,
    pub normalisation: Option<Normalisation>,
    /// What the network's projection gives for every training sample, where no step sees anything else.
    pub sensor_fits: Option<Vec<Vec<f32>>>,
    /// The training targets in the functions of the trunk, where steps compare coefficients.
    pub target_fits: Option<Fitted>,
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
                meta.check_same_channels(&source.meta()?)?;
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
        fill_ranges(
            &mut meta.sensor_coords,
            train.iter().map(|s| &s.sensor_coords),
        );
        fill_ranges(
            &mut meta.query_coords,
            train.iter().map(|s| &*s.query_coords),
        );
        let normalisation = match recipe.train.normalise {
            true => Some(Normalisation::fit(&train, recipe.train.log_values)?),
            false => None,
        };
        Ok(Self {
            meta,
            train,
            val,
            normalisation,
            sensor_fits: None,
            target_fits: None,
        })
    }

    /// The network for this data, with what it takes from the training set.
    pub fn model(&mut self, recipe: &Recipe) -> Result<(Model, Vec<Entry>)> {
        let train = &recipe.train;
        let (model, mut entries) = Model::new(&recipe.model, Dims::from(&self.meta), train.seed)?;
        if let Some(layout) = recipe.data.layout {
            model.check_layout(layout)?;
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
        let moved = |n: &Normalisation| n.targets.zeros().iter().any(|z| z.abs() > 1e-3);
        if model.vanishes() && self.normalisation.as_ref().is_some_and(moved) {
            return Err(Error::Setting(
                "[train]: a trunk of sines answers 0 on the boundary, but scaling moves the targets' 0; set normalise = false"
                    .into(),
            ));
        }
        if model.answers_at_sensors() && (train.queries.or(train.validation_queries)).is_some() {
            return Err(Error::Setting(format!(
                "[train]: {} answers at all of its sensors at once; leave out queries",
                model.name()
            )));
        }
        let mut seen = Vec::new();
        if let Some(scaling) = &self.normalisation
            && (model.fits_numbers() || train.coefficients)
        {
            seen = self.train.clone();
            for sample in &mut seen {
                scaling.targets.apply(&mut sample.targets);
                scaling.sensor_values.apply(&mut sample.sensor_values);
            }
        }
        let samples = if seen.is_empty() { &self.train } else { &seen };
        model.fit(&mut entries, &self.meta, samples)?;
        let Symmetries { shifts, odd, .. } = train.symmetries;
        self.sensor_fits = model
            .projection()
            .filter(|p| train.sensors.is_none() && p.moves(shifts, odd, &self.meta.sensor_coords))
            .map(|p| p.fits(&entries, samples));
        if train.coefficients {
            let basis = model.trunk_basis().ok_or_else(|| {
                Error::Setting(
                    "[train]: coefficients = true needs a fixed trunk: trunk = { kind = \"fourier\", … }"
                        .into(),
                )
            })?;
            let coords = &self.meta.sensor_coords;
            let fitted = Fitted::new(basis, samples, &self.train, train.symmetries, coords)?;
            self.target_fits = Some(fitted);
        }
        Ok((model, entries))
    }

    /// Gives every sample the form that the network takes.
    pub fn prepare(&mut self, model: &Model, entries: &[Entry]) -> Result<()> {
        for sample in self.train.iter_mut().chain(&mut self.val) {
            *sample = model.prepare(entries, sample)?.into_owned();
        }
        Ok(())
    }
}

/// Ends of coordinates that the description leaves open: those of the data.
fn fill_ranges<'a>(channels: &mut [Channel], rows: impl Iterator<Item = &'a Rows> + Clone) {
    for (axis, channel) in channels.iter_mut().enumerate() {
        if channel.range.is_none() {
            let values = rows
                .clone()
                .flat_map(|r| r.iter().map(move |p| p[axis] as f64));
            let [lo, hi] = values.fold([f64::MAX, f64::MIN], |[lo, hi], v| [lo.min(v), hi.max(v)]);
            channel.range = (lo < hi).then_some([lo, hi]);
        }
    }
}
