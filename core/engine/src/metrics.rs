//! Counts of a session. No request that its first node answers pays for them: they are read from what is there anyway,
//! or counted where something went another way.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use messina_core::notify::Note;

use crate::snapshot::ClusterSnapshot;

/// Counts of one moment. Totals grow for the life of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests started since the session was made, the pages of a read and the PREPAREs of a text counted singly.
    pub requests: u64,
    /// Those of them that failed after they were sent or when they could not be sent, expired ones included.
    pub requests_failed: u64,
    /// Attempts that a retry policy asked for.
    pub retries: u64,
    /// Requests that wait for their answer.
    pub in_flight: u64,
    /// Open connections for requests.
    pub connections: usize,
    /// Members of the cluster with an open connection.
    pub hosts_connected: usize,
    /// Connections of any kind that became usable, in total.
    pub connections_opened: u64,
    /// Connections that ended without the driver's doing, in total.
    pub connections_lost: u64,
    /// Attempts to connect that failed or were given up, in total.
    pub connect_failures: u64,
    /// Events that servers sent, in total.
    pub server_events: u64,
    /// Pictures of the cluster that were published, in total.
    pub snapshots: u64,
    /// Notes for operators, in total; see [`Session::notes`](crate::Session::notes).
    pub notes: u64,
    /// Those of them that gave way to newer ones before anybody read them.
    pub notes_lost: u64,
}

impl Metrics {
    pub(crate) fn of(cluster: &ClusterSnapshot, requests: u64, counters: &Counters) -> Self {
        let lanes = || cluster.pools.iter().flat_map(|pool| pool.connections());
        Self {
            requests,
            requests_failed: counters.requests_failed.read(),
            retries: counters.retries.read(),
            in_flight: lanes().map(|lane| u64::from(lane.in_flight())).sum(),
            connections: lanes().count(),
            hosts_connected: cluster.pools.iter().filter(|pool| !pool.is_empty()).count(),
            connections_opened: counters.connections_opened.read(),
            connections_lost: counters.connections_lost.read(),
            connect_failures: counters.connect_failures.read(),
            server_events: counters.server_events.read(),
            snapshots: cluster.generation,
            notes: counters.notes.read(),
            notes_lost: counters.notes_lost.read(),
        }
    }
}

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
        if matches!(note, Note::ConnectionLost { .. }) {
            self.connections_lost.add(1);
        }
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
