//! A Fourier neural operator between bases: what makes an FNO work with sensors anywhere.
//!
//! What every group of sensors says of a function, `Σ_k c_k φ_k`, is evaluated on the core's grid, a channel a
//! function; other numbers (scalars, what heads see) are constant channels. The FNO maps them to functions on that
//! grid; these are read back as coefficients of the trunk's basis by least squares,
//!
//!   β = (BᵀB)⁻¹Bᵀ FNO(Φ c),   Φ_ik = φ_k(x_i),   B_ik = τ_k(x_i),
//!
//! and the answer `Σ_k β_k τ_k(y)` can be asked anywhere. For outputs in space and time the FNO has a channel
//! for each function of time. On a torus the grid has no ends and the FNO needs no padding and no
//! coordinates: it then commutes with shifts.
//!
//! A covariate of sensors or queries is a further channel, as the smooth function of the place that comes nearest to its
//! values in the training data. For covariates of queries the FNO also answers what each of them, and its square, is
//! multiplied with, as functions on the grid; these are read back in the few functions that the decoder has for them.

use std::collections::HashMap;

use crate::cores::fno::{Fno, FnoConfig, MOST_AXES};
use crate::cores::{Core, Training};
use crate::data::{Channel, Group, Kind, Meta, Rows, ScaledSample, Sensors, coordinates};
use crate::decoders::BasisConfig;
use crate::domain::product;
use crate::encoders::{Encoder, Projection, ProjectionConfig};
use crate::error::Result;
use crate::network::{Entry, Extent, Init, Key, Params, Place, Plan, Tensor, linear};
use crate::spaces::linalg::{Factor, Matrix};
use crate::spaces::{Basis, CovariateBasis, Family, Frame, all_along, means_and_deviations};

/// Makes the least squares of functions that the grid hardly tells apart solvable.
const RIDGE: f64 = 1e-6;
/// Most numbers in a matrix between grid and basis.
const MOST_NUMBERS: usize = 1 << 26;
const MOST_POINTS: usize = 512;
/// Training samples and places that tell what a covariate is as a function of the place, and functions for it.
const SAMPLES: usize = 512;
const PLACES: usize = 2000;
const FUNCTIONS: usize = 100;

/// What is wrong with it between such numbers of functions of groups of sensors and such an answer, if anything.
pub(super) fn fault(
    config: &FnoConfig,
    seen: &[(usize, &Group)],
    answer: &BasisConfig,
    meta: &Meta,
) -> Option<String> {
    let (frame, answer) = (&answer.frame, answer.functions);
    let space = coordinates(&meta.query_coords).len() - (frame.times > 0) as usize;
    let other = seen.iter().find(|(_, g)| g.coordinates().len() != space);
    let axes = other.map_or(space, |(_, g)| g.coordinates().len());
    if axes != space || !(1..=MOST_AXES).contains(&axes) {
        return Some(format!(
            "an FNO core maps functions of one to {MOST_AXES} coordinates to functions of as many (and, with times, of time); here they have {axes} and {space}"
        ));
    }
    let seen = seen.iter().map(|(functions, _)| *functions).max();
    let seen = seen.unwrap_or(0);
    let points = config.points_per_axis(axes);
    if !(2..=MOST_POINTS).contains(&points) {
        return Some(format!(
            "grid = {points}: an FNO core has 2 to {MOST_POINTS} points per axis"
        ));
    }
    let all = points.pow(axes as u32);
    if all * answer.max(seen) > MOST_NUMBERS {
        return Some(format!(
            "{} functions on {all} points are too many for an FNO core",
            answer.max(seen)
        ));
    }
    // What the grid tells apart.
    let most = match frame.family {
        // The last point may be the first again.
        Family::Periodic => (points - 2) / 2,
        Family::Cosine | Family::Sine => points - 2,
        Family::Legendre => points / 2,
    };
    let reach = Basis::new(frame.space(), answer).reach();
    if reach > most {
        return Some(format!(
            "{answer} functions cannot be read off {points} points an axis: they go up to order {reach}, the grid to {most}"
        ));
    }
    config.too_coarse(&vec![points; axes])
}

