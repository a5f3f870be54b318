//! What every network promises.

use std::sync::Arc;

use burn::tensor::{DType, Device};
use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::data::{Batch, Channel, Normalisation, Rows, Sample};
use crate::domain::product;
use crate::rng::Rng;

const DIMS: Dims = Dims {
    sensor_coords: 2,
    sensor_values: 2,
    query_coords: 3,
    targets: 2,
};

fn rows(rng: &mut Rng, count: usize, width: usize) -> Rows {
    Rows::new(
        width,
        (0..count * width)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
    )
}

fn sample(rng: &mut Rng, m: usize, q: usize, dims: Dims) -> Sample {
    Sample {
        name: None,
        sensor_coords: rows(rng, m, dims.sensor_coords),
        sensor_values: rows(rng, m, dims.sensor_values),
        query_coords: Arc::new(rows(rng, q, dims.query_coords)),
        targets: rows(rng, q, dims.targets),
    }
}

/// Samples on one grid, asked there, for FNO.
fn grid_sample(rng: &mut Rng, n1: usize, n2: usize) -> Sample {
    let axis = |n: usize| {
        (0..n)
            .map(|i| i as f64 / (n - 1) as f64)
            .collect::<Vec<f64>>()
    };
    let points = Rows::from_f64(2, &product(&[axis(n1), axis(n2)]));
    Sample {
        name: None,
        sensor_values: rows(rng, n1 * n2, 2),
        targets: rows(rng, n1 * n2, 2),
        query_coords: Arc::new(points.clone()),
        sensor_coords: points,
    }
}

fn batch(samples: &[Sample]) -> Batch {
    Batch::new(&samples.iter().collect::<Vec<_>>())
}

fn tiny_vidon() -> VidonConfig {
    VidonConfig {
        d_enc: 5,
        encoder_hidden: vec![6],
        heads: 2,
        head_hidden: vec![7, 7],
        head_output: 3,
        combine_hidden: vec![8, 8],
        p: 4,
        trunk: TrunkConfig::Mlp { hidden: vec![6, 6] },
        ..VidonConfig::default()
    }
}

/// A description of the box [-1, 1]^d.
fn meta(dims: Dims) -> Meta {
    let channels = |n: usize| {
        let range = Some([-1.0, 1.0]);
        (0..n)
            .map(|k| Channel {
                range,
                ..Channel::named(format!("c{k}"))
            })
            .collect()
    };
    Meta::new(
        "test",
        channels(dims.sensor_coords),
        channels(dims.sensor_values),
        channels(dims.query_coords),
        channels(dims.targets),
    )
}

fn frame(dim: usize, periodic: bool) -> Frame {
    Frame {
        lo: vec![-1.0; dim],
        hi: vec![1.0; dim],
        family: if periodic {
            Family::Periodic
        } else {
            Family::Cosine
        },
        times: 0,
    }
}

