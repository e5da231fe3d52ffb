//! A small cluster of plain data that answers a control plane, and the record of what the plane asked for.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_testkit::virtual_start;
use uuid::Uuid;

use super::frames::*;
pub(super) use super::nodes::*;
use crate::cluster::{
    AgreementOutcome, CommandId, ConnId, ControlOutput, ControlPlane, QueryId, Readiness, ResolveId,
};
use crate::config::session::{RefreshConfig, SessionConfig};
use crate::conn::{Address, CloseReason, ConnectionInfo, ConnectionPlan, Role};
use crate::error::connect::{
    AttemptError, AttemptErrorKind, ConnectCause, ConnectError, ConnectPhase, ConnectionError, Fate,
};
use crate::error::session::SessionError;
use crate::notify::{ClusterEvent, Note};
use crate::routing::{HostIdx, Routing, Shard};
use crate::seed::Seed;
use crate::wire::{ProtocolFeatures, Request, ResponseFrame, ServerEvent, ShardInfo};

/// A request that was not answered so far.
#[derive(Clone, Debug)]
pub(super) struct Submitted {
    pub(super) conn: ConnId,
    pub(super) query: QueryId,
    pub(super) request: Request,
    pub(super) deadline: Option<Instant>,
}

impl Submitted {
    pub(super) fn text(&self) -> &str {
        match &self.request {
            Request::Query { text, .. } => text,
            _ => "",
        }
    }
}

pub(super) struct Dialled {
    pub(super) conn: ConnId,
    pub(super) address: SocketAddr,
    pub(super) source_port: Option<u16>,
    pub(super) plan: Box<ConnectionPlan>,
}

