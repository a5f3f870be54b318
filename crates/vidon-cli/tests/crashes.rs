//! Killed at any moment, on a full disk, and twice in one folder: in the end there are the same bits as
//! without, and nothing of anybody else's was touched.
//!
//! `VIDON_CRASHES=200 cargo test --release --workspace --test crashes -- --nocapture` for more rounds;
//! `VIDON_CRASH_SEED` for the rounds that a failure names.
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{command, folder};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

const RECIPE: &str = r#"
[data]
problem = "allen-cahn"
layout = "variable"
train_samples = 12
val_samples = 3

[model]
encoders = [{ kind = "heads", d_enc = 4, encoder_hidden = [4], count = 2, hidden = [4], outputs = 4 }]
core = { kind = "mlp", hidden = [8] }
decoder = { kind = "learned", p = 4, hidden = [8] }

[train]
batch = 4
sensors = 20
queries = 20
validation_queries = 30
ema = 0.9
rate = 1e-2
steps = 200
checkpoint_every = 7
validate_every = 11
"#;

/// Kills in a row before a job may come to its end.
const KILLS: usize = 3;
/// Time that any of the programs here is done in.
const LONGEST: Duration = Duration::from_secs(120);

/// What is done to a program.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Kill,
    FullDisk,
    Twice,
}

/// What a program does in a folder.
struct Job {
    name: &'static str,
    begin: &'static str,
    /// What goes on with a training whose folder has a recipe.
    resume: Option<(&'static str, &'static str)>,
    /// Where it writes.
    folder: &'static str,
    /// Files that are the same bits in the end.
    results: &'static [&'static str],
    /// Files that are there in the end.
    there: &'static [&'static str],
}

const RUN: &str = "report/runs/fast/allen-cahn-variable-vidon";

const JOBS: [Job; 4] = [
    Job {
        name: "train",
        begin: "train small.toml --out run -q",
        resume: Some(("run/recipe.toml", "train --resume run -q")),
        folder: "run",
        results: &["run/best.safetensors", "run/last.safetensors"],
        there: &["run/learning.png"],
    },
    Job {
        name: "generate",
        begin: "generate allen-cahn --layout random --split train --samples 40 --out out/d.parquet -q",
        resume: None,
        folder: "out",
        results: &["out/d.parquet"],
        there: &[],
    },
    Job {
        name: "import",
        begin: "import t.csv --sample run --coords x --values u --target-values v --out out/i.parquet -q",
        resume: None,
        folder: "out",
        results: &["out/i.parquet"],
        there: &[],
    },
    Job {
        name: "reproduce",
        begin: "reproduce --problem allen-cahn --layout variable --samples 2 --budget 1s -q --set data.train_samples=12 --set data.val_samples=2 --set model.core.hidden=[8] --set model.decoder.functions=3 --set model.encoders.0.functions=10 --set model.decoder.frame.times=2 --set train.validation_queries=50 --set train.checkpoint_every=7 --set train.validate_every=11",
        resume: None,
        folder: RUN,
        // How many steps fit into a second is never the same twice.
        results: &[],
        there: &[
            "report/report.md",
            "report/report.html",
            "report/runs/fast/allen-cahn-variable-vidon/learning.png",
        ],
    },
];

