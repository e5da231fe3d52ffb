//! What the requests of a connection do, and what they are answered.

mod limits;
mod statements;

use std::time::Instant;

use bytes::Bytes;
use messina_core::wire::event::EventKind;
use messina_core::wire::header::{Direction, FrameHeader, Opcode};
use messina_core::wire::read::Reader;
use messina_core::wire::request::{Request, RequestOptions, StatementSource};
use messina_core::wire::response::{Envelope, Response};
use messina_core::wire::supported::{Compression, ProtocolFeatures, Supported};
use uuid::Uuid;

use crate::cluster::{Cluster, ConnectionId};

use super::auth::{PASSWORD_AUTHENTICATOR, login};
use super::intercept::{Reaction, RequestKind, SeenRequest};
use super::protocol::{Frame, Stage, error_response, malformed, opcode_name, response};
use super::system_tables::{CQL_VERSION, PARTITIONER};
use super::tracing::Trace;
use super::{CqlError, IGNORE_MSB, Interceptor};

/// The bit that marks conditional statements, for those who asked for the mark.
const LWT_MARK: u32 = 0x8000_0000;
/// The code of rate limit errors, for those who asked for them.
const RATE_LIMIT_CODE: i32 = 0xF000;

impl Cluster {
    /// Takes one request: asks the interceptor, then carries it out.
    pub(crate) fn serve(&mut self, now: Instant, id: ConnectionId, frame: Frame) {
        match self.ask(id, &frame) {
            Reaction::Answer => self.carry_out(now, id, frame),
            Reaction::Delay(by) => {
                let count = self.database.next_unique();
                self.delayed.insert((now + by, count), (id, frame));
            }
            Reaction::Forget => {
                let _ = self.decide(now, id, &frame);
            }
            Reaction::Ignore => {}
            Reaction::Refuse(error) => self.reply(id, frame.stream, error_response(&error)),
            Reaction::Fail(error) => {
                self.reply(id, frame.stream, response(Response::Error(error)));
            }
            Reaction::Deny(error) => {
                let _ = self.decide(now, id, &frame);
                self.reply(id, frame.stream, response(Response::Error(error)));
                self.announce_pending();
            }
            Reaction::Disconnect => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.close();
                }
            }
        }
    }

    /// Carries out a request and answers it.
    pub(crate) fn carry_out(&mut self, now: Instant, id: ConnectionId, frame: Frame) {
        let stream = frame.stream;
        match self.decide(now, id, &frame) {
            Ok(envelope) => self.reply(id, stream, envelope),
            Err(error) => self.reply(id, stream, error_response(&error)),
        }
        self.announce_pending();
    }

    fn reply(&mut self, id: ConnectionId, stream: i16, envelope: Envelope) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(stream, envelope);
        }
    }

    fn ask(&mut self, id: ConnectionId, frame: &Frame) -> Reaction {
        let Some(mut interceptor) = self.interceptor.take() else {
            return Reaction::Answer;
        };
        let reaction = self.ask_interceptor(&mut interceptor, id, frame);
        self.interceptor = Some(interceptor);
        reaction
    }

    fn ask_interceptor(
        &self,
        interceptor: &mut Interceptor,
        id: ConnectionId,
        frame: &Frame,
    ) -> Reaction {
        let Some(connection) = self.connections.get(&id) else {
            return Reaction::Answer;
        };
        let kind = match Opcode::from_byte(frame.opcode) {
            Some(Opcode::Options) => RequestKind::Options,
            Some(Opcode::Startup) => RequestKind::Startup,
            Some(Opcode::AuthResponse) => RequestKind::AuthResponse,
            Some(Opcode::Register) => RequestKind::Register,
            Some(Opcode::Query) => RequestKind::Query,
            Some(Opcode::Prepare) => RequestKind::Prepare,
            Some(Opcode::Execute) => RequestKind::Execute,
            Some(Opcode::Batch) => RequestKind::Batch,
            _ => return Reaction::Answer,
        };
        let request = decode(frame, &connection.features)
            .ok()
            .map(|(_, request)| request);
        let of_prepared = |id: &Bytes| {
            let node = self.nodes.get(connection.node)?;
            node.prepared
                .find(id)
                .ok()
                .map(|prepared| prepared.text.clone())
        };
        let text = match &request {
            Some(Request::Query { text, .. } | Request::Prepare { text, .. }) => Some(text.clone()),
            Some(Request::Execute { id, .. }) => of_prepared(id),
            Some(Request::Batch(batch)) => {
                match batch.statements.first().map(|first| &first.statement) {
                    Some(StatementSource::Text(text)) => Some(text.clone()),
                    Some(StatementSource::Prepared(id)) => of_prepared(id),
                    None => None,
                }
            }
            _ => None,
        };
        let consistency = match &request {
            Some(Request::Query { params, .. } | Request::Execute { params, .. }) => {
                Some(params.consistency)
            }
            Some(Request::Batch(batch)) => Some(batch.consistency),
            _ => None,
        };
        let (node, shard) = (connection.node, connection.shard);
        (interceptor.0)(&SeenRequest {
            connection: id,
            node,
            shard,
            kind,
            text: text.as_deref(),
            consistency,
        })
    }

    /// What a request is answered.
    fn decide(
        &mut self,
        now: Instant,
        id: ConnectionId,
        frame: &Frame,
    ) -> Result<Envelope, CqlError> {
        let gone = || CqlError::new(CqlError::SERVER, "the connection is gone");
        let connection = self.connections.get(&id).ok_or_else(gone)?;
        let opcode =
            Opcode::from_byte(frame.opcode).filter(|o| o.direction() == Direction::Request);
        let features = connection.features;
        check_stage(connection.stage, opcode, frame.opcode)?;
        let Some(opcode) = opcode else {
            return Err(CqlError::protocol(format!(
                "Unknown opcode {}",
                frame.opcode
            )));
        };
        if opcode == Opcode::Register {
            return self.register(id, frame);
        }
        if opcode == Opcode::Execute {
            self.check_known(id, frame)?;
        }
        let (options, request) =
            decode(frame, &features).map_err(|error| malformed(&error, frame.body.len()))?;
        self.count(id, opcode);
        let answer = match request {
            Request::Options => return Ok(response(Response::Supported(self.supported(id)))),
            Request::Startup(options) => return self.startup(id, options),
            Request::AuthResponse(_) => return self.log_in(id, &frame.body),
            Request::Register(_) => return self.register(id, frame),
            Request::Query { text, params } => self.query(now, id, &text, &params),
            Request::Prepare { text, .. } => self.prepare(id, &text),
            Request::Execute {
                id: statement,
                result_metadata_id,
                params,
                ..
            } => self.execute_prepared(now, id, &statement, result_metadata_id.as_deref(), &params),
            Request::Batch(batch) => self.batch(now, id, &batch),
            _ => Err(CqlError::protocol(format!(
                "Unknown opcode {}",
                frame.opcode
            ))),
        };
        let mut envelope = answer.map_or_else(|error| error_response(&error), response);
        if options.tracing {
            envelope.tracing_id = self.trace(now, id, opcode);
        }
        Ok(envelope)
    }

    /// Remembers a request that asked to be traced; gives the id of the trace.
    fn trace(&mut self, now: Instant, id: ConnectionId, opcode: Opcode) -> Option<Uuid> {
        let request = match opcode {
            Opcode::Query => "Execute CQL3 query",
            Opcode::Prepare => "Preparing CQL3 query",
            Opcode::Execute => "Execute CQL3 prepared query",
            Opcode::Batch => "Execute batch of CQL3 queries",
            _ => return None,
        };
        let started_at = self.unix_micros(now);
        let connection = self.connections.get(&id)?;
        let trace = Trace {
            id: self.database.time_uuid(started_at),
            event_id: self.database.time_uuid(started_at),
            coordinator: self.nodes.get(connection.node)?.address.ip(),
            client: connection.peer.ip(),
            shard: connection.shard,
            user: connection.user.clone(),
            request,
            started_at,
        };
        let id = trace.id;
        self.traces.push(trace);
        Some(id)
    }

    fn count(&mut self, id: ConnectionId, opcode: Opcode) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let shard = usize::from(connection.shard);
        let Some(node) = self.nodes.get_mut(connection.node) else {
            return;
        };
        let statistics = &mut node.statistics;
        match opcode {
            Opcode::Query => statistics.queries += 1,
            Opcode::Prepare => statistics.prepares += 1,
            Opcode::Execute => statistics.executions += 1,
            Opcode::Batch => statistics.batches += 1,
            _ => {}
        }
        if matches!(opcode, Opcode::Query | Opcode::Execute | Opcode::Batch)
            && let Some(count) = statistics.by_shard.get_mut(shard)
        {
            *count += 1;
        }
    }

    /// An unknown statement is reported even when the rest of the request makes no sense.
    fn check_known(&mut self, id: ConnectionId, frame: &Frame) -> Result<(), CqlError> {
        let skipped = frame
            .flags
            .contains(messina_core::wire::header::Flags::CUSTOM_PAYLOAD);
        let mut reader = Reader::of_bytes(&frame.body);
        if skipped && reader.bytes_map().is_err() {
            return Ok(());
        }
        let Ok(statement) = reader.shared_short_bytes() else {
            return Ok(());
        };
        let node = self.connections.get(&id).map(|connection| connection.node);
        let Some(node) = node.and_then(|node| self.nodes.get_mut(node)) else {
            return Ok(());
        };
        if let Err(error) = node.prepared.find(&statement) {
            node.statistics.unprepared += 1;
            return Err(error);
        }
        Ok(())
    }

    fn supported(&self, id: ConnectionId) -> Supported {
        let one = |key: &str, value: String| (key.to_owned(), vec![value]);
        let connection = self.connections.get(&id);
        let node = connection.and_then(|connection| self.nodes.get(connection.node));
        let host_id = node.map_or_else(Uuid::nil, |node| node.host_id);
        let compression: &[&str] = if self.config.compression {
            &["lz4", "snappy"]
        } else {
            &[]
        };
        let compression = compression.iter().map(|name| (*name).to_owned()).collect();
        let shards = node.and_then(|node| node.shards.told());
        let mut options = vec![
            one("CLIENT_OPTIONS", String::new()),
            ("COMPRESSION".to_owned(), compression),
            one("CQL_VERSION", CQL_VERSION.to_owned()),
            one("SCYLLA_HOST_ID", host_id.to_string()),
            one(
                "SCYLLA_LWT_ADD_METADATA_MARK",
                format!("LWT_OPTIMIZATION_META_BIT_MASK={LWT_MARK}"),
            ),
            one(
                "SCYLLA_RATE_LIMIT_ERROR",
                format!("ERROR_CODE={RATE_LIMIT_CODE}"),
            ),
            one("SCYLLA_USE_METADATA_ID", String::new()),
            one("TABLETS_ROUTING_V1", String::new()),
        ];
        if let Some(shards) = shards {
            let shard = connection.map_or(0, |connection| connection.shard);
            options.extend([
                one("SCYLLA_NR_SHARDS", shards.to_string()),
                one("SCYLLA_PARTITIONER", PARTITIONER.to_owned()),
                one("SCYLLA_SHARD", shard.to_string()),
                one(
                    "SCYLLA_SHARDING_ALGORITHM",
                    "biased-token-round-robin".to_owned(),
                ),
                one("SCYLLA_SHARDING_IGNORE_MSB", IGNORE_MSB.to_string()),
            ]);
            if let Some(port) = self.config.shard_aware_port {
                let key = match self.config.encrypted {
                    true => "SCYLLA_SHARD_AWARE_PORT_SSL",
                    false => "SCYLLA_SHARD_AWARE_PORT",
                };
                options.push(one(key, port.to_string()));
            }
        }
        options.sort();
        Supported { options }
    }

    fn startup(
        &mut self,
        id: ConnectionId,
        options: Vec<(String, String)>,
    ) -> Result<Envelope, CqlError> {
        let offers = self.config.compression;
        let asks = self.config.credentials.is_some();
        let gone = || CqlError::new(CqlError::SERVER, "the connection is gone");
        let connection = self.connections.get_mut(&id).ok_or_else(gone)?;
        // A key that is sent twice keeps its first value.
        let mut kept: Vec<(String, String)> = Vec::new();
        for (key, value) in options {
            if !kept.iter().any(|(known, _)| *known == key) {
                kept.push((key, value));
            }
        }
        let find = |key: &str| {
            kept.iter()
                .find(|(known, _)| known == key)
                .map(|(_, value)| value)
        };
        let compression = match find("COMPRESSION").map(|name| name.to_ascii_lowercase()) {
            None => None,
            Some(name) => match name.as_str() {
                "lz4" if offers => Some(Compression::Lz4),
                "snappy" if offers => Some(Compression::Snappy),
                _ => {
                    return Err(CqlError::protocol(format!(
                        "Unknown compression algorithm: {name}"
                    )));
                }
            },
        };
        connection.features = ProtocolFeatures {
            lwt_mark_mask: find("SCYLLA_LWT_ADD_METADATA_MARK").map(|_| LWT_MARK),
            rate_limit_error: find("SCYLLA_RATE_LIMIT_ERROR").map(|_| RATE_LIMIT_CODE),
            metadata_id: find("SCYLLA_USE_METADATA_ID").is_some(),
            tablets_v1: find("TABLETS_ROUTING_V1").is_some(),
            compression,
            ..ProtocolFeatures::default()
        };
        connection.options = kept;
        if asks {
            connection.stage = Stage::Authenticating;
            return Ok(response(Response::Authenticate(
                PASSWORD_AUTHENTICATOR.to_owned(),
            )));
        }
        connection.stage = Stage::Ready;
        Ok(response(Response::Ready))
    }

    fn log_in(&mut self, id: ConnectionId, token: &[u8]) -> Result<Envelope, CqlError> {
        let Some((role, password)) = &self.config.credentials else {
            return Err(CqlError::protocol(
                "Unexpected message AUTH_RESPONSE, expecting STARTUP or OPTIONS",
            ));
        };
        let user = login(token, role, password)?;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stage = Stage::Ready;
            connection.user = user;
        }
        Ok(response(Response::AuthSuccess(Some(Bytes::new()))))
    }

    fn register(&mut self, id: ConnectionId, frame: &Frame) -> Result<Envelope, CqlError> {
        let names = Reader::of_bytes(&frame.body)
            .string_list()
            .map_err(|error| malformed(&error, frame.body.len()))?;
        for name in names {
            let kind = EventKind::from_name(&name).ok_or_else(|| {
                CqlError::protocol(format!("Invalid value '{name}' for Event.Type"))
            })?;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.registered.insert(kind.name());
            }
        }
        Ok(response(Response::Ready))
    }
}

