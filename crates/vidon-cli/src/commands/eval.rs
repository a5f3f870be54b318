//! `vidon eval`: how large the errors of a trained network are.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use vidon::Operator;
use vidon::data::{Cells, Dataset, Meta, ProblemSource, Sample, TableWriter};
use vidon::eval::{ByPlace, ColumnErrors, ErrorSummary, Errors};
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
use crate::ui::{Ui, count, four_digits, grouped, percent, print};

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
  vidon eval runs/mine --data test.parquet --plot figure.png --sample 1988-03
  Where, and when, the errors are:
    vidon eval runs/stations --data test.parquet --map map.png --places places.csv \\
      --table samples.csv")]
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

    /// Write the errors of every sample: its name, relative L², RMSE, MAE and bias (.csv or .parquet)
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,

    /// Write the errors at every place, the worst first, for data whose places recur (.csv or .parquet)
    #[arg(long, value_name = "FILE")]
    places: Option<PathBuf>,

    /// Draw the places coloured by their RMSE and by their bias (.png or .svg)
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,

    /// Draw input, truth, prediction and error of a sample (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Draw on that sample's sensors what VIDON's heads look at (.png or .svg)
    #[arg(long, value_name = "FILE")]
    plot_heads: Option<PathBuf>,

    /// Which sample to draw: the name it was imported with, or its number, counted from 0 [default: the first]
    #[arg(long, value_name = "SAMPLE")]
    sample: Option<String>,

    #[command(flatten)]
    cache: Cache,
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let pictures = arguments.plot.iter().chain(&arguments.plot_heads);
    for picture in pictures.chain(&arguments.map) {
        Picture::check_name(picture)?;
    }
    for table in arguments.table.iter().chain(&arguments.places) {
        TableWriter::check_name(table)?;
    }
    let written = [
        ("--plot", &arguments.plot),
        ("--plot-heads", &arguments.plot_heads),
        ("--table", &arguments.table),
        ("--places", &arguments.places),
        ("--map", &arguments.map),
    ];
    let read = arguments.data.iter().chain([&arguments.model]);
    outputs::check(read, written.into_iter().filter_map(outputs::given))?;
    let drawn = arguments.plot.is_some() || arguments.plot_heads.is_some();
    if arguments.sample.is_some() && !drawn {
        return Err(Failure::Words(
            "--sample says which sample is drawn: give --plot or --plot-heads too".into(),
        ));
    }
    let operator = Operator::load(&arguments.model)?;
    let source = source(&arguments, &operator)?;
    let wanted = arguments.samples.unwrap_or(source.usual());
    let samples = source.available().map_or(wanted, |n| wanted.min(n));
    if samples == 0 {
        return Err(Failure::Words("--samples must be at least 1".into()));
    }
    let sample = match drawn {
        true => Some(drawn_sample(&arguments, &source, samples, ui)?),
        false => None,
    };
    let meta = source.meta()?;
    let mut places = ByPlace::new(&meta);
    let by_place = arguments.places.is_some() || arguments.map.is_some();
    let progress = ui.progress(samples);
    let found = operator.errors_and(
        &source,
        samples,
        &progress,
        |sample, found| match by_place {
            true => places.add(sample, found),
            false => Ok(()),
        },
    )?;
    drop(progress);
    let places = by_place.then_some(places);
    report(&arguments, &operator, &meta, &found, places.as_ref())?;
    if let Some(path) = &arguments.table {
        sample_table(path, &found)?;
        ui.note(format!("{}: a line a sample", path.display()));
    }
    if let Some(places) = places {
        place_files(&arguments, &places, ui)?;
    }
    if let Some(sample) = sample {
        pictures_of(&arguments, &operator, &meta, &sample, ui)?;
    }
    Ok(())
}

/// The sample that is asked for, or the first.
fn drawn_sample(
    arguments: &Arguments,
    source: &Dataset,
    samples: usize,
    ui: &Ui,
) -> Result<Sample> {
    let Some(name) = &arguments.sample else {
        return Ok(source.sample(0, &())?);
    };
    let there = samples.max(source.usual());
    if source.available().is_none() && name.parse::<usize>().is_ok_and(|n| n >= there) {
        return Err(Failure::Words(format!(
            "--sample {name}: there are samples 0 to {}",
            there - 1
        )));
    }
    Ok(source.sample_called(name, &ui.spinner("looking for the sample"))?)
}

/// A line a sample.
fn sample_table(path: &Path, found: &Errors) -> Result<()> {
    let samples = 0..found.relative_l2.len();
    let mut names = ["sample", "relative_l2"].map(String::from).to_vec();
    let mut cells = vec![
        Cells::Texts(samples.map(|i| found.name(i)).collect()),
        Cells::Numbers(found.relative_l2.clone()),
    ];
    let (more, numbers) = error_columns(&found.samples.iter().collect::<Vec<_>>());
    names.extend(more);
    cells.extend(numbers);
    write_table(path, names, &cells)
}

