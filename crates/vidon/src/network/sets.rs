//! Ragged batches: the rows of all samples in one matrix, plus offsets. No padding, no mask.

use std::sync::Arc;

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::network::{Place, to_vec};

/// Which rows of a matrix belong to which sample.
#[derive(Clone)]
pub(crate) struct Sets {
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
        let values = to_vec(rows.clone().detach());
        let largest: Vec<f32> = self
            .offsets
            .windows(2)
            .map(|w| values[w[0]..w[1]].iter().copied().fold(f32::MIN, f32::max))
            .collect();
        Place::of(rows).tensor(largest, [self.count(), 1])
    }

    /// Softmax over the members of each set: `[rows, 1]` to `[rows, 1]`.
    pub fn softmax(&self, logits: Tensor<2>) -> Tensor<2> {
        let shift = self.spread(self.max(&logits));
        let shares = (logits - shift).exp();
        shares.clone() / self.spread(self.sum(shares))
    }
}
