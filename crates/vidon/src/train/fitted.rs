//! Training targets as coefficients of a fixed trunk, found once by the regularised least squares of a [projection](crate::models::ProjectionConfig). A step then compares β with them,
//!
//!   ‖u - Σ_k β_k τ_k‖² ≈ Σ_k ‖τ_k‖² (c_k - β_k)²,
//!
//! which uses all targets of a sample at the price of none. Where the trunk has functions of time, the targets at a place are fitted in time first, and their
//! coefficients in space then: the same places are needed at all times.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::data::{Answers, Channel, Rows, Sample};
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::models::{
    Basis, Frame, LeastSquares, MOST_PROJECTED, Projection, ProjectionConfig, Symmetries,
};
use crate::train::data::root_mean_square;

/// Makes the fit in time solvable where there are fewer times than functions.
const RIDGE: f64 = 1e-9;

pub(crate) struct Fitted {
    projection: Projection,
    /// A row a training sample, in the order of the projection: for every component and function of time, all functions of space.
    fits: Vec<Vec<f32>>,
    /// Root mean squares of the targets in physical units.
    norms: Vec<f32>,
    /// √‖τ_k‖² of every number of β.
    roots: Arc<Vec<f32>>,
    outputs: usize,
    times: usize,
}

impl Fitted {
    /// For a trunk with this basis for each of its components; `samples` as the network sees them, `physical` as they are. The fits can be moved by
    /// the symmetries on the box of `coords`.
    pub fn new(
        basis: &Basis,
        samples: &[Sample],
        physical: &[Sample],
        symmetries: Symmetries,
        coords: &[Channel],
    ) -> Result<Self> {
        let (times, outputs) = (basis.frame().times.max(1), samples[0].targets.width());
        let config = ProjectionConfig {
            frame: basis.frame().space(),
            functions: basis.len() / times,
        };
        let refuse = |what: String| Err(Error::Setting(format!("[train]: {what}")));
        if config.functions > MOST_PROJECTED {
            return refuse(format!(
                "coefficients = true fits at most {MOST_PROJECTED} functions of the trunk, not {}",
                config.functions
            ));
        }
        let (projection, mut entries) = Projection::alone(&config, outputs * times);
        if symmetries.any() && !projection.moves(symmetries.shifts, coords) {
            let Frame { lo, hi, .. } = &config.frame;
            let boxes = coords.iter().map(|c| c.range.unwrap_or([f64::NAN; 2]));
            return refuse(format!(
                "the trunk's functions cannot be moved by these symmetries: its box is {lo:?} to {hi:?}, that of the sensors has the ends {:?}; they must be the same, and shifts need periodic functions. Leave out symmetries that the problem does not have (symmetries = {{}}), or set coefficients = false",
                boxes.collect::<Vec<_>>()
            ));
        }
        let space = |s: &Sample| match basis.frame().times {
            0 => Ok(Sample {
                sensor_coords: (*s.query_coords).clone(),
                sensor_values: s.targets.clone(),
                ..without_targets(s)
            }),
            _ => fit_in_time(basis.frame(), s),
        };
        let seen = samples.par_iter().enumerate().map(|(i, s)| {
            space(s).map_err(|what| Error::Setting(format!("training sample {i}: {what}")))
        });
        let seen = seen.collect::<Result<Vec<Sample>>>()?;
        projection.choose(&mut entries, &seen);
        let norm = |s: &Sample| root_mean_square(std::slice::from_ref(s)) as f32;
        let squares = basis.mean_squares();
        let roots = squares.iter().map(|s| s.sqrt() as f32).collect::<Vec<_>>();
        Ok(Self {
            fits: projection.fits(&entries, &seen),
            projection,
            norms: physical.iter().map(norm).collect(),
            roots: Arc::new(roots.repeat(outputs)),
            outputs,
            times,
        })
    }

    /// The fits of some samples, to be moved and then [arranged](Self::arrange).
    pub fn of(&self, picked: &[usize]) -> Answers {
        let rows = picked.iter().map(|&i| &self.fits[i][..]);
        let rows = rows.collect::<Vec<_>>().concat();
        Answers {
            coefs: Rows::new(self.fits[0].len(), rows),
            roots: self.roots.clone(),
            norms: picked.iter().map(|&i| self.norms[i]).collect(),
        }
    }

    /// What the fit of a sample says at some places, as the network would answer.
    pub fn evaluate(&self, basis: &Basis, sample: usize, coords: &Rows) -> Rows {
        let mut answers = self.of(&[sample]);
        self.arrange(&mut answers);
        let (n, beta) = (basis.len(), answers.coefs.data());
        let features = basis.evaluate(coords.data(), n);
        let values = features.chunks_exact(n).flat_map(|row| {
            beta.chunks_exact(n)
                .map(move |own| row.iter().zip(own).map(|(f, b)| f * b).sum())
        });
        Rows::new(self.outputs, values.collect())
    }

