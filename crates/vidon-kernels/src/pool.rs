//! The set branch: for every head two perceptrons on the rows ψ_j of each set, ω̃ (one output) and ν̃ (its last hidden layer), and
//!
//!   ω_j = softmax over the set of ω̃(ψ_j)·scale,   out = Σ_j ω_j ν̃(ψ_j).
//!
//! Because Σω = 1, the value perceptron's linear output layer is applied to the result, once a set instead of once a row. Backward, with g the
//! gradient of `out`:   dν̃_j = ω_j g,   dω̃_j = scale·ω_j (g·ν̃_j - g·out).

use std::ops::Range;

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::{Buffer, Shared};
use crate::chunks::{add_up, chunks, rows_of};
use crate::isa::{Isa, dispatch};
use crate::mlp::{Plan, Shape, TILE, backward_tile, forward_tile, stride};
use crate::rows::{SLACK, load_tile, put_away};
use crate::simd::Simd;

/// The heads of a branch. Weights of all: head by head, ω̃ then ν̃.
#[derive(Clone, Debug, PartialEq)]
pub struct Heads {
    pub count: usize,
    /// Width of ψ, the hidden widths of both perceptrons (at least one), and their activation.
    pub inputs: usize,
    pub hidden: Vec<usize>,
    pub activation: Activation,
    /// On the logits: 1/√d_enc.
    pub scale: f32,
}

impl Heads {
    pub fn weight_shape(&self) -> Shape {
        Shape {
            widths: [&[self.inputs], &self.hidden[..], &[1]].concat(),
            hidden: self.activation,
            last: Activation::Identity,
        }
    }

    pub fn value_shape(&self) -> Shape {
        Shape {
            widths: [&[self.inputs], &self.hidden[..]].concat(),
            hidden: self.activation,
            last: self.activation,
        }
    }

    /// Numbers a head gives for a set.
    pub fn outputs(&self) -> usize {
        self.hidden[self.hidden.len() - 1]
    }

    /// Weights and biases of all heads.
    pub fn numbers(&self) -> usize {
        self.count * (self.weight_shape().numbers() + self.value_shape().numbers())
    }
}

/// What the way back needs.
pub(crate) struct Kept {
    /// ω, head by head.
    shares: Buffer,
    /// Activations, chunk after chunk of (tile, head).
    acts: Option<Buffer>,
    packed: Buffer,
    out: Vec<f32>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Kept({})", self.shares.len())
    }
}

/// Everything that both ways share.
struct Branch<'a> {
    heads: &'a Heads,
    offsets: &'a [usize],
    rows: usize,
    weight: Plan,
    value: Plan,
    /// Packed weights, head by head.
    packed: Buffer,
}

/// The weights of all heads in panels.
fn pack(isa: Isa, heads: &Heads, weights: &[f32]) -> Buffer {
    let weight = Plan::new(&heads.weight_shape(), isa);
    let value = Plan::new(&heads.value_shape(), isa);
    let mut packed = Buffer::take(heads.count * (weight.packed + value.packed));
    packed
        .par_chunks_mut(weight.packed + value.packed)
        .zip(weights.par_chunks(weight.flat + value.flat))
        .for_each(|(to, from)| {
            let (to_weight, to_value) = to.split_at_mut(weight.packed);
            weight.pack_into(&from[..weight.flat], to_weight);
            value.pack_into(&from[weight.flat..], to_value);
        });
    packed
}

impl<'a> Branch<'a> {
    fn new(isa: Isa, heads: &'a Heads, offsets: &'a [usize], packed: Buffer) -> Self {
        let weight = Plan::new(&heads.weight_shape(), isa);
        let value = Plan::new(&heads.value_shape(), isa);
        Self {
            heads,
            offsets,
            rows: offsets[offsets.len() - 1],
            weight,
            value,
            packed,
        }
    }

    fn weight_packed(&self, head: usize) -> *const f32 {
        self.packed[head * (self.weight.packed + self.value.packed)..].as_ptr()
    }

    fn value_packed(&self, head: usize) -> *const f32 {
        self.packed[head * (self.weight.packed + self.value.packed) + self.weight.packed..].as_ptr()
    }

    /// Floats of the activations of one head on one tile: those of ω̃, of ν̃, and the output of ν̃.
    fn tile_acts(&self) -> usize {
        self.weight.kept + self.value.kept + self.value_tile()
    }

