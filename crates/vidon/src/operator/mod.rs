//! An operator: scaling, encoders, core and decoder with their numbers. The one way from physical samples to
//! physical answers, for training, evaluation and prediction alike:
//!
//!   sample → transform → start, and scale → encode (kept) → core → decode → scale back → transform back.

mod file;
mod parts;
mod symmetry_average;

pub(crate) use parts::{Code, Parts, Queries};

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use crate::config::{ModelConfig, ModelName};
use crate::data::{
    Channel, Group, Kind, Meta, Rows, Sample, ScaledSample, Scaling, Sensors, Transforms,
    scale_covariates,
};
use crate::encoders::Encoded;
use crate::error::{Error, Result};
use crate::memory::Need;
use crate::network::{Entry, Extent, Params, Place, Tensor, device, to_vec};
use crate::operator::symmetry_average::SymmetryAverage;
use crate::sensors::Layout;
use crate::spaces::Symmetries;
use crate::start::Field;

/// Sensors (or points of a core's grid) that go through a network at a time.
const SENSORS: usize = 1 << 16;
/// Queries that go through a decoder at a time, unless their τ has more numbers than this.
const QUERIES: usize = 1 << 14;
const ASKED: usize = 1 << 26;
/// Numbers of τ that are kept for the next samples with the same queries.
const KEPT: usize = 1 << 28;
/// A place is outside of a box if it is further away than this share of its extent.
const SLACK: f64 = 0.01;

/// τ at some queries, part by part.
type KeptFunctions = (Arc<Rows>, Vec<Tensor<2>>);

/// What does not change while an operator learns.
#[derive(Debug)]
pub(crate) struct Design {
    pub parts: Parts,
    /// The description of the data it was made for.
    pub meta: Meta,
    /// The units in which it learns.
    pub transforms: Transforms,
    /// None where the network sees the numbers as they are, or as they are transformed.
    pub scaling: Option<Scaling>,
    /// Those that it learns with.
    pub symmetries: Symmetries,
    average: Option<SymmetryAverage>,
}

impl Design {
    pub fn new(
        parts: Parts,
        meta: Meta,
        transforms: Transforms,
        scaling: Option<Scaling>,
        symmetries: Symmetries,
    ) -> Arc<Self> {
        let average = SymmetryAverage::of(&parts, symmetries, &meta, scaling.as_ref());
        Arc::new(Self {
            parts,
            meta,
            transforms,
            scaling,
            symmetries,
            average,
        })
    }

    /// Of a network that sees physical units.
    pub fn plain(parts: Parts, meta: Meta) -> Arc<Self> {
        let none = Transforms::default();
        Self::new(parts, meta, none, None, Symmetries::default())
    }
}

/// An operator that answers: sensors in, values at any queries out, in physical units.
pub struct Operator {
    design: Arc<Design>,
    entries: Vec<Entry>,
    params: Params,
    /// What the network corrects.
    start: Option<Field>,
    /// Samples are often asked at the same queries: τ there is worked out once.
    kept: Mutex<Option<KeptFunctions>>,
    /// The largest batch that there was room for.
    most: Mutex<Need>,
}

impl Operator {
    /// With starting numbers, a function of the seed, and what the parts take from the samples.
    pub fn untrained(
        config: &ModelConfig,
        meta: Meta,
        samples: &[Sample],
        seed: u64,
    ) -> Result<Self> {
        let (parts, mut entries) = Parts::new(config, &meta, seed)?;
        let samples: Vec<ScaledSample> = samples.iter().cloned().map(Into::into).collect();
        parts.fit(&mut entries, &meta.groups, &samples)?;
        let design = Design::plain(parts, meta);
        Ok(Self::with_numbers(design, entries))
    }

    pub(crate) fn with_numbers(design: Arc<Design>, entries: Vec<Entry>) -> Self {
        Self {
            params: Params::new(&entries, &Place::single(device())),
            start: design.parts.field(&entries, &design.meta),
            design,
            entries,
            kept: Mutex::new(None),
            most: Mutex::default(),
        }
    }

    pub fn config(&self) -> &ModelConfig {
        self.design.parts.config()
    }

    pub fn name(&self) -> ModelName {
        self.config().name()
    }

    /// The description of the data it was trained on.
    pub fn meta(&self) -> &Meta {
        &self.design.meta
    }

    /// None where the network sees the numbers as they are, or as they are transformed.
    pub(crate) fn scaling(&self) -> Option<&Scaling> {
        self.design.scaling.as_ref()
    }

