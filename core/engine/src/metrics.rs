//! Counts of a session. No request that its first node answers pays for them: they are read from what is there anyway,
//! or counted where something went another way.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use messina_core::metrics::Metrics;
use messina_core::notify::Note;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted while it happens.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests_failed: Count,
    pub(crate) retries: Count,
    pub(crate) connections_opened: Count,
    pub(crate) connections_lost: Count,
    pub(crate) connect_failures: Count,
    pub(crate) server_events: Count,
    pub(crate) notes: Count,
    pub(crate) notes_lost: Count,
    detours: Detours,
}

impl Counters {
    /// Counts what a note tells.
    pub(crate) fn noted(&self, note: &Note) {
        self.notes.add(1);
        self.connections_lost.add(Metrics::is_loss(note).into());
    }

    /// Reads what was counted; everything else is left at zero.
    pub(crate) fn read(&self, requests: u64) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.requests = requests;
        metrics.requests_failed = self.requests_failed.read();
        metrics.retries = self.retries.read();
        metrics.connections_opened = self.connections_opened.read();
        metrics.connections_lost = self.connections_lost.read();
        metrics.connect_failures = self.connect_failures.read();
        metrics.server_events = self.server_events.read();
        metrics.notes = self.notes.read();
        metrics.notes_lost = self.notes_lost.read();
        metrics
    }

    /// Counts a request among those that are on another way, until the returned value is dropped.
    pub(crate) fn detour(self: &Arc<Self>) -> Detour {
        self.detours.under_way.fetch_add(1, Ordering::AcqRel);
        Detour(Arc::clone(self))
    }

    /// How many requests are on another way than to their first node.
    pub(crate) fn detours(&self) -> usize {
        self.detours.under_way.load(Ordering::Acquire)
    }

    /// Waits until no request is on another way.
    pub(crate) fn poll_no_detour(&self, cx: &Context<'_>) -> Poll<()> {
        if self.detours() == 0 {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let mut slot = self
            .detours
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let old = slot.replace(waker);
        drop(slot);
        drop(old);
        self.detours.watched.store(true, Ordering::SeqCst);
        // The last one may have ended in between.
        match self.detours.under_way.load(Ordering::SeqCst) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

/// The requests between two attempts, which no connection knows of.
#[derive(Debug, Default)]
struct Detours {
    under_way: AtomicUsize,
    watched: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// One request that goes another way.
#[derive(Debug)]
pub(crate) struct Detour(Arc<Counters>);

impl Drop for Detour {
    fn drop(&mut self) {
        let detours = &self.0.detours;
        let was_last = detours.under_way.fetch_sub(1, Ordering::SeqCst) == 1;
        if !was_last || !detours.watched.load(Ordering::SeqCst) {
            return;
        }
        let waker = detours
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_requests_on_another_way_is_woken_by_the_last_one() {
        struct Flag(AtomicBool);
        impl std::task::Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        let cx = Context::from_waker(&waker);
        let counters = Arc::new(Counters::default());
        assert!(counters.poll_no_detour(&cx).is_ready());
        let (one, other) = (counters.detour(), counters.detour());
        assert!(counters.poll_no_detour(&cx).is_pending());
        drop(one);
        assert!(!flag.0.load(Ordering::SeqCst), "one is left");
        drop(other);
        assert!(flag.0.load(Ordering::SeqCst));
        assert!(counters.poll_no_detour(&cx).is_ready());
    }
}
