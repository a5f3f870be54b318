//! Functions from training data (proper orthogonal decomposition).
//!
//! Every training output is fitted by the functions of a fixed basis (regularised least squares, so the
//! targets may stand anywhere); τ_0 is the mean of the fits, τ_1 … τ_p are their principal directions, each
//! scaled by its standard deviation so that the β are of size one:
//!
//!   τ_0 = c̄·φ,   τ_k = √λ_k (e_k·φ),   Cov(c) e_k = λ_k e_k.

use rand::seq::index;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Rows, ScaledSample, Sensors};
use crate::decoders::Functions;
use crate::decoders::basis::values;
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor, linear};
use crate::rng::stream;
use crate::spaces::linalg::{Matrix, symmetric_eigen};
use crate::spaces::{
    Basis, CovariateBasis, FittedBasis, Frame, LeastSquares, at_once, one_by_one, side_by_side,
};

/// Coefficients of all components together, at most: their covariance is a matrix of that size, diagonalised.
const MOST_COEFFICIENTS: usize = 2048;
/// λ of the fits.
const RIDGE: f64 = 1e-6;
/// Targets a basis function that a fit looks at, at most.
const TARGETS: usize = 4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodConfig {
    #[serde(default)]
    pub frame: Frame,
    /// Functions of the basis that the outputs are fitted in.
    pub functions: usize,
    /// Number of functions besides the mean.
    pub p: usize,
}

impl PodConfig {
    pub(super) fn fault(&self, coords: &[Channel]) -> Option<String> {
        if self.p == 0 || !(1..=MOST_COEFFICIENTS).contains(&self.functions) {
            return Some(format!(
                "a POD has at least one function, found in a basis of 1 to {MOST_COEFFICIENTS}; here p = {}, functions = {}",
                self.p, self.functions
            ));
        }
        self.frame.fault(coords)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    basis: Basis,
    p: usize,
    /// Coefficients `[targets·(p + 1), functions]`, not trained.
    modes: Key,
}

impl Pod {
    pub fn new(plan: &mut Plan, config: &PodConfig, targets: usize) -> Self {
        let directions = config.p.saturating_add(1).saturating_mul(targets);
        let shape = [directions, config.functions];
        Self {
            basis: Basis::new(config.frame.clone(), config.functions),
            p: config.p,
            modes: plan.add("trunk.pod".into(), &shape, Init::Fixed),
        }
    }
}

impl Functions for Pod {
    fn count(&self) -> usize {
        self.p
    }

    fn fit(&self, entries: &mut [Entry], training: &[ScaledSample]) -> Result<()> {
        let training: Vec<&ScaledSample> = training.iter().collect();
        let modes = pod_modes(&self.basis, self.p, &training)?;
        self.modes.set(entries, modes);
        Ok(())
    }

    fn at(&self, params: &Params, queries: Tensor<2>) -> Tensor<2> {
        linear(values(&self.basis, queries), params.get(self.modes))
    }
}

/// Coefficients of τ_0 … τ_p in the basis, `[outputs·(p + 1), functions]`, component by component.
fn pod_modes(basis: &Basis, p: usize, samples: &[&ScaledSample]) -> Result<Vec<f32>> {
    let functions = basis.len();
    let outputs = samples.first().map_or(0, |s| s.targets.width());
    let n = outputs * functions;
    if samples.len() <= p || n < p {
        return Err(Error::setting(
            "model.decoder",
            format!(
                "a POD of p = {p} needs more than {p} training samples (here: {}) and at least {p} basis functions (here: {n})",
                samples.len()
            ),
        ));
    }
    if n > MOST_COEFFICIENTS {
        return Err(Error::setting(
            "model.decoder",
            format!(
                "a POD of {outputs} components in {functions} functions has {n} coefficients, more than {MOST_COEFFICIENTS}"
            ),
        ));
    }
    if samples.iter().any(|s| s.targets.has_gaps()) {
        let what = "a POD needs all targets of every sample, but some are missing; a fixed basis (kind = \"basis\") does without";
        return Err(Error::setting("model.decoder", what));
    }
    let fits = target_fits(&CovariateBasis::new(basis.clone(), 0).plain(), samples);
    let count = fits.len() as f64;
    let mean: Vec<f64> = (0..n)
        .map(|i| fits.iter().map(|f| f[i]).sum::<f64>() / count)
        .collect();
    // Coefficients of functions of norm one, so that the directions are those of L².
    let norms: Vec<f64> = basis.mean_squares().iter().map(|v| v.sqrt()).collect();
    let norm = |i: usize| norms[i % functions];
    if !mean.iter().all(|m| m.is_finite()) {
        return Err(Error::Numerics(
            "the decoder's basis is not finite at the targets: do they stand far outside of its frame?"
                .into(),
        ));
    }
    let centred = Matrix::from_fn(fits.len(), n, |s, i| (fits[s][i] - mean[i]) * norm(i));
    let columns = centred.view().transposed();
    let mut covariance = Matrix::zeros(n, n);
    covariance.add_product(1.0 / count, columns, centred.view());
    let (values, vectors) = symmetric_eigen(covariance);
    let mut modes = Vec::with_capacity((p + 1) * n);
    for c in 0..outputs {
        let own = c * functions..(c + 1) * functions;
        modes.extend(mean[own.clone()].iter().map(|&v| v as f32));
        for k in 0..p {
            let deviation = values[k].max(0.0).sqrt();
            let mode = |i| deviation * vectors[(k, i)] / norm(i);
            modes.extend(own.clone().map(|i| mode(i) as f32));
        }
    }
    Ok(modes)
}

/// Coefficients of every training output in a basis, component by component; a component of which a sample
/// knows nothing has none (NaN).
pub(crate) fn target_fits(basis: &FittedBasis, samples: &[&ScaledSample]) -> Vec<Vec<f64>> {
    let prior = vec![1.0; basis.len()];
    let solve = |places: &Rows, targets: &[&Rows]| -> Vec<Vec<f64>> {
        let width = targets[0].width();
        let known = side_by_side(&Vec::from_iter(targets.iter().map(|t| t.data())), width);
        let places = places.first_columns(basis.width());
        let squares = LeastSquares::with_covariates(basis, places.data(), &known);
        one_by_one(&squares.weigh(&prior).solve(RIDGE), width).collect()
    };
    let gaps = samples.iter().any(|s| s.targets.has_gaps());
    let same = at_once(samples.iter().map(|s| s.queries.data()));
    if same > 1 && !gaps {
        let solve = |some: &[&ScaledSample]| {
            let targets: Vec<&Rows> = some.iter().map(|s| &s.targets).collect();
            solve(&some[0].queries, &targets)
        };
        return samples.chunks(same).flat_map(solve).collect();
    }
    let own = |(i, s): (usize, &&ScaledSample)| {
        // More targets than this say nothing new; a regular pick might see one time only.
        let available = s.queries.len();
        let wanted = available.min(TARGETS * basis.len());
        let rng = &mut stream(0, "targets", i as u64);
        let picked = index::sample(rng, available, wanted).into_vec();
        let some = Sensors {
            coords: s.queries.select(&picked),
            values: s.targets.select(&picked),
        };
        let mut all = vec![f64::NAN; basis.len() * s.targets.width()];
        for (columns, own) in some.by_column() {
            let fit = solve(&own.coords, &[&own.values]).remove(0);
            for (fit, column) in fit.chunks_exact(basis.len()).zip(columns) {
                all[column * basis.len()..][..basis.len()].copy_from_slice(fit);
            }
        }
        all
    };
    samples.par_iter().enumerate().map(own).collect()
}
