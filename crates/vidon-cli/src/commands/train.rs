//! `vidon train`: a recipe becomes a run.

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::files::plain_file;
use vidon::input;
use vidon::plot::Picture;
use vidon::train::{Best, Budget, Outcome, Recipe, Record, RunState, Stop, Training};
use vidon::{Error, ModelConfig, Observer, Operator};

use crate::commands::cache::Cache;
use crate::failure::{Failure, Result};
use crate::ui::{Ui, clock, count, grouped, measured, percent};

/// Train a network by a recipe
///
/// A recipe (TOML) says what to learn from, which network, and how. With --data and no recipe all of it is chosen from
/// the data: units, functions, network and metric, by what is left out and by short trials on validation data. The
/// program says what it chose, and the run's recipe.toml has it. The run becomes a folder: the recipe, the
/// weights that did best on the validation data, a checkpoint, the history as JSON lines and for TensorBoard,
/// and learning curves.
///
/// Ctrl-C saves and says how to go on (and the program ends with code 130, so that nothing that was to follow
/// does); a second Ctrl-C stops at once. A resumed run is the run that was never
/// stopped, bit for bit (unless a time budget steers the learning rate: time is never the same twice).
///
/// With --from a training goes on from a network that other data have taught, such as another network of stations: its
/// best weights are where it starts, and its model, scaling and boxes stay. The recipe's section [model] may be left out;
/// columns and units of the new data must be the same.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon train --data stations.parquet --budget 3m
  vidon train recipes/fast/darcy-variable.toml --budget 5m
  vidon train mine.toml --out runs/mine --set train.rate=1e-4 --set model.decoder.p=50
  vidon train mine.toml --set data.hold_out=places --set train.left_out=0.2 --set train.patience=20
  vidon train elsewhere.toml --from runs/mine --out runs/elsewhere
  vidon train --resume runs/mine
  vidon train --resume runs/mine --steps 20000")]
pub struct Arguments {
    /// The recipe; see recipes/ and docs/training.md
    #[arg(required_unless_present_any = ["resume", "data"], conflicts_with = "resume")]
    recipe: Option<PathBuf>,

    /// A dataset to learn from without any recipe: all that a recipe says is chosen from the data
    #[arg(long, value_name = "FILE.parquet", conflicts_with_all = ["resume", "recipe", "from"])]
    data: Option<PathBuf>,

    /// A dataset to validate on [default: the last tenth of --data is held out]
    #[arg(long, value_name = "FILE.parquet", requires = "data")]
    val: Option<PathBuf>,

    /// Folder of the run [default: runs/ and the recipe's name]
    #[arg(long, short, value_name = "FOLDER", conflicts_with = "resume")]
    out: Option<PathBuf>,

    /// Change a setting of the recipe; may be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "resume")]
    set: Vec<String>,

    /// Start from the best weights of this run (or from a file of weights), on the recipe's data
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    from: Option<PathBuf>,

    /// Go on with the run in this folder
    #[arg(long, value_name = "FOLDER")]
    resume: Option<PathBuf>,

    /// Stop after this time in all, such as 90s, 30m, 1h30m (in place of the recipe's own limits)
    #[arg(long, value_name = "TIME")]
    budget: Option<Budget>,

    /// Stop after so many steps in all (in place of the recipe's own limits)
    #[arg(long, value_name = "N")]
    steps: Option<u64>,

