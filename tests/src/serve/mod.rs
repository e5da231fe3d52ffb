//! Runs a simulated cluster on real loopback addresses with one thread. What the nodes answer is decided elsewhere.

mod builder;
mod proxy;
mod sockets;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use uuid::Uuid;

use crate::cluster::Cluster;
use crate::node::{CqlError, Interceptor, NodeStatistics, PortKind, Reaction, SeenRequest};

pub use builder::SimulatedClusterBuilder;
use sockets::Command;
#[cfg(feature = "tls")]
pub use tls::Tls;

/// A simulated cluster that listens on loopback addresses until it is dropped.
///
/// Node 0 listens on 127.0.0.1, node 1 on 127.0.0.2 and so on, all on the same port. Every method waits until the
/// cluster has done what it was asked for: after [`SimulatedCluster::stop_node`] nobody can connect to that node.
pub struct SimulatedCluster {
    port: u16,
    commands: Sender<Command>,
    waker: mio::Waker,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is none"))]
    tls: Option<tls::TlsServer>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for SimulatedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedCluster")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl SimulatedCluster {
    /// Describes a cluster before it starts.
    #[must_use]
    pub fn builder() -> SimulatedClusterBuilder {
        SimulatedClusterBuilder::default()
    }

    /// The addresses of all nodes that have not left, as `host:port`.
    #[must_use]
    pub fn contact_points(&self) -> Vec<String> {
        self.with(|cluster, _| {
            let members = (0..cluster.node_count())
                .filter(|node| cluster.state(*node) != Some(crate::node::NodeState::Removed));
            members
                .filter_map(|node| cluster.address(node))
                .map(|address| address.to_string())
                .collect()
        })
    }

    /// The address of one node.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    #[must_use]
    pub fn address(&self, node: usize) -> SocketAddr {
        self.with(move |cluster, _| cluster.address(node))
            .expect("there is such a node")
    }

    /// The authority that signed the certificate of the nodes, for clients to trust and to get certificates from;
    /// `None` when connections are not encrypted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn authority(&self) -> Option<&crate::certificates::Authority> {
        self.tls.as_ref().map(|tls| &*tls.authority)
    }

    /// The port that every node listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of every node on which the source port chooses the shard, if it was opened.
    #[must_use]
    pub fn shard_aware_port(&self) -> Option<u16> {
        self.with(|cluster, _| cluster.port(PortKind::ShardAware))
    }

    /// The port of every node on which connections begin with the header of a proxy, if it was opened.
    #[must_use]
    pub fn proxied_port(&self) -> Option<u16> {
        self.with(|cluster, _| cluster.port(PortKind::Proxied))
    }

    /// The same where the source port that the proxy tells chooses the shard, if it was opened.
    #[must_use]
    pub fn proxied_shard_aware_port(&self) -> Option<u16> {
        self.with(|cluster, _| cluster.port(PortKind::ProxiedShardAware))
    }

    /// The host id of one node.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    #[must_use]
    pub fn host_id(&self, node: usize) -> Uuid {
        self.with(move |cluster, _| cluster.host_id(node))
            .expect("there is such a node")
    }

    /// What one node has done so far.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    #[must_use]
    pub fn statistics(&self, node: usize) -> NodeStatistics {
        self.with(move |cluster, _| cluster.statistics(node))
            .expect("there is such a node")
    }

    /// Stops a node: its connections end, nobody can connect, the other nodes announce it as down.
    pub fn stop_node(&self, node: usize) {
        self.with(move |cluster, _| cluster.stop_node(node));
    }

    /// Starts a stopped node again: it has forgotten its prepared statements, the other nodes announce it as up.
    pub fn start_node(&self, node: usize) {
        self.with(move |cluster, _| cluster.start_node(node));
    }

    /// Adds a node and announces it; returns its number.
    ///
    /// Errors: the port is taken on the address of the new node, which is then gone again.
    pub fn add_node(&self, datacenter: &str, rack: &str) -> io::Result<usize> {
        let (datacenter, rack) = (datacenter.to_owned(), rack.to_owned());
        let node = self.with(move |cluster, _| cluster.add_node(&datacenter, &rack));
        let address = self.address(node);
        // The listener is there or it is not: a connection tells.
        std::net::TcpStream::connect(address)
            .map(|_| node)
            .inspect_err(|_| self.remove_node(node))
    }

    /// Removes a node for good and announces that.
    pub fn remove_node(&self, node: usize) {
        self.with(move |cluster, _| cluster.remove_node(node));
    }

    /// Makes a node forget its prepared statements.
    pub fn forget_prepared_statements(&self, node: usize) {
        self.with(move |cluster, _| cluster.forget_prepared_statements(node));
    }

    /// Ends every connection to a node; it goes on listening.
    pub fn drop_connections(&self, node: usize) {
        self.with(move |cluster, _| cluster.drop_connections(node));
    }

    /// Asks a function about each request from now on, to delay, refuse or swallow it.
    pub fn intercept(&self, decide: impl FnMut(&SeenRequest<'_>) -> Reaction + Send + 'static) {
        let interceptor = Interceptor::new(decide);
        self.with(move |cluster, _| cluster.intercept(Some(interceptor)));
    }

    /// Answers every request as usual again.
    pub fn stop_intercepting(&self) {
        self.with(|cluster, _| cluster.intercept(None));
    }

    /// Runs one CQL statement without a connection, as an administrator would, for setting up a test.
    ///
    /// Errors: what a client would be told.
    pub fn execute(&self, cql: &str) -> Result<(), CqlError> {
        let cql = cql.to_owned();
        self.with(move |cluster, now| cluster.execute(now, &cql))
    }

    /// The connections of all nodes with the options that they began with, as `system.clients` shows them.
    #[must_use]
    pub fn clients(&self) -> Vec<crate::cluster::Client> {
        self.with(|cluster, _| cluster.clients())
    }

    /// Stops the cluster; dropping it does the same.
    pub fn stop(self) {}

    /// Runs a function on the thread of the cluster and waits for its result.
    fn with<R: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Cluster, Instant) -> R + Send + 'static,
    ) -> R {
        let (answer, result) = channel();
        let command: Command = Box::new(move |cluster, now| {
            let value = run(cluster, now);
            // The answer goes out when its effects on the sockets are done.
            Box::new(move || {
                let _ = answer.send(value);
            })
        });
        let sent = self.commands.send(command).is_ok() && self.waker.wake().is_ok();
        match result.recv() {
            Ok(value) if sent => value,
            _ => panic!("the thread of the simulated cluster ended"),
        }
    }
}

impl Drop for SimulatedCluster {
    fn drop(&mut self) {
        // A closed channel tells the thread to end.
        let (closed, _) = channel();
        self.commands = closed;
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
    /// The cluster refuses a statement that it was to be set up with.
    #[error("the cluster refuses {cql:?}")]
    Cql {
        /// The statement.
        cql: String,
        /// What a client would be told.
        source: CqlError,
    },
    /// The thread or its poll instance could not be created.
    #[error("cannot start the thread of the cluster")]
    Thread(#[source] io::Error),
}

#[cfg(test)]
mod tests;
