//! `vidon eval`: how large the errors of a trained network are.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use vidon::Operator;
use vidon::data::{Dataset, Meta, ProblemSource};
use vidon::eval::{ColumnErrors, ErrorSummary, Errors};
use vidon::files::plain_file;
use vidon::plot::Picture;
use vidon::problems::Split;
use vidon::sensors::Layout;

use crate::choice::one_of;
use crate::commands::cache::Cache;
use crate::commands::draw_heads;
use crate::commands::generate::{LAYOUTS, SPLITS};
use crate::failure::{Failure, Result};
use crate::outputs;
use crate::ui::{Ui, grouped, percent, print};

/// Measure the errors of a trained network
///
/// The relative L² error of a sample is ‖prediction − truth‖₂/‖truth‖₂ over its targets, in physical units; of every
/// column of the targets also the root mean square, the mean size and the mean of its errors. A network
/// that was trained on one of the paper's problems is judged on that problem's test functions, which it has
/// never seen, by default through the layout it was trained on. Any other network needs --data.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon eval runs/darcy-variable
  vidon eval runs/darcy-variable --layout missing --samples 200 --json
  vidon eval runs/darcy-variable --sensors 100 --samples 200
  vidon eval runs/mine --data test.parquet --plot figure.png --sample 3")]
pub struct Arguments {
    /// Folder of a run, or a weights file (.safetensors)
    model: PathBuf,

    /// A dataset to judge by, in place of the problem's own functions
    #[arg(long, value_name = "FILE.parquet", conflicts_with_all = ["split", "layout"])]
    data: Option<PathBuf>,

    /// Which functions of the problem
    #[arg(long, value_parser = one_of(SPLITS), default_value = "test")]
    split: Split,

    /// Where the sensors are [default: as in training]
    #[arg(long, value_parser = one_of(LAYOUTS))]
    layout: Option<Layout>,

    /// Give every sample so many random sensors instead, if the network takes any
    #[arg(long, value_name = "M", conflicts_with_all = ["data", "layout"], value_parser = clap::value_parser!(u32).range(1..))]
    sensors: Option<u32>,

    /// How many samples [default: all; of the paper's problems 5000 test functions]
    #[arg(long, value_name = "N")]
    samples: Option<usize>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,

    /// Draw input, truth, prediction and error of a sample (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Draw on that sample's sensors what VIDON's heads look at (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot_heads: Option<PathBuf>,

    /// Which sample to draw, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    sample: usize,

    #[command(flatten)]
    cache: Cache,
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    for picture in arguments.plot.iter().chain(&arguments.plot_heads) {
        Picture::check_name(picture)?;
    }
    let written = [
        ("--plot", &arguments.plot),
        ("--plot-heads", &arguments.plot_heads),
    ];
    let read = arguments.data.iter().chain([&arguments.model]);
    outputs::check(read, written.into_iter().filter_map(outputs::given))?;
    let operator = Operator::load(&arguments.model)?;
    let source = source(&arguments, &operator)?;
    let wanted = arguments.samples.unwrap_or(source.usual());
    let samples = source.available().map_or(wanted, |n| wanted.min(n));
    if samples == 0 {
        return Err(Failure::Words("--samples must be at least 1".into()));
    }
    let drawn = arguments.plot.is_some() || arguments.plot_heads.is_some();
    let there = samples.max(source.usual());
    if drawn && arguments.sample >= there {
        return Err(Failure::Words(format!(
            "--sample {}: there are samples 0 to {}",
            arguments.sample,
            there - 1
        )));
    }
    let found = operator.errors(&source, samples, &ui.progress(samples))?;
    let meta = source.meta()?;
    report(&arguments, &operator, &meta, &found)?;
    if drawn {
        pictures(&arguments, &operator, &source, &meta, ui)?;
    }
    Ok(())
}

fn report(arguments: &Arguments, operator: &Operator, meta: &Meta, found: &Errors) -> Result<()> {
    let summary = ErrorSummary::new(&found.relative_l2);
    if arguments.json {
        return print(&format!(
            "{:#}",
            json!({
                "model": operator.name().name(),
                "weights": arguments.model.to_string_lossy(),
                "data": meta.provenance,
                "relative_l2": summary,
                "columns": found.columns,
                "names": found.names,
                "errors": found.relative_l2,
            })
        ));
    }
    let worst = found.names[summary.worst_sample].as_deref();
    let columns = columns(&found.columns);
    print(&format!(
        "{}\n\n{columns}",
        table(operator, meta, &summary, worst)
    ))
}

