//! Small dense linear algebra in double precision: Cholesky and the symmetric eigenvalue problem.

/// Factorises the symmetric positive definite `n × n` matrix `a` (lower triangle used) into `L Lᵀ`, in place.
/// False if it is not positive definite.
pub(crate) fn cholesky(a: &mut [f64], n: usize) -> bool {
    for i in 0..n {
        for j in 0..=i {
            let (upper, lower) = a.split_at(i * n);
            let (row_i, row_j) = (
                &lower[..j],
                if j < i {
                    &upper[j * n..j * n + j]
                } else {
                    &lower[..j]
                },
            );
            let inner: f64 = row_i.iter().zip(row_j).map(|(x, y)| x * y).sum();
            let value = a[i * n + j] - inner;
            if i == j {
                if value.is_nan() || value <= 0.0 {
                    return false;
                }
                a[i * n + i] = value.sqrt();
            } else {
                a[i * n + j] = value / a[j * n + j];
            }
        }
    }
    true
}

/// The Cholesky factor of `A + ridge·I`; more is added where rounding has left A indefinite. False if a number is not finite.
pub(crate) fn factorise(a: &mut [f64], n: usize, mut ridge: f64) -> bool {
    let plain = a.to_vec();
    while ridge.is_finite() {
        (0..n).for_each(|i| a[i * n + i] += ridge);
        if cholesky(a, n) {
            return true;
        }
        ridge *= 10.0;
        a.copy_from_slice(&plain);
    }
    false
}

/// Solves `L Lᵀ x = b` in place, with the factor of [`cholesky`].
pub(crate) fn cholesky_solve(factor: &[f64], n: usize, b: &mut [f64]) {
    for i in 0..n {
        let inner: f64 = (0..i).map(|k| factor[i * n + k] * b[k]).sum();
        b[i] = (b[i] - inner) / factor[i * n + i];
    }
    for i in (0..n).rev() {
        let inner: f64 = (i + 1..n).map(|k| factor[k * n + i] * b[k]).sum();
        b[i] = (b[i] - inner) / factor[i * n + i];
    }
}

/// Eigenvalues (largest first) and eigenvectors (one a row) of a symmetric matrix, by Jacobi rotations.
pub(crate) fn symmetric_eigen(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|i| vectors[i * n + i] = 1.0);
    let total: f64 = a.iter().map(|v| v * v).sum();
    for _sweep in 0..60 {
        let off: f64 = (0..n)
            .map(|i| (0..i).map(|j| a[i * n + j].powi(2)).sum::<f64>())
            .sum();
        if off <= 1e-28 * total {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let rows = order
        .iter()
        .flat_map(|&i| vectors[i * n..(i + 1) * n].to_vec())
        .collect();
    (values, rows)
}

/// One rotation that makes `a_pq` zero.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for matrix in [a, vectors] {
        for k in 0..n {
            let (x, y) = (matrix[p * n + k], matrix[q * n + k]);
            matrix[p * n + k] = c * x - s * y;
            matrix[q * n + k] = s * x + c * y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use proptest::prelude::*;
    use rand::RngExt;

    fn random(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = stream(seed, "linalg", 0);
        (0..n * n).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    proptest! {
        #[test]
        fn cholesky_solves(n in 1usize..12, seed: u64) {
            let b = random(n, seed);
            // B Bᵀ + I
            let mut a = vec![0.0; n * n];
            for i in 0..n {
                for j in 0..n {
                    let inner: f64 = (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum();
                    a[i * n + j] = inner + if i == j { 1.0 } else { 0.0 };
                }
            }
            let exact = &random(n, seed ^ 1)[..n];
            let mut x: Vec<f64> = (0..n).map(|i| (0..n).map(|k| a[i * n + k] * exact[k]).sum()).collect();
            prop_assert!(cholesky(&mut a, n));
            cholesky_solve(&a, n, &mut x);
            prop_assert!(x.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-10));
        }

        #[test]
        fn eigenvectors_diagonalise(n in 1usize..15, seed: u64) {
            let b = random(n, seed);
            let a: Vec<f64> = (0..n * n).map(|i| b[i] + b[i % n * n + i / n]).collect();
            let (values, vectors) = symmetric_eigen(a.clone(), n);
            prop_assert!(values.windows(2).all(|w| w[0] >= w[1]));
            for (value, v) in values.iter().zip(vectors.chunks(n)) {
                prop_assert!((v.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-10);
                for i in 0..n {
                    let image: f64 = (0..n).map(|k| a[i * n + k] * v[k]).sum();
                    prop_assert!((image - value * v[i]).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_is_refused() {
        assert!(!cholesky(&mut [1.0, 0.0, 2.0, 1.0], 2));
        assert!(!cholesky(&mut [f64::NAN], 1));
    }
}
