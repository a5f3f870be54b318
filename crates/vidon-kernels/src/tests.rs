//! All instruction sets against the scalar twins, on odd shapes, and the same bits on any number of threads.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::contract::{contract_backward, contract_forward};
use crate::fourier::{Weights, fourier_backward, fourier_forward};
use crate::mlp::Keep;
use crate::pool::{pool_backward, pool_forward};
use crate::rows::{mlp_backward, mlp_forward};
use crate::{Activation, FourierLayer, Heads, Isa, Shape, scalar};

const ACTIVATIONS: [Activation; 4] = [
    Activation::Tanh,
    Activation::Gelu,
    Activation::Relu,
    Activation::Identity,
];

fn numbers(rng: &mut ChaCha8Rng, count: usize, size: f32) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-size..size)).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| *v as f64).collect()
}

/// Relative distance of the whole.
fn apart(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let square = |v: f64| v * v;
    let far: f64 = found
        .iter()
        .zip(wanted)
        .map(|(f, w)| square(*f as f64 - w))
        .sum();
    let norm: f64 = wanted.iter().map(|w| square(*w)).sum();
    // Numbers of size one, some of which may cancel.
    (far / norm.max(0.1 * wanted.len() as f64)).sqrt()
}

fn available() -> impl Iterator<Item = Isa> {
    let all = Isa::ALL.into_iter().filter(|isa| isa.available());
    all.chain([Isa::Wide])
}

#[test]
fn perceptrons_are_those_of_the_formulas() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let shapes: [&[usize]; 7] = [
        &[1, 1],
        &[2, 40, 40, 3],
        &[40, 128, 128, 64],
        &[3, 17, 5, 33, 1],
        &[5, 16],
        &[48, 7, 101],
        &[100, 250, 9],
    ];
    for widths in shapes {
        for hidden in ACTIVATIONS {
            let shape = Shape {
                widths: widths.to_vec(),
                hidden,
                last: Activation::Identity,
            };
            let rows = [1, 2, 95, 96, 97, 500][rng.random_range(0..6)];
            let x = numbers(&mut rng, rows * shape.inputs(), 1.0);
            let w = numbers(&mut rng, shape.numbers(), 0.4);
            let g = numbers(&mut rng, rows * shape.outputs(), 1.0);
            let (x64, w64, g64) = (wide(&x), wide(&w), wide(&g));
            let mut d_weights = vec![0.0; w.len()];
            let (mut out, mut dx) = (Vec::new(), Vec::new());
            for (row, g) in x64.chunks(shape.inputs()).zip(g64.chunks(shape.outputs())) {
                out.extend(scalar::mlp(&shape, row, &w64));
                dx.extend(scalar::mlp_gradients(&shape, row, &w64, g, &mut d_weights));
            }
            for isa in available() {
                let (found, kept) = mlp_forward(isa, &shape, &x, &w, Keep::Activations);
                let name = format!("{isa:?} {hidden:?} {widths:?} × {rows}");
                assert!(
                    apart(&found, &out) < 2e-6,
                    "{name}: {}",
                    apart(&found, &out)
                );
                for kept in [kept, mlp_forward(isa, &shape, &x, &w, Keep::Weights).1] {
                    let (dw, found) = mlp_backward(isa, &shape, &x, kept, &g, true);
                    assert!(
                        apart(&dw, &d_weights) < 5e-6,
                        "{name}: weights {}",
                        apart(&dw, &d_weights)
                    );
                    let found = found.unwrap();
                    assert!(
                        apart(&found, &dx) < 5e-6,
                        "{name}: rows {}",
                        apart(&found, &dx)
                    );
                }
                assert_eq!(mlp_forward(isa, &shape, &x, &w, Keep::Weights).0, found);
            }
        }
    }
}

/// Otherwise a training that has gone wrong would go on.
#[test]
fn what_is_not_a_number_stays_so() {
    for hidden in ACTIVATIONS {
        let shape = Shape {
            widths: vec![1, 20, 1],
            hidden,
            last: Activation::Identity,
        };
        let weights = vec![0.1; shape.numbers()];
        for isa in available() {
            let (found, _) = mlp_forward(isa, &shape, &[0.5, f32::NAN], &weights, Keep::Weights);
            assert!(
                found[0].is_finite() && found[1].is_nan(),
                "{isa:?} {hidden:?}"
            );
        }
    }
}

