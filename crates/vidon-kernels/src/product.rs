//! Products with small matrices whose numbers are broadcast: `out[p] (+)= Σ_q M[p·row + q·step]·X[q]`, for rows of `width` floats.

use crate::isa::dispatch;
use crate::mlp::products;
use crate::simd::Simd;

/// What is multiplied; `width` is a multiple of 16.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub matrix: *const f32,
    pub row: usize,
    pub step: usize,
    pub rows: usize,
    pub terms: usize,
    pub x: *const f32,
    pub x_line: usize,
    pub out: *mut f32,
    pub out_line: usize,
    pub width: usize,
    pub add: bool,
}

#[inline(always)]
unsafe fn block<S: Simd, const R: usize, const V: usize>(p: &Product, r0: usize, first: usize) {
    unsafe {
        let mut acc = [[S::splat(0.0); V]; R];
        let out = p.out.add(r0 * p.out_line + first);
        if p.add {
            for r in 0..R {
                for v in 0..V {
                    acc[r][v] = S::load(out.add(r * p.out_line + v * S::LANES));
                }
            }
        }
        let matrix = (p.matrix.add(r0 * p.row), p.row, p.step);
        products::<S, R, V>(&mut acc, matrix, (p.x.add(first), p.x_line), p.terms);
        for r in 0..R {
            for v in 0..V {
                S::store(out.add(r * p.out_line + v * S::LANES), acc[r][v]);
            }
        }
    }
}

#[inline(always)]
unsafe fn block_of<S: Simd, const V: usize>(p: &Product, r0: usize, rows: usize, first: usize) {
    unsafe {
        match rows {
            1 => block::<S, 1, V>(p, r0, first),
            2 => block::<S, 2, V>(p, r0, first),
            3 if S::ROWS > 2 => block::<S, 3, V>(p, r0, first),
            4 if S::ROWS > 2 => block::<S, 4, V>(p, r0, first),
            5 if S::ROWS > 2 => block::<S, 5, V>(p, r0, first),
            6 if S::ROWS > 2 => block::<S, 6, V>(p, r0, first),
            _ => unreachable!("no such register block"),
        }
    }
}

#[inline(always)]
unsafe fn product_generic<S: Simd>(p: &Product) {
    unsafe {
        let mut first = 0;
        while first < p.width {
            let vectors = S::VECTORS.min((p.width - first) / S::LANES);
            let mut r = 0;
            while r < p.rows {
                // Blocks of about the same height: a single row would wait for itself.
                let left = p.rows - r;
                let rows = left.div_ceil(left.div_ceil(S::ROWS));
                match vectors {
                    4 if S::VECTORS > 3 => block_of::<S, 4>(p, r, rows, first),
                    3 if S::VECTORS > 2 => block_of::<S, 3>(p, r, rows, first),
                    2 => block_of::<S, 2>(p, r, rows, first),
                    _ => block_of::<S, 1>(p, r, rows, first),
                }
                r += rows;
            }
            first += vectors * S::LANES;
        }
    }
}
dispatch!(pub(crate) unsafe fn product = product_generic(p: &Product));
