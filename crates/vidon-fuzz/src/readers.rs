//! Every reader through its public call, and what a program does next with what it read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vidon::data::{
    ArrayNames, Columns, Dataset, Details, Group, GroupArrays, GroupColumns, Kind, Missing,
    NamedArray, ProblemSource, Rows, Sensors,
};
use vidon::problems::{Field, Formula, Problem, Rng, Spec, Split};
use vidon::sensors::{Layout, SensorSpec};
use vidon::train::{Recipe, Record, RunState, Training};
use vidon::{Error, Observer, Operator, Result};

use crate::format::lines_and_note;
use crate::seeds;

/// Samples that are looked at of a file that has more.
const SAMPLES: usize = 64;
/// Columns of sensors and queries that an operator is asked with.
const COLUMNS: usize = 64;

pub fn nothing(_: &Path) {}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file in the folder");
    path
}

/// Opens a dataset and looks at every number.
fn look_at(path: &Path) -> Result<()> {
    let data = Dataset::open(path)?;
    let count = data.available().expect("files say how many").min(SAMPLES);
    data.sample(count - 1, &())?;
    data.collect(count, &())?;
    data.summary(&()).map(|_| ())
}

pub fn dataset(folder: &Path, bytes: &[u8]) -> Result<()> {
    look_at(&put(folder, "d.parquet", bytes))
}

/// The JSON of a dataset, in a file that is otherwise whole.
pub fn description(folder: &Path, bytes: &[u8]) -> Result<()> {
    let json = String::from_utf8_lossy(bytes);
    look_at(&put(folder, "d.parquet", &seeds::described(&json)))
}

/// What an import has written can be read.
fn imported(path: &Path) -> Result<()> {
    let read = look_at(path);
    assert!(read.is_ok(), "an import wrote what is refused: {read:?}");
    fs::remove_file(path).expect("a file that was written");
    Ok(())
}

pub fn table(folder: &Path, bytes: &[u8]) -> Result<()> {
    let (path, out) = (put(folder, "t.csv", bytes), folder.join("o.parquet"));
    let names = |list: &[&str]| list.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let group = |name: &str, kind: Kind, coords: &[&str], values: &[&str]| GroupColumns {
        name: name.into(),
        kind,
        table: path.clone(),
        coords: names(coords),
        covariates: vec![],
        values: names(values),
    };
    let columns = Columns {
        sample: "run".into(),
        groups: vec![
            group(Group::USUAL, Kind::Field, &["x", "y"], &["p"]),
            group("day", Kind::Scalars, &[], &["d"]),
        ],
        target_table: path.clone(),
        target_coords: names(&["x"]),
        target_covariates: names(&["y"]),
        target_values: names(&["t"]),
    };
    let details = Details {
        missing: Missing::Keep,
        ranges: HashMap::new(),
        units: HashMap::new(),
        times: Default::default(),
    };
    columns.import(&details, &out)?;
    imported(&out)
}

/// As several groups where the archive has such names.
pub fn npz(folder: &Path, bytes: &[u8]) -> Result<()> {
    let (path, out) = (put(folder, "a.npz", bytes), folder.join("o.parquet"));
    let has = |name: &[u8]| bytes.windows(name.len()).any(|w| w == name);
    let mut names = ArrayNames::default();
    if has(b"air_values") {
        let called = |name: &str| GroupArrays::called(&ArrayNames::before(name));
        let mut day = called("day");
        day.coords = NamedArray::default();
        names.groups = vec![
            ("air".into(), Kind::Field, called("air")),
            ("wells".into(), Kind::Points, called("wells")),
            ("day".into(), Kind::Scalars, day),
        ];
    }
    let details = Details {
        missing: Missing::Skip,
        ..Details::default()
    };
    names.import(&path, &details, &out)?;
    imported(&out)
}

/// Loads an operator and asks it something.
pub fn weights(_: &Path, bytes: &[u8]) -> Result<()> {
    let operator = Operator::from_bytes("weights", bytes)?;
    let meta = operator.meta();
    let widths = meta
        .groups
        .iter()
        .map(|g| g.coords.len().max(g.values.len()));
    if widths.chain([meta.query_coords.len()]).any(|w| w > COLUMNS) {
        return Ok(());
    }
    let rows = |width: usize, count: usize| match width {
        0 => Rows::without_columns(count),
        _ => Rows::new(
            width,
            (0..count * width).map(|i| 0.1 + 0.07 * i as f32).collect(),
        )
        .expect("full rows"),
    };
    let sensors = meta.groups.iter().map(|g| {
        let count = if g.kind == Kind::Scalars { 1 } else { 3 };
        Sensors {
            coords: rows(g.coords.len(), count),
            values: rows(g.values.len(), count),
        }
    });
    let queries = rows(meta.query_coords.len(), 2);
    // Not every operator answers these sensors.
    let _ = operator.predict_groups(sensors.collect(), &queries);
    operator.description();
    Ok(())
}

