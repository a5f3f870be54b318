//! Samples of several groups, as a user has them: from tables to answers, and what is said where something is wrong.

use std::path::Path;

use serde_json::Value;

mod common;

use common::{fail, folder, succeed, vidon};

const RECIPE: &str = r#"
[data]
train = "soot.parquet"
[model]
encoders = [
    { kind = "projection", group = "air", functions = 16, frame = { family = "cosine" } },
    { kind = "projection", group = "rain", functions = 9, frame = { family = "cosine" } },
    { kind = "moments", group = "chimneys", functions = 16, frame = { family = "cosine" } },
    { kind = "scalars", group = "day" },
]
core = { kind = "fno", grid = 10, modes = 3, width = 8, layers = 2, hidden = 16 }
decoder = { kind = "basis", functions = 9, frame = { family = "cosine" } }
[train]
batch = 10
steps = 40
rate = 5e-3
loss = "relative-l2"
"#;

const IMPORT: &str = "import --sample day --field air=air.csv:x,y+height:T,wind --field rain=rain.csv:x,y:mm --points chimneys=chimneys.csv:x,y:kg --scalars day=days.csv:pressure,sun --targets soot.csv --target-coords x,y --target-values soot --missing keep --out soot.parquet";

const PREDICT: &str = "predict runs/r --group rain=rain3.csv --group chimneys=chimneys3.csv --grid 7x5 --missing keep --out v.csv";

/// Thirty days: air stations with their height, a third of which reports no wind; rain gauges; none to three
/// chimneys; pressure, and on most days sun. A table of each, and those of one day without its name.
fn write_tables(dir: &Path) {
    let mut tables = [
        ("air", vec!["day,x,y,height,T,wind".to_string()]),
        ("rain", vec!["day,x,y,mm".to_string()]),
        ("chimneys", vec!["day,x,y,kg".to_string()]),
        ("days", vec!["day,pressure,sun".to_string()]),
        ("soot", vec!["day,x,y,soot".to_string()]),
    ];
    for day in 0..30u64 {
        let pick = |i: u64, n: u64| ((day * 7919 + i * 104_729 + i * i * 31) % n) as f64 / n as f64;
        let [air, rain, chimneys, days, soot] = &mut tables;
        for i in 0..12 + day % 3 {
            let (x, y, height) = (pick(2 * i, 997), pick(2 * i + 1, 991), pick(i, 50));
            let warmth = (3.0 * x).cos() + 0.1 * day as f64;
            let wind = match i % 3 {
                0 => String::new(),
                _ => (2.0 * y).sin().to_string(),
            };
            air.1
                .push(format!("d{day},{x},{y},{height},{warmth},{wind}"));
        }
        for i in 0..8 {
            let (x, y, mm) = (pick(3 * i, 983), pick(3 * i + 1, 977), pick(i, 13));
            rain.1.push(format!("d{day},{x},{y},{mm}"));
        }
        for i in 0..day % 4 {
            let (x, y, kg) = (pick(5 * i, 971), pick(5 * i + 2, 967), 1.0 + pick(i, 7));
            chimneys.1.push(format!("d{day},{x},{y},{kg}"));
        }
        let sun = match day % 5 {
            0 => String::new(),
            _ => (day as f64 / 30.0).to_string(),
        };
        days.1.push(format!("d{day},{},{sun}", 1000 + day));
        for i in 0..10 {
            let (x, y) = (pick(4 * i, 953), pick(4 * i + 3, 947));
            let value = (3.0 * x).cos() * (1.0 + 0.1 * day as f64);
            soot.1.push(format!("d{day},{x},{y},{value}"));
        }
    }
    for (name, lines) in tables {
        std::fs::write(dir.join(format!("{name}.csv")), lines.join("\n")).unwrap();
        let own = lines.iter().filter_map(|line| line.strip_prefix("d3,"));
        let header = lines[0].strip_prefix("day,").unwrap();
        let own: Vec<&str> = [header].into_iter().chain(own).collect();
        std::fs::write(dir.join(format!("{name}3.csv")), own.join("\n")).unwrap();
    }
}

