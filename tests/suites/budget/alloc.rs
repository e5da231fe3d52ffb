//! An allocator that counts what the calling thread asks for and gives back.

#![allow(unsafe_code)] // A counting allocator cannot be written without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Sub;

/// What a thread has asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Calls that asked for memory.
    pub(crate) calls: u64,
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    /// Bytes that were given back.
    pub(crate) freed: u64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        USAGE.with(Cell::get)
    }

    /// Bytes asked for and not given back.
    pub(crate) fn kept(self) -> u64 {
        self.bytes.saturating_sub(self.freed)
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            bytes: self.bytes - earlier.bytes,
            freed: self.freed - earlier.freed,
        }
    }
}

/// Measures what a piece of work asks for.
pub(crate) fn usage_of<T>(work: impl FnOnce() -> T) -> (Usage, T) {
    let before = Usage::now();
    let done = work();
    (Usage::now() - before, done)
}

thread_local! {
    static USAGE: Cell<Usage> = const { Cell::new(Usage { calls: 0, bytes: 0, freed: 0 }) };
}

fn note(calls: u64, asked: usize, freed: usize) {
    // During the end of a thread there is nothing to count any more.
    let _ = USAGE.try_with(|usage| {
        let Usage {
            calls: so_far,
            bytes,
            freed: before,
        } = usage.get();
        usage.set(Usage {
            calls: so_far + calls,
            bytes: bytes + asked as u64,
            freed: before + freed as u64,
        });
    });
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size, layout.size());
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(0, 0, layout.size());
        unsafe { System.dealloc(place, layout) }
    }
}
