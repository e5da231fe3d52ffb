//! What is counted in the life of a session. Who counts it, and how, is the business of whoever drives one.

use crate::notify::Note;
use crate::routing::{Loads, Routing};

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
    /// Notes for operators, in total.
    pub notes: u64,
    /// Those of them that gave way to newer ones before anybody read them.
    pub notes_lost: u64,
}

impl Metrics {
    /// Adds what can be read from a picture of the cluster to what was counted.
    #[must_use]
    pub fn beside<H>(mut self, routing: &Routing<H>, loads: &dyn Loads<H>) -> Self {
        let handles = || routing.pools.iter().flat_map(|pool| pool.connections());
        self.in_flight = handles()
            .map(|handle| u64::from(loads.in_flight(handle)))
            .sum();
        self.connections = handles().count();
        self.hosts_connected = routing.pools.iter().filter(|pool| !pool.is_empty()).count();
        self.snapshots = routing.generation;
        self
    }

    /// Says whether a note tells of a connection that ended without the driver's doing.
    #[must_use]
    pub const fn is_loss(note: &Note) -> bool {
        matches!(note, Note::ConnectionLost { .. })
    }
}
