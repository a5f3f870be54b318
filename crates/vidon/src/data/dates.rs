//! Dates as people write them: a month (1987-03), a day (1987-03-15), a moment (1987-03-15T06:00 or with a blank for
//! the T, with seconds, and with what the clock is ahead of UTC: Z, +02:00, which is taken off).
//!
//! What comes back every year and every day is an angle, of which a network sees sine and cosine:
//!
//!   season = 2π · share of the year that is over,   hour = 2π · share of the day that is over,
//!
//! the season in the middle of what the date names.

use crate::data::meta::{Channel, Group, Kind};
use crate::data::sample::Sensors;

/// What the group is called in which sines and cosines of the date stand.
pub(crate) const GROUP: &str = "date";
const SEASON: [&str; 2] = ["season_sin", "season_cos"];
const HOUR: [&str; 2] = ["hour_sin", "hour_cos"];

const DAY: i64 = 86_400;
/// How dates are written, for messages.
pub(crate) const FORMS: &str = "dates are written 1987-03, 1987-03-15 or 1987-03-15T06:00";

/// How much of a date is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Month,
    Day,
    Moment,
}

/// A date, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    form: Form,
    /// Since 1970, of the beginning.
    seconds: i64,
}

/// Days since 1970 of a date of the Gregorian calendar (Hinnant's days_from_civil).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year, month and day that so many days are since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + years + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// So many digits, as a number.
fn digits(text: &str, count: usize) -> Option<i64> {
    let proper = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    proper.then(|| text.parse().ok())?
}

/// Seconds of `06:00` or `06:00:30`, of which a fraction is left out.
fn clock(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':').map(|part| digits(part, 2));
    let (hours, minutes) = (parts.next()??, parts.next()??);
    let seconds = parts.next().unwrap_or(Some(0))?;
    let proper = hours < 24 && minutes < 60 && seconds < 60 && parts.next().is_none();
    let fraction = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    (proper && fraction).then_some(3600 * hours + 60 * minutes + seconds)
}

impl Date {
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let (year, month) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?);
        let day = parts.next().map(|day| digits(day, 2));
        if !(1..=12).contains(&month) || parts.next().is_some() {
            return None;
        }
        let first = days(year, month, 1);
        let form = match (day, time) {
            (None, None) => Form::Month,
            (None, Some(_)) => return None,
            (Some(_), None) => Form::Day,
            (Some(_), Some(_)) => Form::Moment,
        };
        let start = first + day.unwrap_or(Some(1))? - 1;
        if civil(start).1 != month || start < first {
            return None;
        }
        let seconds = match time {
            None => 0,
            Some(time) => {
                let ahead = time.rfind(['Z', '+', '-']).unwrap_or(time.len());
                let (time, ahead) = time.split_at(ahead);
                let ahead = match ahead.split_at_checked(1) {
                    None | Some(("Z", "")) => 0,
                    Some(("+", ahead)) => clock(ahead)?,
                    Some(("-", ahead)) => -clock(ahead)?,
                    Some(_) => return None,
                };
                clock(time)? - ahead
            }
        };
        Some(Self {
            form,
            seconds: DAY * start + seconds,
        })
    }

    /// Months since the year 0.
    fn months(self) -> i64 {
        let (year, month, _) = civil(self.seconds.div_euclid(DAY));
        12 * year + month - 1
    }

    /// Seconds since the month began.
    fn of_month(self) -> i64 {
        let (_, _, day) = civil(self.seconds.div_euclid(DAY));
        DAY * (day - 1) + self.seconds.rem_euclid(DAY)
    }

    fn season(self) -> f64 {
        let (year, month, _) = civil(self.seconds.div_euclid(DAY));
        let next = if month == 12 {
            days(year + 1, 1, 1)
        } else {
            days(year, month + 1, 1)
        };
        let length = match self.form {
            Form::Month => DAY * (next - days(year, month, 1)),
            Form::Day => DAY,
            Form::Moment => 0,
        };
        let (start, end) = (days(year, 1, 1), days(year + 1, 1, 1));
        let over = self.seconds as f64 + 0.5 * length as f64 - (DAY * start) as f64;
        over / (DAY * (end - start)) as f64
    }

    /// None of a date that names no moment.
    fn hour(self) -> Option<f64> {
        let over = self.seconds.rem_euclid(DAY) as f64 / DAY as f64;
        (self.form == Form::Moment).then_some(over)
    }

    /// What orders dates, and counts the steps between them.
    pub fn seconds(self) -> i64 {
        self.seconds
    }
}

