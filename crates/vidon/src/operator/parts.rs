//! Encoders, core and decoder put together: from scaled sensors and queries to scaled answers,
//!
//!   v(y) = decoder( core( encoder_1(sensors), … ), y ).
//!
//! No units and no files; the numbers are in [`Params`].

use std::borrow::Cow;
use std::sync::Arc;

use vidon_kernels::available_memory;

use crate::config::ModelConfig;
use crate::cores::{Core, CoreConfig, Training};
use crate::data::{Group, Meta, Rows, ScaledSample, Sensors};
use crate::decoders::{Contraction, Decoder};
use crate::encoders::{Encoded, Encoder, EncoderConfig};
use crate::error::{Error, Result};
use crate::memory::Need;
use crate::network::{Entry, Extent, Init, Key, Params, Plan, Sets, Tensor};
use crate::rng::stream;
use crate::sensors::Layout;
use crate::spaces::{Basis, FittedBasis, Symmetries, Symmetry};
use crate::start::{Field, FieldKeys, LinearKeys, LinearMap, StartConfig};

/// Bytes that a training takes for every number: where it started, on the device and at its best, gradient, two
/// moments, a running mean, and three copies of what a checkpoint has while it is written.
const TRAINED: usize = 80;

/// What every encoder made of one sample.
pub(crate) type Code = Vec<Encoded>;

#[derive(Debug)]
pub(crate) struct Parts {
    config: ModelConfig,
    encoders: Vec<Box<dyn Encoder>>,
    /// The group of sensors that every encoder takes, among those of a sample.
    groups: Vec<usize>,
    /// Coordinates of every group that has covariates behind them.
    axes: Vec<Option<usize>>,
    core: Box<dyn Core>,
    pub decoder: Decoder,
    start: Option<Start>,
}

/// What the network corrects, and the factor g of the correction.
#[derive(Debug)]
struct Start {
    from: Source,
    gate: Key,
}

#[derive(Debug)]
enum Source {
    /// A field, and which group it sees.
    Field(Box<FieldKeys>, usize),
    Linear(LinearKeys),
}

/// Where a batch is asked.
pub(crate) struct Queries {
    pub places: Rows,
    /// Which of the places are whose; none where all samples are asked at all of them.
    pub offsets: Option<Vec<usize>>,
}

impl Queries {
    /// Places that all samples share are kept once.
    pub fn new(samples: &[Arc<Rows>]) -> Self {
        let first = &samples[0];
        let same = |q: &Arc<Rows>| Arc::ptr_eq(q, first) || q == first;
        if samples[1..].iter().all(same) {
            return Self {
                places: (**first).clone(),
                offsets: None,
            };
        }
        let (mut places, mut offsets) = (Rows::of(first.width(), vec![]), vec![0]);
        for own in samples {
            places.extend(own);
            offsets.push(places.len());
        }
        Self {
            places,
            offsets: Some(offsets),
        }
    }
}

fn refuse(config: &ModelConfig, what: String) -> Error {
    Error::setting("model", format!("{}: {what}", config.name().name()))
}

impl Parts {
    /// The network for such data and its starting numbers, a function of the seed. Refuses one that memory
    /// has no room to train.
    pub fn new(config: &ModelConfig, meta: &Meta, seed: u64) -> Result<(Self, Vec<Entry>)> {
        let (parts, plan) = Self::plan(available_memory() / TRAINED, config, meta, seed)?;
        let numbers = plan.numbers();
        let trained = Need::of(numbers, TRAINED).check();
        trained.map_err(|what| {
            refuse(
                config,
                format!("to be trained its {numbers} numbers {what}"),
            )
        })?;
        Ok((parts, plan.draw()))
    }

    /// The same for numbers that are known, of which there are no more than `most`.
    pub fn with_at_most(
        most: usize,
        config: &ModelConfig,
        meta: &Meta,
    ) -> Result<(Self, Vec<Entry>)> {
        let (parts, plan) = Self::plan(most, config, meta, 0)?;
        match plan.numbers() {
            numbers if numbers <= most => Ok((parts, plan.draw())),
            numbers => {
                let what = format!("it has {numbers} numbers, and the file no room for so many");
                Err(refuse(config, what))
            }
        }
    }

