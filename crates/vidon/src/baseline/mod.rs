//! What answers without any network are worth on a dataset: what a network has to beat.
//!
//! From the readings of a sample alone, where the targets are what the sensors read, elsewhere or later:
//! their mean, the nearest one, inverse distance weighting Σ u_j d_j⁻² / Σ d_j⁻², and kriging with trends of
//! one, two or three kinds (`kriging.rs`). With training samples also the mean of a known place, and linear
//! rules by least squares: of what kriging says (a + b·x), of the nearest reading, of all of it. Targets of
//! another quantity are only known to linear rules.
//!
//! Kernels are chosen by readings alone; targets of the judged samples are looked at by nothing but the
//! errors.

mod distance;
mod kriging;
mod learned;

pub use kriging::Shape;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::baseline::distance::Distance;
use crate::baseline::kriging::{Choice, Placed, TOGETHER, Trial, choose, krige};
use crate::baseline::learned::{Asked, PlaceMeans, Rule, Sums};
use crate::data::{Channel, Dataset, Group, Kind, Meta, Rows, Sample, Sensors, coordinates};
use crate::error::{Error, Result};
use crate::eval::{ColumnErrors, ErrorSums, relative_l2};
use crate::observer::Observer;
use crate::spaces::linalg::Matrix;

/// Samples whose readings choose kernels, and readings that are looked at of each.
const TRIALS: usize = 20;
const TRIED: usize = 250;
/// Training samples that linear rules are fitted to, from all along.
const FITTED: usize = 2000;
/// Queries of a sample that are looked at, to judge and to learn from.
const JUDGED: usize = 4096;
const LEARNED: usize = 512;
/// A place is worth a mean of its own where such a share of what is asked is at known places.
const KNOWN: f64 = 0.5;

/// Baselines on some data.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub samples: usize,
    pub baselines: Vec<Baseline>,
    pub kernels: Vec<KernelChoice>,
    /// What the user may want to know besides.
    pub notes: Vec<String>,
}

/// A way to answer, and how far it is from the truth.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    pub name: String,
    /// Mean relative L² error of the samples; none where it has no answer to a column.
    pub relative_l2: Option<f64>,
    /// For every column of the targets that it answers.
    pub columns: Vec<Option<ColumnErrors>>,
}

/// The likeliest kernel of a column of readings.
#[derive(Clone, Debug, Serialize)]
pub struct KernelChoice {
    /// Of which readings, and with which trend.
    pub readings: String,
    pub trend: String,
    pub shape: Shape,
    pub range: f64,
    /// What the range is in.
    pub unit: String,
    /// The noise's share of the field's variance.
    pub nugget: f64,
    /// By how much readings are missed that are left out (root mean square).
    pub missed: f64,
}

/// How baselines do on the first `count` samples; `train` teaches those that need it.
pub fn compare(
    data: &Dataset,
    train: Option<&Dataset>,
    count: usize,
    observer: &dyn Observer,
) -> Result<Comparison> {
    let meta = data.meta()?;
    if let Some(train) = train {
        let both = ["the judged data", "the training data"];
        meta.check_same_channels(&train.meta()?, both)?;
    }
    let sources = Sources::of(&meta);
    if train.is_none() && sources.targets.iter().all(Option::is_none) {
        return Err(Error::Unsuitable(format!(
            "the targets ({}) are another quantity than the readings, and what readings say of them is learned from training samples: give some",
            names(&meta.targets)
        )));
    }
    let mut survey = Survey::new(&sources, count);
    data.blocks(count, observer, |block| {
        block.iter().for_each(|sample| survey.add(sample));
        Ok(())
    })?;
    let interpolation = survey.finish(observer)?;
    let learned = match train {
        Some(train) => Some(Learned::of(train, &interpolation, &survey.asked, observer)?),
        None => None,
    };
    judge(data, count, &interpolation, learned.as_ref(), observer)
}