/// How far one sample is from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Months(i64),
    Seconds(i64),
}

impl Step {
    /// The commonest one between neighbours in time, of equally common ones the shortest; none where all dates are
    /// the same. Months, where all are as far into their month.
    pub fn between(dates: &[Date]) -> Option<Self> {
        let monthly = dates.iter().all(|d| d.of_month() == dates[0].of_month());
        let mut at: Vec<i64> = dates
            .iter()
            .map(|d| if monthly { d.months() } else { d.seconds })
            .collect();
        at.sort_unstable();
        let mut apart: Vec<i64> = at.windows(2).map(|w| w[1] - w[0]).collect();
        apart.retain(|step| *step > 0);
        apart.sort_unstable();
        let runs = apart.chunk_by(|a, b| a == b).rev();
        let step = runs.max_by_key(|run| run.len())?[0];
        Some(match monthly {
            true => Step::Months(step),
            false => Step::Seconds(step),
        })
    }

    /// Where a date is in units that `back` counts in.
    pub fn place(self, date: Date) -> i64 {
        match self {
            Step::Months(_) => date.months(),
            Step::Seconds(_) => date.seconds,
        }
    }

    /// So many of them.
    pub fn times(self, count: usize) -> i64 {
        let (Step::Months(own) | Step::Seconds(own)) = self;
        own.saturating_mul(count as i64)
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (count, unit) = match *self {
            Step::Months(n) if n % 12 == 0 => (n / 12, "year"),
            Step::Months(n) => (n, "month"),
            Step::Seconds(n) if n % DAY == 0 => (n / DAY, "day"),
            Step::Seconds(n) if n % 3600 == 0 => (n / 3600, "hour"),
            Step::Seconds(n) if n % 60 == 0 => (n / 60, "minute"),
            Step::Seconds(n) => (n, "second"),
        };
        let many = if count == 1 { "" } else { "s" };
        write!(f, "{count} {unit}{many}")
    }
}

/// The group of what is wanted of dates.
pub(crate) fn group(season: bool, hour: bool) -> Option<Group> {
    let wanted = [(season, SEASON), (hour, HOUR)];
    let names = wanted.into_iter().filter(|(wanted, _)| *wanted);
    let values: Vec<Channel> = names
        .flat_map(|(_, names)| names.map(Channel::named))
        .collect();
    (!values.is_empty()).then(|| Group {
        name: GROUP.into(),
        kind: Kind::Scalars,
        coords: Vec::new(),
        values,
        gaps: false,
    })
}

/// Sines and cosines in the order of the columns; none where the group is another one. An hour needs a moment.
pub(crate) fn scalars(group: &Group, date: Date) -> Option<Result<Vec<f32>, String>> {
    let known = |c: &Channel| SEASON.iter().chain(&HOUR).any(|n| c.name == *n);
    let own = group.kind == Kind::Scalars && group.name == GROUP && group.values.iter().all(known);
    let value = |c: &Channel| -> Result<f32, String> {
        let share = match SEASON.contains(&&c.name[..]) {
            true => date.season(),
            false => date
                .hour()
                .ok_or("names no hour of the day, as in 1987-03-15T06:00")?,
        };
        let (sine, cosine) = (std::f64::consts::TAU * share).sin_cos();
        Ok(if c.name.ends_with("sin") {
            sine
        } else {
            cosine
        } as f32)
    };
    own.then(|| group.values.iter().map(value).collect())
}

