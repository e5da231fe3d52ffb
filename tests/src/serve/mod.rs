//! Runs a simulated cluster on real loopback addresses with one thread. What the nodes answer is decided elsewhere.

use std::io;
use std::net::SocketAddr;

use crate::node::CqlError;
use uuid::Uuid;

use crate::cluster::ClusterConfig;

/// A simulated cluster that listens on loopback addresses until it is dropped.
///
/// Node 0 listens on 127.0.0.1, node 1 on 127.0.0.2 and so on, all on the same port.
#[derive(Debug)]
pub struct SimulatedCluster {
    addresses: Vec<SocketAddr>,
}

impl SimulatedCluster {
    /// Describes a cluster before it starts.
    #[must_use]
    pub fn builder() -> SimulatedClusterBuilder {
        SimulatedClusterBuilder::default()
    }

    /// The addresses of all nodes as `host:port`.
    #[must_use]
    pub fn contact_points(&self) -> Vec<String> {
        self.addresses.iter().map(SocketAddr::to_string).collect()
    }

    /// The address of one node. Panics when there is no such node.
    #[must_use]
    pub fn address(&self, node: usize) -> SocketAddr {
        self.addresses[node]
    }

    /// The port that every node listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }

    /// The host id of one node. Panics when there is no such node.
    #[must_use]
    pub fn host_id(&self, node: usize) -> Uuid {
        let _ = node;
        todo!()
    }

    /// Stops a node: its connections end, nobody can connect, the other nodes announce it as down.
    pub fn stop_node(&self, node: usize) {
        let _ = node;
        todo!()
    }

    /// Starts a stopped node again: it has forgotten its prepared statements, the other nodes announce it as up.
    pub fn start_node(&self, node: usize) {
        let _ = node;
        todo!()
    }

    /// Adds a node and announces it; returns its number.
    pub fn add_node(&self, datacenter: &str, rack: &str) -> io::Result<usize> {
        let _ = (datacenter, rack);
        todo!()
    }

    /// Removes a node for good and announces that.
    pub fn remove_node(&self, node: usize) {
        let _ = node;
        todo!()
    }

    /// Makes a node forget its prepared statements.
    pub fn forget_prepared_statements(&self, node: usize) {
        let _ = node;
        todo!()
    }

    /// Ends every connection to a node; it goes on listening.
    pub fn drop_connections(&self, node: usize) {
        let _ = node;
        todo!()
    }

    /// Runs one CQL statement without a connection, as an administrator would, for setting up a test.
    pub fn execute(&self, cql: &str) -> Result<(), CqlError> {
        let _ = cql;
        todo!()
    }

    /// Stops the cluster; dropping it does the same.
    pub fn stop(self) {}
}

/// Describes a [`SimulatedCluster`] before it starts.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClusterBuilder {
    config: ClusterConfig,
    port: Option<u16>,
}

impl SimulatedClusterBuilder {
    /// Sets the number of nodes of the first datacenter (default: one).
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        if let Some(first) = self.config.datacenters.first_mut() {
            first.1 = nodes;
        }
        self
    }

    /// Sets how many shards each node has (default: two).
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.config.shards = shards;
        self
    }

    /// Names the first datacenter (default: `dc1`).
    #[must_use]
    pub fn datacenter(mut self, name: impl Into<String>) -> Self {
        if let Some(first) = self.config.datacenters.first_mut() {
            first.0 = name.into();
        }
        self
    }

    /// Adds another datacenter with its number of nodes.
    #[must_use]
    pub fn another_datacenter(mut self, name: impl Into<String>, nodes: usize) -> Self {
        self.config.datacenters.push((name.into(), nodes));
        self
    }

    /// Sets how many racks each datacenter has (default: one).
    #[must_use]
    pub fn racks(mut self, racks: usize) -> Self {
        self.config.racks = racks;
        self
    }

    /// Makes clients log in with this role and password.
    #[must_use]
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.config.credentials = Some((user.into(), password.into()));
        self
    }

    /// Listens on this port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Replaces all settings but the port.
    #[must_use]
    pub fn config(mut self, config: ClusterConfig) -> Self {
        self.config = config;
        self
    }

    /// Starts the cluster; every node listens when this returns.
    pub fn start(self) -> Result<SimulatedCluster, StartError> {
        let _ = self.port;
        todo!()
    }
}

/// Why a simulated cluster could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The description of the cluster makes no sense.
    #[error("the cluster cannot look like this: {0}")]
    Config(&'static str),
    /// A socket could not be opened.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was tried.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The thread or its poll instance could not be created.
    #[error("cannot start the thread of the cluster")]
    Thread(#[source] io::Error),
}
