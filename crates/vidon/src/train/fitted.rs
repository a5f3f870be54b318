//! Training targets as coefficients of a fixed trunk, found once by the regularised least squares of a [projection](crate::models::ProjectionConfig). A step then compares β with them,
//!
//!   ‖u - Σ_k β_k τ_k‖² ≈ Σ_k ‖τ_k‖² (c_k - β_k)²,
//!
//! which uses all targets of a sample at the price of none. Where the trunk has functions of time, the targets at a place are fitted in time first, and their
//! coefficients in space then: the same places are needed at all times.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::data::{Answers, Rows, Sample};
use crate::error::{Error, Result};
use crate::linalg::{cholesky_solve, factorise};
use crate::models::{Basis, Frame, Projection, ProjectionConfig};

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
    /// For a trunk with this basis for each of its components; `samples` as the network sees them, `physical` as they are.
    pub fn new(basis: &Basis, samples: &[Sample], physical: &[Sample]) -> Result<Self> {
        let (times, outputs) = (basis.frame().times.max(1), samples[0].targets.width());
        let space = |s: &Sample| match basis.frame().times {
            0 => Ok(Sample {
                sensor_coords: (*s.query_coords).clone(),
                sensor_values: s.targets.clone(),
                ..s.clone()
            }),
            _ => fit_in_time(basis.frame(), s),
        };
        let seen = samples.par_iter().enumerate().map(|(i, s)| {
            space(s).map_err(|what| Error::Setting(format!("training sample {i}: {what}")))
        });
        let seen = seen.collect::<Result<Vec<Sample>>>()?;
        let config = ProjectionConfig {
            frame: basis.frame().space(),
            functions: basis.len() / times,
        };
        let (projection, mut entries) = Projection::alone(&config, outputs * times);
        projection.fit(&mut entries, &seen)?;
        let squares = basis.mean_squares();
        let roots = squares.iter().map(|s| s.sqrt() as f32).collect::<Vec<_>>();
        Ok(Self {
            fits: projection.fits(&entries, &seen),
            projection,
            norms: physical.iter().map(|s| rms(&s.targets)).collect(),
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

    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// What the zeros of the components look like to the network, for every row of coefficients: a constant in time is that of the first function.
    pub fn zeros(&self, zeros: &[f32]) -> Vec<f32> {
        let place = |i: usize| match i % self.times {
            0 => zeros[i / self.times],
            _ => 0.0,
        };
        (0..self.outputs * self.times).map(place).collect()
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

fn rms(rows: &Rows) -> f32 {
    let squares: f64 = rows.data().iter().map(|v| (*v as f64).powi(2)).sum();
    (squares / rows.len() as f64).sqrt() as f32
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
    let mut table = vec![f32::NAN; m * t * outputs];
    for ((i, j), target) in cells.iter().zip(sample.targets.iter()) {
        table[(i * t + j) * outputs..][..outputs].copy_from_slice(target);
    }
    if cells.len() != m * t || table.iter().any(|v| v.is_nan()) {
        return Err(format!(
            "coefficients = true needs targets at the same places at all times; here {} targets stand at {m} places and {t} times",
            cells.len()
        ));
    }
    let n = frame.times;
    let features = Basis::new(frame.time(), n).evaluate(&moments, n);
    let mut factor = vec![0.0; n * n];
    for row in features.chunks(n) {
        for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            factor[i * n + j] += row[i] as f64 * row[j] as f64;
        }
    }
    if !factorise(&mut factor, n, RIDGE * t as f64) {
        return Err("the trunk's functions of time are not finite at the targets".into());
    }
    let mut values = Vec::with_capacity(m * outputs * n);
    for own in table.chunks(t * outputs) {
        for c in 0..outputs {
            let mut right = vec![0.0; n];
            for (row, target) in features.chunks(n).zip(own.chunks(outputs)) {
                let pairs = right.iter_mut().zip(row);
                pairs.for_each(|(r, f)| *r += *f as f64 * target[c] as f64);
            }
            cholesky_solve(&factor, n, &mut right);
            values.extend(right.iter().map(|v| *v as f32));
        }
    }
    Ok(Sample {
        sensor_coords: Rows::new(dim, coords),
        sensor_values: Rows::new(outputs * n, values),
        ..sample.clone()
    })
}
