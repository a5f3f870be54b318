//! The set branch: for every head two perceptrons on the rows ψ_j of each set, ω̃ (one output) and ν̃ (its last
//! hidden layer), and
//!
//!   ω_j = softmax over the set of ω̃(ψ_j)·scale,   out = Σ_j ω_j ν̃(ψ_j).
//!
//! Because Σω = 1, the value perceptron's linear output layer is applied to the result, once a set instead of
//! once a row. Backward, with g the gradient of `out`:   dν̃_j = ω_j g,   dω̃_j = scale·ω_j (g·ν̃_j - g·out).
//!
//! What a set gives depends on no other set of the batch, to the last bit ([`Cut`]).

use rayon::prelude::*;

use crate::activation::Activation;
use crate::arena::Buffer;
use crate::chunks::{add_up, split, split_some};
use crate::isa::{Isa, dispatch};
use crate::mlp::{
    Keep, Plan, SLACK, Seen, Shape, TILE, backward_tile, forward_tile, stride, worked,
};
use crate::rows::{load_tile, put_away, store_tile};
use crate::sets::{Chunk, Cut};
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

    /// Panics where rows of so many numbers and so many weights do not fit.
    pub(crate) fn check(&self, inputs: usize, weights: usize) {
        assert!(
            self.count > 0
                && self.inputs > 0
                && !self.hidden.is_empty()
                && !self.hidden.contains(&0),
            "heads have inputs and a hidden layer: {self:?}"
        );
        assert_eq!(inputs, self.inputs, "inputs of the heads");
        assert_eq!(weights, self.numbers(), "weights of the heads");
    }
}

/// What the way back needs.
pub(crate) struct Kept {
    /// ω of every row and head.
    shares: Buffer,
    /// Activations of every tile and head.
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
    isa: Isa,
    heads: &'a Heads,
    psi: &'a [f32],
    weight: Plan,
    value: Plan,
    cut: Cut,
}

impl<'a> Branch<'a> {
    fn new(isa: Isa, heads: &'a Heads, psi: &'a [f32], offsets: &[usize]) -> Self {
        Self {
            isa,
            heads,
            psi,
            weight: Plan::new(&heads.weight_shape(), isa),
            value: Plan::new(&heads.value_shape(), isa),
            cut: Cut::new(offsets),
        }
    }

    /// The weights of all heads in panels: head by head, ω̃ then ν̃.
    fn pack(&self, weights: &[f32], keep: Keep) -> Buffer {
        let (weight, value) = (&self.weight, &self.value);
        let mut packed = Buffer::take(self.heads.count * (weight.packed + value.packed));
        packed
            .par_chunks_mut(weight.packed + value.packed)
            .zip(weights.par_chunks(weight.flat + value.flat))
            .for_each(|(to, from)| {
                let (to_weight, to_value) = to.split_at_mut(weight.packed);
                weight.pack_into(&from[..weight.flat], keep, to_weight);
                value.pack_into(&from[weight.flat..], keep, to_value);
            });
        packed
    }

    /// The packed weights of ω̃ and of ν̃ of a head.
    fn packed<'p>(&self, packed: &'p [f32], head: usize) -> (&'p [f32], &'p [f32]) {
        packed[head * (self.weight.packed + self.value.packed)..].split_at(self.weight.packed)
    }

    /// Floats of the activations of one head on one tile: those of ω̃, of ν̃, and the output of ν̃.
    fn tile_acts(&self) -> usize {
        self.weight.kept + self.value.kept + self.value_tile()
    }

    fn value_tile(&self) -> usize {
        TILE * stride(self.heads.outputs())
    }

    fn psi_tile(&self) -> usize {
        TILE * stride(self.heads.inputs)
    }

    /// Floats of the activations of a tile.
    fn per_tile(&self) -> usize {
        self.heads.count * self.tile_acts()
    }

    /// Floats of all activations.
    fn all_acts(&self) -> usize {
        self.cut.tiles() * self.per_tile() + SLACK
    }

    /// ψ of a chunk in padded tiles, with room behind each for the way back.
    fn load_chunk(&self, chunk: &Chunk) -> Buffer {
        let (width, tile) = (self.heads.inputs, self.psi_tile());
        let psi = &self.psi[chunk.rows.start * width..];
        let mut tiles = Buffer::take(chunk.tiles() * tile + SLACK);
        for (i, to) in tiles.chunks_exact_mut(tile).enumerate() {
            let rows = chunk.tile(i);
            load_tile(&psi[rows.start * width..rows.end * width], width, to);
        }
        tiles
    }
}

