//! DeepONet's input (Lu et al., 2021): the readings of m sensors at fixed places, one after the other,
//!
//!   ( u(x_1), …, u(x_m) ).
//!
//! Always the same sensors: the places are those of the first training sample.

use serde::{Deserialize, Serialize};

use crate::data::{Channel, Group, Sensors};
use crate::encoders::{Encoded, Encoder, numbers};
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::sensors::Layout;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorConfig {
    /// Which group; the only one of its kind where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// m
    pub sensors: usize,
}

impl VectorConfig {
    pub(super) fn fault(&self) -> Option<String> {
        (self.sensors == 0).then(|| "a vector needs at least one sensor".into())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Vector {
    sensors: usize,
    values: usize,
    /// Where the sensors stand, `[m, d]`: not trained.
    places: Key,
}

impl Vector {
    pub fn new(plan: &mut Plan, config: &VectorConfig, prefix: &str, group: &Group) -> Self {
        let shape = [config.sensors, group.coordinates().len()];
        Self {
            sensors: config.sensors,
            values: group.values.len(),
            places: plan.add(format!("{prefix}sensors"), &shape, Init::Fixed),
        }
    }

    fn check_count(&self, found: usize) -> Result<()> {
        if found == self.sensors {
            return Ok(());
        }
        Err(Error::Unsuitable(format!(
            "this DeepONet takes exactly {} sensors, always at the same places; a sample has {found}. VIDON takes any number",
            self.sensors
        )))
    }
}

impl Encoder for Vector {
    fn fit(&self, entries: &mut [Entry], _: &[Channel], training: &[&Sensors]) -> Result<()> {
        self.check_count(training[0].len())?;
        self.places.set(entries, training[0].coords.data().to_vec());
        Ok(())
    }

    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        self.check_count(sensors.len())?;
        if sensors.coords.data() != self.places.of(entries) {
            return Err(Error::Unsuitable(
                "this DeepONet takes sensors at the places it was trained with, in the same order; these stand elsewhere. VIDON takes any sensors, and so does a DeepONet behind kriging".into(),
            ));
        }
        Ok(Encoded::Numbers(sensors.values.data().to_vec()))
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let all = numbers(batch).collect::<Vec<_>>().concat();
        params.place().tensor(all, [batch.len(), self.outputs()])
    }

    fn outputs(&self) -> usize {
        self.sensors.saturating_mul(self.values)
    }

    fn layouts(&self) -> &'static [Layout] {
        &[Layout::Regular, Layout::Irregular]
    }
}
