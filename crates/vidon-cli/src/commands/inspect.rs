//! `vidon inspect`: what a dataset or a model holds.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use vidon::data::{Channel, DatasetReader, Sample, Summary};
use vidon::{Extent, Operator};

use crate::commands::describe;
use crate::failure::Result;
use crate::ui::{grouped, print};

/// Show what a dataset or a model holds, and check every number in it
///
/// Of a dataset: schema, counts, ranges, how many sensors the samples have, and where the data comes from. Of a model
/// (.safetensors, or the folder of a run): the columns it takes and gives, parameters, and depth, width and size of
/// branch and trunk. The whole file is read; the first thing that is wrong is named with its row and column.
#[derive(Args)]
pub struct Arguments {
    /// A dataset made by `vidon generate` or `vidon import`, a model's weights (.safetensors), or the folder of a run
    file: PathBuf,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Bars of the histogram, and their greatest length.
const BARS: usize = 10;
const BAR_LENGTH: usize = 40;

pub fn run(arguments: Arguments) -> Result<()> {
    let extension = arguments.file.extension();
    if extension.is_some_and(|e| e == "safetensors") || arguments.file.is_dir() {
        return inspect_model(&arguments);
    }
    let dataset = DatasetReader::open(&arguments.file)?;
    let mut summary = Summary::new(dataset.meta());
    for sample in dataset.samples()? {
        summary.add(&sample?);
    }
    if arguments.json {
        return print(&format!("{:#}", as_json(&dataset, &summary)));
    }
    let mut lines = vec![format!(
        "{}: {}",
        arguments.file.display(),
        dataset.meta().name
    )];
    lines.push(describe(&summary));
    lines.push("\ncolumns".into());
    lines.extend(schema(&dataset).iter().map(|line| format!("  {line}")));
    let bars = summary.sensors.histogram(BARS);
    if bars.len() > 1 {
        lines.push("\nsensors per sample".into());
        lines.extend(histogram(&bars).iter().map(|line| format!("  {line}")));
    }
    if let Value::Object(origin) = &dataset.meta().provenance {
        lines.push("\nprovenance".into());
        for (key, value) in origin {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_string);
            lines.push(format!("  {key:<14} {text}"));
        }
    }
    print(&lines.join("\n"))
}

fn inspect_model(arguments: &Arguments) -> Result<()> {
    let operator = Operator::load(&arguments.file)?;
    let (parameters, extents) = (operator.parameters(), operator.branch_and_trunk());
    if arguments.json {
        let extent = |e: &Extent| json!({ "depth": e.depth, "width": e.width, "size": e.size });
        let tensors: Vec<Value> = operator
            .entries()
            .iter()
            .map(|e| json!({ "name": e.name, "shape": e.shape }))
            .collect();
        return print(&format!(
            "{:#}",
            json!({
                "model": operator.config(),
                "parameters": parameters,
                "branch": extents.as_ref().map(|e| extent(&e[0])),
                "trunk": extents.as_ref().map(|e| extent(&e[1])),
                "scaling": operator.scaling(),
                "tensors": tensors,
                "data": operator.meta(),
            })
        ));
    }
    let mut lines = vec![
        format!(
            "{}: {} for {}",
            arguments.file.display(),
            operator.name().name(),
            operator.meta().name
        ),
        format!("parameters {}", grouped(parameters)),
        "\ncolumns".into(),
    ];
    for (part, channels) in Sample::PARTS.iter().zip(operator.meta().channels()) {
        lines.push(format!("  {part:<14} {}", names(channels)));
    }
    if let Some(extents) = extents {
        lines.push(format!(
            "\n{:<10} {:>8} {:>8} {:>12}",
            "", "depth", "width", "size"
        ));
        for (part, e) in ["branch", "trunk"].iter().zip(extents) {
            lines.push(format!(
                "{part:<10} {:>8} {:>8} {:>12}",
                e.depth,
                e.width,
                grouped(e.size)
            ));
        }
    }
    lines.push("\ntensors".into());
    for entry in operator.entries() {
        lines.push(format!("  {:<28} {:?}", entry.name, entry.shape));
    }
    print(&lines.join("\n"))
}

fn schema(dataset: &DatasetReader) -> Vec<String> {
    let meta = dataset.meta();
    let mut lines = Vec::new();
    for (part, channels) in Sample::PARTS.iter().zip(meta.channels()) {
        let kind = match (&meta.query_grid, *part) {
            (Some(axes), "query_coords") => {
                let sizes: Vec<String> = axes.iter().map(|a| a.len().to_string()).collect();
                format!("grid of {}, shared by all samples", sizes.join(" × "))
            }
            _ => format!("list of {} × float32", channels.len()),
        };
        lines.push(format!("{part:<14} {kind}: {}", names(channels)));
    }
    if meta.named_samples {
        lines.push(format!("{:<14} the sample's name", "sample"));
    }
    lines
}

/// Names, units and ranges.
fn names(channels: &[Channel]) -> String {
    let name = |c: &Channel| match c.range {
        Some([lo, hi]) => format!("{} in [{lo}, {hi}]", c.label()),
        None => c.label(),
    };
    let names: Vec<String> = channels.iter().map(name).collect();
    names.join(", ")
}

fn histogram(bars: &[(usize, usize, usize)]) -> Vec<String> {
    let most = bars.iter().map(|b| b.2).max().unwrap_or(0).max(1);
    let line = |&(from, to, n): &(usize, usize, usize)| {
        let length = (n * BAR_LENGTH).div_ceil(most);
        format!(
            "{from:>7} – {to:<7} {:<BAR_LENGTH$} {n}",
            "█".repeat(length)
        )
    };
    bars.iter().map(line).collect()
}

fn as_json(dataset: &DatasetReader, summary: &Summary) -> Value {
    let counts = |c: &vidon::data::Counts| {
        let [min, median, max] = c.min_median_max();
        json!({ "min": min, "median": median, "max": max })
    };
    let ranges: serde_json::Map<String, Value> = Sample::PARTS
        .iter()
        .zip(&summary.ranges)
        .map(|(part, ranges)| {
            let all: Vec<Value> = ranges
                .iter()
                .map(|r| json!({ "name": r.name, "min": r.min, "mean": r.mean(), "max": r.max }))
                .collect();
            (part.to_string(), Value::Array(all))
        })
        .collect();
    json!({
        "samples": summary.samples,
        "sensors": counts(&summary.sensors),
        "queries": counts(&summary.queries),
        "fixed_sensors": summary.fixed_sensors,
        "duplicate_sensors": summary.duplicate_sensors,
        "ranges": ranges,
        "meta": dataset.meta(),
    })
}
