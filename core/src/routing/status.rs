//! Owns the description of each host for people and programs that watch a session: health, connections, last failure.
//! It is made on request from a snapshot; no request of the application needs it.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;

use super::shard::Shard;
use super::snapshot::{Host, HostState, Loads, Routing};
use crate::error::session::NodeFailure;

/// What a session knows of one host and its connections at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostStatus {
    /// The host: identity, address, place, health, and whether it is preferred and allowed.
    pub host: Host,
    /// How many shards it has; `None` for a node without shards or without a connection so far.
    pub shards: Option<NonZeroU16>,
    /// How many of its shards have a connection that serves requests.
    pub shards_connected: u16,
    /// The open connections for requests, ordered by shard.
    pub connections: Vec<ConnectionStatus>,
}

/// What a session knows of one open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// The shard that serves it; `None` for a node without shards.
    pub shard: Option<Shard>,
    /// How many requests wait for an answer on it.
    pub in_flight: u32,
}

impl HostStatus {
    /// Counts the requests that wait for an answer from this host.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let each = self.connections.iter();
        each.map(|connection| u64::from(connection.in_flight)).sum()
    }

    /// Why the last attempt to connect failed or the last connection ended, while none is open.
    #[must_use]
    pub fn last_error(&self) -> Option<&NodeFailure> {
        self.host.failure.as_deref()
    }

    /// When the next attempt to connect is due, while none is open; a sign of life makes it come sooner.
    #[must_use]
    pub fn next_try(&self) -> Option<Instant> {
        self.host.next_try
    }
}

impl<H> Routing<H> {
    /// Lists what last failed at each member without a connection, and when it is tried again.
    #[must_use]
    pub fn failures(&self) -> Vec<Arc<NodeFailure>> {
        let members = self.hosts.iter();
        members
            .filter(|host| host.state != HostState::Removed)
            .filter_map(|host| host.failure.clone())
            .collect()
    }

    /// Describes every member of the cluster, also those that get no connections.
    #[must_use]
    pub fn status(&self, loads: &dyn Loads<H>) -> Vec<HostStatus> {
        let describe = |(host, pool): (&Host, &super::PoolView<H>)| HostStatus {
            host: host.clone(),
            shards: pool.sharder().map(|sharder| sharder.shards),
            shards_connected: pool.shards_connected(),
            connections: pool
                .by_shard()
                .map(|(shard, handle)| ConnectionStatus {
                    shard,
                    in_flight: loads.in_flight(handle),
                })
                .collect(),
        };
        let members = self.hosts.iter().zip(self.pools.iter());
        members
            .filter(|(host, _)| host.state != HostState::Removed)
            .map(describe)
            .collect()
    }
}

/// Names where a host is, for people.
pub(crate) fn place(datacenter: Option<&str>, rack: Option<&str>) -> String {
    let (datacenter, rack) = (datacenter.unwrap_or("?"), rack.unwrap_or("?"));
    format!("({datacenter}, {rack})")
}

impl fmt::Display for HostStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let place = place(host.datacenter.as_deref(), host.rack.as_deref());
        write!(out, "{} {place} {}", host.address, host.state)?;
        if !host.allowed {
            out.write_str(", not allowed by the host filter")?;
        }
        let count = self.connections.len();
        match self.shards {
            Some(shards) => write!(
                out,
                ", {count} connections to {} of {shards} shards",
                self.shards_connected
            )?,
            None => write!(out, ", {count} connections")?,
        }
        write!(out, ", {} in flight", self.in_flight())?;
        match self.last_error() {
            Some(failure) => write!(out, "; last failure: {failure}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for HostState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "not tried yet",
            Self::Up => "up",
            Self::Down => "down",
            Self::Removed => "removed",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use uuid::Uuid;

    use super::*;
    use crate::error::session::{NodeCause, NodeName};
    use crate::routing::{PoolView, Sharder};

    struct Fixed;

    impl Loads<u32> for Fixed {
        fn in_flight(&self, handle: &u32) -> u32 {
            *handle
        }
    }

    #[test]
    fn every_member_is_described_and_those_that_left_are_not() {
        let host = |last: u8, state| Host {
            state,
            ..Host::new(
                Uuid::from_u128(last.into()),
                SocketAddr::from(([192, 0, 2, last], 9042)),
            )
        };
        let mut up = host(1, HostState::Up);
        (up.datacenter, up.rack) = (Some("dc1".into()), Some("r1".into()));
        let mut down = host(3, HostState::Down);
        down.failure = Some(Arc::new(NodeFailure {
            node: NodeName::ContactPoint("node3".into()),
            cause: NodeCause::Untranslated,
            retry_in: None,
        }));
        let sharder = Sharder {
            shards: NonZeroU16::new(4).expect("not zero"),
            ignore_msb: 12,
        };
        let open = vec![
            (Some(Shard(3)), 5),
            (Some(Shard(1)), 2),
            (Some(Shard(3)), 0),
        ];
        let routing = Routing {
            hosts: [up, host(2, HostState::Removed), down].into(),
            pools: [
                PoolView::new(Some(sharder), open),
                PoolView::default(),
                PoolView::default(),
            ]
            .into(),
            ..Routing::default()
        };
        let status = routing.status(&Fixed);
        assert_eq!(status.len(), 2);
        assert_eq!(
            (status[0].shards, status[0].shards_connected),
            (NonZeroU16::new(4), 2)
        );
        assert_eq!(status[0].in_flight(), 7);
        let shards: Vec<_> = status[0].connections.iter().map(|own| own.shard).collect();
        assert_eq!(shards, [1, 3, 3].map(|shard| Some(Shard(shard))));
        assert_eq!(
            status[0].to_string(),
            "192.0.2.1:9042 (dc1, r1) up, 3 connections to 2 of 4 shards, 7 in flight"
        );
        let text = status[1].to_string();
        assert!(
            text.contains("(?, ?) down, 0 connections") && text.contains("translator"),
            "{text}"
        );
    }
}
