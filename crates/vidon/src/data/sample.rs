//! One sample: sensors in, targets at queries out.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::spaces::Symmetry;

/// A matrix of `f32`, row-major: one point (or value vector) a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    data: Vec<f32>,
}

impl Rows {
    /// An error if `data` is not a whole number of rows.
    pub fn new(width: usize, data: Vec<f32>) -> Result<Self> {
        if width == 0 || !data.len().is_multiple_of(width) {
            let what = format!("{} numbers are no rows of {width}", data.len());
            return Err(Error::Unsuitable(what));
        }
        Ok(Self { width, data })
    }

    /// The same where lengths are right by construction.
    pub(crate) fn of(width: usize, data: Vec<f32>) -> Self {
        debug_assert!(width > 0 && data.len().is_multiple_of(width));
        Self { width, data }
    }

    pub fn from_f64(width: usize, data: &[f64]) -> Result<Self> {
        Self::new(width, data.iter().map(|&v| v as f32).collect())
    }

    pub(crate) fn of_f64(width: usize, data: &[f64]) -> Self {
        Self::of(width, data.iter().map(|&v| v as f32).collect())
    }

    pub fn len(&self) -> usize {
        self.data.len() / self.width
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.width)
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
        self.data.extend_from_slice(&other.data);
    }

    /// The rows with these indices, in this order.
    pub fn select(&self, indices: &[usize]) -> Rows {
        let rows = indices.iter().flat_map(|&i| self.row(i));
        Rows {
            width: self.width,
            data: rows.copied().collect(),
        }
    }
}

/// A group of sensors: where they stand and what they read.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensors {
    /// `m × d`
    pub coords: Rows,
    /// `m × d_v`
    pub values: Rows,
}

impl Sensors {
    /// Takes them to their image in the box with these ends.
    pub(crate) fn transform(&mut self, symmetry: &Symmetry, ends: &[[f64; 2]]) {
        let width = self.coords.width();
        for point in self.coords.data_mut().chunks_exact_mut(width) {
            symmetry.move_point(point, ends);
        }
        symmetry.turn_sign(self.values.data_mut());
    }

    pub fn len(&self) -> usize {
        self.coords.len()
    }

    /// The sensors with these indices, in this order.
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            coords: self.coords.select(indices),
            values: self.values.select(indices),
        }
    }
}

/// Sensors of the input function and targets of the output function.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The user's name for it, where there is one.
    pub name: Option<String>,
    /// `m × d`
    pub sensor_coords: Rows,
    /// `m × d_v`
    pub sensor_values: Rows,
    /// `q × d_y`; samples that are asked at the same points may share them.
    pub query_coords: Arc<Rows>,
    /// `q × d_u`
    pub targets: Rows,
}

impl Sample {
    /// Names of the four parts, in the order of [`parts`](Self::parts); also the columns of a file.
    pub const PARTS: [&'static str; 4] =
        ["sensor_coords", "sensor_values", "query_coords", "targets"];

    pub fn parts(&self) -> [&Rows; 4] {
        [
            &self.sensor_coords,
            &self.sensor_values,
            &self.query_coords,
            &self.targets,
        ]
    }

    /// What is wrong with the sample, as (part, words); `widths` are those of the four parts.
    pub fn fault(&self, widths: [usize; 4]) -> Option<(&'static str, String)> {
        self.fault_in(4, widths)
    }

    /// The same for sensors and queries alone: the targets are not looked at.
    pub(crate) fn fault_in_question(&self, widths: [usize; 4]) -> Option<(&'static str, String)> {
        self.fault_in(3, widths)
    }

    /// The same for so many parts.
    fn fault_in(&self, parts: usize, widths: [usize; 4]) -> Option<(&'static str, String)> {
        let all = Self::PARTS.into_iter().zip(self.parts()).zip(widths);
        for ((name, rows), width) in all.take(parts) {
            if rows.width() != width {
                let what = format!("has {} numbers a row, not {width}", rows.width());
                return Some((name, what));
            }
            if let Some(i) = rows.data().iter().position(|v| !v.is_finite()) {
                let what = format!(
                    "holds {} at entry {}, component {}; only finite numbers are allowed",
                    rows.data()[i],
                    i / width,
                    i % width
                );
                return Some((name, what));
            }
        }
        let [sensors, values, queries, targets] = self.parts().map(Rows::len);
        if sensors == 0 {
            return Some((
                Self::PARTS[0],
                "is empty; a sample needs at least one sensor".into(),
            ));
        }
        if values != sensors {
            let what = format!("has {values} entries for {sensors} sensors in sensor_coords");
            return Some((Self::PARTS[1], what));
        }
        if queries == 0 {
            return Some((
                Self::PARTS[2],
                "is empty; a sample needs at least one query".into(),
            ));
        }
        if parts == 4 && targets != queries {
            let what = format!("has {targets} entries for {queries} queries in query_coords");
            return Some((Self::PARTS[3], what));
        }
        None
    }

    /// CRC-32 of sensor coordinates, sensor values, own query coordinates and targets (little-endian f32).
    /// `own_queries`: whether the queries are the sample's own or the dataset's.
    pub fn checksum(&self, own_queries: bool) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        for (i, rows) in self.parts().into_iter().enumerate() {
            if i == 2 && !own_queries {
                continue;
            }
            for block in rows.data().chunks(1024) {
                let bytes: Vec<u8> = block.iter().flat_map(|v| v.to_le_bytes()).collect();
                crc.update(&bytes);
            }
        }
        crc.finalize()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample with `m` sensors and `q` queries, d = 2, d_v = 1, d_y = 3, d_u = 2.
    pub(crate) fn small(m: usize, q: usize) -> Sample {
        let numbers = |n: usize, step: f32| (0..n).map(|i| i as f32 * step).collect::<Vec<f32>>();
        Sample {
            name: None,
            sensor_coords: Rows::of(2, numbers(2 * m, 0.5)),
            sensor_values: Rows::of(1, numbers(m, -1.0)),
            query_coords: Arc::new(Rows::of(3, numbers(3 * q, 0.25))),
            targets: Rows::of(2, numbers(2 * q, 2.0)),
        }
    }

    pub(crate) const WIDTHS: [usize; 4] = [2, 1, 3, 2];

    #[test]
    fn faults_are_found_and_named() {
        assert_eq!(small(3, 4).fault(WIDTHS), None);
        let fault = |change: &dyn Fn(&mut Sample)| {
            let mut sample = small(3, 4);
            change(&mut sample);
            let (part, what) = sample.fault(WIDTHS).expect("a fault");
            format!("{part} {what}")
        };
        let expect = |found: String, words: &str| assert!(found.contains(words), "{found}");
        expect(
            fault(&|s| s.sensor_values = Rows::of(1, vec![0.0; 2])),
            "2 entries for 3 sensors",
        );
        expect(
            fault(&|s| s.targets.data_mut()[5] = f32::NAN),
            "targets holds NaN at entry 2, component 1",
        );
        expect(
            fault(&|s| s.sensor_coords.data_mut()[0] = f32::INFINITY),
            "sensor_coords holds inf",
        );
        expect(fault(&|s| *s = small(0, 4)), "at least one sensor");
        expect(fault(&|s| *s = small(4, 0)), "at least one query");
        expect(
            fault(&|s| s.targets = Rows::of(1, vec![0.0; 4])),
            "has 1 numbers a row, not 2",
        );
    }
}
