//! Owns the target `control_plane`: bytes choose what happens to a control plane, and what the servers answer.

mod checks;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use messina_core::cluster::{CommandId, ConnId, ControlPlane, QueryId, ResolveId};
use messina_core::config::session::{ContactPoint, ReadinessRule, SessionConfig};
use messina_core::conn::{Address, ConnectionInfo};
use messina_core::error::connect::{
    AttemptError, AttemptErrorKind, ConnectCause, ConnectError, ConnectPhase, ConnectionError, Fate,
};
use messina_core::policy::host_filter::DatacenterFilter;
use messina_core::policy::load_balancing::DefaultLoadBalancing;
use messina_core::routing::Shard;
use messina_core::seed::Seed;
use messina_core::wire::{
    Flags, FrameHeader, Opcode, Request, Response, ResponseFrame, SchemaChange, SchemaChangeKind,
    SchemaTarget, ServerEvent, ShardInfo,
};

use crate::bench::{Milestones, frame};
use crate::input::{Input, features};

/// Plays a script: the first two bytes choose the settings.
pub fn control_plane(data: &[u8]) {
    let _ = play_control_plane(data);
}

/// Does the same and says what happened.
pub fn play_control_plane(data: &[u8]) -> Milestones {
    let mut input = Input::new(data);
    let config = settings(&mut input);
    let mut bench = Bench::new(config);
    bench.drain();
    while !input.is_empty() {
        bench.step(&mut input);
        bench.drain();
    }
    bench.end()
}

fn settings(input: &mut Input<'_>) -> SessionConfig {
    let choice = input.byte();
    let mut config = SessionConfig::new(&mut Seed::from_u64(3).random());
    let point = |text: &str| text.parse::<ContactPoint>().expect("a valid contact point");
    config.contact_points = match choice & 3 {
        0 => vec![point("192.0.2.1")],
        1 => vec![point("name.example")],
        2 => vec![
            point("192.0.2.1"),
            point("name.example:9043"),
            point("[2001:db8::1]"),
        ],
        _ => vec![point("192.0.2.1"), point("192.0.2.2")],
    };
    config.keyspace = (choice & 4 != 0).then(|| "ks".into());
    config.local_datacenter = match choice >> 3 & 3 {
        0 | 1 => None,
        2 => Some("dc0".into()),
        _ => Some("nowhere".into()),
    };
    config.metadata_timeout = (choice & 0x20 == 0).then(|| Duration::from_secs(2));
    config.pool.opening_max = OPENING_MAX;
    config.ready = input.choose(&[
        ReadinessRule::OneHost,
        ReadinessRule::ControlConnection,
        ReadinessRule::Quorum,
        ReadinessRule::AllTried,
        ReadinessRule::EveryShard,
    ]);
    config.pool.connection_age_max = (choice & 0x40 != 0).then(|| Duration::from_secs(30));
    if choice & 0x80 != 0 {
        prefer(input.byte(), &mut config);
    }
    config
}

/// Settings of which hosts are preferred, and which are reached at all.
fn prefer(choice: u8, config: &mut SessionConfig) {
    config.inference.datacenter = choice & 1 != 0;
    config.inference.rack = choice & 3 == 3;
    let has_datacenter = config.inference.datacenter || config.local_datacenter.is_some();
    config.local_rack = (choice & 4 != 0 && has_datacenter).then(|| "r1".into());
    let mut policy = DefaultLoadBalancing::default();
    policy.datacenter_failover = choice & 8 != 0;
    policy.remote_datacenters = (choice & 16 != 0).then(|| ["dc1".into()].into());
    policy.remote_hosts_max = NonZeroU16::new(u16::from(choice >> 5 & 1));
    config.profile.load_balancing = Arc::new(policy);
    if choice & 0x40 != 0 {
        let datacenters = ["dc0".into()].into();
        config.host_filter = Some(Arc::new(DatacenterFilter { datacenters }));
    }
}

struct Bench {
    plane: ControlPlane<u32>,
    now: Instant,
    origin: Instant,
    conns: BTreeMap<ConnId, Conn>,
    used: BTreeSet<ConnId>,
    queries: Vec<Query>,
    resolving: Vec<ResolveId>,
    commands: BTreeSet<u64>,
    next_command: u64,
    stale: Vec<(ConnId, QueryId)>,
    ready: bool,
    fatal: bool,
    over: bool,
    seen: Milestones,
}

