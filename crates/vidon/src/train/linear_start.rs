//! What a linear start is fitted to: samples as a step would see them, images by the symmetries of the problem among
//! them.

use std::sync::Arc;

use rand::RngExt;
use rand::seq::index;

use crate::data::{Channel, Kind, Rows, ScaledSample, Sensors};
use crate::error::{Error, Result};
use crate::network::Entry;
use crate::operator::{Code, Design};
use crate::rng::stream;
use crate::spaces::linalg::Matrix;
use crate::spaces::{FittedBasis, all_along};
use crate::start::{LinearAsked, LinearKnown, LinearMap, Seen, between, fit_linear, numbers_of};
use crate::train::amount::Amount;
use crate::train::batch::{Asked, draw};
use crate::train::recipe::TrainRecipe;
use crate::train::samples::TrainingSamples;

/// Images of every sample, where the problem has symmetries.
const IMAGES: u64 = 4;
/// Multiplications that a round of conjugate gradients may take, and numbers of functions at queries.
const MOST_WORK: usize = 1 << 29;
const MOST_NUMBERS: usize = 1 << 25;
const LEAST: usize = 64;
/// Queries of a sample that are looked at.
const QUERIES: usize = 256;
/// Places at which functions are compared, for each of them.
const PLACES: usize = 4;
/// Covariates go as far as so many spreads there.
const SPREADS: f32 = 2.0;

/// The best linear map for a network with these samples.
pub(super) fn fit(
    design: &Design,
    entries: &[Entry],
    samples: &TrainingSamples,
    options: &TrainRecipe,
) -> Result<LinearMap> {
    let parts = &design.parts;
    let basis = &parts.decoder.fitted(entries).expect("checked before");
    let (blocks, components) = (parts.outputs(), design.meta.targets.len());
    let inputs: usize = blocks.iter().sum();
    let orders = basis.functions.orders();
    let known = LinearKnown {
        amplitudes: orders
            .iter()
            .map(|k| (1.0 + k * k).sqrt().recip())
            .collect(),
        components,
        persistence: persistence(design, entries, basis),
        blocks,
    };
    let images = if options.symmetries.any() { IMAGES } else { 1 };
    let all: Vec<usize> = (0..samples.len()).collect();
    let room = MOST_WORK / (inputs * basis.len() * components).max(1) / images as usize;
    let some = all_along(&all, room.max(LEAST))
        .copied()
        .collect::<Vec<_>>();
    let most = MOST_NUMBERS / (some.len() * images as usize * basis.len()).max(1);
    let options = TrainRecipe {
        queries: match &samples.targets {
            Some(_) => None,
            None => Some(Amount::Count(QUERIES.min(most.max(1)))),
        },
        ..options.clone()
    };
    let mut shared = None;
    let mut seen = Vec::with_capacity(some.len() * images as usize);
    for image in 0..images {
        let drawn = draw(&options, design, entries, samples, &some, u64::MAX - image)?;
        seen.extend(drawn.into_iter().map(|sample| Seen {
            numbers: numbers_of(&sample.code),
            asked: match sample.asked {
                Asked::Coefficients(c) => LinearAsked::Coefficients(c.roots, c.coefs),
                Asked::Values { queries, targets } => values(basis, &mut shared, queries, &targets),
            },
        }));
    }
    let val = validation(design, entries, samples, basis)?;
    fit_linear(&known, &seen, &val)
}

/// Queries with the functions there, for the next samples that are asked there.
type Shared = Option<(Arc<Rows>, Arc<Matrix>)>;

fn values(
    basis: &FittedBasis,
    shared: &mut Shared,
    queries: Arc<Rows>,
    targets: &Rows,
) -> LinearAsked {
    let functions = match shared {
        Some((places, functions)) if Arc::ptr_eq(places, &queries) || *places == queries => {
            functions.clone()
        }
        _ => {
            let found = basis.evaluate(queries.data());
            let functions = Arc::new(Matrix::single(basis.len(), &found));
            *shared = Some((queries.clone(), functions.clone()));
            functions
        }
    };
    LinearAsked::Values(functions, Matrix::single(targets.width(), targets.data()))
}

