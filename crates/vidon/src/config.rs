//! Which network: encoders, core and decoder with all their sizes. The paper's networks are combinations with
//! a name:
//!
//! | network | encoders | core | decoder |
//! |---|---|---|---|
//! | VIDON | `heads` | `mlp` | `learned` |
//! | DeepONet | `vector`, or `krige` for any sensors | `mlp` | `learned` |
//! | FNO | `grid` | `fno` | `grid` |
//! | our fast family | `projection`, `moments`, `scalars` | `fno` or `mlp` | `basis` |

use serde::{Deserialize, Serialize};

use crate::cores::{CoreConfig, FnoConfig, MlpConfig};
use crate::data::{Group, Meta, coordinates};
use crate::decoders::{DecoderConfig, LearnedConfig};
use crate::encoders::{EncoderConfig, HeadsConfig, VectorConfig};
use crate::error::{Error, Result};
use crate::problems::Problem;
use crate::sensors::Layout;
use crate::spaces::{Family, Frame};
use crate::start::StartConfig;

/// Most heads, layers or basis functions.
pub(crate) const MOST_PARTS: usize = 1 << 16;
/// Most hidden layers of a perceptron.
pub(crate) const MOST_LAYERS: usize = 1 << 10;
/// Most functions of a projection, which solves a system of that size for every sample.
pub(crate) const MOST_PROJECTED: usize = 4096;

/// A network without its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The best answer without a network, which the network corrects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartConfig>,
    /// What they see goes side by side into the core.
    pub encoders: Vec<EncoderConfig>,
    pub core: CoreConfig,
    pub decoder: DecoderConfig,
}

/// The paper's VIDON for Darcy flow.
impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            start: None,
            encoders: vec![EncoderConfig::Heads(HeadsConfig::default())],
            core: CoreConfig::Mlp(MlpConfig::default()),
            decoder: DecoderConfig::Learned(LearnedConfig::default()),
        }
    }
}

/// A family of networks, by what it does with its sensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelName {
    Vidon,
    DeepOnet,
    Fno,
}

impl ModelName {
    pub fn name(self) -> &'static str {
        match self {
            ModelName::Vidon => "VIDON",
            ModelName::DeepOnet => "DeepONet",
            ModelName::Fno => "FNO",
        }
    }
}

impl ModelConfig {
    /// A network of the paper, with the sizes that its authors used for one of their problems.
    pub fn of_paper(name: ModelName, problem: &dyn Problem) -> Result<Self> {
        let space_time = problem.spec().test_times.is_some();
        let (p, width) = if space_time { (400, 500) } else { (100, 250) };
        let learned = DecoderConfig::Learned(LearnedConfig {
            p,
            hidden: vec![width; 4],
        });
        let stokes = problem.name() == "navier-stokes";
        Ok(match name {
            ModelName::Vidon => Self {
                start: None,
                encoders: vec![EncoderConfig::Heads(HeadsConfig {
                    outputs: if stokes { 32 } else { 64 },
                    ..HeadsConfig::default()
                })],
                core: CoreConfig::Mlp(MlpConfig::default()),
                decoder: learned,
            },
            ModelName::DeepOnet => Self {
                start: None,
                encoders: vec![EncoderConfig::Vector(VectorConfig {
                    group: None,
                    sensors: *problem.spec().sensors.count_range(Layout::Regular).end(),
                })],
                core: CoreConfig::Mlp(MlpConfig {
                    hidden: vec![if space_time { 400 } else { 250 }; 4],
                    ..MlpConfig::default()
                }),
                decoder: learned,
            },
            ModelName::Fno if space_time => {
                return Err(Error::setting(
                    "model",
                    format!(
                        "the paper has no FNO for {}: its output lives in space-time",
                        problem.name()
                    ),
                ));
            }
            ModelName::Fno => Self {
                start: None,
                encoders: vec![EncoderConfig::Grid {}],
                core: CoreConfig::Fno(FnoConfig {
                    padding: if stokes { 0.5 } else { 0.25 },
                    ..FnoConfig::default()
                }),
                decoder: DecoderConfig::Grid {},
            },
        })
    }

    pub fn name(&self) -> ModelName {
        match self.encoders.first() {
            Some(EncoderConfig::Vector(_) | EncoderConfig::Krige(_)) => ModelName::DeepOnet,
            Some(EncoderConfig::Grid {}) => ModelName::Fno,
            _ => ModelName::Vidon,
        }
    }

