//! The fits of many samples: which to look at, how many at once, and their mean and spread.

use crate::error::{Error, Result};

/// Coordinates of samples that are fitted at once, at most.
const MOST_AT_ONCE: usize = 1 << 23;
/// Training samples whose coefficients give means and spreads.
pub(crate) const MEASURED: usize = 64;
/// Spreads are at least this share of the largest.
const LEAST_SPREAD: f64 = 1e-3;

/// At most `count` of them, from all along.
pub(crate) fn all_along<T>(items: &[T], count: usize) -> impl Iterator<Item = &T> {
    let count = count.min(items.len());
    (0..count).map(move |i| &items[i * items.len() / count])
}

/// How many to fit at once: as many as memory should hold, if all stand at the same places.
pub(crate) fn at_once<'a>(mut places: impl ExactSizeIterator<Item = &'a [f32]>) -> usize {
    let count = places.len();
    match places.next() {
        Some(first) if places.all(|p| p == first) => count.min(MOST_AT_ONCE / first.len()).max(1),
        _ => 1,
    }
}

/// Mean and standard deviation of every coefficient over the samples; no deviation is much smaller than the
/// largest of its component.
pub(crate) fn mean_and_spread<T: Copy + Into<f64>>(
    fits: &[Vec<T>],
    components: usize,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let (n, count) = (fits[0].len(), fits.len() as f64);
    let mean: Vec<f64> = (0..n)
        .map(|k| fits.iter().map(|f| f[k].into()).sum::<f64>() / count)
        .collect();
    let spread: Vec<f64> = (0..n)
        .map(|k| {
            let squares = fits.iter().map(|f| (f[k].into() - mean[k]).powi(2));
            (squares.sum::<f64>() / count).sqrt()
        })
        .collect();
    let largest = spread.iter().copied().fold(0.0, f64::max);
    if mean.iter().any(|m| !m.is_finite()) {
        return Err(Error::Numerics(
            "the basis is not finite at the places of the training samples: do they stand far outside of its frame?"
                .into(),
        ));
    }
    if fits.len() == 1 {
        return Err(Error::Unsuitable(
            "a network cannot learn from one training sample: what differs from sample to sample is not known; give at least two".into(),
        ));
    }
    if largest == 0.0 {
        return Err(Error::Unsuitable(format!(
            "{} training samples, from all along the data, are all the same: there is nothing to learn from",
            fits.len()
        )));
    }
    let spread = spread.chunks(n / components).flat_map(|own| {
        // What is always the same has no size of its own.
        let size = own.iter().copied().fold(0.0, f64::max);
        let least = LEAST_SPREAD * if size > 0.0 { size } else { largest };
        own.iter().map(move |s| s.max(least) as f32)
    });
    let spread: Vec<f32> = spread.collect();
    Ok((mean.iter().map(|m| *m as f32).collect(), spread))
}

/// Mean, then standard deviation of every component of numbers that are there.
pub(crate) fn means_and_deviations<'a>(
    rows: impl Iterator<Item = &'a [f32]>,
    width: usize,
) -> Vec<f32> {
    let mut counts = vec![0.0f64; width];
    let (mut sums, mut squares) = (vec![0.0f64; width], vec![0.0f64; width]);
    for row in rows.flat_map(|r| r.chunks(width)) {
        for (c, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
            counts[c] += 1.0;
            sums[c] += *v as f64;
            squares[c] += (*v as f64).powi(2);
        }
    }
    let means = sums.iter().zip(&counts).map(|(s, n)| s / n.max(1.0));
    let spreads = means.clone().zip(squares.iter().zip(&counts));
    let spreads = spreads.map(|(m, (s, n))| {
        let square = s / n.max(1.0);
        let variance = square - m * m;
        // A component that never varies is not scaled.
        if variance > 1e-12 * square {
            variance.sqrt()
        } else {
            1.0
        }
    });
    means.clone().chain(spreads).map(|v| v as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_pass_over_what_is_missing() {
        let rows = [
            [1.0, 5.0, f32::NAN],
            [f32::NAN, 5.0, f32::NAN],
            [3.0, 5.0, f32::NAN],
        ];
        let found = means_and_deviations(rows.iter().map(|r| &r[..]), 3);
        assert_eq!(found, [2.0, 5.0, 0.0, 1.0, 1.0, 1.0]);
    }

    /// A small component beside a large one is seen in its own units.
    #[test]
    fn every_component_has_its_own_size() {
        let fits = [[1e5, 3e5, 1e-3, 5.0], [3e5, 3e5, 3e-3, 5.0]].map(Vec::from);
        let (mean, spread) = mean_and_spread(&fits, 2).unwrap();
        assert_eq!(mean, [2e5, 3e5, 2e-3, 5.0]);
        let least = |size: f64| (LEAST_SPREAD * size) as f32;
        assert_eq!(spread, [1e5, least(1e5), 1e-3, least(1e-3)]);
    }
}
