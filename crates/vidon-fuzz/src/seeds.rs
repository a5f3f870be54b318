//! Small real files, made by the library itself: the same bytes every time.

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use vidon::Operator;
use vidon::data::{Channel, Dataset, Group, Kind, Meta, Rows, Sample, Sensors};
use vidon::train::{Recipe, Training};

use crate::format::Format;
use crate::readers;

fn channels(names: &[&str]) -> Vec<Channel> {
    let channel = |name: &&str| Channel {
        range: Some([0.0, 1.0]),
        ..Channel::named(*name)
    };
    names.iter().map(channel).collect()
}

/// Rows of numbers in [0, 1] that depend on nothing but these.
fn rows(width: usize, count: usize, shift: usize) -> Rows {
    let number = |i: usize| ((i * 37 + shift * 11) % 101) as f32 / 101.0;
    Rows::new(width, (0..count * width).map(number).collect()).expect("full rows")
}

/// The corners and edges of a grid with so many points an axis, last axis fastest.
fn grid(per_axis: usize) -> Rows {
    let at = |i: usize| i as f32 / (per_axis - 1) as f32;
    let places = (0..per_axis * per_axis).flat_map(|i| [at(i / per_axis), at(i % per_axis)]);
    Rows::new(2, places.collect()).expect("full rows")
}

/// Readings of one function at places that change, or on one grid.
fn plane(on_grid: bool) -> Dataset {
    let mut meta = Meta::new(
        "plane",
        channels(&["x", "y"]),
        channels(&["p"]),
        channels(&["x", "y"]),
        channels(&["u"]),
    );
    meta.provenance = serde_json::json!({ "program": "vidon", "made": [1, 2.5, null] });
    let sample = |k: usize| {
        let places = if on_grid {
            grid(4)
        } else {
            rows(2, 6 + k % 3, k)
        };
        let count = places.len();
        let queries = if on_grid { grid(4) } else { rows(2, 5, k + 50) };
        let targets = rows(1, queries.len(), k + 9);
        Sample::of(places, rows(1, count, k), Arc::new(queries), targets)
    };
    Dataset::from_samples(meta, (0..6).map(sample).collect()).expect("good samples")
}

/// Three groups with gaps, covariates and names.
fn groups() -> Dataset {
    let mut air = Group::field("air", channels(&["x", "y"]), channels(&["T", "wind"]));
    air.coords.push(Channel {
        covariate: true,
        ..Channel::named("height")
    });
    air.gaps = true;
    let wells = Group {
        kind: Kind::Points,
        ..Group::field("wells", channels(&["x", "y"]), channels(&["rate"]))
    };
    let day = Group {
        kind: Kind::Scalars,
        ..Group::field("day", vec![], channels(&["pressure"]))
    };
    let mut meta = Meta::of_groups(
        "soot",
        vec![air, wells, day],
        channels(&["x", "y"]),
        channels(&["u", "v"]),
    );
    (meta.target_gaps, meta.named_samples) = (true, true);
    let sample = |k: usize| {
        let mut readings = rows(2, 5, k + 3);
        readings.data_mut()[k] = f32::NAN;
        let mut targets = rows(2, 4, k + 5);
        targets.data_mut()[k] = f32::NAN;
        let group = |coords: Rows, values: Rows| Sensors { coords, values };
        Sample {
            name: Some(format!("day {k}")),
            groups: vec![
                group(rows(3, 5, k), readings),
                group(rows(2, k % 3, k), rows(1, k % 3, k)),
                Sensors::scalars(&[k as f32]),
            ],
            query_coords: Arc::new(rows(2, 4, k + 7)),
            targets,
        }
    };
    Dataset::from_samples(meta, (0..6).map(sample).collect()).expect("good samples")
}

/// Where the samples are asked on one grid.
fn asked_on_a_grid() -> Dataset {
    let mut meta = plane(true).meta().expect("a description");
    let axis: Vec<f64> = (0..4).map(|i| i as f64 / 3.0).collect();
    meta.query_grid = Some(vec![axis.clone(), axis]);
    let samples = plane(true).collect(6, &()).expect("samples in memory");
    Dataset::from_samples(meta, samples).expect("good samples")
}

fn bytes_of(data: &Dataset) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("d.parquet");
    data.write(&path, 6, &()).expect("a file");
    fs::read(path).expect("the file")
}

