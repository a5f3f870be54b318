//! `vidon baseline`: what answers without a network are worth.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use vidon::baseline::{Baseline, Comparison, KernelChoice, compare};
use vidon::data::{Channel, Dataset, Meta};

use crate::failure::{Failure, Result};
use crate::ui::{Ui, count, four_digits, percent, print};

/// Measure what answers without a network are worth
///
/// What a network has to beat. Where the targets are what the sensors read (the same column), at other places
/// or later: the mean of the sample's readings, the nearest one, inverse distance weighting, ordinary
/// kriging, and kriging with a trend in the coordinates and covariates, without and with the covariates'
/// squares. With --train also the mean of the place, and linear rules of all of these, which training samples
/// teach. Targets of another quantity need --train.
///
/// Kernel, range and nugget are those under which the readings of 20 samples are likeliest (restricted
/// likelihood); the targets are looked at by nothing but the errors. Coordinates called lon and lat (or in
/// degrees) are distances in km; others are taken in units of their box, unless all have one unit.
#[derive(Args)]
#[command(after_help = "Examples:
  What a network is worth on stations:
    vidon baseline test.parquet
    vidon eval runs/stations --data test.parquet
  Tomorrow from today, where places are known:
    vidon baseline test.parquet --train train.parquet
  For a script:
    vidon baseline test.parquet --train train.parquet --json")]
pub struct Arguments {
    /// The dataset to judge by (vidon import makes it)
    #[arg(value_name = "DATA.parquet")]
    data: PathBuf,

    /// Training samples, for what has to be learned: means of places, linear rules
    #[arg(long, value_name = "TRAIN.parquet")]
    train: Option<PathBuf>,

    /// How many samples to judge by [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let data = Dataset::open(&arguments.data)?;
    let meta = data.meta()?;
    let all = data.usual();
    let samples = arguments.samples.map_or(all, |n| all.min(n as usize));
    let train = match &arguments.train {
        None => None,
        Some(path) => {
            let both = [path.canonicalize(), arguments.data.canonicalize()];
            if matches!(both, [Ok(a), Ok(b)] if a == b) {
                return Err(Failure::Words(format!(
                    "--train {}: what was learned from samples is not judged by them; give other samples",
                    path.display()
                )));
            }
            Some(Dataset::open(path)?)
        }
    };
    let looks = 2 * (samples + train.as_ref().map_or(0, Dataset::usual));
    let found = compare(&data, train.as_ref(), samples, &ui.progress(looks));
    let found = found.map_err(|e| match e {
        vidon::Error::Unsuitable(what) if what.contains("training samples: give some") => {
            Failure::Words(format!("{what} with --train FILE.parquet"))
        }
        other => other.into(),
    })?;
    if arguments.json {
        let mut shown = json!(found);
        shown["data"] = json!(arguments.data.to_string_lossy());
        return print(&format!("{shown:#}"));
    }
    print(&report(&meta, &found))?;
    for note in &found.notes {
        ui.note(format!("note: {note}"));
    }
    if train.is_none() {
        ui.note(
            "note: --train TRAIN.parquet adds what training samples teach: the mean of a place, linear rules",
        );
    }
    Ok(())
}

/// Room for what stands in a cell.
const CELL: usize = 11;

fn report(meta: &Meta, found: &Comparison) -> String {
    let names = found.baselines.iter().map(|b| b.name.chars().count());
    let width = names.max().unwrap_or(0).max(20);
    let heading = |c: &Channel| format!("{:^1$}", c.label(), 3 * CELL + 2);
    let over: Vec<String> = meta.targets.iter().map(heading).collect();
    let cells = ["RMSE", "MAE", "bias"]
        .map(|word| format!(" {word:>CELL$}"))
        .concat();
    let mut lines = vec![
        format!("{}: {}", meta.name, count(found.samples, "sample")),
        String::new(),
        format!("{:<width$} {}", "", over.join(" "))
            .trim_end()
            .into(),
        format!(
            "{:<width$}{} {:>CELL$}",
            "baseline",
            cells.repeat(over.len()),
            "relative L²"
        ),
    ];
    let numbers = |b: &Baseline| -> String {
        let of = |column: &Option<vidon::eval::ColumnErrors>| {
            let all = column
                .as_ref()
                .map(|c| [c.rmse, c.mae, c.bias].map(four_digits));
            let all = all.unwrap_or_else(|| ["–"; 3].map(String::from));
            all.map(|text| format!(" {text:>CELL$}")).concat()
        };
        b.columns.iter().map(of).collect()
    };
    for b in &found.baselines {
        let relative = b.relative_l2.map_or("–".into(), percent);
        lines.push(format!(
            "{:<width$}{} {relative:>CELL$}",
            b.name,
            numbers(b)
        ));
    }
    if !found.kernels.is_empty() {
        lines.push("\nkernels, by restricted likelihood of the readings".into());
        lines.extend(found.kernels.iter().map(kernel));
    }
    lines.join("\n")
}

fn kernel(own: &KernelChoice) -> String {
    let unit = match &own.unit[..] {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let nugget = match own.nugget {
        small if small < 1e-3 => format!("{small:e}"),
        large => large.to_string(),
    };
    format!(
        "  {}, {}: {}, range {}{unit}, nugget {nugget}; readings left out are missed by {}",
        own.readings,
        own.trend,
        own.shape.name(),
        four_digits(own.range),
        four_digits(own.missed)
    )
}