/// Which readings are asked for what.
struct Sources<'a> {
    meta: &'a Meta,
    /// Groups that read a function.
    fields: Vec<FieldSource<'a>>,
    /// Their columns, field by field: of which field, and which of its values.
    columns: Vec<(usize, usize)>,
    /// For every target the column that reads the same quantity.
    targets: Vec<Option<usize>>,
}

struct FieldSource<'a> {
    group: usize,
    described: &'a Group,
    /// Where the queries have its coordinates and the covariates that both have; none where they lack a
    /// coordinate.
    asked: Option<Vec<usize>>,
    /// Its own columns of these covariates.
    covariates: Vec<usize>,
}

impl<'a> Sources<'a> {
    fn of(meta: &'a Meta) -> Self {
        let at_queries = |c: &Channel| {
            let same = |q: &Channel| (&q.name, q.covariate) == (&c.name, c.covariate);
            meta.query_coords.iter().position(same)
        };
        let groups = meta.groups.iter().enumerate();
        let fields = groups.filter(|(_, g)| g.kind == Kind::Field);
        let fields = fields.map(|(group, described)| {
            let axes = described.coordinates().len();
            let places: Option<Vec<usize>> =
                described.coordinates().iter().map(at_queries).collect();
            let beside = described.coords[axes..].iter().enumerate();
            let shared = beside.filter_map(|(i, c)| Some((axes + i, at_queries(c)?)));
            let (covariates, theirs): (Vec<usize>, Vec<usize>) = shared.unzip();
            FieldSource {
                group,
                described,
                asked: places.map(|own| [own, theirs].concat()),
                covariates,
            }
        });
        let fields: Vec<FieldSource> = fields.collect();
        let all = fields.iter().enumerate();
        let columns = all.flat_map(|(f, s)| (0..s.described.values.len()).map(move |c| (f, c)));
        let columns: Vec<(usize, usize)> = columns.collect();
        let reads = |target: &Channel, (f, c): &(usize, usize)| {
            let (source, unit) = (&fields[*f], target.unit.trim());
            let own: &Channel = &source.described.values[*c];
            let other = own.unit.trim();
            let units = unit == other || unit.is_empty() || other.is_empty();
            source.asked.is_some() && own.name == target.name && units
        };
        let targets = meta.targets.iter();
        let targets = targets.map(|t| columns.iter().position(|c| reads(t, c)));
        Self {
            targets: targets.collect(),
            meta,
            fields,
            columns,
        }
    }

    /// The readings of a column that are there, with their sensors.
    fn readings(&self, column: usize, sample: &Sample) -> (Vec<usize>, Vec<f64>) {
        let (field, value) = self.columns[column];
        let values = sample.groups[self.fields[field].group].values.column(value);
        let there = values.enumerate().filter(|(_, v)| !v.is_nan());
        there.map(|(i, v)| (i, v as f64)).unzip()
    }

    /// Parameters of a sample.
    fn parameters(&self, sample: &Sample) -> Vec<f64> {
        let groups = self.meta.groups.iter().zip(&sample.groups);
        let scalars = groups.filter(|(g, _)| g.kind == Kind::Scalars);
        scalars
            .flat_map(|(_, own)| own.values.data())
            .map(|v| *v as f64)
            .collect()
    }

    /// Whether a sample has what all targets are answered by.
    fn answerable(&self, sample: &Sample) -> bool {
        let reports = |column: usize| !self.readings(column, sample).0.is_empty();
        let all = || {
            let known = self.parameters(sample).iter().all(|v| !v.is_nan());
            known && (0..self.columns.len()).all(reports)
        };
        self.targets
            .iter()
            .all(|target| target.map_or_else(all, reports))
    }

    /// The columns whose readings are needed.
    fn wanted(&self, column: usize) -> bool {
        self.targets
            .iter()
            .any(|t| t.is_none_or(|own| own == column))
    }
}

