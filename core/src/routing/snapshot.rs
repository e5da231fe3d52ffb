//! Owns the published picture of the cluster that requests route by: hosts, pools, ring, tables.
//! It is immutable; the control plane publishes a new one for every change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::replicas::PlacementIdx;
use super::ring::Ring;
use super::shard::Shard;
use super::token::{Partitioner, Token};
use crate::error::session::NodeFailure;
pub use crate::pool::view::PoolView;

/// The index of a host, stable for the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIdx(pub u16);

impl HostIdx {
    /// Every index there can be, in order.
    #[inline]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=u16::MAX).map(Self)
    }

    /// The index for slices.
    #[must_use]
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// The index of a table, stable for the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableIdx(pub u32);

/// What is known about the health of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostState {
    /// No connection to it was tried yet.
    Unknown,
    /// At least one connection to it is open.
    Up,
    /// No connection to it is open.
    Down,
    /// It left the cluster; its slot stays so that indexes keep their meaning.
    Removed,
}

/// One member of the cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Host {
    /// The identity that stays when the address changes.
    pub id: Uuid,
    /// The address and port the cluster gives to clients, before any translation.
    pub address: SocketAddr,
    /// The datacenter.
    pub datacenter: Option<Arc<str>>,
    /// The rack.
    pub rack: Option<Arc<str>>,
    /// The health.
    pub state: HostState,
    /// Whether the session prefers this host: it is in the local datacenter, or there is no local one.
    pub local: bool,
    /// Whether it is preferred among those: it is in the local rack. False for all where no rack is preferred.
    pub local_rack: bool,
    /// Whether the host filter lets us connect to it.
    pub allowed: bool,
    /// Whether the session wants connections to it: the filter allows it, the policy of the session's profile reaches it,
    /// and it is not beyond that policy's limit for its datacenter.
    pub wanted: bool,
    /// The version of the server, as its tables name it.
    pub release_version: Option<Arc<str>>,
    /// Why the last attempt to connect failed or the last connection ended, while none is open.
    pub failure: Option<Arc<NodeFailure>>,
    /// When the next attempt to connect is due, while none is open; a sign of life makes it come sooner.
    pub next_try: Option<Instant>,
}

impl Host {
    /// Makes a host that nothing but its identity and address is known of.
    #[must_use]
    pub fn new(id: Uuid, address: SocketAddr) -> Self {
        Self {
            id,
            address,
            datacenter: None,
            rack: None,
            state: HostState::Unknown,
            local: true,
            local_rack: false,
            allowed: true,
            wanted: true,
            release_version: None,
            failure: None,
            next_try: None,
        }
    }

    /// Says whether requests may be sent there: it is a member and the filter allows it.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.allowed && self.state != HostState::Removed
    }
}

/// What routing needs to know of one table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRouting {
    /// The keyspace, in exact case.
    pub keyspace: Arc<str>,
    /// The table or view, in exact case.
    pub name: Arc<str>,
    /// How its keys are hashed.
    pub partitioner: Partitioner,
    /// Where its replicas are; `None` once it was dropped.
    pub placement: Option<PlacementIdx>,
}

/// The picture of the cluster that requests route by.
///
/// Published behind an `Arc`; a new picture shares with the old one whatever did not change.
#[derive(Debug)]
pub struct Routing<H> {
    /// Every host of the session's life, by [`HostIdx`].
    pub hosts: Arc<[Host]>,
    /// The open connections, by [`HostIdx`].
    pub pools: Arc<[PoolView<H>]>,
    /// The tokens and replica lists.
    pub ring: Arc<Ring>,
    /// Every table of the session's life, by [`TableIdx`].
    pub tables: Arc<[TableRouting]>,
    /// The indexes of `tables`, ordered by keyspace and name.
    pub table_order: Arc<[TableIdx]>,
    /// The datacenter that counts as local, as configured or as inferred.
    pub local_datacenter: Option<Arc<str>>,
    /// The rack that counts as local, as configured or as inferred.
    pub local_rack: Option<Arc<str>>,
    /// The keyspace that the connections for requests are in, or are on their way into; none until one was entered.
    pub keyspace: Option<Arc<str>>,
    /// Grows by one with every published picture.
    pub generation: u64,
}

impl<H> Clone for Routing<H> {
    fn clone(&self) -> Self {
        Self {
            hosts: Arc::clone(&self.hosts),
            pools: Arc::clone(&self.pools),
            ring: Arc::clone(&self.ring),
            tables: Arc::clone(&self.tables),
            table_order: Arc::clone(&self.table_order),
            local_datacenter: self.local_datacenter.clone(),
            local_rack: self.local_rack.clone(),
            keyspace: self.keyspace.clone(),
            generation: self.generation,
        }
    }
}

