//! What users of stations do around a network: baselines, many samples at once, errors by place.

use std::path::Path;

use serde_json::Value;

mod common;

use common::{fail, folder, succeed, vidon};

const RECIPE: &str = r#"
[data]
train = "train.parquet"
[model]
encoders = [{ kind = "projection", functions = 9, frame = { family = "cosine" } }]
core = { kind = "mlp", hidden = [16], skip = true }
decoder = { kind = "learned", p = 6, hidden = [16] }
[train]
batch = 10
steps = 60
rate = 5e-3
"#;

const IMPORT: &str = "import --sample day --field air=train_s.csv:lon,lat+elev:T --targets train_t.csv --target-coords lon,lat --target-covariates elev --target-values T --unit T=K --missing keep --out train.parquet";

/// Sensors and targets of some days at twelve stations with a height, whose ids begin with zeros; every third
/// station is asked, and every ninth reading is missing.
fn write_days(dir: &Path, name: &str, first: u64, days: u64) {
    let mut tables = [
        vec!["day,id,lon,lat,elev,T".to_string()],
        vec!["day,id,lon,lat,elev,T".to_string()],
    ];
    for day in first..first + days {
        for id in 0..24u64 {
            let place = |n: u64| ((id * 7919 + id * id * 31) % n) as f64 / n as f64;
            let (lon, lat, elev) = (
                6.0 + 4.0 * place(997),
                46.0 + 3.0 * place(991),
                3000.0 * place(89),
            );
            let phase = (day * 37 % 100) as f64 / 15.0;
            let warmth = 280.0 + (lon + phase).sin() - 0.006 * elev + (day % 7) as f64;
            let missing = id % 3 > 0 && (day * 5 + id) % 9 == 0;
            let value = if missing {
                String::new()
            } else {
                warmth.to_string()
            };
            let side = usize::from(id % 3 == 0);
            tables[side].push(format!("d{day},0{id},{lon},{lat},{elev},{value}"));
        }
    }
    for (side, lines) in ["s", "t"].iter().zip(tables) {
        std::fs::write(dir.join(format!("{name}_{side}.csv")), lines.join("\n")).unwrap();
    }
}

fn imported(dir: &Path) {
    write_days(dir, "train", 0, 40);
    write_days(dir, "test", 40, 10);
    succeed(dir, IMPORT);
    succeed(dir, &IMPORT.replace("train", "test"));
}

fn trained(dir: &Path) {
    imported(dir);
    std::fs::write(dir.join("r.toml"), RECIPE).unwrap();
    succeed(dir, "train r.toml -q");
}

fn read(dir: &Path, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(dir.join(name)).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_string).collect();
    text.lines().map(cells).collect()
}

#[test]
fn baselines_say_what_a_network_is_worth() {
    let dir = folder();
    let dir = dir.path();
    imported(dir);
    let told = vidon(dir, "baseline test.parquet");
    let (words, notes) = (
        String::from_utf8(told.stdout).unwrap(),
        String::from_utf8(told.stderr).unwrap(),
    );
    for part in [
        "T [K]",
        "RMSE",
        "inverse distance weighting",
        "ordinary kriging",
        "kriging, trend lon, lat, elev",
        " km, nugget",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(
        notes.contains("longitude and latitude") && notes.contains("--train"),
        "{notes}"
    );
    let json = succeed(
        dir,
        "baseline test.parquet --train train.parquet --samples 8 --json",
    );
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["samples"], 8);
    let rmse = |name: &str| {
        let mut all = found["baselines"].as_array().unwrap().iter();
        let own = all.find(|b| b["name"].as_str().unwrap().starts_with(name));
        own.unwrap()["columns"][0]["rmse"].as_f64().unwrap()
    };
    let (mean, trend) = (
        rmse("mean of the sample"),
        rmse("kriging, trend lon, lat, elev"),
    );
    assert!(
        10.0 * trend < mean && rmse("a + b·kriging") < 0.2 * mean,
        "{mean} {trend} {json}"
    );
    assert!(rmse("mean of the place in training") < mean);
    for (arguments, words) in [
        ("baseline none.parquet", "cannot read none.parquet"),
        (
            "baseline test_s.csv",
            "is not a Parquet file; `vidon import`",
        ),
        (
            "baseline test.parquet --train test.parquet",
            "give other samples",
        ),
        ("baseline test.parquet --samples 0", "0 is not in"),
    ] {
        let message = vidon(dir, arguments);
        let message = String::from_utf8(message.stderr).unwrap();
        assert!(message.contains(words), "{arguments}: {message}");
    }
    // Another quantity is not to be had without training.
    let melt = std::fs::read_to_string(dir.join("test_t.csv")).unwrap();
    std::fs::write(dir.join("melt_t.csv"), melt.replace("elev,T", "elev,melt")).unwrap();
    let other = IMPORT.replace("train_s", "test_s").replace("train", "melt");
    succeed(
        dir,
        &other.replace("--target-values T", "--target-values melt"),
    );
    let message = fail(dir, "baseline melt.parquet");
    assert!(
        message.contains("give some with --train FILE.parquet"),
        "{message}"
    );
    let message = fail(dir, "baseline melt.parquet --train train.parquet");
    assert!(message.contains("do not fit together"), "{message}");
}

