//! Learning curves.

use crate::plot::panel::{Marks, Panel};
use crate::train::{Metric, Record};

/// The loss and the validation errors over the steps.
pub(super) fn curve_panels(records: &[Record]) -> Vec<Panel> {
    let metric = records.last().map_or(Metric::default(), |r| r.metric);
    let line = |name: &str, value: &dyn Fn(&Record) -> Option<f64>| {
        let points = records
            .iter()
            .filter_map(|r| Some([r.step as f64, value(r)?]));
        (name.to_string(), points.collect::<Vec<[f64; 2]>>())
    };
    let panel = |title: &str, y_label: &str, lines: Vec<(String, Vec<[f64; 2]>)>| Panel {
        title: title.into(),
        x_label: "step".into(),
        y_label: y_label.into(),
        marks: Marks::Lines(lines),
        scale: None,
        bounds: None,
    };
    vec![
        panel("training", "loss", vec![line("loss", &|r| r.loss)]),
        panel(
            "validation",
            &format!("{} error", metric.name()),
            vec![
                line("best so far", &|r| r.val_error.and(r.best_error)),
                line("validation", &|r| r.val_error),
            ],
        ),
    ]
}

/// The best validation errors so far of several trainings over their time.
pub(super) fn validation_panel(title: &str, runs: &[(&str, Vec<Record>)]) -> Panel {
    let line = |records: &[Record]| -> Vec<[f64; 2]> {
        let looks = records.iter().filter(|r| r.val_error.is_some());
        looks
            .filter_map(|r| Some([r.seconds / 60.0, r.best_error?]))
            .collect()
    };
    let lines = runs.iter().map(|(name, r)| (name.to_string(), line(r)));
    Panel {
        title: title.into(),
        x_label: "minutes of training".into(),
        y_label: "validation error".into(),
        marks: Marks::Lines(lines.collect()),
        scale: None,
        bounds: None,
    }
}
