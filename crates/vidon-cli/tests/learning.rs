//! Every network learns every problem it can do: reduced sizes, less than two minutes each, the validation
//! error falls by at least five times.
//!
//!   cargo test --release --workspace --test learning -- --ignored --test-threads 1

mod common;

use common::{folder, succeed};
use serde_json::Value;

fn model(name: &str, problem: &str) -> String {
    let sensors = match problem {
        "darcy" => 2601,
        "allen-cahn" => 676,
        _ => 1089,
    };
    let family = match problem {
        "navier-stokes" => "periodic",
        _ => "cosine",
    };
    let pod = format!(
        "decoder = {{ kind = \"pod\", p = 50, functions = 150, frame = {{ family = \"{family}\" }} }}\n"
    );
    match name {
        // Pooling alone is slow to learn here.
        "vidon" if problem == "navier-stokes" => "encoders = [{ kind = \"projection\", functions = 169, frame = { family = \"periodic\" } }]\ncore = { kind = \"fno\", grid = 20, coords = false, width = 16, modes = 8, layers = 3, hidden = 32 }\ndecoder = { kind = \"basis\", functions = 169, frame = { family = \"periodic\" } }\n".into(),
        "vidon" => format!(
            "encoders = [{{ kind = \"heads\", encoding = \"product\", positional = {{ kind = \"fourier\", functions = 49, frame = {{ family = \"{family}\" }} }}, d_enc = 64, encoder_hidden = [64], count = 2, hidden = [64], outputs = 64 }}]\ncore = {{ kind = \"mlp\", hidden = [128, 128] }}\n{pod}"
        ),
        "deeponet" => format!(
            "encoders = [{{ kind = \"vector\", sensors = {sensors} }}]\ncore = {{ kind = \"mlp\", hidden = [128, 128] }}\n{pod}"
        ),
        _ => "encoders = [{ kind = \"grid\" }]\ncore = { kind = \"fno\", width = 12, modes = 6, layers = 3, hidden = 32 }\ndecoder = { kind = \"grid\" }\n".into(),
    }
}

fn error_falls(name: &str, problem: &str, layout: &str, train: &str) {
    let dir = folder();
    let dir = dir.path();
    let text = format!(
        "[data]\nproblem = \"{problem}\"\nlayout = \"{layout}\"\ntrain_samples = 1000\nval_samples = 16\n[model]\n{}[train]\nloss = \"relative-l2\"\nschedule = {{ kind = \"cosine\" }}\nbudget = \"100s\"\n{train}",
        model(name, problem)
    );
    std::fs::write(dir.join("r.toml"), text).unwrap();
    succeed(dir, "train r.toml --out run");
    let lines = std::fs::read_to_string(dir.join("run/metrics.jsonl")).unwrap();
    let errors: Vec<f64> = lines
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).unwrap()["val_error"].as_f64())
        .collect();
    let (first, last) = (errors[0], errors[errors.len() - 1]);
    println!("{name} on {problem}: {first:.4} to {last:.4}");
    assert!(
        last <= first / 5.0,
        "{name} on {problem}: {first} to {last}"
    );
}

const SUBSETS: &str = "batch = 20\nrate = 3e-3\nclip = 1.0\nvalidate_every = 100\nsensors = 256\nqueries = 256\nvalidation_queries = 500\n";
const QUERIES: &str =
    "batch = 40\nrate = 1e-3\nvalidate_every = 100\nqueries = 256\nvalidation_queries = 500\n";
const GRIDS: &str = "batch = 10\nrate = 3e-3\nvalidate_every = 20\n";

macro_rules! long {
    ($($test:ident: $name:literal, $problem:literal, $layout:literal, $train:expr;)*) => {$(
        #[test]
        #[ignore = "a minute or two each"]
        fn $test() {
            error_falls($name, $problem, $layout, $train);
        }
    )*};
}

long! {
    vidon_learns_darcy: "vidon", "darcy", "variable", SUBSETS;
    vidon_learns_allen_cahn: "vidon", "allen-cahn", "variable", SUBSETS;
    vidon_learns_navier_stokes: "vidon", "navier-stokes", "variable", QUERIES;
    deeponet_learns_darcy: "deeponet", "darcy", "irregular", QUERIES;
    deeponet_learns_allen_cahn: "deeponet", "allen-cahn", "irregular", QUERIES;
    deeponet_learns_navier_stokes: "deeponet", "navier-stokes", "irregular", QUERIES;
    fno_learns_darcy: "fno", "darcy", "regular", GRIDS;
    fno_learns_navier_stokes: "fno", "navier-stokes", "regular", GRIDS;
}
