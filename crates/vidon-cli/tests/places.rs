//! Trainings that know unseen places, and trainings that go on elsewhere, as a user runs them.

mod common;

use std::path::Path;

use common::{fail, folder, interrupt, succeed, vidon};
use serde_json::Value;

const RECIPE: &str = r#"
[data]
train = "air.parquet"
hold_out = "places"
[model]
start = { kind = "field" }
encoders = [{ kind = "projection", functions = 9, frame = { family = "cosine" } }]
core = { kind = "mlp", hidden = [8] }
decoder = { kind = "learned", p = 4, hidden = [8] }
[train]
batch = 10
left_out = 0.25
queries = 0.8
steps = 20
validate_every = 10
"#;

const IMPORT: &str = "--sample day --field air=air.csv:x,y+height:T --targets asked.csv --target-coords x,y --target-covariates height --target-values T";

/// Days on which ninety stations report the temperature, most as sensors and some as targets; every fifth reports
/// nothing. `offset` moves the stations and the level.
fn write_tables(dir: &Path, days: u64, offset: f64) {
    let (mut read, mut asked) = (vec![], vec![]);
    for day in 0..days {
        let level = (day as f64).sin();
        for i in 0..90u64 {
            let pick = |step: u64| (i * step % 997) as f64 / 997.0;
            let (x, y, height) = (pick(379), pick(613) + offset, pick(287));
            let noise = ((day * 31 + i * 17) % 13) as f64 / 130.0;
            let value = 3.0 * level + offset - 2.0 * height + (3.0 * x).cos() + noise;
            let line = format!("d{day},{x},{y},{height},{value}");
            match (day + i) % 5 {
                0 => {}
                1 => asked.push(line),
                _ => read.push(line),
            }
        }
    }
    for (name, lines) in [("air", read), ("asked", asked)] {
        let text = format!("day,x,y,height,T\n{}\n", lines.join("\n"));
        std::fs::write(dir.join(format!("{name}.csv")), text).unwrap();
    }
}

fn prepared() -> tempfile::TempDir {
    let dir = folder();
    write_tables(dir.path(), 40, 0.0);
    succeed(dir.path(), &format!("import {IMPORT} --out air.parquet"));
    std::fs::write(dir.path().join("r.toml"), RECIPE).unwrap();
    dir
}

/// What it says on the way.
fn told(dir: &Path, arguments: &str) -> String {
    let output = vidon(dir, arguments);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "vidon {arguments}: {words}");
    words
}

/// Held-out places, sensors that are left out beside a start, and all of that after an interruption.
#[test]
fn places_are_held_out_and_sensors_left_out() {
    let dir = prepared();
    let dir = dir.path();
    let words = told(dir, "train r.toml --out whole");
    assert!(
        words.contains("of 90 places (in ") && words.contains("40 validation samples"),
        "{words}"
    );
    let begun = dir.join("parts/best.safetensors");
    let long = "train r.toml --out parts --set train.checkpoint_every=1 --steps 1000000";
    interrupt(dir, long, &begun);
    let metrics = std::fs::read_to_string(dir.join("parts/metrics.jsonl")).unwrap();
    let first =
        |text: &str| -> Value { serde_json::from_str(text.lines().next().unwrap()).unwrap() };
    let whole = std::fs::read_to_string(dir.join("whole/metrics.jsonl")).unwrap();
    assert_eq!(first(&metrics)["val_error"], first(&whole)["val_error"]);
    succeed(dir, "train r.toml --out again -q");
    let read = |run: &str| std::fs::read(dir.join(run).join("last.safetensors")).unwrap();
    assert!(read("whole") == read("again"));
    // A run that was stopped goes on as if it had not been.
    succeed(dir, "train r.toml --out short --steps 10 -q");
    succeed(dir, "train --resume short --steps 20 -q");
    assert!(read("whole") == read("short"));
    for (settings, words) in [
        (
            "--set data.val=air.parquet",
            "data.hold_out: there are validation data of their own",
        ),
        (
            "--set data.val_share=2",
            "a share is more than 0 and less than 1",
        ),
        ("--set data.hold_out=stations", "unknown variant `stations`"),
        (
            "--set train.left_out=1",
            "train.left_out = 1: is out of range",
        ),
        ("--set train.coefficients=true", "set coefficients = false"),
        ("--set train.sensors=1.5", "a share below 1 such as 0.8"),
        (
            "--set train.patience=0",
            "train.patience = 0: is out of range",
        ),
    ] {
        let found = fail(dir, &format!("train r.toml --out x {settings}"));
        assert!(found.contains(words), "{settings}: {found}");
        assert!(!dir.join("x").exists());
    }
    // Other quantities are no further targets.
    let other = IMPORT.replace("--target-values T", "--target-values rain");
    let asked = std::fs::read_to_string(dir.join("asked.csv")).unwrap();
    std::fs::write(dir.join("asked.csv"), asked.replacen(",T\n", ",rain\n", 1)).unwrap();
    succeed(dir, &format!("import {other} --out rain.parquet"));
    let found = fail(dir, "train r.toml --out x --set data.train=rain.parquet");
    assert!(
        found.contains("the targets are (rain), the readings (T)"),
        "{found}"
    );
}

