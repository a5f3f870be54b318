//! The kernels as operations on Burn tensors, with gradients.
//!
//! They run on the CPU device (`Device::flex()`) in single precision; [`fused`] tells. Elsewhere the caller
//! composes the same from ordinary operations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::activation::Activation;
use crate::contract::{check, contract_backward, contract_forward};
use crate::fourier::{FourierLayer, Weights, fourier_backward, fourier_forward};
use crate::grid::{Resize, resize};
use crate::isa::Isa;
use crate::memory::available_memory;
use crate::mlp::{Keep, Shape};
use crate::pool::{Heads, Kept, pool_backward, pool_forward, pool_kept_floats};
use crate::rows::{MlpKept, mlp_backward, mlp_forward, mlp_kept_floats};
use crate::sets::check_offsets;

/// Bytes that activations kept for the way back may take, of all operations together; 0 until it is known.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Bytes that they take now.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Activations that would take more, with what others keep already, are worked out again on the way back.
pub fn set_memory_limit(bytes: usize) {
    LIMIT.store(bytes.max(1), Ordering::Relaxed);
}

/// The limit in force, in bytes.
pub fn memory_limit() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => {
            let found = available_memory() / 3;
            set_memory_limit(found);
            found
        }
        known => known,
    }
}

/// Room for activations under the limit, given back when dropped.
#[derive(Debug)]
struct Room(usize);

