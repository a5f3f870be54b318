//! A network that learned with flips and swaps of the axes answers for all images of its sensors; the answers are turned back and averaged,
//!
//!   β̄ = 1/|G| Σ_g g⁻¹ β(g c).
//!
//! Where the answers for two images differ, one of them is wrong: averaging takes part of the error away, at the price of a few more rows through the
//! network. It needs a network that sees its sensors through a projection alone, and a fixed trunk. A function that some images take out of the trunk
//! is averaged over the others.

use burn::tensor::{DType, Tensor, TensorData};

use crate::error::Result;
use crate::models::{Basis, Frame, Inputs, Params, Symmetries, Turn, Weights, to_vec};

/// In more dimensions there are too many images.
const MOST_AXES: usize = 3;

pub(crate) struct Images {
    all: Vec<Image>,
    /// The trunk's functions of space and more, so that images do not leave them; how many are the trunk's, and how many of time each has.
    basis: Basis,
    functions: usize,
    times: usize,
    /// From how many images each of the trunk's functions comes.
    counts: Vec<f32>,
}

struct Image {
    there: Vec<Turn>,
    back: Vec<Turn>,
    /// Whether signs change.
    negative: bool,
}

impl Images {
    /// None where there is nothing to average, or nothing that can be.
    pub fn of(weights: &Weights) -> Option<Self> {
        let Symmetries { odd, .. } = weights.symmetries;
        let coords = &weights.meta.sensor_coords;
        if coords.len() > MOST_AXES {
            return None;
        }
        let projection = weights.model.projection()?;
        let frame = weights.model.trunk_basis()?.frame();
        let times = frame.times.max(1);
        let functions = weights.model.trunk_basis()?.len() / times;
        let basis = Basis::whole(frame.space(), functions);
        let Frame { lo, hi, .. } = projection.basis().frame();
        let same_box = (basis.frame()).is_box(lo.iter().zip(hi).map(|(lo, hi)| [*lo, *hi]));
        let scaling = weights.normalisation.as_ref();
        let signs = scaling.is_none_or(|n| n.sensor_values.keeps_zero() && n.targets.keeps_zero());
        let able = !weights.model.looks_at_sensors()
            && projection.moves(false, coords)
            && same_box
            && basis.can_turn(false)
            && (signs || !odd);
        let motions = weights.symmetries.all(coords.len());
        if !able || motions.len() < 2 {
            return None;
        }
        let image = |axes: Vec<Turn>, mirrored: bool| {
            let mut back = vec![(0, false, 0.0); axes.len()];
            for (to, (from, flip, _)) in axes.iter().enumerate() {
                back[*from] = (to, *flip, 0.0);
            }
            Image {
                there: axes,
                back,
                negative: odd && mirrored,
            }
        };
        let mut images = Self {
            all: motions.into_iter().map(|(a, m)| image(a, m)).collect(),
            counts: vec![0.0; functions],
            basis,
            functions,
            times,
        };
        for image in &images.all {
            let mut inside = vec![1.0; functions];
            inside.resize(images.basis.len(), 0.0);
            images.basis.turn(&mut inside, &image.back);
            let pairs = images.counts.iter_mut().zip(&inside);
            pairs.for_each(|(count, v)| *count += v.abs());
        }
        Some(images)
    }

