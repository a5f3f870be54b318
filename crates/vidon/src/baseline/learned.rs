//! What training samples teach without a network: the mean of a place, and linear rules.

use std::collections::HashMap;

use crate::data::Rows;
use crate::spaces::linalg::{Factor, Matrix};

/// Places that are told apart at most; where there are more, none is known.
const MOST_PLACES: usize = 1 << 20;
/// Added to the normal equations, whose diagonal is one: two of the same are as good as one of them.
const RIDGE: f64 = 1e-9;

/// A place by the bits of its coordinates.
pub(super) fn key(place: &[f32]) -> Vec<u32> {
    place.iter().map(|v| (v + 0.0).to_bits()).collect()
}

/// How often places are asked.
#[derive(Default)]
pub(super) struct Asked(HashMap<Vec<u32>, usize>);

impl Asked {
    /// The first so many columns of the queries are coordinates.
    pub fn add(&mut self, queries: &Rows, axes: usize) {
        if self.0.len() < MOST_PLACES {
            queries
                .iter()
                .for_each(|p| *self.0.entry(key(&p[..axes])).or_default() += 1);
        }
    }
}

/// Counts and sums of the targets of every place, and of all of them.
pub(super) struct PlaceMeans {
    axes: usize,
    all: Vec<[f64; 2]>,
    places: HashMap<Vec<u32>, Vec<[f64; 2]>>,
}

impl PlaceMeans {
    pub fn new(axes: usize, targets: usize) -> Self {
        Self {
            axes,
            all: vec![[0.0; 2]; targets],
            places: HashMap::new(),
        }
    }

    pub fn add(&mut self, queries: &Rows, targets: &Rows) {
        for (place, values) in queries.iter().zip(targets.iter()) {
            let full = self.places.len() >= MOST_PLACES;
            let key = key(&place[..self.axes]);
            let own = match full {
                true => self.places.get_mut(&key),
                false => Some(
                    self.places
                        .entry(key)
                        .or_insert_with(|| vec![[0.0; 2]; values.len()]),
                ),
            };
            let add = |to: &mut [[f64; 2]]| {
                for (sum, v) in to.iter_mut().zip(values).filter(|(_, v)| !v.is_nan()) {
                    *sum = [sum[0] + 1.0, sum[1] + *v as f64];
                }
            };
            own.into_iter().for_each(|own| add(own));
            add(&mut self.all);
        }
    }

    /// The mean of all targets of a column.
    pub fn overall(&self, target: usize) -> f64 {
        let [count, sum] = self.all[target];
        sum / count
    }

    /// The mean of a place, `without` one of its targets; that of all where nothing is known of it.
    pub fn mean(&self, place: &[f32], target: usize, without: Option<f32>) -> f64 {
        let known = self.places.get(&key(&place[..self.axes]));
        let [mut count, mut sum] = known.map_or([0.0; 2], |own| own[target]);
        if let Some(v) = without {
            (count, sum) = (count - 1.0, sum - v as f64);
        }
        match count >= 1.0 {
            true => sum / count,
            false => self.overall(target),
        }
    }

    /// The share of what is asked at places that are known.
    pub fn known(&self, asked: &Asked) -> f64 {
        let all: usize = asked.0.values().sum();
        let known = asked
            .0
            .iter()
            .filter(|(place, _)| self.places.contains_key(*place));
        known.map(|(_, n)| n).sum::<usize>() as f64 / all.max(1) as f64
    }
}

/// Sums for linear rules y ≈ a + Σ b_k x_k by least squares, for any choice of the x.
pub(super) struct Sums {
    /// The first x and y that came: all are counted from there, so that few digits are lost.
    origin: Vec<f64>,
    /// Of the products of (1, x, y).
    products: Matrix,
    width: usize,
}

/// a + Σ b_k x_k
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Which x.
    wanted: Vec<usize>,
    start: f64,
    coefs: Vec<f64>,
}

impl Sums {
    pub fn new(width: usize) -> Self {
        Self {
            origin: Vec::new(),
            products: Matrix::zeros(width + 2, width + 2),
            width,
        }
    }

