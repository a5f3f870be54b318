//! The units that a network works in. A column over orders of magnitude, or one that piles up at zero, is taken to a
//! scale on which equal steps mean as much, and answers are taken back from it:
//!
//! | kind | g(v) | takes | g⁻¹(m) |
//! |---|---|---|---|
//! | `log` | ln v | v > 0 | exp m |
//! | `log1p` | ln(1 + v) | v > -1 | exp(m) - 1 |
//! | `sqrt` | √v | v ≥ 0 | m², and 0 where m < 0 |
//! | `asinh` | ln(v + √(v² + 1)) | any v | sinh m |
//!
//! An answer m in these units is the middle of what the truth may be, with a spread s around it, and g⁻¹(m) is the
//! median of that in the user's units. The mean, of which squared errors are smallest, is
//!
//!   E[g⁻¹(m + s·z)],   z ~ N(0, 1),
//!
//! by Gauss–Hermite quadrature; of `log` it is exp(m + s²/2).

use std::borrow::Cow;
use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::meta::{Channel, Kind, Meta};
use crate::data::sample::{Rows, Sample, Sensors};
use crate::network::Entry;

/// What the spread of the targets around the answers is called among the stored numbers.
const SPREAD: &str = "targets.spread";

/// z and its weight, for z and -z: exact for polynomials of degree 31.
const NODES: [[f64; 2]; 8] = [
    [0.386_760_604_500_557_4, 2.865_685_212_380_121_3e-1],
    [1.163_829_100_554_964_8, 1.583_383_727_509_496_7e-1],
    [1.951_980_345_716_333_4, 4.728_475_235_401_404e-2],
    [2.760_245_047_630_702, 7.266_937_601_184_727e-3],
    [3.600_873_624_171_548, 5.259_849_265_739_098e-4],
    [4.492_955_302_520_011, 1.530_003_216_248_730_6e-5],
    [5.472_225_705_949_343, 1.309_473_216_286_820_8e-7],
    [6.630_878_198_393_129, 1.497_814_723_161_837_4e-10],
];

/// A formula g and its inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    Log,
    Log1p,
    Sqrt,
    Asinh,
}

impl Transform {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transform::Log => "log",
            Transform::Log1p => "log1p",
            Transform::Sqrt => "sqrt",
            Transform::Asinh => "asinh",
        }
    }

    /// Which numbers it takes, in words.
    fn range(self) -> &'static str {
        match self {
            Transform::Log => "numbers above 0",
            Transform::Log1p => "numbers above -1",
            Transform::Sqrt => "0 and numbers above",
            Transform::Asinh => "any number",
        }
    }

    fn takes(self, v: f32) -> bool {
        match self {
            _ if v.is_nan() => true,
            Transform::Log => v > 0.0,
            Transform::Log1p => v > -1.0,
            Transform::Sqrt => v >= 0.0,
            Transform::Asinh => true,
        }
    }

    /// Whether it turns the sign with its argument's.
    pub(crate) fn is_odd(self) -> bool {
        self == Transform::Asinh
    }

    /// Whether zero stays zero.
    pub(crate) fn keeps_zero(self) -> bool {
        self != Transform::Log
    }

    /// g of a number that it takes; what is missing stays missing.
    pub(crate) fn apply(self, v: f32) -> f32 {
        match self {
            _ if v.is_nan() => v,
            Transform::Log => v.max(f32::MIN_POSITIVE).ln(),
            Transform::Log1p => (v as f64).ln_1p() as f32,
            Transform::Sqrt => v.sqrt(),
            Transform::Asinh => (v as f64).asinh() as f32,
        }
    }

    /// g⁻¹: the median where m is the middle, and any other quantile likewise.
    pub(crate) fn back(self, m: f64) -> f64 {
        match self {
            Transform::Log => m.exp(),
            Transform::Log1p => m.exp_m1(),
            Transform::Sqrt => m.max(0.0).powi(2),
            Transform::Asinh => m.sinh(),
        }
    }

    /// The mean of g⁻¹ where the truth is spread by s around m.
    pub(crate) fn mean_back(self, m: f64, s: f64) -> f64 {
        match self {
            _ if s == 0.0 => self.back(m),
            Transform::Log => (m + 0.5 * s * s).exp(),
            _ => {
                let pairs = NODES.iter();
                let both = |z: f64| self.back(m + s * z) + self.back(m - s * z);
                pairs.map(|[z, weight]| weight * both(*z)).sum()
            }
        }
    }

    /// What is wrong with a number that it does not take, and which one would.
    fn refusal(self, what: &str, v: f32) -> String {
        let all = [Transform::Log1p, Transform::Asinh];
        let other = all.into_iter().find(|t| t.takes(v)).expect("asinh does");
        format!(
            "{what} is {v}, and {} takes {}; {} takes {}",
            self.name(),
            self.range(),
            other.name(),
            other.range()
        )
    }
}

