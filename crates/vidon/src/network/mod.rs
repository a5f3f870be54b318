//! The one door to Burn: tensors on a device, the numbers that are learned, and the perceptron that all parts with
//! learned weights are made of. Encoders, cores and decoders take their tensors from here.

mod mlp;
mod params;
mod sets;

pub use mlp::Activation;
pub(crate) use mlp::{Linear, Mlp};
pub(crate) use params::{Entry, Init, Key, Params, Plan};
pub(crate) use sets::Sets;

pub(crate) use burn::tensor::{DType, Device, Tensor, TensorData, activation};

use crate::data::Rows;

/// Where networks run.
pub(crate) fn device() -> Device {
    Device::flex()
}

/// The same for trainings: with gradients.
pub(crate) fn training_device() -> Device {
    device().autodiff()
}

/// Device and precision of a network.
#[derive(Clone)]
pub(crate) struct Place {
    pub device: Device,
    pub dtype: DType,
}

impl Place {
    /// In single precision, for which there are fused kernels.
    pub fn single(device: Device) -> Self {
        Self {
            device,
            dtype: DType::F32,
        }
    }

    pub fn tensor<const D: usize>(&self, numbers: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(numbers, shape), (&self.device, self.dtype))
    }

    /// `[rows, width]`
    pub fn rows(&self, rows: Rows) -> Tensor<2> {
        let shape = [rows.len(), rows.width()];
        self.tensor(rows.into_data(), shape)
    }

    /// Where a tensor is.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        Self {
            device: tensor.device(),
            dtype: tensor.dtype(),
        }
    }
}

/// The numbers of a tensor on the host, as f32.
pub(crate) fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor
        .into_data_as::<f32>()
        .try_to_vec()
        .expect("the type that was asked for")
}

/// `x Wᵀ + b` for rows x, W `[out, in]` and b `[out]`. On the CPU a number of it depends on its row of x and
/// its row of W alone, in every bit, so that an answer does not depend on what else is asked at the same
/// time.
pub(crate) fn affine(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    match vidon_kernels::fused(&x) {
        true => vidon_kernels::affine(x, weight, bias),
        false => x.matmul(weight.transpose()) + bias.unsqueeze(),
    }
}

/// The same without b.
pub(crate) fn linear(x: Tensor<2>, weight: Tensor<2>) -> Tensor<2> {
    let bias = Tensor::zeros([weight.dims()[0]], (&x.device(), x.dtype()));
    affine(x, weight, bias)
}

/// Depth, width and size (number of weights and biases) of a network, as the paper's remark on size defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub depth: usize,
    pub width: usize,
    pub size: usize,
}

impl Extent {
    /// One after the other.
    pub(crate) fn and(self, next: Extent) -> Extent {
        Extent {
            depth: self.depth + next.depth,
            width: self.width + next.width,
            size: self.size + next.size,
        }
    }
}
