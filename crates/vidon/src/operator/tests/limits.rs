//! What an operator cannot take or be.

use super::*;
use crate::sensors::Layout;

fn refusal(operator: &Operator, sample: &Sample) -> String {
    operator.predict_samples(&[sample]).unwrap_err().to_string()
}

#[test]
fn networks_say_what_they_cannot_take() {
    let mut rng = stream(0, "places", 0);
    let trained = [sample(&mut rng, 4, 3, DIMS), sample(&mut rng, 4, 3, DIMS)];
    let deeponet = Operator::untrained(&tiny_deeponet(), meta(DIMS), &trained, 0).unwrap();
    let error = deeponet
        .check_layout(Layout::Missing)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("DeepONet cannot take the layout missing, only regular and irregular"),
        "{error}"
    );
    assert!(deeponet.check_layout(Layout::Irregular).is_ok());
    let error = refusal(&deeponet, &sample(&mut rng, 3, 3, DIMS));
    assert!(
        error.contains("exactly 4 sensors") && error.contains("has 3"),
        "{error}"
    );
    assert!(deeponet.predict_samples(&[&trained[0]]).is_ok());
    let error = refusal(&deeponet, &trained[1]);
    assert!(error.contains("these stand elsewhere"), "{error}");

    // With kriging it takes any sensors.
    let (kriged, meta, samples) = zoo().remove(4);
    let kriged = Operator::untrained(&kriged, meta, &samples, 0).unwrap();
    assert!(Layout::ALL.iter().all(|l| kriged.check_layout(*l).is_ok()));
    let places = kriged.entries().iter().find(|e| e.name == "sensors");
    let corners = [-1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0];
    assert_eq!(places.unwrap().values, corners);
    assert!(kriged.predict_samples(&[&trained[1]]).is_ok());
}

#[test]
fn fno_says_which_grids_it_takes() {
    let mut rng = stream(0, "grids", 0);
    let (config, meta, samples) = zoo().remove(5);
    let fno = Operator::untrained(&config, meta, &samples, 0).unwrap();
    let error = fno.check_layout(Layout::Missing).unwrap_err().to_string();
    assert!(error.contains("only regular"), "{error}");
    let error = refusal(
        &fno,
        &sample(
            &mut rng,
            6,
            6,
            Dims {
                query_coords: 2,
                ..DIMS
            },
        ),
    );
    assert!(error.contains("not a product of axes"), "{error}");
    let mut elsewhere = samples[0].clone();
    elsewhere.query_coords = Arc::new(elsewhere.query_coords.select(&[0, 1]));
    let error = refusal(&fno, &elsewhere);
    assert!(error.contains("are not the same points"), "{error}");
    let mut bent = grid_sample(&mut rng, &[5, 6]);
    let square = bent.query_coords.data().iter().map(|x| x * x).collect();
    bent.query_coords = Arc::new(Rows::of(2, square));
    bent.groups[0].coords = (*bent.query_coords).clone();
    let error = refusal(&fno, &bent);
    assert!(error.contains("not evenly spaced"), "{error}");
    let error = refusal(&fno, &grid_sample(&mut rng, &[2, 2]));
    assert!(error.contains("2 modes need at least 4 points"), "{error}");
}

