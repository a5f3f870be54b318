//! `vidon bench`: how fast training and prediction are, beside the machine's limit.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use vidon::data::{Channel, Dataset, Meta, ProblemSource, Rows, Sample};
use vidon::encoders::HeadsConfig;
use vidon::problems::{Split, named};
use vidon::sensors::Layout;
use vidon::train::{Amount, TrainRecipe, Training};
use vidon::{ModelConfig, ModelName, Operator};
use vidon_kernels::{Heads, Isa, fma_peak, time_heads};

use crate::commands::cache::Cache;
use crate::failure::{Failure, Result};
use crate::memory::give_back;
use crate::ui::{Ui, grouped, print};

/// Measure the speed of training and prediction
///
/// First the machine's limit: fused multiply-adds a second with everything in registers. Then the networks at
/// the paper's sizes: a training step (batch, forward, backward, Adam) and prediction. Best and median of
/// several rounds. VIDON_ISA=portable|avx2|avx512 forces an instruction set. Nothing else should run
/// meanwhile.
#[derive(Args)]
#[command(after_help = "Examples:
  vidon bench
  vidon bench --only branch --rounds 20 --json
  VIDON_ISA=avx2 vidon bench")]
pub struct Arguments {
    /// Rounds of every measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only measurements whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: Cache,
}

/// Samples of a training step.
const BATCH: usize = 50;

/// One measurement.
struct Measured {
    name: String,
    seconds: Vec<f64>,
    /// Floating-point operations, where they are counted, and sensors.
    operations: Option<f64>,
    sensors: usize,
    memory: Option<usize>,
}

impl Measured {
    fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

pub fn run(arguments: Arguments, ui: &Ui) -> Result<()> {
    let isa = Isa::current();
    let bench = Bench {
        rounds: arguments.rounds as usize,
        only: arguments.only.clone(),
        cache: arguments.cache.folder()?,
        ui,
    };
    let before = fma_peak(isa, 20);
    let measured = bench.all()?;
    if let (true, Some(word)) = (measured.is_empty(), &arguments.only) {
        return Err(Failure::Words(format!(
            "--only {word}: no measurement is called so; vidon bench --rounds 1 shows all of them"
        )));
    }
    let peak = before.max(fma_peak(isa, 20));
    if arguments.json {
        return print(&format!("{:#}", as_json(isa, peak, &measured)));
    }
    let mut lines = vec![
        format!(
            "{} on {} threads: {:.1} GFLOP/s fused multiply-add peak",
            isa.name(),
            rayon::current_num_threads(),
            1e-9 * peak
        ),
        format!(
            "{:<46} {:>10} {:>10} {:>9} {:>8} {:>12} {:>9}",
            "", "best ms", "median ms", "GFLOP/s", "of peak", "sensors/s", "memory"
        ),
    ];
    for m in &measured {
        let rate = m.operations.map(|o| o / m.best());
        lines.push(format!(
            "{:<46} {:>10.2} {:>10.2} {:>9} {:>8} {:>12} {:>9}",
            m.name,
            1e3 * m.best(),
            1e3 * m.median(),
            rate.map_or(String::new(), |r| format!("{:.1}", 1e-9 * r)),
            rate.map_or(String::new(), |r| format!("{:.0} %", 100.0 * r / peak)),
            grouped((m.sensors as f64 / m.best()) as usize),
            m.memory
                .map_or(String::new(), |b| format!("{} MB", b >> 20)),
        ));
    }
    print(&lines.join("\n"))
}

fn as_json(isa: Isa, peak: f64, measured: &[Measured]) -> Value {
    let row = |m: &Measured| {
        json!({
            "name": m.name,
            "best_ms": 1e3 * m.best(),
            "median_ms": 1e3 * m.median(),
            "all_ms": m.seconds.iter().map(|s| 1e3 * s).collect::<Vec<f64>>(),
            "gflops": m.operations.map(|o| 1e-9 * o / m.best()),
            "share_of_peak": m.operations.map(|o| o / m.best() / peak),
            "sensors_per_second": m.sensors as f64 / m.best(),
            "memory_bytes": m.memory,
        })
    };
    json!({
        "isa": isa.name(),
        "threads": rayon::current_num_threads(),
        "fma_peak_gflops": 1e-9 * peak,
        "measured": measured.iter().map(row).collect::<Vec<Value>>(),
    })
}

struct Bench<'a> {
    rounds: usize,
    only: Option<String>,
    cache: Option<std::path::PathBuf>,
    ui: &'a Ui,
}

