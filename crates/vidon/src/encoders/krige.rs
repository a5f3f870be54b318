//! Kriging (Gaussian-process regression): scattered sensors to values anywhere.
//!
//! Ordinary kriging with the Matérn-5/2 kernel from the nearest sensors:
//!
//!   u(x) ≈ c + k(x, X)ᵀ (K + εI)⁻¹ (u - c),   c = (1ᵀK⁻¹u)/(1ᵀK⁻¹1).
//!
//! The kernel's length is chosen per sample among multiples of the sensors' spacing: the one that predicts
//! left-out sensors best. It lets networks with fixed inputs (DeepONet) take the variable layouts.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::{Channel, Group, Rows, Sensors, domain_of};
use crate::domain::product;
use crate::encoders::{Encoded, Encoder, numbers};
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::spaces::linalg::{Factor, Matrix};

/// Sensors that take part in one value.
const NEIGHBOURS: usize = 32;
/// Added to the kernel's diagonal, for sensors that stand close to each other.
const NUGGET: f64 = 1e-8;
/// Candidate lengths of the kernel, in mean spacings of the sensors.
const LENGTHS: [f64; 4] = [2.0, 5.0, 12.0, 30.0];
/// Sensors left out, one at a time, to choose the length.
const TRIALS: usize = 48;

/// The grid to which sensors are interpolated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KrigeConfig {
    /// Which group; the only one of its kind where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Points per axis.
    pub grid: Vec<usize>,
}

impl KrigeConfig {
    pub(super) fn fault(&self, coords: usize) -> Option<String> {
        let points = self.points();
        let fits = self.grid.len() == coords && self.grid.iter().all(|&n| n > 1);
        (!fits || points.is_none()).then(|| {
            format!(
                "kriging to {:?}: it must be a grid of {coords} axes, at least 2 points each",
                self.grid
            )
        })
    }

    fn points(&self) -> Option<usize> {
        self.grid.iter().try_fold(1usize, |a, &b| a.checked_mul(b))
    }
}

/// The readings that kriging gives on a grid over the box of the data: what a DeepONet needs to take any sensors.
#[derive(Clone, Debug)]
pub(super) struct Krige {
    config: KrigeConfig,
    values: usize,
    points: usize,
    /// The points of the grid, `[m, d]`: not trained.
    places: Key,
}

impl Krige {
    pub fn new(plan: &mut Plan, config: &KrigeConfig, prefix: &str, group: &Group) -> Self {
        let points = config.points().unwrap_or(usize::MAX);
        let shape = [points, group.coordinates().len()];
        Self {
            config: config.clone(),
            values: group.values.len(),
            points,
            places: plan.add(format!("{prefix}sensors"), &shape, Init::Fixed),
        }
    }
}

impl Encoder for Krige {
    fn fit(&self, entries: &mut [Entry], coords: &[Channel], _: &[&Sensors]) -> Result<()> {
        let axes = domain_of(coords)?.axes(&self.config.grid);
        let places = Rows::of_f64(coords.len(), &product(&axes));
        self.places.set(entries, places.data().to_vec());
        Ok(())
    }

    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        let places = self.places.of(entries);
        if sensors.coords.data() == places && !sensors.values.has_gaps() {
            return Ok(Encoded::Numbers(sensors.values.data().to_vec()));
        }
        let places = Rows::of(sensors.coords.width(), places.to_vec());
        let mut all = vec![f32::NAN; self.outputs()];
        // Every column from the sensors that report it.
        for (columns, own) in sensors.by_column() {
            let found = krige(&own, &places)?;
            for (from, &to) in columns.iter().enumerate() {
                let cells = all.iter_mut().skip(to).step_by(self.values);
                cells
                    .zip(found.column(from))
                    .for_each(|(cell, v)| *cell = v);
            }
        }
        match all.iter().any(|v| v.is_nan()) {
            false => Ok(Encoded::Numbers(all)),
            true => Err(Error::sample(
                0,
                "no sensor reports a column that kriging is to interpolate",
            )),
        }
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let all = numbers(batch).collect::<Vec<_>>().concat();
        params.place().tensor(all, [batch.len(), self.outputs()])
    }

    fn outputs(&self) -> usize {
        self.points.saturating_mul(self.values)
    }
}

