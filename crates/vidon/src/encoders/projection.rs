//! Projection: what scattered sensors say of a function, by regularised least squares in a basis φ,
//!
//!   c = P (AᵀA/m + λI)⁻¹ Aᵀu/m,   A_jk = P_k φ_k(x_j),   P_k = (1 + |k|²)^{-decay/2} e^{-fall |k|}   (`spaces/least_squares.rs`).
//!
//! It takes any number of sensors, anywhere, in any order; where there are few, the prior P takes over.
//! Averages over random sensors are off by m^{-1/2}; this is nearly exact on smooth functions. The prior and
//! λ are chosen by how well left-out sensors of training samples are predicted: powers for functions of
//! finite smoothness, exponentials for analytic ones. The network sees the coefficients with the mean and
//! spread of the training set taken out.
//!
//! Where readings are missing, every column is fitted on the sensors that report it; a column that nobody reports
//! is the mean of the training set.
//!
//! Where places have covariates z_j (`spaces/covariates.rs`), the least squares has a drift: further columns z_j, and,
//! more strongly penalised, z_j φ_k and z_j². How much of it, if any, is chosen with the prior. Its coefficients are
//! further numbers behind those of the basis; no symmetry knows what they become.

use rand::seq::index;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::config::MOST_PROJECTED;
use crate::data::{Channel, Group, Rows, Sensors};
use crate::encoders::coefficients::Coefficients;
use crate::encoders::{Encoded, Encoder, numbers};
use crate::error::{Error, Result};
use crate::network::{Entry, Init, Key, Params, Plan, Tensor};
use crate::rng::stream;
use crate::spaces::linalg::Matrix;
use crate::spaces::{
    Basis, CovariateBasis, FittedBasis, Frame, LeastSquares, MEASURED, Symmetries, Symmetry,
    all_along, at_once, means_and_deviations, one_by_one, side_by_side,
};

/// Choices of decay, of fall (one of the two is zero) and of λ.
const DECAYS: [f64; 8] = [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0];
const FALLS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
const RIDGES: [f64; 8] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8];
/// Choices of how large the coefficients of a linear drift are taken to be, and those of its products and squares.
const DRIFTS: [[f64; 2]; 4] = [[0.0, 0.0], [3.0, 0.0], [3.0, 0.3], [3.0, 1.0]];
/// Training samples that the choice looks at, and the share of their sensors that is left out: one in so many.
const TRIALS: usize = 24;
const LEFT_OUT: usize = 8;
/// Fewer samples are looked at where their number times that of the unknowns cubed would be larger.
const MOST_WORK: f64 = 4e9;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionConfig {
    /// Which group; the only one of its kind where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default)]
    pub frame: Frame,
    /// Number of basis functions, at least: those with the |k| of the last all belong to it.
    pub functions: usize,
}

