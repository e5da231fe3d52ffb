//! Owns the deadlines of the control plane: at most one for each thing that can become due.
//! What happens then is decided by whoever set them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{CommandId, ConnId, ResolveId};
use crate::routing::HostIdx;

/// What can become due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An attempt to connect takes too long.
    Opening(ConnId),
    /// A name takes too long to resolve.
    Resolving(ResolveId),
    /// The next candidate for the control connection is tried beside those that do not answer.
    Stagger,
    /// The next round over all candidates begins.
    Round,
    /// A host may be connected to again.
    Host(HostIdx),
    /// The members are read again.
    Topology,
    /// The schema is read again.
    Schema,
    /// The next look at the schema versions.
    Agreement,
    /// A wait for schema agreement ends.
    AgreementEnd(CommandId),
    /// A change of the keyspace ends.
    KeyspaceEnd(CommandId),
    /// The session should have been ready.
    Readiness,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    queue: BTreeSet<(Instant, Timer)>,
    at: BTreeMap<Timer, Instant>,
}

impl Timers {
    /// Sets or moves a timer.
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.cancel(timer);
        self.queue.insert((at, timer));
        self.at.insert(timer, at);
    }

    /// Sets a timer, or moves it if that makes it earlier.
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Instant) {
        if self.at.get(&timer).is_none_or(|known| at < *known) {
            self.set(timer, at);
        }
    }

    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.at.remove(&timer) {
            self.queue.remove(&(at, timer));
        }
    }

    /// Takes out a timer that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = self.queue.first().copied()?;
        if now < at {
            return None;
        }
        self.cancel(timer);
        Some(timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.at.clear();
    }
}