    /// All numbers, by name.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Names and shapes of all tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.entries.iter().map(|e| (&e.name[..], &e.shape[..]))
    }

    pub(crate) fn design(&self) -> &Arc<Design> {
        &self.design
    }

    /// All that is stored with the tensors: network, data, transforms, scaling and symmetries.
    pub fn description(&self) -> serde_json::Value {
        serde_json::to_value(self.header()).expect("plain JSON")
    }

    /// Numbers that were learned.
    pub fn parameters(&self) -> usize {
        let trained = self.entries.iter().filter(|e| e.trained);
        trained.map(|e| e.values.len()).sum()
    }

    /// Depth, width and size of branch and trunk, as the paper's remark on size defines them, where there are
    /// such.
    pub fn branch_and_trunk(&self) -> Option<[[usize; 3]; 2]> {
        let both = self.design.parts.branch_and_trunk()?;
        Some(both.map(|Extent { depth, width, size }| [depth, width, size]))
    }

    /// An error that says which layouts it can do, if `layout` is not among them.
    pub fn check_layout(&self, layout: Layout) -> Result<()> {
        self.design.check_layout(layout)
    }

    /// Whether it answers on the grid of its sensors only.
    pub fn answers_at_sensors(&self) -> bool {
        self.design.parts.contraction().is_none()
    }

    /// The values at `queries` (`q × d_y`) of the function whose sensors stand at `coords` (`m × d`) and read
    /// `values` (`m × d_v`): `q × d_u`. For operators of one group of sensors.
    pub fn predict(&self, coords: &Rows, values: &Rows, queries: &Rows) -> Result<Rows> {
        let sensors = Sensors {
            coords: coords.clone(),
            values: values.clone(),
        };
        self.predict_groups(vec![sensors], queries)
    }

    /// The same for any number of groups, in the order of the description.
    pub fn predict_groups(&self, groups: Vec<Sensors>, queries: &Rows) -> Result<Rows> {
        let targets = self.meta().targets.len();
        let sample = Sample::asking(groups, Arc::new(queries.clone()), targets);
        Ok(self.predict_samples(&[&sample])?.remove(0))
    }

    /// The values at the queries of every sample; its targets are not looked at. No bit of an answer depends
    /// on what else is asked at the same time.
    pub fn predict_samples(&self, samples: &[&Sample]) -> Result<Vec<Rows>> {
        let mut answers = Vec::with_capacity(samples.len());
        for group in self.groups(samples) {
            let codes = self.encode(group.start, &samples[group.clone()])?;
            self.check_room(&codes)?;
            answers.extend(self.answer(&codes, &samples[group.start].query_coords)?);
        }
        self.add_start(&mut answers, samples)?;
        self.in_physical_units(answers)
    }

    /// An error where memory has no room for such a batch. What had room once has it again: memory that was
    /// freed may stay with the program.
    fn check_room(&self, codes: &[Code]) -> Result<()> {
        let sensors = codes
            .iter()
            .flat_map(|code| code.iter().map(Encoded::sensors));
        let need = self.design.parts.need(codes.len(), sensors.sum(), 0);
        let mut most = self.most.lock().expect("no thread failed with it");
        if need > *most {
            need.check().map_err(|what| {
                let (name, samples) = (self.name().name(), codes.len());
                Error::Unsuitable(format!("{name} on {samples} samples at a time {what}"))
            })?;
            *most = need;
        }
        Ok(())
    }

    /// The same for samples that were encoded before, in the units in which it learns.
    pub(crate) fn answer_encoded(&self, codes: &[Code], samples: &[&Sample]) -> Result<Vec<Rows>> {
        let mut answers = Vec::with_capacity(samples.len());
        for group in self.groups(samples) {
            let queries = &samples[group.start].query_coords;
            answers.extend(self.answer(&codes[group], queries)?);
        }
        self.add_start(&mut answers, samples)?;
        Ok(answers)
    }

    /// Answers out of the units in which it learns: the mean of what the truth may be.
    pub(crate) fn in_physical_units(&self, mut answers: Vec<Rows>) -> Result<Vec<Rows>> {
        let transforms = &self.design.transforms;
        transforms.means_back(&mut answers, transforms.stored(&self.entries));
        all_finite(answers)
    }

    /// What the answers correct.
    fn add_start(&self, answers: &mut [Rows], samples: &[&Sample]) -> Result<()> {
        let Some(start) = &self.start else {
            return Ok(());
        };
        let pairs = answers.par_iter_mut().zip(samples).enumerate();
        pairs.try_for_each(|(i, (answer, sample))| {
            let groups = self.design.transformed(i, &sample.groups)?;
            let found = start.predict(&groups, &sample.query_coords);
            answer.add(&found.map_err(|e| Error::sample(i, e.to_string()))?);
            Ok(())
        })
    }

    /// Samples that are asked at the same queries and fit through the network together.
    fn groups(&self, samples: &[&Sample]) -> Vec<Range<usize>> {
        let mut groups = Vec::new();
        let mut start = 0;
        while start < samples.len() {
            let mut sensors = 0;
            let together = samples[start..].iter().take_while(|s| {
                let all = s.groups.iter().map(Sensors::len).sum();
                let own = self.design.parts.rows(all);
                sensors += own;
                same_queries(s, samples[start]) && (sensors <= SENSORS || sensors == own)
            });
            let end = start + together.count();
            groups.push(start..end);
            start = end;
        }
        groups
    }

    /// What the encoders make of samples, the first of which has this index.
    pub(crate) fn encode(&self, first: usize, samples: &[&Sample]) -> Result<Vec<Code>> {
        let mut scaled = Vec::with_capacity(samples.len());
        for (i, sample) in samples.iter().enumerate() {
            let index = first + i;
            if let Some((part, what)) = sample.fault_in_question(self.meta()) {
                let what = format!("{part} {what}");
                return Err(Error::sample(index, what));
            }
            let groups = self.design.transformed(index, &sample.groups)?;
            scaled.push(self.design.scale_groups(index, groups.into_owned())?);
        }
        let groups: Vec<&[Sensors]> = scaled.iter().map(|g| &g[..]).collect();
        let codes = self.design.parts.encode(&self.entries, &groups);
        codes.map_err(|error| match error {
            Error::Sample { role, index, what } => Error::Sample {
                role,
                index: first + index,
                what,
            },
            other => other,
        })
    }

    /// The answers of samples that share their queries.
    fn answer(&self, codes: &[Code], queries: &Arc<Rows>) -> Result<Vec<Rows>> {
        let (parts, width) = (&self.design.parts, self.meta().targets.len());
        let codes: Vec<&Code> = codes.iter().collect();
        let mut answers = vec![Vec::new(); codes.len()];
        let mut deal = |values: Tensor<2>| {
            let values = to_vec(values);
            let share = values.len() / codes.len();
            for (answer, part) in answers.iter_mut().zip(values.chunks(share)) {
                answer.extend_from_slice(part);
            }
        };
        match parts.contraction() {
            None => {
                let queries = Queries::new(std::slice::from_ref(queries));
                deal(parts.forward(&self.params, &codes, &queries)?);
            }
            Some(contraction) => {
                let beta = match &self.design.average {
                    Some(average) => average.branch(parts, &self.params, &codes)?,
                    None => parts.branch(&self.params, &codes)?,
                };
                let width = contraction.width();
                let answers =
                    |tau| parts.gated(&self.params, contraction.shared(beta.clone(), tau));
                if queries.len().saturating_mul(width) <= KEPT {
                    for tau in self.functions(queries) {
                        deal(answers(tau));
                    }
                } else {
                    for part in self.parts_of(queries.len()) {
                        deal(answers(self.functions_at(queries, &part)));
                    }
                }
            }
        }
        let mut answers: Vec<Rows> = answers.into_iter().map(|a| Rows::of(width, a)).collect();
        if let Some(scaling) = self.scaling() {
            answers.iter_mut().for_each(|a| scaling.targets.invert(a));
        }
        all_finite(answers)
    }

    /// So many queries, as many at a time as a decoder is to look at.
    fn parts_of(&self, queries: usize) -> Vec<Vec<usize>> {
        let contraction = self.design.parts.contraction().expect("functions");
        let at_once = (ASKED / contraction.width()).clamp(1, QUERIES);
        let all: Vec<usize> = (0..queries).collect();
        all.chunks(at_once).map(<[usize]>::to_vec).collect()
    }

    /// τ at some of the queries.
    fn functions_at(&self, queries: &Rows, some: &[usize]) -> Tensor<2> {
        let contraction = self.design.parts.contraction().expect("functions");
        let coords = self.design.scale_places(queries.select(some));
        let places = self.params.place().rows(coords);
        contraction.functions.at(&self.params, places)
    }

    /// τ at the queries, part by part, kept for the next samples that are asked there.
    fn functions(&self, queries: &Arc<Rows>) -> Vec<Tensor<2>> {
        let mut kept = self.kept.lock().expect("no thread failed with it");
        if let Some((places, tau)) = &*kept
            && places == queries
        {
            return tau.clone();
        }
        let parts = self.parts_of(queries.len()).into_iter();
        let tau: Vec<Tensor<2>> = parts
            .map(|part| self.functions_at(queries, &part))
            .collect();
        *kept = Some((queries.clone(), tau.clone()));
        tau
    }

    /// What is unlike the training data in a sample, in words: places outside of their box, values far from all
    /// that were seen.
    pub fn doubts(&self, sample: &Sample) -> Vec<String> {
        let mut doubts = Vec::new();
        let meta = self.meta();
        let several = meta.groups.len() > 1;
        // What cannot be transformed is an error when it is asked.
        let seen = self.design.transforms.readings(&sample.groups).ok();
        for (i, (sensors, group)) in sample.groups.iter().zip(&meta.groups).enumerate() {
            let (one, many) = match (several, group.kind) {
                (false, _) => ("sensor".to_string(), "sensors".to_string()),
                (true, Kind::Points) => (
                    format!("point of {}", group.name),
                    format!("points of {}", group.name),
                ),
                (true, _) => (
                    format!("sensor of {}", group.name),
                    format!("sensors of {}", group.name),
                ),
            };
            doubts.extend(strays(&sensors.coords, &group.coords, [&one, &many]));
            let again = match group.kind {
                Kind::Field => sensors.coords.duplicates(),
                Kind::Points | Kind::Scalars => 0,
            };
            if again > 0 {
                doubts.push(format!(
                    "{again} of {} {many} stand where another one stands: is the table of one sample only? A column that names the samples tells many apart",
                    sensors.len()
                ));
            }
            let silent = |c: &usize| sensors.values.column(*c).all(f32::is_nan);
            for c in (0..group.values.len()).filter(silent) {
                let name = &group.values[c].name;
                match group.kind {
                    Kind::Field => doubts.push(format!(
                        "no {one} reports {name}: the answer goes by the rest; it is better where some do"
                    )),
                    Kind::Scalars => doubts.push(format!(
                        "the parameter {name} is missing: the answer goes by the rest; it is better where it is given"
                    )),
                    // No points at all are an answer.
                    Kind::Points => {}
                }
            }
            let (Some(scaling), Some(seen)) = (self.scaling(), &seen) else {
                continue;
            };
            let centred = self.design.symmetries.odd || group.kind == Kind::Points;
            let far = scaling.groups[i].far(&seen[i].values, centred);
            let count = sensors.values.len();
            match (far, group.kind) {
                (0, _) => {}
                (_, Kind::Scalars) => doubts.push(format!(
                    "the parameters {} are far from all that the network was trained with: is the unit the same?",
                    group.name
                )),
                _ => doubts.push(format!(
                    "{far} of {count} readings{} are far from all that the network was trained with: is the unit the same?",
                    if several { format!(" of {}", group.name) } else { String::new() }
                )),
            }
        }
        let queries = ["query", "queries"];
        doubts.extend(strays(&sample.query_coords, &meta.query_coords, queries));
        doubts
    }

    /// The weights ω_j of the heads at the sample's sensors, one vector a head, and the group where the sensors
    /// stand; none where there are no heads. A sensor that reports nothing has no weight (NaN).
    pub fn head_weights(&self, sample: &Sample) -> Result<Option<(usize, Vec<Vec<f64>>)>> {
        let code = self.encode(0, &[sample])?.remove(0);
        let weights = self.design.parts.head_weights(&self.params, &code);
        Ok(weights.map(|(group, weights)| {
            let (sensors, meta) = (&sample.groups[group], &self.meta().groups[group]);
            let silent = |i: usize| {
                let row = sensors.values.row(i);
                meta.kind == Kind::Field && row.iter().all(|v| v.is_nan())
            };
            let silent: Vec<bool> = (0..sensors.len()).map(silent).collect();
            let seen = silent.iter().filter(|s| !**s).count();
            let heads = weights.len() / seen;
            let head = |h: usize| {
                let mut own = weights.iter().skip(h).step_by(heads).map(|w| *w as f64);
                let weight = |silent: &bool| match silent {
                    true => f64::NAN,
                    false => own.next().expect("a weight a sensor"),
                };
                silent.iter().map(weight).collect()
            };
            (group, (0..heads).map(head).collect())
        }))
    }
}

