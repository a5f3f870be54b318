//! The program as a user runs it.

use std::process::{Command, Stdio};

use serde_json::Value;

mod common;

use common::{command, fail, folder, names, succeed};

#[test]
fn every_problem_goes_from_function_to_picture() {
    let dir = folder();
    let dir = dir.path();
    for (problem, sensors, queries) in [
        ("darcy", 2341..=2861, 51 * 51),
        ("allen-cahn", 608..=744, 76 * 76 * 41),
        ("navier-stokes", 980..=1198, 65 * 65),
    ] {
        succeed(
            dir,
            &format!(
                "generate {problem} --layout variable --split test --samples 4 --out d.parquet"
            ),
        );
        let shown: Value = serde_json::from_str(&succeed(dir, "inspect d.parquet --json")).unwrap();
        assert_eq!(shown["samples"], 4);
        assert_eq!(shown["queries"]["min"], queries);
        for end in ["min", "median", "max"] {
            assert!(sensors.contains(&(shown["sensors"][end].as_u64().unwrap() as usize)));
        }
        assert_eq!(shown["meta"]["provenance"]["problem"], problem);
        let text = succeed(dir, "inspect d.parquet");
        assert!(
            text.contains("sensors per sample") && text.contains("provenance"),
            "{text}"
        );
        for picture in ["p.png", "p.svg"] {
            succeed(dir, &format!("plot d.parquet --sample 3 --out {picture}"));
            assert!(std::fs::metadata(dir.join(picture)).unwrap().len() > 10_000);
        }
    }
}

#[test]
fn all_layouts_see_the_same_functions() {
    let dir = folder();
    let dir = dir.path();
    let mut targets = Vec::new();
    for layout in [
        "regular",
        "irregular",
        "missing",
        "perturbed",
        "random",
        "variable",
    ] {
        succeed(
            dir,
            &format!(
                "generate navier-stokes --layout {layout} --split test --samples 3 --out {layout}.parquet"
            ),
        );
        let shown: Value =
            serde_json::from_str(&succeed(dir, &format!("inspect {layout}.parquet --json")))
                .unwrap();
        targets.push(shown["ranges"]["targets"].clone());
        assert_eq!(
            shown["fixed_sensors"],
            ["regular", "irregular"].contains(&layout),
            "{layout}"
        );
    }
    assert!(targets.iter().all(|t| t == &targets[0]));
    succeed(
        dir,
        "plot regular.parquet irregular.parquet missing.parquet perturbed.parquet random.parquet variable.parquet --only sensors --out six.png",
    );
}

#[test]
fn training_targets_stand_at_the_sensors_at_all_times() {
    let dir = folder();
    let dir = dir.path();
    succeed(
        dir,
        "generate allen-cahn --layout random --split train --samples 2 --out a.parquet",
    );
    let shown: Value = serde_json::from_str(&succeed(dir, "inspect a.parquet --json")).unwrap();
    assert_eq!(
        (&shown["sensors"]["max"], &shown["queries"]["max"]),
        (&676.into(), &(676 * 21).into())
    );
    succeed(
        dir,
        "generate darcy --parameter boundary=periodic --layout missing --split val --samples 2 --out b.parquet",
    );
    let shown: Value = serde_json::from_str(&succeed(dir, "inspect b.parquet --json")).unwrap();
    assert_eq!(shown["sensors"], shown["queries"]);
    assert_eq!(
        shown["meta"]["provenance"]["parameters"]["boundary"],
        "periodic"
    );
}

#[test]
fn the_same_bits_on_any_number_of_threads_with_and_without_cache() {
    let dir = folder();
    let dir = dir.path();
    let make = |options: &str| {
        succeed(
            dir,
            &format!(
                "generate darcy --layout perturbed --split val --seed 3 --out d.parquet {options}"
            ),
        );
        std::fs::read(dir.join("d.parquet")).unwrap()
    };
    let fresh = make("--samples 6 --threads 1 --cache none");
    for options in [
        "--threads 2 --cache none",
        "--threads 4 --cache c",
        "--threads 1 --cache c",
    ] {
        assert!(
            make(&format!("--samples 6 {options}")) == fresh,
            "{options}"
        );
    }
    let other = make("--samples 6 --sensor-seed 4");
    assert!(other != fresh);
}

