//! Training targets as coefficients of a fixed basis, found once by the regularised least squares of a
//! [projection](crate::encoders::ProjectionConfig). A step then compares β with them,
//!
//!   ‖u - Σ_k β_k τ_k‖² ≈ Σ_k ‖τ_k‖² (c_k - β_k)²,
//!
//! which uses all targets of a sample at the price of none. Where the basis has functions of time, the
//! targets at a place are fitted in time first, and their coefficients in space then: the same places are
//! needed at all times.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::config::MOST_PROJECTED;
use crate::data::{Channel, Meta, Rows, Sample, ScaledSample, Sensors};
use crate::decoders::Decoder;
use crate::encoders::{Encoder, Projection, ProjectionConfig};
use crate::error::{Error, Result};
use crate::network::Entry;
use crate::spaces::linalg::Matrix;
use crate::spaces::{Basis, Frame, LeastSquares, Symmetries, Symmetry, all_along};
use crate::train::recipe::TrainRecipe;

/// Makes the fit in time solvable where there are fewer times than functions.
const RIDGE: f64 = 1e-9;

/// Samples whose targets are left out for a look at what fits say of them.
const LOOKED_AT: usize = 16;

/// So many known targets for every function make a fit of a sample good enough to learn from. Of noise in the targets a
/// share of functions/targets stays in the coefficients: half at two, where fits at scattered places also stop
/// depending on the prior. With fewer the prior has to be right: where fits miss targets that they do not see by less than
/// this share of their spread, it is, and there is hardly any noise.
const ENOUGH: usize = 2;
const CLOSE: f64 = 0.1;

/// Whether coefficients are compared where the recipe does not say, and why; none where there is nothing to choose.
pub(crate) fn choose(
    decoder: &Decoder,
    options: &TrainRecipe,
    meta: &Meta,
    train: &[Sample],
) -> Option<(bool, String)> {
    let basis = decoder.basis().filter(|_| options.coefficients.is_none())?;
    let known = |s: &Sample| {
        let columns = 0..s.targets.width();
        let counts = columns.map(|c| s.targets.column(c).filter(|v| !v.is_nan()).count());
        counts.min().unwrap_or(0)
    };
    let fewest = train.iter().map(known).min().unwrap_or(0);
    let counts = format!(
        "a sample has {fewest} known targets or more, and the decoder {} functions",
        basis.len()
    );
    let in_time = || {
        let (axes, times) = (basis.frame().lo.len(), basis.frame().times);
        let apart = |s: &Sample| cells_in_time(axes, &s.query_coords, &s.targets).is_err();
        times > 0 && train.iter().any(apart)
    };
    let fixed = || {
        let (projection, _) = projection_on(basis, 1);
        options.symmetries.any() && !projection.has_symmetries(options.symmetries, meta.space())
    };
    let few = fewest < ENOUGH * basis.len();
    let missed = || match basis.frame().times {
        0 => missed(basis, train),
        _ => None,
    };
    let missed = few.then(missed).flatten().unwrap_or(1.0);
    let against = if options.queries.is_some() {
        "the recipe asks for some of the queries".into()
    } else if decoder.has_functions_of_covariates() {
        "the decoder has functions of the covariates of queries, which are found in the training"
            .into()
    } else if few && missed > CLOSE {
        format!(
            "{counts}; {ENOUGH} targets for each are wanted, or fits that miss what they do not see by less than {:.0} % of its spread",
            100.0 * CLOSE
        )
    } else if functions_of_space(basis) > MOST_PROJECTED {
        format!("fits have at most {MOST_PROJECTED} functions")
    } else if fixed() {
        "the decoder's functions do not have the symmetries".into()
    } else if in_time() {
        "the targets do not stand at the same places at all times".into()
    } else if few {
        let close = format!(
            "{counts}; fits miss targets that they do not see by {:.1} % of their spread",
            100.0 * missed
        );
        return Some((true, close));
    } else {
        return Some((true, counts));
    };
    Some((false, against))
}

