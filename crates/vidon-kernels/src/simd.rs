//! Vectors of floats: one trait, three instruction sets. The kernels are written once over it.
//!
//! Everything here is inlined into functions that enable the instruction set ([`dispatch!`](crate::dispatch)).

/// A vector register of `LANES` floats, and the register block that suits the instruction set.
///
/// # Safety
/// The methods may be called only where the instruction set is available; pointers must be good for `LANES` floats.
pub(crate) unsafe trait Simd: Copy + 'static {
    type V: Copy;
    const LANES: usize;
    /// Rows and vectors of the register block: `ROWS·VECTORS` sums, `VECTORS` loads and one broadcast at a time.
    const ROWS: usize;
    const VECTORS: usize;

    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// 1/a, to 12 bits at least.
    unsafe fn about_inverse(a: Self::V) -> Self::V;
    /// `b` where either is not a number; so does `max`.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `a·b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a·b`
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest whole number.
    unsafe fn round(a: Self::V) -> Self::V;
    /// 2^n for whole n.
    unsafe fn power_of_two(n: Self::V) -> Self::V;

    /// A store to memory that is not soon read again; `to` is aligned to the vector. [`settle`](Self::settle) ends a run of them.
    #[inline(always)]
    unsafe fn put_away(to: *mut f32, v: Self::V) {
        unsafe { Self::store(to, v) }
    }

    /// Other threads see what was put away before.
    #[inline(always)]
    fn settle() {
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }

    /// Brings a line of memory near, where the machine can be asked to; any address will do.
    #[inline(always)]
    fn fetch(_from: *const f32) {
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(_from.cast());
        }
    }
}

/// Plain arrays; the compiler makes of it what the target's baseline has.
macro_rules! arrays {
    ($(#[$attribute:meta])* $name:ident, $lanes:literal, $rows:literal, $vectors:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        $(#[$attribute])*
        unsafe impl Simd for $name {
            type V = [f32; $lanes];
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            const VECTORS: usize = $vectors;

            #[inline(always)]
            unsafe fn load(from: *const f32) -> [f32; $lanes] {
                unsafe { from.cast::<[f32; $lanes]>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(to: *mut f32, v: [f32; $lanes]) {
                unsafe { to.cast::<[f32; $lanes]>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn splat(x: f32) -> [f32; $lanes] {
                [x; $lanes]
            }
            #[inline(always)]
            unsafe fn add(a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] + b[i])
            }
            #[inline(always)]
            unsafe fn mul(a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] * b[i])
            }
            #[inline(always)]
            unsafe fn div(a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] / b[i])
            }
            #[inline(always)]
            unsafe fn about_inverse(a: [f32; $lanes]) -> [f32; $lanes] {
                a.map(|a| 1.0 / a)
            }
            #[inline(always)]
            unsafe fn min(a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
            }
            #[inline(always)]
            unsafe fn max(a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
            }
            #[inline(always)]
            unsafe fn fma(a: [f32; $lanes], b: [f32; $lanes], c: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] * b[i] + c[i])
            }
            #[inline(always)]
            unsafe fn fnma(a: [f32; $lanes], b: [f32; $lanes], c: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| c[i] - a[i] * b[i])
            }
            #[inline(always)]
            unsafe fn round(a: [f32; $lanes]) -> [f32; $lanes] {
                a.map(f32::round_ties_even)
            }
            #[inline(always)]
            unsafe fn power_of_two(n: [f32; $lanes]) -> [f32; $lanes] {
                n.map(|n| f32::from_bits(((n as i32 + 127) << 23) as u32))
            }
        }
    };
}

arrays!(Portable, 8, 2, 2);
arrays!(
    /// As wide as AVX-512, so that its blocks are tested on machines without it.
    #[cfg(test)]
    Wide,
    16,
    6,
    4
);

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    unsafe impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        const ROWS: usize = 6;
        const VECTORS: usize = 2;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            unsafe { _mm256_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn put_away(to: *mut f32, v: __m256) {
            unsafe { _mm256_stream_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn about_inverse(a: __m256) -> __m256 {
            unsafe { _mm256_rcp_ps(a) }
        }
        #[inline(always)]
        unsafe fn min(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn fnma(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fnmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn round(a: __m256) -> __m256 {
            unsafe { _mm256_round_ps::<NEAREST>(a) }
        }
        #[inline(always)]
        unsafe fn power_of_two(n: __m256) -> __m256 {
            unsafe {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Avx512;

    unsafe impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        const ROWS: usize = 6;
        const VECTORS: usize = 4;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m512) {
            unsafe { _mm512_storeu_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn put_away(to: *mut f32, v: __m512) {
            unsafe { _mm512_stream_ps(to, v) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn about_inverse(a: __m512) -> __m512 {
            unsafe { _mm512_rcp14_ps(a) }
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_min_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fnmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn round(a: __m512) -> __m512 {
            unsafe { _mm512_roundscale_ps::<NEAREST>(a) }
        }
        #[inline(always)]
        unsafe fn power_of_two(n: __m512) -> __m512 {
            unsafe {
                let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
                _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
            }
        }
    }
}