/// The sample with at most so many of its queries, from all over it.
fn thinned(sample: &Sample, most: usize) -> Cow<'_, Sample> {
    let count = sample.query_coords.len();
    if count <= most {
        return Cow::Borrowed(sample);
    }
    // Steps of the golden ratio meet every axis of a grid everywhere.
    let common = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (0.618_034 * count as f64) as usize;
    let step = (golden.max(1)..count)
        .find(|s| common(count, *s) == 1)
        .unwrap_or(1);
    let mut some: Vec<usize> = (0..most).map(|i| i * step % count).collect();
    some.sort_unstable();
    Cow::Owned(Sample {
        name: sample.name.clone(),
        groups: sample.groups.clone(),
        query_coords: Arc::new(sample.query_coords.select(&some)),
        targets: sample.targets.select(&some),
    })
}

fn names(channels: &[Channel]) -> String {
    let names: Vec<&str> = channels.iter().map(|c| &c.name[..]).collect();
    names.join(", ")
}

/// A first look at the judged data: extents, the readings that choose kernels, and where targets are asked.
struct Survey<'a> {
    sources: &'a Sources<'a>,
    every: usize,
    seen: usize,
    /// Ends of the coordinates of every field.
    ends: Vec<Vec<[f64; 2]>>,
    tried: Vec<Sample>,
    /// Most sensors of a group, and queries, of a sample.
    most: [usize; 2],
    asked: Asked,
}

impl<'a> Survey<'a> {
    fn new(sources: &'a Sources<'a>, count: usize) -> Self {
        let empty = [f64::INFINITY, f64::NEG_INFINITY];
        let fields = sources.fields.iter();
        Self {
            every: count.div_ceil(TRIALS).max(1),
            seen: 0,
            ends: fields
                .map(|f| vec![empty; f.described.coordinates().len()])
                .collect(),
            tried: Vec::new(),
            most: [0; 2],
            asked: Asked::default(),
            sources,
        }
    }

    fn add(&mut self, sample: &Sample) {
        for (source, ends) in self.sources.fields.iter().zip(&mut self.ends) {
            let sensors = &sample.groups[source.group];
            self.most[0] = self.most[0].max(sensors.len());
            for place in sensors.coords.iter() {
                for ([lo, hi], v) in ends.iter_mut().zip(place) {
                    (*lo, *hi) = (lo.min(*v as f64), hi.max(*v as f64));
                }
            }
        }
        self.most[1] = self.most[1].max(sample.query_coords.len());
        let axes = coordinates(&self.sources.meta.query_coords).len();
        self.asked.add(&sample.query_coords, axes);
        if self.seen.is_multiple_of(self.every) {
            self.tried.push(sample.clone());
        }
        self.seen += 1;
    }

    /// Distances, trends and kernels.
    fn finish(&mut self, observer: &dyn Observer) -> Result<Interpolation<'a>> {
        let tried = std::mem::take(&mut self.tried);
        let pairs = self.sources.fields.iter().zip(&self.ends);
        let fields: Vec<FieldPlan> = pairs
            .map(|(f, ends)| FieldPlan::new(f, ends, &tried))
            .collect();
        let mut columns = Vec::new();
        for (column, &(f, _)) in self.sources.columns.iter().enumerate() {
            let (source, plan) = (&self.sources.fields[f], &fields[f]);
            if !self.sources.wanted(column) || source.asked.is_none() {
                columns.push(Vec::new());
                continue;
            }
            let trial = |sample: &Sample| {
                let (there, values) = self.sources.readings(column, sample);
                let every = there.len().div_ceil(TRIED).max(1);
                let some: Vec<usize> = there.into_iter().step_by(every).collect();
                let placed = plan.sensors(source, &sample.groups[source.group], &some);
                Trial::new(placed, values.into_iter().step_by(every).collect())
            };
            let trials: Vec<Trial> = tried.iter().filter_map(trial).collect();
            columns.push(choose(
                &trials,
                &plan.widths,
                plan.distance.diagonal,
                observer,
            )?);
        }
        Ok(Interpolation {
            sources: self.sources,
            fields,
            columns,
            most: self.most,
        })
    }
}

