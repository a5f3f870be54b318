//! The samples of a step: which, seen by which sensors and through which symmetry, asked where. Everything is
//! drawn for the whole step from (seed, step), before it is split into micro-batches.

use std::borrow::Cow;
use std::sync::Arc;

use rand::seq::{SliceRandom, index};

use crate::data::{Group, Kind, Rows, Sensors};
use crate::error::Result;
use crate::network::Entry;
use crate::operator::{Code, Design};
use crate::rng::{Rng, stream};
use crate::spaces::Symmetry;
use crate::train::amount::Amount;
use crate::train::coefficients::TargetCoefficients;
use crate::train::recipe::TrainRecipe;
use crate::train::samples::{Prepared, TrainingSamples};

/// One sample of a step, as the network sees it.
pub(crate) struct StepSample<'a> {
    pub code: Cow<'a, Code>,
    pub asked: Asked,
}

/// What is compared.
pub(crate) enum Asked {
    Values { queries: Arc<Rows>, targets: Rows },
    Coefficients(TargetCoefficients),
}

/// The order of the training samples in an epoch.
pub(crate) struct Order {
    epoch: u64,
    order: Vec<usize>,
}

impl Order {
    pub fn new() -> Self {
        Self {
            epoch: u64::MAX,
            order: Vec::new(),
        }
    }

    /// The samples of a step: batches of a permutation that is drawn anew every epoch.
    pub fn batch(&mut self, train: &TrainRecipe, samples: usize, step: u64) -> &[usize] {
        let per_epoch = samples.div_ceil(train.batch) as u64;
        let epoch = step / per_epoch;
        if self.epoch != epoch || self.order.len() != samples {
            self.order = (0..samples).collect();
            self.order.shuffle(&mut stream(train.seed, "epoch", epoch));
            self.epoch = epoch;
        }
        let start = (step % per_epoch) as usize * train.batch;
        &self.order[start..(start + train.batch).min(samples)]
    }
}

/// What step `step` sees of the samples with these indices.
pub(crate) fn draw<'a>(
    train: &TrainRecipe,
    design: &Design,
    entries: &[Entry],
    samples: &'a TrainingSamples,
    picked: &[usize],
    step: u64,
) -> Result<Vec<StepSample<'a>>> {
    let rng = &mut stream(train.seed, "step", step);
    let all: Vec<&Prepared> = picked.iter().map(|&i| samples.view(i, rng)).collect();
    let groups = &design.meta.groups;
    let sensors: Vec<Vec<Option<Vec<usize>>>> = all
        .iter()
        .map(|s| pick_sensors(rng, train.sensors, groups, &s.sensors))
        .collect();
    let questions = match &samples.targets {
        Some(_) => Vec::new(),
        None => questions(&all, train.queries, rng),
    };
    let symmetries: Vec<Option<Symmetry>> = all
        .iter()
        .map(|_| {
            let dim = design.meta.space().len();
            let any = train.symmetries.any();
            any.then(|| train.symmetries.draw(dim, rng))
        })
        .collect();
    let ends: Vec<[f64; 2]> = match train.symmetries.any() {
        true => {
            let coords = design.meta.space().iter();
            coords.map(|c| c.range.expect("checked before")).collect()
        }
        false => Vec::new(),
    };
    let codes = codes(design, entries, &all, &sensors, &symmetries, &ends)?;
    let asked: Vec<Asked> = match &samples.targets {
        Some(fits) => {
            let pairs = picked.iter().zip(&symmetries);
            pairs
                .map(|(&i, s)| Asked::Coefficients(fits.of(i, s.as_ref())))
                .collect()
        }
        None => {
            let pairs = questions.into_iter().zip(&symmetries);
            pairs
                .map(|((queries, targets), s)| image(queries, targets, s.as_ref(), &ends))
                .collect()
        }
    };
    let both = codes.into_iter().zip(asked);
    Ok(both
        .map(|(code, asked)| StepSample { code, asked })
        .collect())
}

/// Some of what is available, without repetition; none where all are wanted.
fn pick(rng: &mut Rng, wanted: Option<Amount>, available: usize) -> Option<Vec<usize>> {
    let wanted = wanted.map(|w| w.of(available));
    let wanted = wanted.filter(|&n| n < available)?;
    Some(index::sample(rng, available, wanted).into_vec())
}