/// Floats of activations that [`pool_forward`] keeps where it is asked to.
pub(crate) fn pool_kept_floats(isa: Isa, heads: &Heads, offsets: &[usize]) -> usize {
    Branch::new(isa, heads, &[], offsets).all_acts()
}

/// `[rows, inputs]` and offsets to `[sets, heads·outputs]`. A set without rows gives zeros.
pub(crate) fn pool_forward(
    isa: Isa,
    heads: &Heads,
    psi: &[f32],
    offsets: &[usize],
    weights: &[f32],
    keep: Keep,
) -> (Vec<f32>, Kept) {
    let branch = Branch::new(isa, heads, psi, offsets);
    let packed = branch.pack(weights, keep);
    let acts = keep == Keep::Activations;
    let mut acts = acts.then(|| Buffer::take(branch.all_acts()));
    let mut shares = Buffer::take(heads.count * offsets[offsets.len() - 1]);
    logits(&branch, &packed, &mut shares, acts.as_deref_mut());
    let sets = offsets.windows(2).map(|w| (w[1] - w[0]) * heads.count);
    split(&mut shares, sets)
        .into_par_iter()
        .for_each(|set| softmax(set, heads.count));
    let sums = segment_sums(&branch, &packed, &shares, acts.as_deref_mut());
    // Segment after segment, so that a set's sum does not depend on the chunks.
    let width = heads.count * heads.outputs();
    let mut out = vec![0.0; (offsets.len() - 1) * width];
    let work = out
        .par_chunks_mut(width)
        .zip(branch.cut.first_segments.par_windows(2));
    work.for_each(|(out, segments)| {
        for sum in sums[segments[0] * width..segments[1] * width].chunks_exact(width) {
            for (o, s) in out.iter_mut().zip(sum) {
                *o += s;
            }
        }
    });
    let kept = Kept {
        shares,
        acts,
        packed,
        out: out.clone(),
    };
    (out, kept)
}

/// ω̃·scale of every row and head, and the activations of ω̃ to where they are kept.
fn logits(branch: &Branch, packed: &[f32], logits: &mut [f32], acts: Option<&mut [f32]>) {
    let Branch {
        isa, heads, cut, ..
    } = branch;
    let (plan, count) = (&branch.weight, heads.count);
    let targets = split(logits, cut.chunks.iter().map(|c| c.rows.len() * count));
    let kept = split_some(
        acts,
        cut.chunks.iter().map(|c| c.tiles() * branch.per_tile()),
    );
    let work = cut.chunks.par_iter().zip(targets).zip(kept);
    work.for_each(|((chunk, logits), mut all)| {
        let tiles = branch.load_chunk(chunk);
        let mut own = Buffer::take(plan.kept);
        let mut result = Buffer::take(TILE * stride(1));
        for head in 0..count {
            let weights = branch.packed(packed, head).0;
            for (i, x) in tiles.chunks_exact(branch.psi_tile()).enumerate() {
                let rows = chunk.tile(i);
                let work = worked(rows.len());
                forward_tile(*isa, plan, weights, x, &mut own, &mut result, work);
                if let Some(all) = &mut all {
                    let at = i * branch.per_tile() + head * branch.tile_acts();
                    put_away(*isa, &mut all[at..][..plan.kept], &own);
                }
                for (r, row) in rows.enumerate() {
                    logits[row * count + head] = result[r * stride(1)] * heads.scale;
                }
            }
        }
    });
}