struct Conn {
    address: Address,
    open: bool,
    leaving: bool,
}

struct Query {
    conn: ConnId,
    query: QueryId,
    request: Request,
    deadline: Option<Instant>,
}

impl Bench {
    fn new(config: SessionConfig) -> Self {
        let now = Instant::now();
        Self {
            plane: ControlPlane::new(now, Arc::new(config), Seed::from_u64(4)),
            now,
            origin: now,
            conns: BTreeMap::new(),
            used: BTreeSet::new(),
            queries: Vec::new(),
            resolving: Vec::new(),
            commands: BTreeSet::new(),
            next_command: 0,
            stale: Vec::new(),
            ready: false,
            fatal: false,
            over: false,
            seen: Milestones::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() & 0x1f {
            0 => self.resolve(input),
            1..=4 => self.connect(input),
            5 | 6 => self.refuse(input),
            7 => self.lose(input),
            8..=12 => self.reply_with_rows(input),
            13 => self.reply_with_bytes(input),
            14 | 15 => self.reply_with_error(input),
            16 => self.event_of_bytes(input),
            17 | 18 => self.event(input),
            19 | 20 => {
                let time = input.choose(&TIMES_MS);
                self.pass(Duration::from_millis(time));
            }
            21 => {
                let time = input.choose(&TIMES_MS);
                self.now += Duration::from_millis(time);
                self.plane.handle_timeout(self.now);
            }
            22 => self.plane.refresh(self.now),
            23 => {
                let change = schema_change(input);
                self.plane.schema_changed(self.now, &change);
            }
            24 => {
                let (id, deadline) = self.command(input);
                self.plane.await_agreement(self.now, id, None, deadline);
            }
            25 => {
                let (id, deadline) = self.command(input);
                let name = input.choose(&["ks", "other", "", "no\"good", "MyKs"]);
                self.plane.use_keyspace(self.now, id, name.into(), deadline);
            }
            26 => {
                if input.byte() == 0 {
                    self.over = true;
                    self.plane.close(self.now);
                }
            }
            27 => self.stale(input),
            28 => self.plane.handle_timeout(self.origin),
            _ => self.do_well(),
        }
    }

    fn command(&mut self, input: &mut Input<'_>) -> (CommandId, Instant) {
        let id = self.next_command;
        self.next_command += 1;
        self.commands.insert(id);
        let time = input.choose(&TIMES_MS);
        (CommandId(id), self.now + Duration::from_millis(time))
    }

    fn resolve(&mut self, input: &mut Input<'_>) {
        let Some(id) = self.resolving.pop() else {
            return;
        };
        let found = match input.byte() {
            0 => Err(ErrorKind::NotFound),
            1 => Ok(Vec::new()),
            many => Ok((0..many).map(|at| rows::address(at & 7)).collect()),
        };
        self.plane
            .handle_resolved(self.now, id, found.map_err(ErrorKind::into));
    }

    fn pick(&self, input: &mut Input<'_>, open: bool) -> Option<ConnId> {
        let fitting: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.open == open)
            .map(|(id, _)| *id)
            .collect();
        let at = input.below(fitting.len().max(1));
        fitting.get(at).copied()
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.pick(input, false) {
            let choice = input.byte();
            self.connected(id, choice);
        }
    }

