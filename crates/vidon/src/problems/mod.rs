//! The paper's three problems. Each draws pairs of functions (the operator's input and output), deterministic
//! from a random stream, and says where it is sampled.

mod allen_cahn;
mod cache;
mod darcy;
mod darcy_solver;
mod field;
mod navier_stokes;
mod poisson;
mod random_field;
mod transform;
mod trigonometric;

pub use allen_cahn::{AllenCahn, Wave};
pub use cache::{FunctionSource, Pairs};
pub use darcy::Darcy;
pub use darcy_solver::{Boundary, DarcySolver, Solution};
pub use field::{Field, GridField};
pub use navier_stokes::{NavierStokes, VorticitySolver};
pub use trigonometric::TrigField;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rng::Rng;
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

/// Which problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemName {
    Darcy,
    AllenCahn,
    NavierStokes,
}

impl ProblemName {
    /// The problem; a boundary condition is for Darcy flow alone.
    pub fn problem(self, boundary: Option<Boundary>) -> Result<Box<dyn Problem>> {
        Ok(match (self, boundary) {
            (ProblemName::Darcy, _) => Box::new(Darcy::new(boundary.unwrap_or_default())),
            (_, Some(_)) => {
                return Err(Error::Setting(
                    "a boundary condition can be chosen for the problem darcy only".into(),
                ));
            }
            (ProblemName::AllenCahn, _) => Box::new(AllenCahn::new()),
            (ProblemName::NavierStokes, _) => Box::new(NavierStokes::new()),
        })
    }
}

/// The operator's input and the output it maps to.
pub struct FunctionPair {
    pub input: Box<dyn Field>,
    pub output: Box<dyn Field>,
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

/// One drawn pair of functions, as numbers that can be stored.
pub struct Drawn {
    /// [`Problem::stored_len`] numbers from which [`Problem::functions`] makes the pair.
    pub values: Vec<f32>,
    /// How often a draw was rejected before this one.
    pub redrawn: usize,
}

/// A source of function pairs.
pub trait Problem: Send + Sync {
    /// Its name on the command line and in files.
    fn name(&self) -> &'static str;

    /// Everything besides name and seed that determines the functions.
    fn parameters(&self) -> serde_json::Value;

    fn spec(&self) -> Spec;

    /// Numbers that one pair is stored as.
    fn stored_len(&self) -> usize;

    /// Draws a pair; called from several threads at once.
    fn draw(&self, rng: &mut Rng) -> Result<Drawn>;

    /// The functions that [`draw`](Self::draw) stored.
    fn functions(&self, stored: &[f32]) -> FunctionPair;
}
