//! Functions as the problems know them: on a grid of nodes, or exactly, everywhere.

use crate::domain::{BoxDomain, product};
use crate::error::{Error, Result};

/// A scalar function of space (or space-time) that can be asked for values.
pub trait Field: Send + Sync {
    /// Number of coordinates of a point.
    fn dim(&self) -> usize;

    /// Values at `points` (`n × dim`).
    fn at(&self, points: &[f64]) -> Result<Vec<f32>>;

    /// Values on the product of `axes`, last axis fastest.
    fn on_axes(&self, axes: &[Vec<f64>]) -> Result<Vec<f32>> {
        self.at(&product(axes))
    }
}

/// A function given by its formula: the number of coordinates, and the value at a point.
pub struct Formula<F: Fn(&[f64]) -> f64>(pub usize, pub F);

impl<F: Fn(&[f64]) -> f64 + Send + Sync> Field for Formula<F> {
    fn dim(&self) -> usize {
        self.0
    }

    fn at(&self, points: &[f64]) -> Result<Vec<f32>> {
        Ok(points.chunks(self.0).map(|p| (self.1)(p) as f32).collect())
    }
}

/// A function known at the nodes of a grid (ends included) and nowhere else.
pub struct GridField {
    domain: BoxDomain,
    nodes: Vec<usize>,
    values: Vec<f32>,
}

impl GridField {
    /// On a box with these ends; `values` has one entry a node, last axis fastest.
    pub fn new(ends: &[[f64; 2]], nodes: Vec<usize>, values: Vec<f32>) -> Result<Self> {
        let domain = BoxDomain::between(ends)?;
        let points = nodes.iter().try_fold(1usize, |n, &k| n.checked_mul(k));
        if nodes.len() != domain.dim()
            || nodes.iter().any(|n| *n < 2)
            || points != Some(values.len())
        {
            let what = format!(
                "{} values on a grid of {nodes:?} nodes in {} dimensions",
                values.len(),
                domain.dim()
            );
            return Err(Error::Unsuitable(what));
        }
        Ok(Self {
            domain,
            nodes,
            values,
        })
    }

    fn node(&self, axis: usize, x: f64) -> Option<usize> {
        let (lo, hi) = (self.domain.lo()[axis], self.domain.hi()[axis]);
        let cells = (self.nodes[axis] - 1) as f64;
        let at = (x - lo) / (hi - lo) * cells;
        let near = at.round();
        ((at - near).abs() < 1e-4 && (0.0..=cells).contains(&near)).then_some(near as usize)
    }
}

impl Field for GridField {
    fn dim(&self) -> usize {
        self.domain.dim()
    }

    fn at(&self, points: &[f64]) -> Result<Vec<f32>> {
        let value = |point: &[f64]| {
            point
                .iter()
                .enumerate()
                .try_fold(0, |place, (axis, &x)| {
                    Some(place * self.nodes[axis] + self.node(axis, x)?)
                })
                .map(|place| self.values[place])
                .ok_or_else(|| {
                    Error::Unsuitable(format!(
                        "the point {point:?} is not a node of the {:?} grid on which this field is known",
                        self.nodes
                    ))
                })
        };
        points.chunks(self.dim()).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_field_knows_its_nodes_and_refuses_other_points() {
        let field = GridField::new(
            &[[0.0, 2.0]; 2],
            vec![2, 3],
            vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        )
        .unwrap();
        assert_eq!(field.at(&[2.0, 1.0, 0.0, 2.0]).unwrap(), [4.0, 2.0]);
        assert_eq!(
            field.on_axes(&[vec![2.0], vec![0.0, 1.0, 2.0]]).unwrap(),
            [3.0, 4.0, 5.0]
        );
        for off in [[0.5, 0.0], [0.0, 3.0], [f64::NAN, 0.0]] {
            assert!(field.at(&off).is_err());
        }
    }
}
