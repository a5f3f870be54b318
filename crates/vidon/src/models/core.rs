//! A Fourier neural operator between two bases: what makes an FNO work with sensors anywhere.
//!
//! The sensors' fit `Σ_k c_k φ_k` is evaluated on the core's grid; the FNO maps it to functions on that grid; these are read back as coefficients of the
//! trunk's basis by least squares,
//!
//!   β = (BᵀB)⁻¹Bᵀ FNO(Φ c),   Φ_ik = φ_k(x_i),   B_ik = τ_k(x_i),
//!
//! and the answer `Σ_k β_k τ_k(y)` can be asked anywhere. For outputs in space and time the FNO has a channel for each function of time.
//! On a torus the grid has no ends and the FNO needs no padding and no coordinates: it then commutes with shifts.

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::data::Sample;
use crate::linalg;
use crate::models::basis::Basis;
use crate::models::fno::{Fno, FnoConfig};
use crate::models::frame::{Family, Frame};
use crate::models::params::{Entry, Init, Key, Params, Plan};
use crate::models::trunk::TrunkConfig;
use crate::models::{Dims, Extent};

/// Makes the least squares of functions that the grid hardly tells apart solvable.
const RIDGE: f64 = 1e-6;
/// Most numbers in a matrix between grid and basis.
const MOST_NUMBERS: usize = 1 << 26;
const MOST_POINTS: usize = 512;

/// What turns what the branch saw into β.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CoreConfig {
    /// Φ, a perceptron, as in the paper. With braces, which make serde refuse the settings of others.
    Mlp {},
    /// A Fourier neural operator on a grid between projection and trunk.
    Fno(Box<FnoCoreConfig>),
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self::Mlp {}
    }
}

impl CoreConfig {
    /// Layers or modes, for a bound.
    pub(crate) fn parts(&self) -> usize {
        match self {
            CoreConfig::Mlp {} => 0,
            CoreConfig::Fno(core) => core.layers.max(core.modes),
        }
    }