    /// The parts, and the numbers that they want.
    fn plan(most: usize, config: &ModelConfig, meta: &Meta, seed: u64) -> Result<(Self, Plan)> {
        let refuse = |what: String| refuse(config, what);
        if let Some(fault) = meta.fault() {
            return Err(refuse(format!("the description of the data {fault}")));
        }
        if let Some(fault) = config.fault(meta) {
            return Err(refuse(fault));
        }
        let groups = config.groups(meta).map_err(refuse)?;
        let mut plan = Plan::new(stream(seed, "model", 0), most);
        let standardised = matches!(config.core, CoreConfig::Mlp(_));
        let encoders = config.encoders.iter().zip(&groups).map(|(encoder, &g)| {
            let group = &meta.groups[g];
            // Where there is one group its numbers need not say whose they are.
            let prefix = match meta.groups.len() {
                1 => String::new(),
                _ => format!("{}.", group.name),
            };
            encoder.build(&mut plan, &prefix, group, standardised)
        });
        let encoders: Vec<Box<dyn Encoder>> = encoders.collect();
        let (decoder, targets) = (&config.decoder, meta.targets.len());
        let known = meta.query_coords.len();
        let answer = decoder.functions(known);
        let answer = (decoder.inputs(known, targets), answer.as_ref());
        let core = config.core.build(&mut plan, &encoders, answer, meta);
        let decoder = decoder.build(&mut plan, known, targets);
        let start = config.start.as_ref().map(|start| Start {
            from: match start {
                StartConfig::Field(field) => {
                    let group = field.group_among(&meta.groups);
                    let group = group.expect("checked with the rest");
                    Source::Field(Box::new(FieldKeys::new(&mut plan, field, meta)), group)
                }
                StartConfig::Linear(_) => {
                    let seen = encoders
                        .iter()
                        .fold(0usize, |n, e| n.saturating_add(e.outputs()));
                    Source::Linear(LinearKeys::new(
                        &mut plan,
                        seen,
                        config.decoder.inputs(known, targets),
                    ))
                }
            },
            gate: plan.add("start.gate".into(), &[1], Init::Zero),
        });
        let axes = |group: &Group| {
            let axes = group.coordinates().len();
            (axes < group.coords.len()).then_some(axes)
        };
        let parts = Self {
            config: config.clone(),
            encoders,
            groups,
            axes: meta.groups.iter().map(axes).collect(),
            core,
            decoder,
            start,
        };
        Ok((parts, plan))
    }

    /// What encoders, core and decoder take for so many samples, with so many sensors and queries in all:
    /// values, and as much again on the way back.
    pub fn need(&self, samples: usize, sensors: usize, queries: usize) -> Need {
        let core = self.core.activations(samples, sensors).into_iter().max();
        let seen = self.encoders.iter().map(|e| {
            let sensor = sensors.saturating_mul(e.widest());
            sensor.saturating_add(samples.saturating_mul(e.outputs()))
        });
        let asked = self
            .contraction()
            .map_or(0, |c| queries.saturating_mul(c.width()));
        let numbers = seen.chain(core).chain([asked]);
        numbers.fold(Need::default(), |all, own| {
            all.and(Need::of(own, 2 * size_of::<f32>()))
        })
    }

    /// What is kept of so many samples: the numbers that encoders make of them.
    pub fn kept(&self, samples: usize) -> Need {
        let encoders = self.encoders.iter();
        let numbers = encoders.fold(0usize, |all, e| all.saturating_add(e.outputs()));
        Need::of(samples.saturating_mul(numbers), size_of::<f32>())
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Every encoder with what it sees of every sample.
    fn seen<'a>(
        &'a self,
        samples: &[&'a [Sensors]],
    ) -> impl Iterator<Item = (&'a dyn Encoder, usize, Vec<Cow<'a, Sensors>>)> {
        let pairs = self.encoders.iter().zip(&self.groups);
        pairs.map(move |(encoder, &group)| {
            let own = |groups: &&'a [Sensors]| match self.axes[group] {
                Some(axes) if !encoder.sees_covariates() => groups[group].without_covariates(axes),
                _ => Cow::Borrowed(&groups[group]),
            };
            (&**encoder, group, samples.iter().map(own).collect())
        })
    }