impl Job {
    fn command(&self, folder: &Path) -> Command {
        let mut command = match self.resume {
            Some((file, resume)) if folder.join(file).exists() => command(folder, resume),
            _ => command(folder, self.begin),
        };
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// What a job leaves where nothing disturbs it.
struct Undisturbed {
    files: BTreeMap<PathBuf, Vec<u8>>,
    time: Duration,
    bytes: u64,
}

#[test]
fn nothing_is_lost_or_half_written() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("VIDON_CRASHES").unwrap_or(24) as usize;
    let clock = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let seed = number("VIDON_CRASH_SEED").unwrap_or(clock);
    println!("{rounds} rounds with VIDON_CRASH_SEED={seed}");
    let undisturbed = JOBS.each_ref().map(undisturbed);
    let disturbances = [Disturbance::Kill, Disturbance::FullDisk, Disturbance::Twice];
    for round in 0..rounds {
        let which = round % JOBS.len();
        let disturbance = disturbances[round / JOBS.len() % disturbances.len()];
        let what = format!(
            "round {round} of VIDON_CRASH_SEED={seed}: {} and {disturbance:?}",
            JOBS[which].name
        );
        let random = StdRng::seed_from_u64(seed ^ (round as u64) << 32);
        let started = Instant::now();
        disturb(
            &JOBS[which],
            &undisturbed[which],
            disturbance,
            random,
            &what,
        );
        println!("{what}: {:.1} s", started.elapsed().as_secs_f64());
    }
}

fn disturb(job: &Job, reference: &Undisturbed, how: Disturbance, mut random: StdRng, what: &str) {
    let home = folder();
    let disk = match how {
        Disturbance::FullDisk => {
            let pages = reference.bytes / 4096 + 8;
            match SmallDisk::mount(home.path(), 4096 * random.random_range(4..pages)) {
                Some(disk) => Some(disk),
                None => return println!("{what}: left out, a small disk cannot be mounted here"),
            }
        }
        _ => None,
    };
    let dir = home.path().join("disk");
    let foreign = Foreign::put(home.path(), job, reference, disk.is_some());
    let check = |after: &str| {
        check_files(&dir, reference, &format!("{what}, after {after}"));
        foreign.check(&format!("{what}, after {after}"));
    };
    match how {
        Disturbance::Kill => {
            for _ in 0..KILLS {
                let mut child = job.command(&dir).spawn().expect("the program");
                let longest = reference.time.as_micros() as u64 * 6 / 5;
                std::thread::sleep(Duration::from_micros(random.random_range(0..longest)));
                child.kill().expect("a process of ours");
                child.wait().expect("its end");
                check("a kill");
            }
        }
        Disturbance::FullDisk => {
            let output = wait(job.command(&dir).spawn().expect("the program"), what);
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(!words.contains("panicked"), "{what}: {words}");
            let said = words.contains("error: ") && words.contains("No space left");
            assert!(output.status.success() || said, "{what}: {words}");
            check("the disk was full");
            disk.as_ref().expect("a disk").make_room();
        }
        Disturbance::Twice => {
            let both = [0, 1].map(|_| {
                let child = job.command(&dir).spawn().expect("the program");
                std::thread::sleep(reference.time.mul_f64(random.random_range(0.0..0.2)));
                child
            });
            let ends = both.map(|child| wait(child, what));
            for end in &ends {
                let words = String::from_utf8_lossy(&end.stderr);
                let knows = ["another training is running", "already holds a training"];
                let refused = knows.iter().any(|k| words.contains(k));
                assert!(end.status.success() || refused, "{what}: {words}");
            }
            let one = ends.iter().any(|end| end.status.success());
            assert!(one, "{what}: neither of two came to its end");
            check("two at once");
        }
    }
    let output = wait(job.command(&dir).spawn().expect("the program"), what);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}, going on: {words}");
    check("all");
    for result in job.results {
        let found = fs::read(dir.join(result)).unwrap_or_default();
        let same = found == reference.files[Path::new(result)];
        assert!(same, "{what}: {result} is not what it is undisturbed");
    }
    for file in job.there {
        assert!(dir.join(file).exists(), "{what}: {file} is not there");
    }
    for path in files(&dir).into_keys() {
        let unfinished = path.extension().is_some_and(|e| e == "part");
        let (path, own) = (dir.join(&path), !foreign.has(&dir.join(&path)));
        let show = path.display();
        assert!(!unfinished || !own, "{what}: {show} was left behind");
    }
}

fn undisturbed(job: &Job) -> Undisturbed {
    let home = folder();
    let dir = home.path().join("disk");
    inputs(&dir);
    fs::create_dir_all(dir.join(job.folder)).expect("a folder");
    let started = Instant::now();
    let output = wait(job.command(&dir).spawn().expect("the program"), job.name);
    let time = started.elapsed();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {words}", job.name);
    let files = files(&dir);
    let pages = files
        .values()
        .map(|f| f.len().next_multiple_of(4096) as u64);
    Undisturbed {
        bytes: pages.sum(),
        files,
        time,
    }
}

fn inputs(dir: &Path) {
    fs::create_dir_all(dir).expect("a folder");
    fs::write(dir.join("small.toml"), RECIPE).expect("a file");
    let mut table = String::from("run,x,u,v\n");
    for line in 0..20_000 {
        let (run, x) = (line / 25, (line % 25) as f64 / 25.0);
        table += &format!("r{run},{x},{},{}\n", run as f64 / 800.0, x * run as f64);
    }
    fs::write(dir.join("t.csv"), table).expect("a file");
}

/// Waits for the end of a program that must come to one.
fn wait(mut child: Child, what: &str) -> Output {
    let started = Instant::now();
    while child.try_wait().expect("a process of ours").is_none() {
        if started.elapsed() > LONGEST {
            child.kill().expect("a process of ours");
            panic!("{what}: no end after {LONGEST:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("what it said")
}

/// All plain files below a folder, by their paths in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(folder.join(&inner)).into_iter().flatten() {
            let entry = entry.expect("an entry");
            let path = inner.join(entry.file_name());
            match entry.file_type().expect("its type") {
                kind if kind.is_dir() => open.push(path),
                kind if kind.is_file() => {
                    found.insert(path, fs::read(entry.path()).expect("a file"));
                }
                _ => {}
            }
        }
    }
    found
}

