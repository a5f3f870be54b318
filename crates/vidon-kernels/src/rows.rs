//! A perceptron over many rows, forward and backward.

use rayon::prelude::*;

use crate::arena::{Buffer, Shared};
use crate::chunks::{add_up, chunks, even_tile, rows_of};
use crate::isa::{Isa, dispatch};
use crate::mlp::{Plan, Shape, TILE, backward_tile, forward_tile, stride, worked};
use crate::simd::Simd;

/// Room behind a buffer for register blocks that reach over its end.
pub(crate) const SLACK: usize = 64;
/// Floats of activations that stay in the caches until the way back.
const NEAR: usize = 1 << 20;

/// Copies rows of `width` into a tile with padding; rows beyond the last are zero.
pub(crate) fn load_tile(rows: &[f32], width: usize, tile: &mut [f32]) {
    let padded = stride(width);
    tile[..TILE * padded].fill(0.0);
    for (to, from) in tile.chunks_exact_mut(padded).zip(rows.chunks_exact(width)) {
        to[..width].copy_from_slice(from);
    }
}

dispatch!(
    /// Copies activations to where they are kept for the way back, past the caches: writing them there at once would read that memory first.
    pub(crate) unsafe fn put_away = put_away_generic(to: *mut f32, from: *const f32, count: usize)
);

#[inline(always)]
unsafe fn put_away_generic<S: Simd>(to: *mut f32, from: *const f32, count: usize) {
    debug_assert!(count.is_multiple_of(S::LANES));
    unsafe {
        for i in (0..count).step_by(S::LANES) {
            S::put_away(to.add(i), S::load(from.add(i)));
        }
    }
    S::settle();
}

/// What the way back needs: the packed weights, and activations where they were kept.
#[derive(Debug)]
pub(crate) struct MlpKept {
    packed: Buffer,
    acts: Option<Buffer>,
}

/// `[rows, in]` to `[rows, out]`. With `keep` the activations are kept for [`mlp_backward`].
pub(crate) fn mlp_forward(
    isa: Isa,
    shape: &Shape,
    x: &[f32],
    weights: &[f32],
    keep: bool,
) -> (Vec<f32>, MlpKept) {
    let plan = Plan::new(shape, isa);
    let mut weights = plan.pack(weights);
    let packed = Shared::new(&mut weights);
    let (width, outputs) = (shape.inputs(), shape.outputs());
    let rows = x.len() / width;
    let mut out = vec![0.0; rows * outputs];
    let size = even_tile(rows);
    let tiles = rows.div_ceil(size);
    let mut kept = keep.then(|| Buffer::take(tiles * plan.kept + SLACK));
    let all = kept.as_mut().map(|k| Shared::new(k));
    let far = tiles * plan.kept > NEAR;
    let target = Shared::new(&mut out);
    chunks(rows, size).into_par_iter().for_each(|chunk| {
        let mut tile = Buffer::take(TILE * stride(width) + SLACK);
        let mut own = Buffer::take(plan.kept + SLACK);
        let mut result = Buffer::take(TILE * stride(outputs) + SLACK);
        for t in chunk {
            let range = rows_of(t, rows, size);
            let count = worked(range.len());
            load_tile(&x[range.start * width..range.end * width], width, &mut tile);
            unsafe {
                let kept = match all {
                    Some(all) if !far => all.at(t * plan.kept),
                    _ => own.ptr(),
                };
                forward_tile(
                    isa,
                    &plan,
                    packed.at(0),
                    tile.ptr(),
                    kept,
                    result.ptr(),
                    count,
                );
                if let Some(all) = all.filter(|_| far) {
                    put_away(isa, all.at(t * plan.kept), kept, plan.kept);
                }
                for (i, row) in range.enumerate() {
                    let from = result.ptr().add(i * stride(outputs));
                    target
                        .at(row * outputs)
                        .copy_from_nonoverlapping(from, outputs);
                }
            }
        }
    });
    let kept = MlpKept {
        packed: weights,
        acts: kept,
    };
    (out, kept)
}

/// The gradients of the weights and, where wanted, of the rows. Activations that were not kept are worked out again.
pub(crate) fn mlp_backward(
    isa: Isa,
    shape: &Shape,
    x: &[f32],
    kept: MlpKept,
    d_out: &[f32],
    want_dx: bool,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let plan = Plan::new(shape, isa);
    let MlpKept {
        mut packed,
        mut acts,
    } = kept;
    let packed = Shared::new(&mut packed);
    let (width, outputs) = (shape.inputs(), shape.outputs());
    let rows = x.len() / width;
    let all = acts.as_mut().map(|k| Shared::new(k));
    let size = even_tile(rows);
    let mut dx = want_dx.then(|| vec![0.0; x.len()]);
    let dx_target = dx.as_mut().map(|d| Shared::new(d));
    let mut grads: Vec<Buffer> = chunks(rows, size)
        .into_par_iter()
        .map(|chunk| {
            let mut grads = Buffer::zeroed(plan.grads + SLACK);
            let mut tile = Buffer::take(TILE * stride(width) + SLACK);
            let mut own = Buffer::take(if all.is_some() { 0 } else { plan.kept } + SLACK);
            let mut result = Buffer::take(TILE * stride(outputs) + SLACK);
            let mut scratch = Buffer::take(plan.scratch() + SLACK);
            let mut dx_tile = Buffer::take(TILE * stride(width) + SLACK);
            for t in chunk {
                let range = rows_of(t, rows, size);
                let count = worked(range.len());
                load_tile(&x[range.start * width..range.end * width], width, &mut tile);
                unsafe {
                    let kept = match all {
                        Some(all) => all.at(t * plan.kept),
                        None => {
                            let own = own.ptr();
                            forward_tile(
                                isa,
                                &plan,
                                packed.at(0),
                                tile.ptr(),
                                own,
                                result.ptr(),
                                count,
                            );
                            own
                        }
                    };
                    load_tile(
                        &d_out[range.start * outputs..range.end * outputs],
                        outputs,
                        &mut result,
                    );
                    let dx = if want_dx {
                        dx_tile.ptr()
                    } else {
                        std::ptr::null_mut()
                    };
                    // The last layer has no activation, so its output is not asked for.
                    backward_tile(
                        isa,
                        &plan,
                        packed.at(0),
                        tile.ptr(),
                        kept,
                        std::ptr::null(),
                        result.ptr(),
                        scratch.ptr(),
                        grads.ptr(),
                        dx,
                        std::ptr::null(),
                        count,
                    );
                    if let Some(target) = dx_target {
                        for (i, row) in range.enumerate() {
                            let from = dx_tile.ptr().add(i * stride(width));
                            target.at(row * width).copy_from_nonoverlapping(from, width);
                        }
                    }
                }
            }
            grads
        })
        .collect();
    add_up(&mut grads);
    let mut flat = vec![0.0; plan.flat];
    plan.unpack(&grads[0], &mut flat);
    (flat, dx)
}
