//! A small cluster, a fixed plan and hand-made frames for the tests of this folder and of the retry policies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
pub(crate) use messina_testkit::virtual_start;
use uuid::Uuid;

use super::prepared::{Preparation, PreparedStatement};
use super::statement::{RequestSettings, StatementOptions};
use super::targets::{Planned, Targets};
use super::{AttemptId, Connections, Execution, ExecutionOutput, ExecutionPlan, StatementKind};
use crate::config::profile::ExecutionProfile;
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::request::RequestError;
use crate::policy::load_balancing::{ClusterView, LoadBalancingPolicy, PlanRequest};
use crate::routing::{Host, HostIdx, HostState, Loads, PoolView, Routing};
use crate::wire::consistency::Consistency;
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode};
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::{PreparedBody, ResultBody};
use crate::wire::supported::ProtocolFeatures;

/// Makes a cluster in which host `n` has the one connection `n`, except for the hosts named.
pub(crate) fn routing(hosts: u16, without_connection: &[u16]) -> Routing<u32> {
    let host = |n: u16| {
        let ip = Ipv4Addr::new(10, 0, 0, u8::try_from(n + 1).expect("few hosts"));
        let mut host = Host::new(
            Uuid::from_u128(u128::from(n) + 1),
            SocketAddr::new(IpAddr::V4(ip), 9042),
        );
        host.state = HostState::Up;
        host
    };
    let pool = |n: u16| match without_connection.contains(&n) {
        true => PoolView::default(),
        false => PoolView::new(None, vec![(None, u32::from(n))]),
    };
    Routing {
        hosts: (0..hosts).map(host).collect(),
        pools: (0..hosts).map(pool).collect(),
        keyspace: Some("ks".into()),
        ..Routing::default()
    }
}

/// Tries all hosts in the order of their indexes.
#[derive(Debug)]
pub(crate) struct InOrder;

impl LoadBalancingPolicy for InOrder {
    fn first(&self, _: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
        (!cluster.hosts().is_empty()).then_some(place(0))
    }

    fn rest(&self, _: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets) {
        (0..)
            .zip(cluster.hosts())
            .for_each(|(n, _)| targets.push(place(n)));
    }
}

/// Owns connections that have all agreed on the same.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    pub(crate) features: ProtocolFeatures,
}

impl Loads<u32> for Owner {
    fn in_flight(&self, _: &u32) -> u32 {
        0
    }
}

impl Connections<u32> for Owner {
    fn features(&self, _: &u32) -> ProtocolFeatures {
        self.features
    }
}

/// Says what an execution put out, without what a test rarely looks at.
#[derive(Debug)]
pub(crate) enum Seen {
    Send { to: u16, at: Consistency },
    Prepare { to: u16, text: String },
    Abandon,
    Done(Result<ResponseFrame, RequestError>),
}

/// Drives one execution in a cluster of its own at instants of its own.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) execution: Execution<u32>,
    pub(crate) routing: Routing<u32>,
    pub(crate) owner: Owner,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    pub(crate) last_attempt: AttemptId,
    /// The keyspace that the last PREPARE named.
    pub(crate) last_keyspace: Option<Arc<str>>,
}

impl Drive {
    /// Makes a request of three nodes with one connection each.
    pub(crate) fn new(setup: Setup) -> Self {
        let start = virtual_start();
        let profile = ExecutionProfile {
            load_balancing: Arc::new(InOrder),
            ..setup.profile
        };
        let mut settings = setup.options.settle(start, &profile, || 1000);
        settings.idempotent = setup.idempotent;
        let mut plan = ExecutionPlan::new(setup.kind, Arc::new(profile), settings, 7);
        plan.conditional = setup.conditional;
        plan.only = setup.only;
        plan.prefer = setup.prefer;
        Self {
            execution: Execution::new(plan),
            routing: setup.routing,
            owner: Owner {
                features: setup.features,
            },
            start,
            now: start,
            last_attempt: AttemptId(0),
            last_keyspace: None,
        }
    }

    pub(crate) fn start(&mut self) -> Vec<Seen> {
        self.execution.start(self.now, &self.routing, &self.owner);
        self.drain()
    }

    pub(crate) fn answer(&mut self, frame: ResponseFrame) -> Vec<Seen> {
        self.reply(self.last_attempt, Ok(frame))
    }

    pub(crate) fn lose(&mut self, kind: AttemptErrorKind, fate: Fate) -> Vec<Seen> {
        self.reply(self.last_attempt, Err(AttemptError::new(kind, fate)))
    }

    pub(crate) fn reply(
        &mut self,
        attempt: AttemptId,
        reply: Result<ResponseFrame, AttemptError>,
    ) -> Vec<Seen> {
        self.execution
            .handle_reply(self.now, attempt, reply, &self.routing, &self.owner);
        self.drain()
    }

