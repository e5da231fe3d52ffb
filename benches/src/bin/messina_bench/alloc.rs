//! The allocator that counts.
//!
//! Unsafe code is allowed here for the counting allocator and nothing else.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use messina_benches::books::{ALLOCATED_BYTES, ALLOCATIONS, FREED_BYTES};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(counter: &AtomicU64, size: usize) {
    counter.fetch_add(size as u64, Ordering::Relaxed);
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(&ALLOCATIONS, 1);
        add(&ALLOCATED_BYTES, layout.size());
        // SAFETY: the caller's promises are those that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(&ALLOCATIONS, 1);
        add(&ALLOCATED_BYTES, layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(&FREED_BYTES, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(&ALLOCATIONS, 1);
        add(&ALLOCATED_BYTES, size);
        add(&FREED_BYTES, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
