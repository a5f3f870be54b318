//! What a training promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::data::{Channel, DatasetWriter, Meta, Rows};
use crate::eval::relative_l2;
use crate::network::to_vec;
use crate::problems::{Parameters, named};
use crate::rng::stream;
use crate::spaces::Frame;
use crate::train::loss::Measure;
use crate::train::run_folder::{BEST, BEST_NOTE, CHECKPOINT, EVENTS, LAST, LINES, ORIGIN, RECIPE};
use crate::train::step::loss;
use rand::RngExt;

/// Samples of v(y) = mean of the readings times y, as a file.
fn dataset(path: &Path, count: usize) {
    let channel = |n: &str| vec![Channel::named(n)];
    let meta = Meta::new(
        "means",
        channel("x"),
        channel("u"),
        channel("y"),
        channel("v"),
    );
    let mut rng = stream(1, "means", 0);
    let samples: Vec<Sample> = (0..count)
        .map(|_| {
            let (m, level) = (rng.random_range(3..9), rng.random_range(-1.0..1.0f32));
            let mut numbers = |n: usize| (0..n).map(|_| rng.random::<f32>()).collect::<Vec<f32>>();
            let (x, y) = (numbers(m), numbers(6));
            let targets = Rows::of(1, y.iter().map(|y| level * (1.0 + y)).collect());
            let values = Rows::of(1, vec![level; m]);
            Sample::of(Rows::of(1, x), values, Arc::new(Rows::of(1, y)), targets)
        })
        .collect();
    let mut writer = DatasetWriter::create(path, meta).unwrap();
    writer.write(&samples).unwrap();
    writer.finish().unwrap();
}

fn recipe(data: &Path, more: &str) -> Recipe {
    let text = format!(
        "[data]\ntrain = {data:?}\n[model]\nencoders = [{{ kind = \"heads\", d_enc = 4, encoder_hidden = [6], count = 2, hidden = [6], outputs = 4 }}]\ncore = {{ kind = \"mlp\", hidden = [8] }}\ndecoder = {{ kind = \"learned\", p = 3, hidden = [8] }}\n[train]\nbatch = 8\nsensors = 3\nqueries = 4\nsteps = 60\nema = 0.9\nclip = 1.0\nrate = 1e-2\nschedule = {{ kind = \"cosine\" }}\n{more}"
    );
    Recipe::parse(&text, &[]).unwrap()
}

/// Stops after so many looks.
struct After(AtomicUsize);

impl Observer for After {
    fn stopped(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed).saturating_sub(1);
        self.0.store(left, Ordering::Relaxed);
        left == 0
    }
}

#[test]
fn a_resumed_training_is_the_one_that_was_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 40);
    let at = |name: &str| folder.path().join(name);
    let begin = |name: &str| Training::begin(recipe(&data, ""), &at(name), None, &()).unwrap();
    let whole = begin("whole").run(&()).unwrap();
    assert_eq!((whole.stop, whole.step), (Stop::Finished, 60));
    let mut stop = begin("parts")
        .run(&After(AtomicUsize::new(7)))
        .unwrap()
        .stop;
    let mut parts = 1;
    while stop == Stop::Interrupted {
        let mut training = Training::resume(&at("parts"), None, None, None, &()).unwrap();
        stop = training
            .run(&After(AtomicUsize::new(7 + 3 * parts)))
            .unwrap()
            .stop;
        parts += 1;
    }
    assert!(parts > 3);
    for file in [LAST, BEST] {
        let read = |run: &str| std::fs::read(at(run).join(file)).unwrap();
        assert!(read("whole") == read("parts"), "{file}");
    }
    // The history too, apart from the clock.
    let history = |run: &str| {
        let records = Record::read_all(&at(run)).unwrap();
        records
            .iter()
            .map(|r| (r.step, r.val_error, r.best_error, r.loss, r.rate, r.epoch))
            .collect::<Vec<_>>()
    };
    assert_eq!(history("whole"), history("parts"));
    // It has learned, and a finished training can be made longer.
    let errors = history("whole");
    assert!(
        whole.best.unwrap().error < 0.5 * errors[0].1.unwrap(),
        "{errors:?}"
    );
    let mut more = Training::resume(&at("whole"), Some(70), None, None, &()).unwrap();
    assert_eq!(more.run(&()).unwrap().step, 70);
}

/// A checkpoint says in JSON what it is of, ends of boxes included: they come back as they were.
#[test]
fn boxes_of_the_data_are_recognised() {
    let mut rng = stream(1, "boxes", 0);
    for _ in 0..500 {
        let frame = Frame {
            lo: vec![-rng.random::<f32>() as f64],
            hi: vec![rng.random::<f32>() as f64],
            ..Frame::default()
        };
        let json = serde_json::to_string(&frame).unwrap();
        assert_eq!(serde_json::from_str::<Frame>(&json).unwrap(), frame);
    }
}

