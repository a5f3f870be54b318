//! What a dataset holds, in one streaming pass: counts, ranges, duplicates.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

use crate::data::meta::Meta;
use crate::data::sample::{Rows, Sample};

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

    /// Up to `bins` bars as (first count, last count, samples), of equal width over the range.
    fn histogram(&self, bins: usize) -> Vec<(usize, usize, usize)> {
        let [lo, _, hi] = self.min_median_max();
        let width = (hi - lo + 1).div_ceil(bins.max(1));
        let mut bars: Vec<(usize, usize, usize)> = (lo..=hi)
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
}

impl Range {
    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// The summary of a dataset, grown sample by sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub samples: usize,
    sensors: Counts,
    queries: Counts,
    /// Of the components of the four parts.
    ranges: [Vec<Range>; 4],
    /// Sensors that stand where another sensor of their sample stands.
    pub duplicate_sensors: usize,
    /// Whether every sample has the same sensor places, in the same order.
    pub fixed_sensors: bool,
    first_places: Option<Rows>,
}

impl Summary {
    pub fn new(meta: &Meta) -> Self {
        let ranges = meta.channels().map(|channels| {
            let empty = |name: String| Range {
                name,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
                sum: 0.0,
                count: 0,
            };
            channels.iter().map(|c| empty(c.label())).collect()
        });
        Self {
            samples: 0,
            sensors: Counts::default(),
            queries: Counts::default(),
            ranges,
            duplicate_sensors: 0,
            fixed_sensors: true,
            first_places: None,
        }
    }

    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.sensors.counts.push(sample.sensor_coords.len());
        self.queries.counts.push(sample.query_coords.len());
        for (ranges, rows) in self.ranges.iter_mut().zip(sample.parts()) {
            for row in rows.iter() {
                for (range, &v) in ranges.iter_mut().zip(row) {
                    let v = v as f64;
                    range.min = range.min.min(v);
                    range.max = range.max.max(v);
                    range.sum += v;
                    range.count += 1;
                }
            }
        }
        let places = &sample.sensor_coords;
        let distinct: HashSet<Vec<u32>> = places
            .iter()
            .map(|p| p.iter().map(|x| (x + 0.0).to_bits()).collect())
            .collect();
        self.duplicate_sensors += places.len() - distinct.len();
        self.fixed_sensors &= self.first_places.get_or_insert_with(|| places.clone()) == places;
    }

    /// How many samples have how many sensors: up to `bins` bars as (first count, last count, samples).
    pub fn sensor_histogram(&self, bins: usize) -> Vec<(usize, usize, usize)> {
        self.sensors.histogram(bins)
    }

    pub fn to_json(&self) -> Value {
        let counts = |c: &Counts| {
            let [min, median, max] = c.min_median_max();
            json!({ "min": min, "median": median, "max": max })
        };
        let range =
            |r: &Range| json!({ "name": r.name, "min": r.min, "mean": r.mean(), "max": r.max });
        let parts = Sample::PARTS.iter().zip(&self.ranges);
        let ranges = parts.map(|(part, all)| (part.to_string(), all.iter().map(range).collect()));
        json!({
            "samples": self.samples,
            "sensors": counts(&self.sensors),
            "queries": counts(&self.queries),
            "fixed_sensors": self.fixed_sensors,
            "duplicate_sensors": self.duplicate_sensors,
            "ranges": Value::Object(ranges.collect()),
        })
    }
}

/// A few lines for people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{:<10} {}", "samples", grouped(self.samples))?;
        for (name, counts) in [("sensors", &self.sensors), ("queries", &self.queries)] {
            let [min, median, max] = counts.min_median_max().map(grouped);
            match min == max {
                true => writeln!(f, "{name:<10} {min} in every sample")?,
                false => writeln!(
                    f,
                    "{name:<10} {min} / {median} / {max} per sample (min / median / max)"
                )?,
            }
        }
        let places = match self.fixed_sensors {
            true => "the same in every sample",
            false => "change from sample to sample",
        };
        if self.samples > 1 {
            writeln!(f, "{:<10} {places}", "places")?;
        }
        if self.duplicate_sensors > 0 {
            let (n, s) = (
                grouped(self.duplicate_sensors),
                if self.duplicate_sensors == 1 { "" } else { "s" },
            );
            writeln!(
                f,
                "{:<10} {n} sensor{s} at a place that their sample has already",
                "duplicates"
            )?;
        }
        write!(
            f,
            "\n{:<16} {:<16} {:>12} {:>12} {:>12}",
            "part", "component", "min", "mean", "max"
        )?;
        for (part, ranges) in Sample::PARTS.iter().zip(&self.ranges) {
            for range in ranges {
                let [min, mean, max] = [range.min, range.mean(), range.max].map(short);
                write!(
                    f,
                    "\n{part:<16} {:<16} {min:>12} {mean:>12} {max:>12}",
                    range.name
                )?;
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
    use crate::data::Channel;
    use crate::data::sample::tests::small;

    fn meta() -> Meta {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        Meta::new(
            "t",
            channels(&["x", "y"]),
            channels(&["a"]),
            channels(&["x", "y", "t"]),
            channels(&["u", "v"]),
        )
    }

    #[test]
    fn counts_ranges_and_duplicates() {
        let mut summary = Summary::new(&meta());
        let mut doubled = small(4, 2);
        doubled.sensor_coords = Rows::of(2, vec![0.0, 1.0, 2.0, 3.0, -0.0, 1.0, 4.0, 5.0]);
        for sample in [small(2, 3), doubled, small(9, 1)] {
            summary.add(&sample);
        }
        assert_eq!(summary.samples, 3);
        assert_eq!(summary.sensors.min_median_max(), [2, 4, 9]);
        assert_eq!(summary.duplicate_sensors, 1);
        assert!(!summary.fixed_sensors);
        let a = &summary.ranges[1][0];
        assert_eq!((a.name.as_str(), a.min, a.max), ("a", -8.0, 0.0));
        assert_eq!(
            summary.sensors.histogram(4),
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