#[test]
fn many_samples_are_answered_at_once() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    let predict = "predict runs/r --sensors test_s.csv --sample day";
    let message = fail(dir, &format!("{predict} --queries test_t.csv --out v.csv"));
    assert!(
        message.contains(
            "column T: is missing; fill it, or leave such lines out with --missing skip, or keep"
        ),
        "{message}"
    );
    let told = vidon(
        dir,
        &format!(
            "{predict} --missing skip --queries test_t.csv --out v.csv --plot p.png --plot-sample d43"
        ),
    );
    let notes = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{notes}");
    for part in [
        "lines of test_s.csv with a missing number left out",
        "the column T of test_t.csv is not carried along",
        "80 values of 10 samples",
        "sensors and prediction of sample d43",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let answers = read(dir, "v.csv");
    assert_eq!(answers[0], ["day", "lon", "lat", "elev", "id", "T"]);
    assert_eq!(
        (answers.len(), &answers[1][0][..], &answers[2][4][..]),
        (81, "d40", "03")
    );
    // The same from the dataset, whose queries are those places.
    succeed(dir, "predict runs/r --data test.parquet --out d.csv");
    let same = read(dir, "d.csv");
    assert_eq!(same[0], ["sample", "lon", "lat", "elev", "T"]);
    for (a, b) in answers.iter().zip(&same).skip(1) {
        assert_eq!((&a[0], &a[1], &a[5]), (&b[0], &b[1], &b[4]));
    }
    // One day alone has the same answer, and no column of names.
    let own: Vec<String> = read(dir, "test_s.csv")
        .into_iter()
        .filter(|c| ["day", "d43"].contains(&&c[0][..]))
        .map(|c| c.join(","))
        .collect();
    std::fs::write(dir.join("one.csv"), own.join("\n")).unwrap();
    std::fs::write(
        dir.join("places.csv"),
        "name,lon,lat,elev\nA,7,47,500\n\"B\",8,48,900\n",
    )
    .unwrap();
    let told = vidon(
        dir,
        "predict runs/r --sensors one.csv --missing skip --queries places.csv --out one_v.csv",
    );
    let notes = String::from_utf8(told.stderr).unwrap();
    assert!(notes.contains("2 values from"), "{notes}");
    let one = read(dir, "one_v.csv");
    assert_eq!(one[0], ["lon", "lat", "elev", "name", "T"]);
    // All days at the same places, as a Parquet table too.
    for out in ["all.csv", "all.parquet"] {
        succeed(
            dir,
            &format!("{predict} --missing skip --queries places.csv --out {out}"),
        );
    }
    let all = read(dir, "all.csv");
    let day: Vec<&Vec<String>> = all.iter().filter(|c| c[0] == "d43").collect();
    assert_eq!((all.len(), day.len()), (21, 2));
    assert_eq!((&day[1][1..], &day[0][5]), (&one[2][..], &one[1][4]));
    succeed(
        dir,
        "predict runs/r --data test.parquet --queries places.csv --plot q.svg --plot-sample d41",
    );
}