/// Where fits of sensors and targets are worked out once and moved with the symmetries, stopping changes
/// nothing either.
#[test]
fn a_core_behind_a_projection_is_resumed_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[data]\nproblem = \"navier-stokes\"\nlayout = \"variable\"\ntrain_samples = 12\nval_samples = 2\n[model]\nencoders = [{ kind = \"projection\", functions = 25, frame = { family = \"periodic\" } }]\ncore = { kind = \"fno\", grid = 8, coords = false, width = 16, modes = 3, layers = 2, hidden = 8 }\ndecoder = { kind = \"basis\", functions = 25, frame = { family = \"periodic\" } }\n[train]\nbatch = 4\ncoefficients = true\nsteps = 20\nvalidate_every = 10\nema = 0.9\nloss = \"relative-l2\"\nsymmetries = { flips = true, swaps = true, shifts = true, odd = true }\n";
    let at = |name: &str| folder.path().join(name);
    let begin = |name: &str| {
        let recipe = Recipe::parse(text, &[]).unwrap();
        Training::begin(recipe, &at(name), None, &()).unwrap()
    };
    let mut training = begin("whole");
    assert!(training.samples.train[0].code.is_some() && training.samples.targets.is_some());
    assert_eq!(training.run(&()).unwrap().step, 20);
    let stop = begin("parts")
        .run(&After(AtomicUsize::new(8)))
        .unwrap()
        .stop;
    assert_eq!(stop, Stop::Interrupted);
    let mut resumed = Training::resume(&at("parts"), None, None, None, &()).unwrap();
    assert_eq!(resumed.run(&()).unwrap().stop, Stop::Finished);
    let read = |run: &str| std::fs::read(at(run).join(LAST)).unwrap();
    assert!(read("whole") == read("parts"));
}

#[test]
fn numbers_that_are_not_finite_end_the_training_and_keep_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 40);
    let run = folder.path().join("run");
    let mut wild = recipe(&data, "checkpoint_every = 1");
    (wild.train.rate, wild.train.schedule) = (1e-2, Schedule::default());
    wild.train.steps = Some(3);
    let good = Training::begin(wild, &run, None, &())
        .unwrap()
        .run(&())
        .unwrap();
    assert_eq!((good.stop, good.checkpoint), (Stop::Finished, 3));
    let before = std::fs::read(run.join(CHECKPOINT)).unwrap();
    let mut training = Training::resume(&run, Some(50), None, None, &()).unwrap();
    training.recipe.train.rate = f64::MAX;
    let outcome = training.run(&()).unwrap();
    assert_eq!((outcome.stop, outcome.checkpoint), (Stop::Diverged, 3));
    assert!(std::fs::read(run.join(CHECKPOINT)).unwrap() == before);
}

#[test]
fn folders_are_kept_apart_and_settings_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 12);
    let run = folder.path().join("run");
    let begin = |recipe: Recipe, run: &Path| Training::begin(recipe, run, None, &());
    let training = begin(recipe(&data, ""), &run).unwrap();
    let words = |r: Result<Training>| r.err().expect("an error").to_string();
    assert!(words(begin(recipe(&data, ""), &run)).contains("another training is running"));
    assert!(
        words(Training::resume(&run, None, None, None, &()))
            .contains("another training is running")
    );
    drop(training);
    assert!(words(begin(recipe(&data, ""), &run)).contains("already holds a training"));
    assert!(Training::resume(&run, None, None, None, &()).is_ok());
    assert!(
        words(Training::resume(folder.path(), None, None, None, &()))
            .contains("not the folder of a training")
    );
    // A checkpoint that was cut short is refused.
    Training::resume(&run, Some(2), None, None, &())
        .unwrap()
        .run(&())
        .unwrap();
    let checkpoint = std::fs::read(run.join(CHECKPOINT)).unwrap();
    std::fs::write(run.join(CHECKPOINT), &checkpoint[..checkpoint.len() / 2]).unwrap();
    assert!(words(Training::resume(&run, None, None, None, &())).contains("is damaged"));

    let deeponet = "[data]\nproblem = \"darcy\"\nlayout = \"missing\"\ntrain_samples = 1\nval_samples = 1\n[model]\nencoders = [{ kind = \"vector\", sensors = 2601 }]\ncore = { kind = \"mlp\", hidden = [4] }\ndecoder = { kind = \"learned\", p = 2, hidden = [4] }\n[train]\nsteps = 1\n";
    let other = folder.path().join("other");
    let parse = |text: &str| Recipe::parse(text, &[]).unwrap();
    assert!(words(begin(parse(deeponet), &other)).contains("only regular and irregular"));
    let fixed = deeponet.replace("missing", "regular");
    let few = fixed.replace("steps = 1", "steps = 1\nsensors = 7");
    assert!(words(begin(parse(&few), &other)).contains("needs all of its sensors"));
    let compared = fixed.replace("steps = 1", "steps = 1\ncoefficients = true");
    assert!(words(begin(parse(&compared), &other)).contains("needs a fixed basis"));
    assert!(
        !other.exists(),
        "nothing is made for a recipe that cannot run"
    );
}

