//! A fixed basis on the box of the queries, for every component with β of its own; τ_0 is zero:
//!
//!   v_c(y) = Σ_k β_{ck} φ_k(y).

use serde::{Deserialize, Serialize};

use crate::config::MOST_PARTS;
use crate::data::Channel;
use crate::decoders::Functions;
use crate::network::{Params, Place, Tensor, to_vec};
use crate::spaces::{Basis, Frame};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasisConfig {
    #[serde(default)]
    pub frame: Frame,
    /// Functions for each component; with `times` functions of space, each with every function of time.
    pub functions: usize,
}

impl BasisConfig {
    pub(super) fn fault(&self, coords: &[Channel]) -> Option<String> {
        if !(1..=MOST_PARTS).contains(&self.functions) {
            return Some(format!("a basis has 1 to {MOST_PARTS} functions"));
        }
        self.frame.fault(coords)
    }

    pub(super) fn basis(&self) -> Basis {
        let count = self.functions * self.frame.times.max(1);
        Basis::new(self.frame.clone(), count)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FixedBasis {
    basis: Basis,
    targets: usize,
}

impl FixedBasis {
    pub fn new(config: &BasisConfig, targets: usize) -> Self {
        Self {
            basis: config.basis(),
            targets,
        }
    }
}

impl Functions for FixedBasis {
    fn count(&self) -> usize {
        self.basis.len() * self.targets
    }

    fn at(&self, _: &Params, queries: Tensor<2>) -> Tensor<2> {
        let functions = values(&self.basis, queries);
        let [rows, count] = functions.dims();
        let options = (&functions.device(), functions.dtype());
        let none = |width: usize| Tensor::<2>::zeros([rows, width], options);
        let component = |c: usize| {
            let after = self.count() - (c + 1) * count;
            [none(1 + c * count), functions.clone(), none(after)]
        };
        let parts = (0..self.targets).flat_map(component);
        Tensor::cat(parts.filter(|t| t.dims()[1] > 0).collect(), 1)
    }

    fn basis(&self) -> Option<&Basis> {
        Some(&self.basis)
    }
}

/// Values of all functions: `[rows, d + covariates]` to `[rows, functions]`, without gradient.
pub(super) fn values(basis: &Basis, coords: Tensor<2>) -> Tensor<2> {
    let (place, [rows, width]) = (Place::of(&coords), coords.dims());
    let axes = basis.frame().lo.len();
    let coords = match axes == width {
        true => coords,
        false => coords.narrow(1, 0, axes),
    };
    let values = basis.evaluate(&to_vec(coords), basis.len());
    place.tensor(values, [rows, basis.len()])
}
