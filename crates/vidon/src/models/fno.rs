//! Fourier neural operator in two dimensions (Li et al., 2021).
//!
//! (u, x, y) is lifted to `width` channels; every layer adds a spectral convolution (the lowest `modes` frequencies
//! per axis, multiplied by complex matrices) and a 1×1 convolution, GELU between layers; two pointwise layers read the
//! output off. The grid is padded with zeros by a share of its size. Discrete Fourier transforms of few modes are
//! matrix products, which run on every device and for any grid size.
//!
//! Regular grids only, with the output on the grid of the input.

use std::f64::consts::TAU;

use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use serde::{Deserialize, Serialize};
use vidon_kernels::FourierLayer;

use crate::error::{Error, Result};
use crate::models::Extent;
use crate::models::inputs::{Inputs, to_vec};
use crate::models::mlp::{Activation, Linear, Mlp};
use crate::models::params::{Init, Key, Params, Plan};

/// All sizes of an FNO. The default is the paper's, without padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FnoConfig {
    pub width: usize,
    pub modes: usize,
    pub layers: usize,
    /// Width of the layer before the last.
    pub hidden: usize,
    /// Zeros added at the far ends, as a share of the grid.
    pub padding: f64,
}

impl Default for FnoConfig {
    fn default() -> Self {
        Self {
            width: 32,
            modes: 12,
            layers: 4,
            hidden: 128,
            padding: 0.0,
        }
    }
}

impl FnoConfig {
    /// What is wrong with the sizes, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        if [self.width, self.modes, self.layers, self.hidden].contains(&0) {
            return Some("every size must be at least 1".into());
        }
        let padded = (0.0..=4.0).contains(&self.padding);
        (!padded).then(|| "the padding must be a share of the grid, 0 to 4".into())
    }

    fn padded(&self, grid: [usize; 2]) -> [usize; 2] {
        grid.map(|n| n + (self.padding * n as f64).round() as usize)
    }

    /// Says so if a grid has too few points for the modes.
    pub(crate) fn too_coarse(&self, grid: [usize; 2]) -> Option<String> {
        let [m1, m2] = self.padded(grid);
        let (modes, least) = (self.modes, 2 * self.modes);
        (least > m1.min(m2)).then(|| {
            format!("{modes} modes need a grid of at least {least} × {least} points (padding included), not {m1} × {m2}")
        })
    }
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub struct Fno {
    config: FnoConfig,
    lift: Linear,
    /// Spectral weights `[2, modes, modes, in, out, 2]` (rows 0..modes and −modes..0; real and imaginary part) and 1×1
    /// convolutions.
    layers: Vec<(Key, Linear)>,
    project: Mlp,
}

impl Fno {
    /// Names of its parameters start with `prefix`; `inputs` counts the coordinates it sees.
    pub(crate) fn new(
        plan: &mut Plan,
        prefix: &str,
        config: &FnoConfig,
        inputs: usize,
        outputs: usize,
    ) -> Self {
        let FnoConfig {
            width,
            modes,
            layers,
            hidden,
            ..
        } = *config;
        let linear = |plan: &mut Plan, name: &str, a: usize, b: usize| {
            Linear::new(plan, name, a, b, Init::FanIn(a))
        };
        let lift = linear(plan, &format!("{prefix}lift"), inputs, width);
        let layers = (0..layers)
            .map(|i| {
                let shape = [2, modes, modes, width, width, 2];
                let start = Init::Uniform(1.0 / (width * width) as f64);
                let key = plan.add(format!("{prefix}layers.{i}.spectral"), &shape, start);
                (
                    key,
                    linear(plan, &format!("{prefix}layers.{i}.pointwise"), width, width),
                )
            })
            .collect();
        let gelu = Activation::Gelu;
        let project = Mlp::new(
            plan,
            &format!("{prefix}project"),
            width,
            &[hidden],
            outputs,
            gelu,
        );
        Self {
            config: config.clone(),
            lift,
            layers,
            project,
        }
    }

    /// One row a target, `d_u` wide.
    pub fn forward(&self, params: &Params, inputs: &Inputs) -> Result<Tensor<2>> {
        let grid = self.grid(inputs)?;
        if let Some(fault) = self.config.too_coarse(grid) {
            return Err(Error::Setting(fault));
        }
        let seen = Tensor::cat(
            vec![inputs.sensor_values.clone(), inputs.sensor_coords.clone()],
            1,
        );
        Ok(self.on_grid(params, seen, grid))
    }

