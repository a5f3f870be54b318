//! Adam, with decay added to the gradient (Adam) or to the step (AdamW):
//!
//!   m ← β₁m + (1-β₁)g,   v ← β₂v + (1-β₂)g²,   w ← w - rate·( m̂/(√v̂ + ε) [+ decay·w] )

use serde::{Deserialize, Serialize};
use vidon_kernels::AdamStep;

use crate::network::{Params, Tensor, to_vec};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Where the decay goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    #[default]
    Adam,
    AdamW,
}

/// A parameter outside of differentiation.
pub(crate) fn plain(tensor: &Tensor<1>) -> Tensor<1> {
    tensor.clone().detach().without_autodiff()
}

/// The running means of the gradient and of its square, one pair a parameter.
pub(crate) struct Moments {
    pub first: Vec<Tensor<1>>,
    pub second: Vec<Tensor<1>>,
}

impl Moments {
    pub fn new(params: &Params) -> Self {
        let zeros = || {
            let all = params.tensors.iter();
            all.map(|w| plain(w).zeros_like()).collect()
        };
        Self {
            first: zeros(),
            second: zeros(),
        }
    }
}

/// Rate, decay and the number of the step, counted from 1.
pub(crate) struct Step {
    pub number: u64,
    pub rate: f64,
    pub decay: f64,
    /// What gradients are multiplied by, before anything else.
    pub share: f64,
    /// The longest that all gradients together may be then; longer ones are shortened.
    pub clip: Option<f64>,
}

/// Takes a tensor out, so that whoever has it may change its numbers where they are.
pub(crate) fn take(tensor: &mut Tensor<1>) -> Tensor<1> {
    let nothing = Tensor::empty([0], &tensor.device());
    std::mem::replace(tensor, nothing)
}

impl Optimiser {
    /// One step; there is no gradient where a parameter is not trained.
    pub(crate) fn update(
        self,
        params: &mut Params,
        moments: &mut Moments,
        gradients: Vec<Option<Tensor<1>>>,
        step: &Step,
    ) {
        let unbias = |beta: f64| (1.0 / (1.0 - beta.powf(step.number as f64))) as f32;
        let (l2, decoupled) = match self {
            Optimiser::Adam => (step.decay, 0.0),
            Optimiser::AdamW => (0.0, step.decay),
        };
        let step = AdamStep {
            rate: step.rate as f32,
            scale: match step.clip {
                Some(limit) => step.share * shortening(&gradients, limit / step.share),
                None => step.share,
            } as f32,
            l2: l2 as f32,
            decoupled: decoupled as f32,
            betas: [BETA1 as f32, BETA2 as f32],
            epsilon: EPSILON as f32,
            unbias: [unbias(BETA1), unbias(BETA2)],
        };
        for (k, gradient) in gradients.into_iter().enumerate() {
            let Some(gradient) = gradient else {
                continue;
            };
            let weight = take(&mut params.tensors[k]).detach().without_autodiff();
            let (first, second) = (take(&mut moments.first[k]), take(&mut moments.second[k]));
            let moved = match vidon_kernels::fused(&weight) {
                true => vidon_kernels::adam(weight, gradient, first, second, step),
                false => composed(weight, gradient, first, second, step),
            };
            let [weight, first, second] = moved;
            params.tensors[k] = weight.autodiff().require_grad();
            (moments.first[k], moments.second[k]) = (first, second);
        }
    }
}

/// The same step from ordinary operations, for every device.
fn composed(
    weight: Tensor<1>,
    gradient: Tensor<1>,
    first: Tensor<1>,
    second: Tensor<1>,
    step: AdamStep,
) -> [Tensor<1>; 3] {
    let [b1, b2] = step.betas;
    let gradient = gradient * step.scale + weight.clone() * step.l2;
    let first = first * b1 + gradient.clone() * (1.0 - b1);
    let second = second * b2 + gradient.clone() * gradient * (1.0 - b2);
    let spread = (second.clone() * step.unbias[1]).sqrt() + step.epsilon;
    let change = first.clone() * step.unbias[0] / spread + weight.clone() * step.decoupled;
    [weight - change * step.rate, first, second]
}

