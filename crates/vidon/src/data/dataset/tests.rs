//! What is written is read, and nothing else is.

use super::*;
use crate::data::sample::tests::{small, small_meta};
use crate::data::{Channel, Group};
use proptest::prelude::*;
use rand::RngExt;
use tempfile::TempDir;

fn meta() -> Meta {
    let mut meta = small_meta();
    meta.provenance = serde_json::json!({ "layout": "variable" });
    meta
}

fn written(samples: &[Sample], meta: Meta) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let mut writer = DatasetWriter::create(&path, meta).unwrap();
    for block in samples.chunks(3) {
        writer.write(block).unwrap();
    }
    writer.finish().unwrap();
    (folder, path)
}

fn read_all(path: &Path) -> Result<Vec<Sample>> {
    DatasetReader::open(path)?.samples()?.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_written_is_read(sizes in prop::collection::vec((1usize..40, 1usize..40), 1..20)) {
        let samples: Vec<Sample> = sizes.iter().map(|&(m, q)| small(m, q)).collect();
        let (_folder, path) = written(&samples, meta());
        prop_assert_eq!(&read_all(&path).unwrap(), &samples);
        let reader = DatasetReader::open(&path).unwrap();
        prop_assert_eq!(reader.meta(), &meta());
        for (i, sample) in samples.iter().enumerate().rev() {
            prop_assert_eq!(&reader.sample(i).unwrap(), sample);
        }
        prop_assert!(reader.sample(samples.len()).is_err());
    }
}

#[test]
fn a_query_grid_is_stored_once_and_shared() {
    let mut meta = meta();
    meta.query_grid = Some(vec![vec![0.0, 1.0], vec![2.0], vec![0.5, 1.5]]);
    let queries = Arc::new(meta.shared_queries().unwrap());
    let on_grid = |m| Sample {
        query_coords: queries.clone(),
        ..small(m, 4)
    };
    let samples = [on_grid(2), on_grid(5)];
    let (_folder, path) = written(&samples, meta);
    let read = read_all(&path).unwrap();
    assert_eq!(read, samples);
    assert!(Arc::ptr_eq(&read[0].query_coords, &read[1].query_coords));
}