/// A control plane, its cluster, and what it asked for.
pub(super) struct World {
    pub(super) plane: ControlPlane<u32>,
    pub(super) now: Instant,
    pub(super) nodes: Vec<Node>,
    pub(super) keyspaces: Vec<(&'static str, Vec<(&'static str, &'static str)>)>,
    pub(super) tables: Vec<(&'static str, &'static str)>,
    /// Materialized views.
    pub(super) views: Vec<(&'static str, &'static str)>,
    /// Tables with a partitioner of their own.
    pub(super) partitioners: Vec<(&'static str, &'static str, &'static str)>,
    /// Whether the servers know the clause that bounds their work.
    pub(super) bounded: bool,
    /// Whether the servers are ScyllaDB.
    pub(super) scylla: bool,
    /// What `system.peers` gives instead of the nodes.
    pub(super) peers: Option<ResponseFrame>,
    pub(super) local: Option<ResponseFrame>,
    /// What `system.peers_v2` gives, where the servers have it.
    pub(super) peers_v2: Option<ResponseFrame>,

    pub(super) connects: VecDeque<Dialled>,
    pub(super) submits: VecDeque<Submitted>,
    pub(super) resolves: VecDeque<(ResolveId, String)>,
    pub(super) open: Vec<(ConnId, SocketAddr, Role)>,
    pub(super) dialled: Vec<(Role, SocketAddr)>,
    /// Source ports in the order of `dialled`.
    pub(super) source_ports: Vec<Option<u16>>,
    pub(super) landed: Vec<Landed>,
    /// Attempts that nobody will ever answer.
    pub(super) unanswered: Vec<Dialled>,
    /// Connections that take no more requests and are not closed yet.
    pub(super) drained: Vec<(ConnId, CloseReason)>,
    /// Whether connections that drain still have requests in flight.
    pub(super) busy: bool,
    pub(super) asked: Vec<String>,
    pub(super) disconnected: Vec<(ConnId, CloseReason)>,
    pub(super) routing: Arc<Routing<u32>>,
    pub(super) published: usize,
    pub(super) notes: Vec<Note>,
    pub(super) events: Vec<ClusterEvent>,
    pub(super) agreements: Vec<(CommandId, AgreementOutcome)>,
    pub(super) keyspaces_used: Vec<(CommandId, Result<(), SessionError>)>,
    pub(super) ready: Option<Readiness>,
    pub(super) fatal: Option<SessionError>,
}

/// Settings with these contact points and no delay before a refresh.
pub(super) fn config(contact_points: &[&str]) -> SessionConfig {
    SessionConfig {
        contact_points: contact_points
            .iter()
            .map(|point| point.parse().expect("a contact point"))
            .collect(),
        refresh: RefreshConfig {
            topology_delay_max: Duration::ZERO,
            status_delay_max: Duration::ZERO,
            schema_delay_max: Duration::ZERO,
        },
        ..SessionConfig::default()
    }
}

impl World {
    pub(super) fn new(nodes: u8, config: SessionConfig) -> Self {
        Self::seeded(nodes, config, 1)
    }

    pub(super) fn seeded(nodes: u8, config: SessionConfig, seed: u64) -> Self {
        let now = virtual_start();
        let mut world = Self {
            plane: ControlPlane::new(now, Arc::new(config), Seed::from_u64(seed)),
            now,
            nodes: (1..=nodes).map(node).collect(),
            keyspaces: vec![(
                "ks",
                vec![("class", "NetworkTopologyStrategy"), ("dc1", "2")],
            )],
            tables: vec![("ks", "t")],
            views: Vec::new(),
            partitioners: Vec::new(),
            bounded: true,
            scylla: true,
            peers: None,
            local: None,
            peers_v2: None,
            connects: VecDeque::new(),
            submits: VecDeque::new(),
            resolves: VecDeque::new(),
            open: Vec::new(),
            dialled: Vec::new(),
            source_ports: Vec::new(),
            landed: Vec::new(),
            unanswered: Vec::new(),
            drained: Vec::new(),
            busy: false,
            asked: Vec::new(),
            disconnected: Vec::new(),
            routing: Arc::default(),
            published: 0,
            notes: Vec::new(),
            events: Vec::new(),
            agreements: Vec::new(),
            keyspaces_used: Vec::new(),
            ready: None,
            fatal: None,
        };
        world.drain();
        world
    }

    /// A world that is ready.
    pub(super) fn started(nodes: u8) -> Self {
        let mut world = Self::new(nodes, config(&["192.0.2.1"]));
        world.run();
        assert!(world.ready.is_some(), "{:?} {:?}", world.fatal, world.notes);
        world.forget();
        world
    }

    /// Empties the record of what happened so far.
    pub(super) fn forget(&mut self) {
        self.dialled.clear();
        self.source_ports.clear();
        self.asked.clear();
        self.disconnected.clear();
        self.notes.clear();
        self.events.clear();
    }

    /// Takes the plane's outputs into the record; reports the end of what it disconnects.
    pub(super) fn drain(&mut self) {
        while let Some(output) = self.plane.poll_output() {
            match output {
                ControlOutput::Resolve { id, host, .. } => {
                    self.resolves.push_back((id, host.to_string()))
                }
                ControlOutput::Connect { conn, spec, plan } => {
                    let Address::Tcp(address) = spec.address else {
                        panic!("no tcp address")
                    };
                    self.dialled.push((plan.role, address));
                    self.source_ports.push(spec.source_port);
                    self.connects.push_back(Dialled {
                        conn,
                        address,
                        source_port: spec.source_port,
                        plan,
                    });
                }
                ControlOutput::Disconnect { conn, reason } => self.cut(conn, reason),
                ControlOutput::Drain { conn, reason } => {
                    assert!(self.open.iter().any(|(own, _, _)| *own == conn));
                    self.drained.push((conn, reason));
                    if !self.busy {
                        self.finish_drain(conn);
                    }
                }
                ControlOutput::Submit {
                    conn,
                    query,
                    request,
                    deadline,
                } => {
                    self.submits.push_back(Submitted {
                        conn,
                        query,
                        request,
                        deadline,
                    });
                }
                ControlOutput::Publish(routing) => {
                    assert!(
                        self.routing.generation < routing.generation,
                        "generations grow"
                    );
                    assert_eq!(routing.hosts.len(), routing.pools.len());
                    self.routing = routing;
                    self.published += 1;
                }
                ControlOutput::Ready(ready) => {
                    assert!(self.ready.replace(ready).is_none(), "ready comes once");
                }
                ControlOutput::Note(note) => self.notes.push(note),
                ControlOutput::Notify(event) => self.events.push(event),
                ControlOutput::Agreement { id, outcome } => self.agreements.push((id, outcome)),
                ControlOutput::KeyspaceUsed { id, result } => {
                    self.keyspaces_used.push((id, result))
                }
                ControlOutput::Fatal(error) => {
                    assert!(self.ready.is_none(), "fatal never comes after ready");
                    assert!(self.fatal.replace(error).is_none(), "fatal comes once");
                }
            }
        }
    }

    /// Ends a connection whose last request was answered.
    pub(super) fn finish_drain(&mut self, conn: ConnId) {
        let found = self.drained.iter().find(|(own, _)| *own == conn);
        let (_, reason) = *found.expect("it drains");
        self.open.retain(|(own, _, _)| *own != conn);
        self.landed.retain(|landed| landed.conn != conn);
        self.plane
            .handle_closed(self.now, conn, ConnectionError::Closed(reason));
    }

    fn cut(&mut self, conn: ConnId, reason: CloseReason) {
        self.disconnected.push((conn, reason));
        self.landed.retain(|landed| landed.conn != conn);
        if let Some(at) = self.unanswered.iter().position(|own| own.conn == conn) {
            let dialled = self.unanswered.remove(at);
            self.connects.push_back(dialled);
        }
        self.submits.retain(|submitted| submitted.conn != conn);
        if let Some(at) = self.open.iter().position(|(own, _, _)| *own == conn) {
            self.open.remove(at);
            self.plane
                .handle_closed(self.now, conn, ConnectionError::Closed(reason));
        } else if let Some(at) = self
            .connects
            .iter()
            .position(|dialled| dialled.conn == conn)
        {
            let dialled = self.connects.remove(at).expect("found");
            let cause = ConnectCause::GivenUp(reason);
            self.plane
                .handle_connect_failed(self.now, conn, failure(dialled.address, cause));
        }
    }

    /// Answers everything until nothing is asked any more.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            self.drain();
            if let Some(dialled) = self.connects.pop_front() {
                self.connect(dialled);
            } else if let Some(submitted) = self.submits.pop_front() {
                self.answer(submitted);
            } else {
                return;
            }
        }
        panic!("the plane never comes to rest");
    }

