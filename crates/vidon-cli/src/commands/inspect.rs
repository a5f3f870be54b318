//! `vidon inspect`: what a dataset or a model holds.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use vidon::Operator;
use vidon::data::{Channel, Dataset, Group, Kind, Meta};

use crate::failure::Result;
use crate::ui::{grouped, print};

/// Show what a dataset or a model holds, and check every number in it
///
/// Of a dataset: schema, counts, ranges, how many sensors the samples have, and where the data comes from. Of
/// a model (.safetensors, or the folder of a run): the columns it takes and gives, parameters, and depth,
/// width and size of branch and trunk. The whole file is read; the first thing that is wrong is named with
/// its row and column.
#[derive(Args)]
pub struct Arguments {
    /// A dataset made by `vidon generate` or `vidon import`, a model's weights (.safetensors), or the folder
    /// of a run
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
    let dataset = Dataset::open(&arguments.file)?;
    let (meta, summary) = (dataset.meta()?, dataset.summary(&())?);
    if arguments.json {
        let mut json = summary.to_json();
        json["meta"] = json!(meta);
        return print(&format!("{json:#}"));
    }
    let mut lines = vec![format!("{}: {}", arguments.file.display(), meta.name)];
    lines.push(summary.to_string());
    lines.push("\ncolumns".into());
    lines.extend(schema(&meta).iter().map(|line| format!("  {line}")));
    for (group, bars) in summary.sensor_histograms(BARS) {
        if bars.len() > 1 {
            lines.push(format!("\n{group} per sample"));
            lines.extend(histogram(&bars).iter().map(|line| format!("  {line}")));
        }
    }
    if let Value::Object(origin) = &meta.provenance {
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
        let extent = |[depth, width, size]: [usize; 3]| json!({ "depth": depth, "width": width, "size": size });
        let tensors = operator.tensors();
        let tensors = tensors.map(|(name, shape)| json!({ "name": name, "shape": shape }));
        let mut json = operator.description();
        json["parameters"] = json!(parameters);
        json["branch"] = json!(extents.map(|e| extent(e[0])));
        json["trunk"] = json!(extents.map(|e| extent(e[1])));
        json["tensors"] = tensors.collect();
        return print(&format!("{json:#}"));
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
    let width = name_width(operator.meta());
    for part in operator.meta().parts() {
        lines.push(format!("  {:<width$} {}", part.name, names(part.channels)));
    }
    if let Some(extents) = extents {
        lines.push(format!(
            "\n{:<10} {:>8} {:>8} {:>12}",
            "", "depth", "width", "size"
        ));
        for (part, [depth, width, size]) in ["branch", "trunk"].iter().zip(extents) {
            let size = grouped(size);
            lines.push(format!("{part:<10} {depth:>8} {width:>8} {size:>12}"));
        }
    }
    lines.push("\ntensors".into());
    for (name, shape) in operator.tensors() {
        lines.push(format!("  {name:<28} {shape:?}"));
    }
    print(&lines.join("\n"))
}

/// Room for the names of groups and columns.
fn name_width(meta: &Meta) -> usize {
    let names = meta.parts().into_iter().map(|part| part.name);
    let names = names.chain(meta.groups.iter().map(|g| g.name.clone()));
    names.map(|name| name.chars().count()).fold(14, usize::max)
}

fn schema(meta: &Meta) -> Vec<String> {
    let (mut lines, width) = (Vec::new(), name_width(meta));
    let several = meta.groups.iter().any(|g| g.name != Group::USUAL);
    for group in meta.groups.iter().filter(|_| several) {
        let what = match group.kind {
            Kind::Field => "readings of a function",
            Kind::Points if group.values.is_empty() => "samples of a density",
            Kind::Points => "points whose strengths add up",
            Kind::Scalars => "parameters of the sample",
        };
        lines.push(format!("{:<width$} {what}", group.name));
    }
    for part in meta.parts() {
        let kind = match &meta.query_grid {
            Some(axes) if part.name == "query_coords" => {
                let sizes: Vec<String> = axes.iter().map(|a| a.len().to_string()).collect();
                format!("grid of {}, shared by all samples", sizes.join(" × "))
            }
            _ => {
                let gaps = if part.gaps { ", some missing" } else { "" };
                format!("list of {} × float32{gaps}", part.channels.len())
            }
        };
        lines.push(format!(
            "{:<width$} {kind}: {}",
            part.name,
            names(part.channels)
        ));
    }
    if meta.named_samples {
        lines.push(format!("{:<width$} the sample's name", "sample"));
    }
    lines
}

/// Names, units and ranges.
fn names(channels: &[Channel]) -> String {
    let name = |c: &Channel| {
        let covariate = if c.covariate { " (covariate)" } else { "" };
        match c.range {
            Some([lo, hi]) => format!("{}{covariate} in [{lo}, {hi}]", c.label()),
            None => format!("{}{covariate}", c.label()),
        }
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
