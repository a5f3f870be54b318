//! Coefficients as a core sees them: as they are, or, where it wants numbers of size one, with the mean and spread
//! of the training set taken out.

use crate::encoders::{Encoded, numbers};
use crate::error::Result;
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::spaces::mean_and_spread;

#[derive(Clone, Debug)]
pub(super) struct Coefficients {
    count: usize,
    /// Mean and spread, not trained.
    standard: Option<[Key; 2]>,
}

impl Coefficients {
    /// So many numbers, called `name`.
    pub fn new(plan: &mut Plan, name: &str, count: usize, standardised: bool) -> Self {
        let mut fixed = |part: &str| plan.add(format!("{name}.{part}"), &[count], Init::Fixed);
        Self {
            count,
            standard: standardised.then(|| ["mean", "spread"].map(&mut fixed)),
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn are_standardised(&self) -> bool {
        self.standard.is_some()
    }

    /// Takes mean and spread from those of training samples, of so many functions.
    pub fn fit(
        &self,
        entries: &mut [Entry],
        training: &[Vec<f32>],
        functions: usize,
    ) -> Result<()> {
        if let Some([mean, spread]) = self.standard {
            let found = mean_and_spread(training, functions)?;
            mean.set(entries, found.0);
            spread.set(entries, found.1);
        }
        Ok(())
    }

    /// `[samples, count]`; what is behind the coefficients is left to others.
    pub fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let own = numbers(batch).map(|numbers| &numbers[..self.count]);
        let all = own.collect::<Vec<_>>().concat();
        let coefs = params.place().tensor(all, [batch.len(), self.count]);
        match self.standard {
            None => coefs,
            Some(keys) => {
                let [mean, spread] = keys.map(|key| params.get::<1>(key).unsqueeze());
                (coefs - mean) / spread
            }
        }
    }
}
