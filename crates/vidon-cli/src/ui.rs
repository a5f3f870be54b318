//! What the user sees while something runs: progress with an ETA, notes, errors, Ctrl-C.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vidon::Observer;
use vidon::train::{Metric, Record};

use crate::failure::{Failure, Result};

/// Most threads for each processor, and what every machine may be asked for.
const THREADS_EACH: usize = 4;
const LEAST_THREADS: usize = 16;

/// How the program speaks. Results go to standard output, everything else to standard error.
pub struct Ui {
    quiet: bool,
}

impl Ui {
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Something worth knowing that is not the result.
    pub fn note(&self, words: impl AsRef<str>) {
        if !self.quiet {
            say(words.as_ref());
        }
    }

    /// A bar over `total` samples that also listens for Ctrl-C.
    pub fn progress(&self, total: usize) -> Progress {
        listen();
        let bar = ProgressBar::with_draw_target(Some(total as u64), self.target());
        let style = "{bar:40} {pos}/{len} samples, {per_sec:.1}, {elapsed} elapsed, ETA {eta}";
        bar.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
        Progress {
            bar,
            quiet: self.quiet,
        }
    }

    /// Says that something goes on for a while, and listens for Ctrl-C.
    pub fn spinner(&self, words: &'static str) -> Progress {
        listen();
        let bar = ProgressBar::with_draw_target(None, self.target());
        let style = "{spinner} {msg}, {pos} samples, {elapsed}";
        bar.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
        bar.set_message(words);
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress {
            bar,
            quiet: self.quiet,
        }
    }

    /// The progress line of a training whose errors have such a unit: a bar on a terminal, else a line at every
    /// validation.
    pub fn training(&self, unit: &str) -> TrainingProgress {
        listen();
        let bar = ProgressBar::with_draw_target(Some(1000), self.target());
        bar.set_style(ProgressStyle::with_template("{bar:24} {msg}").expect("a fixed template"));
        TrainingProgress {
            lines: !self.quiet && bar.is_hidden(),
            error: Mutex::new(None),
            unit: unit.into(),
            bar,
        }
    }

    fn target(&self) -> ProgressDrawTarget {
        match self.quiet || !std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        }
    }
}

/// The progress line of a training.
pub struct TrainingProgress {
    bar: ProgressBar,
    lines: bool,
    /// The last validation's.
    error: Mutex<Option<f64>>,
    unit: String,
}

impl Observer for TrainingProgress {
    fn status(&self, record: &Record, share: f64, eta: f64) {
        let mut last = self.error.lock().expect("nothing panics under the lock");
        *last = record.val_error.or(*last);
        let last = *last;
        let (metric, unit) = (record.metric, &self.unit);
        let error = |e: Option<f64>| e.map_or("–".into(), |e| measured(metric, e, unit));
        let line = || {
            format!(
                "step {} (epoch {:.1}), loss {}, validation {} {}, best {}, {} samples/s, ETA {}",
                grouped(record.step as usize),
                record.epoch,
                record.loss.map_or("–".into(), |l| format!("{l:.3e}")),
                metric.name(),
                error(last),
                error(record.best_error),
                record
                    .samples_per_second
                    .map_or("–".into(), |s| format!("{s:.0}")),
                clock(eta)
            )
        };
        if record.val_error.is_some() && self.lines {
            say(&line());
        }
        if record.samples_per_second.is_some() || record.step == 0 {
            self.bar.set_position((1000.0 * share) as u64);
            self.bar.set_message(line());
        }
    }

    fn stopped(&self) -> bool {
        stopped()
    }
}

impl Drop for TrainingProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A progress bar that the library reports to.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Observer for Progress {
    fn advance(&self, samples: usize) {
        self.bar.inc(samples as u64);
    }

    fn note(&self, words: &str) {
        if !self.quiet {
            self.bar.suspend(|| say(words));
        }
    }

