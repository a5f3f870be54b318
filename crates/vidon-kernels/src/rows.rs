//! A perceptron over many rows, forward and backward.

use rayon::prelude::*;

use crate::arena::Buffer;
use crate::chunks::{add_up, chunks, even_tile, rows_of, split, split_some};
use crate::isa::{Isa, dispatch};
use crate::mlp::{
    Keep, Plan, SLACK, Seen, Shape, TILE, backward_tile, forward_tile, stride, worked,
};
use crate::simd::Simd;

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

/// Copies the rows of a padded tile to where they belong.
pub(crate) fn store_tile(tile: &[f32], width: usize, rows: &mut [f32]) {
    let from = tile.chunks_exact(stride(width));
    for (to, from) in rows.chunks_exact_mut(width).zip(from) {
        to.copy_from_slice(&from[..width]);
    }
}

dispatch!(
    /// Copies activations to where they are kept for the way back, past the caches: writing them there at once
    /// would read that memory first.
    pub(crate) fn put_away = put_away_generic(to: &mut [f32], from: &[f32])
);

#[inline(always)]
fn put_away_generic<S: Simd>(s: S, to: &mut [f32], from: &[f32]) {
    assert!(to.len() == from.len() && to.len().is_multiple_of(S::LANES));
    assert!(
        to.as_ptr().addr().is_multiple_of(4 * S::LANES),
        "vectors in line"
    );
    for (to, from) in to
        .chunks_exact_mut(S::LANES)
        .zip(from.chunks_exact(S::LANES))
    {
        // SAFETY: `to` has LANES floats, and begins a multiple of that many after what is aligned to them.
        unsafe { s.stream_at(to.as_mut_ptr(), s.load(from)) };
    }
    s.settle();
}

/// What the way back needs: the packed weights, and activations where they were kept.
#[derive(Debug)]
pub(crate) struct MlpKept {
    packed: Buffer,
    acts: Option<Buffer>,
}

/// Floats of activations that [`mlp_forward`] keeps for so many rows where it is asked to.
pub(crate) fn mlp_kept_floats(isa: Isa, shape: &Shape, rows: usize) -> usize {
    rows.div_ceil(even_tile(rows)) * Plan::new(shape, isa).kept + SLACK
}

/// `[rows, in]` to `[rows, out]`.
pub(crate) fn mlp_forward(
    isa: Isa,
    shape: &Shape,
    x: &[f32],
    weights: &[f32],
    keep: Keep,
) -> (Vec<f32>, MlpKept) {
    let (width, outputs) = (shape.inputs(), shape.outputs());
    let rows = x.len() / width;
    let plan = Plan::new(shape, isa);
    let packed = plan.pack(weights, keep);
    let mut out = vec![0.0; rows * outputs];
    let size = even_tile(rows);
    let parts = chunks(rows, size);
    let mut acts =
        (keep == Keep::Activations).then(|| Buffer::take(mlp_kept_floats(isa, shape, rows)));
    let far = rows.div_ceil(size) * plan.kept > NEAR;
    let count = |tiles: &std::ops::Range<usize>| {
        (tiles.end * size).min(rows) - (tiles.start * size).min(rows)
    };
    let outs = split(&mut out, parts.iter().map(|c| count(c) * outputs));
    let kept = split_some(
        acts.as_deref_mut(),
        parts.iter().map(|c| c.len() * plan.kept),
    );
    let work = parts.par_iter().zip(outs).zip(kept);
    work.for_each(|((chunk, out), mut all)| {
        let mut tile = Buffer::take(TILE * stride(width));
        let mut own = Buffer::take(plan.kept);
        let mut result = Buffer::take(TILE * stride(outputs));
        for (i, t) in chunk.clone().enumerate() {
            let range = rows_of(t, rows, size);
            let count = worked(range.len());
            load_tile(&x[range.start * width..range.end * width], width, &mut tile);
            let place = all
                .as_deref_mut()
                .map(|all| &mut all[i * plan.kept..][..plan.kept]);
            match place {
                Some(place) if !far => {
                    forward_tile(isa, &plan, &packed, &tile, place, &mut result, count);
                }
                place => {
                    forward_tile(isa, &plan, &packed, &tile, &mut own, &mut result, count);
                    if let Some(place) = place {
                        put_away(isa, place, &own);
                    }
                }
            }
            store_tile(
                &result,
                outputs,
                &mut out[i * size * outputs..][..range.len() * outputs],
            );
        }
    });
    (out, MlpKept { packed, acts })
}

/// The gradients of the weights and, where wanted, of the rows. Activations that were not kept are worked out
/// again.
pub(crate) fn mlp_backward(
    isa: Isa,
    shape: &Shape,
    x: &[f32],
    kept: MlpKept,
    d_out: &[f32],
    want_dx: bool,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let MlpKept { packed, acts } = kept;
    let plan = Plan::new(shape, isa);
    let (width, outputs) = (shape.inputs(), shape.outputs());
    let rows = x.len() / width;
    assert_eq!(d_out.len(), rows * outputs, "gradients of the output");
    let size = even_tile(rows);
    let parts = chunks(rows, size);
    let mut dx = want_dx.then(|| vec![0.0; x.len()]);
    let count = |tiles: &std::ops::Range<usize>| {
        (tiles.end * size).min(rows) - (tiles.start * size).min(rows)
    };
    let targets = split_some(dx.as_deref_mut(), parts.iter().map(|c| count(c) * width));
    let work = parts.par_iter().zip(targets);
    let mut grads: Vec<Buffer> = work
        .map(|(chunk, mut target)| {
            let mut grads = Buffer::zeroed(plan.grads);
            let mut tile = Buffer::take(TILE * stride(width) + SLACK);
            let mut own = Buffer::take(if acts.is_some() { 0 } else { plan.kept } + SLACK);
            let mut result = Buffer::take(TILE * stride(outputs));
            let mut scratch = Buffer::take(plan.scratch());
            let mut dx_tile = Buffer::take(TILE * stride(width));
            for (i, t) in chunk.clone().enumerate() {
                let range = rows_of(t, rows, size);
                let count = worked(range.len());
                load_tile(&x[range.start * width..range.end * width], width, &mut tile);
                let kept = match &acts {
                    Some(acts) => &acts[t * plan.kept..],
                    None => {
                        forward_tile(isa, &plan, &packed, &tile, &mut own, &mut result, count);
                        &own
                    }
                };
                let d = &d_out[range.start * outputs..range.end * outputs];
                load_tile(d, outputs, &mut result);
                let seen = Seen {
                    packed: &packed,
                    x: &tile,
                    kept,
                    // The last layer has no activation, so its output is not asked for.
                    last: &[],
                    d_out: &result,
                    after: &[],
                };
                let dx = want_dx.then_some(&mut dx_tile[..]);
                backward_tile(isa, &plan, &seen, &mut scratch, &mut grads, dx, count);
                if let Some(target) = &mut target {
                    let to = &mut target[i * size * width..][..range.len() * width];
                    store_tile(&dx_tile, width, to);
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
