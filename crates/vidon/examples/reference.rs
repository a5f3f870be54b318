//! Writes networks with random weights, and datasets whose targets are what they answer, for
//! `python/check_models.py` to compute again:
//!
//!   cargo build --release --workspace --examples && target/release/examples/reference FOLDER

use std::path::Path;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use vidon::cores::{Activation, CoreConfig, FnoConfig, MlpConfig};
use vidon::data::{Channel, Dataset, Group, Kind, Meta, Rows, Sample, Sensors};
use vidon::decoders::{BasisConfig, DecoderConfig, LearnedConfig};
use vidon::encoders::{
    EncoderConfig, Encoding, HeadsConfig, MomentsConfig, Positional, ProjectionConfig,
    ScalarsConfig, VectorConfig,
};
use vidon::problems::Rng;
use vidon::spaces::{Family, Frame};
use vidon::{ModelConfig, Operator, Result};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    std::fs::create_dir_all(&folder).expect("a folder that can be made");
    let mut rng = Rng::seed_from_u64(0);
    let space_time = meta(&["x", "y"], &["x", "y", "t"]);
    let ragged: Vec<Sample> = [1, 40, 200]
        .iter()
        .map(|&m| random(&mut rng, m, 30, [2, 3]))
        .collect();
    let mut fixed: Vec<Sample> = (0..3).map(|_| random(&mut rng, 25, 30, [2, 3])).collect();
    let places = fixed[0].groups[0].coords.clone();
    fixed
        .iter_mut()
        .for_each(|s| s.groups[0].coords = places.clone());
    let frame = |dim: usize, family: Family, times: usize| Frame {
        lo: vec![-1.0; dim],
        hi: vec![1.0; dim],
        family,
        times,
    };
    let projection = |family: Family| {
        vec![EncoderConfig::Projection(ProjectionConfig {
            group: None,
            frame: frame(2, family, 0),
            functions: 20,
        })]
    };
    let basis = |family: Family, dim: usize, times: usize| {
        DecoderConfig::Basis(BasisConfig {
            frame: frame(dim, family, times),
            functions: 15,
        })
    };
    let fno = |config: FnoConfig| {
        CoreConfig::Fno(FnoConfig {
            grid: Some(16),
            width: 16,
            ..config
        })
    };
    let projected = ModelConfig {
        start: None,
        encoders: projection(Family::Legendre),
        core: CoreConfig::Mlp(MlpConfig {
            hidden: vec![40, 40],
            activation: Activation::Gelu,
            skip: true,
        }),
        decoder: basis(Family::Legendre, 3, 3),
    };
    let between = |axes: usize| ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Projection(ProjectionConfig {
            group: None,
            frame: frame(axes, Family::Cosine, 0),
            functions: 20,
        })],
        core: fno(FnoConfig {
            coords: Some(true),
            modes: 5,
            padding: 0.25,
            ..FnoConfig::default()
        }),
        decoder: basis(Family::Cosine, axes, 0),
    };
    let torus = ModelConfig {
        start: None,
        encoders: projection(Family::Periodic),
        core: fno(FnoConfig {
            coords: Some(false),
            modes: 6,
            ..FnoConfig::default()
        }),
        decoder: basis(Family::Periodic, 3, 2),
    };
    let fourier = ModelConfig {
        encoders: vec![EncoderConfig::Heads(HeadsConfig {
            encoding: Encoding::Product,
            positional: Positional::Fourier {
                frame: frame(2, Family::Periodic, 0),
                functions: 25,
            },
            ..HeadsConfig::default()
        })],
        decoder: DecoderConfig::Basis(BasisConfig {
            frame: frame(3, Family::Cosine, 0),
            functions: 50,
        }),
        ..ModelConfig::default()
    };
    let deeponet = ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Vector(VectorConfig {
            group: None,
            sensors: 25,
        })],
        core: CoreConfig::Mlp(MlpConfig {
            hidden: vec![250; 4],
            ..MlpConfig::default()
        }),
        decoder: DecoderConfig::Learned(LearnedConfig::default()),
    };
    let on_a_grid = |modes: usize| ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Grid {}],
        core: CoreConfig::Fno(FnoConfig {
            padding: 0.5,
            modes,
            ..FnoConfig::default()
        }),
        decoder: DecoderConfig::Grid {},
    };
    // Of several groups: on the core's grid side by side, and by heads that sum beside those that average.
    let moments = |group: &str| {
        EncoderConfig::Moments(MomentsConfig {
            group: Some(group.into()),
            frame: frame(2, Family::Sine, 0),
            functions: 12,
            decay: 1.5,
        })
    };
    let air = EncoderConfig::Projection(ProjectionConfig {
        group: Some("air".into()),
        frame: frame(2, Family::Cosine, 0),
        functions: 10,
    });
    let scalars = EncoderConfig::Scalars(ScalarsConfig::default());
    let side_by_side = ModelConfig {
        encoders: vec![air, moments("wells"), moments("drops"), scalars],
        ..between(2)
    };
    let heads = |group: &str, count: usize, sums: usize| {
        EncoderConfig::Heads(HeadsConfig {
            group: Some(group.into()),
            count,
            sums,
            ..HeadsConfig::default()
        })
    };
    let summed = ModelConfig {
        encoders: vec![
            heads("air", 2, 0),
            heads("wells", 1, 2),
            heads("drops", 1, 1),
        ],
        ..ModelConfig::default()
    };
    let write = |name: &str, config: ModelConfig, meta: &Meta, samples: &[Sample]| {
        write(Path::new(&folder), name, config, meta, samples)
    };
    write("vidon", ModelConfig::default(), &space_time, &ragged)?;
    write("vidon_fourier", fourier, &space_time, &ragged)?;
    write("vidon_projection", projected, &space_time, &ragged)?;
    write("vidon_torus", torus, &space_time, &ragged)?;
    write("deeponet", deeponet, &space_time, &fixed)?;
    for (axes, grid, modes) in [(1, &[60][..], 12), (2, &[33, 30], 12), (3, &[7, 8, 9], 4)] {
        let names = &["x", "y", "z"][..axes];
        let meta = meta(names, names);
        let in_space = [30, 60, 200].map(|m| random(&mut rng, m, 30, [axes, axes]));
        write(
            &format!("vidon_core_{axes}d"),
            between(axes),
            &meta,
            &in_space,
        )?;
        let points = Arc::new(on_grid(grid));
        let on_grid = [(); 2].map(|_| {
            let mut one = random(&mut rng, points.len(), points.len(), [axes, axes]);
            one.groups[0].coords = (*points).clone();
            one.query_coords = points.clone();
            one
        });
        write(&format!("fno_{axes}d"), on_a_grid(modes), &meta, &on_grid)?;
    }
    let campaign = campaign();
    let of_groups = [20, 60, 200].map(|m| random_groups(&mut rng, m, 30));
    write("vidon_groups", side_by_side, &campaign, &of_groups)?;
    write("vidon_sums", summed, &campaign, &of_groups)?;
    Ok(())
}