/// What is not trained stays as it is, also in the running mean; a changed recipe or a lost checkpoint is noticed.
#[test]
fn fixed_numbers_stay_and_changed_recipes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[data]\nproblem = \"allen-cahn\"\nlayout = \"irregular\"\ntrain_samples = 12\nval_samples = 2\n[model]\nencoders = [{ kind = \"vector\", sensors = 676 }]\ncore = { kind = \"mlp\", hidden = [4] }\ndecoder = { kind = \"pod\", p = 3, functions = 9 }\n[train]\nbatch = 5\nqueries = 50\nvalidation_queries = 50\nsteps = 7\nema = 0.9\n";
    let run = folder.path().join("run");
    let mut training = Training::begin(Recipe::parse(text, &[]).unwrap(), &run, None, &()).unwrap();
    let fixed = |entries: &[Entry]| -> Vec<Entry> {
        entries.iter().filter(|e| !e.trained).cloned().collect()
    };
    let before = fixed(&training.entries);
    assert_eq!(training.run(&()).unwrap().stop, Stop::Finished);
    drop(training);
    let last = Operator::load(&run.join(LAST)).unwrap();
    assert_eq!((fixed(last.entries()), before.len()), (before.clone(), 2));
    let again = |steps: u64| Training::resume(&run, Some(steps), None, None, &());
    let words = |r: Result<Training>| r.err().expect("an error").to_string();
    assert!(words(again(5)).contains("7 steps"));
    let path = run.join(RECIPE);
    let recipe = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, recipe.replace("p = 3", "p = 2")).unwrap();
    assert!(words(again(9)).contains("another model, data, transforms, scaling, metric or seed"));
    std::fs::write(&path, recipe).unwrap();
    std::fs::remove_file(run.join(CHECKPOINT)).unwrap();
    assert!(words(again(9)).contains("checkpoint.safetensors"));
}

/// Files may move, but not change.
#[test]
fn files_that_changed_are_not_the_data_of_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 12);
    let run = folder.path().join("run");
    drop(Training::begin(recipe(&data, ""), &run, None, &()).unwrap());
    let again = || Training::resume(&run, None, None, None, &());
    let moved = folder.path().join("moved.parquet");
    std::fs::rename(&data, &moved).unwrap();
    let path = run.join(RECIPE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("d.parquet", "moved.parquet")).unwrap();
    assert!(again().is_ok());
    dataset(&moved, 13);
    let words = again().err().expect("an error").to_string();
    assert!(words.contains("the files that it names"), "{words}");
}

/// What the data do not allow: symmetries of coordinates in another order, waves without periods, fits far
/// outside of a frame.
#[test]
fn data_that_do_not_suit_the_recipe_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    let write = |queries: [&str; 2], range: Option<[f64; 2]>, far: Option<u64>| {
        let channels = |names: &[&str]| -> Vec<Channel> {
            let ranged = |n: &&str| Channel {
                range,
                ..Channel::named(*n)
            };
            names.iter().map(ranged).collect()
        };
        let (sensors, queries) = (channels(&["lon", "lat"]), channels(&queries));
        let meta = Meta::new("f", sensors, channels(&["u"]), queries, channels(&["v"]));
        let samples = (0..80).map(|i| {
            let rng = &mut stream(2, "places", i);
            let mut places: Vec<f32> = (0..80).map(|_| rng.random()).collect();
            if far == Some(i) {
                places[0] = 1e6;
            }
            let u: Vec<f32> = places.iter().step_by(2).map(|x| x * i as f32).collect();
            let (places, u) = (Rows::of(2, places), Rows::of(1, u));
            Sample::of(places.clone(), u.clone(), Arc::new(places), u)
        });
        let mut writer = DatasetWriter::create(&data, meta).unwrap();
        writer.write(&Vec::from_iter(samples)).unwrap();
        writer.finish().unwrap();
    };
    let attempt = |family: &str, more: &str| {
        let text = format!(
            "[data]\ntrain = {data:?}\nval_samples = 2\n[model]\nencoders = [{{ kind = \"projection\", functions = 60, frame = {{ family = \"{family}\" }} }}]\ncore = {{ kind = \"mlp\", hidden = [8] }}\ndecoder = {{ kind = \"learned\", p = 3, hidden = [8] }}\n[train]\nsteps = 1\n{more}"
        );
        let _ = std::fs::remove_dir_all(folder.path().join("run"));
        let recipe = Recipe::parse(&text, &[]).unwrap();
        let mut training = Training::begin(recipe, &folder.path().join("run"), None, &())?;
        training.run(&()).map(|_| ())
    };
    let refused = |result: Result<()>, words: &str| {
        let found = result.expect_err(words).to_string();
        assert!(found.contains(words), "{found}");
    };
    let flips = "symmetries = { flips = true }";
    write(["lat", "lon"], None, None);
    refused(attempt("cosine", flips), "\"lon\" has another place");
    attempt("cosine", "").unwrap();
    write(["lon", "lat"], None, None);
    attempt("cosine", flips).unwrap();
    refused(attempt("periodic", ""), "need the period");
    write(["lon", "lat"], Some([0.0, 1.0]), None);
    attempt("periodic", "").unwrap();
    attempt("legendre", "").unwrap();
    write(["lon", "lat"], Some([0.0, 1.0]), Some(5));
    refused(attempt("legendre", ""), "training sample 5: its sensors");
    write(["lon", "lat"], Some([0.0, 1.0]), Some(79));
    refused(
        attempt("legendre", ""),
        "validation sample 1: its sensors have no finite fit",
    );
}

