//! One connection to a node: cuts bytes into frames, keeps the state of the handshake, and writes answers. What
//! requests do is in `requests`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use messina_core::error::protocol::{ProtocolError, ProtocolErrorKind};
use messina_core::wire::consistency::Consistency;
use messina_core::wire::event::{EventKind, ServerEvent};
use messina_core::wire::header::{Flags, FrameHeader, Opcode, RawHeader};
use messina_core::wire::response::{Envelope, Response};
use messina_core::wire::server_error::{OperationKind, ServerError, ServerErrorDetail, WriteType};
use messina_core::wire::supported::ProtocolFeatures;

use super::compress::{pack, unpack};
use super::shards::PortKind;
use super::{CqlError, CqlErrorDetail};

/// The state of one connection, seen from the node.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    pub(crate) node: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) port_kind: PortKind,
    /// The port of the node that the client is connected to.
    pub(crate) local_port: u16,
    pub(crate) shard: u16,
    pub(crate) stage: Stage,
    pub(crate) features: ProtocolFeatures,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) user: String,
    pub(crate) keyspace: Option<String>,
    pub(crate) registered: BTreeSet<&'static str>,
    received: BytesMut,
    frames: u64,
    out: Vec<u8>,
    closing: bool,
}

/// How far the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// STARTUP has not come.
    Established,
    /// The client has to log in.
    Authenticating,
    /// Everything is allowed.
    Ready,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::Authenticating => "AUTHENTICATING",
            Self::Ready => "READY",
        }
    }
}

/// A request that was cut out of the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) stream: i16,
    pub(crate) flags: Flags,
    pub(crate) opcode: u8,
    pub(crate) body: Bytes,
}

/// The first frame must not be longer than this.
const FIRST_BODY_MAX: usize = 100_000;
/// No frame may be longer; the server's own limit is a share of its memory.
const BODY_MAX: usize = 256 * 1024 * 1024;
/// The most that is set aside for a body that has not arrived.
const RESERVE_MAX: usize = 1024 * 1024;
/// The only version that is spoken.
const VERSION: u8 = 4;

impl NodeConnection {
    pub(crate) fn new(
        node: usize,
        peer: SocketAddr,
        port_kind: PortKind,
        local_port: u16,
        shard: u16,
    ) -> Self {
        Self {
            node,
            peer,
            port_kind,
            local_port,
            shard,
            stage: Stage::Established,
            features: ProtocolFeatures::default(),
            options: Vec::new(),
            user: "anonymous".to_owned(),
            keyspace: None,
            registered: BTreeSet::new(),
            received: BytesMut::new(),
            frames: 0,
            out: Vec::new(),
            closing: false,
        }
    }