/// The same samples as another program would write them: neither packed nor with checksums of the rows, which
/// no mutation of a number would get past. The description is as it is given.
fn plain(dataset: &[u8], json: Option<&str>) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("d.parquet");
    fs::write(&path, dataset).expect("a file");
    let file = File::open(path).expect("the file");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a dataset");
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let own = metadata.into_iter().flatten().find(|pair| pair.key == KEY);
    let own = own
        .and_then(|pair| pair.value.clone())
        .expect("a description");
    let json = json.map_or(own, str::to_string);
    let batches = builder.build().expect("a reader");
    let batches = batches.map(|batch| without_checksums(&batch.expect("rows")));
    let batches: Vec<RecordBatch> = batches.collect();
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.to_string(), json)]))
        .build();
    let mut out = Vec::new();
    let writer = ArrowWriter::try_new(&mut out, batches[0].schema(), Some(properties));
    let mut writer = writer.expect("a writer");
    batches.iter().for_each(|b| writer.write(b).expect("rows"));
    writer.close().expect("a file");
    out
}

const KEY: &str = "vidon";

fn without_checksums(batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let kept: Vec<usize> = (0..batch.num_columns())
        .filter(|&i| schema.field(i).name() != "crc32")
        .collect();
    let projected = batch.project(&kept).expect("columns");
    let bare = Schema::new(projected.schema().fields().clone());
    projected
        .with_schema(Arc::new(bare))
        .expect("the same columns")
}

pub fn datasets() -> Vec<Vec<u8>> {
    let all = [plane(false), asked_on_a_grid(), groups()];
    let written: Vec<Vec<u8>> = all.iter().map(bytes_of).collect();
    let plain = written.iter().map(|file| plain(file, None));
    plain.chain(written.iter().cloned()).collect()
}

/// The samples of a dataset under a description from elsewhere: with the groups of the description, where it
/// names any.
pub fn described(json: &str) -> Vec<u8> {
    static FILES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    let files =
        FILES.get_or_init(|| [plane(false), asked_on_a_grid(), groups()].map(|d| bytes_of(&d)));
    let which = match () {
        _ if json.contains("wells") => 2,
        _ if json.contains("query_grid") => 1,
        _ => 0,
    };
    plain(&files[which], Some(json))
}

pub fn descriptions() -> Vec<Vec<u8>> {
    let json = |data: Dataset| serde_json::to_vec(&data.meta().expect("one")).expect("plain JSON");
    vec![json(plane(false)), json(asked_on_a_grid()), json(groups())]
}

