//! Panels as PNG or SVG (by the file's ending), with axes of equal scale and a colour bar each.

use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::{Error, Result};
use crate::files::{ending, write_file};
use crate::plot::labels::{drawable, label_digits, number};
use crate::plot::panel::{Marks, Panel, edges};

/// Pixels of one panel, its colour bar included.
const PANEL: (u32, u32) = (800, 700);
/// How many times as long as high, or as high as long, a box is drawn at most.
const LONGEST: f64 = 3.0;
const TITLE: u32 = 64;
/// Room for the labels left of and below the axes, and for the colour bar on the right.
const LEFT: u32 = 116;
/// White left of the vertical axis' name.
const MARGIN: u32 = 10;
const BELOW: u32 = 76;
const BAR: u32 = 150;
const EDGE: u32 = 24;
/// Largest picture per axis; beyond it a PNG would not open in common viewers.
const MOST_PIXELS: u32 = 32_000;

/// Draws panels in rows of `columns` and writes them to a `.png` or `.svg`.
pub(super) fn draw(path: &Path, panels: &[Panel], columns: usize) -> Result<()> {
    let columns = columns.clamp(1, panels.len().max(1));
    let heights: Vec<u32> = panels.chunks(columns).map(row_height).collect();
    let size = (PANEL.0 * columns as u32, heights.iter().sum());
    if size.0.max(size.1) > MOST_PIXELS {
        return Err(Error::Unsuitable(format!(
            "{} panels are too many for one picture",
            panels.len()
        )));
    }
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        let bytes = include_bytes!("../../assets/DejaVuSans-subset.ttf");
        for style in [FontStyle::Normal, FontStyle::Bold] {
            let _ = register_font("sans-serif", style, bytes);
        }
    });
    let failed = |e: String| Error::data(path, format!("the picture cannot be drawn: {e}"));
    match ending(path, "pictures", &ENDINGS)? {
        "png" => {
            let mut pixels = vec![0u8; (size.0 * size.1 * 3) as usize];
            let backend = BitMapBackend::with_buffer(&mut pixels, size);
            draw_all(backend.into_drawing_area(), panels, &heights, columns).map_err(failed)?;
            write_file(path, |out| {
                let mut encoder = png::Encoder::new(out, size.0, size.1);
                encoder.set_color(png::ColorType::Rgb);
                let mut writer = encoder.write_header()?;
                writer.write_image_data(&pixels)?;
                writer.finish()?;
                Ok(())
            })
        }
        _ => {
            let mut text = String::new();
            let backend = SVGBackend::with_string(&mut text, size);
            draw_all(backend.into_drawing_area(), panels, &heights, columns).map_err(failed)?;
            write_file(path, |out| out.write_all(text.as_bytes()))
        }
    }
}

/// What a file of a picture may end with.
pub(super) const ENDINGS: [&str; 2] = ["png", "svg"];

type Drawing<T> = std::result::Result<T, String>;

fn draw_all<B: DrawingBackend>(
    area: DrawingArea<B, Shift>,
    panels: &[Panel],
    heights: &[u32],
    columns: usize,
) -> Drawing<()> {
    let words = |e: DrawingAreaErrorKind<B::ErrorType>| e.to_string();
    area.fill(&WHITE).map_err(words)?;
    let mut below = area.clone();
    for (row, height) in panels.chunks(columns).zip(heights) {
        let (own, rest) = below.split_vertically(*height);
        for (cell, panel) in own.split_evenly((1, columns)).iter().zip(row) {
            draw_panel(cell, panel, *height).map_err(words)?;
        }
        below = rest;
    }
    area.present().map_err(words)
}

/// Pixels of a row of panels: as many as its highest needs.
fn row_height(row: &[Panel]) -> u32 {
    let highest = row.iter().map(|panel| plot_size(panel).1).max();
    TITLE + BELOW + highest.unwrap_or(0)
}

/// Whether a panel has a colour bar; the others are curves.
fn coloured(panel: &Panel) -> bool {
    matches!(panel.marks, Marks::Points { .. } | Marks::Image { .. })
}

