//! The paper's tables as a user reproduces them.

mod common;

use common::{fail, folder, succeed, vidon};

/// A fast recipe that is done in moments.
const SMALL: &str = "--set data.train_samples=12 --set data.val_samples=2 --set model.core.hidden=[8] --set model.decoder.functions=3 --set model.encoders.0.functions=10 --set model.decoder.frame.times=2 --set train.validation_queries=50";

#[test]
fn cells_are_trained_tested_and_reported_once() {
    let dir = folder();
    let dir = dir.path();
    let cell = format!("reproduce --problem allen-cahn --layout variable --layout random {SMALL}");
    let words = |arguments: &str| {
        let output = vidon(dir, arguments);
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words}");
        words
    };
    let list = "reproduce --problem allen-cahn --list";
    assert_eq!(succeed(dir, list).matches("not begun").count(), 6);

    let said = words(&format!("{cell} --budget 1s --samples 2"));
    for part in [
        "up to 0:02",
        "2 of 2: allen-cahn-variable-vidon",
        "VIDON with",
        "sensors that the projection does not see are missed by ",
        "the decoder's functions come within ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let read = |name: &str| std::fs::read_to_string(dir.join("report").join(name)).unwrap();
    let report = read("report.md");
    for part in [
        "## allen-cahn",
        "| layout | VIDON (fast) |",
        "| regular | – |",
        "paper 1.20 ± 0.03 %<br>ratio ",
        " in 0:01<br>validation ",
        "vidon 0.1.0",
        "; 2 test samples a cell",
        "<br>other settings than the recipe's |",
        "](allen-cahn.png)",
        "](allen-cahn-learning.png)",
        "](runs/fast/allen-cahn-variable-vidon/prediction.png)",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let page = read("report.html");
    assert_eq!(page.matches("src=\"data:image/png;base64,iVBOR").count(), 4);
    assert!(page.contains("<td>variable</td><td><strong>"), "{page}");
    let listed = succeed(dir, list);
    assert_eq!(listed.matches("on 2 test samples").count(), 2, "{listed}");

    // Neither a smaller budget nor the same one trains or tests again. What a kill left is finished.
    let run = "report/runs/fast/allen-cahn-variable-vidon";
    let curves = dir.join(run).join("learning.png");
    std::fs::write(&curves, "old").unwrap();
    let left = ["last.safetensors", "learning.png"];
    let left = left.map(|name| dir.join(run).join(format!(".{name}.abc123.part")));
    left.iter()
        .for_each(|part| std::fs::write(part, "half").unwrap());
    let stamp = |name: &str| {
        let file = std::fs::metadata(dir.join(run).join(name)).unwrap();
        file.modified().unwrap()
    };
    let before = ["checkpoint.safetensors", "test.json"].map(stamp);
    let said = words(&format!("{cell} --budget 1s --samples 1"));
    assert!(
        said.contains("up to 0:00") && said.contains("trained already"),
        "{said}"
    );
    assert_eq!(["checkpoint.safetensors", "test.json"].map(stamp), before);
    assert!(left.iter().all(|part| !part.exists()));
    assert!(std::fs::read(&curves).unwrap().starts_with(b"\x89PNG"));
    // More samples test again, without training.
    let said = words(&format!("{cell} --samples 3"));
    assert!(said.contains("trained already"), "{said}");
    assert!(stamp("checkpoint.safetensors") == before[0] && stamp("test.json") > before[1]);
    assert!(read("report.md").contains("; 3 test samples a cell"));
    // A larger budget trains on.
    let said = words(&format!("{cell} --budget 2s --samples 3"));
    assert!(
        said.contains("trained for 0:01 already, now on to 2s"),
        "{said}"
    );
    assert!(stamp("checkpoint.safetensors") > before[0]);

    for (arguments, words) in [
        (
            "--model fno",
            "the family fast has no cell with --model fno",
        ),
        (
            "--family paper --model fno --layout variable",
            "darcy-regular-fno, navier-stokes-regular-fno",
        ),
        (
            "--problem allen-cahn --layout variable",
            "begun by another recipe",
        ),
        ("--set data.layout=missing", "--set cannot change"),
        ("--set train.rate=fast", "train"),
        ("--samples 6000", "5000"),
    ] {
        let found = fail(dir, &format!("reproduce {arguments}"));
        assert!(found.contains(words), "{arguments}: {found}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_cell_is_gone_on_with() {
    let dir = folder();
    let dir = dir.path();
    let cell = format!("reproduce --problem allen-cahn --layout regular {SMALL} --samples 1");
    let run = dir.join("report/runs/fast/allen-cahn-regular-vidon");
    let begin = format!("{cell} --budget 10m");
    let words = common::interrupt(dir, &begin, &run.join("best.safetensors"));
    assert!(words.contains("the same command goes on"), "{words}");
    assert!(succeed(dir, "reproduce --problem allen-cahn --list").contains("at step "));
    assert!(!run.join("test.json").exists());
    succeed(dir, &format!("{cell} --budget 4s"));
    assert!(succeed(dir, "reproduce --problem allen-cahn --list").contains("done: "));
}

/// Neither a cell's folder nor what is in a report may lead elsewhere, and a damaged test is not reported.
#[cfg(unix)]
#[test]
fn a_report_from_elsewhere_leads_nowhere() {
    use std::os::unix::fs::symlink;
    let dir = folder();
    let dir = dir.path();
    let cell = format!("reproduce --problem allen-cahn --layout regular {SMALL} --samples 1");
    succeed(dir, &format!("{cell} --budget 1s"));
    std::fs::write(dir.join("dear.txt"), "dear").unwrap();
    let again = format!("{cell} --budget 1s");
    let run = "report/runs/fast/allen-cahn-regular-vidon";
    for name in [
        "report/report.md",
        "report/allen-cahn.png",
        &format!("{run}/test.json"),
        run,
        "report/runs",
    ] {
        let (path, aside) = (dir.join(name), dir.join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let target = if aside.is_dir() {
            aside.clone()
        } else {
            dir.join("dear.txt")
        };
        symlink(target, &path).unwrap();
        let words = fail(dir, &again);
        assert!(words.contains(&format!("{name}: is a link")), "{words}");
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(std::fs::read(dir.join("dear.txt")).unwrap(), b"dear");
    let test = dir.join(run).join("test.json");
    let text = std::fs::read_to_string(&test).unwrap();
    std::fs::write(&test, text.replace("\"samples\":1", "\"samples\":5")).unwrap();
    let words = fail(dir, &again);
    assert!(words.contains("test.json: is damaged"), "{words}");
}
