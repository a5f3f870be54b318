//! A network that learned with flips and swaps of the axes answers for all images of its sensors; the answers are
//! taken back and averaged,
//!
//!   β̄ = 1/|G| Σ_g g⁻¹ β(g c).
//!
//! Where the answers for two images differ, one of them is wrong: averaging takes part of the error away, at
//! the price of a few more rows through the network. It needs a network that sees its sensors through projections,
//! moments and scalars alone, and a fixed basis. A function that some symmetries take out of that basis is averaged
//! over the others.

use crate::data::scaling::Ends;
use crate::data::{Group, Kind, Meta, Scaling};
use crate::error::Result;
use crate::network::{Params, Tensor, to_vec};
use crate::operator::{Code, Parts};
use crate::spaces::{Basis, Frame, Symmetries, Symmetry};

/// In more dimensions there are too many symmetries.
const MOST_AXES: usize = 3;

#[derive(Debug)]
pub(super) struct SymmetryAverage {
    /// Each with what undoes it.
    all: Vec<[Symmetry; 2]>,
    /// The decoder's functions of space and more, so that no symmetry leaves them; how many are the
    /// decoder's, and how many of time each has.
    basis: Basis,
    functions: usize,
    times: usize,
    /// From how many symmetries each of the decoder's functions comes.
    counts: Vec<f32>,
}

impl SymmetryAverage {
    /// None where there is nothing to average, or nothing that can be.
    pub fn of(
        parts: &Parts,
        symmetries: Symmetries,
        meta: &Meta,
        scaling: Option<&Scaling>,
    ) -> Option<Self> {
        let axes = meta.space().len();
        if axes > MOST_AXES {
            return None;
        }
        if parts.decoder.has_functions_of_covariates() {
            return None;
        }
        let seen = parts.seen_bases()?;
        let frame = parts.decoder.basis()?.frame();
        let times = frame.times.max(1);
        let functions = parts.decoder.basis()?.len() / times;
        let basis = Basis::whole(frame.space(), functions);
        let same_box = seen.iter().all(|own| {
            let Frame { lo, hi, .. } = own.frame();
            (basis.frame()).is_box(lo.iter().zip(hi).map(|(lo, hi)| [*lo, *hi]))
        });
        let turned =
            |(own, group): (&Ends, &Group)| group.kind == Kind::Scalars || own.keeps_zero();
        let signs = scaling.is_none_or(|n| {
            let mut groups = n.groups.iter().zip(&meta.groups);
            groups.all(turned) && n.targets.keeps_zero()
        });
        let still = Symmetries {
            shifts: false,
            ..symmetries
        };
        let able = parts.has_symmetries(still, &meta.groups)
            && same_box
            && basis.has_symmetries(false)
            && (signs || !symmetries.odd);
        let all = symmetries.all(axes);
        if !able || all.len() < 2 {
            return None;
        }
        let mut average = Self {
            all: all.into_iter().map(|s| [s.clone(), s.inverse()]).collect(),
            counts: vec![0.0; functions],
            basis,
            functions,
            times,
        };
        for [_, back] in &average.all {
            let mut inside = vec![1.0; functions];
            inside.resize(average.basis.len(), 0.0);
            average.basis.transform(&mut inside, back);
            let pairs = average.counts.iter_mut().zip(&inside);
            pairs.for_each(|(count, v)| *count += v.abs());
        }
        Some(average)
    }

    /// β̄, `[samples, p]`.
    pub fn branch(&self, parts: &Parts, params: &Params, codes: &[&Code]) -> Result<Tensor<2>> {
        let mut sums = Vec::new();
        for [there, back] in &self.all {
            let mut images: Vec<Code> = codes.iter().map(|code| (*code).clone()).collect();
            for code in &mut images {
                // Coefficients know their box.
                parts.transform(code, there, &[]);
            }
            let mut beta = to_vec(parts.branch(params, &images.iter().collect::<Vec<_>>())?);
            for own in beta.chunks_exact_mut(self.functions * self.times) {
                self.take_back(back, own);
            }
            sums.resize(beta.len(), 0.0);
            sums.iter_mut().zip(&beta).for_each(|(s, b)| *s += b);
        }
        let count = |i: usize| self.counts[i / self.times % self.functions];
        let means = sums.iter().enumerate().map(|(i, s)| s / count(i));
        let shape = [codes.len(), sums.len() / codes.len()];
        Ok(params.place().tensor(means.collect(), shape))
    }

