//! Activations and their slopes, a vector at a time.
//!
//! tanh: x·P(x²)/Q(x²), clamped; at most 7e-7 off. GELU: x·Φ(x) with erf after Abramowitz and Stegun 7.1.26;
//! at most 5e-7 off.

use crate::simd::Simd;

/// What follows a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Identity,
    Tanh,
    Gelu,
    Relu,
}

impl Activation {
    /// Whether the slope is worked out from what went in (GELU) rather than from what came out.
    pub(crate) fn keeps_input(self) -> bool {
        self == Activation::Gelu
    }

    #[inline(always)]
    pub(crate) fn apply<S: Simd>(self, s: S, x: S::V) -> S::V {
        match self {
            Activation::Identity => x,
            Activation::Tanh => tanh(s, x),
            Activation::Gelu => s.mul(x, normal(s, x).0),
            Activation::Relu => s.max(s.splat(0.0), x),
        }
    }

    /// The slope, from the output (from the input where [`keeps_input`](Self::keeps_input)).
    #[inline(always)]
    pub(crate) fn slope<S: Simd>(self, s: S, v: S::V) -> S::V {
        let one = s.splat(1.0);
        match self {
            Activation::Identity => one,
            Activation::Tanh => s.fnma(v, v, one),
            Activation::Gelu => {
                let (below, density) = normal(s, v);
                s.fma(v, density, below)
            }
            // 1 for every positive float, however small: min(v·2^126·2^24, 1).
            Activation::Relu => s.min(enlarged(s, v), one),
        }
    }
}

/// v·2^150: at least 1 for every positive float, however small.
#[inline(always)]
fn enlarged<S: Simd>(s: S, v: S::V) -> S::V {
    s.mul(s.mul(v, s.splat(2f32.powi(126))), s.splat(2f32.powi(24)))
}

/// What is not a number stays so: of two, `min` and `max` give the second where they cannot compare.
#[inline(always)]
fn clamp<S: Simd>(s: S, x: S::V, lo: f32, hi: f32) -> S::V {
    s.min(s.splat(hi), s.max(s.splat(lo), x))
}

#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::V, coefs: [f32; N]) -> S::V {
    let mut y = s.splat(coefs[N - 1]);
    for k in (0..N - 1).rev() {
        y = s.fma(y, x, s.splat(coefs[k]));
    }
    y
}

#[inline(always)]
fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    const P: [f32; 5] = [
        1.000_000_7,
        0.127_270_5,
        0.002_710_408_5,
        7.255_385e-6,
        -6.286_577e-9,
    ];
    const Q: [f32; 4] = [1.0, 0.460_604_17, 0.022_912_507, 0.000_198_443_73];
    let x = clamp(s, x, -8.0, 8.0);
    let t = s.mul(x, x);
    let top = s.mul(x, polynomial(s, t, P));
    // The quotient by an approximate inverse and one correction.
    let bottom = polynomial(s, t, Q);
    let inverse = s.about_inverse(bottom);
    let y = s.mul(top, inverse);
    s.fma(s.fnma(bottom, y, top), inverse, y)
}

/// e^x for -87 ≤ x ≤ 88, 2e-7 relative.
#[inline(always)]
fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // e^r on |r| ≤ ln(2)/2.
    const TAYLOR: [f32; 7] = [
        1.0,
        1.0,
        0.5,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
    ];
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = clamp(s, x, -87.0, 88.0);
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fnma(n, s.splat(LN2[1]), s.fnma(n, s.splat(LN2[0]), x));
    s.mul(polynomial(s, r, TAYLOR), s.power_of_two(n))
}

/// Φ(x) and φ(x) of the normal distribution.
#[inline(always)]
fn normal<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    const A: [f32; 6] = [
        0.0,
        0.254_829_6,
        -0.284_496_74,
        1.421_413_7,
        -1.453_152,
        1.061_405_4,
    ];
    let size = s.max(x, s.mul(x, s.splat(-1.0)));
    let bell = exp(s, s.mul(s.mul(x, x), s.splat(-0.5)));
    let z = s.mul(size, s.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = s.div(s.splat(1.0), s.fma(z, s.splat(0.327_591_1), s.splat(1.0)));
    // Φ(-|x|)
    let tail = s.mul(s.mul(polynomial(s, t, A), bell), s.splat(0.5));
    // Φ(x) = ½ + sign(x)·(½ - tail); the sign is that of x, enlarged and cut to ±1.
    let sign = s.min(s.max(enlarged(s, x), s.splat(-1.0)), s.splat(1.0));
    let half = s.splat(0.5);
    let below = s.fma(sign, s.fnma(tail, s.splat(1.0), half), half);
    (below, s.mul(bell, s.splat(0.398_942_3)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::isa::dispatch;

    #[inline(always)]
    fn both_generic<S: Simd>(s: S, act: Activation, x: &[f32], y: &mut [f32], slope: &mut [f32]) {
        for i in (0..x.len()).step_by(S::LANES) {
            let v = s.load(&x[i..]);
            let out = act.apply(s, v);
            s.store(&mut y[i..], out);
            let seen = if act.keeps_input() { v } else { out };
            s.store(&mut slope[i..], act.slope(s, seen));
        }
    }
    dispatch!(fn both = both_generic(act: Activation, x: &[f32], y: &mut [f32], slope: &mut [f32]));

    fn erf(x: f64) -> f64 {
        // Series; enough terms for |x| ≤ 6.
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        if x.abs() > 4.0 {
            x.signum()
        } else {
            sum * 2.0 / std::f64::consts::PI.sqrt()
        }
    }

    #[test]
    fn activations_and_slopes_are_close_to_their_formulas() {
        let x: Vec<f32> = (-4096..4096).map(|i| i as f32 * 2.5e-3).collect();
        let (mut y, mut slope) = (x.clone(), x.clone());
        for isa in Isa::ALL
            .into_iter()
            .filter(|isa| isa.available())
            .chain([Isa::Wide])
        {
            for act in [
                Activation::Identity,
                Activation::Tanh,
                Activation::Gelu,
                Activation::Relu,
            ] {
                both(isa, act, &x, &mut y, &mut slope);
                for i in 0..x.len() {
                    let v = x[i] as f64;
                    let phi = 0.5 * (1.0 + erf(v / 2f64.sqrt()));
                    let bell = (-0.5 * v * v).exp() / (2.0 * std::f64::consts::PI).sqrt();
                    let (value, steep) = match act {
                        Activation::Identity => (v, 1.0),
                        Activation::Tanh => (v.tanh(), 1.0 - v.tanh().powi(2)),
                        Activation::Gelu => (v * phi, phi + v * bell),
                        Activation::Relu => (v.max(0.0), (v > 0.0) as u8 as f64),
                    };
                    let off = (y[i] as f64 - value).abs() / v.abs().max(1.0);
                    assert!(off < 1e-6, "{isa:?} {act:?} {v}: {} {value}", y[i]);
                    assert!(
                        (slope[i] as f64 - steep).abs() < 3e-6,
                        "{isa:?} {act:?}' {v}: {} {steep}",
                        slope[i]
                    );
                }
            }
        }
    }
}