    /// Takes bytes from the client.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if !self.closing {
            self.received.extend_from_slice(bytes);
        }
    }

    /// Takes what is to be sent.
    pub(crate) fn take_output(&mut self) -> Option<Bytes> {
        if self.out.is_empty() {
            None
        } else {
            Some(std::mem::take(&mut self.out).into())
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Ends the connection once its output is sent.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.received.clear();
    }

    /// The client stops sending in the middle of a header.
    pub(crate) fn end_of_input(&mut self) {
        if !self.closing && !self.received.is_empty() && self.received.len() < FrameHeader::LEN {
            self.fail(&CqlError::new(CqlError::SERVER, "bad cql binary frame"));
        }
        self.close();
    }

    /// Cuts the next request out of the bytes that came. What breaks the framing is answered and ends the connection.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        if self.closing {
            return None;
        }
        let version = *self.received.first()?;
        if version != VERSION {
            let text = if self.frames == 0 {
                format!("Invalid or unsupported protocol version: {version}")
            } else {
                format!(
                    "Invalid message version. Got {version} but previous messages on this connection had version {VERSION}"
                )
            };
            self.fail(&CqlError::protocol(text));
            return None;
        }
        let header = RawHeader::parse(self.received.first_chunk::<{ FrameHeader::LEN }>()?);
        let len = usize::try_from(header.length).unwrap_or(usize::MAX);
        if self.frames == 0 && FIRST_BODY_MAX < len {
            let text = format!(
                "Initial message size too large ({}), rejecting as invalid",
                header.length
            );
            self.fail(&CqlError::protocol(text));
            return None;
        }
        if BODY_MAX < len {
            let text = format!(
                "request size too large (frame size {len}; estimate {}; allowed {BODY_MAX})",
                len.saturating_mul(2)
            );
            self.put(
                Some(header.stream),
                error_response(&CqlError::invalid(text)),
                false,
            );
            self.close();
            return None;
        }
        if self.received.len() < FrameHeader::LEN + len {
            // What is still to come is known, but whether it comes is not, so the buffer does not grow too far ahead.
            let missing = FrameHeader::LEN + len - self.received.len();
            self.received.reserve(missing.min(RESERVE_MAX));
            return None;
        }
        self.received.advance(FrameHeader::LEN);
        let mut body = self.received.split_to(len).freeze();
        self.frames += 1;
        if header.flags.contains(Flags::COMPRESSION) {
            match self.unpack(&body) {
                Ok(unpacked) => body = unpacked,
                Err(error) => {
                    self.fail(&error);
                    return None;
                }
            }
        }
        let flags = header.flags.without(Flags::COMPRESSION);
        Some(Frame {
            stream: header.stream,
            flags,
            opcode: header.opcode,
            body,
        })
    }

    fn unpack(&self, body: &Bytes) -> Result<Bytes, CqlError> {
        match self.features.compression {
            Some(compression) => unpack(compression, body),
            None => Err(CqlError::protocol("Unknown compression algorithm")),
        }
    }

    /// Answers on stream 0 and ends the connection.
    fn fail(&mut self, error: &CqlError) {
        self.put(None, error_response(error), false);
        self.close();
    }

    /// Writes the answer to a request.
    pub(crate) fn answer(&mut self, stream: i16, envelope: Envelope) {
        self.put(Some(stream), envelope, true);
    }

    /// Writes an event; those are never compressed.
    pub(crate) fn tell(&mut self, event: ServerEvent) {
        self.put(Some(-1), response(Response::Event(event)), false);
    }

    fn put(&mut self, stream: Option<i16>, envelope: Envelope, may_compress: bool) {
        let start = self.out.len();
        let stream = stream.unwrap_or(0);
        if envelope
            .encode(&mut self.out, &self.features, stream)
            .is_err()
        {
            self.out.truncate(start);
            let error = CqlError::new(CqlError::SERVER, "the answer does not fit a frame");
            // Such a short text always fits.
            let _ = error_response(&error).encode(&mut self.out, &self.features, stream);
        }
        if let (true, Some(compression)) = (may_compress, self.features.compression) {
            let body_at = start + FrameHeader::LEN;
            if let Some(packed) = pack(compression, self.out.get(body_at..).unwrap_or(&[])) {
                self.out.truncate(body_at);
                self.out.extend_from_slice(&packed);
                let len = u32::try_from(packed.len())
                    .unwrap_or(u32::MAX)
                    .to_be_bytes();
                if let Some(header) = self.out.get_mut(start..body_at) {
                    header[1] |= Flags::COMPRESSION.bits();
                    header[5..].copy_from_slice(&len);
                }
            }
        }
    }

    /// Whether the connection asked for a kind of event.
    pub(crate) fn hears(&self, kind: EventKind) -> bool {
        self.stage == Stage::Ready && !self.closing && self.registered.contains(kind.name())
    }
}

/// A message without anything around it.
pub(crate) fn response(response: Response) -> Envelope {
    Envelope {
        tracing_id: None,
        warnings: Vec::new(),
        custom_payload: Vec::new(),
        response,
    }
}

/// An error as an answer.
pub(crate) fn error_response(error: &CqlError) -> Envelope {
    response(Response::Error(server_error(error)))
}