    fn value_tile(&self) -> usize {
        TILE * stride(self.heads.outputs())
    }

    /// ψ of a chunk in padded tiles.
    fn load_chunk(&self, psi: &[f32], chunk: Range<usize>) -> Buffer {
        let width = self.heads.inputs;
        let tile = TILE * stride(width);
        let mut tiles = Buffer::take(chunk.len() * tile + SLACK);
        for (i, t) in chunk.enumerate() {
            let rows = rows_of(t, self.rows, TILE);
            load_tile(
                &psi[rows.start * width..rows.end * width],
                width,
                &mut tiles[i * tile..],
            );
        }
        tiles
    }

    /// The parts of a tile that belong to one set: the set, and rows of the tile.
    fn runs(&self, tile: usize) -> Vec<(usize, Range<usize>)> {
        let rows = rows_of(tile, self.rows, TILE);
        let mut set = self.offsets.partition_point(|&o| o <= rows.start) - 1;
        let mut runs = Vec::new();
        let mut at = rows.start;
        while at < rows.end {
            let end = self.offsets[set + 1].min(rows.end);
            if end > at {
                runs.push((set, at - rows.start..end - rows.start));
            }
            at = end;
            set += 1;
        }
        runs
    }
}

/// `[rows, inputs]` and offsets to `[sets, heads·outputs]`. Every set has at least one row.
pub(crate) fn pool_forward(
    isa: Isa,
    heads: &Heads,
    psi: &[f32],
    offsets: &[usize],
    weights: &[f32],
    keep_acts: bool,
) -> (Vec<f32>, Kept) {
    let branch = Branch::new(isa, heads, offsets, pack(isa, heads, weights));
    let (rows, sets, outputs) = (branch.rows, offsets.len() - 1, heads.outputs());
    let per_tile = heads.count * branch.tile_acts();
    let mut acts = keep_acts.then(|| Buffer::take(rows.div_ceil(TILE) * per_tile + SLACK));
    let all = acts.as_mut().map(|a| Shared::new(a));
    let mut shares = Buffer::take(heads.count * rows + SLACK);
    let logits = Shared::new(&mut shares);
    let psi_tile = TILE * stride(heads.inputs);
    let parts = chunks(rows, TILE);
    // Activations of (tile, head) from `start` on, to where they are kept.
    let keep = |from: *const f32, t: usize, head: usize, start: usize, count: usize| unsafe {
        if let Some(all) = all {
            let to = all.at(t * per_tile + head * branch.tile_acts() + start);
            put_away(isa, to, from, count);
        }
    };
    parts.par_iter().for_each(|chunk| {
        let mut tiles = branch.load_chunk(psi, chunk.clone());
        let mut own = Buffer::take(branch.weight.kept + SLACK);
        let mut result = Buffer::take(TILE * stride(1) + SLACK);
        for head in 0..heads.count {
            for (i, t) in chunk.clone().enumerate() {
                unsafe {
                    let x = tiles.ptr().add(i * psi_tile);
                    forward_tile(
                        isa,
                        &branch.weight,
                        branch.weight_packed(head),
                        x,
                        own.ptr(),
                        result.ptr(),
                        TILE,
                    );
                    keep(own.ptr(), t, head, 0, branch.weight.kept);
                    for (r, row) in rows_of(t, rows, TILE).enumerate() {
                        *logits.at(head * rows + row) = result[r * stride(1)] * heads.scale;
                    }
                }
            }
        }
    });
    shares[..heads.count * rows]
        .par_chunks_mut(rows)
        .for_each(|head| {
            for w in offsets.windows(2) {
                softmax(&mut head[w[0]..w[1]]);
            }
        });
    // Sums of each chunk over its part of each set.
    let sums: Vec<(usize, Buffer)> = parts
        .par_iter()
        .map(|chunk| {
            let mut tiles = branch.load_chunk(psi, chunk.clone());
            let count = branch.value.kept + branch.value_tile();
            let mut own = Buffer::take(count + SLACK);
            let first = branch.runs(chunk.start).first().map_or(0, |r| r.0);
            let last = branch.runs(chunk.end - 1).last().map_or(0, |r| r.0);
            let mut sums = Buffer::zeroed((last + 1 - first) * heads.count * outputs);
            for head in 0..heads.count {
                for (i, t) in chunk.clone().enumerate() {
                    unsafe {
                        let kept = own.ptr();
                        let out = kept.add(branch.value.kept);
                        let x = tiles.ptr().add(i * psi_tile);
                        forward_tile(
                            isa,
                            &branch.value,
                            branch.value_packed(head),
                            x,
                            kept,
                            out,
                            TILE,
                        );
                        for (set, run) in branch.runs(t) {
                            let sum = &mut sums[((set - first) * heads.count + head) * outputs..]
                                [..outputs];
                            for r in run {
                                let share = shares[head * rows + t * TILE + r];
                                let row = std::slice::from_raw_parts(
                                    out.add(r * stride(outputs)),
                                    outputs,
                                );
                                for (s, v) in sum.iter_mut().zip(row) {
                                    *s += share * v;
                                }
                            }
                        }
                        keep(kept, t, head, branch.weight.kept, count);
                    }
                }
            }
            (first, sums)
        })
        .collect();
    let mut out = vec![0.0; sets * heads.count * outputs];
    for (first, sums) in &sums {
        for (o, s) in out[first * heads.count * outputs..]
            .iter_mut()
            .zip(sums.iter())
        {
            *o += s;
        }
    }
    let kept = Kept {
        shares,
        acts,
        packed: branch.packed,
        out: out.clone(),
    };
    (out, kept)
}

