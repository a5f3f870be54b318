//! What a dataset holds, in one streaming pass: counts, ranges, duplicates.

use std::fmt;

use serde_json::{Value, json};

use crate::data::meta::{Group, Kind, Meta};
use crate::data::sample::{Rows, Sample};

/// First count, last count, and how many samples have one from here to there.
type Bar = (usize, usize, usize);

/// Smallest, middle and largest of some counts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    counts: Vec<usize>,
}

impl Counts {
    fn sorted(&self) -> Vec<usize> {
        let mut sorted = self.counts.clone();
        sorted.sort_unstable();
        sorted
    }

    /// Minimum, median and maximum.
    fn min_median_max(&self) -> [usize; 3] {
        let sorted = self.sorted();
        match sorted.len() {
            0 => [0; 3],
            n => [sorted[0], sorted[(n - 1) / 2], sorted[n - 1]],
        }
    }

    /// Up to `bins` bars, of equal width over the range.
    fn histogram(&self, bins: usize) -> Vec<Bar> {
        let [lo, _, hi] = self.min_median_max();
        let width = (hi - lo + 1).div_ceil(bins.max(1));
        let mut bars: Vec<Bar> = (lo..=hi)
            .step_by(width)
            .map(|from| (from, (from + width - 1).min(hi), 0))
            .collect();
        for count in &self.counts {
            bars[(count - lo) / width].2 += 1;
        }
        bars
    }
}

/// Extremes and mean of one component.
#[derive(Clone, Debug, PartialEq)]
struct Range {
    name: String,
    min: f64,
    max: f64,
    sum: f64,
    count: usize,
    missing: usize,
}

impl Range {
    fn add(&mut self, v: f32) {
        if v.is_nan() {
            self.missing += 1;
            return;
        }
        let v = v as f64;
        self.min = self.min.min(v);
        self.max = self.max.max(v);
        self.sum += v;
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// What is known of a group of sensors that stand somewhere.
#[derive(Clone, Debug, PartialEq)]
struct Places {
    /// Of the group, in a list of all.
    group: usize,
    name: String,
    counts: Counts,
    /// Sensors that stand where another sensor of their sample stands.
    duplicates: usize,
    /// Whether every sample has the same places, in the same order.
    fixed: bool,
    first: Option<Rows>,
}

impl Places {
    fn add(&mut self, places: &Rows) {
        self.counts.counts.push(places.len());
        self.duplicates += places.duplicates();
        self.fixed &= self.first.get_or_insert_with(|| places.clone()) == places;
    }
}

/// The summary of a dataset, grown sample by sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub samples: usize,
    /// Groups of sensors that stand somewhere.
    places: Vec<Places>,
    queries: Counts,
    /// What every part is called, and what its columns hold.
    parts: Vec<(String, Vec<Range>)>,
}

impl Summary {
    pub fn new(meta: &Meta) -> Self {
        let empty = |name: String| Range {
            name,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            count: 0,
            missing: 0,
        };
        let parts = meta.parts().into_iter().map(|part| {
            let ranges = part.channels.iter().map(|c| empty(c.label()));
            (part.name, ranges.collect())
        });
        let located = meta.groups.iter().enumerate();
        let located = located.filter(|(_, g)| g.kind != Kind::Scalars);
        let places = located.map(|(group, g)| Places {
            group,
            name: match &g.name[..] {
                Group::USUAL => "sensors".into(),
                name => name.into(),
            },
            counts: Counts::default(),
            duplicates: 0,
            fixed: true,
            first: None,
        });
        Self {
            samples: 0,
            places: places.collect(),
            queries: Counts::default(),
            parts: parts.collect(),
        }
    }

    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.queries.counts.push(sample.query_coords.len());
        for ((_, ranges), rows) in self.parts.iter_mut().zip(sample.parts()) {
            for row in rows.iter() {
                let pairs = ranges.iter_mut().zip(row);
                pairs.for_each(|(range, v)| range.add(*v));
            }
        }
        for places in &mut self.places {
            places.add(&sample.groups[places.group].coords);
        }
    }

    /// Whether every sample has the same sensors at the same places, in the same order.
    pub fn fixed_sensors(&self) -> bool {
        self.places.iter().all(|p| p.fixed)
    }

    /// Sensors that stand where another one of their sample and group stands.
    pub fn duplicate_sensors(&self) -> usize {
        self.places.iter().map(|p| p.duplicates).sum()
    }

    /// How many samples have how many sensors, group by group: up to `bins` bars as (first count, last count,
    /// samples).
    pub fn sensor_histograms(&self, bins: usize) -> Vec<(&str, Vec<Bar>)> {
        let all = self.places.iter();
        all.map(|p| (&p.name[..], p.counts.histogram(bins)))
            .collect()
    }

