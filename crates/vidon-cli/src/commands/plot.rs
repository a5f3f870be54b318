//! `vidon plot`: pictures of samples.

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::data::{DatasetReader, Sample};
use vidon::plot::{Part, draw, sample_panels};
use vidon::{Error, Result};

use crate::choice::{Choice, one_of};
use crate::ui::Ui;

/// Draw a sample: sensors coloured by value beside the target
///
/// Targets on a grid are drawn as an image, others as points; in space-time, four times are shown on one colour
/// scale. With several files their panels stand in one picture.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon plot test.parquet --sample 3 --out sample.png
  vidon plot regular.parquet random.parquet --only sensors --out layouts.svg")]
pub struct Arguments {
    /// Datasets
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Which sample: its number, counted from 0, or the name it was imported with
    #[arg(long, value_name = "SAMPLE", default_value = "0")]
    sample: String,

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
    let mut panels = Vec::new();
    for file in &arguments.files {
        let dataset = DatasetReader::open(file)?;
        let sample = find(&dataset, file, &arguments.sample)?;
        let caption = match arguments.files.len() {
            1 => String::new(),
            _ => format!("{}: ", caption(&dataset, file)),
        };
        panels.extend(sample_panels(dataset.meta(), &sample, &caption, part));
    }
    draw(&arguments.out, &panels, arguments.columns)?;
    ui.note(format!(
        "{}: sample {}",
        arguments.out.display(),
        arguments.sample
    ));
    Ok(())
}

/// The sample of that name, else of that number.
fn find(dataset: &DatasetReader, file: &Path, wanted: &str) -> Result<Sample> {
    if dataset.meta().named_samples {
        for sample in dataset.samples()? {
            let sample = sample?;
            if sample.name.as_deref() == Some(wanted) {
                return Ok(sample);
            }
        }
    }
    match wanted.parse() {
        Ok(number) => dataset.sample(number),
        Err(_) => Err(Error::Setting(format!(
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