#[test]
fn many_samples_go_wrong_in_words() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    std::fs::write(dir.join("places.csv"), "name,lon,lat,elev\nA,7,47,500\n").unwrap();
    std::fs::write(
        dir.join("other.csv"),
        "day,lon,lat,elev\nd40,7,47,500\nd99,7,47,500\n",
    )
    .unwrap();
    std::fs::write(
        dir.join("unnamed.csv"),
        "day,lon,lat,elev\nd40,7,47,500\n,7,47,500\n",
    )
    .unwrap();
    std::fs::write(
        dir.join("gone.csv"),
        "day,lon,lat,elev\nd98,7,47,500\nd99,7,47,500\n",
    )
    .unwrap();
    let tables = "predict runs/r --sensors test_s.csv --sample day --missing skip";
    let data = "predict runs/r --data test.parquet";
    for (arguments, words) in [
        (
            format!("{tables} --queries places.csv --out v.npy"),
            "write .csv or .parquet, or ask on a --grid",
        ),
        (
            format!("{data} --out v.npy"),
            "write .csv or .parquet, or ask on a --grid",
        ),
        (
            format!("{tables} --grid 4x4 --out v.csv"),
            "trained with elev at its queries",
        ),
        (
            format!("{tables} --queries places.csv --out v.csv --plot p.png --plot-sample d9"),
            "there is no such sample; there are d40, d41",
        ),
        (
            format!("{data} --out v.csv --plot p.png --plot-sample d9"),
            "there is no sample \"d9\"; there are d40, d41",
        ),
        (
            format!("{data} --out v.csv --plot-sample d40"),
            "is drawn by --plot or --plot-heads",
        ),
        (
            format!("{tables} --queries other.csv --out v.csv").replace(" --missing skip", ""),
            "column T: is missing",
        ),
        (
            format!("{data} --sample day --queries other.csv --out v.csv"),
            "the sample \"d99\" is asked, but the dataset has none",
        ),
        (
            format!("{tables} --queries unnamed.csv --out v.csv"),
            "place 2 has no name of a sample",
        ),
        (
            format!("{tables} --queries gone.csv --out v.csv"),
            "no sample has both sensors and places",
        ),
        (
            format!("{tables} --queries places.csv --out v.csv")
                .replace("--sample day", "--sample date"),
            "column date: there is no such column",
        ),
        (
            format!("{tables} --queries places.csv --out test_s.csv"),
            "read and written at once",
        ),
        (
            format!("{data} --sensors test_s.csv --out v.csv"),
            "cannot be used with",
        ),
        (tables.to_string() + " --out v.csv", "required"),
    ] {
        let output = vidon(dir, &arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && message.contains(words),
            "{arguments}: {message}"
        );
        assert!(!dir.join("v.csv").exists() && !dir.join("v.npy").exists());
    }
    let told = vidon(dir, &format!("{tables} --queries other.csv --out v.csv"));
    let notes = String::from_utf8(told.stderr).unwrap();
    assert!(
        notes.contains("1 sample asked, but without sensors")
            && notes.contains("9 samples without places"),
        "{notes}"
    );
}

