//! Regularised least squares in a basis φ: the coefficients of a function of which u is known at m places x,
//!
//!   c = P (AᵀA/m + λI)⁻¹ Aᵀu/m = P Aᵀ (AAᵀ/m + λI)⁻¹ u/m,   A_jk = P_k φ_k(x_j),
//!
//! the first with more places than functions, the second with fewer. All in double precision: λ may be far
//! below what single precision resolves.

use crate::memory::Need;
use crate::spaces::basis::Basis;
use crate::spaces::covariates::FittedBasis;
use crate::spaces::linalg::{Factor, Matrix, transposed_product};

/// Places whose functions are worked out at a time.
const AT_ONCE: usize = 4096;

/// Places, and what is known there: as many functions as there are columns.
pub(crate) enum LeastSquares {
    /// Φ and u/m.
    Few { features: Matrix, right: Matrix },
    /// The lower triangle of ΦᵀΦ/m, and Φᵀu/m.
    Many { gram: Matrix, right: Matrix },
}

impl LeastSquares {
    /// What a fit of so many functions at so many places takes: Φ in single and double precision, the
    /// system, and its factors.
    pub fn need(functions: usize, places: usize) -> Need {
        let size = functions.min(places);
        let features = Need::of(functions.saturating_mul(places.min(AT_ONCE.max(size))), 20);
        features.and(Need::of(size.saturating_mul(size), 3 * size_of::<f64>()))
    }

    /// With a row of `known` a place.
    pub fn new(basis: &Basis, coords: &[f32], known: &Matrix) -> Self {
        let evaluate = |coords: &[f32]| basis.evaluate(coords, basis.len());
        Self::in_functions(basis.len(), evaluate, coords, known)
    }

    /// The same with further functions of the covariates of places.
    pub fn with_covariates(functions: &FittedBasis, places: &[f32], known: &Matrix) -> Self {
        let evaluate = |places: &[f32]| functions.evaluate(places);
        Self::in_functions(functions.len(), evaluate, places, known)
    }

    /// In `n` functions, which are evaluated a row a place.
    fn in_functions(
        n: usize,
        evaluate: impl Fn(&[f32]) -> Vec<f32>,
        coords: &[f32],
        known: &Matrix,
    ) -> Self {
        let m = known.rows();
        let (dim, share) = (coords.len() / m, 1.0 / m as f64);
        let features = |coords: &[f32]| Matrix::single(n, &evaluate(coords));
        if m < n {
            return Self::Few {
                features: features(coords),
                right: known.clone().scaled(share),
            };
        }
        let (mut gram, mut right) = (Matrix::zeros(n, n), Matrix::zeros(n, known.columns()));
        for (i, coords) in coords.chunks(dim * AT_ONCE).enumerate() {
            let features = features(coords);
            gram.add_square(share, features.view().transposed());
            let (first, columns) = (i * AT_ONCE, known.columns());
            let own = Matrix::from_fn(features.rows(), columns, |j, c| known[(first + j, c)]);
            right.add(share, &transposed_product(&features, &own));
        }
        Self::Many { gram, right }
    }

    /// With a prior, for any λ.
    pub fn weigh<'a>(&'a self, prior: &'a [f64]) -> Weighed<'a> {
        let n = prior.len();
        let (matrix, right, features) = match self {
            Self::Few { features, right } => {
                let m = features.rows();
                let a = Matrix::from_fn(m, n, |j, k| features[(j, k)] * prior[k]);
                let mut matrix = Matrix::zeros(m, m);
                matrix.add_square(1.0 / m as f64, a.view());
                (matrix, right.clone(), Some(a))
            }
            Self::Many { gram, right } => (
                Matrix::from_fn(n, n, |i, j| gram[(i, j)] * prior[i] * prior[j]),
                Matrix::from_fn(n, right.columns(), |i, c| right[(i, c)] * prior[i]),
                None,
            ),
        };
        Weighed {
            prior,
            matrix,
            right,
            features,
        }
    }
}

/// [`LeastSquares`] under a prior.
pub(crate) struct Weighed<'a> {
    prior: &'a [f64],
    matrix: Matrix,
    right: Matrix,
    /// A, where places are fewer than functions.
    features: Option<Matrix>,
}

impl Weighed<'_> {
    /// c of every column; not a number where the functions are not finite at the places.
    pub fn solve(&self, ridge: f64) -> Matrix {
        let (n, columns) = (self.prior.len(), self.right.columns());
        let Some(factor) = Factor::with_ridge(&self.matrix, ridge) else {
            return Matrix::from_fn(n, columns, |_, _| f64::NAN);
        };
        let mut c = factor.solve(&self.right);
        if let Some(a) = &self.features {
            c = transposed_product(a, &c);
        }
        Matrix::from_fn(n, columns, |k, column| c[(k, column)] * self.prior[k])
    }
}

