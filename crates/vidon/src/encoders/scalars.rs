//! Parameters of a sample: numbers that stand nowhere, with the mean and spread of the training set taken out,
//!
//!   (p - p̄)/σ_p.
//!
//! Where parameters can be missing, a missing one is 0, and beside every parameter stands whether it is known.

use serde::{Deserialize, Serialize};

use crate::data::{Channel, Group, Sensors};
use crate::encoders::{Encoded, Encoder, numbers};
use crate::error::Result;
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::spaces::{Symmetries, Symmetry, means_and_deviations};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalarsConfig {
    /// Which group; the only one of its kind where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Scalars {
    width: usize,
    gaps: bool,
    /// Mean and spread of every parameter, `[2, width]`: not trained.
    standard: Key,
}

impl Scalars {
    pub fn new(plan: &mut Plan, prefix: &str, group: &Group) -> Self {
        let width = group.values.len();
        Self {
            width,
            gaps: group.gaps,
            standard: plan.add(format!("{prefix}scalars"), &[2, width], Init::Fixed),
        }
    }
}

impl Encoder for Scalars {
    fn fit(&self, entries: &mut [Entry], _: &[Channel], training: &[&Sensors]) -> Result<()> {
        let rows = training.iter().map(|s| s.values.data());
        self.standard
            .set(entries, means_and_deviations(rows, self.width));
        Ok(())
    }

    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        let (mean, spread) = self.standard.of(entries).split_at(self.width);
        let standard = mean.iter().zip(spread).zip(sensors.values.data());
        let mut all: Vec<f32> = standard
            .map(|((mean, spread), v)| match v.is_nan() {
                true => 0.0,
                false => (v - mean) / spread,
            })
            .collect();
        if self.gaps {
            let known = sensors.values.data().iter();
            all.extend(known.map(|v| f32::from(!v.is_nan())));
        }
        Ok(Encoded::Numbers(all))
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let all = numbers(batch).collect::<Vec<_>>().concat();
        params.place().tensor(all, [batch.len(), self.outputs()])
    }

    fn outputs(&self) -> usize {
        self.width * if self.gaps { 2 } else { 1 }
    }

    /// Parameters are the same for every image.
    fn has_symmetries(&self, _: Symmetries, _: &[Channel]) -> bool {
        true
    }

    fn transform(&self, _: &mut Encoded, _: &Symmetry, _: &[[f64; 2]]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Kind;
    use crate::rng::stream;

    #[test]
    fn parameters_are_of_size_one_and_gaps_are_told() {
        let group = Group {
            kind: Kind::Scalars,
            gaps: true,
            ..Group::field("run", vec![], ["a", "b"].map(Channel::named).to_vec())
        };
        let mut plan = Plan::new(stream(0, "scalars", 0), usize::MAX);
        let scalars = Scalars::new(&mut plan, "run.", &group);
        let training =
            [[1.0, 100.0], [3.0, 300.0], [f32::NAN, 200.0]].map(|v| Sensors::scalars(&v));
        let refs: Vec<&Sensors> = training.iter().collect();
        let mut entries = plan.draw();
        scalars.fit(&mut entries, &[], &refs).unwrap();
        let encode = |s: &Sensors| match scalars.encode(&entries, s).unwrap() {
            Encoded::Numbers(numbers) => numbers,
            _ => unreachable!("numbers"),
        };
        let first = encode(&training[0]);
        assert_eq!((first[0], &first[2..]), (-1.0, &[1.0, 1.0][..]));
        assert_eq!(encode(&training[2]), [0.0, 0.0, 0.0, 1.0]);
    }
}
