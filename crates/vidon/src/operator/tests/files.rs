//! Operators on the disk.

use super::*;
use crate::data::{Centred, Scaling, ScalingKind, Transforms};

fn saved() -> Operator {
    let mut rng = stream(0, "weights", 0);
    let scaling = Scaling::fit(
        &meta(DIMS),
        &[sample(&mut rng, 9, 9, DIMS)],
        ScalingKind::Extremes,
        Centred::default(),
    )
    .unwrap();
    let (parts, entries) = Parts::new(&tiny_vidon(), &meta(DIMS), 5).unwrap();
    let (meta, none) = (meta(DIMS), Transforms::default());
    let design = Design::new(parts, meta, none, scaling, Symmetries::default());
    Operator::with_numbers(design, entries)
}

#[test]
fn a_file_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let saved = saved();
    saved.save(&path).unwrap();
    let loaded = Operator::load(&path).unwrap();
    assert_eq!(loaded.entries(), saved.entries());
    assert_eq!(loaded.scaling(), saved.scaling());
    assert_eq!(
        (loaded.config(), loaded.meta()),
        (saved.config(), saved.meta())
    );
    let samples = &zoo()[0].2;
    assert_eq!(answers(&loaded, samples), answers(&saved, samples));
}

#[test]
fn damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    saved().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = Operator::load(&path).err().expect("an error").to_string();
        assert!(
            error.contains(words) && error.contains("w.safetensors"),
            "{error}"
        );
    };
    for end in [0, 4, 100, bytes.len() - 1] {
        refused(&bytes[..end], "is damaged");
    }
    let mut broken = saved();
    broken.entries[0].values[0] = f32::NAN;
    broken.save(&path).unwrap();
    refused(&std::fs::read(&path).unwrap(), "not finite");
    let mut renamed = saved();
    renamed.entries[0].name = "other".into();
    renamed.save(&path).unwrap();
    refused(&std::fs::read(&path).unwrap(), "this tensor is missing");
}

#[test]
fn a_flipped_bit_anywhere_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    saved().save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let bit = 1 << (at * 5 % 8);
        bytes[at] ^= bit;
        let error = Operator::from_bytes("w", &bytes).err();
        let error = error.unwrap_or_else(|| panic!("byte {at}")).to_string();
        assert!(error.contains("is damaged"), "byte {at}: {error}");
        bytes[at] ^= bit;
    }
    Operator::from_bytes("w", &bytes).unwrap();
}
