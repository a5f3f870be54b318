//! A perceptron on a tile of rows: `a_l = σ(a_{l-1} W_lᵀ + b_l)`, and its gradients
//!
//!   dz_l = da_l ⊙ σ'_l,   dW_l += dz_lᵀ a_{l-1},   db_l += Σ dz_l,   da_{l-1} = dz_l W_l.
//!
//! Tiles are row-major, each row padded to a multiple of 16 floats; the padding of activations is zero.
//! Weights are packed into panels of as many columns as a register block has. Everything is a sum of products
//! with one broadcast factor and one vector factor, term after term: what a row gives depends on no other row.

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::Buffer;
use crate::isa::{Isa, dispatch};
use crate::simd::Simd;

/// Rows of a tile: a multiple of every register block's.
pub(crate) const TILE: usize = 96;
/// Floats that memory gives at a time.
const LINE: usize = 16;
const PAD: usize = 16;
/// A multiple of every register block's rows.
const ROWS: usize = 6;
/// Floats behind activations that the way back may read: its register blocks reach over the last row's end.
pub(crate) const SLACK: usize = 16;

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

    /// Panics where rows of so many numbers and so many weights do not fit.
    pub(crate) fn check(&self, inputs: usize, weights: usize) {
        assert!(
            self.widths.len() >= 2 && !self.widths.contains(&0),
            "a perceptron has inputs and outputs: {:?}",
            self.widths
        );
        assert_eq!(inputs, self.inputs(), "inputs of the perceptron");
        assert_eq!(weights, self.numbers(), "weights of the perceptron");
    }
}

/// What a way forward leaves for the way back.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Keep {
    /// There is none.
    Nothing,
    /// The packed weights: activations are worked out again.
    Weights,
    Activations,
}

