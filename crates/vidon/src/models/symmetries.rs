//! Symmetries of a problem on the box of its sensors: flips of axes, swaps of axes, and on a torus shifts along the axes. With `odd` a mirror image (an odd number of
//! flips and swaps) changes the sign of values and targets, as that of a vorticity does; they are scaled so that zero stays zero.

use serde::{Deserialize, Serialize};

use crate::models::basis::Turn;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Symmetries {
    pub flips: bool,
    pub swaps: bool,
    pub shifts: bool,
    pub odd: bool,
}

impl Symmetries {
    pub fn any(self) -> bool {
        self.flips || self.swaps || self.shifts
    }

    /// All flips and swaps (no shifts) of so many axes, the one that changes nothing first, and whether each is a mirror image.
    pub(crate) fn all(self, dim: usize) -> Vec<(Vec<Turn>, bool)> {
        let mut orders = vec![(Vec::new(), false)];
        for _ in 0..dim {
            let longer = orders.iter().flat_map(|(order, odd): &(Vec<usize>, bool)| {
                let left = (0..dim).filter(|axis| !order.contains(axis));
                let left: Vec<usize> = match self.swaps {
                    true => left.collect(),
                    false => left.take(1).collect(),
                };
                // The n-th of those that are left is n exchanges away.
                left.into_iter()
                    .enumerate()
                    .map(move |(n, axis)| ([&order[..], &[axis]].concat(), odd ^ (n % 2 == 1)))
            });
            orders = longer.collect();
        }
        let flips = if self.flips { 1 << dim } else { 1 };
        let turned = |(order, odd): &(Vec<usize>, bool)| {
            let (order, odd) = (order.clone(), *odd);
            (0..flips).map(move |bits: usize| {
                let turn = |(i, from): (usize, &usize)| (*from, bits >> i & 1 == 1, 0.0);
                let turns = order.iter().enumerate().map(turn).collect();
                (turns, odd ^ (bits.count_ones() % 2 == 1))
            })
        };
        orders.iter().flat_map(turned).collect()
    }
}
