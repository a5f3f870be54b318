//! A trunk from training data (proper orthogonal decomposition).
//!
//! Every training output is fitted by the functions of a fixed basis (regularised least squares, so the targets may
//! stand anywhere); τ_0 is the mean of the fits, τ_1 … τ_p are their principal directions, each scaled by its
//! standard deviation so that the β are of size one.

use rand::seq::index;
use rayon::prelude::*;

use crate::data::{Rows, Sample};
use crate::error::{Error, Result};
use crate::linalg::{Matrix, symmetric_eigen};
use crate::models::basis::Basis;
use crate::models::least_squares::{LeastSquares, one_by_one, side_by_side};
use crate::models::projection::at_once;
use crate::rng::stream;

/// λ of the fits.
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
    let fits = target_fits(basis, samples);
    let count = fits.len() as f64;
    let mean: Vec<f64> = (0..n)
        .map(|i| fits.iter().map(|f| f[i]).sum::<f64>() / count)
        .collect();
    // Coefficients of functions of norm one, so that the directions are those of L².
    let norms: Vec<f64> = basis.mean_squares().iter().map(|v| v.sqrt()).collect();
    let norm = |i: usize| norms[i % functions];
    if !mean.iter().all(|m| m.is_finite()) {
        return Err(Error::Setting(
            "the trunk's basis is not finite at the targets: do they stand far outside of its frame?"
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

/// Coefficients of every training output in the basis, component by component.
pub(crate) fn target_fits(basis: &Basis, samples: &[Sample]) -> Vec<Vec<f64>> {
    let first = &samples[0].query_coords;
    let prior = vec![1.0; basis.len()];
    let solve = |places: &Rows, targets: &[&Rows]| -> Vec<Vec<f64>> {
        let width = targets[0].width();
        let known = side_by_side(&Vec::from_iter(targets.iter().map(|t| t.data())), width);
        let squares = LeastSquares::new(basis, places.data(), &known);
        one_by_one(&squares.weigh(&prior).solve(RIDGE), width).collect()
    };
    let same = at_once(samples.iter().map(|s| s.query_coords.data()));
    if same > 1 {
        let solve =
            |some: &[Sample]| solve(first, &Vec::from_iter(some.iter().map(|s| &s.targets)));
        return samples.chunks(same).flat_map(solve).collect();
    }
    samples
        .par_iter()
        .enumerate()
        .flat_map_iter(|(i, s)| {
            // More targets than this say nothing new; a regular pick might see one time only.
            let available = s.query_coords.len();
            let wanted = available.min(TARGETS * basis.len());
            let rng = &mut stream(0, "targets", i as u64);
            let picked = index::sample(rng, available, wanted).into_vec();
            solve(
                &s.query_coords.select(&picked),
                &[&s.targets.select(&picked)],
            )
        })
        .collect()
}
