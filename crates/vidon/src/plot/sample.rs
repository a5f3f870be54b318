//! A sample as panels: its sensors coloured by value, and its targets (at several times, where there is time).

use crate::data::{Channel, Group, Kind, Meta, Rows, Sample, coordinates};
use crate::plot::labels::{label_digits, number};
use crate::plot::panel::{Marks, Panel, extent};

/// Slices shown of an output with a third coordinate.
const SLICES: usize = 4;
/// Points a level of the last coordinate has on average, for levels to be shown rather than slabs.
const POINTS_PER_LEVEL: usize = 10;

/// The targets of a sample; `caption` goes before every title.
pub(super) fn target_panels(meta: &Meta, sample: &Sample, caption: &str) -> Vec<Panel> {
    let queries = &sample.query_coords;
    let shown = (0..meta.targets.len()).flat_map(|k| {
        let values = column(&sample.targets, k);
        let scale = extent(values.iter().copied());
        field_panels(meta, queries, k, &values, caption, "target", scale)
    });
    shown.collect()
}

/// Sensors and prediction.
pub(super) fn prediction_panels(meta: &Meta, sample: &Sample, prediction: &Rows) -> Vec<Panel> {
    let mut panels = sensor_panels(meta, sample, "");
    for k in 0..meta.targets.len() {
        let values = column(prediction, k);
        let scale = extent(values.iter().copied());
        let queries = &sample.query_coords;
        panels.extend(field_panels(
            meta,
            queries,
            k,
            &values,
            "",
            "prediction",
            scale,
        ));
    }
    panels
}

/// Rows of input (of every group what it reads first), truth, prediction (on one colour scale) and error, for every
/// component and time shown.
pub(super) fn comparison_panels(meta: &Meta, sample: &Sample, prediction: &Rows) -> Vec<Panel> {
    let groups = 0..meta.groups.len();
    let inputs = groups.flat_map(|g| group_panels(meta, sample, g, "").into_iter().next());
    let inputs: Vec<Panel> = inputs.collect();
    let queries = &sample.query_coords;
    let mut panels = Vec::new();
    for k in 0..meta.targets.len() {
        let (truth, found) = (column(&sample.targets, k), column(prediction, k));
        let error: Vec<f64> = found.iter().zip(&truth).map(|(f, t)| f - t).collect();
        // Colours are those of the truth; curves have to fit, too.
        let seen = match meta.query_coords.len() {
            1 => [&truth[..], &found[..]].concat(),
            _ => truth.clone(),
        };
        let scale = extent(seen.iter().copied());
        // Where the truth is not known there is no error.
        let worst = error.iter().fold(0.0, |w: f64, e| w.max(e.abs()));
        let show = |values: &[f64], word: &str, scale: [f64; 2]| {
            field_panels(meta, queries, k, values, "", word, scale)
        };
        let (truths, predictions) = (
            show(&truth, "truth", scale),
            show(&found, "prediction", scale),
        );
        let errors = show(&error, "error", [-worst, worst]);
        for ((truth, prediction), error) in truths.into_iter().zip(predictions).zip(errors) {
            panels.extend(inputs.iter().cloned().chain([truth, prediction, error]));
        }
    }
    panels
}

/// The weights ω_j of every head on the sensors of a group, as multiples of the mean weight 1/m.
pub(super) fn head_panels(
    meta: &Meta,
    sample: &Sample,
    group: usize,
    heads: &[Vec<f64>],
) -> Vec<Panel> {
    let (sensors, axes) = (&sample.groups[group], meta.groups[group].coordinates());
    let count = heads[0].iter().filter(|w| !w.is_nan()).count();
    heads
        .iter()
        .enumerate()
        .map(|(h, weights)| {
            let title = format!("head {}: weight × {count} sensors", h + 1);
            let channel = Channel::named("weight × m");
            let values = weights.iter().map(|w| w * count as f64).collect();
            panel(title, axes, &sensors.coords, &channel, values)
        })
        .collect()
}