/// By which share of their spread fits in these functions miss targets that they do not see, where samples have enough to
/// leave some out.
fn missed(basis: &Basis, train: &[Sample]) -> Option<f64> {
    let axes = basis.frame().lo.len();
    let (projection, mut entries) = projection_on(basis, train.first()?.targets.width());
    let some = all_along(train, LOOKED_AT).map(|s| Sensors {
        coords: s.query_coords.first_columns(axes).into_owned(),
        values: s.targets.clone(),
    });
    let some: Vec<Sensors> = some.collect();
    let some: Vec<&Sensors> = some.iter().collect();
    projection.choose(&mut entries, &some);
    projection.left_out(&entries, &some)
}

fn functions_of_space(basis: &Basis) -> usize {
    basis.len() / basis.frame().times.max(1)
}

/// The fit of so many values in the functions of space.
fn projection_on(basis: &Basis, values: usize) -> (Projection, Vec<Entry>) {
    let config = ProjectionConfig {
        group: None,
        frame: basis.frame().space(),
        functions: functions_of_space(basis),
    };
    Projection::alone(&config, values, &[])
}

/// The targets of all training samples.
pub(crate) struct TargetFits {
    projection: Projection,
    /// For every component and function of time, all functions of space.
    fits: Vec<Vec<f32>>,
    /// Root mean squares of the targets in physical units.
    norms: Vec<f32>,
    /// √‖τ_k‖² of every number of β.
    roots: Arc<Vec<f32>>,
    outputs: usize,
    times: usize,
}

/// The targets of one sample, in the order of β.
pub(crate) struct TargetCoefficients {
    pub coefs: Vec<f32>,
    /// Root mean squares of the functions that the coefficients belong to.
    pub roots: Arc<Vec<f32>>,
    pub outputs: usize,
    /// Root mean square of the targets in physical units.
    pub norm: f32,
}

impl TargetFits {
    /// For a decoder with this basis for each of its components. `norms` are the root mean squares of the
    /// targets in physical units. The fits can be transformed by the symmetries on the box of `coords`.
    pub fn new(
        basis: &Basis,
        samples: &[ScaledSample],
        norms: Vec<f32>,
        symmetries: Symmetries,
        coords: &[Channel],
    ) -> Result<Self> {
        let (times, outputs) = (basis.frame().times.max(1), samples[0].targets.width());
        let refuse = |what: String| Err(Error::setting("train.coefficients", what));
        let functions = functions_of_space(basis);
        if functions > MOST_PROJECTED {
            return refuse(format!(
                "it fits at most {MOST_PROJECTED} functions of the decoder, not {functions}"
            ));
        }
        let (projection, mut entries) = projection_on(basis, outputs * times);
        if symmetries.any() && !projection.has_symmetries(symmetries, coords) {
            let Frame { lo, hi, .. } = basis.frame().space();
            let boxes = coords.iter().map(|c| c.range.unwrap_or([f64::NAN; 2]));
            return refuse(format!(
                "the decoder's functions do not have these symmetries: its box is {lo:?} to {hi:?}, that of the sensors has the ends {:?}; they must be the same, and shifts need periodic functions. Leave out symmetries that the problem does not have (symmetries = {{}}), or set coefficients = false",
                boxes.collect::<Vec<_>>()
            ));
        }
        let axes = basis.frame().lo.len();
        let space = |s: &ScaledSample| match basis.frame().times {
            0 => Ok(Sensors {
                coords: s.queries.first_columns(axes).into_owned(),
                values: s.targets.clone(),
            }),
            _ => fit_in_time(basis.frame(), s),
        };
        let known = samples
            .par_iter()
            .enumerate()
            .map(|(index, s)| space(s).map_err(|what| Error::sample(index, what)));
        let known = known.collect::<Result<Vec<Sensors>>>()?;
        let known: Vec<&Sensors> = known.iter().collect();
        projection.choose(&mut entries, &known);
        let fits = projection.fits(&entries, &known);
        // Of a component that a sample does not know there are no coefficients.
        let lost = |(fit, sample): (&Vec<f32>, &&Sensors)| {
            let own = fit.chunks_exact(fit.len() / sample.values.width());
            own.enumerate().any(|(c, own)| {
                let known = sample.values.column(c).any(|v| !v.is_nan());
                known && own.iter().any(|v| !v.is_finite())
            })
        };
        if let Some(index) = fits.iter().zip(&known).position(lost) {
            let what = "its targets have no finite fit; do some stand far outside of the frame of the recipe?";
            return Err(Error::sample(index, what));
        }
        let squares = basis.mean_squares();
        let roots = squares.iter().map(|s| s.sqrt() as f32).collect::<Vec<_>>();
        Ok(Self {
            fits,
            projection,
            norms,
            roots: Arc::new(roots.repeat(outputs)),
            outputs,
            times,
        })
    }

