//! What a panel of a picture shows, and over which box.

/// One picture in a figure.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub marks: Marks,
    /// Ends of the colour scale (of the vertical axis for [`Marks::Curve`]); those of the values where not given.
    pub scale: Option<[f64; 2]>,
    /// Ends of the two axes; those of the places where not given.
    pub bounds: Option<[[f64; 2]; 2]>,
}

/// What a panel shows.
#[derive(Clone, Debug)]
pub(super) enum Marks {
    /// Points in the plane, coloured by value.
    Points {
        places: Vec<[f64; 2]>,
        values: Vec<f64>,
    },
    /// Values on the product of two axes, second axis fastest.
    Image {
        x: Vec<f64>,
        y: Vec<f64>,
        values: Vec<f64>,
    },
    /// Values over one coordinate.
    Curve { x: Vec<f64>, values: Vec<f64> },
    /// Named lines of positive values, on a logarithmic vertical axis.
    Lines(Vec<(String, Vec<[f64; 2]>)>),
    /// Named series of positive values, one a group, on a logarithmic vertical axis: each a filled dot and,
    /// hollow, what it is compared with.
    Dots {
        groups: Vec<&'static str>,
        series: Vec<(String, Vec<[Option<f64>; 2]>)>,
    },
}

impl Panel {
    pub fn values(&self) -> Vec<f64> {
        match &self.marks {
            Marks::Lines(lines) => {
                let points = lines.iter().flat_map(|(_, points)| points);
                points
                    .map(|p| p[1].log10())
                    .filter(|v| v.is_finite())
                    .collect()
            }
            Marks::Dots { series, .. } => {
                let pairs = series.iter().flat_map(|(_, pairs)| pairs);
                pairs.flatten().flatten().map(|v| v.log10()).collect()
            }
            Marks::Points { values, .. }
            | Marks::Image { values, .. }
            | Marks::Curve { values, .. } => values.clone(),
        }
    }

    /// The colour scale, never empty.
    pub fn ends(&self) -> [f64; 2] {
        let [lo, hi] = self
            .scale
            .unwrap_or_else(|| extent(self.values().iter().copied()));
        widened(lo, hi)
    }

    /// Ends of both axes.
    pub fn bounds(&self) -> [[f64; 2]; 2] {
        if let Some(bounds) = self.bounds {
            return bounds;
        }
        match &self.marks {
            Marks::Points { places, .. } => [0, 1].map(|axis| {
                let [lo, hi] = extent(places.iter().map(|p| p[axis]));
                let [lo, hi] = widened(lo, hi);
                [lo - 0.03 * (hi - lo), hi + 0.03 * (hi - lo)]
            }),
            Marks::Image { x, y, .. } => [outline(x), outline(y)],
            Marks::Curve { x, .. } => {
                let [lo, hi] = extent(x.iter().copied());
                let [a, b] = self.ends();
                [widened(lo, hi), [a - 0.05 * (b - a), b + 0.05 * (b - a)]]
            }
            Marks::Lines(lines) => {
                let points = lines.iter().flat_map(|(_, points)| points);
                let [lo, hi] = extent(points.map(|p| p[0]));
                let [a, b] = self.ends();
                [widened(lo, hi), [a - 0.05 * (b - a), b + 0.05 * (b - a)]]
            }
            Marks::Dots { groups, .. } => {
                let [a, b] = self.ends();
                let room = 0.1 * (b - a);
                // Above the highest dot there is room for the names.
                [
                    [-0.5, groups.len() as f64 - 0.5],
                    [a - room, b + 2.0 * room],
                ]
            }
        }
    }
}

/// Shows scattered points over the same axes in one frame, so that panels can be compared.
pub(super) fn share_frames(panels: &mut [Panel]) {
    let scattered = |panel: &Panel| matches!(panel.marks, Marks::Points { .. });
    let same = |a: &Panel, b: &Panel| (&a.x_label, &a.y_label) == (&b.x_label, &b.y_label);
    let frame = |own: &Panel| {
        let others = panels.iter().filter(|p| scattered(p) && same(p, own));
        let all: Vec<[[f64; 2]; 2]> = others.map(Panel::bounds).collect();
        [0, 1].map(|axis| extent(all.iter().flat_map(|bounds| bounds[axis])))
    };
    let frames = panels.iter().map(|p| scattered(p).then(|| frame(p)));
    let frames: Vec<Option<[[f64; 2]; 2]>> = frames.collect();
    for (panel, frame) in panels.iter_mut().zip(frames) {
        panel.bounds = frame.or(panel.bounds);
    }
}

/// Smallest and largest of some numbers.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[lo, hi], v| {
        [lo.min(v), hi.max(v)]
    })
}

/// Ends that differ, so that they can carry an axis.
fn widened(lo: f64, hi: f64) -> [f64; 2] {
    if !(lo.is_finite() && hi.is_finite()) {
        return [0.0, 1.0];
    }
    let least = 1e-6 * lo.abs().max(hi.abs()).max(1e-30);
    if hi - lo > least {
        [lo, hi]
    } else {
        [lo - 0.5f64.max(least), hi + 0.5f64.max(least)]
    }
}

/// The ends of the cells around sorted nodes.
fn outline(nodes: &[f64]) -> [f64; 2] {
    let edges = edges(nodes);
    [edges[0], edges[edges.len() - 1]]
}

/// Edges of the cells around sorted nodes: half-way between neighbours.
pub(super) fn edges(nodes: &[f64]) -> Vec<f64> {
    let n = nodes.len();
    if n == 1 {
        return vec![nodes[0] - 0.5, nodes[0] + 0.5];
    }
    let mut edges = vec![nodes[0] - 0.5 * (nodes[1] - nodes[0])];
    edges.extend(nodes.windows(2).map(|w| 0.5 * (w[0] + w[1])));
    edges.push(nodes[n - 1] + 0.5 * (nodes[n - 1] - nodes[n - 2]));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_over_the_same_axes_share_a_frame() {
        let panel = |x_label: &str, places: &[[f64; 2]]| Panel {
            title: String::new(),
            x_label: x_label.into(),
            y_label: "y".into(),
            marks: Marks::Points {
                places: places.to_vec(),
                values: vec![0.0; places.len()],
            },
            scale: None,
            bounds: None,
        };
        let mut panels = [
            panel("x", &[[0.0, 0.0], [1.0, 0.4]]),
            panel("x", &[[0.5, 0.3], [0.6, 1.0]]),
            panel("t", &[[0.0, 7.0], [9.0, 8.0]]),
        ];
        let alone = panels[2].bounds();
        share_frames(&mut panels);
        let [[x0, x1], [y0, y1]] = panels[0].bounds();
        assert!(x0 < 0.0 && x1 > 1.0 && y0 < 0.0 && y1 > 1.0);
        assert_eq!(panels[0].bounds(), panels[1].bounds());
        assert_eq!(panels[2].bounds(), alone);
    }
}