/// How the places of a field are seen.
struct FieldPlan {
    distance: Distance,
    /// Middle and size of every coordinate and shared covariate.
    standards: Vec<[f64; 2]>,
    /// How many functions the trends have, shortest first: 1; coordinates and covariates; squares of
    /// covariates.
    widths: Vec<usize>,
}

impl FieldPlan {
    fn new(source: &FieldSource, ends: &[[f64; 2]], tried: &[Sample]) -> Self {
        let coords = source.described.coordinates();
        let size = |v: f64| if v > 0.0 { v } else { 1.0 };
        let boxed = ends
            .iter()
            .map(|[lo, hi]| [0.5 * (lo + hi), size(0.5 * (hi - lo))]);
        let standard = |column: &usize| {
            let all = tried
                .iter()
                .flat_map(|s| s.groups[source.group].coords.column(*column));
            let all: Vec<f64> = all.map(f64::from).collect();
            let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
            let square = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            [mean, size((square / all.len().max(1) as f64).sqrt())]
        };
        let linear = 1 + coords.len() + source.covariates.len();
        let mut widths = vec![1, linear, linear + source.covariates.len()];
        widths.dedup();
        Self {
            distance: Distance::new(coords, ends),
            standards: boxed
                .chain(source.covariates.iter().map(standard))
                .collect(),
            widths,
        }
    }

    /// Places whose coordinates and covariates stand in these columns.
    fn placed(&self, axes: usize, rows: &Rows, columns: &[usize]) -> Placed {
        let coords = rows.iter().flat_map(|row| {
            self.distance
                .lengths(columns[..axes].iter().map(|&c| row[c]))
        });
        let width = self.widths[self.widths.len() - 1];
        let trend = rows.iter().flat_map(|row| {
            let z = columns.iter().zip(&self.standards);
            let z: Vec<f64> = z.map(|(&c, [m, s])| (row[c] as f64 - m) / s).collect();
            let squares: Vec<f64> = z[axes..].iter().map(|z| z * z).collect();
            [1.0].into_iter().chain(z).chain(squares)
        });
        Placed {
            axes,
            coords: coords.collect(),
            trend: Matrix::of(width, trend.collect()),
        }
    }

    fn sensors(&self, source: &FieldSource, sensors: &Sensors, some: &[usize]) -> Placed {
        let axes = source.described.coordinates().len();
        let columns = [&(0..axes).collect::<Vec<_>>()[..], &source.covariates].concat();
        self.placed(axes, &sensors.coords.select(some), &columns)
    }
}

/// All that is known before a sample is answered.
struct Interpolation<'a> {
    sources: &'a Sources<'a>,
    fields: Vec<FieldPlan>,
    /// For every column a kernel for each trend; none where it is not kriged.
    columns: Vec<Vec<Option<Choice>>>,
    /// Most sensors of a group, and queries, of a sample.
    most: [usize; 2],
}

/// What the readings of a column say at the queries.
struct Guess {
    mean: f64,
    nearest: Vec<f64>,
    weighted: Vec<f64>,
    /// For every trend; none where it has no kernel.
    kriged: Vec<Option<Vec<f64>>>,
    /// Queries at which a sensor stands.
    here: usize,
}

