//! Sizes that a file or a recipe claims are compared with the memory at hand before anything is allocated: a
//! system that promises more than it has ends the program later, without a word.

use vidon_kernels::available_memory;

/// So much is always tried: to ask the system takes longer.
const SMALL: usize = 32 << 20;

/// Bytes that something takes. Too many to count is more than any machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need(usize);

impl Need {
    /// Of so many numbers of this size.
    pub fn of(count: usize, size: usize) -> Self {
        Self(count.saturating_mul(size))
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// An error that goes on from what is needed: `takes about 64.0 GB of memory, and 8.0 GB are free`.
    pub fn check(self) -> std::result::Result<(), String> {
        match self.0 <= SMALL {
            true => Ok(()),
            false => self.within(available_memory()),
        }
    }

    fn within(self, free: usize) -> std::result::Result<(), String> {
        match self.0 <= free {
            true => Ok(()),
            false => Err(format!(
                "takes about {} of memory, and {} are free",
                size(self.0),
                size(free)
            )),
        }
    }
}

/// Bytes as people read them.
pub(crate) fn size(bytes: usize) -> String {
    match bytes as f64 {
        _ if bytes == usize::MAX => "more than 18 EB".into(),
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} kB", b / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_both_sizes() {
        let need = Need::of(4 << 30, 4).and(Need::of(1, 1 << 30));
        assert_eq!(need.within(32 << 30), Ok(()));
        let words = need.within(8 << 30).unwrap_err();
        assert_eq!(words, "takes about 18.3 GB of memory, and 8.6 GB are free");
        let words = Need::of(usize::MAX, 8).check().unwrap_err();
        assert!(words.contains("more than 18 EB"), "{words}");
        assert_eq!([2_500_000, 700].map(size), ["2.5 MB", "0.7 kB"]);
    }
}
