//! What a step makes small.

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::data::{Batch, Normalisation};
use crate::error::Result;
use crate::models::{Inputs, Model, Params, Sets, rows_tensor};
use crate::train::recipe::Loss;

/// Keeps the root of a vanishing error differentiable.
const TINY: f64 = 1e-20;

/// The loss of a batch in physical units; the network sees it normalised.
pub(crate) fn loss(
    kind: Loss,
    model: &Model,
    params: &Params,
    normalisation: Option<&Normalisation>,
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
    let norms = offsets.windows(2).map(|w| {
        let values = &batch.targets.data()[w[0] * width..w[1] * width];
        let square: f64 = values.iter().map(|v| (*v as f64).powi(2)).sum();
        if square > 0.0 {
            square.sqrt() as f32
        } else {
            1.0
        }
    });
    let norms: Vec<f32> = norms.collect();
    let mut spans = vec![1.0; width];
    if let Some(scaling) = normalisation {
        scaling.sensor_values.apply(&mut batch.sensor_values);
        scaling.targets.apply(&mut batch.targets);
        spans = (0..width).map(|c| scaling.targets.span(c)).collect();
    }
    let inputs = Inputs::new(&batch, device, DType::F32);
    let targets = rows_tensor(&batch.targets, device, DType::F32);
    let apart = model.forward(params, &inputs)? - targets;
    Ok(match kind {
        Loss::Mse => (apart.clone() * apart).mean(),
        Loss::RelativeL2 => {
            let spans = Tensor::<2>::from_data(TensorData::new(spans, [1, width]), device);
            let norms = Tensor::<2>::from_data(TensorData::new(norms, [samples, 1]), device);
            let apart = apart * spans;
            let squares = Sets::new(offsets, device).sum(apart.clone() * apart);
            ((squares.sum_dim(1) + TINY).sqrt() / norms).mean()
        }
    })
}
