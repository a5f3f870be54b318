//! FNO's input: the readings on a regular grid, each with its place,
//!
//!   (u(x_i), x_i),   x_i on an evenly spaced product of one to three axes, the last one fastest.

use crate::data::{Group, Sensors};
use crate::encoders::{Encoded, Encoder, gather};
use crate::error::{Error, Result};
use crate::network::{Entry, Params, Tensor};
use crate::sensors::Layout;

pub(super) fn fault(coords: usize) -> Option<String> {
    (!(1..=3).contains(&coords)).then(|| {
        format!(
            "a grid encoder takes sensors with one to three coordinates; here they have {coords}"
        )
    })
}

#[derive(Clone, Debug)]
pub(super) struct Grid {
    outputs: usize,
}

impl Grid {
    pub fn new(group: &Group) -> Self {
        Self {
            outputs: group.coordinates().len() + group.values.len(),
        }
    }
}

impl Encoder for Grid {
    fn encode(&self, _: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        Ok(Encoded::Grid {
            shape: shape(sensors)?,
            sensors: sensors.clone(),
        })
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let sensors = || {
            batch.iter().map(|encoded| match encoded {
                Encoded::Grid { sensors, .. } => sensors,
                _ => unreachable!("made by this encoder"),
            })
        };
        let place = params.place();
        let values = place.rows(gather(sensors().map(|s| &s.values)).0);
        let coords = place.rows(gather(sensors().map(|s| &s.coords)).0);
        Tensor::cat(vec![values, coords], 1)
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn layouts(&self) -> &'static [Layout] {
        &[Layout::Regular]
    }
}

/// Points per axis of the grid on which the sensors stand.
fn shape(sensors: &Sensors) -> Result<Vec<usize>> {
    let refuse = |what: &str| {
        Err(Error::Unsuitable(format!(
            "FNO needs sensors on one regular grid, and is asked on that grid (layout regular): {what}. VIDON takes any sensors"
        )))
    };
    let (coords, count) = (&sensors.coords, sensors.len());
    let (first, axes) = (coords.row(0), coords.width());
    // From the last axis on: the points after which a coordinate before it changes.
    let (mut sizes, mut strides, mut stride) = (vec![0; axes], vec![0; axes], 1);
    for axis in (0..axes).rev() {
        let along = (0..count).step_by(stride);
        let same = |&i: &usize| coords.row(i)[..axis] == first[..axis];
        (sizes[axis], strides[axis]) = (along.take_while(same).count(), stride);
        stride *= sizes[axis];
    }
    let in_order = |i: usize| {
        let node = |axis: usize| i / strides[axis] % sizes[axis] * strides[axis];
        (0..axes).all(|axis| coords.row(i)[axis] == coords.row(node(axis))[axis])
    };
    if stride != count || !(0..count).all(in_order) {
        return refuse("the sensors are not a product of axes");
    }
    let even = |axis: usize| {
        let nodes = (0..sizes[axis]).map(|i| coords.row(i * strides[axis])[axis]);
        let nodes: Vec<f32> = nodes.collect();
        let step = (nodes[nodes.len() - 1] - nodes[0]) / (nodes.len() - 1).max(1) as f32;
        let mut gaps = nodes.windows(2).map(|w| w[1] - w[0]);
        gaps.all(|gap| (gap - step).abs() <= 1e-3 * step.abs())
    };
    match (0..axes).all(even) {
        true => Ok(sizes),
        false => refuse("the grid is not evenly spaced"),
    }
}