fn decode(
    frame: &Frame,
    features: &ProtocolFeatures,
) -> Result<(RequestOptions, Request), messina_core::error::protocol::ProtocolError> {
    use messina_core::error::protocol::{ProtocolError, ProtocolErrorKind};
    let opcode = Opcode::from_byte(frame.opcode)
        .ok_or_else(|| ProtocolError::new(ProtocolErrorKind::UnknownOpcode(frame.opcode), 0))?;
    let header = FrameHeader {
        direction: Direction::Request,
        version: features.version.byte(),
        flags: frame.flags,
        stream: frame.stream,
        opcode,
        length: u32::try_from(frame.body.len()).unwrap_or(u32::MAX),
    };
    Request::decode(&header, &frame.body, features)
}

/// Refuses requests that the state of the connection does not allow.
fn check_stage(stage: Stage, opcode: Option<Opcode>, raw: u8) -> Result<(), CqlError> {
    let name = || opcode.map_or_else(|| raw.to_string(), opcode_name);
    match (stage, opcode) {
        (Stage::Established, Some(Opcode::Options | Opcode::Startup)) => Ok(()),
        (Stage::Established, _) => Err(CqlError::protocol(format!(
            "Unexpected message {}, expecting STARTUP or OPTIONS",
            name()
        ))),
        (Stage::Authenticating, Some(Opcode::AuthResponse)) => Ok(()),
        (Stage::Authenticating, _) => Err(CqlError::protocol(format!(
            "Unexpected message {}, expecting SASL_RESPONSE",
            name()
        ))),
        (Stage::Ready, Some(Opcode::Startup)) => Err(CqlError::protocol(
            "Unexpected message STARTUP, the connection is already initialized",
        )),
        (Stage::Ready, Some(Opcode::AuthResponse)) => Err(CqlError::protocol(
            "Unexpected message AUTH_RESPONSE, the connection is already initialized",
        )),
        (Stage::Ready, _) => Ok(()),
    }
}
