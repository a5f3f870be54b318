//! DeepONet (Lu, Jin, Pang, Zhang, Karniadakis, 2021): `v(y) = τ_0(y) + Σ_k β_k(u(x_1), …, u(x_m)) τ_k(y)`.
//!
//! Fixed sensors only: the same m places, in the same order, in every sample. They are kept with the weights. With
//! `krige` sensors that stand elsewhere are first interpolated to a regular grid.

use std::borrow::Cow;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Rows, Sample, domain_of, krige};
use crate::domain::product;
use crate::error::{Error, Result};
use crate::models::inputs::Inputs;
use crate::models::mlp::{Activation, Mlp};
use crate::models::params::{Entry, Init, Key, Params, Plan};
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
    /// Points per axis of the grid to which sensors are interpolated; their product is m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub krige: Option<Vec<usize>>,
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub struct DeepOnet {
    sensors: usize,
    krige: Option<Vec<usize>>,
    /// Where the sensors stand, `[m, d]`: not trained.
    places: Key,
    branch: Mlp,
    trunk: Trunk,
}

impl DeepOnet {
    pub(crate) fn new(plan: &mut Plan, config: &DeepOnetConfig, dims: Dims) -> Self {
        let shape = [config.sensors, dims.sensor_coords];
        let places = plan.add("sensors".into(), &shape, Init::Fixed);
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
            krige: config.krige.clone(),
            places,
            branch,
            trunk,
        }
    }

    /// Takes the places from the first training sample, or from the box of the data where sensors are interpolated.
    pub(crate) fn fit(
        &self,
        entries: &mut [Entry],
        coords: &[Channel],
        samples: &[Sample],
    ) -> Result<()> {
        let places = match &self.krige {
            None => samples[0].sensor_coords.clone(),
            Some(grid) => {
                let axes = domain_of(coords)?.axes(grid);
                Rows::from_f64(coords.len(), &product(&axes))
            }
        };
        self.check_count(places.len())?;
        entries[self.places.place()].values = places.data().to_vec();
        Ok(())
    }

    /// The sample with its sensors at the places of this network, or why that cannot be.
    pub(crate) fn prepare<'a>(
        &self,
        entries: &[Entry],
        sample: &'a Sample,
    ) -> Result<Cow<'a, Sample>> {
        let places = &entries[self.places.place()].values;
        if sample.sensor_coords.data() == places {
            return Ok(Cow::Borrowed(sample));
        }
        if self.krige.is_some() {
            let places = Rows::new(sample.sensor_coords.width(), places.clone());
            return krige(sample, &places).map(Cow::Owned);
        }
        self.check_count(sample.sensor_coords.len())?;
        Err(Error::Setting(
            "this DeepONet takes sensors at the places it was trained with, in the same order; these stand elsewhere. VIDON takes any sensors".into(),
        ))
    }

    fn check_count(&self, found: usize) -> Result<()> {
        if found == self.sensors {
            return Ok(());
        }
        Err(Error::Setting(format!(
            "this DeepONet takes exactly {} sensors, always at the same places; a sample has {found}. VIDON takes any number",
            self.sensors
        )))
    }

    /// β, `[samples, p]`.
    pub(crate) fn branch(&self, params: &Params, inputs: &Inputs) -> Result<Tensor<2>> {
        for w in inputs.sensors.offsets().windows(2) {
            self.check_count(w[1] - w[0])?;
        }
        let [rows, width] = inputs.sensor_values.dims();
        let (m, samples) = (self.sensors, rows / self.sensors);
        let values = inputs.sensor_values.clone().reshape([samples, m * width]);
        Ok(self.branch.forward(params, values))
    }

    pub(crate) fn kriges(&self) -> bool {
        self.krige.is_some()
    }

    pub(crate) fn branch_extent(&self) -> Extent {
        Extent::of(&self.branch)
    }

    pub(crate) fn trunk(&self) -> &Trunk {
        &self.trunk
    }
}