/// The relative loss is the mean relative L² error in physical units.
#[test]
fn losses_are_those_of_their_formulas() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.parquet");
    dataset(&path, 20);
    check_losses(&recipe(&path, ""), 1e-4);
}

/// Compared as coefficients, functions are as far apart as at their targets, up to what random places tell of
/// a norm.
#[test]
fn coefficients_are_as_far_apart_as_values() {
    let text = "[data]\nproblem = \"allen-cahn\"\nlayout = \"regular\"\ntrain_samples = 6\nval_samples = 1\n[model]\nencoders = [{ kind = \"projection\", functions = 10, frame = { family = \"legendre\" } }]\ncore = { kind = \"mlp\", hidden = [4] }\ndecoder = { kind = \"basis\", functions = 66, frame = { family = \"legendre\", times = 4 } }\n[train]\nsteps = 2\ncoefficients = true\n";
    check_losses(&Recipe::parse(text, &[]).unwrap(), 0.1);
}

fn check_losses(recipe: &Recipe, tolerance: f64) {
    let loaded = Loaded::of_recipe(recipe, None, &()).unwrap();
    let physical = loaded.train.clone();
    let mut recipe = recipe.clone();
    (recipe.train.sensors, recipe.train.queries) = (None, None);
    let training = Training::put_together(recipe, loaded, None, false, &()).unwrap();
    let (design, operator) = (&training.design, training.operator());
    let all: Vec<usize> = (0..physical.len()).collect();
    let options = &training.recipe.train;
    let entries = operator.entries();
    let batch = draw(options, design, entries, &training.samples, &all, 0).unwrap();
    let value = |loss_kind: Loss| {
        let measure = Measure {
            loss: loss_kind,
            scaling: design.scaling.as_ref(),
            size: training.samples.size,
        };
        let found = loss(design, &training.state.params, measure, &batch).unwrap();
        to_vec(found.sum)[0] as f64 / found.count
    };
    let refs: Vec<&Sample> = physical.iter().collect();
    let found = operator.predict_samples(&refs).unwrap();
    let errors = found.iter().zip(&physical);
    let errors: Vec<f64> = errors.map(|(f, s)| relative_l2(f, &s.targets)).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let relative = value(Loss::RelativeL2);
    assert!(
        (relative / mean - 1.0).abs() < tolerance,
        "{relative} {mean}"
    );
    let span = design.scaling.as_ref().unwrap().targets.span(0) as f64;
    let squares = found.iter().zip(&physical).flat_map(|(f, s)| {
        let pairs = f.data().iter().zip(s.targets.data());
        pairs
            .map(|(a, b)| ((a - b) as f64 / span).powi(2))
            .collect::<Vec<f64>>()
    });
    let squares: Vec<f64> = squares.collect();
    let mse = squares.iter().sum::<f64>() / squares.len() as f64;
    let found = value(Loss::Mse);
    assert!((found / mse - 1.0).abs() < tolerance, "{found} {mse}");
}

