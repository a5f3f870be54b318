//! One sample: groups of sensors in, targets at queries out.

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;

use crate::data::meta::{Channel, Group, Kind, Meta, fault_of_name};
use crate::error::{Error, Result};
use crate::spaces::Symmetry;

/// A matrix of `f32`, row-major: one point (or value vector) a row. A number that is missing is NaN.
#[derive(Clone, Debug)]
pub struct Rows {
    len: usize,
    width: usize,
    data: Vec<f32>,
}

/// Missing numbers are equal to each other.
impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
        (self.len, self.width) == (other.len, other.width)
            && self.data.iter().zip(&other.data).all(same)
    }
}

impl Rows {
    /// An error if `data` is not a whole number of rows.
    pub fn new(width: usize, data: Vec<f32>) -> Result<Self> {
        if width == 0 || !data.len().is_multiple_of(width) {
            let what = format!("{} numbers are no rows of {width}", data.len());
            return Err(Error::Unsuitable(what));
        }
        Ok(Self::of(width, data))
    }

    /// The same where lengths are right by construction.
    pub(crate) fn of(width: usize, data: Vec<f32>) -> Self {
        debug_assert!(width > 0 && data.len().is_multiple_of(width));
        Self {
            len: data.len() / width,
            width,
            data,
        }
    }

    /// So many rows without any number: the places of parameters, the strengths of what is only counted.
    pub fn without_columns(len: usize) -> Self {
        Self {
            len,
            width: 0,
            data: Vec::new(),
        }
    }

    pub fn from_f64(width: usize, data: &[f64]) -> Result<Self> {
        Self::new(width, data.iter().map(|&v| v as f32).collect())
    }

    pub(crate) fn of_f64(width: usize, data: &[f64]) -> Self {
        Self::of(width, data.iter().map(|&v| v as f32).collect())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// The rows; none where there are no columns.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.width.max(1))
    }

    /// The numbers of a column.
    pub fn column(&self, column: usize) -> impl Iterator<Item = f32> + '_ {
        self.iter().map(move |row| row[column])
    }

    pub fn data(&self) -> &[f32] {
        &self.data
    }

    pub(crate) fn into_data(self) -> Vec<f32> {
        self.data
    }

    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    pub fn extend(&mut self, other: &Rows) {
        assert_eq!(self.width, other.width, "rows of different width");
        self.len += other.len;
        self.data.extend_from_slice(&other.data);
    }

    /// Adds the numbers of rows of the same shape.
    pub(crate) fn add(&mut self, other: &Rows) {
        assert_eq!(
            (self.len, self.width),
            (other.len, other.width),
            "rows of another shape"
        );
        self.data
            .iter_mut()
            .zip(&other.data)
            .for_each(|(a, b)| *a += b);
    }

    /// The rows with these indices, in this order.
    pub fn select(&self, indices: &[usize]) -> Rows {
        let rows = indices.iter().flat_map(|&i| self.row(i));
        Rows {
            len: indices.len(),
            width: self.width,
            data: rows.copied().collect(),
        }
    }

    /// Some of the columns, in this order.
    pub(crate) fn columns(&self, wanted: &[usize]) -> Rows {
        let row = |row: &[f32]| wanted.iter().map(|&c| row[c]).collect::<Vec<f32>>();
        Rows {
            len: self.len,
            width: wanted.len(),
            data: self.iter().flat_map(row).collect(),
        }
    }

    /// The first so many columns.
    pub(crate) fn first_columns(&self, width: usize) -> Cow<'_, Rows> {
        match width == self.width {
            true => Cow::Borrowed(self),
            false => Cow::Owned(self.columns(&Vec::from_iter(0..width))),
        }
    }

    /// 1 where there is a number, 0 where it is missing.
    pub(crate) fn known(&self) -> Rows {
        let data = self.data.iter().map(|v| f32::from(!v.is_nan()));
        Rows {
            data: data.collect(),
            ..*self
        }
    }

    /// With 0 where a number is missing.
    pub(crate) fn without_gaps(mut self) -> Rows {
        let gaps = self.data.iter_mut().filter(|v| v.is_nan());
        gaps.for_each(|v| *v = 0.0);
        self
    }

    /// How many rows are there already, in the same bits but for the sign of zero.
    pub(crate) fn duplicates(&self) -> usize {
        let bits = |i: &u32| self.row(*i as usize).iter().map(|v| (v + 0.0).to_bits());
        let mut order: Vec<u32> = (0..self.len as u32).collect();
        order.par_sort_unstable_by(|a, b| bits(a).cmp(bits(b)));
        let pairs = order.windows(2);
        pairs
            .filter(|pair| bits(&pair[0]).eq(bits(&pair[1])))
            .count()
    }

    /// Whether a number is missing.
    pub(crate) fn has_gaps(&self) -> bool {
        self.data.iter().any(|v| v.is_nan())
    }
}