impl Room {
    /// For so many floats, if there is.
    fn take(floats: usize) -> Option<Self> {
        let (bytes, limit) = (4 * floats, memory_limit());
        let more = |used: usize| Some(used + bytes).filter(|&all| all <= limit);
        let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(bytes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Whether the operations can be used on tensors like this one.
pub fn fused<const D: usize>(tensor: &Tensor<D>) -> bool {
    let device = tensor.device();
    let cpu = device == Device::flex() || device == Device::flex().autodiff();
    cpu && tensor.dtype() == DType::F32
}

/// `x Wᵀ + b` for rows x, W `[out, in]` and b `[out]`. A number of it is a sum in the order of the inputs: it
/// depends on its row of x and its row of W alone.
pub fn affine(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    let [outputs, inputs] = weight.dims();
    let shape = Arc::new(Shape {
        widths: vec![inputs, outputs],
        hidden: Activation::Identity,
        last: Activation::Identity,
    });
    let weight = weight.reshape([outputs * inputs]);
    mlp(&shape, x, Tensor::cat(vec![weight, bias], 0))
}

/// A perceptron over rows: `[rows, in]` and flat weights (see [`Shape::numbers`]) to `[rows, out]`. The last
/// layer has no activation.
pub fn mlp(shape: &Arc<Shape>, rows: Tensor<2>, weights: Tensor<1>) -> Tensor<2> {
    assert_eq!(shape.last, Activation::Identity, "of the last layer");
    shape.check(rows.dims()[1], weights.dims()[0]);
    let call = MlpCall {
        shape: shape.clone(),
    };
    let out = Dispatch::fused_mlp(rows.into_dispatch(), weights.into_dispatch(), call);
    Tensor::from_dispatch(out)
}

/// The set branch: ψ `[rows, inputs]`, in sets that begin and end at `offsets`, and the weights of all heads
/// to `[sets, heads·outputs]`.
pub fn pool(
    heads: &Arc<Heads>,
    offsets: &Arc<Vec<usize>>,
    psi: Tensor<2>,
    weights: Tensor<1>,
) -> Tensor<2> {
    let [rows, inputs] = psi.dims();
    heads.check(inputs, weights.dims()[0]);
    check_offsets(offsets, rows);
    let call = PoolCall {
        heads: heads.clone(),
        offsets: offsets.clone(),
    };
    let out = Dispatch::fused_pool(psi.into_dispatch(), weights.into_dispatch(), call);
    Tensor::from_dispatch(out)
}

/// β `[sets, p]` with τ `[rows, outputs·(p + 1)]` of each set's rows: `[rows, outputs]`.
pub fn contract(
    offsets: &Arc<Vec<usize>>,
    outputs: usize,
    beta: Tensor<2>,
    tau: Tensor<2>,
) -> Tensor<2> {
    check(offsets, outputs, beta.dims(), tau.dims());
    let call = ContractCall {
        offsets: offsets.clone(),
        outputs,
    };
    let out = Dispatch::fused_contract(beta.into_dispatch(), tau.into_dispatch(), call);
    Tensor::from_dispatch(out)
}

/// A layer of a Fourier neural operator: `[samples·n1·n2, C]` to the same shape, with the spectral weights
/// `[2, modes, modes, C, C, 2]` (rows 0..modes and -modes..0; real and imaginary part), those of the points
/// `[C, C]` and their biases.
pub fn fourier_layer(
    layer: FourierLayer,
    x: Tensor<2>,
    spectral: Tensor<1>,
    point: Tensor<1>,
    bias: Tensor<1>,
) -> Tensor<2> {
    let [spectral, point, bias] = [spectral, point, bias].map(|t| t.into_dispatch());
    let out = Dispatch::fused_fourier(x.into_dispatch(), spectral, point, bias, layer);
    Tensor::from_dispatch(out)
}

/// The values `[samples·points, C]` on a grid with more or fewer points at its far ends.
pub fn resize_grid(call: Resize, x: Tensor<2>) -> Tensor<2> {
    let [rows, channels] = x.dims();
    let whole = rows.is_multiple_of(call.points()[0]) && channels == call.channels;
    assert!(whole, "whole grids");
    Tensor::from_dispatch(Dispatch::fused_resize(x.into_dispatch(), call))
}

/// What an operation needs besides tensors.
#[derive(Clone, Debug)]
pub struct MlpCall {
    shape: Arc<Shape>,
}

#[derive(Clone, Debug)]
pub struct PoolCall {
    heads: Arc<Heads>,
    offsets: Arc<Vec<usize>>,
}

#[derive(Clone, Debug)]
pub struct ContractCall {
    offsets: Arc<Vec<usize>>,
    outputs: usize,
}

#[backend_extension(Flex, Autodiff)]
pub trait FusedOps: Backend {
    fn fused_mlp(
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        call: MlpCall,
    ) -> FloatTensor<Self>;

    fn fused_pool(
        psi: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        call: PoolCall,
    ) -> FloatTensor<Self>;

    fn fused_contract(
        beta: FloatTensor<Self>,
        tau: FloatTensor<Self>,
        call: ContractCall,
    ) -> FloatTensor<Self>;

    fn fused_fourier(
        x: FloatTensor<Self>,
        spectral: FloatTensor<Self>,
        point: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        layer: FourierLayer,
    ) -> FloatTensor<Self>;

    fn fused_resize(x: FloatTensor<Self>, call: Resize) -> FloatTensor<Self>;
}

pub(crate) type Raw = FloatTensor<Flex>;

/// The numbers of a tensor; a contiguous one is not copied by `to_contiguous`.
pub(crate) fn contiguous(tensor: &Raw) -> Raw {
    tensor.to_contiguous()
}

pub(crate) fn numbers(tensor: &Raw) -> &[f32] {
    tensor.as_slice::<f32>().expect("contiguous floats")
}

fn raw(values: Vec<f32>, rows: usize) -> Raw {
    let width = values.len() / rows.max(1);
    Raw::from_data(TensorData::new(values, [rows, width]))
}

pub(crate) fn flat(values: Vec<f32>) -> Raw {
    let count = values.len();
    Raw::from_data(TensorData::new(values, [count]))
}

impl FusedOps for Flex {
    fn fused_mlp(rows: Raw, weights: Raw, call: MlpCall) -> Raw {
        let (x, w) = (contiguous(&rows), contiguous(&weights));
        let (x, w) = (numbers(&x), numbers(&w));
        let (out, _) = mlp_forward(Isa::current(), &call.shape, x, w, Keep::Nothing);
        raw(out, x.len() / call.shape.inputs())
    }

    fn fused_pool(psi: Raw, weights: Raw, call: PoolCall) -> Raw {
        let (x, w) = (contiguous(&psi), contiguous(&weights));
        let (x, w) = (numbers(&x), numbers(&w));
        let (heads, offsets) = (&call.heads, &call.offsets);
        let (out, _) = pool_forward(Isa::current(), heads, x, offsets, w, Keep::Nothing);
        raw(out, offsets.len() - 1)
    }

    fn fused_contract(beta: Raw, tau: Raw, call: ContractCall) -> Raw {
        let (b, t) = (contiguous(&beta), contiguous(&tau));
        let (b, t) = (numbers(&b), numbers(&t));
        let sets = call.offsets.len() - 1;
        let out = contract_forward(b, t, &call.offsets, b.len() / sets, call.outputs);
        raw(out, call.offsets[sets])
    }

    fn fused_fourier(x: Raw, spectral: Raw, point: Raw, bias: Raw, layer: FourierLayer) -> Raw {
        let [x, spectral, point, bias] = [x, spectral, point, bias].map(|t| contiguous(&t));
        let weights = fourier_weights(&spectral, &point, &bias);
        let (out, _) = fourier_forward(Isa::current(), &layer, numbers(&x), weights);
        let count = out.len() / layer.channels;
        raw(out, count)
    }

    fn fused_resize(x: Raw, call: Resize) -> Raw {
        let x = contiguous(&x);
        let channels = call.channels;
        let out = resize(numbers(&x), &call);
        let rows = out.len() / channels;
        raw(out, rows)
    }
}

fn fourier_weights<'a>(spectral: &'a Raw, point: &'a Raw, bias: &'a Raw) -> Weights<'a> {
    Weights {
        spectral: numbers(spectral),
        point: numbers(point),
        bias: numbers(bias),
    }
}

#[derive(Debug)]
struct FourierBackward;

impl Backward<Flex, 4> for FourierBackward {
    /// The layer; what it saw and its weights; what came out.
    type State = (FourierLayer, [Raw; 4], Raw, Handed<crate::fourier::Kept>);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (layer, [x, spectral, point, bias], out, kept) = ops.state;
        let d_out = contiguous(&grads.consume::<Flex>(&ops.node));
        let (x, w) = (numbers(&x), fourier_weights(&spectral, &point, &bias));
        let isa = Isa::current();
        let again = || (fourier_forward(isa, &layer, x, w).1, None);
        let (kept, _room) = take(&kept).unwrap_or_else(again);
        let [d_spectral, mut d_point, d_x] =
            fourier_backward(isa, &layer, x, w, kept, numbers(&out), numbers(&d_out));
        let d_bias = d_point.split_off(layer.channels * layer.channels);
        let [rows, spectral, point, bias] = ops.parents;
        if let Some(node) = rows {
            let count = d_x.len() / layer.channels;
            grads.register::<Flex>(node.id, raw(d_x, count));
        }
        for (node, d) in [(spectral, d_spectral), (point, d_point), (bias, d_bias)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, flat(d));
            }
        }
    }
}

