//! The simulated cluster: several nodes that share schema and data, and the topology around them.
//! It owns no socket, thread or clock; the module `serve` puts it on real ones.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use messina_core::wire::event::TopologyChange;
use uuid::Uuid;

use crate::node::cql::executor::Database;
use crate::node::cql::functions::{mix, uuid_v4};
use crate::node::events::Announcement;
use crate::node::prepared::PreparedStatements;
use crate::node::protocol::{Frame, NodeConnection};
use crate::node::rate_limit::RequestRates;
use crate::node::system_tables::{ClientFacts, NodeFacts, SystemView, fresh_schema};
use crate::node::tracing::Traces;
use crate::node::{CqlError, Interceptor, Node, NodeState, NodeStatistics, PortKind, Shards};

/// What a simulated cluster looks like when it starts.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The name shown in `system.local`.
    pub cluster_name: String,
    /// The datacenters with their number of nodes, in the order in which the nodes are numbered.
    pub datacenters: Vec<(String, usize)>,
    /// The name of the only rack, or what the names of several begin with.
    pub rack: String,
    /// How many racks each datacenter has; its nodes are dealt out to them in turn.
    pub racks: usize,
    /// How many shards each node has; with none, a node does not tell about shards.
    pub shards: u16,
    /// How many tokens each node owns.
    pub tokens_per_node: usize,
    /// The role and password that clients must give; `None` asks for none.
    pub credentials: Option<(String, String)>,
    /// Whether nodes offer compression.
    pub compression: bool,
    /// The port that all nodes listen on.
    pub port: u16,
    /// The port on which the source port chooses the shard, if there is one.
    pub shard_aware_port: Option<u16>,
    /// The port on which connections begin with the header of a proxy, if there is one.
    pub proxied_port: Option<u16>,
    /// The same where the source port that the proxy tells chooses the shard, if there is one.
    pub proxied_shard_aware_port: Option<u16>,
    /// Whether the ports are announced as those of encrypted connections; whoever owns the sockets encrypts.
    pub encrypted: bool,
    /// Decides host ids and tokens, so that two runs look the same.
    pub seed: u64,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            cluster_name: "simulated".to_owned(),
            datacenters: vec![("dc1".to_owned(), 1)],
            rack: "rack1".to_owned(),
            racks: 1,
            shards: 2,
            tokens_per_node: 16,
            credentials: None,
            compression: true,
            port: 9042,
            shard_aware_port: None,
            proxied_port: None,
            proxied_shard_aware_port: None,
            encrypted: false,
            seed: 1,
        }
    }
}

/// The name of a connection to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// What the owner of a [`Cluster`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterOutput {
    /// There are bytes to send: take them with [`Cluster::poll_transmit`].
    Transmit(ConnectionId),
    /// Send what is left, close the connection, and report that with [`Cluster::handle_closed`].
    Close(ConnectionId),
    /// Accept connections to this node from now on.
    Listen(usize),
    /// Refuse connections to this node from now on.
    Unlisten(usize),
}

/// A simulated cluster without sockets: bytes and instants in, bytes and effects out.
///
/// After any input, call [`Cluster::poll_output`] until there is nothing more to do.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) config: ClusterConfig,
    pub(crate) nodes: Vec<Node>,
    pub(crate) connections: BTreeMap<ConnectionId, NodeConnection>,
    pub(crate) database: Database,
    pub(crate) interceptor: Option<Interceptor>,
    pub(crate) delayed: BTreeMap<(Instant, u64), (ConnectionId, Frame)>,
    /// Announced after the answer to what caused them.
    pub(crate) pending: Vec<Announcement>,
    pub(crate) traces: Traces,
    pub(crate) rates: RequestRates,
    outputs: VecDeque<ClusterOutput>,
    next_connection: u64,
    started: Instant,
    unix_micros: i64,
}

