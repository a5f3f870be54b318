//! How many of what a sample has a step uses: a count such as `100`, or a share below 1 such as `0.8`.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many, or all where there are fewer.
    Count(usize),
    /// A share of what is there, between 0 and 1.
    Share(f64),
}

impl Amount {
    /// How many of those that are there; one at least.
    pub(crate) fn of(self, available: usize) -> usize {
        let wanted = match self {
            Amount::Count(count) => count,
            Amount::Share(share) => (share * available as f64).round() as usize,
        };
        wanted.max(1).min(available)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Amount::Count(count) => serializer.serialize_u64(count as u64),
            Amount::Share(share) => serializer.serialize_f64(share),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Number)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a count such as 100, or a share below 1 such as 0.8")
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Amount, E> {
        match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(Amount::Count(count)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(count), &self)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Amount, E> {
        match u64::try_from(count) {
            Ok(count) => self.visit_u64(count),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(count), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, share: f64) -> Result<Amount, E> {
        match share > 0.0 && share < 1.0 {
            true => Ok(Amount::Share(share)),
            false => Err(E::invalid_value(Unexpected::Float(share), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        n: Amount,
    }

    #[test]
    fn integers_are_counts_and_fractions_shares() {
        for (text, amount) in [
            ("n = 30\n", Amount::Count(30)),
            ("n = 0.25\n", Amount::Share(0.25)),
        ] {
            let read: Both = toml::from_str(text).unwrap();
            assert_eq!(read, Both { n: amount });
            assert_eq!(toml::to_string(&read).unwrap(), text);
        }
        for text in [
            "n = 0",
            "n = -3",
            "n = 1.0",
            "n = 0.0",
            "n = 30.5",
            "n = nan",
            "n = \"8\"",
        ] {
            let error = toml::from_str::<Both>(text).unwrap_err().to_string();
            assert!(error.contains("or a share below 1 such as 0.8"), "{error}");
        }
    }

    #[test]
    fn there_is_always_one_and_never_more_than_there_are() {
        let of = |amount: Amount, counts: [usize; 4]| counts.map(|n| amount.of(n));
        assert_eq!(of(Amount::Count(3), [0, 1, 3, 9]), [0, 1, 3, 3]);
        assert_eq!(of(Amount::Share(0.3), [0, 1, 5, 10]), [0, 1, 2, 3]);
    }
}