/// What all groups of sensors read. Parameters stand in the titles.
pub(super) fn sensor_panels(meta: &Meta, sample: &Sample, caption: &str) -> Vec<Panel> {
    let groups = 0..meta.groups.len();
    groups
        .flat_map(|g| group_panels(meta, sample, g, caption))
        .collect()
}

/// What a group of sensors reads, a panel a column; points without values by their places.
fn group_panels(meta: &Meta, sample: &Sample, group: usize, caption: &str) -> Vec<Panel> {
    let (sensors, described) = (&sample.groups[group], &meta.groups[group]);
    let (name, axes) = (&described.name, described.coordinates());
    let first = meta.groups.iter().position(|g| g.kind != Kind::Scalars);
    let parameters = match first == Some(group) {
        true => parameters(meta, sample),
        false => String::new(),
    };
    let title = |label: &str, count: usize| match (described.kind, &name[..]) {
        (Kind::Points, name) if label.is_empty() => format!("{caption}{count} points of {name}"),
        (Kind::Points, name) => format!("{caption}{label} of {count} points of {name}"),
        (_, Group::USUAL) => format!("{caption}{label} at {count} sensors"),
        (_, name) => format!("{caption}{label} at {count} sensors of {name}"),
    };
    match described.kind {
        Kind::Scalars => Vec::new(),
        _ if described.values.is_empty() => {
            let (count, channel) = (sensors.len(), Channel::named(name.as_str()));
            let title = title("", count) + &parameters;
            vec![panel(
                title,
                axes,
                &sensors.coords,
                &channel,
                vec![1.0; count],
            )]
        }
        _ => {
            let columns = described.values.iter().enumerate();
            let columns = columns.map(|(k, channel)| {
                let values = column(&sensors.values, k);
                let count = values.iter().filter(|v| !v.is_nan()).count();
                let title = title(&channel.label(), count) + &parameters;
                panel(title, axes, &sensors.coords, channel, values)
            });
            columns.collect()
        }
    }
}

/// The parameters of a sample, as they stand in a title.
fn parameters(meta: &Meta, sample: &Sample) -> String {
    let groups = meta.groups.iter().zip(&sample.groups);
    let scalars = groups.filter(|(g, _)| g.kind == Kind::Scalars);
    let all = scalars.flat_map(|(g, own)| g.values.iter().zip(own.values.data()));
    let all = all.map(|(channel, v)| match v.is_nan() {
        true => format!(", {} –", channel.name),
        false => format!(", {} {v}", channel.name),
    });
    all.collect()
}

/// Component `k` of a function at the queries: one panel, or one a time.
fn field_panels(
    meta: &Meta,
    queries: &Rows,
    k: usize,
    values: &[f64],
    caption: &str,
    word: &str,
    scale: [f64; 2],
) -> Vec<Panel> {
    let (axes, channel) = (coordinates(&meta.query_coords), &meta.targets[k]);
    // All slices in one frame.
    let whole = panel(String::new(), axes, queries, channel, values.to_vec());
    slices(queries, axes)
        .into_iter()
        .map(|(label, entries)| {
            let title = format!("{caption}{}{label}, {word}", channel.label());
            let coords = queries.select(&entries);
            let shown = entries.iter().map(|&i| values[i]).collect();
            let mut panel = panel(title, axes, &coords, channel, shown);
            panel.scale = Some(scale);
            if let Marks::Points { places, values } = &panel.marks
                && let Some(image) = as_image(places, values)
            {
                panel.marks = image;
            } else if axes.len() > 1 {
                panel.bounds = Some(whole.bounds());
            }
            panel
        })
        .collect()
}

fn column(rows: &Rows, k: usize) -> Vec<f64> {
    rows.iter().map(|row| row[k] as f64).collect()
}