    /// Lets time pass up to `ms` after the start.
    pub(crate) fn at_ms(&mut self, ms: u64) -> Vec<Seen> {
        self.now = self.start + Duration::from_millis(ms);
        self.execution
            .handle_timeout(self.now, &self.routing, &self.owner);
        self.drain()
    }

    /// Returns when the execution wants to be called, in milliseconds after the start.
    pub(crate) fn wakes_at_ms(&self) -> Option<u128> {
        self.execution
            .poll_timeout()
            .map(|at| at.saturating_duration_since(self.start).as_millis())
    }

    fn drain(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(output) = self.execution.poll_output() {
            seen.push(match output {
                ExecutionOutput::Send {
                    attempt,
                    to,
                    params,
                } => {
                    self.last_attempt = attempt;
                    Seen::Send {
                        to: to.host.0,
                        at: params.consistency,
                    }
                }
                ExecutionOutput::Prepare {
                    attempt,
                    to,
                    text,
                    keyspace,
                    ..
                } => {
                    self.last_attempt = attempt;
                    self.last_keyspace = keyspace;
                    Seen::Prepare {
                        to: to.host.0,
                        text: text.to_string(),
                    }
                }
                ExecutionOutput::Abandon { .. } => Seen::Abandon,
                ExecutionOutput::Done(result) => Seen::Done(result),
            });
        }
        seen
    }
}

/// Says what kind of request a test makes.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) kind: StatementKind,
    pub(crate) profile: ExecutionProfile,
    pub(crate) options: StatementOptions,
    pub(crate) idempotent: bool,
    pub(crate) conditional: bool,
    pub(crate) only: Option<Planned>,
    pub(crate) prefer: Option<Planned>,
    pub(crate) routing: Routing<u32>,
    pub(crate) features: ProtocolFeatures,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            kind: StatementKind::Text,
            profile: ExecutionProfile::default(),
            options: StatementOptions::default(),
            idempotent: true,
            conditional: false,
            only: None,
            prefer: None,
            routing: routing(3, &[]),
            features: ProtocolFeatures::default(),
        }
    }
}

/// Names a host as a policy does.
pub(crate) fn place(host: u16) -> Planned {
    Planned {
        host: HostIdx(host),
        shard: None,
    }
}

/// Returns the host that the only output sends to.
#[track_caller]
pub(crate) fn sent_to(seen: &[Seen]) -> u16 {
    match seen {
        [Seen::Send { to, .. }] => *to,
        other => panic!("one send is expected, not {other:?}"),
    }
}

/// Returns the error that the only output ends with.
#[track_caller]
pub(crate) fn failed(mut seen: Vec<Seen>) -> RequestError {
    match seen.pop() {
        Some(Seen::Done(Err(error))) if seen.is_empty() => error,
        other => panic!("one error is expected, not {seen:?} and {other:?}"),
    }
}

/// Returns the frame that the only output ends with.
#[track_caller]
pub(crate) fn done(mut seen: Vec<Seen>) -> ResponseFrame {
    match seen.pop() {
        Some(Seen::Done(Ok(frame))) if seen.is_empty() => frame,
        other => panic!("one result is expected, not {seen:?} and {other:?}"),
    }
}

pub(crate) fn broken() -> AttemptErrorKind {
    AttemptErrorKind::Connection(ConnectionError::Eof)
}

/// Appends the notation of the wire.
#[derive(Debug, Default)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn short(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn short_bytes(mut self, value: &[u8]) -> Self {
        self = self.short(u16::try_from(value.len()).expect("short"));
        self.0.extend(value);
        self
    }

    pub(crate) fn string(self, value: &str) -> Self {
        self.short_bytes(value.as_bytes())
    }

    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self = self.int(i32::try_from(value.len()).expect("small"));
        self.0.extend(value);
        self
    }

    /// Appends `ks.t` as the table of all columns, then a name and the id of a type for each.
    pub(crate) fn columns(self, columns: &[(&str, u16)]) -> Self {
        let table = if columns.is_empty() {
            self
        } else {
            self.string("ks").string("t")
        };
        columns
            .iter()
            .fold(table, |body, (name, ty)| body.string(name).short(*ty))
    }

    pub(crate) fn frame(self, opcode: Opcode, flags: Flags) -> ResponseFrame {
        let length = u32::try_from(self.0.len()).expect("small");
        let header = FrameHeader {
            direction: Direction::Response,
            version: 4,
            flags,
            stream: 1,
            opcode,
            length,
        };
        ResponseFrame {
            header,
            body: self.0.into(),
        }
    }

    pub(crate) fn result(self) -> ResponseFrame {
        self.frame(Opcode::Result, Flags::empty())
    }
}

pub(crate) const INT: u16 = 0x0009;
pub(crate) const TEXT: u16 = 0x000d;
pub(crate) const BOOLEAN: u16 = 0x0004;

pub(crate) fn void() -> ResponseFrame {
    Body::default().int(1).result()
}