    #[command(flatten)]
    cache: Cache,
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let cache = arguments.cache.folder()?;
    let watch = ui.spinner("making or reading the data");
    let (training, folder) = match (
        &arguments.resume,
        arguments.recipe.as_ref().or(arguments.data.as_ref()),
    ) {
        (Some(folder), _) => {
            let (steps, budget) = (arguments.steps, arguments.budget);
            let training = Training::resume(folder, steps, budget, cache.as_deref(), &watch)?;
            (training, folder.clone())
        }
        (None, Some(path)) => {
            let origin = arguments.from.as_deref().map(Operator::load).transpose()?;
            let stem = path.file_stem().unwrap_or_default();
            let folder = arguments
                .out
                .clone()
                .unwrap_or(Path::new("runs").join(stem));
            let recipe = match &arguments.data {
                Some(data) => {
                    // Before the long part; others find out by themselves.
                    if RunState::read(&folder)?.is_some() {
                        return Err(already_there(&folder));
                    }
                    choose(data, &arguments, &watch)?
                }
                None => read(path, &arguments, origin.as_ref().map(Operator::config))?,
            };
            let cache = cache.as_deref();
            let training = match origin {
                Some(origin) => Training::begin_from(origin, recipe, &folder, cache, &watch),
                None => Training::begin(recipe, &folder, cache, &watch),
            };
            (training.map_err(|e| with_hint(e, &folder))?, folder)
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    drop(watch);
    let test = match training.recipe().data.problem {
        Some(_) => "",
        None => " --data FILE",
    };
    let outcome = run_training(training, &folder, ui)?;
    match outcome.stop {
        Stop::Interrupted => Err(how_to_go_on(&folder, ui)),
        _ => {
            ui.note(format!("  vidon eval {}{test}", folder.display()));
            Ok(())
        }
    }
}

/// How long a network learns for which nothing is said.
const BUDGET: &str = "3m";

/// A recipe that is chosen from the data, with the settings and limits of the command line.
fn choose(data: &Path, arguments: &Arguments, observer: &dyn Observer) -> Result<Recipe> {
    let budget = arguments.budget.unwrap_or(BUDGET.parse().expect("a time"));
    // What is wrong with them is said before the long part; the model is not known yet.
    let known = |s: &&String| !s.trim_start().starts_with("model");
    let known: Vec<String> = arguments.set.iter().filter(known).cloned().collect();
    parse_with(&known, arguments.steps, arguments.budget, |settings| {
        let text = format!("train.budget = \"{budget}\"");
        Recipe::parse_for(&ModelConfig::default(), &text, settings)
    })?;
    let recipe = Recipe::choose(data, arguments.val.as_deref(), budget, observer)?;
    parse(
        &recipe.to_toml()?,
        &arguments.set,
        arguments.steps,
        arguments.budget,
    )
}

/// The recipe; its model may be that of a network.
fn read(path: &Path, arguments: &Arguments, model: Option<&ModelConfig>) -> Result<Recipe> {
    let text = input::read_text(path)?;
    let (steps, budget) = (arguments.steps, arguments.budget);
    parse_with(&arguments.set, steps, budget, |settings| match model {
        Some(model) => Recipe::parse_for(model, &text, settings),
        None => Recipe::parse(&text, settings),
    })
    .map_err(|what| Failure::Words(format!("{}: {what}", path.display())))
}

/// The setting that is a limit, if one is.
pub fn limit_among(settings: &[String]) -> Option<&String> {
    settings.iter().find(|s| {
        let key = s.split('=').next().unwrap_or_default().trim();
        ["train.steps", "train.epochs", "train.budget"].contains(&key)
    })
}

/// A recipe with the settings and limits of the command line.
pub fn parse(
    text: &str,
    settings: &[String],
    steps: Option<u64>,
    budget: Option<Budget>,
) -> Result<Recipe> {
    let parse = |settings: &[String]| Recipe::parse(text, settings);
    parse_with(settings, steps, budget, parse)
}

fn parse_with(
    settings: &[String],
    steps: Option<u64>,
    budget: Option<Budget>,
    parse: impl FnOnce(&[String]) -> vidon::Result<Recipe>,
) -> Result<Recipe> {
    if let Some(setting) = limit_among(settings)
        && (steps.is_some() || budget.is_some())
    {
        return Err(Failure::Words(format!(
            "--set {setting} is void beside --steps or --budget, which replace all limits; give it with --set alone"
        )));
    }
    let mut settings = settings.to_vec();
    // A limit on the command line makes those of the recipe void, once it has been read.
    settings.extend(steps.map(|n| format!("train.steps={n}")));
    settings.extend(budget.map(|b| format!("train.budget=\"{b}\"")));
    let mut recipe = parse(&settings)?;
    if steps.is_some() || budget.is_some() {
        recipe.train.epochs = None;
        (recipe.train.steps, recipe.train.budget) = (steps, budget);
    }
    Ok(recipe)
}

fn already_there(folder: &Path) -> Failure {
    Failure::Words(format!(
        "{0}: already holds a training; resume it, or choose another folder\n  vidon train --resume {0}",
        folder.display()
    ))
}

fn with_hint(error: Error, folder: &Path) -> Failure {
    match error {
        Error::Data { file, what, .. } if file == folder => Failure::Words(format!(
            "{0}: {what}\n  vidon train --resume {0}",
            folder.display()
        )),
        other => other.into(),
    }
}

const CURVES: &str = "learning.png";

/// Trains with a progress line, draws the learning curves and says what came of it.
pub fn run_training(mut training: Training, folder: &Path, ui: &Ui) -> Result<Outcome> {
    ui.note(format!(
        "{}: {} with {}{}",
        folder.display(),
        training.config().name().name(),
        count(training.parameters(), "parameter"),
        match training.step() {
            0 => String::new(),
            step => format!(", from step {}", grouped(step as usize)),
        }
    ));
    let (kept, limit) = training.activation_bytes();
    let memory = match kept >> 20 {
        0 => String::new(),
        kept => format!(
            "; a step keeps up to {kept} MB of activations (an operation that would need more than {} MB works them out again)",
            limit >> 20
        ),
    };
    ui.note(format!(
        "{} instructions{memory}",
        vidon_kernels::Isa::current().name()
    ));
    let floors = training.floors();
    let several = floors.sensors.len() > 1;
    let sensors = floors.sensors.iter().map(|(group, error)| {
        let of = if several {
            format!(" of {group}")
        } else {
            String::new()
        };
        let error = percent(*error);
        let mut drifts = floors.drifts.iter().filter(|(name, _)| name == group);
        let drift = drifts.next().map(|(_, words)| format!(" ({words})"));
        format!(
            "sensors{of} that the projection does not see are missed by {error} of their spread{}",
            drift.unwrap_or_default()
        )
    });
    let targets = floors.targets.map(|error| {
        let error = percent(error);
        format!("the decoder's functions come within {error} of the targets")
    });
    let floors: Vec<String> = sensors.chain(targets).collect();
    if !floors.is_empty() {
        ui.note(floors.join("; "));
    }
    if let Some(choice) = training.choice() {
        ui.note(choice);
    }
    training
        .notes()
        .iter()
        .for_each(|note| ui.note(format!("note: {note}")));
    let unit = training.unit_of_error().to_string();
    let before = match (&training.config().start, training.goes_on_from_another()) {
        (_, true) => Some(Before::Network),
        (Some(_), false) => Some(Before::Start),
        (None, false) => None,
    };
    let outcome = {
        let progress = ui.training(&unit);
        training.run(&progress)?
    };
    let records = draw_learning(folder)?;
    if let (Some(before), Some(best)) = (before, &outcome.best) {
        let error = records
            .iter()
            .find(|r| r.step == 0)
            .and_then(|r| r.val_error);
        ui.note(before.what_is_added(error, best, &unit));
    }
    let best = outcome.best.map_or(String::new(), |b| {
        format!(
            "; best validation error {} at step {}",
            in_words(&b, &unit),
            grouped(b.step as usize)
        )
    });
    let early = match training.recipe().train.patience {
        Some(patience) if outcome.out_of_patience => format!(
            "; ended early: {} without a better one (patience)",
            count(patience as usize, "validation")
        ),
        _ => String::new(),
    };
    let done = format!(
        "{} in {}{best}{early}",
        count(outcome.step as usize, "step"),
        clock(outcome.seconds)
    );
    match outcome.stop {
        Stop::Finished => ui.note(done),
        Stop::Interrupted => ui.note(format!("stopped after {done}; everything is saved")),
        Stop::Diverged => return Err(Error::Numerics(diverged(&outcome, folder, &unit)).into()),
    }
    Ok(outcome)
}

/// What answers before the first step.
enum Before {
    /// A start that the network is to correct.
    Start,
    /// A network that other data have taught.
    Network,
}

impl Before {
    /// What a training makes of it, in words.
    fn what_is_added(self, error: Option<f64>, best: &Best, unit: &str) -> String {
        let [who, with, none] = match self {
            Before::Start => [
                "the start alone",
                "with the network's correction",
                "no correction is kept",
            ],
            Before::Network => [
                "the network that it started from",
                "after this training",
                "its weights are kept",
            ],
        };
        let Some(error) = error else {
            return format!("what {who} does is not in the history");
        };
        let before = measured(best.metric, error, unit);
        match best.step {
            0 => format!("{who} does best on validation data ({before}): {none}"),
            _ => format!(
                "on validation data {who} misses {before}, {with} {}",
                measured(best.metric, best.error, unit)
            ),
        }
    }
}

/// Draws the learning curves of a run, where there is more than their beginning, and gives its history.
pub fn draw_learning(folder: &Path) -> Result<Vec<Record>> {
    let records = Record::read_all(folder)?;
    if records.len() > 1 {
        Picture::learning(&records).save(&plain_file(folder, CURVES)?)?;
    }
    Ok(records)
}

/// Says what to do after an interruption, and what the command ends with.
pub fn how_to_go_on(folder: &Path, ui: &Ui) -> Failure {
    let folder = folder.display();
    ui.note(format!("to go on:\n  vidon train --resume {folder}"));
    Failure::Stopped
}

/// An error, and which it is.
fn in_words(best: &Best, unit: &str) -> String {
    let (error, metric) = (measured(best.metric, best.error, unit), best.metric.name());
    format!("{error} ({metric})")
}

fn diverged(outcome: &Outcome, folder: &Path, unit: &str) -> String {
    let kept = format!(
        "the checkpoint of step {} is kept in {}",
        outcome.checkpoint,
        folder.display()
    );
    let best = outcome.best.map_or(String::new(), |b| {
        format!(
            "; the best weights (validation error {}) are those of step {}",
            in_words(&b, unit),
            b.step
        )
    });
    format!(
        "the numbers were no longer finite after step {}; {kept}{best}. A smaller rate, a warm_up or clip = 1.0 may help",
        outcome.step
    )
}
