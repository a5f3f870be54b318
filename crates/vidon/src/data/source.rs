//! Where samples come from: a file, a problem, memory, or whatever a caller can make samples of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data::dataset::{DatasetReader, DatasetWriter};
use crate::data::generate::Generator;
use crate::data::meta::Meta;
use crate::data::sample::Sample;
use crate::data::summary::Summary;
use crate::error::{Error, Result};
use crate::memory::Need;
use crate::observer::Observer;
use crate::problems::{Parameters, Problem, Split, named};
use crate::sensors::Layout;

/// Samples handed on at a time from a file.
const BLOCK: usize = 16;

/// Names that a message lists.
const SHOWN: usize = 5;

/// Samples, in order.
pub trait SampleSource: Send + Sync {
    /// The description of the samples.
    fn meta(&self) -> Result<Meta>;

    /// How many there are; none where as many can be had as are wanted.
    fn available(&self) -> Option<usize>;

    /// How many are taken where nobody says.
    fn usual(&self) -> usize {
        self.available().unwrap_or(1000)
    }

    /// Hands on the first `count` samples in blocks, in order.
    fn blocks(&self, count: usize, observer: &dyn Observer, hand_on: &mut HandOn) -> Result<()>;

    /// Sample `n`, counted from 0.
    fn sample(&self, n: usize, observer: &dyn Observer) -> Result<Sample> {
        let (mut found, mut at) = (None, 0);
        self.blocks(n + 1, observer, &mut |block| {
            if (at..at + block.len()).contains(&n) {
                found = Some(block[n - at].clone());
            }
            at += block.len();
            Ok(())
        })?;
        found.ok_or_else(|| {
            let last = at.saturating_sub(1);
            Error::sample(n, format!("there are samples 0 to {last}"))
        })
    }
}

/// Takes a block of samples.
pub(crate) type HandOn<'a> = dyn FnMut(&[Sample]) -> Result<()> + Send + 'a;

/// Samples from anywhere, for training and evaluation.
pub struct Dataset(Box<dyn SampleSource>);

/// Samples in memory.
struct Memory {
    meta: Meta,
    samples: Vec<Sample>,
}