impl ProjectionConfig {
    pub(super) fn fault(&self, coords: &[Channel]) -> Option<String> {
        if !(1..=MOST_PROJECTED).contains(&self.functions) {
            return Some(format!(
                "a projection has 1 to {MOST_PROJECTED} functions, not {}",
                self.functions
            ));
        }
        if self.frame.times > 0 {
            return Some("times belong to the frame of a decoder, not of a projection".into());
        }
        self.frame.fault(coords)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Projection {
    functions: CovariateBasis,
    values: usize,
    /// Not trained: decay, λ and fall.
    prior: Key,
    coefficients: Coefficients,
    /// What a column that nobody reports is taken for, where readings may be missing: not trained.
    typical: Option<Key>,
    drift: Option<Drift>,
}

/// What covariates add to the least squares; nothing of it is trained.
#[derive(Clone, Debug)]
struct Drift {
    names: Vec<String>,
    /// Mean and spread of every covariate, `[2, covariates]`.
    covariates: Key,
    /// One of [`DRIFTS`].
    prior: Key,
    /// Mean and spread of every coefficient, `[2, count]`.
    standard: Key,
    count: usize,
}

impl Projection {
    pub fn new(
        plan: &mut Plan,
        config: &ProjectionConfig,
        prefix: &str,
        group: &Group,
        standardised: bool,
    ) -> Self {
        let basis = Basis::whole(config.frame.clone(), config.functions);
        let names = group.coords[group.coordinates().len()..].iter();
        let names: Vec<String> = names.map(|c| c.name.clone()).collect();
        let functions = CovariateBasis::new(basis, names.len());
        let values = group.values.len();
        let outputs = functions.basis().len() * values;
        let count = functions.further() * values;
        let name = format!("{prefix}projection");
        let prior = plan.add(format!("{name}.prior"), &[3], Init::Fixed);
        let typical = || plan.add(format!("{name}.typical"), &[outputs + count], Init::Fixed);
        let typical = group.gaps.then(typical);
        let coefficients = Coefficients::new(plan, &name, outputs, standardised);
        let mut fixed =
            |part: &str, shape: &[usize]| plan.add(format!("{name}.{part}"), shape, Init::Fixed);
        let drift = (!names.is_empty()).then(|| Drift {
            covariates: fixed("covariates", &[2, names.len()]),
            prior: fixed("drift", &[2]),
            standard: fixed("drift.standard", &[2, count]),
            names,
            count,
        });
        Self {
            functions,
            values,
            prior,
            coefficients,
            typical,
            drift,
        }
    }

    /// With numbers of its own, outside of any network, for so many values at places with such covariates.
    pub fn alone(
        config: &ProjectionConfig,
        values: usize,
        covariates: &[Channel],
    ) -> (Self, Vec<Entry>) {
        let mut plan = Plan::new(stream(0, "projection", 0), usize::MAX);
        let channels = (0..values).map(|i| Channel::named(i.to_string()));
        let group = Group::field("", covariates.to_vec(), channels.collect());
        let projection = Self::new(&mut plan, config, "", &group, false);
        (projection, plan.draw())
    }

    /// Its functions, with what is known of their covariates.
    fn functions(&self, entries: &[Entry]) -> FittedBasis<'_> {
        match &self.drift {
            Some(drift) => self.functions.fitted(drift.covariates.of(entries)),
            None => self.functions.plain(),
        }
    }

    /// Measures the covariates, and chooses prior, λ and drift by how well left-out sensors are predicted. Where
    /// samples have few sensors none is left out, and the choice stays what it is.
    pub fn choose(&self, entries: &mut [Entry], samples: &[&Sensors]) {
        if let Some(drift) = &self.drift {
            let axes = self.functions.basis().frame().lo.len();
            let places = samples.iter().flat_map(|s| s.coords.iter());
            let found = means_and_deviations(places.map(|p| &p[axes..]), drift.names.len());
            drift.covariates.set(entries, found);
        }
        let trials = self.trials(entries, samples);
        let powers = DECAYS.map(|decay| (decay, 0.0));
        let exponentials = FALLS.map(|fall| (0.0, fall));
        let mut shapes: Vec<(f64, f64)> = powers.into_iter().chain(exponentials).collect();
        if trials.is_empty() {
            shapes.clear();
        }
        let drifts = match &self.drift {
            Some(_) => &DRIFTS[..],
            None => &DRIFTS[..1],
        };
        let pairs = drifts
            .iter()
            .flat_map(|d| shapes.iter().map(move |s| (*d, *s)));
        let mut best = (f64::INFINITY, [2.0, 1e-3, 0.0], DRIFTS[0]);
        for (drift, (decay, fall)) in pairs {
            let amplitudes = self.amplitudes([decay, fall], drift);
            let weighed = trials.par_iter().map(|t| (t, t.kept.weigh(&amplitudes)));
            let weighed: Vec<_> = weighed.collect();
            let mut before = f64::INFINITY;
            for ridge in RIDGES {
                let misses = weighed.par_iter().map(|(t, w)| t.miss(&w.solve(ridge)));
                // In order, for the same bits on any number of threads.
                let miss: f64 = misses.collect::<Vec<f64>>().iter().sum();
                if miss < best.0 {
                    best = (miss, [decay as f32, ridge as f32, fall as f32], drift);
                }
                // Smaller ones are taken to follow the noise still more closely.
                if miss > before {
                    break;
                }
                before = miss;
            }
        }
        self.prior.set(entries, best.1.to_vec());
        if let Some(drift) = &self.drift {
            drift.prior.set(entries, best.2.map(|v| v as f32).to_vec());
        }
    }

    /// Some samples that have sensors enough to leave some out; those with gaps column by column.
    fn trials(&self, entries: &[Entry], samples: &[&Sensors]) -> Vec<Trial> {
        let functions = &self.functions(entries);
        let enough = |s: &&Sensors| s.len() >= 2 * LEFT_OUT;
        let enough: Vec<&Sensors> = samples.iter().copied().filter(enough).collect();
        let sensors = enough.iter().map(|s| s.len()).max();
        let size = self.functions.len().min(sensors.unwrap_or(1)) as f64;
        let count = ((MOST_WORK / size.powi(3)) as usize).clamp(1, TRIALS);
        let picked: Vec<&Sensors> = all_along(&enough, count).copied().collect();
        if picked.iter().any(|s| s.values.has_gaps()) {
            let parts = picked.par_iter().flat_map_iter(|s| s.by_column());
            let parts = parts.filter(|(_, own)| own.len() >= 2 * LEFT_OUT);
            let trials = parts.map(|(columns, own)| Trial::new(functions, &[&own], columns));
            return trials.collect();
        }
        let all = Vec::from_iter(0..self.values);
        let same = at_once(picked.iter().map(|s| s.coords.data()));
        let trials = picked.par_chunks(same);
        let trials = trials.map(|s| Trial::new(functions, s, all.clone()));
        trials.collect()
    }

    /// P of every function, for a drift of such size.
    fn amplitudes(&self, [decay, fall]: [f64; 2], drift: [f64; 2]) -> Vec<f64> {
        let orders = self.functions.basis().orders();
        let mut all: Vec<f64> = orders
            .iter()
            .map(|k| (1.0 + k * k).powf(-0.5 * decay) * (-fall * k).exp())
            .collect();
        let [linear, products] = drift;
        let further = self.functions.origins();
        let further = further.map(|o| all[o.function] * if o.linear { linear } else { products });
        let further: Vec<f64> = further.collect();
        all.extend(further);
        all
    }

    /// P and λ as they were chosen.
    fn chosen(&self, entries: &[Entry]) -> (Vec<f64>, f64) {
        let [decay, ridge, fall] = numbers_of(self.prior.of(entries));
        let drift = match &self.drift {
            Some(drift) => numbers_of(drift.prior.of(entries)),
            None => DRIFTS[0],
        };
        (self.amplitudes([decay, fall], drift), ridge)
    }

    /// The coefficients of every sample, value by value, and behind them those of the drift, value by value. Samples
    /// at the same places share the work.
    pub fn fits(&self, entries: &[Entry], samples: &[&Sensors]) -> Vec<Vec<f32>> {
        let fits = self.fits_by_value(entries, samples);
        match self.drift {
            None => fits,
            Some(_) => fits
                .into_iter()
                .map(|fit| self.drift_behind(&fit))
                .collect(),
        }
    }

    /// Takes the drift of every value behind the coefficients of all.
    fn drift_behind(&self, fit: &[f32]) -> Vec<f32> {
        let n = self.functions.basis().len();
        let own = || fit.chunks(self.functions.len());
        let bases = own().flat_map(|own| &own[..n]);
        let drifts = own().flat_map(|own| &own[n..]);
        bases.chain(drifts).copied().collect()
    }

    /// All coefficients of one value after the other.
    fn fits_by_value(&self, entries: &[Entry], samples: &[&Sensors]) -> Vec<Vec<f32>> {
        let (amplitudes, ridge) = self.chosen(entries);
        let functions = self.functions(entries);
        let solve = |coords: &Rows, known: &[&[f32]], width: usize| {
            let known = side_by_side(known, width);
            let squares = LeastSquares::with_covariates(&functions, coords.data(), &known);
            squares.weigh(&amplitudes).solve(ridge)
        };
        let single = |fit: Vec<f64>| fit.iter().map(|c| *c as f32).collect();
        if samples.iter().any(|s| s.is_empty() || s.values.has_gaps()) {
            let n = self.functions.len();
            let fit = |sensors: &&Sensors| {
                let mut all = vec![f32::NAN; n * self.values];
                for (columns, own) in sensors.by_column() {
                    let coefs = solve(&own.coords, &[own.values.data()], columns.len());
                    let fit: Vec<f32> =
                        one_by_one(&coefs, columns.len()).flat_map(single).collect();
                    for (from, to) in columns.into_iter().enumerate() {
                        all[to * n..(to + 1) * n].copy_from_slice(&fit[from * n..(from + 1) * n]);
                    }
                }
                all
            };
            return samples.par_iter().map(fit).collect();
        }
        samples
            .par_chunks(at_once(samples.iter().map(|s| s.coords.data())))
            .flat_map_iter(|same| {
                let known: Vec<&[f32]> = same.iter().map(|s| s.values.data()).collect();
                let coefs = solve(&same[0].coords, &known, self.values);
                one_by_one(&coefs, self.values)
                    .map(single)
                    .collect::<Vec<Vec<f32>>>()
            })
            .collect()
    }

    /// Columns that nobody reports are as they usually are.
    fn fill(&self, entries: &[Entry], fits: &mut [Vec<f32>], samples: &[&Sensors]) {
        let Some(key) = self.typical else {
            return;
        };
        let (n, typical) = (self.functions.basis().len(), key.of(entries));
        let (further, behind) = (self.functions.further(), n * self.values);
        for (fit, sensors) in fits.iter_mut().zip(samples) {
            for column in unreported(sensors) {
                let drift = behind + column * further..behind + (column + 1) * further;
                for own in [column * n..(column + 1) * n, drift] {
                    fit[own.clone()].copy_from_slice(&typical[own]);
                }
            }
        }
    }
}

/// Columns that no sensor reports.
fn unreported(sensors: &Sensors) -> impl Iterator<Item = usize> + '_ {
    let width = sensors.values.width();
    (0..width).filter(|&c| sensors.values.column(c).all(f32::is_nan))
}