/// A group of sensors: where they stand and what they read.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensors {
    /// `m × (d + covariates)`: the coordinates, then what is known at a place besides.
    pub coords: Rows,
    /// `m × d_v`
    pub values: Rows,
}

impl Sensors {
    /// The parameters of a sample, a group without places.
    pub fn scalars(values: &[f32]) -> Self {
        Self {
            coords: Rows::without_columns(1),
            values: Rows::of(values.len().max(1), values.to_vec()),
        }
    }

    /// Takes them to their image in the box with these ends.
    pub(crate) fn transform(&mut self, symmetry: &Symmetry, ends: &[[f64; 2]]) {
        let width = self.coords.width();
        if width == 0 {
            return;
        }
        for point in self.coords.data_mut().chunks_exact_mut(width) {
            symmetry.move_point(point, ends);
        }
        symmetry.turn_sign(self.values.data_mut());
    }

    pub fn len(&self) -> usize {
        self.coords.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sensors with these indices, in this order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            coords: self.coords.select(indices),
            values: self.values.select(indices),
        }
    }

    /// With places of so many coordinates alone.
    pub(crate) fn without_covariates(&self, axes: usize) -> Cow<'_, Sensors> {
        match self.coords.first_columns(axes) {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(coords) => Cow::Owned(Self {
                coords,
                values: self.values.clone(),
            }),
        }
    }

    /// Those that report anything at all.
    pub(crate) fn reporting(self) -> Self {
        if !self.values.has_gaps() {
            return self;
        }
        let reports = |i: &usize| self.values.row(*i).iter().any(|v| !v.is_nan());
        let some: Vec<usize> = (0..self.len()).filter(reports).collect();
        self.select(&some)
    }

    /// Columns that the same sensors report, with those sensors: what is missing in one column is there in
    /// another. A column that nobody reports is in none.
    pub(crate) fn by_column(&self) -> Vec<(Vec<usize>, Cow<'_, Sensors>)> {
        let width = self.values.width();
        if !self.values.has_gaps() {
            let all = (!self.is_empty()).then(|| (Vec::from_iter(0..width), Cow::Borrowed(self)));
            return all.into_iter().collect();
        }
        let mut parts: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for column in 0..width {
            let there = self.values.column(column).enumerate();
            let there: Vec<usize> = there.filter(|(_, v)| !v.is_nan()).map(|(i, _)| i).collect();
            match parts.iter_mut().find(|(_, sensors)| *sensors == there) {
                _ if there.is_empty() => {}
                Some((columns, _)) => columns.push(column),
                None => parts.push((vec![column], there)),
            }
        }
        let part = |(columns, there): (Vec<usize>, Vec<usize>)| {
            let mut own = self.select(&there);
            own.values = own.values.columns(&columns);
            (columns, Cow::Owned(own))
        };
        parts.into_iter().map(part).collect()
    }
}

/// Groups of sensors of the input, and targets of the output function.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The user's name for it, where there is one.
    pub name: Option<String>,
    /// In the order of the description.
    pub groups: Vec<Sensors>,
    /// `q × (d_y + covariates)`; samples that are asked at the same points may share them.
    pub query_coords: Arc<Rows>,
    /// `q × d_u`
    pub targets: Rows,
}