    /// From what is seen at the points of every sample's grid, `[samples·n1·n2, inputs]`, to `[samples·n1·n2, outputs]`.
    pub(crate) fn on_grid(
        &self,
        params: &Params,
        seen: Tensor<2>,
        [n1, n2]: [usize; 2],
    ) -> Tensor<2> {
        let samples = seen.dims()[0] / (n1 * n2);
        let (width, modes) = (self.config.width, self.config.modes);
        let [m1, m2] = self.config.padded([n1, n2]);
        let x = self
            .lift
            .forward(params, seen)
            .reshape([samples, n1, n2, width]);
        let mut x = grow(grow(x, 1, m1), 2, m2);
        if vidon_kernels::fused(&x) && width.is_multiple_of(16) {
            let x = self.layers_fused(params, x);
            return self.read_off(params, x, [n1, n2]);
        }
        let waves = Waves::new(m1, m2, modes, &x.device(), x.dtype());
        for (i, (spectral, pointwise)) in self.layers.iter().enumerate() {
            let convolved = waves.convolve(x.clone(), params.get::<6>(*spectral));
            let rows = x.reshape([samples * m1 * m2, width]);
            let mixed = pointwise
                .forward(params, rows)
                .reshape([samples, m1, m2, width]);
            x = convolved + mixed;
            if i + 1 < self.layers.len() {
                x = activation::gelu(x);
            }
        }
        self.read_off(params, x, [n1, n2])
    }

    /// Depth counts the lift, the layers and the two that read off; width all their channels.
    pub(crate) fn extent(&self, inputs: usize) -> Extent {
        let FnoConfig { width, modes, .. } = self.config;
        let layer = (4 * modes * modes + 1) * width * width + width;
        Extent {
            depth: 1 + self.layers.len() + self.project.depth(),
            width: (1 + self.layers.len()) * width + self.project.width(),
            size: (inputs + 1) * width + self.layers.len() * layer + self.project.size(),
        }
    }

    /// Numbers of activations kept for so many grid points: what goes into and comes out of every layer.
    pub(crate) fn activations(&self, points: usize) -> Vec<usize> {
        let padded = points as f64 * (1.0 + self.config.padding).powi(2);
        let layer = 2 * padded as usize * self.config.width;
        let mut parts = vec![layer; self.layers.len()];
        parts.push(points * self.config.hidden);
        parts
    }

    /// All layers in fused operations.
    fn layers_fused(&self, params: &Params, x: Tensor<4>) -> Tensor<4> {
        let [samples, m1, m2, width] = x.dims();
        let mut rows = x.reshape([samples * m1 * m2, width]);
        for (i, (spectral, pointwise)) in self.layers.iter().enumerate() {
            let layer = FourierLayer {
                samples,
                grid: [m1, m2],
                channels: width,
                modes: self.config.modes,
                activation: match i + 1 < self.layers.len() {
                    true => vidon_kernels::Activation::Gelu,
                    false => vidon_kernels::Activation::Identity,
                },
            };
            let [weight, bias] = pointwise.flat(params);
            let spectral = params.tensors[spectral.place()].clone();
            rows = vidon_kernels::fourier_layer(layer, rows, spectral, weight, bias);
        }
        rows.reshape([samples, m1, m2, width])
    }

    /// The two pointwise layers at the end, without the padding.
    fn read_off(&self, params: &Params, x: Tensor<4>, [n1, n2]: [usize; 2]) -> Tensor<2> {
        let [samples, _, _, width] = x.dims();
        let x = x
            .narrow(1, 0, n1)
            .narrow(2, 0, n2)
            .reshape([samples * n1 * n2, width]);
        self.project.forward(params, x)
    }

    /// Points per axis of the grid on which all sensors and queries stand.
    fn grid(&self, inputs: &Inputs) -> Result<[usize; 2]> {
        let refuse = |what: &str| {
            Err(Error::Setting(format!(
                "FNO needs sensors on one regular grid, and is asked on that grid (layout regular): {what}. VIDON takes any sensors"
            )))
        };
        let offsets = inputs.sensors.offsets();
        let m = offsets[1];
        let [_, dim] = inputs.sensor_coords.dims();
        if dim != 2 || offsets.windows(2).any(|w| w[1] - w[0] != m) {
            return refuse("samples have different numbers of sensors, or not two coordinates");
        }
        let coords = to_vec(inputs.sensor_coords.clone());
        let queries = to_vec(inputs.query_coords.clone());
        let first = &coords[..2 * m];
        let asked = if inputs.queries.is_some() {
            coords.len()
        } else {
            2 * m
        };
        if queries.len() != asked
            || coords.chunks(2 * m).any(|c| c != first)
            || queries.chunks(2 * m).any(|q| q != first)
        {
            return refuse("sensors and queries are not the same points in every sample");
        }
        let n2 = first.chunks(2).take_while(|p| p[0] == first[0]).count();
        let in_order = m.is_multiple_of(n2)
            && first
                .chunks(2)
                .enumerate()
                .all(|(i, p)| p[0] == first[2 * (i / n2 * n2)] && p[1] == first[2 * (i % n2) + 1]);
        if !in_order {
            return refuse("the sensors are not a product of two axes");
        }
        let even = |axis: Vec<f32>| {
            let step = (axis[axis.len() - 1] - axis[0]) / (axis.len() - 1).max(1) as f32;
            axis.windows(2)
                .all(|w| (w[1] - w[0] - step).abs() <= 1e-3 * step.abs())
        };
        let axis =
            |k: usize, stride: usize, n: usize| (0..n).map(|i| first[2 * i * stride + k]).collect();
        if !even(axis(0, n2, m / n2)) || !even(axis(1, 1, n2)) {
            return refuse("the grid is not evenly spaced");
        }
        Ok([m / n2, n2])
    }
}

