//! One step: the loss of a batch, its gradient, the optimiser.

use std::time::Instant;

use burn::tensor::Device;
use vidon_kernels::set_memory_limit;

use crate::data::{Batch, Normalisation, Sample, Subset};
use crate::error::Result;
use crate::models::{Entry, Model, to_vec};
use crate::rng::stream;
use crate::train::TrainRecipe;
use crate::train::checkpoint::State;
use crate::train::loss::loss;
use crate::train::optimiser::Step;

/// One step of the optimiser; gives the loss, and changes nothing if that is not finite.
pub(crate) fn take_step(
    state: &mut State,
    train: &TrainRecipe,
    model: &Model,
    scale: (Option<&Normalisation>, f64),
    batch: Batch,
    rate: f64,
) -> Result<f64> {
    let device = Device::flex().autodiff();
    let value = loss(train.loss, model, &state.params, scale, batch, &device)?;
    let found = to_vec(value.clone())[0] as f64;
    if !found.is_finite() {
        return Ok(found);
    }
    let mut all = value.backward();
    let params = state.params.tensors.iter();
    let gradients: Vec<_> = params.map(|p| p.grad_remove(&mut all)).collect();
    let step = Step {
        number: state.progress.step + 1,
        rate,
        decay: train.decay,
        clip: train.clip,
    };
    let State {
        params, moments, ..
    } = state;
    train.optimiser.update(params, moments, gradients, &step);
    state.progress.step += 1;
    Ok(found)
}

/// The seconds that each of so many steps on all the samples takes, the making of the batch included. Nothing is fitted beforehand.
pub fn time_steps(
    model: &Model,
    entries: &[Entry],
    samples: &[Sample],
    train: &TrainRecipe,
    steps: usize,
) -> Result<Vec<f64>> {
    if let Some(gigabytes) = train.memory_gb {
        set_memory_limit((1e9 * gigabytes) as usize);
    }
    let mut state = State::new(entries, &Device::flex().autodiff(), false);
    let samples: Vec<&Sample> = samples.iter().collect();
    let subset = Subset {
        sensors: train.sensors,
        queries: train.queries,
    };
    (0..steps)
        .map(|k| {
            let start = Instant::now();
            let batch = Batch::random(&samples, subset, &mut stream(train.seed, "step", k as u64));
            take_step(&mut state, train, model, (None, 1.0), batch, train.rate)?;
            Ok(start.elapsed().as_secs_f64())
        })
        .collect()
}
