//! Fused CPU kernels for perceptrons over rows and sets, as a Burn backend extension.
//!
//! A training step of a VIDON is eight small perceptrons over a hundred thousand rows. Done layer by layer it is
//! bound by memory; here a tile of 96 rows goes through a whole perceptron while it stays in the cache. There is
//! one algorithm, written once over a vector type and compiled for AVX-512, AVX2 with FMA, and any machine; which
//! one runs is decided when the program does (the environment variable `VIDON_ISA` forces one).
//!
//! The same call gives the same bits on any number of threads, and what a row, a set or a sample gives on the way
//! forward does not depend on what else is in its batch.

#![deny(
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc
)]

mod activation;
mod arena;
mod chunks;
mod contract;
mod dft;
mod fourier;
mod grid;
mod isa;
mod memory;
mod mlp;
mod ops;
mod optimiser;
mod peak;
mod pool;
mod product;
mod rows;
pub mod scalar;
mod sets;
mod simd;
mod timing;

pub use activation::Activation;
pub use arena::release_memory;
pub use fourier::FourierLayer;
pub use grid::Resize;
pub use isa::Isa;
pub use memory::available_memory;
pub use mlp::Shape;
pub use ops::{
    affine, contract, fourier_layer, fused, memory_limit, mlp, pool, resize_grid, set_memory_limit,
};
pub use optimiser::{AdamStep, adam, blend, sum_of_squares};
pub use peak::fma_peak;
pub use pool::Heads;
pub use timing::time_heads;

#[cfg(test)]
mod tests;