/// The network; its numbers are in [`Params`].
#[derive(Clone, Debug)]
pub(super) struct FnoBetweenBases {
    fno: Fno,
    /// Points per axis.
    grid: Vec<usize>,
    seen: Vec<SeenGroup>,
    outputs: usize,
    times: usize,
    /// Covariates of queries, and the functions of space that each is multiplied with.
    covariates: usize,
    products: usize,
    /// (BᵀB)⁻¹Bᵀ, `[functions, points]`.
    read: HostMatrix,
    /// The coefficients of the function 1, `[times, functions]`.
    one: Vec<f32>,
    /// Coordinates of the grid in [-1, 1], where they are seen.
    places: Option<Vec<f32>>,
    known: Option<KnownCovariates>,
    /// Not trained: mean and spread of every function that is seen, and of every target.
    input: Key,
    output: Key,
}

/// A column of the places of a group, or (of none) of the queries.
type Side = (Option<usize>, usize);

/// Covariates as functions of the place.
#[derive(Clone, Debug)]
struct KnownCovariates {
    /// Where every one of them is known.
    sides: Vec<Vec<Side>>,
    /// The box of the grid, and the grid in it.
    frame: Frame,
    grid: Vec<f32>,
    /// Their values there, `[covariates, points]`, of mean zero and spread one: not trained.
    values: Key,
}

/// What an encoder gives: functions by their coefficients, and numbers behind them.
#[derive(Clone, Debug)]
struct SeenGroup {
    /// Φ, `[points, functions]`, where there are functions.
    evaluate: Option<HostMatrix>,
    functions: usize,
    /// The first of its functions among those of all groups.
    first: usize,
    constants: usize,
}

/// A matrix that is the same for every sample.
#[derive(Clone, Debug)]
struct HostMatrix {
    shape: [usize; 2],
    numbers: Vec<f32>,
}

impl HostMatrix {
    fn like(&self, x: &Tensor<2>) -> Tensor<2> {
        Place::of(x).tensor(self.numbers.clone(), self.shape)
    }
}

impl FnoBetweenBases {
    /// From what the encoders give to coefficients of `answer`, a basis with its functions of time and of
    /// covariates, for every target.
    pub fn new(
        plan: &mut Plan,
        config: &FnoConfig,
        encoders: &[Box<dyn Encoder>],
        answer: &CovariateBasis,
        meta: &Meta,
    ) -> Self {
        let (covariates, products) = (answer.covariates(), answer.products());
        let (answer, outputs) = (answer.basis(), meta.targets.len());
        let frame = answer.frame();
        let (space, times) = (frame.space(), frame.times.max(1));
        let (axes, coords) = (space.lo.len(), config.coords.unwrap_or(true));
        let grid = config.points_per_axis(axes);
        let bases = encoders.iter().filter_map(|e| e.basis());
        let mut frames = bases.map(Basis::frame).chain([frame]);
        let unit = unit_grid(grid, axes, frames.all(|f| f.family == Family::Periodic));
        let mut seen: Vec<SeenGroup> = Vec::new();
        for encoder in encoders {
            let first = seen.iter().map(|s| s.functions).sum();
            let (basis, functions) = (encoder.basis(), encoder.functions());
            let coefficients = basis.map_or(0, Basis::len) * functions;
            seen.push(SeenGroup {
                evaluate: basis.map(|basis| evaluation(basis, &unit)),
                functions,
                first,
                constants: encoder.outputs() - coefficients,
            });
        }
        let known = KnownCovariates::new(plan, &space, &unit, meta);
        let space = Basis::new(space, answer.len() / times);
        let read = reading(&space, &unit);
        let mut one = vec![0.0; times * space.len()];
        let rows = read.numbers.chunks(unit.len() / axes);
        one.iter_mut()
            .zip(rows)
            .for_each(|(s, row)| *s = row.iter().sum());
        let functions = seen.iter().map(|s| s.functions).sum();
        let constants: usize = seen.iter().map(|s| s.constants).sum();
        let further = known.as_ref().map_or(0, |k| k.sides.len());
        let inputs = functions + constants + if coords { axes } else { 0 } + further;
        let answers = outputs * times * (1 + 2 * covariates);
        Self {
            fno: Fno::new(plan, config, axes, inputs, answers),
            grid: vec![grid; axes],
            seen,
            outputs,
            times,
            covariates,
            products,
            read,
            one,
            known,
            places: coords.then(|| unit.iter().map(|x| 2.0 * x - 1.0).collect()),
            input: plan.add("core.input".into(), &[2, functions], Init::Fixed),
            output: plan.add("core.output".into(), &[2, outputs], Init::Fixed),
        }
    }

