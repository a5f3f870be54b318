//! Which instructions to use: found out when the program runs, never when it is built.

use std::sync::OnceLock;

use crate::simd::Simd;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F.
    Avx512,
    /// The blocks of AVX-512 in plain arrays.
    #[cfg(test)]
    Wide,
}

impl Isa {
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            #[cfg(test)]
            Isa::Wide => "wide",
        }
    }

    /// Whether this machine has it.
    pub fn available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(test)]
            Isa::Wide => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => crate::simd::Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => crate::simd::Avx512::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The best this machine has.
    pub fn best() -> Isa {
        let mut available = Isa::ALL.into_iter().filter(|isa| isa.available());
        available
            .next_back()
            .expect("the portable one is everywhere")
    }

    /// The one that the environment variable `VIDON_ISA` asks for, else the best; or why that cannot be.
    pub fn wanted() -> Result<Isa, String> {
        let Ok(name) = std::env::var("VIDON_ISA") else {
            return Ok(Isa::best());
        };
        match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
            Some(isa) if isa.available() => Ok(isa),
            Some(_) => Err(format!("VIDON_ISA={name}: this machine does not have it")),
            None => Err(format!("VIDON_ISA={name}: choose portable, avx2 or avx512")),
        }
    }

    /// [`wanted`](Self::wanted), asked once; the best where that cannot be.
    pub fn current() -> Isa {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| Isa::wanted().unwrap_or(Isa::best()))
    }
}

/// Defines a function that runs `generic(simd, …)` compiled for the instruction set `isa`; panics where the
/// machine does not have it.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $generic:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: crate::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            #[allow(clippy::too_many_arguments)]
            fn avx512(simd: crate::simd::Avx512, $($arg: $ty),*) {
                $generic(simd, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2(simd: crate::simd::Avx2, $($arg: $ty),*) {
                $generic(simd, $($arg),*)
            }
            match isa {
                #[cfg(target_arch = "x86_64")]
                crate::Isa::Avx512 => {
                    let simd = crate::isa::found();
                    // SAFETY: `simd` is the proof that the machine has the instructions.
                    unsafe { avx512(simd, $($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                crate::Isa::Avx2 => {
                    let simd = crate::isa::found();
                    // SAFETY: `simd` is the proof that the machine has the instructions.
                    unsafe { avx2(simd, $($arg),*) }
                }
                #[cfg(test)]
                crate::Isa::Wide => $generic(crate::isa::found::<crate::simd::Wide>(), $($arg),*),
                #[allow(unreachable_patterns)]
                _ => $generic(crate::isa::found::<crate::simd::Portable>(), $($arg),*),
            }
        }
    };
}
pub(crate) use dispatch;

/// The proof that the machine has the instructions.
#[inline(always)]
pub(crate) fn found<S: Simd>() -> S {
    S::new().expect("an instruction set that this machine has")
}