#[test]
fn impossible_sizes_are_refused() {
    let refused = |config: ModelConfig, words: &str| {
        let error = Parts::new(&config, &meta(DIMS), 0).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let with = |change: &dyn Fn(&mut HeadsConfig)| {
        let mut heads = tiny_heads();
        change(&mut heads);
        ModelConfig {
            encoders: vec![EncoderConfig::Heads(heads)],
            ..tiny_vidon()
        }
    };
    let decoded = |decoder: DecoderConfig| ModelConfig {
        decoder,
        ..tiny_vidon()
    };
    let encoded = |encoders: Vec<EncoderConfig>| ModelConfig {
        encoders,
        ..tiny_vidon()
    };
    refused(encoded(vec![]), "VIDON: it needs an encoder");
    let twice = vec![projection(4, true), projection(5, true)];
    refused(encoded(twice), "two encoders of the same kind");
    refused(
        with(&|c| c.hidden = vec![4, 0]),
        "every size must be at least 1",
    );
    refused(decoded(learned(4, &[0])), "layer has no width");
    refused(
        decoded(basis(4, frame(2, true))),
        "a frame needs 3 lower and upper ends",
    );
    let flat = Frame {
        hi: vec![-1.0; 2],
        ..frame(2, false)
    };
    let positional = Positional::Fourier {
        frame: flat,
        functions: 5,
    };
    refused(
        with(&|c| c.positional = positional.clone()),
        "has the lower end -1.0 and the upper end -1.0",
    );
    for (hi, words) in [
        (f64::NAN, "the coordinate c1 is the same in all of the data"),
        (3e37, "goes beyond 1e30: choose another unit"),
    ] {
        let ends = Frame {
            hi: vec![1.0, hi],
            ..frame(2, false)
        };
        let positional = Positional::Fourier {
            frame: ends,
            functions: 5,
        };
        refused(with(&|c| c.positional = positional.clone()), words);
    }
    let padded = FnoConfig {
        padding: f64::NAN,
        ..FnoConfig::default()
    };
    refused(on_grid(padded), "FNO: the padding");
    refused(on_grid(FnoConfig::default()), "here they have 2 and 3");
    let own_grid = FnoConfig {
        grid: Some(8),
        ..FnoConfig::default()
    };
    refused(on_grid(own_grid), "behind a projection");
    let mixed = ModelConfig {
        core: CoreConfig::Fno(FnoConfig::default()),
        ..tiny_vidon()
    };
    refused(mixed, "an FNO core works between");
    refused(with(&|c| c.count = 1 << 40), "65536 heads");
    refused(with(&|c| c.hidden = vec![1; 2000]), "1024 hidden layers");
    refused(
        with(&|c| (c.count, c.hidden) = (1000, vec![1; 100])),
        "65536 layers in all heads",
    );
    let pod = DecoderConfig::Pod(PodConfig {
        frame: frame(3, true),
        functions: 3000,
        p: 4,
    });
    refused(decoded(pod), "a basis of 1 to 2048");
    let none = Dims {
        query_coords: 0,
        ..DIMS
    };
    assert!(Parts::new(&tiny_vidon(), &meta(none), 0).is_err());
}

/// Sizes that no memory has room for are counted, not tried.
#[test]
fn what_memory_has_no_room_for_is_refused() {
    let huge = 1 << 40;
    let heads = |change: &dyn Fn(&mut HeadsConfig)| {
        let mut heads = tiny_heads();
        change(&mut heads);
        vec![EncoderConfig::Heads(heads)]
    };
    let encoders = [
        heads(&|c| c.encoder_hidden = vec![huge]),
        heads(&|c| c.hidden = vec![huge, huge]),
        heads(&|c| (c.d_enc, c.outputs) = (huge, usize::MAX >> 1)),
        vec![EncoderConfig::Vector(VectorConfig {
            group: None,
            sensors: huge,
        })],
        vec![EncoderConfig::Krige(KrigeConfig {
            group: None,
            grid: vec![1 << 20, 1 << 20],
        })],
    ];
    let decoders = [
        learned(huge, &[2]),
        learned(2, &[huge, 1]),
        DecoderConfig::Pod(PodConfig {
            frame: frame(3, true),
            functions: 2000,
            p: huge,
        }),
    ];
    let wide = MlpConfig {
        hidden: vec![huge],
        skip: true,
        ..MlpConfig::default()
    };
    let configs = encoders.into_iter().map(|encoders| ModelConfig {
        encoders,
        ..tiny_vidon()
    });
    let configs = configs.chain(decoders.into_iter().map(|decoder| ModelConfig {
        decoder,
        ..tiny_vidon()
    }));
    let configs = configs.chain([ModelConfig {
        core: CoreConfig::Mlp(wide),
        ..tiny_vidon()
    }]);
    for config in configs {
        let error = Parts::new(&config, &meta(DIMS), 0).unwrap_err().to_string();
        assert!(
            error.contains("to be trained its") && error.contains("are free"),
            "{error}"
        );
    }
    let grid = FnoConfig {
        width: 1 << 30,
        modes: 1 << 10,
        ..FnoConfig::default()
    };
    let dims = Dims {
        query_coords: 2,
        ..DIMS
    };
    let error = Parts::new(&on_grid(grid), &meta(dims), 0)
        .unwrap_err()
        .to_string();
    assert!(error.contains("to be trained its"), "{error}");
}

/// A file has no more numbers than it can hold, whatever its configuration says.
#[test]
fn a_file_is_taken_for_no_more_than_it_holds() {
    let numbers = Parts::new(&tiny_vidon(), &meta(DIMS), 0).unwrap().1;
    let numbers: usize = numbers.iter().map(|e| e.values.len()).sum();
    assert!(Parts::with_at_most(numbers, &tiny_vidon(), &meta(DIMS)).is_ok());
    let error = Parts::with_at_most(numbers - 1, &tiny_vidon(), &meta(DIMS));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains(&format!("it has {numbers} numbers")),
        "{error}"
    );
}