/// Every kind of network, small, with a batch it can take.
fn zoo() -> Vec<(ModelConfig, Dims, Batch)> {
    let mut rng = stream(0, "zoo", 0);
    let ragged = [
        sample(&mut rng, 3, 4, DIMS),
        sample(&mut rng, 1, 2, DIMS),
        sample(&mut rng, 6, 5, DIMS),
    ];
    let mut shared = ragged.clone();
    for sample in &mut shared {
        sample.query_coords = ragged[0].query_coords.clone();
        sample.targets = ragged[0].targets.clone();
    }
    let mut fixed = [sample(&mut rng, 4, 3, DIMS), sample(&mut rng, 4, 3, DIMS)];
    fixed[1].sensor_coords = fixed[0].sensor_coords.clone();
    let product = VidonConfig {
        encoding: Encoding::Product,
        positional: Positional::Fourier {
            frame: frame(2, true),
            functions: 9,
        },
        trunk: TrunkConfig::Fourier {
            frame: frame(3, false),
        },
        ..tiny_vidon()
    };
    let deeponet = DeepOnetConfig {
        sensors: 4,
        branch_hidden: vec![6, 6],
        p: 3,
        trunk: TrunkConfig::Mlp { hidden: vec![5] },
        krige: None,
    };
    let fno = FnoConfig {
        width: 3,
        modes: 2,
        layers: 2,
        hidden: 4,
        padding: 0.25,
    };
    // Wide enough for the fused layers.
    let wide = FnoConfig {
        width: 16,
        ..fno.clone()
    };
    let grids = [grid_sample(&mut rng, 5, 6), grid_sample(&mut rng, 5, 6)];
    let plane = Dims {
        query_coords: 2,
        ..DIMS
    };
    let pod = VidonConfig {
        trunk: TrunkConfig::Pod {
            frame: frame(3, true),
            functions: 7,
        },
        ..tiny_vidon()
    };
    let projected = VidonConfig {
        projection: Some(ProjectionConfig {
            frame: frame(2, false),
            functions: 6,
        }),
        combine_activation: Activation::Gelu,
        skip: true,
        trunk: TrunkConfig::Fourier {
            frame: frame(3, false),
        },
        ..tiny_vidon()
    };
    let core = VidonConfig {
        heads: 0,
        projection: Some(ProjectionConfig {
            frame: frame(2, true),
            functions: 9,
        }),
        core: CoreConfig::Fno(Box::new(FnoCoreConfig {
            grid: 6,
            width: 16,
            modes: 2,
            layers: 2,
            hidden: 5,
            ..FnoCoreConfig::default()
        })),
        p: 20,
        trunk: TrunkConfig::Fourier {
            frame: Frame {
                times: 2,
                ..frame(3, true)
            },
        },
        ..tiny_vidon()
    };
    vec![
        (ModelConfig::Vidon(tiny_vidon()), DIMS, batch(&ragged)),
        (ModelConfig::Vidon(tiny_vidon()), DIMS, batch(&shared)),
        (ModelConfig::Vidon(product), DIMS, batch(&ragged)),
        (ModelConfig::DeepOnet(deeponet), DIMS, batch(&fixed)),
        (ModelConfig::Fno(fno), plane, batch(&grids)),
        (ModelConfig::Fno(wide), plane, batch(&grids)),
        (ModelConfig::Vidon(pod), DIMS, batch(&ragged)),
        (ModelConfig::Vidon(projected), DIMS, batch(&ragged)),
        (ModelConfig::Vidon(core.clone()), DIMS, batch(&ragged)),
        (ModelConfig::Vidon(core), DIMS, batch(&shared)),
    ]
}

fn predict(model: &Model, entries: &[Entry], batch: &Batch) -> Vec<f32> {
    let device = Device::flex();
    let params = Params::new(entries, &device, DType::F32);
    to_vec(
        model
            .forward(&params, &Inputs::new(batch, &device, DType::F32))
            .unwrap(),
    )
}

