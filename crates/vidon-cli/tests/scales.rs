//! The units that a network works in, what chooses its weights, and time: as a user has them, and what is said where
//! something is wrong.

use std::path::Path;

use serde_json::Value;

mod common;

use common::{fail, folder, names, succeed, vidon};

const RECIPE: &str = r#"
[data]
train = "d.parquet"
[model]
encoders = [{ kind = "projection", functions = 9, frame = { family = "cosine" } }]
core = { kind = "mlp", hidden = [16], skip = true }
decoder = { kind = "basis", functions = 6, frame = { family = "cosine" } }
[train]
batch = 10
steps = 60
rate = 1e-2
"#;

fn pick(i: u64) -> f64 {
    (i * 7919 % 9973) as f64 / 9973.0
}

/// Sixty samples of a field over orders of magnitude (`dust`), its square, and something of both signs.
fn write_dust(dir: &Path) {
    let mut lines = vec!["run,x,y,dust,more,drift".to_string()];
    for run in 0..60 {
        for i in 0..25 {
            let (x, y) = (pick(97 * run + 2 * i), pick(89 * run + 2 * i + 1));
            let level = 2.0 * pick(31 * run + 7) - 1.0;
            let noise = pick(run * 25 + i) - 0.5;
            let dust = (2.0 * level + 2.0 * x - y + noise).exp();
            lines.push(format!("r{run},{x},{y},{dust},{},{}", dust * dust, x - 0.5));
        }
    }
    std::fs::write(dir.join("t.csv"), lines.join("\n")).unwrap();
    let (import, recipe) = (
        "import t.csv --sample run --coords x,y --values dust",
        dir.join("r.toml"),
    );
    succeed(
        dir,
        &format!("{import} --target-values dust --unit dust=ug --out d.parquet"),
    );
    std::fs::write(recipe, RECIPE).unwrap();
}

fn found(dir: &Path, run: &str, data: &str) -> Value {
    let found = succeed(dir, &format!("eval {run} --data {data} --json"));
    serde_json::from_str(&found).unwrap()
}

#[test]
fn transforms_go_through_training_files_and_answers() {
    let dir = folder();
    let dir = dir.path();
    write_dust(dir);
    let told = vidon(
        dir,
        "train r.toml --out runs/l --set train.transforms={dust=\"log\"} --set train.metric=rmse",
    );
    let words = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{words}");
    for part in [
        "coefficients = true: ",
        "validation RMSE ",
        " ug, best ",
        " ug (RMSE) at step",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("% (RMSE)"), "{words}");
    // The spread is kept with the weights: answers are means, and on average as large as the targets.
    let shown: Value = serde_json::from_str(&succeed(dir, "inspect runs/l --json")).unwrap();
    assert!(
        shown
            .to_string()
            .contains("\"transforms\":{\"dust\":\"log\"}"),
        "{shown}"
    );
    let column = found(dir, "runs/l", "d.parquet")["columns"][0].clone();
    let [rmse, bias] = ["rmse", "bias"].map(|key| column[key].as_f64().unwrap());
    assert!(bias.abs() < 0.2 * rmse, "{column}");
    let best: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("runs/l/best.json")).unwrap())
            .unwrap();
    assert_eq!(best["metric"], "rmse");
    let lines = std::fs::read_to_string(dir.join("runs/l/metrics.jsonl")).unwrap();
    assert!(lines.lines().all(|l| l.contains("\"metric\":\"rmse\"")));
    // The unit of an answer is the user's, and never below 0.
    std::fs::write(
        dir.join("s.csv"),
        "x,y,dust\n0.1,0.2,0.5\n0.8,0.3,3\n0.4,0.9,0.4\n",
    )
    .unwrap();
    succeed(dir, "predict runs/l --sensors s.csv --grid 5x5 --out v.csv");
    let answers = std::fs::read_to_string(dir.join("v.csv")).unwrap();
    let last = |line: &str| line.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    assert!(
        answers
            .lines()
            .skip(1)
            .map(last)
            .all(|v| v > 0.0 && v < 100.0)
    );
    std::fs::write(dir.join("s.csv"), "x,y,dust\n0.1,0.2,0.5\n0.8,0.3,0\n").unwrap();
    let message = fail(dir, "predict runs/l --sensors s.csv --grid 5x5 --out v.csv");
    let wanted = "sample 0: a reading of dust is 0, and log takes numbers above 0; log1p takes numbers above -1";
    assert!(message.contains(wanted), "{message}");
    // Stopped and resumed it is the same training, spread and metric included.
    let parts = "--set train.transforms={dust=\"log\"} --set train.metric=rmse --set train.ema=0.9";
    succeed(dir, &format!("train r.toml -q --out runs/whole {parts}"));
    succeed(
        dir,
        &format!("train r.toml -q --out runs/parts {parts} --steps 25"),
    );
    succeed(dir, "train -q --resume runs/parts --steps 60");
    let read = |run: &str| std::fs::read(dir.join(run).join("last.safetensors")).unwrap();
    assert!(read("runs/whole") == read("runs/parts"));
    let recipe = dir.join("runs/parts/recipe.toml");
    let text = std::fs::read_to_string(&recipe).unwrap();
    std::fs::write(&recipe, text.replace("\"rmse\"", "\"mae\"")).unwrap();
    let message = fail(dir, "train --resume runs/parts --steps 70");
    assert!(
        message.contains("transforms, scaling, metric or seed"),
        "{message}"
    );
}

