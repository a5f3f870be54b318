//! Covariates in networks of least squares and fixed functions: from import to prediction.

use std::path::Path;

use serde_json::Value;

mod common;

use common::{fail, folder, succeed, vidon};

const RECIPE: &str = r#"
[data]
train = "train.parquet"
[model]
encoders = [{ kind = "projection", functions = 6, frame = { family = "cosine" } }]
core = { kind = "mlp", hidden = [16] }
decoder = { kind = "basis", functions = 6, frame = { family = "cosine" } }
start = { kind = "linear" }
[train]
batch = 10
steps = 20
"#;

const IMPORT: &str = "import --sample day --field air=train_s.csv:lon,lat+elev:T --targets train_t.csv --target-coords lon,lat --target-covariates elev --target-values T --out train.parquet";

/// Days at places that are new on each, with a height that is rough and counts, on every day to another degree.
fn write_days(dir: &Path, name: &str, first: u64, days: u64) {
    let header = || vec!["day,lon,lat,elev,T".to_string()];
    let mut tables = [header(), header()];
    for day in first..first + days {
        for i in 0..40u64 {
            let n = day * 40 + i;
            let share = |prime: f64| (n as f64 * prime).fract();
            let (lon, lat) = (6.0 + 4.0 * share(0.618_034), 46.0 + 3.0 * share(0.754_878));
            let elev = 3000.0 * share(0.569_84);
            let phase = (day * 37 % 100) as f64 / 15.0;
            let lapse = 0.006 + 0.002 * phase.sin();
            let warmth = 20.0 + (0.5 * lon + phase).sin() - lapse * elev;
            tables[usize::from(i % 4 == 0)].push(format!("d{day},{lon},{lat},{elev},{warmth}"));
        }
    }
    for (side, lines) in ["s", "t"].iter().zip(tables) {
        std::fs::write(dir.join(format!("{name}_{side}.csv")), lines.join("\n")).unwrap();
    }
}

fn imported(dir: &Path) {
    write_days(dir, "train", 0, 60);
    write_days(dir, "test", 60, 10);
    succeed(dir, IMPORT);
    succeed(dir, &IMPORT.replace("train", "test"));
    std::fs::write(dir.join("r.toml"), RECIPE).unwrap();
}

fn rmse(dir: &Path, run: &str) -> f64 {
    let json = succeed(dir, &format!("eval {run} --data test.parquet --json"));
    let found: Value = serde_json::from_str(&json).unwrap();
    found["columns"][0]["rmse"].as_f64().unwrap()
}

const FNO: &str =
    "core = { kind = \"fno\", grid = 8, width = 4, modes = 2, layers = 1, hidden = 8 }";

#[test]
fn what_is_known_of_a_place_is_worth_having() {
    let dir = folder();
    let dir = dir.path();
    imported(dir);
    let told = vidon(dir, "train r.toml --out high");
    let notes = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{notes}");
    assert!(notes.contains("of their spread (with elev"), "{notes}");
    assert!(!notes.contains("not looked at"), "{notes}");
    assert!(
        notes.contains("coefficients = false: the decoder has functions of the covariates"),
        "{notes}"
    );
    let fno = RECIPE.replace("core = { kind = \"mlp\", hidden = [16] }", FNO);
    std::fs::write(dir.join("fno.toml"), fno).unwrap();
    succeed(dir, "train fno.toml --out fno -q");
    for name in ["train", "test"] {
        let plain = IMPORT.replace("+elev", "").replace("train", name);
        let plain = plain.replace(" --target-covariates elev", "");
        let out = format!("--out {name}.parquet");
        succeed(
            dir,
            &plain.replace(&out, &format!("--out plain_{name}.parquet")),
        );
    }
    succeed(
        dir,
        "train r.toml --set data.train=plain_train.parquet --out flat -q",
    );
    let json = succeed(dir, "eval flat --data plain_test.parquet --json");
    let flat: Value = serde_json::from_str(&json).unwrap();
    let flat = flat["columns"][0]["rmse"].as_f64().unwrap();
    let (high, fno) = (rmse(dir, "high"), rmse(dir, "fno"));
    assert!(flat > 4.0 && high < 0.5 && fno < 0.5, "{flat} {high} {fno}");
    // The same answer by table and by dataset.
    succeed(dir, "predict high --data test.parquet --out d.csv");
    succeed(
        dir,
        "predict high --sensors test_s.csv --sample day --queries test_t.csv --out t.csv",
    );
    let last = |name: &str, column: usize| -> Vec<String> {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        let cell = |line: &str| line.split(',').nth(column).unwrap().to_string();
        let mut cells: Vec<String> = text.lines().skip(1).map(cell).collect();
        cells.sort();
        cells
    };
    let (d, t) = (last("d.csv", 4), last("t.csv", 4));
    assert_eq!((d.len(), &d), (100, &t));
}

