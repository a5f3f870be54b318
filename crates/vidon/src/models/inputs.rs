//! A batch as tensors: what every model takes.

use std::sync::Arc;

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::data::{Batch, Rows};

/// Which rows of a matrix belong to which sample.
#[derive(Clone)]
pub struct Sets {
    offsets: Arc<Vec<usize>>,
    /// The sample of every row.
    owners: Tensor<1, Int>,
}

impl Sets {
    pub fn new(offsets: Vec<usize>, device: &Device) -> Self {
        let owners: Vec<i32> = offsets
            .windows(2)
            .enumerate()
            .flat_map(|(sample, w)| std::iter::repeat_n(sample as i32, w[1] - w[0]))
            .collect();
        let count = owners.len();
        let owners = Tensor::from_data(TensorData::new(owners, [count]), device);
        Self {
            offsets: Arc::new(offsets),
            owners,
        }
    }

    /// Number of sets.
    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn offsets(&self) -> &Arc<Vec<usize>> {
        &self.offsets
    }

    /// The row of a set for each of its members: `[sets, k]` to `[rows, k]`.
    pub fn spread(&self, per_set: Tensor<2>) -> Tensor<2> {
        per_set.select(0, self.owners.clone())
    }

    /// The sum over each set: `[rows, k]` to `[sets, k]`.
    pub fn sum(&self, rows: Tensor<2>) -> Tensor<2> {
        let [_, width] = rows.dims();
        let zeros = Tensor::zeros([self.count(), width], (&rows.device(), rows.dtype()));
        zeros.select_assign(0, self.owners.clone(), rows, IndexingUpdateOp::Add)
    }

    /// The largest number of each set, without gradient: `[rows, 1]` to `[sets, 1]`.
    fn max(&self, rows: &Tensor<2>) -> Tensor<2> {
        let (device, dtype) = (rows.device(), rows.dtype());
        let values = to_vec(rows.clone().detach());
        let largest: Vec<f32> = self
            .offsets
            .windows(2)
            .map(|w| values[w[0]..w[1]].iter().copied().fold(f32::MIN, f32::max))
            .collect();
        Tensor::from_data(
            TensorData::new(largest, [self.count(), 1]),
            (&device, dtype),
        )
    }

    /// Softmax over the members of each set: `[rows, 1]` to `[rows, 1]`.
    pub fn softmax(&self, logits: Tensor<2>) -> Tensor<2> {
        let shift = self.spread(self.max(&logits));
        let shares = (logits - shift).exp();
        shares.clone() / self.spread(self.sum(shares))
    }
}

/// The numbers of a tensor on the host, as f32.
pub fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor
        .into_data_as::<f32>()
        .try_to_vec()
        .expect("the type that was asked for")
}

/// Sensors and queries of a batch.
pub struct Inputs {
    /// `[rows, d]`
    pub sensor_coords: Tensor<2>,
    /// `[rows, d_v]`
    pub sensor_values: Tensor<2>,
    pub sensors: Sets,
    /// `[rows, d_y]`, or `[q, d_y]` if shared.
    pub query_coords: Tensor<2>,
    /// None where all samples are asked at the same points.
    pub queries: Option<Sets>,
    /// Coefficients of every sample's projection, where they are known already.
    pub fits: Option<Tensor<2>>,
}

impl Inputs {
    pub fn new(batch: &Batch, device: &Device, dtype: DType) -> Self {
        Self {
            sensor_coords: rows_tensor(&batch.sensor_coords, device, dtype),
            sensor_values: rows_tensor(&batch.sensor_values, device, dtype),
            sensors: Sets::new(batch.sensor_offsets.clone(), device),
            query_coords: rows_tensor(&batch.query_coords, device, dtype),
            queries: batch
                .query_offsets
                .clone()
                .map(|offsets| Sets::new(offsets, device)),
            fits: batch
                .fits
                .as_ref()
                .map(|fits| rows_tensor(fits, device, dtype)),
        }
    }

    pub fn samples(&self) -> usize {
        self.sensors.count()
    }
}

/// Rows as a tensor `[rows, width]`.
pub fn rows_tensor(rows: &Rows, device: &Device, dtype: DType) -> Tensor<2> {
    let data = TensorData::new(rows.data().to_vec(), [rows.len(), rows.width()]);
    Tensor::from_data(data, (device, dtype))
}
