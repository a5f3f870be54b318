//! Several groups of sensors, gaps, points and parameters.

use super::*;
use crate::data::Group;
use crate::encoders::{MomentsConfig, ScalarsConfig};
use crate::rng::Rng;
use crate::start::{LinearConfig, StartConfig};

/// Readings with gaps and a covariate, sources of two strengths, samples of a density, parameters with gaps;
/// queries with a covariate.
fn meta_of_groups() -> Meta {
    let channel = |name: &str, covariate: bool| Channel {
        range: Some([-1.0, 1.0]),
        covariate,
        ..Channel::named(name)
    };
    let plane = || vec![channel("x", false), channel("y", false)];
    let high = || [plane(), vec![channel("height", true)]].concat();
    let named = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
    let air = Group {
        gaps: true,
        ..Group::field("air", high(), named(&["T", "q"]))
    };
    let points = |name: &str, values: &[&str]| Group {
        kind: Kind::Points,
        ..Group::field(name, plane(), named(values))
    };
    let run = Group {
        kind: Kind::Scalars,
        gaps: true,
        ..Group::field("run", vec![], named(&["a", "b"]))
    };
    let groups = vec![
        air,
        points("wells", &["in", "out"]),
        points("drops", &[]),
        run,
    ];
    Meta {
        target_gaps: true,
        ..Meta::of_groups("groups", groups, high(), named(&["u"]))
    }
}

fn with_gaps(mut rows: Rows, step: usize) -> Rows {
    let gaps = rows.data_mut().iter_mut().step_by(step);
    gaps.for_each(|v| *v = f32::NAN);
    rows
}

fn sample_of_groups(rng: &mut Rng, m: usize, q: usize) -> Sample {
    let sensors = |rng: &mut Rng, m: usize, places: usize, values: usize| Sensors {
        coords: rows(rng, m, places),
        values: match values {
            0 => Rows::without_columns(m),
            width => rows(rng, m, width),
        },
    };
    let mut air = sensors(rng, m, 3, 2);
    air.values = with_gaps(air.values, 3);
    let run = Sensors::scalars(&[rng.random(), f32::NAN]);
    Sample {
        name: None,
        groups: vec![
            air,
            sensors(rng, 1 + m / 2, 2, 2),
            sensors(rng, 2 * m, 2, 0),
            run,
        ],
        query_coords: Arc::new(rows(rng, q, 3)),
        targets: rows(rng, q, 1),
    }
}

fn moments(group: &str) -> EncoderConfig {
    EncoderConfig::Moments(MomentsConfig {
        group: Some(group.into()),
        frame: frame(2, false),
        functions: 5,
        decay: 1.0,
    })
}

fn heads_of(group: &str, count: usize, sums: usize) -> EncoderConfig {
    EncoderConfig::Heads(HeadsConfig {
        group: Some(group.into()),
        count,
        sums,
        ..tiny_heads()
    })
}

fn air_and_run() -> Vec<EncoderConfig> {
    let air = EncoderConfig::Projection(ProjectionConfig {
        group: Some("air".into()),
        frame: frame(2, false),
        functions: 6,
    });
    vec![air, EncoderConfig::Scalars(ScalarsConfig::default())]
}

/// Networks of several groups: all side by side in front of both cores, and learned heads alone.
pub(super) fn zoo(rng: &mut Rng) -> Vec<(ModelConfig, Meta, Vec<Sample>)> {
    let samples: Vec<Sample> = [5, 3, 9, 4].map(|m| sample_of_groups(rng, m, 4)).into();
    let between = ModelConfig {
        encoders: [
            air_and_run(),
            vec![moments("wells"), moments("drops"), heads_of("wells", 0, 1)],
        ]
        .concat(),
        ..between_in(2)
    };
    let perceptron = ModelConfig {
        core: small_mlp(),
        decoder: learned(3, &[5]),
        ..between.clone()
    };
    let heads = ModelConfig {
        encoders: vec![
            heads_of("air", 2, 0),
            heads_of("wells", 1, 2),
            heads_of("drops", 1, 1),
        ],
        ..perceptron.clone()
    };
    let linear = ModelConfig {
        start: Some(StartConfig::Linear(LinearConfig {})),
        encoders: [air_and_run(), vec![moments("wells"), moments("drops")]].concat(),
        core: small_mlp(),
        ..between.clone()
    };
    let all = [between, perceptron, heads, linear];
    let zoo = all.map(|config| (config, meta_of_groups(), samples.clone()));
    zoo.into()
}

/// The numbers of a sensor that a column does not report, and where a sensor stands that reports nothing, do not
/// matter to any network.
#[test]
fn what_is_missing_counts_for_nothing() {
    let mut rng = stream(0, "gaps", 0);
    for (config, meta, samples) in zoo(&mut rng) {
        let operator = operator(&config, &meta, &samples, 1);
        let before = answers(&operator, &samples);
        let mut silent = samples.clone();
        for sample in &mut silent {
            let more = Sensors {
                coords: rows(&mut rng, 3, 3),
                values: with_gaps(rows(&mut rng, 3, 2), 1),
            };
            sample.groups[0].coords.extend(&more.coords);
            sample.groups[0].values.extend(&more.values);
        }
        assert_eq!(answers(&operator, &silent), before, "{config:?}");
    }
}