    /// What one encoder gives `[samples, outputs]`, at every point of the grid `[samples·points, channels]`.
    fn on_points(&self, params: &Params, own: &SeenGroup, given: Tensor<2>) -> Vec<Tensor<2>> {
        let ([samples, width], points) = (given.dims(), self.points());
        let mut channels = Vec::new();
        if let Some(evaluate) = &own.evaluate {
            let [_, functions] = evaluate.shape;
            let coefs = match own.constants {
                0 => given.clone(),
                count => given.clone().narrow(1, 0, width - count),
            };
            let matrix = evaluate.like(&coefs);
            let values = linear(coefs.reshape([samples * own.functions, functions]), matrix)
                .reshape([samples, own.functions, points])
                .permute([0, 2, 1])
                .reshape([samples * points, own.functions]);
            let moments = params.get::<2>(self.input);
            let [mean, spread] = [0, 1].map(|i| {
                let own = moments.clone().narrow(1, own.first, own.functions);
                own.narrow(0, i, 1).reshape([1, -1])
            });
            channels.push((values - mean) / spread);
        }
        if own.constants > 0 {
            let numbers = given.narrow(1, width - own.constants, own.constants);
            let everywhere: Tensor<3> = numbers.unsqueeze_dim(1);
            let everywhere = everywhere.repeat(&[1, points, 1]);
            channels.push(everywhere.reshape([samples * points, own.constants]));
        }
        channels
    }
}

impl Core for FnoBetweenBases {
    /// Means and spreads of the training set.
    fn fit(&self, entries: &mut [Entry], training: &Training) -> Result<()> {
        let both = [0, 1].map(|i| training.seen.iter().map(move |m| m[i]));
        self.input
            .set(entries, both.into_iter().flatten().collect());
        let targets = training.samples.iter().map(|s| s.targets.data());
        let found = means_and_deviations(targets, self.outputs);
        self.output.set(entries, found);
        if let Some(known) = &self.known {
            known.values.set(entries, known.of(training.samples));
        }
        Ok(())
    }

    /// From what is seen of every group `[samples, outputs]` to β `[samples, outputs·functions·times]`.
    fn forward(
        &self,
        params: &Params,
        seen: Vec<Tensor<2>>,
        _: Option<&[usize]>,
    ) -> Result<Tensor<2>> {
        let ([samples, _], points) = (seen[0].dims(), self.points());
        let groups = self.seen.iter().zip(seen);
        let groups = groups.flat_map(|(own, given)| self.on_points(params, own, given));
        let mut channels: Vec<Tensor<2>> = groups.collect();
        if let Some(places) = &self.places {
            let places: Tensor<2> =
                Place::of(&channels[0]).tensor(places.clone(), [points, self.grid.len()]);
            channels.push(places.repeat(&[samples, 1]));
        }
        if let Some(known) = &self.known {
            let values = params.get::<2>(known.values).transpose();
            channels.push(values.repeat(&[samples, 1]));
        }
        let answer = self
            .fno
            .on_grid(params, Tensor::cat(channels, 1), &self.grid);
        let parts = 1 + 2 * self.covariates;
        let channels = self.outputs * parts * self.times;
        let answer = answer
            .reshape([samples, points, channels])
            .permute([0, 2, 1])
            .reshape([samples * channels, points]);
        let read = self.read.like(&answer);
        let [functions, _] = self.read.shape;
        let shape = [samples, self.outputs, parts * self.times, functions];
        let answer = linear(answer, read).reshape(shape);
        // The network's zero is the mean of the targets, its one their spread.
        let moments = params.get::<2>(self.output);
        let [mean, spread] = [0, 1].map(|i| {
            let both = moments.clone().narrow(0, i, 1);
            both.reshape([1, self.outputs, 1, 1])
        });
        let one: Tensor<4> =
            Place::of(&answer).tensor(self.one.clone(), [1, 1, self.times, functions]);
        // The first functions of a part, each with all functions of time.
        let flat = |part: Tensor<4>, functions: usize| {
            let part = part.narrow(3, 0, functions).permute([0, 1, 3, 2]);
            part.reshape([samples, self.outputs, functions * self.times])
        };
        let own = |part: usize| answer.clone().narrow(2, part * self.times, self.times);
        let mut all = vec![flat(own(0) * spread.clone() + one * mean, functions)];
        for j in 0..self.covariates {
            for (part, functions) in [(1 + 2 * j, self.products), (2 + 2 * j, 1)] {
                all.push(flat(own(part) * spread.clone(), functions));
            }
        }
        let beta = Tensor::cat(all, 2);
        let [_, _, width] = beta.dims();
        Ok(beta.reshape([samples, self.outputs * width]))
    }

