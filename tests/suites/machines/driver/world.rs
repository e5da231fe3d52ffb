//! A driver and a simulated cluster in one virtual time, joined by a network that loses nothing and takes no time.
//! What is tried with it is in the modules beside.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use messina_core::cluster::ConnId;
use messina_core::config::session::SessionConfig;
use messina_core::conn::{Address, ConnectSpec};
use messina_core::driver::{Driver, DriverOutput, Pages, RequestId};
use messina_core::error::request::RequestError;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::{Page, QueryResult};
use messina_core::seed::Seed;
use messina_testkit::ClusterConfig;
use messina_testkit::cluster::{Cluster, ClusterOutput, ConnectionId};
use messina_testkit::node::{Interceptor, PortKind, Reaction, SeenRequest};

/// The moment at which every world begins.
pub(crate) const EPOCH_MICROS: i64 = 1_700_000_000_000_000;
const PORT: u16 = 9042;
const SHARD_AWARE_PORT: u16 = 19_042;
/// A world that does not come to rest within so many steps is caught in a loop.
const STEPS_MAX: usize = 100_000;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) driver: Driver,
    pub(crate) cluster: Cluster,
    /// Both ends of each connection.
    links: BTreeMap<ConnId, ConnectionId>,
    listening: BTreeSet<usize>,
    /// How many bytes a socket takes at once.
    pub(crate) piece: usize,
    /// Whether attempts to connect get no answer.
    pub(crate) dark: bool,
    /// How many names were looked up.
    pub(crate) lookups: usize,
    next_port: u16,
    /// What the driver has said and no test has looked at.
    pub(crate) outputs: Vec<DriverOutput>,
}

impl World {
    /// Starts a cluster of so many nodes with so many shards, and a driver that looks for it.
    pub(crate) fn new(nodes: usize, shards: u16, change: impl FnOnce(&mut SessionConfig)) -> Self {
        let now = Instant::now();
        let cluster = ClusterConfig {
            datacenters: vec![("dc1".to_owned(), nodes)],
            shards,
            port: PORT,
            shard_aware_port: Some(SHARD_AWARE_PORT),
            ..ClusterConfig::default()
        };
        let mut config = SessionConfig::default();
        config
            .contact_points
            .push("seed.example:9042".parse().unwrap());
        change(&mut config);
        let mut world = Self {
            now,
            driver: Driver::new(now, EPOCH_MICROS, config, Seed::from_u64(11)),
            cluster: Cluster::new(now, EPOCH_MICROS, cluster),
            links: BTreeMap::new(),
            listening: BTreeSet::new(),
            piece: usize::MAX,
            dark: false,
            lookups: 0,
            next_port: 40_000,
            outputs: Vec::new(),
        };
        world.settle();
        world
    }

    /// Starts both and waits until the driver is ready and every shard has its connection.
    pub(crate) fn ready(nodes: usize, shards: u16) -> Self {
        let mut world = Self::new(nodes, shards, |_| ());
        world.pass(Duration::from_secs(3));
        let ready = world
            .outputs
            .iter()
            .any(|output| matches!(output, DriverOutput::Ready(_)));
        assert!(ready, "{:?}", world.outputs);
        for stats in world.driver.shard_aware_stats() {
            assert_eq!(stats.connected, stats.shards, "{stats:?}");
        }
        world.outputs.clear();
        world
    }