impl Design {
    /// An error that says which layouts it can do, if `layout` is not among them.
    pub fn check_layout(&self, layout: Layout) -> Result<()> {
        let can = self.parts.layouts();
        if can.contains(&layout) {
            return Ok(());
        }
        let can: Vec<&str> = can.iter().map(|l| l.name()).collect();
        Err(Error::Unsuitable(format!(
            "{} cannot take the layout {layout}, only {}; VIDON takes every layout",
            self.parts.config().name().name(),
            can.join(" and ")
        )))
    }

    /// Groups of sensors in the units in which it learns; the index of the sample is for errors.
    fn transformed<'a>(&self, index: usize, groups: &'a [Sensors]) -> Result<Cow<'a, [Sensors]>> {
        let found = self.transforms.readings(groups);
        found.map_err(|what| Error::sample(index, what))
    }

    /// Those, as the network sees them: without sensors that report nothing.
    fn scale_groups(&self, index: usize, groups: Vec<Sensors>) -> Result<Vec<Sensors>> {
        let silent = |(own, group): (&Sensors, &Group)| {
            group.kind != Kind::Field || own.values.data().iter().all(|v| v.is_nan())
        };
        let speechless = groups.iter().zip(&self.meta.groups).all(silent);
        let scale = |(i, sensors): (usize, Sensors)| {
            let group = &self.meta.groups[i];
            let mut sensors = match group.kind {
                Kind::Field => sensors.reporting(),
                Kind::Points | Kind::Scalars => sensors,
            };
            // Where others report, a group that has gaps may be silent.
            let needed = speechless || !group.gaps;
            if sensors.is_empty() && group.kind == Kind::Field && needed {
                let what = format!("no sensor of {} reports anything", group.name);
                return Err(Error::sample(index, what));
            }
            if let Some(scaling) = &self.scaling {
                scaling.groups[i].apply(&mut sensors.values);
                scale_covariates(&mut sensors.coords, &group.coords);
            }
            Ok(sensors)
        };
        groups.into_iter().enumerate().map(scale).collect()
    }

    /// Queries as the network sees them.
    fn scale_places(&self, mut places: Rows) -> Rows {
        if self.scaling.is_some() {
            scale_covariates(&mut places, &self.meta.query_coords);
        }
        places
    }

    /// A sample that is transformed already, as the network sees it; its index is for errors.
    pub fn scale(&self, index: usize, sample: Sample) -> Result<ScaledSample> {
        let mut targets = sample.targets;
        if let Some(scaling) = &self.scaling {
            scaling.targets.apply(&mut targets);
        }
        let covariates = self.meta.query_coords.iter().any(|c| c.covariate);
        Ok(ScaledSample {
            groups: self.scale_groups(index, sample.groups)?,
            // Queries that samples share stay one.
            queries: match covariates {
                true => Arc::new(self.scale_places((*sample.query_coords).clone())),
                false => sample.query_coords,
            },
            targets,
        })
    }
}

