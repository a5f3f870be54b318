//! Which functions, and how many, suit what is known at scattered places: those that predict what is left out.

use crate::data::{Channel, Sensors, coordinates};
use crate::encoders::{Encoder, Projection, ProjectionConfig};
use crate::spaces::{Family, Frame, all_along};

/// Sensors of a sample that are looked at.
const SENSORS: usize = 1500;
/// Numbers of functions to choose from. A larger one must miss less than this share of what a smaller one misses.
const FUNCTIONS: [usize; 9] = [3, 6, 12, 24, 48, 100, 200, 400, 700];
const BETTER: f64 = 0.95;
/// Numbers that are tried without a better one.
const PATIENCE: usize = 2;

/// Functions that predict what they do not see.
pub(super) struct Found {
    pub family: Family,
    pub functions: usize,
    /// By which share of its spread what is left out is missed.
    pub missed: f64,
    /// What becomes of covariates, in words.
    drift: Option<String>,
}

impl Found {
    pub fn frame(&self) -> Frame {
        Frame {
            family: self.family,
            ..Frame::default()
        }
    }

    pub fn words(&self) -> String {
        let family = match self.family {
            Family::Cosine => "cosines",
            Family::Periodic => "waves",
            Family::Sine => "sines",
            Family::Legendre => "polynomials",
        };
        format!(
            "{} {family}{} that miss what is left out by {:.2} %",
            self.functions,
            self.drift
                .as_ref()
                .map_or(String::new(), |d| format!(" ({d})")),
            100.0 * self.missed
        )
    }
}

/// Family and number of functions by what is left out of samples at scattered places; none where too little is there to
/// leave any out. The channels are coordinates and covariates of the places.
pub(super) fn functions(channels: &[Channel], samples: &[Sensors], most: usize) -> Option<Found> {
    let (coords, covariates) = channels.split_at(coordinates(channels).len());
    let few = |s: &Sensors| {
        let kept: Vec<usize> = all_along(&Vec::from_iter(0..s.len()), SENSORS)
            .copied()
            .collect();
        s.select(&kept)
    };
    let samples: Vec<Sensors> = samples.iter().map(few).collect();
    let samples: Vec<&Sensors> = samples.iter().collect();
    let mut counts: Vec<usize> = samples.iter().map(|s| s.len()).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0);
    let most = most.min(median.max(3));
    let missed = |family: Family, functions: usize| -> Option<(f64, Option<String>)> {
        let mut frame = Frame {
            family,
            ..Frame::default()
        };
        frame.fill(coords);
        frame.fault(coords).is_none().then_some(())?;
        let config = ProjectionConfig {
            group: None,
            frame,
            functions,
        };
        let width = samples.first()?.values.width();
        let (projection, mut entries) = Projection::alone(&config, width, covariates);
        projection.choose(&mut entries, &samples);
        let missed = projection.left_out(&entries, &samples)?;
        Some((missed, projection.drift(&entries)))
    };
    let counts: Vec<usize> = FUNCTIONS.into_iter().filter(|n| *n <= most).collect();
    let mut best: Option<(usize, Found)> = None;
    for family in [
        Family::Cosine,
        Family::Legendre,
        Family::Periodic,
        Family::Sine,
    ] {
        // The first family says about how many; the others are tried near that.
        let near = match &best {
            Some((at, _)) => at.saturating_sub(1)..(at + 2).min(counts.len()),
            None => 0..counts.len(),
        };
        let mut worse = 0;
        for at in near {
            let Some((missed, drift)) = missed(family, counts[at]) else {
                continue;
            };
            if best
                .as_ref()
                .is_none_or(|(_, b)| missed < BETTER * b.missed)
            {
                let functions = counts[at];
                best = Some((
                    at,
                    Found {
                        family,
                        functions,
                        missed,
                        drift,
                    },
                ));
                worse = 0;
            } else {
                worse += 1;
            }
            if worse == PATIENCE {
                break;
            }
        }
    }
    best.map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;

    #[test]
    fn functions_are_those_that_predict_what_they_do_not_see() {
        let coords = [Channel {
            range: Some([0.0, 1.0]),
            ..Channel::named("x")
        }];
        let sample = |k: usize, f: &dyn Fn(f32) -> f32| {
            let places: Vec<f32> = (0..60)
                .map(|i| ((i * 7 + k) as f32 * 0.618).fract())
                .collect();
            Sensors {
                values: Rows::of(1, places.iter().map(|x| f(*x)).collect()),
                coords: Rows::of(1, places),
            }
        };
        let wave: Vec<Sensors> = (0..12)
            .map(|k| {
                sample(k, &|x| {
                    (2.0 * std::f32::consts::PI * (x + 0.1 * k as f32)).sin()
                })
            })
            .collect();
        let found = functions(&coords, &wave, 100).unwrap();
        assert!(found.missed < 0.02, "{}", found.words());
        let noise: Vec<Sensors> = (0..12)
            .map(|k| sample(k, &|x| ((x * 12_345.6 + k as f32) * 997.0).fract()))
            .collect();
        assert!(functions(&coords, &noise, 100).unwrap().missed > 0.8);
        // What the place does not say its height may.
        let height = Channel {
            covariate: true,
            ..Channel::named("height")
        };
        let high: Vec<Sensors> = noise
            .into_iter()
            .map(|s| {
                let places = s.coords.data().iter().zip(s.values.data());
                let places = places.flat_map(|(x, v)| [*x, 3.0 - 2.0 * v]).collect();
                Sensors {
                    coords: Rows::of(2, places),
                    values: s.values,
                }
            })
            .collect();
        let found = functions(&[coords[0].clone(), height], &high, 100).unwrap();
        assert!(found.missed < 0.1, "{}", found.words());
        assert!(found.words().contains("with height"), "{}", found.words());
    }
}
