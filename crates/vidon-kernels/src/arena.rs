//! Memory that is used again: a step's activations take up to a gigabyte, and asking the system for it anew costs
//! more than many a kernel.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Floats a block is a multiple of: a huge page for large ones, a cache line for small ones.
const PAGE: usize = 1 << 19;
const LINE: usize = 16;
/// Blocks kept for later.
const KEPT: usize = 64;

static FREE: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// `len` floats, all of them initialised, that nobody else points to.
struct Block {
    start: NonNull<f32>,
    len: usize,
}

// SAFETY: a block owns its floats, as a boxed slice does, and gives out none of them.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn layout(len: usize) -> Layout {
        let align = if len >= PAGE { 4 * PAGE } else { 4 * LINE };
        Layout::from_size_align(4 * len, align).expect("a size that fits")
    }

    /// Zeros. Huge pages must be asked for before the first touch: what was touched before has small ones.
    fn new(len: usize) -> Self {
        assert!(len > 0);
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero, since `len` is not.
        let start = NonNull::new(unsafe { alloc(layout) }.cast::<f32>());
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        #[cfg(target_os = "linux")]
        if len >= PAGE {
            // SAFETY: the range is all ours, and this advice changes no content. It may be declined, which is as
            // good: the answer is not looked at.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: `start` has room for `len` floats; zero bytes are zeros.
        unsafe { start.as_ptr().write_bytes(0, len) };
        Self { start, len }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and given back once.
        unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.len)) }
    }
}

/// Floats with any content, aligned to cache lines; given back when dropped.
pub(crate) struct Buffer {
    block: Option<Block>,
    len: usize,
}

impl Buffer {
    pub fn take(len: usize) -> Self {
        let unit = if len >= PAGE { PAGE } else { LINE };
        let rounded = len.max(1).next_multiple_of(unit);
        let mut free = FREE.lock().expect("no thread failed with it");
        let fits = |b: &Block| b.len >= rounded && b.len <= 2 * rounded;
        let best = (0..free.len())
            .filter(|&i| fits(&free[i]))
            .min_by_key(|&i| free[i].len);
        let block = best.map(|i| free.swap_remove(i));
        // Batches of many sizes: a block that has become too small for its use will not be asked for again.
        let outgrown: Vec<Block> = match block.is_none() && rounded >= PAGE {
            true => free
                .extract_if(.., |b| b.len < rounded && 2 * b.len >= rounded)
                .collect(),
            false => Vec::new(),
        };
        drop(free);
        drop(outgrown);
        Self {
            block: Some(block.unwrap_or_else(|| Block::new(rounded))),
            len,
        }
    }

    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::take(len);
        buffer.fill(0.0);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        let block = self.block.as_ref().expect("it is given back last");
        // SAFETY: `take` gives a block of at least `len` floats, initialised and borrowed with the buffer.
        unsafe { std::slice::from_raw_parts(block.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        let block = self.block.as_ref().expect("it is given back last");
        // SAFETY: `take` gives a block of at least `len` floats, initialised; the buffer is its only holder and
        // borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(block.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = FREE.lock().expect("no thread failed with it");
        free.extend(self.block.take());
        if free.len() > KEPT {
            let smallest = (0..free.len()).min_by_key(|&i| free[i].len);
            smallest.map(|i| free.swap_remove(i));
        }
    }
}

/// Gives all blocks that are not in use back to the system.
pub fn release_memory() {
    let free = std::mem::take(&mut *FREE.lock().expect("no thread failed with it"));
    drop(free);
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Buffer({})", self.len)
    }
}

/// A slice that several threads work on, each on parts of its own.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a shared slice only gives out parts, and whoever takes them promises that they do not overlap.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub fn new(slice: &'a mut [f32]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            borrowed: PhantomData,
        }
    }

    /// `count` floats from `at` on; panics where there are none.
    ///
    /// # Safety
    /// As long as the part is used, nobody takes another part that overlaps with it.
    pub unsafe fn part(self, at: usize, count: usize) -> &'a mut [f32] {
        assert!(
            at <= self.len && count <= self.len - at,
            "a part of the slice"
        );
        // SAFETY: the range lies within the slice, which is borrowed for 'a, and by the caller's promise nobody
        // else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests use smaller blocks.
    #[test]
    fn blocks_that_were_outgrown_are_given_back() {
        (60..70).for_each(|pages| drop(Buffer::take(pages * PAGE)));
        let free = FREE.lock().unwrap();
        let large = free.iter().map(|b| b.len).filter(|&n| n >= 60 * PAGE);
        assert_eq!(large.collect::<Vec<usize>>(), [69 * PAGE]);
    }
}