    /// Lets time pass from timer to timer, answering everything.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.run();
        for _ in 0..10_000 {
            match self.plane.poll_timeout().filter(|at| *at <= end) {
                Some(at) => self.tick(at),
                None => return self.tick(end),
            }
            self.run();
        }
        panic!("timers never come to rest");
    }

    /// Lets time pass without answering anything.
    pub(super) fn tick(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.plane.handle_timeout(self.now);
        self.drain();
    }

    pub(super) fn connect(&mut self, dialled: Dialled) {
        let Some(node) = self.node_at(dialled.address) else {
            return self.refuse(
                dialled,
                ConnectCause::Io(io::ErrorKind::ConnectionRefused.into()),
            );
        };
        let is_regular = node.address == dialled.address;
        match (node.alive, node.sharding.door) {
            (true, Door::Silent) if !is_regular => self.unanswered.push(dialled),
            (true, Door::Open) => self.accept(dialled),
            (true, _) if is_regular => self.accept(dialled),
            _ => self.refuse(
                dialled,
                ConnectCause::Io(io::ErrorKind::ConnectionRefused.into()),
            ),
        }
    }

    /// The node that is reached at an address, on any of its ports.
    fn node_at(&self, address: SocketAddr) -> Option<&Node> {
        let exact = self.nodes.iter().find(|node| node.address == address);
        exact.or_else(|| {
            self.nodes.iter().find(|node| {
                let ports = [node.sharding.port, node.sharding.tls_port];
                node.address.ip() == address.ip() && ports.contains(&Some(address.port()))
            })
        })
    }

    pub(super) fn accept(&mut self, dialled: Dialled) {
        let found = self.node_at(dialled.address);
        let id = found
            .map(|node| Uuid::from_u128(node.id))
            .filter(|_| self.scylla);
        self.accept_as(dialled, id);
    }

    pub(super) fn accept_as(&mut self, dialled: Dialled, host_id: Option<Uuid>) {
        let shard = self.land(&dialled);
        let node = self
            .node_at(dialled.address)
            .map_or(dialled.address, |node| node.address);
        let info = ConnectionInfo {
            address: dialled.address.into(),
            features: ProtocolFeatures::default(),
            shard: shard.filter(|_| self.scylla),
            host_id,
        };
        self.open.push((dialled.conn, node, dialled.plan.role));
        self.plane
            .handle_connected(self.now, dialled.conn, info, dialled.conn.index);
        self.drain();
    }

    /// Gives a connection its shard: by its source port on the port for that, else the least busy one.
    fn land(&mut self, dialled: &Dialled) -> Option<ShardInfo> {
        let landed = self.landed.clone();
        let at = self.node_at(dialled.address)?.address;
        let node = self.nodes.iter_mut().find(|node| node.address == at)?;
        let sharding = &mut node.sharding;
        let shards = NonZeroU16::new(sharding.shards)?;
        let is_regular = node.address == dialled.address;
        let busy = |shard: &u16| {
            let here = |own: &&Landed| own.node == at && own.regular && own.shard == *shard;
            (landed.iter().filter(here).count(), *shard)
        };
        let shard = match dialled.source_port {
            Some(port) if !is_regular => port.wrapping_add(sharding.nat) % shards,
            _ => match sharding.next.pop_front() {
                Some(shard) => shard,
                None => (0..shards.get()).min_by_key(busy)?,
            },
        };
        self.landed.push(Landed {
            conn: dialled.conn,
            node: at,
            role: dialled.plan.role,
            shard,
            regular: is_regular,
        });
        Some(ShardInfo {
            shard: Shard(shard),
            shards,
            ignore_msb: sharding.ignore_msb,
            port: sharding.port,
            tls_port: sharding.tls_port,
        })
    }

    pub(super) fn refuse(&mut self, dialled: Dialled, cause: ConnectCause) {
        self.plane
            .handle_connect_failed(self.now, dialled.conn, failure(dialled.address, cause));
        self.drain();
    }

    pub(super) fn answer(&mut self, submitted: Submitted) {
        let reply = self.reply(&submitted);
        self.reply_with(submitted, Ok(reply));
    }

    pub(super) fn reply_with(
        &mut self,
        submitted: Submitted,
        reply: Result<ResponseFrame, AttemptError>,
    ) {
        self.asked.push(submitted.text().into());
        self.plane
            .handle_reply(self.now, submitted.conn, submitted.query, reply);
        self.drain();
    }

    /// What the node at the other end would answer.
    pub(super) fn reply(&self, submitted: &Submitted) -> ResponseFrame {
        let at = self
            .open
            .iter()
            .find(|(conn, _, _)| *conn == submitted.conn)
            .map(|(_, at, _)| *at);
        let text = submitted.text();
        if let Some(name) = text.strip_prefix("USE ") {
            return set_keyspace(name.trim_matches('"'));
        }
        if text.contains("USING TIMEOUT") && !self.bounded {
            return error_frame(0x2000, "no viable alternative at input 'USING'");
        }
        let here = self.nodes.iter().find(|node| Some(node.address) == at);
        if text.contains("system.local") {
            return self
                .local
                .clone()
                .unwrap_or_else(|| nodes_frame("broadcast_address", &[here.expect("a node")]));
        }
        if text.contains("system.peers_v2") {
            let missing = || error_frame(0x2200, "unconfigured table peers_v2");
            return self.peers_v2.clone().unwrap_or_else(missing);
        }
        if text.contains("system.peers") {
            let others: Vec<&Node> = self
                .nodes
                .iter()
                .filter(|node| node.member && Some(node.address) != at)
                .collect();
            return self
                .peers
                .clone()
                .unwrap_or_else(|| nodes_frame("peer", &others));
        }
        self.schema_reply(text)
    }

    fn schema_reply(&self, text: &str) -> ResponseFrame {
        let only = text
            .split("WHERE keyspace_name='")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        let inside = |keyspace: &str| only.is_none_or(|only| only == keyspace);
        if text.contains("system_schema.keyspaces") {
            let rows = self.keyspaces.iter().filter(|(name, _)| inside(name));
            let rows = rows
                .map(|(name, options)| vec![cell(name), Some(text_map(options))])
                .collect();
            return rows_frame(&[("keyspace_name", TEXT), ("replication", TEXT_MAP)], rows);
        }
        if text.contains("system_schema.tables") {
            let rows = self.tables.iter().filter(|(keyspace, _)| inside(keyspace));
            let rows = rows
                .map(|(keyspace, name)| vec![cell(keyspace), cell(name)])
                .collect();
            return rows_frame(&[("keyspace_name", TEXT), ("table_name", TEXT)], rows);
        }
        if text.contains("system_schema.views") && !self.views.is_empty() {
            let rows = self.views.iter().filter(|(keyspace, _)| inside(keyspace));
            let rows = rows
                .map(|(keyspace, name)| vec![cell(keyspace), cell(name)])
                .collect();
            return rows_frame(&[("keyspace_name", TEXT), ("view_name", TEXT)], rows);
        }
        if text.contains("system_schema.scylla_tables") && !self.partitioners.is_empty() {
            let rows = self
                .partitioners
                .iter()
                .filter(|(keyspace, _, _)| inside(keyspace));
            let rows =
                rows.map(|(keyspace, name, class)| vec![cell(keyspace), cell(name), cell(class)]);
            let columns = [
                ("keyspace_name", TEXT),
                ("table_name", TEXT),
                ("partitioner", TEXT),
            ];
            return rows_frame(&columns, rows.collect());
        }
        error_frame(0x2200, "unconfigured table")
    }

    /// Fails what is asked of one open connection and reports its end.
    pub(super) fn lose(&mut self, conn: ConnId) {
        self.open.retain(|(own, _, _)| *own != conn);
        self.landed.retain(|landed| landed.conn != conn);
        let lost: Vec<_> = self
            .submits
            .iter()
            .filter(|submitted| submitted.conn == conn)
            .cloned()
            .collect();
        self.submits.retain(|submitted| submitted.conn != conn);
        for submitted in lost {
            let error = AttemptError::new(
                AttemptErrorKind::Connection(ConnectionError::Eof),
                Fate::MaybeApplied,
            );
            self.reply_with(submitted, Err(error));
        }
        self.plane
            .handle_closed(self.now, conn, ConnectionError::Eof);
        self.drain();
    }

    pub(super) fn control(&self) -> Option<(ConnId, SocketAddr)> {
        let control = self.open.iter().find(|(_, _, role)| *role == Role::Control);
        control.map(|(conn, address, _)| (*conn, *address))
    }

    pub(super) fn data(&self, address: SocketAddr) -> Option<ConnId> {
        let data = self
            .open
            .iter()
            .find(|(_, own, role)| *role == Role::Data && *own == address);
        data.map(|(conn, _, _)| *conn)
    }

    pub(super) fn event(&mut self, event: ServerEvent) {
        let (conn, _) = self.control().expect("a control connection");
        self.plane.handle_event(self.now, conn, event);
        self.drain();
    }

    pub(super) fn host(&self, id: u128) -> HostIdx {
        let found = self
            .routing
            .hosts
            .iter()
            .position(|host| host.id == Uuid::from_u128(id));
        HostIdx(found.and_then(|at| u16::try_from(at).ok()).expect("a host"))
    }

    /// The hosts that hold a token of `ks.t`, by id.
    pub(super) fn replicas(&self, token: i64) -> Vec<u128> {
        let table = self
            .routing
            .table_idx("ks", "t")
            .expect("the table is known");
        let hosts = self.routing.replicas(table, crate::routing::Token(token));
        hosts
            .iter()
            .filter_map(|host| self.routing.host(*host))
            .map(|host| host.id.as_u128())
            .collect()
    }
}

pub(super) fn failure(address: SocketAddr, cause: ConnectCause) -> ConnectError {
    ConnectError {
        address: address.into(),
        phase: ConnectPhase::Tcp,
        cause,
    }
}

pub(super) fn expired() -> AttemptError {
    AttemptError::new(AttemptErrorKind::Expired, Fate::MaybeApplied)
}
