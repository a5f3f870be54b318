//! The samples of a training: validation data in physical units, training data as the network sees it, with
//! all that never changes worked out once.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use rand::seq::index;
use rayon::prelude::*;

use crate::config::ModelConfig;
use crate::data::{
    Centred, Channel, Dataset, Group, Kind, Meta, Rows, Sample, ScaledSample, Scaling, Sensors,
    Transforms, coordinates,
};
use crate::encoders::Encoded;
use crate::error::{Error, Result};
use crate::eval::relative_l2;
use crate::network::Entry;
use crate::observer::Observer;
use crate::operator::{Code, Design, Operator, Parts};
use crate::rng::{Rng, stream};
use crate::sensors::Layout;
use crate::spaces::{Basis, LeastSquares, all_along};
use crate::start::{Field, StartConfig, fit_field};
use crate::train::amount::Amount;
use crate::train::coefficients::{TargetFits, choose};
use crate::train::held_out::{Divided, check_nothing_is_held_out, hold_out};
use crate::train::linear_start;
use crate::train::origin;
use crate::train::recipe::{HoldOut, Recipe, TrainRecipe};
use crate::train::suits;
use crate::train::views::Views;

/// Training samples whose fits are compared with their targets, and targets of each.
const LOOKED_AT: usize = 16;
const MOST_TARGETS: usize = 4096;

/// What a recipe asks for, before any network.
pub(crate) struct Loaded {
    pub meta: Meta,
    pub train: Vec<Sample>,
    pub val: Vec<Sample>,
    /// Checksums of training and validation samples, where they are from files.
    pub contents: Option<[u32; 2]>,
    /// How they were divided, in words.
    pub notes: Vec<String>,
    /// What the training goes on from, where that is not the beginning.
    pub origin: Option<Operator>,
}

impl Loaded {
    /// The data that the recipe names.
    pub fn of_recipe(
        recipe: &Recipe,
        cache: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (train, val) = recipe.data.sources(cache)?;
        let data = &recipe.data;
        if val.is_some() {
            check_nothing_is_held_out(data)?;
        }
        let collect = |source: &Dataset, wanted: Option<usize>, name: &str| {
            let there = source.available();
            let refuse = |what: String| Error::setting(format!("data.{name}_samples"), what);
            match wanted {
                Some(0) => Err(refuse("it must be at least 1".into()).with_value(0)),
                Some(n) if there.is_some_and(|there| n > there) => {
                    let what = format!("the file has {}", there.unwrap_or(0));
                    Err(refuse(what).with_value(n))
                }
                _ => source.collect(wanted.unwrap_or(source.usual()), observer),
            }
        };
        let (mut meta, files) = (train.meta()?, train.available().is_some());
        meta.query_grid = None;
        let samples = collect(&train, data.train_samples, "train")?;
        let Divided { train, val, notes } = match &val {
            Some(source) => {
                let both = ["the training data", "the validation data"];
                meta.check_same_channels(&source.meta()?, both)?;
                Divided {
                    train: samples,
                    val: collect(source, data.val_samples, "val")?,
                    notes: Vec::new(),
                }
            }
            None => hold_out(data, &meta, samples)?,
        };
        let contents = files.then(|| [checksum(&train), checksum(&val)]);
        Ok(Self {
            meta,
            train,
            val,
            contents,
            notes,
            origin: None,
        })
    }
}

/// A training sample: its code where that never changes, its scaled sensors otherwise.
pub(crate) struct Prepared {
    /// Of every group; none where the code is kept, because nobody looks at them again.
    pub sensors: Vec<Sensors>,
    pub code: Option<Code>,
    pub queries: Arc<Rows>,
    pub targets: Rows,
}

impl Prepared {
    /// Sensors that go through a network.
    pub fn seen_sensors(&self) -> usize {
        let in_code = |code: &Code| code.iter().map(Encoded::sensors).max().unwrap_or(0);
        let all = self.sensors.iter().map(Sensors::len).sum();
        self.code.as_ref().map_or(all, in_code)
    }
}

