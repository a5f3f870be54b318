//! What every operator promises; here the small networks that the tests share.

mod files;
mod gradients;
mod groups;
mod laws;
mod limits;
mod sizes;

use std::sync::Arc;

use rand::RngExt;

use super::*;
use crate::cores::{CoreConfig, FnoConfig, MlpConfig};
use crate::data::Rows;
use crate::decoders::{BasisConfig, DecoderConfig, LearnedConfig, PodConfig};
use crate::domain::product;
use crate::encoders::{
    EncoderConfig, Encoding, HeadsConfig, KrigeConfig, Positional, ProjectionConfig, VectorConfig,
};
use crate::network::Activation;
use crate::rng::{Rng, stream};
use crate::spaces::{Family, Frame};

/// Numbers of columns of data with one group of sensors.
#[derive(Clone, Copy)]
struct Dims {
    sensor_coords: usize,
    sensor_values: usize,
    query_coords: usize,
    targets: usize,
}

const DIMS: Dims = Dims {
    sensor_coords: 2,
    sensor_values: 2,
    query_coords: 3,
    targets: 2,
};

fn rows(rng: &mut Rng, count: usize, width: usize) -> Rows {
    Rows::of(
        width,
        (0..count * width)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
    )
}

fn sample(rng: &mut Rng, m: usize, q: usize, dims: Dims) -> Sample {
    Sample::of(
        rows(rng, m, dims.sensor_coords),
        rows(rng, m, dims.sensor_values),
        Arc::new(rows(rng, q, dims.query_coords)),
        rows(rng, q, dims.targets),
    )
}

/// Samples on one grid, asked there, for FNO.
fn grid_sample(rng: &mut Rng, grid: &[usize]) -> Sample {
    let axis = |n: &usize| (0..*n).map(|i| i as f64 / (n - 1) as f64).collect();
    let axes: Vec<Vec<f64>> = grid.iter().map(axis).collect();
    let points = Rows::of_f64(grid.len(), &product(&axes));
    let values = rows(rng, points.len(), 2);
    let targets = rows(rng, points.len(), 2);
    Sample::of(points.clone(), values, Arc::new(points), targets)
}

fn tiny_heads() -> HeadsConfig {
    HeadsConfig {
        d_enc: 5,
        encoder_hidden: vec![6],
        count: 2,
        hidden: vec![7, 7],
        outputs: 3,
        ..HeadsConfig::default()
    }
}

fn small_mlp() -> CoreConfig {
    CoreConfig::Mlp(MlpConfig {
        hidden: vec![8, 8],
        ..MlpConfig::default()
    })
}

fn learned(p: usize, hidden: &[usize]) -> DecoderConfig {
    DecoderConfig::Learned(LearnedConfig {
        p,
        hidden: hidden.to_vec(),
    })
}

fn tiny_vidon() -> ModelConfig {
    ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Heads(tiny_heads())],
        core: small_mlp(),
        decoder: learned(4, &[6, 6]),
    }
}

fn tiny_deeponet() -> ModelConfig {
    ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Vector(VectorConfig {
            group: None,
            sensors: 4,
        })],
        core: CoreConfig::Mlp(MlpConfig {
            hidden: vec![6, 6],
            ..MlpConfig::default()
        }),
        decoder: learned(3, &[5]),
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

fn basis(functions: usize, frame: Frame) -> DecoderConfig {
    DecoderConfig::Basis(BasisConfig { frame, functions })
}

fn projection(functions: usize, periodic: bool) -> EncoderConfig {
    EncoderConfig::Projection(ProjectionConfig {
        group: None,
        frame: frame(2, periodic),
        functions,
    })
}

fn on_grid(config: FnoConfig) -> ModelConfig {
    ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Grid {}],
        core: CoreConfig::Fno(config),
        decoder: DecoderConfig::Grid {},
    }
}

/// An FNO between two bases of functions of so many coordinates.
fn between_in(axes: usize) -> ModelConfig {
    ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Projection(ProjectionConfig {
            group: None,
            frame: frame(axes, false),
            functions: 4,
        })],
        core: CoreConfig::Fno(FnoConfig {
            grid: Some(5),
            width: 16,
            modes: 2,
            layers: 2,
            hidden: 5,
            padding: 0.2,
            ..FnoConfig::default()
        }),
        decoder: basis(3, frame(axes, false)),
    }
}

fn scattered(rng: &mut Rng, dims: Dims) -> Vec<Sample> {
    [(7, 4), (2, 3)]
        .map(|(m, q)| sample(rng, m, q, dims))
        .to_vec()
}