pub fn tables() -> Vec<Vec<u8>> {
    let csv = "# a remark\nrun,x,y,p,d,t\nB,0,0.25,1,7,3\nA,1,0.5,4,8,\"6\"\nB,0.5,1,7,7,9\nA,0.75,0,NA,8,1e-3\n";
    let semicolons = csv.replace(',', ";").replace('\n', "\r\n");
    let with_more = format!(
        "\u{feff}{}",
        csv.replace("run,", "more,run,")
            .replace("\nB,", "\n-,B,")
            .replace("\nA,", "\n,A,")
    );
    let floats = |values: [f64; 4]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
    let columns: [(&str, ArrayRef); 6] = [
        ("run", Arc::new(StringArray::from(vec!["B", "A", "B", "A"]))),
        ("x", floats([0.0, 1.0, 0.5, 0.75])),
        ("y", floats([0.25, 0.5, 1.0, 0.0])),
        (
            "p",
            Arc::new(Float64Array::from(vec![
                Some(1.0),
                None,
                Some(7.0),
                Some(2.0),
            ])),
        ),
        ("d", Arc::new(Int32Array::from(vec![7, 8, 7, 8]))),
        ("t", floats([3.0, 6.0, 9.0, 1e-3])),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns");
    let mut parquet = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut parquet, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
    let text = [csv.to_string(), semicolons, with_more];
    text.into_iter()
        .map(String::into_bytes)
        .chain([parquet])
        .collect()
}

/// A NumPy array of float32, or of int64 where it has whole numbers alone.
fn npy(shape: &[usize], fortran: bool, whole: bool) -> Vec<u8> {
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let (kind, order) = (
        if whole { "<i8" } else { "<f4" },
        if fortran { "True" } else { "False" },
    );
    let header = format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({sizes}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for i in 0..shape.iter().product::<usize>() {
        match whole {
            true => bytes.extend((1 + i as i64 % 3).to_le_bytes()),
            false => bytes.extend((0.1 + 0.07 * i as f32).to_le_bytes()),
        }
    }
    bytes
}

fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in arrays {
        writer
            .start_file(format!("{name}.npy"), stored)
            .expect("a member");
        writer.write_all(bytes).expect("a member");
    }
    writer.finish().expect("an archive").into_inner()
}

pub fn archives() -> Vec<Vec<u8>> {
    let one = [
        ("coords", npy(&[3, 4, 2], false, false)),
        ("values", npy(&[3, 4], true, false)),
        ("counts", npy(&[3], false, true)),
        ("target_coords", npy(&[1, 5, 2], false, false)),
        ("target_values", npy(&[3, 5, 2], false, false)),
    ];
    let several = [
        ("air_coords", npy(&[3, 4, 2], false, false)),
        ("air_values", npy(&[3, 4, 2], true, false)),
        ("wells_coords", npy(&[3, 3, 1], false, false)),
        ("wells_counts", npy(&[3], false, true)),
        ("day_values", npy(&[3], false, true)),
        ("target_coords", npy(&[5, 1], false, false)),
        ("target_values", npy(&[3, 5], false, false)),
    ];
    vec![npz(&one), npz(&several)]
}

/// A network of every kind of encoder, core and decoder, in sizes that take no time.
const MODELS: [&str; 8] = [
    r#"encoders = [{ kind = "heads", d_enc = 3, encoder_hidden = [3], count = 2, hidden = [3], outputs = 2 }]
core = { kind = "mlp", hidden = [4] }
decoder = { kind = "learned", p = 3, hidden = [4] }"#,
    r#"encoders = [{ kind = "projection", functions = 4, frame = { family = "cosine" } }]
core = { kind = "mlp", hidden = [4], skip = true }
decoder = { kind = "basis", functions = 4 }"#,
    r#"encoders = [{ kind = "projection", functions = 6 }]
core = { kind = "fno", grid = 4, width = 2, modes = 2, layers = 1, hidden = 3, padding = 0.25 }
decoder = { kind = "basis", functions = 4, frame = { family = "sine" } }"#,
    r#"encoders = [{ kind = "projection", functions = 4 }]
core = { kind = "mlp", hidden = [4] }
decoder = { kind = "pod", functions = 4, p = 2 }"#,
    r#"encoders = [{ kind = "krige", grid = [2, 2] }]
core = { kind = "mlp", hidden = [4] }
decoder = { kind = "learned", p = 3, hidden = [4] }"#,
    r#"encoders = [{ kind = "vector", sensors = 16 }]
core = { kind = "mlp", hidden = [4] }
decoder = { kind = "learned", p = 3, hidden = [4] }"#,
    r#"encoders = [{ kind = "grid" }]
core = { kind = "fno", width = 2, modes = 2, layers = 1, hidden = 3 }
decoder = { kind = "grid" }"#,
    r#"encoders = [{ kind = "heads", group = "air", d_enc = 3, encoder_hidden = [3], count = 1, hidden = [3], outputs = 2 }, { kind = "moments", functions = 4 }, { kind = "scalars" }]
core = { kind = "mlp", hidden = [4] }
decoder = { kind = "learned", p = 3, hidden = [4] }"#,
];

/// Everything that can be set.
const TRAIN: &str = r#"
[train]
seed = 1
batch = 2
micro_batches = 1
coefficients = false
symmetries = { flips = false, swaps = false, shifts = false, odd = false }
loss = "relative-l2"
optimiser = "adamw"
rate = 1e-2
decay = 1e-4
warm_up = 1
schedule = { kind = "step", every = 3, factor = 0.5 }
clip = 1.0
ema = 0.9
transforms = {}
scaling = "extremes"
metric = "rmse"
steps = 2
validate_every = 1
checkpoint_every = 1
validation_queries = 3
"#;

pub fn recipes() -> Vec<Vec<u8>> {
    let recipe = |model: &&str| {
        // On a grid all queries are answered at once.
        let some = match model.contains("kind = \"grid\"") {
            true => "validation_queries = 3\n",
            false => "",
        };
        format!(
            "[data]\nval_samples = 1\n[model]\n{model}\n{}",
            TRAIN.replace(some, "")
        )
    };
    let mut all: Vec<String> = MODELS.iter().map(recipe).collect();
    let data = "[data]\nproblem = \"darcy\"\nparameters = { boundary = \"periodic\" }\nlayout = \"variable\"\nseed = 3\ntrain_samples = 4\nval_samples = 1\n";
    let short = "[train]\nbudget = \"1h30m\"\nepochs = 2.5\nschedule = { kind = \"cosine\", end = 0.1 }\nsensors = 4\nqueries = 3\n";
    all.push(format!("{data}[model]\n{}\n{short}", MODELS[0]));
    let settings = [
        "train.rate=1e-3",
        "model.decoder.p=2",
        "model.encoders.0.count=1",
        "train.schedule={kind=\"multi-step\",at=[1,2],factor=0.5}",
        "train.budget=5m",
    ];
    all.push(format!(
        "{}{}{}",
        all[0],
        readers::SETTINGS,
        settings.join("\n")
    ));
    let coefficients = all[1].replace("coefficients = false", "coefficients = true");
    all.push(coefficients.replace("flips = false", "flips = true"));
    all.into_iter().map(String::into_bytes).collect()
}

/// Samples in memory that a recipe may learn from.
pub fn samples(recipe: &Recipe) -> Dataset {
    let encoders = format!("{:?}", recipe.model.encoders);
    match encoders.contains("Grid") || encoders.contains("Vector") {
        true => plane(true),
        false if encoders.contains("Scalars") => groups(),
        false => plane(false),
    }
}

/// The recipe with a network of the list.
fn parsed(model: usize) -> Recipe {
    let text = String::from_utf8(recipes()[model].clone()).expect("text");
    Recipe::parse(&text, &[]).expect("a recipe")
}

pub fn weights() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.safetensors");
    let weights = |model: usize| {
        let recipe = parsed(model);
        let operator = Operator::fit(&samples(&recipe), &recipe, &()).expect("a training");
        operator.save(&path).expect("a file");
        fs::read(&path).expect("the file")
    };
    (0..MODELS.len()).map(weights).collect()
}

