//! What a dataset says of itself: the meaning of its columns and where it comes from.

use serde::{Deserialize, Serialize};

use crate::data::sample::Rows;
use crate::domain::{BoxDomain, product};
use crate::error::{Error, Result};

/// Queries of a grid at most: what a Parquet list can index.
const MOST_QUERIES: usize = i32::MAX as usize;
/// Bytes of a name or a unit at most: they stand in tables, pictures and messages.
pub(crate) const MOST_NAME: usize = 256;
/// Columns of a part at most, and groups.
const MOST_COLUMNS: usize = 1024;
const MOST_GROUPS: usize = 256;
/// Version of the file format.
pub(crate) const FORMAT: u32 = 2;

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
    /// Of a column beside the coordinates: known at a place, but no direction to go in (elevation, land use).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covariate: bool,
}

impl Channel {
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: String::new(),
            range: None,
            covariate: false,
        }
    }

    /// What makes it no column of `part`, if anything.
    fn fault(&self, part: &str) -> Option<String> {
        for (what, text) in [("name", &self.name), ("unit", &self.unit)] {
            if let Some(fault) = fault_of_name(text) {
                return Some(format!("has a column of {part} whose {what} {fault}"));
            }
        }
        let [lo, hi] = self.range?;
        let proper = (lo as f32).is_finite() && (hi as f32).is_finite() && (lo as f32) < hi as f32;
        (!proper).then(|| {
            format!(
                "gives {} of {part} the range {lo:?} to {hi:?}; a range has two finite ends that float32 tells apart, the lower one first",
                self.name
            )
        })
    }

    /// The name with its unit, for axes and tables.
    pub fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} [{unit}]", self.name),
        }
    }
}

/// Why something cannot be called this, if there is a reason.
pub(crate) fn fault_of_name(name: &str) -> Option<String> {
    if name.len() > MOST_NAME {
        let length = name.len();
        return Some(format!(
            "has {length} bytes; names and units have at most {MOST_NAME}"
        ));
    }
    let control = name.chars().any(char::is_control);
    control.then(|| format!("{name:?} has a control character, such as a line break"))
}

/// The coordinates among what is known of places; covariates come behind them.
pub(crate) fn coordinates(channels: &[Channel]) -> &[Channel] {
    let count = channels.iter().take_while(|c| !c.covariate).count();
    &channels[..count]
}

/// What the sensors of a group are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Readings of a function.
    #[default]
    Field,
    /// Sources with strengths, or samples of a density: a measure, where sums mean something and fits do not.
    Points,
    /// Parameters of the sample, which stand nowhere.
    Scalars,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Field => "field",
            Kind::Points => "points",
            Kind::Scalars => "scalars",
        }
    }
}

/// A group of sensors that read the same columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    pub kind: Kind,
    /// Coordinates, then covariates; none of scalars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coords: Vec<Channel>,
    /// None of points that are samples of a density.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Channel>,
    /// Whether readings may be missing in a column.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gaps: bool,
}

impl Group {
    /// The name of the only group of sensors where nobody gave it another.
    pub const USUAL: &'static str = "sensor";

    /// Sensors that read a function.
    pub fn field(name: impl Into<String>, coords: Vec<Channel>, values: Vec<Channel>) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Field,
            coords,
            values,
            gaps: false,
        }
    }

    /// What coordinates and values are called in files and errors.
    pub fn part_names(&self) -> [String; 2] {
        ["coords", "values"].map(|part| format!("{}_{part}", self.name))
    }

    /// The coordinates, without covariates.
    pub fn coordinates(&self) -> &[Channel] {
        coordinates(&self.coords)
    }

    /// Whether a dataset with this group alone needs no list of groups.
    fn is_usual(&self) -> bool {
        self.name == Self::USUAL && self.kind == Kind::Field
    }

    fn fault(&self) -> Option<String> {
        let name = &self.name;
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let taken = ["query", "sample", "targets"].contains(&name.as_str());
        if name.is_empty() || name.len() > 64 || !name.chars().all(word) || taken {
            return Some(format!(
                "has a group {name:?}; a group's name is a word of letters, digits, _ and -, up to 64 bytes, and none of query, sample and targets"
            ));
        }
        let located = self.kind != Kind::Scalars;
        let [coords, values] = self.part_names();
        if located && self.coordinates().is_empty() {
            return Some(format!("describes no channel of {coords}"));
        }
        if !located && !self.coords.is_empty() {
            return Some(format!("gives the scalars {name} places"));
        }
        if self.kind != Kind::Points && self.values.is_empty() {
            return Some(format!("describes no channel of {values}"));
        }
        behind_a_covariate(&self.coords).map(|c| {
            format!("has the coordinate {c} of {name} behind a covariate; covariates come last")
        })
    }
}

