//! Fourier neural operator in two dimensions (Li et al., 2021):
//!
//!   h_0 = P·(u, x),   h_{l+1} = σ( W_l h_l + F⁻¹( R_l · F h_l ) ),   v = Q(h_L).
//!
//! What is seen at a point is lifted to `width` channels; every layer adds a spectral convolution (the lowest `modes` frequencies
//! per axis, multiplied by complex matrices) and a 1×1 convolution, GELU between layers; two pointwise layers read the
//! output off. The grid is padded with zeros by a share of its size. Discrete Fourier transforms of few modes are
//! matrix products, which run on every device and for any grid size.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};
use vidon_kernels::{FourierLayer, Resize};

use crate::config::MOST_PARTS;
use crate::cores::Core;
use crate::data::Dims;
use crate::error::{Error, Result};
use crate::network::{
    Activation, Extent, Init, Key, Linear, Mlp, Params, Place, Plan, Tensor, activation,
};

/// All sizes of an FNO. The default is the paper's, without padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FnoConfig {
    /// Points per axis of its own grid, behind a projection; 32 where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<usize>,
    /// Whether it sees where a point of its own grid is; it does where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coords: Option<bool>,
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
            grid: None,
            coords: None,
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
    pub(super) fn fault(&self) -> Option<String> {
        if [self.width, self.modes, self.layers, self.hidden].contains(&0) {
            return Some("every size must be at least 1".into());
        }
        if self.layers.max(self.modes) > MOST_PARTS {
            return Some(format!("more than {MOST_PARTS} layers or modes"));
        }
        let padded = (0.0..=4.0).contains(&self.padding);
        (!padded).then(|| "the padding must be a share of the grid, 0 to 4".into())
    }

    fn padded(&self, grid: [usize; 2]) -> [usize; 2] {
        grid.map(|n| n + (self.padding * n as f64).round() as usize)
    }

    /// Says so if a grid has too few points for the modes.
    pub(super) fn too_coarse(&self, grid: [usize; 2]) -> Option<String> {
        let [m1, m2] = self.padded(grid);
        let (modes, least) = (self.modes, 2 * self.modes);
        (least > m1.min(m2)).then(|| {
            format!("{modes} modes need a grid of at least {least} × {least} points (padding included), not {m1} × {m2}")
        })
    }
}

/// What is wrong with it on the grid of the sensors, if anything.
pub(super) fn fault(config: &FnoConfig, dims: Dims) -> Option<String> {
    if config.grid.is_some() || config.coords.is_some() {
        return Some("grid and coords are for an FNO behind a projection; behind a grid encoder it works on the grid of the sensors".into());
    }
    let plane = (dims.sensor_coords, dims.query_coords) == (2, 2);
    (!plane).then(|| {
        format!(
            "it maps functions of two coordinates to functions of the same two; here they have {} and {}",
            dims.sensor_coords, dims.query_coords
        )
    })
}

/// The paper's FNO: on the grid on which the sensors stand.
#[derive(Clone, Debug)]
pub(super) struct FnoOnGrid {
    fno: Fno,
    inputs: usize,
}

impl FnoOnGrid {
    pub fn new(plan: &mut Plan, config: &FnoConfig, inputs: usize, outputs: usize) -> Self {
        Self {
            fno: Fno::new(plan, config, inputs, outputs),
            inputs,
        }
    }
}

impl Core for FnoOnGrid {
    fn forward(
        &self,
        params: &Params,
        seen: Vec<Tensor<2>>,
        grid: Option<[usize; 2]>,
    ) -> Result<Tensor<2>> {
        let [seen] = <[_; 1]>::try_from(seen).expect("one grid");
        let grid = grid.expect("a grid encoder");
        match self.fno.config.too_coarse(grid) {
            Some(fault) => Err(Error::Unsuitable(fault)),
            None => Ok(self.fno.on_grid(params, seen, grid)),
        }
    }

    fn activations(&self, _: usize, sensors: usize) -> Vec<usize> {
        self.fno.activations(sensors)
    }

    fn extent(&self) -> Extent {
        self.fno.extent(self.inputs)
    }
}

/// The network itself; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub(super) struct Fno {
    config: FnoConfig,
    lift: Linear,
    /// Spectral weights `[2, modes, modes, in, out, 2]` (rows 0..modes and −modes..0; real and imaginary part) and 1×1
    /// convolutions.
    layers: Vec<(Key, Linear)>,
    project: Mlp,
}

impl Fno {
    /// `inputs` counts the coordinates it sees.
    pub fn new(plan: &mut Plan, config: &FnoConfig, inputs: usize, outputs: usize) -> Self {
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
        let lift = linear(plan, "core.lift", inputs, width);
        let layers = (0..layers)
            .map(|i| {
                let shape = [2, modes, modes, width, width, 2];
                let start = Init::Uniform(1.0 / (width * width) as f64);
                let key = plan.add(format!("core.layers.{i}.spectral"), &shape, start);
                (
                    key,
                    linear(plan, &format!("core.layers.{i}.pointwise"), width, width),
                )
            })
            .collect();
        let gelu = Activation::Gelu;
        let project = Mlp::new(plan, "core.project", width, &[hidden], outputs, gelu);
        Self {
            config: config.clone(),
            lift,
            layers,
            project,
        }
    }

