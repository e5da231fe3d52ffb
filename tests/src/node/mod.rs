//! One simulated ScyllaDB node: bytes in, bytes out per connection. Sockets and threads belong to the module `serve`,
//! the cluster around the node to the module `cluster`.

pub(crate) mod auth;
mod availability;
mod compress;
pub(crate) mod cql;
mod error;
pub(crate) mod events;
mod intercept;
pub(crate) mod prepared;
pub(crate) mod protocol;
pub(crate) mod rate_limit;
mod requests;
pub(crate) mod schema;
mod shards;
pub(crate) mod store;
pub(crate) mod system_tables;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tracing;
pub(crate) mod values;

use std::net::SocketAddr;

use uuid::Uuid;

pub use error::{CqlError, CqlErrorDetail};
pub use intercept::{Interceptor, Reaction, RequestKind, SeenRequest};
pub use shards::PortKind;

pub(crate) use shards::{IGNORE_MSB, Shards};

use prepared::PreparedStatements;
use system_tables::NodeFacts;

/// One node of the cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host_id: Uuid,
    pub(crate) address: SocketAddr,
    pub(crate) datacenter: String,
    pub(crate) rack: String,
    pub(crate) tokens: Vec<i64>,
    pub(crate) state: NodeState,
    pub(crate) shards: Shards,
    pub(crate) prepared: PreparedStatements,
    pub(crate) statistics: NodeStatistics,
}

/// Whether a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It runs.
    Up,
    /// It is stopped and may come back.
    Down,
    /// It left the cluster for good.
    Removed,
}

/// What a node has done since the cluster started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatistics {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// QUERY requests.
    pub queries: u64,
    /// PREPARE requests.
    pub prepares: u64,
    /// EXECUTE requests.
    pub executions: u64,
    /// BATCH requests.
    pub batches: u64,
    /// EXECUTE requests for statements that the node did not know.
    pub unprepared: u64,
    /// QUERY, EXECUTE and BATCH requests by the shard whose connection they came over.
    pub by_shard: Vec<u64>,
}

impl Node {
    pub(crate) fn facts(&self) -> NodeFacts {
        NodeFacts {
            host_id: self.host_id,
            address: self.address.ip(),
            datacenter: self.datacenter.clone(),
            rack: self.rack.clone(),
            tokens: self.tokens.clone(),
            up: self.state == NodeState::Up,
        }
    }
}