    /// Numbers of a column that are missing, over all columns.
    pub fn missing(&self) -> usize {
        let ranges = self.parts.iter().flat_map(|(_, ranges)| ranges);
        ranges.map(|r| r.missing).sum()
    }

    pub fn to_json(&self) -> Value {
        let counts = |c: &Counts| {
            let [min, median, max] = c.min_median_max();
            json!({ "min": min, "median": median, "max": max })
        };
        let range = |r: &Range| json!({ "name": r.name, "min": r.min, "mean": r.mean(), "max": r.max, "missing": r.missing });
        let ranges = self.parts.iter();
        let ranges = ranges.map(|(part, all)| (part.clone(), all.iter().map(range).collect()));
        let sensors = self.places.iter();
        let sensors = sensors.map(|p| (p.name.clone(), counts(&p.counts)));
        json!({
            "samples": self.samples,
            "sensors": match &self.places[..] {
                [only] => counts(&only.counts),
                _ => Value::Object(sensors.collect()),
            },
            "queries": counts(&self.queries),
            "fixed_sensors": self.fixed_sensors(),
            "duplicate_sensors": self.duplicate_sensors(),
            "ranges": Value::Object(ranges.collect()),
        })
    }
}

/// A few lines for people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{:<10} {}", "samples", grouped(self.samples))?;
        let sensors = self.places.iter().map(|p| (&p.name[..], &p.counts));
        for (name, counts) in sensors.chain([("queries", &self.queries)]) {
            let [min, median, max] = counts.min_median_max().map(grouped);
            match min == max {
                true => writeln!(f, "{name:<10} {min} in every sample")?,
                false => writeln!(
                    f,
                    "{name:<10} {min} / {median} / {max} per sample (min / median / max)"
                )?,
            }
        }
        for own in self.places.iter().filter(|_| self.samples > 1) {
            let places = match own.fixed {
                true => "the same in every sample",
                false => "change from sample to sample",
            };
            match self.places.len() {
                1 => writeln!(f, "{:<10} {places}", "places")?,
                _ => writeln!(f, "{:<10} of {} {places}", "places", own.name)?,
            }
        }
        let duplicates = self.duplicate_sensors();
        if duplicates > 0 {
            let s = if duplicates == 1 { "" } else { "s" };
            writeln!(
                f,
                "{:<10} {} sensor{s} at a place that their sample has already",
                "duplicates",
                grouped(duplicates)
            )?;
        }
        let gaps = self.missing() > 0;
        let head = |f: &mut fmt::Formatter, cells: [&str; 6]| {
            let [part, component, min, mean, max, missing] = cells;
            write!(
                f,
                "\n{part:<16} {component:<16} {min:>12} {mean:>12} {max:>12}"
            )?;
            match gaps {
                true => write!(f, " {missing:>12}"),
                false => Ok(()),
            }
        };
        head(f, ["part", "component", "min", "mean", "max", "missing"])?;
        for (part, ranges) in &self.parts {
            for range in ranges {
                let [min, mean, max] = [range.min, range.mean(), range.max].map(short);
                let missing = grouped(range.missing);
                head(f, [part, &range.name, &min, &mean, &max, &missing])?;
            }
        }
        Ok(())
    }
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

/// 12345 as `12 345`.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let gap = |i: usize| i > 0 && (digits.len() - i).is_multiple_of(3);
    let spaced = digits.char_indices();
    spaced
        .flat_map(|(i, d)| gap(i).then_some(' ').into_iter().chain([d]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::{small, small_meta};

    #[test]
    fn counts_ranges_and_duplicates() {
        let mut summary = Summary::new(&small_meta());
        let mut doubled = small(4, 2);
        doubled.groups[0].coords = Rows::of(2, vec![0.0, 1.0, 2.0, 3.0, -0.0, 1.0, 4.0, 5.0]);
        for sample in [small(2, 3), doubled, small(9, 1)] {
            summary.add(&sample);
        }
        assert_eq!(summary.samples, 3);
        assert_eq!(summary.places[0].counts.min_median_max(), [2, 4, 9]);
        assert_eq!(summary.duplicate_sensors(), 1);
        assert!(!summary.fixed_sensors());
        let a = &summary.parts[1].1[0];
        assert_eq!((a.name.as_str(), a.min, a.max), ("a", -8.0, 0.0));
        assert_eq!(
            summary.sensor_histograms(4)[0].1,
            [(2, 3, 1), (4, 5, 1), (6, 7, 0), (8, 9, 1)]
        );
        assert_eq!(
            summary
                .queries
                .histogram(10)
                .iter()
                .map(|b| b.2)
                .sum::<usize>(),
            3
        );
    }
}
