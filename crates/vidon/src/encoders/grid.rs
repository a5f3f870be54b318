//! FNO's input: the readings on a regular grid, each with its place,
//!
//!   (u(x_i), x_i),   x_i on an evenly spaced product of two axes, the last one fastest.

use crate::data::Sensors;
use crate::encoders::{Encoded, Encoder, gather};
use crate::error::{Error, Result};
use crate::network::{Entry, Params, Tensor};
use crate::sensors::Layout;

pub(super) fn fault(coords: usize) -> Option<String> {
    (coords != 2).then(|| {
        format!("a grid encoder takes sensors with two coordinates; here they have {coords}")
    })
}

#[derive(Clone, Debug)]
pub(super) struct Grid {
    outputs: usize,
}

impl Grid {
    pub fn new(coords: usize, values: usize) -> Self {
        Self {
            outputs: coords + values,
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
fn shape(sensors: &Sensors) -> Result<[usize; 2]> {
    let refuse = |what: &str| {
        Err(Error::Unsuitable(format!(
            "FNO needs sensors on one regular grid, and is asked on that grid (layout regular): {what}. VIDON takes any sensors"
        )))
    };
    let (coords, m) = (sensors.coords.data(), sensors.len());
    let n2 = coords.chunks(2).take_while(|p| p[0] == coords[0]).count();
    let in_order = m.is_multiple_of(n2)
        && coords
            .chunks(2)
            .enumerate()
            .all(|(i, p)| p[0] == coords[2 * (i / n2 * n2)] && p[1] == coords[2 * (i % n2) + 1]);
    if !in_order {
        return refuse("the sensors are not a product of two axes");
    }
    let even = |axis: Vec<f32>| {
        let step = (axis[axis.len() - 1] - axis[0]) / (axis.len() - 1).max(1) as f32;
        axis.windows(2)
            .all(|w| (w[1] - w[0] - step).abs() <= 1e-3 * step.abs())
    };
    let axis =
        |k: usize, stride: usize, n: usize| (0..n).map(|i| coords[2 * i * stride + k]).collect();
    if !even(axis(0, n2, m / n2)) || !even(axis(1, 1, n2)) {
        return refuse("the grid is not evenly spaced");
    }
    Ok([m / n2, n2])
}
