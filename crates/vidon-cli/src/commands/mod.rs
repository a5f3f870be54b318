//! One file a subcommand: its arguments, and what it says.

pub mod baseline;
pub mod bench;
mod cache;
pub mod demo;
pub mod eval;
pub mod generate;
mod group_option;
pub mod import;
pub mod inspect;
pub mod plot;
pub mod predict;
pub mod reproduce;
pub mod train;

use std::path::Path;

use vidon::Operator;
use vidon::data::{Meta, Sample};
use vidon::plot::Picture;

use crate::failure::{Failure, Result};
use crate::ui::Ui;

/// Draws on a sample's sensors what VIDON's heads look at.
fn draw_heads(
    path: &Path,
    operator: &Operator,
    meta: &Meta,
    sample: &Sample,
    ui: &Ui,
) -> Result<()> {
    let (group, heads) = operator.head_weights(sample)?.ok_or_else(|| {
        Failure::Words(format!(
            "this {} has no heads to draw",
            operator.name().name()
        ))
    })?;
    Picture::heads(meta, sample, group, &heads).save(path)?;
    ui.note(format!("{}: what the heads look at", path.display()));
    Ok(())
}