/// Zeros at the far end of `axis`, up to `size`.
fn grow(x: Tensor<4>, axis: usize, size: usize) -> Tensor<4> {
    let mut shape = x.dims();
    if shape[axis] == size {
        return x;
    }
    shape[axis] = size - shape[axis];
    let zeros = Tensor::zeros(shape, (&x.device(), x.dtype()));
    Tensor::cat(vec![x, zeros], axis)
}

/// The matrices of the truncated Fourier transforms on an n1 × n2 grid.
struct Waves {
    modes: usize,
    /// cos and sin of 2πk·j/n: `[n1, 2·modes]` for k = 0..modes, −modes..0, and `[n2, modes]`.
    rows: [Tensor<2>; 2],
    columns: [Tensor<2>; 2],
    /// Twice for k > 0 (the mirrored half), over n1·n2: `[1, modes]`.
    scale: Tensor<2>,
}

impl Waves {
    fn new(n1: usize, n2: usize, modes: usize, device: &Device, dtype: DType) -> Self {
        let matrix = |n: usize, waves: &[i64], wave: fn(f64) -> f64| {
            let values: Vec<f32> = (0..n as i64)
                .flat_map(|j| waves.iter().map(move |k| (k * j).rem_euclid(n as i64)))
                .map(|turn| wave(TAU * turn as f64 / n as f64) as f32)
                .collect();
            Tensor::<2>::from_data(TensorData::new(values, [n, waves.len()]), (device, dtype))
        };
        let m = modes as i64;
        let (both, positive): (Vec<i64>, Vec<i64>) =
            ((0..m).chain(-m..0).collect(), (0..m).collect());
        let pair =
            |n: usize, waves: &[i64]| [matrix(n, waves, f64::cos), matrix(n, waves, f64::sin)];
        let scale: Vec<f32> = positive
            .iter()
            .map(|&k| if k == 0 { 1.0 } else { 2.0 } / (n1 * n2) as f32)
            .collect();
        Self {
            modes,
            rows: pair(n1, &both),
            columns: pair(n2, &positive),
            scale: Tensor::from_data(TensorData::new(scale, [1, modes]), (device, dtype)),
        }
    }

    /// Transform, multiply every mode by its complex matrix, transform back: `[samples, n1, n2, channels]`.
    fn convolve(&self, x: Tensor<4>, weight: Tensor<6>) -> Tensor<4> {
        let [samples, n1, n2, channels] = x.dims();
        let (k1, k2) = (2 * self.modes, self.modes);
        let [cos1, sin1] = self.rows.clone();
        let [cos2, sin2] = self.columns.clone();
        // Forward, e^{-i…}: along the columns, then along the rows.
        let x = x
            .permute([0, 1, 3, 2])
            .reshape([samples * n1 * channels, n2]);
        let along_rows = |part: Tensor<2>| {
            part.reshape([samples, n1, channels * k2])
                .permute([0, 2, 1])
                .reshape([samples * channels * k2, n1])
        };
        let (re, im) = (
            along_rows(x.clone().matmul(cos2.clone())),
            along_rows(x.matmul(sin2.clone()).neg()),
        );
        let spectrum = [
            re.clone().matmul(cos1.clone()) + im.clone().matmul(sin1.clone()),
            im.matmul(cos1.clone()) - re.matmul(sin1.clone()),
        ];
        // [samples, channels, k2, k1] to [k1·k2, samples, channels], the order of the weights.
        let by_mode = |part: Tensor<2>| {
            part.reshape([samples, channels, k2, k1])
                .permute([3, 2, 0, 1])
                .reshape([k1 * k2, samples, channels])
        };
        let [re, im] = spectrum.map(by_mode);
        let outputs = weight.dims()[4];
        let part = |i: usize| {
            weight
                .clone()
                .narrow(5, i, 1)
                .reshape([k1 * k2, channels, outputs])
        };
        let (w_re, w_im) = (part(0), part(1));
        let product = [
            re.clone().matmul(w_re.clone()) - im.clone().matmul(w_im.clone()),
            re.matmul(w_im) + im.matmul(w_re),
        ];
        // Back, e^{+i…}, real part.
        let by_row = |part: Tensor<3>| {
            part.reshape([k1, k2, samples, outputs])
                .permute([2, 3, 1, 0])
                .reshape([samples * outputs * k2, k1])
        };
        let [re, im] = product.map(by_row);
        let (cos1, sin1) = (cos1.transpose(), sin1.transpose());
        let by_column = |part: Tensor<2>| {
            let part = part.reshape([samples * outputs, k2, n1]).permute([0, 2, 1]);
            part.reshape([samples * outputs * n1, k2]) * self.scale.clone()
        };
        let back_re = by_column(re.clone().matmul(cos1.clone()) - im.clone().matmul(sin1.clone()));
        let back_im = by_column(im.matmul(cos1) + re.matmul(sin1));
        let values = back_re.matmul(cos2.transpose()) - back_im.matmul(sin2.transpose());
        values
            .reshape([samples, outputs, n1, n2])
            .permute([0, 2, 3, 1])
    }
}