/// A column that is transformed: how, and what it is called in errors.
type Column = Option<(Transform, String)>;

/// Which columns are transformed how.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Transforms {
    named: BTreeMap<String, Transform>,
    /// Those of every group, and of the targets.
    groups: Vec<Vec<Column>>,
    targets: Vec<Column>,
}

impl Transforms {
    /// Of such data: a name holds for readings, parameters and targets alike. Or what is wrong with the names.
    pub fn new(
        named: &BTreeMap<String, Transform>,
        meta: &Meta,
    ) -> std::result::Result<Self, String> {
        let transformed = |g: &&crate::data::Group| g.kind != Kind::Points;
        let readings = meta.groups.iter().filter(transformed);
        let known: Vec<&str> = readings
            .flat_map(|g| &g.values)
            .chain(&meta.targets)
            .map(|c| &c.name[..])
            .collect();
        if let Some(name) = named.keys().find(|name| !known.contains(&&name[..])) {
            let mut points = meta.groups.iter().filter(|g| g.kind == Kind::Points);
            let strength = points.any(|g| g.values.iter().any(|c| c.name == *name));
            return Err(match strength {
                true => format!("{name} is a strength: strengths add up, which no transform keeps"),
                false => {
                    let mut once = known.clone();
                    once.dedup();
                    format!("there is no column {name}; there are {}", once.join(", "))
                }
            });
        }
        let several = meta.groups.len() > 1;
        let column = |c: &Channel, label: &dyn Fn(&str) -> String| -> Column {
            named.get(&c.name).map(|t| (*t, label(&c.name)))
        };
        let group = |g: &crate::data::Group| -> Vec<Column> {
            let label = |name: &str| match several {
                true => format!("a reading of {name} in {}", g.name),
                false => format!("a reading of {name}"),
            };
            let own = g.values.iter().filter(|_| g.kind != Kind::Points);
            own.map(|c| column(c, &label)).collect()
        };
        let target = |c: &Channel| column(c, &|name| format!("a target {name}"));
        Ok(Self {
            groups: meta.groups.iter().map(group).collect(),
            targets: meta.targets.iter().map(target).collect(),
            named: named.clone(),
        })
    }

    pub fn named(&self) -> &BTreeMap<String, Transform> {
        &self.named
    }

    /// Of the targets, where any is transformed.
    fn of_targets(&self) -> Option<Vec<Option<Transform>>> {
        let own = self.targets.iter().map(|c| c.as_ref().map(|(t, _)| *t));
        let own: Vec<Option<Transform>> = own.collect();
        own.iter().any(Option::is_some).then_some(own)
    }

    /// Whether targets stay 0 where they are 0.
    pub fn keep_zero(&self) -> bool {
        let mut own = self.targets.iter().flatten();
        own.all(|(t, _)| t.keeps_zero())
    }

