//! One file a subcommand: its arguments, and what it says.

pub mod bench;
mod cache;
pub mod demo;
pub mod eval;
pub mod generate;
pub mod import;
pub mod inspect;
pub mod plot;
pub mod predict;
pub mod reproduce;
pub mod train;

use std::path::Path;

use vidon::Operator;
use vidon::data::{Meta, Sample, Summary};
use vidon::plot::{draw, head_panels};

use crate::failure::{Failure, Result};
use crate::ui::{Ui, count, grouped};

/// Draws on a sample's sensors what VIDON's heads look at.
fn draw_heads(
    path: &Path,
    operator: &Operator,
    meta: &Meta,
    sample: &Sample,
    ui: &Ui,
) -> Result<()> {
    let heads = operator.head_weights(sample)?.ok_or_else(|| {
        Failure::Words(format!(
            "this {} has no heads to draw",
            operator.name().name()
        ))
    })?;
    draw(path, &head_panels(meta, sample, &heads), 4)?;
    ui.note(format!("{}: what the heads look at", path.display()));
    Ok(())
}

/// The lines that describe what a dataset holds.
fn describe(summary: &Summary) -> String {
    let mut lines = vec![format!("{:<10} {}", "samples", grouped(summary.samples))];
    for (name, counts) in [("sensors", &summary.sensors), ("queries", &summary.queries)] {
        let [min, median, max] = counts.min_median_max();
        let numbers = if min == max {
            format!("{} in every sample", grouped(min))
        } else {
            format!(
                "{} / {} / {} per sample (min / median / max)",
                grouped(min),
                grouped(median),
                grouped(max)
            )
        };
        lines.push(format!("{name:<10} {numbers}"));
    }
    let places = match (summary.fixed_sensors, summary.samples) {
        (_, 1) => "",
        (true, _) => "the same in every sample",
        (false, _) => "change from sample to sample",
    };
    if !places.is_empty() {
        lines.push(format!("{:<10} {places}", "places"));
    }
    if summary.duplicate_sensors > 0 {
        let words = format!(
            "{} at a place that their sample has already",
            count(summary.duplicate_sensors, "sensor")
        );
        lines.push(format!("{:<10} {words}", "duplicates"));
    }
    lines.push(String::new());
    lines.push(format!(
        "{:<16} {:<16} {:>12} {:>12} {:>12}",
        "part", "component", "min", "mean", "max"
    ));
    for (part, ranges) in Sample::PARTS.iter().zip(&summary.ranges) {
        for range in ranges {
            let (min, mean, max) = (range.min, range.mean(), range.max);
            let name = &range.name;
            lines.push(format!(
                "{part:<16} {name:<16} {:>12} {:>12} {:>12}",
                short(min),
                short(mean),
                short(max)
            ));
        }
    }
    lines.join("\n")
}

/// A number in at most ten characters.
fn short(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 || (1e-3..1e5).contains(&size) {
        format!("{v:.4}")
    } else {
        format!("{v:.3e}")
    }
}
