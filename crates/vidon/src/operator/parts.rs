//! Encoders, core and decoder put together: from scaled sensors and queries to scaled answers,
//!
//!   v(y) = decoder( core( encoder_1(sensors), … ), y ).
//!
//! No units and no files; the numbers are in [`Params`].

use std::sync::Arc;

use crate::config::{MOST_PARAMETERS, ModelConfig};
use crate::cores::Core;
use crate::data::{Channel, Dims, Rows, ScaledSample, Sensors};
use crate::decoders::{Contraction, Decoder};
use crate::encoders::{Encoded, Encoder};
use crate::error::{Error, Result};
use crate::network::{Entry, Extent, Params, Plan, Sets, Tensor};
use crate::rng::stream;
use crate::sensors::Layout;
use crate::spaces::{Basis, Symmetries, Symmetry};

/// What every encoder made of one sample.
pub(crate) type Code = Vec<Encoded>;

#[derive(Debug)]
pub(crate) struct Parts {
    config: ModelConfig,
    encoders: Vec<Box<dyn Encoder>>,
    core: Box<dyn Core>,
    pub decoder: Decoder,
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

impl Parts {
    /// The network and its starting numbers, a function of the seed.
    pub fn new(config: &ModelConfig, dims: Dims, seed: u64) -> Result<(Self, Vec<Entry>)> {
        Self::with_at_most(MOST_PARAMETERS, config, dims, seed)
    }

    /// Refuses a network of more than `limit` numbers before it takes their memory.
    pub fn with_at_most(
        limit: usize,
        config: &ModelConfig,
        dims: Dims,
        seed: u64,
    ) -> Result<(Self, Vec<Entry>)> {
        let refuse =
            |what: String| Error::setting("model", format!("{}: {what}", config.name().name()));
        if let Some(fault) = config.fault(dims) {
            return Err(refuse(fault));
        }
        let mut plan = Plan::new(stream(seed, "model", 0), limit);
        let (coords, values) = (dims.sensor_coords, dims.sensor_values);
        let standardised = matches!(config.core, crate::cores::CoreConfig::Mlp(_));
        let encoders = config.encoders.iter();
        let encoders = encoders.map(|e| e.build(&mut plan, coords, values, standardised));
        let encoders: Vec<Box<dyn Encoder>> = encoders.collect();
        let answer = config.decoder.basis();
        let answer = (config.decoder.inputs(dims.targets), answer.as_ref());
        let core = config.core.build(&mut plan, &encoders, answer, dims);
        let decoder = config
            .decoder
            .build(&mut plan, dims.query_coords, dims.targets);
        if plan.too_large {
            return Err(refuse(format!("more than {limit} numbers")));
        }
        let parts = Self {
            config: config.clone(),
            encoders,
            core,
            decoder,
        };
        Ok((parts, plan.entries))
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Finds what the parts take from training data before training: priors, means and spreads, places, functions.
    pub fn fit(
        &self,
        entries: &mut [Entry],
        coords: &[Channel],
        training: &[ScaledSample],
    ) -> Result<()> {
        let sensors: Vec<&Sensors> = training.iter().map(|s| &s.sensors).collect();
        for encoder in &self.encoders {
            encoder.fit(entries, coords, &sensors)?;
        }
        self.core.fit(entries, training, self.decoder.basis())?;
        match &self.decoder {
            Decoder::Contraction(c) => c.functions.fit(entries, training),
            Decoder::Grid => Ok(()),
        }
    }

    /// What never changes for these sensors, for every sample.
    pub fn encode(&self, entries: &[Entry], sensors: &[&Sensors]) -> Result<Vec<Code>> {
        let mut codes: Vec<Code> = vec![Vec::new(); sensors.len()];
        for encoder in &self.encoders {
            let encoded = encoder.encode_all(entries, sensors)?;
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
        self.core.forward(params, seen.collect(), grid)
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
        Ok(match &queries.offsets {
            None => contraction.shared(beta, tau),
            Some(offsets) => {
                contraction.ragged(beta, tau, &Sets::new(offsets.clone(), &place.device))
            }
        })
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

    /// The basis of a projection that is all the core sees.
    pub fn seen_basis(&self) -> Option<&Basis> {
        match &self.encoders[..] {
            [only] => only.basis(),
            _ => None,
        }
    }

    /// Whether codes can be transformed by such symmetries, in place of the sensors.
    pub fn has_symmetries(&self, symmetries: Symmetries, coords: &[Channel]) -> bool {
        let mut encoders = self.encoders.iter();
        encoders.all(|e| e.has_symmetries(symmetries, coords))
    }

    pub fn transform(&self, code: &mut Code, symmetry: &Symmetry, ends: &[[f64; 2]]) {
        for (encoder, encoded) in self.encoders.iter().zip(code) {
            encoder.transform(encoded, symmetry, ends);
        }
    }

    /// Whether any part of a sample's sensors will do.
    pub fn takes_any_sensors(&self) -> bool {
        self.layouts().contains(&Layout::Variable)
            && !matches!(
                self.config.encoders[0],
                crate::encoders::EncoderConfig::Krige(_)
            )
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

    /// How far a projection misses readings that it does not see, as a share of their spread.
    pub fn left_out(&self, entries: &[Entry], sensors: &[&Sensors]) -> Option<f64> {
        let mut encoders = self.encoders.iter();
        encoders.find_map(|e| e.left_out(entries, sensors))
    }

    /// The weights of the heads at one sample's sensors, `[sensors, heads]`.
    pub fn head_weights(&self, params: &Params, code: &Code) -> Option<Vec<f32>> {
        let mut all = self.encoders.iter().zip(code);
        all.find_map(|(encoder, encoded)| encoder.head_weights(params, encoded))
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