/// A grid of every sample is one array, or one table.
#[test]
fn grids_of_many_samples_are_an_array() {
    let dir = folder();
    let dir = dir.path();
    write_days(dir, "train", 0, 12);
    let plain = IMPORT
        .replace("+elev", "")
        .replace(" --target-covariates elev", "");
    succeed(dir, &plain);
    std::fs::write(dir.join("r.toml"), RECIPE).unwrap();
    succeed(dir, "train r.toml -q --steps 5");
    let predict = "predict runs/r --sensors train_s.csv --sample day --missing skip --grid 4x3";
    succeed(dir, &format!("{predict} --out v.npy"));
    let bytes = std::fs::read(dir.join("v.npy")).unwrap();
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    assert!(header.contains("'shape': (12, 4, 3,)"), "{header}");
    succeed(dir, &format!("{predict} --out v.csv"));
    let table = read(dir, "v.csv");
    assert_eq!(
        (&table[0][..], table.len()),
        (&["day", "lon", "lat", "T"].map(String::from)[..], 145)
    );
    let last = f32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap());
    assert_eq!(table[144][3], last.to_string());
    succeed(
        dir,
        "predict runs/r --data train.parquet --grid 4x3 --out d.npy",
    );
    assert_eq!(std::fs::read(dir.join("d.npy")).unwrap().len(), bytes.len());
}

#[test]
fn errors_are_told_by_sample_and_by_place() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    let eval = "eval runs/r --data test.parquet";
    let told = vidon(
        dir,
        &format!(
            "{eval} --table samples.csv --places places.csv --map map.png --plot e.png --sample d47"
        ),
    );
    let (words, notes) = (
        String::from_utf8(told.stdout).unwrap(),
        String::from_utf8(told.stderr).unwrap(),
    );
    assert!(told.status.success(), "{notes}");
    assert!(words.contains("the worst is sample d4"), "{words}");
    assert!(
        notes.contains("map.png: 8 places") && notes.contains("e.png: sample d47"),
        "{notes}"
    );
    let samples = read(dir, "samples.csv");
    assert_eq!(
        samples[0],
        [
            "sample",
            "relative_l2",
            "T_targets",
            "T_rmse",
            "T_mae",
            "T_bias"
        ]
    );
    assert_eq!(
        (samples.len(), &samples[1][0][..], &samples[1][2][..]),
        (11, "d40", "8")
    );
    let places = read(dir, "places.csv");
    assert_eq!(
        places[0],
        [
            "lon",
            "lat",
            "elev",
            "T_targets",
            "T_rmse",
            "T_mae",
            "T_bias"
        ]
    );
    let number = |cell: &String| cell.parse::<f64>().unwrap();
    assert!(
        places.len() == 9 && places[1][3] == "10" && number(&places[1][4]) >= number(&places[2][4])
    );
    // Both are the same errors.
    let mean = |table: &[Vec<String>], column: usize| {
        let rows = &table[1..];
        rows.iter().map(|r| number(&r[column]).powi(2)).sum::<f64>() / rows.len() as f64
    };
    assert!((mean(&samples, 3) / mean(&places, 4) - 1.0).abs() < 1e-9);
    let json = succeed(dir, &format!("{eval} --json --places places.parquet"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["places"].as_array().unwrap().len(), 8);
    assert_eq!(json["place_columns"][2], "elev");
    assert_eq!(json["columns_of_samples"][0][0]["targets"], 8);
    assert!(json["worst"].as_str().unwrap().starts_with("d4"));
    for (options, words) in [
        ("--table t.txt", "tables are written as .csv or .parquet"),
        ("--map m.jpg", ".png or .svg"),
        (
            "--table t.csv --places t.csv",
            "is to be written by --table and by --places",
        ),
        (
            "--plot e.png --sample d99",
            "there is no sample \"d99\"; there are d40",
        ),
        ("--sample d41", "give --plot or --plot-heads"),
    ] {
        let message = fail(dir, &format!("{eval} {options}"));
        assert!(message.contains(words), "{options}: {message}");
    }
}

/// What is wrong is said before a recipe is chosen, which takes a while.
#[test]
fn a_recipe_is_not_chosen_in_vain() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    for (arguments, words) in [
        ("--out runs/r", "already holds a training"),
        ("--set train.rte=1", "unknown field `rte`"),
        ("--set train.steps=5 --steps 6", "is void beside --steps"),
        ("--from runs/r", "cannot be used with"),
    ] {
        let found = fail(dir, &format!("train --data train.parquet {arguments}"));
        assert!(found.contains(words), "{arguments}: {found}");
        assert!(!found.contains("data: "), "{arguments}: {found}");
    }
}
