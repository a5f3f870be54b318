//! Function spaces on a box: bases and what they are on, their symmetries, and regularised least squares in them.
//! Geometry and numbers on the host; nothing of networks.

mod basis;
mod covariates;
mod fits;
mod frame;
mod least_squares;
pub(crate) mod linalg;
mod symmetry;

pub(crate) use basis::Basis;
pub(crate) use covariates::{CovariateBasis, FittedBasis};
pub(crate) use fits::{MEASURED, all_along, at_once, mean_and_spread, means_and_deviations};
pub use frame::{Family, Frame};
pub(crate) use least_squares::{LeastSquares, one_by_one, side_by_side};
pub use symmetry::Symmetries;
pub(crate) use symmetry::Symmetry;
