//! Errors by place: a map of circles for every column of the targets.

use crate::data::{Channel, Rows, coordinates};
use crate::eval::{ColumnErrors, PlaceErrors};
use crate::plot::labels::{label_digits, number};
use crate::plot::panel::Panel;
use crate::plot::sample::panel;

/// Of many places the colours end where so many are: one that is far off would make all others alike.
const SHOWN: f64 = 0.98;
const MANY: usize = 50;

/// Root mean square error (from 0) and bias (around 0), each with its unit in the title.
pub(super) fn error_panels(channels: &[Channel], places: &[PlaceErrors]) -> Vec<Panel> {
    let axes = coordinates(channels);
    let coords = places.iter().rev().flat_map(|p| &p.coords[..axes.len()]);
    let coords = Rows::of(axes.len(), coords.copied().collect());
    let one = |c: usize, word: &str, error: &dyn Fn(&ColumnErrors) -> f64| {
        let known = |p: &PlaceErrors| match p.columns[c].targets {
            0 => f64::NAN,
            _ => error(&p.columns[c]),
        };
        // The worst are drawn last, above the others.
        let values: Vec<f64> = places.iter().rev().map(known).collect();
        let known = values.iter().filter(|v| !v.is_nan());
        let mut sizes: Vec<f64> = known.map(|v| v.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let count = sizes.len();
        let worst = sizes.last().copied().unwrap_or(0.0);
        let most = match count {
            0..MANY => worst,
            _ => sizes[(SHOWN * (count - 1) as f64) as usize],
        };
        let least = if values.iter().any(|v| *v < 0.0) {
            -most
        } else {
            0.0
        };
        let first = &places[0].columns[c];
        let channel = Channel {
            unit: first.unit.clone(),
            ..Channel::named(&*first.name)
        };
        let worst = number(worst, label_digits(0.0, worst));
        let title = format!(
            "{word} of {} at {count} places, worst {worst}",
            channel.label()
        );
        Panel {
            scale: Some([least, most]),
            ..panel(title, axes, &coords, &channel, values)
        }
    };
    let columns = places.first().map_or(0, |p| p.columns.len());
    let both =
        (0..columns).flat_map(|c| [one(c, "RMSE", &|e| e.rmse), one(c, "bias", &|e| e.bias)]);
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_end_before_what_is_far_off() {
        let place = |i: usize| PlaceErrors {
            coords: vec![i as f32, 0.0],
            columns: vec![ColumnErrors {
                name: "T".into(),
                unit: "K".into(),
                targets: i % 100,
                rmse: if i == 1 { 90.0 } else { 0.01 * i as f64 },
                bias: -0.01 * i as f64,
                ..ColumnErrors::default()
            }],
        };
        let channels = ["x", "y"].map(Channel::named);
        let places: Vec<PlaceErrors> = (0..120).map(place).collect();
        let panels = error_panels(&channels, &places);
        assert_eq!(panels.len(), 2);
        assert_eq!(panels[0].title, "RMSE of T [K] at 118 places, worst 90");
        let [lo, hi] = panels[0].scale.unwrap();
        assert!(lo == 0.0 && hi < 1.2, "{hi}");
        let [lo, hi] = panels[1].scale.unwrap();
        assert!(lo == -hi && panels[1].values().len() == 118);
        let few = error_panels(&channels, &places[..10]);
        assert_eq!(few[0].scale, Some([0.0, 90.0]));
    }
}