impl Encoder for Projection {
    /// Chooses the prior and λ, and measures the coefficients of the training set.
    fn fit(&self, entries: &mut [Entry], _: &[Channel], training: &[&Sensors]) -> Result<()> {
        self.choose(entries, training);
        let standardised = self.coefficients.are_standardised() || self.drift.is_some();
        if self.typical.is_none() && !standardised {
            return Ok(());
        }
        let some: Vec<&Sensors> = all_along(training, MEASURED).copied().collect();
        let mut fits = self.fits(entries, &some);
        if let Some(key) = self.typical {
            let rows = fits.iter().map(|fit| &fit[..]);
            let mut found = means_and_deviations(rows, self.outputs());
            found.truncate(self.outputs());
            key.set(entries, found);
        }
        self.fill(entries, &mut fits, &some);
        if let Some(drift) = &self.drift {
            let count = self.coefficients.count();
            let rows = fits.iter().map(|fit| &fit[count..]);
            let found = means_and_deviations(rows, drift.count);
            drift.standard.set(entries, found);
            fits.iter_mut().for_each(|fit| fit.truncate(count));
        }
        self.coefficients.fit(entries, &fits, self.values)
    }

    fn encode(&self, entries: &[Entry], sensors: &Sensors) -> Result<Encoded> {
        Ok(self.encode_all(entries, &[sensors])?.remove(0))
    }