#[test]
fn two_processes_may_want_the_same_functions() {
    let dir = folder();
    let dir = dir.path();
    let start = |out: &str| {
        let arguments =
            format!("generate navier-stokes --layout random --split val --samples 8 --out {out}");
        command(dir, &arguments)
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let (mut a, mut b) = (start("a.parquet"), start("b.parquet"));
    assert!(a.wait().unwrap().success() && b.wait().unwrap().success());
    assert!(
        std::fs::read(dir.join("a.parquet")).unwrap()
            == std::fs::read(dir.join("b.parquet")).unwrap()
    );
}

/// More samples than can be made before a signal comes.
#[cfg(unix)]
const LONG: &str = "generate darcy --layout random --split test --samples 5000 --out big.parquet";

/// Whether an unfinished file of `big.parquet` is there.
#[cfg(unix)]
fn unfinished(dir: &std::path::Path) -> bool {
    let mut names = names(dir).into_iter();
    names.any(|n| n.starts_with(".big.parquet.") && n.ends_with(".part"))
}

/// And ends with the code that shells know from other programs.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_half_written_file() {
    let dir = folder();
    let dir = dir.path();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let output = common::signalled(dir, LONG, signal, || unfinished(dir));
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(
            words.contains("stopping; once more to stop at once") && words.contains("interrupted"),
            "{words}"
        );
        assert_eq!(names(dir), ["cache"]);
    }
}

/// What a killed program left is removed by the next that writes the file; what is being written is not.
#[cfg(unix)]
#[test]
fn unfinished_files_of_killed_programs_go() {
    let dir = folder();
    let dir = dir.path();
    let short = LONG.replace("5000", "1");
    common::signalled(dir, LONG, "-KILL", || unfinished(dir));
    assert!(unfinished(dir));
    succeed(dir, &short);
    assert_eq!(names(dir), ["big.parquet", "cache"]);
    let output = common::signalled(dir, LONG, "-INT", || {
        let ready = unfinished(dir);
        if ready {
            succeed(dir, &short);
            assert!(unfinished(dir), "it is still being written");
        }
        ready
    });
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(names(dir), ["big.parquet", "cache"]);
}

#[cfg(unix)]
#[test]
fn a_disk_that_takes_no_more_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let dir = dir.path();
    // Writes beyond 64 KiB fail, as they would on a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 128; exec {} generate allen-cahn --layout random --split test --samples 40 --cache none --out d.parquet",
        env!("CARGO_BIN_EXE_vidon")
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir)
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        words.contains("error: ") && words.contains("d.parquet") && !words.contains("panicked"),
        "{words}"
    );
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_users_table_becomes_a_dataset() {
    let dir = folder();
    let dir = dir.path();
    let mut text = String::from("day,x,y,p,T\n");
    for day in 0..3 {
        for well in 0..5 + day {
            let x = (well as f64 * 0.7).sin();
            text += &format!("d{day},{x},{},{},{}\n", well % 3, x * 2.0, x + day as f64);
        }
    }
    text += "d2,0.5,1,,3\n";
    std::fs::write(dir.join("wells.csv"), &text).unwrap();
    let import = "import wells.csv --sample day --coords x,y --values p --target-values T --unit p=bar --out w.parquet";
    assert!(fail(dir, import).contains("line 20, column p: is missing"));
    assert!(!dir.join("w.parquet").exists());
    let words = succeed(dir, &format!("{import} --missing skip"));
    for part in [
        "samples    3",
        "5 / 6 / 7",
        "p [bar]",
        "1 reading with a missing number was left out",
    ] {
        assert!(words.contains(part), "{words}");
    }
    succeed(dir, "plot w.parquet --sample 2 --out w.png");
    succeed(dir, "plot w.parquet --sample d2 --out named.PNG");
    assert!(
        fail(dir, "plot w.parquet --sample d9 --out x.png").contains("there is no sample \"d9\"")
    );
}

