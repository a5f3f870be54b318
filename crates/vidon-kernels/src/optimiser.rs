//! What an optimiser does to all numbers of a network: in one pass over memory, in place and on all cores.
//! Outside of differentiation.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::ops::{Raw, contiguous, flat, numbers};

/// Numbers that a core takes at a time.
const BLOCK: usize = 1 << 14;

/// Rates of a step of Adam.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    pub rate: f32,
    /// What the gradient is multiplied by first.
    pub scale: f32,
    /// Decay added to the gradient (Adam) and to the step (AdamW).
    pub l2: f32,
    pub decoupled: f32,
    pub betas: [f32; 2],
    pub epsilon: f32,
    /// 1/(1 - β^step) of both means.
    pub unbias: [f32; 2],
}

/// A step of Adam: the new weights, and the new means of the gradient and of its square.
pub fn adam(
    weights: Tensor<1>,
    gradient: Tensor<1>,
    first: Tensor<1>,
    second: Tensor<1>,
    step: AdamStep,
) -> [Tensor<1>; 3] {
    let [w, g, m, v] = [weights, gradient, first, second].map(|t| t.into_dispatch());
    let (w, m, v) = Dispatch::fused_adam(w, g, m, v, step);
    [w, m, v].map(Tensor::from_dispatch)
}

/// The sum of the squares.
pub fn sum_of_squares(x: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::fused_sum_of_squares(x.into_dispatch()))
}

/// `decay·mean + (1 - decay)·x`
pub fn blend(mean: Tensor<1>, x: Tensor<1>, decay: f32) -> Tensor<1> {
    let out = Dispatch::fused_blend(mean.into_dispatch(), x.into_dispatch(), decay);
    Tensor::from_dispatch(out)
}

#[backend_extension(Flex)]
pub trait FusedOptimiser: Backend {
    fn fused_adam(
        weights: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    fn fused_sum_of_squares(x: FloatTensor<Self>) -> FloatTensor<Self>;

    fn fused_blend(mean: FloatTensor<Self>, x: FloatTensor<Self>, decay: f32) -> FloatTensor<Self>;
}

/// The tensor's numbers to write to: its own where nobody else holds them.
fn writable(tensor: &mut Raw) -> &mut [f32] {
    if !tensor.is_contiguous() || tensor.storage::<f32>().len() != numbers(tensor).len() {
        *tensor = flat(numbers(&contiguous(tensor)).to_vec());
    }
    tensor.storage_mut::<f32>()
}

impl FusedOptimiser for Flex {
    fn fused_adam(
        mut weights: Raw,
        gradient: Raw,
        mut first: Raw,
        mut second: Raw,
        step: AdamStep,
    ) -> (Raw, Raw, Raw) {
        let gradient = contiguous(&gradient);
        let [b1, b2] = step.betas;
        (writable(&mut weights).par_chunks_mut(BLOCK))
            .zip(writable(&mut first).par_chunks_mut(BLOCK))
            .zip(writable(&mut second).par_chunks_mut(BLOCK))
            .zip(numbers(&gradient).par_chunks(BLOCK))
            .for_each(|(((w, m), v), g)| {
                for i in 0..w.len() {
                    let g = step.scale * g[i] + step.l2 * w[i];
                    m[i] = b1 * m[i] + (1.0 - b1) * g;
                    v[i] = b2 * v[i] + (1.0 - b2) * (g * g);
                    let change =
                        step.unbias[0] * m[i] / ((step.unbias[1] * v[i]).sqrt() + step.epsilon);
                    w[i] -= step.rate * (change + step.decoupled * w[i]);
                }
            });
        (weights, first, second)
    }

    fn fused_sum_of_squares(x: Raw) -> Raw {
        let x = contiguous(&x);
        let sum_of = |block: &[f32]| -> f64 {
            // Several sums at once, so that they need not wait for each other.
            let mut sums = [0.0f64; 8];
            for eight in block.chunks(8) {
                for (sum, v) in sums.iter_mut().zip(eight) {
                    *sum += (*v as f64) * (*v as f64);
                }
            }
            sums.iter().sum()
        };
        let blocks: Vec<f64> = numbers(&x).par_chunks(BLOCK).map(sum_of).collect();
        flat(vec![blocks.iter().sum::<f64>() as f32])
    }

    fn fused_blend(mut mean: Raw, x: Raw, decay: f32) -> Raw {
        let x = contiguous(&x);
        (writable(&mut mean).par_chunks_mut(BLOCK))
            .zip(numbers(&x).par_chunks(BLOCK))
            .for_each(|(mean, x)| {
                for (m, x) in mean.iter_mut().zip(x) {
                    *m = decay * *m + (1.0 - decay) * x;
                }
            });
        mean
    }
}