/// A line a place, and a map of them.
fn place_files(arguments: &Arguments, by_place: &ByPlace, ui: &Ui) -> Result<()> {
    let (channels, places) = (by_place.channels(), by_place.places());
    if places
        .iter()
        .all(|p| p.columns.iter().all(|c| c.targets <= 1))
    {
        ui.note("note: no place is asked twice in these data: what stands there are single errors");
    }
    if let Some(path) = &arguments.places {
        let coordinate = |k: usize| Cells::Singles(places.iter().map(|p| p.coords[k]).collect());
        let mut names: Vec<String> = channels.iter().map(|c| c.name.clone()).collect();
        let mut cells: Vec<Cells> = (0..names.len()).map(coordinate).collect();
        let (more, numbers) = error_columns(&places.iter().map(|p| &p.columns).collect::<Vec<_>>());
        names.extend(more);
        cells.extend(numbers);
        write_table(path, names, &cells)?;
        ui.note(format!(
            "{}: {}",
            path.display(),
            count(places.len(), "place")
        ));
    }
    if let Some(path) = &arguments.map {
        Picture::errors_by_place(&channels, &places).save(path)?;
        ui.note(format!(
            "{}: {}",
            path.display(),
            count(places.len(), "place")
        ));
    }
    Ok(())
}

/// Names and cells of the errors of lines, column by column of the targets.
fn error_columns(lines: &[&Vec<ColumnErrors>]) -> (Vec<String>, Vec<Cells>) {
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for (c, column) in lines.first().into_iter().flat_map(|l| l.iter()).enumerate() {
        let counts = lines.iter().map(|line| Some(line[c].targets as i64));
        cells.push(Cells::Whole(counts.collect()));
        names.push(format!("{}_targets", column.name));
        let mut add = |word: &str, number: &dyn Fn(&ColumnErrors) -> f64| {
            let numbers = lines.iter().map(|line| match line[c].targets {
                0 => f64::NAN,
                _ => number(&line[c]),
            });
            cells.push(Cells::Numbers(numbers.collect()));
            names.push(format!("{}_{word}", column.name));
        };
        add("rmse", &|e| e.rmse);
        add("mae", &|e| e.mae);
        add("bias", &|e| e.bias);
    }
    (names, cells)
}

fn write_table(path: &Path, names: Vec<String>, cells: &[Cells]) -> Result<()> {
    let mut table = TableWriter::create(path, names)?;
    table.write(cells)?;
    Ok(table.finish()?)
}

fn report(
    arguments: &Arguments,
    operator: &Operator,
    meta: &Meta,
    found: &Errors,
    places: Option<&ByPlace>,
) -> Result<()> {
    let summary = ErrorSummary::new(&found.relative_l2);
    let worst = found.name(summary.worst_sample);
    if arguments.json {
        let mut shown = json!({
            "model": operator.name().name(),
            "weights": arguments.model.to_string_lossy(),
            "data": meta.provenance,
            "relative_l2": summary,
            "worst": worst,
            "columns": found.columns,
            "names": found.names,
            "errors": found.relative_l2,
            "columns_of_samples": found.samples,
        });
        if let Some(places) = places {
            let channels = places.channels().into_iter().map(|c| c.name);
            shown["place_columns"] = channels.collect();
            shown["places"] = json!(places.places());
        }
        return print(&format!("{shown:#}"));
    }
    let columns = columns(&found.columns);
    print(&format!(
        "{}\n\n{columns}",
        table(operator, meta, &summary, &worst)
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
        let [rmse, mae, bias] = [column.rmse, column.mae, column.bias].map(four_digits);
        lines.push(format!(
            "{name:<24} {:>10} {rmse:>12} {mae:>12} {bias:>12}",
            grouped(column.targets)
        ));
    }
    lines.join("\n")
}

fn table(operator: &Operator, meta: &Meta, summary: &ErrorSummary, worst: &str) -> String {
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
    let [mean, std, median, most] = numbers;
    format!(
        "{header}\n{:<10} {:<32} {:>8} {mean:>10} {std:>10} {median:>10} {most:>10}\nrelative L² error; the worst is sample {worst}",
        operator.name().name(),
        data.trim(),
        summary.samples,
    )
}

fn pictures_of(
    arguments: &Arguments,
    operator: &Operator,
    meta: &Meta,
    sample: &Sample,
    ui: &Ui,
) -> Result<()> {
    if let Some(path) = &arguments.plot {
        let found = operator.predict_samples(&[sample])?.remove(0);
        Picture::comparison(meta, sample, &found).save(path)?;
        let name = sample.name.as_deref().or(arguments.sample.as_deref());
        ui.note(format!(
            "{}: sample {}",
            path.display(),
            name.unwrap_or("0")
        ));
    }
    if let Some(path) = &arguments.plot_heads {
        draw_heads(path, operator, meta, sample, ui)?;
    }
    Ok(())
}
