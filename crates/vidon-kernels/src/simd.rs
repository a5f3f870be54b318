//! Vectors of floats: one trait, three instruction sets. The kernels are written once over it.
//!
//! A value of such a type is the proof that the machine has the instructions: [`Simd::new`] asks the machine.
//! So arithmetic is safe to call; only the pointers of `load_at` and `store_at` are the caller's business.
//! Everything is inlined into functions that enable the instructions ([`dispatch!`](crate::isa::dispatch)).

/// A vector register of `LANES` floats, and the register block that suits the instruction set.
///
/// # Safety
/// `load_at`, `store_at` and `stream_at` touch `LANES` floats and no more; kernels count on it.
pub(crate) unsafe trait Simd: Copy + 'static {
    type V: Copy;
    /// A divisor of 16, to which the rows of tiles are padded.
    const LANES: usize;
    /// Rows and vectors of the register block: `ROWS·VECTORS` sums, `VECTORS` loads, one broadcast at a time.
    const ROWS: usize;
    const VECTORS: usize;

    /// The proof, where the machine has the instructions.
    fn new() -> Option<Self>;

    /// # Safety
    /// `from` is good for reading `LANES` floats.
    unsafe fn load_at(self, from: *const f32) -> Self::V;
    /// # Safety
    /// `to` is good for writing `LANES` floats.
    unsafe fn store_at(self, to: *mut f32, v: Self::V);
    /// A store to memory that is not soon read again; [`settle`](Self::settle) ends a run of them.
    ///
    /// # Safety
    /// `to` is good for writing `LANES` floats and aligned to that many.
    unsafe fn stream_at(self, to: *mut f32, v: Self::V);

    fn splat(self, x: f32) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// 1/a, to 12 bits at least.
    fn about_inverse(self, a: Self::V) -> Self::V;
    /// `b` where either is not a number; so does `max`.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a·b + c`
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a·b`
    fn fnma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest whole number.
    fn round(self, a: Self::V) -> Self::V;
    /// 2^n for whole n.
    fn power_of_two(self, n: Self::V) -> Self::V;

    /// The first `LANES` floats.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the slice has `LANES` floats.
        unsafe { self.load_at(from.as_ptr()) }
    }

    /// To the first `LANES` floats.
    #[inline(always)]
    fn store(self, to: &mut [f32], v: Self::V) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: the slice has `LANES` floats.
        unsafe { self.store_at(to.as_mut_ptr(), v) }
    }

    /// Other threads see what was streamed before.
    #[inline(always)]
    fn settle(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has SSE.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }

    /// Brings a line of memory near, where the machine can be asked to; any address will do.
    #[inline(always)]
    fn fetch(self, _from: *const f32) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing, and does nothing for an address that is not there.
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
        // SAFETY: what is read and written is an array of `LANES` floats.
        unsafe impl Simd for $name {
            type V = [f32; $lanes];
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;
            const VECTORS: usize = $vectors;

            #[inline(always)]
            fn new() -> Option<Self> {
                Some(Self)
            }
            #[inline(always)]
            unsafe fn load_at(self, from: *const f32) -> [f32; $lanes] {
                // SAFETY: the caller's `from` is good for `LANES` floats.
                unsafe { from.cast::<[f32; $lanes]>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store_at(self, to: *mut f32, v: [f32; $lanes]) {
                // SAFETY: the caller's `to` is good for `LANES` floats.
                unsafe { to.cast::<[f32; $lanes]>().write_unaligned(v) }
            }
            #[inline(always)]
            unsafe fn stream_at(self, to: *mut f32, v: [f32; $lanes]) {
                // SAFETY: the caller promises more than this asks for.
                unsafe { self.store_at(to, v) }
            }
            #[inline(always)]
            fn splat(self, x: f32) -> [f32; $lanes] {
                [x; $lanes]
            }
            #[inline(always)]
            fn add(self, a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] + b[i])
            }
            #[inline(always)]
            fn mul(self, a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] * b[i])
            }
            #[inline(always)]
            fn div(self, a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] / b[i])
            }
            #[inline(always)]
            fn about_inverse(self, a: [f32; $lanes]) -> [f32; $lanes] {
                a.map(|a| 1.0 / a)
            }
            #[inline(always)]
            fn min(self, a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
            }
            #[inline(always)]
            fn max(self, a: [f32; $lanes], b: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
            }
            #[inline(always)]
            fn fma(self, a: [f32; $lanes], b: [f32; $lanes], c: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| a[i] * b[i] + c[i])
            }
            #[inline(always)]
            fn fnma(self, a: [f32; $lanes], b: [f32; $lanes], c: [f32; $lanes]) -> [f32; $lanes] {
                std::array::from_fn(|i| c[i] - a[i] * b[i])
            }
            #[inline(always)]
            fn round(self, a: [f32; $lanes]) -> [f32; $lanes] {
                a.map(f32::round_ties_even)
            }
            #[inline(always)]
            fn power_of_two(self, n: [f32; $lanes]) -> [f32; $lanes] {
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

    /// AVX2 and FMA. The private field keeps others from making one without asking the machine.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(());

    /// AVX-512 F.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(());

    /// Methods that are instructions: safe ones, and those that take a pointer from the caller.
    macro_rules! instructions {
        (safe { $($name:ident($($arg:ident: $type:ty),+) $(-> $out:ty)? = $body:expr;)+ }
         unsafe { $($raw:ident($($raw_arg:ident: $raw_type:ty),+) $(-> $raw_out:ty)? = $raw_body:expr;)+ }) => {
            $(#[inline(always)]
            fn $name(self, $($arg: $type),+) $(-> $out)? {
                // SAFETY: `self` exists only where the machine has the instructions; no pointers are involved.
                unsafe { $body }
            })+
            $(#[inline(always)]
            unsafe fn $raw(self, $($raw_arg: $raw_type),+) $(-> $raw_out)? {
                // SAFETY: `self` exists only where the machine has the instructions; the pointer is good for
                // one vector, and aligned where that is asked for, by the contract of the trait's method.
                unsafe { $raw_body }
            })+
        };
    }

    // SAFETY: a vector is eight floats.
    unsafe impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        const ROWS: usize = 6;
        const VECTORS: usize = 2;

        #[inline(always)]
        fn new() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
                .then_some(Self(()))
        }

        instructions! {
            safe {
            splat(x: f32) -> __m256 = _mm256_set1_ps(x);
            add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
            mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
            div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
            about_inverse(a: __m256) -> __m256 = _mm256_rcp_ps(a);
            min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
            max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
            fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
            fnma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
            round(a: __m256) -> __m256 = _mm256_round_ps::<NEAREST>(a);
            power_of_two(n: __m256) -> __m256 = {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
            };
            }
            unsafe {
                load_at(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
                store_at(to: *mut f32, v: __m256) = _mm256_storeu_ps(to, v);
                stream_at(to: *mut f32, v: __m256) = _mm256_stream_ps(to, v);
            }
        }
    }

    // SAFETY: a vector is sixteen floats.
    unsafe impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        const ROWS: usize = 6;
        const VECTORS: usize = 4;

        #[inline(always)]
        fn new() -> Option<Self> {
            is_x86_feature_detected!("avx512f").then_some(Self(()))
        }

        instructions! {
            safe {
            splat(x: f32) -> __m512 = _mm512_set1_ps(x);
            add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
            mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
            div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
            about_inverse(a: __m512) -> __m512 = _mm512_rcp14_ps(a);
            min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
            max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
            fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
            fnma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
            round(a: __m512) -> __m512 = _mm512_roundscale_ps::<NEAREST>(a);
            power_of_two(n: __m512) -> __m512 = {
                let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
                _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
            };
            }
            unsafe {
                load_at(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
                store_at(to: *mut f32, v: __m512) = _mm512_storeu_ps(to, v);
                stream_at(to: *mut f32, v: __m512) = _mm512_stream_ps(to, v);
            }
        }
    }
}