    /// Like [`ready`](Self::ready), with a keyspace and a table.
    pub(crate) fn with_table(nodes: usize, shards: u16) -> Self {
        let mut world = Self::ready(nodes, shards);
        let factor = nodes.min(3);
        world.administer(&format!(
            "CREATE KEYSPACE ks WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': {factor}}}"
        ));
        world.administer("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
        world.pass(Duration::from_secs(3));
        world.outputs.clear();
        world
    }

    pub(crate) fn administer(&mut self, cql: &str) {
        self.cluster.execute(self.now, cql).unwrap();
        self.settle();
    }

    /// Asks a function about each request from now on.
    pub(crate) fn intercept(
        &mut self,
        decide: impl FnMut(&SeenRequest<'_>) -> Reaction + Send + 'static,
    ) {
        self.cluster.intercept(Some(Interceptor::new(decide)));
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..STEPS_MAX {
            self.settle();
            let due = [self.driver.poll_timeout(), self.cluster.poll_timeout()];
            let Some(next) = due.into_iter().flatten().min().filter(|at| *at <= end) else {
                self.now = end;
                self.driver.handle_timeout(self.now);
                self.cluster.handle_timeout(self.now);
                return self.settle();
            };
            self.now = self.now.max(next);
            self.driver.handle_timeout(self.now);
            self.cluster.handle_timeout(self.now);
        }
        panic!("time does not pass");
    }

    /// Carries bytes and effects both ways until nothing moves.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if let Some(output) = self.cluster.poll_output() {
                self.perform_for_cluster(output);
            } else if let Some(output) = self.driver.poll_output() {
                self.perform(output);
            } else {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn perform(&mut self, output: DriverOutput) {
        match output {
            DriverOutput::Resolve { id, host, port } => {
                assert_eq!(&*host, "seed.example");
                self.lookups += 1;
                let found = vec![SocketAddr::from(([127, 0, 0, 1], port))];
                self.driver.handle_resolved(self.now, id, Ok(found));
            }
            DriverOutput::Connect { conn, spec } => self.dial(conn, &spec),
            DriverOutput::Transmit { conn } => self.transmit(conn),
            DriverOutput::Disconnect { conn, last_words } => {
                assert!(last_words.is_empty(), "nothing is encrypted here");
                if let Some(end) = self.links.remove(&conn) {
                    self.cluster.handle_eof(self.now, end);
                    self.cluster.handle_closed(end);
                }
            }
            other => self.outputs.push(other),
        }
    }

    fn dial(&mut self, conn: ConnId, spec: &ConnectSpec) {
        let Address::Tcp(address) = spec.address else {
            panic!("only TCP is simulated");
        };
        if self.dark {
            return;
        }
        let kind = match address.port() {
            SHARD_AWARE_PORT => PortKind::ShardAware,
            _ => PortKind::Normal,
        };
        let port = spec.source_port.unwrap_or_else(|| {
            self.next_port += 1;
            self.next_port
        });
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let node = (0..self.cluster.node_count())
            .filter(|node| self.listening.contains(node))
            .find(|node| {
                let own = self.cluster.address(*node);
                own.is_some_and(|own| own.ip() == address.ip())
            });
        let accepted = node.and_then(|node| self.cluster.accept(self.now, node, kind, peer));
        match accepted {
            Some(end) => {
                self.links.insert(conn, end);
                self.driver.handle_connected(self.now, conn);
            }
            None => {
                let error = io::ErrorKind::ConnectionRefused;
                self.driver.handle_connect_failed(self.now, conn, error);
            }
        }
    }

    fn transmit(&mut self, conn: ConnId) {
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.driver.poll_transmit(conn, &mut slices);
            let mut bytes: Vec<u8> = Vec::new();
            for slice in slices.iter().take(count) {
                bytes.extend_from_slice(slice);
            }
            bytes.truncate(self.piece);
            if bytes.is_empty() {
                return;
            }
            self.driver.handle_transmitted(self.now, conn, bytes.len());
            if let Some(end) = self.links.get(&conn) {
                self.cluster.handle_received(self.now, *end, &bytes);
            }
        }
    }

    fn perform_for_cluster(&mut self, output: ClusterOutput) {
        let conn_of = |links: &BTreeMap<ConnId, ConnectionId>, end: ConnectionId| {
            let found = links.iter().find(|(_, own)| **own == end);
            found.map(|(conn, _)| *conn)
        };
        match output {
            ClusterOutput::Transmit(end) => self.receive(end),
            ClusterOutput::Close(end) => {
                self.receive(end);
                if let Some(conn) = conn_of(&self.links, end) {
                    self.driver.handle_eof(self.now, conn);
                    self.links.remove(&conn);
                }
                self.cluster.handle_closed(end);
            }
            ClusterOutput::Listen(node) => {
                self.listening.insert(node);
            }
            ClusterOutput::Unlisten(node) => {
                self.listening.remove(&node);
            }
            other => panic!("an output that nobody knows: {other:?}"),
        }
    }

    fn receive(&mut self, end: ConnectionId) {
        let Some(bytes) = self.cluster.poll_transmit(end) else {
            return;
        };
        let found = self.links.iter().find(|(_, own)| **own == end);
        if let Some(conn) = found.map(|(conn, _)| *conn) {
            for piece in bytes.chunks(self.piece.min(bytes.len().max(1))) {
                self.driver.handle_bytes(self.now, conn, piece);
            }
        }
    }

    /// How many connections are open.
    pub(crate) fn open_links(&self) -> usize {
        self.links.len()
    }

    /// Takes the outputs that answer a request.
    pub(crate) fn answers_to(&mut self, request: RequestId) -> Vec<DriverOutput> {
        self.settle();
        let (own, others) = std::mem::take(&mut self.outputs)
            .into_iter()
            .partition(|output| output.request() == Some(request));
        self.outputs = others;
        own
    }

    fn answer_to(&mut self, request: RequestId) -> Option<DriverOutput> {
        let mut answers = self.answers_to(request);
        assert!(answers.len() < 2, "more than one answer: {answers:?}");
        answers.pop()
    }

    /// Takes the answer to a statement; none while there is none.
    pub(crate) fn result(
        &mut self,
        request: RequestId,
    ) -> Option<Result<QueryResult, RequestError>> {
        match self.answer_to(request)? {
            DriverOutput::Answer { result, .. } => Some(result),
            other => panic!("no answer to a statement: {other:?}"),
        }
    }

    /// Takes the answer to a statement that has been answered well.
    pub(crate) fn good(&mut self, request: RequestId) -> QueryResult {
        self.result(request).expect("it is answered").unwrap()
    }

    /// Executes a text and takes its good answer.
    pub(crate) fn text(&mut self, text: &str) -> QueryResult {
        let request = self.driver.execute(self.now, text, ());
        self.good(request)
    }

    /// Prepares a text on every node.
    pub(crate) fn prepare(&mut self, text: &str) -> PreparedStatement {
        let request = self.driver.prepare(self.now, text);
        self.prepared(request).expect("it is answered").unwrap()
    }

    /// Takes the answer to a request to prepare; none while there is none.
    pub(crate) fn prepared(
        &mut self,
        request: RequestId,
    ) -> Option<Result<PreparedStatement, RequestError>> {
        match self.answer_to(request)? {
            DriverOutput::Prepared { result, .. } => Some(result),
            other => panic!("no answer to a request to prepare: {other:?}"),
        }
    }

    /// Fetches a page.
    pub(crate) fn page(
        &mut self,
        pages: impl Into<Box<Pages>>,
    ) -> (Box<Pages>, Result<Option<Page>, RequestError>) {
        let request = self.driver.next_page(self.now, pages);
        match self.answer_to(request).expect("it is answered") {
            DriverOutput::Page { pages, result, .. } => (pages, result),
            other => panic!("no page: {other:?}"),
        }
    }
}