impl Sample {
    /// With one group of sensors.
    pub fn of(coords: Rows, values: Rows, query_coords: Arc<Rows>, targets: Rows) -> Self {
        Self {
            name: None,
            groups: vec![Sensors { coords, values }],
            query_coords,
            targets,
        }
    }

    /// A question without its answer.
    pub(crate) fn asking(groups: Vec<Sensors>, query_coords: Arc<Rows>, targets: usize) -> Self {
        Self {
            name: None,
            groups,
            query_coords,
            targets: Rows {
                len: 0,
                width: targets,
                data: Vec::new(),
            },
        }
    }

    /// The matrices that have columns, in the order of [`Meta::parts`]: of every group coordinates and values,
    /// then the coordinates of the queries and the targets.
    pub fn parts(&self) -> Vec<&Rows> {
        let groups = self.groups.iter().flat_map(|g| [&g.coords, &g.values]);
        let located = groups.filter(|rows| rows.width() > 0);
        located
            .chain([&*self.query_coords, &self.targets])
            .collect()
    }

    /// What is wrong with the sample, as (part, words).
    pub fn fault(&self, meta: &Meta) -> Option<(String, String)> {
        self.fault_in_question(meta)
            .or_else(|| self.fault_in_targets(meta))
    }

    /// The same for sensors and queries alone: the targets are not looked at.
    pub(crate) fn fault_in_question(&self, meta: &Meta) -> Option<(String, String)> {
        if let Some(what) = self.name.as_deref().and_then(fault_of_name) {
            return Some(("its name".into(), what));
        }
        if self.groups.len() != meta.groups.len() {
            let what = format!("are {}, not {}", self.groups.len(), meta.groups.len());
            return Some(("its groups of sensors".into(), what));
        }
        let mut groups = self.groups.iter().zip(&meta.groups);
        let fault = groups.find_map(|(own, group)| group_fault(own, group));
        fault.or_else(|| {
            let name = "query_coords";
            match unfit_places(&self.query_coords, &meta.query_coords) {
                Some(what) => Some((name.into(), what)),
                None if self.query_coords.is_empty() => Some((
                    name.into(),
                    "is empty; a sample needs at least one query".into(),
                )),
                None => None,
            }
        })
    }

    fn fault_in_targets(&self, meta: &Meta) -> Option<(String, String)> {
        let fault = |what: String| Some(("targets".to_string(), what));
        if let Some(what) = unfit(&self.targets, meta.targets.len(), meta.target_gaps) {
            return fault(what);
        }
        let (targets, queries) = (self.targets.len(), self.query_coords.len());
        if targets != queries {
            return fault(format!(
                "has {targets} entries for {queries} queries in query_coords"
            ));
        }
        if self.targets.data().iter().all(|v| v.is_nan()) {
            return fault("are all missing; a sample needs at least one".into());
        }
        None
    }

    /// CRC-32 of the parts in order (little-endian f32, a missing number as NumPy writes NaN) and the name.
    /// `own_queries`: whether the queries are the sample's own or the dataset's.
    pub fn checksum(&self, own_queries: bool) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        let parts = self.parts();
        let queries = parts.len() - 2;
        for (i, rows) in parts.into_iter().enumerate() {
            if i == queries && !own_queries {
                continue;
            }
            for block in rows.data().chunks(1024) {
                let plain = |v: &f32| if v.is_nan() { f32::NAN } else { *v };
                let bytes: Vec<u8> = block.iter().flat_map(|v| plain(v).to_le_bytes()).collect();
                crc.update(&bytes);
            }
        }
        crc.update(self.name.as_deref().unwrap_or("").as_bytes());
        crc.finalize()
    }
}