/// Stops a training as soon as it asks.
struct AtOnce;

impl Observer for AtOnce {
    fn stopped(&self) -> bool {
        true
    }
}

pub fn checkpoint(folder: &Path, bytes: &[u8]) -> Result<()> {
    let run = folder.join("run");
    put(&run, "checkpoint.safetensors", bytes);
    if let Some(state) = RunState::read(&run)? {
        state.finished();
        state.seconds_left();
    }
    Training::resume(&run, None, None, None, &())?.run(&AtOnce)?;
    Ok(())
}

/// The lines of a training's metrics, and behind an empty line the note on its best weights.
pub fn history(folder: &Path, bytes: &[u8]) -> Result<()> {
    let run = folder.join("run");
    let (lines, note) = lines_and_note(bytes);
    put(&run, "metrics.jsonl", lines);
    match note {
        [] => drop(fs::remove_file(run.join("best.json"))),
        some => drop(put(&run, "best.json", some)),
    }
    Record::read_all(&run)?;
    if let Some(state) = RunState::read(&run)? {
        state.finished();
        state.seconds_left();
    }
    Ok(())
}

/// What separates a recipe from settings that are put over it, one a line.
pub const SETTINGS: &str = "\n--set\n";

/// A recipe asks for work in proportion to its numbers: a training is prepared where all are small.
pub fn recipe(_: &Path, bytes: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(bytes);
    let (text, settings) = text.split_once(SETTINGS).unwrap_or((&text, ""));
    let settings: Vec<String> = settings.lines().map(str::to_string).collect();
    let recipe = Recipe::parse(text, &settings)?;
    let written = recipe.to_toml()?;
    assert_eq!(
        Recipe::parse(&written, &[])?,
        recipe,
        "a recipe is not what was written"
    );
    let small = toml::from_str(&written).is_ok_and(|table| is_small(&toml::Value::Table(table)));
    if small {
        let data = seeds::samples(&recipe);
        Training::new(recipe, &data, None, &())?.run(&AtOnce)?;
    }
    Ok(())
}

fn is_small(value: &toml::Value) -> bool {
    match value {
        toml::Value::Integer(n) => n.abs() <= 64,
        toml::Value::Float(v) => v.abs() <= 64.0,
        toml::Value::Array(all) => all.iter().all(is_small),
        toml::Value::Table(all) => all.iter().all(|(_, value)| is_small(value)),
        _ => true,
    }
}

/// A problem that draws at once, so that what takes time is the cache alone.
struct Waves;

/// Numbers of a pair.
const STORED: usize = 3;

impl Problem for Waves {
    fn name(&self) -> &'static str {
        "waves"
    }

    fn spec(&self) -> Spec {
        Spec {
            sensors: SensorSpec::new(&[[0.0, 1.0]], vec![4], None).expect("a grid"),
            test_grid: vec![5],
            train_times: None,
            test_times: None,
            coord_names: vec!["x"],
            input_name: "u",
            output_name: "v",
        }
    }

    fn stored_len(&self) -> usize {
        STORED
    }

    fn draw(&self, _: &mut Rng) -> Result<Option<Vec<f32>>> {
        Ok(Some(vec![0.5; STORED]))
    }

    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2] {
        let wave = |size: f64| -> Box<dyn Field> {
            let parts: Vec<f64> = stored.iter().map(|&a| size * a as f64).collect();
            Box::new(Formula(1, move |x: &[f64]| {
                parts.iter().map(|a| a * x[0].sin()).sum()
            }))
        };
        [wave(1.0), wave(2.0)]
    }
}

/// Samples of a problem whose functions are kept in this folder.
pub fn waves(cache: &Path) -> Dataset {
    Dataset::from_source(ProblemSource {
        problem: Arc::new(Waves),
        layout: Layout::Regular,
        split: Split::Train,
        seed: 0,
        sensor_seed: 0,
        cache: Some(cache.into()),
        sensors_on_grid: false,
        scattered: None,
    })
}

/// The one file of functions in a cache.
pub fn kept(cache: &Path) -> PathBuf {
    let folder = fs::read_dir(cache).expect("a cache").next();
    let folder = folder.expect("its functions").expect("an entry").path();
    folder.join("00000.fields")
}

/// The functions of a file that is refused are drawn again, and it is written anew.
pub fn cache(folder: &Path, bytes: &[u8]) -> Result<()> {
    let cache = folder.join("cache");
    if !cache.exists() {
        waves(&cache).collect(1, &())?;
    }
    fs::write(kept(&cache), bytes).expect("a file in the cache");
    waves(&cache).collect(2, &())?;
    match fs::read(kept(&cache)).expect("the file in the cache") == bytes {
        true => Ok(()),
        false => Err(Error::Unsuitable("its functions were drawn again".into())),
    }
}
