//! Fourier neural operator in one, two or three dimensions (Li et al., 2021):
//!
//!   h_0 = P·(u, x),   h_{l+1} = σ( W_l h_l + F⁻¹( R_l · F h_l ) ),   v = Q(h_L).
//!
//! What is seen at a point is lifted to `width` channels; every layer adds a spectral convolution (the lowest
//! `modes` frequencies per axis, multiplied by complex matrices) and a 1×1 convolution, GELU between layers;
//! two pointwise layers read the output off. The grid is padded with zeros by a share of its size. Discrete
//! Fourier transforms of few modes are matrix products, which run on every device and for any grid size.

use serde::{Deserialize, Serialize};
use vidon_kernels::{FourierLayer, Resize};

use crate::config::MOST_PARTS;
use crate::cores::Core;
use crate::cores::grid_waves::GridWaves;
use crate::data::Meta;
use crate::error::{Error, Result};
use crate::network::{
    Activation, Extent, Init, Key, Linear, Mlp, Params, Place, Plan, Tensor, activation,
};

/// Coordinates of its functions, at most.
pub(super) const MOST_AXES: usize = 3;

/// All sizes of an FNO. The default is the paper's, without padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FnoConfig {
    /// Points per axis of its own grid, behind a projection; where not given 64, 32 or 16 in one, two or
    /// three dimensions.
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

    /// Of its own grid, behind a projection.
    pub(super) fn points_per_axis(&self, axes: usize) -> usize {
        self.grid.unwrap_or(128 >> axes)
    }

    fn padded(&self, grid: &[usize]) -> Vec<usize> {
        let padded = |n: &usize| n + (self.padding * *n as f64).round() as usize;
        grid.iter().map(padded).collect()
    }

    /// Says so if a grid has too few points for the modes.
    pub(super) fn too_coarse(&self, grid: &[usize]) -> Option<String> {
        let (padded, least) = (self.padded(grid), 2 * self.modes);
        padded.iter().any(|n| least > *n).then(|| {
            let sizes: Vec<String> = padded.iter().map(usize::to_string).collect();
            format!(
                "{} modes need at least {least} points along every axis of the grid (padding included), which is {}",
                self.modes,
                sizes.join(" × ")
            )
        })
    }
}

/// What is wrong with it on the grid of the sensors, if anything.
pub(super) fn fault(config: &FnoConfig, meta: &Meta) -> Option<String> {
    if config.grid.is_some() || config.coords.is_some() {
        return Some("grid and coords are for an FNO behind a projection; behind a grid encoder it works on the grid of the sensors".into());
    }
    let (from, to) = (meta.space().len(), meta.query_coords.len());
    let fits = (1..=MOST_AXES).contains(&from) && from == to;
    (!fits).then(|| {
        format!("it maps functions of one to {MOST_AXES} coordinates to functions of the same; here they have {from} and {to}")
    })
}

/// The paper's FNO: on the grid on which the sensors stand.
#[derive(Clone, Debug)]
pub(super) struct FnoOnGrid {
    fno: Fno,
    inputs: usize,
}

impl FnoOnGrid {
    /// For grids of so many axes.
    pub fn new(
        plan: &mut Plan,
        config: &FnoConfig,
        axes: usize,
        inputs: usize,
        outputs: usize,
    ) -> Self {
        Self {
            fno: Fno::new(plan, config, axes, inputs, outputs),
            inputs,
        }
    }
}

