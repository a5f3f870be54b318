//! The numbers a model learns: named tensors in a fixed order.
//!
//! A model is built once into a [`Plan`] (names, shapes, starting values on the host) and keeps only
//! [`Key`]s. The numbers live in [`Params`] on a device. Optimisers, averages, checkpoints and files go over
//! them in order and need to know no model.

use rand::RngExt;
use rand_distr::{Distribution, Normal};

use crate::network::{Place, Tensor};
use crate::rng::Rng;

/// The place of a parameter in the [`Params`] of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(usize);

impl Key {
    /// The numbers on the host.
    pub fn of(self, entries: &[Entry]) -> &[f32] {
        &entries[self.0].values
    }

    pub fn set(self, entries: &mut [Entry], values: Vec<f32>) {
        debug_assert_eq!(values.len(), entries[self.0].values.len());
        entries[self.0].values = values;
    }
}

/// Name, shape and values of one parameter, on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
    /// Fixed numbers (a basis found beforehand) are stored, but not trained.
    pub trained: bool,
}

/// How a parameter starts.
pub(crate) enum Init {
    /// Uniform in ±1/√fan_in.
    FanIn(usize),
    /// Normal with standard deviation √(2/(fan_in + fan_out)).
    XavierNormal(usize, usize),
    /// Uniform in [0, scale).
    Uniform(f64),
    /// 0, and trained from there.
    Zero,
    /// Not trained, but found in the training data; NaN until then.
    Fixed,
}

/// The parameters of a model that is being put together. They are counted first; numbers are drawn when it is
/// known that there is room for all of them.
pub(crate) struct Plan {
    planned: Vec<(String, Vec<usize>, Init)>,
    numbers: usize,
    most: usize,
    rng: Rng,
}

impl Plan {
    /// For at most so many numbers.
    pub fn new(rng: Rng, most: usize) -> Self {
        Self {
            planned: Vec::new(),
            numbers: 0,
            most,
            rng,
        }
    }

    pub fn add(&mut self, name: String, shape: &[usize], init: Init) -> Key {
        let count = shape.iter().fold(1usize, |n, &k| n.saturating_mul(k));
        self.numbers = self.numbers.saturating_add(count);
        // Beyond the limit counting is all that is left to do.
        if self.numbers <= self.most {
            self.planned.push((name, shape.to_vec(), init));
        }
        Key(self.planned.len().saturating_sub(1))
    }

    /// How many numbers were planned, room or not.
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// The parameters with their starting numbers. To be called where there is room for them.
    pub fn draw(self) -> Vec<Entry> {
        let Self {
            planned, mut rng, ..
        } = self;
        let entry = |(name, shape, init): (String, Vec<usize>, Init)| {
            let count = shape.iter().product();
            let mut uniform = |lo: f64, hi: f64| -> Vec<f32> {
                (0..count)
                    .map(|_| (lo + (hi - lo) * rng.random::<f64>()) as f32)
                    .collect()
            };
            let trained = !matches!(init, Init::Fixed);
            let values = match init {
                Init::FanIn(fan_in) => {
                    let end = 1.0 / (fan_in as f64).sqrt();
                    uniform(-end, end)
                }
                Init::Uniform(scale) => uniform(0.0, scale),
                Init::Zero => vec![0.0; count],
                Init::Fixed => vec![f32::NAN; count],
                Init::XavierNormal(fan_in, fan_out) => {
                    let deviation = (2.0 / (fan_in + fan_out) as f64).sqrt();
                    let normal = Normal::new(0.0, deviation).expect("a finite deviation");
                    (0..count).map(|_| normal.sample(&mut rng) as f32).collect()
                }
            };
            Entry {
                name,
                shape,
                values,
                trained,
            }
        };
        planned.into_iter().map(entry).collect()
    }
}

/// Parameters on a device, each as a flat tensor.
#[derive(Clone)]
pub(crate) struct Params {
    /// In the order of the plan.
    pub tensors: Vec<Tensor<1>>,
    shapes: Vec<Vec<usize>>,
}

impl Params {
    /// Trained ones ask for gradients where the device differentiates.
    pub fn new(entries: &[Entry], place: &Place) -> Self {
        let tensor = |entry: &Entry| {
            let tensor: Tensor<1> = place.tensor(entry.values.clone(), [entry.values.len()]);
            if entry.trained && place.device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        Self {
            tensors: entries.iter().map(tensor).collect(),
            shapes: entries.iter().map(|e| e.shape.clone()).collect(),
        }
    }

    pub fn place(&self) -> Place {
        Place::of(&self.tensors[0])
    }

    pub fn flat(&self, key: Key) -> Tensor<1> {
        self.tensors[key.0].clone()
    }

    pub fn get<const D: usize>(&self, key: Key) -> Tensor<D> {
        let shape: [usize; D] = self.shapes[key.0]
            .as_slice()
            .try_into()
            .expect("the rank of the parameter");
        self.tensors[key.0].clone().reshape(shape)
    }
}
