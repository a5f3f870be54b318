//! A training step asks for the same tensors as the one before. By default the system's allocator gives large
//! blocks back at once, and the system clears every page again when they are asked for: thousands of page
//! faults a step. Here they stay with the program.

/// Blocks up to this size come from the program's own heap, which is not trimmed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: i32 = 1 << 30;

/// To be called before the first large block.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_freed_blocks() {
    // SAFETY: numbers alone are given; a limit that the allocator does not take changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// Gives back what is not in use, so that what follows can be measured by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    vidon_kernels::release_memory();
    // SAFETY: only what is not in use is given back.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed_blocks() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {
    vidon_kernels::release_memory();
}