    fn connected(&mut self, id: ConnId, choice: u8) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        conn.open = true;
        let node = match &conn.address {
            Address::Tcp(address) => rows::node_at(*address),
            _ => 0,
        };
        let told = match choice >> 6 {
            0 | 1 => None,
            2 => Some(rows::host_id(node)),
            _ => Some(rows::host_id(node.wrapping_add(1))),
        };
        let shards = NonZeroU16::MIN.saturating_add(u16::from(choice & 3));
        let info = ConnectionInfo {
            address: conn.address.clone(),
            features: features(choice & 0x1e),
            shard: (choice & 0x20 != 0).then_some(ShardInfo {
                shard: Shard(u16::from(choice >> 2 & 3) % shards),
                shards,
                ignore_msb: choice & 0x3f,
                port: (choice & 0x10 != 0).then_some(19_042),
                tls_port: None,
            }),
            host_id: told,
        };
        let handle = id.index;
        self.plane.handle_connected(self.now, id, info, handle);
    }

    fn refuse(&mut self, input: &mut Input<'_>) {
        let Some(id) = self.pick(input, false) else {
            return;
        };
        let cause = match input.byte() & 7 {
            0 => ConnectCause::Timeout,
            1 => ConnectCause::Version { server: 4 },
            2 => ConnectCause::Version { server: 3 },
            3 => ConnectCause::NoCredentials {
                authenticator: "Password".into(),
            },
            4 => ConnectCause::Closed,
            _ => ConnectCause::Io(ErrorKind::ConnectionRefused.into()),
        };
        self.failed(id, cause);
    }

    fn failed(&mut self, id: ConnId, cause: ConnectCause) {
        if let Some(conn) = self.conns.remove(&id) {
            let error = ConnectError {
                address: conn.address,
                phase: ConnectPhase::Tcp,
                cause,
            };
            self.plane.handle_connect_failed(self.now, id, error);
        }
    }

    fn lose(&mut self, input: &mut Input<'_>) {
        if let Some(id) = self.pick(input, true) {
            let how = input.byte();
            if how & 6 == 6 {
                let error = ConnectionError::Orphans { count: 2_000 };
                self.plane.handle_draining(self.now, id, error);
                self.drain();
            }
            self.closed(id, how & 1 == 0);
        }
    }

    /// Reports the end of a connection, its requests before it or not at all.
    fn closed(&mut self, id: ConnId, replies_first: bool) {
        let (lost, kept) = std::mem::take(&mut self.queries)
            .into_iter()
            .partition(|query| query.conn == id);
        self.queries = kept;
        let lost: Vec<Query> = lost;
        for query in lost {
            if replies_first {
                let kind = AttemptErrorKind::Connection(ConnectionError::Eof);
                self.reply(query, Err(AttemptError::new(kind, Fate::MaybeApplied)));
                self.drain();
            }
        }
        self.conns.remove(&id);
        self.plane.handle_closed(self.now, id, ConnectionError::Eof);
    }

    fn reply(&mut self, query: Query, reply: Result<ResponseFrame, AttemptError>) {
        self.stale.push((query.conn, query.query));
        self.plane
            .handle_reply(self.now, query.conn, query.query, reply);
    }

    fn take_query(&mut self, input: &mut Input<'_>) -> Option<Query> {
        let at = input.below(self.queries.len().max(1));
        (at < self.queries.len()).then(|| self.queries.remove(at))
    }

    /// Answers with rows of the table that was asked for; the input says what is wrong with them.
    fn reply_with_rows(&mut self, input: &mut Input<'_>) {
        let Some(query) = self.take_query(input) else {
            return;
        };
        let mut body = rows::answer(&query.request, input);
        for _ in 0..input.byte() & 3 {
            let at = usize::from(input.short()) % body.len().max(1);
            if let Some(byte) = body.get_mut(at) {
                *byte = input.byte();
            }
        }
        self.reply(query, Ok(result(&body)));
    }

    fn reply_with_bytes(&mut self, input: &mut Input<'_>) {
        let Some(query) = self.take_query(input) else {
            return;
        };
        let body = input.stretch();
        self.reply(query, Ok(result(body)));
    }

    fn reply_with_error(&mut self, input: &mut Input<'_>) {
        let Some(query) = self.take_query(input) else {
            return;
        };
        let code: i32 = match input.byte() & 7 {
            0 | 1 => 0x2200,
            2 | 3 => 0x2000,
            4 => 0x2100,
            5 => 0x1001,
            _ => {
                let error = AttemptError::new(AttemptErrorKind::Expired, Fate::MaybeApplied);
                return self.reply(query, Err(error));
            }
        };
        let mut body = code.to_be_bytes().to_vec();
        body.extend([0, 2, b'n', b'o']);
        self.reply(query, Ok(response(Opcode::Error, &body)));
    }

    fn event_of_bytes(&mut self, input: &mut Input<'_>) {
        let frame = response(Opcode::Event, input.stretch());
        if let Ok(envelope) = frame.parse(&features(0))
            && let Response::Event(event) = envelope.response
        {
            self.tell(input, event);
        }
    }

    fn event(&mut self, input: &mut Input<'_>) {
        use messina_core::wire::TopologyChange as Change;
        let address = rows::address(input.byte() & 7);
        let event = match input.byte() & 7 {
            0 => ServerEvent::Topology {
                change: Change::NewNode,
                address,
            },
            1 => ServerEvent::Topology {
                change: Change::RemovedNode,
                address,
            },
            2 => ServerEvent::Topology {
                change: Change::MovedNode,
                address,
            },
            3 | 4 => ServerEvent::Status { up: false, address },
            5 => ServerEvent::Status { up: true, address },
            6 => ServerEvent::Schema(schema_change(input)),
            _ => ServerEvent::Unknown { kind: input.text() },
        };
        self.tell(input, event);
    }

    fn tell(&mut self, input: &mut Input<'_>, event: ServerEvent) {
        if let Some(id) = self.pick(input, true) {
            // A flood of the same event must not cost more than one.
            for _ in 0..=input.byte() & 0x1f {
                self.plane.handle_event(self.now, id, event.clone());
            }
        }
    }

    /// Reports things about connections and requests that are over.
    fn stale(&mut self, input: &mut Input<'_>) {
        let at = input.below(self.stale.len().max(1));
        let Some((conn, query)) = self.stale.get(at).copied() else {
            return;
        };
        let error = AttemptError::new(AttemptErrorKind::Expired, Fate::MaybeApplied);
        self.plane.handle_reply(self.now, conn, query, Err(error));
        if !self.conns.contains_key(&conn) {
            self.plane
                .handle_closed(self.now, conn, ConnectionError::Eof);
            self.plane.handle_event(
                self.now,
                conn,
                ServerEvent::Unknown {
                    kind: String::new(),
                },
            );
        }
    }

    /// Lets time pass, with the timer fired whenever it is due and late requests expired.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut fired = 0;
        while let Some(at) = self.plane.poll_timeout()
            && at <= end
        {
            assert!(fired < TIMER_MAX, "the timer never rests");
            fired += 1;
            self.now = self.now.max(at);
            self.plane.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
        let (late, kept) = std::mem::take(&mut self.queries)
            .into_iter()
            .partition(|query| query.deadline.is_some_and(|deadline| deadline <= end));
        self.queries = kept;
        let late: Vec<Query> = late;
        for query in late {
            let error = AttemptError::new(AttemptErrorKind::Expired, Fate::MaybeApplied);
            self.reply(query, Err(error));
            self.drain();
        }
    }

    /// Lets everything that is under way succeed.
    fn do_well(&mut self) {
        for id in std::mem::take(&mut self.resolving) {
            self.plane
                .handle_resolved(self.now, id, Ok(vec![rows::address(0)]));
        }
        let opening: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| !conn.open)
            .map(|(id, _)| *id)
            .collect();
        for id in opening {
            self.connected(id, 0);
            self.drain();
        }
        for query in std::mem::take(&mut self.queries) {
            let body = rows::answer(&query.request, &mut Input::new(&[]));
            self.reply(query, Ok(result(&body)));
            self.drain();
        }
        let leaving: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.open && conn.leaving)
            .map(|(id, _)| *id)
            .collect();
        for id in leaving {
            self.closed(id, true);
            self.drain();
        }
    }
}

