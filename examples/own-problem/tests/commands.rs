//! The problem through the commands of the program.

use std::path::Path;
use std::process::Command;

fn run(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_own-problem"))
        .current_dir(folder)
        .env("VIDON_CACHE", folder.join("cache"))
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_problem_of_ones_own_is_generated_learned_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(
        folder,
        "generate rod --layout random --split val --out val.parquet",
    );
    let shown = run(folder, "inspect val.parquet");
    assert!(shown.contains("rod") && shown.contains("start"), "{shown}");
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("rod.toml");
    run(folder, &format!("train {} --out learned", recipe.display()));
    let found = run(folder, "eval learned --samples 100 --json");
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let error = found["relative_l2"]["mean"].as_f64().unwrap();
    assert!(error < 0.01, "{error}");
}
