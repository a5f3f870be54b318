//! Dense linear algebra in double precision: products, Cholesky and the symmetric eigenvalue problem. The
//! same bits on any number of threads.

use std::ops::{Index, IndexMut};

use gemm::{Parallelism, gemm};
use rayon::prelude::*;

/// Rows of a symmetric product that are worked on at a time, each up to the diagonal.
const BLOCK: usize = 128;
/// Unknowns that are eliminated at a time.
const PANEL: usize = 32;
/// Multiplications that are worth a thread.
const WORTH: usize = 1 << 18;

/// Numbers row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    numbers: Vec<f64>,
}

impl Matrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |_, _| 0.0)
    }

    pub fn from_fn(
        rows: usize,
        columns: usize,
        mut number: impl FnMut(usize, usize) -> f64,
    ) -> Self {
        let mut numbers = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            numbers.extend((0..columns).map(|j| number(i, j)));
        }
        Self {
            rows,
            columns,
            numbers,
        }
    }

    /// From rows of so many numbers.
    pub fn of(columns: usize, numbers: Vec<f64>) -> Self {
        let rows = numbers.len() / columns.max(1);
        Self {
            rows,
            columns,
            numbers,
        }
    }

    /// From rows in single precision.
    pub fn single(columns: usize, numbers: &[f32]) -> Self {
        let rows = numbers.len() / columns;
        Self::from_fn(rows, columns, |i, j| numbers[i * columns + j] as f64)
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    pub fn scaled(mut self, factor: f64) -> Self {
        self.numbers.iter_mut().for_each(|v| *v *= factor);
        self
    }

    pub fn view(&self) -> View<'_> {
        View {
            numbers: &self.numbers,
            shape: [self.rows, self.columns],
            steps: [self.columns, 1],
        }
    }

    /// Adds `share·A`.
    pub fn add(&mut self, share: f64, a: &Matrix) {
        take(&mut self.numbers, -share, &a.numbers);
    }

    /// Adds `share·A B`.
    pub fn add_product(&mut self, share: f64, a: View, b: View) {
        let (rows, columns) = (self.rows, self.columns);
        add_product(&mut self.numbers, columns, [rows, columns], share, a, b);
    }

    /// Adds the lower triangle (and a little more) of `share·A Aᵀ`.
    pub fn add_square(&mut self, share: f64, a: View) {
        let n = self.rows;
        for first in (0..n).step_by(BLOCK) {
            let end = (first + BLOCK).min(n);
            let (own, upto) = (a.part(first..end), a.part(0..end));
            let shape = [end - first, end];
            add_product(
                &mut self.numbers[first * n..],
                n,
                shape,
                share,
                own,
                upto.transposed(),
            );
        }
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.numbers[i * self.columns + j]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.numbers[i * self.columns + j]
    }
}

/// A matrix in memory of another: the steps from row to row and from column to column.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    numbers: &'a [f64],
    shape: [usize; 2],
    steps: [usize; 2],
}

impl View<'_> {
    pub fn transposed(mut self) -> Self {
        self.shape.reverse();
        self.steps.reverse();
        self
    }

    /// Some rows.
    pub fn part(self, rows: std::ops::Range<usize>) -> Self {
        Self {
            numbers: &self.numbers[rows.start * self.steps[0]..],
            shape: [rows.len(), self.shape[1]],
            ..self
        }
    }
}

