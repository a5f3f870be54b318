//! Fused kernels against ordinary operations, gradients against finite differences.

use super::*;

/// With numbers in place of what would be taken from data.
fn network(config: &ModelConfig, dims: Dims) -> (Model, Vec<Entry>) {
    let (model, mut entries) = Model::new(config, dims, 1).unwrap();
    for entry in entries.iter_mut().filter(|e| !e.trained) {
        let mut rng = stream(0, "fixed", 0);
        let values = entry.values.iter_mut();
        values.for_each(|v| *v = rng.random_range(0.5..1.5));
    }
    (model, entries)
}

/// In single precision on the CPU the fused kernels are at work, in double precision the composition from ordinary operations: values and gradients
/// agree.
#[test]
fn fused_and_composed_are_the_same() {
    for (config, dims, batch) in zoo() {
        let (model, entries) = network(&config, dims);
        let device = Device::flex().autodiff();
        let run = |dtype: DType| {
            let params = Params::new(&entries, &device, dtype);
            let out = model
                .forward(&params, &Inputs::new(&batch, &device, dtype))
                .unwrap();
            let targets = rows_tensor(&batch.targets, &device, dtype);
            let apart = out.clone() - targets;
            let mut gradients = (apart.clone() * apart).sum().backward();
            let grads = params.tensors.iter().map(|p| {
                p.grad_remove(&mut gradients)
                    .map(to_vec)
                    .unwrap_or_default()
            });
            (to_vec(out), grads.collect::<Vec<_>>())
        };
        let (single, double) = (run(DType::F32), run(DType::F64));
        assert!(apart(&single.0, &double.0) < 1e-5, "{}", model.name());
        let all = |g: &[Vec<f32>]| g.concat();
        let difference = apart(&all(&single.1), &all(&double.1));
        assert!(difference < 2e-5, "{}: {difference}", model.name());
    }
}

/// Gradients against central differences, all in double precision.
#[test]
fn gradients_are_those_of_finite_differences() {
    for (config, dims, batch) in zoo() {
        let (model, entries) = network(&config, dims);
        let device = Device::flex().autodiff();
        let inputs = Inputs::new(&batch, &device, DType::F64);
        let targets = rows_tensor(&batch.targets, &device, DType::F64);
        let loss = |params: &Params| {
            (model.forward(params, &inputs).unwrap() - targets.clone())
                .powf_scalar(2.0)
                .sum()
        };
        let value = |params: &Params| {
            loss(params)
                .into_data_as::<f64>()
                .try_to_vec::<f64>()
                .unwrap()[0]
        };
        let params = Params::new(&entries, &device, DType::F64);
        let mut gradients = loss(&params).backward();
        let mut rng = stream(0, "places", 0);
        let mut checked = 0;
        for (k, entry) in entries.iter().enumerate().filter(|(_, e)| e.trained) {
            let gradient = params.tensors[k]
                .grad_remove(&mut gradients)
                .expect("every parameter takes part");
            let gradient = gradient.into_data_as::<f64>().try_to_vec::<f64>().unwrap();
            let scale = gradient.iter().map(|g| g.abs()).fold(1e-3, f64::max);
            for _ in 0..4 {
                let place = rng.random_range(0..entry.values.len());
                let moved = |step: f64| {
                    let mut values = params.tensors[k]
                        .clone()
                        .into_data_as::<f64>()
                        .try_to_vec::<f64>()
                        .unwrap();
                    values[place] += step;
                    let mut params = params.clone();
                    let data = burn::tensor::TensorData::new(values, [entry.values.len()]);
                    params.tensors[k] =
                        burn::tensor::Tensor::from_data(data, (&device, DType::F64));
                    value(&params)
                };
                let step = 1e-5;
                let difference = (moved(step) - moved(-step)) / (2.0 * step);
                let error = (difference - gradient[place]).abs() / scale;
                assert!(
                    error < 1e-6,
                    "{} {} [{place}]: {} and {difference}",
                    model.name(),
                    entry.name,
                    gradient[place]
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 4 * entries.iter().filter(|e| e.trained).count());
    }
}