pub(crate) struct TrainingSamples {
    /// One view of every sample after the other.
    pub train: Vec<Prepared>,
    pub views: usize,
    pub val: Vec<Sample>,
    pub val_codes: Vec<Code>,
    /// Root mean square of all training targets, before scaling.
    pub size: f64,
    /// The training targets as coefficients, where steps compare those.
    pub targets: Option<TargetFits>,
    /// How far functions are from the data: see [`Training::floors`](crate::train::Training::floors).
    pub floors: Floors,
    /// What the data look like that may not suit the network, in words.
    pub notes: Vec<String>,
    /// What was chosen where the recipe leaves it open, and why.
    pub choice: Option<String>,
}

impl TrainingSamples {
    /// Training samples alone.
    pub fn in_memory(train: Vec<Prepared>) -> Self {
        Self {
            train,
            views: 1,
            val: Vec::new(),
            val_codes: Vec::new(),
            size: 1.0,
            targets: None,
            floors: Floors::default(),
            notes: Vec::new(),
            choice: None,
        }
    }

    /// Training samples.
    pub fn len(&self) -> usize {
        self.train.len() / self.views
    }

    /// One of the views of a sample.
    pub fn view(&self, sample: usize, rng: &mut Rng) -> &Prepared {
        match self.views {
            1 => &self.train[sample],
            views => &self.train[rng.random_range(0..views) * self.len() + sample],
        }
    }
}

/// How far the functions of a network are from the training data, however well it learns.
#[derive(Clone, Debug, Default)]
pub struct Floors {
    /// Of projections at sensors that a fit does not see, as a share of the spread of the readings: the group's
    /// name, and the share.
    pub sensors: Vec<(String, f64)>,
    /// What projections make of the covariates of their sensors: the group's name, and words.
    pub drifts: Vec<(String, String)>,
    /// Of the decoder at the targets that they were fitted to, a relative L² error, where that can be told.
    pub targets: Option<f64>,
}

/// Gives what was found in the data before, for such a network: names, shapes and starting numbers.
pub(crate) type Known<'a> = &'a mut dyn FnMut(&ModelConfig, &[Entry]) -> Result<Vec<Entry>>;

