//! The sizes that the paper's authors used, per problem.

use crate::error::{Error, Result};
use crate::models::{DeepOnetConfig, FnoConfig, ModelConfig, TrunkConfig, VidonConfig};
use crate::problems::Problem;
use crate::sensors::Layout;

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelName {
    Vidon,
    DeepOnet,
    Fno,
}

impl From<&ModelConfig> for ModelName {
    fn from(config: &ModelConfig) -> Self {
        match config {
            ModelConfig::Vidon(_) => ModelName::Vidon,
            ModelConfig::DeepOnet(_) => ModelName::DeepOnet,
            ModelConfig::Fno(_) => ModelName::Fno,
        }
    }
}

/// The paper's configuration of a network for one of its problems.
pub fn paper_config(name: ModelName, problem: &dyn Problem) -> Result<ModelConfig> {
    let space_time = problem.spec().test_times.is_some();
    let (p, trunk_width) = if space_time { (400, 500) } else { (100, 250) };
    let trunk = TrunkConfig::Mlp {
        hidden: vec![trunk_width; 4],
    };
    Ok(match name {
        ModelName::Vidon => ModelConfig::Vidon(VidonConfig {
            head_output: if problem.name() == "navier-stokes" {
                32
            } else {
                64
            },
            p,
            trunk,
            ..VidonConfig::default()
        }),
        ModelName::DeepOnet => ModelConfig::DeepOnet(DeepOnetConfig {
            sensors: *problem.spec().sensors.count_range(Layout::Regular).end(),
            branch_hidden: vec![if space_time { 400 } else { 250 }; 4],
            p,
            trunk,
            krige: None,
        }),
        ModelName::Fno if space_time => {
            return Err(Error::Setting(format!(
                "the paper has no FNO for {}: its output lives in space-time",
                problem.name()
            )));
        }
        ModelName::Fno => ModelConfig::Fno(FnoConfig {
            padding: if problem.name() == "navier-stokes" {
                0.5
            } else {
                0.25
            },
            ..FnoConfig::default()
        }),
    })
}
