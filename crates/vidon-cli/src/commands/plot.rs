//! `vidon plot`: pictures of samples.

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::data::{DatasetReader, Sample};
use vidon::plot::{Part, curve_panels, draw, sample_panels};
use vidon::train::read_metrics;

use crate::choice::{Choice, one_of};
use crate::failure::{Failure, Result};
use crate::ui::Ui;

/// Draw a sample of a dataset, or the learning curves of a run
///
/// A sample: sensors coloured by value beside the target. Targets on a grid are drawn as an image, others as points; in space-time, four times are shown on one colour
/// scale. With several files their panels stand in one picture.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon plot test.parquet --sample 3 --out sample.png
  vidon plot runs/mine --out curves.png
  vidon plot regular.parquet random.parquet --only sensors --out layouts.svg")]
pub struct Arguments {
    /// Datasets, or folders of runs
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Which sample: the name it was imported with, or its number, counted from 0 [default: the first]
    #[arg(long, value_name = "SAMPLE")]
    sample: Option<String>,

    /// The picture to write, .png or .svg
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,

    /// Show only one side of the sample
    #[arg(long, value_parser = one_of(PARTS))]
    only: Option<Part>,

    /// Panels in a row
    #[arg(long, value_name = "N", default_value_t = 3)]
    columns: usize,
}

const PARTS: &[Choice<Part>] = &[
    (Part::Sensors, "sensors", "What the sensors read"),
    (Part::Targets, "targets", "What is to be predicted"),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let part = arguments.only.unwrap_or_default();
    let (mut panels, mut drawn) = (Vec::new(), Vec::new());
    for file in &arguments.files {
        if file.is_dir() {
            panels.extend(curve_panels(&read_metrics(file)?));
            drawn.push(format!("learning curves of {}", file.display()));
            continue;
        }
        let dataset = DatasetReader::open(file)?;
        let sample = find(&dataset, file, arguments.sample.as_deref())?;
        let caption = match arguments.files.len() {
            1 => String::new(),
            _ => format!("{}: ", caption(&dataset, file)),
        };
        let name = sample
            .name
            .as_deref()
            .or(arguments.sample.as_deref())
            .unwrap_or("0");
        drawn.push(format!("sample {name} of {}", file.display()));
        panels.extend(sample_panels(dataset.meta(), &sample, &caption, part));
    }
    let of_samples = arguments.sample.is_some() || arguments.only.is_some();
    if of_samples && arguments.files.iter().all(|f| f.is_dir()) {
        return Err(Failure::Words(
            "--sample and --only are for datasets; of a run the learning curves are drawn".into(),
        ));
    }
    draw(&arguments.out, &panels, arguments.columns)?;
    ui.note(format!("{}: {}", arguments.out.display(), drawn.join(", ")));
    Ok(())
}

/// The sample of that name or number. Numbers count rows unless names are numbers themselves.
fn find(dataset: &DatasetReader, file: &Path, wanted: Option<&str>) -> Result<Sample> {
    let Some(wanted) = wanted else {
        return Ok(dataset.sample(0)?);
    };
    let mut names_are_numbers = false;
    if dataset.meta().named_samples {
        for sample in dataset.samples()? {
            let sample = sample?;
            let name = sample.name.as_deref().unwrap_or_default();
            if name == wanted {
                return Ok(sample);
            }
            names_are_numbers |= name.parse::<usize>().is_ok();
        }
    }
    match wanted.parse() {
        Ok(number) if !names_are_numbers => Ok(dataset.sample(number)?),
        _ => Err(Failure::Words(format!(
            "{}: there is no sample \"{wanted}\"",
            file.display()
        ))),
    }
}

/// What tells a dataset from others: its layout, or the file's name.
fn caption(dataset: &DatasetReader, file: &Path) -> String {
    let layout = dataset
        .meta()
        .provenance
        .get("layout")
        .and_then(|l| l.as_str());
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    layout.map_or(stem.into_owned(), str::to_string)
}