fn trained(dir: &Path) {
    write_tables(dir);
    std::fs::write(dir.join("r.toml"), RECIPE).unwrap();
    succeed(dir, IMPORT);
    succeed(dir, "train r.toml -q");
}

#[test]
fn several_tables_become_answers() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    let words = succeed(dir, "inspect soot.parquet");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "air readings of a function",
        "chimneys points whose strengths add up",
        "day parameters of the sample",
        "height (covariate)",
        "some missing: T, wind",
        "0 / 1 / 3 per sample",
        "140",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let shown: Value = serde_json::from_str(&succeed(dir, "inspect soot.parquet --json")).unwrap();
    let kinds = shown["meta"]["groups"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|g| g["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["field", "field", "points", "scalars"]);
    succeed(dir, "plot soot.parquet --sample d3 --out p.png");
    let found = succeed(
        dir,
        "eval runs/r --data soot.parquet --json --plot e.png --sample 4",
    );
    let found: Value = serde_json::from_str(&found).unwrap();
    let mean = found["relative_l2"]["mean"].as_f64().unwrap();
    assert!(mean < 0.6, "{mean}");

    let answer = |options: &str| {
        let told = vidon(dir, &format!("{PREDICT} {options}"));
        let words = String::from_utf8(told.stderr).unwrap();
        assert!(told.status.success(), "{words}");
        (std::fs::read_to_string(dir.join("v.csv")).unwrap(), words)
    };
    let (whole, words) = answer("--group air=air3.csv --group day=days3.csv --plot v.png");
    assert!(
        words.contains("12 sensors of air, 8 sensors of rain, 3 points of chimneys, day"),
        "{words}"
    );
    // Parameters one by one, and sensors in another order.
    let lines = std::fs::read_to_string(dir.join("air3.csv")).unwrap();
    let (header, stations) = lines.split_once('\n').unwrap();
    let backwards: Vec<&str> = stations.lines().rev().collect();
    let backwards = format!("{header}\n{}", backwards.join("\n"));
    std::fs::write(dir.join("back.csv"), backwards).unwrap();
    let (again, _) = answer("--group air=back.csv --scalar sun=0.1 --scalar pressure=1003");
    let numbers = |text: &str| -> Vec<f64> {
        let cells = text.lines().skip(1).flat_map(|line| line.split(','));
        cells.map(|cell| cell.parse().unwrap()).collect()
    };
    let pairs = numbers(&whole).into_iter().zip(numbers(&again));
    assert!(pairs.clone().count() == 105);
    for (a, b) in pairs {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
    // A parameter that is missing, a group that never had gaps and has one, a column that nobody reports.
    let (without, words) = answer("--group air=air3.csv --scalar pressure=1003");
    assert!(words.contains("the parameter sun is missing"), "{words}");
    assert_ne!(without, whole);
    let gap = std::fs::read_to_string(dir.join("rain3.csv")).unwrap();
    let (most, last) = gap.rsplit_once(',').unwrap();
    std::fs::write(dir.join("rain3.csv"), format!("{most},")).unwrap();
    let (with_gap, _) = answer("--group air=air3.csv --group day=days3.csv");
    assert_ne!(with_gap, whole);
    std::fs::write(dir.join("rain3.csv"), format!("{most},{last}")).unwrap();
    let calm: Vec<String> = stations
        .lines()
        .map(|line| format!("{},", line.rsplit_once(',').unwrap().0))
        .collect();
    std::fs::write(
        dir.join("calm.csv"),
        format!("{header}\n{}", calm.join("\n")),
    )
    .unwrap();
    let (_, words) = answer("--group air=calm.csv --group day=days3.csv");
    assert!(words.contains("no sensor of air reports wind"), "{words}");
}

/// Twenty-odd ways to get it wrong, each with its message; nothing is written.
#[test]
fn wrong_groups_get_a_clear_message() {
    let dir = folder();
    let dir = dir.path();
    trained(dir);
    let import = "import --sample day --targets soot.csv --target-coords x,y --target-values soot --out o.parquet";
    let air = "--field air=air.csv:x,y:T";
    let imports = [
        (
            "--field air=air.csv:x,y:T,wind",
            "air.csv, line 2, column wind: is missing; fill it",
        ),
        (
            "--field air=air.csv:x,y:T --field air=rain.csv:x,y:mm",
            "has two groups air",
        ),
        (
            "--field air=air.csv:x,y:",
            "it has no values; write air=air.csv:lon,lat:T",
        ),
        ("--field air=:x,y:T", "no file before the first colon"),
        (
            "--field air=air.csv:x,y+x:T",
            "has two columns x in air_coords",
        ),
        ("--field air", "the group air names no columns of its table"),
        ("--field air=x,y:T", "the group air names no table"),
        (
            "--field query=air.csv:x,y:T",
            "has a group \"query\"; a group's name is a word",
        ),
        (
            "--field air=air.csv:lon,y:T",
            "air.csv, column lon: there is no such column",
        ),
        (
            "--field air=air.csv:x,y:T --points c=none.csv:x,y:kg",
            "cannot read none.csv",
        ),
        (
            "--field air=air.csv:x,y:T --scalars day=soot.csv:soot",
            "a parameter is one number a sample",
        ),
        (
            "--field air=air.csv:x,y:T --coords x,y --values T",
            "but there is none; the groups name their own",
        ),
        (
            "--field air=air.csv:x,y:T --scalars day=days.csv:",
            "it has no values",
        ),
        (
            "--field air=air.csv:x,y:T --unit kg=t",
            "kg is not a column of the import",
        ),
    ];
    for (options, words) in imports {
        let message = fail(dir, &format!("{import} {options}"));
        assert!(message.contains(words), "{options}: {message}");
    }
    let message = fail(dir, &format!("{import} {air}").replace("--sample day", ""));
    assert!(message.contains("--sample is needed"), "{message}");
    let without =
        format!("{import} --field air=air.csv:x,y+height:T").replace("--target-coords x,y", "");
    let message = fail(dir, &without);
    assert!(
        message.contains("soot.csv, column height: there is no such column"),
        "{message}"
    );

    let all = "--group air=air3.csv --group rain=rain3.csv --group chimneys=chimneys3.csv --scalar pressure=1003";
    let predictions = [
        (
            "--sensors air3.csv".into(),
            "give a table of each with --group NAME=FILE",
        ),
        (
            all.replace("--scalar pressure=1003", ""),
            "give --scalar pressure=VALUE, or a table of one line",
        ),
        (
            all.replace("--group rain=rain3.csv", ""),
            "--group rain=FILE is needed",
        ),
        (
            format!("{all} --group sea=air3.csv"),
            "has no such group; it has air, rain, chimneys, day",
        ),
        (
            format!("{all} --group air=air3.csv"),
            "the group air has two tables",
        ),
        (
            all.replace("air=air3", "air=rain3"),
            "rain3.csv, column height: there is no such column",
        ),
        (
            format!("{all} --scalar wind=3"),
            "no such parameter; it has pressure, sun",
        ),
        (
            format!("{all} --scalar pressure=3"),
            "--scalar gives pressure twice",
        ),
        (
            format!("{all} --scalar sun=inf"),
            "the value of a parameter must be finite",
        ),
        (
            format!("{all} --group day=days3.csv"),
            "from a table (--group) or one by one (--scalar), not both",
        ),
    ];
    for (options, words) in predictions {
        let message = fail(
            dir,
            &format!("predict runs/r {options} --grid 5x5 --missing keep --out o.csv"),
        );
        assert!(message.contains(words), "{options}: {message}");
    }

    let recipes = [
        (
            r#"{kind="projection",functions=9}"#,
            "which group is meant? The data have air, rain",
        ),
        (
            r#"{kind="projection",group="sea",functions=9}"#,
            "there is no group sea; there are air, rain",
        ),
        (
            r#"{kind="moments",group="air",functions=9}"#,
            "readings of a function are for projection, heads or krige",
        ),
        (
            r#"{kind="moments",functions=9,decay=99}"#,
            "a power between 0 and 16",
        ),
        (
            r#"{kind="heads",group="day"}"#,
            "heads cannot take the group day, which is of the kind scalars",
        ),
        (
            r#"{kind="heads",group="air",sums=2}"#,
            "sums are for points, whose strengths add up",
        ),
        (
            r#"{kind="heads",group="chimneys"}"#,
            "it has no points, of which heads cannot take the average",
        ),
        (
            r#"{kind="vector",group="air",sensors=9}"#,
            "kriging fills them in",
        ),
        (
            r#"{kind="grid"}"#,
            "grid takes one group of readings, and the data have air, rain",
        ),
        (
            r#"{kind="scalars",group="air"}"#,
            "scalars cannot take the group air",
        ),
    ];
    for (encoder, words) in recipes {
        let message = fail(
            dir,
            &format!(
                "train r.toml --set model.encoders=[{encoder}] --set model.core={{kind=\"mlp\"}} --out runs/x"
            ),
        );
        assert!(message.contains(words), "{encoder}: {message}");
    }
    for file in ["o.parquet", "o.csv", "runs/x"] {
        assert!(!dir.join(file).exists(), "{file}");
    }
}

/// A network that sees its only group by projections takes gaps, whether its training had some or not; a DeepONet
/// does not.
#[test]
fn gaps_come_later() {
    let dir = folder();
    let dir = dir.path();
    write_tables(dir);
    std::fs::write(dir.join("r.toml"), RECIPE).unwrap();
    let import = "import --sample day --coords x,y --values T,height --targets soot.csv --target-values soot";
    succeed(dir, &format!("{import} air.csv --out soot.parquet"));
    let lines = std::fs::read_to_string(dir.join("air.csv")).unwrap();
    let gappy = lines.lines().enumerate().map(|(i, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        let height = if i % 3 == 1 { "" } else { cells[3] };
        format!(
            "{},{},{},{height},{}",
            cells[0], cells[1], cells[2], cells[4]
        )
    });
    let gappy: Vec<String> = gappy.collect();
    std::fs::write(dir.join("gappy.csv"), gappy.join("\n")).unwrap();
    succeed(
        dir,
        &format!("{import} gappy.csv --missing keep --out gappy.parquet"),
    );
    let projection = r#"model.encoders=[{kind="projection",functions=16,frame={family="cosine"}}]"#;
    succeed(dir, &format!("train r.toml -q --set {projection}"));
    let error = |data: &str| {
        let found = succeed(dir, &format!("eval runs/r --data {data} --json"));
        let found: Value = serde_json::from_str(&found).unwrap();
        found["relative_l2"]["mean"].as_f64().unwrap()
    };
    let (whole, gaps) = (error("soot.parquet"), error("gappy.parquet"));
    assert!(whole < 0.6 && gaps < 1.5 * whole, "{whole} {gaps}");
    let heads = r#"model.encoders=[{kind="heads",count=1,d_enc=8,encoder_hidden=[8],hidden=[8],outputs=8}]"#;
    let core = "--set model.core={kind=\"mlp\",hidden=[8]}";
    succeed(
        dir,
        &format!("train r.toml -q --set {heads} {core} --out runs/h"),
    );
    let message = fail(dir, "eval runs/h --data gappy.parquet");
    assert!(
        message.contains("only finite numbers are allowed"),
        "{message}"
    );
}
