//! Products with matrices whose numbers are broadcast:   `out[p] (+)= Σ_q M[p·row + q·step]·X[q]`,   for rows X[q]
//! and out[p] of `width` floats. Terms are added one after the other, so a row of `out` depends on no other row.

use crate::isa::dispatch;
use crate::mlp::products;
use crate::simd::Simd;

/// A matrix to broadcast from: where its first number is, and the steps from row to row and from term to term.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub numbers: &'a [f32],
    pub row: usize,
    pub step: usize,
    pub rows: usize,
    pub terms: usize,
}

/// Where a register block is: pointers to its first row in the matrix, to its first column in X and in `out`.
struct Block {
    matrix: *const f32,
    x: *const f32,
    out: *mut f32,
}

/// # Safety
/// Good for reading: `matrix`, R rows and `m.terms` terms with the steps of `m`; `x`, V vectors in each of
/// `m.terms` rows, `x_line` apart. Good for reading and writing: `out`, V vectors in each of R rows,
/// `out_line` apart.
#[inline(always)]
unsafe fn block<S: Simd, const R: usize, const V: usize>(
    s: S,
    m: &Matrix,
    at: Block,
    (x_line, out_line): (usize, usize),
    add: bool,
) {
    let mut acc = [[s.splat(0.0); V]; R];
    // SAFETY: r < R and v < V; the rest is the caller's promise.
    unsafe {
        if add {
            for r in 0..R {
                for v in 0..V {
                    acc[r][v] = s.load_at(at.out.add(r * out_line + v * S::LANES));
                }
            }
        }
        let matrix = (at.matrix, m.row, m.step);
        products(s, &mut acc, matrix, (at.x, x_line), m.terms);
        for r in 0..R {
            for v in 0..V {
                s.store_at(at.out.add(r * out_line + v * S::LANES), acc[r][v]);
            }
        }
    }
}

/// Calls [`block`] for so many rows and vectors.
macro_rules! block_of {
    ($rows:expr, $vectors:expr, $args:tt) => {
        match ($rows, $vectors) {
            (1, v) => block_of!(1, v; $args),
            (2, v) => block_of!(2, v; $args),
            (3, v) if S::ROWS > 2 => block_of!(3, v; $args),
            (4, v) if S::ROWS > 2 => block_of!(4, v; $args),
            (5, v) if S::ROWS > 2 => block_of!(5, v; $args),
            (6, v) if S::ROWS > 2 => block_of!(6, v; $args),
            _ => unreachable!("no such register block"),
        }
    };
    ($rows:literal, $vectors:ident; ($($arg:expr),*)) => {
        match $vectors {
            1 => block::<S, $rows, 1>($($arg),*),
            2 => block::<S, $rows, 2>($($arg),*),
            3 if S::VECTORS > 2 => block::<S, $rows, 3>($($arg),*),
            4 if S::VECTORS > 3 => block::<S, $rows, 4>($($arg),*),
            _ => unreachable!("no such register block"),
        }
    };
}

dispatch!(
    /// Rows of X begin `x_line` floats apart, rows of `out` `out_line`; `width` is a multiple of 16. Adds to what
    /// is in `out` where `add`.
    pub(crate) fn product = product_generic(
        m: Matrix, x: (&[f32], usize), out: (&mut [f32], usize), width: usize, add: bool)
);

#[inline(always)]
fn product_generic<S: Simd>(
    s: S,
    m: Matrix,
    (x, x_line): (&[f32], usize),
    (out, out_line): (&mut [f32], usize),
    width: usize,
    add: bool,
) {
    assert!(width.is_multiple_of(16));
    if m.rows == 0 || width == 0 {
        return;
    }
    assert!(
        out.len() >= (m.rows - 1) * out_line + width,
        "rows of the product"
    );
    if m.terms > 0 {
        let last = (m.rows - 1) * m.row + (m.terms - 1) * m.step;
        assert!(m.numbers.len() > last, "numbers of the matrix");
        assert!(
            x.len() >= (m.terms - 1) * x_line + width,
            "rows of the second factor"
        );
    }
    let (matrix, x, out) = (m.numbers.as_ptr(), x.as_ptr(), out.as_mut_ptr());
    let mut first = 0;
    while first < width {
        let vectors = S::VECTORS.min((width - first) / S::LANES);
        let mut r = 0;
        while r < m.rows {
            // Blocks of about the same height: a single row would wait for itself.
            let left = m.rows - r;
            let rows = left.div_ceil(left.div_ceil(S::ROWS));
            // SAFETY: r + rows ≤ m.rows, and first + vectors·LANES ≤ width; with these the lengths asserted above
            // cover all that the block touches.
            unsafe {
                let at = Block {
                    matrix: matrix.wrapping_add(r * m.row),
                    x: x.wrapping_add(first),
                    out: out.add(r * out_line + first),
                };
                block_of!(rows, vectors, (s, &m, at, (x_line, out_line), add));
            }
            r += rows;
        }
        first += vectors * S::LANES;
    }
}