    /// Which group of the data every encoder takes, or what is wrong.
    pub(crate) fn groups(&self, meta: &Meta) -> std::result::Result<Vec<usize>, String> {
        let encoders = self.encoders.iter();
        encoders.map(|e| e.group_among(&meta.groups)).collect()
    }

    /// What makes a network of these sizes impossible for such data, if anything.
    pub(crate) fn fault(&self, meta: &Meta) -> Option<String> {
        if self.encoders.is_empty() {
            return Some("it needs an encoder".into());
        }
        let groups = match self.groups(meta) {
            Ok(groups) => groups,
            Err(fault) => return Some(fault),
        };
        let kinds = self.encoders.iter().map(EncoderConfig::kind);
        let both: Vec<(&str, usize)> = kinds.zip(groups.iter().copied()).collect();
        if let Some(i) = (1..both.len()).find(|&i| both[..i].contains(&both[i])) {
            let name = &meta.groups[both[i].1].name;
            return Some(format!(
                "it has two encoders of the same kind, {}, for the group {name}",
                both[i].0
            ));
        }
        let own = groups.iter().map(|&g| &meta.groups[g]);
        let encoders: Vec<(&EncoderConfig, &Group)> = self.encoders.iter().zip(own).collect();
        let grid = matches!(self.decoder, DecoderConfig::Grid {});
        if grid && !matches!(self.core, CoreConfig::Fno(_)) {
            return Some("a grid decoder takes what an FNO core gives".into());
        }
        let fault = encoders.iter().find_map(|(e, group)| e.fault(group));
        let projected = || {
            let mut encoders = self.encoders.iter();
            let projected = encoders.any(|e| matches!(e, EncoderConfig::Projection(_)));
            let functions = match &self.decoder {
                DecoderConfig::Basis(c) => c.functions.saturating_mul(c.frame.times.max(1)),
                _ => 0,
            };
            (projected && functions > MOST_PROJECTED).then(|| {
                format!("behind a projection a fixed basis has at most {MOST_PROJECTED} functions a component")
            })
        };
        let start = || match &self.start {
            Some(_) if grid => Some("a start needs a decoder that answers anywhere".into()),
            Some(StartConfig::Field(field)) => field.fault(meta).or_else(|| field.unknown()),
            Some(StartConfig::Linear(_)) => self.fault_of_linear(),
            None => None,
        };
        fault
            .or_else(start)
            .or_else(|| self.decoder.fault(&meta.query_coords))
            .or_else(|| self.core.fault(&encoders, &self.decoder, meta))
            .or_else(projected)
    }

    /// What a linear start does not go with, if anything.
    fn fault_of_linear(&self) -> Option<String> {
        let learned = |e: &&EncoderConfig| matches!(e, EncoderConfig::Heads(_));
        if self.encoders.iter().any(|e| learned(&e)) {
            let what =
                "a linear start takes what encoders without learned weights see, and heads learn";
            return Some(format!("start: {what}"));
        }
        let fixed = matches!(self.decoder, DecoderConfig::Basis(_));
        (!fixed).then(|| {
            "start: a linear start needs a fixed basis: decoder = { kind = \"basis\", … }".into()
        })
    }

    /// Takes the boxes of bases from the data where the configuration leaves them open.
    pub fn fill_frames(&mut self, meta: &Meta) {
        for encoder in &mut self.encoders {
            let group = encoder.group_among(&meta.groups);
            if let (Ok(group), Some(frame)) = (group, encoder.frame()) {
                frame.fill(meta.groups[group].coordinates());
            }
        }
        if let Some(frame) = self.decoder.frame() {
            frame.fill(coordinates(&meta.query_coords));
        }
    }

    /// Marks the groups in which readings may be missing, whether any is in the training data or not: those of
    /// which all encoders work with what is there.
    pub(crate) fn mark_gaps(&self, meta: &mut Meta) {
        let Ok(groups) = self.groups(meta) else {
            return;
        };
        for (g, group) in meta.groups.iter_mut().enumerate() {
            let both = self.encoders.iter().zip(&groups);
            let mut own = both.filter(|(_, taken)| **taken == g).peekable();
            group.gaps |= own.peek().is_some() && own.all(|(e, _)| e.takes_gaps());
        }
    }

    /// Whether a basis takes its periods from the data.
    pub(crate) fn takes_periods(&self) -> bool {
        let mut own = self.clone();
        let takes = |frame: &mut Frame| frame.is_open() && frame.family == Family::Periodic;
        let encoders = own.encoders.iter_mut().filter_map(EncoderConfig::frame);
        encoders.chain(own.decoder.frame()).any(takes)
    }
}