#[test]
fn wrong_scales_get_a_clear_message() {
    let dir = folder();
    let dir = dir.path();
    write_dust(dir);
    succeed(
        dir,
        "import t.csv --sample run --coords x,y --values dust,drift --target-values more --out d.parquet",
    );
    for (settings, words) in [
        (
            "train.transforms={rain=\"log\"}",
            "there is no column rain; there are dust, drift, more",
        ),
        ("train.transforms={dust=\"cube\"}", "unknown variant `cube`"),
        (
            "train.transforms={drift=\"sqrt\"}",
            "training sample 0: a reading of drift is -",
        ),
        ("train.log_values=true", "unknown field `log_values`"),
        ("train.scaling=tight", "unknown variant `tight`"),
        ("train.metric=r2", "unknown variant `r2`"),
        (
            "train.transforms={more=\"log\"} --set model.decoder.frame.family=sine",
            "log1p, sqrt and asinh keep 0",
        ),
        (
            "train.transforms={dust=\"log\"} --set train.symmetries={flips=true,odd=true}",
            "asinh alone keeps",
        ),
    ] {
        let message = fail(dir, &format!("train r.toml --out runs/x --set {settings}"));
        assert!(message.contains(words), "{settings}: {message}");
        assert!(!dir.join("runs/x").exists());
    }
}

