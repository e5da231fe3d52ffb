//! Describes and starts a served cluster: finds a port that is free on every address.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpListener;
use mio::{Poll, Waker};

use super::sockets::{Server, WAKER};
use super::{SimulatedCluster, StartError};
use crate::cluster::{Cluster, ClusterConfig};
use crate::node::PortKind;

/// Describes a [`SimulatedCluster`] before it starts.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClusterBuilder {
    config: ClusterConfig,
    port: Option<u16>,
    shard_aware: bool,
    proxied: bool,
    cql: Vec<String>,
    #[cfg(feature = "tls")]
    tls: Option<super::Tls>,
}

/// How often another port is tried when one is taken on the address of some node.
const PORT_ATTEMPTS: usize = 50;

impl SimulatedClusterBuilder {
    /// Sets the number of nodes of the first datacenter (default: one).
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        if let Some(first) = self.config.datacenters.first_mut() {
            first.1 = nodes;
        }
        self
    }

    /// Sets how many shards each node has (default: two); with none, nodes do not tell about shards.
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

    /// Names the rack (default: `rack1`).
    #[must_use]
    pub fn rack(mut self, name: impl Into<String>) -> Self {
        self.config.rack = name.into();
        self
    }

    /// Sets how many racks each datacenter has (default: one).
    #[must_use]
    pub fn racks(mut self, racks: usize) -> Self {
        self.config.racks = racks;
        self
    }

    /// Sets how many tokens each node owns (default: sixteen).
    #[must_use]
    pub fn tokens_per_node(mut self, tokens: usize) -> Self {
        self.config.tokens_per_node = tokens;
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

    /// Opens a second port on every node, where the source port of a connection chooses its shard (default: no).
    #[must_use]
    pub fn shard_aware_port(mut self, open: bool) -> Self {
        self.shard_aware = open;
        self
    }

    /// Opens ports where connections begin with a header of the PROXY protocol, version 2 (default: no): one, and
    /// another one when there is a shard-aware port.
    #[must_use]
    pub fn proxied_ports(mut self, open: bool) -> Self {
        self.proxied = open;
        self
    }

    /// Encrypts all connections (default: none); see [`SimulatedCluster::authority`] for whom clients have to trust.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: super::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Runs these CQL statements on the new cluster, one after the other, as an administrator would: keyspaces, tables,
    /// rows (default: none). Those of several calls follow each other.
    ///
    /// ```
    /// use messina_testkit::SimulatedCluster;
    ///
    /// let cluster = SimulatedCluster::builder()
    ///     .cql([
    ///         "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
    ///         "CREATE TABLE app.users (id int PRIMARY KEY, name text)",
    ///     ])
    ///     .start()?;
    /// # Ok::<(), messina_testkit::StartError>(())
    /// ```
    #[must_use]
    pub fn cql(mut self, statements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.cql.extend(statements.into_iter().map(Into::into));
        self
    }

    /// Replaces all settings but the ports, encryption and the statements that are run.
    #[must_use]
    pub fn config(mut self, config: ClusterConfig) -> Self {
        self.config = config;
        self
    }

    /// Starts the cluster; every node listens when this returns, and the statements that were given have been run.
    ///
    /// Errors: a description that makes no sense, no port that is free on every address, a statement that the cluster
    /// refuses, no thread.
    pub fn start(self) -> Result<SimulatedCluster, StartError> {
        self.check()?;
        let unix_micros = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|passed| i64::try_from(passed.as_micros()).ok())
            .unwrap_or(0);
        let tls = self.tls_server();
        let mut config = self.config.clone();
        config.encrypted |= tls.is_some();
        let mut cluster = Cluster::new(Instant::now(), unix_micros, config);
        let mut listeners = Vec::new();
        for (kind, port, is_open) in [
            (PortKind::Normal, self.port, true),
            (PortKind::ShardAware, None, self.shard_aware),
            (PortKind::Proxied, None, self.proxied),
            (
                PortKind::ProxiedShardAware,
                None,
                self.proxied && self.shard_aware,
            ),
        ] {
            if !is_open {
                continue;
            }
            let found = self.listen(&cluster, port)?;
            let port = found.first().map_or(0, |(_, address, _)| address.port());
            cluster.set_port(kind, port);
            listeners.extend(found.into_iter().map(|listening| (kind, listening)));
        }
        let port = cluster.port(PortKind::Normal).unwrap_or(0);
        for cql in &self.cql {
            let run = cluster.execute(Instant::now(), cql);
            run.map_err(|source| StartError::Cql {
                cql: cql.clone(),
                source,
            })?;
        }
        let poll = Poll::new().map_err(StartError::Thread)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(StartError::Thread)?;
        let (commands, inbox) = channel();
        let mut server = Server::new(poll, cluster, inbox, tls.clone());
        for (kind, (node, address, listener)) in listeners {
            server
                .add_listener(node, kind, listener)
                .map_err(|source| StartError::Listen { address, source })?;
        }
        let thread = std::thread::Builder::new()
            .name("simulated-cluster".to_owned())
            .spawn(move || server.run())
            .map_err(StartError::Thread)?;
        Ok(SimulatedCluster {
            port,
            commands,
            waker,
            tls,
            thread: Some(thread),
        })
    }

    fn tls_server(&self) -> Option<super::tls::TlsServer> {
        #[cfg(feature = "tls")]
        let tls = self.tls.map(super::tls::TlsServer::new);
        #[cfg(not(feature = "tls"))]
        let tls = None;
        tls
    }

    fn check(&self) -> Result<(), StartError> {
        let config = &self.config;
        let nodes: usize = config.datacenters.iter().map(|(_, nodes)| nodes).sum();
        if nodes == 0 {
            return Err(StartError::Config("it has no nodes"));
        }
        #[cfg(feature = "tls")]
        if self.proxied && self.tls.is_some() {
            return Err(StartError::Config(
                "its ports behind a proxy cannot be encrypted",
            ));
        }
        if NODES_MAX < nodes {
            return Err(StartError::Config(
                "it has more nodes than there are loopback addresses for",
            ));
        }
        if config.tokens_per_node == 0 {
            return Err(StartError::Config("its nodes own no tokens"));
        }
        for (at, (name, _)) in config.datacenters.iter().enumerate() {
            if config
                .datacenters
                .iter()
                .skip(at + 1)
                .any(|(other, _)| other == name)
            {
                return Err(StartError::Config(
                    "two of its datacenters have the same name",
                ));
            }
        }
        Ok(())
    }

    /// Listens on one port of every node's address.
    fn listen(&self, cluster: &Cluster, port: Option<u16>) -> Result<Vec<Listening>, StartError> {
        let mut last = None;
        // A given port is tried once, a free one until some is free everywhere.
        let attempts = if port.is_some() { 1 } else { PORT_ATTEMPTS };
        for _ in 0..attempts {
            match listen_on_all(cluster, port.unwrap_or(0)) {
                Ok(listeners) => return Ok(listeners),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(StartError::Config("it has no nodes")))
    }
}

type Listening = (usize, SocketAddr, TcpListener);

/// The last byte of the address tells the node.
const NODES_MAX: usize = 254;

/// Port 0 takes any that is free on the first address, for all of them.
fn listen_on_all(cluster: &Cluster, port: u16) -> Result<Vec<Listening>, StartError> {
    let mut port = port;
    let mut listeners = Vec::new();
    for node in 0..cluster.node_count() {
        let Some(address) = cluster.address(node) else {
            continue;
        };
        let address = SocketAddr::new(address.ip(), port);
        let listener =
            TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })?;
        let address = listener
            .local_addr()
            .map_err(|source| StartError::Listen { address, source })?;
        port = address.port();
        listeners.push((node, address, listener));
    }
    Ok(listeners)
}