    /// From what is seen at the points of every sample's grid, `[samples·n1·n2, inputs]`, to `[samples·n1·n2, outputs]`.
    pub fn on_grid(&self, params: &Params, seen: Tensor<2>, [n1, n2]: [usize; 2]) -> Tensor<2> {
        let samples = seen.dims()[0] / (n1 * n2);
        let width = self.config.width;
        let [m1, m2] = self.config.padded([n1, n2]);
        let x = self.lift.forward(params, seen);
        if vidon_kernels::fused(&x) {
            let larger = Resize {
                channels: width,
                from: vec![n1, n2],
                to: vec![m1, m2],
            };
            let x = resized(larger.clone(), x);
            let x = self.layers_fused(params, x, [samples, m1, m2]);
            return self.project.forward(params, resized(larger.back(), x));
        }
        let x = x.reshape([samples, n1, n2, width]);
        let x = self.layers(params, grow(grow(x, 1, m1), 2, m2));
        let x = x.narrow(1, 0, n1).narrow(2, 0, n2);
        let x = x.reshape([samples * n1 * n2, width]);
        self.project.forward(params, x)
    }

    /// All layers from ordinary operations.
    fn layers(&self, params: &Params, mut x: Tensor<4>) -> Tensor<4> {
        let [samples, m1, m2, width] = x.dims();
        let waves = GridWaves::new(m1, m2, self.config.modes, &Place::of(&x));
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
        x
    }

    /// Depth counts the lift, the layers and the two that read off; width all their channels.
    pub fn extent(&self, inputs: usize) -> Extent {
        let FnoConfig { width, modes, .. } = self.config;
        let project = self.project.extent();
        let layer = (4 * modes * modes + 1) * width * width + width;
        Extent {
            depth: 1 + self.layers.len() + project.depth,
            width: (1 + self.layers.len()) * width + project.width,
            size: (inputs + 1) * width + self.layers.len() * layer + project.size,
        }
    }

    /// Numbers of activations kept for so many grid points: what goes into and comes out of every layer.
    pub fn activations(&self, points: usize) -> Vec<usize> {
        let padded = points as f64 * (1.0 + self.config.padding).powi(2);
        let layer = 2 * padded as usize * self.config.width;
        let mut parts = vec![layer; self.layers.len()];
        parts.push(points * self.config.hidden);
        parts
    }

    /// All layers in fused operations, which want whole vectors of channels: those beyond `width` stay zero.
    fn layers_fused(
        &self,
        params: &Params,
        x: Tensor<2>,
        [samples, m1, m2]: [usize; 3],
    ) -> Tensor<2> {
        let width = self.config.width;
        let channels = width.next_multiple_of(FourierLayer::CHANNELS);
        let mut x = grow(x, 1, channels);
        for (i, (spectral, pointwise)) in self.layers.iter().enumerate() {
            let layer = FourierLayer {
                samples,
                grid: [m1, m2],
                channels,
                modes: self.config.modes,
                activation: match i + 1 < self.layers.len() {
                    true => vidon_kernels::Activation::Gelu,
                    false => vidon_kernels::Activation::Identity,
                },
            };
            let [mut weight, mut bias] = pointwise.flat(params);
            let mut waves = params.flat(*spectral);
            if width < channels {
                let spectral = grow(params.get::<6>(*spectral), 3, channels);
                waves = flat(grow(spectral, 4, channels));
                let square = grow(weight.reshape([width, width]), 0, channels);
                weight = flat(grow(square, 1, channels));
                bias = grow(bias, 0, channels);
            }
            x = vidon_kernels::fourier_layer(layer, x, waves, weight, bias);
        }
        match width < channels {
            true => x.narrow(1, 0, width),
            false => x,
        }
    }
}

/// The same values on a grid with other far ends.
fn resized(call: Resize, x: Tensor<2>) -> Tensor<2> {
    match call.from == call.to {
        true => x,
        false => vidon_kernels::resize_grid(call, x),
    }
}

fn flat<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let count = x.dims().iter().product::<usize>();
    x.reshape([count])
}

/// Zeros at the far end of `axis`, up to `size`.
fn grow<const D: usize>(x: Tensor<D>, axis: usize, size: usize) -> Tensor<D> {
    let mut shape = x.dims();
    if shape[axis] == size {
        return x;
    }
    shape[axis] = size - shape[axis];
    let zeros = Tensor::zeros(shape, (&x.device(), x.dtype()));
    Tensor::cat(vec![x, zeros], axis)
}

/// The matrices of the truncated Fourier transforms on an n1 × n2 grid.
struct GridWaves {
    modes: usize,
    /// cos and sin of 2πk·j/n: `[n1, 2·modes]` for k = 0..modes, −modes..0, and `[n2, modes]`.
    rows: [Tensor<2>; 2],
    columns: [Tensor<2>; 2],
    /// Twice for k > 0 (the mirrored half), over n1·n2: `[1, modes]`.
    scale: Tensor<2>,
}

impl GridWaves {
    fn new(n1: usize, n2: usize, modes: usize, place: &Place) -> Self {
        let matrix = |n: usize, waves: &[i64], wave: fn(f64) -> f64| {
            let values: Vec<f32> = (0..n as i64)
                .flat_map(|j| waves.iter().map(move |k| (k * j).rem_euclid(n as i64)))
                .map(|turn| wave(TAU * turn as f64 / n as f64) as f32)
                .collect();
            place.tensor(values, [n, waves.len()])
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
            scale: place.tensor(scale, [1, modes]),
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