/// A step in parts is the step on the whole, up to rounding; the same parts give the same bits.
#[test]
fn micro_batches_add_up_to_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 40);
    let trained = |more: &str| {
        let recipe = recipe(&data, more);
        let loaded = Loaded::of_recipe(&recipe, None, &()).unwrap();
        let mut training = Training::put_together(recipe, loaded, None, false, &()).unwrap();
        let loss = training.advance().unwrap().0;
        let operator = training.operator();
        let numbers = operator.entries().iter().flat_map(|e| e.values.clone());
        let numbers: Vec<f32> = numbers.collect();
        (loss, numbers)
    };
    for loss in ["", "loss = \"relative-l2\"\n"] {
        let whole = trained(loss);
        for parts in [2, 3, 8, 100] {
            let split = || trained(&format!("{loss}micro_batches = {parts}\n"));
            let (found, numbers) = split();
            assert!((found / whole.0 - 1.0).abs() < 1e-5);
            let far = numbers.iter().zip(&whole.1).map(|(a, b)| (a - b).abs());
            // Adam's first step is the sign of the gradient: where that is near zero, rounding shows.
            let changed = far.filter(|d| *d > 1e-4).count();
            assert!(changed <= numbers.len() / 50, "{parts}: {changed}");
            assert_eq!(split().1, numbers);
        }
    }
}

/// A training without a folder gives the bits of one with a folder.
#[test]
fn an_operator_is_fitted_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d.parquet");
    dataset(&data, 40);
    let recipe = recipe(&data, "");
    let run = folder.path().join("run");
    Training::begin(recipe.clone(), &run, None, &())
        .unwrap()
        .run(&())
        .unwrap();
    let source = Dataset::open(&data).unwrap();
    let fitted = Operator::fit(&source, &recipe, &()).unwrap();
    let kept = Operator::load(&run).unwrap();
    assert_eq!(fitted.entries(), kept.entries());
    assert_eq!(fitted.scaling(), kept.scaling());
}

#[test]
fn how_far_a_training_is_can_be_read_from_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d.parquet");
    dataset(&data, 40);
    let folder = dir.path().join("run");
    assert!(RunState::read(&folder).unwrap().is_none());
    let standing = || RunState::read(&folder).unwrap().unwrap();
    let recipe = recipe(&data, "epochs = 9.0\n");
    let mut training = Training::begin(recipe, &folder, None, &()).unwrap();
    assert_eq!((standing().step(), standing().finished()), (0, false));
    training.run(&After(AtomicUsize::new(14))).unwrap();
    drop(training);
    assert_eq!((standing().step(), standing().finished()), (13, false));
    let mut resumed = Training::resume(&folder, None, None, None, &()).unwrap();
    let outcome = resumed.run(&()).unwrap();
    // 36 of 40 samples, eight a step: nine epochs are 45 steps.
    assert_eq!((standing().step(), standing().finished()), (45, true));
    assert_eq!(standing().seconds(), outcome.seconds);
    assert_eq!(standing().best, outcome.best);
}

#[test]
fn a_training_knows_the_recipe_it_follows() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[data]\nproblem = \"allen-cahn\"\nlayout = \"variable\"\ntrain_samples = 4\nval_samples = 1\n[model]\nencoders = [{ kind = \"projection\", functions = 4, frame = { family = \"legendre\" } }]\ncore = { kind = \"mlp\", hidden = [4] }\ndecoder = { kind = \"basis\", functions = 4, frame = { family = \"legendre\" } }\n[train]\nsteps = 2\n";
    let recipe = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        Recipe::parse(text, &settings).unwrap()
    };
    let folder = dir.path().join("run");
    Training::begin(recipe(&[]), &folder, None, &()).unwrap();
    let standing = RunState::read(&folder).unwrap().unwrap();
    assert!(standing.follows(&recipe(&[])).unwrap());
    assert!(standing.follows(&recipe(&["train.steps=9"])).unwrap());
    for other in [
        "train.rate=1e-4",
        "model.decoder.functions=3",
        "data.layout=random",
    ] {
        assert!(!standing.follows(&recipe(&[other])).unwrap(), "{other}");
    }
}

/// The recipes of the paper's 26 table cells have the paper's networks; those of the fast networks are there
/// for every problem and layout.
#[test]
fn all_cells_of_the_paper_have_a_recipe() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let recipes = |family: &str| -> Vec<(String, Recipe)> {
        let files = std::fs::read_dir(folder.join(family)).unwrap();
        let read = files.map(|file| {
            let path = file.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_string();
            (stem, Recipe::read(&path).unwrap())
        });
        read.collect()
    };
    let cell = |recipe: &Recipe| {
        let name = recipe.data.problem.as_ref().expect("a cell has a problem");
        (
            named(name, &Parameters::new()).unwrap(),
            recipe.data.layout.unwrap(),
        )
    };
    let paper = recipes("paper");
    assert_eq!(paper.len(), 26);
    for (stem, recipe) in paper {
        let (problem, layout) = cell(&recipe);
        let model = recipe.model.name();
        let word = model.name().to_lowercase();
        assert_eq!(stem, format!("{}-{word}-{layout}", problem.name()));
        let wanted = ModelConfig::of_paper(model, &*problem).unwrap();
        assert_eq!(recipe.model, wanted);
    }
    let fast = recipes("fast");
    assert_eq!(fast.len(), 18);
    for (stem, recipe) in fast {
        let (problem, layout) = cell(&recipe);
        assert_eq!(stem, format!("{}-{layout}", problem.name()));
    }
    assert_eq!(recipes("kriged").len(), 3);
}