/// Width and height of a panel's plot: the largest rectangle of the right proportions that it has room for.
/// Very long or high boxes are shown shorter.
fn plot_size(panel: &Panel) -> (u32, u32) {
    let bar = if coloured(panel) { BAR } else { EDGE };
    let (width, height) = (PANEL.0 - LEFT - bar, PANEL.1 - TITLE - BELOW);
    if !coloured(panel) {
        return (width, height);
    }
    let [[x0, x1], [y0, y1]] = panel.bounds();
    let steepness = ((y1 - y0) / (x1 - x0)).clamp(1.0 / LONGEST, LONGEST);
    let fitted = (width as f64).min(height as f64 / steepness);
    (fitted.round() as u32, (fitted * steepness).round() as u32)
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
    room: u32,
) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let [[x0, x1], [y0, y1]] = panel.bounds();
    let logarithmic = matches!(panel.marks, Marks::Lines(_) | Marks::Dots { .. });
    let coloured = coloured(panel);
    let (width, height) = plot_size(panel);
    let (right, bottom) = (PANEL.0 - LEFT - width, room - TITLE - BELOW - height);
    let font = |size: u32| ("sans-serif", size).into_font();
    area.margin(14, 0, 0, 0)
        .titled(&drawable(&panel.title), font(28))?;
    let frame = area.margin(TITLE, bottom, MARGIN, right);
    let mut chart = ChartBuilder::on(&frame)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT - MARGIN)
        .build_cartesian_2d(x0..x1, y0..y1)?;
    let (x_digits, y_digits) = (label_digits(x0, x1), label_digits(y0, y1));
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|v| match &panel.marks {
            Marks::Dots { groups, .. } => {
                let group = groups.get(v.round() as usize);
                let name = group.filter(|_| (v - v.round()).abs() < 1e-6);
                name.copied().unwrap_or_default().to_string()
            }
            _ => number(*v, x_digits),
        })
        .y_label_formatter(&|v| match logarithmic {
            true => power(*v),
            false => number(*v, y_digits),
        })
        .x_desc(drawable(&panel.x_label))
        .y_desc(drawable(&panel.y_label))
        .label_style(font(21))
        .axis_desc_style(font(23))
        .draw()?;

    let ends = panel.ends();
    match &panel.marks {
        Marks::Points { places, values } => {
            let radius = (0.28 * ((width * height) as f64 / places.len().max(1) as f64).sqrt())
                .clamp(2.0, 10.0);
            let circle = |(p, v): (&[f64; 2], &f64)| {
                Circle::new(
                    (p[0], p[1]),
                    radius.round() as i32,
                    colour(*v, ends).filled(),
                )
            };
            chart.draw_series(places.iter().zip(values).map(circle))?;
        }
        Marks::Image { x, y, values } => {
            let (xs, ys) = (edges(x), edges(y));
            let cells = values.iter().enumerate().map(|(k, v)| {
                let (i, j) = (k / y.len(), k % y.len());
                Rectangle::new(
                    [(xs[i], ys[j]), (xs[i + 1], ys[j + 1])],
                    colour(*v, ends).filled(),
                )
            });
            chart.draw_series(cells)?;
        }
        Marks::Lines(lines) => {
            for (i, (_, points)) in lines.iter().enumerate() {
                let seen = points.iter().filter(|p| p[1] > 0.0);
                let line = seen.map(|p| (p[0], p[1].log10()));
                chart.draw_series(LineSeries::new(line, ink(i).stroke_width(3)))?;
            }
            draw_names(area, lines.iter().map(|l| &l.0[..]))?;
        }
        Marks::Dots { series, .. } => {
            for (i, (_, pairs)) in series.iter().enumerate() {
                // Side by side around the middle of the group.
                let shift = 0.6 * ((i as f64 + 0.5) / series.len() as f64 - 0.5);
                for (place, [own, other]) in pairs.iter().enumerate() {
                    let dot = |v: f64, style: ShapeStyle| {
                        Circle::new((place as f64 + shift, v.log10()), 8, style)
                    };
                    let hollow = other.map(|v| dot(v, ink(i).stroke_width(2)));
                    let filled = own.map(|v| dot(v, ink(i).filled()));
                    chart.draw_series(hollow.into_iter().chain(filled))?;
                }
            }
            draw_names(area, series.iter().map(|s| &s.0[..]))?;
        }
        Marks::Curve { x, values } => {
            let mut points: Vec<(f64, f64)> =
                x.iter().copied().zip(values.iter().copied()).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let blue = RGBColor(49, 104, 142);
            chart.draw_series(LineSeries::new(points.iter().copied(), blue.mix(0.5)))?;
            chart.draw_series(points.iter().map(|&p| Circle::new(p, 5, blue.filled())))?;
        }
    }
    if coloured {
        draw_bar(area, LEFT + width + 24, height, ends)?;
    }
    Ok(())
}

