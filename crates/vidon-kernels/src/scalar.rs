//! The same operations, one number at a time in double precision, as their formulas read. Tests hold the
//! fused kernels to them.

use crate::{Activation, Heads, Shape};

impl Activation {
    fn value(self, x: f64) -> f64 {
        match self {
            Activation::Identity => x,
            Activation::Tanh => x.tanh(),
            Activation::Gelu => x * normal(x),
            Activation::Relu => x.max(0.0),
        }
    }

    fn steepness(self, x: f64) -> f64 {
        match self {
            Activation::Identity => 1.0,
            Activation::Tanh => 1.0 - x.tanh() * x.tanh(),
            Activation::Gelu => {
                let bell = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                normal(x) + x * bell
            }
            Activation::Relu => (x > 0.0) as u8 as f64,
        }
    }
}

/// Φ(x), by its series.
fn normal(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs().max(1e-300) && n < 300.0 {
        term *= x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Inputs of every layer's activation, layer by layer, for one row.
fn trace(shape: &Shape, x: &[f64], weights: &[f64]) -> Vec<Vec<f64>> {
    let mut at = 0;
    let mut a = x.to_vec();
    let mut traces = Vec::new();
    for l in 0..shape.widths.len() - 1 {
        let (inputs, outputs) = (shape.widths[l], shape.widths[l + 1]);
        let (w, b) = (&weights[at..], &weights[at + inputs * outputs..]);
        let z: Vec<f64> = (0..outputs)
            .map(|n| b[n] + (0..inputs).map(|k| w[n * inputs + k] * a[k]).sum::<f64>())
            .collect();
        a = z.iter().map(|&z| act(shape, l).value(z)).collect();
        traces.push(z);
        at += (inputs + 1) * outputs;
    }
    traces
}

fn act(shape: &Shape, layer: usize) -> Activation {
    if layer + 2 == shape.widths.len() {
        shape.last
    } else {
        shape.hidden
    }
}

/// One row through a perceptron.
pub fn mlp(shape: &Shape, x: &[f64], weights: &[f64]) -> Vec<f64> {
    let traces = trace(shape, x, weights);
    let last = traces.len() - 1;
    traces[last]
        .iter()
        .map(|&z| act(shape, last).value(z))
        .collect()
}

/// Adds the gradient of the weights for one row to `d_weights`; gives that of the row.
pub fn mlp_gradients(
    shape: &Shape,
    x: &[f64],
    weights: &[f64],
    d_out: &[f64],
    d_weights: &mut [f64],
) -> Vec<f64> {
    let traces = trace(shape, x, weights);
    let mut da = d_out.to_vec();
    let mut end = weights.len();
    for l in (0..traces.len()).rev() {
        let (inputs, outputs) = (shape.widths[l], shape.widths[l + 1]);
        let at = end - (inputs + 1) * outputs;
        let below: Vec<f64> = match l {
            0 => x.to_vec(),
            _ => traces[l - 1]
                .iter()
                .map(|&z| act(shape, l - 1).value(z))
                .collect(),
        };
        let dz: Vec<f64> = (0..outputs)
            .map(|n| da[n] * act(shape, l).steepness(traces[l][n]))
            .collect();
        for n in 0..outputs {
            for k in 0..inputs {
                d_weights[at + n * inputs + k] += dz[n] * below[k];
            }
            d_weights[at + inputs * outputs + n] += dz[n];
        }
        da = (0..inputs)
            .map(|k| {
                (0..outputs)
                    .map(|n| dz[n] * weights[at + n * inputs + k])
                    .sum()
            })
            .collect();
        end = at;
    }
    da
}

/// The set branch of one set: `out = Σ_j softmax_j(scale·ω̃(ψ_j))·ν̃(ψ_j)`, head by head.
pub fn pool(heads: &Heads, psi: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for head in 0..heads.count {
        let (shares, values) = shares_and_values(heads, head, psi, weights);
        out.extend((0..heads.outputs()).map(|k| {
            let terms = shares.iter().zip(&values);
            terms.map(|(s, v)| s * v[k]).sum::<f64>()
        }));
    }
    out
}

/// Adds the gradient of the weights to `d_weights`; gives that of ψ.
pub fn pool_gradients(
    heads: &Heads,
    psi: &[f64],
    weights: &[f64],
    d_out: &[f64],
    d_weights: &mut [f64],
) -> Vec<f64> {
    let mut d_psi = vec![0.0; psi.len()];
    let out = pool(heads, psi, weights);
    let (m, n) = (
        heads.weight_shape().numbers(),
        heads.value_shape().numbers(),
    );
    for head in 0..heads.count {
        let (shares, values) = shares_and_values(heads, head, psi, weights);
        let k = heads.outputs();
        let (g, o) = (
            &d_out[head * k..(head + 1) * k],
            &out[head * k..(head + 1) * k],
        );
        let at = head * (m + n);
        for (j, row) in psi.chunks(heads.inputs).enumerate() {
            let dot = |v: &[f64]| g.iter().zip(v).map(|(g, v)| g * v).sum::<f64>();
            let d_logit = heads.scale as f64 * shares[j] * (dot(&values[j]) - dot(o));
            let d_value: Vec<f64> = g.iter().map(|g| g * shares[j]).collect();
            let (weight, value) = (&weights[at..at + m], &weights[at + m..at + m + n]);
            let one = mlp_gradients(
                &heads.weight_shape(),
                row,
                weight,
                &[d_logit],
                &mut d_weights[at..at + m],
            );
            let two = mlp_gradients(
                &heads.value_shape(),
                row,
                value,
                &d_value,
                &mut d_weights[at + m..at + m + n],
            );
            for (d, (a, b)) in d_psi[j * heads.inputs..]
                .iter_mut()
                .zip(one.iter().zip(two))
            {
                *d += a + b;
            }
        }
    }
    d_psi
}

fn shares_and_values(
    heads: &Heads,
    head: usize,
    psi: &[f64],
    weights: &[f64],
) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (weight, value) = (heads.weight_shape(), heads.value_shape());
    let at = head * (weight.numbers() + value.numbers());
    let (w, v) = (
        &weights[at..at + weight.numbers()],
        &weights[at + weight.numbers()..],
    );
    let rows = || psi.chunks(heads.inputs);
    let logits: Vec<f64> = rows()
        .map(|r| heads.scale as f64 * mlp(&weight, r, w)[0])
        .collect();
    let most = logits.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = logits.iter().map(|l| (l - most).exp()).sum();
    let shares = logits.iter().map(|l| (l - most).exp() / sum).collect();
    let values = rows()
        .map(|r| mlp(&value, r, &v[..value.numbers()]))
        .collect();
    (shares, values)
}