/// The network for this data, with its numbers. `known` is there in a training that is resumed; else all is found
/// now. The data is used up: it is scaled where it is.
pub(crate) fn prepare(
    recipe: &mut Recipe,
    loaded: Loaded,
    known: Option<Known>,
    observer: &dyn Observer,
) -> Result<(Arc<Design>, Vec<Entry>, TrainingSamples)> {
    let Loaded {
        mut meta,
        mut train,
        mut val,
        mut notes,
        origin,
        ..
    } = loaded;
    match &origin {
        Some(origin) => meta = origin::describe(origin, meta, &[&train, &val])?,
        None => {
            check_periods(recipe, &meta)?;
            fill_ranges(&mut meta, &train);
            recipe.model.fill_frames(&meta);
            recipe.model.mark_gaps(&mut meta);
        }
    }
    notes.extend(suits::doubts(&meta, &train));
    notes.extend(suits::seen_before(&train, &val));
    let transforms = transforms(recipe, &meta)?;
    transform(&transforms, &mut train).map_err(|e| e.of("training"))?;
    let looks = transformed(&transforms, &val).map_err(|e| e.of("validation"))?;
    if let Some(origin) = &origin {
        notes.extend(origin::unseen(origin, &train));
    }
    let (size, norms) = (root_mean_square(&train), norms(&train));
    let fresh = known.is_none();
    let fielded = matches!(recipe.model.start, Some(StartConfig::Field(_)));
    let views = Views::of(&recipe.train, &meta, fielded)?;
    let fitted = match &mut recipe.model.start {
        Some(StartConfig::Field(config)) if fresh => {
            let (chosen, field) = match &origin {
                Some(origin) => origin::refit(origin, &meta, &train, &looks, observer)?,
                None => fit_field(config, &meta, &train, &looks, observer)?,
            };
            *config = chosen;
            Some(field)
        }
        _ => None,
    };
    drop(looks);
    let (parts, mut entries) = Parts::new(&recipe.model, &meta, recipe.train.seed)?;
    entries.extend(transforms.entry());
    let choice = choose(&parts.decoder, &recipe.train, &meta, &train);
    if let Some((compared, _)) = choice {
        recipe.train.coefficients = Some(compared);
    }
    let choice = choice.map(|(compared, why)| format!("coefficients = {compared}: {why}"));
    let compared = recipe.train.compares_coefficients();
    check(recipe, &parts, &meta)?;
    let samples = train.len();
    if let Some(views) = views {
        train = views.draw(&train)?;
    }
    check_room(&recipe.train, &parts, samples, &train)?;
    if let Some(origin) = &origin {
        origin::take_numbers(&mut entries, origin);
    }
    if let Some(known) = known {
        entries = known(parts.config(), &entries)?;
    }
    if let Some(field) = &fitted {
        parts.set_field(&mut entries, field);
    }
    // As it was stored, for the same bits later.
    let start = parts.field(&entries, &meta);
    if let Some(start) = &start {
        leave_corrections(start, samples, &mut train)?;
    }
    let options = &recipe.train;
    let odd = options.symmetries.odd;
    let centred = Centred {
        readings: odd,
        // Sines answer 0 on the boundary, and what has nothing to correct answers 0: scaling must not move it.
        targets: odd || recipe.model.decoder.vanishes() || start.is_some(),
    };
    let scaling = match &origin {
        Some(origin) => origin.scaling().cloned(),
        None => Scaling::fit(&meta, &train, options.scaling, centred)?,
    };
    let design = Design::new(parts, meta, transforms, scaling, options.symmetries);
    if let Some(layout) = recipe.data.layout {
        design.check_layout(layout)?;
    }
    // Before scaling, for a look at what the decoder's functions leave out.
    let looked_at: Vec<(usize, Rows)> = match compared {
        true => {
            let all: Vec<usize> = (0..train.len()).collect();
            let some = all_along(&all, LOOKED_AT);
            some.map(|&i| (i, train[i].targets.clone())).collect()
        }
        false => Vec::new(),
    };
    let scaled = train.into_par_iter().enumerate();
    let scaled = scaled.map(|(i, sample)| design.scale(i % samples, sample));
    let scaled = scaled.collect::<Result<Vec<ScaledSample>>>()?;
    if fresh && origin.is_none() {
        let groups = &design.meta.groups;
        design.parts.fit(&mut entries, groups, &scaled[..samples])?;
    }
    few_queries(&mut val, options);
    let (targets, target_floor) = match compared {
        false => (None, None),
        true => {
            let basis = design.parts.decoder.basis().ok_or_else(|| {
                let what = "needs a fixed basis: decoder = { kind = \"basis\", … }";
                Error::setting("train.coefficients", what).with_value(true)
            })?;
            let coords = design.meta.space();
            let fits = TargetFits::new(basis, &scaled, norms, options.symmetries, coords)
                .map_err(|e| e.of("training"))?;
            let floor = missed(&design, &fits, &scaled, &looked_at);
            (Some(fits), floor)
        }
    };
    let groups: Vec<&[Sensors]> = scaled.iter().map(|s| &s.groups[..]).collect();
    let missed = design.parts.left_out(&entries, &groups[..samples]);
    let missed = missed.into_iter();
    let drifts = design.parts.drifts(&entries).into_iter();
    let floors = Floors {
        drifts: drifts
            .map(|(g, words)| (design.meta.groups[g].name.clone(), words))
            .collect(),
        sensors: missed
            .map(|(g, share)| (design.meta.groups[g].name.clone(), share))
            .collect(),
        targets: target_floor,
    };
    let symmetries = options.symmetries;
    let able = design.parts.has_symmetries(symmetries, &design.meta.groups);
    // Beside a start the views have no more sensors than a step is to see.
    let whole = options.sensors.is_none() || start.is_some();
    let codes: Vec<Option<Code>> = match whole && (!symmetries.any() || able) {
        true => {
            let codes = design.parts.encode(&entries, &groups);
            codes
                .map_err(|e| e.of("training"))?
                .into_iter()
                .map(Some)
                .collect()
        }
        false => vec![None; groups.len()],
    };
    let whole = scaled.into_iter().zip(codes);
    let whole = whole.map(|(sample, code)| Prepared {
        sensors: match code {
            Some(_) => Vec::new(),
            None => sample.groups,
        },
        code,
        queries: sample.queries,
        targets: sample.targets,
    });
    let train: Vec<Prepared> = whole.collect();
    let samples = TrainingSamples {
        views: train.len() / samples,
        train,
        val_codes: Vec::new(),
        val,
        size,
        targets,
        floors,
        notes,
        choice,
    };
    if let (true, Some(StartConfig::Linear(_))) = (fresh && origin.is_none(), &recipe.model.start) {
        let map = linear_start::fit(&design, &entries, &samples, options)?;
        observer.note(&format!(
            "the best linear map misses validation targets by {:.2} % of their size",
            100.0 * map.missed
        ));
        design.parts.set_linear(&mut entries, &map);
    }
    Ok((design, entries, samples))
}