/// One panel of `values` at `coords`, drawn over the first two coordinates; without those that are missing.
pub(super) fn panel(
    title: String,
    axes: &[Channel],
    coords: &Rows,
    channel: &Channel,
    values: Vec<f64>,
) -> Panel {
    let known = |v: &f64| !v.is_nan();
    let places = coords.iter().zip(&values).filter(|(_, v)| known(v));
    let places: Vec<&[f32]> = places.map(|(p, _)| p).collect();
    let values: Vec<f64> = values.iter().copied().filter(known).collect();
    let (y_label, marks) = match axes {
        [_] => (
            channel.label(),
            Marks::Curve {
                x: places.iter().map(|p| p[0] as f64).collect(),
                values,
            },
        ),
        _ => {
            let places = places.iter().map(|p| [p[0] as f64, p[1] as f64]).collect();
            (axes[1].label(), Marks::Points { places, values })
        }
    };
    Panel {
        title,
        x_label: axes[0].label(),
        y_label,
        marks,
        scale: None,
        bounds: None,
    }
}

/// The points as an image, if they fill the product of two axes.
fn as_image(places: &[[f64; 2]], values: &[f64]) -> Option<Marks> {
    let axis = |k: usize| distinct(&places.iter().map(|p| p[k]).collect::<Vec<f64>>());
    let (xs, ys) = (axis(0), axis(1));
    if xs.len() < 2 || ys.len() < 2 || xs.len() * ys.len() != values.len() {
        return None;
    }
    let find = |axis: &[f64], v: f64| axis.binary_search_by(|a| a.total_cmp(&v)).ok();
    let mut cells = vec![None; values.len()];
    for (&[x, y], &v) in places.iter().zip(values) {
        cells[find(&xs, x)? * ys.len() + find(&ys, y)?] = Some(v);
    }
    let values = cells.into_iter().collect::<Option<Vec<f64>>>()?;
    Some(Marks::Image {
        x: xs,
        y: ys,
        values,
    })
}

fn distinct(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    sorted
}

