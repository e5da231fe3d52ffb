//! A simulated ScyllaDB cluster for tests: in memory or on loopback sockets.
//!
//! Three lines give an application's test a cluster of its own, on free loopback ports, with no container and no
//! installation. Dropping it stops it.
//!
//! ```
//! use messina_testkit::SimulatedCluster;
//!
//! # fn main() -> Result<(), messina_testkit::StartError> {
//! let keyspace = "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}";
//! let cluster = SimulatedCluster::builder().nodes(3).shards(4).cql([keyspace]).start()?;
//! let contact_points = cluster.contact_points(); // give these to any CQL driver
//! # assert_eq!(contact_points.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! The nodes speak the binary protocol of ScyllaDB (version 4) and a large part of CQL: keyspaces, tables, user types,
//! prepared statements, paging, conditional writes, batches, counters, TTLs, the system and schema tables that drivers
//! read, and events; the module [`grammar`] tells which texts they take. Programs in other languages use the program
//! `simulated-cluster` from this crate.
//!
//! The simulation itself ([`cluster::Cluster`]) is sans-IO: bytes and instants in, bytes and effects out. [`serve`]
//! puts it on real sockets with one thread; a deterministic test can drive it without any.

#![forbid(unsafe_code)]

#[path = "../cassandra/mod.rs"]
pub mod cassandra;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod cluster;
pub mod grammar;
pub mod node;
pub mod peer;
pub mod serve;
pub mod sim;

use std::time::Instant;

pub use cluster::ClusterConfig;
pub use serve::{SimulatedCluster, SimulatedClusterBuilder, StartError};

/// An instant for virtual time to count from.
///
/// What runs in virtual time cannot tell which one it is: only distances from it mean anything.
#[must_use]
pub fn virtual_start() -> Instant {
    Instant::now()
}