#[test]
fn places_that_do_not_recur_cannot_be_held_out() {
    let dir = folder();
    let dir = dir.path();
    let mut table = String::from("run,x,u\n");
    for i in 0..60 {
        table += &format!("r{},{},{}\n", i / 6, i as f64 / 60.0, i % 7);
    }
    std::fs::write(dir.join("t.csv"), table).unwrap();
    succeed(
        dir,
        "import t.csv --sample run --coords x --values u --target-values u --out t.parquet",
    );
    let model = &RECIPE[RECIPE.find("encoders").unwrap()..RECIPE.find("[train]").unwrap()];
    let recipe = format!(
        "[data]\ntrain = \"t.parquet\"\nhold_out = \"places\"\n[model]\n{model}[train]\nsteps = 2\n"
    );
    std::fs::write(dir.join("t.toml"), recipe).unwrap();
    let found = fail(dir, "train t.toml");
    assert!(
        found.contains("places do not recur") && found.contains("hold_out = \"samples\""),
        "{found}"
    );
    succeed(
        dir,
        "train t.toml --set data.hold_out=samples --set data.val_share=0.3 -q",
    );
}

/// A network of stations elsewhere is learned from where another one ended, without a model in the recipe.
#[test]
fn a_training_goes_on_with_other_stations() {
    let dir = prepared();
    let dir = dir.path();
    succeed(dir, "train r.toml --out old -q");
    write_tables(dir, 12, 0.3);
    succeed(dir, &format!("import {IMPORT} --out new.parquet"));
    let further = "[data]\ntrain = \"new.parquet\"\nval_share = 0.3\n[train]\nbatch = 4\nsteps = 40\nvalidate_every = 1\nrate = 1e-30\npatience = 3\n";
    std::fs::write(dir.join("f.toml"), further).unwrap();
    let words = told(dir, "train f.toml --from old --out new");
    for part in [
        "places of air stand outside of the box of the data that the network was trained with",
        "ended early: 3 validations without a better one (patience)",
        "the network that it started from does best on validation data",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let best = |run: &str| -> f64 {
        let text = std::fs::read_to_string(dir.join(run).join("best.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["error"]
            .as_f64()
            .unwrap()
    };
    assert!(best("new") < 0.5, "{}", best("new"));
    // The run stands on its own.
    std::fs::rename(dir.join("old"), dir.join("moved")).unwrap();
    let words = told(dir, "train --resume new");
    assert!(words.contains("ended early"), "{words}");
    std::fs::rename(dir.join("moved"), dir.join("old")).unwrap();
    for (arguments, words) in [
        ("f.toml --from none", "cannot read none"),
        ("f.toml", "missing field `model`"),
        (
            "f.toml --from old --set model.core={kind=\"mlp\"}",
            "missing field",
        ),
        (
            "r.toml --from old --set model.decoder.p=5 --set data.train=new.parquet",
            "leave the section [model] out",
        ),
        (
            "f.toml --from old --set train.scaling=none",
            "the network that the training goes on from sees scaled values",
        ),
    ] {
        let found = fail(dir, &format!("train {arguments} --out x"));
        assert!(found.contains(words), "{arguments}: {found}");
        assert!(!dir.join("x").exists());
    }
    // Its own recipe has its model.
    succeed(
        dir,
        "train r.toml --from old --set data.train=new.parquet --set data.hold_out=samples --steps 2 --out y -q",
    );
    let words = fail(dir, "train f.toml --resume new --from old");
    assert!(words.contains("cannot be used with"), "{words}");
}