impl Bench<'_> {
    fn all(&self) -> Result<Vec<Measured>> {
        let mut found = Vec::new();
        let heads = paper_heads();
        for (sets, rows) in [(BATCH, 1089), (BATCH, 2601), (1, 10_000), (1, 1_000_000)] {
            let name = format!("set branch, {sets} × {rows} sensors");
            let operations = (sets * rows) as f64 * branch_operations(&heads);
            found.extend(self.measure(name, sets * rows, Some(operations), || {
                Ok(time_heads(&heads, sets, rows, self.rounds + 1))
            })?);
        }
        use Layout::{Random, Regular};
        use ModelName::{DeepOnet, Fno, Vidon};
        for (model, problem, layout, batch) in [
            (Vidon, "navier-stokes", Regular, BATCH),
            (Vidon, "navier-stokes", Random, BATCH),
            (Vidon, "darcy", Regular, BATCH),
            (Vidon, "allen-cahn", Random, BATCH),
            (DeepOnet, "navier-stokes", Regular, BATCH),
            (DeepOnet, "darcy", Regular, BATCH),
            (Fno, "navier-stokes", Regular, 20),
            (Fno, "darcy", Regular, 20),
        ] {
            let problem = named(problem, &Default::default())?;
            let config = ModelConfig::of_paper(model, &*problem)?;
            let (train, name) = match problem.name() {
                // Its trunk on all queries would be most of the step.
                "allen-cahn" => (Some(256), ", 256 queries"),
                _ => (None, ""),
            };
            let name = format!(
                "{} step, {}, {layout}, batch {batch}{name}",
                model.name(),
                problem.name()
            );
            if !self.wanted(&name) {
                continue;
            }
            let source = Dataset::from_source(ProblemSource {
                problem,
                layout,
                split: Split::Train,
                seed: 0,
                sensor_seed: 0,
                cache: self.cache.clone(),
                sensors_on_grid: false,
                scattered: None,
            });
            let samples = source.collect(batch, &())?;
            let operator = Operator::untrained(&config, source.meta()?, &samples, 0)?;
            let train = TrainRecipe {
                queries: train.map(Amount::Count),
                ..TrainRecipe::default()
            };
            let sensors = samples.iter().map(|s| s.groups[0].len()).sum();
            found.extend(self.measure(name, sensors, None, || {
                Ok(Training::time_steps(
                    &operator,
                    &samples,
                    &train,
                    self.rounds + 1,
                )?)
            })?);
        }
        for sensors in [1089, 10_000, 1_000_000] {
            let name = format!("VIDON prediction, {sensors} sensors, 65 × 65");
            let operator = plane_vidon()?;
            let sample = random_sample(sensors)?;
            found.extend(self.measure(name, sensors, None, || {
                let one = || {
                    let start = Instant::now();
                    operator.predict_samples(&[&sample])?;
                    Ok(start.elapsed().as_secs_f64())
                };
                (0..=self.rounds).map(|_| one()).collect()
            })?);
        }
        for sensors in [10_000, 1_000_000] {
            let name = format!("VIDON step, one sample of {sensors} sensors, activations not kept");
            let operator = plane_vidon()?;
            let samples = [random_sample(sensors)?];
            let train = TrainRecipe {
                queries: Some(Amount::Count(1000)),
                memory_gb: Some(0.0),
                ..TrainRecipe::default()
            };
            found.extend(self.measure(name, sensors, None, || {
                Ok(Training::time_steps(
                    &operator,
                    &samples,
                    &train,
                    self.rounds + 1,
                )?)
            })?);
        }
        Ok(found)
    }

    fn wanted(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|word| name.to_lowercase().contains(&word.to_lowercase()))
    }

    /// Runs a measurement; its first round warms up and is left out.
    fn measure(
        &self,
        name: String,
        sensors: usize,
        operations: Option<f64>,
        run: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<Option<Measured>> {
        if !self.wanted(&name) {
            return Ok(None);
        }
        self.ui.note(format!("measuring {name}"));
        give_back();
        memory();
        let mut seconds = run()?;
        seconds.remove(0);
        Ok(Some(Measured {
            name,
            seconds,
            operations,
            sensors,
            memory: memory(),
        }))
    }
}

/// The paper's heads.
fn paper_heads() -> Heads {
    let config = HeadsConfig::default();
    Heads {
        count: config.count,
        inputs: config.d_enc,
        hidden: config.hidden,
        activation: vidon_kernels::Activation::Tanh,
        scale: 1.0 / (config.d_enc as f32).sqrt(),
    }
}

/// Operations of the heads for one sensor: forward, and twice that backward.
fn branch_operations(heads: &Heads) -> f64 {
    let both = heads.weight_shape().multiply_adds() + heads.value_shape().multiply_adds();
    (3 * 2 * heads.count * both) as f64
}

/// The paper's VIDON in the plane.
fn plane_vidon() -> Result<Operator> {
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect::<Vec<_>>();
    let meta = Meta::new(
        "bench",
        channels(&["x", "y"]),
        channels(&["a"]),
        channels(&["x", "y"]),
        channels(&["u"]),
    );
    let samples = [random_sample(1)?];
    Ok(Operator::untrained(
        &ModelConfig::default(),
        meta,
        &samples,
        0,
    )?)
}

/// Random sensors, and the grid of 65 × 65 points as queries.
fn random_sample(sensors: usize) -> Result<Sample> {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand::rngs::StdRng::seed_from_u64(sensors as u64);
    let mut numbers = |n: usize| (0..n).map(|_| rng.random::<f32>()).collect::<Vec<f32>>();
    let point = |i: usize| [i / 65, i % 65].map(|k| k as f32 / 64.0);
    let queries = Rows::new(2, (0..65 * 65).flat_map(point).collect())?;
    let (coords, values) = (numbers(2 * sensors), numbers(sensors));
    let targets = Rows::new(1, numbers(queries.len()))?;
    let (coords, values) = (Rows::new(2, coords)?, Rows::new(1, values)?);
    Ok(Sample::of(coords, values, Arc::new(queries), targets))
}

/// Bytes that the process has at most held since the last call, where the system tells.
fn memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: usize = line.split_whitespace().next()?.parse().ok()?;
    // From here on, the most of what follows.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    Some(kibibytes << 10)
}