    /// Stores the field that the network is to correct.
    pub fn set_field(&self, entries: &mut [Entry], field: &Field) {
        if let Some(Source::Field(keys, _)) = self.start.as_ref().map(|s| &s.from) {
            keys.set(entries, field);
        }
    }

    /// The field that the network corrects, if it does.
    pub fn field(&self, entries: &[Entry], meta: &Meta) -> Option<Field> {
        match &self.start.as_ref()?.from {
            Source::Field(keys, _) => Some(keys.field(entries, meta)),
            Source::Linear(_) => None,
        }
    }

    /// Stores the linear map that the core is to correct.
    pub fn set_linear(&self, entries: &mut [Entry], map: &LinearMap) {
        if let Some(Source::Linear(keys)) = self.start.as_ref().map(|s| &s.from) {
            keys.set(entries, map);
        }
    }

    /// A correction of a field as it counts: g times what the network gives.
    pub fn gated(&self, params: &Params, given: Tensor<2>) -> Tensor<2> {
        match &self.start {
            Some(Start {
                from: Source::Field(..),
                gate,
            }) => given * params.get::<1>(*gate).unsqueeze(),
            _ => given,
        }
    }

    /// Numbers that every encoder makes of a sample.
    pub fn outputs(&self) -> Vec<usize> {
        self.encoders.iter().map(|e| e.outputs()).collect()
    }

