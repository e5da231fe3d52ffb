//! Owns the allocator that counts what each thread holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Passes everything on to the system's allocator and counts.
pub(crate) struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Runs `f` and says how much more than before it held at the most.
pub(crate) fn peak_of<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    let peak = PEAK.get() - before;
    (result, usize::try_from(peak).unwrap_or(0))
}

fn count(by: isize) {
    // A thread that ends frees memory when its counters are gone already.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + by);
        PEAK.set(PEAK.get().max(held.get()));
    });
}

fn signed(size: usize) -> isize {
    // No layout is larger than this.
    isize::try_from(size).unwrap_or(isize::MAX)
}

// SAFETY: every call is passed on to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[test]
fn the_allocator_counts_what_is_held_and_not_what_was_given_back() {
    let ((), peak) = peak_of(|| {
        for _ in 0..10 {
            drop(std::hint::black_box(vec![1_u8; 1_000]));
        }
    });
    assert!((1_000..2_000).contains(&peak), "{peak}");
}
