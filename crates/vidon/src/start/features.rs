//! The functions of a place that a field is made of, with z_j what is known of it besides (covariates of mean zero and
//! spread one):
//!
//!   φ_1 … φ_n,   z_j φ_1 … z_j φ_p,   (z_j² - 1) φ_1 … (z_j² - 1) φ_s,
//!
//! with the φ of a box, of mean square one, in the order of their frequency.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Rows;
use crate::spaces::linalg::Matrix;
use crate::spaces::{Basis, Frame};

/// How much smaller products with a covariate and with its square are taken to be than functions of the place.
const PRODUCT: f64 = 0.3;
const SQUARE: f64 = 0.1;

/// A covariate goes as far as so many spreads.
const SPREADS: f64 = 4.0;

/// Which functions; all of it is chosen from the data where a recipe does not say it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesConfig {
    pub frame: Frame,
    /// n, p and s.
    pub place: usize,
    pub products: usize,
    pub squares: usize,
}

/// The functions, with the means and spreads of the covariates.
#[derive(Clone, Debug)]
pub(super) struct Features {
    basis: Basis,
    /// 1/√(mean square) of every φ.
    sizes: Vec<f64>,
    products: usize,
    squares: usize,
    axes: usize,
    /// Mean and spread of every covariate.
    covariates: Vec<[f64; 2]>,
}

impl Features {
    pub fn new(config: &FeaturesConfig, covariates: Vec<[f64; 2]>) -> Self {
        let basis = Basis::new(config.frame.clone(), config.place);
        Self {
            sizes: basis
                .mean_squares()
                .iter()
                .map(|m| m.sqrt().recip())
                .collect(),
            axes: config.frame.lo.len(),
            products: config.products.min(config.place),
            squares: config.squares.min(config.place),
            covariates,
            basis,
        }
    }

    /// How far coordinates and covariates go.
    pub fn sides(&self) -> Vec<f64> {
        let frame = self.basis.frame();
        let ends = frame.lo.iter().zip(&frame.hi);
        let spreads = self.covariates.iter().map(|[_, spread]| SPREADS * spread);
        ends.map(|(lo, hi)| hi - lo).chain(spreads).collect()
    }

    pub fn len(&self) -> usize {
        self.basis.len() + self.covariates.len() * (self.products + self.squares)
    }

    /// How large the coefficients of the functions are taken to be where nothing is known of them.
    pub fn amplitudes(&self) -> Vec<f64> {
        let orders = self.basis.orders();
        let of =
            |count: usize, size: f64| orders[..count].iter().map(move |k| size / (1.0 + k * k));
        let mut all: Vec<f64> = of(self.basis.len(), 1.0).collect();
        for _ in &self.covariates {
            all.extend(of(self.products, PRODUCT));
            all.extend(of(self.squares, SQUARE));
        }
        all
    }

    /// At places with their covariates: a row a place.
    pub fn at(&self, places: &Rows) -> Matrix {
        let (n, width) = (self.basis.len(), self.len());
        let coords = places.first_columns(self.axes);
        let values = self.basis.evaluate(coords.data(), n);
        let rows = values
            .par_chunks(n)
            .enumerate()
            .flat_map_iter(|(i, values)| {
                let phi = |k: usize| values[k] as f64 * self.sizes[k];
                let mut row: Vec<f64> = (0..n).map(phi).collect();
                for (j, [mean, spread]) in self.covariates.iter().enumerate() {
                    let z = (places.row(i)[self.axes + j] as f64 - mean) / spread;
                    row.extend((0..self.products).map(|k| z * phi(k)));
                    row.extend((0..self.squares).map(|k| (z * z - 1.0) * phi(k)));
                }
                row
            });
        Matrix::of(width, rows.collect())
    }
}

/// Mean and spread of every covariate of places; a spread of one where there is none.
pub(super) fn standards<'a>(places: impl Iterator<Item = &'a Rows>, axes: usize) -> Vec<[f64; 2]> {
    let mut sums: Vec<[f64; 3]> = Vec::new();
    for row in places.flat_map(Rows::iter) {
        sums.resize(row.len() - axes, [0.0; 3]);
        for (sum, v) in sums.iter_mut().zip(&row[axes..]) {
            let v = *v as f64;
            *sum = [sum[0] + 1.0, sum[1] + v, sum[2] + v * v];
        }
    }
    let standard = |[count, sum, squares]: &[f64; 3]| {
        let mean = sum / count;
        let variance = squares / count - mean * mean;
        [
            mean,
            if variance > 1e-12 * squares {
                variance.sqrt()
            } else {
                1.0
            },
        ]
    };
    sums.iter().map(standard).collect()
}