/// An ERROR with nothing behind its message.
pub(crate) fn error(code: i32) -> ResponseFrame {
    error_with(code, |body| body)
}

pub(crate) fn error_with(code: i32, tail: impl FnOnce(Body) -> Body) -> ResponseFrame {
    tail(Body::default().int(code).string("no")).frame(Opcode::Error, Flags::empty())
}

pub(crate) fn overloaded() -> ResponseFrame {
    error(0x1001)
}

pub(crate) fn unavailable(alive: i32) -> ResponseFrame {
    error_with(0x1000, |body| body.short(4).int(2).int(alive))
}

pub(crate) fn read_timeout(received: i32, block_for: i32, data_present: u8) -> ResponseFrame {
    error_with(0x1200, |body| {
        body.short(4)
            .int(received)
            .int(block_for)
            .byte(data_present)
    })
}

pub(crate) fn write_timeout(write_type: &str) -> ResponseFrame {
    error_with(0x1100, |body| {
        body.short(4).int(1).int(2).string(write_type)
    })
}

pub(crate) fn unprepared(id: &[u8]) -> ResponseFrame {
    error_with(0x2500, |body| body.short_bytes(id))
}

/// The answer to a PREPARE of a statement with the bind markers `k int` and `v text`, `k` being the key.
pub(crate) fn prepared_frame(
    id: &[u8],
    result: &[(&str, u16)],
    metadata_id: Option<&[u8]>,
) -> ResponseFrame {
    let body = Body::default().int(4).short_bytes(id);
    let body = metadata_id.into_iter().fold(body, Body::short_bytes);
    let body = body
        .int(1)
        .int(2)
        .int(1)
        .short(0)
        .columns(&[("k", INT), ("v", TEXT)]);
    let count = i32::try_from(result.len()).expect("few");
    let flags = if result.is_empty() { 4 } else { 1 };
    body.int(flags).int(count).columns(result).result()
}

/// A prepared statement with the bind markers `k int` and `v text`.
pub(crate) fn prepared(
    id: &[u8],
    result: &[(&str, u16)],
    metadata_id: Option<&[u8]>,
) -> PreparedStatement {
    let features = ProtocolFeatures {
        metadata_id: metadata_id.is_some(),
        ..ProtocolFeatures::default()
    };
    let frame = prepared_frame(id, result, metadata_id);
    let envelope = frame.parse(&features).expect("our own frame");
    let Response::Result(ResultBody::Prepared(body)) = envelope.response else {
        panic!("our own frame")
    };
    PreparedStatement::new("SELECT".into(), Some("ks".into()), body, &routing(3, &[]))
}

/// A prepared statement with this text, in this keyspace.
pub(crate) fn prepared_text(text: &str, keyspace: &str) -> PreparedStatement {
    let body = prepared_body(b"id", &[("k", INT), ("v", TEXT)]);
    PreparedStatement::new(text.into(), Some(keyspace.into()), body, &routing(3, &[]))
}

/// What a server says about a statement with these bind markers, the first being the key.
pub(crate) fn prepared_body(id: &[u8], markers: &[(&str, u16)]) -> PreparedBody {
    let count = i32::try_from(markers.len()).expect("few");
    let body = Body::default()
        .int(4)
        .short_bytes(id)
        .int(1)
        .int(count)
        .int(1)
        .short(0);
    let frame = body.columns(markers).int(4).int(0).result();
    let envelope = frame
        .parse(&ProtocolFeatures::default())
        .expect("our own frame");
    let Response::Result(ResultBody::Prepared(body)) = envelope.response else {
        panic!("our own frame")
    };
    body
}

pub(crate) fn preparation(id: &[u8]) -> Arc<Preparation> {
    Arc::clone(prepared(id, &[], None).preparation())
}

/// A page of rows of ints, in the columns named.
pub(crate) fn rows(
    columns: &[&str],
    rows: &[&[i32]],
    paging_state: Option<&[u8]>,
) -> ResponseFrame {
    let specs: Vec<(&str, u16)> = columns.iter().map(|name| (*name, INT)).collect();
    let flags = 1 + i32::from(paging_state.is_some()) * 2;
    let body = Body::default()
        .int(2)
        .int(flags)
        .int(i32::try_from(columns.len()).expect("few"));
    let body = paging_state
        .into_iter()
        .fold(body, Body::bytes)
        .columns(&specs);
    cells(body, rows)
}

pub(crate) fn cells(body: Body, rows: &[&[i32]]) -> ResponseFrame {
    let body = body.int(i32::try_from(rows.len()).expect("few"));
    rows.iter()
        .copied()
        .flatten()
        .fold(body, |body, cell| body.bytes(&cell.to_be_bytes()))
        .result()
}

pub(crate) fn settings() -> RequestSettings {
    StatementOptions::default().settle(virtual_start(), &ExecutionProfile::default(), || 1000)
}

pub(crate) fn bytes(value: &'static [u8]) -> Bytes {
    Bytes::from_static(value)
}