    fn activations(&self, samples: usize, _: usize) -> Vec<usize> {
        self.fno.activations(samples.saturating_mul(self.points()))
    }

    fn rows(&self) -> usize {
        self.points()
    }

    fn extent(&self) -> Extent {
        let channels = self.seen.iter().map(|s| s.functions + s.constants);
        let places = self.places.as_ref().map_or(0, |_| self.grid.len());
        let known = self.known.as_ref().map_or(0, |k| k.sides.len());
        self.fno.extent(channels.sum::<usize>() + places + known)
    }
}

impl FnoBetweenBases {
    /// Points of its grid.
    fn points(&self) -> usize {
        self.grid.iter().product()
    }
}

impl KnownCovariates {
    /// Those of groups and queries in the space of the grid; none where there are none.
    fn new(plan: &mut Plan, space: &Frame, unit: &[f32], meta: &Meta) -> Option<Self> {
        let axes = space.lo.len();
        let names = |channels: &[Channel]| -> Vec<String> {
            let coords = channels.iter().take(axes);
            coords.map(|c| c.name.clone()).collect()
        };
        let here = names(&meta.query_coords);
        let groups = meta.groups.iter().enumerate();
        let groups =
            groups.filter(|(_, g)| g.kind == Kind::Field && names(g.coordinates()) == here);
        let groups = groups.map(|(i, g)| (Some(i), &g.coords[..]));
        let mut found: Vec<(&str, Vec<Side>)> = Vec::new();
        for (side, channels) in groups.chain([(None, &meta.query_coords[..])]) {
            let columns = channels.iter().enumerate().filter(|(_, c)| c.covariate);
            for (column, channel) in columns {
                let at = (side, column);
                match found.iter_mut().find(|(name, _)| *name == channel.name) {
                    Some((_, sides)) => sides.push(at),
                    None => found.push((&channel.name, vec![at])),
                }
            }
        }
        let shape = [found.len(), unit.len() / axes];
        (!found.is_empty()).then(|| Self {
            sides: found.into_iter().map(|(_, sides)| sides).collect(),
            grid: stretched(space, unit),
            // What vanishes on the boundary need not be known by functions that do.
            frame: Frame {
                family: match space.family {
                    Family::Sine => Family::Cosine,
                    family => family,
                },
                ..space.clone()
            },
            values: plan.add("core.covariates".into(), &shape, Init::Fixed),
        })
    }

    /// What they are on the grid, by the training data.
    fn of(&self, samples: &[ScaledSample]) -> Vec<f32> {
        let some: Vec<&ScaledSample> = all_along(samples, SAMPLES).collect();
        let each = self.sides.iter().map(|sides| self.on_grid(sides, &some));
        each.collect::<Vec<_>>().concat()
    }