/// What is wrong with the sensors of a group, as (part, words).
fn group_fault(own: &Sensors, group: &Group) -> Option<(String, String)> {
    let [coords, values] = group.part_names();
    let (sensors, readings) = (own.coords.len(), own.values.len());
    if let Some(what) = unfit_places(&own.coords, &group.coords) {
        return Some((coords, what));
    }
    if let Some(what) = unfit(&own.values, group.values.len(), group.gaps) {
        return Some((values, what));
    }
    // No source at all is an answer, no reading at all is none.
    if sensors == 0 && group.kind == Kind::Field {
        let what = "is empty; a sample needs at least one sensor";
        return Some((coords, what.into()));
    }
    if group.kind == Kind::Scalars && readings != 1 {
        let what = format!("has {readings} entries; parameters of a sample stand in one");
        return Some((values, what));
    }
    (readings != sensors).then(|| {
        let what = format!("has {readings} entries for {sensors} sensors in {coords}");
        (values, what)
    })
}

/// What is wrong with places of which this should be known; covariates are easily forgotten.
fn unfit_places(places: &Rows, channels: &[Channel]) -> Option<String> {
    let what = unfit(places, channels.len(), false)?;
    let forgotten = places.width() < channels.len() && channels.iter().any(|c| c.covariate);
    let names: Vec<&str> = channels.iter().map(|c| &c.name[..]).collect();
    Some(match forgotten {
        true => format!("{what}; what is known of a place is {}", names.join(", ")),
        false => what,
    })
}

