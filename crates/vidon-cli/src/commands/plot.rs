//! `vidon plot`: pictures of samples.

use std::path::{Path, PathBuf};

use clap::Args;
use vidon::data::{Dataset, Meta};
use vidon::plot::Picture;
use vidon::train::Record;

use crate::choice::{Choice, one_of};
use crate::failure::{Failure, Result};
use crate::outputs;
use crate::ui::Ui;

/// Draw a sample of a dataset, or the learning curves of a run
///
/// A sample: sensors coloured by value beside the target. Targets on a grid are drawn as an image, others as
/// points; in space-time, four times are shown on one colour scale. With several files their panels stand in
/// one picture.
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
    #[arg(long, value_parser = one_of(SIDES))]
    only: Option<Side>,

    /// Panels in a row
    #[arg(long, value_name = "N", default_value_t = 3)]
    columns: usize,
}

/// One side of a sample.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Sensors,
    Targets,
}

const SIDES: &[Choice<Side>] = &[
    (Side::Sensors, "sensors", "What the sensors read"),
    (Side::Targets, "targets", "What is to be predicted"),
];

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    outputs::check(&arguments.files, [("--out", &arguments.out)])?;
    let (mut pictures, mut drawn) = (Vec::new(), Vec::new());
    for file in &arguments.files {
        if file.is_dir() {
            pictures.push(Picture::learning(&Record::read_all(file)?));
            drawn.push(format!("learning curves of {}", file.display()));
            continue;
        }
        let dataset = Dataset::open(file)?;
        let wanted = arguments.sample.as_deref();
        let sample = match wanted {
            None => dataset.sample(0, &()),
            Some(name) => dataset.sample_called(name, &()),
        };
        let sample = sample.map_err(|e| Failure::Words(format!("{}: {e}", file.display())))?;
        let meta = dataset.meta()?;
        let caption = match arguments.files.len() {
            1 => String::new(),
            _ => format!("{}: ", caption(&meta, file)),
        };
        let name = sample.name.as_deref().or(wanted).unwrap_or("0");
        drawn.push(format!("sample {name} of {}", file.display()));
        if arguments.only != Some(Side::Targets) {
            pictures.push(Picture::sensors(&meta, &sample, &caption));
        }
        if arguments.only != Some(Side::Sensors) {
            pictures.push(Picture::targets(&meta, &sample, &caption));
        }
    }
    let of_samples = arguments.sample.is_some() || arguments.only.is_some();
    if of_samples && arguments.files.iter().all(|f| f.is_dir()) {
        return Err(Failure::Words(
            "--sample and --only are for datasets; of a run the learning curves are drawn".into(),
        ));
    }
    let whole = pictures.into_iter().reduce(Picture::and);
    let whole = whole.expect("clap asks for a file");
    whole.columns(arguments.columns).save(&arguments.out)?;
    ui.note(format!("{}: {}", arguments.out.display(), drawn.join(", ")));
    Ok(())
}

/// What tells a dataset from others: its layout, or the file's name.
fn caption(meta: &Meta, file: &Path) -> String {
    let layout = meta.provenance.get("layout").and_then(|l| l.as_str());
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    layout.map_or(stem.into_owned(), str::to_string)
}
