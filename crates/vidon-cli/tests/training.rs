//! Training, evaluation and prediction as a user runs them.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{command, fail, folder, names, succeed, vidon};
use serde_json::Value;

/// A network that trains in moments.
const SMALL: &str = r#"
[data]
problem = "allen-cahn"
layout = "variable"
train_samples = 20
val_samples = 4

[model]
encoders = [{ kind = "heads", d_enc = 8, encoder_hidden = [8], count = 2, hidden = [8], outputs = 8 }]
core = { kind = "mlp", hidden = [16] }
decoder = { kind = "learned", p = 8, hidden = [16] }

[train]
batch = 5
sensors = 30
queries = 30
validation_queries = 50
rate = 1e-2
steps = 40
"#;

fn write_recipe(dir: &Path) {
    std::fs::write(dir.join("small.toml"), SMALL).unwrap();
}

#[test]
fn a_recipe_becomes_a_network_that_is_measured_and_used() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    let output = vidon(dir, "train small.toml");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{words}");
    for part in [
        "VIDON with",
        "step 40",
        "samples/s",
        "ETA",
        "best validation error",
        "vidon eval runs/small",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    for file in [
        "recipe.toml",
        "best.safetensors",
        "last.safetensors",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "events.out.tfevents.vidon",
        "learning.png",
    ] {
        assert!(dir.join("runs/small").join(file).exists(), "{file}");
    }
    let line = std::fs::read_to_string(dir.join("runs/small/metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    assert_eq!(last["step"], 40);
    assert!(last["val_error"].as_f64().unwrap() > 0.0);

    let table = succeed(dir, "eval runs/small --samples 3");
    assert!(
        table.contains("allen-cahn variable test") && table.contains("median"),
        "{table}"
    );
    let shown = succeed(
        dir,
        "eval runs/small --samples 3 --layout regular --json --plot e.png --plot-heads h.svg --sample 2",
    );
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["data"]["layout"], &shown["relative_l2"]["samples"]),
        (&"regular".into(), &3.into())
    );
    assert!(dir.join("e.png").exists() && dir.join("h.svg").exists());
    // The same numbers from a file of the same samples.
    succeed(
        dir,
        "generate allen-cahn --layout regular --split test --samples 3 --out t.parquet",
    );
    let file = succeed(
        dir,
        "eval runs/small/best.safetensors --data t.parquet --json",
    );
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(shown["relative_l2"], file["relative_l2"]);

    std::fs::write(
        dir.join("s.csv"),
        "y,x,u0\n0.5,0.1,1\n1.5,0.2,0.5\n0.9,1.9,0\n",
    )
    .unwrap();
    succeed(
        dir,
        "predict runs/small --sensors s.csv --grid 5x4x3 --out v.csv --plot v.png --plot-heads hv.png",
    );
    let values = std::fs::read_to_string(dir.join("v.csv")).unwrap();
    assert!(values.starts_with("x,y,t,u\n0,0,0,"), "{values}");
    assert_eq!(values.lines().count(), 61);
    std::fs::write(dir.join("q.csv"), "x,y,t\n2,2,0.05\n").unwrap();
    succeed(
        dir,
        "predict runs/small/best.safetensors --sensors s.csv --queries q.csv --out one.csv",
    );
    let one = std::fs::read_to_string(dir.join("one.csv")).unwrap();
    let last = |text: &str| -> f64 { text.trim_end().rsplit(',').next().unwrap().parse().unwrap() };
    assert!((last(&one) - last(&values)).abs() < 1e-6, "{one} {values}");
    for out in ["v.npy", "v.parquet"] {
        succeed(
            dir,
            &format!("predict runs/small --sensors s.csv --grid 5x4x3 --out {out}"),
        );
    }
    assert_eq!(
        std::fs::metadata(dir.join("v.npy")).unwrap().len(),
        128 + 4 * 60
    );
    succeed(dir, "plot runs/small --out curves.svg");
    assert!(succeed(dir, "inspect runs/small/best.safetensors").contains("VIDON for allen-cahn"));

    for (arguments, words) in [
        ("train small.toml", "vidon train --resume runs/small"),
        ("train none.toml", "cannot read none.toml"),
        ("train small.toml --out x --set train.rate=fast", "train"),
        (
            "train small.toml --out x --set model.core.kind=cnn",
            "unknown variant `cnn`",
        ),
        (
            "train small.toml --out x --budget soon",
            "write a time such as",
        ),
        ("train --resume none", "holds no recipe.toml"),
        ("eval none", "none"),
        ("eval runs", "holds no best.safetensors"),
        (
            "predict runs/small --sensors t.parquet --grid 3x3x3 --out v.csv",
            "there is no such column",
        ),
        (
            "predict runs/small --sensors s.csv --grid 3x3 --out v.csv",
            "the 3 coordinates x, y, t",
        ),
        (
            "predict runs/small --sensors s.csv --grid 3xx3 --out v.csv",
            "such as 65x65",
        ),
        (
            "predict runs/small --sensors s.csv --grid 3x3x3 --out v.txt",
            ".csv, .npy or .parquet",
        ),
        (
            "predict runs/small --sensors q.csv --grid 3x3x3 --out v.csv",
            "column u0",
        ),
        (
            "predict runs/small --sensors s.csv --grid 3x3x3 --out s.csv",
            "is to be read and written at once",
        ),
        (
            "predict runs/small --sensors s.csv --grid 3x3x3 --out new.csv --plot v.jpg",
            ".png or .svg",
        ),
        ("eval runs/small --plot v.jpg", ".png or .svg"),
        (
            "plot runs/small --sample 3 --out p.png",
            "--sample and --only are for datasets",
        ),
    ] {
        let found = fail(dir, arguments);
        assert!(found.contains(words), "{arguments}: {found}");
    }
    assert!(!dir.join("new.csv").exists() && !dir.join("p.png").exists());
}