fn softmax(values: &mut [f32]) {
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for v in values.iter_mut() {
        *v = (*v - most).exp();
        sum += *v;
    }
    values.iter_mut().for_each(|v| *v /= sum);
}

/// The gradients of the weights and of ψ.
pub(crate) fn pool_backward(
    isa: Isa,
    heads: &Heads,
    psi: &[f32],
    offsets: &[usize],
    kept: Kept,
    d_out: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let Kept {
        shares,
        mut acts,
        packed,
        out,
    } = kept;
    let branch = Branch::new(isa, heads, offsets, packed);
    let (rows, outputs, width) = (branch.rows, heads.outputs(), heads.inputs);
    let per_tile = heads.count * branch.tile_acts();
    let all = acts.as_mut().map(|a| Shared::new(a));
    // g·out for every set and head.
    let along: Vec<f32> = d_out
        .chunks_exact(outputs)
        .zip(out.chunks_exact(outputs))
        .map(|(g, o)| g.iter().zip(o).map(|(g, o)| g * o).sum())
        .collect();
    let mut d_psi = vec![0.0; psi.len()];
    let d_psi_target = Shared::new(&mut d_psi);
    let psi_tile = TILE * stride(width);
    let head_grads = branch.weight.grads + branch.value.grads;
    let mut grads: Vec<Buffer> = chunks(rows, TILE)
        .into_par_iter()
        .map(|chunk| {
            let mut grads = Buffer::zeroed(heads.count * head_grads + SLACK);
            let mut tiles = branch.load_chunk(psi, chunk.clone());
            let mut d_tiles = Buffer::zeroed(chunk.len() * psi_tile + SLACK);
            let mut own = Buffer::take(if all.is_some() { 0 } else { branch.tile_acts() } + SLACK);
            let mut dx = Buffer::take(psi_tile + SLACK);
            let mut d_value = Buffer::take(branch.value_tile() + SLACK);
            let mut d_logit = Buffer::take(chunk.len() * TILE);
            let mut d_weight = Buffer::zeroed(TILE * stride(1) + SLACK);
            let scratch = branch.weight.scratch().max(branch.value.scratch());
            let mut scratch = Buffer::take(scratch + SLACK);
            let mut unused = Buffer::take(TILE * stride(1) + SLACK);
            for head in 0..heads.count {
                let weight_grads = unsafe { grads.ptr().add(head * head_grads) };
                let value_grads = unsafe { weight_grads.add(branch.weight.grads) };
                for (i, t) in chunk.clone().enumerate() {
                    unsafe {
                        let x = tiles.ptr().add(i * psi_tile);
                        let (acts, value);
                        match all {
                            Some(all) => {
                                acts = all.at(t * per_tile
                                    + head * branch.tile_acts()
                                    + branch.weight.kept);
                                value = acts.add(branch.value.kept);
                            }
                            None => {
                                acts = own.ptr();
                                value = acts.add(branch.value.kept);
                                forward_tile(
                                    isa,
                                    &branch.value,
                                    branch.value_packed(head),
                                    x,
                                    acts,
                                    value,
                                    TILE,
                                );
                            }
                        }
                        let logits = &mut d_logit[i * TILE..(i + 1) * TILE];
                        logits.fill(0.0);
                        d_value[..branch.value_tile()].fill(0.0);
                        for (set, run) in branch.runs(t) {
                            let place = set * heads.count + head;
                            let g = &d_out[place * outputs..][..outputs];
                            for r in run {
                                let share = shares[head * rows + t * TILE + r];
                                let row = std::slice::from_raw_parts(
                                    value.add(r * stride(outputs)),
                                    outputs,
                                );
                                let seen = dot(g, row);
                                logits[r] = heads.scale * share * (seen - along[place]);
                                let to = &mut d_value[r * stride(outputs)..][..outputs];
                                for (d, g) in to.iter_mut().zip(g) {
                                    *d = share * g;
                                }
                            }
                        }
                        let next = match all {
                            Some(_) if t + 1 < chunk.end => value.add(per_tile).cast_const(),
                            _ => std::ptr::null(),
                        };
                        // GELU's slope is worked out from its input.
                        let seen = match heads.activation.keeps_input() {
                            true => branch.value.last_input(acts),
                            false => value,
                        };
                        backward_tile(
                            isa,
                            &branch.value,
                            branch.value_packed(head),
                            x,
                            acts,
                            seen,
                            d_value.ptr(),
                            scratch.ptr(),
                            value_grads,
                            dx.ptr(),
                            next,
                            TILE,
                        );
                        add(isa, d_tiles.ptr().add(i * psi_tile), dx.ptr(), psi_tile);
                    }
                }
                for (i, t) in chunk.clone().enumerate() {
                    unsafe {
                        let x = tiles.ptr().add(i * psi_tile);
                        let acts = match all {
                            Some(all) => all.at(t * per_tile + head * branch.tile_acts()),
                            None => {
                                let acts = own.ptr();
                                forward_tile(
                                    isa,
                                    &branch.weight,
                                    branch.weight_packed(head),
                                    x,
                                    acts,
                                    unused.ptr(),
                                    TILE,
                                );
                                acts
                            }
                        };
                        let next = match all {
                            Some(_) if t + 1 < chunk.end => {
                                let top = branch.weight.top_kept();
                                acts.add(per_tile + top).cast_const()
                            }
                            _ => std::ptr::null(),
                        };
                        for r in 0..TILE {
                            d_weight[r * stride(1)] = d_logit[i * TILE + r];
                        }
                        backward_tile(
                            isa,
                            &branch.weight,
                            branch.weight_packed(head),
                            x,
                            acts,
                            std::ptr::null(),
                            d_weight.ptr(),
                            scratch.ptr(),
                            weight_grads,
                            dx.ptr(),
                            next,
                            TILE,
                        );
                        add(isa, d_tiles.ptr().add(i * psi_tile), dx.ptr(), psi_tile);
                    }
                }
            }
            for (i, t) in chunk.enumerate() {
                for (r, row) in rows_of(t, rows, TILE).enumerate() {
                    unsafe {
                        let from = d_tiles.ptr().add(i * psi_tile + r * stride(width));
                        d_psi_target
                            .at(row * width)
                            .copy_from_nonoverlapping(from, width);
                    }
                }
            }
            grads
        })
        .collect();
    add_up(&mut grads);
    let mut flat = vec![0.0; heads.numbers()];
    flat.par_chunks_mut(branch.weight.flat + branch.value.flat)
        .enumerate()
        .for_each(|(head, to)| {
            let from = &grads[0][head * head_grads..];
            branch.weight.unpack(from, &mut to[..branch.weight.flat]);
            branch
                .value
                .unpack(&from[branch.weight.grads..], &mut to[branch.weight.flat..]);
        });
    (flat, d_psi)
}

/// In an order that does not depend on the instruction set's width.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        for (s, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *s += a * b;
        }
    }
    sums.iter().sum()
}

#[inline(always)]
unsafe fn add_generic<S: Simd>(to: *mut f32, from: *const f32, count: usize) {
    for i in (0..count).step_by(S::LANES) {
        unsafe { S::store(to.add(i), S::add(S::load(to.add(i)), S::load(from.add(i)))) };
    }
}
dispatch!(
    /// `to += from`, a multiple of 16 floats.
    unsafe fn add = add_generic(to: *mut f32, from: *const f32, count: usize)
);
