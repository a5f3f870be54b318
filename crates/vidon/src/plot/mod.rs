//! Pictures of samples, predictions and trainings.

mod curves;
mod draw;
mod labels;
mod panel;
mod places;
mod sample;

use std::path::Path;

use crate::data::{Channel, Kind, Meta, Rows, Sample};
use crate::error::Result;
use crate::eval::PlaceErrors;
use crate::files::ending;
use crate::plot::draw::ENDINGS;
use crate::plot::panel::{Marks, Panel, share_frames};
use crate::train::Record;

/// Panels in rows, to be saved as `.png` or `.svg`.
#[derive(Clone, Debug)]
pub struct Picture {
    panels: Vec<Panel>,
    columns: usize,
}

impl Picture {
    /// What the sensors of a sample read; `caption` goes before every title.
    pub fn sensors(meta: &Meta, sample: &Sample, caption: &str) -> Self {
        Self::of(sample::sensor_panels(meta, sample, caption), 3)
    }

    /// The targets of a sample, in space-time at several times on one colour scale.
    pub fn targets(meta: &Meta, sample: &Sample, caption: &str) -> Self {
        Self::of(sample::target_panels(meta, sample, caption), 3)
    }

    /// Sensors and prediction.
    pub fn prediction(meta: &Meta, sample: &Sample, prediction: &Rows) -> Self {
        Self::of(sample::prediction_panels(meta, sample, prediction), 2)
    }

    /// Rows of input (a panel a group of sensors), truth, prediction (on one colour scale) and error, for every
    /// component and time shown.
    pub fn comparison(meta: &Meta, sample: &Sample, prediction: &Rows) -> Self {
        let located = meta.groups.iter().filter(|g| g.kind != Kind::Scalars);
        let columns = located.count() + 3;
        Self::of(sample::comparison_panels(meta, sample, prediction), columns)
    }

    /// The weights ω_j of every head on the sensors of a group, as multiples of the mean weight 1/m.
    pub fn heads(meta: &Meta, sample: &Sample, group: usize, heads: &[Vec<f64>]) -> Self {
        Self::of(sample::head_panels(meta, sample, group, heads), 4)
    }

    /// Root mean square error and bias of every column of the targets at places, of which `channels` are known.
    pub fn errors_by_place(channels: &[Channel], places: &[PlaceErrors]) -> Self {
        Self::of(places::error_panels(channels, places), 2)
    }

    /// The loss and the validation errors over the steps of a training.
    pub fn learning(records: &[Record]) -> Self {
        Self::of(curves::curve_panels(records), 2)
    }

    /// The best validation errors so far of several trainings over their time.
    pub fn validation(title: &str, runs: &[(&str, Vec<Record>)]) -> Self {
        Self::of(vec![curves::validation_panel(title, runs)], 2)
    }

    /// Named series of positive numbers, one a group, on a logarithmic axis called `label`: each a filled dot and,
    /// hollow, what it is compared with.
    pub fn dots(
        title: &str,
        [groups_label, label]: [&str; 2],
        groups: Vec<&'static str>,
        series: Vec<(String, Vec<[Option<f64>; 2]>)>,
    ) -> Self {
        let panel = Panel {
            title: title.into(),
            x_label: groups_label.into(),
            y_label: label.into(),
            marks: Marks::Dots { groups, series },
            scale: None,
            bounds: None,
        };
        Self::of(vec![panel], 2)
    }

    fn of(panels: Vec<Panel>, columns: usize) -> Self {
        Self { panels, columns }
    }

    /// With the panels of another behind its own.
    pub fn and(mut self, other: Self) -> Self {
        self.panels.extend(other.panels);
        self
    }

    /// With so many panels in a row.
    pub fn columns(self, columns: usize) -> Self {
        Self { columns, ..self }
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let mut panels = self.panels.clone();
        share_frames(&mut panels);
        draw::draw(path, &panels, self.columns)
    }

    /// An error where [`save`](Self::save) has no format for a file of this name.
    pub fn check_name(path: &Path) -> Result<()> {
        ending(path, "pictures", &ENDINGS).map(|_| ())
    }
}