    /// Readings in the units of the network, or what is wrong with a number.
    pub fn readings<'a>(
        &self,
        groups: &'a [Sensors],
    ) -> std::result::Result<Cow<'a, [Sensors]>, String> {
        if self.groups.iter().flatten().all(Option::is_none) {
            return Ok(Cow::Borrowed(groups));
        }
        let mut own = groups.to_vec();
        for (sensors, columns) in own.iter_mut().zip(&self.groups) {
            transform(&mut sensors.values, columns)?;
        }
        Ok(Cow::Owned(own))
    }

    /// A sample with readings and targets in the units of the network, or what is wrong with a number.
    pub fn sample(&self, sample: &mut Sample) -> std::result::Result<(), String> {
        for (sensors, columns) in sample.groups.iter_mut().zip(&self.groups) {
            transform(&mut sensors.values, columns)?;
        }
        transform(&mut sample.targets, &self.targets)
    }

    /// How far targets are from answers in the units of the network, as a root mean square of every column; of
    /// one that is not transformed 0. Never further than they are from each other: a network that knows nothing
    /// yet is no reason to expect what was never seen.
    pub fn spread(&self, found: &[Rows], truth: &[&Rows]) -> Option<Vec<f32>> {
        let all = self.of_targets()?;
        let own = |(c, transform): (usize, &Option<Transform>)| -> f32 {
            let Some(transform) = transform else {
                return 0.0;
            };
            let (mut count, mut sums) = (0.0, [0.0; 3]);
            for (found, truth) in found.iter().zip(truth) {
                let pairs = found.column(c).zip(truth.column(c));
                for (found, truth) in pairs.filter(|(_, truth)| !truth.is_nan()) {
                    let truth = transform.apply(truth) as f64;
                    count += 1.0;
                    sums[0] += (found as f64 - truth).powi(2);
                    sums[1] += truth;
                    sums[2] += truth * truth;
                }
            }
            let [misses, mean, square] = sums.map(|sum| sum / f64::max(count, 1.0));
            let apart = (square - mean * mean).max(0.0);
            misses.min(apart).sqrt() as f32
        };
        Some(all.iter().enumerate().map(own).collect())
    }

    /// Answers in the user's units, for such spreads of the targets around them.
    pub fn means_back(&self, answers: &mut [Rows], spreads: &[f32]) {
        let Some(all) = self.of_targets() else {
            return;
        };
        answers.par_iter_mut().for_each(|own| {
            for row in own.data_mut().chunks_exact_mut(all.len()) {
                for ((v, transform), s) in row.iter_mut().zip(&all).zip(spreads) {
                    if let Some(transform) = transform {
                        *v = transform.mean_back(*v as f64, *s as f64) as f32;
                    }
                }
            }
        });
    }

    /// Where spreads are stored: behind all other numbers, 0 until a validation finds them.
    pub fn entry(&self) -> Option<Entry> {
        let count = self.of_targets()?.len();
        Some(Entry {
            name: SPREAD.into(),
            shape: vec![count],
            values: vec![0.0; count],
            trained: false,
        })
    }

    /// What was stored there.
    pub fn stored<'a>(&self, entries: &'a [Entry]) -> &'a [f32] {
        let own = entries.last().filter(|e| e.name == SPREAD);
        own.map_or(&[], |e| &e.values)
    }
}