    /// The only encoder's functions, where that is all there is to know of a sample.
    pub fn only_basis(&self, entries: &[Entry]) -> Option<FittedBasis<'_>> {
        match &self.encoders[..] {
            [only] => only.fitted(entries),
            _ => None,
        }
    }

    /// Finds what the parts take from training data before training: priors, means and spreads, places, functions.
    pub fn fit(
        &self,
        entries: &mut [Entry],
        groups: &[Group],
        training: &[ScaledSample],
    ) -> Result<()> {
        let samples: Vec<&[Sensors]> = training.iter().map(|s| &s.groups[..]).collect();
        let mut seen = Vec::new();
        for (encoder, group, own) in self.seen(&samples) {
            let sensors: Vec<&Sensors> = own.iter().map(|s| &**s).collect();
            encoder.fit(entries, groups[group].coordinates(), &sensors)?;
            seen.extend(encoder.function_moments(entries, &sensors));
        }
        if let Decoder::Contraction(c) = &self.decoder {
            c.functions.fit(entries, training)?;
        }
        let training = Training {
            samples: training,
            answer: self.decoder.fitted(entries),
            seen,
        };
        self.core.fit(entries, &training)
    }

    /// What never changes for the sensors of every sample.
    pub fn encode(&self, entries: &[Entry], samples: &[&[Sensors]]) -> Result<Vec<Code>> {
        let mut codes: Vec<Code> = vec![Vec::new(); samples.len()];
        for (encoder, _, own) in self.seen(samples) {
            let sensors: Vec<&Sensors> = own.iter().map(|s| &**s).collect();
            let encoded = encoder.encode_all(entries, &sensors)?;
            codes.iter_mut().zip(encoded).for_each(|(c, e)| c.push(e));
        }
        Ok(codes)
    }

    /// What the core gives for a batch: β `[samples, p]`, or `[samples·points, d_u]` on a grid.
    pub fn branch(&self, params: &Params, codes: &[&Code]) -> Result<Tensor<2>> {
        let grid = match &codes[0][0] {
            Encoded::Grid { shape, .. } => Some(&shape[..]),
            _ => None,
        };
        let other = |code: &&Code| match (&code[0], &codes[0][0]) {
            (Encoded::Grid { sensors: a, .. }, Encoded::Grid { sensors: b, .. }) => {
                a.coords != b.coords
            }
            _ => false,
        };
        if codes.iter().any(other) {
            return Err(Error::Unsuitable(
                "FNO needs sensors on one regular grid: samples have different grids. VIDON takes any sensors".into(),
            ));
        }
        let encoders = self.encoders.iter().enumerate();
        let seen = encoders.map(|(i, encoder)| {
            let own: Vec<&Encoded> = codes.iter().map(|code| &code[i]).collect();
            encoder.forward(params, &own)
        });
        let given = self.core.forward(params, seen.collect(), grid)?;
        Ok(match &self.start {
            Some(Start {
                from: Source::Linear(keys),
                gate,
            }) => keys.forward(params, codes) + given * params.get::<1>(*gate).unsqueeze(),
            _ => given,
        })
    }

    /// The answers of a batch, a row a query, sample by sample.
    pub fn forward(
        &self,
        params: &Params,
        codes: &[&Code],
        queries: &Queries,
    ) -> Result<Tensor<2>> {
        let Some(contraction) = self.contraction() else {
            self.check_grid(codes, queries)?;
            return self.branch(params, codes);
        };
        let beta = self.branch(params, codes)?;
        let place = params.place();
        let tau = contraction
            .functions
            .at(params, place.rows(queries.places.clone()));
        let found = match &queries.offsets {
            None => contraction.shared(beta, tau),
            Some(offsets) => {
                contraction.ragged(beta, tau, &Sets::new(offsets.clone(), &place.device))
            }
        };
        Ok(self.gated(params, found))
    }

    /// Answers on a grid are asked for at its points.
    pub fn check_grid(&self, codes: &[&Code], queries: &Queries) -> Result<()> {
        let asked = |i: usize| match &queries.offsets {
            None => queries.places.data(),
            Some(offsets) => {
                let width = queries.places.width();
                &queries.places.data()[offsets[i] * width..offsets[i + 1] * width]
            }
        };
        let elsewhere = |(i, code): (usize, &&Code)| match &code[0] {
            Encoded::Grid { sensors, .. } => sensors.coords.data() != asked(i),
            _ => false,
        };
        match codes.iter().enumerate().any(elsewhere) {
            false => Ok(()),
            true => Err(Error::Unsuitable(
                "FNO needs sensors on one regular grid, and is asked on that grid (layout regular): sensors and queries are not the same points. VIDON takes any sensors and queries".into(),
            )),
        }
    }

    /// What β is contracted with.
    pub fn contraction(&self) -> Option<&Contraction> {
        self.decoder.contraction()
    }

    /// The bases of encoders that give functions by their coefficients, where no encoder has learned weights.
    pub fn seen_bases(&self) -> Option<Vec<&Basis>> {
        let learned = |e: &EncoderConfig| matches!(e, EncoderConfig::Heads(_));
        let bases: Vec<&Basis> = self.encoders.iter().filter_map(|e| e.basis()).collect();
        let fixed = !bases.is_empty() && !self.config.encoders.iter().any(learned);
        fixed.then_some(bases)
    }

    /// Whether codes can be transformed by such symmetries, in place of the sensors.
    pub fn has_symmetries(&self, symmetries: Symmetries, groups: &[Group]) -> bool {
        let mut encoders = self.encoders.iter().zip(&self.groups);
        encoders.all(|(e, &g)| e.has_symmetries(symmetries, groups[g].coordinates()))
    }

    pub fn transform(&self, code: &mut Code, symmetry: &Symmetry, ends: &[[f64; 2]]) {
        for (encoder, encoded) in self.encoders.iter().zip(code) {
            encoder.transform(encoded, symmetry, ends);
        }
    }

    /// Whether any part of a sample's sensors will do.
    pub fn takes_any_sensors(&self) -> bool {
        let kriged = |e: &EncoderConfig| matches!(e, EncoderConfig::Krige(_));
        self.layouts().contains(&Layout::Variable) && !self.config.encoders.iter().any(kriged)
    }

    /// The layouts this network can learn from.
    pub fn layouts(&self) -> Vec<Layout> {
        let takes = |layout: &Layout| self.encoders.iter().all(|e| e.layouts().contains(layout));
        Layout::ALL.into_iter().filter(takes).collect()
    }

    /// Rows that a sample with so many sensors has on its widest way through the network.
    pub fn rows(&self, sensors: usize) -> usize {
        sensors.max(self.core.rows())
    }

    /// How far projections miss readings that they do not see, as a share of their spread, group by group.
    pub fn left_out(&self, entries: &[Entry], samples: &[&[Sensors]]) -> Vec<(usize, f64)> {
        let missed = self.seen(samples).filter_map(|(encoder, group, own)| {
            let sensors: Vec<&Sensors> = own.iter().map(|s| &**s).collect();
            Some((group, encoder.left_out(entries, &sensors)?))
        });
        missed.collect()
    }

    /// What projections make of the covariates of their sensors, in words, group by group.
    pub fn drifts(&self, entries: &[Entry]) -> Vec<(usize, String)> {
        let encoders = self.encoders.iter().zip(&self.groups);
        let drifts = encoders.filter_map(|(e, &g)| Some((g, e.drift(entries)?)));
        drifts.collect()
    }

    /// A group whose covariates are fitted, as functions of places that stay what they are.
    pub fn drifting(&self) -> Option<usize> {
        let mut encoders = self.encoders.iter().zip(&self.groups);
        let drifting = encoders.find(|(e, _)| e.basis().is_some() && e.sees_covariates());
        drifting.map(|(_, &group)| group)
    }

    /// Groups that no encoder takes.
    pub fn unseen(&self, groups: &[Group]) -> Vec<usize> {
        let unseen = (0..groups.len()).filter(|g| !self.groups.contains(g));
        unseen.collect()
    }

    /// Whether anything in it sees the covariates of this group's sensors, or (of none) of queries.
    pub fn sees_covariates(&self, group: Option<usize>) -> bool {
        let field = match self.start.as_ref().map(|s| &s.from) {
            Some(Source::Field(_, seen)) => Some(*seen),
            _ => None,
        };
        match group {
            _ if field.is_some() && (group.is_none() || group == field) => true,
            Some(group) => {
                let mut encoders = self.encoders.iter().zip(&self.groups);
                encoders.any(|(e, &g)| g == group && e.sees_covariates())
            }
            None => self
                .contraction()
                .is_some_and(|c| c.functions.sees_covariates()),
        }
    }

    /// The weights of the heads at one sample's sensors, `[sensors, heads]`, and the group where they stand.
    pub fn head_weights(&self, params: &Params, code: &Code) -> Option<(usize, Vec<f32>)> {
        let mut all = self.encoders.iter().zip(&self.groups).zip(code);
        all.find_map(|((encoder, &group), encoded)| {
            Some((group, encoder.head_weights(params, encoded)?))
        })
    }

    /// Numbers of activations that each operation of a training step may keep, for so many samples, with so many
    /// sensors and (unshared) queries in all.
    pub fn activations(&self, samples: usize, sensors: usize, queries: usize) -> Vec<usize> {
        let encoders = self.encoders.iter();
        let mut all: Vec<usize> = encoders.flat_map(|e| e.activations(sensors)).collect();
        all.extend(self.core.activations(samples, sensors));
        all.extend(self.contraction().map(|c| queries * c.functions.hidden()));
        all
    }

    /// Branch and trunk as the paper measures them, where there are such.
    pub fn branch_and_trunk(&self) -> Option<[Extent; 2]> {
        let trunk = self.contraction()?.functions.extent();
        let encoders = self.encoders.iter().map(|e| e.extent());
        let encoders = encoders.fold(Extent::default(), Extent::and);
        Some([encoders.and(self.core.extent()), trunk])
    }
}
