//! A trained network that answers: sensors in, values at any queries out, in physical units.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::tensor::{DType, Device, Tensor};

use crate::data::{Channel, Meta, Rows, Sample};
use crate::error::{Error, Result};
use crate::images::Images;
use crate::models::{Inputs, Model, Params, Sets, Weights, rows_tensor, to_vec};

/// The file in a run's folder that is read when the folder is named.
pub const BEST: &str = "best.safetensors";
/// Sensors (or points of a core's grid) that go through a network at a time.
const SENSORS: usize = 1 << 16;
/// Queries that go through a trunk at a time.
const QUERIES: usize = 1 << 14;
/// Numbers of τ that are kept for the next samples with the same queries.
const KEPT: usize = 1 << 28;

/// A place is outside of a box if it is further away than this share of its extent.
const SLACK: f64 = 0.01;

/// τ at some queries, part by part.
type Functions = (Arc<Rows>, Vec<Tensor<2>>);

/// A network with its weights, ready to answer.
pub struct Predictor {
    weights: Weights,
    params: Params,
    device: Device,
    images: Option<Images>,
    /// Samples are often asked at the same queries: τ there is worked out once.
    kept: Mutex<Option<Functions>>,
}

impl Predictor {
    /// From a weights file (`.safetensors`), or from the best weights of a run's folder.
    pub fn load(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Weights::load(path).map(Self::new);
        }
        let best = path.join(BEST);
        if !best.exists() {
            let what = format!(
                "holds no {BEST}: is it the folder of a training, and has that validated once?"
            );
            return Err(Error::data(path, what));
        }
        Weights::load(&best).map(Self::new)
    }

    pub fn new(weights: Weights) -> Self {
        let device = Device::flex();
        Self {
            params: Params::new(&weights.entries, &device, DType::F32),
            images: Images::of(&weights),
            kept: Mutex::new(None),
            weights,
            device,
        }
    }

    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    pub fn model(&self) -> &Model {
        &self.weights.model
    }

    /// The description of the data it was trained on.
    pub fn meta(&self) -> &Meta {
        &self.weights.meta
    }

    /// The values at `queries` (`q × d_y`) of the function whose sensors stand at `coords` (`m × d`) and read
    /// `values` (`m × d_v`): `q × d_u`.
    pub fn predict(&self, coords: &Rows, values: &Rows, queries: &Rows) -> Result<Rows> {
        let sample = Sample {
            name: None,
            sensor_coords: coords.clone(),
            sensor_values: values.clone(),
            query_coords: Arc::new(queries.clone()),
            targets: Rows::new(1, vec![]),
        };
        Ok(self.predict_samples(&[&sample])?.remove(0))
    }

    /// What is unlike the training data, in words: places outside of their box, values far from all that were seen.
    pub fn doubts(&self, coords: &Rows, values: &Rows, queries: &Rows) -> Vec<String> {
        let mut doubts = Vec::new();
        let meta = self.meta();
        let sides = [
            ("sensor", "sensors", coords, &meta.sensor_coords),
            ("query", "queries", queries, &meta.query_coords),
        ];
        for (one, many, places, channels) in sides {
            let subject = match outside(places, channels) {
                0 => continue,
                1 => format!("1 {one} stands"),
                n => format!("{n} {many} stand"),
            };
            let ends = channels.iter().filter_map(|c| {
                let [lo, hi] = c.range?;
                Some(format!("{} in [{lo}, {hi}]", c.label()))
            });
            let ends: Vec<String> = ends.collect();
            doubts.push(format!(
                "{subject} outside of the box of the training data, {}",
                ends.join(", ")
            ));
        }
        let places = coords
            .iter()
            .map(|p| p.iter().map(|v| v.to_bits()).collect::<Vec<u32>>());
        let again = coords.len() - places.collect::<HashSet<_>>().len();
        if again > 0 {
            doubts.push(format!(
                "{again} of {} sensors stand where another one stands: is the table of one sample only?",
                coords.len()
            ));
        }
        if let Some(scaling) = &self.weights.normalisation {
            let far = scaling
                .sensor_values
                .far(values, self.weights.symmetries.odd);
            if far > 0 {
                doubts.push(format!(
                    "{far} of {} readings are far from all that the network was trained with: is the unit the same?",
                    values.len()
                ));
            }
        }
        doubts
    }

    /// The values at the queries of every sample; its targets are not looked at.
    pub fn predict_samples(&self, samples: &[&Sample]) -> Result<Vec<Rows>> {
        let mut answers = Vec::with_capacity(samples.len());
        let mut start = 0;
        while start < samples.len() {
            let first = samples[start];
            let mut sensors = 0;
            let together = samples[start..].iter().take_while(|s| {
                let own = self.model().rows(s.sensor_coords.len());
                sensors += own;
                same_queries(s, first) && (sensors <= SENSORS || sensors == own)
            });
            let end = start + together.count();
            answers.extend(self.predict_together(&samples[start..end])?);
            start = end;
        }
        Ok(answers)
    }

    /// Samples that share their queries.
    fn predict_together(&self, samples: &[&Sample]) -> Result<Vec<Rows>> {
        let (model, width) = (self.model(), self.meta().widths()[3]);
        let inputs = self.inputs(samples)?;
        let mut answers = vec![Vec::new(); samples.len()];
        let mut deal = |values: Tensor<2>| {
            let values = to_vec(values);
            let share = values.len() / samples.len();
            for (answer, part) in answers.iter_mut().zip(values.chunks(share)) {
                answer.extend_from_slice(part);
            }
        };
        match model.trunk() {
            None => deal(model.forward(&self.params, &inputs)?),
            Some(trunk) => {
                let beta = match &self.images {
                    Some(images) => images.branch(&self.weights, &self.params, inputs)?,
                    None => model.branch(&self.params, &inputs)?.expect("a trunk"),
                };
                let queries = &samples[0].query_coords;
                let known = self.kept.lock().expect("no thread failed with it").clone();
                let known = known.filter(|(at, _)| at == queries);
                let mut made = Vec::new();
                let mut numbers = 0;
                let parts = queries.len().div_ceil(QUERIES);
                for part in 0..parts {
                    let tau = match &known {
                        Some((_, tau)) => tau[part].clone(),
                        None => {
                            let range = part * QUERIES..((part + 1) * QUERIES).min(queries.len());
                            let coords = queries.select(&range.collect::<Vec<usize>>());
                            let coords = rows_tensor(&coords, &self.device, DType::F32);
                            trunk.functions(&self.params, coords)
                        }
                    };
                    numbers += tau.dims().iter().product::<usize>();
                    if known.is_none() && numbers <= KEPT {
                        made.push(tau.clone());
                    }
                    deal(trunk.contract_shared(beta.clone(), tau));
                }
                if made.len() == parts {
                    let mut kept = self.kept.lock().expect("no thread failed with it");
                    *kept = Some((queries.clone(), made));
                }
            }
        }
        let mut answers: Vec<Rows> = answers.into_iter().map(|a| Rows::new(width, a)).collect();
        if let Some(scaling) = &self.weights.normalisation {
            answers.iter_mut().for_each(|a| scaling.targets.invert(a));
        }
        let finite = |a: &Rows| a.data().iter().all(|v| v.is_finite());
        match answers.iter().all(finite) {
            true => Ok(answers),
            false => Err(Error::Numerics(
                "the network's answers are not finite: do sensors or queries stand far outside of the box of the training data?"
                    .into(),
            )),
        }
    }

    fn inputs(&self, samples: &[&Sample]) -> Result<Inputs> {
        let [d, d_v, ..] = self.meta().widths();
        let (mut coords, mut values) = (Rows::new(d, vec![]), Rows::new(d_v, vec![]));
        let mut offsets = vec![0];
        for sample in samples {
            if let Some((part, what)) = sample.fault_in_question(self.meta().widths()) {
                return Err(Error::Setting(format!("{part} {what}")));
            }
            if let Some(scaling) = &self.weights.normalisation {
                scaling.check(sample)?;
            }
            let prepared = self.model().prepare(&self.weights.entries, sample)?;
            coords.extend(&prepared.sensor_coords);
            values.extend(&prepared.sensor_values);
            offsets.push(coords.len());
        }
        if let Some(scaling) = &self.weights.normalisation {
            scaling.sensor_values.apply(&mut values);
        }
        // Trunks are asked part by part, later.
        let queries = match self.model().answers_at_sensors() {
            true => (*samples[0].query_coords).clone(),
            false => samples[0].query_coords.select(&[0]),
        };
        Ok(Inputs {
            sensor_coords: rows_tensor(&coords, &self.device, DType::F32),
            sensor_values: rows_tensor(&values, &self.device, DType::F32),
            sensors: Sets::new(offsets, &self.device),
            query_coords: rows_tensor(&queries, &self.device, DType::F32),
            queries: None,
            fits: None,
        })
    }

    /// The weights ω_j of VIDON's heads at the sample's sensors, one vector a head; none for other networks.
    pub fn head_weights(&self, sample: &Sample) -> Result<Option<Vec<Vec<f64>>>> {
        let inputs = self.inputs(&[sample])?;
        Ok(self
            .model()
            .head_weights(&self.params, &inputs)
            .map(|weights| {
                let [_, heads] = weights.dims();
                let weights = to_vec(weights);
                let head = |h: usize| {
                    weights
                        .iter()
                        .skip(h)
                        .step_by(heads)
                        .map(|w| *w as f64)
                        .collect()
                };
                (0..heads).map(head).collect()
            }))
    }
}

/// How many places are outside of the ranges.
fn outside(places: &Rows, channels: &[Channel]) -> usize {
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