#[test]
fn many_row_groups_stream_in_order() {
    // About 140 MB of targets: more than two row groups.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let mut writer = DatasetWriter::create(&path, meta()).unwrap();
    for i in 0..7 {
        writer.write(&[small(i + 1, 1_000_000)]).unwrap();
    }
    writer.finish().unwrap();
    let reader = DatasetReader::open(&path).unwrap();
    assert!(reader.starts.len() > 2, "{:?}", reader.starts);
    for (i, sample) in reader.samples().unwrap().enumerate() {
        assert_eq!(sample.unwrap().groups[0].len(), i + 1);
    }
    assert_eq!(reader.sample(6).unwrap().groups[0].len(), 7);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let mut writer = DatasetWriter::create(&path, meta()).unwrap();
    writer.write(&[small(2, 2)]).unwrap();
    drop(writer);
    let mut writer = DatasetWriter::create(&path, meta()).unwrap();
    let mut bad = small(2, 2);
    bad.groups[0].values.data_mut()[1] = f32::NAN;
    let error = writer.write(&[small(1, 1), bad]).unwrap_err().to_string();
    assert!(
        error.contains("row 1, column sensor_values: holds NaN at entry 1"),
        "{error}"
    );
    drop(writer);
    let empty = DatasetWriter::create(&path, meta()).unwrap();
    assert!(empty.finish().is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Writes columns as they are, checked by nobody.
fn raw(columns: Vec<(String, ArrayRef)>, meta: Option<String>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let pairs = meta.map(|json| vec![KeyValue::new(META_KEY.to_string(), json)]);
    let properties = WriterProperties::builder()
        .set_key_value_metadata(pairs)
        .build();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (folder, path)
}

fn columns(samples: &[Sample]) -> Vec<(String, ArrayRef)> {
    let meta = meta();
    let parts = meta.parts().into_iter().enumerate();
    let column = |(i, part): (usize, Part)| -> (String, ArrayRef) {
        let own = samples.iter().map(|s| s.parts()[i]).collect::<Vec<_>>();
        let array = ragged(own.iter().copied(), &part);
        (part.name, Arc::new(array))
    };
    parts.map(column).collect()
}

fn refused(columns: Vec<(String, ArrayRef)>, meta: Option<String>, words: &str) {
    let (_folder, path) = raw(columns, meta);
    let error = read_all(&path).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert!(error.contains("d.parquet"), "{error}");
}

#[test]
fn wrong_content_is_refused_with_row_and_column() {
    let json = || Some(serde_json::to_string(&meta()).unwrap());
    let good = || vec![small(2, 3), small(4, 1)];
    let (_folder, path) = raw(columns(&good()), json());
    assert_eq!(
        read_all(&path).unwrap(),
        good(),
        "files from elsewhere need no checksum"
    );

    let mut uneven = good();
    uneven[1].groups[0].values = Rows::of(1, vec![0.0; 3]);
    refused(
        columns(&uneven),
        json(),
        "row 1, column sensor_values: has 3 entries for 4 sensors",
    );
    let mut infinite = good();
    infinite[0].targets.data_mut()[3] = f32::INFINITY;
    refused(
        columns(&infinite),
        json(),
        "row 0, column targets: holds inf at entry 1, component 1",
    );
    refused(
        columns(&[small(2, 3), small(0, 3)]),
        json(),
        "row 1, column sensor_coords: is empty",
    );
    refused(
        columns(&[small(2, 0)]),
        json(),
        "row 0, column query_coords: is empty",
    );
    refused(
        columns(&good())[1..].to_vec(),
        json(),
        "column sensor_coords: is missing",
    );
    refused(columns(&good()), None, "not a vidon dataset");
    refused(columns(&good()), Some("{".into()), "the description");
    refused(columns(&[]), json(), "holds no samples");
    let other = json().unwrap().replace("\"format\":2", "\"format\":9");
    refused(columns(&good()), Some(other), "is of format 9");
    let mut narrow = meta();
    narrow.groups[0].coords.pop();
    let narrow = serde_json::to_string(&narrow).unwrap();
    refused(
        columns(&good()),
        Some(narrow),
        "column sensor_coords: must be a list of fixed-size lists of 1",
    );
    let flat: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let mut plain = columns(&good());
    plain[3].1 = flat;
    refused(plain, json(), "column targets: must be a list");
    let mut sums = columns(&good());
    sums.push((CHECKSUM.into(), Arc::new(UInt32Array::from(vec![1, 2]))));
    refused(sums, json(), "row 0, column crc32");
}

#[test]
fn foreign_files_are_named_for_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    for (bytes, words) in [
        (&b""[..], "is empty"),
        (b"x,y\n1,2\n", "is not a Parquet file"),
        (b"PK\x03\x04....", "NumPy or zip"),
        (b"PAR1 and then nothing", "cut short"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = read_all(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = read_all(&folder.path().join("absent.parquet"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("absent.parquet"), "{error}");
}

/// Whatever byte is changed and wherever the file is cut: an error, or the very same samples.
#[test]
fn damage_is_never_read_as_data() {
    let samples = vec![small(30, 40), small(7, 90), small(1, 1)];
    let (_folder, path) = written(&samples, meta());
    let bytes = std::fs::read(&path).unwrap();
    let mut rng = crate::rng::stream(0, "damage", 0);
    let mut refused = 0;
    for round in 0..600 {
        let mut broken = bytes.clone();
        if round % 4 == 0 {
            broken.truncate(rng.random_range(0..bytes.len()));
        } else {
            let at = rng.random_range(0..bytes.len());
            broken[at] ^= 1 << rng.random_range(0..8);
        }
        std::fs::write(&path, &broken).unwrap();
        match read_all(&path) {
            Ok(read) => assert!(read == samples, "round {round}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 400, "{refused} of 600 were refused");
}

/// Several groups, gaps, parameters and points without strengths, as they were; a null is where a number was
/// missing, and nowhere else.
#[test]
fn groups_and_gaps_come_back() {
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect::<Vec<_>>();
    let located = |name: &str, kind: Kind, values: &[&str]| Group {
        kind,
        ..Group::field(name, channels(&["x"]), channels(values))
    };
    let air = Group {
        gaps: true,
        ..located("air", Kind::Field, &["T", "q"])
    };
    let run = Group {
        coords: Vec::new(),
        ..located("run", Kind::Scalars, &["hours", "speed"])
    };
    let groups = vec![
        air,
        located("sources", Kind::Points, &["strength"]),
        located("particles", Kind::Points, &[]),
        run,
    ];
    let mut meta = Meta::of_groups("groups", groups, channels(&["x"]), channels(&["u", "v"]));
    (meta.target_gaps, meta.named_samples) = (true, true);
    let nan = f32::NAN;
    let line = |n: usize| Rows::of(1, (0..n).map(|i| i as f32).collect());
    let sample = |i: usize| Sample {
        name: Some(format!("run {i}")),
        groups: vec![
            Sensors {
                coords: line(2),
                values: Rows::of(2, vec![1.0, nan, nan, i as f32]),
            },
            Sensors {
                coords: line(i),
                values: line(i),
            },
            Sensors {
                coords: line(i + 3),
                values: Rows::without_columns(i + 3),
            },
            Sensors::scalars(&[0.5, i as f32]),
        ],
        query_coords: Arc::new(line(2)),
        targets: Rows::of(2, vec![nan, 2.0, nan, nan]),
    };
    let samples: Vec<Sample> = (0..7).map(sample).collect();
    let (_folder, path) = written(&samples, meta.clone());
    assert_eq!(read_all(&path).unwrap(), samples);
    assert_eq!(DatasetReader::open(&path).unwrap().meta(), &meta);
    // The description of one usual group names no groups; of several it has a list.
    let json = |meta: &Meta| serde_json::to_value(meta).unwrap();
    assert!(json(&meta).get("sensor_coords").is_none());
    assert!(json(&small_meta()).get("groups").is_none());
    let both = r#"{"format":1,"name":"","sensor_values":[{"name":"a"}],"groups":[{"name":"b","kind":"field"}],"query_coords":[],"targets":[]}"#;
    assert!(serde_json::from_str::<Meta>(both).is_err());
}

#[test]
fn a_query_grid_is_made_for_as_many_targets_alone() {
    let samples = [small(2, 3)];
    let mut meta = meta();
    // Two thousand million queries of three targets.
    meta.query_grid = Some(vec![(0..1290).map(f64::from).collect(); 3]);
    let mut stored = columns(&samples);
    stored.retain(|(name, _)| name != QUERIES);
    let json = serde_json::to_string(&meta).unwrap();
    let (_folder, path) = raw(stored, Some(json));
    let reader = DatasetReader::open(&path).unwrap();
    let words = reader.sample(0).unwrap_err().to_string();
    assert!(
        words.contains("row 0, column targets: has 3 entries for the 2146689000 queries"),
        "{words}"
    );
    assert!(reader.shared.get().is_none());
}

#[test]
fn samples_do_not_have_names_without_end() {
    let mut meta = meta();
    meta.named_samples = true;
    let mut sample = small(1, 1);
    sample.name = Some("a".repeat(300));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    let mut writer = DatasetWriter::create(&path, meta).unwrap();
    let words = writer.write(&[sample]).unwrap_err().to_string();
    assert!(
        words.contains("its name: has 300 bytes; names and units have at most 256"),
        "{words}"
    );
}

#[test]
fn datasets_have_the_ending_of_datasets() {
    let refused = DatasetWriter::create(Path::new("x.csv"), meta());
    let words = refused.err().unwrap().to_string();
    assert_eq!(words, "x.csv: datasets are written as .parquet");
}

/// The description, the names and the order included.
#[test]
fn a_flipped_bit_is_damage_or_changes_nothing() {
    let mut meta = meta();
    meta.named_samples = true;
    let mut samples = [small(3, 4), small(5, 2), small(1, 1)];
    for (i, sample) in samples.iter_mut().enumerate() {
        sample.name = Some(format!("sample {i}"));
    }
    let (_folder, path) = written(&samples, meta.clone());
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at * 5 % 8);
        std::fs::write(&path, bytes).unwrap();
        let found = DatasetReader::open(&path)
            .and_then(|r| Ok((r.meta().clone(), r.samples()?.collect::<Result<Vec<_>>>()?)));
        match found {
            Ok(found) => assert!(found == (meta.clone(), samples.to_vec()), "byte {at}"),
            Err(_) => refused += 1,
        }
    }
    assert!(2 * refused > whole.len(), "{refused} of {}", whole.len());
}

#[test]
fn a_changed_description_is_named() {
    let text = crate::checksum::to_json(&meta());
    assert_eq!(description(&text).unwrap(), meta());
    let error = description(&text.replace("variable", "vbriable")).unwrap_err();
    assert!(error.contains("is damaged"), "{error}");
    // Files from elsewhere say nothing of a checksum.
    description(&serde_json::to_string(&meta()).unwrap()).unwrap();
}
