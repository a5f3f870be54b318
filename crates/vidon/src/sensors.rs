//! The six sensor layouts, on any box in any dimension.
//!
//! With `n` the number of points of the regular grid:
//!
//! | layout      | places                                                 | number per sample       |
//! |-------------|--------------------------------------------------------|-------------------------|
//! | `regular`   | Cartesian grid, ends included                          | n                       |
//! | `irregular` | one random set of the pool, the same for every sample  | n                       |
//! | `missing`   | the grid with a random part removed                    | uniform in 0.8 n … n    |
//! | `perturbed` | grid points moved at random, refilled from the pool    | uniform in 0.9 n … 1.1 n |
//! | `random`    | random points of the pool, new in every sample         | n                       |
//! | `variable`  | the same                                               | uniform in 0.9 n … 1.1 n |
//!
//! The pool is a finer grid that contains the regular one, or the whole box (continuous).
//!
//! ```
//! use vidon::sensors::{Layout, SensorSpec};
//! let spec = SensorSpec::new(&[[0.0, 1.0]; 2], vec![51, 51], Some(vec![251, 251]))?;
//! let xy = spec.place(Layout::Variable, 0, "train", 7);
//! assert!(spec.count_range(Layout::Variable).contains(&(xy.len() / 2)));
//! # Ok::<(), vidon::Error>(())
//! ```

use std::collections::HashSet;
use std::ops::RangeInclusive;

use rand::RngExt;
use rand::seq::{SliceRandom, index};
use serde::{Deserialize, Serialize};

use crate::domain::{BoxDomain, product};
use crate::error::{Error, Result};
use crate::rng::{Rng, stream};

/// How far `perturbed` moves a grid point on a pool grid, in pool cells per axis.
const PERTURBED_CELLS: i64 = 2;
/// How far `perturbed` moves a grid point in a continuous pool, in grid spacings per axis.
const PERTURBED_SPACING: f64 = 0.5;

/// Where the sensors are, and whether they change from sample to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    Regular,
    Irregular,
    Missing,
    Perturbed,
    Random,
    Variable,
}

impl Layout {
    pub const ALL: [Layout; 6] = [
        Layout::Regular,
        Layout::Irregular,
        Layout::Missing,
        Layout::Perturbed,
        Layout::Random,
        Layout::Variable,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Layout::Regular => "regular",
            Layout::Irregular => "irregular",
            Layout::Missing => "missing",
            Layout::Perturbed => "perturbed",
            Layout::Random => "random",
            Layout::Variable => "variable",
        }
    }

    /// The same places in every sample (what a network with a fixed input vector needs).
    pub fn is_fixed(self) -> bool {
        matches!(self, Layout::Regular | Layout::Irregular)
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Most sensors of a sample, where the pool has no end.
const MOST: usize = 10_000_000;

/// The box, regular grid and pool that the layouts are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorSpec {
    domain: BoxDomain,
    grid: Vec<usize>,
    /// Nodes per axis, ends included; none: every point of the box.
    pool: Option<Vec<usize>>,
}

impl SensorSpec {
    /// For a box with these ends per axis. Random sensors are drawn from the nodes of the finer grid `pool`,
    /// or, without one, from all of the box. Grids have so many nodes per axis, ends included; an error where
    /// the pool does not contain the regular grid.
    pub fn new(ends: &[[f64; 2]], grid: Vec<usize>, pool: Option<Vec<usize>>) -> Result<Self> {
        let domain = BoxDomain::between(ends)?;
        let dim = domain.dim();
        if grid.len() != dim || grid.iter().any(|&n| n < 2) {
            return Err(Error::setting(
                "grid",
                format!("the sensor grid {grid:?} needs {dim} axes of at least 2 points"),
            ));
        }
        if let Some(fine) = &pool {
            let nested = fine.len() == dim
                && grid
                    .iter()
                    .zip(fine)
                    .all(|(&n, &p)| p >= n && (p - 1) % (n - 1) == 0);
            if !nested {
                return Err(Error::setting(
                    "pool",
                    format!(
                        "the pool grid {fine:?} does not contain the sensor grid {grid:?}: on every axis, pool − 1 must be a multiple of grid − 1"
                    ),
                ));
            }
        }
        let spec = Self { domain, grid, pool };
        let most = *spec.count_range(Layout::Variable).end();
        match spec.pool_size() {
            Some(size) if size < most => Err(Error::setting(
                "pool",
                format!(
                    "the pool has {size} points, but the layouts `perturbed` and `variable` need up to {most}"
                ),
            )),
            _ => Ok(spec),
        }
    }

    pub(crate) fn domain(&self) -> &BoxDomain {
        &self.domain
    }

    /// How many sensors a sample may have.
    pub fn count_range(&self, layout: Layout) -> RangeInclusive<usize> {
        let n: usize = self.grid.iter().product();
        let part = |share: f64| (share * n as f64).round() as usize;
        match layout {
            Layout::Regular | Layout::Irregular | Layout::Random => n..=n,
            Layout::Missing => part(0.8)..=n,
            Layout::Perturbed | Layout::Variable => part(0.9)..=part(1.1),
        }
    }