    /// An error where coefficients are not finite: a network may make something finite of them.
    fn encode_all(&self, entries: &[Entry], samples: &[&Sensors]) -> Result<Vec<Encoded>> {
        let mut fits = self.fits(entries, samples);
        self.fill(entries, &mut fits, samples);
        let check = |(i, fit): (usize, Vec<f32>)| match fit.iter().all(|c| c.is_finite()) {
            true => Ok(Encoded::Numbers(fit)),
            false => Err(Error::sample(
                i,
                "its sensors have no finite fit: do some stand far outside of the box of the training data?",
            )),
        };
        fits.into_iter().enumerate().map(check).collect()
    }

    fn forward(&self, params: &Params, batch: &[&Encoded]) -> Tensor<2> {
        let coefs = self.coefficients.forward(params, batch);
        let Some(drift) = &self.drift else {
            return coefs;
        };
        let own = numbers(batch).map(|numbers| &numbers[self.coefficients.count()..]);
        let own = own.collect::<Vec<_>>().concat();
        let own = params.place().tensor(own, [batch.len(), drift.count]);
        let standard = params.get::<2>(drift.standard);
        let [mean, spread] = [0, 1].map(|i| standard.clone().narrow(0, i, 1));
        Tensor::cat(vec![coefs, (own - mean) / spread], 1)
    }

    fn outputs(&self) -> usize {
        self.coefficients.count() + self.drift.as_ref().map_or(0, |d| d.count)
    }

    fn basis(&self) -> Option<&Basis> {
        Some(self.functions.basis())
    }