    /// Those of a sample, or of its image.
    pub fn of(&self, sample: usize, symmetry: Option<&Symmetry>) -> TargetCoefficients {
        let basis = self.projection.basis().expect("a projection");
        let mut fit = self.fits[sample].clone();
        if let Some(symmetry) = symmetry {
            basis.transform(&mut fit, symmetry);
        }
        // In the order of β: for every component all functions of space, each with all functions of time.
        let (all, times, own) = (basis.len(), self.times, self.roots.len() / self.outputs);
        let arranged = (0..self.outputs * own).map(|i| {
            let (c, k, l) = (i / own, i % own / times, i % times);
            fit[(c * times + l) * all + k]
        });
        TargetCoefficients {
            coefs: arranged.collect(),
            roots: self.roots.clone(),
            outputs: self.outputs,
            norm: self.norms[sample],
        }
    }

    /// What the fit of a sample says at some places, as the network would answer.
    pub fn evaluate(&self, basis: &Basis, sample: usize, coords: &Rows) -> Rows {
        let (n, beta) = (basis.len(), self.of(sample, None).coefs);
        let axes = basis.frame().lo.len();
        let features = basis.evaluate(coords.first_columns(axes).data(), n);
        let values = features.chunks_exact(n).flat_map(|row| {
            beta.chunks_exact(n)
                .map(move |own| row.iter().zip(own).map(|(f, b)| f * b).sum::<f32>())
        });
        Rows::of(self.outputs, values.collect())
    }
}

/// Targets that stand at the same places at all times.
struct InTime {
    places: Vec<f32>,
    times: Vec<f32>,
    /// Place by place, time by time, all components.
    table: Vec<f32>,
}