/// The names of lines or dots in their colours, along the top of the plot.
fn draw_names<'a, B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let step = ((PANEL.0 - LEFT - EDGE) as i32 / names.len().max(1) as i32).min(240);
    for (i, name) in names.enumerate() {
        let at = ((LEFT + 16) as i32 + step * i as i32, (TITLE + 16) as i32);
        let style = ("sans-serif", 21).into_font().color(&ink(i));
        area.draw(&Text::new(drawable(name), at, style))?;
    }
    Ok(())
}

/// The colour of a line.
fn ink(i: usize) -> RGBColor {
    const INKS: [RGBColor; 6] = [
        RGBColor(49, 104, 142),
        RGBColor(200, 80, 40),
        RGBColor(53, 150, 90),
        RGBColor(110, 60, 150),
        RGBColor(190, 150, 20),
        RGBColor(90, 90, 90),
    ];
    INKS[i % INKS.len()]
}

/// 10^v in few characters.
fn power(v: f64) -> String {
    let value = 10f64.powf(v);
    if (1e-3..1e4).contains(&value) {
        let digits = (1.0 - v.floor()).max(0.0) as usize;
        format!("{value:.digits$}")
    } else {
        format!("{value:.1e}")
    }
}

/// The colour bar: its left end at `x`, as high as the plot.
fn draw_bar<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    x: u32,
    height: u32,
    ends: [f64; 2],
) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    const WIDTH: i32 = 24;
    let (x, top, height) = (x as i32, TITLE as i32, height as i32);
    for line in 0..height {
        let share = 1.0 - (line as f64 + 0.5) / height as f64;
        let value = ends[0] + share * (ends[1] - ends[0]);
        let rectangle = [(x, top + line), (x + WIDTH, top + line + 1)];
        area.draw(&Rectangle::new(rectangle, colour(value, ends).filled()))?;
    }
    area.draw(&Rectangle::new(
        [(x, top), (x + WIDTH, top + height)],
        BLACK,
    ))?;
    let digits = label_digits(ends[0], ends[1]);
    let style = ("sans-serif", 21).into_font().color(&BLACK);
    for tick in 0..=4 {
        let share = tick as f64 / 4.0;
        let y = top + height - (share * height as f64).round() as i32;
        area.draw(&PathElement::new(
            [(x + WIDTH, y), (x + WIDTH + 7, y)],
            BLACK,
        ))?;
        let label = number(ends[0] + share * (ends[1] - ends[0]), digits);
        area.draw(&Text::new(label, (x + WIDTH + 12, y - 11), style.clone()))?;
    }
    Ok(())
}