/// What is wrong with rows that should be so wide and, but for gaps where there may be any, finite.
fn unfit(rows: &Rows, width: usize, gaps: bool) -> Option<String> {
    if rows.width() != width {
        let found = rows.width();
        return Some(format!("has {found} numbers a row, not {width}"));
    }
    let wrong = |v: &f32| !(v.is_finite() || gaps && v.is_nan());
    let at = rows.data().iter().position(wrong)?;
    let allowed = match gaps {
        true => "only finite numbers and gaps (NaN)",
        false => "only finite numbers",
    };
    Some(format!(
        "holds {} at entry {}, component {}; {allowed} are allowed",
        rows.data()[at],
        at / width,
        at % width
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::Channel;

    /// A sample with `m` sensors and `q` queries, d = 2, d_v = 1, d_y = 3, d_u = 2.
    pub(crate) fn small(m: usize, q: usize) -> Sample {
        let numbers = |n: usize, step: f32| (0..n).map(|i| i as f32 * step).collect::<Vec<f32>>();
        Sample::of(
            Rows::of(2, numbers(2 * m, 0.5)),
            Rows::of(1, numbers(m, -1.0)),
            Arc::new(Rows::of(3, numbers(3 * q, 0.25))),
            Rows::of(2, numbers(2 * q, 2.0)),
        )
    }

    /// What describes them.
    pub(crate) fn small_meta() -> Meta {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        Meta::new(
            "small",
            channels(&["x", "y"]),
            channels(&["a"]),
            channels(&["x", "y", "t"]),
            channels(&["u", "v"]),
        )
    }

    #[test]
    fn faults_are_found_and_named() {
        assert_eq!(small(3, 4).fault(&small_meta()), None);
        let fault = |change: &dyn Fn(&mut Sample)| {
            let mut sample = small(3, 4);
            change(&mut sample);
            let (part, what) = sample.fault(&small_meta()).expect("a fault");
            format!("{part} {what}")
        };
        let expect = |found: String, words: &str| assert!(found.contains(words), "{found}");
        expect(
            fault(&|s| s.groups[0].values = Rows::of(1, vec![0.0; 2])),
            "2 entries for 3 sensors",
        );
        expect(
            fault(&|s| s.targets.data_mut()[5] = f32::NAN),
            "targets holds NaN at entry 2, component 1",
        );
        expect(
            fault(&|s| s.groups[0].coords.data_mut()[0] = f32::INFINITY),
            "sensor_coords holds inf",
        );
        expect(fault(&|s| *s = small(0, 4)), "at least one sensor");
        expect(fault(&|s| *s = small(4, 0)), "at least one query");
        expect(
            fault(&|s| s.targets = Rows::of(1, vec![0.0; 4])),
            "has 1 numbers a row, not 2",
        );
    }

    /// Columns with the same gaps go together, and silent sensors go.
    #[test]
    fn what_a_column_lacks_another_may_have() {
        let nan = f32::NAN;
        let values = vec![1.0, nan, 4.0, 2.0, nan, 5.0, nan, nan, nan, 3.0, 7.0, 6.0];
        let sensors = Sensors {
            coords: Rows::of(1, vec![0.0, 1.0, 2.0, 3.0]),
            values: Rows::of(3, values),
        };
        let silent = sensors.clone().reporting();
        assert_eq!(silent.coords.data(), [0.0, 1.0, 3.0]);
        let parts = sensors.by_column();
        assert_eq!(parts.len(), 2);
        let (columns, own) = &parts[0];
        assert_eq!(*columns, [0, 2]);
        assert_eq!(own.coords.data(), [0.0, 1.0, 3.0]);
        assert_eq!(own.values.data(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let (columns, own) = &parts[1];
        assert_eq!((&columns[..], own.values.data()), (&[1][..], &[7.0][..]));
        // Without gaps nothing is copied.
        let whole = sensors.select(&[3]);
        assert!(matches!(&whole.by_column()[..], [(_, Cow::Borrowed(_))]));
    }

    #[test]
    fn groups_have_what_their_kind_needs() {
        let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect();
        let group = |name: &str, kind: Kind, values: &[&str]| Group {
            name: name.into(),
            kind,
            coords: match kind {
                Kind::Scalars => Vec::new(),
                _ => channels(&["x"]),
            },
            values: channels(values),
            gaps: name == "air",
        };
        let groups = vec![
            group("air", Kind::Field, &["T", "q"]),
            group("sources", Kind::Points, &["strength"]),
            group("particles", Kind::Points, &[]),
            group("run", Kind::Scalars, &["hours"]),
        ];
        let meta = Meta::of_groups("t", groups, channels(&["x"]), channels(&["u"]));
        let good = || Sample {
            name: None,
            groups: vec![
                Sensors {
                    coords: Rows::of(1, vec![0.0, 1.0]),
                    values: Rows::of(2, vec![1.0, f32::NAN, 2.0, 3.0]),
                },
                Sensors {
                    coords: Rows::of(1, vec![]),
                    values: Rows::of(1, vec![]),
                },
                Sensors {
                    coords: Rows::of(1, vec![0.5; 3]),
                    values: Rows::without_columns(3),
                },
                Sensors::scalars(&[0.7]),
            ],
            query_coords: Arc::new(Rows::of(1, vec![0.5])),
            targets: Rows::of(1, vec![2.0]),
        };
        assert_eq!(good().fault(&meta), None);
        assert_eq!(good().parts().len(), meta.parts().len());
        let expect = |change: &dyn Fn(&mut Sample), words: &str| {
            let mut sample = good();
            change(&mut sample);
            let (part, what) = sample.fault(&meta).expect("a fault");
            let found = format!("{part} {what}");
            assert!(found.contains(words), "{found}");
        };
        expect(&|s| drop(s.groups.pop()), "groups of sensors are 3, not 4");
        expect(
            &|s| s.groups[0] = s.groups[0].select(&[]),
            "air_coords is empty",
        );
        expect(
            &|s| s.groups[0].values.data_mut()[2] = f32::INFINITY,
            "air_values holds inf at entry 1, component 0; only finite numbers and gaps",
        );
        expect(
            &|s| s.groups[3].values.data_mut()[0] = f32::NAN,
            "run_values holds NaN",
        );
        expect(
            &|s| s.groups[3].values = Rows::of(1, vec![1.0, 2.0]),
            "run_values has 2 entries; parameters",
        );
        expect(
            &|s| s.groups[2].values = Rows::without_columns(2),
            "has 2 entries for 3 sensors in particles_coords",
        );
    }
}