impl Core for FnoOnGrid {
    fn forward(
        &self,
        params: &Params,
        seen: Vec<Tensor<2>>,
        grid: Option<&[usize]>,
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
    axes: usize,
    /// Spectral weights, `[2, modes]` for every axis but the last (frequencies 0..modes and −modes..0), then
    /// `[modes, in, out, 2]` (real and imaginary part); and 1×1 convolutions.
    layers: Vec<(Key, Linear)>,
    project: Mlp,
}

impl Fno {
    /// For grids of so many axes; `inputs` counts the coordinates it sees.
    pub fn new(
        plan: &mut Plan,
        config: &FnoConfig,
        axes: usize,
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
        let lift = linear(plan, "core.lift", inputs, width);
        let layers = (0..layers)
            .map(|i| {
                let both = [2, modes].repeat(axes - 1);
                let shape = [&both[..], &[modes, width, width, 2]].concat();
                let start = Init::Uniform((width as f64).powi(-2));
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
            axes,
            lift,
            layers,
            project,
        }
    }

    /// Frequencies of a layer.
    fn waves(&self) -> usize {
        let modes = self.config.modes;
        modes * (2 * modes).pow(self.axes as u32 - 1)
    }

    /// From what is seen at the points of every sample's grid, `[samples·points, inputs]`, to
    /// `[samples·points, outputs]`.
    pub fn on_grid(&self, params: &Params, seen: Tensor<2>, grid: &[usize]) -> Tensor<2> {
        let samples = seen.dims()[0] / grid.iter().product::<usize>();
        let larger = Resize {
            channels: self.config.width,
            from: grid.to_vec(),
            to: self.config.padded(grid),
        };
        let x = resized(&larger, self.lift.forward(params, seen));
        let x = match vidon_kernels::fused(&x) {
            true => self.layers_fused(params, x, samples, &larger.to),
            false => self.layers(params, x, &larger.to),
        };
        self.project.forward(params, resized(&larger.back(), x))
    }

    /// All layers from ordinary operations.
    fn layers(&self, params: &Params, mut x: Tensor<2>, grid: &[usize]) -> Tensor<2> {
        let width = self.config.width;
        let waves = GridWaves::new(grid, self.config.modes, &Place::of(&x));
        for (i, (spectral, pointwise)) in self.layers.iter().enumerate() {
            let spectral = params.flat(*spectral);
            let weight = spectral.reshape([self.waves(), width, width, 2]);
            x = waves.convolve(x.clone(), weight) + pointwise.forward(params, x);
            if i + 1 < self.layers.len() {
                x = activation::gelu(x);
            }
        }
        x
    }

    /// Depth counts the lift, the layers and the two that read off; width all their channels.
    pub fn extent(&self, inputs: usize) -> Extent {
        let width = self.config.width;
        let project = self.project.extent();
        let layer = (2 * self.waves() + 1) * width * width + width;
        Extent {
            depth: 1 + self.layers.len() + project.depth,
            width: (1 + self.layers.len()) * width + project.width,
            size: (inputs + 1) * width + self.layers.len() * layer + project.size,
        }
    }

    /// Numbers of activations kept for so many grid points: what goes into and comes out of every layer.
    pub fn activations(&self, points: usize) -> Vec<usize> {
        let padded = points as f64 * (1.0 + self.config.padding).powi(self.axes as i32);
        let layer = (2.0 * padded * self.config.width as f64) as usize;
        let mut parts = vec![layer; self.layers.len()];
        parts.push(points.saturating_mul(self.config.hidden));
        parts
    }

    /// All layers in fused operations, which want whole vectors of channels: those beyond `width` stay zero.
    fn layers_fused(
        &self,
        params: &Params,
        x: Tensor<2>,
        samples: usize,
        grid: &[usize],
    ) -> Tensor<2> {
        let width = self.config.width;
        let channels = width.next_multiple_of(FourierLayer::CHANNELS);
        let mut x = grow(x, 1, channels);
        for (i, (spectral, pointwise)) in self.layers.iter().enumerate() {
            let layer = FourierLayer {
                samples,
                grid: grid.to_vec(),
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
                let spectral = waves.reshape([self.waves(), width, width, 2]);
                waves = flat(grow(grow(spectral, 1, channels), 2, channels));
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

/// The values `[samples·points, C]` on a grid with other far ends.
fn resized(call: &Resize, x: Tensor<2>) -> Tensor<2> {
    if call.from == call.to {
        return x;
    }
    if vidon_kernels::fused(&x) {
        return vidon_kernels::resize_grid(call.clone(), x);
    }
    let [rows, channels] = x.dims();
    let samples = rows / call.from.iter().product::<usize>();
    let mut sizes = call.from.clone();
    let mut x = x;
    for (axis, size) in call.to.iter().enumerate() {
        let before = samples * sizes[..axis].iter().product::<usize>();
        let after = sizes[axis + 1..].iter().product::<usize>() * channels;
        let lines: Tensor<3> = x.reshape([before, sizes[axis], after]);
        let lines = match *size < sizes[axis] {
            true => lines.narrow(1, 0, *size),
            false => grow(lines, 1, *size),
        };
        sizes[axis] = *size;
        x = lines.reshape([before * size * after / channels, channels]);
    }
    x
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
