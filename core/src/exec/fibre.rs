//! One line of attempts of an execution: the first one, or a copy that races with it.
//!
//! This module holds state only; what happens to it is decided by the execution.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::exec::AttemptId;
use crate::exec::prepared::Preparation;
use crate::exec::targets::{Planned, Target};
use crate::policy::retry::RetryHistory;
use crate::wire::consistency::Consistency;

/// Holds one line of attempts.
#[derive(Debug)]
pub(super) struct Fibre<H> {
    pub(super) attempt: AttemptId,
    pub(super) state: FibreState,
    pub(super) target: Option<Target<H>>,
    pub(super) consistency: Consistency,
    pub(super) since: Option<Instant>,
    /// When the attempt is over, where that comes before the request's deadline.
    pub(super) limit: Option<Instant>,
    past: Option<Box<Past>>,
}

impl<H> Fibre<H> {
    pub(super) const fn new(consistency: Consistency) -> Self {
        Self {
            attempt: AttemptId(0),
            state: FibreState::Idle,
            target: None,
            consistency,
            since: None,
            limit: None,
            past: None,
        }
    }

    #[inline]
    pub(super) fn begin(
        &mut self,
        attempt: AttemptId,
        target: Target<H>,
        since: Option<Instant>,
        limit: Option<Instant>,
    ) {
        if let Some(past) = self.past.as_mut() {
            let moves = self
                .target
                .as_ref()
                .is_none_or(|old| old.host != target.host);
            past.prepared.retain(|_| !moves);
        }
        self.attempt = attempt;
        self.target = Some(target);
        self.since = since;
        self.limit = limit;
    }

    #[inline]
    pub(super) fn is_waiting_for(&self, attempt: AttemptId) -> bool {
        self.attempt == attempt && self.state == FibreState::Waiting
    }

    /// Says whether a reply is still to come.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.state, FibreState::Waiting | FibreState::Preparing)
    }

    /// Says whether the fibre may still bring an answer.
    pub(super) fn is_alive(&self) -> bool {
        self.is_out() || matches!(self.state, FibreState::Pausing { .. })
    }

    pub(super) fn place(&self) -> Option<Planned> {
        self.target.as_ref().map(|target| Planned {
            host: target.host,
            shard: target.shard,
        })
    }

    pub(super) fn pause_ends(&self) -> Option<Instant> {
        match self.state {
            FibreState::Pausing { until, .. } => Some(until),
            _ => None,
        }
    }

    pub(super) fn retries(&self) -> u16 {
        self.past.as_ref().map_or(0, |past| past.history.retries())
    }

    pub(super) fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_with(Box::default)
    }
}

/// Says what a fibre is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FibreState {
    /// Nothing was sent yet.
    Idle,
    /// The request's answer.
    Waiting,
    /// The answer to a PREPARE, after which the request is sent.
    Preparing,
    /// The end of a pause before the next attempt.
    Pausing {
        /// When it ends.
        until: Instant,
        /// Where the next attempt goes.
        next: NextPlace,
    },
    /// Nothing any more.
    Ended,
}

/// Says where the next attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPlace {
    /// To the same node.
    Same,
    /// To the next target of the plan.
    Next,
}

/// Holds what a fibre only needs once something went wrong.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) history: RetryHistory,
    /// The statement whose PREPARE is out; none when the request's own text is being prepared.
    pub(super) preparing: Option<Arc<Preparation>>,
    /// Which statements were prepared again on this node; each only once.
    pub(super) prepared: Vec<Bytes>,
}
