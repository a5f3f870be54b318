//! One step, in parts: every micro-batch gives an unnormalised loss, what it counts, and the gradients of the
//! sum; a fixed binary tree adds them up; division, clipping and the optimiser come after. So it does not
//! matter who works out which part: the bits are the same.
//!
//!   g = (g_1 ⊕ g_2) ⊕ (g_3 ⊕ g_4) ⊕ …,   step along -g/Σcounts.

use std::time::Instant;

use vidon_kernels::set_memory_limit;

use crate::data::Sample;
use crate::error::Result;
use crate::network::{Params, Tensor, to_vec};
use crate::operator::{Code, Design, Operator, Queries};
use crate::train::batch::{Asked, Order, StepSample, draw};
use crate::train::checkpoint::State;
use crate::train::loss::{LossSum, Measure};
use crate::train::optimiser::Step;
use crate::train::recipe::TrainRecipe;
use crate::train::samples::{Prepared, TrainingSamples};

/// What some samples of a step give.
pub(crate) struct PartialStep {
    pub loss: f64,
    pub count: f64,
    pub gradients: Vec<Option<Tensor<1>>>,
}

impl PartialStep {
    /// Of one micro-batch.
    fn of(
        design: &Design,
        params: &Params,
        measure: Measure,
        samples: &[StepSample],
    ) -> Result<Self> {
        let LossSum { sum, count } = loss(design, params, measure, samples)?;
        let loss = to_vec(sum.clone())[0] as f64;
        let mut all = sum.backward();
        let gradients = params.tensors.iter().map(|p| p.grad_remove(&mut all));
        Ok(Self {
            loss,
            count,
            gradients: gradients.collect(),
        })
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        let pairs = self.gradients.into_iter().zip(other.gradients);
        let sum = |(a, b): (Option<Tensor<1>>, Option<Tensor<1>>)| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        Self {
            loss: self.loss + other.loss,
            count: self.count + other.count,
            gradients: pairs.map(sum).collect(),
        }
    }
}

/// Neighbours together, then neighbouring pairs, and so on.
fn reduce(mut parts: Vec<PartialStep>) -> PartialStep {
    while parts.len() > 1 {
        let mut fewer = Vec::with_capacity(parts.len().div_ceil(2));
        let mut left = parts.into_iter();
        while let Some(a) = left.next() {
            fewer.push(match left.next() {
                Some(b) => a.and(b),
                None => a,
            });
        }
        parts = fewer;
    }
    parts.pop().expect("at least one part")
}

/// The unnormalised loss of some samples.
pub(crate) fn loss(
    design: &Design,
    params: &Params,
    measure: Measure,
    samples: &[StepSample],
) -> Result<LossSum> {
    let codes: Vec<&Code> = samples.iter().map(|s| &*s.code).collect();
    let (mut places, mut truth, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for sample in samples {
        match &sample.asked {
            Asked::Values { queries, targets } => {
                places.push(queries.clone());
                truth.push(targets);
            }
            Asked::Coefficients(coefs) => answers.push(coefs),
        }
    }
    if !answers.is_empty() {
        let beta = design.parts.branch(params, &codes)?;
        let beta = design.parts.gated(params, beta);
        return Ok(measure.of_coefficients(beta, &answers));
    }
    let found = design
        .parts
        .forward(params, &codes, &Queries::new(&places))?;
    Ok(measure.of_values(found, &truth))
}

/// One step of the optimiser; gives the loss, and changes nothing if that is not finite.
pub(crate) fn take_step(
    state: &mut State,
    train: &TrainRecipe,
    design: &Design,
    size: f64,
    samples: &[StepSample],
    rate: f64,
) -> Result<f64> {
    let measure = Measure {
        loss: train.loss,
        scaling: design.scaling.as_ref(),
        size,
    };
    let (count, all) = (train.micro_batches, samples.len());
    let parts = (0..count).map(|i| &samples[i * all / count..(i + 1) * all / count]);
    let parts = parts.filter(|part| !part.is_empty());
    let parts = parts.map(|part| PartialStep::of(design, &state.params, measure, part));
    let whole = reduce(parts.collect::<Result<_>>()?);
    let found = whole.loss / whole.count;
    if !found.is_finite() {
        return Ok(found);
    }
    let step = Step {
        number: state.progress.step + 1,
        rate,
        decay: train.decay,
        share: 1.0 / whole.count,
        clip: train.clip,
    };
    let State {
        params, moments, ..
    } = state;
    train
        .optimiser
        .update(params, moments, whole.gradients, &step);
    state.progress.step += 1;
    Ok(found)
}

/// The seconds that each of so many steps on all the samples takes, the making of the batch included, from the
/// operator's numbers.
pub(super) fn time_steps(
    operator: &Operator,
    samples: &[Sample],
    train: &TrainRecipe,
    steps: usize,
) -> Result<Vec<f64>> {
    if let Some(gigabytes) = train.memory_gb {
        set_memory_limit((1e9 * gigabytes) as usize);
    }
    let design = operator.design();
    let mut state = State::new(operator.entries(), false);
    let codes = operator.encode(0, &samples.iter().collect::<Vec<_>>())?;
    let prepared = samples.iter().zip(codes).map(|(sample, code)| Prepared {
        sensors: sample.groups.clone(),
        code: train.sensors.is_none().then_some(code),
        queries: sample.query_coords.clone(),
        targets: sample.targets.clone(),
    });
    let samples = TrainingSamples::in_memory(prepared.collect());
    let whole = TrainRecipe {
        batch: samples.train.len(),
        ..train.clone()
    };
    let mut order = Order::new();
    (0..steps)
        .map(|k| {
            let start = Instant::now();
            let picked = order.batch(&whole, samples.len(), k as u64).to_vec();
            let batch = draw(
                &whole,
                design,
                operator.entries(),
                &samples,
                &picked,
                k as u64,
            )?;
            take_step(&mut state, &whole, design, 1.0, &batch, train.rate)?;
            Ok(start.elapsed().as_secs_f64())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Place, device};

    /// However many parts there are, all are added, in an order that is theirs alone.
    #[test]
    fn parts_are_added_by_a_tree() {
        let part = |k: f32| PartialStep {
            loss: k as f64,
            count: 1.0,
            gradients: vec![
                Some(Place::single(device()).tensor(vec![k, 1e8 * k], [2])),
                None,
            ],
        };
        for parts in 1..9 {
            let whole = reduce((1..=parts).map(|k| part(k as f32)).collect());
            let sum = (parts * (parts + 1) / 2) as f32;
            assert_eq!((whole.loss, whole.count), (sum as f64, parts as f64));
            let gradient = whole.gradients[0].clone().unwrap();
            assert_eq!(to_vec(gradient), [sum, 1e8 * sum]);
            assert!(whole.gradients[1].is_none());
        }
    }
}