impl Sensors {
    /// What a network that was trained with dates is to know of one: the sines and cosines of season and hour in the
    /// order of its group. None where the group is none of dates.
    pub fn of_date(group: &Group, text: &str) -> Option<crate::error::Result<Self>> {
        let refuse = |what: String| crate::error::Error::setting("date", what).with_value(text);
        let Some(date) = Date::parse(text) else {
            let epoch = Date {
                form: Form::Moment,
                seconds: 0,
            };
            let known = scalars(group, epoch).map(|_| Err(refuse(format!("is no date; {FORMS}"))));
            return known;
        };
        let found = scalars(group, date)?;
        Some(found.map(|v| Sensors::scalars(&v)).map_err(refuse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        Date::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        assert_eq!(date("1970-01-01").seconds, 0);
        assert_eq!(date("2000-02-29").seconds, 951_782_400);
        assert_eq!(date("1969-12").seconds, -31 * DAY);
        let moment = date("2024-07-01T06:30");
        assert_eq!(moment.seconds, 1_719_815_400);
        for same in [
            "2024-07-01 06:30:00",
            "2024-07-01T06:30:00.000Z",
            "2024-07-01T08:30+02:00",
            "2024-06-30T23:30:00-07:00",
        ] {
            assert_eq!(date(same), moment, "{same}");
        }
        for wrong in [
            "",
            "1987",
            "87-03",
            "1987-3",
            "1987-13",
            "1987-02-29",
            "1987-00",
            "1987-03-00",
            "1987-03-15-01",
            "1987-03T06:00",
            "1987-03-15T",
            "1987-03-15T24:00",
            "1987-03-15T6:00",
            "1987-03-15T06:00+",
            "1987-03-15T06:00Z1",
            "1987-03-15T06:00:00.",
            "d3",
            "é987-03",
        ] {
            assert_eq!(Date::parse(wrong), None, "{wrong}");
        }
        for day in (-800_000..800_000).step_by(997) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }

    #[test]
    fn seasons_and_hours_go_round() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(date("1987-01-01T00:00").season(), 0.0);
        close(date("1987-07-02").season(), 0.5);
        close(date("1988-01").season(), 15.5 / 366.0);
        close(date("1987-12").season(), 1.0 - 15.5 / 365.0);
        close(date("1987-05-09T18:00").hour().unwrap(), 0.75);
        let both = group(true, true).unwrap();
        let found = scalars(&both, date("1987-07-02T12:00")).unwrap().unwrap();
        for (found, wanted) in found.iter().zip([0.0, -1.0, 0.0, -1.0]) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
        let words = Sensors::of_date(&both, "1987-07-02").unwrap().unwrap_err();
        assert!(
            words.to_string().contains("names no hour of the day"),
            "{words}"
        );
        let words = Sensors::of_date(&both, "soon").unwrap().unwrap_err();
        assert!(
            words.to_string().contains("date = soon: is no date"),
            "{words}"
        );
        let season = group(true, false).unwrap();
        assert!(Sensors::of_date(&season, "1987-07").unwrap().is_ok());
        let other = Group {
            values: vec![Channel::named("sun")],
            ..season
        };
        assert!(Sensors::of_date(&other, "1987-07").is_none() && group(false, false).is_none());
    }

    #[test]
    fn a_step_is_the_commonest_one() {
        let step = |dates: &[&str]| {
            let dates: Vec<Date> = dates.iter().map(|d| date(d)).collect();
            Step::between(&dates).map(|s| s.to_string())
        };
        let said = |words: &str| Some(words.to_string());
        assert_eq!(
            step(&["1987-03", "1987-01", "1987-02", "1988-01"]),
            said("1 month")
        );
        assert_eq!(
            step(&["1987-03-01", "1987-05-01", "1987-04-01"]),
            said("1 month")
        );
        assert_eq!(
            step(&["1987-02-28", "1987-03-01", "1987-03-05"]),
            said("1 day")
        );
        let hours = [
            "1987-03-01T00:00",
            "1987-03-01T03:00",
            "1987-03-01T06:00",
            "1987-03-01T06:30",
        ];
        assert_eq!(step(&hours), said("3 hours"));
        assert_eq!(step(&["1987-03", "1989-03"]), said("2 years"));
        assert_eq!(step(&["1987-03", "1987-03"]), None);
    }
}