#[test]
fn set_branches_are_those_of_the_formulas() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let cases: [(usize, &[usize], &[usize]); 5] = [
        (2, &[1], &[5]),
        (40, &[3, 1, 200, 97], &[128, 128]),
        (7, &[95, 96, 1, 1, 300], &[10, 33]),
        (16, &[700], &[16]),
        (3, &[2; 150], &[4, 4, 4]),
    ];
    for (inputs, sizes, hidden) in cases {
        for activation in [Activation::Tanh, Activation::Gelu] {
            let heads = Heads {
                count: 2,
                inputs,
                hidden: hidden.to_vec(),
                activation,
                scale: 0.7,
            };
            let mut offsets = vec![0];
            sizes
                .iter()
                .for_each(|s| offsets.push(offsets[offsets.len() - 1] + s));
            let (sets, rows) = (sizes.len(), offsets[sizes.len()]);
            let psi = numbers(&mut rng, rows * inputs, 1.0);
            let w = numbers(&mut rng, heads.numbers(), 0.4);
            let k = heads.count * heads.outputs();
            let g = numbers(&mut rng, sets * k, 1.0);
            let (psi64, w64, g64) = (wide(&psi), wide(&w), wide(&g));
            let mut d_weights = vec![0.0; w.len()];
            let (mut out, mut d_psi) = (Vec::new(), Vec::new());
            for s in 0..sets {
                let rows = &psi64[offsets[s] * inputs..offsets[s + 1] * inputs];
                out.extend(scalar::pool(&heads, rows, &w64));
                d_psi.extend(scalar::pool_gradients(
                    &heads,
                    rows,
                    &w64,
                    &g64[s * k..(s + 1) * k],
                    &mut d_weights,
                ));
            }
            for isa in available() {
                for keep in [true, false] {
                    let (found, kept) =
                        pool_forward(isa, &heads, &psi, &offsets, &w, Keep::for_back(keep));
                    let name = format!("{isa:?} {activation:?} {inputs} {hidden:?} {sizes:?}");
                    assert!(
                        apart(&found, &out) < 5e-6,
                        "{name}: {}",
                        apart(&found, &out)
                    );
                    let (dw, found) = pool_backward(isa, &heads, &psi, &offsets, kept, &g);
                    assert!(
                        apart(&dw, &d_weights) < 1e-5,
                        "{name}: weights {}",
                        apart(&dw, &d_weights)
                    );
                    assert!(
                        apart(&found, &d_psi) < 1e-5,
                        "{name}: rows {}",
                        apart(&found, &d_psi)
                    );
                }
            }
        }
    }
}

#[test]
fn contractions_are_those_of_the_formulas() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for (p, outputs, sizes) in [
        (1, 1, vec![1]),
        (37, 2, vec![4, 1, 9]),
        (100, 1, vec![50, 3]),
    ] {
        let mut offsets = vec![0];
        sizes
            .iter()
            .for_each(|s| offsets.push(offsets[offsets.len() - 1] + s));
        let rows = offsets[sizes.len()];
        let beta = numbers(&mut rng, sizes.len() * p, 1.0);
        let tau = numbers(&mut rng, rows * outputs * (p + 1), 1.0);
        let g = numbers(&mut rng, rows * outputs, 1.0);
        let (mut out, mut d_beta, mut d_tau) =
            (Vec::new(), vec![0.0; beta.len()], vec![0.0; tau.len()]);
        for s in 0..sizes.len() {
            for row in offsets[s]..offsets[s + 1] {
                for c in 0..outputs {
                    let at = (row * outputs + c) * (p + 1);
                    let mut sum = tau[at] as f64;
                    let g = g[row * outputs + c] as f64;
                    d_tau[at] = g;
                    for k in 0..p {
                        sum += beta[s * p + k] as f64 * tau[at + 1 + k] as f64;
                        d_tau[at + 1 + k] = g * beta[s * p + k] as f64;
                        d_beta[s * p + k] += g * tau[at + 1 + k] as f64;
                    }
                    out.push(sum);
                }
            }
        }
        assert!(apart(&contract_forward(&beta, &tau, &offsets, p, outputs), &out) < 1e-6);
        let (found_beta, found_tau) =
            contract_backward(&beta, &tau, &offsets, p, outputs, &g, true);
        assert!(apart(&found_beta, &d_beta) < 1e-6 && apart(&found_tau.unwrap(), &d_tau) < 1e-6);
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let heads = Heads {
        count: 2,
        inputs: 9,
        hidden: vec![20, 20],
        activation: Activation::Tanh,
        scale: 0.3,
    };
    let offsets = [0, 700, 701, 3000];
    let psi = numbers(&mut rng, 3000 * 9, 1.0);
    let w = numbers(&mut rng, heads.numbers(), 0.4);
    let g = numbers(&mut rng, 3 * 40, 1.0);
    let shape = heads.weight_shape();
    let layer = FourierLayer {
        samples: 5,
        grid: vec![8, 7],
        channels: 16,
        modes: 3,
        activation: Activation::Gelu,
    };
    let x = numbers(&mut rng, 5 * 56 * 16, 1.0);
    let (r, bias) = (
        numbers(&mut rng, 4 * 9 * 256, 0.1),
        numbers(&mut rng, 16, 0.1),
    );
    let spectral = Weights {
        spectral: &r,
        point: &r[..256],
        bias: &bias,
    };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let isa = Isa::best();
            let (out, kept) = pool_forward(isa, &heads, &psi, &offsets, &w, Keep::Activations);
            let branch = pool_backward(isa, &heads, &psi, &offsets, kept, &g);
            let weights = &w[..shape.numbers()];
            let (rows, kept) = mlp_forward(isa, &shape, &psi, weights, Keep::Activations);
            let perceptron = mlp_backward(isa, &shape, &psi, kept, &rows, true);
            let (made, kept) = fourier_forward(isa, &layer, &x, spectral);
            let waves = fourier_backward(isa, &layer, &x, spectral, kept, &made, &made);
            (out, branch, rows, perceptron, made, waves)
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4));
}