    pub fn add(&mut self, x: &[f64], y: f64) {
        let all = || x.iter().copied().chain([y]);
        if self.origin.is_empty() {
            self.origin = all().collect();
        }
        let apart = all().zip(&self.origin).map(|(v, o)| v - o);
        let row: Vec<f64> = [1.0].into_iter().chain(apart).collect();
        for (i, a) in row.iter().enumerate() {
            for (j, b) in row.iter().enumerate() {
                self.products[(i, j)] += a * b;
            }
        }
    }

    /// The rule of some x; none where there are fewer than twice as many equations as unknowns.
    pub fn rule(&self, wanted: &[usize]) -> Option<Rule> {
        let n = wanted.len() + 1;
        if self.products[(0, 0)] < 2.0 * n as f64 {
            return None;
        }
        let at = |k: usize| if k == 0 { 0 } else { 1 + wanted[k - 1] };
        let size = |k: usize| {
            let square = self.products[(at(k), at(k))];
            if square > 0.0 { square.sqrt() } else { 1.0 }
        };
        let normal = Matrix::from_fn(n, n, |i, j| {
            self.products[(at(i), at(j))] / (size(i) * size(j))
        });
        let right = Matrix::from_fn(n, 1, |i, _| {
            self.products[(at(i), self.width + 1)] / size(i)
        });
        let found = Factor::with_ridge(&normal, RIDGE)?.solve(&right);
        let coef = |k: usize| found[(k, 0)] / size(k);
        let coefs: Vec<f64> = (1..n).map(coef).collect();
        let shift: f64 = coefs
            .iter()
            .zip(wanted)
            .map(|(b, &k)| b * self.origin[k])
            .sum();
        Some(Rule {
            wanted: wanted.to_vec(),
            start: self.origin[self.width] + coef(0) - shift,
            coefs,
        })
    }
}

impl Rule {
    pub fn at(&self, x: &[f64]) -> f64 {
        let terms = self.wanted.iter().zip(&self.coefs).map(|(&k, b)| b * x[k]);
        self.start + terms.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_least_squares() {
        let mut sums = Sums::new(3);
        for i in 0..40 {
            let (a, b) = (1e5 + i as f64, (0.7 * i as f64).sin());
            sums.add(&[a, b, b], 3.0 + 2.0 * a - b);
        }
        let rule = sums.rule(&[0, 1]).unwrap();
        assert!((rule.at(&[1e5 + 7.5, 0.25, 9.0]) - (3.0 + 2.0 * (1e5 + 7.5) - 0.25)).abs() < 1e-4);
        // The same twice is shared between them.
        let twice = sums.rule(&[0, 1, 2]).unwrap();
        assert!((twice.coefs[1] - twice.coefs[2]).abs() < 1e-3);
        let few = Sums::new(1);
        assert!(few.rule(&[0]).is_none());
    }

    #[test]
    fn means_of_places_leave_out_what_is_asked() {
        let queries = Rows::of(2, vec![0.0, 9.0, 1.0, 9.0, -0.0, 8.0]);
        let targets = Rows::of(1, vec![2.0, 10.0, 4.0]);
        let mut means = PlaceMeans::new(1, 1);
        means.add(&queries, &targets);
        means.add(&queries, &Rows::of(1, vec![f32::NAN; 3]));
        assert_eq!(means.mean(&[0.0, 5.0], 0, None), 3.0);
        assert_eq!(means.mean(&[0.0, 5.0], 0, Some(2.0)), 4.0);
        let all = 16.0 / 3.0;
        assert_eq!(means.mean(&[1.0, 9.0], 0, Some(10.0)), all);
        assert_eq!(means.mean(&[7.0, 9.0], 0, None), all);
        let mut asked = Asked::default();
        asked.add(&Rows::of(2, vec![0.0, 1.0, 3.0, 1.0]), 1);
        assert_eq!(means.known(&asked), 0.5);
    }
}