#[derive(Debug)]
struct ResizeBackward;

impl Backward<Flex, 1> for ResizeBackward {
    type State = Resize;

    fn backward(self, ops: Ops<Resize, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_out = grads.consume::<Flex>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<Flex>(node.id, Flex::fused_resize(d_out, ops.state.back()));
        }
    }
}

/// What goes from the way forward to the way back, and the room that it takes; taken out once.
type Handed<T> = Arc<Mutex<Option<(T, Option<Room>)>>>;

fn hand<T>(value: T, room: Option<Room>) -> Handed<T> {
    Arc::new(Mutex::new(Some((value, room))))
}

fn take<T>(handed: &Handed<T>) -> Option<(T, Option<Room>)> {
    handed.lock().expect("no thread failed with it").take()
}

#[derive(Debug)]
struct MlpBackward;

impl Backward<Flex, 2> for MlpBackward {
    type State = (MlpCall, Raw, Raw, Handed<MlpKept>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (call, x, w, kept) = ops.state;
        let d_out = contiguous(&grads.consume::<Flex>(&ops.node));
        let [rows, weights] = ops.parents;
        let (kept, _room) = take(&kept).unwrap_or_else(|| {
            let (x, w) = (numbers(&x), numbers(&w));
            (
                mlp_forward(Isa::current(), &call.shape, x, w, Keep::Weights).1,
                None,
            )
        });
        let (d_weights, d_rows) = mlp_backward(
            Isa::current(),
            &call.shape,
            numbers(&x),
            kept,
            numbers(&d_out),
            rows.is_some(),
        );
        if let (Some(node), Some(d)) = (rows, d_rows) {
            let count = d.len() / call.shape.inputs();
            grads.register::<Flex>(node.id, raw(d, count));
        }
        if let Some(node) = weights {
            grads.register::<Flex>(node.id, flat(d_weights));
        }
    }
}

#[derive(Debug)]
struct PoolBackward;

impl Backward<Flex, 2> for PoolBackward {
    type State = (PoolCall, Raw, Raw, Handed<Kept>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (call, x, w, kept) = ops.state;
        let d_out = contiguous(&grads.consume::<Flex>(&ops.node));
        let (heads, offsets) = (&call.heads, &call.offsets);
        let (x, w) = (numbers(&x), numbers(&w));
        let isa = Isa::current();
        let again = || {
            (
                pool_forward(isa, heads, x, offsets, w, Keep::Weights).1,
                None,
            )
        };
        let (kept, _room) = take(&kept).unwrap_or_else(again);
        let (d_weights, d_psi) = pool_backward(isa, heads, x, offsets, kept, numbers(&d_out));
        let [psi, weights] = ops.parents;
        if let Some(node) = psi {
            let rows = d_psi.len() / heads.inputs;
            grads.register::<Flex>(node.id, raw(d_psi, rows));
        }
        if let Some(node) = weights {
            grads.register::<Flex>(node.id, flat(d_weights));
        }
    }
}

