//! Reads a great many damaged files, each reader in a process of its own with bounded memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use vidon_fuzz::{Mutator, READERS, Reader};

/// Bytes that a process has at once, at most. No file here is larger than a few megabytes.
const MOST_BYTES: usize = 1 << 30;
/// Time for one file, on a machine that has other things to do.
const LONGEST: Duration = Duration::from_secs(30);
/// Files for one process. The autodiff engine remembers a network until the next one takes a step, and none
/// does here: a process of any number of files would grow, whatever they hold.
const A_PROCESS: u64 = 20_000;
/// Failures after which a reader is given up.
const MOST_FAILURES: usize = 10;

/// The system's allocator, which fails beyond [`MOST_BYTES`]: an abort, where nothing is prepared for that.
struct Bounded;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is handed on to the system's allocator, or null is returned, which callers expect.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        if live > MOST_BYTES {
            LIVE.fetch_sub(layout.size(), Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: it came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        if live > MOST_BYTES {
            LIVE.fetch_sub(layout.size(), Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// Hostile files for every reader
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Read mutated files; those that fail are kept
    Run {
        /// Which readers [default: all]
        readers: Vec<String>,
        /// Files for each reader
        #[arg(long, default_value_t = 10_000)]
        inputs: u64,
        /// Chooses the files
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where files that fail are kept
        #[arg(long, default_value = "target/fuzz")]
        keep: PathBuf,
    },
    /// Read one file, such as one that was kept
    Replay { reader: String, file: PathBuf },
    /// Write the small real files that everything begins with, a folder for each reader
    Seeds { folder: PathBuf },
    /// What `run` starts: one reader, from one input on
    #[command(hide = true)]
    One {
        reader: String,
        seed: u64,
        from: u64,
        to: u64,
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Task::Run {
            readers,
            inputs,
            seed,
            keep,
        } => run(&readers, inputs, seed, &keep),
        Task::Replay { reader, file } => {
            let bytes = fs::read(&file).expect("a file that can be read");
            let started = Instant::now();
            match named(&reader).bench().read(&bytes) {
                Ok(()) => print!("read"),
                Err(error) => print!("refused: {error}"),
            }
            let megabytes = PEAK.load(Relaxed) >> 20;
            println!(
                " ({megabytes} MB at most, {:.3} s)",
                started.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Task::Seeds { folder } => {
            for reader in &READERS {
                let own = folder.join(reader.name);
                fs::create_dir_all(&own).expect("a folder that can be made");
                for (i, seed) in (reader.seeds)().iter().enumerate() {
                    fs::write(own.join(format!("seed-{i}")), seed).expect("a file");
                }
            }
            ExitCode::SUCCESS
        }
        Task::One {
            reader,
            seed,
            from,
            to,
            folder,
        } => one(named(&reader), seed, from..to, &folder),
    }
}

fn named(name: &str) -> &'static Reader {
    let names: Vec<&str> = READERS.iter().map(|r| r.name).collect();
    Reader::named(name).unwrap_or_else(|| panic!("{name} is none of {}", names.join(", ")))
}

/// Every reader in processes of its own; after a failure another goes on behind the input that failed.
fn run(readers: &[String], inputs: u64, seed: u64, keep: &Path) -> ExitCode {
    let chosen: Vec<&Reader> = match readers {
        [] => READERS.iter().collect(),
        some => some.iter().map(|name| named(name)).collect(),
    };
    let memory = Path::new("/dev/shm");
    let scratch = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let scratch = scratch.expect("a folder for temporary files");
    let mut all = 0;
    for reader in chosen {
        let started = Instant::now();
        let (mut from, mut failures) = (0, 0);
        let [mut read, mut most] = [0; 2];
        while from < inputs && failures < MOST_FAILURES {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            let to = inputs.min(from + A_PROCESS);
            let numbers = [seed, from, to].map(|n| n.to_string());
            let child = child
                .args(["one", reader.name])
                .args(numbers)
                .arg(scratch.path())
                .env("TMPDIR", scratch.path());
            let ended = child.status().expect("a process");
            let state = fs::read_to_string(scratch.path().join(STATE)).unwrap_or_default();
            let mut numbers = state.split(' ').map(|n| n.parse().unwrap_or(0));
            let mut next = || numbers.next().unwrap_or(0);
            let index = next();
            read += next();
            most = next().max(most);
            if ended.success() {
                from = to;
                continue;
            }
            failures += 1;
            from = index + 1;
            let name = format!("{}-{seed}-{index}", reader.name);
            let kept = keep.join(&name);
            fs::create_dir_all(keep).expect("a folder for files that fail");
            fs::copy(scratch.path().join(INPUT), &kept).expect("the input that failed");
            eprintln!(
                "{}: input {index} ended with {ended}; kept:\n  target/release/vidon-fuzz replay {} {}",
                reader.name,
                reader.name,
                kept.display()
            );
        }
        all += failures;
        println!(
            "{:<12} {inputs} files, {read} of them read, {failures} failures, {} MB at most, {:.0} s",
            reader.name,
            most >> 20,
            started.elapsed().as_secs_f64()
        );
    }
    match all {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The input that is being read.
const INPUT: &str = "input";
/// Its number, how many were read before it without an error, and the most bytes that were taken.
const STATE: &str = "state";

fn one(reader: &Reader, seed: u64, inputs: std::ops::Range<u64>, folder: &Path) -> ExitCode {
    static DONE: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        let mut last = (DONE.load(Relaxed), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let done = DONE.load(Relaxed);
            if done != last.0 {
                last = (done, Instant::now());
            } else if last.1.elapsed() > LONGEST {
                eprintln!("one file takes longer than {LONGEST:?}");
                std::process::exit(3);
            }
        }
    });
    vidon_fuzz::work_alone();
    let (mutator, bench) = (Mutator::new(reader, seed), reader.bench());
    let mut read = 0;
    let state = |index: u64, read: u64| {
        let most = PEAK.load(Relaxed);
        fs::write(folder.join(STATE), format!("{index} {read} {most}")).expect("a small file");
    };
    for index in inputs {
        let bytes = mutator.input(index);
        fs::write(folder.join(INPUT), &bytes).expect("the input");
        state(index, read);
        read += u64::from(bench.read(&bytes).is_ok());
        DONE.fetch_add(1, Relaxed);
        state(index, read);
    }
    ExitCode::SUCCESS
}
