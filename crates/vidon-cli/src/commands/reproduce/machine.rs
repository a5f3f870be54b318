//! Where, when and with what something was measured.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ui::count;

/// Such as `AMD EPYC 7763, 8 cores, 8 threads`.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|l| l.starts_with("model name"));
    let name = line.and_then(|l| l.split_once(':')).map(|(_, n)| n.trim());
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!(
        "{}, {}, {}",
        name.unwrap_or(std::env::consts::ARCH),
        count(cores, "core"),
        count(rayon::current_num_threads(), "thread")
    )
}

/// Such as `vidon 0.1.0 (commit 0123abcdef)`.
pub fn program() -> String {
    let commit = option_env!("VIDON_COMMIT").map(|c| format!(" (commit {c})"));
    format!(
        "vidon {}{}",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or_default()
    )
}

/// Today's date (UTC), as `2025-01-31`.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |t| t.as_secs() / 86400))
}

/// The date so many days after 1970-01-01. Years begin in March here, so that the leap day is the last of a year.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, words) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_723, "2024-01-01"),
            (20_513, "2026-03-01"),
        ] {
            assert_eq!(date(days), words);
        }
    }
}