/// Some of the sensors of every group that reads a function; what is summed or known of the whole sample stays
/// whole.
fn pick_sensors(
    rng: &mut Rng,
    wanted: Option<Amount>,
    groups: &[Group],
    sensors: &[Sensors],
) -> Vec<Option<Vec<usize>>> {
    let some = groups.iter().zip(sensors).map(|(group, own)| {
        let wanted = wanted.filter(|_| group.kind == Kind::Field);
        pick(rng, wanted, own.len())
    });
    some.collect()
}

/// Queries and targets of every sample. Shared queries stay shared.
fn questions(
    samples: &[&Prepared],
    wanted: Option<Amount>,
    rng: &mut Rng,
) -> Vec<(Arc<Rows>, Rows)> {
    let first = &samples[0].queries;
    let same = |s: &&Prepared| Arc::ptr_eq(&s.queries, first) || s.queries == *first;
    if samples[1..].iter().all(same) {
        let some = pick(rng, wanted, first.len());
        let queries = some.as_ref().map(|p| Arc::new(first.select(p)));
        let queries = queries.unwrap_or_else(|| first.clone());
        let targets = |s: &&Prepared| match &some {
            Some(some) => s.targets.select(some),
            None => s.targets.clone(),
        };
        let all = samples.iter();
        return all.map(|s| (queries.clone(), targets(s))).collect();
    }
    let own = |s: &&Prepared| match pick(rng, wanted, s.queries.len()) {
        Some(some) => (Arc::new(s.queries.select(&some)), s.targets.select(&some)),
        None => (s.queries.clone(), s.targets.clone()),
    };
    samples.iter().map(own).collect()
}

/// What the encoders make of every sample: kept, or worked out of the sensors that were picked.
fn codes<'a>(
    design: &Design,
    entries: &[Entry],
    samples: &[&'a Prepared],
    sensors: &[Vec<Option<Vec<usize>>>],
    symmetries: &[Option<Symmetry>],
    ends: &[[f64; 2]],
) -> Result<Vec<Cow<'a, Code>>> {
    if samples[0].code.is_some() {
        let kept = samples.iter().zip(symmetries).map(|(sample, symmetry)| {
            let code = sample.code.as_ref().expect("all are kept");
            let Some(symmetry) = symmetry else {
                return Cow::Borrowed(code);
            };
            let mut code = code.clone();
            design.parts.transform(&mut code, symmetry, ends);
            Cow::Owned(code)
        });
        return Ok(kept.collect());
    }
    let seen = samples.iter().zip(sensors).zip(symmetries);
    let seen = seen.map(|((sample, picked), symmetry)| {
        let groups = sample.sensors.iter().zip(picked).enumerate();
        let own = groups.map(|(i, (sensors, picked))| {
            let mut own = match picked {
                Some(picked) => sensors.select(picked),
                None => sensors.clone(),
            };
            let located = design.meta.groups[i].kind != Kind::Scalars;
            if let Some(symmetry) = symmetry.as_ref().filter(|_| located) {
                own.transform(symmetry, ends);
            }
            own
        });
        own.collect()
    });
    let seen: Vec<Vec<Sensors>> = seen.collect();
    let seen: Vec<&[Sensors]> = seen.iter().map(|groups| &groups[..]).collect();
    let codes = design.parts.encode(entries, &seen)?;
    Ok(codes.into_iter().map(Cow::Owned).collect())
}

/// Where the image of a sample is asked, and what is the answer there.
fn image(
    queries: Arc<Rows>,
    mut targets: Rows,
    symmetry: Option<&Symmetry>,
    ends: &[[f64; 2]],
) -> Asked {
    let Some(symmetry) = symmetry else {
        return Asked::Values { queries, targets };
    };
    let mut places = Arc::unwrap_or_clone(queries);
    let width = places.width();
    for point in places.data_mut().chunks_exact_mut(width) {
        symmetry.move_point(point, ends);
    }
    symmetry.turn_sign(targets.data_mut());
    Asked::Values {
        queries: Arc::new(places),
        targets,
    }
}