    /// The sensors of sample `index` of `split` (`m × d`). Depends on nothing but the arguments;
    /// `irregular` depends on the seed alone.
    pub fn place(&self, layout: Layout, seed: u64, split: &str, index: usize) -> Vec<f64> {
        let mut rng = match layout {
            Layout::Irregular => stream(seed, "sensors/irregular", 0),
            _ => stream(seed, &format!("sensors/{layout}/{split}"), index as u64),
        };
        let count = rng.random_range(self.count_range(layout));
        match layout {
            Layout::Regular => self.regular(),
            Layout::Missing => self.missing(count, &mut rng),
            Layout::Perturbed => self.perturbed(count, &mut rng),
            Layout::Irregular | Layout::Random | Layout::Variable => self.drawn(count, &mut rng),
        }
    }

    /// Most sensors that [`scatter`](Self::scatter) can place.
    pub fn most(&self) -> usize {
        self.pool_size().unwrap_or(MOST)
    }

    /// `count` random places for sample `index`, for studies of the number of sensors; no more than
    /// [`most`](Self::most).
    pub fn scatter(&self, count: usize, seed: u64, split: &str, index: usize) -> Vec<f64> {
        let mut rng = stream(seed, &format!("sensors/scattered/{split}"), index as u64);
        self.drawn(count.min(self.most()), &mut rng)
    }

    fn pool_size(&self) -> Option<usize> {
        let pool = self.pool.as_ref();
        pool.map(|fine| fine.iter().product())
    }

    fn regular(&self) -> Vec<f64> {
        product(&self.domain.axes(&self.grid))
    }

    fn missing(&self, count: usize, rng: &mut Rng) -> Vec<f64> {
        let all = self.regular();
        let dim = self.domain.dim();
        let mut kept = index::sample(rng, all.len() / dim, count).into_vec();
        kept.sort_unstable();
        kept.iter()
            .flat_map(|&i| &all[i * dim..(i + 1) * dim])
            .copied()
            .collect()
    }

    fn drawn(&self, count: usize, rng: &mut Rng) -> Vec<f64> {
        match &self.pool {
            Some(fine) => {
                let size = fine.iter().product();
                self.pool_coords(fine, index::sample(rng, size, count))
            }
            None => (0..count).flat_map(|_| self.anywhere(rng)).collect(),
        }
    }

    fn perturbed(&self, count: usize, rng: &mut Rng) -> Vec<f64> {
        match &self.pool {
            Some(fine) => self.perturbed_on_grid(fine, count, rng),
            None => self.perturbed_anywhere(count, rng),
        }
    }

    fn perturbed_on_grid(&self, fine: &[usize], count: usize, rng: &mut Rng) -> Vec<f64> {
        let n: usize = self.grid.iter().product();
        let mut seen = HashSet::with_capacity(count.max(n));
        let mut places = Vec::with_capacity(count.max(n));
        for point in 0..n {
            let node = unravel(point, &self.grid);
            let moved = node.iter().enumerate().map(|(axis, &i)| {
                let stride = (fine[axis] - 1) / (self.grid[axis] - 1);
                let step = rng.random_range(-PERTURBED_CELLS..=PERTURBED_CELLS);
                ((i * stride) as i64 + step).clamp(0, fine[axis] as i64 - 1) as usize
            });
            let place = moved.zip(fine).fold(0, |at, (i, &p)| at * p + i);
            if seen.insert(place) {
                places.push(place);
            }
        }
        places.shuffle(rng);
        places.truncate(count);
        let size: usize = fine.iter().product();
        while places.len() < count {
            let place = rng.random_range(0..size);
            if seen.insert(place) {
                places.push(place);
            }
        }
        self.pool_coords(fine, places)
    }

    fn perturbed_anywhere(&self, count: usize, rng: &mut Rng) -> Vec<f64> {
        let (lo, hi) = (self.domain.lo(), self.domain.hi());
        let mut points: Vec<Vec<f64>> = self
            .regular()
            .chunks(self.domain.dim())
            .map(|point| {
                let moved = point.iter().enumerate().map(|(axis, x)| {
                    let spacing = (hi[axis] - lo[axis]) / (self.grid[axis] - 1) as f64;
                    let step = rng.random_range(-PERTURBED_SPACING..PERTURBED_SPACING);
                    (x + step * spacing).clamp(lo[axis], hi[axis])
                });
                moved.collect()
            })
            .collect();
        points.shuffle(rng);
        points.truncate(count);
        while points.len() < count {
            points.push(self.anywhere(rng));
        }
        points.concat()
    }

    /// One uniform random point of the box.
    fn anywhere(&self, rng: &mut Rng) -> Vec<f64> {
        let ends = self.domain.lo().iter().zip(self.domain.hi());
        ends.map(|(&a, &b)| rng.random_range(a..b)).collect()
    }

    fn pool_coords(&self, fine: &[usize], places: impl IntoIterator<Item = usize>) -> Vec<f64> {
        let coords = |place| {
            let node = unravel(place, fine);
            (0..fine.len()).map(move |axis| self.domain.node(axis, node[axis], fine[axis]))
        };
        places.into_iter().flat_map(coords).collect()
    }
}