/// A coordinate that stands behind a covariate.
fn behind_a_covariate(channels: &[Channel]) -> Option<&str> {
    let behind = &channels[coordinates(channels).len()..];
    let coordinate = behind.iter().find(|c| !c.covariate)?;
    Some(&coordinate.name)
}

/// A matrix of a sample: what it is called, and its columns.
pub struct Part<'a> {
    pub name: String,
    pub channels: &'a [Channel],
    /// Whether numbers may be missing in it.
    pub gaps: bool,
    /// Whether its columns say where something is.
    pub places: bool,
}

/// The box of some coordinates.
pub(crate) fn domain_of(coords: &[Channel]) -> Result<BoxDomain> {
    if let Some(open) = coords.iter().find(|c| c.range.is_none()) {
        return Err(Error::Unsuitable(format!(
            "the coordinate {} never varies in the data, so its range is not known: state its ends at import",
            open.name
        )));
    }
    let ends = |k: usize| coords.iter().filter_map(move |c| Some(c.range?[k]));
    BoxDomain::new(ends(0).collect(), ends(1).collect())
}

/// Description of a dataset, stored as JSON under the key `vidon` of its Parquet file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Meta {
    pub format: u32,
    /// The problem, or the name the user gave.
    pub name: String,
    /// The groups of sensors, in the order in which samples have them.
    pub groups: Vec<Group>,
    /// Coordinates, then covariates.
    pub query_coords: Vec<Channel>,
    pub targets: Vec<Channel>,
    /// Whether targets may be missing in a column.
    pub target_gaps: bool,
    /// Where all samples are asked on one grid: its axes. The file then has no column `query_coords`; the
    /// queries are the product of the axes, last axis fastest.
    pub query_grid: Option<Vec<Vec<f64>>>,
    /// Whether the samples have names (a column `sample`).
    pub named_samples: bool,
    /// Where the data comes from; free, for people and programs.
    pub provenance: serde_json::Value,
}

/// The description as it is written: one group of sensors by its parts, several as a list.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sensor_coords: Vec<Channel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sensor_values: Vec<Channel>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sensor_gaps: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    query_coords: Vec<Channel>,
    targets: Vec<Channel>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    target_gaps: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query_grid: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    named_samples: bool,
    #[serde(default)]
    provenance: serde_json::Value,
}

impl From<Meta> for Stored {
    fn from(meta: Meta) -> Self {
        let mut groups = meta.groups;
        let usual = match &groups[..] {
            [only] if only.is_usual() => groups.pop(),
            _ => None,
        };
        let (sensor_coords, sensor_values, sensor_gaps) =
            usual.map_or_else(Default::default, |g| (g.coords, g.values, g.gaps));
        Self {
            format: meta.format,
            name: meta.name,
            sensor_coords,
            sensor_values,
            sensor_gaps,
            groups,
            query_coords: meta.query_coords,
            targets: meta.targets,
            target_gaps: meta.target_gaps,
            query_grid: meta.query_grid,
            named_samples: meta.named_samples,
            provenance: meta.provenance,
        }
    }
}

impl TryFrom<Stored> for Meta {
    type Error = String;

    fn try_from(stored: Stored) -> std::result::Result<Self, String> {
        let mut groups = stored.groups;
        let parts = [&stored.sensor_coords, &stored.sensor_values];
        let usual = parts.iter().any(|part| !part.is_empty());
        if usual && !groups.is_empty() {
            return Err("sensor_coords and sensor_values stand beside a list of groups".into());
        }
        if groups.is_empty() {
            groups.push(Group {
                gaps: stored.sensor_gaps,
                ..Group::field(Group::USUAL, stored.sensor_coords, stored.sensor_values)
            });
        }
        Ok(Self {
            format: stored.format,
            name: stored.name,
            groups,
            query_coords: stored.query_coords,
            targets: stored.targets,
            target_gaps: stored.target_gaps,
            query_grid: stored.query_grid,
            named_samples: stored.named_samples,
            provenance: stored.provenance,
        })
    }
}

impl Meta {
    /// With one group of sensors that read a function.
    pub fn new(
        name: &str,
        sensor_coords: Vec<Channel>,
        sensor_values: Vec<Channel>,
        query_coords: Vec<Channel>,
        targets: Vec<Channel>,
    ) -> Self {
        let usual = Group::field(Group::USUAL, sensor_coords, sensor_values);
        Self::of_groups(name, vec![usual], query_coords, targets)
    }

