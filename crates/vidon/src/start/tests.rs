//! Fields and operators that start from them.

use std::sync::Arc;

use rand::RngExt;

use crate::data::{Channel, Dataset, Group, Meta, Rows, Sample, Sensors};
use crate::operator::Operator;
use crate::rng::stream;
use crate::start::{Field, FieldConfig, StartConfig, fit_field, refit_field};
use crate::train::{Recipe, Training};

/// Warmth in a plane: a level that goes up and down with the day, falls with the height, waves a little, and is off at
/// every place in a way of its own.
fn warmth(index: u64, later: bool) -> Sample {
    let places = &mut stream(1, "places", 0);
    let stations: Vec<[f32; 4]> = (0..60)
        .map(|_| [0; 4].map(|_| places.random_range(0.0..1.0)))
        .collect();
    let rng = &mut stream(2, "days", index);
    let [level, lapse, wave]: [f32; 3] = [0; 3].map(|_| rng.random_range(-1.0..1.0));
    let mut read = |[x, y, height, own]: [f32; 4], later: bool| {
        let noise = rng.random_range(-0.05..0.05f32);
        let share = if later { 0.5 } else { 1.0 };
        let smooth = 3.0 * level - (2.0 + lapse) * height + wave * (3.0 * x).cos() * y;
        share * (smooth + own) + noise
    };
    let mut seen: Vec<f32> = stations.iter().map(|s| read(*s, false)).collect();
    let wanted: Vec<f32> = stations.iter().map(|s| read(*s, later)).collect();
    let sensors: Vec<usize> = (0..60)
        .filter(|i| !(i * 7 + index as usize).is_multiple_of(3))
        .collect();
    let asked: Vec<usize> = (0..60)
        .filter(|i| (i * 7 + index as usize).is_multiple_of(3))
        .collect();
    // A reading that is missing.
    seen[sensors[4]] = f32::NAN;
    let coords = Rows::of(3, stations.iter().flat_map(|s| s[..3].to_vec()).collect());
    let sensors = Sensors {
        coords: coords.clone(),
        values: Rows::of(1, seen),
    }
    .select(&sensors);
    Sample {
        name: None,
        groups: vec![sensors],
        query_coords: Arc::new(coords.select(&asked)),
        targets: Rows::of(1, wanted).select(&asked),
    }
}

fn meta() -> Meta {
    let channel = |name: &str, covariate: bool| Channel {
        range: Some([0.0, 1.0]),
        covariate,
        ..Channel::named(name)
    };
    let places = || {
        vec![
            channel("x", false),
            channel("y", false),
            channel("height", true),
        ]
    };
    let air = Group {
        gaps: true,
        ..Group::field("air", places(), vec![Channel::named("T")])
    };
    Meta::of_groups("warmth", vec![air], places(), vec![Channel::named("T")])
}

fn days(range: std::ops::Range<u64>, later: bool) -> Vec<Sample> {
    range.map(|i| warmth(i, later)).collect()
}

const RECIPE: &str = r#"
    [data]
    train = "warmth.parquet"
    [model]
    start = { kind = "field" }
    encoders = [{ kind = "projection", functions = 6 }]
    core = { kind = "mlp", hidden = [8] }
    decoder = { kind = "learned", p = 4, hidden = [8] }
    [train]
    batch = 20
    rate = 1e-2
    loss = "mse"
"#;

fn recipe(steps: u64) -> Recipe {
    Recipe::parse(RECIPE, &[format!("train.steps={steps}")]).unwrap()
}