    /// β̄, `[samples, p]`.
    pub fn branch(
        &self,
        weights: &Weights,
        params: &Params,
        mut inputs: Inputs,
    ) -> Result<Tensor<2>> {
        let projection = weights.model.projection().expect("there is one");
        let (device, samples) = (inputs.sensor_coords.device(), inputs.samples());
        let fits = to_vec(projection.coefficients(params, &inputs)?);
        let tensor = |numbers: Vec<f32>| {
            let shape = [samples, numbers.len() / samples];
            Tensor::<2>::from_data(TensorData::new(numbers, shape), (&device, DType::F32))
        };
        let mut sums = Vec::new();
        for image in &self.all {
            let mut seen = fits.clone();
            for fit in seen.chunks_exact_mut(projection.outputs()) {
                projection.move_fit(fit, &image.there, image.negative);
            }
            inputs.fits = Some(tensor(seen));
            let beta = weights.model.branch(params, &inputs)?.expect("a trunk");
            let mut beta = to_vec(beta);
            let own = self.functions * self.times;
            for own in beta.chunks_exact_mut(own) {
                self.turn_back(image, own);
            }
            sums.resize(beta.len(), 0.0);
            sums.iter_mut().zip(&beta).for_each(|(s, b)| *s += b);
        }
        let count = |i: usize| self.counts[i / self.times % self.functions];
        let means = sums.iter().enumerate().map(|(i, s)| s / count(i));
        Ok(tensor(means.collect()))
    }

    /// The coefficients of one component, all functions of time for each of space.
    fn turn_back(&self, image: &Image, own: &mut [f32]) {
        for l in 0..self.times {
            let mut space: Vec<f32> = own.iter().skip(l).step_by(self.times).copied().collect();
            space.resize(self.basis.len(), 0.0);
            self.basis.turn(&mut space, &image.back);
            if image.negative {
                space.iter_mut().for_each(|v| *v = -*v);
            }
            let places = own.iter_mut().skip(l).step_by(self.times);
            places.zip(&space).for_each(|(to, v)| *to = *v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Channel, Meta, Normalisation, Rows, Sample};
    use crate::models::{
        Dims, Family, Model, ModelConfig, ProjectionConfig, TrunkConfig, VidonConfig,
    };
    use crate::predict::Predictor;
    use crate::rng::stream;
    use rand::RngExt;
    use std::sync::Arc;

    /// Whatever the network has learned, its averaged answers have the symmetries: for turned sensors the answer is the turned one.
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
            let config = ModelConfig::Vidon(VidonConfig {
                heads: 0,
                projection: Some(ProjectionConfig {
                    frame: frame(2, seen, 0),
                    functions: 15,
                }),
                combine_hidden: vec![8],
                p,
                trunk: TrunkConfig::Fourier {
                    frame: frame(names.len(), family, times),
                },
                ..VidonConfig::default()
            });
            let mut rng = stream(1, "images", 0);
            let mut sample = || Sample {
                name: None,
                sensor_coords: Rows::new(2, (0..80).map(|_| rng.random()).collect()),
                sensor_values: Rows::new(1, (0..40).map(|_| rng.random()).collect()),
                query_coords: Arc::new(Rows::new(
                    names.len(),
                    (0..20 * names.len()).map(|_| rng.random()).collect(),
                )),
                targets: Rows::new(2, (0..40).map(|_| rng.random()).collect()),
            };
            let samples = [sample(), sample(), sample()];
            let scaling = Normalisation::fit(&samples, false, odd).unwrap();
            let (model, mut entries) = Model::new(&config, Dims::from(&meta), 0).unwrap();
            model.fit(&mut entries, &meta, &samples).unwrap();
            let answer = |symmetries: Symmetries, sample: &Sample| {
                let (model, _) = Model::new(&config, Dims::from(&meta), 0).unwrap();
                let weights = Weights {
                    model,
                    entries: entries.clone(),
                    meta: meta.clone(),
                    normalisation: Some(scaling.clone()),
                    symmetries,
                };
                let answers = Predictor::new(weights).predict_samples(&[sample]).unwrap();
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
            let moved = |motion: &dyn Fn(&Rows) -> Rows, sign: f32| Sample {
                sensor_coords: motion(&samples[0].sensor_coords),
                query_coords: Arc::new(motion(&samples[0].query_coords)),
                sensor_values: Rows::new(
                    1,
                    samples[0]
                        .sensor_values
                        .data()
                        .iter()
                        .map(|v| sign * v)
                        .collect(),
                ),
                ..samples[0].clone()
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