/// The answers, if they are.
fn all_finite(answers: Vec<Rows>) -> Result<Vec<Rows>> {
    let finite = |a: &Rows| a.data().iter().all(|v| v.is_finite());
    match answers.iter().all(finite) {
        true => Ok(answers),
        false => Err(Error::Numerics(
            "the network's answers are not finite: do sensors or queries stand far outside of the box of the training data?"
                .into(),
        )),
    }
}

/// How many places are outside of their box, in words; one of them and many are called so.
fn strays(places: &Rows, channels: &[Channel], [one, many]: [&str; 2]) -> Option<String> {
    let subject = match outside(places, channels) {
        0 => return None,
        1 => format!("1 {one} stands"),
        n => format!("{n} {many} stand"),
    };
    let ends = channels.iter().filter_map(|c| {
        let [lo, hi] = c.range?;
        let [lo, hi] = [lo, hi].map(|v| v as f32);
        Some(format!("{} in [{lo}, {hi}]", c.label()))
    });
    let ends: Vec<String> = ends.collect();
    Some(format!(
        "{subject} outside of the box of the training data, {}: what is said there is a guess, unless training data reach so far",
        ends.join(", ")
    ))
}

/// How many places are outside of the ranges.
pub(crate) fn outside(places: &Rows, channels: &[Channel]) -> usize {
    let beyond = |(v, c): (&f32, &Channel)| {
        c.range.is_some_and(|[lo, hi]| {
            let (v, slack) = (*v as f64, SLACK * (hi - lo));
            v < lo - slack || v > hi + slack
        })
    };
    let places = places.iter();
    places
        .filter(|p| p.iter().zip(channels).any(beyond))
        .count()
}

fn same_queries(a: &Sample, b: &Sample) -> bool {
    Arc::ptr_eq(&a.query_coords, &b.query_coords) || a.query_coords == b.query_coords
}

#[cfg(test)]
mod tests;
