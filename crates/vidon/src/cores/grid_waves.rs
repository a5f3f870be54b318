//! The truncated Fourier transforms of a grid from ordinary operations, for every device. Along each axis a
//! transform of few frequencies is a product with a matrix: with C = cos 2πkj/n and S = sin 2πkj/n, forward
//! (e^{-i…})
//!
//!   re' = C re + S im,   im' = C im - S re,
//!
//! and back (e^{+i…}) with the transposed matrices and S negative. Along the last axis numbers are real, so
//! that the frequencies 0 to modes - 1 tell all; along the others they are 0 to modes - 1 and -modes to -1.

use std::f64::consts::TAU;

use crate::network::{Place, Tensor};

pub(super) struct GridWaves {
    grid: Vec<usize>,
    modes: usize,
    /// C and S of every axis, `[frequencies, n]`.
    axes: Vec<[Tensor<2>; 2]>,
    /// Twice for k > 0 along the last axis (the mirrored half), over all points: `[modes, 1]`.
    scale: Tensor<2>,
}

impl GridWaves {
    pub fn new(grid: &[usize], modes: usize, place: &Place) -> Self {
        let (m, last) = (modes as i64, grid.len() - 1);
        let matrix = |n: usize, waves: &[i64], wave: fn(f64) -> f64| {
            let values = waves.iter().flat_map(|k| {
                let turn = move |j: i64| (k * j).rem_euclid(n as i64) as f64 / n as f64;
                (0..n as i64).map(move |j| wave(TAU * turn(j)) as f32)
            });
            place.tensor(values.collect(), [waves.len(), n])
        };
        let axes = grid.iter().enumerate().map(|(axis, &n)| {
            let waves: Vec<i64> = match axis == last {
                true => (0..m).collect(),
                false => (0..m).chain(-m..0).collect(),
            };
            [matrix(n, &waves, f64::cos), matrix(n, &waves, f64::sin)]
        });
        let points: usize = grid.iter().product();
        let scale = (0..modes).map(|k| if k == 0 { 1.0 } else { 2.0 } / points as f32);
        Self {
            grid: grid.to_vec(),
            modes,
            axes: axes.collect(),
            scale: place.tensor(scale.collect(), [modes, 1]),
        }
    }

    /// Transforms, multiplies every frequency by its complex matrix `[frequencies, C, out, 2]`, and
    /// transforms back: `[samples·points, C]` to `[samples·points, out]`.
    pub fn convolve(&self, x: Tensor<2>, weight: Tensor<4>) -> Tensor<2> {
        let [rows, channels] = x.dims();
        let points: usize = self.grid.iter().product();
        let (samples, last) = (rows / points, self.grid.len() - 1);
        // Axes before `axis` are points still, those behind it frequencies.
        let before = |axis: usize| samples * self.grid[..axis].iter().product::<usize>();
        let [cos, sin] = &self.axes[last];
        let x = x.reshape([before(last), self.grid[last], channels]);
        let (mut re, mut im) = (along(cos, x.clone()), along(sin, x).neg());
        for axis in (0..last).rev() {
            let [cos, sin] = &self.axes[axis];
            let n = self.grid[axis];
            let [r, i] = [re, im].map(|part| {
                let rest = part.dims().iter().product::<usize>() / (before(axis) * n);
                part.reshape([before(axis), n, rest])
            });
            re = along(cos, r.clone()) + along(sin, i.clone());
            im = along(cos, i) - along(sin, r);
        }
        let [waves, _, outputs, _] = weight.dims();
        let [re, im] = [re, im].map(|part| {
            let part: Tensor<3> = part.reshape([samples, waves, channels]);
            part.swap_dims(0, 1)
        });
        let part = |i: usize| -> Tensor<3> {
            let part = weight.clone().narrow(3, i, 1);
            part.reshape([waves, channels, outputs])
        };
        let (w_re, w_im) = (part(0), part(1));
        let mut re_im = [
            re.clone().matmul(w_re.clone()) - im.clone().matmul(w_im.clone()),
            re.matmul(w_im) + im.matmul(w_re),
        ];
        // Back: the first axis first.
        re_im = re_im.map(|part| part.swap_dims(0, 1));
        for axis in 0..last {
            let [cos, sin] = self.axes[axis].clone().map(|m| m.transpose());
            let [r, i] = re_im.map(|part| {
                let rest = self.modes * (2 * self.modes).pow((last - axis - 1) as u32) * outputs;
                part.reshape([before(axis), 2 * self.modes, rest])
            });
            re_im = [
                along(&cos, r.clone()) - along(&sin, i.clone()),
                along(&cos, i) + along(&sin, r),
            ];
        }
        let [cos, sin] = self.axes[last].clone().map(|m| m.transpose());
        let [re, im] = re_im.map(|part| {
            let part: Tensor<3> = part.reshape([before(last), self.modes, outputs]);
            part * self.scale.clone().unsqueeze::<3>()
        });
        let values = along(&cos, re) - along(&sin, im);
        values.reshape([rows, outputs])
    }
}

/// A matrix `[k, n]` on the middle axis: `[a, n, b]` to `[a, k, b]`.
fn along(matrix: &Tensor<2>, x: Tensor<3>) -> Tensor<3> {
    let ([a, n, b], [k, _]) = (x.dims(), matrix.dims());
    let rows = x.swap_dims(1, 2).reshape([a * b, n]);
    let product: Tensor<3> = rows.matmul(matrix.clone().transpose()).reshape([a, b, k]);
    product.swap_dims(1, 2)
}