/// Layers of a Fourier neural operator: every instruction set against the portable one, and gradients against
/// differences of the loss.
#[test]
fn fourier_layers_agree_and_have_the_right_gradients() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (grid, channels, modes, activation) in [
        (vec![7, 9], 16, 3, Activation::Gelu),
        (vec![8, 6], 48, 2, Activation::Identity),
        (vec![5, 5], 32, 1, Activation::Tanh),
        (vec![6, 8], 16, 3, Activation::Gelu),
        (vec![2, 2], 16, 1, Activation::Gelu),
        (vec![9], 32, 4, Activation::Gelu),
        (vec![4, 5, 6], 16, 2, Activation::Gelu),
        (vec![3, 2, 2], 16, 1, Activation::Tanh),
    ] {
        let (points, axes) = (grid.iter().product::<usize>(), grid.len() as u32);
        let samples = if points == 4 { 1 } else { 3 };
        let layer = FourierLayer {
            samples,
            grid,
            channels,
            modes,
            activation,
        };
        let x = numbers(&mut rng, samples * points * channels, 1.0);
        let waves = modes * (2 * modes).pow(axes - 1);
        let spectral = 2 * waves * channels.pow(2);
        let w = numbers(&mut rng, spectral + channels * (channels + 1), 0.2);
        fn parts(w: &[f32], spectral: usize, channels: usize) -> Weights<'_> {
            let (spectral, rest) = w.split_at(spectral);
            let (point, bias) = rest.split_at(channels * channels);
            Weights {
                spectral,
                point,
                bias,
            }
        }
        let (out, kept) = fourier_forward(Isa::Portable, &layer, &x, parts(&w, spectral, channels));
        let g = numbers(&mut rng, out.len(), 1.0);
        let back = |isa, kept, out: &[f32]| {
            let [spectral, point, dx] = fourier_backward(
                isa,
                &layer,
                &x,
                parts(&w, spectral, channels),
                kept,
                out,
                &g,
            );
            ([spectral, point].concat(), dx)
        };
        let (dw, dx) = back(Isa::Portable, kept, &out);
        for isa in available() {
            let (found, kept) = fourier_forward(isa, &layer, &x, parts(&w, spectral, channels));
            assert!(apart(&found, &wide(&out)) < 1e-5, "{isa:?}");
            let (found_dw, found_dx) = back(isa, kept, &found);
            assert!(
                apart(&found_dw, &wide(&dw)) < 1e-5 && apart(&found_dx, &wide(&dx)) < 1e-5,
                "{isa:?}"
            );
        }
        // Along a random direction of both, the loss Σ g·out changes as the gradients say.
        let (along_w, along_x) = (
            numbers(&mut rng, w.len(), 1.0),
            numbers(&mut rng, x.len(), 1.0),
        );
        let loss = |t: f32| -> f64 {
            let moved = |v: &[f32], d: &[f32]| {
                v.iter()
                    .zip(d)
                    .map(|(v, d)| v + t * d)
                    .collect::<Vec<f32>>()
            };
            let (out, _) = fourier_forward(
                Isa::Portable,
                &layer,
                &moved(&x, &along_x),
                parts(&moved(&w, &along_w), spectral, channels),
            );
            out.iter().zip(&g).map(|(o, g)| *o as f64 * *g as f64).sum()
        };
        let step = 1e-3;
        let difference = (loss(step) - loss(-step)) / (2.0 * step as f64);
        let dot = |a: &[f32], b: &[f32]| {
            a.iter()
                .zip(b)
                .map(|(a, b)| *a as f64 * *b as f64)
                .sum::<f64>()
        };
        let slope = dot(&dw, &along_w) + dot(&dx, &along_x);
        assert!(
            (difference - slope).abs() < 2e-3 * slope.abs().max(10.0),
            "{difference} {slope}"
        );
    }
}
