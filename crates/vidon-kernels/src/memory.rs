//! How much memory there is for this program.

use std::path::{Path, PathBuf};

/// Where the system does not say.
const UNKNOWN: usize = 3 << 30;

/// Bytes that the system and all limits around the program (containers, batch jobs) leave free.
pub fn available_memory() -> usize {
    let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let free = field(&read("/proc/meminfo"), "MemAvailable:");
    let free = free.map_or(UNKNOWN, |kibibytes| kibibytes << 10);
    let addresses = addresses(&read("/proc/self/limits"), &read("/proc/self/status"));
    let free = free.min(addresses.unwrap_or(usize::MAX));
    let groups = read("/proc/self/cgroup");
    let own = groups.lines().find_map(|l| l.strip_prefix("0::/"));
    let own = own.map(|group| Path::new("/sys/fs/cgroup").join(group));
    let around = own.iter().flat_map(|group| group.ancestors());
    around.filter_map(room).fold(free, usize::min)
}

/// What the limit of a control group leaves, where it has one. Files that are merely cached give way.
fn room(group: &Path) -> Option<usize> {
    let read = |name: &str| std::fs::read_to_string(PathBuf::from(group).join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
    let (most, used) = (number("memory.max")?, number("memory.current")?);
    let cached = field(&read("memory.stat")?, "inactive_file")?;
    Some(most.saturating_sub(used.saturating_sub(cached)))
}

/// What a limit of the address space (`ulimit -v`) leaves, where there is one.
fn addresses(limits: &str, status: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max address space"))?;
    let most: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(field(status, "VmSize:")? << 10))
}

/// The number in the line that begins with a word.
fn field(text: &str, word: &str) -> Option<usize> {
    let line = text
        .lines()
        .find(|l| l.split_whitespace().next() == Some(word))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_around_the_program_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(room(folder.path()), None);
        write("memory.current", "700\n");
        write("memory.stat", "anon 500\ninactive_file 200\n");
        write("memory.max", "max\n");
        assert_eq!(room(folder.path()), None);
        write("memory.max", "4000\n");
        assert_eq!(room(folder.path()), Some(3500));
        assert!(available_memory() > 0);
    }

    #[test]
    fn a_limit_of_the_address_space_counts() {
        let limits = |most: &str| {
            format!("Max processes 7 7 processes\nMax address space  {most}  unlimited  bytes\n")
        };
        let status = "Name:\tvidon\nVmSize:\t      3 kB\n";
        assert_eq!(addresses(&limits("unlimited"), status), None);
        assert_eq!(addresses(&limits("8192"), status), Some(5120));
        assert_eq!(addresses(&limits("1024"), status), Some(0));
    }
}
