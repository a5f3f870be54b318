//! What the program knows of the repository it was built from: the recipes, and the commit.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipes = root.join("recipes");
    println!("cargo:rerun-if-changed={}", recipes.display());
    let mut list = String::from("&[\n");
    for family in sorted(&recipes, Path::is_dir)? {
        for file in sorted(&family, |p| p.extension().is_some_and(|e| e == "toml"))? {
            let family = family.file_name().unwrap_or_default();
            writeln!(list, "({family:?}, include_str!({file:?})),").expect("it is in memory");
        }
    }
    list += "]";
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("recipes.rs"), list)?;

    // Without git, or outside of a repository, the commit is not known.
    if let Some(commit) = git(&root, &["rev-parse", "--short=10", "HEAD"]) {
        let changes = git(&root, STATUS);
        let changed = changes.is_some_and(|c| !c.is_empty());
        let mark = if changed { ", changed" } else { "" };
        println!("cargo:rustc-env=VIDON_COMMIT={commit}{mark}");
        println!("cargo:rerun-if-changed={}", root.join("crates").display());
        // The log grows with every commit and checkout.
        let log = git(&root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|p| root.join(p));
        if let Some(log) = log.filter(|l| l.exists()) {
            println!("cargo:rerun-if-changed={}", log.display());
        }
    }
    Ok(())
}

/// Without taking a lock that another git may want.
const STATUS: &[&str] = &[
    "--no-optional-locks",
    "status",
    "--porcelain",
    "--untracked-files=no",
];

/// What of a folder is wanted, in an order that does not depend on the system.
fn sorted(folder: &Path, wanted: impl Fn(&Path) -> bool) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|e| Ok(e?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.retain(|p| wanted(p));
    paths.sort();
    Ok(paths)
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.current_dir(folder).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