impl Interpolation<'_> {
    /// The trend that misses left-out readings least.
    fn best(&self, column: usize) -> Option<usize> {
        let choices = self.columns[column].iter().enumerate();
        let known = choices.filter_map(|(k, c)| Some((k, c.as_ref()?.missed)));
        let least = known.min_by(|(_, a), (_, b)| a.total_cmp(b));
        least.map(|(k, _)| k)
    }

    /// `all`: whether every trend is wanted, or the best alone.
    fn guess(&self, column: usize, sample: &Sample, all: bool) -> Guess {
        let (f, _) = self.sources.columns[column];
        let (source, plan) = (&self.sources.fields[f], &self.fields[f]);
        let (there, values) = self.sources.readings(column, sample);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let Some(asked) = &source.asked else {
            return Guess::flat(mean, sample.query_coords.len());
        };
        let sensors = plan.sensors(source, &sample.groups[source.group], &there);
        let queries = plan.placed(sensors.axes, &sample.query_coords, asked);
        let mut guess = Guess {
            kriged: Vec::new(),
            ..Guess::flat(mean, queries.len())
        };
        for q in 0..queries.len() {
            let near = |i: usize| queries.distance(q, &sensors, i);
            let (nearest, distance) = (0..sensors.len())
                .map(|i| (i, near(i)))
                .min_by(|(_, a), (_, b)| a.total_cmp(b))
                .expect("a reading");
            guess.nearest[q] = values[nearest];
            guess.here += usize::from(distance == 0.0);
            let weight = |i: usize| match distance == 0.0 {
                true => f64::from(near(i) == 0.0),
                false => near(i).powi(-2),
            };
            let (mut sum, mut weights) = (0.0, 0.0);
            for (i, v) in values.iter().enumerate() {
                sum += weight(i) * v;
                weights += weight(i);
            }
            guess.weighted[q] = sum / weights;
        }
        let best = self.best(column);
        let kriged = self.columns[column].iter().enumerate().map(|(k, choice)| {
            let choice = choice.as_ref().filter(|_| all || Some(k) == best)?;
            let widths = &plan.widths[..=k];
            Some(krige(&choice.kernel, widths, &sensors, &values, &queries))
        });
        guess.kriged = kriged.collect();
        guess
    }

    /// What the best kriging says; the mean where there is none.
    fn kriged(&self, column: usize, guess: &Guess, q: usize) -> f64 {
        let best = self.best(column).and_then(|k| guess.kriged[k].as_ref());
        best.map_or(guess.mean, |kriged| kriged[q])
    }

    /// The guesses of all columns that are needed.
    fn guesses(&self, sample: &Sample, all: bool) -> Vec<Option<Guess>> {
        let columns = 0..self.columns.len();
        let guess = |c: usize| self.sources.wanted(c).then(|| self.guess(c, sample, all));
        columns.map(guess).collect()
    }

    /// What linear rules for a target see of a query, before the mean of its place.
    fn features(
        &self,
        target: usize,
        guesses: &[Option<Guess>],
        sample: &Sample,
        q: usize,
    ) -> Vec<f64> {
        let kriged = |c: usize| {
            let guess = guesses[c].as_ref().expect("it is needed");
            (self.kriged(c, guess, q), guess)
        };
        match self.sources.targets[target] {
            Some(column) => {
                let (kriged, guess) = kriged(column);
                vec![kriged, guess.nearest[q], guess.mean]
            }
            None => {
                let columns = 0..self.columns.len();
                let all = columns.map(|c| kriged(c).0);
                all.chain(self.sources.parameters(sample)).collect()
            }
        }
    }

    fn width(&self, target: usize) -> usize {
        let scalars = self.sources.meta.groups.iter();
        let scalars = scalars.filter(|g| g.kind == Kind::Scalars);
        match self.sources.targets[target] {
            Some(_) => 3,
            None => self.columns.len() + scalars.map(|g| g.values.len()).sum::<usize>(),
        }
    }
}

impl Guess {
    fn flat(mean: f64, queries: usize) -> Self {
        Self {
            mean,
            nearest: vec![mean; queries],
            weighted: vec![mean; queries],
            kriged: Vec::new(),
            here: 0,
        }
    }
}

/// What training samples have taught.
struct Learned {
    means: PlaceMeans,
    /// Whether most of what is asked is at places that training samples know.
    places: bool,
    /// For every target the rules of the readings (of kriging alone, where it is the same quantity), of the
    /// nearest reading, and of all.
    rules: Vec<[Option<Rule>; 3]>,
}