/// Index per axis of point `at` on a grid whose last axis runs fastest.
fn unravel(mut at: usize, grid: &[usize]) -> Vec<usize> {
    let mut node = vec![0; grid.len()];
    for (i, n) in node.iter_mut().zip(grid).rev() {
        *i = at % n;
        at /= n;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn darcy() -> SensorSpec {
        let pool = Some(vec![251, 251]);
        SensorSpec::new(&[[0.0, 1.0]; 2], vec![51, 51], pool).unwrap()
    }

    fn spec(n: usize, pool: Option<Vec<usize>>) -> SensorSpec {
        SensorSpec::new(&[[0.0, 1.0]; 2], vec![n, n], pool).unwrap()
    }

    #[test]
    fn counts_are_those_of_the_paper() {
        let allen_cahn = spec(26, Some(vec![76, 76]));
        let navier_stokes = spec(33, None);
        for (spec, n, missing, around) in [
            (darcy(), 2601, 2081..=2601, 2341..=2861),
            (allen_cahn, 676, 541..=676, 608..=744),
            (navier_stokes, 1089, 871..=1089, 980..=1198),
        ] {
            for fixed in [Layout::Regular, Layout::Irregular, Layout::Random] {
                assert_eq!(spec.count_range(fixed), n..=n);
            }
            assert_eq!(spec.count_range(Layout::Missing), missing);
            assert_eq!(spec.count_range(Layout::Perturbed), around);
            assert_eq!(spec.count_range(Layout::Variable), around);
        }
    }

    #[test]
    fn numbers_reach_both_ends_of_their_range() {
        let spec = spec(5, Some(vec![21, 21]));
        for layout in [Layout::Missing, Layout::Perturbed, Layout::Variable] {
            let seen: HashSet<usize> = (0..400)
                .map(|i| spec.place(layout, 1, "train", i).len() / 2)
                .collect();
            assert_eq!(seen, spec.count_range(layout).collect(), "{layout}");
        }
    }

    #[test]
    fn fixed_layouts_repeat_and_random_ones_do_not() {
        for layout in Layout::ALL {
            let at = |split, index| darcy().place(layout, 3, split, index);
            assert_eq!(at("train", 0) == at("train", 1), layout.is_fixed());
            assert_eq!(at("train", 0) == at("test", 0), layout.is_fixed());
            assert_eq!(at("train", 5), at("train", 5));
        }
    }

    #[test]
    fn perturbed_points_stay_within_two_pool_cells_of_their_grid_points() {
        // Ten pool cells between grid points: none coincide, so only the refill may be far off.
        let spec = spec(6, Some(vec![51, 51]));
        for index in 0..50 {
            let points = spec.place(Layout::Perturbed, 0, "train", index);
            let near = |x: &f64| {
                let cells = x * 50.0;
                (cells - 10.0 * (cells / 10.0).round()).abs() < 2.5
            };
            let stayed = points.chunks(2).filter(|p| p.iter().all(near)).count();
            assert!(stayed >= (points.len() / 2).min(36));
            let moved = points.iter().any(|x| (x * 5.0).fract() > 1e-9);
            assert!(moved);
        }
    }

    #[test]
    fn pools_that_do_not_fit_are_refused() {
        let cube = || &[[0.0, 1.0]; 2];
        for (grid, pool) in [
            (vec![5], None),
            (vec![5, 1], None),
            (vec![5, 5], Some(vec![10, 10])),
            (vec![5, 5], Some(vec![5, 5])),
        ] {
            assert!(SensorSpec::new(cube(), grid, pool).is_err());
        }
    }

    proptest! {
        /// Any dimension, any pool: the count is in range, no place is used twice, all lie in the box and on
        /// the pool.
        #[test]
        fn every_layout_keeps_its_promises(
            dim in 1usize..=3, n in 3usize..6, stride in 2usize..5, continuous: bool, seed: u64, index in 0usize..1000,
        ) {
            let pool_nodes = (n - 1) * stride + 1;
            let pool = if continuous { None } else { Some(vec![pool_nodes; dim]) };
            let spec = SensorSpec::new(&vec![[-1.0, 2.5]; dim], vec![n; dim], pool).unwrap();
            for layout in Layout::ALL {
                let points = spec.place(layout, seed, "train", index);
                let m = points.len() / dim;
                prop_assert!(spec.count_range(layout).contains(&m));
                prop_assert!(points.iter().all(|x| (-1.0..=2.5).contains(x)));
                let distinct: HashSet<Vec<u64>> =
                    points.chunks(dim).map(|p| p.iter().map(|x| x.to_bits()).collect()).collect();
                prop_assert_eq!(distinct.len(), m);
                if !continuous {
                    let on_pool = points.iter().all(|x| {
                        let cell = (x + 1.0) / 3.5 * (pool_nodes - 1) as f64;
                        (cell - cell.round()).abs() < 1e-9
                    });
                    prop_assert!(on_pool);
                }
            }
        }
    }
}