/// Softmax over the rows of a set, for every head.
fn softmax(rows: &mut [f32], heads: usize) {
    let mut most = vec![f32::MIN; heads];
    for row in rows.chunks_exact(heads) {
        for (most, v) in most.iter_mut().zip(row) {
            *most = most.max(*v);
        }
    }
    rows.par_chunks_mut(heads * TILE).for_each(|rows| {
        for row in rows.chunks_exact_mut(heads) {
            for (v, most) in row.iter_mut().zip(&most) {
                *v = (*v - most).exp();
            }
        }
    });
    let mut sums = vec![0.0; heads];
    for row in rows.chunks_exact(heads) {
        for (sum, v) in sums.iter_mut().zip(row) {
            *sum += v;
        }
    }
    for row in rows.chunks_exact_mut(heads) {
        for (v, sum) in row.iter_mut().zip(&sums) {
            *v /= sum;
        }
    }
}

/// Σ ω_j ν̃(ψ_j) over the rows of every segment `[segments, heads, outputs]`, and the activations of ν̃ to where
/// they are kept.
fn segment_sums(
    branch: &Branch,
    packed: &[f32],
    shares: &[f32],
    acts: Option<&mut [f32]>,
) -> Buffer {
    let Branch {
        isa, heads, cut, ..
    } = branch;
    let (plan, count, outputs) = (&branch.value, heads.count, heads.outputs());
    let mut sums = Buffer::zeroed(cut.segments() * count * outputs);
    let targets = split(
        &mut sums,
        cut.chunks
            .iter()
            .map(|c| c.segments.len() * count * outputs),
    );
    let kept = split_some(
        acts,
        cut.chunks.iter().map(|c| c.tiles() * branch.per_tile()),
    );
    let work = cut.chunks.par_iter().zip(targets).zip(kept);
    work.for_each(|((chunk, sums), mut all)| {
        let tiles = branch.load_chunk(chunk);
        let shares = &shares[chunk.rows.start * count..];
        let mut own = Buffer::take(plan.kept + branch.value_tile());
        for head in 0..count {
            let weights = branch.packed(packed, head).1;
            for (i, x) in tiles.chunks_exact(branch.psi_tile()).enumerate() {
                let rows = chunk.tile(i);
                let (kept, out) = own.split_at_mut(plan.kept);
                forward_tile(*isa, plan, weights, x, kept, out, worked(rows.len()));
                for (segment, run) in cut.runs(chunk, rows.clone()) {
                    let sum = &mut sums[(segment * count + head) * outputs..][..outputs];
                    for row in run {
                        let share = shares[row * count + head];
                        let values = &out[(row - rows.start) * stride(outputs)..][..outputs];
                        for (s, v) in sum.iter_mut().zip(values) {
                            *s += share * v;
                        }
                    }
                }
                if let Some(all) = &mut all {
                    let at = i * branch.per_tile() + head * branch.tile_acts() + branch.weight.kept;
                    put_away(*isa, &mut all[at..][..own.len()], &own);
                }
            }
        }
    });
    sums
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
    let (outputs, width) = (heads.outputs(), heads.inputs);
    assert_eq!(d_out.len(), kept.out.len(), "gradients of the output");
    let branch = Branch::new(isa, heads, psi, offsets);
    // g·out for every set and head.
    let along: Vec<f32> = d_out
        .chunks_exact(outputs)
        .zip(kept.out.chunks_exact(outputs))
        .map(|(g, o)| g.iter().zip(o).map(|(g, o)| g * o).sum())
        .collect();
    let mut d_psi = vec![0.0; psi.len()];
    let chunks = &branch.cut.chunks;
    let targets = split(&mut d_psi, chunks.iter().map(|c| c.rows.len() * width));
    let mut grads: Vec<Buffer> = chunks
        .par_iter()
        .zip(targets)
        .map(|(chunk, d_psi)| {
            let mut back = ChunkBack::new(&branch, &kept, chunk, d_out, &along);
            for head in 0..heads.count {
                back.values(head);
                back.weights(head);
            }
            let tiles = back.d_tiles.chunks_exact(branch.psi_tile());
            for (to, tile) in d_psi.chunks_mut(TILE * width).zip(tiles) {
                store_tile(tile, width, to);
            }
            back.grads
        })
        .collect();
    let head_grads = branch.weight.grads + branch.value.grads;
    if grads.is_empty() {
        grads.push(Buffer::zeroed(heads.count * head_grads));
    }
    add_up(&mut grads);
    let mut flat = vec![0.0; heads.numbers()];
    flat.par_chunks_mut(branch.weight.flat + branch.value.flat)
        .zip(grads[0].par_chunks(head_grads))
        .for_each(|(to, from)| {
            let (to_weight, to_value) = to.split_at_mut(branch.weight.flat);
            let (from_weight, from_value) = from.split_at(branch.weight.grads);
            branch.weight.unpack(from_weight, to_weight);
            branch.value.unpack(from_value, to_value);
        });
    (flat, d_psi)
}