fn mean_square(found: &[Rows], samples: &[Sample]) -> f64 {
    let pairs = found.iter().zip(samples);
    let errors = pairs.flat_map(|(f, s)| f.data().iter().zip(s.targets.data()));
    let squares = errors.map(|(f, t)| ((f - t) as f64).powi(2));
    let all: Vec<f64> = squares.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

/// What is noise in a reading is not told by the others; the height, the day and what is peculiar to a place are.
#[test]
fn a_field_knows_days_heights_and_places() {
    let (train, val, new) = (
        days(0..80, false),
        days(80..100, false),
        days(100..130, false),
    );
    let (config, field) = fit_field(&FieldConfig::default(), &meta(), &train, &val, &()).unwrap();
    assert!(config.places > 0 && !config.apart, "{config:?}");
    let found: Vec<Rows> = new
        .iter()
        .map(|s| field.predict(&s.groups, &s.query_coords).unwrap())
        .collect();
    let missed = mean_square(&found, &new).sqrt();
    assert!(missed < 0.1, "{missed}");
    // The order of the sensors, one that reports nothing, and what else is asked at the same time do not matter.
    let sample = &new[0];
    let order: Vec<usize> = (0..sample.groups[0].len()).rev().collect();
    let mut other = sample.groups[0].select(&order);
    other.coords.extend(&Rows::of(3, vec![0.5; 3]));
    other.values.extend(&Rows::of(1, vec![f32::NAN]));
    let again = field
        .predict(&[other], &sample.query_coords.select(&[1]))
        .unwrap();
    assert!((again.data()[0] - found[0].data()[1]).abs() < 1e-4);
    let nobody = sample.groups[0].select(&[]);
    let mean = field.predict(&[nobody], &sample.query_coords).unwrap();
    assert!(mean.data().iter().all(|v| v.is_finite() && v.abs() < 4.0));
}

/// Targets of the readings' name that are something else are quantities of their own.
#[test]
fn what_comes_later_is_a_quantity_of_its_own() {
    let (train, val, new) = (days(0..80, true), days(80..100, true), days(100..130, true));
    let (config, field) = fit_field(&FieldConfig::default(), &meta(), &train, &val, &()).unwrap();
    assert!(config.apart);
    let found: Vec<Rows> = new
        .iter()
        .map(|s| field.predict(&s.groups, &s.query_coords).unwrap())
        .collect();
    assert!(mean_square(&found, &new).sqrt() < 0.15);
}

/// Before the first step an operator answers what its start says, and so it does after steps that were no better.
/// What was stored answers with the same bits.
#[test]
fn an_operator_begins_with_its_start() {
    let data = |range| Dataset::from_samples(meta(), days(range, false)).unwrap();
    let (train, val) = (data(0..60), data(60..80));
    let mut training = Training::new(recipe(30), &train, Some(&val), &()).unwrap();
    let Some(StartConfig::Field(config)) = training.config().start.clone() else {
        panic!("a field");
    };
    let (_, field) = fit_field(
        &FieldConfig::default(),
        &meta(),
        &days(0..60, false),
        &days(60..80, false),
        &(),
    )
    .unwrap();
    assert!(config.features.place > 0);
    let new = days(100..120, false);
    let new: Vec<&Sample> = new.iter().collect();
    let before = Training::operator(&training).predict_samples(&new).unwrap();
    for (found, sample) in before.iter().zip(&new) {
        let said = field.predict(&sample.groups, &sample.query_coords).unwrap();
        let far = found
            .data()
            .iter()
            .zip(said.data())
            .map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f32::max) < 1e-4);
    }
    let first = training.run(&()).unwrap().best.unwrap();
    let operator = training.best_operator().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    operator.save(&path).unwrap();
    let loaded = Operator::load(&path).unwrap();
    let answers = operator.predict_samples(&new).unwrap();
    assert_eq!(loaded.predict_samples(&new).unwrap(), answers);
    if first.step == 0 {
        assert_eq!(answers, before);
    }
}

#[test]
fn what_a_field_cannot_do_is_said() {
    let refused = |change: fn(&mut Meta), words: &str| {
        let mut other = meta();
        change(&mut other);
        let fault = FieldConfig::default().fault(&other).unwrap();
        assert!(fault.contains(words), "{fault}");
    };
    refused(
        |m| drop(m.query_coords.pop()),
        "needs height at the queries too",
    );
    refused(|m| m.query_coords.swap(0, 1), "in one order");
    refused(
        |m| m.groups.push(m.groups[0].clone()),
        "which group is meant?",
    );
    let words = FieldConfig::default().unknown().unwrap();
    assert!(words.contains("it has no functions yet"), "{words}");
}

