//! Traces of requests that asked for one, and the tables that show them.

use std::collections::VecDeque;
use std::net::IpAddr;

use uuid::Uuid;

/// What is kept of a traced request.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) id: Uuid,
    pub(crate) event_id: Uuid,
    pub(crate) coordinator: IpAddr,
    pub(crate) client: IpAddr,
    pub(crate) shard: u16,
    pub(crate) user: String,
    /// What was asked, in the server's words.
    pub(crate) request: &'static str,
    /// Microseconds since 1970.
    pub(crate) started_at: i64,
}

/// The latest traces of the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    kept: VecDeque<Trace>,
}

/// Older traces are forgotten.
const TRACES_MAX: usize = 1000;

impl Traces {
    pub(crate) fn push(&mut self, trace: Trace) {
        if self.kept.len() == TRACES_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(trace);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trace> {
        self.kept.iter()
    }
}