    /// Points of its grid.
    pub(crate) fn points(&self) -> usize {
        match self {
            CoreConfig::Mlp {} => 0,
            CoreConfig::Fno(core) => core.grid * core.grid,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FnoCoreConfig {
    /// Points per axis.
    pub grid: usize,
    /// Whether it sees where a point is.
    pub coords: bool,
    pub width: usize,
    pub modes: usize,
    pub layers: usize,
    pub hidden: usize,
    /// Zeros added at the far ends, as a share of the grid.
    pub padding: f64,
}

impl Default for FnoCoreConfig {
    fn default() -> Self {
        let fno = FnoConfig::default();
        Self {
            grid: 32,
            coords: true,
            width: fno.width,
            modes: fno.modes,
            layers: fno.layers,
            hidden: fno.hidden,
            padding: fno.padding,
        }
    }
}

impl FnoCoreConfig {
    fn fno(&self) -> FnoConfig {
        FnoConfig {
            width: self.width,
            modes: self.modes,
            layers: self.layers,
            hidden: self.hidden,
            padding: self.padding,
        }
    }

    /// What is wrong with it between a projection of `seen` functions and such a trunk, for such data, if anything.
    pub(crate) fn fault(
        &self,
        seen: usize,
        trunk: &TrunkConfig,
        p: usize,
        dims: Dims,
    ) -> Option<String> {
        let TrunkConfig::Fourier { frame } = trunk else {
            return Some(
                "an FNO core answers in a fixed basis: trunk = { kind = \"fourier\", frame = … }"
                    .into(),
            );
        };
        let space = dims.query_coords - (frame.times > 0) as usize;
        if dims.sensor_coords != 2 || space != 2 {
            return Some("an FNO core maps functions of two coordinates to functions of two coordinates (and, with times, of time)".into());
        }
        if !(2..=MOST_POINTS).contains(&self.grid) {
            return Some(format!(
                "grid = {}: an FNO core has 2 to {MOST_POINTS} points per axis",
                self.grid
            ));
        }
        let functions = p / dims.targets / frame.times.max(1);
        let points = self.grid * self.grid;
        if points * functions.max(seen) > MOST_NUMBERS {
            return Some(format!(
                "{} functions on {1} × {1} points are too many for an FNO core",
                functions.max(seen),
                self.grid
            ));
        }
        // What the grid tells apart.
        let most = match frame.family {
            // The last point may be the first again.
            Family::Periodic => (self.grid - 2) / 2,
            Family::Cosine | Family::Sine => self.grid - 2,
            Family::Legendre => self.grid / 2,
        };
        let reach = Basis::new(frame.space(), functions).reach();
        if reach > most {
            return Some(format!(
                "{functions} functions cannot be read off {0} × {0} points: they go up to order {reach} an axis, the grid to {most}",
                self.grid
            ));
        }
        self.fno()
            .fault()
            .or_else(|| self.fno().too_coarse([self.grid; 2]))
    }
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub(crate) struct FnoCore {
    fno: Fno,
    grid: usize,
    values: usize,
    outputs: usize,
    times: usize,
    /// Φᵀ, `[functions, grid²]`.
    evaluate: Matrix,
    /// ((BᵀB)⁻¹Bᵀ)ᵀ, `[grid², functions]`.
    read: Matrix,
    /// The coefficients of the function 1, `[times, functions]`.
    one: Vec<f32>,
    /// Coordinates of the grid in [-1, 1], where they are seen.
    places: Option<Vec<f32>>,
    /// Not trained: mean and spread of every component of values and of targets.
    input: Key,
    output: Key,
}

#[derive(Clone, Debug)]
struct Matrix {
    shape: [usize; 2],
    numbers: Vec<f32>,
}

impl Matrix {
    fn like(&self, x: &Tensor<2>) -> Tensor<2> {
        let data = TensorData::new(self.numbers.clone(), self.shape);
        Tensor::from_data(data, (&x.device(), x.dtype()))
    }
}

impl FnoCore {
    pub fn new(
        plan: &mut Plan,
        config: &FnoCoreConfig,
        projection: &Basis,
        (trunk, p): (&Frame, usize),
        dims: Dims,
    ) -> Self {
        let (n, times) = (config.grid, trunk.times.max(1));
        let (values, outputs) = (dims.sensor_values, dims.targets);
        let seen = values + if config.coords { 2 } else { 0 };
        let torus = [projection.frame(), trunk]
            .iter()
            .all(|f| f.family == Family::Periodic);
        let unit = unit_grid(n, torus);
        let answer = Basis::new(trunk.space(), p / outputs / times);
        let read = reading(&answer, &unit);
        let mut one = vec![0.0; times * answer.len()];
        for row in read.numbers.chunks(answer.len()) {
            one.iter_mut().zip(row).for_each(|(s, v)| *s += v);
        }
        Self {
            fno: Fno::new(plan, "core.", &config.fno(), seen, outputs * times),
            grid: n,
            values,
            outputs,
            times,
            evaluate: evaluation(projection, &unit),
            read,
            one,
            places: config
                .coords
                .then(|| unit.iter().map(|x| 2.0 * x - 1.0).collect()),
            input: plan.add("core.input".into(), &[2, values], Init::Fixed),
            output: plan.add("core.output".into(), &[2, outputs], Init::Fixed),
        }
    }

    /// Means and spreads of the training set.
    pub fn fit(&self, entries: &mut [Entry], samples: &[Sample]) {
        let values = samples.iter().map(|s| &s.sensor_values);
        entries[self.input.place()].values = moments(values.map(|r| r.data()), self.values);
        let targets = samples.iter().map(|s| &s.targets);
        entries[self.output.place()].values = moments(targets.map(|r| r.data()), self.outputs);
    }

    /// From coefficients of the sensors `[samples, values·functions]` to β `[samples, outputs·functions·times]`.
    pub fn forward(&self, params: &Params, coefs: Tensor<2>) -> Tensor<2> {
        let ([samples, _], points) = (coefs.dims(), self.grid * self.grid);
        let [functions, _] = self.evaluate.shape;
        let moments = |key: Key, width: usize| {
            let both = params.get::<2>(key);
            [0, 1].map(|i| both.clone().narrow(0, i, 1).reshape([1, width]))
        };
        let evaluate = self.evaluate.like(&coefs);
        let values = coefs
            .reshape([samples * self.values, functions])
            .matmul(evaluate)
            .reshape([samples, self.values, points])
            .permute([0, 2, 1])
            .reshape([samples * points, self.values]);
        let [mean, spread] = moments(self.input, self.values);
        let mut seen = vec![(values - mean) / spread];
        if let Some(places) = &self.places {
            let data = TensorData::new(places.clone(), [points, 2]);
            let options = (&seen[0].device(), seen[0].dtype());
            let places = Tensor::<2>::from_data(data, options);
            seen.push(places.repeat(&[samples, 1]));
        }
        let answer = self
            .fno
            .on_grid(params, Tensor::cat(seen, 1), [self.grid; 2]);
        let channels = self.outputs * self.times;
        let answer = answer
            .reshape([samples, points, channels])
            .permute([0, 2, 1])
            .reshape([samples * channels, points]);
        let read = self.read.like(&answer);
        let [_, functions] = self.read.shape;
        let answer = answer
            .matmul(read)
            .reshape([samples, self.outputs, self.times, functions]);
        // The network's zero is the mean of the targets, its one their spread.
        let [mean, spread] =
            moments(self.output, self.outputs).map(|m| m.reshape([1, self.outputs, 1, 1]));
        let one = TensorData::new(self.one.clone(), [1, 1, self.times, functions]);
        let one = Tensor::<4>::from_data(one, (&answer.device(), answer.dtype()));
        (answer * spread + one * mean)
            .permute([0, 1, 3, 2])
            .reshape([samples, self.outputs * functions * self.times])
    }

    /// Numbers of activations kept for so many samples.
    pub fn activations(&self, samples: usize) -> Vec<usize> {
        self.fno.activations(samples * self.grid * self.grid)
    }

    /// Depth counts its layers, lift and projection included; width their channels.
    pub fn extent(&self) -> Extent {
        let seen = self.values + self.places.as_ref().map_or(0, |_| 2);
        self.fno.extent(seen)
    }
}

/// Points of the unit square, row by row; without the far ends on a torus.
fn unit_grid(n: usize, torus: bool) -> Vec<f32> {
    let step = 1.0 / if torus { n } else { n - 1 } as f32;
    let point = |i: usize| [(i / n) as f32 * step, (i % n) as f32 * step];
    (0..n * n).flat_map(point).collect()
}

/// The points in the box of a basis.
fn stretched(frame: &Frame, unit: &[f32]) -> Vec<f32> {
    let place = |p: &[f32], axis: usize| {
        (frame.lo[axis] + p[axis] as f64 * (frame.hi[axis] - frame.lo[axis])) as f32
    };
    unit.chunks(2)
        .flat_map(|p| [place(p, 0), place(p, 1)])
        .collect()
}

fn evaluation(basis: &Basis, unit: &[f32]) -> Matrix {
    let (points, functions) = (unit.len() / 2, basis.len());
    let values = basis.evaluate(&stretched(basis.frame(), unit), functions);
    let numbers = (0..functions)
        .flat_map(|k| values.iter().skip(k).step_by(functions).copied())
        .collect();
    Matrix {
        shape: [functions, points],
        numbers,
    }
}

fn reading(basis: &Basis, unit: &[f32]) -> Matrix {
    let (points, n) = (unit.len() / 2, basis.len());
    let values = linalg::Matrix::single(n, &basis.evaluate(&stretched(basis.frame(), unit), n));
    let mut gram = linalg::Matrix::zeros(n, n);
    gram.add_square(1.0, values.view().transposed());
    let factor = linalg::Factor::with_ridge(&gram, RIDGE * points as f64)
        .expect("a basis is finite in its box");
    let turned = linalg::Matrix::from_fn(n, points, |k, i| values[(i, k)]);
    let solved = factor.solve(turned);
    let numbers = (0..points * n).map(|at| solved[(at % n, at / n)] as f32);
    let numbers = numbers.collect();
    Matrix {
        shape: [points, n],
        numbers,
    }
}

/// Mean, then standard deviation of every component.
fn moments<'a>(rows: impl Iterator<Item = &'a [f32]>, width: usize) -> Vec<f32> {
    let (mut count, mut sums, mut squares) = (0.0, vec![0.0f64; width], vec![0.0f64; width]);
    for row in rows.flat_map(|r| r.chunks(width)) {
        count += 1.0;
        for (c, v) in row.iter().enumerate() {
            sums[c] += *v as f64;
            squares[c] += (*v as f64).powi(2);
        }
    }
    let means = sums.iter().map(|s| s / count);
    let spreads = means.clone().zip(&squares).map(|(m, s)| {
        let variance = s / count - m * m;
        // A component that never varies is not scaled.
        if variance > 1e-12 * s / count {
            variance.sqrt()
        } else {
            1.0
        }
    });
    means.clone().chain(spreads).map(|v| v as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is evaluated on the grid is read back.
    #[test]
    fn coefficients_survive_the_grid() {
        for (family, torus) in [
            (Family::Periodic, true),
            (Family::Cosine, false),
            (Family::Sine, false),
            (Family::Legendre, false),
        ] {
            let frame = Frame {
                lo: vec![-1.0, 0.0],
                hi: vec![2.0, 0.5],
                family,
                times: 0,
            };
            let basis = Basis::whole(frame, 20);
            let unit = unit_grid(12, torus);
            let (there, back) = (evaluation(&basis, &unit), reading(&basis, &unit));
            let n = basis.len();
            let coefs: Vec<f32> = (0..n).map(|i| ((i * 5 + 2) % 9) as f32 - 4.0).collect();
            let points = unit.len() / 2;
            let value = |i: usize| -> f32 {
                (0..n)
                    .map(|k| coefs[k] * there.numbers[k * points + i])
                    .sum()
            };
            for k in 0..n {
                let found: f32 = (0..points)
                    .map(|i| back.numbers[i * n + k] * value(i))
                    .sum();
                assert!(
                    (found - coefs[k]).abs() < 1e-3,
                    "{family:?} {k}: {found} {}",
                    coefs[k]
                );
            }
        }
    }
}
