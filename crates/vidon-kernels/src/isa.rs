//! Which instructions to use: found out when the program runs, never when it is built.

use std::sync::OnceLock;

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
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => is_x86_feature_detected!("avx512f"),
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

/// Defines a function that runs `generic::<S>` compiled for the instruction set `isa`.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident = $generic:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name(isa: crate::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512($($arg: $ty),*) {
                unsafe { $generic::<crate::simd::Avx512>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2($($arg: $ty),*) {
                unsafe { $generic::<crate::simd::Avx2>($($arg),*) }
            }
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    crate::Isa::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    crate::Isa::Avx2 => avx2($($arg),*),
                    #[cfg(test)]
                    crate::Isa::Wide => $generic::<crate::simd::Wide>($($arg),*),
                    _ => $generic::<crate::simd::Portable>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use dispatch;
