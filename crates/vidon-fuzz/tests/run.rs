//! The program itself: some files for every reader, in processes of their own.

use std::process::Command;

#[test]
fn every_reader_is_given_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = Command::new(env!("CARGO_BIN_EXE_vidon-fuzz"))
        .args(["run", "--inputs", "100", "--seed", "1", "--keep"])
        .arg(folder.path())
        .output()
        .expect("the program");
    let words = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{words}{errors}");
    let lines: Vec<&str> = words.lines().collect();
    assert_eq!(lines.len(), vidon_fuzz::READERS.len(), "{words}");
    for (line, reader) in lines.iter().zip(&vidon_fuzz::READERS) {
        assert!(line.starts_with(reader.name), "{line}");
        assert!(!line.contains(" 0 of them read"), "{line}");
    }
}
