//! What ends a DeepONet or VIDON when every sample has queries of its own: with β of the row's set and τ of
//! the row,
//!
//!   v_c = τ_{0c} + Σ_k β_k τ_{kc}.
//!
//! Backward:   dτ_{0c} = g_c,   dτ_{kc} = g_c β_k,   dβ_k = Σ_rows Σ_c g_c τ_{kc}.

use rayon::prelude::*;

use crate::chunks::split;
use crate::pool::dot;
use crate::sets::check_offsets;

/// β `[sets, p]` and τ `[rows, outputs·(p + 1)]` to `[rows, outputs]`.
pub(crate) fn contract_forward(
    beta: &[f32],
    tau: &[f32],
    offsets: &[usize],
    p: usize,
    outputs: usize,
) -> Vec<f32> {
    let sets = offsets.len() - 1;
    assert_eq!(beta.len(), sets * p, "numbers of β");
    let rows = offsets[sets];
    assert_eq!(tau.len(), rows * outputs * (p + 1), "numbers of τ");
    let mut out = vec![0.0; rows * outputs];
    by_set(&mut out, offsets, outputs, |set, values| {
        let beta = &beta[set * p..(set + 1) * p];
        let tau = &tau[offsets[set] * outputs * (p + 1)..];
        for (value, tau) in values.iter_mut().zip(tau.chunks_exact(p + 1)) {
            *value = tau[0] + dot(beta, &tau[1..]);
        }
    });
    out
}

/// The gradients of β and, where wanted, of τ.
pub(crate) fn contract_backward(
    beta: &[f32],
    tau: &[f32],
    offsets: &[usize],
    p: usize,
    outputs: usize,
    d_out: &[f32],
    want_tau: bool,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let width = outputs * (p + 1);
    let d_tau = want_tau.then(|| {
        let mut d_tau = vec![0.0; tau.len()];
        by_set(&mut d_tau, offsets, width, |set, d_tau| {
            let beta = &beta[set * p..(set + 1) * p];
            let g = &d_out[offsets[set] * outputs..];
            for (d, g) in d_tau.chunks_exact_mut(p + 1).zip(g) {
                d[0] = *g;
                for (d, b) in d[1..].iter_mut().zip(beta) {
                    *d = g * b;
                }
            }
        });
        d_tau
    });
    let mut d_beta = vec![0.0; beta.len()];
    d_beta
        .par_chunks_mut(p)
        .enumerate()
        .for_each(|(set, d_beta)| {
            let rows = offsets[set]..offsets[set + 1];
            let tau = tau[rows.start * width..rows.end * width].chunks_exact(p + 1);
            let g = &d_out[rows.start * outputs..rows.end * outputs];
            for (tau, g) in tau.zip(g) {
                for (s, t) in d_beta.iter_mut().zip(&tau[1..]) {
                    *s += g * t;
                }
            }
        });
    (d_beta, d_tau)
}

/// Panics where β `[sets, p]` and τ `[rows, width]` do not fit.
pub(crate) fn check(offsets: &[usize], outputs: usize, beta: [usize; 2], tau: [usize; 2]) {
    check_offsets(offsets, tau[0]);
    assert_eq!(beta[0], offsets.len() - 1, "rows of β: one for every set");
    assert_eq!(tau[1], outputs * (beta[1] + 1), "numbers of τ in a row");
}

/// Runs `work` on the part of `all` (`width` a row) that belongs to each set.
fn by_set(
    all: &mut [f32],
    offsets: &[usize],
    width: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let parts = split(all, offsets.windows(2).map(|w| (w[1] - w[0]) * width));
    parts
        .into_par_iter()
        .enumerate()
        .for_each(|(set, part)| work(set, part));
}