#[test]
fn what_covariates_do_not_go_with_is_refused() {
    let dir = folder();
    let dir = dir.path();
    imported(dir);
    let flipped = fail(dir, "train r.toml --set train.symmetries.flips=true");
    assert!(
        flipped.contains("train.symmetries")
            && flipped.contains("fits the covariates of air (elev")
            && flipped.contains("symmetries = {}"),
        "{flipped}"
    );
    let compared = fail(dir, "train r.toml --set train.coefficients=true");
    assert!(
        compared.contains("train.coefficients")
            && compared.contains("the queries have covariates (elev"),
        "{compared}"
    );
    succeed(dir, "train r.toml --steps 1 --out r -q");
    // Without the column, of sensors and of places.
    let strip = |from: &str, to: &str, at: usize| {
        let text = std::fs::read_to_string(dir.join(from)).unwrap();
        let line = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            [&cells[..at], &cells[at + 1..]].concat().join(",")
        };
        let lines: Vec<String> = text.lines().map(line).collect();
        std::fs::write(dir.join(to), lines.join("\n")).unwrap();
    };
    strip("test_s.csv", "flat_s.csv", 3);
    strip("test_t.csv", "flat_t.csv", 3);
    let predict = |sensors: &str, queries: &str| {
        format!("predict r --sensors {sensors} --sample day --queries {queries} --out v.csv")
    };
    for (sensors, queries, file) in [
        ("flat_s.csv", "test_t.csv", "flat_s.csv"),
        ("test_s.csv", "flat_t.csv", "flat_t.csv"),
    ] {
        let words = fail(dir, &predict(sensors, queries));
        assert!(words.contains(file) && words.contains("elev"), "{words}");
    }
    let grid = fail(
        dir,
        "predict r --sensors test_s.csv --sample day --grid 5x5 --out v.csv",
    );
    assert!(grid.contains("elev"), "{grid}");
    let plain = IMPORT.replace("+elev", "").replace("train", "test");
    let plain = plain.replace(" --target-covariates elev", "");
    succeed(dir, &plain.replace("--out test", "--out plain"));
    let words = fail(dir, "eval r --data plain.parquet");
    assert!(words.contains("elev"), "{words}");
    // A cell without a number.
    for (name, line) in [("s", 4), ("t", 3)] {
        let text = std::fs::read_to_string(dir.join(format!("test_{name}.csv"))).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let mut cells: Vec<&str> = lines[line].split(',').collect();
        cells[3] = "";
        lines[line] = cells.join(",");
        std::fs::write(dir.join(format!("gap_{name}.csv")), lines.join("\n")).unwrap();
    }
    for (sensors, queries, file, line) in [
        ("gap_s.csv", "test_t.csv", "gap_s.csv", "line 5"),
        ("test_s.csv", "gap_t.csv", "gap_t.csv", "line 4"),
    ] {
        let words = fail(dir, &predict(sensors, queries));
        for part in [file, line, "elev", "--missing"] {
            assert!(words.contains(part), "{part}: {words}");
        }
        let told = vidon(
            dir,
            &format!("{} --missing skip", predict(sensors, queries)),
        );
        let notes = String::from_utf8(told.stderr).unwrap();
        assert!(told.status.success(), "{notes}");
        assert!(
            notes.contains("1 line") && notes.contains("with a missing number left out"),
            "{notes}"
        );
    }
    let answers = std::fs::read_to_string(dir.join("v.csv")).unwrap();
    assert_eq!(answers.lines().count(), 100);
}