    fn stopped(&self) -> bool {
        stopped()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The signal that asked the work to stop, 0 before it has come.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

fn stopped() -> bool {
    STOPPED_BY.load(Ordering::Relaxed) != 0
}

/// What the program ends with when it was asked to stop: what shells expect of a program that a signal ended.
pub fn stopped_code() -> u8 {
    128 + STOPPED_BY.load(Ordering::Relaxed) as u8
}

/// The first Ctrl-C (or other request to end) asks the work to stop, the second ends the program at once.
fn listen() {
    static ONCE: Once = Once::new();
    let handler = stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does only what is allowed in one: atomics, write and _exit.
    ONCE.call_once(|| unsafe {
        libc::signal(libc::SIGINT, handler);
        libc::signal(libc::SIGTERM, handler);
        // Under nohup the program goes on when its terminal is closed.
        #[cfg(unix)]
        if libc::signal(libc::SIGHUP, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    });
}

extern "C" fn stop(signal: libc::c_int) {
    const WORDS: &[u8] = b"stopping; once more to stop at once\n";
    let again = STOPPED_BY.swap(signal, Ordering::Relaxed) != 0;
    // SAFETY: the pointer and the length are those of WORDS.
    unsafe {
        if again {
            libc::_exit(128 + signal);
        }
        libc::write(2, WORDS.as_ptr().cast(), WORDS.len() as _);
    }
}

/// Writes a line to standard error; work does not end because nobody reads it.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(words));
}

/// Text from anywhere as a terminal may show it: what would move the cursor, change colours or turn the
/// direction of reading is spelled out, as JSON spells it.
fn visible(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let hidden = |c: char| turns(c) || c.is_control() && !['\n', '\t'].contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let spelled = |c: char| match hidden(c) {
        true => format!("\\u{:04x}", c as u32),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(spelled).collect())
}

/// Prints a result. A reader that has gone away (`vidon … | head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", visible(text)).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Words(format!(
            "cannot write to standard output: {e}"
        ))),
        _ => Ok(()),
    }
}

/// Sets the number of threads for everything that follows. Many more than there are processors would wait for
/// each other.
pub fn set_threads(threads: usize) -> Result<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let most = (THREADS_EACH * processors).max(LEAST_THREADS);
    if threads > most {
        return Err(Failure::Words(format!(
            "--threads {threads}: at most {most} on this machine ({})",
            count(processors, "processor")
        )));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| Failure::Words(format!("--threads {threads}: {e}")))
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words += &format!(": {inner}");
        cause = inner.source();
    }
    words
}

/// An error as people read it: `1.23 %`.
pub fn percent(error: f64) -> String {
    let digits = percent_digits(error);
    format!("{:.digits$} %", 100.0 * error)
}

/// An error as its metric measures it: a share, or a number in the unit of the targets.
pub fn measured(metric: Metric, error: f64, unit: &str) -> String {
    match (metric, unit) {
        (Metric::RelativeL2, _) => percent(error),
        (_, "") => four_digits(error),
        _ => format!("{} {unit}", four_digits(error)),
    }
}

/// An error and its deviation: `1.23 ± 0.04 %`.
pub fn percent_spread(mean: f64, std: f64) -> String {
    let digits = percent_digits(mean);
    format!("{:.digits$} ± {:.digits$} %", 100.0 * mean, 100.0 * std)
}

fn percent_digits(error: f64) -> usize {
    match error {
        e if e >= 0.1 => 1,
        e if e >= 0.001 => 2,
        _ => 4,
    }
}

/// Four digits of a number.
pub fn four_digits(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e6).contains(&size) => {
            let digits = (3 - size.log10().floor() as i32).max(0);
            format!("{0:.1$}", v, digits as usize)
        }
        _ => format!("{v:.3e}"),
    }
}

/// Seconds as `1:02:03` or `2:03`.
pub fn clock(seconds: f64) -> String {
    if !seconds.is_finite() || seconds > 1e8 {
        return "–".into();
    }
    let s = seconds.round() as u64;
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

/// `n thing` or `n things`, with thin grouping of large numbers.
pub fn count(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// 12345 as `12 345`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1234567), "1 234 567");
        assert_eq!(count(1, "sample"), "1 sample");
        assert_eq!(count(5000, "sample"), "5 000 samples");
    }

    #[test]
    fn a_terminal_is_not_commanded_by_a_file() {
        assert_eq!(visible("T [°C]\nu × v – 1"), "T [°C]\nu × v – 1");
        assert_eq!(
            visible("a\u{1b}[2Jb\r\u{9b}c"),
            "a\\u001b[2Jb\\u000d\\u009bc"
        );
        assert_eq!(visible("x\u{202e}y\u{2066}"), "x\\u202ey\\u2066");
    }

    #[test]
    fn errors_have_the_digits_they_need() {
        assert_eq!(measured(Metric::Rmse, 1.23456, "°C"), "1.235 °C");
        assert_eq!(measured(Metric::Mae, 0.5, ""), "0.5000");
        assert_eq!(measured(Metric::RelativeL2, 0.223, "°C"), "22.3 %");
        let written = [0.223, 0.012, 0.00026].map(percent);
        assert_eq!(written, ["22.3 %", "1.20 %", "0.0260 %"]);
        assert_eq!(percent_spread(0.012, 0.0003), "1.20 ± 0.03 %");
    }
}
