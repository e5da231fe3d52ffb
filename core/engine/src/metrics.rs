//! Counts of a session, read from what is there anyway: no request pays for them.

use std::sync::Arc;

use messina_core::routing::Routing;

use crate::lane::Lane;

/// Counts of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests started since the session was made, the pages of a read and the PREPAREs of a text counted singly.
    pub requests: u64,
    /// Requests that wait for their answer.
    pub in_flight: u64,
    /// Open connections for requests.
    pub connections: usize,
    /// Members of the cluster with an open connection.
    pub hosts_connected: usize,
}

impl Metrics {
    pub(crate) fn of(routing: &Routing<Arc<Lane>>, requests: u64) -> Self {
        let lanes = || routing.pools.iter().flat_map(|pool| pool.connections());
        Self {
            requests,
            in_flight: lanes().map(|lane| u64::from(lane.in_flight())).sum(),
            connections: lanes().count(),
            hosts_connected: routing.pools.iter().filter(|pool| !pool.is_empty()).count(),
        }
    }
}
