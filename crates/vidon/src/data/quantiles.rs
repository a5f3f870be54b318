//! Quantiles of any number of numbers, exactly and in little memory. In order, float32 numbers are integers in order:
//! one pass counts them by their upper 16 bits, and a second one counts by their lower 16 bits those among which a
//! quantile is. The order in which numbers come does not matter.

use std::collections::BTreeMap;

const HALF: u32 = 16;

/// A number that is larger where v is.
fn rank(v: f32) -> u32 {
    // Of zero there is one.
    let bits = (v + 0.0).to_bits();
    match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    }
}

fn value(rank: u32) -> f32 {
    f32::from_bits(match rank >> 31 {
        1 => rank & !(1 << 31),
        _ => !rank,
    })
}

/// The bin of the `n`-th number, and how many of the numbers before it are in other bins.
fn find(counts: &[u64], n: u64) -> (usize, u64) {
    let mut before = 0;
    for (bin, count) in counts.iter().enumerate() {
        if n < before + count {
            return (bin, before);
        }
        before += count;
    }
    unreachable!("as many numbers as were counted")
}

/// The numbers that such shares of all numbers are below; none where there are no numbers. `values` are gone
/// through twice, and those that are missing left out.
pub(super) fn quantiles<I: Iterator<Item = f32>>(
    values: impl Fn() -> I,
    shares: &[f64],
) -> Option<Vec<f32>> {
    let ranks = || values().filter(|v| !v.is_nan()).map(rank);
    let mut upper = vec![0u64; 1 << HALF];
    ranks().for_each(|r| upper[(r >> HALF) as usize] += 1);
    let count: u64 = upper.iter().sum();
    let last = count.checked_sub(1)?;
    let wanted = shares
        .iter()
        .map(|share| (share * last as f64).round() as u64);
    let bins: Vec<(usize, u64)> = wanted
        .map(|n| {
            let (bin, before) = find(&upper, n);
            (bin, n - before)
        })
        .collect();
    let mut lower: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (bin, _) in &bins {
        lower.insert(*bin, vec![0; 1 << HALF]);
    }
    for r in ranks() {
        if let Some(counts) = lower.get_mut(&((r >> HALF) as usize)) {
            counts[(r & ((1 << HALF) - 1)) as usize] += 1;
        }
    }
    let exact = bins.iter().map(|(bin, n)| {
        let (low, _) = find(&lower[bin], *n);
        value((*bin as u32) << HALF | low as u32)
    });
    Some(exact.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use rand::RngExt;

    #[test]
    fn they_are_those_of_the_sorted_numbers() {
        let mut rng = stream(1, "quantiles", 0);
        let mut values: Vec<f32> = (0..5001)
            .map(|i| match i % 10 {
                0 => f32::NAN,
                1 => -0.0,
                2 => 1e30 * rng.random::<f32>(),
                _ => rng.random_range(-3.0..3.0),
            })
            .collect();
        let shares = [0.0, 0.001, 0.05, 0.5, 0.95, 1.0];
        let found = quantiles(|| values.iter().copied(), &shares).unwrap();
        values.retain(|v| !v.is_nan());
        values.sort_by(f32::total_cmp);
        let last = (values.len() - 1) as f64;
        for (share, found) in shares.iter().zip(found) {
            assert_eq!(found, values[(share * last).round() as usize], "{share}");
        }
        assert_eq!(quantiles(|| [f32::NAN].into_iter(), &shares), None);
        assert_eq!(quantiles(|| [7.5f32].into_iter(), &[0.5]), Some(vec![7.5]));
    }
}