/// Whatever stands under a final name is whole.
fn check_files(dir: &Path, reference: &Undisturbed, what: &str) {
    for (path, bytes) in files(dir) {
        let name = path.file_name().expect("a name").to_string_lossy();
        let show = path.display();
        let ending = name.rsplit('.').next().unwrap_or_default();
        let is = |known: &[&str]| !name.starts_with('.') && known.contains(&ending);
        if is(&["parquet", "fields", "toml"]) {
            let same = reference.files.get(&path) == Some(&bytes);
            assert!(same, "{what}: {show} is not what it is undisturbed");
        } else if is(&["safetensors"]) {
            assert!(is_whole(&bytes), "{what}: {show} is not whole");
        } else if is(&["json"]) {
            let json = serde_json::from_slice::<Value>(&bytes);
            assert!(json.is_ok(), "{what}: {show} is not whole");
        } else if is(&["jsonl"]) {
            let text = String::from_utf8(bytes).expect("text");
            let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
            let mut lines = whole.lines();
            let json = lines.all(|line| serde_json::from_str::<Value>(line).is_ok());
            assert!(json, "{what}: {show} has a line that is cut short: {text}");
        }
    }
}

/// Whether a safetensors file has all the bytes that its header speaks of.
fn is_whole(file: &[u8]) -> bool {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return false;
    };
    let header = rest.split_at_checked(u64::from_le_bytes(*length) as usize);
    let Some((header, data)) = header else {
        return false;
    };
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap_or_default();
    let ends = header
        .values()
        .filter_map(|t| t["data_offsets"][1].as_u64());
    ends.max() == Some(data.len() as u64)
}

/// Files and links of somebody else, inside and outside of the folders that a job writes to.
struct Foreign {
    outside: PathBuf,
    files: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
}

const MINE: &str = "this is somebody else's";

impl Foreign {
    fn put(home: &Path, job: &Job, reference: &Undisturbed, on_small_disk: bool) -> Self {
        let dir = home.join("disk");
        inputs(&dir);
        let outside = home.join("outside");
        fs::write(&outside, MINE).expect("a file");
        let mut all = Self {
            outside: outside.clone(),
            files: Vec::new(),
            links: Vec::new(),
        };
        let caches = reference.files.keys().filter(|p| p.ends_with("key.json"));
        let caches = caches.filter_map(|key| key.parent());
        let folders = [Path::new(""), Path::new("cache"), Path::new(job.folder)];
        for inner in folders.into_iter().chain(caches) {
            let inner = dir.join(inner);
            fs::create_dir_all(&inner).expect("a folder");
            // A small disk has no room for much of this.
            let names = [
                "notes",
                ".x.part",
                ".best.safetensors.part",
                ".d.parquet.notes.part",
            ];
            for name in &names[..if on_small_disk { 2 } else { 4 }] {
                fs::write(inner.join(name), MINE).expect("a file");
                all.files.push(inner.join(name));
            }
            for name in ["link", ".y.part"] {
                symlink(&outside, inner.join(name)).expect("a link");
                all.links.push((inner.join(name), outside.clone()));
            }
        }
        all
    }

    fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|p| p == path) || self.links.iter().any(|(p, _)| p == path)
    }

    fn check(&self, what: &str) {
        for path in self.files.iter().chain([&self.outside]) {
            let found = fs::read_to_string(path).unwrap_or_default();
            let show = path.display();
            assert_eq!(found, MINE, "{what}: {show} of somebody else was touched");
        }
        for (path, to) in &self.links {
            let found = fs::read_link(path).unwrap_or_default();
            let show = path.display();
            assert_eq!(found, *to, "{what}: the link {show} was touched");
        }
    }
}

/// A file system in memory with so much room, at the folder `disk`.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this process may not mount anything.
    fn mount(home: &Path, more: u64) -> Option<Self> {
        let at = home.join("disk");
        fs::create_dir(&at).expect("a folder");
        // Room for the inputs and what is foreign, which are there first, and `more` for the job.
        let probe = folder();
        inputs(probe.path());
        let pages = |f: &Vec<u8>| f.len().next_multiple_of(4096) as u64;
        let inputs: u64 = files(probe.path()).values().map(pages).sum();
        let size = format!("size={}", inputs + 4096 * 12 + more);
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&at)
            .stderr(Stdio::null())
            .status();
        mount
            .is_ok_and(|status| status.success())
            .then_some(Self(at))
    }

    fn make_room(&self) {
        let mut remount = Command::new("mount");
        remount.args(["-o", "remount,size=512m"]).arg(&self.0);
        assert!(remount.status().is_ok_and(|s| s.success()), "no more room");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