impl Keep {
    /// Activations where they may be kept.
    pub fn for_back(activations: bool) -> Self {
        match activations {
            true => Self::Activations,
            false => Self::Weights,
        }
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
    /// Floats of all three.
    packed: usize,
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
            let forward = take(&mut plan.packed, inputs * padded(outputs));
            let back = take(&mut plan.packed, outputs * padded(inputs));
            let bias = take(&mut plan.packed, padded(outputs));
            plan.layers.push(Layer {
                inputs,
                outputs,
                act,
                flat,
                forward,
                back,
                bias,
                packed: plan.packed - forward,
                grad: take(
                    &mut plan.grads,
                    inputs.next_multiple_of(rows) * padded(outputs),
                ),
                grad_bias: take(&mut plan.grads, padded(outputs)),
                kept: take(&mut plan.kept, tile),
                kept_input: take(&mut plan.kept, input_tile),
            });
        }
        plan
    }

    /// What the last activation of a tile was given, where it is kept.
    pub fn last_input<'a>(&self, kept: &'a [f32]) -> &'a [f32] {
        &kept[self.layers[self.layers.len() - 1].kept_input..]
    }

    /// Panics where a kernel of S may not follow this plan for so many rows.
    fn check<S: Simd>(&self, rows: usize) {
        let block = (self.lanes, self.rows, self.vectors);
        assert_eq!(block, (S::LANES, S::ROWS, S::VECTORS), "a plan of this set");
        assert!(rows <= TILE && rows.is_multiple_of(ROWS), "rows of a tile");
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

    /// The weights in panels: for the way forward, and for the way back where there is one.
    pub fn pack(&self, weights: &[f32], keep: Keep) -> Buffer {
        let mut packed = Buffer::take(self.packed);
        self.pack_into(weights, keep, &mut packed);
        packed
    }

    pub fn pack_into(&self, weights: &[f32], keep: Keep, packed: &mut [f32]) {
        assert!(weights.len() == self.flat && packed.len() >= self.packed);
        // Panels of all layers: for the way forward with their biases, and for the way back.
        let mut forward = Vec::new();
        let mut back = Vec::new();
        let (most, mut rest) = (self.vectors * self.lanes, packed);
        for layer in &self.layers {
            let (own, others) = rest.split_at_mut(layer.packed);
            rest = others;
            let (to_forward, own) = own.split_at_mut(layer.back - layer.forward);
            let (to_back, biases) = own.split_at_mut(layer.bias - layer.back);
            let (outputs, inputs) = (self.padded(layer.outputs), self.padded(layer.inputs));
            let panels = to_forward[..layer.inputs * outputs].chunks_mut(layer.inputs * most);
            let biases = biases[..outputs].chunks_mut(most);
            forward.extend(
                panels
                    .zip(biases)
                    .enumerate()
                    .map(|(i, p)| (layer, i * most, p)),
            );
            let panels = to_back[..layer.outputs * inputs].chunks_mut(layer.outputs * most);
            back.extend(panels.enumerate().map(|(i, p)| (layer, i * most, p)));
        }
        let forward = forward.into_par_iter().with_min_len(4);
        forward.for_each(|(layer, first, (panel, bias))| {
            let (inputs, width) = (layer.inputs, bias.len());
            let used = width.min(layer.outputs - first);
            if used < width {
                panel.fill(0.0);
            }
            let rows = weights[layer.flat + first * inputs..].chunks_exact(inputs);
            for (j, row) in rows.take(used).enumerate() {
                for (to, v) in panel.chunks_exact_mut(width).zip(row) {
                    to[j] = *v;
                }
            }
            let from = layer.flat + inputs * layer.outputs + first;
            bias[..used].copy_from_slice(&weights[from..][..used]);
            bias[used..].fill(0.0);
        });
        if keep == Keep::Nothing {
            return;
        }
        let back = back.into_par_iter().with_min_len(4);
        back.for_each(|(layer, first, panel)| {
            let (inputs, width) = (layer.inputs, panel.len() / layer.outputs);
            let used = width.min(inputs - first);
            let rows = weights[layer.flat..].chunks_exact(inputs);
            for (to, row) in panel.chunks_exact_mut(width).zip(rows) {
                to[..used].copy_from_slice(&row[first..][..used]);
                to[used..].fill(0.0);
            }
        });
    }

    /// Columns rounded up to vectors.
    fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
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
        assert!(grads.len() >= self.grads && weights.len() == self.flat);
        let (most, mut rest) = (self.vectors * self.lanes, weights);
        let mut panels = Vec::new();
        for layer in &self.layers {
            let (own, others) = rest.split_at_mut(layer.inputs * layer.outputs);
            let (biases, others) = others.split_at_mut(layer.outputs);
            rest = others;
            biases.copy_from_slice(&grads[layer.grad_bias..][..layer.outputs]);
            let rows = own.chunks_mut(layer.inputs * most).enumerate();
            panels.extend(rows.map(|(i, rows)| (layer, i * most, rows)));
        }
        let panels = panels.into_par_iter().with_min_len(4);
        panels.for_each(|(layer, first, rows)| {
            let padded = layer.inputs.next_multiple_of(self.rows);
            let width = most.min(self.padded(layer.outputs) - first);
            let panel = &grads[layer.grad + first * padded..][..layer.inputs * width];
            for (j, row) in rows.chunks_exact_mut(layer.inputs).enumerate() {
                for (v, from) in row.iter_mut().zip(panel.chunks_exact(width)) {
                    *v = from[j];
                }
            }
        });
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
///
/// # Safety
/// For all r < R and t < terms, `a + r·row + t·step` is good for reading a float, and `b + t·line` for reading
/// V vectors.
#[inline(always)]
pub(crate) unsafe fn products<S: Simd, const R: usize, const V: usize>(
    s: S,
    acc: &mut [[S::V; V]; R],
    (a, row, step): (*const f32, usize, usize),
    (b, line): (*const f32, usize),
    terms: usize,
) {
    for t in 0..terms {
        // SAFETY: t < terms, r < R and v < V; the rest is the caller's promise.
        unsafe {
            let (a, b) = (a.add(t * step), b.add(t * line));
            let mut vectors = [s.splat(0.0); V];
            for v in 0..V {
                vectors[v] = s.load_at(b.add(v * S::LANES));
            }
            for r in 0..R {
                let x = s.splat(*a.add(r * row));
                for v in 0..V {
                    acc[r][v] = s.fma(x, vectors[v], acc[r][v]);
                }
            }
        }
    }
}

/// A panel of a layer's outputs for all rows of a tile.
///
/// # Safety
/// `rows` is a multiple of R. Good for reading: `a`, that many rows of `terms` floats, `a_stride` apart; `w`,
/// `terms` times V vectors; `bias`, V vectors. Good for writing: `out` and, where the activation keeps its
/// input, `kept_input`: V vectors in every row, `out_stride` apart.
#[inline(always)]
unsafe fn forward_panel<S: Simd, const R: usize, const V: usize>(
    s: S,
    (a, a_stride, terms): (*const f32, usize, usize),
    (w, bias): (*const f32, *const f32),
    (out, kept_input, out_stride): (*mut f32, *mut f32, usize),
    act: Activation,
    rows: usize,
) {
    debug_assert!(rows.is_multiple_of(R) && a_stride >= terms && out_stride >= V * S::LANES);
    for r0 in (0..rows).step_by(R) {
        // SAFETY: rows r0..r0 + R are rows of the tile, since `rows` is a multiple of R.
        unsafe {
            let mut acc = [[s.splat(0.0); V]; R];
            for v in 0..V {
                let b = s.load_at(bias.add(v * S::LANES));
                for r in 0..R {
                    acc[r][v] = b;
                }
            }
            let a = a.add(r0 * a_stride);
            products(s, &mut acc, (a, a_stride, 1), (w, V * S::LANES), terms);
            for r in 0..R {
                for v in 0..V {
                    let at = (r0 + r) * out_stride + v * S::LANES;
                    if act.keeps_input() {
                        s.store_at(kept_input.add(at), acc[r][v]);
                    }
                    s.store_at(out.add(at), act.apply(s, acc[r][v]));
                }
            }
        }
    }
}

/// A panel of `dz W`, times the slope of the layer below (from `seen`) where there is one. Meanwhile fetches the
/// numbers `ahead`.
///
/// # Safety
/// `rows` is a multiple of R. Good for reading: `dz`, that many rows of `terms` floats, `dz_stride` apart; `w`,
/// `terms` times V vectors; `seen`, as `out`. Good for writing: `out`, V vectors in every row, `out_stride`
/// apart. Any address will do for `ahead`.
#[inline(always)]
unsafe fn back_panel<S: Simd, const R: usize, const V: usize>(
    s: S,
    (dz, dz_stride, terms): (*const f32, usize, usize),
    w: *const f32,
    (out, out_stride): (*mut f32, usize),
    below: Option<(Activation, *const f32)>,
    (ahead, count): (*const f32, usize),
    rows: usize,
) {
    debug_assert!(rows.is_multiple_of(R) && dz_stride >= terms && out_stride >= V * S::LANES);
    let share = (count * R).div_ceil(rows);
    for r0 in (0..rows).step_by(R) {
        for i in (0..share).step_by(LINE) {
            s.fetch(ahead.wrapping_add(r0 / R * share + i));
        }
        let mut acc = [[s.splat(0.0); V]; R];
        // SAFETY: rows r0..r0 + R are rows of the tile, since `rows` is a multiple of R.
        unsafe {
            let dz = dz.add(r0 * dz_stride);
            products(s, &mut acc, (dz, dz_stride, 1), (w, V * S::LANES), terms);
            for r in 0..R {
                for v in 0..V {
                    let at = (r0 + r) * out_stride + v * S::LANES;
                    let mut y = acc[r][v];
                    if let Some((act, seen)) = below {
                        y = s.mul(y, act.slope(s, s.load_at(seen.add(at))));
                    }
                    s.store_at(out.add(at), y);
                }
            }
        }
    }
}

/// A panel of `dW += aᵀ dz` over the rows of a tile.
///
/// # Safety
/// Good for reading: `a`, `rows` rows of `inputs` floats rounded up to R, `a_stride` apart; `dz`, V vectors in
/// every row, `dz_stride` apart. Good for reading and writing: `grad`, V vectors for every input rounded up to R.
#[inline(always)]
unsafe fn grad_panel<S: Simd, const R: usize, const V: usize>(
    s: S,
    (a, a_stride, inputs): (*const f32, usize, usize),
    (dz, dz_stride): (*const f32, usize),
    grad: *mut f32,
    rows: usize,
) {
    debug_assert!(a_stride >= inputs && dz_stride >= V * S::LANES);
    for k in (0..inputs).step_by(R) {
        let mut acc = [[s.splat(0.0); V]; R];
        // SAFETY: k + R is at most `inputs` rounded up to R.
        unsafe {
            products(s, &mut acc, (a.add(k), 1, a_stride), (dz, dz_stride), rows);
            for r in 0..R {
                for v in 0..V {
                    let to = grad.add(((k + r) * V + v) * S::LANES);
                    s.store_at(to, s.add(s.load_at(to), acc[r][v]));
                }
            }
        }
    }
}

dispatch!(
    /// The tile `x` (rows of `stride(inputs)`, as many as [`worked`] gives) through the perceptron into `out`
    /// (rows of `stride(outputs)`); hidden activations go to `kept`.
    pub(crate) fn forward_tile = forward_generic(
        plan: &Plan, packed: &[f32], x: &[f32], kept: &mut [f32], out: &mut [f32], rows: usize)
);

#[inline(always)]
fn forward_generic<S: Simd>(
    s: S,
    plan: &Plan,
    packed: &[f32],
    x: &[f32],
    kept: &mut [f32],
    out: &mut [f32],
    rows: usize,
) {
    let last = plan.layers.len() - 1;
    plan.check::<S>(rows);
    assert!(packed.len() >= plan.packed && kept.len() >= plan.kept);
    assert!(x.len() >= rows * stride(plan.layers[0].inputs));
    assert!(out.len() >= rows * stride(plan.layers[last].outputs));
    let (packed, kept, out) = (packed.as_ptr(), kept.as_mut_ptr(), out.as_mut_ptr());
    let mut a = x.as_ptr();
    for (l, layer) in plan.layers.iter().enumerate() {
        // SAFETY: the plan is one of S (asserted), so it has room for every layer's panels in `packed` and for
        // TILE rows of its activations in `kept`, and rows ≤ TILE; all lengths are asserted above. A panel ends
        // within a row's padding, which is a multiple of LANES. `a` was written by the layer before, or is `x`.
        unsafe {
            let to = if l == last { out } else { kept.add(layer.kept) };
            let kept_input = kept.add(layer.kept_input);
            let (from, terms) = (stride(layer.inputs), layer.inputs);
            let next = stride(layer.outputs);
            for (first, vectors) in panels(layer.outputs, S::LANES, S::VECTORS) {
                let w = packed.add(layer.forward + first * terms);
                let bias = packed.add(layer.bias + first);
                let target = (to.add(first), kept_input.add(first), next);
                block!(
                    forward_panel,
                    vectors,
                    (s, (a, from, terms), (w, bias), target, layer.act, rows)
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

/// What the way back of a tile starts from.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// Packed weights.
    pub packed: &'a [f32],
    /// Rows of `stride(inputs)`, with [`SLACK`] behind.
    pub x: &'a [f32],
    /// Activations that the way forward kept, with [`SLACK`] behind.
    pub kept: &'a [f32],
    /// What the last activation's slope is worked out from; none where it is the identity.
    pub last: &'a [f32],
    /// The gradient of the output: rows of `stride(outputs)`, zero beyond the last real row.
    pub d_out: &'a [f32],
    /// What the next tile begins with; may be empty.
    pub after: &'a [f32],
}

dispatch!(
    /// Gradients of a tile. Adds to `grads`; writes the gradient of the input to `dx` where that is wanted.
    /// Activations that were kept come from far memory: those of the layer below are fetched while a layer is
    /// worked on, and at the end what the next tile begins with.
    pub(crate) fn backward_tile = backward_generic(
        plan: &Plan, seen: &Seen, scratch: &mut [f32], grads: &mut [f32], dx: Option<&mut [f32]>, rows: usize)
);

#[inline(always)]
fn backward_generic<S: Simd>(
    s: S,
    plan: &Plan,
    seen: &Seen,
    scratch: &mut [f32],
    grads: &mut [f32],
    dx: Option<&mut [f32]>,
    rows: usize,
) {
    let last = plan.layers.len() - 1;
    let (bottom, top) = (&plan.layers[0], &plan.layers[last]);
    let (half, out_tile) = (plan.scratch() / 2, rows * stride(top.outputs));
    plan.check::<S>(rows);
    assert!(seen.packed.len() >= plan.packed && seen.kept.len() >= plan.kept + SLACK);
    assert!(seen.x.len() >= rows * stride(bottom.inputs) + SLACK && seen.d_out.len() >= out_tile);
    assert!(scratch.len() >= 2 * half && grads.len() >= plan.grads);
    assert!(dx.iter().all(|dx| dx.len() >= rows * stride(bottom.inputs)));
    if top.act != Activation::Identity {
        let slopes = seen.last[..out_tile].chunks_exact(S::LANES);
        let all = slopes.zip(seen.d_out[..out_tile].chunks_exact(S::LANES));
        for (to, (last, d)) in scratch.chunks_exact_mut(S::LANES).zip(all) {
            s.store(to, s.mul(s.load(d), top.act.slope(s, s.load(last))));
        }
    }
    let (packed, kept, grads) = (seen.packed.as_ptr(), seen.kept.as_ptr(), grads.as_mut_ptr());
    let dx = dx.map(|dx| dx.as_mut_ptr());
    let (one, two) = scratch.split_at_mut(half);
    let mut spare = [one.as_mut_ptr(), two.as_mut_ptr()];
    let mut dz = seen.d_out.as_ptr();
    if top.act != Activation::Identity {
        dz = spare[0];
        spare.swap(0, 1);
    }
    for (l, layer) in plan.layers.iter().enumerate().rev() {
        let (below, here) = (stride(layer.inputs), stride(layer.outputs));
        // SAFETY: the plan is one of S (asserted), so `packed`, `kept` and `grads` have room for all panels of
        // every layer and rows ≤ TILE; the lengths are asserted above. `grad_panel` reads less than ROWS ≤ SLACK
        // floats beyond the last row of `a`, which are behind `x` and behind all of `kept`. Both halves of the
        // scratch have room for a tile of the widest layer, and the one written to is not the one read from.
        unsafe {
            let a = match l {
                0 => seen.x.as_ptr(),
                _ => kept.add(plan.layers[l - 1].kept),
            };
            let padded = layer.inputs.next_multiple_of(S::ROWS);
            for (first, vectors) in panels(layer.outputs, S::LANES, S::VECTORS) {
                let grad = grads.add(layer.grad + first * padded);
                let dz = (dz.add(first), here);
                block!(
                    grad_panel,
                    vectors,
                    (s, (a, below, layer.inputs), dz, grad, rows)
                );
            }
            for j in (0..layer.outputs).step_by(S::LANES) {
                let to = grads.add(layer.grad_bias + j);
                let mut sum = s.load_at(to);
                for r in 0..rows {
                    sum = s.add(sum, s.load_at(dz.add(r * here + j)));
                }
                s.store_at(to, sum);
            }
            let (below_dz, slope) = match (l, dx) {
                (0, None) => return,
                (0, Some(dx)) => (dx, None),
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
                    seen.after.as_ptr(),
                    seen.after.len().min(rows * stride(top.inputs)),
                ),
                1 => (seen.after.as_ptr(), 0),
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
                let ahead = (ahead.wrapping_add(from), to - from);
                let (dz, target) = ((dz, here, layer.outputs), (below_dz.add(first), below));
                block!(back_panel, vectors, (s, dz, w, target, slope, ahead, rows));
            }
            dz = below_dz;
            spare.swap(0, 1);
        }
    }
}
