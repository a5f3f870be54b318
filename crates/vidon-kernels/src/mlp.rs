//! A perceptron on a tile of rows: `a_l = σ(a_{l-1} W_lᵀ + b_l)`, and its gradients
//!
//!   dz_l = da_l ⊙ σ'_l,   dW_l += dz_lᵀ a_{l-1},   db_l += Σ dz_l,   da_{l-1} = dz_l W_l.
//!
//! Tiles are row-major, each row padded to a multiple of 16 floats; the padding of activations is zero. Weights are packed into panels of as many
//! columns as a register block has. Everything is a sum of products with one broadcast factor and one vector factor.

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::{Buffer, Shared};
use crate::isa::{Isa, dispatch};
use crate::simd::Simd;

/// Rows of a tile: a multiple of every register block's.
pub(crate) const TILE: usize = 96;
/// Floats that memory gives at a time.
const LINE: usize = 16;
const PAD: usize = 16;
/// A multiple of every register block's rows.
const ROWS: usize = 6;

/// Widths and activations of a perceptron.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Inputs, hidden widths, outputs: at least two.
    pub widths: Vec<usize>,
    pub hidden: Activation,
    /// After the last layer.
    pub last: Activation,
}

impl Shape {
    /// Numbers of weights and biases: for every layer the weights `[out, in]`, then the biases.
    pub fn numbers(&self) -> usize {
        self.widths.windows(2).map(|w| (w[0] + 1) * w[1]).sum()
    }

    /// Multiply-adds for one row, forward.
    pub fn multiply_adds(&self) -> usize {
        self.widths.windows(2).map(|w| w[0] * w[1]).sum()
    }

    pub fn inputs(&self) -> usize {
        self.widths[0]
    }

    pub fn outputs(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }
}

/// Rows of a tile that are worked on, for so many real ones.
pub(crate) fn worked(rows: usize) -> usize {
    rows.next_multiple_of(ROWS)
}

/// Floats from one row of a tile to the next.
pub(crate) fn stride(width: usize) -> usize {
    width.next_multiple_of(PAD)
}

/// One layer, and where its parts are.
struct Layer {
    inputs: usize,
    outputs: usize,
    act: Activation,
    /// In the weights as the caller has them.
    flat: usize,
    /// In the packed weights: for the way forward, for the way back, biases.
    forward: usize,
    back: usize,
    bias: usize,
    /// In the packed gradients: of the weights, of the biases.
    grad: usize,
    grad_bias: usize,
    /// In a tile's activations; that of its inputs to σ, where they are kept.
    kept: usize,
    kept_input: usize,
}

/// Where everything is for one instruction set.
pub(crate) struct Plan {
    layers: Vec<Layer>,
    /// Numbers of the caller's weights, of packed weights and packed gradients, of a tile's activations.
    pub flat: usize,
    pub packed: usize,
    pub grads: usize,
    pub kept: usize,
    lanes: usize,
    rows: usize,
    vectors: usize,
}

/// The panels of a matrix of so many columns: first column and number of vectors.
#[inline(always)]
fn panels(columns: usize, lanes: usize, vectors: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = columns.div_ceil(lanes);
    (0..all.div_ceil(vectors)).map(move |p| (p * vectors * lanes, vectors.min(all - p * vectors)))
}