/// Neither a log that nobody reads any more nor, under nohup, a closed terminal ends a training.
#[cfg(unix)]
#[test]
fn a_training_goes_on_alone() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    let mut child = command(dir, "train small.toml --out unread")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
    assert!(dir.join("unread/last.safetensors").exists());
    let train = command(dir, "train small.toml --out left --budget 3s -q");
    let mut shell = Command::new("sh");
    shell
        .current_dir(dir)
        .env("VIDON_CACHE", dir.join("cache"))
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(train.get_program())
        .args(train.get_args());
    let mut child = shell.spawn().unwrap();
    while !dir.join("left/best.safetensors").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-HUP", &id]).status().unwrap();
    assert!(sent.success() && child.wait().unwrap().success());
    let metrics = std::fs::read_to_string(dir.join("left/metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["seconds"].as_f64().unwrap() >= 3.0, "{last}");
}

/// Killed ten times at any moment, it ends with the same bits as the run that was never stopped.
#[test]
fn a_killed_training_is_resumed_bit_for_bit() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    let settings = "--set train.steps=2000 --set train.checkpoint_every=4 --set train.ema=0.99";
    succeed(dir, &format!("train small.toml --out whole {settings} -q"));
    let mut random = 12345u64;
    let mut begun = false;
    for kill in 0..10 {
        let arguments = match begun {
            false => format!("train small.toml --out killed {settings}"),
            true => "train --resume killed".to_string(),
        };
        let mut child = command(dir, &arguments)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_millis(20 + (random >> 33) % 200));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(
            !status.success(),
            "it ended before kill {kill}; the test needs more steps"
        );
        begun = dir.join("killed/recipe.toml").exists();
    }
    succeed(dir, "train --resume killed -q");
    for file in ["last.safetensors", "best.safetensors"] {
        let read = |run: &str| std::fs::read(dir.join(run).join(file)).unwrap();
        assert!(read("whole") == read("killed"), "{file} differs");
    }
    let whole = names(&dir.join("whole"));
    assert_eq!(
        names(&dir.join("killed")),
        whole,
        "nothing unfinished is left"
    );
    // The history is the same but for the clock.
    let history = |run: &str| {
        let lines = std::fs::read_to_string(dir.join(run).join("metrics.jsonl")).unwrap();
        let record = |line: &str| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            let clock = ["seconds", "time", "samples_per_second", "crc32"];
            let members = record.as_object_mut().unwrap();
            clock.iter().for_each(|key| drop(members.remove(*key)));
            record
        };
        Vec::from_iter(lines.lines().map(record))
    };
    let (whole, killed) = (history("whole"), history("killed"));
    assert_eq!(whole.len(), killed.len());
    for (whole, killed) in whole.iter().zip(killed) {
        assert_eq!(*whole, killed);
    }
}