/// What all gradients are to be multiplied by, so that their joint norm is at most `limit`.
fn shortening(gradients: &[Option<Tensor<1>>], limit: f64) -> f64 {
    let square = |g: &Tensor<1>| {
        let sum = match vidon_kernels::fused(g) {
            true => vidon_kernels::sum_of_squares(g.clone()),
            false => (g.clone() * g.clone()).sum(),
        };
        to_vec(sum)[0] as f64
    };
    let norm = gradients.iter().flatten().map(square).sum::<f64>().sqrt();
    (limit / norm).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Entry, Place, device, training_device};

    /// The first step, without decay.
    const FIRST: AdamStep = AdamStep {
        rate: 0.1,
        scale: 1.0,
        l2: 0.0,
        decoupled: 0.0,
        betas: [0.9, 0.999],
        epsilon: 1e-8,
        unbias: [10.0, 1000.0],
    };

    fn tensor(values: &[f32]) -> Tensor<1> {
        Place::single(device()).tensor(values.to_vec(), [values.len()])
    }

    /// Both kinds against the formulas in double precision.
    #[test]
    fn steps_are_those_of_the_formulas() {
        for kind in [Optimiser::Adam, Optimiser::AdamW] {
            let entry = Entry {
                name: "w".into(),
                shape: vec![2],
                values: vec![1.0, -2.0],
                trained: true,
            };
            let mut params = Params::new(&[entry], &Place::single(training_device()));
            let mut moments = Moments::new(&params);
            let (mut w, mut m, mut v) = ([1.0f64, -2.0], [0.0f64; 2], [0.0f64; 2]);
            for number in 1..=5u64 {
                let g = [0.3 * number as f64, -0.1];
                let step = Step {
                    number,
                    rate: 0.01,
                    decay: 0.1,
                    share: 0.5,
                    clip: None,
                };
                let gradient = tensor(&[2.0 * g[0] as f32, 2.0 * g[1] as f32]);
                kind.update(&mut params, &mut moments, vec![Some(gradient)], &step);
                for i in 0..2 {
                    let l2 = if kind == Optimiser::Adam {
                        0.1 * w[i]
                    } else {
                        0.0
                    };
                    let g = g[i] + l2;
                    m[i] = 0.9 * m[i] + 0.1 * g;
                    v[i] = 0.999 * v[i] + 0.001 * g * g;
                    let (mh, vh) = (
                        m[i] / (1.0 - 0.9f64.powf(number as f64)),
                        v[i] / (1.0 - 0.999f64.powf(number as f64)),
                    );
                    let apart = if kind == Optimiser::AdamW {
                        0.1 * w[i]
                    } else {
                        0.0
                    };
                    w[i] -= 0.01 * (mh / (vh.sqrt() + 1e-8) + apart);
                }
            }
            for (found, wanted) in to_vec(plain(&params.tensors[0])).iter().zip(w) {
                assert!(
                    (*found as f64 - wanted).abs() < 1e-5,
                    "{kind:?}: {found} {wanted}"
                );
            }
        }
    }

    #[test]
    fn fused_and_composed_steps_are_the_same() {
        let step = AdamStep {
            scale: 0.7,
            l2: 0.01,
            decoupled: 0.02,
            unbias: [2.0, 3.0],
            ..FIRST
        };
        let parts = || [&[1.0, -3.0][..], &[0.5, 0.1], &[0.2, 0.0], &[0.1, 1e-4]].map(tensor);
        let ([w, g, m, v], [w2, g2, m2, v2]) = (parts(), parts());
        let pairs = vidon_kernels::adam(w, g, m, v, step)
            .into_iter()
            .zip(composed(w2, g2, m2, v2, step));
        for (a, b) in pairs {
            for (a, b) in to_vec(a).iter().zip(to_vec(b)) {
                assert!((a - b).abs() < 1e-6, "{a} {b}");
            }
        }
    }

    /// Weights are changed where they are, but not for those who hold them too; larger than a core takes at a
    /// time.
    #[test]
    fn steps_leave_other_holders_alone() {
        let many = |v: f32| tensor(&vec![v; 40_000]);
        let weight = many(1.0);
        let held = weight.clone();
        let [moved, first, _] = vidon_kernels::adam(weight, many(2.0), many(0.0), many(0.0), FIRST);
        let all = |t: Tensor<1>, wanted: f32| {
            assert!(
                to_vec(t).iter().all(|v| (v - wanted).abs() < 1e-5),
                "{wanted}"
            );
        };
        all(held.clone(), 1.0);
        all(moved.clone(), 0.9);
        all(first, 0.2);
        let mean = held.clone();
        all(vidon_kernels::blend(mean, moved, 0.75), 0.975);
        all(held.clone(), 1.0);
        assert!((to_vec(vidon_kernels::sum_of_squares(held))[0] - 40_000.0).abs() < 1.0);
    }

    #[test]
    fn long_gradients_are_cut() {
        let gradients = [Some(tensor(&[3.0])), None, Some(tensor(&[4.0]))];
        assert_eq!(shortening(&gradients, 10.0), 1.0);
        assert!((shortening(&gradients, 1.0) - 0.2).abs() < 1e-6);
    }
}
