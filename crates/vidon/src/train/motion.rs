//! Symmetries of a problem as free data: in every step each sample is seen through a randomly drawn one, sensors and queries alike.

use rand::RngExt;

use crate::data::{Batch, Channel, Rows};
use crate::models::{Projection, Symmetries, Turn};
use crate::rng::Rng;

/// The projections that gave what is known of a batch as coefficients.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    pub sensors: Option<&'a Projection>,
    pub answers: Option<&'a Projection>,
}

/// One symmetry, in coordinates scaled to [0, 1].
struct Motion {
    axes: Vec<Turn>,
    mirrored: bool,
}

impl Motion {
    fn draw(symmetries: Symmetries, dim: usize, rng: &mut Rng) -> Motion {
        let mut order: Vec<usize> = (0..dim).collect();
        let mut mirrored = false;
        if symmetries.swaps {
            for i in (1..dim).rev() {
                let j = rng.random_range(0..=i);
                order.swap(i, j);
                mirrored ^= i != j;
            }
        }
        let axes = order.into_iter().map(|from| {
            let flip = symmetries.flips && rng.random::<bool>();
            mirrored ^= flip;
            let shift = if symmetries.shifts {
                rng.random::<f64>()
            } else {
                0.0
            };
            (from, flip, shift)
        });
        Motion {
            axes: axes.collect(),
            mirrored,
        }
    }

    fn apply(&self, point: &mut [f32], ends: &[[f64; 2]]) {
        let scaled: Vec<f64> = point
            .iter()
            .zip(ends)
            .map(|(x, [lo, hi])| (*x as f64 - lo) / (hi - lo))
            .collect();
        for (to, ((from, flip, shift), [lo, hi])) in
            point.iter_mut().zip(self.axes.iter().zip(ends))
        {
            let mut x = scaled[*from];
            if *flip {
                x = 1.0 - x;
            }
            if *shift > 0.0 {
                x = (x + shift).rem_euclid(1.0);
            }
            *to = (lo + x * (hi - lo)) as f32;
        }
    }
}

/// Moves every sample of the batch, and what is known of its sensors and answers, by a symmetry of its own.
pub(crate) fn move_batch(
    symmetries: Symmetries,
    batch: &mut Batch,
    coords: &[Channel],
    known: Known,
    rng: &mut Rng,
) {
    let dim = coords.len();
    let ends: Vec<[f64; 2]> = coords
        .iter()
        .map(|c| c.range.expect("checked before training"))
        .collect();
    batch.separate_queries();
    let offsets = batch.query_offsets.clone().expect("separate queries");
    for sample in 0..batch.len() {
        let motion = Motion::draw(symmetries, dim, rng);
        let sensors = batch.sensor_offsets[sample]..batch.sensor_offsets[sample + 1];
        let queries = offsets[sample]..offsets[sample + 1];
        let parts = [
            (&mut batch.sensor_coords, sensors.clone()),
            (&mut batch.query_coords, queries.clone()),
        ];
        for (rows, range) in parts {
            let width = rows.width();
            let part = &mut rows.data_mut()[range.start * width..range.end * width];
            for point in part.chunks_exact_mut(width) {
                motion.apply(&mut point[..dim], &ends);
            }
        }
        let negative = symmetries.odd && motion.mirrored;
        let coefs = [
            (batch.fits.as_mut(), known.sensors),
            (batch.answers.as_mut().map(|a| &mut a.coefs), known.answers),
        ];
        for (rows, known) in coefs {
            if let (Some(rows), Some(projection)) = (rows, known) {
                let width = rows.width();
                let own = &mut rows.data_mut()[sample * width..(sample + 1) * width];
                projection.move_fit(own, &motion.axes, negative);
            }
        }
        if negative {
            negate(&mut batch.sensor_values, sensors);
            negate(&mut batch.targets, queries);
        }
    }
}