impl Learned {
    fn of(
        train: &Dataset,
        plan: &Interpolation,
        asked: &Asked,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let meta = plan.sources.meta;
        let (targets, count) = (meta.targets.len(), train.usual());
        let mut means = PlaceMeans::new(coordinates(&meta.query_coords).len(), targets);
        train.blocks(count, observer, |block| {
            block
                .iter()
                .for_each(|s| means.add(&s.query_coords, &s.targets));
            Ok(())
        })?;
        let places = means.known(asked) >= KNOWN;
        let widths = (0..targets).map(|t| plan.width(t) + usize::from(places));
        let mut sums: Vec<Sums> = widths.map(Sums::new).collect();
        let (every, mut seen) = (count.div_ceil(FITTED).max(1), 0);
        train.blocks(count, observer, |block| {
            let numbered = block.iter().enumerate();
            let some = numbered
                .filter(|(i, s)| (seen + i).is_multiple_of(every) && plan.sources.answerable(s));
            let some: Vec<Cow<Sample>> = some.map(|(_, s)| thinned(s, LEARNED)).collect();
            let guesses: Vec<Vec<Option<Guess>>> =
                some.par_iter().map(|s| plan.guesses(s, false)).collect();
            for (sample, guesses) in some.iter().zip(&guesses) {
                for (t, sums) in sums.iter_mut().enumerate() {
                    let known = sample
                        .targets
                        .column(t)
                        .enumerate()
                        .filter(|(_, v)| !v.is_nan());
                    for (q, truth) in known {
                        let mut x = plan.features(t, guesses, sample, q);
                        let place = sample.query_coords.row(q);
                        x.extend(places.then(|| means.mean(place, t, Some(truth))));
                        sums.add(&x, truth as f64);
                    }
                }
            }
            seen += block.len();
            Ok(())
        })?;
        let rules = sums.iter().enumerate().map(|(t, sums)| {
            let width = plan.width(t);
            let all: Vec<usize> = (0..width + usize::from(places)).collect();
            match plan.sources.targets[t] {
                Some(_) => [sums.rule(&[0]), sums.rule(&[1]), sums.rule(&all)],
                None => {
                    let whole = if places { sums.rule(&all) } else { None };
                    [sums.rule(&all[..width]), None, whole]
                }
            }
        });
        Ok(Self {
            rules: rules.collect(),
            places,
            means,
        })
    }
}

/// A baseline.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Mean,
    Nearest,
    Weighted,
    /// With this trend.
    Kriged(usize),
    /// The mean of all training targets, and of those of the place.
    Overall,
    Place,
    /// Of [`Learned::rules`].
    Rule(usize),
}

impl Way {
    /// The answers to a target at the queries, if it has any.
    fn answer(
        self,
        target: usize,
        plan: &Interpolation,
        learned: Option<&Learned>,
        guesses: &[Option<Guess>],
        sample: &Sample,
    ) -> Option<Vec<f64>> {
        let queries = sample.query_coords.len();
        let own = plan.sources.targets[target];
        let guess = own.and_then(|c| guesses[c].as_ref());
        match self {
            Way::Mean => guess.map(|g| vec![g.mean; queries]),
            Way::Nearest => guess.map(|g| g.nearest.clone()),
            Way::Weighted => guess.map(|g| g.weighted.clone()),
            Way::Kriged(k) => guess?.kriged.get(k)?.clone(),
            Way::Overall => Some(vec![learned?.means.overall(target); queries]),
            Way::Place => {
                let means = &learned?.means;
                let places = sample.query_coords.iter();
                Some(places.map(|p| means.mean(p, target, None)).collect())
            }
            Way::Rule(k) => {
                let learned = learned?;
                let rule = learned.rules[target][k].as_ref()?;
                let at = |q: usize| {
                    let mut x = plan.features(target, guesses, sample, q);
                    let place = sample.query_coords.row(q);
                    x.extend(
                        learned
                            .places
                            .then(|| learned.means.mean(place, target, None)),
                    );
                    rule.at(&x)
                };
                Some((0..queries).map(at).collect())
            }
        }
    }
}

