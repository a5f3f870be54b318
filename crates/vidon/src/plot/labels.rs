//! Numbers and words on axes.

/// How labels between two ends are written.
#[derive(Clone, Copy)]
pub(super) enum Digits {
    AfterPoint(usize),
    /// Powers of ten, with so many digits after the point.
    Scientific(usize),
}

/// As many digits as tell labels between two ends apart.
pub(super) fn label_digits(lo: f64, hi: f64) -> Digits {
    let largest = lo.abs().max(hi.abs());
    let spans = [hi - lo, largest, 1.0];
    let span = spans.into_iter().find(|s| *s > 0.0).unwrap_or(1.0);
    let digits = (1.7 - span.log10()).ceil().max(0.0);
    if largest < 1e7 && digits <= 4.0 {
        Digits::AfterPoint(digits as usize)
    } else {
        Digits::Scientific((largest / span).log10().ceil().max(0.0) as usize + 2)
    }
}

pub(super) fn number(value: f64, digits: Digits) -> String {
    match digits {
        Digits::AfterPoint(digits) => {
            let text = format!("{value:.digits$}");
            let zero = text
                .trim_start_matches('-')
                .chars()
                .all(|c| c == '0' || c == '.');
            if zero { text.replace('-', "") } else { text }
        }
        Digits::Scientific(digits) => format!("{value:.digits$e}"),
    }
}

/// Text with a question mark for what the embedded font cannot draw.
pub(super) fn drawable(text: &str) -> String {
    let known = |c: char| {
        matches!(c, ' '..='~' | '\u{a0}'..='ÿ' | 'Α'..='ω' | '⁰'..='ₜ' | '‐'..='…' | '←'..='↓')
            || "∂∇∑√−≈≠≤≥ϕ".contains(c)
    };
    text.chars()
        .map(|c| if known(c) { c } else { '?' })
        .collect()
}
