//! Samples of the paper's problems: functions → sensor layout → sample.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::json;

use crate::data::meta::{Channel, Meta};
use crate::data::sample::{Rows, Sample};
use crate::domain::product;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::problems::{FunctionSource, Problem, Spec, Split};
use crate::sensors::Layout;

/// Samples made (and handed on) at a time, so that one block can be written while the next is made.
const BLOCK: usize = 16;

/// Makes the samples of one problem, layout and split. Sample k depends on the seeds and k alone.
///
/// Training and validation targets are known at the sample's own sensors (at all training times, where the
/// output lives in space-time); test targets on the problem's test grid.
pub struct Generator<'a> {
    problem: &'a dyn Problem,
    spec: Spec,
    layout: Layout,
    split: Split,
    seed: u64,
    sensor_seed: u64,
    functions: FunctionSource<'a>,
    grid: Option<(Vec<Vec<f64>>, Arc<Rows>)>,
    sensors_on_grid: bool,
    scattered: Option<usize>,
}

impl<'a> Generator<'a> {
    /// `seed` chooses the functions, `sensor_seed` the sensors; `cache` keeps the functions.
    pub fn new(
        problem: &'a dyn Problem,
        layout: Layout,
        split: Split,
        seed: u64,
        sensor_seed: u64,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let spec = problem.spec();
        let grid = (split == Split::Test).then(|| {
            let mut axes = spec.sensors.domain().axes(&spec.test_grid);
            axes.extend(spec.test_times.clone());
            let queries = Arc::new(Rows::of_f64(axes.len(), &product(&axes)));
            (axes, queries)
        });
        let functions = FunctionSource::new(problem, split, seed, cache)?;
        Ok(Self {
            problem,
            spec,
            layout,
            split,
            seed,
            sensor_seed,
            functions,
            grid,
            sensors_on_grid: false,
            scattered: None,
        })
    }

    /// Puts the sensors on the grid of the test outputs, for networks that answer only there (FNO). Changes
    /// nothing but the test split.
    pub fn with_sensors_on_grid(self) -> Self {
        Self {
            sensors_on_grid: self.grid.is_some() && self.spec.test_times.is_none(),
            ..self
        }
    }

    /// Gives every sample so many random sensors, whatever the layout has.
    pub fn with_scattered_sensors(self, count: usize) -> Result<Self> {
        let most = self.spec.sensors.most();
        if !(1..=most).contains(&count) {
            return Err(Error::setting(
                "sensors",
                format!("{} has places for 1 to {most}", self.problem.name()),
            ));
        }
        Ok(Self {
            scattered: Some(count),
            ..self
        })
    }

    /// The description of the dataset.
    pub fn meta(&self) -> Meta {
        let domain = self.spec.sensors.domain();
        let mut coords: Vec<Channel> = Vec::new();
        for (axis, name) in self.spec.coord_names.iter().enumerate() {
            let range = Some([domain.lo()[axis], domain.hi()[axis]]);
            coords.push(Channel {
                range,
                ..Channel::named(*name)
            });
        }
        let mut query_coords = coords.clone();
        if let Some(times) = &self.spec.test_times {
            let range = Some([times[0], times[times.len() - 1]]);
            query_coords.push(Channel {
                range,
                ..Channel::named("t")
            });
        }
        let mut meta = Meta::new(
            self.problem.name(),
            coords,
            vec![Channel::named(self.spec.input_name)],
            query_coords,
            vec![Channel::named(self.spec.output_name)],
        );
        meta.query_grid = self.grid.as_ref().map(|(axes, _)| axes.clone());
        meta.provenance = json!({
            "program": format!("vidon {}", env!("CARGO_PKG_VERSION")),
            "problem": self.problem.name(),
            "parameters": self.problem.parameters(),
            "layout": self.layout.name(),
            "split": self.split.name(),
            "seed": self.seed,
            "sensor_seed": self.sensor_seed,
        });
        if let Some(count) = self.scattered {
            meta.provenance["scattered"] = count.into();
        }
        meta
    }

    /// Makes samples 0 to `count` in blocks, in order, and hands each block on while the next is being made.
    pub fn blocks(
        &self,
        count: usize,
        observer: &dyn Observer,
        mut hand_on: impl FnMut(&[Sample]) -> Result<()> + Send,
    ) -> Result<()> {
        let mut redrawn = 0;
        let mut ready: Vec<Sample> = Vec::new();
        let chunk_len = self.functions.chunk_len();
        for chunk in 0..count.div_ceil(chunk_len) {
            let first = chunk * chunk_len;
            let pairs = self
                .functions
                .chunk(chunk, chunk_len.min(count - first), &|| observer.stopped())?;
            redrawn += pairs.redrawn;
            let pairs: Vec<&[f32]> = pairs.iter().collect();
            for (block, stored) in pairs.chunks(BLOCK).enumerate() {
                if observer.stopped() {
                    return Err(Error::Interrupted);
                }
                let start = first + block * BLOCK;
                let make = || -> Result<Vec<Sample>> {
                    stored
                        .par_iter()
                        .enumerate()
                        .map(|(i, s)| self.sample(start + i, s))
                        .collect()
                };
                let (made, handed) = rayon::join(make, || hand_on(&ready));
                handed?;
                ready = made?;
                observer.advance(ready.len());
            }
        }
        hand_on(&ready)?;
        if redrawn > 0 {
            observer.note(&format!(
                "{redrawn} draws were not physical and were drawn again"
            ));
        }
        Ok(())
    }

    fn sample(&self, index: usize, stored: &[f32]) -> Result<Sample> {
        let [input, output] = self.problem.functions(stored);
        let places = match &self.grid {
            Some((axes, _)) if self.sensors_on_grid => product(axes),
            _ => {
                let split = self.split.name();
                let (sensors, seed) = (&self.spec.sensors, self.sensor_seed);
                match self.scattered {
                    Some(count) => sensors.scatter(count, seed, split, index),
                    None => sensors.place(self.layout, seed, split, index),
                }
            }
        };
        let dim = input.dim();
        let (query_coords, targets) = match &self.grid {
            Some((axes, queries)) => (queries.clone(), output.on_axes(axes)?),
            None => {
                let queries = match &self.spec.train_times {
                    Some(times) => places
                        .chunks(dim)
                        .flat_map(|p| times.iter().flat_map(move |t| p.iter().chain([t])))
                        .copied()
                        .collect(),
                    None => places.clone(),
                };
                let targets = output.at(&queries)?;
                (Arc::new(Rows::of_f64(output.dim(), &queries)), targets)
            }
        };
        Ok(Sample::of(
            Rows::of_f64(dim, &places),
            Rows::of(1, input.at(&places)?),
            query_coords,
            Rows::of(1, targets),
        ))
    }
}
