//! Fused kernels against ordinary operations, gradients against finite differences.

use super::*;
use crate::network::{DType, training_device};

/// Codes and queries of a batch.
fn batch(parts: &Parts, entries: &[Entry], samples: &[Sample]) -> (Vec<Code>, Queries, Rows) {
    let scaled: Vec<ScaledSample> = samples.iter().cloned().map(Into::into).collect();
    let groups: Vec<&[Sensors]> = scaled.iter().map(|s| &s.groups[..]).collect();
    let codes = parts.encode(entries, &groups).unwrap();
    let places: Vec<Arc<Rows>> = samples.iter().map(|s| s.query_coords.clone()).collect();
    let mut targets = Rows::of(samples[0].targets.width(), vec![]);
    samples.iter().for_each(|s| targets.extend(&s.targets));
    (codes, Queries::new(&places), targets)
}

fn place(dtype: DType) -> Place {
    Place {
        device: training_device(),
        dtype,
    }
}

/// In single precision on the CPU the fused kernels are at work, in double precision the composition from ordinary
/// operations: values and gradients agree.
#[test]
fn fused_and_composed_are_the_same() {
    for (config, meta, samples) in zoo() {
        let (parts, entries) = network(&config, &meta, &samples, 1);
        let (codes, queries, targets) = batch(&parts, &entries, &samples);
        let codes: Vec<&Code> = codes.iter().collect();
        let run = |dtype: DType| {
            let place = place(dtype);
            let params = Params::new(&entries, &place);
            let out = parts.forward(&params, &codes, &queries).unwrap();
            let apart = out.clone() - place.rows(targets.clone());
            let mut gradients = (apart.clone() * apart).sum().backward();
            let grads = params.tensors.iter().map(|p| {
                p.grad_remove(&mut gradients)
                    .map(to_vec)
                    .unwrap_or_default()
            });
            (to_vec(out), grads.collect::<Vec<_>>())
        };
        let (single, double) = (run(DType::F32), run(DType::F64));
        assert!(apart(&single.0, &double.0) < 1e-5, "{config:?}");
        let all = |g: &[Vec<f32>]| g.concat();
        let difference = apart(&all(&single.1), &all(&double.1));
        assert!(difference < 2e-5, "{config:?}: {difference}");
    }
}

/// Gradients against central differences, all in double precision.
#[test]
fn gradients_are_those_of_finite_differences() {
    for (config, meta, samples) in zoo() {
        let (parts, entries) = network(&config, &meta, &samples, 1);
        let (codes, queries, targets) = batch(&parts, &entries, &samples);
        let codes: Vec<&Code> = codes.iter().collect();
        let place = place(DType::F64);
        let targets = place.rows(targets);
        let loss = |params: &Params| {
            let found = parts.forward(params, &codes, &queries).unwrap();
            (found - targets.clone()).powf_scalar(2.0).sum()
        };
        let doubles = |tensor: Tensor<1>| {
            tensor
                .into_data_as::<f64>()
                .try_to_vec::<f64>()
                .expect("doubles")
        };
        let params = Params::new(&entries, &place);
        let mut gradients = loss(&params).backward();
        let mut rng = stream(0, "places", 0);
        let mut checked = 0;
        for (k, entry) in entries.iter().enumerate().filter(|(_, e)| e.trained) {
            let gradient = params.tensors[k]
                .grad_remove(&mut gradients)
                .expect("every parameter takes part");
            let gradient = doubles(gradient);
            let scale = gradient.iter().map(|g| g.abs()).fold(1e-3, f64::max);
            for _ in 0..4 {
                let at = rng.random_range(0..entry.values.len());
                let moved = |step: f64| {
                    let mut values = doubles(params.tensors[k].clone());
                    values[at] += step;
                    let mut params = params.clone();
                    let data = crate::network::TensorData::new(values, [entry.values.len()]);
                    params.tensors[k] = Tensor::from_data(data, (&place.device, place.dtype));
                    doubles(loss(&params))[0]
                };
                let step = 1e-5;
                let difference = (moved(step) - moved(-step)) / (2.0 * step);
                let error = (difference - gradient[at]).abs() / scale;
                let (name, found) = (&entry.name, gradient[at]);
                assert!(error < 1e-6, "{name} [{at}]: {found} and {difference}");
                checked += 1;
            }
        }
        assert_eq!(checked, 4 * entries.iter().filter(|e| e.trained).count());
    }
}
