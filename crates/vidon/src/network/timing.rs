//! The time of VIDON's set branch alone, for benchmarks.

use std::sync::Arc;
use std::time::Instant;

use rand::RngExt;
use vidon_kernels::{Heads, pool};

use crate::encoders::HeadsConfig;
use crate::error::Result;
use crate::network::{Place, Tensor, to_vec, training_device};
use crate::rng::stream;

/// The seconds of each of so many rounds, forward and backward, on `sets` sets of `rows` random encodings.
pub fn time_set_branch(
    config: &HeadsConfig,
    sets: usize,
    rows: usize,
    rounds: usize,
) -> Result<Vec<f64>> {
    let heads = Arc::new(Heads {
        count: config.count,
        inputs: config.d_enc,
        hidden: config.hidden.clone(),
        activation: vidon_kernels::Activation::Tanh,
        scale: 1.0 / (config.d_enc as f32).sqrt(),
    });
    let place = Place::single(training_device());
    let mut rng = stream(0, "timing", 0);
    let mut tensor = |count: usize, size: f32| -> Tensor<1> {
        let values = (0..count).map(|_| rng.random_range(-size..size));
        place.tensor(values.collect(), [count])
    };
    let width = config.d_enc;
    let psi = tensor(sets * rows * width, 1.0)
        .reshape([sets * rows, width])
        .require_grad();
    let weights = tensor(heads.numbers(), 0.1).require_grad();
    let offsets = Arc::new((0..=sets).map(|s| s * rows).collect::<Vec<usize>>());
    Ok((0..rounds)
        .map(|_| {
            let start = Instant::now();
            let out = pool(&heads, &offsets, psi.clone(), weights.clone());
            let mut gradients = (out.clone() * out).sum().backward();
            let d_psi = psi.grad_remove(&mut gradients).expect("it was asked for");
            let d_weights = weights
                .grad_remove(&mut gradients)
                .expect("it was asked for");
            std::hint::black_box((d_psi, to_vec(d_weights.narrow(0, 0, 1))));
            start.elapsed().as_secs_f64()
        })
        .collect())
}