impl Plan {
    pub fn new(shape: &Shape, isa: Isa) -> Self {
        fn block<S: Simd>() -> (usize, usize, usize) {
            (S::LANES, S::ROWS, S::VECTORS)
        }
        let (lanes, rows, vectors) = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => block::<crate::simd::Avx512>(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => block::<crate::simd::Avx2>(),
            #[cfg(test)]
            Isa::Wide => block::<crate::simd::Wide>(),
            _ => block::<crate::simd::Portable>(),
        };
        let mut plan = Self {
            layers: Vec::new(),
            flat: 0,
            packed: 0,
            grads: 0,
            kept: 0,
            lanes,
            rows,
            vectors,
        };
        let take = |total: &mut usize, count: usize| {
            let at = *total;
            *total += count.next_multiple_of(PAD);
            at
        };
        let last = shape.widths.len() - 2;
        for (l, w) in shape.widths.windows(2).enumerate() {
            let (inputs, outputs) = (w[0], w[1]);
            let act = if l == last { shape.last } else { shape.hidden };
            let padded = |n: usize| n.next_multiple_of(lanes);
            let flat = plan.flat;
            plan.flat += (inputs + 1) * outputs;
            // The last layer's output goes where the caller wants it.
            let tile = if l == last { 0 } else { TILE * stride(outputs) };
            let input_tile = if act.keeps_input() {
                TILE * stride(outputs)
            } else {
                0
            };
            plan.layers.push(Layer {
                inputs,
                outputs,
                act,
                flat,
                forward: take(&mut plan.packed, inputs * padded(outputs)),
                back: take(&mut plan.packed, outputs * padded(inputs)),
                bias: take(&mut plan.packed, padded(outputs) + PAD),
                grad: take(
                    &mut plan.grads,
                    inputs.next_multiple_of(rows) * padded(outputs),
                ),
                grad_bias: take(&mut plan.grads, padded(outputs) + PAD),
                kept: take(&mut plan.kept, tile),
                kept_input: take(&mut plan.kept, input_tile),
            });
        }
        plan
    }

    /// What the last activation of a tile was given, where it is kept.
    pub unsafe fn last_input(&self, kept: *const f32) -> *const f32 {
        let last = &self.layers[self.layers.len() - 1];
        unsafe { kept.add(last.kept_input) }
    }

    /// Floats that a tile of gradients needs: two of the widest layer.
    pub fn scratch(&self) -> usize {
        let widest = self
            .layers
            .iter()
            .map(|l| stride(l.inputs.max(l.outputs)))
            .max();
        2 * TILE * widest.expect("at least one layer")
    }

    /// The weights in panels.
    pub fn pack(&self, weights: &[f32]) -> Buffer {
        let mut packed = Buffer::take(self.packed);
        self.pack_into(weights, &mut packed);
        packed
    }

    pub fn pack_into(&self, weights: &[f32], packed: &mut [f32]) {
        assert!(weights.len() >= self.flat && packed.len() >= self.packed);
        let target = Shared::new(packed);
        let part = |at: usize, count: usize| unsafe {
            // Every panel is a part of its own.
            std::slice::from_raw_parts_mut(target.at(at), count)
        };
        self.each_panel(
            |l| l.outputs,
            |layer, first, width| {
                let (inputs, used) = (layer.inputs, width.min(layer.outputs - first));
                let panel = part(layer.forward + first * inputs, inputs * width);
                if used < width {
                    panel.fill(0.0);
                }
                let rows = weights[layer.flat + first * inputs..].chunks_exact(inputs);
                for (j, row) in rows.take(used).enumerate() {
                    for (to, v) in panel.chunks_exact_mut(width).zip(row) {
                        to[j] = *v;
                    }
                }
                let bias = part(layer.bias + first, width);
                let from = layer.flat + inputs * layer.outputs + first;
                bias[..used].copy_from_slice(&weights[from..][..used]);
                bias[used..].fill(0.0);
            },
        );
        self.each_panel(
            |l| l.inputs,
            |layer, first, width| {
                let (inputs, used) = (layer.inputs, width.min(layer.inputs - first));
                let panel = part(layer.back + first * layer.outputs, layer.outputs * width);
                let rows = weights[layer.flat..].chunks_exact(inputs);
                for (to, row) in panel.chunks_exact_mut(width).zip(rows) {
                    to[..used].copy_from_slice(&row[first..][..used]);
                    to[used..].fill(0.0);
                }
            },
        );
    }

    /// Calls `work` with every layer and the first column and width of each of its panels, on all cores.
    fn each_panel(
        &self,
        columns: impl Fn(&Layer) -> usize,
        work: impl Fn(&Layer, usize, usize) + Sync,
    ) {
        let all = self.layers.iter().flat_map(|layer| {
            let panels = panels(columns(layer), self.lanes, self.vectors);
            panels.map(move |(first, vectors)| (layer, first, vectors))
        });
        let all: Vec<(&Layer, usize, usize)> = all.collect();
        all.par_iter()
            .with_min_len(4)
            .for_each(|(layer, first, vectors)| work(layer, *first, vectors * self.lanes));
    }