impl Cluster {
    /// Starts a cluster at a moment that is `unix_micros` microseconds after 1970.
    #[must_use]
    pub fn new(now: Instant, unix_micros: i64, config: ClusterConfig) -> Self {
        let mut cluster = Self {
            config,
            nodes: Vec::new(),
            connections: BTreeMap::new(),
            database: Database::new(fresh_schema()),
            interceptor: None,
            delayed: BTreeMap::new(),
            pending: Vec::new(),
            traces: Traces::default(),
            rates: RequestRates::default(),
            outputs: VecDeque::new(),
            next_connection: 0,
            started: now,
            unix_micros,
        };
        for (datacenter, count) in cluster.config.datacenters.clone() {
            for at in 0..count {
                let rack = cluster.rack_name(at);
                cluster.push_node(&datacenter, &rack);
            }
        }
        cluster
    }

    fn rack_name(&self, at: usize) -> String {
        match self.config.racks {
            0 | 1 => self.config.rack.clone(),
            racks => {
                let stem = self
                    .config
                    .rack
                    .trim_end_matches(|c: char| c.is_ascii_digit());
                format!("{stem}{}", at % racks + 1)
            }
        }
    }

    fn push_node(&mut self, datacenter: &str, rack: &str) -> usize {
        let index = self.nodes.len();
        let seed = mix(self.config.seed.wrapping_add(index as u64));
        let wide = (u128::from(seed) << 64) | u128::from(mix(seed));
        let mut tokens: Vec<i64> = (0..self.config.tokens_per_node as u64)
            // Far from the numbers of nodes: else two nodes would share the token of each other's numbers.
            .map(|at| {
                mix(seed ^ mix(at | 1 << 32))
                    .cast_signed()
                    .max(i64::MIN + 1)
            })
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        self.nodes.push(Node {
            host_id: uuid_v4(wide),
            address: SocketAddr::new(node_ip(index), self.config.port),
            datacenter: datacenter.to_owned(),
            rack: rack.to_owned(),
            tokens,
            state: NodeState::Up,
            shards: Shards::new(self.config.shards),
            prepared: PreparedStatements::default(),
            statistics: NodeStatistics {
                by_shard: vec![0; usize::from(self.config.shards.max(1))],
                ..NodeStatistics::default()
            },
        });
        self.outputs.push_back(ClusterOutput::Listen(index));
        index
    }

    /// Takes a new connection to a node; `None` when the node does not run.
    ///
    /// Behind a proxy, `peer` is whom the proxy names; its header is read by the caller.
    pub fn accept(
        &mut self,
        now: Instant,
        node: usize,
        port_kind: PortKind,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        self.handle_timeout(now);
        let local_port = self.port(port_kind).unwrap_or(self.config.port);
        let found = self
            .nodes
            .get_mut(node)
            .filter(|node| node.state == NodeState::Up)?;
        let shard = found.shards.accept(port_kind, peer);
        found.statistics.accepted += 1;
        found.statistics.open += 1;
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let connection = NodeConnection::new(node, peer, port_kind, local_port, shard);
        self.connections.insert(id, connection);
        Some(id)
    }