/// The units in which such data are learned.
fn transforms(recipe: &Recipe, meta: &Meta) -> Result<Transforms> {
    let refuse = |what: String| Error::setting("train.transforms", what);
    let found = Transforms::new(&recipe.train.transforms, meta).map_err(refuse)?;
    if recipe.model.decoder.vanishes() && !found.keep_zero() {
        let what = "sines answer 0 on the boundary, which is not the log of anything that vanishes; log1p, sqrt and asinh keep 0";
        return Err(refuse(what.into()));
    }
    Ok(found)
}

fn transform(transforms: &Transforms, samples: &mut [Sample]) -> Result<()> {
    let all = samples.par_iter_mut().enumerate();
    let refused = all.filter_map(|(i, sample)| Some((i, transforms.sample(sample).err()?)));
    match refused.min_by_key(|(i, _)| *i) {
        None => Ok(()),
        Some((i, what)) => Err(Error::sample(i, what)),
    }
}

/// The same for samples whose physical units are needed again.
fn transformed<'a>(transforms: &Transforms, samples: &'a [Sample]) -> Result<Cow<'a, [Sample]>> {
    if transforms.named().is_empty() {
        return Ok(Cow::Borrowed(samples));
    }
    let mut own = samples.to_vec();
    transform(transforms, &mut own)?;
    Ok(Cow::Owned(own))
}

/// Leaves of the training targets what is to be corrected, in every view of so many samples.
fn leave_corrections(start: &Field, samples: usize, train: &mut [Sample]) -> Result<()> {
    train
        .par_iter_mut()
        .enumerate()
        .try_for_each(|(i, sample)| {
            let found = start.predict(&sample.groups, &sample.query_coords);
            let fail = |e: Error| Error::sample(i % samples, e.to_string()).of("training");
            let mut found = found.map_err(fail)?;
            found.data_mut().iter_mut().for_each(|v| *v = -*v);
            sample.targets.add(&found);
            Ok(())
        })
}