#[derive(Debug)]
struct ContractBackward;

impl Backward<Flex, 2> for ContractBackward {
    type State = (ContractCall, Raw, Raw);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (call, b, t) = ops.state;
        let d_out = contiguous(&grads.consume::<Flex>(&ops.node));
        let (b, t) = (numbers(&b), numbers(&t));
        let sets = call.offsets.len() - 1;
        let p = b.len() / sets;
        let [beta, tau] = ops.parents;
        let (d_beta, d_tau) = contract_backward(
            b,
            t,
            &call.offsets,
            p,
            call.outputs,
            numbers(&d_out),
            tau.is_some(),
        );
        if let Some(node) = beta {
            grads.register::<Flex>(node.id, raw(d_beta, sets));
        }
        if let (Some(node), Some(d)) = (tau, d_tau) {
            grads.register::<Flex>(node.id, raw(d, call.offsets[sets]));
        }
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn fused_mlp(
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        call: MlpCall,
    ) -> FloatTensor<Self> {
        let nodes = [rows.node(), weights.node()];
        let (x, w) = (
            contiguous(rows.primitive()),
            contiguous(weights.primitive()),
        );
        match MlpBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (shape, isa) = (&call.shape, Isa::current());
                let count = numbers(&x).len() / shape.inputs();
                let room = Room::take(mlp_kept_floats(isa, shape, count));
                let keep = Keep::for_back(room.is_some());
                let (out, kept) = mlp_forward(isa, shape, numbers(&x), numbers(&w), keep);
                prep.finish((call, x, w, hand(kept, room)), raw(out, count))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::fused_mlp(x, w, call)),
        }
    }

    fn fused_pool(
        psi: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        call: PoolCall,
    ) -> FloatTensor<Self> {
        let nodes = [psi.node(), weights.node()];
        let (x, w) = (contiguous(psi.primitive()), contiguous(weights.primitive()));
        match PoolBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (heads, offsets, isa) = (&call.heads, &call.offsets, Isa::current());
                let room = Room::take(pool_kept_floats(isa, heads, offsets));
                let keep = Keep::for_back(room.is_some());
                let (psi, weights) = (numbers(&x), numbers(&w));
                let (out, kept) = pool_forward(isa, heads, psi, offsets, weights, keep);
                let sets = offsets.len() - 1;
                prep.finish((call, x, w, hand(kept, room)), raw(out, sets))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::fused_pool(x, w, call)),
        }
    }

    fn fused_contract(
        beta: FloatTensor<Self>,
        tau: FloatTensor<Self>,
        call: ContractCall,
    ) -> FloatTensor<Self> {
        let nodes = [beta.node(), tau.node()];
        let (b, t) = (contiguous(beta.primitive()), contiguous(tau.primitive()));
        let out = Flex::fused_contract(b.clone(), t.clone(), call.clone());
        match ContractBackward
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish((call, b, t), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn fused_fourier(
        x: FloatTensor<Self>,
        spectral: FloatTensor<Self>,
        point: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        layer: FourierLayer,
    ) -> FloatTensor<Self> {
        let all = [&x, &spectral, &point, &bias];
        let (nodes, parts) = (
            all.map(|t| t.node()),
            all.map(|t| contiguous(t.primitive())),
        );
        let [seen, spectral, point, bias] = &parts;
        let weights = fourier_weights(spectral, point, bias);
        let (out, kept) = fourier_forward(Isa::current(), &layer, numbers(seen), weights);
        let count = out.len() / layer.channels;
        let out = raw(out, count);
        match FourierBackward
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let room = Room::take(kept.numbers());
                let kept = room.map(|room| (kept, Some(room)));
                let handed = Arc::new(Mutex::new(kept));
                prep.finish((layer, parts, out.clone(), handed), out)
            }
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn fused_resize(x: FloatTensor<Self>, call: Resize) -> FloatTensor<Self> {
        let out = Flex::fused_resize(x.primitive().clone(), call.clone());
        match ResizeBackward
            .prepare::<C>([x.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(call, out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}
