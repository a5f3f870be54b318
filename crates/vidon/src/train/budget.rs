//! Spans of time as people write them: `90s`, `30m`, `1h30m`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A time limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Budget(u64);

impl Budget {
    pub fn seconds(self) -> f64 {
        self.0 as f64
    }

    /// Whole seconds, one at least.
    pub(crate) fn of_seconds(seconds: f64) -> Self {
        Self(seconds.max(1.0) as u64)
    }
}

const UNITS: [(char, u64); 4] = [('d', 86400), ('h', 3600), ('m', 60), ('s', 1)];

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("budget \"{text}\": write a time such as 90s, 30m or 1h30m");
        let (mut seconds, mut number) = (0u64, String::new());
        for c in text.trim().chars() {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            let (_, length) = UNITS.iter().find(|u| u.0 == c).ok_or_else(wrong)?;
            let count: u64 = number.parse().map_err(|_| wrong())?;
            let part = count.checked_mul(*length).ok_or_else(wrong)?;
            seconds = seconds.checked_add(part).ok_or_else(wrong)?;
            number.clear();
        }
        match number.is_empty() && seconds > 0 {
            true => Ok(Self(seconds)),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut rest = self.0;
        for (unit, length) in UNITS {
            if rest >= length {
                write!(f, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Budget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Budget> for String {
    fn from(budget: Budget) -> String {
        budget.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("30m", 1800.0),
            ("1h30m", 5400.0),
            ("2d", 172800.0),
        ] {
            assert_eq!(text.parse::<Budget>().unwrap().seconds(), seconds);
        }
        assert_eq!("90s".parse::<Budget>().unwrap().to_string(), "1m30s");
        for text in [
            "",
            "30",
            "m",
            "0s",
            "3x",
            "1.5h",
            "-3m",
            "99999999999999999999s",
        ] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }
}