    /// Takes bytes that came over a connection.
    pub fn handle_received(&mut self, now: Instant, id: ConnectionId, bytes: &[u8]) {
        self.handle_timeout(now);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.receive(bytes);
        }
        while let Some(frame) = self
            .connections
            .get_mut(&id)
            .and_then(NodeConnection::next_frame)
        {
            self.serve(now, id, frame);
        }
        self.flush(id);
    }

    /// The client stopped sending.
    pub fn handle_eof(&mut self, now: Instant, id: ConnectionId) {
        self.handle_timeout(now);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.end_of_input();
        }
        self.flush(id);
    }

    /// The connection is gone.
    pub fn handle_closed(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(connection.node) {
            node.shards.release(connection.port_kind, connection.shard);
            node.statistics.open = node.statistics.open.saturating_sub(1);
        }
    }

    /// Answers the requests that were delayed until now.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if now < entry.key().0 {
                break;
            }
            let (id, frame) = entry.remove();
            self.carry_out(now, id, frame);
            self.flush(id);
        }
    }

    /// When [`Cluster::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(due, _)| *due)
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<ClusterOutput> {
        self.outputs.pop_front()
    }

    /// Takes the bytes that are to be sent over a connection.
    pub fn poll_transmit(&mut self, id: ConnectionId) -> Option<Bytes> {
        self.connections
            .get_mut(&id)
            .and_then(NodeConnection::take_output)
    }

    /// Says what a connection wants from its owner.
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if connection.is_closing() {
            self.outputs.push_back(ClusterOutput::Close(id));
        } else if connection.has_output() {
            self.outputs.push_back(ClusterOutput::Transmit(id));
        }
    }

    /// The port of each node for connections of a kind, if there is one.
    #[must_use]
    pub fn port(&self, kind: PortKind) -> Option<u16> {
        match kind {
            PortKind::Normal => Some(self.config.port),
            PortKind::ShardAware => self.config.shard_aware_port,
            PortKind::Proxied => self.config.proxied_port,
            PortKind::ProxiedShardAware => self.config.proxied_shard_aware_port,
        }
    }

    /// Says on which port the nodes listen, when that is known only after they were made.
    pub(crate) fn set_port(&mut self, kind: PortKind, port: u16) {
        match kind {
            PortKind::Normal => {
                self.config.port = port;
                for node in &mut self.nodes {
                    node.address.set_port(port);
                }
            }
            PortKind::ShardAware => self.config.shard_aware_port = Some(port),
            PortKind::Proxied => self.config.proxied_port = Some(port),
            PortKind::ProxiedShardAware => self.config.proxied_shard_aware_port = Some(port),
        }
    }

    /// The number of nodes that there are or were.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, node: usize) -> Option<SocketAddr> {
        self.nodes.get(node).map(|node| node.address)
    }

    /// The host id of a node.
    #[must_use]
    pub fn host_id(&self, node: usize) -> Option<Uuid> {
        self.nodes.get(node).map(|node| node.host_id)
    }

    /// Whether a node runs.
    #[must_use]
    pub fn state(&self, node: usize) -> Option<NodeState> {
        self.nodes.get(node).map(|node| node.state)
    }

    /// What a node has done.
    #[must_use]
    pub fn statistics(&self, node: usize) -> Option<NodeStatistics> {
        self.nodes.get(node).map(|node| node.statistics.clone())
    }

    /// How many statements a node has prepared.
    #[must_use]
    pub fn prepared_count(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |node| node.prepared.len())
    }

    /// Stops a node: its connections end, the others announce it as down.
    pub fn stop_node(&mut self, node: usize) {
        if self.set_state(node, NodeState::Up, NodeState::Down) {
            self.outputs.push_back(ClusterOutput::Unlisten(node));
            self.drop_connections(node);
            self.announce(&Announcement::Status { up: false, node });
        }
    }

    /// Starts a stopped node: it has forgotten its prepared statements, the others announce it as up.
    pub fn start_node(&mut self, node: usize) {
        if self.set_state(node, NodeState::Down, NodeState::Up) {
            self.forget_prepared_statements(node);
            self.outputs.push_back(ClusterOutput::Listen(node));
            self.announce(&Announcement::Status { up: true, node });
        }
    }

    fn set_state(&mut self, node: usize, from: NodeState, to: NodeState) -> bool {
        match self.nodes.get_mut(node) {
            Some(found) if found.state == from => {
                found.state = to;
                true
            }
            _ => false,
        }
    }

    /// Adds a node to a datacenter, which may be new, and announces it; returns its number.
    pub fn add_node(&mut self, datacenter: &str, rack: &str) -> usize {
        let node = self.push_node(datacenter, rack);
        self.announce(&Announcement::Topology {
            change: TopologyChange::NewNode,
            node,
        });
        self.announce(&Announcement::Status { up: true, node });
        node
    }

    /// Removes a node for good and announces that.
    pub fn remove_node(&mut self, node: usize) {
        let Some(found) = self
            .nodes
            .get_mut(node)
            .filter(|node| node.state != NodeState::Removed)
        else {
            return;
        };
        let was_up = found.state == NodeState::Up;
        found.state = NodeState::Removed;
        if was_up {
            self.outputs.push_back(ClusterOutput::Unlisten(node));
            self.drop_connections(node);
            self.announce(&Announcement::Status { up: false, node });
        }
        self.announce(&Announcement::Topology {
            change: TopologyChange::RemovedNode,
            node,
        });
    }

    /// Makes a node forget its prepared statements.
    pub fn forget_prepared_statements(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.prepared.clear();
        }
    }

    /// Ends every connection to a node.
    pub fn drop_connections(&mut self, node: usize) {
        let ids: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.node == node)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.close();
            }
            self.flush(id);
        }
    }

    /// Asks a function about each request from now on; `None` answers all of them.
    pub fn intercept(&mut self, interceptor: Option<Interceptor>) {
        self.interceptor = interceptor;
    }

    /// Runs one CQL statement without a connection, as an administrator would.
    ///
    /// Errors: what a client would be told.
    pub fn execute(&mut self, now: Instant, cql: &str) -> Result<(), CqlError> {
        self.execute_as_administrator(now, cql)
    }

    /// Sends an event to all connections that asked for its kind.
    pub(crate) fn announce(&mut self, announcement: &Announcement) {
        let about = announcement.node();
        let ip = about
            .and_then(|node| self.nodes.get(node))
            .map(|node| node.address.ip());
        let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let mut told = Vec::new();
        for (id, connection) in &mut self.connections {
            if about == Some(connection.node) || !connection.hears(announcement.kind()) {
                continue;
            }
            let address = SocketAddr::new(ip, connection.local_port);
            connection.tell(announcement.event(address));
            told.push(*id);
        }
        for id in told {
            self.flush(id);
        }
    }

    /// Microseconds since 1970 at this moment.
    pub(crate) fn unix_micros(&self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(self.started).as_micros();
        self.unix_micros
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }

    /// The datacenters with their numbers of racks.
    pub(crate) fn datacenter_racks(&self) -> Vec<(String, usize)> {
        let mut racks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in self
            .nodes
            .iter()
            .filter(|node| node.state != NodeState::Removed)
        {
            let known = racks.entry(&node.datacenter).or_default();
            if !known.contains(&node.rack.as_str()) {
                known.push(&node.rack);
            }
        }
        racks
            .into_iter()
            .map(|(datacenter, racks)| (datacenter.to_owned(), racks.len()))
            .collect()
    }

    /// What a node sees of the cluster.
    pub(crate) fn facts(&self, node: usize) -> Facts {
        let members = self.nodes.iter().enumerate();
        let peers = members
            .filter(|(index, peer)| *index != node && peer.state != NodeState::Removed)
            .map(|(_, peer)| peer.facts());
        let clients = self
            .connections
            .values()
            .filter(|connection| connection.node == node);
        let clients = clients.map(|connection| ClientFacts {
            address: connection.peer.ip(),
            port: connection.peer.port(),
            shard: connection.shard,
            stage: connection.stage.name(),
            user: connection.user.clone(),
            options: connection.options.clone(),
        });
        Facts {
            this: self.nodes.get(node).map(Node::facts),
            peers: peers.collect(),
            clients: clients.collect(),
        }
    }
}

/// What a node's tables are made from.
#[derive(Debug)]
pub(crate) struct Facts {
    this: Option<NodeFacts>,
    peers: Vec<NodeFacts>,
    clients: Vec<ClientFacts>,
}

impl Facts {
    pub(crate) fn view<'a>(
        &'a self,
        cluster_name: &'a str,
        traces: &'a Traces,
    ) -> Option<SystemView<'a>> {
        let this = self.this.as_ref()?;
        Some(SystemView {
            cluster_name,
            this,
            peers: &self.peers,
            clients: &self.clients,
            traces,
        })
    }
}

/// 127.0.0.1 for the first node, 127.0.0.2 for the second, and so on.
fn node_ip(index: usize) -> IpAddr {
    let [_, b, c, d] = u32::try_from(index + 1).unwrap_or(u32::MAX).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, b, c, d))
}

mod changes;
mod clients;

pub use changes::AdministratorRows;
pub use clients::Client;

#[cfg(test)]
mod tests;
