//! The machine's limit: fused multiply-adds a second with everything in registers.

use std::time::Instant;

use rayon::prelude::*;

use crate::isa::{Isa, dispatch};
use crate::simd::Simd;

/// Sums that run at once: more than latency times ports.
const CHAINS: usize = 12;
const STEPS: usize = 2_000_000;

#[inline(always)]
fn run_generic<S: Simd>(s: S, steps: usize, seed: f32, out: &mut f32) {
    let mut sums = [s.splat(seed); CHAINS];
    let (a, b) = (s.splat(0.999), s.splat(1e-3));
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = s.fma(*sum, a, b);
        }
    }
    let mut numbers = [0.0; 16];
    for sum in sums {
        s.store(&mut numbers, sum);
        *out += numbers[0];
    }
}
dispatch!(fn run = run_generic(steps: usize, seed: f32, out: &mut f32));

/// Floating-point operations a second of all threads together (a fused multiply-add is two), the best of
/// `tries`. Panics where the machine does not have the instruction set.
pub fn fma_peak(isa: Isa, tries: usize) -> f64 {
    let lanes = match isa {
        Isa::Avx512 => 16,
        _ => 8,
    };
    let threads = rayon::current_num_threads();
    let operations = (2 * lanes * CHAINS * STEPS * threads) as f64;
    let one = || {
        let start = Instant::now();
        let sums: Vec<f32> = (0..threads)
            .into_par_iter()
            .with_max_len(1)
            .map(|i| {
                let mut sum = 0.0;
                run(isa, STEPS, i as f32, &mut sum);
                sum
            })
            .collect();
        std::hint::black_box(sums);
        operations / start.elapsed().as_secs_f64()
    };
    (0..tries).map(|_| one()).fold(0.0, f64::max)
}