fn transform(values: &mut Rows, columns: &[Column]) -> std::result::Result<(), String> {
    if columns.iter().all(Option::is_none) {
        return Ok(());
    }
    for row in values.data_mut().chunks_exact_mut(columns.len()) {
        for (v, column) in row.iter_mut().zip(columns) {
            match column {
                Some((transform, what)) if !transform.takes(*v) => {
                    return Err(transform.refusal(what, *v));
                }
                Some((transform, _)) => *v = transform.apply(*v),
                None => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Group;
    use crate::data::sample::tests::{small, small_meta};

    const ALL: [Transform; 4] = [
        Transform::Log,
        Transform::Log1p,
        Transform::Sqrt,
        Transform::Asinh,
    ];

    #[test]
    fn formulas_and_their_inverses() {
        for transform in ALL {
            for v in [0.003f32, 0.5, 1.0, 40.0, 3e5] {
                let back = transform.back(transform.apply(v) as f64);
                assert!((back / v as f64 - 1.0).abs() < 2e-6, "{transform:?} {v}");
            }
            assert!(transform.apply(f32::NAN).is_nan() && transform.takes(f32::NAN));
            assert_eq!(transform.keeps_zero(), transform.apply(0.0) == 0.0);
            assert_eq!(
                transform.is_odd(),
                transform.apply(-3.0) == -transform.apply(3.0)
            );
        }
        assert_eq!(Transform::Sqrt.back(-2.0), 0.0);
        let takes = |v: f32| ALL.map(|t| t.takes(v));
        assert_eq!(takes(0.0), [false, true, true, true]);
        assert_eq!(takes(-0.5), [false, true, false, true]);
        assert_eq!(takes(-1.0), [false, false, false, true]);
    }

    /// What can be worked out by hand: E exp(m + sz) = exp(m + s²/2), and with it sinh; E (m + sz)² = m² + s².
    #[test]
    fn means_are_those_of_the_normal_distribution() {
        for (m, s) in [(0.3, 0.0), (1.0, 0.2), (-2.0, 1.0), (3.0, 2.0)] {
            let grown = f64::exp(0.5 * s * s);
            let close = |found: f64, wanted: f64| {
                assert!(
                    (found / wanted - 1.0).abs() < 1e-8,
                    "{m} {s}: {found} {wanted}"
                );
            };
            close(Transform::Log.mean_back(m, s), m.exp() * grown);
            close(1.0 + Transform::Log1p.mean_back(m, s), m.exp() * grown);
            close(Transform::Asinh.mean_back(m, s), m.sinh() * grown);
            close(
                Transform::Sqrt.mean_back(m + 20.0, s),
                (m + 20.0f64).powi(2) + s * s,
            );
        }
    }

    #[test]
    fn names_hold_for_readings_and_targets_alike() {
        let mut meta = small_meta();
        meta.targets[1].name = "a".into();
        let named = |name: &str| BTreeMap::from([(name.to_string(), Transform::Log1p)]);
        let transforms = Transforms::new(&named("a"), &meta).unwrap();
        let mut sample = small(1, 2);
        sample.groups[0].values = Rows::of(1, vec![3.0]);
        let before = sample.clone();
        transforms.sample(&mut sample).unwrap();
        assert_eq!(sample.groups[0].values.data(), [4f32.ln()]);
        assert_eq!(sample.targets.column(0).collect::<Vec<_>>(), [0.0, 4.0]);
        assert_eq!(
            sample.targets.column(1).collect::<Vec<_>>(),
            [3f32.ln(), 7f32.ln()]
        );
        let mut answers = [sample.targets.clone()];
        transforms.means_back(&mut answers, &[0.0, 0.0]);
        for (a, b) in answers[0].data().iter().zip(before.targets.data()) {
            assert!((a - b).abs() < 1e-5);
        }
        // Residuals of 0 and 0.1; and never more than the targets are apart.
        answers[0] = sample.targets.clone();
        answers[0].data_mut()[1] += 0.1;
        let spread = transforms.spread(&answers, &[&before.targets]).unwrap();
        assert_eq!(spread[0], 0.0);
        assert!((spread[1] - 0.1 / 2f32.sqrt()).abs() < 1e-6);
        answers[0].data_mut()[1] += 99.0;
        let spread = transforms.spread(&answers, &[&before.targets]).unwrap();
        assert!((spread[1] - 0.5 * (7f32 / 3.0).ln()).abs() < 1e-6);

        let words = Transforms::new(&named("b"), &meta).unwrap_err();
        assert_eq!(words, "there is no column b; there are a, u, a");
        let points = Group {
            kind: Kind::Points,
            ..Group::field(
                "wells",
                meta.groups[0].coords.clone(),
                vec![Channel::named("q")],
            )
        };
        meta.groups.push(points);
        let words = Transforms::new(&named("q"), &meta).unwrap_err();
        assert!(words.contains("strengths add up"), "{words}");
    }

    #[test]
    fn a_number_out_of_range_is_named_with_a_remedy() {
        let refused = |transform: Transform, v: f32| {
            let named = BTreeMap::from([("a".to_string(), transform)]);
            let transforms = Transforms::new(&named, &small_meta()).unwrap();
            let mut sample = small(2, 2);
            sample.groups[0].values = Rows::of(1, vec![1.0, v]);
            transforms.readings(&sample.groups).unwrap_err()
        };
        assert_eq!(
            refused(Transform::Log, 0.0),
            "a reading of a is 0, and log takes numbers above 0; log1p takes numbers above -1"
        );
        for transform in [Transform::Log, Transform::Log1p, Transform::Sqrt] {
            let words = refused(transform, -7.5);
            assert!(words.contains("is -7.5") && words.ends_with("asinh takes any number"));
        }
    }
}