    /// The coefficients of one component, all functions of time for each of space.
    fn take_back(&self, back: &Symmetry, own: &mut [f32]) {
        for l in 0..self.times {
            let mut space: Vec<f32> = own.iter().skip(l).step_by(self.times).copied().collect();
            space.resize(self.basis.len(), 0.0);
            self.basis.transform(&mut space, back);
            let places = own.iter_mut().skip(l).step_by(self.times);
            places.zip(&space).for_each(|(to, v)| *to = *v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;
    use crate::cores::{CoreConfig, MlpConfig};
    use crate::data::{Centred, Channel, Rows, Sample, ScaledSample, ScalingKind, Transforms};
    use crate::decoders::{BasisConfig, DecoderConfig};
    use crate::encoders::{EncoderConfig, ProjectionConfig};
    use crate::operator::{Design, Operator};
    use crate::rng::stream;
    use crate::spaces::Family;
    use rand::RngExt;
    use std::sync::Arc;

    /// Whatever the network has learned, its averaged answers have the symmetries: for turned sensors the
    /// answer is the turned one.
    #[test]
    fn averaged_answers_have_the_symmetries() {
        let range = |n: &str| Channel {
            range: Some([0.0, 1.0]),
            ..Channel::named(n)
        };
        let channels = |names: &[&str]| names.iter().map(|n| range(n)).collect::<Vec<_>>();
        // 23 waves, for each of two targets, are no whole shell.
        for (family, p, times, odd) in [
            (Family::Legendre, 40, 2, true),
            (Family::Periodic, 26, 0, true),
            (Family::Periodic, 46, 0, true),
            (Family::Sine, 16, 0, false),
            (Family::Sine, 16, 0, true),
        ] {
            let names = if times > 0 {
                &["x", "y", "t"][..]
            } else {
                &["x", "y"]
            };
            let meta = Meta::new(
                "images",
                channels(&["x", "y"]),
                vec![Channel::named("a")],
                channels(names),
                vec![Channel::named("u"), Channel::named("v")],
            );
            let frame = |dim: usize, family: Family, times: usize| Frame {
                lo: vec![0.0; dim],
                hi: vec![1.0; dim],
                family,
                times,
            };
            let seen = if family == Family::Sine {
                Family::Cosine
            } else {
                family
            };
            let config = ModelConfig {
                start: None,
                encoders: vec![EncoderConfig::Projection(ProjectionConfig {
                    group: None,
                    frame: frame(2, seen, 0),
                    functions: 15,
                })],
                core: CoreConfig::Mlp(MlpConfig {
                    hidden: vec![8],
                    ..MlpConfig::default()
                }),
                decoder: DecoderConfig::Basis(BasisConfig {
                    frame: frame(names.len(), family, times),
                    functions: p / 2 / times.max(1),
                }),
            };
            let mut rng = stream(1, "images", 0);
            let mut rows = |count: usize, width: usize| {
                Rows::of(width, (0..count * width).map(|_| rng.random()).collect())
            };
            let mut sample = || {
                let queries = rows(20, names.len());
                Sample::of(rows(40, 2), rows(40, 1), Arc::new(queries), rows(20, 2))
            };
            let samples = [sample(), sample(), sample()];
            let centred = Centred {
                readings: odd,
                targets: odd,
            };
            let scaling = Scaling::fit(&meta, &samples, ScalingKind::Extremes, centred).unwrap();
            let (parts, mut entries) = Parts::new(&config, &meta, 0).unwrap();
            let training: Vec<ScaledSample> = samples.iter().cloned().map(Into::into).collect();
            parts.fit(&mut entries, &meta.groups, &training).unwrap();
            let answer = |symmetries: Symmetries, sample: &Sample| {
                let (parts, _) = Parts::new(&config, &meta, 0).unwrap();
                let (scaling, none) = (scaling.clone(), Transforms::default());
                let design = Design::new(parts, meta.clone(), none, scaling, symmetries);
                let operator = Operator::with_numbers(design, entries.clone());
                let answers = operator.predict_samples(&[sample]).unwrap();
                answers[0].data().to_vec()
            };
            let symmetries = Symmetries {
                flips: true,
                swaps: true,
                odd,
                ..Symmetries::default()
            };
            // Swapped, then the first axis turned round: two mirror images.
            let turned = |rows: &Rows| {
                let mut rows = rows.clone();
                let width = rows.width();
                for point in rows.data_mut().chunks_mut(width) {
                    (point[0], point[1]) = (1.0 - point[1], point[0]);
                }
                rows
            };
            let mirrored = |rows: &Rows| {
                let mut rows = rows.clone();
                let width = rows.width();
                rows.data_mut().chunks_mut(width).for_each(|p| p.swap(0, 1));
                rows
            };
            let moved = |motion: &dyn Fn(&Rows) -> Rows, sign: f32| {
                let mut image = samples[0].clone();
                image.query_coords = Arc::new(motion(&image.query_coords));
                let sensors = &mut image.groups[0];
                sensors.coords = motion(&sensors.coords);
                let values = sensors.values.data_mut();
                values.iter_mut().for_each(|v| *v *= sign);
                image
            };
            let sign = if odd { -1.0 } else { 1.0 };
            let apart = |symmetries: Symmetries| -> f32 {
                let before = answer(symmetries, &samples[0]);
                let cases = [(moved(&turned, 1.0), 1.0), (moved(&mirrored, sign), sign)];
                let worst = cases.iter().map(|(sample, sign)| {
                    let after = answer(symmetries, sample);
                    let pairs = before.iter().zip(&after);
                    pairs.map(|(a, b)| (sign * a - b).abs()).fold(0.0, f32::max)
                });
                worst.fold(0.0, f32::max) / before.iter().map(|v| v.abs()).fold(0.0, f32::max)
            };
            let (plain, averaged) = (apart(Symmetries::default()), apart(symmetries));
            // Functions that leave the trunk are not averaged over all images.
            let exact = p != 46;
            assert!(plain > 0.05, "{family:?}: {plain}");
            assert!(
                averaged < if exact { 2e-3 } else { 0.5 * plain },
                "{family:?}: {averaged}"
            );
        }
    }
}
