//! Trunks and the contraction that ends VIDON and DeepONet:
//!
//!   v_c(y) = τ_{0c}(y) + Σ_k β_k τ_{kc}(y),   k = 1..p, for every output component c.
//!
//! A trunk gives `d_u·(p + 1)` numbers a query, component by component, τ_0 first.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::data::Sample;
use crate::error::Result;
use crate::models::basis::Basis;
use crate::models::frame::Frame;
use crate::models::inputs::{Inputs, Sets};
use crate::models::mlp::{Activation, Mlp};
use crate::models::params::{Entry, Init, Key, Params, Plan};
use crate::models::pod::pod_modes;

/// Where the functions τ come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrunkConfig {
    /// Learned, as in the paper.
    Mlp { hidden: Vec<usize> },
    /// The first p/d_u functions of a basis on the box of the queries, for every component with β of its own; τ_0 is zero.
    Fourier {
        #[serde(default)]
        frame: Frame,
    },
    /// Mean and principal directions of the training outputs, found in a Fourier basis of so many functions
    /// ([`Model::fit`](crate::models::Model::fit)).
    Pod {
        #[serde(default)]
        frame: Frame,
        functions: usize,
    },
}

impl TrunkConfig {
    /// Number of fixed basis functions.
    pub(crate) fn functions(&self, p: usize) -> usize {
        match self {
            TrunkConfig::Mlp { .. } => 0,
            TrunkConfig::Fourier { .. } => p,
            TrunkConfig::Pod { functions, .. } => *functions,
        }
    }

    /// What is wrong with it for queries of `dim` coordinates and such targets, if anything.
    pub(crate) fn fault(&self, dim: usize, p: usize, outputs: usize) -> Option<String> {
        match self {
            TrunkConfig::Fourier { frame } if !p.is_multiple_of(outputs * frame.times.max(1)) => {
                Some(format!(
                    "a fixed basis shares p = {p} functions out to {outputs} components and {} times: it must be a multiple",
                    frame.times.max(1)
                ))
            }
            TrunkConfig::Mlp { hidden } => {
                hidden.contains(&0).then(|| "a layer has no width".into())
            }
            TrunkConfig::Pod { functions: 0, .. } => {
                Some("a POD trunk needs basis functions".into())
            }
            TrunkConfig::Fourier { frame } | TrunkConfig::Pod { frame, .. } => frame.fault(dim),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Trunk {
    kind: Kind,
    p: usize,
    outputs: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Mlp(Mlp),
    Fourier(Basis),
    /// The coefficients `[outputs·(p + 1), functions]` are numbers that are not trained.
    Pod(Basis, Key),
}

impl Trunk {
    pub(crate) fn new(
        plan: &mut Plan,
        config: &TrunkConfig,
        inputs: usize,
        p: usize,
        outputs: usize,
    ) -> Self {
        let kind = match config {
            TrunkConfig::Mlp { hidden } => {
                let width = outputs * (p + 1);
                Kind::Mlp(Mlp::new(
                    plan,
                    "trunk",
                    inputs,
                    hidden,
                    width,
                    Activation::Tanh,
                ))
            }
            TrunkConfig::Pod { frame, functions } => {
                let shape = [outputs * (p + 1), *functions];
                let modes = plan.add("trunk.pod".into(), &shape, Init::Fixed);
                Kind::Pod(Basis::new(frame.clone(), *functions), modes)
            }
            TrunkConfig::Fourier { frame } => Kind::Fourier(Basis::new(frame.clone(), p / outputs)),
        };
        Self { kind, p, outputs }
    }

    /// The perceptron, where there is one.
    pub fn mlp(&self) -> Option<&Mlp> {
        match &self.kind {
            Kind::Mlp(mlp) => Some(mlp),
            Kind::Fourier(_) | Kind::Pod(..) => None,
        }
    }

    /// The basis, where the functions are those of one.
    pub(crate) fn basis(&self) -> Option<&Basis> {
        match &self.kind {
            Kind::Fourier(basis) => Some(basis),
            Kind::Mlp(_) | Kind::Pod(..) => None,
        }
    }

    /// Fills a POD trunk from training outputs; the others need nothing.
    pub(crate) fn fit(&self, entries: &mut [Entry], samples: &[Sample]) -> Result<()> {
        if let Kind::Pod(basis, key) = &self.kind {
            entries[key.place()].values = pod_modes(basis, self.p, samples)?;
        }
        Ok(())
    }

    /// β `[samples, p]` contracted with τ at the queries: one row a target, `d_u` wide.
    pub fn contract(&self, params: &Params, beta: Tensor<2>, inputs: &Inputs) -> Tensor<2> {
        let tau = self.functions(params, inputs.query_coords.clone());
        match &inputs.queries {
            None => self.contract_shared(beta, tau),
            Some(queries) => self.contract_ragged(beta, tau, queries),
        }
    }

    /// τ at the queries: `[q, d_y]` to `[q, d_u·(p + 1)]`.
    pub(crate) fn functions(&self, params: &Params, coords: Tensor<2>) -> Tensor<2> {
        match &self.kind {
            Kind::Mlp(mlp) => mlp.forward(params, coords),
            Kind::Fourier(basis) => {
                let functions = basis.features(coords);
                let [rows, count] = functions.dims();
                let options = (&functions.device(), functions.dtype());
                let none = |width: usize| Tensor::<2>::zeros([rows, width], options);
                let component = |c: usize| {
                    let after = self.p - (c + 1) * count;
                    [none(1 + c * count), functions.clone(), none(after)]
                };
                let parts = (0..self.outputs).flat_map(component);
                Tensor::cat(parts.filter(|t| t.dims()[1] > 0).collect(), 1)
            }
            Kind::Pod(basis, modes) => basis
                .features(coords)
                .matmul(params.get::<2>(*modes).transpose()),
        }
    }

    /// Every β with every τ: `[samples·q, d_u]`, sample by sample.
    pub(crate) fn contract_shared(&self, beta: Tensor<2>, tau: Tensor<2>) -> Tensor<2> {
        let ([samples, _], [queries, _]) = (beta.dims(), tau.dims());
        let tau = tau
            .reshape([queries * self.outputs, self.p + 1])
            .transpose();
        let offset = tau.clone().narrow(0, 0, 1);
        let values = beta.matmul(tau.narrow(0, 1, self.p)) + offset;
        values.reshape([samples * queries, self.outputs])
    }

    fn contract_ragged(&self, beta: Tensor<2>, tau: Tensor<2>, queries: &Sets) -> Tensor<2> {
        if vidon_kernels::fused(&tau) {
            return vidon_kernels::contract(queries.offsets(), self.outputs, beta, tau);
        }
        let [rows, _] = tau.dims();
        let tau = tau.reshape([rows, self.outputs, self.p + 1]);
        let beta = queries.spread(beta).reshape([rows, 1, self.p]);
        let sum = (tau.clone().narrow(2, 1, self.p) * beta).sum_dim(2) + tau.narrow(2, 0, 1);
        sum.reshape([rows, self.outputs])
    }
}