/// Entries to show together, with words on which they are: all of them in one or two dimensions, else a few levels
/// (or slabs) of the last coordinate.
fn slices(coords: &Rows, axes: &[Channel]) -> Vec<(String, Vec<usize>)> {
    let all = 0..coords.len();
    if axes.len() < 3 {
        return vec![(String::new(), all.collect())];
    }
    let last = axes.len() - 1;
    let name = &axes[last].name;
    let height = |i: usize| coords.row(i)[last] as f64;
    let levels = distinct(&column(coords, last));
    let shown = SLICES.min(levels.len());
    let between = |lo: f64, hi: f64| {
        all.clone()
            .filter(|&i| (lo..=hi).contains(&height(i)))
            .collect()
    };
    let digits = label_digits(levels[0], levels[levels.len() - 1]);
    if levels.len() * POINTS_PER_LEVEL <= coords.len() || levels.len() <= SLICES {
        let pick = |k: usize| levels[k * (levels.len() - 1) / (shown - 1).max(1)];
        return (0..shown)
            .map(|k| {
                (
                    format!(" at {name} = {}", number(pick(k), digits)),
                    between(pick(k), pick(k)),
                )
            })
            .collect();
    }
    let cut = |k: usize| levels[k * (levels.len() - 1) / shown];
    (0..shown)
        .map(|k| {
            let (lo, hi) = (cut(k), cut(k + 1));
            (
                format!(
                    " for {name} in {} … {}",
                    number(lo, digits),
                    number(hi, digits)
                ),
                between(lo, hi),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Sensors;
    use crate::domain::product;
    use std::sync::Arc;

    fn meta(query: &[&str]) -> Meta {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        Meta::new(
            "t",
            channels(&["x", "y"]),
            channels(&["a"]),
            channels(query),
            channels(&["u"]),
        )
    }

    fn sample(axes: &[Vec<f64>]) -> Sample {
        let queries = Rows::of_f64(axes.len(), &product(axes));
        let targets = (0..queries.len()).map(|i| i as f32).collect();
        Sample::of(
            Rows::of(2, vec![0.0, 0.0, 1.0, 0.5, 0.3, 0.9]),
            Rows::of(1, vec![1.0, 2.0, 3.0]),
            Arc::new(queries),
            Rows::of(1, targets),
        )
    }

    #[test]
    fn space_time_is_shown_at_four_times_on_one_scale() {
        let line = |n: usize| (0..n).map(|i| i as f64 / 10.0).collect::<Vec<f64>>();
        let (meta, sample) = (
            meta(&["x", "y", "t"]),
            sample(&[line(3), line(4), line(11)]),
        );
        let sensors = sensor_panels(&meta, &sample, "");
        assert!(matches!(&sensors[0].marks, Marks::Points { places, .. } if places.len() == 3));
        let panels = target_panels(&meta, &sample, "");
        assert_eq!(panels.len(), 4);
        for (panel, time) in panels
            .iter()
            .zip(["t = 0.00", "t = 0.30", "t = 0.60", "t = 1.00"])
        {
            assert!(panel.title.contains(time), "{}", panel.title);
            assert_eq!(panel.scale, Some([0.0, 131.0]));
            let Marks::Image { x, y, values } = &panel.marks else {
                panic!("a grid is an image")
            };
            assert_eq!((x.len(), y.len(), values.len()), (3, 4, 12));
        }
    }

    #[test]
    fn one_dimension_is_a_curve_and_scattered_space_is_slabs() {
        let panels = target_panels(&meta(&["x"]), &sample(&[vec![0.0, 0.5, 1.0]]), "");
        assert!(matches!(
            &panels[..],
            [Panel {
                marks: Marks::Curve { .. },
                ..
            }]
        ));
        let mut scattered = sample(&vec![vec![0.0]; 3]);
        let points: Vec<f32> = (0..4500).map(|i| (i as f32 * 0.7).sin()).collect();
        scattered.query_coords = Arc::new(Rows::of(3, points));
        scattered.targets = Rows::of(1, vec![1.0; 1500]);
        let panels = target_panels(&meta(&["x", "y", "z"]), &scattered, "");
        assert_eq!(panels.len(), 4);
        for panel in &panels {
            assert_eq!(panel.bounds(), panels[0].bounds());
            let Marks::Points { places, .. } = &panel.marks else {
                panic!("scattered points")
            };
            assert!(places.len() > 300);
        }
    }

    /// A panel a column, without what is missing; parameters in the title of the first.
    #[test]
    fn every_group_has_its_panels() {
        let channels =
            |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect::<Vec<_>>();
        let group = |name: &str, kind: Kind, values: &[&str]| Group {
            kind,
            gaps: kind == Kind::Field,
            ..Group::field(name, channels(&["x", "y"]), channels(values))
        };
        let run = Group {
            coords: vec![],
            ..group("run", Kind::Scalars, &["hours"])
        };
        let groups = vec![
            run,
            group("air", Kind::Field, &["T", "q"]),
            group("drops", Kind::Points, &[]),
        ];
        let meta = Meta::of_groups("t", groups, channels(&["x", "y"]), channels(&["u"]));
        let mut sample = sample(&[vec![0.0, 1.0], vec![0.0, 1.0]]);
        let air = Sensors {
            values: Rows::of(2, vec![1.0, f32::NAN, 2.0, 5.0, f32::NAN, 6.0]),
            ..sample.groups[0].clone()
        };
        let drops = Sensors {
            values: Rows::without_columns(3),
            ..sample.groups[0].clone()
        };
        sample.groups = vec![Sensors::scalars(&[1.5]), air, drops];
        let panels = sensor_panels(&meta, &sample, "");
        let titles: Vec<&str> = panels.iter().map(|p| &p.title[..]).collect();
        assert_eq!(
            titles,
            [
                "T at 2 sensors of air, hours 1.5",
                "q at 2 sensors of air, hours 1.5",
                "3 points of drops"
            ]
        );
        assert_eq!(panels[1].values(), [5.0, 6.0]);
        sample.targets.data_mut()[2] = f32::NAN;
        let found = sample.targets.clone().without_gaps();
        let panels = comparison_panels(&meta, &sample, &found);
        assert_eq!(panels.len(), 5);
        assert_eq!(panels[4].values(), [0.0; 3]);
    }
}
