//! Baselines on stations that are made up.

use std::sync::Arc;

use super::*;
use crate::rng::stream;
use rand::RngExt;

/// A lapse rate that changes from day to day, and waves; a third of the stations are asked. With `later` the targets
/// are the readings of the next day, which go half-way back to the mean of the place.
fn days(count: usize, seed: u64, later: bool) -> Dataset {
    let channels = |unit: &str| {
        let height = Channel {
            covariate: true,
            ..Channel::named("height")
        };
        let named = |name: &str| Channel {
            unit: unit.into(),
            ..Channel::named(name)
        };
        vec![named("x"), named("y"), height]
    };
    let value = || vec![Channel::named("T")];
    let mut meta = Meta::new("days", channels("km"), value(), channels("km"), value());
    meta.groups[0].gaps = true;
    meta.target_gaps = true;
    let mut rng = stream(7, "stations", 0);
    let stations: Vec<[f32; 3]> = (0..60)
        .map(|_| {
            [
                rng.random_range(0.0..300.0),
                rng.random_range(0.0..200.0),
                rng.random_range(0.0..3.0),
            ]
        })
        .collect();
    let mut rng = stream(seed, "days", 0);
    let mut day = || {
        let (lapse, level, phase) = (
            rng.random_range(4.0..8.0f32),
            rng.random_range(5.0..15.0f32),
            rng.random_range(0.0..6.0f32),
        );
        let departures: Vec<f32> = (0..60).map(|_| rng.random_range(-2.0..2.0)).collect();
        let value = |i: usize, share: f32| {
            let [x, _, h] = stations[i];
            let peculiar = if later {
                (i % 7) as f32 - 3.0 + share * departures[i]
            } else {
                0.0
            };
            level - lapse * h + 2.0 * (x / 60.0 + phase).sin() + peculiar
        };
        let rows = |some: &[usize]| Rows::of(3, some.iter().flat_map(|&i| stations[i]).collect());
        let all: Vec<usize> = (0..60).collect();
        let (asked, sensors): (Vec<usize>, Vec<usize>) = match later {
            true => (all.clone(), all),
            false => all.into_iter().partition(|i| i % 3 == 0),
        };
        let mut readings: Vec<f32> = sensors.iter().map(|&i| value(i, 1.0)).collect();
        readings[5] = f32::NAN;
        let mut targets: Vec<f32> = asked
            .iter()
            .map(|&i| value(i, if later { 0.5 } else { 1.0 }))
            .collect();
        targets[2] = f32::NAN;
        Sample::of(
            rows(&sensors),
            Rows::of(1, readings),
            Arc::new(rows(&asked)),
            Rows::of(1, targets),
        )
    };
    let samples = (0..count).map(|_| day()).collect();
    Dataset::from_samples(meta, samples).unwrap()
}

fn rmse(found: &Comparison, name: &str) -> f64 {
    let own = found.baselines.iter().find(|b| b.name.starts_with(name));
    let own = own.unwrap_or_else(|| panic!("{name}: {:?}", found.baselines));
    own.columns[0].as_ref().unwrap().rmse
}

#[test]
fn kriging_with_what_is_known_of_a_place_is_best() {
    let data = days(30, 1, false);
    let found = compare(&data, None, 30, &()).unwrap();
    let names = [
        "kriging, trend x, y, height",
        "ordinary kriging",
        "mean of the sample's readings",
    ];
    let errors = names.map(|name| rmse(&found, name));
    assert!(
        errors[0] < 0.5 && 3.0 * errors[0] < errors[1] && errors[1] < 1.1 * errors[2],
        "{errors:?}"
    );
    assert_eq!((found.samples, found.kernels.len()), (30, 3));
    assert!(
        found
            .kernels
            .iter()
            .all(|k| k.unit == "km" && k.readings == "T")
    );
    let known = found.baselines[0].columns[0].as_ref().unwrap();
    assert_eq!(known.targets, 30 * 19);
    assert!(found.baselines.iter().all(|b| b.relative_l2.is_some()));
    // Nothing that would need training, and the same bits again.
    assert!(found.baselines.iter().all(|b| !b.name.contains("a + b")));
    let again = compare(&data, None, 30, &()).unwrap();
    let json = |c: &Comparison| serde_json::to_string(c).unwrap();
    assert_eq!(json(&found), json(&again));
}