/// In single precision on the CPU the fused kernels are at work, in double precision the composition from ordinary operations: values and gradients
/// agree.
#[test]
fn fused_and_composed_are_the_same() {
    for (config, dims, batch) in zoo() {
        let (model, mut entries) = Model::new(&config, dims, 1).unwrap();
        for entry in entries.iter_mut().filter(|e| !e.trained) {
            let mut rng = stream(0, "fixed", 0);
            let values = entry.values.iter_mut();
            values.for_each(|v| *v = rng.random_range(0.5..1.5));
        }
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
        let (model, mut entries) = Model::new(&config, dims, 1).unwrap();
        for entry in entries.iter_mut().filter(|e| !e.trained) {
            let mut rng = stream(0, "fixed", 0);
            entry
                .values
                .iter_mut()
                .for_each(|v| *v = rng.random_range(0.5..1.5));
        }
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

fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
    norm(&mut a.iter().zip(b).map(|(x, y)| x - y)) / norm(&mut b.iter().copied())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Order and repetition of the sensors do not matter, one sensor is enough.
    #[test]
    fn vidon_sees_a_set(m in 1usize..40, seed: u64) {
        let config = ModelConfig::Vidon(tiny_vidon());
        let (model, entries) = Model::new(&config, DIMS, seed).unwrap();
        let mut rng = stream(seed, "set", 0);
        let one = sample(&mut rng, m, 5, DIMS);
        let other = sample(&mut rng, 3, 5, DIMS);
        let with = |order: &[usize]| {
            let changed = Sample {
                sensor_coords: one.sensor_coords.select(order),
                sensor_values: one.sensor_values.select(order),
                ..one.clone()
            };
            predict(&model, &entries, &batch(&[changed, other.clone()]))
        };
        let order: Vec<usize> = (0..m).collect();
        let plain = with(&order);
        let shuffled = rand::seq::index::sample(&mut rng, m, m).into_vec();
        prop_assert!(apart(&with(&shuffled), &plain) <= 1e-5);
        prop_assert!(apart(&with(&[order.clone(), shuffled].concat()), &plain) <= 1e-5);
        // A sample does not depend on its neighbours in the batch.
        let alone = predict(&model, &entries, &batch(&[one]));
        prop_assert!(apart(&alone, &plain[..alone.len()]) <= 1e-5);
    }
}

#[test]
fn sizes_are_those_of_a_count_by_hand() {
    let dims = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let (model, entries) =
        Model::new(&ModelConfig::Vidon(VidonConfig::default()), dims, 0).unwrap();
    // Ψ_c: 2→40→40→40→40, Ψ_v: 1→40→40→40→40.
    let encoders = (2 * 40 + 40) + (40 + 40) + 2 * 3 * (40 * 40 + 40);
    // ω̃: 40→128→128→128→128→1, ν̃: the same →64, four heads.
    let body = (40 * 128 + 128) + 3 * (128 * 128 + 128);
    let heads = 4 * (2 * body + (128 + 1) + (128 * 64 + 64));
    // Φ: 256→256→256→256→256→100.
    let combine = 4 * (256 * 256 + 256) + (256 * 100 + 100);
    // Trunk: 2→250→250→250→250→101.
    let trunk = (2 * 250 + 250) + 3 * (250 * 250 + 250) + (250 * 101 + 101);
    let total: usize = entries.iter().map(|e| e.values.len()).sum();
    assert_eq!(total, encoders + heads + combine + trunk);
    let [branch, other] = model.branch_and_trunk().unwrap();
    assert_eq!(
        (branch.size, other.size),
        (encoders + heads + combine, trunk)
    );
    assert_eq!((branch.depth, other.depth), (4 + 5 + 5 + 5, 5));
    assert_eq!((branch.width, other.width), (40 + 40 + 8 * 128 + 256, 250));
}

#[test]
fn starting_weights_have_the_papers_spread() {
    let dims = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let config = ModelConfig::Vidon(VidonConfig::default());
    let (_, entries) = Model::new(&config, dims, 3).unwrap();
    let values = |name: &str| &entries.iter().find(|e| e.name == name).unwrap().values;
    let bound = |name: &str| values(name).iter().fold(0f32, |a, v| a.max(v.abs()));
    let first = bound("trunk.0.weight");
    assert!(first <= 0.5f32.sqrt() && first > 0.99 * 0.5f32.sqrt());
    let last = bound("trunk.4.weight");
    assert!(last <= (1.0f32 / 250.0).sqrt() && last > 0.99 * (1.0f32 / 250.0).sqrt());
    let middle = values("trunk.2.weight");
    let deviation = (middle.iter().map(|v| v * v).sum::<f32>() / middle.len() as f32).sqrt();
    assert!((deviation / (2.0f32 / 500.0).sqrt() - 1.0).abs() < 0.02);
    assert!(bound("trunk.2.bias") <= (1.0f32 / 250.0).sqrt());
    assert_eq!(Model::new(&config, dims, 3).unwrap().1, entries);
    assert_ne!(Model::new(&config, dims, 4).unwrap().1, entries);
}

/// The paper's special case: with H = m heads, ω̃^(ℓ) picking sensor ℓ and ν̃ passing its value on, VIDON is a DeepONet.
///
/// How, with tanh in between: the sensors stand at x = 1..m on a line. Ψ_c(x) = (x/s, 0) and Ψ_v(u) = (0, u/s) with a large
/// s, made by encoders of one linear layer. The logit of head ℓ must be largest at x = ℓ: a bump from two steps,
/// tanh(c(x-ℓ+½)) - tanh(c(x-ℓ-½)), times a large factor. ν̃ is s²·tanh(u/s²), which is u to O((u/s²)²).
#[test]
fn deeponet_is_the_special_case_of_the_paper() {
    let m = 5;
    let dims = Dims {
        sensor_coords: 1,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let trunk = TrunkConfig::Mlp { hidden: vec![9, 9] };
    let deeponet = DeepOnetConfig {
        sensors: m,
        branch_hidden: vec![8, 8],
        p: 6,
        trunk: trunk.clone(),
        krige: None,
    };
    let (reference, reference_entries) =
        Model::new(&ModelConfig::DeepOnet(deeponet), dims, 7).unwrap();
    let config = VidonConfig {
        d_enc: 2,
        encoder_hidden: vec![],
        heads: m,
        head_hidden: vec![2],
        head_output: 1,
        combine_hidden: vec![8, 8],
        p: 6,
        trunk,
        ..VidonConfig::default()
    };
    let (model, mut entries) = Model::new(&ModelConfig::Vidon(config), dims, 0).unwrap();
    let s = 10.0f32;
    for entry in &mut entries {
        let values = entry.values.clone();
        let parts: Vec<&str> = entry.name.split('.').collect();
        entry.values = match parts[..] {
            ["encode_coords", "0", "weight"] => vec![1.0 / s, 0.0],
            ["encode_values", "0", "weight"] => vec![0.0, 1.0 / s],
            ["encode_coords" | "encode_values", "0", "bias"] => vec![0.0; 2],
            ["heads", head, part, layer, kind] => {
                let place: f32 = head.parse::<f32>().unwrap() + 1.0;
                let (steep, factor) = (20.0, 100.0);
                match (part, layer, kind) {
                    ("weight", "0", "weight") => vec![steep * s, 0.0, steep * s, 0.0],
                    ("weight", "0", "bias") => vec![-steep * (place - 0.5), -steep * (place + 0.5)],
                    ("weight", "1", "weight") => vec![factor, -factor],
                    ("value", "0", "weight") => vec![0.0, 1.0 / s, 0.0, 0.0],
                    ("value", "1", "weight") => vec![s * s, 0.0],
                    _ => vec![0.0; values.len()],
                }
            }
            ["combine", ..] | ["trunk", ..] => {
                let name = entry.name.replace("combine", "branch");
                reference_entries
                    .iter()
                    .find(|e| e.name == name)
                    .unwrap()
                    .values
                    .clone()
            }
            _ => unreachable!("{}", entry.name),
        };
        assert_eq!(entry.values.len(), values.len(), "{}", entry.name);
    }
    let mut rng = stream(1, "special", 0);
    let places = Rows::new(1, (1..=m).map(|x| x as f32).collect());
    let samples: Vec<Sample> = (0..4)
        .map(|_| Sample {
            sensor_coords: places.clone(),
            ..sample(&mut rng, m, 6, dims)
        })
        .collect();
    let batch = batch(&samples);
    let difference = apart(
        &predict(&model, &entries, &batch),
        &predict(&reference, &reference_entries, &batch),
    );
    println!("VIDON and DeepONet differ by {difference:.1e} relative");
    assert!(difference <= 1e-5);
}

#[test]
fn a_pod_trunk_holds_the_training_outputs() {
    // Outputs in the span of three functions, at places of their own in every sample.
    let dims = Dims {
        sensor_coords: 1,
        sensor_values: 1,
        query_coords: 2,
        targets: 2,
    };
    let config = DeepOnetConfig {
        sensors: 1,
        branch_hidden: vec![],
        p: 3,
        trunk: TrunkConfig::Pod {
            frame: frame(2, false),
            functions: 20,
        },
        krige: None,
    };
    let (model, mut entries) = Model::new(&ModelConfig::DeepOnet(config), dims, 0).unwrap();
    let mut rng = stream(0, "pod", 0);
    let wave = |p: &[f32], k: f32| (std::f32::consts::PI * k * (p[0] + 1.0) / 2.0).cos();
    let samples: Vec<Sample> = (0..40)
        .map(|_| {
            let mut one = sample(&mut rng, 1, 60, dims);
            one.sensor_coords = Rows::new(1, vec![0.0]);
            let [a, b, c] = [0, 1, 2].map(|_| rng.random_range(-1.0..1.0f32));
            let value = |p: &[f32]| [2.0 + a * wave(p, 1.0), b * wave(p, 2.0) + c * wave(p, 3.0)];
            one.targets = Rows::new(2, one.query_coords.iter().flat_map(value).collect());
            one
        })
        .collect();
    model.fit(&mut entries, &meta(dims), &samples).unwrap();
    // β = 0 gives the mean; its first component is 2 + mean(a)·…, its mean over samples.
    let pod = entries.iter().find(|e| e.name == "trunk.pod").unwrap();
    assert!(!pod.trained);
    let norm = |row: &[f32]| row.iter().map(|v| v * v).sum::<f32>().sqrt();
    let rows: Vec<f32> = pod.values.chunks(20).map(norm).collect();
    // Component 0: mean about 2, then three modes of which the parts in both components make up the variance.
    assert!((rows[0] - 2.0).abs() < 0.3, "{rows:?}");
    let variance: f32 = [1, 2, 3, 5, 6, 7].iter().map(|&i| rows[i] * rows[i]).sum();
    assert!(
        (variance - 1.0).abs() < 0.35,
        "three uniform coefficients have variance 1/3 each: {variance}"
    );
    let few = model
        .fit(&mut entries, &meta(dims), &samples[..3])
        .unwrap_err()
        .to_string();
    assert!(
        few.contains("more than 3 training samples (here: 3)"),
        "{few}"
    );
}

#[test]
fn paper_sizes_follow_the_problem() {
    use crate::problems::{AllenCahn, Boundary, Darcy, NavierStokes};
    let size = |name, problem: &dyn crate::problems::Problem, dims: Dims| {
        let (_, entries) = Model::new(&paper_config(name, problem).unwrap(), dims, 0).unwrap();
        let trained = entries.iter().filter(|e| e.trained);
        trained.map(|e| e.values.len()).sum::<usize>()
    };
    let plane = Dims {
        sensor_coords: 2,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let time = Dims {
        query_coords: 3,
        ..plane
    };
    let darcy = Darcy::new(Boundary::Dirichlet);
    // DeepONet on Darcy: branch 2601→250×4→100, trunk 2→250×4→101.
    let inner = 3 * (250 * 250 + 250);
    let branch = (2601 * 250 + 250) + inner + (250 * 100 + 100);
    let trunk = (2 * 250 + 250) + inner + (250 * 101 + 101);
    assert_eq!(size(ModelName::DeepOnet, &darcy, plane), branch + trunk);
    // FNO: 3→32, four layers of 2·12·12·32·32 complex and 32→32, 32→128→1.
    let layer = 2 * 12 * 12 * 32 * 32 * 2 + 32 * 32 + 32;
    assert_eq!(
        size(ModelName::Fno, &NavierStokes::new(), plane),
        4 * 32 + 4 * layer + (32 * 128 + 128) + 129
    );
    assert!(
        size(ModelName::Vidon, &AllenCahn::new(), time) > size(ModelName::Vidon, &darcy, plane)
    );
    assert!(paper_config(ModelName::Fno, &AllenCahn::new()).is_err());
}

#[test]
fn networks_say_what_they_cannot_take() {
    let deeponet = &zoo()[3];
    let (model, entries) = Model::new(&deeponet.0, deeponet.1, 0).unwrap();
    let error = model.check_layout(Layout::Missing).unwrap_err().to_string();
    assert!(
        error.contains("DeepONet cannot take the layout missing, only regular and irregular"),
        "{error}"
    );
    assert!(model.check_layout(Layout::Irregular).is_ok());
    let device = Device::flex();
    let params = Params::new(&entries, &device, DType::F32);
    let inputs = Inputs::new(&zoo()[0].2, &device, DType::F32);
    let error = model.forward(&params, &inputs).unwrap_err().to_string();
    assert!(
        error.contains("exactly 4 sensors") && error.contains("has 3"),
        "{error}"
    );

    let mut rng = stream(0, "places", 0);
    let trained = [sample(&mut rng, 4, 3, DIMS), sample(&mut rng, 4, 3, DIMS)];
    let mut entries = entries;
    model.fit(&mut entries, &meta(DIMS), &trained).unwrap();
    assert_eq!(*model.prepare(&entries, &trained[0]).unwrap(), trained[0]);
    let error = model.prepare(&entries, &trained[1]).unwrap_err();
    assert!(
        error.to_string().contains("these stand elsewhere"),
        "{error}"
    );

    // With kriging it takes any sensors.
    let ModelConfig::DeepOnet(mut kriged) = deeponet.0.clone() else {
        panic!("the fourth is a DeepONet")
    };
    kriged.krige = Some(vec![2, 2]);
    let (model, mut entries) = Model::new(&ModelConfig::DeepOnet(kriged), DIMS, 0).unwrap();
    assert_eq!(model.layouts(), Layout::ALL);
    model.fit(&mut entries, &meta(DIMS), &trained).unwrap();
    let prepared = model.prepare(&entries, &trained[1]).unwrap();
    let corners = [-1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0];
    assert_eq!(prepared.sensor_coords.data(), corners);

    let fno = &zoo()[4];
    let (model, entries) = Model::new(&fno.0, fno.1, 0).unwrap();
    let params = Params::new(&entries, &device, DType::F32);
    let mut rng = stream(0, "off", 0);
    let plane = Dims {
        query_coords: 2,
        ..DIMS
    };
    let scattered = batch(&[sample(&mut rng, 30, 30, plane)]);
    let error = model
        .forward(&params, &Inputs::new(&scattered, &device, DType::F32))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("FNO needs sensors on one regular grid"),
        "{error}"
    );
    let mut bent = grid_sample(&mut rng, 5, 6);
    let square: Vec<f32> = bent.sensor_coords.data().iter().map(|x| x * x).collect();
    bent.sensor_coords = Rows::new(2, square);
    bent.query_coords = Arc::new(bent.sensor_coords.clone());
    let error = model
        .forward(&params, &Inputs::new(&batch(&[bent]), &device, DType::F32))
        .unwrap_err();
    assert!(error.to_string().contains("not evenly spaced"), "{error}");
    let small = batch(&[grid_sample(&mut rng, 2, 2)]);
    let error = model
        .forward(&params, &Inputs::new(&small, &device, DType::F32))
        .unwrap_err();
    assert!(error.to_string().contains("2 modes need a grid"), "{error}");
    assert!(Model::new(&fno.0, DIMS, 0).is_err());
}

#[test]
fn impossible_sizes_are_refused() {
    let refused = |config: ModelConfig, words: &str| {
        let error = Model::new(&config, DIMS, 0).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let vidon = |change: &dyn Fn(&mut VidonConfig)| {
        let mut config = tiny_vidon();
        change(&mut config);
        ModelConfig::Vidon(config)
    };
    refused(
        vidon(&|c| c.heads = 0),
        "VIDON: without heads the branch needs a projection",
    );
    refused(
        vidon(&|c| c.head_hidden = vec![4, 0]),
        "every size must be at least 1",
    );
    refused(
        vidon(&|c| c.trunk = TrunkConfig::Mlp { hidden: vec![0] }),
        "a layer has no width",
    );
    refused(
        vidon(&|c| {
            c.trunk = TrunkConfig::Fourier {
                frame: frame(2, true),
            }
        }),
        "a frame needs 3 finite",
    );
    let flat = Frame {
        lo: vec![0.0; 2],
        hi: vec![0.0; 2],
        family: Family::Cosine,
        times: 0,
    };
    let positional = Positional::Fourier {
        frame: flat,
        functions: 5,
    };
    refused(
        vidon(&|c| c.positional = positional.clone()),
        "a frame needs 2 finite",
    );
    refused(
        ModelConfig::Fno(FnoConfig {
            padding: f64::NAN,
            ..FnoConfig::default()
        }),
        "FNO: the padding",
    );
    refused(
        ModelConfig::Fno(FnoConfig::default()),
        "here they have 2 and 3",
    );
    refused(vidon(&|c| c.heads = 1 << 40), "heads, layers or functions");
    refused(
        vidon(&|c| c.d_enc = 1 << 62),
        "more than 2147483648 numbers",
    );
    let none = Dims {
        query_coords: 0,
        ..DIMS
    };
    assert!(Model::new(&vidon(&|_| ()), none, 0).is_err());
}

fn weights() -> Weights {
    let (model, entries) = Model::new(&ModelConfig::Vidon(tiny_vidon()), DIMS, 5).unwrap();
    let mut rng = stream(0, "weights", 0);
    let normalisation = Normalisation::fit([&sample(&mut rng, 9, 9, DIMS)], false, false).unwrap();
    Weights {
        model,
        entries,
        meta: meta(DIMS),
        normalisation: Some(normalisation),
        symmetries: Default::default(),
    }
}

#[test]
fn a_file_of_weights_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let saved = weights();
    saved.save(&path).unwrap();
    let loaded = Weights::load(&path).unwrap();
    assert_eq!(loaded.entries, saved.entries);
    assert_eq!(loaded.normalisation, saved.normalisation);
    assert_eq!(
        (loaded.model.config(), &loaded.meta),
        (saved.model.config(), &saved.meta)
    );
    let batch = &zoo()[0].2;
    assert_eq!(
        predict(&loaded.model, &loaded.entries, batch),
        predict(&saved.model, &saved.entries, batch)
    );
}

#[test]
fn damaged_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    weights().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = Weights::load(&path).err().expect("an error").to_string();
        assert!(
            error.contains(words) && error.contains("w.safetensors"),
            "{error}"
        );
    };
    for end in [0, 4, 100, bytes.len() - 1] {
        refused(&bytes[..end], "is not a whole safetensors file");
    }
    let mut renamed = bytes.clone();
    let at = bytes
        .windows(12)
        .position(|w| w == b"trunk.0.bias")
        .unwrap();
    renamed[at] = b'x';
    refused(&renamed, "column trunk.0.bias: this tensor is missing");
    let mut broken = weights();
    broken.entries[0].values[0] = f32::NAN;
    broken.save(&path).unwrap();
    refused(&std::fs::read(&path).unwrap(), "not finite");
}
