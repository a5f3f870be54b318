//! Decoders: from what a core gives to values at queries, one file each. The contraction that ends VIDON and
//! DeepONet is
//!
//!   v_c(y) = τ_{0c}(y) + Σ_k β_k τ_{kc}(y),   k = 1..p, for every output component c;
//!
//! where the functions τ come from makes the difference: learned (`learned`), a fixed basis (`basis`), or the
//! principal directions of the training outputs (`pod`). A `grid` decoder answers at the points of a grid.

mod basis;
mod learned;
mod pod;

pub use basis::BasisConfig;
pub use learned::LearnedConfig;
pub use pod::PodConfig;
pub(crate) use pod::target_fits;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::data::{Channel, ScaledSample, coordinates};
use crate::error::Result;
use crate::network::{Entry, Extent, Params, Plan, Sets, Tensor, linear};
use crate::spaces::{Basis, CovariateBasis, Family, FittedBasis, Frame};

/// Which decoder, with its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DecoderConfig {
    /// The paper's trunk.
    Learned(LearnedConfig),
    Basis(BasisConfig),
    Pod(PodConfig),
    /// FNO's: the value at a point of the grid on which the sensors stand is what the core gives there,
    /// v(x_i) = h_i. It is asked at those points and nowhere else.
    Grid {},
}

impl DecoderConfig {
    /// What makes it impossible for queries of which this is known, if anything.
    pub(crate) fn fault(&self, places: &[Channel]) -> Option<String> {
        let coords = coordinates(places);
        match self {
            DecoderConfig::Learned(c) => c.fault(),
            DecoderConfig::Basis(c) => c.fault(coords),
            DecoderConfig::Pod(c) => c.fault(coords),
            DecoderConfig::Grid {} => None,
        }
    }

    /// The box of its functions, where it has any.
    pub(crate) fn frame(&mut self) -> Option<&mut Frame> {
        match self {
            DecoderConfig::Basis(BasisConfig { frame, .. })
            | DecoderConfig::Pod(PodConfig { frame, .. }) => Some(frame),
            DecoderConfig::Learned(_) | DecoderConfig::Grid {} => None,
        }
    }

    /// For queries of which so many numbers are known.
    pub(crate) fn build(&self, plan: &mut Plan, coords: usize, targets: usize) -> Decoder {
        let functions: Box<dyn Functions> = match self {
            DecoderConfig::Learned(c) => Box::new(learned::Learned::new(plan, c, coords, targets)),
            DecoderConfig::Basis(c) => Box::new(basis::FixedBasis::new(plan, c, coords, targets)),
            DecoderConfig::Pod(c) => Box::new(pod::Pod::new(plan, c, targets)),
            DecoderConfig::Grid {} => return Decoder::Grid,
        };
        Decoder::Contraction(Contraction { functions, targets })
    }

    /// The functions that every component has, where they are those of a basis, of queries of which so many numbers
    /// are known.
    pub(crate) fn functions(&self, coords: usize) -> Option<CovariateBasis> {
        match self {
            DecoderConfig::Basis(c) => Some(c.functions(coords)),
            _ => None,
        }
    }

    /// Whether answers vanish on the boundary of a box, whatever is learned.
    pub(crate) fn vanishes(&self) -> bool {
        self.clone().frame().map(|f| f.family) == Some(Family::Sine)
    }

    /// Numbers that it takes for a sample, for queries of which so many numbers are known and with so many targets,
    /// where that does not depend on the sample.
    pub(crate) fn inputs(&self, coords: usize, targets: usize) -> usize {
        match self {
            DecoderConfig::Learned(c) => c.p,
            DecoderConfig::Basis(c) => c.functions(coords).len() * targets,
            DecoderConfig::Pod(c) => c.p,
            DecoderConfig::Grid {} => 0,
        }
    }
}

/// Where the functions τ of a contraction come from.
pub(crate) trait Functions: Debug + Send + Sync {
    /// p
    fn count(&self) -> usize;

    /// Finds what it takes from training data.
    fn fit(&self, _entries: &mut [Entry], _training: &[ScaledSample]) -> Result<()> {
        Ok(())
    }

    /// τ at the queries `[q, d_y + covariates]`: `[q, d_u·(p + 1)]`, component by component, τ_0 first.
    fn at(&self, params: &Params, queries: Tensor<2>) -> Tensor<2>;

    /// The basis that every component has, with β of its own, where the functions are those of one.
    fn basis(&self) -> Option<&Basis> {
        None
    }

    /// That basis with its functions of covariates.
    fn fitted(&self, _entries: &[Entry]) -> Option<FittedBasis<'_>> {
        None
    }

    /// Whether it sees covariates beside the coordinates.
    fn sees_covariates(&self) -> bool {
        false
    }

    fn extent(&self) -> Extent {
        Extent::default()
    }

    /// Sum of its hidden widths.
    fn hidden(&self) -> usize {
        0
    }
}

#[derive(Debug)]
pub(crate) enum Decoder {
    Contraction(Contraction),
    Grid,
}

impl Decoder {
    pub fn contraction(&self) -> Option<&Contraction> {
        match self {
            Decoder::Contraction(contraction) => Some(contraction),
            Decoder::Grid => None,
        }
    }

    /// The functions of a fixed basis: one for each component of its answers.
    pub fn basis(&self) -> Option<&Basis> {
        self.contraction()?.functions.basis()
    }

    /// Those with the functions of covariates behind them.
    pub fn fitted(&self, entries: &[Entry]) -> Option<FittedBasis<'_>> {
        self.contraction()?.functions.fitted(entries)
    }

    /// Whether its fixed functions are of covariates too.
    pub fn has_functions_of_covariates(&self) -> bool {
        let own = self.contraction().map(|c| &c.functions);
        own.is_some_and(|f| f.basis().is_some() && f.sees_covariates())
    }
}

/// β and the functions that it is contracted with.
#[derive(Debug)]
pub(crate) struct Contraction {
    pub functions: Box<dyn Functions>,
    targets: usize,
}

impl Contraction {
    /// Numbers of τ at a query.
    pub fn width(&self) -> usize {
        let functions = self.functions.count().saturating_add(1);
        functions.saturating_mul(self.targets)
    }

    /// Every β `[samples, p]` with every τ `[q, …]`: `[samples·q, d_u]`, sample by sample.
    pub fn shared(&self, beta: Tensor<2>, tau: Tensor<2>) -> Tensor<2> {
        let ([samples, p], [queries, _]) = (beta.dims(), tau.dims());
        let rows = queries * self.targets;
        let one = Tensor::ones([samples, 1], (&beta.device(), beta.dtype()));
        let beta = Tensor::cat(vec![one, beta], 1);
        let values = linear(tau.reshape([rows, p + 1]), beta).transpose();
        values.reshape([samples * queries, self.targets])
    }

    /// The β of every sample with τ at the sample's own queries: a row a query, `d_u` wide.
    pub fn ragged(&self, beta: Tensor<2>, tau: Tensor<2>, queries: &Sets) -> Tensor<2> {
        if vidon_kernels::fused(&tau) {
            return vidon_kernels::contract(queries.offsets(), self.targets, beta, tau);
        }
        let ([_, p], [rows, _]) = (beta.dims(), tau.dims());
        let tau = tau.reshape([rows, self.targets, p + 1]);
        let beta = queries.spread(beta).reshape([rows, 1, p]);
        let sum = (tau.clone().narrow(2, 1, p) * beta).sum_dim(2) + tau.narrow(2, 0, 1);
        sum.reshape([rows, self.targets])
    }
}