/// A failed training takes nothing along that another program put into its folder, finished or not.
#[test]
fn only_what_is_the_trainings_own_is_removed() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    std::fs::write(
        dir.join("none.toml"),
        format!(
            "[data]\ntrain = \"none.parquet\"\n{}",
            &SMALL[SMALL.find("[model]").unwrap()..]
        ),
    )
    .unwrap();
    assert!(fail(dir, "train none.toml --out new/run").contains("none.parquet"));
    assert!(!dir.join("new").exists());
    std::fs::create_dir(dir.join("mine")).unwrap();
    let foreign = [".x.parquet.AbC123.part", "metrics.jsonl", "notes.txt"];
    for name in foreign {
        std::fs::write(dir.join("mine").join(name), "foreign").unwrap();
    }
    fail(dir, "train none.toml --out mine");
    assert_eq!(names(&dir.join("mine")), foreign);
    succeed(dir, "train small.toml --out run");
    std::fs::write(dir.join("run/.x.parquet.AbC123.part"), "foreign").unwrap();
    succeed(dir, "train --resume run --steps 41");
    assert!(dir.join("run/.x.parquet.AbC123.part").exists());
}

/// Files under the names of a run that are none: an error for each, without waiting for a pipe.
#[cfg(unix)]
#[test]
fn a_run_from_elsewhere_leads_nowhere() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    succeed(dir, "train small.toml --out run");
    std::fs::write(dir.join("dear.txt"), "dear").unwrap();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    for (name, command) in [
        (".lock", "train --resume run --steps 50"),
        ("recipe.toml", "train --resume run --steps 50"),
        ("checkpoint.safetensors", "train --resume run --steps 50"),
        ("best.json", "train --resume run --steps 50"),
        ("metrics.jsonl", "plot run --out p.png"),
        (
            "best.safetensors",
            "predict run --sensors s.csv --grid 2x2x2 --out v.csv",
        ),
        ("best.safetensors", "eval run --samples 1"),
        ("learning.png", "train --resume run"),
    ] {
        let (path, aside) = (dir.join("run").join(name), dir.join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::write(dir.join("s.csv"), "x,y,u0\n1,1,1\n").unwrap();
        std::os::unix::fs::symlink(dir.join("dear.txt"), &path).unwrap();
        let words = fail(dir, command);
        assert!(words.contains(&format!("run/{name}: is a link")), "{words}");
        std::fs::remove_file(&path).unwrap();
        pipe(&path);
        let words = fail(dir, command);
        assert!(words.contains("not a plain file"), "{name}: {words}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(fail(dir, command).contains("is a folder"), "{name}");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(std::fs::read(dir.join("dear.txt")).unwrap(), b"dear");
    assert!(!dir.join("v.csv").exists() && !dir.join("p.png").exists());
}

/// Two that want the same run, a folder that is gone, and a disk that is full.
#[cfg(unix)]
#[test]
fn what_happens_to_the_folder_of_a_running_training_is_said() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    let long = "train small.toml --out run --steps 1000000 --set train.checkpoint_every=4";
    let best = dir.join("run/best.safetensors");
    let gone = common::signalled(dir, long, "-0", || {
        let ready = best.exists();
        if ready {
            let words = fail(dir, "train --resume run");
            assert!(words.contains("another training is running"), "{words}");
            std::fs::rename(dir.join("run"), dir.join("moved")).unwrap();
        }
        ready
    });
    let words = String::from_utf8(gone.stderr).unwrap();
    assert_eq!(gone.status.code(), Some(1), "{words}");
    assert!(
        words.contains("error: cannot") && words.contains("run"),
        "{words}"
    );
    let before = std::fs::read(dir.join("moved/checkpoint.safetensors")).unwrap();
    let held = names(&dir.join("moved"));
    // Nothing longer than 2 KiB can be written.
    let script =
        "trap '' XFSZ; ulimit -f 4; exec \"$0\" train --resume moved --steps 1000000 --cache none";
    let full = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_vidon")])
        .current_dir(dir)
        .output()
        .unwrap();
    let words = String::from_utf8(full.stderr).unwrap();
    assert!(words.contains("error: cannot write moved"), "{words}");
    assert!(std::fs::read(dir.join("moved/checkpoint.safetensors")).unwrap() == before);
    assert_eq!(names(&dir.join("moved")), held);
}

#[cfg(unix)]
#[test]
fn an_interrupted_training_saves_and_says_how_to_go_on() {
    let dir = folder();
    let dir = dir.path();
    write_recipe(dir);
    let checked = dir.join("runs/small/best.safetensors");
    let words = common::interrupt(dir, "train small.toml --budget 10m", &checked);
    assert!(
        words.contains("everything is saved") && words.contains("vidon train --resume runs/small"),
        "{words}"
    );
    succeed(dir, "train --resume runs/small --budget 2s");
}

#[test]
fn the_demo_runs_from_nothing_to_pictures() {
    let dir = folder();
    let dir = dir.path();
    let words = succeed(dir, "demo --budget 2s --samples 2");
    for part in [
        "mean relative L² error on 2 test samples",
        "1.20 %",
        "what to try next",
    ] {
        assert!(words.contains(part), "{words}");
    }
    for file in ["prediction.png", "learning.png"] {
        assert!(dir.join("runs/demo").join(file).exists(), "{file}");
    }
    assert!(fail(dir, "demo").contains("holds a run already"));
}

/// What a recipe for other data says, and what is wrong with it.
#[test]
fn a_users_own_data_is_learned_from() {
    let dir = folder();
    let dir = dir.path();
    let mut table = String::from("run,x,u,v\n");
    for run in 0..20 {
        for i in 0..(5 + run % 3) {
            let x = i as f64 / 7.0;
            table += &format!(
                "r{run},{x},{},{}\n",
                run as f64 / 20.0,
                run as f64 / 20.0 * (1.0 + x)
            );
        }
    }
    std::fs::write(dir.join("t.csv"), table).unwrap();
    succeed(
        dir,
        "import t.csv --sample run --coords x --values u --target-values v --out mine.parquet",
    );
    let data = "[data]\ntrain = \"mine.parquet\"\n";
    let model = &SMALL[SMALL.find("[model]").unwrap()..SMALL.find("[train]").unwrap()];
    std::fs::write(
        dir.join("mine.toml"),
        format!("{data}{model}[train]\nbatch = 6\nsteps = 30\nrate = 1e-2\n"),
    )
    .unwrap();
    succeed(dir, "train mine.toml -q");
    assert!(fail(dir, "eval runs/mine").contains("give test data with --data"));
    let shown: Value =
        serde_json::from_str(&succeed(dir, "eval runs/mine --data mine.parquet --json")).unwrap();
    assert_eq!(shown["relative_l2"]["samples"], 20);
    std::fs::write(dir.join("s.csv"), "x,u\n0.1,0.5\n0.7,0.5\n").unwrap();
    succeed(
        dir,
        "predict runs/mine --sensors s.csv --grid 9 --out v.csv --plot v.png",
    );
}

/// The recipes in `recipes/own/` learn a user's table as they are, and what is unlike the training data is noted.
#[test]
fn recipes_for_own_data_work_as_they_are() {
    let dir = folder();
    let dir = dir.path();
    let mut table = String::from("day,x,y,u,v,T\n");
    for day in 0..60u64 {
        let pick = |i: u64, n: u64| (day * 7919 + i * 104_729 + i * i * 31) % n;
        let height = pick(3, 100) as f64 / 100.0 - 0.5;
        for i in 0..30 + day % 5 {
            let (x, y) = (
                pick(2 * i, 997) as f64 / 9.97,
                pick(2 * i + 1, 991) as f64 / 19.82,
            );
            let u = height * (x / 30.0).cos() + (y / 15.0).sin();
            table += &format!("{day},{x},{y},{u},{},{}\n", 0.5 * u, 280.0 + 20.0 * u);
        }
    }
    std::fs::write(dir.join("t.csv"), table).unwrap();
    let import = "import t.csv --sample day --coords x,y --target-values T";
    let ranges = "--range x=0:100 --range y=0:50";
    succeed(
        dir,
        &format!("{import} --values u {ranges} --out mine.parquet"),
    );
    succeed(dir, &format!("{import} --values u,v --out vector.parquet"));
    let recipes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/own");
    for (recipe, steps) in [("plane", 150), ("scattered", 200)] {
        let out = format!("runs/{recipe}");
        succeed(
            dir,
            &format!(
                "train {recipes}/{recipe}.toml --set data.train=mine.parquet --steps {steps} --out {out}"
            ),
        );
        let found = succeed(dir, &format!("eval {out} --data mine.parquet --json"));
        let found: Value = serde_json::from_str(&found).unwrap();
        // Without what the sensors say, 280 ± 20 u would be missed by 1.3e-2 at least.
        assert!(
            found["relative_l2"]["mean"].as_f64().unwrap() < 6e-3,
            "{found}"
        );
        assert_eq!(found["errors"].as_array().unwrap().len(), 60);
    }
    let words = succeed(dir, "inspect runs/plane");
    assert!(words.contains("x in [0, 100], y in [0, 50]"), "{words}");
    std::fs::write(
        dir.join("s.csv"),
        "x,y,u\n50,20,0.3\n50,7000,0.2\n20,20,9000\n",
    )
    .unwrap();
    let told = vidon(
        dir,
        "predict runs/plane --sensors s.csv --grid 5x5 --out v.csv",
    );
    let told = String::from_utf8(told.stderr).unwrap();
    for note in [
        "1 sensor stands outside of the box",
        "1 of 3 readings are far from all",
    ] {
        assert!(told.contains(note), "{told}");
    }
    let train = format!("train {recipes}/plane.toml --set data.train=vector.parquet --steps 1");
    let told = vidon(
        dir,
        &format!("{train} --set train.symmetries={{flips=true}} --out runs/v"),
    );
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(
        told.contains("note: symmetries move every component"),
        "{told}"
    );
    let shifted = format!("{train} --set train.symmetries={{shifts=true}} --out runs/s");
    assert!(fail(dir, &shifted).contains("the data do not say that of x"));
    let limits = format!("{train} --set train.steps=9");
    assert!(fail(dir, &limits).contains("--set train.steps=9 is void"));
}

/// The networks in `models/` know their problems: errors are a fraction of the paper's, more sensors are
/// better than few, and a table of sensors is answered.
#[test]
fn networks_that_come_along_answer() {
    let dir = folder();
    let dir = dir.path();
    let words = succeed(dir, "demo --pretrained --samples 3 --out shown");
    for problem in ["darcy", "allen-cahn", "navier-stokes"] {
        assert!(words.contains(problem), "{words}");
        assert!(dir.join(format!("shown/{problem}.png")).exists());
    }
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
    let error = |options: &str| {
        let found = succeed(
            dir,
            &format!("eval {models}/navier-stokes.safetensors --samples 3 --json {options}"),
        );
        let found: Value = serde_json::from_str(&found).unwrap();
        found["relative_l2"]["mean"].as_f64().unwrap()
    };
    let (own, few, many) = (error(""), error("--sensors 30"), error("--sensors 2000"));
    assert!(
        own < 0.03 && many < 0.03 && few > 2.0 * many,
        "{own} {few} {many}"
    );
    let sensors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vorticity.csv");
    succeed(
        dir,
        &format!(
            "predict {models}/navier-stokes.safetensors --sensors {sensors} --grid 9x9 --out v.csv"
        ),
    );
    let lines = std::fs::read_to_string(dir.join("v.csv")).unwrap();
    assert_eq!(lines.lines().count(), 82);
}
