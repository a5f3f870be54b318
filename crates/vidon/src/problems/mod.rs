//! Problems: each draws pairs of functions (the operator's input and output), deterministic from a random
//! stream, and says where it is sampled. Known by name are the paper's three in the plane, and one each on a
//! line and in a cube; a program may [`register`] its own.

mod allen_cahn;
mod burgers;
mod cache;
mod darcy;
mod darcy_solver;
mod field;
mod heat;
mod navier_stokes;
mod poisson;
mod random_field;
mod registry;
mod transform;
mod trigonometric;

pub(crate) use cache::FunctionSource;
pub use field::{Field, Formula, GridField};
pub use registry::{known, named, register};

#[cfg(test)]
pub(crate) use allen_cahn::AllenCahn;
#[cfg(test)]
pub(crate) use darcy::Darcy;
#[cfg(test)]
pub(crate) use darcy_solver::Boundary;
#[cfg(test)]
pub(crate) use navier_stokes::NavierStokes;

pub use crate::rng::Rng;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sensors::SensorSpec;

/// What a dataset is for. Each split has functions and sensors of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    Train,
    Val,
    Test,
}

impl Split {
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Val => "val",
            Split::Test => "test",
        }
    }

    /// Number of samples in the paper.
    pub fn paper_size(self) -> usize {
        match self {
            Split::Train => 1000,
            Split::Val => 32,
            Split::Test => 5000,
        }
    }
}

/// Where a problem is sampled, and what its columns are called.
pub struct Spec {
    /// The domain, sensor grid and pool of the layouts.
    pub sensors: SensorSpec,
    /// Points per axis of the grid on which test outputs are given.
    pub test_grid: Vec<usize>,
    /// Times of the outputs, where the output lives in space-time.
    pub train_times: Option<Vec<f64>>,
    pub test_times: Option<Vec<f64>>,
    pub coord_names: Vec<&'static str>,
    pub input_name: &'static str,
    pub output_name: &'static str,
}

/// The settings of a problem, by name.
pub(crate) type Parameters = serde_json::Map<String, serde_json::Value>;

/// A source of function pairs.
pub trait Problem: Send + Sync {
    /// Its name in recipes and files.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn about(&self) -> &'static str {
        ""
    }

    /// Everything besides name and seed that determines the functions.
    fn parameters(&self) -> Parameters {
        Parameters::new()
    }

    /// The same with other values for some of its parameters.
    fn with(&self, changed: &Parameters) -> Result<Arc<dyn Problem>> {
        let names: Vec<&str> = changed.keys().map(String::as_str).collect();
        let what = format!(
            "the problem {} leaves no choice of {}",
            self.name(),
            names.join(", ")
        );
        Err(Error::setting("data.parameters", what))
    }

    fn spec(&self) -> Spec;

    /// Numbers that one pair is stored as.
    fn stored_len(&self) -> usize;

    /// Draws a pair, as [`stored_len`](Self::stored_len) numbers; none where what was drawn is not physical:
    /// it is drawn again. Called from several threads at once.
    fn draw(&self, rng: &mut Rng) -> Result<Option<Vec<f32>>>;

    /// The operator's input, and the output it maps to, from the numbers that were drawn.
    fn functions(&self, stored: &[f32]) -> [Box<dyn Field>; 2];
}