/// What samples know at the same places, `width` numbers a place each.
pub(crate) fn side_by_side(known: &[&[f32]], width: usize) -> Matrix {
    Matrix::from_fn(known[0].len() / width, known.len() * width, |place, c| {
        known[c / width][place * width + c % width] as f64
    })
}

/// The solution of every sample, component by component.
pub(crate) fn one_by_one(coefs: &Matrix, width: usize) -> impl Iterator<Item = Vec<f64>> {
    let n = coefs.rows();
    (0..coefs.columns() / width).map(move |sample| {
        let own = (0..width * n).map(|i| coefs[(i % n, sample * width + i / n)]);
        own.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::spaces::frame::{Family, Frame};
    use proptest::prelude::*;
    use rand::RngExt;

    fn basis(family: Family, functions: usize) -> Basis {
        let frame = Frame {
            lo: vec![0.0; 2],
            hi: vec![1.0; 2],
            family,
            times: 0,
        };
        Basis::whole(frame, functions)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The gradient of ‖u - Φc‖²/m + λ‖c/P‖² vanishes, with few places and with many, two functions at a time.
        #[test]
        fn solutions_are_where_the_gradient_vanishes(m in 1usize..80, seed: u64, exponent in 1i32..9) {
            let basis = basis(Family::Legendre, 28);
            let (n, ridge) = (basis.len(), 10f64.powi(-exponent));
            let rng = &mut stream(seed, "places", 0);
            let coords: Vec<f32> = (0..2 * m).map(|_| rng.random()).collect();
            let known = Matrix::from_fn(m, 2, |_, _| rng.random_range(-1.0..1.0));
            let prior: Vec<f64> = basis.orders().iter().map(|k| (-0.2 * k).exp()).collect();
            let c = LeastSquares::new(&basis, &coords, &known).weigh(&prior).solve(ridge);
            let features = Matrix::single(n, &basis.evaluate(&coords, n));
            let mut left = known.clone();
            left.add_product(-1.0, features.view(), c.view());
            let mut pull = Matrix::zeros(n, 2);
            pull.add_product(1.0 / m as f64, features.view().transposed(), left.view());
            for (k, column) in (0..n).flat_map(|k| [(k, 0), (k, 1)]) {
                let gradient = pull[(k, column)] * prior[k].powi(2) - ridge * c[(k, column)];
                prop_assert!(gradient.abs() < 1e-9, "{gradient}");
            }
        }

        /// However few sensors and small λ: their order does not matter, nor a sensor that is there twice,
        /// and no coefficient is much larger than what was read.
        #[test]
        fn few_sensors_are_safe(m in 1usize..12, seed: u64) {
            let basis = basis(Family::Cosine, 105);
            let rng = &mut stream(seed, "places", 0);
            let coords: Vec<f32> = (0..2 * m).map(|_| rng.random()).collect();
            let known: Vec<f64> = (0..m).map(|_| rng.random_range(4.0..6.0)).collect();
            let prior: Vec<f64> = basis.orders().iter().map(|k| (1.0 + k * k).powf(-1.5)).collect();
            let solve = |order: &[usize]| {
                let coords: Vec<f32> = order.iter().flat_map(|&i| [coords[2 * i], coords[2 * i + 1]]).collect();
                let known = Matrix::from_fn(order.len(), 1, |i, _| known[order[i]]);
                LeastSquares::new(&basis, &coords, &known).weigh(&prior).solve(1e-8)
            };
            let plain = solve(&Vec::from_iter(0..m));
            let size = plain.numbers().iter().fold(0.0, |a: f64, v| a.max(v.abs()));
            prop_assert!(size < 1e3, "{size}");
            for order in [Vec::from_iter((0..m).rev()), (0..m).chain(0..m).collect()] {
                for (a, b) in plain.numbers().iter().zip(solve(&order).numbers()) {
                    prop_assert!((a - b).abs() < 1e-5 * size, "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn functions_that_overflow_are_told() {
        let basis = basis(Family::Legendre, 105);
        let known = Matrix::from_fn(3, 1, |_, _| 1.0);
        let far = LeastSquares::new(&basis, &[1e30; 6], &known);
        let c = far.weigh(&vec![1.0; basis.len()]).solve(1e-3);
        assert!(c.numbers().iter().all(|v| v.is_nan()));
    }
}