fn negate(rows: &mut Rows, range: std::ops::Range<usize>) {
    let width = rows.width();
    let part = &mut rows.data_mut()[range.start * width..range.end * width];
    part.iter_mut().for_each(|v| *v = -*v);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Sample;
    use crate::rng::stream;
    use std::sync::Arc;

    /// A function that has the symmetries is still itself afterwards: sensors and queries move together.
    #[test]
    fn invariant_functions_stay_what_they_are() {
        let places: Vec<f32> = (0..40).map(|i| ((i * 37) % 41) as f32 / 41.0).collect();
        let tau = std::f32::consts::TAU;
        // Even under flips and swaps on the unit square.
        let even = |p: &[f32]| (tau * p[0]).cos() + (tau * p[1]).cos();
        let sample = Sample {
            name: None,
            sensor_values: Rows::new(1, places.chunks(2).map(even).collect()),
            targets: Rows::new(1, places.chunks(2).map(even).collect()),
            query_coords: Arc::new(Rows::new(2, places.clone())),
            sensor_coords: Rows::new(2, places),
        };
        let range = Some([0.0, 1.0]);
        let coords = ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        });
        let symmetries = Symmetries {
            flips: true,
            swaps: true,
            ..Symmetries::default()
        };
        let mut batch = Batch::new(&[&sample, &sample, &sample, &sample]);
        move_batch(
            symmetries,
            &mut batch,
            &coords,
            Known::default(),
            &mut stream(1, "test", 0),
        );
        assert_eq!(batch.query_offsets, Some(vec![0, 20, 40, 60, 80]));
        for (p, v) in batch.sensor_coords.iter().zip(batch.sensor_values.data()) {
            assert!((even(p) - v).abs() < 1e-5);
        }
        for (p, v) in batch.query_coords.iter().zip(batch.targets.data()) {
            assert!((even(p) - v).abs() < 1e-5);
        }
        assert_eq!(batch.sensor_coords, batch.query_coords);
        let moved = (0..4).any(|s| batch.sensor_coords.row(20 * s) != sample.sensor_coords.row(0));
        assert!(moved);
    }

    /// With `odd`, sin(2πx) stays itself under flips of x; shifts keep points in the box.
    #[test]
    fn mirrored_values_change_sign_and_shifts_wrap() {
        let places: Vec<f32> = (0..30).map(|i| i as f32 / 30.0).collect();
        let wave = |p: &[f32]| (std::f32::consts::TAU * p[0]).sin();
        let sample = Sample {
            name: None,
            sensor_values: Rows::new(1, places.chunks(1).map(wave).collect()),
            targets: Rows::new(1, vec![1.0]),
            query_coords: Arc::new(Rows::new(1, vec![0.25])),
            sensor_coords: Rows::new(1, places),
        };
        let coords = [Channel {
            range: Some([0.0, 1.0]),
            ..Channel::named("x")
        }];
        let mut batch = Batch::new(&[&sample; 8]);
        let odd = Symmetries {
            flips: true,
            odd: true,
            ..Symmetries::default()
        };
        move_batch(
            odd,
            &mut batch,
            &coords,
            Known::default(),
            &mut stream(2, "test", 0),
        );
        for (p, v) in batch.sensor_coords.iter().zip(batch.sensor_values.data()) {
            assert!((wave(p) - v).abs() < 1e-5);
        }
        for (p, v) in batch.query_coords.iter().zip(batch.targets.data()) {
            assert!((wave(p) - v).abs() < 1e-5);
        }
        let shifts = Symmetries {
            shifts: true,
            ..Symmetries::default()
        };
        move_batch(
            shifts,
            &mut batch,
            &coords,
            Known::default(),
            &mut stream(3, "test", 0),
        );
        assert!(
            batch
                .sensor_coords
                .data()
                .iter()
                .all(|x| (0.0..=1.0).contains(x))
        );
    }
    /// Coefficients that are moved are those of the moved sensors.
    #[test]
    fn what_is_known_of_the_sensors_moves_with_them() {
        use crate::models::{Dims, Model};
        use crate::models::{Family, Frame, ModelConfig, ProjectionConfig, VidonConfig};
        let range = Some([0.0, 1.0]);
        let coords = ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        });
        for (family, shifts, odd) in [
            (Family::Periodic, true, true),
            (Family::Cosine, false, false),
            (Family::Legendre, false, true),
        ] {
            let frame = Frame {
                lo: vec![0.0; 2],
                hi: vec![1.0; 2],
                family,
                times: 0,
            };
            let config = ModelConfig::Vidon(VidonConfig {
                heads: 0,
                projection: Some(ProjectionConfig {
                    frame,
                    functions: 20,
                }),
                ..VidonConfig::default()
            });
            let dims = Dims {
                sensor_coords: 2,
                sensor_values: 1,
                query_coords: 2,
                targets: 1,
            };
            let (model, mut entries) = Model::new(&config, dims, 0).unwrap();
            let mut rng = stream(3, "places", 0);
            let places: Vec<f32> = (0..300).map(|_| rng.random()).collect();
            let values = places.chunks(2).map(|p| 0.2 + (6.0 * p[0]).sin() * p[1]);
            let sample = Sample {
                name: None,
                sensor_values: Rows::new(1, values.collect()),
                targets: Rows::new(1, vec![0.0]),
                query_coords: Arc::new(Rows::new(2, vec![0.5, 0.5])),
                sensor_coords: Rows::new(2, places),
            };
            let projection = model.projection().unwrap();
            entries
                .iter_mut()
                .filter(|e| e.name == "projection.prior")
                .for_each(|e| e.values = vec![2.0, 1e-4, 0.0]);
            let symmetries = Symmetries {
                flips: true,
                swaps: true,
                shifts,
                odd,
            };
            assert!(projection.moves(shifts, &coords));
            let fit = projection
                .fits(&entries, std::slice::from_ref(&sample))
                .remove(0);
            for seed in 0..6 {
                let mut batch = Batch::new(&[&sample]);
                batch.fits = Some(Rows::new(fit.len(), fit.clone()));
                let rng = &mut stream(seed, "motion", 0);
                let known = Known {
                    sensors: Some(projection),
                    answers: None,
                };
                move_batch(symmetries, &mut batch, &coords, known, rng);
                let moved = Sample {
                    sensor_coords: batch.sensor_coords.clone(),
                    sensor_values: batch.sensor_values.clone(),
                    ..sample.clone()
                };
                let wanted = projection.fits(&entries, &[moved]).remove(0);
                let found = batch.fits.unwrap();
                for (a, b) in found.data().iter().zip(&wanted) {
                    assert!((a - b).abs() < 2e-3, "{family:?} {seed}: {a} {b}");
                }
            }
        }
    }
}