/// One absurd reading ruins the one scaling, and not the other; the number of targets says how targets are compared.
#[test]
fn robust_scaling_and_coefficients_are_chosen_for_the_data() {
    let dir = folder();
    let dir = dir.path();
    write_dust(dir);
    let text = std::fs::read_to_string(dir.join("t.csv")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let cells: Vec<&str> = text.lines().nth(7).unwrap().split(',').collect();
    lines[7] = format!(
        "{},{},{},9e8,{},{}",
        cells[0], cells[1], cells[2], cells[4], cells[5]
    );
    std::fs::write(dir.join("t.csv"), lines.join("\n")).unwrap();
    let import = "import t.csv --sample run --coords x,y --values dust";
    succeed(
        dir,
        &format!("{import} --target-values drift --out d.parquet"),
    );
    let words = |settings: &str| {
        let told = vidon(dir, &format!("train r.toml {settings}"));
        let words = String::from_utf8(told.stderr).unwrap();
        assert!(told.status.success(), "{words}");
        words
    };
    words("--set train.scaling=robust --out runs/robust");
    std::fs::write(
        dir.join("s.csv"),
        "x,y,dust\n0.1,0.2,1000\n0.8,0.3,3\n0.4,0.9,0.4\n",
    )
    .unwrap();
    let doubts = |run: &str| {
        let told = vidon(
            dir,
            &format!("predict {run} --sensors s.csv --grid 3x3 --out v.csv"),
        );
        String::from_utf8(told.stderr).unwrap()
    };
    assert!(doubts("runs/robust").contains("1 of 3 readings are far"));
    words("--out runs/extremes");
    assert!(!doubts("runs/extremes").contains("are far"));
    // Few targets do for functions that they follow, and not for noise.
    let smooth = words("--set model.decoder.functions=20 --out runs/smooth");
    let known = "a sample has 25 known targets or more, and the decoder 20 functions";
    let close = format!("coefficients = true: {known}; fits miss targets that they do not see by");
    assert!(smooth.contains(&close), "{smooth}");
    let header = lines[0].split(',').position(|c| c == "drift").unwrap();
    for (i, line) in lines.iter_mut().enumerate().skip(1) {
        let mut cells: Vec<String> = line.split(',').map(String::from).collect();
        cells[header] = format!("{}", (i * 7919 % 1009) as f64 / 1009.0);
        *line = cells.join(",");
    }
    std::fs::write(dir.join("t.csv"), lines.join("\n")).unwrap();
    succeed(
        dir,
        &format!("{import} --target-values drift --out noise.parquet"),
    );
    let noise = "--set data.train=noise.parquet --set model.decoder.functions=20 --out runs/noise";
    let noise = words(noise);
    let far = format!("coefficients = false: {known}; 2 targets for each are wanted");
    assert!(noise.contains(&far), "{noise}");
    let some = words("--set train.queries=9 --out runs/some");
    assert!(
        some.contains("coefficients = false: the recipe asks for some"),
        "{some}"
    );
    let said = words("--set train.coefficients=false --out runs/said");
    assert!(!said.contains("coefficients ="), "{said}");
}

const IMPORT: &str = "import --sample day --field air=air.csv:x,y:pm10 --targets later.csv --target-coords x,y --target-values pm10 --out d.parquet";

/// Forty days but one; what tomorrow brings is what was here yesterday, with a season.
fn write_days(dir: &Path) {
    let mut tables = [("air", "day,x,y,pm10"), ("later", "day,when,x,y,pm10")]
        .map(|(name, header)| (name, vec![header.to_string()]));
    for day in (0..40u64).filter(|day| *day != 17) {
        let date = format!("2003-{:02}-{:02}", 1 + day / 28, 1 + day % 28);
        let [air, later] = &mut tables;
        for i in 0..6 + day % 3 {
            let (x, y) = (pick(3 * i + 40 * day), pick(7 * i + 11 * day));
            air.1.push(format!("{date},{x},{y},{}", 10.0 + day as f64));
        }
        for i in 0..5 {
            let (x, y) = (pick(5 * i + 40 * day), pick(9 * i + 13 * day));
            later
                .1
                .push(format!("{date},{date}T06:00,{x},{y},{}", 9.0 + day as f64));
        }
    }
    for (name, lines) in tables {
        std::fs::write(dir.join(format!("{name}.csv")), lines.join("\n")).unwrap();
    }
}

#[test]
fn dates_become_seasons_earlier_readings_and_files() {
    let dir = folder();
    let dir = dir.path();
    write_days(dir);
    let options = "--season --hour --date when --earlier 2 --split 0.8,0.1,0.1";
    let told = vidon(dir, &format!("{IMPORT} {options}"));
    let words = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{words}");
    // The first day, and the one after the gap; the month of 28 days is February in all but name.
    assert!(
        words.contains("one step is 1 day; 3 of 39 samples have none right before them"),
        "{words}"
    );
    let printed = String::from_utf8(told.stdout).unwrap();
    for line in [
        "d_train.parquet: 31 samples, 2003-01-01 to 2003-02-04",
        "d_val.parquet: 4 samples, 2003-02-05 to 2003-02-08",
        "d_test.parquet: 4 samples, 2003-02-09 to 2003-02-12",
        "season_sin",
        "hour_cos",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let files = names(dir);
    assert!(!files.contains(&"d.parquet".to_string()), "{files:?}");
    let recipe = RECIPE.replace(
        r#"{ kind = "projection", functions = 9, frame = { family = "cosine" } }"#,
        r#"{ kind = "projection", group = "air", functions = 4 }, { kind = "projection", group = "air_1", functions = 4 }, { kind = "projection", group = "air_2", functions = 4 }, { kind = "scalars" }"#,
    );
    let recipe = recipe.replace(
        "\"d.parquet\"",
        "\"d_train.parquet\"\nval = \"d_val.parquet\"",
    );
    std::fs::write(
        dir.join("r.toml"),
        recipe.replace("functions = 6", "functions = 2"),
    )
    .unwrap();
    succeed(dir, "train r.toml -q --out runs/d");
    assert!(
        found(dir, "runs/d", "d_test.parquet")["relative_l2"]["mean"]
            .as_f64()
            .unwrap()
            < 0.5
    );

    std::fs::write(
        dir.join("s.csv"),
        "x,y,pm10\n0.1,0.2,30\n0.8,0.3,31\n0.5,0.9,32\n",
    )
    .unwrap();
    let groups = "--group air=s.csv --group air_1=s.csv --group air_2=s.csv --grid 3x3 --out v.csv";
    let answer = |options: &str| {
        succeed(dir, &format!("predict runs/d {groups} {options}"));
        std::fs::read_to_string(dir.join("v.csv")).unwrap()
    };
    let morning = answer("--date 2003-02-10T06:00");
    assert_ne!(answer("--date 2003-08-10T06:00"), morning);
    let columns = "--scalar season_sin=0.638749 --scalar season_cos=0.769415 --scalar hour_sin=1 --scalar hour_cos=0";
    let by_hand = answer(columns);
    let numbers = |text: &str| -> Vec<f64> {
        let lines = text.lines().skip(1);
        lines
            .map(|l| l.rsplit(',').next().unwrap().parse().unwrap())
            .collect()
    };
    for (a, b) in numbers(&by_hand).iter().zip(numbers(&morning)) {
        assert!((a - b).abs() < 0.02 * b.abs().max(1.0), "{a} {b}");
    }
    for (options, words) in [
        (
            "",
            "--date is needed: the network knows the season or the hour",
        ),
        (
            "--date 2003-02-10",
            "date = 2003-02-10: names no hour of the day",
        ),
        (
            "--date spring",
            "date = spring: is no date; dates are written",
        ),
        (
            "--date 2003-02-10T06:00 --scalar hour_sin=0",
            "come from --date, or from",
        ),
    ] {
        let message = fail(dir, &format!("predict runs/d {groups} {options}"));
        assert!(message.contains(words), "{options}: {message}");
    }
}

#[test]
fn wrong_times_get_a_clear_message() {
    let dir = folder();
    let dir = dir.path();
    write_days(dir);
    for (options, words) in [
        ("--hour", "names no hour of the day, as in 1987-03-15T06:00"),
        ("--date day", "is given, but nothing is asked of it"),
        (
            "--date x --season",
            "later.csv, line 2, column x: \"0\" is no date; dates are written",
        ),
        ("--split 0.9", "to two files (train, val) or to three"),
        (
            "--split 0.999,0.001",
            "d_val.parquet: no sample is left for this file",
        ),
        ("--split 1,x", "invalid value 'x'"),
        ("--split 0.5,0.5 --until 2003-02", "cannot be used with"),
        (
            "--until 2004-01-01",
            "d_val.parquet: no sample is left for this file",
        ),
        ("--until May", "until = May: is no date"),
        ("--until 2003-02 --until 2003-01", "in the order of time"),
        ("--earlier 99", "at most 64 samples before"),
        (
            "--earlier 1 --field air_1=air.csv:x,y:pm10",
            "has two groups air_1",
        ),
        ("--season --scalars date=later.csv:x", "has two groups date"),
    ] {
        let message = fail(dir, &format!("{IMPORT} {options}"));
        assert!(message.contains(words), "{options}: {message}");
    }
    let text = std::fs::read_to_string(dir.join("later.csv")).unwrap();
    std::fs::write(dir.join("later.csv"), text.replacen("T06:00", "T09:00", 1)).unwrap();
    let message = fail(dir, &format!("{IMPORT} --date when --season"));
    assert!(
        message.contains("line 3, column when: the sample \"2003-01-01\" has"),
        "{message}"
    );
    let text = text.replacen("2003-01-01,", "first,", 5);
    std::fs::write(
        dir.join("later.csv"),
        text.replace("2003-01-02T", "2003-01-03T"),
    )
    .unwrap();
    let air = std::fs::read_to_string(dir.join("air.csv")).unwrap();
    std::fs::write(dir.join("air.csv"), air.replace("2003-01-01,", "first,")).unwrap();
    let message = fail(dir, &format!("{IMPORT} --season"));
    assert!(
        message.contains("the sample \"first\" is not called by a date"),
        "{message}"
    );
    let message = fail(dir, &format!("{IMPORT} --date when --earlier 1"));
    assert!(
        message.contains("\"2003-01-02\" and \"2003-01-03\" have one date"),
        "{message}"
    );
    std::fs::write(dir.join("a.npz"), "PK").unwrap();
    let message = fail(dir, "import a.npz --season --out d.parquet");
    assert!(message.contains("--season belongs to tables"), "{message}");
    assert!(names(dir).iter().all(|name| !name.ends_with(".parquet")));
}
