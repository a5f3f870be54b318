//! Sets have no order, DeepONet is a special case, a POD trunk holds what it was made of.

use proptest::prelude::*;

use super::*;

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