/// The way back of one chunk.
struct ChunkBack<'a> {
    branch: &'a Branch<'a>,
    kept: &'a Kept,
    chunk: &'a Chunk,
    d_out: &'a [f32],
    along: &'a [f32],
    /// Gradients of all heads' weights, packed.
    grads: Buffer,
    tiles: Buffer,
    /// Gradients of ψ, in tiles.
    d_tiles: Buffer,
    /// Gradients of one head's logits.
    d_logit: Buffer,
    /// Where activations are worked out again: of one head and tile, and an output nobody asks for.
    own: Buffer,
    unused: Buffer,
    /// Gradients of one tile: of ν̃, of ω̃, of ψ, and in between.
    d_value: Buffer,
    d_weight: Buffer,
    dx: Buffer,
    scratch: Buffer,
}

impl<'a> ChunkBack<'a> {
    fn new(
        branch: &'a Branch,
        kept: &'a Kept,
        chunk: &'a Chunk,
        d_out: &'a [f32],
        along: &'a [f32],
    ) -> Self {
        let own = if kept.acts.is_some() {
            0
        } else {
            branch.tile_acts()
        };
        let scratch = branch.weight.scratch().max(branch.value.scratch());
        let head_grads = branch.weight.grads + branch.value.grads;
        Self {
            branch,
            kept,
            chunk,
            d_out,
            along,
            grads: Buffer::zeroed(branch.heads.count * head_grads),
            tiles: branch.load_chunk(chunk),
            d_tiles: Buffer::zeroed(chunk.tiles() * branch.psi_tile()),
            d_logit: Buffer::take(chunk.rows.len()),
            own: Buffer::take(own + SLACK),
            unused: Buffer::take(TILE * stride(1)),
            d_value: Buffer::take(branch.value_tile()),
            d_weight: Buffer::zeroed(TILE * stride(1)),
            dx: Buffer::take(branch.psi_tile()),
            scratch: Buffer::take(scratch),
        }
    }

    /// Where the activations of a head on a tile of the chunk are among all that were kept.
    fn place(&self, head: usize, i: usize) -> usize {
        let branch = self.branch;
        (self.chunk.first_tile + i) * branch.per_tile() + head * branch.tile_acts()
    }

