//! Where samples come from: one of the paper's problems, or a file.

use std::path::{Path, PathBuf};

use crate::data::Watch;
use crate::data::dataset::DatasetReader;
use crate::data::generate::Generator;
use crate::data::meta::Meta;
use crate::data::sample::Sample;
use crate::error::{Error, Result};
use crate::problems::{Boundary, Problem, ProblemName, Split};
use crate::sensors::Layout;

/// Samples handed on at a time from a file.
const BLOCK: usize = 16;

/// A stream of samples that is never in memory as a whole.
pub enum Source {
    Problem(ProblemSource),
    File(DatasetReader),
}

/// A problem seen through a layout.
pub struct ProblemSource {
    pub problem: Box<dyn Problem>,
    pub layout: Layout,
    pub split: Split,
    pub seed: u64,
    pub sensor_seed: u64,
    /// Keeps computed functions.
    pub cache: Option<PathBuf>,
    /// See [`Generator::with_sensors_on_grid`].
    pub sensors_on_grid: bool,
    /// So many random sensors a sample, in place of the layout's.
    pub scattered: Option<usize>,
}

impl ProblemSource {
    /// The problem that data with this description was made from, with its split and layout. None for other data.
    pub fn of(meta: &Meta) -> Result<Option<Self>> {
        let origin = &meta.provenance;
        let Some(name) = origin.get("problem") else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            Error::Setting(format!(
                "the description of the data names no {what} that is known"
            ))
        };
        fn read<T: serde::de::DeserializeOwned>(value: Option<&serde_json::Value>) -> Option<T> {
            serde_json::from_value(value?.clone()).ok()
        }
        let name: ProblemName = read(Some(name)).ok_or_else(|| wrong("problem"))?;
        let boundary: Option<Boundary> = read(origin.pointer("/parameters/boundary"));
        let seed = read(origin.get("seed")).ok_or_else(|| wrong("seed"))?;
        Ok(Some(Self {
            problem: name.problem(boundary)?,
            layout: read(origin.get("layout")).ok_or_else(|| wrong("layout"))?,
            split: read(origin.get("split")).unwrap_or(Split::Train),
            seed,
            sensor_seed: read(origin.get("sensor_seed")).unwrap_or(seed),
            cache: None,
            sensors_on_grid: false,
            scattered: None,
        }))
    }

    fn generator(&self) -> Result<Generator<'_>> {
        let generator = Generator::new(
            &*self.problem,
            self.layout,
            self.split,
            self.seed,
            self.sensor_seed,
            self.cache.as_deref(),
        )?;
        Ok(match (self.scattered, self.sensors_on_grid) {
            (Some(count), _) => generator.with_scattered_sensors(count)?,
            (None, true) => generator.with_sensors_on_grid(),
            (None, false) => generator,
        })
    }
}

impl Source {
    pub fn open(path: &Path) -> Result<Self> {
        DatasetReader::open(path).map(Source::File)
    }

    /// The description of the samples.
    pub fn meta(&self) -> Result<Meta> {
        match self {
            Source::Problem(source) => Ok(source.generator()?.meta()),
            Source::File(reader) => Ok(reader.meta().clone()),
        }
    }

    /// How many samples there are; of a problem, as many as the paper has.
    pub fn size(&self) -> usize {
        match self {
            Source::Problem(source) => source.split.paper_size(),
            Source::File(reader) => reader.len(),
        }
    }

    /// Hands on the first `count` samples in blocks, in order.
    pub fn blocks(
        &self,
        count: usize,
        watch: &dyn Watch,
        mut hand_on: impl FnMut(&[Sample]) -> Result<()> + Send,
    ) -> Result<()> {
        match self {
            Source::Problem(source) => {
                source.generator()?.blocks(count, watch, hand_on)?;
                Ok(())
            }
            Source::File(reader) => {
                let mut samples = reader.samples()?.take(count);
                loop {
                    if watch.stopped() {
                        return Err(Error::Interrupted);
                    }
                    let block: Vec<Sample> = samples.by_ref().take(BLOCK).collect::<Result<_>>()?;
                    if block.is_empty() {
                        return Ok(());
                    }
                    watch.advance(block.len());
                    hand_on(&block)?;
                }
            }
        }
    }

    /// The first `count` samples in memory.
    pub fn collect(&self, count: usize, watch: &dyn Watch) -> Result<Vec<Sample>> {
        let mut all: Vec<Sample> = Vec::new();
        self.blocks(count, watch, |block| {
            for sample in block {
                let mut sample = sample.clone();
                // Equal queries are one in memory, which is also how batches know them.
                if let Some(before) = all.last()
                    && before.query_coords == sample.query_coords
                {
                    sample.query_coords = before.query_coords.clone();
                }
                all.push(sample);
            }
            Ok(())
        })?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_the_problem_it_was_made_from() {
        let source = ProblemSource {
            problem: ProblemName::AllenCahn.problem(None).unwrap(),
            layout: Layout::Variable,
            split: Split::Train,
            seed: 3,
            sensor_seed: 4,
            cache: None,
            sensors_on_grid: false,
            scattered: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.parquet");
        source.generator().unwrap().write(20, &path, &()).unwrap();
        let file = Source::open(&path).unwrap();
        let again = ProblemSource::of(&file.meta().unwrap()).unwrap().unwrap();
        assert_eq!(
            (again.layout, again.seed, again.sensor_seed),
            (Layout::Variable, 3, 4)
        );
        let (made, read) = (Source::Problem(again), file);
        assert_eq!(
            made.collect(18, &()).unwrap(),
            read.collect(18, &()).unwrap()
        );
        assert_eq!((made.size(), read.size()), (1000, 20));
    }

    #[test]
    fn the_test_grid_can_carry_the_sensors() {
        let source = ProblemSource {
            problem: ProblemName::NavierStokes.problem(None).unwrap(),
            layout: Layout::Regular,
            split: Split::Test,
            seed: 0,
            sensor_seed: 0,
            cache: None,
            sensors_on_grid: true,
            scattered: None,
        };
        let sample = |s: ProblemSource| Source::Problem(s).collect(1, &()).unwrap().remove(0);
        let sample = sample(source);
        assert_eq!(sample.sensor_coords.len(), 65 * 65);
        assert_eq!(sample.sensor_coords, *sample.query_coords);
    }

    #[test]
    fn equal_queries_are_one_in_memory() {
        let source = |layout| {
            Source::Problem(ProblemSource {
                problem: ProblemName::AllenCahn.problem(None).unwrap(),
                layout,
                split: Split::Train,
                seed: 0,
                sensor_seed: 0,
                cache: None,
                sensors_on_grid: false,
                scattered: None,
            })
        };
        for (layout, one) in [(Layout::Regular, true), (Layout::Variable, false)] {
            let samples = source(layout).collect(3, &()).unwrap();
            let [a, b] = [0, 2].map(|i: usize| &samples[i].query_coords);
            assert_eq!(std::sync::Arc::ptr_eq(a, b), one, "{layout:?}");
        }
    }
}