/// What to judge by.
fn source(arguments: &Arguments, operator: &Operator) -> Result<Dataset> {
    if let Some(path) = &arguments.data {
        return Ok(Dataset::open(path)?);
    }
    let Some(mut source) = ProblemSource::of(operator.meta())? else {
        return Err(Failure::Words(format!(
            "{} was not trained on one of the paper's problems; give test data with --data",
            arguments.model.display()
        )));
    };
    if source.split == Split::Test && arguments.split == Split::Test {
        return Err(Failure::Words(format!(
            "{} was trained on the problem's test functions; give other data with --data",
            arguments.model.display()
        )));
    }
    source.split = arguments.split;
    source.layout = arguments.layout.unwrap_or(source.layout);
    if let Some(count) = arguments.sensors {
        source.layout = Layout::Random;
        source.scattered = Some(count as usize);
    }
    operator.check_layout(source.layout)?;
    source.sensors_on_grid = operator.answers_at_sensors();
    source.cache = arguments.cache.folder()?;
    Ok(Dataset::from_source(source))
}

/// Measures the network of a run on the test functions of its problem, through the layout it was trained on,
/// and draws the first of them into its folder.
pub fn test_run(
    folder: &Path,
    samples: usize,
    cache: Option<PathBuf>,
    ui: &Ui,
) -> Result<ErrorSummary> {
    test_network(
        &Operator::load(folder)?,
        samples,
        &plain_file(folder, PREDICTION)?,
        cache,
        ui,
    )
}

/// The same for a network from anywhere, with the picture at `picture`.
pub fn test_network(
    operator: &Operator,
    samples: usize,
    picture: &Path,
    cache: Option<PathBuf>,
    ui: &Ui,
) -> Result<ErrorSummary> {
    let mut source = ProblemSource::of(operator.meta())?.expect("one of the paper's problems");
    source.split = Split::Test;
    source.sensors_on_grid = operator.answers_at_sensors();
    source.cache = cache;
    let source = Dataset::from_source(source);
    let found = operator.errors(&source, samples, &ui.progress(samples))?;
    let summary = ErrorSummary::new(&found.relative_l2);
    let sample = source.collect(1, &())?.remove(0);
    let found = operator.predict_samples(&[&sample])?.remove(0);
    Picture::comparison(&source.meta()?, &sample, &found).save(picture)?;
    Ok(summary)
}

/// The picture that [`test_run`] leaves in the folder of a run.
pub const PREDICTION: &str = "prediction.png";

/// Errors in the units of the targets.
fn columns(columns: &[ColumnErrors]) -> String {
    let mut lines = vec![format!(
        "{:<24} {:>10} {:>12} {:>12} {:>12}",
        "column", "targets", "RMSE", "MAE", "bias"
    )];
    for column in columns {
        let name = match &column.unit[..] {
            "" => column.name.clone(),
            unit => format!("{} [{unit}]", column.name),
        };
        let [rmse, mae, bias] = [column.rmse, column.mae, column.bias].map(number);
        lines.push(format!(
            "{name:<24} {:>10} {rmse:>12} {mae:>12} {bias:>12}",
            grouped(column.targets)
        ));
    }
    lines.join("\n")
}

/// Four digits of a number.
pub fn number(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e6).contains(&size) => {
            let digits = (3 - size.log10().floor() as i32).max(0);
            format!("{0:.1$}", v, digits as usize)
        }
        _ => format!("{v:.3e}"),
    }
}

fn table(
    operator: &Operator,
    meta: &Meta,
    summary: &ErrorSummary,
    worst_name: Option<&str>,
) -> String {
    let word = |key: &str| {
        meta.provenance
            .get(key)
            .and_then(|v| v.as_str())
            .unwrap_or("")
    };
    let layout = match meta.provenance.get("scattered").and_then(|v| v.as_u64()) {
        Some(count) => format!("{count} sensors"),
        None => word("layout").into(),
    };
    let data = [meta.name.as_str(), &layout, word("split")].join(" ");
    let header = format!(
        "{:<10} {:<32} {:>8} {:>10} {:>10} {:>10} {:>10}",
        "model", "data", "samples", "mean", "std", "median", "worst"
    );
    let numbers = [summary.mean, summary.std, summary.median, summary.worst].map(percent);
    let [mean, std, median, worst] = numbers;
    format!(
        "{header}\n{:<10} {:<32} {:>8} {mean:>10} {std:>10} {median:>10} {worst:>10}\nrelative L² error; the worst is sample {}{}",
        operator.name().name(),
        data.trim(),
        summary.samples,
        summary.worst_sample,
        worst_name.map_or(String::new(), |name| format!(" ({name})"))
    )
}

fn pictures(
    arguments: &Arguments,
    operator: &Operator,
    source: &Dataset,
    meta: &Meta,
    ui: &Ui,
) -> Result<()> {
    let n = arguments.sample;
    let sample = source.sample(n, &ui.progress(n + 1))?;
    if let Some(path) = &arguments.plot {
        let found = operator.predict_samples(&[&sample])?.remove(0);
        Picture::comparison(meta, &sample, &found).save(path)?;
        ui.note(format!("{}: sample {}", path.display(), arguments.sample));
    }
    if let Some(path) = &arguments.plot_heads {
        draw_heads(path, operator, meta, &sample, ui)?;
    }
    Ok(())
}