    /// Back through ν̃ of a head; on the way the gradients of the logits.
    fn values(&mut self, head: usize) {
        let (branch, chunk, heads) = (self.branch, self.chunk, self.branch.heads);
        let (isa, plan, outputs) = (branch.isa, &branch.value, heads.outputs());
        let packed = branch.packed(&self.kept.packed, head).1;
        let head_grads = branch.weight.grads + plan.grads;
        let shares = &self.kept.shares[chunk.rows.start * heads.count..];
        for i in 0..chunk.tiles() {
            let rows = chunk.tile(i);
            let work = worked(rows.len());
            let x = &self.tiles[i * branch.psi_tile()..];
            let at = self.place(head, i) + branch.weight.kept;
            let kept = match &self.kept.acts {
                Some(acts) => &acts[at..],
                None => {
                    let (acts, value) = self.own.split_at_mut(plan.kept);
                    forward_tile(isa, plan, packed, x, acts, value, work);
                    &self.own
                }
            };
            let value = &kept[plan.kept..];
            self.d_value.fill(0.0);
            for (segment, run) in branch.cut.runs(chunk, rows.clone()) {
                let set = branch.cut.set_of(chunk.segments.start + segment);
                let place = set * heads.count + head;
                let g = &self.d_out[place * outputs..][..outputs];
                for row in run {
                    let share = shares[row * heads.count + head];
                    let at = (row - rows.start) * stride(outputs);
                    let along = dot(g, &value[at..][..outputs]) - self.along[place];
                    self.d_logit[row] = heads.scale * share * along;
                    for (d, g) in self.d_value[at..][..outputs].iter_mut().zip(g) {
                        *d = share * g;
                    }
                }
            }
            let after = match &self.kept.acts {
                Some(acts) if i + 1 < chunk.tiles() => &acts[at + plan.kept + branch.per_tile()..],
                _ => &[],
            };
            let seen = Seen {
                packed,
                x,
                kept,
                // GELU's slope is worked out from its input.
                last: match heads.activation.keeps_input() {
                    true => plan.last_input(kept),
                    false => value,
                },
                d_out: &self.d_value,
                after,
            };
            let grads = &mut self.grads[head * head_grads + branch.weight.grads..];
            let dx = Some(&mut self.dx[..]);
            backward_tile(isa, plan, &seen, &mut self.scratch, grads, dx, work);
            let count = work * stride(heads.inputs);
            let to = &mut self.d_tiles[i * branch.psi_tile()..][..count];
            add(isa, to, &self.dx[..count]);
        }
    }

    /// Back through ω̃ of a head.
    fn weights(&mut self, head: usize) {
        let (branch, chunk, heads) = (self.branch, self.chunk, self.branch.heads);
        let (isa, plan) = (branch.isa, &branch.weight);
        let packed = branch.packed(&self.kept.packed, head).0;
        let head_grads = plan.grads + branch.value.grads;
        for i in 0..chunk.tiles() {
            let rows = chunk.tile(i);
            let work = worked(rows.len());
            let x = &self.tiles[i * branch.psi_tile()..];
            let at = self.place(head, i);
            let kept = match &self.kept.acts {
                Some(acts) => &acts[at..],
                None => {
                    let unused = &mut self.unused;
                    forward_tile(isa, plan, packed, x, &mut self.own, unused, work);
                    &self.own
                }
            };
            let after = match &self.kept.acts {
                Some(acts) if i + 1 < chunk.tiles() => {
                    &acts[at + plan.top_kept() + branch.per_tile()..]
                }
                _ => &[],
            };
            self.d_weight.fill(0.0);
            for (d, row) in self.d_weight.chunks_exact_mut(stride(1)).zip(rows) {
                d[0] = self.d_logit[row];
            }
            let seen = Seen {
                packed,
                x,
                kept,
                last: &[],
                d_out: &self.d_weight,
                after,
            };
            let grads = &mut self.grads[head * head_grads..];
            let dx = Some(&mut self.dx[..]);
            backward_tile(isa, plan, &seen, &mut self.scratch, grads, dx, work);
            let count = work * stride(heads.inputs);
            let to = &mut self.d_tiles[i * branch.psi_tile()..][..count];
            add(isa, to, &self.dx[..count]);
        }
    }
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
fn add_generic<S: Simd>(s: S, to: &mut [f32], from: &[f32]) {
    assert!(to.len() == from.len() && to.len().is_multiple_of(S::LANES));
    for (to, from) in to
        .chunks_exact_mut(S::LANES)
        .zip(from.chunks_exact(S::LANES))
    {
        s.store(to, s.add(s.load(to), s.load(from)));
    }
}
dispatch!(
    /// `to += from`, a multiple of 16 floats.
    fn add = add_generic(to: &mut [f32], from: &[f32])
);