/// Leaves validation samples the queries that a recipe wants to look at, always the same.
fn few_queries(val: &mut [Sample], options: &TrainRecipe) {
    let Some(wanted) = options.validation_queries else {
        return;
    };
    for (i, sample) in val.iter_mut().enumerate() {
        let available = sample.query_coords.len();
        if wanted < available {
            let rng = &mut stream(options.seed, "validation", i as u64);
            let picked = index::sample(rng, available, wanted).into_vec();
            sample.query_coords = Arc::new(sample.query_coords.select(&picked));
            sample.targets = sample.targets.select(&picked);
        }
    }
}

/// Shifts and waves need periods that somebody stated.
fn check_periods(recipe: &Recipe, meta: &Meta) -> Result<()> {
    // A query's that is a sensor's too has the sensor's ends.
    let groups = meta.groups.iter().flat_map(|g| g.coordinates());
    let sensors: Vec<&Channel> = groups.collect();
    let own = |c: &&Channel| sensors.iter().all(|s| s.name != c.name);
    let others = meta.query_coords.iter().take(meta.space().len());
    let others = others.filter(own);
    let mut all = sensors.iter().copied().chain(others);
    let open = all.find(|c| c.range.is_none());
    let (shifts, waves) = (recipe.train.symmetries.shifts, recipe.model.takes_periods());
    match open.filter(|_| shifts || waves) {
        None => Ok(()),
        Some(channel) => Err(Error::Unsuitable(format!(
            "shifts and periodic functions need the period of every coordinate, but the data do not say that of {0}: give {0} a range, such as 0 to 1, when the data is imported",
            channel.name
        ))),
    }
}

/// Whether recipe, network and data go together.
fn check(recipe: &Recipe, parts: &Parts, meta: &Meta) -> Result<()> {
    let train = &recipe.train;
    let name = recipe.model.name().name();
    let refuse = |setting: &str, what: String| Err(Error::setting(setting, what));
    let field = matches!(recipe.model.start, Some(StartConfig::Field(_)));
    if field && train.symmetries.any() {
        let what = "a field is worked out once, of sensors where they stand; leave out symmetries";
        return refuse("model.start", what.into());
    }
    if field && train.sensors.is_some() && train.compares_coefficients() {
        let what = "what is left for the network beside a start depends on the sensors, and coefficients = true fits it once; leave out sensors, or set coefficients = false";
        return refuse("train.sensors", what.into());
    }
    if train.sensors.is_some() && !parts.takes_any_sensors() {
        let what = format!("{name} needs all of its sensors; leave out sensors");
        return refuse("train.sensors", what);
    }
    let any_sensors = parts.layouts().contains(&Layout::Variable);
    if train.left_out.is_some() && !any_sensors {
        let what = format!("{name} needs all of its sensors; leave out left_out");
        return refuse("train.left_out", what);
    }
    if recipe.data.hold_out == HoldOut::Places && !any_sensors {
        let what = format!(
            "{name} needs all of its sensors, and those at held-out places are not seen; hold_out = \"samples\""
        );
        return refuse("data.hold_out", what);
    }
    if train.coefficients == Some(true) && parts.decoder.has_functions_of_covariates() {
        let what = format!(
            "the queries have covariates ({} …), and what the decoder makes of them is found in the training, not by a fit before it; leave coefficients out, or import the targets without covariates",
            covariate(&meta.query_coords)
        );
        return refuse("train.coefficients", what);
    }
    if train.symmetries.any() {
        check_symmetries(&recipe.model, parts, meta)?;
    }
    let some_queries = train.queries.is_some() || train.validation_queries.is_some();
    if parts.contraction().is_none() && some_queries {
        let what = format!("{name} answers at all of its sensors at once; leave out queries");
        return refuse("train.queries", what);
    }
    Ok(())
}

/// The first covariate.
fn covariate(channels: &[Channel]) -> &str {
    let first = channels.iter().find(|c| c.covariate);
    first.map_or("", |c| &c.name)
}