/// A run of so many steps, in a folder of its own.
fn finished(folder: &Path, steps: u64) -> std::path::PathBuf {
    let (data, run) = (folder.join("d.parquet"), folder.join("run"));
    dataset(&data, 40);
    let mut recipe = recipe(
        &data,
        "checkpoint_every = 4\nvalidate_every = 2\nwarm_up = 20",
    );
    recipe.train.steps = Some(steps);
    let mut training = Training::begin(recipe, &run, None, &()).unwrap();
    training.run(&()).unwrap();
    run
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    for name in [CHECKPOINT, BEST_NOTE] {
        let path = run.join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 30) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, bytes).unwrap();
            let error = Training::resume(&run, Some(6), None, None, &()).err();
            let error = error.expect("an error").to_string();
            assert!(
                error.contains(name) && error.contains("is damaged"),
                "{error}"
            );
        }
        std::fs::write(&path, whole).unwrap();
    }
    Training::resume(&run, Some(6), None, None, &()).unwrap();
}

/// Blank lines are nothing, a line that was cut short is forgotten, and no damaged line is used.
#[test]
fn the_history_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 6);
    let path = run.join(LINES);
    let text = std::fs::read_to_string(&path).unwrap();
    let records = Record::read_all(&run).unwrap();
    let put = |text: &str| std::fs::write(&path, text).unwrap();
    put(&format!("\n{}\r\n \n", text.replacen('\n', "\n\n", 1)));
    assert_eq!(Record::read_all(&run).unwrap(), records);
    put(&text[..text.len() - 1]);
    assert_eq!(Record::read_all(&run).unwrap(), records);
    for cut in [2, 30] {
        put(&text[..text.len() - cut]);
        assert_eq!(
            Record::read_all(&run).unwrap(),
            records[..records.len() - 1]
        );
    }
    put(&format!("{text}\0\0\0"));
    assert_eq!(Record::read_all(&run).unwrap(), records);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, bytes).unwrap();
        match Record::read_all(&run) {
            Ok(found) => assert_eq!(found, records, "byte {at}"),
            Err(e) => assert!(e.to_string().contains("is damaged"), "{e}"),
        }
    }
    put(&format!("\n{text}"));
    Training::resume(&run, Some(8), None, None, &()).unwrap();
    assert_eq!(Record::read_all(&run).unwrap(), records);
}

/// A training that went on past its checkpoint, found better numbers and was killed: its history is that of a
/// training that was never killed, and the better numbers stay.
#[test]
fn what_came_after_the_checkpoint_is_not_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    let keep = |names: [&str; 3]| names.map(|name| std::fs::read(run.join(name)).unwrap());
    let checkpoint = std::fs::read(run.join(CHECKPOINT)).unwrap();
    let go_on = |steps: u64| {
        let mut training = Training::resume(&run, Some(steps), None, None, &()).unwrap();
        let outcome = training.run(&()).unwrap();
        let records = Record::read_all(&run).unwrap();
        let records = records
            .into_iter()
            .map(|r| (r.step, r.loss, r.val_error, r.best_error));
        (outcome.best.unwrap(), Vec::from_iter(records))
    };
    let whole = go_on(40);
    assert!(whole.0.step > 6, "it learns: {:?}", whole.0);
    let after = keep([BEST, BEST_NOTE, LAST]);
    std::fs::write(run.join(CHECKPOINT), &checkpoint).unwrap();
    assert_eq!(go_on(40), whole);
    assert!(keep([BEST, BEST_NOTE, LAST]) == after);
    // Where it ends before it is as good again, the better numbers are still there, and it says so.
    std::fs::write(run.join(CHECKPOINT), &checkpoint).unwrap();
    assert_eq!(go_on(6).0, whole.0);
    assert!(keep([BEST, BEST_NOTE, LAST])[..2] == after[..2]);
}

/// A training is not said to be at its end before all that it leaves is there.
#[cfg(unix)]
#[test]
fn what_has_come_to_its_end_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    let whole = std::fs::read(run.join(LAST)).unwrap();
    let go_on = || {
        let mut training = Training::resume(&run, Some(8), None, None, &())?;
        training.run(&())
    };
    // As if it were killed while the last of its files are written.
    std::fs::remove_file(run.join(LAST)).unwrap();
    std::os::unix::fs::symlink("nowhere", run.join(LAST)).unwrap();
    go_on().unwrap_err();
    assert!(!RunState::read(&run).unwrap().unwrap().finished());
    std::fs::remove_file(run.join(LAST)).unwrap();
    go_on().unwrap();
    assert!(RunState::read(&run).unwrap().unwrap().finished());
    assert!(std::fs::read(run.join(LAST)).unwrap() != whole);
}