#[test]
fn training_teaches_what_is_left_of_today() {
    let (data, train) = (days(20, 1, true), days(60, 2, true));
    let found = compare(&data, Some(&train), 20, &()).unwrap();
    let names = [
        "linear in kriging, persistence",
        "a + b·persistence",
        "persistence",
        "mean of the place",
    ];
    let [all, damped, today, place] = names.map(|name| rmse(&found, name));
    assert!(
        all < 0.95 * damped && damped < today && all < 0.5 * place,
        "{all} {damped} {today} {place}"
    );
    // Targets of the judged samples teach nothing.
    let other = compare(&data, Some(&train), 10, &()).unwrap();
    assert_eq!(found.kernels.len(), other.kernels.len());
}

#[test]
fn other_quantities_need_training() {
    let turned = |count: usize, seed: u64| {
        let data = days(count, seed, false);
        let mut meta = data.meta().unwrap();
        meta.targets[0].name = "melt".into();
        let mut samples = data.collect(count, &()).unwrap();
        samples.iter_mut().for_each(|s| {
            s.targets
                .data_mut()
                .iter_mut()
                .for_each(|v| *v = 3.0 * *v + 100.0)
        });
        Dataset::from_samples(meta, samples).unwrap()
    };
    let (data, train) = (turned(20, 1), turned(40, 2));
    let words = compare(&data, None, 20, &()).unwrap_err().to_string();
    assert!(words.contains("(melt) are another quantity"), "{words}");
    let found = compare(&data, Some(&train), 20, &()).unwrap();
    let errors = [
        "mean of the training targets",
        "linear in the kriged readings",
    ]
    .map(|n| rmse(&found, n));
    assert!(5.0 * errors[1] < errors[0], "{errors:?}");
    let words = compare(&data, Some(&days(3, 1, false)), 20, &()).unwrap_err();
    assert!(words.to_string().contains("do not fit together"));
}

/// A sample in which nobody reports is left out, and counted.
#[test]
fn silence_is_left_out() {
    let data = days(6, 1, false);
    let meta = data.meta().unwrap();
    let mut samples = data.collect(6, &()).unwrap();
    samples[3].groups[0].values.data_mut().fill(f32::NAN);
    let data = Dataset::from_samples(meta.clone(), samples.clone()).unwrap();
    let found = compare(&data, None, 6, &()).unwrap();
    assert_eq!(found.samples, 5);
    assert!(
        found
            .notes
            .iter()
            .any(|n| n.starts_with("1 of the samples")),
        "{:?}",
        found.notes
    );
    samples
        .iter_mut()
        .for_each(|s| s.groups[0].values.data_mut().fill(f32::NAN));
    let data = Dataset::from_samples(meta, samples).unwrap();
    assert!(compare(&data, None, 6, &()).is_err());
}

/// Of many queries some are looked at, from everywhere on their grid.
#[test]
fn many_queries_are_thinned_evenly() {
    let data = days(1, 1, false);
    let mut sample = data.sample(0, &()).unwrap();
    let places = (0..100 * 41 * 10).flat_map(|i| [(i / 41) as f32, (i % 41) as f32, 0.0]);
    sample.query_coords = Arc::new(Rows::of(3, places.collect()));
    sample.targets = Rows::of(1, vec![1.0; sample.query_coords.len()]);
    let some = thinned(&sample, 4096);
    assert_eq!((some.query_coords.len(), some.targets.len()), (4096, 4096));
    let mut counts = [0; 41];
    some.query_coords
        .iter()
        .for_each(|p| counts[p[1] as usize] += 1);
    assert!(counts.iter().all(|n| (80..120).contains(n)), "{counts:?}");
    assert!(matches!(thinned(&sample, 1 << 20), Cow::Borrowed(_)));
}