    /// Where the activations below the last layer are kept.
    pub fn top_kept(&self) -> usize {
        match self.layers.len() {
            0 | 1 => 0,
            n => self.layers[n - 2].kept,
        }
    }

    /// Packed gradients to the order of the weights.
    pub fn unpack(&self, grads: &[f32], weights: &mut [f32]) {
        assert!(grads.len() >= self.grads && weights.len() >= self.flat);
        let target = Shared::new(weights);
        self.each_panel(
            |l| l.outputs,
            |layer, first, width| {
                let (inputs, used) = (layer.inputs, width.min(layer.outputs - first));
                let padded = inputs.next_multiple_of(self.rows);
                let panel = &grads[layer.grad + first * padded..][..inputs * width];
                // Every panel has rows of its own.
                let part = |at: usize, count: usize| unsafe {
                    std::slice::from_raw_parts_mut(target.at(layer.flat + at), count)
                };
                for j in 0..used {
                    let row = part((first + j) * inputs, inputs);
                    for (v, from) in row.iter_mut().zip(panel.chunks_exact(width)) {
                        *v = from[j];
                    }
                }
                part(inputs * layer.outputs + first, used)
                    .copy_from_slice(&grads[layer.grad_bias + first..][..used]);
            },
        );
    }
}

/// Calls `f::<S, ROWS, VECTORS>` for the register block of S with so many vectors.
macro_rules! block {
    ($f:ident, $vectors:expr, ($($arg:expr),*)) => {
        match (S::ROWS, $vectors) {
            (6, 1) => $f::<S, 6, 1>($($arg),*),
            (6, 2) => $f::<S, 6, 2>($($arg),*),
            (6, 3) if S::VECTORS > 2 => $f::<S, 6, 3>($($arg),*),
            (6, 4) if S::VECTORS > 3 => $f::<S, 6, 4>($($arg),*),
            (2, 1) => $f::<S, 2, 1>($($arg),*),
            (2, 2) => $f::<S, 2, 2>($($arg),*),
            _ => unreachable!("no such register block"),
        }
    };
}

/// `acc[r][v] += Σ_t a[r·row + t·step]·b[t·line + v]`
#[inline(always)]
pub(crate) unsafe fn products<S: Simd, const R: usize, const V: usize>(
    acc: &mut [[S::V; V]; R],
    (a, row, step): (*const f32, usize, usize),
    (b, line): (*const f32, usize),
    terms: usize,
) {
    unsafe {
        let (mut a, mut b) = (a, b);
        for _ in 0..terms {
            let mut vectors = [S::splat(0.0); V];
            for v in 0..V {
                vectors[v] = S::load(b.add(v * S::LANES));
            }
            for r in 0..R {
                let x = S::splat(*a.add(r * row));
                for v in 0..V {
                    acc[r][v] = S::fma(x, vectors[v], acc[r][v]);
                }
            }
            a = a.add(step);
            b = b.add(line);
        }
    }
}

/// A panel of a layer's outputs for all rows of a tile.
#[inline(always)]
unsafe fn forward_panel<S: Simd, const R: usize, const V: usize>(
    (a, a_stride, terms): (*const f32, usize, usize),
    (w, bias): (*const f32, *const f32),
    (out, kept_input, out_stride): (*mut f32, *mut f32, usize),
    act: Activation,
    rows: usize,
) {
    unsafe {
        for r0 in (0..rows).step_by(R) {
            let mut acc = [[S::splat(0.0); V]; R];
            for v in 0..V {
                let b = S::load(bias.add(v * S::LANES));
                for r in 0..R {
                    acc[r][v] = b;
                }
            }
            let a = a.add(r0 * a_stride);
            products::<S, R, V>(&mut acc, (a, a_stride, 1), (w, V * S::LANES), terms);
            for r in 0..R {
                for v in 0..V {
                    let at = (r0 + r) * out_stride + v * S::LANES;
                    if act.keeps_input() {
                        S::store(kept_input.add(at), acc[r][v]);
                    }
                    S::store(out.add(at), act.apply::<S>(acc[r][v]));
                }
            }
        }
    }
}

