//! A trunk from training data (proper orthogonal decomposition).
//!
//! Every training output is fitted by the functions of a fixed basis (regularised least squares, so the targets may
//! stand anywhere); τ_0 is the mean of the fits, τ_1 … τ_p are their principal directions, each scaled by its
//! standard deviation so that the β are of size one.

use std::sync::Arc;

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Rows, Sample};
use crate::error::{Error, Result};
use crate::linalg::{cholesky_solve, factorise, symmetric_eigen};
use crate::models::basis::Basis;
use crate::rng::stream;

/// Regularisation, relative to the number of targets.
const RIDGE: f64 = 1e-6;
/// Targets a basis function that a fit looks at, at most.
const TARGETS: usize = 4;

/// Coefficients of τ_0 … τ_p in the basis, `[outputs·(p + 1), functions]`, component by component.
pub(crate) fn pod_modes(basis: &Basis, p: usize, samples: &[Sample]) -> Result<Vec<f32>> {
    let functions = basis.len();
    let outputs = samples.first().map_or(0, |s| s.targets.width());
    let n = outputs * functions;
    if samples.len() <= p || n < p {
        return Err(Error::Setting(format!(
            "a POD trunk of p = {p} needs more than {p} training samples (here: {}) and at least {p} basis functions (here: {n})",
            samples.len()
        )));
    }
    let fits = target_fits(basis, samples)?;
    let count = fits.len() as f64;
    let mean: Vec<f64> = (0..n)
        .map(|i| fits.iter().map(|f| f[i]).sum::<f64>() / count)
        .collect();
    // Coefficients of functions of norm one, so that the directions are those of L².
    let norms: Vec<f64> = basis.mean_squares().iter().map(|v| v.sqrt()).collect();
    let norm = |i: usize| norms[i % functions];
    let mut covariance = vec![0.0; n * n];
    for fit in &fits {
        let centred: Vec<f64> = (0..n).map(|i| (fit[i] - mean[i]) * norm(i)).collect();
        for i in 0..n {
            for j in 0..n {
                covariance[i * n + j] += centred[i] * centred[j] / count;
            }
        }
    }
    let (values, vectors) = symmetric_eigen(covariance, n);
    let mut modes = Vec::with_capacity((p + 1) * n);
    for c in 0..outputs {
        let own = c * functions..(c + 1) * functions;
        modes.extend(mean[own.clone()].iter().map(|&v| v as f32));
        for k in 0..p {
            let deviation = values[k].max(0.0).sqrt();
            let mode = &vectors[k * n..(k + 1) * n];
            modes.extend(own.clone().map(|i| (deviation * mode[i] / norm(i)) as f32));
        }
    }
    Ok(modes)
}

/// Coefficients of every training output in the basis, component by component.
pub(crate) fn target_fits(basis: &Basis, samples: &[Sample]) -> Result<Vec<Vec<f64>>> {
    match shared_fit(basis, samples)? {
        Some(fit) => Ok(samples.par_iter().map(|s| fit.coefs(&s.targets)).collect()),
        None => samples
            .par_iter()
            .enumerate()
            .map(|(i, s)| {
                // More targets than this say nothing new; a regular pick might see one time only.
                let available = s.query_coords.len();
                let wanted = available.min(TARGETS * basis.len());
                let rng = &mut stream(0, "targets", i as u64);
                let picked = index::sample(rng, available, wanted).into_vec();
                let targets = s.targets.select(&picked);
                Ok(Fit::new(basis, &s.query_coords.select(&picked))?.coefs(&targets))
            })
            .collect(),
    }
}

/// One fit for all, where all samples are asked at the same points.
fn shared_fit(basis: &Basis, samples: &[Sample]) -> Result<Option<Fit>> {
    let first = &samples[0].query_coords;
    let same = samples.iter().all(|s| Arc::ptr_eq(&s.query_coords, first));
    same.then(|| Fit::new(basis, first)).transpose()
}

/// Least squares at some points, factorised.
struct Fit {
    functions: usize,
    stride: usize,
    features: Vec<f32>,
    factor: Vec<f64>,
}

impl Fit {
    fn new(basis: &Basis, places: &Rows) -> Result<Self> {
        let n = basis.len();
        let stride = n.next_multiple_of(16);
        let features = basis.evaluate(places.data(), stride);
        let gram = vidon_kernels::gram(&features, stride, n);
        let mut factor: Vec<f64> = gram.iter().map(|g| *g as f64).collect();
        if !factorise(&mut factor, n, RIDGE * places.len() as f64) {
            return Err(Error::Setting(
                "the trunk's basis is not finite at the targets: do they stand far outside of its frame?"
                    .into(),
            ));
        }
        Ok(Self {
            functions: n,
            stride,
            features,
            factor,
        })
    }

    /// Coefficients of every component, one after the other.
    fn coefs(&self, targets: &Rows) -> Vec<f64> {
        let n = self.functions;
        let component = |c: usize| {
            let mut right = vec![0.0; n];
            for (features, target) in self.features.chunks(self.stride).zip(targets.iter()) {
                right
                    .iter_mut()
                    .zip(features)
                    .for_each(|(r, f)| *r += *f as f64 * target[c] as f64);
            }
            cholesky_solve(&self.factor, n, &mut right);
            right
        };
        (0..targets.width()).flat_map(component).collect()
    }
}
