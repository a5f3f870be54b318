//! Sets have no order, answers do not depend on their neighbours, DeepONet is a special case, a POD holds
//! what it was made of.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Order and repetition of the sensors do not matter, one sensor is enough.
    #[test]
    fn vidon_sees_a_set(m in 1usize..40, seed: u64) {
        let mut rng = stream(seed, "set", 0);
        let one = sample(&mut rng, m, 5, DIMS);
        let vidon = operator(&tiny_vidon(), &meta(DIMS), &[], seed);
        let with = |order: &[usize]| {
            let changed = Sample {
                groups: vec![one.groups[0].select(order)],
                ..one.clone()
            };
            answers(&vidon, &[changed]).remove(0)
        };
        let order: Vec<usize> = (0..m).collect();
        let plain = with(&order);
        let shuffled = rand::seq::index::sample(&mut rng, m, m).into_vec();
        prop_assert!(apart(with(&shuffled).data(), plain.data()) <= 1e-5);
        prop_assert!(apart(with(&[order, shuffled].concat()).data(), plain.data()) <= 1e-5);
    }
}

/// No bit of an answer depends on what else is asked at the same time, nor on how much.
#[test]
fn answers_do_not_depend_on_their_neighbours() {
    let mut rng = stream(3, "neighbours", 0);
    let anew = |own: &Rows, rng: &mut crate::rng::Rng, m: usize| match own.width() {
        0 => Rows::without_columns(m),
        width => rows(rng, m, width),
    };
    for (config, meta, mut samples) in zoo() {
        let fixed =
            |e: &EncoderConfig| matches!(e, EncoderConfig::Vector(_) | EncoderConfig::Grid {});
        let free = !config.encoders.iter().any(fixed);
        // More of the same kind, some larger, asked at the places of the first.
        for factor in [40, 1, 90] {
            let mut more = samples[0].clone();
            for (own, group) in more.groups.iter_mut().zip(&meta.groups) {
                if free && group.kind != Kind::Scalars {
                    own.coords = anew(&own.coords, &mut rng, 7 * factor);
                }
                own.values = anew(&own.values, &mut rng, own.coords.len());
            }
            samples.push(more);
        }
        // Another reading at the same places, which may be fitted together.
        let mut again = samples[3].clone();
        for own in &mut again.groups {
            own.values = anew(&own.values, &mut rng, own.len());
        }
        samples.push(again);
        let operator = operator(&config, &meta, &samples, 2);
        let together = answers(&operator, &samples);
        let turned: Vec<Sample> = samples.iter().rev().cloned().collect();
        let turned = answers(&operator, &turned);
        for (i, sample) in samples.iter().enumerate() {
            let alone = answers(&operator, std::slice::from_ref(sample)).remove(0);
            assert!(alone == together[i], "{config:?} {i}");
            assert!(alone == turned[samples.len() - 1 - i], "{config:?} {i}");
        }
    }
}

/// The paper's special case: with H = m heads, ω̃^(ℓ) picking sensor ℓ and ν̃ passing its value on, VIDON is
/// a DeepONet.
///
/// How, with tanh in between: the sensors stand at x = 1..m on a line. Ψ_c(x) = (x/s, 0) and Ψ_v(u) = (0,
/// u/s) with a large s, made by encoders of one linear layer. The logit of head ℓ must be largest at x = ℓ: a
/// bump from two steps, tanh(c(x-ℓ+½)) - tanh(c(x-ℓ-½)), times a large factor. ν̃ is s²·tanh(u/s²), which is
/// u to O((u/s²)²).
#[test]
fn deeponet_is_the_special_case_of_the_paper() {
    let m = 5;
    let dims = Dims {
        sensor_coords: 1,
        sensor_values: 1,
        query_coords: 2,
        targets: 1,
    };
    let mut rng = stream(1, "special", 0);
    let places = Rows::of(1, (1..=m).map(|x| x as f32).collect());
    let samples: Vec<Sample> = (0..4)
        .map(|_| {
            let mut one = sample(&mut rng, m, 6, dims);
            one.groups[0].coords = places.clone();
            one
        })
        .collect();
    let deeponet = ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Vector(VectorConfig {
            group: None,
            sensors: m,
        })],
        core: small_mlp(),
        decoder: learned(6, &[9, 9]),
    };
    let reference = operator(&deeponet, &meta(dims), &samples, 7);
    let config = ModelConfig {
        encoders: vec![EncoderConfig::Heads(HeadsConfig {
            d_enc: 2,
            encoder_hidden: vec![],
            count: m,
            hidden: vec![2],
            outputs: 1,
            ..HeadsConfig::default()
        })],
        ..deeponet
    };
    let (parts, mut entries) = Parts::new(&config, &meta(dims), 0).unwrap();
    let s = 10.0f32;
    for entry in &mut entries {
        let values = entry.values.clone();
        let words: Vec<&str> = entry.name.split('.').collect();
        entry.values = match words[..] {
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
            // Core and trunk are those of the DeepONet.
            _ => {
                let mut same = reference.entries().iter().filter(|e| e.name == entry.name);
                same.next().unwrap().values.clone()
            }
        };
        assert_eq!(entry.values.len(), values.len(), "{}", entry.name);
    }
    let design = Design::plain(parts, meta(dims));
    let vidon = Operator::with_numbers(design, entries);
    for (a, b) in answers(&vidon, &samples)
        .iter()
        .zip(answers(&reference, &samples))
    {
        let difference = apart(a.data(), b.data());
        println!("VIDON and DeepONet differ by {difference:.1e} relative");
        assert!(difference <= 1e-5);
    }
}

#[test]
fn a_pod_holds_the_training_outputs() {
    // Outputs in the span of three functions, at places of their own in every sample.
    let dims = Dims {
        sensor_coords: 1,
        sensor_values: 1,
        query_coords: 2,
        targets: 2,
    };
    let config = ModelConfig {
        start: None,
        encoders: vec![EncoderConfig::Vector(VectorConfig {
            group: None,
            sensors: 1,
        })],
        core: small_mlp(),
        decoder: DecoderConfig::Pod(PodConfig {
            frame: frame(2, false),
            functions: 20,
            p: 3,
        }),
    };
    let mut rng = stream(0, "pod", 0);
    let wave = |p: &[f32], k: f32| (std::f32::consts::PI * k * (p[0] + 1.0) / 2.0).cos();
    let samples: Vec<Sample> = (0..40)
        .map(|_| {
            let mut one = sample(&mut rng, 1, 60, dims);
            one.groups[0].coords = Rows::of(1, vec![0.0]);
            let [a, b, c] = [0, 1, 2].map(|_| rng.random_range(-1.0..1.0f32));
            let value = |p: &[f32]| [2.0 + a * wave(p, 1.0), b * wave(p, 2.0) + c * wave(p, 3.0)];
            one.targets = Rows::of(2, one.query_coords.iter().flat_map(value).collect());
            one
        })
        .collect();
    let fitted = |count: usize| Operator::untrained(&config, meta(dims), &samples[..count], 0);
    let operator = fitted(40).unwrap();
    // β = 0 gives the mean; its first component is 2 + mean(a)·…, its mean over samples.
    let mut entries = operator.entries().iter();
    let pod = entries.find(|e| e.name == "trunk.pod").unwrap();
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
    let few = fitted(3).err().unwrap().to_string();
    assert!(
        few.contains("more than 3 training samples (here: 3)"),
        "{few}"
    );
}