/// A panel of `dz W`, times the slope of the layer below (from `seen`) where there is one. Meanwhile fetches the numbers `ahead`.
#[inline(always)]
unsafe fn back_panel<S: Simd, const R: usize, const V: usize>(
    (dz, dz_stride, terms): (*const f32, usize, usize),
    w: *const f32,
    (out, out_stride): (*mut f32, usize),
    below: Option<(Activation, *const f32)>,
    (ahead, count): (*const f32, usize),
    rows: usize,
) {
    unsafe {
        let share = (count * R).div_ceil(rows);
        for r0 in (0..rows).step_by(R) {
            for i in (0..share).step_by(LINE) {
                S::fetch(ahead.wrapping_add(r0 / R * share + i));
            }
            let mut acc = [[S::splat(0.0); V]; R];
            let dz = dz.add(r0 * dz_stride);
            products::<S, R, V>(&mut acc, (dz, dz_stride, 1), (w, V * S::LANES), terms);
            for r in 0..R {
                for v in 0..V {
                    let at = (r0 + r) * out_stride + v * S::LANES;
                    let mut y = acc[r][v];
                    if let Some((act, seen)) = below {
                        y = S::mul(y, act.slope::<S>(S::load(seen.add(at))));
                    }
                    S::store(out.add(at), y);
                }
            }
        }
    }
}

/// A panel of `dW += aᵀ dz` over the rows of a tile.
#[inline(always)]
unsafe fn grad_panel<S: Simd, const R: usize, const V: usize>(
    (a, a_stride, inputs): (*const f32, usize, usize),
    (dz, dz_stride): (*const f32, usize),
    grad: *mut f32,
    rows: usize,
) {
    unsafe {
        for k in (0..inputs).step_by(R) {
            let mut acc = [[S::splat(0.0); V]; R];
            products::<S, R, V>(&mut acc, (a.add(k), 1, a_stride), (dz, dz_stride), rows);
            for r in 0..R {
                for v in 0..V {
                    let to = grad.add(((k + r) * V + v) * S::LANES);
                    S::store(to, S::add(S::load(to), acc[r][v]));
                }
            }
        }
    }
}

dispatch!(
    /// The tile `x` (rows of `stride(inputs)`, a multiple of the register block many) through the perceptron into `out` (rows of
    /// `stride(outputs)`); hidden activations go to `kept`.
    pub(crate) unsafe fn forward_tile = forward_generic(
        plan: &Plan, packed: *const f32, x: *const f32, kept: *mut f32, out: *mut f32, rows: usize)
);

#[inline(always)]
unsafe fn forward_generic<S: Simd>(
    plan: &Plan,
    packed: *const f32,
    x: *const f32,
    kept: *mut f32,
    out: *mut f32,
    rows: usize,
) {
    unsafe {
        let mut a = x;
        for (l, layer) in plan.layers.iter().enumerate() {
            let to = match l + 1 == plan.layers.len() {
                true => out,
                false => kept.add(layer.kept),
            };
            let kept_input = kept.add(layer.kept_input);
            let (from, terms) = (stride(layer.inputs), layer.inputs);
            let next = stride(layer.outputs);
            for (first, vectors) in panels(layer.outputs, S::LANES, S::VECTORS) {
                let w = packed.add(layer.forward + first * terms);
                let bias = packed.add(layer.bias + first);
                block!(
                    forward_panel,
                    vectors,
                    (
                        (a, from, terms),
                        (w, bias),
                        (to.add(first), kept_input.add(first), next),
                        layer.act,
                        rows
                    )
                );
            }
            // A panel may end before the padding does.
            let written = layer.outputs.next_multiple_of(S::LANES);
            for r in 0..rows {
                for j in written..next {
                    *to.add(r * next + j) = 0.0;
                }
            }
            a = to;
        }
    }
}