impl<H> Default for Routing<H> {
    fn default() -> Self {
        Self {
            hosts: Arc::new([]),
            pools: Arc::new([]),
            ring: Arc::default(),
            tables: Arc::new([]),
            table_order: Arc::new([]),
            local_datacenter: None,
            local_rack: None,
            keyspace: None,
            generation: 0,
        }
    }
}

impl<H> Routing<H> {
    /// Finds a table by its exact names; a search for the time a statement is prepared, not for each request.
    #[must_use]
    pub fn table_idx(&self, keyspace: &str, table: &str) -> Option<TableIdx> {
        let key = |idx: &TableIdx| self.table(*idx).map(|own| (&*own.keyspace, &*own.name));
        let at = self
            .table_order
            .binary_search_by(|idx| key(idx).cmp(&Some((keyspace, table))))
            .ok()?;
        self.table_order.get(at).copied()
    }

    /// The table at an index.
    #[inline]
    #[must_use]
    pub fn table(&self, table: TableIdx) -> Option<&TableRouting> {
        self.tables.get(usize::try_from(table.0).ok()?)
    }

    /// Lists the replicas of a token of a table in ring order; empty where they are not known.
    ///
    /// Costs one binary search over the ring: no hash, no string, no lock.
    #[inline]
    #[must_use]
    pub fn replicas(&self, table: TableIdx, token: Token) -> &[HostIdx] {
        let placement = self.table(table).and_then(|table| table.placement);
        placement.map_or(&[], |placement| self.ring.replicas(placement, token))
    }

    /// The host at an index.
    #[inline]
    #[must_use]
    pub fn host(&self, host: HostIdx) -> Option<&Host> {
        self.hosts.get(host.at())
    }

    /// The open connections of a host.
    #[inline]
    #[must_use]
    pub fn pool(&self, host: HostIdx) -> Option<&PoolView<H>> {
        self.pools.get(host.at())
    }

    /// Finds a current member by its identity; a scan, for rare use.
    #[must_use]
    pub fn host_by_id(&self, id: Uuid) -> Option<HostIdx> {
        let mut all = HostIdx::all().zip(self.hosts.iter());
        let found = all.find(|(_, host)| host.id == id && host.state != HostState::Removed);
        found.map(|(idx, _)| idx)
    }

    /// Says whether any host is connected to shard by shard.
    #[must_use]
    pub fn is_shard_aware(&self) -> bool {
        self.pools.iter().any(|pool| pool.sharder().is_some())
    }

    /// Tells for each host with shards how many there are and how many have a connection.
    ///
    /// Every shard can be reached on its own once both numbers of every host are the same.
    #[must_use]
    pub fn shard_aware_stats(&self) -> Vec<ShardAwareStats> {
        let stats = |(host, pool): (&Host, &PoolView<H>)| {
            let shards = pool.sharder()?.shards.get();
            Some(ShardAwareStats {
                host_id: host.id,
                address: host.address,
                shards,
                connected: pool.shards_connected(),
            })
        };
        self.hosts
            .iter()
            .zip(self.pools.iter())
            .filter_map(stats)
            .collect()
    }

    /// The shard of a host that owns a token; `None` for a node without shards or without a connection so far.
    #[inline]
    #[must_use]
    pub fn shard_of(&self, host: HostIdx, token: Token) -> Option<Shard> {
        Some(self.pool(host)?.sharder()?.shard_of(token))
    }
}

/// How many of a host's shards have a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardAwareStats {
    /// The host.
    pub host_id: Uuid,
    /// Its address, before any translation.
    pub address: SocketAddr,
    /// How many shards it has.
    pub shards: u16,
    /// How many of them have a connection that serves requests.
    pub connected: u16,
}

/// How busy the connections are.
pub trait Loads<H> {
    /// How many requests wait for an answer on a connection.
    fn in_flight(&self, handle: &H) -> u32;

    /// Says whether a further request would have to wait for one of those in flight.
    fn is_full(&self, _handle: &H) -> bool {
        false
    }

    /// Takes note that a request wanted a shard that has no connection, and went to another one.
    fn missed(&self, _host: HostIdx, _shard: Shard) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_exact_names() {
        let table = |keyspace: &str, name: &str| TableRouting {
            keyspace: keyspace.into(),
            name: name.into(),
            partitioner: Partitioner::Murmur3,
            placement: None,
        };
        let routing = Routing::<()> {
            tables: Arc::new([table("ks", "z"), table("ks", "A"), table("a", "z")]),
            table_order: Arc::new([TableIdx(2), TableIdx(1), TableIdx(0)]),
            ..Routing::default()
        };
        assert_eq!(routing.table_idx("ks", "z"), Some(TableIdx(0)));
        assert_eq!(routing.table_idx("ks", "A"), Some(TableIdx(1)));
        assert_eq!(routing.table_idx("ks", "a"), None);
        assert!(routing.replicas(TableIdx(0), Token(1)).is_empty());
        assert!(routing.replicas(TableIdx(9), Token(1)).is_empty());
    }
}