/// Whoever goes on with a run removes what was being written when it was killed, and only that.
#[test]
fn unfinished_files_of_a_run_go() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    let before = names(&run);
    let foreign = [".best.safetensors.part", ".notes.txt.abc123.part"];
    for name in [RECIPE, BEST, BEST_NOTE, LAST, ORIGIN, LINES] {
        std::fs::write(run.join(format!(".{name}.abc123.part")), "half").unwrap();
    }
    for name in foreign {
        std::fs::write(run.join(name), "foreign").unwrap();
    }
    drop(Training::resume(&run, None, None, None, &()).unwrap());
    let after = names(&run).into_iter();
    let (others, own): (Vec<_>, Vec<_>) = after.partition(|n| foreign.contains(&&n[..]));
    assert_eq!((own, others.len()), (before, 2));
}

/// A training that was killed before it began may have left what it was to start from.
#[test]
fn an_origin_of_another_training_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    std::fs::copy(run.join(BEST), run.join(ORIGIN)).unwrap();
    let mut training = Training::resume(&run, Some(6), None, None, &()).unwrap();
    assert_eq!(training.run(&()).unwrap().step, 6);
}

/// Every name that a run has, for reading and for writing.
#[cfg(unix)]
#[test]
fn no_link_in_the_folder_of_a_run_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let run = finished(folder.path(), 4);
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "dear").unwrap();
    for name in [
        ".lock", BEST, BEST_NOTE, LAST, CHECKPOINT, LINES, EVENTS, RECIPE,
    ] {
        let (path, aside) = (run.join(name), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        // Longer each time, until it is better and the best is written.
        let gone_on =
            Training::resume(&run, Some(30), None, None, &()).and_then(|mut t| t.run(&()));
        let error = gone_on.expect_err(name).to_string();
        assert!(error.contains(&format!("{name}: is a link")), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
    let (path, best) = (run.join(BEST), folder.path().join("elsewhere"));
    std::fs::rename(&path, &best).unwrap();
    std::os::unix::fs::symlink(&best, &path).unwrap();
    assert!(
        Operator::load(&run)
            .err()
            .unwrap()
            .to_string()
            .contains("is a link")
    );
    Operator::load(&path).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"dear");
}

/// A training that cannot begin takes back what it made, and only that.
#[test]
fn a_training_that_does_not_begin_leaves_the_folder_as_it_was() {
    struct Meanwhile<'a>(&'a Path);
    impl Observer for Meanwhile<'_> {
        fn stopped(&self) -> bool {
            std::fs::write(self.0, "foreign").unwrap();
            true
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (runs, data) = (folder.path().join("runs"), folder.path().join("d.parquet"));
    dataset(&data, 12);
    let begin = |run: &Path, observer: &dyn Observer| {
        Training::begin(recipe(&data, ""), run, None, observer).map(drop)
    };
    let foreign = runs.join("new/x.part");
    assert!(begin(&runs.join("new"), &Meanwhile(&foreign)).is_err());
    assert_eq!(names(&runs.join("new")), ["x.part"]);
    // As late as it gets, with all but the recipe written.
    let late = |run: &Path, made: bool| {
        let mut folder = RunFolder::make(run).unwrap();
        folder.open_metrics(None).unwrap();
        assert!(names(run).contains(&LINES.to_string()) && run.exists());
        drop(folder);
        assert_eq!(run.exists(), !made);
    };
    late(&runs.join("new"), false);
    assert_eq!(names(&runs.join("new")), ["x.part"]);
    late(&runs.join("a/b"), true);
    assert_eq!(names(&runs), ["new"]);
    begin(&runs.join("a/b"), &()).unwrap();
    assert!(runs.join("a/b").join(RECIPE).exists());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names = Vec::from_iter(names);
    names.sort();
    names
}

/// A training on other data starts from a network: with its answers, before the first step. Stopping changes nothing, and
/// what does not go together is said.
#[test]
fn a_training_goes_on_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let old = finished(folder.path(), 30);
    let (data, before) = (at("d.parquet"), Operator::load(&old).unwrap());
    // Other samples, twice as large.
    let other = at("other.parquet");
    let (meta, mut samples) = (
        before.meta().clone(),
        Dataset::open(&data).unwrap().collect(30, &()).unwrap(),
    );
    for sample in &mut samples {
        let double = |rows: &mut Rows| rows.data_mut().iter_mut().for_each(|v| *v *= 2.0);
        double(&mut sample.groups[0].values);
        double(&mut sample.targets);
    }
    let open = |channels: &mut Vec<Channel>| channels.iter_mut().for_each(|c| c.range = None);
    let mut own = meta.clone();
    open(&mut own.groups[0].coords);
    open(&mut own.query_coords);
    let write = |meta: &Meta, samples: &[Sample]| {
        let mut writer = DatasetWriter::create(&other, meta.clone()).unwrap();
        writer.write(samples).unwrap();
        writer.finish().unwrap();
    };
    write(&own, &samples);
    let text = format!("[data]\ntrain = {other:?}\n[train]\nsteps = 24\nbatch = 8\nema = 0.9\n");
    let further = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        Recipe::parse_for(before.config(), &text, &settings).unwrap()
    };
    let begin = |name: &str, recipe: Recipe| {
        let origin = Operator::load(&old).unwrap();
        Training::begin_from(origin, recipe, &at(name), None, &())
    };
    let mut whole = begin("whole", further(&[])).unwrap();
    let refs: Vec<&Sample> = samples.iter().collect();
    let answers = before.predict_samples(&refs).unwrap();
    assert_eq!(whole.operator().predict_samples(&refs).unwrap(), answers);
    assert_eq!(whole.operator().scaling(), before.scaling());
    let doubtful = |notes: Vec<String>| notes.iter().any(|n| n.contains("are far from all"));
    assert!(doubtful(whole.notes()));
    let outcome = whole.run(&()).unwrap();
    let errors = Record::read_all(&at("whole")).unwrap();
    assert!(outcome.best.unwrap().error < errors[0].val_error.unwrap());
    let mut parts = begin("parts", further(&[])).unwrap();
    let stop = parts.run(&After(AtomicUsize::new(9))).unwrap().stop;
    assert_eq!(stop, Stop::Interrupted);
    drop(parts);
    // What it comes from is no longer needed.
    std::fs::rename(&old, at("moved")).unwrap();
    let mut resumed = Training::resume(&at("parts"), None, None, None, &()).unwrap();
    assert_eq!(resumed.run(&()).unwrap().step, 24);
    drop(resumed);
    for file in [LAST, BEST] {
        let read = |run: &str| std::fs::read(at(run).join(file)).unwrap();
        assert!(read("whole") == read("parts"), "{file}");
    }
    // The same in units that the recipe does not name, for they are the network's.
    let mut other_units = recipe(&data, "transforms = { u = \"asinh\" }");
    (other_units.train.steps, other_units.train.ema) = (Some(4), Some(0.9));
    let mut first = Training::begin(other_units, &at("asinh"), None, &()).unwrap();
    first.run(&()).unwrap();
    let units = first.recipe().train.transforms.clone();
    let origin = Operator::load(&at("asinh")).unwrap();
    let mut next = Training::begin_from(origin, further(&[]), &at("units"), None, &()).unwrap();
    next.run(&After(AtomicUsize::new(9))).unwrap();
    drop(next);
    let resumed = Training::resume(&at("units"), None, None, None, &()).unwrap();
    assert!(resumed.goes_on_from_another() && resumed.recipe().train.transforms == units);
    // Without it a run is another one.
    std::fs::remove_file(at("parts").join(ORIGIN)).unwrap();
    let words = Training::resume(&at("parts"), Some(30), None, None, &());
    assert!(
        words
            .err()
            .unwrap()
            .to_string()
            .contains("was made with another model")
    );
    std::fs::rename(at("moved"), &old).unwrap();
    let refused = |recipe: Recipe, words: &str| {
        let error = begin("refused", recipe).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!at("refused").exists());
    };
    let mut wider = further(&[]);
    wider.model.core = ModelConfig::default().core;
    refused(wider, "leave the section [model] out");
    refused(further(&["train.scaling=none"]), "sees scaled values");
    let asinh = further(&["train.transforms={u=\"asinh\"}"]);
    refused(asinh, "has learned in other units");
    own.groups[0].values[0].unit = "K".into();
    own.targets[0].name = "w".into();
    write(&own, &samples);
    refused(further(&[]), "the data do not fit together: the network: ");
}

/// A training whose validations find nothing better for a while ends, and is then finished.
#[test]
fn patience_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (folder.path().join("d.parquet"), folder.path().join("run"));
    dataset(&data, 40);
    // Nothing is learned at such a rate.
    let settings = "validate_every = 2\npatience = 3\n";
    let mut recipe = recipe(&data, settings);
    (recipe.train.rate, recipe.train.ema) = (1e-30, None);
    let mut training = Training::begin(recipe, &run, None, &()).unwrap();
    let outcome = training.run(&()).unwrap();
    assert_eq!((outcome.stop, outcome.step), (Stop::Finished, 6));
    assert!(outcome.out_of_patience);
    drop(training);
    assert!(RunState::read(&run).unwrap().unwrap().finished());
    let mut again = Training::resume(&run, None, None, None, &()).unwrap();
    assert_eq!(again.run(&()).unwrap().step, 6);
}