#[test]
fn wrong_input_gets_a_clear_message() {
    let dir = folder();
    let dir = dir.path();
    succeed(
        dir,
        "generate allen-cahn --layout random --split val --samples 2 --out good.parquet",
    );
    let bytes = std::fs::read(dir.join("good.parquet")).unwrap();
    std::fs::write(dir.join("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 3] ^= 0x10;
    std::fs::write(dir.join("flipped.parquet"), flipped).unwrap();
    std::fs::write(dir.join("empty.parquet"), b"").unwrap();
    std::fs::write(dir.join("table.csv"), "run,x,p,u\n1,2,3,4\n").unwrap();
    std::fs::write(dir.join("bad.npz"), b"PK\x03\x04 and nothing more").unwrap();
    let import =
        "import table.csv --sample run --coords x --values p --target-values u --out o.parquet";
    for (arguments, words) in [
        (
            "inspect absent.parquet",
            "cannot read absent.parquet: No such file",
        ),
        ("inspect cut.parquet", "cut short"),
        ("inspect flipped.parquet", "flipped.parquet"),
        ("inspect empty.parquet", "empty.parquet: is empty"),
        ("inspect table.csv", "is not a Parquet file; `vidon import`"),
        (
            "plot good.parquet --sample 2 --out p.png",
            "has samples 0 to 1; there is no sample 2",
        ),
        ("plot good.parquet --out p.jpg", ".png or .svg"),
        (
            "plot good.parquet --out no/such/p.png",
            "cannot create a file in no/such",
        ),
        (
            "generate darcy --layout random --split val --samples 0 --out o.parquet",
            "--samples must be at least 1",
        ),
        (
            "generate allen-cahn --parameter boundary=periodic --layout random --split val --out o.parquet",
            "the problem allen-cahn leaves no choice of boundary",
        ),
        (
            "generate darcy --layout scattered --split val --out o.parquet",
            "[possible values: regular, irregular",
        ),
        (
            "generate darcy --layout random --split val --samples 1 --out . ",
            "is a folder",
        ),
        (
            "generate allen-cahn --layout random --split val --cache good.parquet --out o.parquet",
            "cannot create the cache folder",
        ),
        (
            &import.replace("--coords x", "--coords lon"),
            "column lon: there is no such column; the table has run, x, p, u",
        ),
        (&import.replace("--coords x", ""), "--coords is needed"),
        (&import.replace("--sample run", ""), "--sample is needed"),
        (&format!("{import} --unit z=m"), "z is not a column"),
        (
            &format!("{import} --range x=3"),
            "write a coordinate and its ends, such as x=0:10",
        ),
        (
            &format!("{import} --range x=3:1"),
            "the ends must be finite, the lower one first",
        ),
        (
            &format!("{import} --range z=0:1"),
            "there is no such coordinate; there are x, x",
        ),
        (
            &format!("{import} --unit x=m --unit x=cm"),
            "x has a unit already",
        ),
        (
            &import.replace("--coords x", "--coords x,x"),
            "--coords names x twice",
        ),
        ("inspect .", "holds no best.safetensors"),
        (&format!("{import} --counts n"), "belong to .npz"),
        ("import bad.npz --out o.parquet", "cannot be read as .npz"),
        (
            "import bad.npz --sample run --out o.parquet",
            "--sample belongs to tables",
        ),
    ] {
        let message = fail(dir, arguments);
        assert!(message.contains(words), "vidon {arguments}: {message}");
        assert!(!dir.join("o.parquet").exists() && !dir.join("p.png").exists());
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = folder();
    let dir = dir.path();
    succeed(
        dir,
        "generate allen-cahn --layout random --split val --samples 2 --out d.parquet",
    );
    let run = |redirect: &str| {
        let script = format!(
            "{} inspect d.parquet --json {redirect}",
            env!("CARGO_BIN_EXE_vidon")
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir)
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run("| true"), "");
    let words = run("> /dev/full");
    assert!(
        words.contains("cannot write to standard output") && !words.contains("panicked"),
        "{words}"
    );
}

#[test]
fn a_model_is_described() {
    use vidon::data::{Channel, Meta};
    use vidon::{ModelConfig, ModelName, Operator};
    let dir = folder();
    let dir = dir.path();
    let channels = |names: &[&str]| names.iter().map(|n| Channel::named(*n)).collect::<Vec<_>>();
    let meta = Meta::new(
        "darcy",
        channels(&["x", "y"]),
        channels(&["a"]),
        channels(&["x", "y"]),
        channels(&["u"]),
    );
    let problem = vidon::problems::named("darcy", &Default::default()).unwrap();
    let config = ModelConfig::of_paper(ModelName::Vidon, &*problem).unwrap();
    let operator = Operator::untrained(&config, meta, &[], 0).unwrap();
    operator.save(&dir.join("w.safetensors")).unwrap();
    let words = succeed(dir, "inspect w.safetensors");
    for part in [
        "VIDON for darcy",
        "parameters 985 071",
        "branch",
        "trunk.4.bias",
    ] {
        assert!(words.contains(part), "{words}");
    }
    let shown: Value = serde_json::from_str(&succeed(dir, "inspect w.safetensors --json")).unwrap();
    assert_eq!(
        (&shown["trunk"]["depth"], &shown["model"]["decoder"]["kind"]),
        (&5.into(), &"learned".into())
    );
    std::fs::write(
        dir.join("cut.safetensors"),
        &std::fs::read(dir.join("w.safetensors")).unwrap()[..9000],
    )
    .unwrap();
    assert!(fail(dir, "inspect cut.safetensors").contains("is damaged"));
}

#[test]
fn help_teaches() {
    let dir = folder();
    let help = succeed(dir.path(), "--help");
    for word in ["demo", "train", "predict", "import", "plot", "First steps"] {
        assert!(help.contains(word), "{help}");
    }
    for command in [
        "demo", "train", "eval", "predict", "generate", "import", "inspect", "plot",
    ] {
        assert!(succeed(dir.path(), &format!("{command} --help")).len() > 500);
    }
}