fn schema_change(input: &mut Input<'_>) -> SchemaChange {
    let choice = input.byte();
    let name = || "t".to_owned();
    SchemaChange {
        change: SchemaChangeKind::Updated,
        target: match choice & 3 {
            0 => SchemaTarget::Keyspace,
            1 => SchemaTarget::Type { name: name() },
            _ => SchemaTarget::Table { name: name() },
        },
        keyspace: match choice >> 2 & 7 {
            7 => "x".repeat(100),
            at => format!("ks{at}"),
        },
    }
}

fn result(body: &[u8]) -> ResponseFrame {
    response(Opcode::Result, body)
}

fn response(opcode: Opcode, body: &[u8]) -> ResponseFrame {
    let bytes = frame(1, opcode.byte(), body);
    let (head, body) = bytes
        .split_first_chunk::<{ FrameHeader::LEN }>()
        .expect("a header was made");
    let header = FrameHeader::parse(head).expect("the header is valid");
    assert_eq!(header.flags, Flags::empty());
    ResponseFrame {
        header,
        body: Bytes::copy_from_slice(body),
    }
}

const TIMES_MS: [u64; 8] = [0, 3, 100, 250, 1_000, 2_500, 6_000, 45_000];
const OPENING_MAX: usize = 2;
/// Attempts for the control connection beside each other.
const CONTROL_MAX: usize = 3;
/// What may come out at a time: notes and news are capped at a thousand, everything else is a few for each host.
const OUTPUTS_MAX: usize = 4_096;
/// Far above the timers of the longest pause: one every few milliseconds.
const TIMER_MAX: usize = 20_000;