    fn fitted(&self, entries: &[Entry]) -> Option<FittedBasis<'_>> {
        Some(self.functions(entries))
    }

    fn drift(&self, entries: &[Entry]) -> Option<String> {
        let drift = self.drift.as_ref()?;
        let names = drift.names.join(", ");
        Some(match drift.prior.of(entries) {
            [0.0, _] => format!("{names} left aside"),
            [_, 0.0] => format!("with {names}"),
            _ => format!("with {names}, its square and its products with the place"),
        })
    }

    fn sees_covariates(&self) -> bool {
        self.drift.is_some()
    }

    fn functions(&self) -> usize {
        self.values
    }

    /// Of the readings.
    fn function_moments(&self, _: &[Entry], training: &[&Sensors]) -> Vec<[f32; 2]> {
        let values = training.iter().map(|s| s.values.data());
        let found = means_and_deviations(values, self.values);
        let (means, spreads) = found.split_at(self.values);
        let pairs = means.iter().zip(spreads);
        pairs.map(|(mean, spread)| [*mean, *spread]).collect()
    }

    fn has_symmetries(&self, symmetries: Symmetries, coords: &[Channel]) -> bool {
        let basis = self.functions.basis();
        self.drift.is_none() && basis.has_symmetries_of(symmetries, coords)
    }

    fn transform(&self, encoded: &mut Encoded, symmetry: &Symmetry, _: &[[f64; 2]]) {
        if let Encoded::Numbers(coefs) = encoded {
            self.functions.basis().transform(coefs, symmetry);
        }
    }

    /// How far left-out sensors are from what the others say of them, as a share of the spread of the
    /// readings; none where samples have few sensors, or read the same everywhere.
    fn left_out(&self, entries: &[Entry], training: &[&Sensors]) -> Option<f64> {
        let (amplitudes, ridge) = self.chosen(entries);
        let trials = self.trials(entries, training);
        let far = trials
            .par_iter()
            .map(|t| t.far(&t.kept.weigh(&amplitudes).solve(ridge)));
        let far: Vec<Matrix> = far.collect();
        // Component by component: they may be of any size.
        let share = |component: usize| {
            let own = |(trial, m): (&Trial, &Matrix)| -> Vec<f64> {
                let width = trial.columns.len();
                let columns = (0..m.columns()).filter(|c| trial.columns[c % width] == component);
                let cells = columns.flat_map(|c| (0..m.rows()).map(move |r| (r, c)));
                cells.map(|cell| m[cell]).collect()
            };
            let mean_square = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>() / v.len() as f64;
            let truth = trials.iter().flat_map(|t| own((t, &t.truth)));
            let truth: Vec<f64> = truth.collect();
            let missed: Vec<f64> = trials.iter().zip(&far).flat_map(own).collect();
            let mean = truth.iter().sum::<f64>() / truth.len() as f64;
            mean_square(&missed) / (mean_square(&truth) - mean * mean)
        };
        let shares = (0..self.values).map(share);
        let shares: Vec<f64> = shares.filter(|s| s.is_finite() && *s >= 0.0).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        mean.is_finite().then(|| mean.sqrt())
    }
}

/// As they are worked with.
fn numbers_of<const N: usize>(prior: &[f32]) -> [f64; N] {
    std::array::from_fn(|i| prior[i] as f64)
}

/// Samples that stand at the same places, with some sensors left out.
struct Trial {
    kept: LeastSquares,
    /// The functions at the sensors left out, and what was read there: a column a component of every sample.
    features: Matrix,
    truth: Matrix,
    /// The length of all readings of every column's sample.
    norms: Vec<f64>,
    /// Which columns of a sample they are.
    columns: Vec<usize>,
}

impl Trial {
    fn new(functions: &FittedBasis, samples: &[&Sensors], columns: Vec<usize>) -> Self {
        let (coords, width) = (&samples[0].coords, samples[0].values.width());
        let rng = &mut stream(0, "left out", coords.len() as u64);
        let mut shuffled = index::sample(rng, coords.len(), coords.len()).into_vec();
        let kept = shuffled.split_off(coords.len() / LEFT_OUT);
        let read = |at: &[usize]| {
            let values: Vec<Rows> = samples.iter().map(|s| s.values.select(at)).collect();
            side_by_side(&Vec::from_iter(values.iter().map(|v| v.data())), width)
        };
        let places = coords.select(&shuffled);
        let norm = |s: &&Sensors| squares(s.values.data()).sqrt();
        let known = read(&kept);
        Self {
            kept: LeastSquares::with_covariates(functions, coords.select(&kept).data(), &known),
            features: Matrix::single(functions.len(), &functions.evaluate(places.data())),
            truth: read(&shuffled),
            norms: samples.iter().map(norm).collect(),
            columns,
        }
    }

    /// What is missed at the left-out sensors.
    fn far(&self, coefs: &Matrix) -> Matrix {
        let mut far = self.truth.clone();
        far.add_product(-1.0, self.features.view(), coefs.view());
        far
    }

    /// The errors of such coefficients at the left-out sensors, relative to all readings, summed over the samples.
    fn miss(&self, coefs: &Matrix) -> f64 {
        let far = self.far(coefs);
        let width = far.columns() / self.norms.len();
        let miss = |(i, norm): (usize, &f64)| {
            let own = far.numbers().chunks(far.columns());
            let own = own.flat_map(|row| &row[i * width..][..width]);
            own.map(|v| v * v).sum::<f64>().sqrt() / norm.max(f64::MIN_POSITIVE)
        };
        let sum: f64 = self.norms.iter().enumerate().map(miss).sum();
        // Sums that are not finite lose.
        if sum.is_finite() { sum } else { f64::MAX }
    }
}