/// `run`: a training of two steps, beside the file that it learned from.
pub fn run_folder(folder: &Path) {
    let file = folder.join("d.parquet");
    fs::write(&file, bytes_of(&plane(false))).expect("a file");
    let mut recipe = parsed(0);
    recipe.data.train = Some(file);
    let run = folder.join("run");
    let mut training = Training::begin(recipe, &run, None, &()).expect("a training");
    training.run(&()).expect("two steps");
}

fn run_file(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    run_folder(folder.path());
    fs::read(folder.path().join("run").join(name)).expect("a file of the run")
}

/// With the clock's numbers made the same.
pub fn checkpoints() -> Vec<Vec<u8>> {
    static ONE: OnceLock<Vec<u8>> = OnceLock::new();
    let one = ONE.get_or_init(|| {
        let file = run_file("checkpoint.safetensors");
        let mut parts = Format::Tensors.parts(&file).expect("safetensors");
        let mut header: serde_json::Value = serde_json::from_slice(&parts[0]).expect("JSON");
        header["progress"]["seconds"] = 0.5.into();
        parts[0] = header.to_string().into_bytes();
        Format::Tensors.whole(&parts)
    });
    vec![one.clone()]
}

/// Lines of metrics with the clock's numbers made the same, then the note on the best weights.
pub fn histories() -> Vec<Vec<u8>> {
    let line = |line: &str| {
        let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for clock in ["seconds", "time", "samples_per_second"] {
            if let Some(number) = record.get_mut(clock) {
                *number = 0.25.into();
            }
        }
        record.to_string().into_bytes()
    };
    let lines = String::from_utf8(run_file("metrics.jsonl")).expect("text");
    let lines: Vec<Vec<u8>> = lines.lines().map(line).collect();
    let [note, none] = [run_file("best.json"), Vec::new()];
    let whole = [&lines[..], &[note]].concat();
    let begun = [lines[0].clone(), none];
    vec![Format::Lines.whole(&whole), Format::Lines.whole(&begun)]
}

pub fn caches() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |count: usize| {
        readers::waves(folder.path())
            .collect(count, &())
            .expect("samples");
        fs::read(readers::kept(folder.path())).expect("functions")
    };
    vec![made(2), made(5)]
}
