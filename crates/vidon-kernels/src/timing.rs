//! The time of a set branch alone, for benchmarks.

use std::sync::Arc;
use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};

use crate::ops::pool;
use crate::pool::Heads;

/// The seconds of each of so many rounds, forward and backward, on `sets` sets of `rows` made-up encodings.
pub fn time_heads(heads: &Heads, sets: usize, rows: usize, rounds: usize) -> Vec<f64> {
    let (heads, device) = (Arc::new(heads.clone()), Device::flex().autodiff());
    let tensor = |count: usize, size: f32| -> Tensor<1> {
        let values: Vec<f32> = (0..count).map(|i| size * noise(i as u64)).collect();
        Tensor::from_data(TensorData::new(values, [count]), &device)
    };
    let width = heads.inputs;
    let psi = tensor(sets * rows * width, 1.0);
    let psi = psi.reshape([sets * rows, width]).require_grad();
    let weights = tensor(heads.numbers(), 0.1).require_grad();
    let offsets = Arc::new((0..=sets).map(|s| s * rows).collect::<Vec<usize>>());
    let round = |_| {
        let start = Instant::now();
        let out = pool(&heads, &offsets, psi.clone(), weights.clone());
        let mut gradients = (out.clone() * out).sum().backward();
        let d_psi = psi.grad_remove(&mut gradients);
        let d_weights = weights.grad_remove(&mut gradients);
        std::hint::black_box((d_psi, d_weights.map(|d| d.into_data())));
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(round).collect()
}

/// Numbers in [-1, 1) without a pattern.
fn noise(i: u64) -> f32 {
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
}