/// v(y) = 2u(y) - u(1 - y) from 20 to 40 readings of u = a + b cos(πx) + c cos(2πx).
fn mirrored(range: std::ops::Range<u64>, asked: usize, gaps: bool) -> Vec<Sample> {
    let sample = |index: u64| {
        let rng = &mut stream(5, "mirrored", index);
        let [a, b, c]: [f32; 3] = [0; 3].map(|_| rng.random_range(-1.0..1.0));
        let pi = std::f32::consts::PI;
        let u = |x: f32| a + b * (pi * x).cos() + c * (2.0 * pi * x).cos();
        let count = rng.random_range(20..=40);
        let places: Vec<f32> = (0..count).map(|_| rng.random_range(0.0..1.0)).collect();
        let asked: Vec<f32> = (0..asked).map(|_| rng.random_range(0.0..1.0)).collect();
        let mut targets: Vec<f32> = asked.iter().map(|&y| 2.0 * u(y) - u(1.0 - y)).collect();
        if gaps {
            targets[index as usize % 5] = f32::NAN;
        }
        Sample::of(
            Rows::of(1, places.clone()),
            Rows::of(1, places.iter().map(|&x| u(x)).collect()),
            Arc::new(Rows::of(1, asked)),
            Rows::of(1, targets),
        )
    };
    range.map(sample).collect()
}