/// What kriging of the sensors gives at `places`.
fn krige(sensors: &Sensors, places: &Rows) -> Result<Rows> {
    let dim = sensors.coords.width();
    if places.width() != dim {
        return Err(Error::Unsuitable(format!(
            "sensors with {dim} coordinates cannot be interpolated to places with {}",
            places.width()
        )));
    }
    let width = sensors.values.width();
    let sensors = Scaled::new(sensors);
    let length = sensors.best_length();
    let scaled = sensors.scaled(places);
    let values = (0..places.len())
        .into_par_iter()
        .flat_map_iter(|i| sensors.at(scaled.row(i), None, length))
        .map(|v| v as f32);
    Ok(Rows::of(width, values.collect()))
}

/// In units of the box that they fill: axes may be metres and degrees.
struct Scaled<'a> {
    coords: Rows,
    values: &'a Rows,
    /// The length of the box along every axis.
    sizes: Vec<f32>,
    /// Mean distance of neighbouring sensors, if they filled their box evenly.
    spacing: f64,
}

impl<'a> Scaled<'a> {
    fn new(sensors: &'a Sensors) -> Self {
        let coords = &sensors.coords;
        let size = |axis: usize| {
            let along = || coords.iter().map(|p| p[axis]);
            let (lo, hi) = (
                along().fold(f32::MAX, f32::min),
                along().fold(f32::MIN, f32::max),
            );
            if hi > lo { hi - lo } else { 1.0 }
        };
        let mut own = Self {
            coords: Rows::of(coords.width(), vec![]),
            values: &sensors.values,
            sizes: (0..coords.width()).map(size).collect(),
            spacing: (1.0 / coords.len() as f64).powf(1.0 / coords.width() as f64),
        };
        own.coords = own.scaled(coords);
        own
    }

    fn scaled(&self, places: &Rows) -> Rows {
        let scaled = places
            .iter()
            .flat_map(|p| p.iter().zip(&self.sizes).map(|(x, size)| x / size));
        Rows::of(places.width(), scaled.collect())
    }

    fn best_length(&self) -> f64 {
        let count = self.coords.len();
        let trials = TRIALS.min(count);
        let miss = |length: f64| -> f64 {
            let square = |trial: usize| {
                let left_out = trial * count / trials;
                let guess = self.at(self.coords.row(left_out), Some(left_out), length);
                let truth = self.values.row(left_out);
                guess
                    .iter()
                    .zip(truth)
                    .map(|(a, b)| (a - *b as f64).powi(2))
                    .sum::<f64>()
            };
            (0..trials).map(square).sum()
        };
        let lengths = LENGTHS.map(|multiple| multiple * self.spacing);
        let misses = lengths.map(miss);
        let best = (0..lengths.len()).min_by(|&i, &j| misses[i].total_cmp(&misses[j]));
        lengths[best.expect("candidates")]
    }

    /// All components at `place`, from the sensors but `without`.
    fn at(&self, place: &[f32], without: Option<usize>, length: f64) -> Vec<f64> {
        let width = self.values.width();
        let near = self.nearest(place, without);
        if near.is_empty() {
            return self.values.row(0).iter().map(|&v| v as f64).collect();
        }
        let n = near.len();
        let mut matrix = Matrix::zeros(n, n);
        for i in 0..n {
            for j in 0..=i {
                let distance = distance(self.coords.row(near[i]), self.coords.row(near[j]));
                matrix[(i, j)] = matern(distance / length) + if i == j { NUGGET } else { 0.0 };
            }
        }
        let Some(factor) = Factor::new(matrix) else {
            // Too close to singular: the nearest sensor's word.
            return self.values.row(near[0]).iter().map(|&v| v as f64).collect();
        };
        // A column of ones, and the kernel at the place.
        let solved = factor.solve(&Matrix::from_fn(n, 2, |i, column| match column {
            0 => 1.0,
            _ => matern(distance(place, self.coords.row(near[i])) / length),
        }));
        let of = |column| (0..n).map(move |i| (i, column));
        let [ones, mut weights] = [0, 1].map(|c| of(c).map(|at| solved[at]).collect::<Vec<f64>>());
        // Unbiased: the weights are made to add up to one.
        let lack = (1.0 - weights.iter().sum::<f64>()) / ones.iter().sum::<f64>();
        weights
            .iter_mut()
            .zip(&ones)
            .for_each(|(w, o)| *w += lack * o);
        (0..width)
            .map(|c| {
                near.iter()
                    .zip(&weights)
                    .map(|(&i, w)| w * self.values.row(i)[c] as f64)
                    .sum()
            })
            .collect()
    }

