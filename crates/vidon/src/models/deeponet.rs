//! DeepONet (Lu, Jin, Pang, Zhang, Karniadakis, 2021): `v(y) = τ_0(y) + Σ_k β_k(u(x_1), …, u(x_m)) τ_k(y)`.
//!
//! Fixed sensors only: the same m places, in the same order, in every sample.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::models::inputs::{Inputs, to_vec};
use crate::models::mlp::{Activation, Mlp};
use crate::models::params::{Params, Plan};
use crate::models::trunk::{Trunk, TrunkConfig};
use crate::models::{Dims, Extent};

/// All sizes of a DeepONet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepOnetConfig {
    /// m, the number of sensors.
    pub sensors: usize,
    pub branch_hidden: Vec<usize>,
    pub p: usize,
    pub trunk: TrunkConfig,
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub struct DeepOnet {
    sensors: usize,
    branch: Mlp,
    trunk: Trunk,
}

impl DeepOnet {
    pub(crate) fn new(plan: &mut Plan, config: &DeepOnetConfig, dims: Dims) -> Self {
        let inputs = config.sensors * dims.sensor_values;
        let hidden = &config.branch_hidden;
        let branch = Mlp::new(plan, "branch", inputs, hidden, config.p, Activation::Tanh);
        let trunk = Trunk::new(
            plan,
            &config.trunk,
            dims.query_coords,
            config.p,
            dims.targets,
        );
        Self {
            sensors: config.sensors,
            branch,
            trunk,
        }
    }

    /// One row a target, `d_u` wide.
    pub fn forward(&self, params: &Params, inputs: &Inputs) -> Result<Tensor<2>> {
        let m = self.sensors;
        if let Some(w) = inputs
            .sensors
            .offsets()
            .windows(2)
            .find(|w| w[1] - w[0] != m)
        {
            return Err(Error::Setting(format!(
                "this DeepONet takes exactly {m} sensors, always at the same places; a sample has {}. VIDON takes any number",
                w[1] - w[0]
            )));
        }
        let [_, dim] = inputs.sensor_coords.dims();
        let places = to_vec(inputs.sensor_coords.clone());
        if places
            .chunks(m * dim)
            .any(|sample| *sample != places[..m * dim])
        {
            return Err(Error::Setting(
                "DeepONet takes sensors at the same places, in the same order, in every sample; here they differ. VIDON takes any sensors".into(),
            ));
        }
        let [rows, width] = inputs.sensor_values.dims();
        let values = inputs.sensor_values.clone().reshape([rows / m, m * width]);
        Ok(self
            .trunk
            .contract(params, self.branch.forward(params, values), inputs))
    }

    pub(crate) fn branch_extent(&self) -> Extent {
        Extent::of(&self.branch)
    }

    pub(crate) fn trunk(&self) -> &Trunk {
        &self.trunk
    }
}
