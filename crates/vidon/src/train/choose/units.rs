//! In which units a column is learned: a positive one that piles up near its low end as its logarithm.

use crate::data::Transform;

/// A column leans if its skewness is beyond this, and its logarithm has less than this share of it.
const SKEWED: f64 = 1.0;
const STRAIGHTER: f64 = 0.5;

/// The transform that makes such numbers lean less, if they lean. All of them have to be in its range.
pub(super) fn straightened<I: Iterator<Item = f32>>(values: impl Fn() -> I) -> Option<Transform> {
    let known = || values().filter(|v| !v.is_nan());
    let least = known().fold(f32::INFINITY, f32::min) as f64;
    let [mean, before] = mean_and_skewness(|| known().map(f64::from));
    let transform = match least {
        least if least >= 1e-3 * mean && least > 0.0 => Transform::Log,
        // Zeros, or next to it; log1p leaves numbers far below one as they are.
        least if least >= 0.0 && mean >= 1.0 => Transform::Log1p,
        _ => return None,
    };
    let [_, after] = mean_and_skewness(|| known().map(|v| transform.apply(v) as f64));
    (before > SKEWED && after.abs() < STRAIGHTER * before).then_some(transform)
}

fn mean_and_skewness<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> [f64; 2] {
    let count = values().count().max(1) as f64;
    let mean = values().sum::<f64>() / count;
    let moment = |power: i32| values().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
    [mean, moment(3) / moment(2).powf(1.5).max(f64::MIN_POSITIVE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_lean_are_straightened() {
        let even: Vec<f32> = (0..1000).map(|i| 5.0 + (i as f32 * 0.7).sin()).collect();
        let log: Vec<f32> = even.iter().map(|v| v.exp()).collect();
        let zeros: Vec<f32> = log.iter().map(|v| (v - 50.0).max(0.0)).collect();
        let negative: Vec<f32> = log.iter().map(|v| v - 100.0).collect();
        let wide: Vec<f32> = (0..1000)
            .map(|i| (3.0 * (i as f32 * 0.7).sin()).exp())
            .collect();
        assert_eq!(straightened(|| even.iter().copied()), None);
        assert_eq!(straightened(|| wide.iter().copied()), Some(Transform::Log));
        assert_eq!(straightened(|| negative.iter().copied()), None);
        assert_eq!(straightened(std::iter::empty), None);
        // Gaps do not count.
        assert_eq!(
            straightened(|| wide.iter().copied().chain([f32::NAN])),
            Some(Transform::Log)
        );
        let far: Vec<f32> = zeros.iter().map(|v| v.powi(2)).collect();
        assert!(matches!(
            straightened(|| far.iter().copied()),
            None | Some(Transform::Log1p)
        ));
    }
}
