//! What the control task publishes for everybody else: the routing snapshot and the phase of the session.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use arc_swap::{ArcSwap, Guard};
use messina_core::error::session::SessionError;
use messina_core::routing::Routing;

use crate::lane::Lane;

/// The published state of a session.
#[derive(Debug)]
pub(crate) struct Published {
    routing: ArcSwap<Routing<Arc<Lane>>>,
    status: Mutex<Status>,
    closing: AtomicBool,
    /// What the last control connection told the server about the configuration.
    driver_config: Mutex<Option<Arc<str>>>,
    /// How many requests the end of the session cut off.
    cut: AtomicUsize,
}

#[derive(Debug)]
struct Status {
    phase: Phase,
    waiting: Vec<Waker>,
}

/// How far a session is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// The control connection is not up yet, or not as many nodes as asked for.
    Starting,
    /// Requests may be sent.
    Ready,
    /// The session could not start, or gave up.
    Failed(SessionError),
    /// Nothing is left.
    Ended,
}

impl Published {
    /// Starts with an empty cluster.
    pub(crate) fn new() -> Self {
        let status = Status {
            phase: Phase::Starting,
            waiting: Vec::new(),
        };
        Self {
            routing: ArcSwap::from_pointee(Routing::default()),
            status: Mutex::new(status),
            closing: AtomicBool::new(false),
            driver_config: Mutex::default(),
            cut: AtomicUsize::new(0),
        }
    }

    /// Looks at the routing snapshot for a short time.
    pub(crate) fn routing(&self) -> Guard<Arc<Routing<Arc<Lane>>>> {
        self.routing.load()
    }

    /// Takes the routing snapshot for a longer time.
    pub(crate) fn snapshot(&self) -> Arc<Routing<Arc<Lane>>> {
        self.routing.load_full()
    }

    /// Replaces the routing snapshot and wakes those who wait for a change.
    pub(crate) fn publish(&self, routing: Arc<Routing<Arc<Lane>>>) {
        self.routing.store(routing);
        let mut status = self.lock();
        let waiting = mem::take(&mut status.waiting);
        drop(status);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Says whether new requests are refused.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Refuses new requests from now on.
    pub(crate) fn stop_admission(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Takes note of the document about the configuration that was sent last.
    pub(crate) fn report(&self, document: Arc<str>) {
        let old = self.driver_config().replace(document);
        drop(old);
    }

    /// Returns the document about the configuration that was sent last.
    pub(crate) fn reported(&self) -> Option<Arc<str>> {
        self.driver_config().clone()
    }

    fn driver_config(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.driver_config
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how many requests the end of the session cut off.
    pub(crate) fn cut(&self) -> usize {
        self.cut.load(Ordering::Acquire)
    }

    /// Takes note of how many requests the end of the session cuts off.
    pub(crate) fn cut_off(&self, count: usize) {
        self.cut.store(count, Ordering::Release);
    }

    /// Moves to another phase; a failure or the end stays.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut status = self.lock();
        match (&status.phase, &phase) {
            (Phase::Ended, _)
            | (Phase::Failed(_), Phase::Starting | Phase::Ready | Phase::Failed(_)) => return,
            _ => (),
        }
        let old = mem::replace(&mut status.phase, phase);
        let waiting = mem::take(&mut status.waiting);
        drop(status);
        drop(old);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns what `look` finds in the phase, or waits for the next change of phase or routing.
    pub(crate) fn poll_phase<T>(
        &self,
        cx: &Context<'_>,
        look: impl FnOnce(&Phase) -> Option<T>,
    ) -> Poll<T> {
        let waker = cx.waker().clone();
        let phase = {
            let mut status = self.lock();
            let known = status
                .waiting
                .iter()
                .any(|waiting| waiting.will_wake(&waker));
            if !known {
                status.waiting.push(waker);
            }
            status.phase.clone()
        };
        // A waker left behind without need costs one idle wake-up.
        look(&phase).map_or(Poll::Pending, Poll::Ready)
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