fn server_error(error: &CqlError) -> ServerError {
    let detail = match &error.detail {
        CqlErrorDetail::AlreadyExists { keyspace, table } => ServerErrorDetail::AlreadyExists {
            keyspace: keyspace.clone(),
            table: table.clone(),
        },
        CqlErrorDetail::Unprepared(id) => ServerErrorDetail::Unprepared { id: id.clone() },
        CqlErrorDetail::Unavailable {
            consistency,
            required,
            alive,
        } => ServerErrorDetail::Unavailable {
            consistency: Consistency::from_code(*consistency).unwrap_or_default(),
            required: *required,
            alive: *alive,
        },
        CqlErrorDetail::ReadTimeout {
            consistency,
            required,
        } => ServerErrorDetail::ReadTimeout {
            consistency: Consistency::from_code(*consistency).unwrap_or_default(),
            received: 0,
            block_for: *required,
            data_present: false,
        },
        CqlErrorDetail::WriteTimeout {
            consistency,
            required,
            write_type,
        } => ServerErrorDetail::WriteTimeout {
            consistency: Consistency::from_code(*consistency).unwrap_or_default(),
            received: 0,
            block_for: *required,
            write_type: WriteType::from_name(write_type),
            contentions: None,
        },
        CqlErrorDetail::RateLimit {
            is_write,
            by_coordinator,
        } => ServerErrorDetail::RateLimit {
            operation: if *is_write {
                OperationKind::Write
            } else {
                OperationKind::Read
            },
            rejected_by_coordinator: *by_coordinator,
        },
        CqlErrorDetail::None => match error.code {
            CqlError::SERVER => ServerErrorDetail::ServerError,
            CqlError::PROTOCOL => ServerErrorDetail::ProtocolError,
            CqlError::BAD_CREDENTIALS => ServerErrorDetail::AuthenticationFailed,
            CqlError::TRUNCATE => ServerErrorDetail::TruncateError,
            CqlError::SYNTAX => ServerErrorDetail::SyntaxError,
            CqlError::UNAUTHORIZED => ServerErrorDetail::Unauthorized,
            CqlError::CONFIG => ServerErrorDetail::ConfigError,
            _ => ServerErrorDetail::Invalid,
        },
    };
    ServerError {
        code: error.code,
        message: error.message.clone(),
        detail,
    }
}

/// The server's words for a request that cannot be read.
pub(crate) fn malformed(error: &ProtocolError, body_len: usize) -> CqlError {
    let offset = error.offset;
    match error.kind {
        ProtocolErrorKind::Truncated { needed, .. } => CqlError::protocol(format!(
            "truncated frame: expected {} bytes, length is {body_len}",
            offset.saturating_add(needed)
        )),
        ProtocolErrorKind::CountTooLarge { count, .. } => CqlError::protocol(format!(
            "truncated frame: expected {} bytes, length is {body_len}",
            offset.saturating_add(count)
        )),
        ProtocolErrorKind::NotUtf8 => CqlError::protocol(format!(
            "Cannot decode string as UTF8, invalid character at byte offset {offset}"
        )),
        ProtocolErrorKind::ValueLength(len) => {
            CqlError::protocol(format!("invalid value length: {len}"))
        }
        ProtocolErrorKind::UnknownConsistency(code) => {
            CqlError::protocol(format!("Unknown code {code} for a consistency level"))
        }
        ProtocolErrorKind::UnknownStatementKind(kind) => CqlError::protocol(format!(
            "Invalid query kind in BATCH messages. Must be 0 or 1 but got {kind}"
        )),
        ProtocolErrorKind::QueryFlags(_) => CqlError::new(
            CqlError::SERVER,
            "Bit mask contains invalid enumeration indices.",
        ),
        kind => CqlError::protocol(kind.to_string()),
    }
}

/// The name of a request as error messages write it.
pub(crate) fn opcode_name(opcode: Opcode) -> String {
    format!("{opcode:?}").to_ascii_uppercase()
}
