//! FNO's output: the values at the points of the grid on which the sensors stand,
//!
//!   v(x_i) = what the core gives at x_i.
//!
//! It is asked at those points and nowhere else.

use serde::{Deserialize, Serialize};

/// It has no sizes: the grid is that of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridAnswerConfig {}
