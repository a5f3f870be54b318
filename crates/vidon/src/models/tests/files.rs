//! Weights on the disk.

use super::*;
use crate::data::Normalisation;

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
