//! The nodes of the small cluster, as plain data.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::cluster::ConnId;
use crate::conn::Role;

/// A node of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: u128,
    pub(super) address: SocketAddr,
    pub(super) cluster: &'static str,
    pub(super) datacenter: &'static str,
    pub(super) rack: &'static str,
    pub(super) tokens: Vec<String>,
    pub(super) alive: bool,
    pub(super) member: bool,
    pub(super) schema_version: u128,
    pub(super) sharding: Sharding,
}

/// How a node is sharded, and how it treats those who come.
#[derive(Clone, Debug)]
pub(super) struct Sharding {
    /// 0 where the node does not tell of shards.
    pub(super) shards: u16,
    pub(super) ignore_msb: u8,
    /// The port where the client's own port chooses the shard.
    pub(super) port: Option<u16>,
    pub(super) tls_port: Option<u16>,
    pub(super) door: Door,
    /// What a translation of addresses adds to source ports.
    pub(super) nat: u16,
    /// The shards of the next connections on the regular port; after that, the least busy one.
    pub(super) next: VecDeque<u16>,
}

/// What becomes of those who come to the shard-aware port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    Refused,
    Silent,
}

/// The shard of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landed {
    pub(super) conn: ConnId,
    pub(super) node: SocketAddr,
    pub(super) role: Role,
    pub(super) shard: u16,
    pub(super) regular: bool,
}

pub(super) fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9042))
}

pub(super) fn node(last: u8) -> Node {
    Node {
        id: u128::from(last),
        address: address(last),
        cluster: "ours",
        datacenter: "dc1",
        rack: ["a", "b", "c"][usize::from(last) % 3],
        tokens: vec![(i64::from(last) * 100).to_string()],
        alive: true,
        member: true,
        schema_version: 1,
        sharding: Sharding {
            shards: 1,
            ignore_msb: 12,
            port: None,
            tls_port: None,
            door: Door::Open,
            nat: 0,
            next: VecDeque::new(),
        },
    }
}
