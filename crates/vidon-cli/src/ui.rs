//! What the user sees while something runs: progress with an ETA, notes, errors, Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vidon::data::Watch;

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
            eprintln!("{}", words.as_ref());
        }
    }

    /// A bar over `total` samples that also listens for Ctrl-C.
    pub fn progress(&self, total: usize) -> Progress {
        listen();
        let hidden = self.quiet || !std::io::stderr().is_terminal();
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let style = "{bar:40} {pos}/{len} samples, {per_sec:.1}, {elapsed} elapsed, ETA {eta}";
        bar.set_style(ProgressStyle::with_template(style).expect("a fixed template"));
        Progress { bar }
    }
}

/// A progress bar that the library reports to.
pub struct Progress {
    bar: ProgressBar,
}

impl Watch for Progress {
    fn advance(&self, samples: usize) {
        self.bar.inc(samples as u64);
    }

    fn stopped(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C asks the work to stop, the second ends the program at once.
fn listen() {
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping; once more to stop at once");
    });
}

/// Prints a result. A reader that has gone away (`vidon … | head`) is no error.
pub fn print(text: &str) -> vidon::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(vidon::Error::Setting(
            format!("cannot write to standard output: {e}"),
        )),
        _ => Ok(()),
    }
}

/// Sets the number of threads for everything that follows.
pub fn set_threads(threads: usize) -> vidon::Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| vidon::Error::Setting(format!("--threads {threads}: {e}")))
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
}