    pub fn of_groups(
        name: &str,
        groups: Vec<Group>,
        query_coords: Vec<Channel>,
        targets: Vec<Channel>,
    ) -> Self {
        Self {
            format: FORMAT,
            name: name.to_string(),
            groups,
            query_coords,
            targets,
            target_gaps: false,
            query_grid: None,
            named_samples: false,
            provenance: serde_json::Value::Null,
        }
    }

    /// The matrices of a sample that have columns, in order.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut add = |name: String, channels, gaps, places| {
            parts.push(Part {
                name,
                channels,
                gaps,
                places,
            });
        };
        for group in &self.groups {
            let [coords, values] = group.part_names();
            if !group.coords.is_empty() {
                add(coords, &group.coords[..], false, true);
            }
            if !group.values.is_empty() {
                add(values, &group.values, group.gaps, false);
            }
        }
        add("query_coords".into(), &self.query_coords, false, true);
        add("targets".into(), &self.targets, self.target_gaps, false);
        parts
    }

    /// The coordinates that sensors have: those of the first group that stands anywhere.
    pub(crate) fn space(&self) -> &[Channel] {
        let mut groups = self.groups.iter().map(Group::coordinates);
        groups.find(|c| !c.is_empty()).unwrap_or_default()
    }

    /// An error that names `both`, if `other` has other coordinates, values or targets, or has them in other
    /// units. A unit that is not stated is any.
    pub fn check_same_channels(&self, other: &Meta, both: [&str; 2]) -> Result<()> {
        let refuse = |what: String| {
            let what = format!("the data do not fit together: {what}");
            Err(Error::Unsuitable(what))
        };
        if self.outline() != other.outline() {
            let [mine, theirs] = [self, other].map(Meta::in_words);
            let [first, second] = both;
            return refuse(format!(
                "{first}: {mine}; {second}: {theirs}; import both with the same names, in the same order"
            ));
        }
        for (mine, theirs) in self.parts().iter().zip(other.parts()) {
            for (a, b) in mine.channels.iter().zip(theirs.channels) {
                let [ours, others] = [a, b].map(|c| c.unit.trim());
                if !ours.is_empty() && !others.is_empty() && ours != others {
                    return refuse(format!(
                        "{} of {} is in {ours} in {}, and in {others} in {}; numbers in one unit are wanted",
                        a.name, mine.name, both[0], both[1]
                    ));
                }
            }
        }
        Ok(())
    }

    /// What of the description has to be the same where data go together.
    fn outline(&self) -> impl PartialEq + '_ {
        let kinds: Vec<Kind> = self.groups.iter().map(|g| g.kind).collect();
        let columns = |part: Part<'_>| -> (String, Vec<String>) {
            let names = part.channels.iter().map(|c| c.name.clone());
            (part.name, names.collect())
        };
        let columns: Vec<_> = self.parts().into_iter().map(columns).collect();
        (kinds, columns)
    }

    /// Its groups and columns.
    fn in_words(&self) -> String {
        let list = |channels: &[Channel]| {
            let names: Vec<&str> = channels.iter().map(|c| c.name.as_str()).collect();
            names.join(", ")
        };
        let group = |g: &Group| {
            let (coords, values) = (list(&g.coords), list(&g.values));
            let what = match g.kind {
                Kind::Field if g.name == Group::USUAL => "sensors".to_string(),
                Kind::Field => format!("sensors {}", g.name),
                kind => format!("{} {}", kind.name(), g.name),
            };
            match g.kind {
                Kind::Field => format!("{what} at ({coords}) reading ({values})"),
                Kind::Points => format!("{what} at ({coords}) of ({values})"),
                Kind::Scalars => format!("{what} ({values})"),
            }
        };
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        let (queries, targets) = (list(&self.query_coords), list(&self.targets));
        format!("{}, targets ({targets}) at ({queries})", groups.join(", "))
    }

    /// The points of a grid with so many per axis over the box of the queries, ends included, last axis fastest.
    pub fn query_points(&self, grid: &[usize]) -> Result<Rows> {
        let axes = &self.query_coords;
        if let Some(covariate) = axes.iter().find(|c| c.covariate) {
            let what = format!(
                "the network was trained with {} at its queries, which a grid does not know; give a table of places",
                covariate.name
            );
            return Err(Error::setting("grid", what));
        }
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
        let single = |axis: &Vec<f64>| axis.iter().map(|v| *v as f32).collect();
        let axes: Vec<Vec<f32>> = self.query_grid.as_ref()?.iter().map(single).collect();
        Some(Rows::of(axes.len(), product(&axes)))
    }

    /// How many points the grid of the queries has, where there is one and its points can be counted.
    pub(crate) fn grid_points(&self) -> Option<usize> {
        let mut axes = self.query_grid.as_ref()?.iter();
        axes.try_fold(1usize, |n, axis| n.checked_mul(axis.len()))
    }

    /// What makes the description unusable, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!(
                "is of format {}; this program reads format {FORMAT}",
                self.format
            ));
        }
        if let Some(fault) = fault_of_name(&self.name) {
            return Some(format!("has a name that {fault}"));
        }
        if self.groups.is_empty() {
            return Some("describes no group of sensors".into());
        }
        if self.groups.len() > MOST_GROUPS {
            let groups = self.groups.len();
            return Some(format!("has {groups} groups, more than {MOST_GROUPS}"));
        }
        if let Some(fault) = self.groups.iter().find_map(Group::fault) {
            return Some(fault);
        }
        let names: Vec<&str> = self.groups.iter().map(|g| &g.name[..]).collect();
        if let Some(i) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
            return Some(format!("has two groups {}", names[i]));
        }
        for part in self.parts() {
            let columns = part.channels.len();
            if columns > MOST_COLUMNS {
                return Some(format!(
                    "has {columns} columns in {}, more than {MOST_COLUMNS}",
                    part.name
                ));
            }
            if let Some(fault) = part.channels.iter().find_map(|c| c.fault(&part.name)) {
                return Some(fault);
            }
            let names: Vec<&str> = part.channels.iter().map(|c| &c.name[..]).collect();
            if let Some(i) = (1..names.len()).find(|&i| names[..i].contains(&names[i])) {
                return Some(format!("has two columns {} in {}", names[i], part.name));
            }
        }
        if coordinates(&self.query_coords).is_empty() {
            return Some("describes no channel of query_coords".into());
        }
        if self.targets.is_empty() {
            return Some("describes no channel of targets".into());
        }
        if let Some(name) = behind_a_covariate(&self.query_coords) {
            return Some(format!(
                "has the coordinate {name} of the queries behind a covariate; covariates come last"
            ));
        }
        if let Some(axes) = &self.query_grid {
            let points = self.grid_points();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::small_meta;

    #[test]
    fn names_units_and_ranges_are_bounded() {
        let fault = |change: &dyn Fn(&mut Meta), words: &str| {
            let mut meta = small_meta();
            assert_eq!(meta.fault(), None);
            change(&mut meta);
            let found = meta.fault().unwrap();
            assert!(found.contains(words), "{found}");
        };
        fault(
            &|m| m.groups[0].values[0].name = "p".repeat(200_000),
            "a column of sensor_values whose name has 200000 bytes; names and units have at most 256",
        );
        fault(
            &|m| m.targets[0].unit = "K\u{1b}[2J".into(),
            "whose unit \"K\\u{1b}[2J\" has a control character",
        );
        fault(
            &|m| m.name = "a\nb".into(),
            "a name that \"a\\nb\" has a control",
        );
        fault(
            &|m| m.targets = (0..2000).map(|i| Channel::named(i.to_string())).collect(),
            "2000 columns in targets, more than 1024",
        );
        for range in [
            [1.0, 0.0],
            [1.0, 1.0],
            [f64::NAN, 1.0],
            [0.0, f64::INFINITY],
            [0.0, 1e39],
            [1e9, 1e9 + 1.0],
        ] {
            fault(
                &|m| m.groups[0].coords[0].range = Some(range),
                "two finite ends that float32 tells apart",
            );
            fault(
                &|m| m.query_coords[0].range = Some(range),
                "of query_coords the range",
            );
        }
    }

    #[test]
    fn units_that_differ_do_not_fit_together() {
        let both = ["the first", "the second"];
        let with = |unit: &str| {
            let mut meta = small_meta();
            meta.targets[1].unit = unit.into();
            meta
        };
        let check = |a: &str, b: &str| with(a).check_same_channels(&with(b), both);
        for (a, b) in [("K", "K"), ("K", ""), ("", "K"), (" K", "K ")] {
            check(a, b).unwrap();
        }
        let words = check("K", "°C").unwrap_err().to_string();
        let name = &small_meta().targets[1].name;
        assert!(
            words.contains(&format!(
                "{name} of targets is in K in the first, and in °C in the second"
            )),
            "{words}"
        );
    }

    #[test]
    fn columns_fit_by_name_and_order() {
        let both = ["the first", "the second"];
        let meta = small_meta();
        let mut turned = small_meta();
        turned.groups[0].coords.reverse();
        assert!(meta.check_same_channels(&turned, both).is_err());
        // One column that is called like two is not two.
        let [mut one, mut two] = [small_meta(), small_meta()];
        one.targets = vec![Channel::named("a, b")];
        two.targets = vec![Channel::named("a"), Channel::named("b")];
        assert!(one.check_same_channels(&two, both).is_err());
    }
}
