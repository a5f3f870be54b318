//! What is known of a place besides where it is, as functions behind those of a basis: with z_j the covariates, of mean
//! zero and spread one over the places of the training data,
//!
//!   z_j φ_1, …, z_j φ_p,   (z_j² - 1) φ_1,
//!
//! with the constant and the linear φ (of sines, which have none, the longest, so that all vanish on the boundary).

use crate::spaces::Basis;

/// A basis and its functions with covariates; without covariates the basis alone.
#[derive(Clone, Debug)]
pub(crate) struct CovariateBasis {
    basis: Basis,
    covariates: usize,
    /// p, of functions of space.
    products: usize,
}

/// Where a function with a covariate comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Origin {
    /// The φ that it has.
    pub function: usize,
    /// Whether it is z_j alone: the drift that is linear.
    pub linear: bool,
}

impl CovariateBasis {
    pub fn new(basis: Basis, covariates: usize) -> Self {
        let space = basis.frame().space();
        let most = basis.len() / basis.frame().times.max(1);
        let products = match covariates {
            0 => 0,
            _ => {
                let linear = (space.lo.len() + 1).min(most);
                Basis::whole(space, linear).len().min(most)
            }
        };
        Self {
            basis,
            covariates,
            products,
        }
    }

    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    pub fn covariates(&self) -> usize {
        self.covariates
    }

    /// Functions of space that every covariate is multiplied with.
    pub fn products(&self) -> usize {
        self.products
    }

    /// Functions of time that each function of space has.
    fn times(&self) -> usize {
        self.basis.frame().times.max(1)
    }

    /// All functions.
    pub fn len(&self) -> usize {
        self.basis.len() + self.further()
    }

    /// Those behind the basis.
    pub fn further(&self) -> usize {
        match self.covariates {
            0 => 0,
            count => count * (self.products + 1) * self.times(),
        }
    }

    /// Where those come from, in order.
    pub fn origins(&self) -> impl Iterator<Item = Origin> + '_ {
        let (times, products) = (self.times(), self.products * self.times());
        let one = move |i: usize| Origin {
            function: if i < products { i } else { i - products },
            linear: i < times,
        };
        (0..self.covariates).flat_map(move |_| (0..products + times).map(one))
    }

    /// |k| of every function.
    pub fn orders(&self) -> Vec<f64> {
        let mut orders = self.basis.orders();
        let further: Vec<f64> = self.origins().map(|o| orders[o.function]).collect();
        orders.extend(further);
        orders
    }

    /// With mean and spread of the covariates, `[2, covariates]`.
    pub fn fitted(&self, standard: &[f32]) -> FittedBasis<'_> {
        debug_assert_eq!(standard.len(), 2 * self.covariates);
        FittedBasis {
            functions: self,
            standard: standard.to_vec(),
        }
    }

    /// A basis that there are no covariates to.
    pub fn plain(&self) -> FittedBasis<'_> {
        self.fitted(&[])
    }
}

/// Functions whose covariates are known in mean and spread.
#[derive(Clone, Debug)]
pub(crate) struct FittedBasis<'a> {
    pub functions: &'a CovariateBasis,
    pub standard: Vec<f32>,
}

impl FittedBasis<'_> {
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Numbers that are known of a place.
    pub fn width(&self) -> usize {
        self.functions.basis.frame().lo.len() + self.functions.covariates
    }

    /// All functions at places with their covariates: a row a place.
    pub fn evaluate(&self, places: &[f32]) -> Vec<f32> {
        let CovariateBasis {
            basis, covariates, ..
        } = self.functions;
        let all = self.len();
        if *covariates == 0 {
            return basis.evaluate(places, all);
        }
        let width = self.width();
        let axes = width - covariates;
        let coords = places.chunks(width).flat_map(|place| &place[..axes]);
        let coords: Vec<f32> = coords.copied().collect();
        let mut values = basis.evaluate(&coords, all);
        let (means, spreads) = self.standard.split_at(*covariates);
        let (products, times) = (
            self.functions.products * self.functions.times(),
            self.functions.times(),
        );
        for (row, place) in values.chunks_mut(all).zip(places.chunks(width)) {
            let (own, further) = row.split_at_mut(basis.len());
            let known = place[axes..].iter().zip(means).zip(spreads);
            let each = known.zip(further.chunks_mut(products + times));
            for (((v, mean), spread), further) in each {
                let z = (v - mean) / spread;
                let (linear, squares) = further.split_at_mut(products);
                linear
                    .iter_mut()
                    .zip(&*own)
                    .for_each(|(f, phi)| *f = z * phi);
                let square = z * z - 1.0;
                squares
                    .iter_mut()
                    .zip(&*own)
                    .for_each(|(f, phi)| *f = square * phi);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::{Family, Frame};

    fn basis(family: Family, times: usize, count: usize) -> Basis {
        let axes = 2 + (times > 0) as usize;
        let frame = Frame {
            lo: vec![0.0; axes],
            hi: vec![1.0; axes],
            family,
            times,
        };
        Basis::new(frame, count)
    }

    #[test]
    fn covariates_are_multiplied_with_the_first_functions() {
        for (family, products) in [
            (Family::Cosine, 3),
            (Family::Legendre, 3),
            (Family::Periodic, 5),
            (Family::Sine, 3),
        ] {
            let functions = CovariateBasis::new(basis(family, 0, 12), 2);
            assert_eq!(functions.products(), products, "{family:?}");
            assert_eq!(functions.len(), 12 + 2 * (products + 1));
            let (standard, place) = ([1.0, 10.0, 2.0, 5.0], [0.3, 0.6, 4.0, 0.0]);
            let row = functions.fitted(&standard).evaluate(&place);
            let own = functions.basis().evaluate(&place[..2], 12);
            assert_eq!(row[..12], own);
            let wanted = [1.5f32, -2.0].iter().flat_map(|z| {
                let linear = own[..products].iter().map(move |f| z * f);
                linear.chain([(z * z - 1.0) * own[0]])
            });
            assert_eq!(row[12..], wanted.collect::<Vec<f32>>());
            assert_eq!(functions.orders()[12], functions.orders()[0]);
            assert_eq!(functions.origins().count(), functions.further());
            assert_eq!(functions.origins().filter(|o| o.linear).count(), 2);
        }
    }

    #[test]
    fn without_covariates_a_basis_is_what_it_is() {
        let functions = CovariateBasis::new(basis(Family::Cosine, 3, 12), 0);
        let place = [0.3, 0.6, 0.9];
        assert_eq!((functions.len(), functions.further()), (12, 0));
        assert_eq!(
            functions.plain().evaluate(&place),
            functions.basis().evaluate(&place, 12)
        );
        // Of time, every product has all functions.
        let timed = CovariateBasis::new(basis(Family::Cosine, 3, 12), 1);
        assert_eq!(timed.further(), 3 * (3 + 1));
        // No more products than there are functions.
        let few = CovariateBasis::new(basis(Family::Cosine, 0, 2), 1);
        assert_eq!((few.products(), few.further()), (2, 3));
    }
}