fn colour(value: f64, ends: [f64; 2]) -> RGBColor {
    let share = ((value - ends[0]) / (ends[1] - ends[0])).clamp(0.0, 1.0);
    ViridisRGB.get_color(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(marks: Marks) -> Panel {
        Panel {
            title: "τ".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            marks,
            scale: None,
            bounds: None,
        }
    }

    fn all_kinds() -> Vec<Panel> {
        let points = Marks::Points {
            places: vec![[0.0, 0.0], [2.0, 1.0]],
            values: vec![1.0, 2.0],
        };
        let image = Marks::Image {
            x: vec![0.0, 1.0],
            y: vec![0.0, 1.0, 2.0],
            values: vec![0.0; 6],
        };
        let curve = Marks::Curve {
            x: vec![1.0, 0.0],
            values: vec![3.0, 4.0],
        };
        let alone = Marks::Points {
            places: vec![[5.0, 5.0]],
            values: vec![7.0],
        };
        let dots = Marks::Dots {
            groups: vec!["a", "b"],
            series: vec![("ours".into(), vec![[Some(0.1), Some(2.0)], [None, None]])],
        };
        [points, image, curve, alone, dots].map(panel).to_vec()
    }

    #[test]
    fn long_boxes_leave_no_blank_below_them() {
        let over = |corner: [f64; 2]| Panel {
            marks: Marks::Points {
                places: vec![[0.0, 0.0], corner],
                values: vec![0.0, 1.0],
            },
            ..all_kinds().remove(0)
        };
        let (wide, square) = (plot_size(&over([2.0, 1.0])), plot_size(&over([1.0, 1.0])));
        assert_eq!(wide.0, 2 * wide.1);
        assert_eq!(square.0, square.1);
        let strip = plot_size(&over([1000.0, 1.0]));
        assert_eq!(strip.0, 3 * strip.1);
        let heights = [[1.0, 1.0], [2.0, 1.0]].map(|corner| row_height(&[over(corner)]));
        assert_eq!(heights.map(|h| h - TITLE - BELOW), [square.1, wide.1]);
    }

    #[test]
    fn pictures_of_every_kind_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let png_path = folder.path().join("a.png");
        draw(&png_path, &all_kinds(), 2).unwrap();
        let file = std::io::BufReader::new(std::fs::File::open(&png_path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        assert_eq!(reader.info().size(), (2 * PANEL.0, 3 * PANEL.1));
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let yellow = ViridisRGB.get_color(1.0);
        let shown = pixels
            .chunks(3)
            .filter(|p| **p == [yellow.0, yellow.1, yellow.2])
            .count();
        assert!(
            shown > 50,
            "the largest value is drawn in the brightest colour"
        );
        let svg_path = folder.path().join("a.svg");
        draw(&svg_path, &all_kinds(), 4).unwrap();
        assert!(
            std::fs::read_to_string(&svg_path)
                .unwrap()
                .contains("</svg>")
        );
    }

    #[test]
    fn other_endings_and_endless_figures_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = draw(&folder.path().join("a.jpg"), &all_kinds(), 1).unwrap_err();
        assert!(error.to_string().contains(".png or .svg"));
        let many: Vec<Panel> = (0..100).flat_map(|_| all_kinds()).collect();
        assert!(draw(&folder.path().join("a.png"), &many, 1).is_err());
    }

    #[test]
    fn labels_have_the_digits_their_range_needs() {
        let label = |v, lo, hi| number(v, label_digits(lo, hi));
        assert_eq!(label(0.25, 0.0, 1.0), "0.25");
        assert_eq!(label(0.05, 0.05, 0.05), "0.0500");
        assert_eq!(label(0.0, 0.0, 0.0), "0.00");
        assert_eq!(label(-0.0001, -1.0, 1.0), "0.00");
        assert_eq!(label(12.3, 0.0, 30.0), "12.3");
        assert_eq!(label(0.00012, 0.0, 0.0002), "1.20e-4");
        assert_eq!(label(250000.0, 0.0, 1e6), "250000");
        assert_eq!(label(2.5e8, 0.0, 1e9), "2.50e8");
        assert_eq!(label(101325.0, 101300.0, 101400.0), "101325");
        assert_eq!(label(1.0e9 + 25.0, 1.0e9, 1.0e9 + 100.0), "1.0000000250e9");
        assert_eq!(drawable("T [°C] 温, ∂τ/∂x"), "T [°C] ?, ∂τ/∂x");
    }
}