#[test]
fn a_covariate_that_is_missing_is_named() {
    let mut rng = stream(0, "forgotten", 0);
    let (config, meta, samples) = zoo(&mut rng).remove(0);
    let operator = operator(&config, &meta, &samples, 1);
    let refused = |change: &dyn Fn(&mut Sample), part: &str| {
        let mut sample = samples[0].clone();
        change(&mut sample);
        let words = operator
            .predict_samples(&[&sample])
            .unwrap_err()
            .to_string();
        let known = "what is known of a place is x, y, height";
        assert!(words.contains(part) && words.contains(known), "{words}");
    };
    let flat = |rows: &Rows| rows.first_columns(2).into_owned();
    refused(
        &|s| s.groups[0].coords = flat(&s.groups[0].coords),
        "air_coords",
    );
    refused(
        &|s| s.query_coords = Arc::new(flat(&s.query_coords)),
        "query_coords",
    );
}

/// Every group has its say.
#[test]
fn every_group_changes_the_answer() {
    let mut rng = stream(0, "say", 0);
    let (config, meta, samples) = zoo(&mut rng).remove(0);
    let operator = operator(&config, &meta, &samples, 1);
    let before = answers(&operator, &samples[..1]);
    for group in 0..meta.groups.len() {
        let mut other = samples[0].clone();
        let own = &mut other.groups[group];
        let numbers = match group {
            2 => own.coords.data_mut(),
            _ => own.values.data_mut(),
        };
        numbers.iter_mut().for_each(|v| *v *= -0.5);
        assert_ne!(
            answers(&operator, &[other]),
            before,
            "{}",
            meta.groups[group].name
        );
    }
}

/// With a core and a decoder that are linear, twice the sources give twice the answer where heads sum, and the same
/// where they average.
#[test]
fn sums_grow_and_averages_do_not() {
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
    let wells = Group {
        kind: Kind::Points,
        ..Group::field("wells", channels(&["x"]), channels(&["q"]))
    };
    let meta = Meta::of_groups("wells", vec![wells], channels(&["x"]), channels(&["u"]));
    let answer = |count: usize, sums: usize, times: usize| {
        let config = ModelConfig {
            start: None,
            encoders: vec![heads_of("wells", count, sums)],
            core: CoreConfig::Mlp(MlpConfig {
                hidden: vec![],
                ..MlpConfig::default()
            }),
            decoder: learned(2, &[4]),
        };
        let (parts, mut entries) = Parts::new(&config, &meta, 3).unwrap();
        // What does not depend on the sources is left out: the core's bias, and τ_0.
        let fixed = entries.iter_mut().filter(|e| e.name == "core.0.bias");
        fixed.for_each(|e| e.values.fill(0.0));
        let sources = Sensors {
            coords: Rows::of(1, [0.1, 0.7, -0.4].repeat(times)),
            values: Rows::of(1, [1.0, -0.3, 0.6].repeat(times)),
        };
        let params = Params::new(&entries, &Place::single(device()));
        let codes = parts.encode(&entries, &[&[sources]]).unwrap();
        to_vec(parts.branch(&params, &[&codes[0]]).unwrap())
    };
    let doubled: Vec<f32> = answer(0, 2, 1).iter().map(|v| 2.0 * v).collect();
    assert!(apart(&answer(0, 2, 2), &doubled) < 1e-5);
    assert!(apart(&answer(2, 0, 2), &answer(2, 0, 1)) < 1e-5);
}

/// No source at all is an answer, alone and beside others; averages of nothing are none.
#[test]
fn no_source_is_an_answer() {
    let mut rng = stream(0, "empty", 0);
    let with = |encoders: Vec<EncoderConfig>, samples: &[Sample]| {
        let (between, meta, _) = zoo(&mut stream(0, "same", 0)).remove(1);
        let config = ModelConfig {
            encoders,
            ..between
        };
        let operator = operator(&config, &meta, samples, 1);
        let samples: Vec<&Sample> = samples.iter().collect();
        operator.predict_samples(&samples)
    };
    let mut empty = sample_of_groups(&mut rng, 3, 4);
    for points in [1, 2] {
        empty.groups[points] = empty.groups[points].select(&[]);
    }
    let samples = [empty.clone(), sample_of_groups(&mut rng, 6, 4)];
    let sums = || vec![heads_of("wells", 0, 2), heads_of("drops", 0, 1)];
    for encoders in [sums(), vec![moments("wells"), moments("drops")]] {
        let alone = with(encoders.clone(), &samples[..1]).unwrap();
        assert_eq!(with(encoders, &samples).unwrap()[0], alone[0]);
        assert!(alone[0].data().iter().all(|v| v.is_finite()));
    }
    let refused = with(vec![heads_of("wells", 1, 0)], &samples).unwrap_err();
    assert!(
        refused.to_string().contains("it has no points"),
        "{refused}"
    );
}

#[test]
fn encoders_and_groups_must_fit() {
    let refused = |encoders: Vec<EncoderConfig>, words: &str| {
        let config = ModelConfig {
            start: None,
            encoders,
            core: small_mlp(),
            decoder: learned(2, &[4]),
        };
        let error = Parts::new(&config, &meta_of_groups(), 0).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(words), "{error}");
    };
    let vector = |group: Option<&str>| {
        EncoderConfig::Vector(VectorConfig {
            group: group.map(str::to_string),
            sensors: 4,
        })
    };
    refused(
        vec![heads_of("sea", 1, 0)],
        "there is no group sea; there are air, wells, drops, run",
    );
    refused(
        vec![heads_of("run", 1, 0)],
        "cannot take the group run, which is of the kind scalars",
    );
    refused(
        vec![moments("air")],
        "readings of a function are for projection, heads or krige",
    );
    refused(vec![heads_of("air", 1, 1)], "sums are for points");
    refused(
        vec![EncoderConfig::Heads(tiny_heads())],
        "which group is meant?",
    );
    refused(vec![vector(None)], "kriging fills them in");
    refused(vec![EncoderConfig::Grid {}], "kriging fills them in");
    refused(
        vec![moments("wells"), moments("wells")],
        "two encoders of the same kind, moments, for the group wells",
    );
}
