//! What a step makes small.

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::data::{Answers, Batch, Normalisation};
use crate::error::Result;
use crate::models::{Inputs, Model, Params, Sets, rows_tensor};
use crate::train::recipe::Loss;

/// Keeps the root of a vanishing relative error differentiable.
const TINY: f64 = 1e-12;
/// Norms are at least this share of the root mean square of all targets.
const LEAST: f64 = 1e-3;

/// The loss of a batch: the mean square error as the network sees it, or the relative error in physical units. `size` is the root mean square of all
/// targets.
pub(crate) fn loss(
    kind: Loss,
    model: &Model,
    params: &Params,
    (normalisation, size): (Option<&Normalisation>, f64),
    mut batch: Batch,
    device: &Device,
) -> Result<Tensor<1>> {
    let samples = batch.len();
    let offsets = match &batch.query_offsets {
        Some(offsets) => offsets.clone(),
        None => (0..=samples)
            .map(|i| i * batch.query_coords.len())
            .collect(),
    };
    let width = batch.targets.width();
    let truth = batch.targets.clone();
    let mut spans = vec![1.0; width];
    if let Some(scaling) = normalisation {
        scaling.sensor_values.apply(&mut batch.sensor_values);
        scaling.targets.apply(&mut batch.targets);
        spans = (0..width).map(|c| scaling.targets.span(c)).collect();
    }
    let inputs = Inputs::new(&batch, device, DType::F32);
    if let Some(answers) = &batch.answers {
        let beta = model.branch(params, &inputs)?.expect("a fixed trunk");
        return Ok(of_coefficients(kind, beta, answers, &spans, size));
    }
    let targets = rows_tensor(&batch.targets, device, DType::F32);
    let apart = model.forward(params, &inputs)? - targets;
    Ok(match kind {
        Loss::Mse => (apart.clone() * apart).mean(),
        Loss::RelativeL2 => {
            // What an error counts: relative to the norm of its sample's targets, in physical units.
            let mut factors = Vec::with_capacity(truth.data().len());
            for w in offsets.windows(2) {
                let values = &truth.data()[w[0] * width..w[1] * width];
                let square: f64 = values.iter().map(|v| (*v as f64).powi(2)).sum();
                let least = LEAST * size * ((w[1] - w[0]) as f64).sqrt();
                let norm = square.sqrt().max(least).max(TINY);
                let row = spans.iter().map(|s| (*s as f64 / norm) as f32);
                factors.extend(std::iter::repeat_n(row, w[1] - w[0]).flatten());
            }
            let shape = [truth.len(), width];
            let factors = Tensor::<2>::from_data(TensorData::new(factors, shape), device);
            let apart = apart * factors;
            let squares = Sets::new(offsets, device).sum(apart.clone() * apart);
            (squares.sum_dim(1) + TINY).sqrt().mean()
        }
    })
}

/// The same for coefficients: every function counts by its norm.
fn of_coefficients(
    kind: Loss,
    beta: Tensor<2>,
    answers: &Answers,
    spans: &[f32],
    size: f64,
) -> Tensor<1> {
    let ([samples, p], device) = (beta.dims(), beta.device());
    let tensor = |numbers: Vec<f32>, shape: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(numbers, shape), &device)
    };
    let component = |k: usize| k * spans.len() / p;
    let roots = &answers.roots;
    let apart = beta - rows_tensor(&answers.coefs, &device, DType::F32);
    match kind {
        Loss::Mse => {
            let share = 1.0 / (spans.len() as f32).sqrt();
            let counts = roots.iter().map(|r| r * share).collect();
            let apart = apart * tensor(counts, [1, p]);
            (apart.clone() * apart).sum_dim(1).mean()
        }
        Loss::RelativeL2 => {
            let counts = (0..p).map(|k| roots[k] * spans[component(k)]).collect();
            let least = (LEAST * size).max(TINY) as f32;
            let shares = answers.norms.iter().map(|n| 1.0 / n.max(least)).collect();
            let apart = apart * tensor(counts, [1, p]) * tensor(shares, [samples, 1]);
            ((apart.clone() * apart).sum_dim(1) + TINY).sqrt().mean()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;
    use crate::models::to_vec;
    use std::sync::Arc;

    /// Two components of two functions each: 4·(1 + 1) + ¼·(9 + 4) = 11.25, over a norm of 5.
    #[test]
    fn coefficients_count_by_norm_and_component() {
        let beta = TensorData::new(vec![1.0f32, 2.0, 3.0, 4.0], [1, 4]);
        let beta = Tensor::from_data(beta, &Device::flex());
        let answers = Answers {
            coefs: Rows::new(4, vec![0.0; 4]),
            roots: Arc::new(vec![1.0, 0.5, 1.0, 0.5]),
            norms: vec![5.0],
        };
        for (kind, wanted) in [(Loss::RelativeL2, 11.25f32.sqrt() / 5.0), (Loss::Mse, 7.5)] {
            let loss = of_coefficients(kind, beta.clone(), &answers, &[2.0, 0.5], 5.0);
            assert!((to_vec(loss)[0] - wanted).abs() < 1e-5, "{kind:?}");
        }
        // Beside targets a million times as large, those of this sample are as good as zero.
        let loss = of_coefficients(Loss::RelativeL2, beta, &answers, &[2.0, 0.5], 5e6);
        assert!((to_vec(loss)[0] - 11.25f32.sqrt() / 5e3).abs() < 1e-6);
    }
}