    fn on_grid(&self, sides: &[Side], samples: &[&ScaledSample]) -> Vec<f32> {
        let axes = self.frame.lo.len();
        // The mean over all times that a place is there.
        let mut seen: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut places: Vec<(&[f32], [f64; 2])> = Vec::new();
        for (sample, (side, column)) in samples
            .iter()
            .flat_map(|s| sides.iter().map(move |at| (s, at)))
        {
            let known: &Rows = match side {
                Some(group) => &sample.groups[*group].coords,
                None => &sample.queries,
            };
            for row in known.iter() {
                let place = &row[..axes];
                let bits = place.iter().map(|x| x.to_bits()).collect();
                let next = places.len();
                let at = *seen.entry(bits).or_insert(next);
                if at == next {
                    places.push((place, [0.0; 2]));
                }
                let [sum, count] = places[at].1;
                places[at].1 = [sum + row[*column] as f64, count + 1.0];
            }
        }
        let some: Vec<&(&[f32], [f64; 2])> = all_along(&places, PLACES).collect();
        if some.is_empty() {
            return vec![0.0; self.grid.len() / axes];
        }
        let values: Vec<f32> = some.iter().map(|(_, [sum, n])| (sum / n) as f32).collect();
        let found = means_and_deviations([&values[..]].into_iter(), 1);
        let values: Vec<f32> = values.iter().map(|v| (v - found[0]) / found[1]).collect();
        let ends = values
            .iter()
            .fold([f32::MAX, f32::MIN], |[lo, hi], v| [lo.min(*v), hi.max(*v)]);
        let config = ProjectionConfig {
            group: None,
            frame: self.frame.clone(),
            functions: (some.len() / 2).clamp(1, FUNCTIONS),
        };
        let (projection, mut numbers) = Projection::alone(&config, 1, &[]);
        let known = Sensors {
            coords: Rows::of(
                axes,
                some.iter().flat_map(|(place, _)| *place).copied().collect(),
            ),
            values: Rows::of(1, values),
        };
        projection.choose(&mut numbers, &[&known]);
        let coefs = projection.fits(&numbers, &[&known]).remove(0);
        let basis = projection.basis().expect("a projection");
        let rows = basis.evaluate(&self.grid, basis.len());
        let value = |row: &[f32]| row.iter().zip(&coefs).map(|(f, c)| f * c).sum::<f32>();
        // Between places that are far apart nothing is known: no further than what was seen.
        let rows = rows.chunks(basis.len());
        rows.map(|row| value(row).clamp(ends[0], ends[1])).collect()
    }
}

/// Points of the unit box, the last axis fastest; without the far ends on a torus.
fn unit_grid(n: usize, axes: usize, torus: bool) -> Vec<f32> {
    let step = 1.0 / if torus { n } else { n - 1 } as f64;
    let axis: Vec<f64> = (0..n).map(|i| i as f64 * step).collect();
    let points = product(&vec![axis; axes]);
    points.iter().map(|x| *x as f32).collect()
}

/// The points in the box of a basis.
fn stretched(frame: &Frame, unit: &[f32]) -> Vec<f32> {
    let ends = frame.lo.iter().zip(&frame.hi);
    let place = |(x, (lo, hi)): (&f32, (&f64, &f64))| (lo + *x as f64 * (hi - lo)) as f32;
    unit.iter().zip(ends.cycle()).map(place).collect()
}

fn evaluation(basis: &Basis, unit: &[f32]) -> HostMatrix {
    let (points, functions) = (unit.len() / basis.frame().lo.len(), basis.len());
    HostMatrix {
        shape: [points, functions],
        numbers: basis.evaluate(&stretched(basis.frame(), unit), functions),
    }
}