/// Every kind of network, small, with samples it can take.
fn zoo() -> Vec<(ModelConfig, Meta, Vec<Sample>)> {
    let mut rng = stream(0, "zoo", 0);
    let ragged = vec![
        sample(&mut rng, 3, 4, DIMS),
        sample(&mut rng, 1, 2, DIMS),
        sample(&mut rng, 6, 5, DIMS),
    ];
    let mut shared = ragged.clone();
    for sample in &mut shared {
        sample.query_coords = ragged[0].query_coords.clone();
        sample.targets = ragged[0].targets.clone();
    }
    let mut fixed = vec![sample(&mut rng, 4, 3, DIMS), sample(&mut rng, 4, 3, DIMS)];
    fixed[1].groups[0].coords = fixed[0].groups[0].coords.clone();
    let product = ModelConfig {
        encoders: vec![EncoderConfig::Heads(HeadsConfig {
            encoding: Encoding::Product,
            positional: Positional::Fourier {
                frame: frame(2, true),
                functions: 9,
            },
            ..tiny_heads()
        })],
        decoder: basis(2, frame(3, false)),
        ..tiny_vidon()
    };
    let fno = FnoConfig {
        width: 3,
        modes: 2,
        layers: 2,
        hidden: 4,
        padding: 0.25,
        ..FnoConfig::default()
    };
    // Wide enough for the fused layers.
    let wide = FnoConfig {
        width: 16,
        ..fno.clone()
    };
    let grids = |rng: &mut Rng, grid: &[usize]| [(); 2].map(|_| grid_sample(rng, grid)).to_vec();
    let (line, square, cube) = (
        grids(&mut rng, &[9]),
        grids(&mut rng, &[5, 6]),
        grids(&mut rng, &[4, 5, 4]),
    );
    let space = |coords: usize| Dims {
        sensor_coords: coords,
        query_coords: coords,
        ..DIMS
    };
    let plane = space(2);
    let pod = ModelConfig {
        decoder: DecoderConfig::Pod(PodConfig {
            frame: frame(3, true),
            functions: 7,
            p: 4,
        }),
        ..tiny_vidon()
    };
    let both = ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Heads(tiny_heads()), projection(6, false)],
        core: CoreConfig::Mlp(MlpConfig {
            hidden: vec![8, 8],
            activation: Activation::Gelu,
            skip: true,
        }),
        decoder: basis(2, frame(3, false)),
    };
    let between = ModelConfig {
        start: None,
        encoders: vec![projection(9, true)],
        core: CoreConfig::Fno(FnoConfig {
            grid: Some(6),
            width: 16,
            modes: 2,
            layers: 2,
            hidden: 5,
            ..FnoConfig::default()
        }),
        decoder: basis(
            5,
            Frame {
                times: 2,
                ..frame(3, true)
            },
        ),
    };
    let kriged = ModelConfig {
        encoders: vec![EncoderConfig::Krige(KrigeConfig {
            group: None,
            grid: vec![2, 2],
        })],
        ..tiny_deeponet()
    };
    let single = [
        (tiny_vidon(), DIMS, ragged.clone()),
        (tiny_vidon(), DIMS, shared.clone()),
        (product, DIMS, ragged.clone()),
        (tiny_deeponet(), DIMS, fixed),
        (kriged, DIMS, ragged.clone()),
        (on_grid(fno.clone()), plane, square.clone()),
        (on_grid(wide.clone()), plane, square),
        (on_grid(fno.clone()), space(1), line.clone()),
        (on_grid(wide.clone()), space(1), line),
        (on_grid(fno), space(3), cube.clone()),
        (on_grid(wide), space(3), cube),
        (pod, DIMS, ragged.clone()),
        (both, DIMS, ragged.clone()),
        (between.clone(), DIMS, ragged),
        (between, DIMS, shared),
        (between_in(1), space(1), scattered(&mut rng, space(1))),
        (between_in(3), space(3), scattered(&mut rng, space(3))),
    ];
    let single = single.map(|(config, dims, samples)| (config, meta(dims), samples));
    single.into_iter().chain(groups::zoo(&mut rng)).collect()
}

/// With numbers in place of what would be taken from data.
fn network(
    config: &ModelConfig,
    meta: &Meta,
    samples: &[Sample],
    seed: u64,
) -> (Parts, Vec<Entry>) {
    let (parts, mut entries) = Parts::new(config, meta, seed).unwrap();
    let mut rng = stream(0, "fixed", 0);
    for entry in entries.iter_mut().filter(|e| !e.trained) {
        let values = entry.values.iter_mut();
        values.for_each(|v| *v = rng.random_range(0.5..1.5));
        if entry.name == "sensors" {
            // Of the first sample, or of a grid.
            let places = match config.encoders[0] {
                EncoderConfig::Krige(_) => vec![-1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0],
                _ => samples[0].groups[0].coords.data().to_vec(),
            };
            entry.values = places;
        }
    }
    (parts, entries)
}

fn operator(config: &ModelConfig, meta: &Meta, samples: &[Sample], seed: u64) -> Operator {
    let (parts, entries) = network(config, meta, samples, seed);
    let design = Design::plain(parts, meta.clone());
    Operator::with_numbers(design, entries)
}

fn answers(operator: &Operator, samples: &[Sample]) -> Vec<Rows> {
    let samples: Vec<&Sample> = samples.iter().collect();
    operator.predict_samples(&samples).unwrap()
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|x| x * x).sum::<f32>().sqrt();
    norm(&mut a.iter().zip(b).map(|(x, y)| x - y)) / norm(&mut b.iter().copied())
}