/// Whether memory has room for what is kept of the views of so many samples, for a step, and for fits to the targets.
fn check_room(options: &TrainRecipe, parts: &Parts, count: usize, train: &[Sample]) -> Result<()> {
    let most = |of: &dyn Fn(&Sample) -> usize| train.iter().map(of).max().unwrap_or(0);
    let limited = |all: usize, limit: Option<Amount>| limit.map_or(all, |l| l.of(all));
    let places = most(&|s| s.query_coords.len());
    let sensors = most(&|s| s.groups.iter().map(Sensors::len).sum());
    let samples = options.batch.min(count).div_ceil(options.micro_batches);
    let queries = match options.compares_coefficients() {
        true => 0,
        false => {
            // Those that all samples share are looked at once.
            let shared =
                |pair: &[Sample]| Arc::ptr_eq(&pair[0].query_coords, &pair[1].query_coords);
            let own = if train.windows(2).all(shared) {
                1
            } else {
                samples
            };
            own.saturating_mul(limited(places, options.queries))
        }
    };
    let sensors = samples.saturating_mul(limited(sensors, options.sensors));
    let step = parts
        .need(samples, sensors, queries)
        .and(parts.kept(train.len()));
    step.check().map_err(|what| {
        Error::Unsuitable(format!(
            "a step of {samples} samples with {sensors} sensors and {queries} queries in all {what}; a smaller batch, more micro_batches, fewer sensors, queries or functions, or a coarser grid take less"
        ))
    })?;
    let functions = parts.decoder.basis().map_or(0, Basis::len);
    LeastSquares::need(functions, places).check().map_err(|what| {
        Error::setting(
            "model.decoder",
            format!("a fit of {functions} functions to {places} targets {what}; fewer functions take less"),
        )
    })
}

fn check_symmetries(model: &ModelConfig, parts: &Parts, meta: &Meta) -> Result<()> {
    let refuse = |what: String| Err(Error::setting("train.symmetries", what));
    if !parts.takes_any_sensors() {
        return refuse(format!(
            "symmetries move the sensors, which {} cannot take",
            model.name().name()
        ));
    }
    if let Some(group) = parts.drifting() {
        let Group { name, coords, .. } = &meta.groups[group];
        return refuse(format!(
            "a projection fits the covariates of {name} ({} …) where they are, and the image of a sample has them elsewhere; leave symmetries out (symmetries = {{}}), or import {name} without covariates",
            covariate(coords)
        ));
    }
    if parts.decoder.has_functions_of_covariates() {
        return refuse(format!(
            "a fixed basis has functions of the covariates of the queries ({} …), and the image of a sample has them elsewhere; leave symmetries out (symmetries = {{}}), or import the targets without covariates",
            covariate(&meta.query_coords)
        ));
    }
    let space = meta.space();
    if coordinates(&meta.query_coords).len() < space.len() {
        return refuse(
            "symmetries move sensors and queries alike; here queries have fewer coordinates".into(),
        );
    }
    let located = meta.groups.iter().filter(|g| g.kind != Kind::Scalars);
    let mut others = located.filter(|g| {
        let same = |(a, b): (&Channel, &Channel)| (&a.name, a.range) == (&b.name, b.range);
        let own = g.coordinates();
        own.len() != space.len() || !own.iter().zip(space).all(same)
    });
    if let Some(other) = others.next() {
        return refuse(format!(
            "symmetries move all sensors alike, but {} have other coordinates than {}",
            other.name, meta.groups[0].name
        ));
    }
    let queries = &meta.query_coords;
    let elsewhere = |(i, s): &(usize, &Channel)| {
        queries[*i].name != s.name && queries.iter().any(|q| q.name == s.name)
    };
    if let Some((_, channel)) = space.iter().enumerate().find(elsewhere) {
        return refuse(format!(
            "symmetries move sensors and queries alike, but {:?} has another place among the queries' coordinates; the data must have the sensors' coordinates first and in the same order",
            channel.name
        ));
    }
    match space.iter().find(|c| c.range.is_none()) {
        None => Ok(()),
        Some(channel) => refuse(format!(
            "symmetries move sensors in their box, but all sensors have the same {:?}",
            channel.name
        )),
    }
}

