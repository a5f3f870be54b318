//! What a network cannot take or be.

use super::*;

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
