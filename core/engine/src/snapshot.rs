//! The picture of the cluster that an application takes: routing data, and the state of every host.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use messina_core::routing::{HostStatus, Loads, Routing};

use crate::lane::Lane;

/// A picture of the cluster at one moment: its members, their connections, where data lies.
///
/// Gives access to the [`Routing`] that requests go by. Shows itself with one line for each member.
#[derive(Clone, Debug)]
pub struct ClusterSnapshot(Arc<Routing<Arc<Lane>>>);

impl ClusterSnapshot {
    pub(crate) fn new(routing: Arc<Routing<Arc<Lane>>>) -> Self {
        Self(routing)
    }

    /// Describes every member of the cluster: health, shards, connections with the requests in flight now, and while no
    /// connection is open the last failure and the time of the next try.
    #[must_use]
    pub fn status(&self) -> Vec<HostStatus> {
        self.0.status(&InFlight)
    }
}

impl Deref for ClusterSnapshot {
    type Target = Routing<Arc<Lane>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for ClusterSnapshot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status();
        status.iter().enumerate().try_for_each(|(at, host)| {
            let end = if at == 0 { "" } else { "\n" };
            write!(out, "{end}{host}")
        })
    }
}

/// Reads how busy connections are, and nothing else.
pub(crate) struct InFlight;

impl Loads<Arc<Lane>> for InFlight {
    fn in_flight(&self, handle: &Arc<Lane>) -> u32 {
        handle.in_flight()
    }

    fn is_full(&self, handle: &Arc<Lane>) -> bool {
        handle.is_full()
    }
}