dispatch!(
    /// Gradients of a tile: `seen` is what the last activation's slope is worked out from (none where it is the identity), `d_out` the gradient of
    /// the output (rows of `stride(outputs)`, zero beyond the last real row). Adds to `grads`; writes the gradient of the input to `dx` unless
    /// that is null. Activations that were kept come from far memory: those of the layer below are fetched while a layer is worked on, and at the end
    /// what the next tile begins with, at `after` (null for nothing).
    pub(crate) unsafe fn backward_tile = backward_generic(
        plan: &Plan, packed: *const f32, x: *const f32, kept: *const f32, seen: *const f32,
        d_out: *const f32, scratch: *mut f32, grads: *mut f32, dx: *mut f32, after: *const f32, rows: usize)
);

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn backward_generic<S: Simd>(
    plan: &Plan,
    packed: *const f32,
    x: *const f32,
    kept: *const f32,
    seen: *const f32,
    d_out: *const f32,
    scratch: *mut f32,
    grads: *mut f32,
    dx: *mut f32,
    after: *const f32,
    rows: usize,
) {
    unsafe {
        let half = plan.scratch() / 2;
        let mut spare = [scratch, scratch.add(half)];
        let last = plan.layers.len() - 1;
        let mut dz = d_out;
        let top = &plan.layers[last];
        if top.act != Activation::Identity {
            let count = rows * stride(top.outputs);
            for i in (0..count).step_by(S::LANES) {
                let slope = top.act.slope::<S>(S::load(seen.add(i)));
                S::store(spare[0].add(i), S::mul(S::load(d_out.add(i)), slope));
            }
            dz = spare[0];
            spare.swap(0, 1);
        }
        for (l, layer) in plan.layers.iter().enumerate().rev() {
            let (below, here) = (stride(layer.inputs), stride(layer.outputs));
            let a = match l {
                0 => x,
                _ => kept.add(plan.layers[l - 1].kept),
            };
            let padded = layer.inputs.next_multiple_of(S::ROWS);
            for (first, vectors) in panels(layer.outputs, S::LANES, S::VECTORS) {
                let grad = grads.add(layer.grad + first * padded);
                block!(
                    grad_panel,
                    vectors,
                    ((a, below, layer.inputs), (dz.add(first), here), grad, rows)
                );
            }
            for j in (0..layer.outputs).step_by(S::LANES) {
                let to = grads.add(layer.grad_bias + j);
                let mut sum = S::load(to);
                for r in 0..rows {
                    sum = S::add(sum, S::load(dz.add(r * here + j)));
                }
                S::store(to, sum);
            }
            let (below_dz, slope) = match l {
                0 if dx.is_null() => return,
                0 => (dx, None),
                _ => {
                    let lower = &plan.layers[l - 1];
                    let seen = match lower.act.keeps_input() {
                        true => kept.add(lower.kept_input),
                        false => a,
                    };
                    (spare[0], Some((lower.act, seen)))
                }
            };
            let (ahead, count) = match l {
                0 => (
                    after,
                    if after.is_null() {
                        0
                    } else {
                        rows * stride(top.inputs)
                    },
                ),
                1 => (after, 0),
                _ => {
                    let lower = &plan.layers[l - 2];
                    (kept.add(lower.kept), rows * stride(lower.outputs))
                }
            };
            for (first, vectors) in panels(layer.inputs, S::LANES, S::VECTORS) {
                let w = packed.add(layer.back + first * layer.outputs);
                let part = |to: usize| to.min(layer.inputs) * count / layer.inputs;
                let [from, to] = [first, first + vectors * S::LANES].map(part);
                let slope = slope.map(|(act, seen)| (act, seen.add(first)));
                block!(
                    back_panel,
                    vectors,
                    (
                        (dz, here, layer.outputs),
                        w,
                        (below_dz.add(first), below),
                        slope,
                        (ahead.wrapping_add(from), to - from),
                        rows
                    )
                );
            }
            dz = below_dz;
            spare.swap(0, 1);
        }
    }
}