/// The validation samples in the same way, with all they know of at most so many targets.
fn validation(
    design: &Design,
    entries: &[Entry],
    samples: &TrainingSamples,
    basis: &FittedBasis,
) -> Result<Vec<Seen>> {
    let count = (MOST_NUMBERS / (QUERIES * basis.len())).max(LEAST);
    let some = all_along(&samples.val, count).enumerate();
    let scaled = some.map(|(i, s)| {
        let mut sample = s.clone();
        let transformed = design.transforms.sample(&mut sample);
        transformed.map_err(|what| Error::sample(i, what))?;
        design.scale(i, sample)
    });
    let scaled = scaled.collect::<Result<Vec<ScaledSample>>>();
    let scaled = scaled.map_err(|e| e.of("validation"))?;
    let groups: Vec<&[Sensors]> = scaled.iter().map(|s| &s.groups[..]).collect();
    let codes: Vec<Code> = design.parts.encode(entries, &groups)?;
    let mut shared = None;
    let pairs = scaled.iter().zip(&codes).enumerate();
    let seen = pairs.map(|(i, (sample, code))| {
        let count = sample.queries.len();
        let (queries, targets) = match count > QUERIES {
            false => (sample.queries.clone(), sample.targets.clone()),
            true => {
                let rng = &mut stream(0, "validation of a start", i as u64);
                let picked = index::sample(rng, count, QUERIES).into_vec();
                (
                    Arc::new(sample.queries.select(&picked)),
                    sample.targets.select(&picked),
                )
            }
        };
        Seen {
            numbers: numbers_of(code),
            asked: values(basis, &mut shared, queries, &targets),
        }
    });
    Ok(seen.collect())
}

/// What takes the coefficients of readings to those of the same function in the decoder's basis, where all targets are
/// readings of the only group elsewhere, as the network sees both.
fn persistence(design: &Design, entries: &[Entry], basis: &FittedBasis) -> Option<Matrix> {
    let (meta, scaling) = (&design.meta, design.scaling.as_ref()?);
    let seen = &design.parts.only_basis(entries)?;
    let group = meta
        .groups
        .first()
        .filter(|g| meta.groups.len() == 1 && g.kind == Kind::Field)?;
    let names =
        |channels: &[Channel]| -> Vec<String> { channels.iter().map(|c| c.name.clone()).collect() };
    let frame = basis.functions.basis().frame();
    let elsewhere =
        names(group.coordinates()) != names(meta.space()) || meta.space().len() != frame.lo.len();
    // What a drift is worth at a query is not known without its covariates.
    if elsewhere || names(&group.coords) != names(&meta.query_coords) {
        return None;
    }
    let place = |t: &Channel| {
        group
            .values
            .iter()
            .position(|c| (&c.name, &c.unit) == (&t.name, &t.unit))
    };
    let columns: Vec<usize> = meta.targets.iter().map(place).collect::<Option<_>>()?;
    let (n, k) = (seen.len(), basis.len());
    let rng = &mut stream(0, "persistence", 0);
    let ends = frame.lo.iter().zip(&frame.hi).map(|(lo, hi)| [*lo, *hi]);
    let (means, spreads) = basis.standard.split_at(basis.standard.len() / 2);
    let usual = means.iter().zip(spreads).map(|(m, s)| {
        let far = SPREADS * s;
        [m - far, m + far].map(f64::from)
    });
    let ends: Vec<[f64; 2]> = ends.chain(usual).collect();
    let places: Vec<f32> = (0..PLACES * n.max(k))
        .flat_map(|_| &ends)
        .map(|[lo, hi]| rng.random_range(*lo..*hi) as f32)
        .collect();
    let at = |basis: &FittedBasis| Matrix::single(basis.len(), &basis.evaluate(&places));
    let told = between(&at(seen), &at(basis))?;
    // The drift of every column stands behind the coefficients of all.
    let own = seen.functions.basis().len();
    let place = |column: usize, j: usize| match j < own {
        true => column * own + j,
        false => group.values.len() * own + column * (n - own) + j - own,
    };
    let mut map = Matrix::zeros(k * columns.len(), n * group.values.len());
    for (c, &column) in columns.iter().enumerate() {
        let unit = (scaling.groups[0].span(column) / scaling.targets.span(c)) as f64;
        for i in 0..k {
            for j in 0..n {
                map[(c * k + i, place(column, j))] = unit * told[(i, j)];
            }
        }
    }
    Some(map)
}