    pub fn fits(&self) -> &[Vec<f32>] {
        &self.fits
    }

    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// In the order of β: for every component all functions of space, each with all functions of time.
    pub fn arrange(&self, answers: &mut Answers) {
        let (all, times) = (self.projection.basis().len(), self.times);
        let own = self.roots.len() / self.outputs;
        let arranged = answers.coefs.iter().flat_map(|row| {
            (0..self.outputs * own).map(move |i| {
                let (c, k, l) = (i / own, i % own / times, i % times);
                row[(c * times + l) * all + k]
            })
        });
        answers.coefs = Rows::new(self.roots.len(), arranged.collect());
    }
}

/// Where the targets are about to become the sensors: nothing else is needed.
fn without_targets(sample: &Sample) -> Sample {
    Sample {
        name: None,
        sensor_coords: Rows::new(1, vec![]),
        sensor_values: Rows::new(1, vec![]),
        query_coords: sample.query_coords.clone(),
        targets: Rows::new(1, vec![]),
    }
}

/// The sample with places in space for sensors and, for values, the coefficients in time of every component.
fn fit_in_time(frame: &Frame, sample: &Sample) -> std::result::Result<Sample, String> {
    let (dim, outputs) = (sample.query_coords.width() - 1, sample.targets.width());
    let bits = |p: &[f32]| p.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let (mut places, mut times) = (HashMap::new(), HashMap::new());
    let (mut coords, mut moments) = (Vec::new(), Vec::new());
    let mut cells = Vec::with_capacity(sample.query_coords.len());
    for point in sample.query_coords.iter() {
        let (place, time) = point.split_at(dim);
        let next = places.len();
        let i = *places.entry(bits(place)).or_insert_with(|| {
            coords.extend_from_slice(place);
            next
        });
        let next = times.len();
        let j = *times.entry(bits(time)).or_insert_with(|| {
            moments.push(time[0]);
            next
        });
        cells.push((i, j));
    }
    let (m, t) = (places.len(), times.len());
    let scattered = format!(
        "coefficients = true needs targets at the same places at all times; here {} targets stand at {m} places and {t} times",
        cells.len()
    );
    if cells.len() != m * t {
        return Err(scattered);
    }
    let mut table = vec![f32::NAN; m * t * outputs];
    for ((i, j), target) in cells.iter().zip(sample.targets.iter()) {
        table[(i * t + j) * outputs..][..outputs].copy_from_slice(target);
    }
    // As many, but some twice.
    if table.iter().any(|v| v.is_nan()) {
        return Err(scattered);
    }
    let n = frame.times;
    let basis = Basis::new(frame.time(), n);
    // A column for every component at every place.
    let known = Matrix::from_fn(t, m * outputs, |i, c| {
        table[(c / outputs * t + i) * outputs + c % outputs] as f64
    });
    let prior = vec![1.0; n];
    let squares = LeastSquares::new(&basis, &moments, &known);
    let fits = squares.weigh(&prior).solve(RIDGE);
    if fits.numbers().iter().any(|v| !v.is_finite()) {
        return Err("the trunk's functions of time are not finite at the targets".into());
    }
    let values = (0..m * outputs * n).map(|at| fits[(at % n, at / n)] as f32);
    let values = values.collect();
    Ok(Sample {
        sensor_coords: Rows::new(dim, coords),
        sensor_values: Rows::new(outputs * n, values),
        ..without_targets(sample)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Batch;
    use crate::eval::relative_l2;
    use crate::models::Family;
    use crate::rng::stream;
    use crate::train::motion::{Known, move_batch};
    use rand::RngExt;

    fn fitted(basis: &Basis, samples: &[Sample], symmetries: Symmetries) -> Result<Fitted> {
        let range = Some([0.0, 1.0]);
        let coords = ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        });
        Fitted::new(basis, samples, samples, symmetries, &coords)
    }

    /// A sample whose two targets are functions of the basis, at random places (and all times), with their coefficients.
    fn sample(basis: &Basis, seed: u64) -> (Sample, Vec<f32>) {
        let mut rng = stream(seed, "fitted", 0);
        let times = match basis.frame().lo.len() {
            2 => vec![],
            _ => vec![0.0, 0.1, 0.3, 0.4, 0.8, 1.0],
        };
        let mut points: Vec<Vec<f32>> =
            (0..400).map(|_| vec![rng.random(), rng.random()]).collect();
        if !times.is_empty() {
            let timed = |p: &Vec<f32>| times.iter().map(|t| [&p[..], &[*t]].concat()).collect();
            points = points.iter().flat_map(|p| -> Vec<_> { timed(p) }).collect();
        }
        let width = points[0].len();
        let points = Rows::new(width, points.concat());
        let n = basis.len();
        let coefs: Vec<f32> = (0..2 * n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let values = basis.evaluate(points.data(), n);
        let value = |row: &[f32], c: usize| -> f32 {
            row.iter().zip(&coefs[c * n..]).map(|(f, c)| f * c).sum()
        };
        let targets = values
            .chunks(n)
            .flat_map(|row| [value(row, 0), value(row, 1)]);
        let sample = Sample {
            name: None,
            sensor_coords: Rows::new(2, vec![0.2, 0.7]),
            sensor_values: Rows::new(1, vec![1.0]),
            targets: Rows::new(2, targets.collect()),
            query_coords: Arc::new(points),
        };
        (sample, coefs)
    }

    fn bases() -> [Basis; 4] {
        [
            (Family::Periodic, 0, 23),
            (Family::Cosine, 0, 12),
            (Family::Legendre, 3, 27),
            (Family::Sine, 2, 18),
        ]
        .map(|(family, times, count)| {
            let dim = if times > 0 { 3 } else { 2 };
            let frame = Frame {
                lo: vec![0.0; dim],
                hi: vec![1.0; dim],
                family,
                times,
            };
            Basis::new(frame, count)
        })
    }

    #[test]
    fn functions_of_the_trunk_are_found_again() {
        for basis in bases() {
            let made: Vec<(Sample, Vec<f32>)> = (0..4).map(|i| sample(&basis, i)).collect();
            let samples: Vec<Sample> = made.iter().map(|m| m.0.clone()).collect();
            let fitted = fitted(&basis, &samples, Symmetries::default()).unwrap();
            let mut answers = fitted.of(&[2, 0]);
            fitted.arrange(&mut answers);
            for (row, i) in answers.coefs.iter().zip([2, 0]) {
                assert_eq!(row.len(), 2 * basis.len());
                for (found, wanted) in row.iter().zip(&made[i].1) {
                    assert!((found - wanted).abs() < 1e-2, "{found} {wanted}");
                }
                let found = fitted.evaluate(&basis, i, &samples[i].query_coords);
                assert!(relative_l2(&found, &samples[i].targets) < 1e-2);
            }
        }
    }

    /// Moved answers are the functions that have the moved targets at the moved queries.
    #[test]
    fn answers_move_with_the_queries() {
        let range = Some([0.0, 1.0]);
        let coords = ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        });
        for basis in bases() {
            let family = basis.frame().family;
            let symmetries = Symmetries {
                flips: true,
                swaps: true,
                shifts: family == Family::Periodic,
                odd: true,
            };
            // Whole shells, so that no function is moved out of the trunk.
            let times = basis.frame().times.max(1);
            let whole = Basis::whole(basis.frame().space(), basis.len() / times);
            let basis = Basis::new(basis.frame().clone(), whole.len() * times);
            let samples: Vec<Sample> = (0..4).map(|i| sample(&basis, i).0).collect();
            let fitted = fitted(&basis, &samples, symmetries).unwrap();
            for seed in 0..4 {
                let picked = [1, 3];
                let refs: Vec<&Sample> = picked.iter().map(|&i| &samples[i]).collect();
                let mut batch = Batch::new(&refs);
                batch.answers = Some(fitted.of(&picked));
                let known = Known {
                    sensors: None,
                    answers: Some(fitted.projection()),
                };
                let rng = &mut stream(seed, "motion", 0);
                move_batch(symmetries, &mut batch, &coords, known, rng);
                let mut answers = batch.answers.take().unwrap();
                fitted.arrange(&mut answers);
                let n = basis.len();
                let values = basis.evaluate(batch.query_coords.data(), n);
                let offsets = batch.query_offsets.unwrap();
                for (s, w) in offsets.windows(2).enumerate() {
                    for i in w[0]..w[1] {
                        for (c, wanted) in batch.targets.row(i).iter().enumerate() {
                            let coefs = &answers.coefs.row(s)[c * n..];
                            let row = &values[i * n..(i + 1) * n];
                            let found: f32 = row.iter().zip(coefs).map(|(f, c)| f * c).sum();
                            assert!(
                                (found - wanted).abs() < 5e-2,
                                "{family:?} {seed}: {found} {wanted}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn targets_that_are_not_at_all_times_are_refused() {
        let basis = &bases()[2];
        let (mut sample, _) = sample(basis, 0);
        let all: Vec<usize> = (1..sample.targets.len()).collect();
        sample.targets = sample.targets.select(&all);
        sample.query_coords = Arc::new(sample.query_coords.select(&all));
        let samples = [sample];
        let error = fitted(basis, &samples, Symmetries::default())
            .err()
            .unwrap();
        let words = error.to_string();
        assert!(words.contains("at the same places at all times"), "{words}");
    }

    /// Functions that are not those of the sensors' box, or not periodic where shifts are wanted, are not moved.
    #[test]
    fn symmetries_that_the_trunk_does_not_have_are_refused() {
        let refused = |family, dim, symmetries| {
            let frame = Frame {
                lo: vec![0.0; dim],
                hi: vec![1.0; dim],
                family,
                times: 0,
            };
            let basis = Basis::new(frame, 10);
            let (sample, _) = sample(&basis, 0);
            let words = fitted(&basis, &[sample], symmetries)
                .err()
                .unwrap()
                .to_string();
            assert!(words.contains("cannot be moved"), "{words}");
        };
        let flips = Symmetries {
            flips: true,
            ..Symmetries::default()
        };
        refused(Family::Cosine, 3, flips);
        refused(
            Family::Cosine,
            2,
            Symmetries {
                shifts: true,
                ..flips
            },
        );
    }
}