/// The ways that there may be for such data, simplest first.
fn ways(plan: &Interpolation, learned: Option<&Learned>) -> Vec<Way> {
    let same = plan.sources.targets.iter().flatten().next().is_some();
    let other = plan.sources.targets.iter().any(Option::is_none);
    let mut all = Vec::new();
    if same {
        all.extend([Way::Mean, Way::Nearest, Way::Weighted]);
        let trends = plan.columns.iter().map(Vec::len).max().unwrap_or(0);
        all.extend((0..trends).map(Way::Kriged));
    }
    if let Some(learned) = learned {
        all.extend(other.then_some(Way::Overall));
        all.extend(learned.places.then_some(Way::Place));
        all.extend([0, 1, 2].map(Way::Rule));
    }
    all
}

fn judge(
    data: &Dataset,
    count: usize,
    plan: &Interpolation,
    learned: Option<&Learned>,
    observer: &dyn Observer,
) -> Result<Comparison> {
    let meta = plan.sources.meta;
    let (ways, width) = (ways(plan, learned), meta.targets.len());
    let mut sums = vec![vec![None::<ErrorSums>; width]; ways.len()];
    let mut relative = vec![Vec::new(); ways.len()];
    let (mut samples, mut silent) = (0, 0);
    let (here, asked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    data.blocks(count, observer, |block| {
        let some = block.iter().filter(|s| plan.sources.answerable(s));
        let some: Vec<Cow<Sample>> = some.map(|s| thinned(s, JUDGED)).collect();
        samples += some.len();
        silent += block.len() - some.len();
        let answers = some.par_iter().map(|sample| {
            let guesses = plan.guesses(sample, true);
            for guess in guesses.iter().flatten() {
                here.fetch_add(guess.here, Ordering::Relaxed);
                asked.fetch_add(guess.nearest.len(), Ordering::Relaxed);
            }
            let answer = |way: &Way, t: usize| way.answer(t, plan, learned, &guesses, sample);
            let all = ways
                .iter()
                .map(|way| (0..width).map(|t| answer(way, t)).collect());
            all.collect::<Vec<Vec<Option<Vec<f64>>>>>()
        });
        let answers: Vec<_> = answers.collect();
        for (sample, answers) in some.iter().zip(answers) {
            for ((answers, sums), relative) in answers.iter().zip(&mut sums).zip(&mut relative) {
                for ((t, answer), sums) in answers.iter().enumerate().zip(sums) {
                    let Some(answer) = answer else { continue };
                    let pairs = answer
                        .iter()
                        .map(|v| *v as f32)
                        .zip(sample.targets.column(t));
                    let own = sums.get_or_insert_default();
                    pairs.for_each(|pair| own.add(pair));
                }
                let whole: Option<Vec<&Vec<f64>>> = answers.iter().map(Option::as_ref).collect();
                relative.extend(whole.map(|columns| {
                    let row = |q: usize| columns.iter().map(move |c| c[q] as f32);
                    let rows = (0..sample.targets.len()).flat_map(row);
                    relative_l2(&Rows::of(width, rows.collect()), &sample.targets)
                }));
            }
        }
        Ok(())
    })?;
    if samples == 0 {
        return Err(Error::Unsuitable(
            "no sample has the readings that baselines answer by: all are missing".into(),
        ));
    }
    let persistence = 2 * here.into_inner() > asked.into_inner();
    let baselines = ways.iter().zip(sums).zip(relative);
    let baselines = baselines.map(|((way, sums), relative)| {
        let columns = sums.into_iter().zip(&meta.targets);
        let mean = relative.iter().sum::<f64>() / relative.len() as f64;
        Baseline {
            name: plan.name(*way, persistence, learned),
            relative_l2: (!relative.is_empty()).then_some(mean),
            columns: columns.map(|(s, c)| Some(s?.of(c))).collect(),
        }
    });
    // The nearest reading goes on where it is that of the place itself.
    let baselines = baselines.zip(&ways).filter(|(b, way)| {
        let answers = b.columns.iter().any(Option::is_some);
        answers && (persistence || **way != Way::Rule(1))
    });
    Ok(Comparison {
        samples,
        baselines: baselines.map(|(b, _)| b).collect(),
        kernels: plan.kernels(),
        notes: plan.notes(silent),
    })
}

impl Interpolation<'_> {
    /// What a baseline is called.
    fn name(&self, way: Way, persistence: bool, learned: Option<&Learned>) -> String {
        let nearest = match persistence {
            true => "persistence",
            false => "nearest reading",
        };
        let same = self.sources.targets.iter().flatten().next();
        match way {
            Way::Mean => "mean of the sample's readings".into(),
            Way::Nearest if persistence => "persistence (reading at the place, or nearest)".into(),
            Way::Nearest => "nearest reading".into(),
            Way::Weighted => "inverse distance weighting".into(),
            Way::Kriged(0) => "ordinary kriging".into(),
            Way::Kriged(k) => match same {
                Some(column) => format!("kriging, {}", self.trend(*column, k)),
                None => "kriging".into(),
            },
            Way::Overall => "mean of the training targets".into(),
            Way::Place => "mean of the place in training".into(),
            Way::Rule(0) if same.is_some() => "a + b·kriging".into(),
            Way::Rule(0) => "linear in the kriged readings".into(),
            Way::Rule(1) => format!("a + b·{nearest}"),
            Way::Rule(_) => {
                let place = if learned.is_some_and(|l| l.places) {
                    ", place"
                } else {
                    ""
                };
                match same {
                    Some(_) => format!("linear in kriging, {nearest}, mean of the sample{place}"),
                    None => "linear in the kriged readings, mean of the place".into(),
                }
            }
        }
    }

    /// The functions of a trend, in words.
    fn trend(&self, column: usize, k: usize) -> String {
        let source = &self.sources.fields[self.sources.columns[column].0];
        let coords = source
            .described
            .coordinates()
            .iter()
            .map(|c| c.name.clone());
        let covariates: Vec<String> = source
            .covariates
            .iter()
            .map(|&c| source.described.coords[c].name.clone())
            .collect();
        let squares = covariates.iter().map(|c| format!("{c}²"));
        let all: Vec<String> = match k {
            0 => return "no trend".into(),
            1 => coords.chain(covariates.clone()).collect(),
            _ => coords.chain(covariates.clone()).chain(squares).collect(),
        };
        format!("trend {}", all.join(", "))
    }

    fn kernels(&self) -> Vec<KernelChoice> {
        let columns = self.columns.iter().enumerate();
        let all = columns.flat_map(|(column, choices)| {
            let (f, value) = self.sources.columns[column];
            let source = &self.sources.fields[f];
            choices.iter().enumerate().filter_map(move |(k, choice)| {
                let choice = choice.as_ref()?;
                Some(KernelChoice {
                    readings: source.described.values[value].label(),
                    trend: self.trend(column, k),
                    shape: choice.kernel.shape,
                    range: choice.kernel.range,
                    unit: self.fields[f].distance.unit.clone(),
                    nugget: choice.kernel.nugget,
                    missed: choice.missed,
                })
            })
        });
        all.collect()
    }

    fn notes(&self, silent: usize) -> Vec<String> {
        let kriged = |f: usize| {
            let own = self.sources.columns.iter().zip(&self.columns);
            own.filter(|((field, _), _)| *field == f)
                .any(|(_, c)| !c.is_empty())
        };
        let fields = self.fields.iter().enumerate().filter(|(f, _)| kriged(*f));
        let mut notes: Vec<String> = fields.map(|(_, plan)| plan.distance.note.clone()).collect();
        let [sensors, queries] = self.most;
        if sensors > TOGETHER {
            notes.push(format!(
                "samples have up to {sensors} sensors: where there are more than {TOGETHER}, kriging goes by the nearest of each query"
            ));
        }
        if queries > JUDGED {
            notes.push(format!(
                "samples have up to {queries} queries: where there are more than {JUDGED}, so many from all over them are judged"
            ));
        }
        if silent > 0 {
            notes.push(format!(
                "{silent} of the samples are left out: none of their sensors reports what baselines answer by"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