/// Sorts targets by place and time, the last of the `axes`.
fn cells_in_time(
    axes: usize,
    queries: &Rows,
    targets: &Rows,
) -> std::result::Result<InTime, String> {
    let (dim, outputs) = (axes - 1, targets.width());
    if targets.has_gaps() {
        return Err("coefficients = true needs all targets where the output lives in time, but some are missing; set coefficients = false".into());
    }
    let bits = |p: &[f32]| p.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let (mut places, mut times) = (HashMap::new(), HashMap::new());
    let (mut coords, mut moments) = (Vec::new(), Vec::new());
    let mut cells = Vec::with_capacity(queries.len());
    for point in queries.iter() {
        let (place, time) = point[..dim + 1].split_at(dim);
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
    for ((i, j), target) in cells.iter().zip(targets.iter()) {
        table[(i * t + j) * outputs..][..outputs].copy_from_slice(target);
    }
    // As many, but some twice.
    if table.iter().any(|v| v.is_nan()) {
        return Err(scattered);
    }
    Ok(InTime {
        places: coords,
        times: moments,
        table,
    })
}

/// Places in space and, for values there, the coefficients in time of every component.
fn fit_in_time(frame: &Frame, sample: &ScaledSample) -> std::result::Result<Sensors, String> {
    let (dim, outputs) = (frame.lo.len() - 1, sample.targets.width());
    let cells = cells_in_time(frame.lo.len(), &sample.queries, &sample.targets)?;
    let InTime {
        places: coords,
        times: moments,
        table,
    } = cells;
    let (m, t) = (coords.len() / dim, moments.len());
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
        return Err("the decoder's functions of time are not finite at the targets".into());
    }
    let values = (0..m * outputs * n).map(|at| fits[(at % n, at / n)] as f32);
    let values = values.collect();
    Ok(Sensors {
        coords: Rows::of(dim, coords),
        values: Rows::of(outputs * n, values),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::relative_l2;
    use crate::rng::stream;
    use crate::spaces::Family;
    use rand::RngExt;

    fn unit_square() -> [Channel; 2] {
        let range = Some([0.0, 1.0]);
        ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        })
    }

    fn fitted(
        basis: &Basis,
        samples: &[ScaledSample],
        symmetries: Symmetries,
    ) -> Result<TargetFits> {
        let norms = vec![1.0; samples.len()];
        TargetFits::new(basis, samples, norms, symmetries, &unit_square())
    }

    /// A sample whose two targets are functions of the basis, at random places (and all times), with their
    /// coefficients.
    fn sample(basis: &Basis, seed: u64) -> (ScaledSample, Vec<f32>) {
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
        let points = Rows::of(width, points.concat());
        let n = basis.len();
        let coefs: Vec<f32> = (0..2 * n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let values = basis.evaluate(points.data(), n);
        let value = |row: &[f32], c: usize| -> f32 {
            row.iter().zip(&coefs[c * n..]).map(|(f, c)| f * c).sum()
        };
        let targets = values
            .chunks(n)
            .flat_map(|row| [value(row, 0), value(row, 1)]);
        let sample = ScaledSample {
            groups: vec![Sensors {
                coords: Rows::of(2, vec![0.2, 0.7]),
                values: Rows::of(1, vec![1.0]),
            }],
            targets: Rows::of(2, targets.collect()),
            queries: Arc::new(points),
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
    fn functions_of_the_basis_are_found_again() {
        for basis in bases() {
            let made: Vec<(ScaledSample, Vec<f32>)> = (0..4).map(|i| sample(&basis, i)).collect();
            let samples: Vec<ScaledSample> = made.iter().map(|m| m.0.clone()).collect();
            let fitted = fitted(&basis, &samples, Symmetries::default()).unwrap();
            for i in [2, 0] {
                let answer = fitted.of(i, None);
                assert_eq!(answer.coefs.len(), 2 * basis.len());
                for (found, wanted) in answer.coefs.iter().zip(&made[i].1) {
                    assert!((found - wanted).abs() < 1e-2, "{found} {wanted}");
                }
                let found = fitted.evaluate(&basis, i, &samples[i].queries);
                assert!(relative_l2(&found, &samples[i].targets) < 1e-2);
            }
        }
    }

    /// Transformed answers are the functions that have the transformed targets at the images of the queries.
    #[test]
    fn answers_move_with_the_queries() {
        for basis in bases() {
            let family = basis.frame().family;
            let symmetries = Symmetries {
                flips: true,
                swaps: true,
                shifts: family == Family::Periodic,
                odd: true,
            };
            // Whole shells, so that no function is taken out of the basis.
            let times = basis.frame().times.max(1);
            let whole = Basis::whole(basis.frame().space(), basis.len() / times);
            let basis = Basis::new(basis.frame().clone(), whole.len() * times);
            let samples: Vec<ScaledSample> = (0..4).map(|i| sample(&basis, i).0).collect();
            let fitted = fitted(&basis, &samples, symmetries).unwrap();
            for (seed, picked) in [(0, 1), (1, 3), (2, 1), (3, 0)] {
                let symmetry = symmetries.draw(2, &mut stream(seed, "symmetry", 0));
                let answer = fitted.of(picked, Some(&symmetry));
                let mut queries = (*samples[picked].queries).clone();
                let width = queries.width();
                for point in queries.data_mut().chunks_exact_mut(width) {
                    symmetry.move_point(point, &[[0.0, 1.0]; 2]);
                }
                let mut targets = samples[picked].targets.clone();
                symmetry.turn_sign(targets.data_mut());
                let n = basis.len();
                let values = basis.evaluate(queries.data(), n);
                for (row, wanted) in values.chunks_exact(n).zip(targets.iter()) {
                    for (own, wanted) in answer.coefs.chunks_exact(n).zip(wanted) {
                        let found: f32 = row.iter().zip(own).map(|(f, c)| f * c).sum();
                        assert!(
                            (found - wanted).abs() < 5e-2,
                            "{family:?} {seed}: {found} {wanted}"
                        );
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
        sample.queries = Arc::new(sample.queries.select(&all));
        let samples = [sample];
        let error = fitted(basis, &samples, Symmetries::default())
            .err()
            .unwrap();
        let words = error.to_string();
        assert!(words.contains("at the same places at all times"), "{words}");
    }

    /// Functions that are not those of the sensors' box, or not periodic where shifts are wanted, are not moved.
    #[test]
    fn symmetries_that_the_basis_does_not_have_are_refused() {
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
            assert!(words.contains("do not have these symmetries"), "{words}");
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
