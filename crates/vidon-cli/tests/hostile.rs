//! What comes from somewhere else is looked at before it is trusted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

mod common;

use common::{command, fail, folder, succeed};

const TABLE: &str =
    "run,x,y,p,u\nA,0,0,1,2\nA,1,1,2,3\nB,0,1,3,4\nB,1,0,4,5\nC,0.5,0,4,1\nC,0,1,2,1\n";
const IMPORT: &str = "--sample run --coords x,y --values p --target-values u";

fn imported(options: &str) -> TempDir {
    let dir = folder();
    write(dir.path(), "t.csv", TABLE);
    succeed(
        dir.path(),
        &format!("import t.csv {IMPORT} {options} --out d.parquet"),
    );
    dir
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

/// A recipe that learns from `d.parquet` in no time.
const RECIPE: &str = "[data]\ntrain = \"d.parquet\"\n[model]\nencoders = [{ kind = \"heads\", count = 1, d_enc = 4, encoder_hidden = [4], hidden = [4], outputs = 4 }]\ncore = { kind = \"mlp\", hidden = [4] }\ndecoder = { kind = \"learned\", p = 4, hidden = [4] }\n[train]\nsteps = 2\n";

fn contains(text: &str, words: &str) {
    assert!(text.contains(words), "{text}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_at_once() {
    let dir = imported("");
    let dir = dir.path();
    write(dir, "r.toml", RECIPE);
    succeed(dir, "train r.toml --out run");
    let made = Command::new("mkfifo").arg(dir.join("pipe")).status();
    assert!(made.unwrap().success());
    for input in ["pipe", "/dev/zero"] {
        for arguments in [
            format!("inspect {input}"),
            format!("import {input} {IMPORT} --out o.parquet"),
            format!("plot {input} --out p.png"),
            format!("train {input} --out other"),
            format!("eval run --data {input}"),
            format!("predict {input} --sensors t.csv --grid 3x3 --out o.csv"),
            format!("predict run --sensors {input} --grid 3x3 --out o.csv"),
            format!("predict run --sensors t.csv --queries {input} --out o.csv"),
        ] {
            let started = Instant::now();
            contains(&fail(dir, &arguments), "is a pipe or a device");
            assert!(started.elapsed() < Duration::from_secs(5), "{arguments}");
        }
    }
    std::fs::rename(dir.join("pipe"), dir.join("pipe.npz")).unwrap();
    contains(
        &fail(dir, "import pipe.npz --out o.parquet"),
        "is a pipe or a device",
    );
}

#[cfg(unix)]
#[test]
fn sizes_of_a_recipe_are_compared_with_memory() {
    let dir = imported("");
    let dir = dir.path();
    write(dir, "r.toml", RECIPE);
    for (setting, words) in [
        (
            "model.encoders.0.encoder_hidden=[1000000000]",
            "to be trained its",
        ),
        ("model.decoder.p=1000000000000", "to be trained its"),
        (
            "model.core.hidden=[4000000000,4000000000]",
            "to be trained its",
        ),
    ] {
        let said = fail(dir, &format!("train r.toml --out run --set {setting}"));
        contains(&said, words);
        contains(&said, "are free");
        assert!(!dir.join("run").exists());
    }
    // Also under the limits of a batch system: less than this network takes.
    let program = env!("CARGO_BIN_EXE_vidon");
    let limited = format!(
        "ulimit -v 3000000; exec {program} train r.toml --out run --set model.decoder.p=20000000"
    );
    let output = Command::new("sh")
        .args(["-c", &limited])
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    contains(&said, "to be trained its");

    let problem =
        "[data]\nproblem = \"heat\"\nlayout = \"regular\"\ntrain_samples = 1000000000000\n";
    let text = RECIPE.replace("[data]\ntrain = \"d.parquet\"\n", problem);
    write(dir, "p.toml", &text);
    contains(
        &fail(dir, "train p.toml --out run"),
        "to be held at once 1000000000000 samples takes about",
    );
}

#[test]
fn threads_are_bounded() {
    let dir = folder();
    contains(
        &fail(dir.path(), "inspect none --threads 4000"),
        "--threads 4000: at most",
    );
}

#[test]
fn units_are_compared() {
    let dir = imported("--unit p=°C");
    let dir = dir.path();
    write(dir, "r.toml", RECIPE);
    succeed(dir, "train r.toml --out run");
    for (unit, refused) in [("--unit p=K", true), ("--unit p=°C", false), ("", false)] {
        succeed(
            dir,
            &format!("import t.csv {IMPORT} {unit} --out e.parquet"),
        );
        match refused {
            true => contains(
                &fail(dir, "eval run --data e.parquet"),
                "p of sensor_values is in °C in the data of the model, and in K in this",
            ),
            false => drop(succeed(dir, "eval run --data e.parquet")),
        }
        write(
            dir,
            "v.toml",
            &RECIPE.replace("[model]", "val = \"e.parquet\"\n[model]"),
        );
        match refused {
            true => contains(
                &fail(dir, "train v.toml --out other"),
                "and in K in the validation data",
            ),
            false => {
                let output = command(dir, "train v.toml --out other").output().unwrap();
                let said = String::from_utf8(output.stderr).unwrap();
                contains(&said, "3 of 3 validation samples are training samples too");
                std::fs::remove_dir_all(dir.join("other")).unwrap();
            }
        }
    }
    succeed(
        dir,
        &format!("import t.csv {IMPORT} --unit p=K --out d.parquet"),
    );
    contains(
        &fail(dir, "train --resume run --steps 4"),
        "is in °C in the training so far, and in K in the data now",
    );
}

#[test]
fn outputs_have_names_of_their_own() {
    let dir = imported("");
    let dir = dir.path();
    write(dir, "r.toml", RECIPE);
    succeed(dir, "train r.toml --out run");
    contains(
        &fail(
            dir,
            "eval run --data d.parquet --plot a.png --plot-heads ./a.png",
        ),
        "a.png is to be written by --plot and by --plot-heads",
    );
    contains(
        &fail(
            dir,
            "predict run --sensors t.csv --grid 3x3 --plot a.png --plot-heads a.png",
        ),
        "a.png is to be written by --plot and by --plot-heads",
    );
    contains(
        &fail(dir, "predict run --sensors t.csv --grid 3x3 --out t.csv"),
        "t.csv is to be read and written at once; choose another --out",
    );
    contains(
        &fail(
            dir,
            "generate darcy --layout regular --split val --samples 1 --out x.csv",
        ),
        "x.csv: datasets are written as .parquet",
    );
    contains(
        &fail(dir, &format!("import t.csv {IMPORT} --out x.csv")),
        "x.csv: datasets are written as .parquet",
    );
}

#[test]
fn a_setting_is_not_dropped_behind_a_line_break() {
    let dir = imported("");
    write(dir.path(), "r.toml", RECIPE);
    let output = command(dir.path(), "train r.toml --out run --set")
        .arg("train.rate=1e-3\nseed=7")
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    contains(
        &String::from_utf8(output.stderr).unwrap(),
        "one setting is given at a time",
    );
}

#[test]
fn names_neither_command_the_terminal_nor_fill_it() {
    let dir = folder();
    let dir = dir.path();
    let name = "\u{1b}[2J\u{202e}p";
    write(dir, "t.csv", &TABLE.replace(",p,", &format!(",{name},")));
    let said = fail(dir, &format!("import t.csv {IMPORT} --out d.parquet"));
    contains(&said, "the table has run, x, y, \\u001b[2J\\u202ep, u");
    assert!(!said.contains(['\u{1b}', '\u{202e}']));

    let long = "p".repeat(200_000);
    write(dir, "t.csv", &TABLE.replace(",p,", &format!(",{long},")));
    let options = IMPORT.replace("--values p ", &format!("--values {long} "));
    // A list of arguments has its own limits, so that a group does not name it.
    let output = command(dir, "import t.csv --out d.parquet")
        .args(
            options
                .split_whitespace()
                .map(|word| &word[..word.len().min(100_000)]),
        )
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.len() < 10_000,
        "{}",
        said.len()
    );

    let cell = "9x".repeat(1_000_000);
    write(
        dir,
        "t.csv",
        &TABLE.replace("A,0,0,1,2", &format!("A,0,0,{cell},2")),
    );
    let said = fail(dir, &format!("import t.csv {IMPORT} --out d.parquet"));
    assert!(said.len() < 10_000, "{}", said.len());
    contains(&said, "line 2, column p");
    contains(&said, "is not a number");
}

#[test]
fn messages_point_at_what_is_wrong() {
    let dir = folder();
    let dir = dir.path();
    let projected = RECIPE.replace(
        "{ kind = \"heads\", count = 1, d_enc = 4, encoder_hidden = [4], hidden = [4], outputs = 4 }",
        "{ kind = \"projection\", functions = 3 }",
    );
    let based = projected.replace(
        "{ kind = \"learned\", p = 4, hidden = [4] }",
        "{ kind = \"basis\", functions = 3 }",
    );
    write(dir, "p.toml", &projected);
    write(dir, "b.toml", &based);
    let trained = |table: &str, recipe: &str, words: &str| {
        write(dir, "t.csv", table);
        succeed(dir, &format!("import t.csv {IMPORT} --out d.parquet"));
        contains(&fail(dir, &format!("train {recipe} --out run")), words);
    };
    let constant = "run,x,y,p,u\nA,0,7,1,2\nA,1,7,2,3\nB,0,7,3,4\nB,1,7,4,5\nC,0,7,4,5\n";
    trained(
        constant,
        "p.toml",
        "the coordinate y is the same in all of the data, so that its box is not known",
    );
    trained(
        &TABLE.replace(",1,", ",3e37,"),
        "p.toml",
        "goes beyond 1e30: choose another unit",
    );
    trained(
        &TABLE
            .replace(",2\n", ",-3.4e38\n")
            .replace(",3\n", ",3.4e38\n"),
        "p.toml",
        "the column u of the targets goes from -3.4e38 to 3.4e38, which is further than float32 numbers reach",
    );
    let two = "run,x,y,p,u\nA,0,0,1,2\nA,1,1,2,3\nB,0,1,3,4\nB,1,0,4,5\n";
    trained(
        two,
        "b.toml",
        "a network cannot learn from one training sample",
    );
}
