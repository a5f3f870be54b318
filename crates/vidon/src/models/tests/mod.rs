//! What every network promises; here the small networks that the tests share.

mod files;
mod gradients;
mod laws;
mod limits;
mod sizes;

use std::sync::Arc;

use burn::tensor::{DType, Device};
use rand::RngExt;

use super::*;
use crate::data::{Batch, Channel, Rows, Sample};
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

fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
    norm(&mut a.iter().zip(b).map(|(x, y)| x - y)) / norm(&mut b.iter().copied())
}