/// A problem seen through a layout.
pub struct ProblemSource {
    pub problem: Arc<dyn Problem>,
    pub layout: Layout,
    pub split: Split,
    pub seed: u64,
    pub sensor_seed: u64,
    /// Keeps computed functions.
    pub cache: Option<PathBuf>,
    /// Puts the sensors on the grid of the test outputs, for networks that answer only there.
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
            Error::Unsuitable(format!(
                "the description of the data names no {what} that is known"
            ))
        };
        fn read<T: serde::de::DeserializeOwned>(value: Option<&serde_json::Value>) -> Option<T> {
            serde_json::from_value(value?.clone()).ok()
        }
        let name = name.as_str().ok_or_else(|| wrong("problem"))?;
        let parameters: Parameters = read(origin.get("parameters")).unwrap_or_default();
        let seed = read(origin.get("seed")).ok_or_else(|| wrong("seed"))?;
        Ok(Some(Self {
            problem: named(name, &parameters)?,
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

impl SampleSource for ProblemSource {
    fn meta(&self) -> Result<Meta> {
        Ok(self.generator()?.meta())
    }

    fn available(&self) -> Option<usize> {
        None
    }

    /// As many as the paper has.
    fn usual(&self) -> usize {
        self.split.paper_size()
    }

    fn blocks(&self, count: usize, observer: &dyn Observer, hand_on: &mut HandOn) -> Result<()> {
        self.generator()?.blocks(count, observer, hand_on)
    }
}

impl SampleSource for DatasetReader {
    fn meta(&self) -> Result<Meta> {
        Ok(DatasetReader::meta(self).clone())
    }

    fn available(&self) -> Option<usize> {
        Some(self.len())
    }

    fn blocks(&self, count: usize, observer: &dyn Observer, hand_on: &mut HandOn) -> Result<()> {
        let mut samples = self.samples()?.take(count);
        loop {
            if observer.stopped() {
                return Err(Error::Interrupted);
            }
            let block: Vec<Sample> = samples.by_ref().take(BLOCK).collect::<Result<_>>()?;
            if block.is_empty() {
                return Ok(());
            }
            observer.advance(block.len());
            hand_on(&block)?;
        }
    }

    fn sample(&self, n: usize, _: &dyn Observer) -> Result<Sample> {
        DatasetReader::sample(self, n)
    }
}

impl SampleSource for Memory {
    fn meta(&self) -> Result<Meta> {
        Ok(self.meta.clone())
    }

    fn available(&self) -> Option<usize> {
        Some(self.samples.len())
    }

    fn blocks(&self, count: usize, observer: &dyn Observer, hand_on: &mut HandOn) -> Result<()> {
        let wanted = &self.samples[..count.min(self.samples.len())];
        observer.advance(wanted.len());
        wanted.chunks(BLOCK).try_for_each(hand_on)
    }
}

impl Dataset {
    /// A Parquet file.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self::from_source(DatasetReader::open(path)?))
    }

    /// Samples in memory, each checked against the description.
    pub fn from_samples(meta: Meta, samples: Vec<Sample>) -> Result<Self> {
        if let Some(fault) = meta.fault() {
            return Err(Error::Unsuitable(format!(
                "the description of the data {fault}"
            )));
        }
        for (index, sample) in samples.iter().enumerate() {
            if let Some((part, what)) = sample.fault(&meta) {
                let what = format!("{part} {what}");
                return Err(Error::sample(index, what));
            }
        }
        Ok(Self::from_source(Memory { meta, samples }))
    }

    /// A problem seen through a layout, or a source of the caller's own.
    pub fn from_source(source: impl SampleSource + 'static) -> Self {
        Self(Box::new(source))
    }

    /// The description of the samples.
    pub fn meta(&self) -> Result<Meta> {
        self.0.meta()
    }

    /// How many samples there are; none where as many can be had as are wanted.
    pub fn available(&self) -> Option<usize> {
        self.0.available()
    }

    /// How many are taken where nobody says: all, or of a problem as many as the paper has.
    pub fn usual(&self) -> usize {
        self.0.usual()
    }

    /// Hands on the first `count` samples in blocks, in order.
    pub fn blocks(
        &self,
        count: usize,
        observer: &dyn Observer,
        mut hand_on: impl FnMut(&[Sample]) -> Result<()> + Send,
    ) -> Result<()> {
        self.0.blocks(count, observer, &mut hand_on)
    }

    /// Sample `n`, counted from 0.
    pub fn sample(&self, n: usize, observer: &dyn Observer) -> Result<Sample> {
        self.0.sample(n, observer)
    }

    /// The sample of this name, or of this number, where names are no numbers themselves.
    pub fn sample_called(&self, wanted: &str, observer: &dyn Observer) -> Result<Sample> {
        self.sample(self.number_of(wanted, observer)?, observer)
    }

    /// Which sample that is, counted from 0.
    pub fn number_of(&self, wanted: &str, observer: &dyn Observer) -> Result<usize> {
        let (mut names, available) = (Vec::new(), self.available());
        if let (true, Some(all)) = (self.meta()?.named_samples, available) {
            self.blocks(all, observer, |block| {
                names.extend(block.iter().map(|s| s.name.clone().unwrap_or_default()));
                Ok(())
            })?;
        }
        if let Some(found) = names.iter().position(|name| name == wanted) {
            return Ok(found);
        }
        let numbers = names.iter().any(|name| name.parse::<usize>().is_ok());
        match wanted.parse() {
            Ok(number) if !numbers => Ok(number),
            _ => {
                let some: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
                let more = if names.len() > SHOWN { ", …" } else { "" };
                let there = match (&some[..], available) {
                    ([], Some(all)) => format!("they have numbers, 0 to {}", all.saturating_sub(1)),
                    ([], None) => "they have numbers, counted from 0".into(),
                    (some, _) => format!("there are {}{more}", some.join(", ")),
                };
                let what = format!("there is no sample \"{wanted}\"; {there}");
                Err(Error::Unsuitable(what))
            }
        }
    }

    /// Counts, ranges and duplicates of all samples that are there; every number is looked at.
    pub fn summary(&self, observer: &dyn Observer) -> Result<Summary> {
        let mut summary = Summary::new(&self.meta()?);
        self.blocks(self.usual(), observer, |block| {
            block.iter().for_each(|sample| summary.add(sample));
            Ok(())
        })?;
        Ok(summary)
    }

    /// Writes the first `count` samples as a Parquet file, which appears whole or not at all.
    pub fn write(&self, path: &Path, count: usize, observer: &dyn Observer) -> Result<()> {
        let mut writer = DatasetWriter::create(path, self.meta()?)?;
        self.blocks(count, observer, |block| writer.write(block))?;
        writer.finish()
    }

    /// The first `count` samples in memory.
    pub fn collect(&self, count: usize, observer: &dyn Observer) -> Result<Vec<Sample>> {
        let mut all: Vec<Sample> = Vec::new();
        self.blocks(count, observer, |block| {
            if all.is_empty() {
                check_room(count, block)?;
            }
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

/// An error where memory has no room for `count` samples like these.
fn check_room(count: usize, like: &[Sample]) -> Result<()> {
    let numbers = |s: &Sample| {
        s.parts()
            .iter()
            .map(|rows| rows.data().len())
            .sum::<usize>()
    };
    let all: usize = like.iter().map(numbers).sum();
    let each = size_of::<f32>() * all.div_ceil(like.len().max(1));
    Need::of(count, each).check().map_err(|what| {
        let what = format!("to be held at once {count} samples {what}; fewer samples take less");
        Error::Unsuitable(what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sample::tests::{small, small_meta};

    #[test]
    fn a_file_knows_the_problem_it_was_made_from() {
        let source = ProblemSource {
            problem: named("allen-cahn", &Parameters::new()).unwrap(),
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
        Dataset::from_source(source).write(&path, 20, &()).unwrap();
        let file = Dataset::open(&path).unwrap();
        let again = ProblemSource::of(&file.meta().unwrap()).unwrap().unwrap();
        assert_eq!(
            (again.layout, again.seed, again.sensor_seed),
            (Layout::Variable, 3, 4)
        );
        let (made, read) = (Dataset::from_source(again), file);
        assert_eq!(
            made.collect(18, &()).unwrap(),
            read.collect(18, &()).unwrap()
        );
        assert_eq!((made.usual(), read.usual()), (1000, 20));
    }

    #[test]
    fn memory_is_checked_and_handed_on() {
        let samples: Vec<Sample> = (1..40).map(|m| small(m, 3)).collect();
        let meta = small_meta();
        let data = Dataset::from_samples(meta.clone(), samples.clone()).unwrap();
        assert_eq!((data.available(), data.usual()), (Some(39), 39));
        assert_eq!(data.collect(20, &()).unwrap(), samples[..20]);
        assert_eq!(data.sample(30, &()).unwrap(), samples[30]);
        assert!(data.sample(39, &()).is_err());
        let mut damaged = samples;
        damaged[7].targets.data_mut()[0] = f32::NAN;
        let error = Dataset::from_samples(meta, damaged).err().unwrap();
        let words = error.to_string();
        assert!(words.contains("sample 7: targets holds NaN"), "{words}");
    }

    #[test]
    fn the_test_grid_can_carry_the_sensors() {
        let source = ProblemSource {
            problem: named("navier-stokes", &Parameters::new()).unwrap(),
            layout: Layout::Regular,
            split: Split::Test,
            seed: 0,
            sensor_seed: 0,
            cache: None,
            sensors_on_grid: true,
            scattered: None,
        };
        let sample = |s: ProblemSource| Dataset::from_source(s).collect(1, &()).unwrap().remove(0);
        let sample = sample(source);
        assert_eq!(sample.groups[0].len(), 65 * 65);
        assert_eq!(sample.groups[0].coords, *sample.query_coords);
    }

    #[test]
    fn equal_queries_are_one_in_memory() {
        let source = |layout| {
            Dataset::from_source(ProblemSource {
                problem: named("allen-cahn", &Parameters::new()).unwrap(),
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
