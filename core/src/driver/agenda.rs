//! When which part of a driver wants to be called again. What is to be done then is the part's own business.

use std::collections::BTreeSet;
use std::time::Instant;

use super::RequestId;
use super::calls::CallId;
use crate::cluster::ConnId;

/// Orders instants by time, with whom they belong to.
#[derive(Debug, Default)]
pub(super) struct Agenda(BTreeSet<(Instant, Due)>);

/// Says whom an instant belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Connection(ConnId),
    Call(CallId),
    /// The nodes that have not answered a PREPARE are not waited for any longer.
    Stragglers(RequestId),
    /// A trace that was not complete is asked for again.
    Trace(RequestId),
}

impl Agenda {
    /// Moves the instant of a part, which remembers in `armed` where it is.
    pub(super) fn set(&mut self, due: Due, armed: &mut Option<Instant>, at: Option<Instant>) {
        if *armed == at {
            return;
        }
        if let Some(old) = std::mem::replace(armed, at) {
            self.0.remove(&(old, due));
        }
        self.0.extend(at.map(|at| (at, due)));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes a part whose time has come; its instant is gone.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let (at, due) = *self.0.first()?;
        if now < at {
            return None;
        }
        self.0.pop_first();
        Some(due)
    }
}