    /// The nearest sensors, nearest first.
    fn nearest(&self, place: &[f32], without: Option<usize>) -> Vec<usize> {
        let mut all: Vec<(f64, usize)> = (0..self.coords.len())
            .filter(|&i| Some(i) != without)
            .map(|i| (distance(place, self.coords.row(i)), i))
            .collect();
        let by_distance = |a: &(f64, usize), b: &(f64, usize)| a.partial_cmp(b).expect("finite");
        if all.len() > NEIGHBOURS {
            all.select_nth_unstable_by(NEIGHBOURS - 1, by_distance);
            all.truncate(NEIGHBOURS);
        }
        all.sort_by(by_distance);
        all.into_iter().map(|(_, i)| i).collect()
    }
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| ((x - y) as f64).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// Matérn kernel with smoothness 5/2, of a distance in kernel lengths.
fn matern(r: f64) -> f64 {
    let z = 5f64.sqrt() * r;
    (1.0 + z + z * z / 3.0) * (-z).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use rand::RngExt;

    fn smooth(p: &[f32]) -> [f32; 2] {
        let (x, y) = (p[0] as f64, p[1] as f64);
        [
            (3.0 * x).sin() as f32 * (2.0 * y).cos() as f32,
            (x * y) as f32 + 5.0,
        ]
    }

    fn scattered(m: usize) -> Sensors {
        let mut rng = stream(0, "kriging", m as u64);
        let coords = Rows::of(2, (0..2 * m).map(|_| rng.random_range(0.0..1.0)).collect());
        let values = coords.iter().flat_map(smooth).collect();
        Sensors {
            values: Rows::of(2, values),
            coords,
        }
    }

    fn error(m: usize) -> f32 {
        let places = Rows::of(
            2,
            (0..81)
                .flat_map(|i| [(i / 9) as f32 / 8.0, (i % 9) as f32 / 8.0])
                .collect(),
        );
        let found = krige(&scattered(m), &places).unwrap();
        let exact: Vec<f32> = places.iter().flat_map(smooth).collect();
        let square = |(a, b): (&f32, &f32)| (a - b) * (a - b);
        let sum: f32 = found.data().iter().zip(&exact).map(square).sum();
        (sum / exact.len() as f32).sqrt()
    }

    #[test]
    fn smooth_functions_are_recovered_and_more_sensors_help() {
        let errors = [60, 250, 1000].map(error);
        println!("root mean square errors {errors:?}");
        assert!(errors[0] < 0.01 && errors[1] < 0.3 * errors[0] && errors[2] < 0.5 * errors[1]);
    }

    #[test]
    fn axes_may_have_units_of_their_own() {
        let stretch = |rows: &Rows| {
            let points = rows.iter().flat_map(|p| [p[0], 1024.0 * p[1]]);
            Rows::of(2, points.collect())
        };
        let (sample, places) = (scattered(100), Rows::of(2, vec![0.3, 0.4, 0.9, 0.2]));
        let stretched = Sensors {
            coords: stretch(&sample.coords),
            ..sample.clone()
        };
        let found = krige(&sample, &places).unwrap();
        assert_eq!(krige(&stretched, &stretch(&places)).unwrap(), found);
    }

    #[test]
    fn sensors_keep_their_values_and_few_are_enough() {
        let sensors = scattered(100);
        let same = krige(&sensors, &sensors.coords).unwrap();
        for (a, b) in same.data().iter().zip(sensors.values.data()) {
            assert!((a - b).abs() < 1e-4);
        }
        let one = krige(&scattered(1), &Rows::of(2, vec![0.3, 0.3])).unwrap();
        assert!((one.data()[1] - scattered(1).values.data()[1]).abs() < 1e-5);
        let mut twice = scattered(2);
        twice.coords = Rows::of(2, vec![0.5; 4]);
        let found = krige(&twice, &Rows::of(2, vec![0.1, 0.2])).unwrap();
        assert!(found.data()[0].is_finite());
        assert!(krige(&twice, &Rows::of(1, vec![0.1])).is_err());
    }
}