/// The mean relative L² error of fits at the targets they were made from; none where functions can meet any
/// targets.
fn missed(
    design: &Design,
    fits: &TargetFits,
    scaled: &[ScaledSample],
    looked_at: &[(usize, Rows)],
) -> Option<f64> {
    let basis = design.parts.decoder.basis()?;
    let errors = looked_at.par_iter().map(|(i, targets)| {
        let queries = &scaled[*i].queries;
        let available = queries.len();
        if available <= basis.len() {
            return None;
        }
        let rng = &mut stream(0, "targets", *i as u64);
        let some = index::sample(rng, available, available.min(MOST_TARGETS)).into_vec();
        let mut found = fits.evaluate(basis, *i, &queries.select(&some));
        if let Some(scaling) = &design.scaling {
            scaling.targets.invert(&mut found);
        }
        Some(relative_l2(&found, &targets.select(&some)))
    });
    let errors: Vec<f64> = errors.collect::<Option<_>>()?;
    Some(errors.iter().sum::<f64>() / errors.len() as f64)
}

/// What identifies samples that were read from files.
fn checksum(samples: &[Sample]) -> u32 {
    let mut all = crc32fast::Hasher::new();
    for sample in samples {
        all.update(&sample.checksum(true).to_le_bytes());
    }
    all.finalize()
}

/// Root mean square of the targets of every sample; a target with components counts by its length.
fn norms(samples: &[Sample]) -> Vec<f32> {
    let norm = |s: &Sample| root_mean_square(std::slice::from_ref(s)) as f32;
    samples.iter().map(norm).collect()
}

fn root_mean_square(samples: &[Sample]) -> f64 {
    let known = samples.iter().flat_map(|s| s.targets.data());
    let known = known.filter(|v| !v.is_nan());
    let sum: f64 = known.clone().map(|v| (*v as f64).powi(2)).sum();
    let width = samples.first().map_or(1, |s| s.targets.width());
    (sum * width as f64 / known.count().max(1) as f64).sqrt()
}

/// Ends of what is known of places, where the description leaves them open: those of the data. Groups and queries
/// share them where they share the name.
pub(crate) fn fill_ranges(meta: &mut Meta, train: &[Sample]) {
    let groups = meta.groups.len();
    let sides = |meta: &Meta| -> Vec<Vec<Channel>> {
        let groups = meta.groups.iter().map(|g| g.coords.clone());
        groups.chain([meta.query_coords.clone()]).collect()
    };
    let before = sides(meta);
    let extremes = |side: usize, axis: usize| {
        let rows = train.iter().flat_map(|s| match side < groups {
            true => s.groups[side].coords.iter(),
            false => s.query_coords.iter(),
        });
        rows.fold([f64::MAX, f64::MIN], |[lo, hi], p| {
            [lo.min(p[axis] as f64), hi.max(p[axis] as f64)]
        })
    };
    let filled = |name: &str| {
        let all = before.iter().enumerate();
        let same = all.flat_map(|(side, channels)| {
            let own = channels.iter().enumerate().filter(|(_, c)| c.name == name);
            own.map(move |(axis, c)| c.range.unwrap_or_else(|| extremes(side, axis)))
        });
        let [lo, hi] = same.fold([f64::MAX, f64::MIN], |[lo, hi], [a, b]| {
            [lo.min(a), hi.max(b)]
        });
        (lo < hi).then_some([lo, hi])
    };
    let open = meta.groups.iter_mut().flat_map(|g| &mut g.coords);
    let open = open.chain(&mut meta.query_coords);
    for channel in open.filter(|c| c.range.is_none()) {
        channel.range = filled(&channel.name);
    }
}
