//! What a dataset says of itself: the meaning of its columns and where it comes from.

use serde::{Deserialize, Serialize};

use crate::data::sample::Rows;
use crate::domain::{BoxDomain, product};
use crate::error::{Error, Result};

/// Queries of a grid at most: what a Parquet list can index.
const MOST_QUERIES: usize = i32::MAX as usize;
/// Version of the file format.
pub(crate) const FORMAT: u32 = 1;

/// One coordinate or one component of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    pub name: String,
    /// Empty where there is none.
    #[serde(default)]
    pub unit: String,
    /// Ends of the domain along a coordinate, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl Channel {
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: String::new(),
            range: None,
        }
    }

    /// The name with its unit, for axes and tables.
    pub fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} [{unit}]", self.name),
        }
    }
}

/// The box of some coordinates.
pub(crate) fn domain_of(coords: &[Channel]) -> Result<BoxDomain> {
    if let Some(open) = coords.iter().find(|c| c.range.is_none()) {
        return Err(Error::Unsuitable(format!(
            "the coordinate {} never varies in the data, so its range is not known",
            open.name
        )));
    }
    let ends = |k: usize| coords.iter().filter_map(move |c| Some(c.range?[k]));
    BoxDomain::new(ends(0).collect(), ends(1).collect())
}

/// Description of a dataset, stored as JSON under the key `vidon` of its Parquet file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    pub format: u32,
    /// The problem, or the name the user gave.
    pub name: String,
    pub sensor_coords: Vec<Channel>,
    pub sensor_values: Vec<Channel>,
    pub query_coords: Vec<Channel>,
    pub targets: Vec<Channel>,
    /// Where all samples are asked on one grid: its axes. The file then has no column `query_coords`; the
    /// queries are the product of the axes, last axis fastest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_grid: Option<Vec<Vec<f64>>>,
    /// Whether the samples have names (a column `sample`).
    #[serde(default)]
    pub named_samples: bool,
    /// Where the data comes from; free, for people and programs.
    #[serde(default)]
    pub provenance: serde_json::Value,
}

/// Widths of the four parts of a sample: d, d_v, d_y, d_u.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dims {
    pub sensor_coords: usize,
    pub sensor_values: usize,
    pub query_coords: usize,
    pub targets: usize,
}

impl From<&Meta> for Dims {
    fn from(meta: &Meta) -> Self {
        let [sensor_coords, sensor_values, query_coords, targets] = meta.widths();
        Self {
            sensor_coords,
            sensor_values,
            query_coords,
            targets,
        }
    }
}

impl Meta {
    pub fn new(
        name: &str,
        sensor_coords: Vec<Channel>,
        sensor_values: Vec<Channel>,
        query_coords: Vec<Channel>,
        targets: Vec<Channel>,
    ) -> Self {
        Self {
            format: FORMAT,
            name: name.to_string(),
            sensor_coords,
            sensor_values,
            query_coords,
            targets,
            query_grid: None,
            named_samples: false,
            provenance: serde_json::Value::Null,
        }
    }

    /// The channels of the four parts of a sample.
    pub fn channels(&self) -> [&[Channel]; 4] {
        [
            &self.sensor_coords,
            &self.sensor_values,
            &self.query_coords,
            &self.targets,
        ]
    }

    /// d, d_v, d_y and d_u.
    pub fn widths(&self) -> [usize; 4] {
        self.channels().map(<[Channel]>::len)
    }

    /// An error that names `both`, if `other` has other coordinates, values or targets.
    pub fn check_same_channels(&self, other: &Meta, both: [&str; 2]) -> Result<()> {
        let names = |meta: &Meta| {
            let parts = meta.channels().map(|channels| {
                let names: Vec<&str> = channels.iter().map(|c| c.name.as_str()).collect();
                names.join(", ")
            });
            let [coords, values, queries, targets] = parts;
            format!("sensors at ({coords}) reading ({values}), targets ({targets}) at ({queries})")
        };
        let (mine, theirs) = (names(self), names(other));
        match mine == theirs {
            true => Ok(()),
            false => Err(Error::Unsuitable(format!(
                "the data do not fit together: {}: {mine}; {}: {theirs}",
                both[0], both[1]
            ))),
        }
    }

    /// The points of a grid with so many per axis over the box of the queries, ends included, last axis fastest.
    pub fn query_points(&self, grid: &[usize]) -> Result<Rows> {
        let axes = &self.query_coords;
        if grid.len() != axes.len() || grid.iter().any(|n| *n < 2) {
            let names: Vec<&str> = axes.iter().map(|c| c.name.as_str()).collect();
            let what = format!(
                "at least 2 points along each of the {} coordinates {}",
                axes.len(),
                names.join(", ")
            );
            return Err(Error::setting("grid", what).with_value(format!("{grid:?}")));
        }
        let axes = domain_of(axes)?.axes(grid);
        Ok(Rows::of_f64(axes.len(), &product(&axes)))
    }

    /// The queries that all samples share, if they do.
    pub fn shared_queries(&self) -> Option<Rows> {
        let axes = self.query_grid.as_ref()?;
        Some(Rows::of_f64(axes.len(), &product(axes)))
    }

    /// What makes the description unusable, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!(
                "is of format {}; this program reads format {FORMAT}",
                self.format
            ));
        }
        for (part, channels) in super::Sample::PARTS.iter().zip(self.channels()) {
            if channels.is_empty() {
                return Some(format!("describes no channel of {part}"));
            }
        }
        if let Some(axes) = &self.query_grid {
            let points = axes
                .iter()
                .try_fold(1usize, |n, axis| n.checked_mul(axis.len()));
            if points.is_none_or(|n| n > MOST_QUERIES) {
                return Some(format!(
                    "has a query grid of more than {MOST_QUERIES} points"
                ));
            }
            if axes.iter().flatten().any(|v| !(*v as f32).is_finite()) {
                return Some("has a query grid with a number that is not finite".into());
            }
            if axes.len() != self.query_coords.len() || points == Some(0) {
                return Some(format!(
                    "has a query grid of {} axes for {} query coordinates, or an axis without points",
                    axes.len(),
                    self.query_coords.len()
                ));
            }
        }
        None
    }
}