fn reading(basis: &Basis, unit: &[f32]) -> HostMatrix {
    let (points, n) = (unit.len() / basis.frame().lo.len(), basis.len());
    let values = Matrix::single(n, &basis.evaluate(&stretched(basis.frame(), unit), n));
    let mut gram = Matrix::zeros(n, n);
    gram.add_square(1.0, values.view().transposed());
    let factor =
        Factor::with_ridge(&gram, RIDGE * points as f64).expect("a basis is finite in its box");
    let turned = Matrix::from_fn(n, points, |k, i| values[(i, k)]);
    let solved = factor.solve(&turned);
    HostMatrix {
        shape: [n, points],
        numbers: solved.numbers().iter().map(|v| *v as f32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A covariate of sensors and of queries is one function of the place; what it is in between is smooth.
    #[test]
    fn covariates_are_known_on_the_grid() {
        let channel = |name: &str, covariate: bool| Channel {
            covariate,
            ..Channel::named(name)
        };
        let places = vec![channel("x", false), channel("y", false), channel("z", true)];
        let group = Group::field("air", places.clone(), vec![Channel::named("T")]);
        let meta = Meta::of_groups("m", vec![group], places, vec![Channel::named("T")]);
        let space = Frame {
            lo: vec![0.0; 2],
            hi: vec![2.0; 2],
            family: Family::Cosine,
            times: 0,
        };
        let unit = unit_grid(6, 2, false);
        let mut plan = Plan::new(crate::rng::stream(0, "known", 0), usize::MAX);
        let known = KnownCovariates::new(&mut plan, &space, &unit, &meta).unwrap();
        assert_eq!(known.sides, [[(Some(0), 2), (None, 2)]]);
        let height = |x: f32, y: f32| 100.0 + 30.0 * (1.5 * x).cos() + 10.0 * (1.5 * y).cos();
        let mut rows = |first: usize| {
            let row = |i: usize| {
                let share = |prime: f64| (i as f64 * prime).fract() as f32 * 2.0;
                let (x, y) = (share(0.754_877_67), share(0.569_840_3));
                [x, y, height(x, y)]
            };
            Rows::of(3, (first..first + 100).flat_map(row).collect())
        };
        let sample = |s: usize, rows: &mut dyn FnMut(usize) -> Rows| ScaledSample {
            groups: vec![Sensors {
                coords: rows(200 * s),
                values: Rows::of(1, vec![0.0; 100]),
            }],
            queries: std::sync::Arc::new(rows(200 * s + 100)),
            targets: Rows::of(1, vec![0.0; 100]),
        };
        let samples = [0, 1, 2].map(|s| sample(s, &mut rows));
        let found = known.of(&samples);
        let points = unit.chunks(2).map(|p| height(2.0 * p[0], 2.0 * p[1]));
        let points: Vec<f32> = points.collect();
        // Up to mean and spread: by the slope of one over the other.
        let mean = |v: &[f32]| v.iter().sum::<f32>() / v.len() as f32;
        let (a, b) = (mean(&points), mean(&found));
        let pairs = || points.iter().zip(&found).map(|(p, f)| (p - a, f - b));
        let slope =
            pairs().map(|(p, f)| p * f).sum::<f32>() / pairs().map(|(p, _)| p * p).sum::<f32>();
        assert!((slope * 22.4 - 1.0).abs() < 0.15, "{slope}");
        let far = pairs()
            .map(|(p, f)| (f - slope * p).abs())
            .fold(0.0, f32::max);
        assert!(far < 0.25, "{far}");
        assert_eq!(known.of(&[]), vec![0.0; 36]);
    }

    /// What is evaluated on the grid is read back.
    #[test]
    fn coefficients_survive_the_grid() {
        for (family, torus, axes) in [
            (Family::Periodic, true, 2),
            (Family::Cosine, false, 2),
            (Family::Sine, false, 2),
            (Family::Legendre, false, 2),
            (Family::Legendre, false, 1),
            (Family::Cosine, false, 3),
        ] {
            let frame = Frame {
                lo: [-1.0, 0.0, 3.0][..axes].to_vec(),
                hi: [2.0, 0.5, 4.0][..axes].to_vec(),
                family,
                times: 0,
            };
            let basis = Basis::whole(frame, if axes == 1 { 5 } else { 20 });
            let unit = unit_grid(12, axes, torus);
            let (there, back) = (evaluation(&basis, &unit), reading(&basis, &unit));
            let n = basis.len();
            let coefs: Vec<f32> = (0..n).map(|i| ((i * 5 + 2) % 9) as f32 - 4.0).collect();
            let points = unit.len() / axes;
            let value =
                |i: usize| -> f32 { (0..n).map(|k| coefs[k] * there.numbers[i * n + k]).sum() };
            for k in 0..n {
                let found: f32 = (0..points)
                    .map(|i| back.numbers[k * points + i] * value(i))
                    .sum();
                assert!(
                    (found - coefs[k]).abs() < 1e-3,
                    "{family:?} {k}: {found} {}",
                    coefs[k]
                );
            }
        }
    }
}
