//! Boxes `[lo_1, hi_1] × … × [lo_d, hi_d]` and the Cartesian grids on them.
//!
//! Points are stored one after the other (`n × d`, row-major). On a grid the **last** axis runs fastest,
//! and both ends of every axis are grid points.

use crate::error::{Error, Result};

/// An axis-parallel box in any dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDomain {
    lo: Vec<f64>,
    hi: Vec<f64>,
}

impl BoxDomain {
    pub fn new(lo: Vec<f64>, hi: Vec<f64>) -> Result<Self> {
        let fine = !lo.is_empty()
            && lo.len() == hi.len()
            && lo
                .iter()
                .zip(&hi)
                .all(|(a, b)| a.is_finite() && b.is_finite() && a < b);
        if !fine {
            return Err(Error::setting(
                "domain",
                format!(
                    "a box needs one finite lower and upper end per axis, lower < upper; got {lo:?} and {hi:?}"
                ),
            ));
        }
        Ok(Self { lo, hi })
    }

    /// With a lower and an upper end per axis.
    pub fn between(ends: &[[f64; 2]]) -> Result<Self> {
        let side = |k: usize| ends.iter().map(|e| e[k]).collect();
        Self::new(side(0), side(1))
    }

    pub fn dim(&self) -> usize {
        self.lo.len()
    }

    pub fn lo(&self) -> &[f64] {
        &self.lo
    }

    pub fn hi(&self) -> &[f64] {
        &self.hi
    }

    /// Coordinate of node `i` of `n` on `axis`; the ends are exact.
    pub fn node(&self, axis: usize, i: usize, n: usize) -> f64 {
        if i + 1 == n {
            self.hi[axis]
        } else {
            self.lo[axis] + (self.hi[axis] - self.lo[axis]) * i as f64 / (n - 1) as f64
        }
    }

    /// The nodes of every axis of a grid.
    pub fn axes(&self, grid: &[usize]) -> Vec<Vec<f64>> {
        grid.iter()
            .enumerate()
            .map(|(axis, &n)| (0..n).map(|i| self.node(axis, i, n)).collect())
            .collect()
    }
}

/// All points of the product of `axes`, last axis fastest (`n × axes.len()`).
pub fn product<T: Copy>(axes: &[Vec<T>]) -> Vec<T> {
    let total: usize = axes.iter().map(Vec::len).product();
    let mut points = Vec::with_capacity(total * axes.len());
    let mut index = vec![0usize; axes.len()];
    for _ in 0..total {
        points.extend(index.iter().zip(axes).map(|(&i, axis)| axis[i]));
        for axis in (0..axes.len()).rev() {
            index[axis] += 1;
            if index[axis] < axes[axis].len() {
                break;
            }
            index[axis] = 0;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_has_its_ends_and_runs_last_axis_first() {
        let b = BoxDomain::new(vec![0.0, -1.0], vec![0.3, 1.0]).unwrap();
        let p = product(&b.axes(&[2, 3]));
        assert_eq!(
            p,
            [0.0, -1.0, 0.0, 0.0, 0.0, 1.0, 0.3, -1.0, 0.3, 0.0, 0.3, 1.0]
        );
    }

    #[test]
    fn senseless_boxes_are_refused() {
        for (lo, hi) in [
            (vec![], vec![]),
            (vec![0.0], vec![0.0]),
            (vec![0.0, 0.0], vec![1.0]),
            (vec![0.0], vec![f64::NAN]),
        ] {
            assert!(BoxDomain::new(lo, hi).is_err());
        }
    }
}