/// What is linear is known before the first step, through coefficients, through queries and with targets missing; and
/// what was stored answers with the same bits.
#[test]
fn a_linear_operator_is_known_before_the_first_step() {
    let channel = |name: &str| Channel {
        range: Some([0.0, 1.0]),
        ..Channel::named(name)
    };
    // Nine places do not tell five coefficients well, but a hundred times nine tell a map.
    for (coefficients, asked, gaps) in [(true, 60, false), (false, 9, false), (false, 9, true)] {
        let mut meta = Meta::new(
            "mirrored",
            vec![channel("x")],
            vec![Channel::named("u")],
            vec![channel("x")],
            vec![Channel::named("u")],
        );
        meta.target_gaps = gaps;
        let data =
            |range| Dataset::from_samples(meta.clone(), mirrored(range, asked, gaps)).unwrap();
        let text = format!(
            r#"[model]
            start = {{ kind = "linear" }}
            encoders = [{{ kind = "projection", functions = 5 }}]
            core = {{ kind = "mlp", hidden = [8] }}
            decoder = {{ kind = "basis", functions = 5 }}
            [train]
            coefficients = {coefficients}
            steps = 5"#
        );
        let recipe = Recipe::parse(&text, &[]).unwrap();
        let mut training =
            Training::new(recipe, &data(0..100), Some(&data(100..120)), &()).unwrap();
        training.run(&()).unwrap();
        let operator = training.best_operator().unwrap();
        let new = mirrored(200..230, asked, gaps);
        let errors = operator.errors(&data(200..230), 30, &()).unwrap();
        let words = format!("{coefficients} {gaps} {:?}", errors.columns);
        assert!(errors.columns[0].rmse < 0.02, "{words}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        operator.save(&path).unwrap();
        let all: Vec<&Sample> = new.iter().collect();
        let again = Operator::load(&path).unwrap().predict_samples(&all);
        assert_eq!(again.unwrap(), operator.predict_samples(&all).unwrap());
    }
}

#[test]
fn a_linear_start_says_what_it_does_not_go_with() {
    let meta = Meta::new(
        "mirrored",
        vec![Channel::named("x")],
        vec![Channel::named("u")],
        vec![Channel::named("x")],
        vec![Channel::named("v")],
    );
    let data = Dataset::from_samples(meta, mirrored(0..20, 9, false)).unwrap();
    let refused = |encoders: &str, decoder: &str| {
        let text = format!(
            "[model]\nstart = {{ kind = \"linear\" }}\nencoders = [{encoders}]\ncore = {{ kind = \"mlp\" }}\ndecoder = {decoder}\n[train]\nsteps = 5"
        );
        let recipe = Recipe::parse(&text, &[]).unwrap();
        Training::new(recipe, &data, None, &())
            .err()
            .unwrap()
            .to_string()
    };
    let projection = "{ kind = \"projection\", functions = 5 }";
    let words = refused(
        "{ kind = \"heads\" }",
        "{ kind = \"basis\", functions = 5 }",
    );
    assert!(words.contains("heads learn"), "{words}");
    let words = refused(projection, "{ kind = \"learned\" }");
    assert!(words.contains("needs a fixed basis"), "{words}");
}

/// Beside a start every sample is kept in views, with other sensors left out, whose corrections are those of what the
/// remaining sensors say.
#[test]
fn sensors_are_left_out_beside_a_start() {
    let data = |range| Dataset::from_samples(meta(), days(range, false)).unwrap();
    let (train, val) = (data(0..40), data(40..60));
    let trained = |settings: &[&str]| {
        let settings = settings.iter().map(|s| s.to_string());
        let settings: Vec<String> = settings.chain(["train.steps=6".into()]).collect();
        let recipe = Recipe::parse(RECIPE, &settings).unwrap();
        let mut training = Training::new(recipe, &train, Some(&val), &()).unwrap();
        training.run(&()).unwrap();
        Training::operator(&training)
    };
    let whole = trained(&[]);
    let left_out = trained(&["train.left_out=0.3"]);
    assert_eq!(
        left_out.entries(),
        trained(&["train.left_out=0.3"]).entries()
    );
    let thinned = trained(&["train.sensors=0.5"]);
    // The start is the same, and what is learned beside it is not.
    let differ = |a: &Operator, b: &Operator, field: bool| {
        let both = a.entries().iter().zip(b.entries());
        let own = both.filter(|(a, _)| a.name.starts_with("field.") == field);
        own.filter(|(a, b)| a != b).count()
    };
    for other in [&left_out, &thinned] {
        assert_eq!(differ(&whole, other, true), 0);
        assert!(differ(&whole, other, false) > 0);
    }
    let refused = |settings: &[&str], words: &str| {
        let settings = settings.iter().map(|s| s.to_string());
        let settings: Vec<String> = settings.chain(["train.steps=6".into()]).collect();
        let found = Recipe::parse(RECIPE, &settings)
            .and_then(|recipe| Training::new(recipe, &train, Some(&val), &()).map(drop));
        let found = found.err().unwrap().to_string();
        assert!(found.contains(words), "{found}");
    };
    let both = ["train.left_out=0.3", "train.coefficients=true"];
    refused(&both, "train.left_out: coefficients = true compares");
    refused(&["train.symmetries={flips=true}"], "leave out symmetries");
    refused(&["data.hold_out=places"], "validation data of their own");
    refused(
        &["train.left_out=1.5"],
        "train.left_out = 1.5: is out of range",
    );
}

/// A field of other days goes on from what it was: a few samples of another place and level are enough, and no samples
/// make it worse.
#[test]
fn a_field_is_made_to_fit_other_samples() {
    let warmer = |range| {
        let mut days = days(range, false);
        for sample in &mut days {
            let warm = |rows: &mut Rows| rows.data_mut().iter_mut().for_each(|v| *v += 2.0);
            warm(&mut sample.groups[0].values);
            warm(&mut sample.targets);
        }
        days
    };
    let (train, val) = (days(0..60, false), days(60..80, false));
    let (config, field) = fit_field(&FieldConfig::default(), &meta(), &train, &val, &()).unwrap();
    let (few, judged, new) = (warmer(100..112), warmer(112..118), warmer(120..150));
    let missed = |field: &Field| {
        let found = new
            .iter()
            .map(|s| field.predict(&s.groups, &s.query_coords).unwrap());
        mean_square(&found.collect::<Vec<_>>(), &new).sqrt()
    };
    let (moved, refitted) = refit_field(&config, &field, &meta(), &few, &judged, &()).unwrap();
    assert_eq!(moved.features, config.features);
    assert!(
        missed(&refitted) <= missed(&field),
        "{} {}",
        missed(&refitted),
        missed(&field)
    );
    assert!(missed(&refitted) < 0.15, "{}", missed(&refitted));
    let (same, _) = refit_field(&config, &field, &meta(), &train[..3], &val, &()).unwrap();
    assert_eq!(same.places, config.places);
}
