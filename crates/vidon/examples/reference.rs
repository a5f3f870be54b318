//! Writes networks with random weights, and datasets whose targets are what they answer, for
//! `python/check_models.py` to compute again:
//!
//!   cargo build --release --workspace --examples && target/release/examples/reference FOLDER

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{DType, Device};
use rand::RngExt;
use vidon::Result;
use vidon::data::{Batch, Channel, DatasetWriter, Meta, Rows, Sample};
use vidon::domain::{BoxDomain, product};
use vidon::models::{
    Activation, CoreConfig, DeepOnetConfig, Dims, Encoding, Family, FnoConfig, FnoCoreConfig,
    Frame, Inputs, Model, ModelConfig, Params, Positional, ProjectionConfig, TrunkConfig,
    VidonConfig, Weights, to_vec,
};
use vidon::rng::{Rng, stream};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    std::fs::create_dir_all(&folder).expect("a folder that can be made");
    let mut rng = stream(0, "reference", 0);
    let space_time = meta(&["x", "y", "t"]);
    let ragged: Vec<Sample> = [1, 40, 200]
        .iter()
        .map(|&m| random(&mut rng, m, 30, 3))
        .collect();
    let mut fixed: Vec<Sample> = (0..3).map(|_| random(&mut rng, 25, 30, 3)).collect();
    let places = fixed[0].sensor_coords.clone();
    fixed
        .iter_mut()
        .for_each(|s| s.sensor_coords = places.clone());
    let grid = BoxDomain::cube(2, 0.0, 1.0).axes(&[33, 30]);
    let points = Arc::new(Rows::from_f64(2, &product(&grid)));
    let on_grid: Vec<Sample> = (0..2)
        .map(|_| Sample {
            sensor_coords: (*points).clone(),
            query_coords: points.clone(),
            ..random(&mut rng, points.len(), points.len(), 2)
        })
        .collect();
    let frame = |dim: usize, family: Family, times: usize| Frame {
        lo: vec![-1.0; dim],
        hi: vec![1.0; dim],
        family,
        times,
    };
    let projected = |family: Family, times: usize| VidonConfig {
        heads: 0,
        projection: Some(ProjectionConfig {
            frame: frame(2, family, 0),
            functions: 20,
        }),
        trunk: TrunkConfig::Fourier {
            frame: frame(2 + (times > 0) as usize, family, times),
        },
        p: 2 * 15 * times.max(1),
        ..VidonConfig::default()
    };
    let projection = VidonConfig {
        combine_hidden: vec![40, 40],
        combine_activation: Activation::Gelu,
        skip: true,
        ..projected(Family::Legendre, 3)
    };
    let core = VidonConfig {
        core: CoreConfig::Fno(Box::new(FnoCoreConfig {
            grid: 16,
            width: 16,
            modes: 5,
            padding: 0.25,
            ..FnoCoreConfig::default()
        })),
        ..projected(Family::Cosine, 0)
    };
    let fourier = VidonConfig {
        encoding: Encoding::Product,
        positional: Positional::Fourier {
            frame: frame(2, Family::Periodic, 0),
            functions: 25,
        },
        trunk: TrunkConfig::Fourier {
            frame: frame(3, Family::Cosine, 0),
        },
        ..VidonConfig::default()
    };
    let deeponet = DeepOnetConfig {
        sensors: 25,
        branch_hidden: vec![250; 4],
        p: 100,
        trunk: TrunkConfig::Mlp {
            hidden: vec![250; 4],
        },
        krige: None,
    };
    let fno = FnoConfig {
        padding: 0.5,
        ..FnoConfig::default()
    };
    let torus = VidonConfig {
        core: CoreConfig::Fno(Box::new(FnoCoreConfig {
            grid: 16,
            coords: false,
            width: 16,
            modes: 6,
            ..FnoCoreConfig::default()
        })),
        ..projected(Family::Periodic, 2)
    };
    let write = |name: &str, config: ModelConfig, meta: &Meta, samples: &[Sample]| {
        write(Path::new(&folder), name, config, meta, samples)
    };
    write(
        "vidon",
        ModelConfig::Vidon(VidonConfig::default()),
        &space_time,
        &ragged,
    )?;
    write(
        "vidon_fourier",
        ModelConfig::Vidon(fourier),
        &space_time,
        &ragged,
    )?;
    write(
        "vidon_projection",
        ModelConfig::Vidon(projection),
        &space_time,
        &ragged,
    )?;
    write(
        "vidon_torus",
        ModelConfig::Vidon(torus),
        &space_time,
        &ragged,
    )?;
    let in_space: Vec<Sample> = [30, 60, 200]
        .iter()
        .map(|&m| random(&mut rng, m, 30, 2))
        .collect();
    write(
        "vidon_core",
        ModelConfig::Vidon(core),
        &meta(&["x", "y"]),
        &in_space,
    )?;
    write(
        "deeponet",
        ModelConfig::DeepOnet(deeponet),
        &space_time,
        &fixed,
    )?;
    write("fno", ModelConfig::Fno(fno), &meta(&["x", "y"]), &on_grid)
}

fn meta(query: &[&str]) -> Meta {
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
    Meta::new(
        "reference",
        channels(&["x", "y"]),
        channels(&["a", "b"]),
        channels(query),
        channels(&["u", "v"]),
    )
}

fn random(rng: &mut Rng, m: usize, q: usize, query_coords: usize) -> Sample {
    let mut rows = |n: usize, width: usize| {
        Rows::new(
            width,
            (0..n * width)
                .map(|_| rng.random_range(-1.0..1.0))
                .collect(),
        )
    };
    Sample {
        name: None,
        sensor_coords: rows(m, 2),
        sensor_values: rows(m, 2),
        query_coords: Arc::new(rows(q, query_coords)),
        targets: rows(q, 2),
    }
}

fn write(
    folder: &Path,
    name: &str,
    config: ModelConfig,
    meta: &Meta,
    samples: &[Sample],
) -> Result<()> {
    let (model, mut entries) = Model::new(&config, Dims::from(meta), 1)?;
    model.fit(&mut entries, meta, samples)?;
    let device = Device::flex();
    let params = Params::new(&entries, &device, DType::F32);
    let answered: Result<Vec<Sample>> = samples
        .iter()
        .map(|sample| {
            let inputs = Inputs::new(&Batch::new(&[sample]), &device, DType::F32);
            let targets = Rows::new(2, to_vec(model.forward(&params, &inputs)?));
            Ok(Sample {
                targets,
                ..sample.clone()
            })
        })
        .collect();
    let mut writer = DatasetWriter::create(&folder.join(format!("{name}.parquet")), meta.clone())?;
    writer.write(&answered?)?;
    writer.finish()?;
    let weights = Weights {
        model,
        entries,
        meta: meta.clone(),
        normalisation: None,
        symmetries: Default::default(),
    };
    weights.save(&folder.join(format!("{name}.safetensors")))
}
