//! A fixed basis on the box of the queries, for every component with β of its own; τ_0 is zero:
//!
//!   v_c(y) = Σ_k β_{ck} φ_k(y).
//!
//! Where queries have covariates, functions of them (`spaces/covariates.rs`) stand behind the φ of every component.

use serde::{Deserialize, Serialize};

use crate::config::MOST_PARTS;
use crate::data::{Channel, ScaledSample};
use crate::decoders::Functions;
use crate::error::Result;
use crate::network::{Entry, Init, Key, Params, Place, Plan, Tensor, to_vec};
use crate::spaces::{Basis, CovariateBasis, FittedBasis, Frame, means_and_deviations};

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

    /// Its functions of queries of which so many numbers are known.
    pub(super) fn functions(&self, known: usize) -> CovariateBasis {
        let count = self.functions * self.frame.times.max(1);
        let basis = Basis::new(self.frame.clone(), count);
        CovariateBasis::new(basis, known - self.frame.lo.len())
    }
}

#[derive(Clone, Debug)]
pub(super) struct FixedBasis {
    functions: CovariateBasis,
    targets: usize,
    /// Mean and spread of every covariate, `[2, covariates]`, where there are any: not trained.
    standard: Option<Key>,
}

impl FixedBasis {
    /// For queries of which so many numbers are known.
    pub fn new(plan: &mut Plan, config: &BasisConfig, known: usize, targets: usize) -> Self {
        let functions = config.functions(known);
        let shape = [2, functions.covariates()];
        let mut standard = || plan.add("trunk.covariates".into(), &shape, Init::Fixed);
        Self {
            standard: (functions.covariates() > 0).then(&mut standard),
            functions,
            targets,
        }
    }
}

impl Functions for FixedBasis {
    fn count(&self) -> usize {
        self.functions.len() * self.targets
    }

    fn fit(&self, entries: &mut [Entry], training: &[ScaledSample]) -> Result<()> {
        if let Some(key) = self.standard {
            let axes = self.functions.basis().frame().lo.len();
            let places = training.iter().flat_map(|s| s.queries.iter());
            let known = places.map(|p| &p[axes..]);
            key.set(
                entries,
                means_and_deviations(known, self.functions.covariates()),
            );
        }
        Ok(())
    }

    fn at(&self, params: &Params, queries: Tensor<2>) -> Tensor<2> {
        let functions = match self.standard {
            None => values(self.functions.basis(), queries),
            Some(key) => {
                let place = Place::of(&queries);
                let fitted = self.functions.fitted(&to_vec(params.flat(key)));
                let [rows, _] = queries.dims();
                let values = fitted.evaluate(&to_vec(queries));
                place.tensor(values, [rows, fitted.len()])
            }
        };
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
        Some(self.functions.basis())
    }

    fn fitted(&self, entries: &[Entry]) -> Option<FittedBasis<'_>> {
        Some(match self.standard {
            Some(key) => self.functions.fitted(key.of(entries)),
            None => self.functions.plain(),
        })
    }

    fn sees_covariates(&self) -> bool {
        self.standard.is_some()
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