/// Adds `share·A B` to a matrix with `line` numbers from row to row.
fn add_product(
    sum: &mut [f64],
    line: usize,
    [rows, columns]: [usize; 2],
    share: f64,
    a: View,
    b: View,
) {
    let inner = a.shape[1];
    if rows * columns * inner == 0 {
        return;
    }
    let last = |v: &View| (v.shape[0] - 1) * v.steps[0] + (v.shape[1] - 1) * v.steps[1];
    assert!([a.shape, b.shape] == [[rows, inner], [inner, columns]]);
    assert!((rows - 1) * line + columns <= sum.len() && columns <= line);
    assert!(last(&a) < a.numbers.len() && last(&b) < b.numbers.len());
    let [a_row, a_column, b_row, b_column] =
        [a.steps[0], a.steps[1], b.steps[0], b.steps[1]].map(|s| s as isize);
    // SAFETY: the assertions above hold for the largest index that the product reads or writes in each slice.
    unsafe {
        gemm(
            rows,
            columns,
            inner,
            sum.as_mut_ptr(),
            1,
            line as isize,
            true,
            a.numbers.as_ptr(),
            a_column,
            a_row,
            b.numbers.as_ptr(),
            b_column,
            b_row,
            1.0,
            share,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// A symmetric positive definite matrix in triangular factors, `A = L Lᵀ`.
pub(crate) struct Factor(Matrix);

impl Factor {
    /// Of a matrix of which the lower triangle is used; none if it is not positive definite.
    pub fn new(mut a: Matrix) -> Option<Self> {
        let n = a.rows;
        for first in (0..n).step_by(PANEL) {
            let end = (first + PANEL).min(n);
            for j in first..end {
                for i in j..end {
                    let inner: f64 = (first..j).map(|k| a[(i, k)] * a[(j, k)]).sum();
                    a[(i, j)] -= inner;
                    if i > j {
                        a[(i, j)] /= a[(j, j)];
                    } else if a[(j, j)] > 0.0 && a[(j, j)].is_finite() {
                        a[(j, j)] = a[(j, j)].sqrt();
                    } else {
                        return None;
                    }
                }
            }
            // The block's columns below it.
            let width = end - first;
            let upper = Matrix::from_fn(width, width, |j, k| a[(first + k, first + j)]);
            for i in end..n {
                let own = &mut a.numbers[i * n + first..i * n + end];
                for j in 0..width {
                    own[j] /= upper[(j, j)];
                    let (done, rest) = own.split_at_mut(j + 1);
                    take(rest, done[j], &upper.numbers[j * width + j + 1..]);
                }
            }
            // All columns behind it.
            let rest = n - end;
            let panel = Matrix::from_fn(rest, width, |i, j| a[(end + i, first + j)]);
            for top in (0..rest).step_by(BLOCK) {
                let bottom = (top + BLOCK).min(rest);
                let (own, upto) = (panel.view().part(top..bottom), panel.view().part(0..bottom));
                let at = (end + top) * n + end;
                let shape = [bottom - top, bottom];
                add_product(&mut a.numbers[at..], n, shape, -1.0, own, upto.transposed());
            }
        }
        Some(Self(a))
    }

    /// Of `A + ridge·I`; more is added where rounding has left A indefinite. None if a number is not finite,
    /// or the ridge not positive.
    pub fn with_ridge(a: &Matrix, mut ridge: f64) -> Option<Self> {
        if ridge <= 0.0 || !a.numbers.iter().all(|v| v.is_finite()) {
            return None;
        }
        while ridge.is_finite() {
            let mut sum = a.clone();
            (0..a.rows).for_each(|i| sum[(i, i)] += ridge);
            let factor = Self::new(sum);
            if factor.is_some() {
                return factor;
            }
            ridge *= 10.0;
        }
        None
    }

    /// ln det A
    pub fn log_determinant(&self) -> f64 {
        2.0 * (0..self.0.rows).map(|i| self.0[(i, i)].ln()).sum::<f64>()
    }

    /// A⁻¹
    pub fn inverse(&self) -> Matrix {
        let n = self.0.rows;
        self.solve(&Matrix::from_fn(
            n,
            n,
            |i, j| if i == j { 1.0 } else { 0.0 },
        ))
    }

    /// Solves `A x = b` for every column b. Columns know nothing of each other: the bits of one do not depend
    /// on how many there are.
    pub fn solve(&self, b: &Matrix) -> Matrix {
        let solved = each_column(b, |mut x| {
            let (l, n) = (&self.0.numbers, self.0.rows);
            for i in 0..n {
                let (done, rest) = x.split_at_mut(i);
                rest[0] = (rest[0] - dot(&l[i * n..i * n + i], done)) / l[i * n + i];
            }
            for i in (0..n).rev() {
                let (rest, own) = x.split_at_mut(i);
                own[0] /= l[i * n + i];
                take(rest, own[0], &l[i * n..i * n + i]);
            }
            x
        });
        from_columns(&solved)
    }
}

/// `AᵀB`, a column at a time as in [`Factor::solve`].
pub(crate) fn transposed_product(a: &Matrix, b: &Matrix) -> Matrix {
    let product = each_column(b, |known| {
        let mut sum = vec![0.0; a.columns];
        for (row, v) in a.numbers.chunks_exact(a.columns).zip(&known) {
            take(&mut sum, -v, row);
        }
        sum
    });
    from_columns(&product)
}

/// Something of every column.
fn each_column(
    matrix: &Matrix,
    work: impl Fn(Vec<f64>) -> Vec<f64> + Sync + Send,
) -> Vec<Vec<f64>> {
    let column = |c: usize| (0..matrix.rows).map(|i| matrix[(i, c)]).collect();
    // A task is worth its thread.
    let together = WORTH / (matrix.rows * matrix.rows).max(1) + 1;
    let columns = (0..matrix.columns).into_par_iter().with_min_len(together);
    columns.map(|c| work(column(c))).collect()
}

fn from_columns(columns: &[Vec<f64>]) -> Matrix {
    let rows = columns.first().map_or(0, Vec::len);
    Matrix::from_fn(rows, columns.len(), |i, c| columns[c][i])
}

/// Eight sums at a time, which do not wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// `row -= factor·other`
fn take(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut()
        .zip(other)
        .for_each(|(r, o)| *r -= factor * o);
}

/// Eigenvalues (largest first) and eigenvectors (one a row) of a symmetric matrix, by Jacobi rotations.
pub(crate) fn symmetric_eigen(a: Matrix) -> (Vec<f64>, Matrix) {
    let (n, mut a) = (a.rows, a.numbers);
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
    (
        values,
        Matrix::from_fn(n, n, |i, k| vectors[order[i] * n + k]),
    )
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

    fn random(rows: usize, n: usize, seed: u64) -> Matrix {
        let mut rng = stream(seed, "linalg", 0);
        Matrix::from_fn(rows, n, |_, _| rng.random_range(-1.0..1.0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn systems_are_solved(n in 1usize..200, columns in 1usize..4, seed: u64) {
            let b = random(n + 3, n, seed);
            let mut a = Matrix::zeros(n, n);
            a.add_square(0.5, b.view().transposed());
            (0..n).for_each(|i| a[(i, i)] += 1.0);
            for (i, j) in [(n - 1, 0), (n / 2, n / 3), (n - 1, n - 1)] {
                let sum: f64 = (0..n + 3).map(|k| 0.5 * b[(k, i)] * b[(k, j)]).sum();
                let added = f64::from(i == j);
                prop_assert!((a[(i, j)] - sum - added).abs() < 1e-12);
            }
            let full = Matrix::from_fn(n, n, |i, j| a[(i.max(j), i.min(j))]);
            let exact = random(n, columns, seed ^ 1);
            let mut right = Matrix::zeros(n, columns);
            right.add_product(1.0, full.view(), exact.view());
            let factor = Factor::new(a).unwrap();
            let x = factor.solve(&right);
            prop_assert!(x.numbers.iter().zip(&exact.numbers).all(|(a, b)| (a - b).abs() < 1e-10));
            // A column alone has the same bits.
            let last = Matrix::from_fn(n, 1, |i, _| right[(i, columns - 1)]);
            let alone = factor.solve(&last);
            prop_assert!((0..n).all(|i| alone[(i, 0)] == x[(i, columns - 1)]));
            let (both, one) = (transposed_product(&b, &random(n + 3, 2, seed)), random(n + 3, 2, seed));
            for i in 0..n {
                let sum: f64 = (0..n + 3).map(|k| b[(k, i)] * one[(k, 1)]).sum();
                prop_assert!((both[(i, 1)] - sum).abs() < 1e-12);
            }
        }

        #[test]
        fn eigenvectors_diagonalise(n in 1usize..15, seed: u64) {
            let b = random(n, n, seed);
            let a = Matrix::from_fn(n, n, |i, j| b[(i, j)] + b[(j, i)]);
            let (values, vectors) = symmetric_eigen(a.clone());
            prop_assert!(values.windows(2).all(|w| w[0] >= w[1]));
            for (value, v) in values.iter().zip(vectors.numbers.chunks(n)) {
                prop_assert!((v.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-10);
                for i in 0..n {
                    let image: f64 = (0..n).map(|k| a[(i, k)] * v[k]).sum();
                    prop_assert!((image - value * v[i]).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn a_matrix_without_factors_is_refused() {
        let indefinite = Matrix::single(2, &[1.0, 0.0, 2.0, 1.0]);
        assert!(Factor::new(indefinite.clone()).is_none());
        assert!(Factor::with_ridge(&indefinite, 1e-3).is_some());
        assert!(Factor::with_ridge(&indefinite, 0.0).is_none());
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(Factor::with_ridge(&Matrix::single(1, &[bad]), 1e-3).is_none());
        }
    }
}
