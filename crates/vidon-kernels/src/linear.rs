//! Small symmetric systems in single precision: `AᵀA`, and solving with it.

use crate::isa::{Isa, dispatch};
use crate::product::{Product, product};
use crate::simd::Simd;

/// What elimination leaves of a diagonal number is rounding below this share of it.
const ROUNDING: f32 = 4e-6;
/// Columns of a block of the Gram matrix.
const BLOCK: usize = 48;

/// The lower triangle (and more) of `AᵀA`, `n × n`, for rows of `stride` floats (a multiple of 16) of which `n` are used.
pub fn gram(a: &[f32], stride: usize, n: usize) -> Vec<f32> {
    assert!(stride.is_multiple_of(16) && n <= stride && a.len().is_multiple_of(stride));
    let rows = a.len() / stride;
    let mut wide = crate::arena::Buffer::take(n * stride);
    // Blocks of rows of the result, each up to its diagonal.
    for first in (0..n).step_by(BLOCK) {
        let count = BLOCK.min(n - first);
        let p = Product {
            matrix: a[first..].as_ptr(),
            row: 1,
            step: stride,
            rows: count,
            terms: rows,
            x: a.as_ptr(),
            x_line: stride,
            out: wide[first * stride..].as_mut_ptr(),
            out_line: stride,
            width: (first + count).next_multiple_of(16).min(stride),
            add: false,
        };
        unsafe { product(Isa::current(), &p) };
    }
    let mut gram = vec![0.0; n * n];
    for i in 0..n {
        gram[i * n..=i * n + i].copy_from_slice(&wide[i * stride..=i * stride + i]);
    }
    gram
}

/// Solves `A x = b` in place for each right side (`n` numbers each) with the symmetric positive definite `n × n` matrix A, of which the lower triangle is used and
/// lost. Unknowns that the others settle up to rounding are 0.
pub fn solve_positive(a: &mut [f32], n: usize, b: &mut [f32]) {
    // The upper triangle holds the factor U, A = UᵀU, row by row.
    for i in 0..n {
        for j in 0..i {
            a[j * n + i] = a[i * n + j];
        }
    }
    let floors: Vec<f32> = (0..n).map(|i| ROUNDING * a[i * n + i]).collect();
    unsafe { factorise(Isa::current(), a.as_mut_ptr(), n, floors.as_ptr()) };
    for x in b.chunks_exact_mut(n) {
        for k in 0..n {
            x[k] /= a[k * n + k];
            let (done, rest) = x.split_at_mut(k + 1);
            for (r, u) in rest.iter_mut().zip(&a[k * n + k + 1..(k + 1) * n]) {
                *r -= done[k] * u;
            }
        }
        for k in (0..n).rev() {
            let row = &a[k * n + k + 1..(k + 1) * n];
            let sum: f32 = row.iter().zip(&x[k + 1..]).map(|(u, x)| u * x).sum();
            x[k] = (x[k] - sum) / a[k * n + k];
        }
    }
}

/// Rows eliminated at a time.
const PANEL: usize = 4;

#[inline(always)]
unsafe fn factorise_generic<S: Simd>(a: *mut f32, n: usize, floors: *const f32) {
    unsafe {
        let mut k = 0;
        while k < n {
            let end = (k + PANEL).min(n);
            // The rows of the panel among themselves.
            for p in k..end {
                let left = *a.add(p * n + p);
                let pivot = match left > *floors.add(p) {
                    true => left.sqrt(),
                    false => f32::INFINITY,
                };
                *a.add(p * n + p) = pivot;
                for j in p + 1..n {
                    *a.add(p * n + j) /= pivot;
                }
                for i in p + 1..end {
                    let share = *a.add(p * n + i);
                    for j in i..n {
                        *a.add(i * n + j) -= share * *a.add(p * n + j);
                    }
                }
            }
            // All rows below, with the whole panel.
            for i in end..n {
                let mut j = i;
                if end - k == PANEL {
                    let shares: [S::V; PANEL] =
                        std::array::from_fn(|p| S::splat(*a.add((k + p) * n + i)));
                    while j + S::LANES <= n {
                        let mut row = S::load(a.add(i * n + j));
                        for (p, share) in shares.iter().enumerate() {
                            row = S::fnma(*share, S::load(a.add((k + p) * n + j)), row);
                        }
                        S::store(a.add(i * n + j), row);
                        j += S::LANES;
                    }
                }
                while j < n {
                    for p in k..end {
                        *a.add(i * n + j) -= *a.add(p * n + i) * *a.add(p * n + j);
                    }
                    j += 1;
                }
            }
            k = end;
        }
    }
}
dispatch!(
    /// A = UᵀU in the upper triangle; where what is left of a pivot is not above its floor, it is infinite.
    unsafe fn factorise = factorise_generic(a: *mut f32, n: usize, floors: *const f32)
);

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Where only rounding is left of the pivots, there is still an answer, of the size of what was asked.
    #[test]
    fn systems_of_less_rank_give_bounded_answers() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        let (n, rows) = (96, 8);
        let a: Vec<f32> = (0..rows * n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let matrix = gram(&a, n, n);
        let wanted: Vec<f32> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let full = |i: usize, j: usize| matrix[i.max(j) * n + i.min(j)];
        let times = |x: &[f32]| -> Vec<f32> {
            let row = |i: usize| (0..n).map(|j| full(i, j) * x[j]).sum::<f32>();
            (0..n).map(row).collect()
        };
        let right = times(&wanted);
        let mut b = right.clone();
        solve_positive(&mut matrix.clone(), n, &mut b);
        assert!(b.iter().all(|v| v.abs() < 100.0), "{b:?}");
        for (found, wanted) in times(&b).iter().zip(&right) {
            assert!((found - wanted).abs() < 0.05, "{found} {wanted}");
        }
    }

    #[test]
    fn systems_are_solved() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for (n, rows) in [(1, 1), (5, 9), (37, 80), (120, 300)] {
            let stride = usize::next_multiple_of(n, 16);
            let mut a = vec![0.0; rows * stride];
            for row in a.chunks_mut(stride) {
                row[..n]
                    .iter_mut()
                    .for_each(|v| *v = rng.random_range(-1.0..1.0f32));
            }
            let mut matrix = gram(&a, stride, n);
            for i in 0..n {
                for j in 0..=i {
                    let sum: f64 = a.chunks(stride).map(|r| r[i] as f64 * r[j] as f64).sum();
                    assert!((matrix[i * n + j] as f64 - sum).abs() < 1e-4 * rows as f64);
                }
                matrix[i * n + i] += 1.0;
            }
            let wanted: Vec<f32> = (0..2 * n).map(|_| rng.random_range(-1.0..1.0)).collect();
            let full = |i: usize, j: usize| matrix[i.max(j) * n + i.min(j)];
            let mut b = Vec::new();
            for x in wanted.chunks(n) {
                b.extend((0..n).map(|i| (0..n).map(|j| full(i, j) * x[j]).sum::<f32>()));
            }
            solve_positive(&mut matrix.clone(), n, &mut b);
            for (found, wanted) in b.iter().zip(&wanted) {
                assert!((found - wanted).abs() < 2e-3, "{n}: {found} {wanted}");
            }
        }
    }
}