/// The points of a grid on the unit box, the last axis fastest.
fn on_grid(grid: &[usize]) -> Rows {
    let point = |i: usize| {
        let mut left = i;
        let mut place: Vec<f32> = (grid.iter().rev())
            .map(|n| {
                let node = left % n;
                left /= n;
                node as f32 / (n - 1) as f32
            })
            .collect();
        place.reverse();
        place
    };
    let points = (0..grid.iter().product()).flat_map(point);
    Rows::new(grid.len(), points.collect()).expect("whole rows")
}

fn meta(sensors: &[&str], query: &[&str]) -> Meta {
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
    Meta::new(
        "reference",
        channels(sensors),
        channels(&["a", "b"]),
        channels(query),
        channels(&["u", "v"]),
    )
}

/// Stations with heights and gaps, wells with strengths, drops without, parameters.
fn campaign() -> Meta {
    let named = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect::<Vec<_>>();
    let height = Channel {
        range: Some([-1.0, 1.0]),
        covariate: true,
        ..Channel::named("height")
    };
    let high = || [named(&["x", "y"]), vec![height.clone()]].concat();
    let group = |kind: Kind, name: &str, places: Vec<Channel>, values: &[&str], gaps: bool| Group {
        kind,
        gaps,
        ..Group::field(name, places, named(values))
    };
    let groups = vec![
        group(Kind::Field, "air", high(), &["a", "b"], true),
        group(
            Kind::Points,
            "wells",
            named(&["x", "y"]),
            &["q", "r"],
            false,
        ),
        group(Kind::Points, "drops", named(&["x", "y"]), &[], false),
        group(Kind::Scalars, "run", vec![], &["s", "t"], true),
    ];
    Meta::of_groups("campaign", groups, high(), named(&["u", "v"]))
}

fn random_groups(rng: &mut Rng, m: usize, q: usize) -> Sample {
    let numbers = |rng: &mut Rng, n: usize| -> Vec<f32> {
        (0..n).map(|_| rng.random_range(-1.0..1.0)).collect()
    };
    let mut rows =
        |n: usize, width: usize| Rows::new(width, numbers(rng, n * width)).expect("whole rows");
    let mut air = Sensors {
        coords: rows(m, 3),
        values: rows(m, 2),
    };
    let heights: Vec<f32> = air.coords.iter().map(|place| place[2]).collect();
    for (row, height) in air.values.data_mut().chunks_mut(2).zip(&heights) {
        row[1] += 3.0 * height;
    }
    let gaps = air.values.data_mut().iter_mut().step_by(3);
    gaps.for_each(|v| *v = f32::NAN);
    let wells = Sensors {
        coords: rows(m / 4, 2),
        values: rows(m / 4, 2),
    };
    let drops = Sensors {
        coords: rows(2 * m, 2),
        values: Rows::without_columns(2 * m),
    };
    let run = Sensors::scalars(&[m as f32, if m > 100 { f32::NAN } else { 0.5 }]);
    Sample {
        name: None,
        groups: vec![air, wells, drops, run],
        query_coords: Arc::new(rows(q, 3)),
        targets: rows(q, 2),
    }
}

fn random(rng: &mut Rng, m: usize, q: usize, [sensor, query]: [usize; 2]) -> Sample {
    let mut rows = |n: usize, width: usize| {
        Rows::new(
            width,
            (0..n * width)
                .map(|_| rng.random_range(-1.0..1.0))
                .collect(),
        )
        .expect("whole rows")
    };
    let (coords, values) = (rows(m, sensor), rows(m, 2));
    Sample::of(coords, values, Arc::new(rows(q, query)), rows(q, 2))
}

fn write(
    folder: &Path,
    name: &str,
    config: ModelConfig,
    meta: &Meta,
    samples: &[Sample],
) -> Result<()> {
    let operator = Operator::untrained(&config, meta.clone(), samples, 1)?;
    let answered = samples.iter().map(|sample| {
        let targets = operator.predict_samples(&[sample])?.remove(0);
        Ok(Sample {
            targets,
            ..sample.clone()
        })
    });
    let answered: Result<Vec<Sample>> = answered.collect();
    let answered = Dataset::from_samples(meta.clone(), answered?)?;
    let file = folder.join(format!("{name}.parquet"));
    answered.write(&file, samples.len(), &())?;
    operator.save(&folder.join(format!("{name}.safetensors")))
}
