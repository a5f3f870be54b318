//! Running the program as a user does.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Runs `vidon` in `folder`, with its cache there too.
pub fn vidon(folder: &Path, arguments: &str) -> Output {
    command(folder, arguments).output().unwrap()
}

pub fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidon"));
    command
        .current_dir(folder)
        .env("VIDON_CACHE", folder.join("cache"))
        .args(arguments.split_whitespace());
    command
}

/// Runs it and expects success; gives what it printed.
pub fn succeed(folder: &Path, arguments: &str) -> String {
    let output = vidon(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "vidon {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it and expects a readable failure; gives the message.
pub fn fail(folder: &Path, arguments: &str) -> String {
    let output = vidon(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "vidon {arguments} should fail");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(errors.contains("error: "), "{errors}");
    errors
}

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs it until `file` exists, presses Ctrl-C and expects an orderly end; gives what it said.
#[cfg(unix)]
pub fn interrupt(folder: &Path, arguments: &str, file: &Path) -> String {
    let output = signalled(folder, arguments, "-INT", || file.exists());
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{words}");
    words
}

/// Runs it and sends it a signal as soon as it is `ready`.
#[cfg(unix)]
pub fn signalled(folder: &Path, arguments: &str, signal: &str, ready: impl Fn() -> bool) -> Output {
    let mut child = command(folder, arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !ready() {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            panic!(
                "it ended by itself: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

/// The names in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names = Vec::from_iter(names);
    names.sort();
    names
}
