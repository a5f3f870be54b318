//! Whether data look as if a network could not make the most of them, in words that name the remedy.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::data::{Group, Kind, Meta, Sample};

/// So few sensors are a handful.
const HANDFUL: usize = 32;
/// A fit that misses what it does not see by this share of its spread says little.
pub(super) const POOR_FIT: f64 = 0.5;

/// What may not suit about groups of sensors.
pub(super) fn doubts(meta: &Meta, samples: &[Sample]) -> Vec<String> {
    let groups = meta.groups.iter().enumerate();
    let fields = groups.filter(|(_, g)| g.kind == Kind::Field);
    let both = fields.flat_map(|(i, group)| {
        [
            few_and_counted(i, group, samples),
            all_equal(i, group, samples),
        ]
    });
    both.flatten().collect()
}

/// Inputs with a handful of sensors whose number carries a meaning: a field is sampled as often as one likes, of
/// sources there are as many as there are.
fn few_and_counted(index: usize, group: &Group, samples: &[Sample]) -> Option<String> {
    let mut counts: Vec<usize> = samples.iter().map(|s| s.groups[index].len()).collect();
    counts.sort_unstable();
    let (fewest, median, most) = (*counts.first()?, counts[counts.len() / 2], *counts.last()?);
    (median <= HANDFUL && most >= 2 * fewest && most > fewest + 2).then(|| {
        format!(
            "a sample has {fewest} to {most} sensors{}: if their number means something (sources, particles, events), they are points, not readings of a function (import them with --points)",
            of(group)
        )
    })
}

/// A column that always reads the same says nothing; where it stands may.
fn all_equal(index: usize, group: &Group, samples: &[Sample]) -> Option<String> {
    let constant = (0..group.values.len()).find(|&c| {
        let mut all = samples
            .iter()
            .flat_map(|s| s.groups[index].values.column(c));
        let Some(first) = all.by_ref().find(|v| !v.is_nan()) else {
            return false;
        };
        all.all(|v| v == first || v.is_nan())
    })?;
    Some(format!(
        "all readings of {}{} are the same: they say nothing, and if it is the places that matter, these are points without values (import them with --points)",
        group.values[constant].name,
        of(group)
    ))
}

/// Validation samples that are training samples too, from the same file or from a copy of it.
pub(super) fn seen_before(train: &[Sample], val: &[Sample]) -> Option<String> {
    let sums = |samples: &[Sample]| -> Vec<u32> {
        let all = samples.par_iter().map(|s| s.checksum(true));
        all.collect()
    };
    let known: HashSet<u32> = sums(train).into_iter().collect();
    let again = sums(val).iter().filter(|sum| known.contains(sum)).count();
    (again > 0).then(|| {
        format!(
            "{again} of {} validation samples are training samples too: the validation error says little of samples that were never seen",
            val.len()
        )
    })
}

fn of(group: &Group) -> String {
    match &group.name[..] {
        Group::USUAL => String::new(),
        name => format!(" of {name}"),
    }
}

/// Of the group called `name`, whose projection misses left-out sensors by such a share of their spread.
pub(super) fn poor_fit(name: &str, share: f64) -> Option<String> {
    (share >= POOR_FIT).then(|| {
        format!(
            "least squares does not suit {}: sensors that are left out are missed by {:.0} % of their spread. More functions or another family may; else these are points whose strengths add up (import them with --points), or something for heads (encoders = [{{ kind = \"heads\" }}])",
            match name {
                Group::USUAL => "these sensors",
                name => name,
            },
            100.0 * share
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;
    use crate::data::sample::tests::{small, small_meta};

    #[test]
    fn doubts_are_told_where_there_are_any() {
        let told = |samples: &[Sample], words: &[&str]| {
            let found = doubts(&small_meta(), samples);
            assert_eq!(found.len(), words.len(), "{found:?}");
            for (found, words) in found.iter().zip(words) {
                assert!(found.contains(words), "{found}");
            }
        };
        let counts =
            |counts: &[usize]| -> Vec<Sample> { counts.iter().map(|&m| small(m, 2)).collect() };
        told(&counts(&[3, 9, 20]), &["a sample has 3 to 20 sensors"]);
        told(&counts(&[300, 900, 200]), &[]);
        told(&counts(&[9, 9, 9]), &[]);
        let mut same = counts(&[40, 41]);
        for sample in &mut same {
            let readings = sample.groups[0].values.len();
            sample.groups[0].values = Rows::of(1, vec![0.5; readings]);
        }
        told(&same, &["all readings of a are the same"]);
        let samples = counts(&[3, 4, 5]);
        assert_eq!(seen_before(&samples[..2], &samples[2..]), None);
        let words = seen_before(&samples[..2], &samples[1..]).unwrap();
        assert!(words.starts_with("1 of 2 validation samples"), "{words}");
        assert!(poor_fit("sensor", 0.3).is_none());
        assert!(poor_fit("air", 0.63).unwrap().contains("missed by 63 %"));
    }
}
