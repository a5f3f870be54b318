//! The errors that the paper publishes: what a reproduction is measured against.

use vidon::ModelName;
use vidon::sensors::Layout;

/// A published mean relative L² test error. Its deviation is over five trainings, or five test sets for
/// layouts that change from sample to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    pub mean: f64,
    pub std: f64,
}

/// The paper's error of a network on a problem seen through a layout, where it has one.
pub fn published(problem: &str, layout: Layout, model: ModelName) -> Option<Published> {
    let column = COLUMNS.iter().position(|c| *c == (problem, model))?;
    let (_, row) = ERRORS.iter().find(|row| row.0 == layout)?;
    let [mean, std] = row[column].map(|percent| percent / 100.0);
    (!mean.is_nan()).then_some(Published { mean, std })
}

const COLUMNS: [(&str, ModelName); 8] = [
    ("darcy", ModelName::Fno),
    ("darcy", ModelName::DeepOnet),
    ("darcy", ModelName::Vidon),
    ("allen-cahn", ModelName::DeepOnet),
    ("allen-cahn", ModelName::Vidon),
    ("navier-stokes", ModelName::Fno),
    ("navier-stokes", ModelName::DeepOnet),
    ("navier-stokes", ModelName::Vidon),
];

const NONE: [f64; 2] = [f64::NAN; 2];

/// In percent, as printed.
#[rustfmt::skip]
const ERRORS: [(Layout, [[f64; 2]; 8]); 6] = [
    (Layout::Regular,   [[0.76, 0.02], [1.48, 0.01], [1.29, 0.02], [0.34, 0.01], [0.26, 0.02], [3.49, 0.09], [4.20, 0.02], [5.22, 0.12]]),
    (Layout::Irregular, [NONE,         [1.52, 0.02], [1.48, 0.07], [0.34, 0.01], [0.27, 0.01], NONE,         [4.33, 0.04], [5.45, 0.09]]),
    (Layout::Missing,   [NONE,         NONE,         [1.77, 0.01], NONE,         [0.63, 0.02], NONE,         NONE,         [5.64, 0.03]]),
    (Layout::Perturbed, [NONE,         NONE,         [1.68, 0.01], NONE,         [0.83, 0.02], NONE,         NONE,         [5.34, 0.02]]),
    (Layout::Random,    [NONE,         NONE,         [2.58, 0.01], NONE,         [1.21, 0.03], NONE,         NONE,         [8.35, 0.03]]),
    (Layout::Variable,  [NONE,         NONE,         [2.55, 0.01], NONE,         [1.20, 0.03], NONE,         NONE,         [8.28, 0.03]]),
];