fn squares(values: &[f32]) -> f64 {
    values.iter().map(|v| (*v as f64).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::Family;
    use rand::RngExt;

    fn on_unit_square(family: Family, functions: usize) -> ProjectionConfig {
        let frame = Frame {
            lo: vec![0.0; 2],
            hi: vec![1.0; 2],
            family,
            times: 0,
        };
        ProjectionConfig {
            group: None,
            frame,
            functions,
        }
    }

    fn smooth(m: usize, index: u64) -> Sensors {
        let mut rng = stream(5, "smooth", index);
        let (a, b) = (
            rng.random_range(-1.0..1.0f32),
            rng.random_range(-1.0..1.0f32),
        );
        let places: Vec<f32> = (0..2 * m).map(|_| rng.random()).collect();
        let tau = std::f32::consts::TAU;
        let u = |p: &[f32]| 0.3 + a * (tau * p[0]).cos() + b * (tau * (p[0] - 2.0 * p[1])).sin();
        Sensors {
            values: Rows::of(1, places.chunks(2).map(u).collect()),
            coords: Rows::of(2, places),
        }
    }

    /// A trigonometric polynomial is recovered from scattered sensors; the order of the sensors does not
    /// matter; one sensor is enough for an answer.
    #[test]
    fn smooth_functions_are_recovered_from_scattered_sensors() {
        let (projection, mut entries) =
            Projection::alone(&on_unit_square(Family::Periodic, 49), 1, &[]);
        let samples: Vec<Sensors> = (0..30).map(|i| smooth(150, i)).collect();
        let refs: Vec<&Sensors> = samples.iter().collect();
        projection.fit(&mut entries, &[], &refs).unwrap();
        let fresh = smooth(150, 99);
        let coefs = projection.fits(&entries, &[&fresh]).remove(0);
        let features = projection
            .functions
            .basis()
            .evaluate(fresh.coords.data(), 49);
        let worst = features
            .chunks(49)
            .zip(fresh.values.data())
            .map(|(row, t)| (row.iter().zip(&coefs).map(|(f, c)| f * c).sum::<f32>() - t).abs());
        assert!(worst.fold(0.0, f32::max) < 2e-3);
        let run = |s: &Sensors| projection.fits(&entries, &[s]).remove(0);
        let order: Vec<usize> = (0..150).rev().collect();
        for (a, b) in run(&fresh).iter().zip(run(&fresh.select(&order))) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        assert!(run(&smooth(1, 7)).iter().all(|c| c.is_finite()));
    }

    #[test]
    fn left_out_sensors_tell_what_a_fit_is_worth() {
        let (projection, mut entries) =
            Projection::alone(&on_unit_square(Family::Periodic, 49), 1, &[]);
        let mut samples: Vec<Sensors> = (0..30).map(|i| smooth(150, i)).collect();
        let left_out = |samples: &[Sensors], entries: &mut [Entry]| {
            let samples: Vec<&Sensors> = samples.iter().collect();
            projection.choose(entries, &samples);
            projection.left_out(entries, &samples)
        };
        assert!(left_out(&samples, &mut entries).unwrap() < 1e-3);
        // Of noise nothing is known: the prior keeps the fit near its mean.
        for (i, sample) in samples.iter_mut().enumerate() {
            let rng = &mut stream(6, "noise", i as u64);
            let noise = (0..150).map(|_| rng.random_range(-1.0..1.0)).collect();
            sample.values = Rows::of(1, noise);
        }
        let share = left_out(&samples, &mut entries).unwrap();
        assert!((0.9..1.2).contains(&share), "{share}");
        for sample in &mut samples {
            sample.values = Rows::of(1, vec![0.0; 150]);
        }
        assert_eq!(left_out(&samples, &mut entries), None);
        let few: Vec<Sensors> = (0..3).map(|i| smooth(5, i)).collect();
        assert_eq!(left_out(&few, &mut entries), None);
    }

    /// A small component beside a large one is seen in its own units.
    #[test]
    fn what_is_left_out_is_told_by_component() {
        let (projection, mut entries) =
            Projection::alone(&on_unit_square(Family::Periodic, 49), 2, &[]);
        let mixed = |i: u64| {
            let (mut sample, rng) = (smooth(150, i), &mut stream(6, "noise", i));
            let noise = |v: &f32| [*v, 1.0 + rng.random_range(-1e-2..1e-2f32)];
            let both = sample.values.data().iter().flat_map(noise);
            sample.values = Rows::of(2, both.collect());
            sample
        };
        let samples: Vec<Sensors> = (0..30).map(mixed).collect();
        let samples: Vec<&Sensors> = samples.iter().collect();
        projection.choose(&mut entries, &samples);
        // Nothing of the first is missed, and all of the second.
        let share = projection.left_out(&entries, &samples).unwrap();
        assert!((0.6..1.0).contains(&share), "{share}");
    }

    /// Coefficients of a front fall like e^{-c|k|}, which no power does: the exponential prior is found, and
    /// the front between its sensors.
    #[test]
    fn the_prior_of_analytic_functions_is_exponential() {
        let config = on_unit_square(Family::Legendre, 105);
        let (projection, mut entries) = Projection::alone(&config, 1, &[]);
        let front = |p: &[f32], index: u64| (6.0 * (p[0] + 0.5 * p[1]) - 0.3 * index as f32).tanh();
        let fronts: Vec<Sensors> = (0..24)
            .map(|index| {
                let mut sample = smooth(400, index);
                let values = sample.coords.iter().map(|p| front(p, index));
                sample.values = Rows::of(1, values.collect());
                sample
            })
            .collect();
        let fronts: Vec<&Sensors> = fronts.iter().collect();
        projection.choose(&mut entries, &fronts);
        let [decay, _, fall] = projection.prior.of(&entries)[..] else {
            panic!("a prior has three numbers");
        };
        assert!(decay == 0.0 && fall > 0.0, "{decay} {fall}");
        let coefs = projection.fits(&entries, &fronts[3..4]).remove(0);
        let rng = &mut stream(7, "places", 0);
        let places: Vec<f32> = (0..128).map(|_| rng.random_range(0.05..0.95)).collect();
        for place in places.chunks(2) {
            let row = projection.functions.basis().evaluate(place, coefs.len());
            let found: f32 = row.iter().zip(&coefs).map(|(f, c)| f * c).sum();
            assert!((found - front(place, 3)).abs() < 0.02);
        }
    }

    fn with_height(i: u64, height: impl Fn(usize) -> f32, weight: f32) -> Sensors {
        let mut one = smooth(90, i);
        let heights: Vec<f32> = (0..90).map(height).collect();
        let values = one.values.data_mut().iter_mut().zip(&heights);
        values.for_each(|(v, h)| *v += weight * h);
        let places = one.coords.iter().zip(&heights);
        let places = places.flat_map(|(p, h)| [p[0], p[1], *h]).collect();
        Sensors {
            coords: Rows::of(3, places),
            values: one.values,
        }
    }

    fn height() -> Channel {
        Channel {
            covariate: true,
            ..Channel::named("height")
        }
    }

    /// What goes with a covariate that is rough in space is found beside what is smooth, and told; a covariate that
    /// says nothing is left aside.
    #[test]
    fn covariates_are_a_drift_where_they_help() {
        let config = on_unit_square(Family::Periodic, 49);
        let (projection, mut entries) = Projection::alone(&config, 1, &[height()]);
        let rough =
            |i: u64| move |j: usize| 50.0 + 7.0 * ((j as f32 + 91.0 * i as f32) * 0.618).fract();
        let mut left_out = |weight: f32| {
            let samples: Vec<Sensors> = (0..24).map(|i| with_height(i, rough(i), weight)).collect();
            let samples: Vec<&Sensors> = samples.iter().collect();
            projection.fit(&mut entries, &[], &samples).unwrap();
            let missed = projection.left_out(&entries, &samples).unwrap();
            let fit = projection.fits(&entries, &samples[..1]).remove(0);
            (missed, projection.drift(&entries).unwrap(), fit)
        };
        let (missed, words, fit) = left_out(0.5);
        assert!(
            missed < 0.02 && words.starts_with("with height"),
            "{missed} {words}"
        );
        assert_eq!(fit.len(), projection.outputs());
        assert_eq!(projection.outputs(), 49 + 5 + 1);
        // The spread of heights is 7/√12.
        assert!(
            (fit[49] - 0.5 * 7.0 / 12f32.sqrt()).abs() < 0.05,
            "{}",
            fit[49]
        );
        let (missed, words, fit) = left_out(0.0);
        assert!(
            missed < 0.02 && words == "height left aside",
            "{missed} {words}"
        );
        assert!(fit[49..].iter().all(|c| *c == 0.0));
        let flips = Symmetries {
            flips: true,
            ..Symmetries::default()
        };
        let range = Some([0.0, 1.0]);
        let square = ["x", "y"].map(|n| Channel {
            range,
            ..Channel::named(n)
        });
        assert!(!projection.has_symmetries(flips, &square));
        let (plain, _) = Projection::alone(&config, 1, &[]);
        assert!(plain.has_symmetries(flips, &square) && !plain.sees_covariates());
    }

    /// Of every value the drift stands behind the coefficients of all, and what nobody reports is as usual there too.
    #[test]
    fn drifts_of_columns_stand_behind_all_coefficients() {
        let group = Group {
            gaps: true,
            ..Group::field("g", vec![height()], ["a", "b"].map(Channel::named).to_vec())
        };
        let mut plan = Plan::new(stream(0, "projection", 0), usize::MAX);
        let config = on_unit_square(Family::Periodic, 49);
        let projection = Projection::new(&mut plan, &config, "", &group, true);
        let two = |i: u64| {
            let mut one = with_height(i, |j| (j * 7 % 13) as f32, 0.1 * (1 + i % 3) as f32);
            let both = one.values.data().iter().zip(one.coords.iter());
            let both = both.flat_map(|(v, p)| [*v, v - 0.3 * p[2]]).collect();
            one.values = Rows::of(2, both);
            one
        };
        let samples: Vec<Sensors> = (0..24).map(two).collect();
        let samples: Vec<&Sensors> = samples.iter().collect();
        let mut entries = plan.draw();
        projection.fit(&mut entries, &[], &samples).unwrap();
        let Encoded::Numbers(code) = projection.encode(&entries, samples[0]).unwrap() else {
            panic!("coefficients")
        };
        assert_eq!(code.len(), 2 * (49 + 6));
        let (a, b) = (code[98], code[98 + 6]);
        assert!((a / b + 0.5).abs() < 0.05, "{a} {b}");
        let mut silent = samples[2].clone();
        let cells = silent.values.data_mut().iter_mut().step_by(2);
        cells.for_each(|v| *v = f32::NAN);
        let Encoded::Numbers(code) = projection.encode(&entries, &silent).unwrap() else {
            panic!("coefficients")
        };
        let typical = projection.typical.unwrap().of(&entries);
        assert_eq!(code[..49], typical[..49]);
        assert_eq!(code[98..104], typical[98..104]);
        assert_ne!(code[104..], typical[104..]);
    }

    /// Every column is fitted on the sensors that report it, as if the others were not there; what nobody
    /// reports is the mean of the training set.
    #[test]
    fn columns_are_fitted_on_what_reports_them() {
        let config = on_unit_square(Family::Periodic, 49);
        let group = Group {
            gaps: true,
            ..Group::field("g", vec![], ["a", "b"].map(Channel::named).to_vec())
        };
        let mut plan = Plan::new(stream(0, "projection", 0), usize::MAX);
        let projection = Projection::new(&mut plan, &config, "", &group, true);
        let with_gaps = |i: u64| {
            let one = smooth(90, i);
            let gap = |(j, v): (usize, &f32)| match (j + i as usize) % 3 {
                0 => [f32::NAN, 1.0 - 2.0 * v],
                _ => [*v, 1.0 - 2.0 * v],
            };
            let readings = one.values.data().iter().enumerate();
            Sensors {
                values: Rows::of(2, readings.flat_map(gap).collect()),
                coords: one.coords,
            }
        };
        let samples: Vec<Sensors> = (0..30).map(with_gaps).collect();
        let refs: Vec<&Sensors> = samples.iter().collect();
        let mut entries = plan.draw();
        projection.fit(&mut entries, &[], &refs).unwrap();
        let n = projection.functions.basis().len();
        let fit = projection.fits(&entries, &refs[..1]).remove(0);
        let parts = samples[0].by_column();
        let mut alone = entries.clone();
        let (single, _) = Projection::alone(&config, 1, &[]);
        single
            .prior
            .set(&mut alone, projection.prior.of(&entries).to_vec());
        for (columns, own) in &parts {
            let column = columns[0];
            let found = single.fits(&alone, &[own]).remove(0);
            assert_eq!(found, fit[column * n..(column + 1) * n]);
        }
        assert_eq!(
            (parts.len(), parts[0].1.len(), parts[1].1.len()),
            (2, 60, 90)
        );
        // Nothing of the first column.
        let mut silent = samples[1].clone();
        let cells = silent.values.data_mut().iter_mut().step_by(2);
        cells.for_each(|v| *v = f32::NAN);
        let Encoded::Numbers(code) = projection.encode(&entries, &silent).unwrap() else {
            panic!("coefficients")
        };
        let typical = projection.typical.unwrap().of(&entries);
        assert_eq!(code[..n], typical[..n]);
        assert!(code[n..].iter().all(|c| c.is_finite()) && code[n..] != typical[n..]);
        let missed = projection.left_out(&entries, &refs).unwrap();
        assert!(missed < 0.05, "{missed}");
    }
}
