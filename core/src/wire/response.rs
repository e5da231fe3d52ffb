//! A response frame and what is in it: tracing id, warnings, custom payload, message.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::event::ServerEvent;
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion};
use crate::wire::read::Reader;
use crate::wire::result::{ColumnSpec, KIND_VOID, ResultBody};
use crate::wire::server_error::ServerError;
use crate::wire::supported::{ProtocolFeatures, Supported};

/// A response as it came: the header is read, the body is not. Cheap to move and to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFrame {
    /// The header; `length` and the compression flag are those of the body as it stands here.
    pub header: FrameHeader,
    /// The body, not compressed any more.
    pub body: Bytes,
}

/// A response with everything around its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The id of the trace, when one was asked for.
    pub tracing_id: Option<Uuid>,
    /// The server's warnings.
    pub warnings: Vec<String>,
    /// Further data by name, in the order of the wire.
    pub custom_payload: Vec<(String, Option<Bytes>)>,
    /// The message.
    pub response: Response,
}

/// A server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// The server cannot do it.
    Error(ServerError),
    /// The connection may be used, or the registration is made.
    Ready,
    /// The server wants a login with this authenticator.
    Authenticate(String),
    /// What the server offers.
    Supported(Supported),
    /// The answer to a statement.
    Result(ResultBody),
    /// Something happened in the cluster.
    Event(ServerEvent),
    /// The next step of a login.
    AuthChallenge(Option<Bytes>),
    /// The login is done.
    AuthSuccess(Option<Bytes>),
}

impl ResponseFrame {
    /// The kind of message.
    pub fn opcode(&self) -> Opcode {
        self.header.opcode
    }

    /// Makes a bare RESULT of kind Void.
    pub(crate) const fn void(stream: i16, version: ProtocolVersion) -> Self {
        let header = FrameHeader {
            direction: Direction::Response,
            version: version.byte(),
            flags: Flags::empty(),
            stream,
            opcode: Opcode::Result,
            length: VOID_LEN,
        };
        let body = Bytes::from_static(VOID);
        Self { header, body }
    }

    /// Says whether this is a RESULT with nothing around its message.
    #[inline]
    pub(crate) fn is_bare_result(&self) -> bool {
        self.header.opcode == Opcode::Result && self.header.flags == Flags::empty()
    }

    /// Says whether this is a RESULT of kind Void with nothing around it.
    #[inline]
    pub(crate) fn is_bare_void(&self) -> bool {
        *self.body == *VOID && self.is_bare_result()
    }

    /// Reads the whole response. Rows stay bytes, shared with this frame.
    ///
    /// Errors: the frame is not a response of the agreed version (an ERROR may have another one), is still
    /// compressed, or its body does not follow the protocol. Bytes behind the message are ignored.
    pub fn parse(&self, features: &ProtocolFeatures) -> Result<Envelope, ProtocolError> {
        self.parse_known(features, None)
    }

    /// Reads the whole response like [`Self::parse`], and shares `known` where rows come with these very columns.
    ///
    /// Errors: as those of [`Self::parse`].
    pub fn parse_known(
        &self,
        features: &ProtocolFeatures,
        known: Option<&Arc<[ColumnSpec]>>,
    ) -> Result<Envelope, ProtocolError> {
        self.parse_body(features, known)
            .map_err(|error| error.in_frame(self.header.opcode.byte()))
    }

    fn parse_body(
        &self,
        features: &ProtocolFeatures,
        known: Option<&Arc<[ColumnSpec]>>,
    ) -> Result<Envelope, ProtocolError> {
        let FrameHeader {
            version,
            flags,
            opcode,
            ..
        } = self.header;
        self.check_header(features)?;
        let mut r = Reader::of_bytes(&self.body);
        let r = &mut r;
        let traced = flags.contains(Flags::TRACING);
        let tracing_id = if traced { Some(r.uuid()?) } else { None };
        let warned = flags.contains(Flags::WARNING);
        let warnings = if warned {
            r.list(STRING_LEN_MIN, Reader::lossy_string)?
        } else {
            Vec::new()
        };
        let paid = flags.contains(Flags::CUSTOM_PAYLOAD);
        let custom_payload = if paid { r.bytes_map()? } else { Vec::new() };
        let response = match opcode {
            Opcode::Error => Response::Error(ServerError::read(r, version, features)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(r.string()?.to_owned()),
            Opcode::Supported => Response::Supported(Supported {
                options: r.string_multimap()?,
            }),
            Opcode::Result => Response::Result(ResultBody::read(r, features, known)?),
            Opcode::Event => Response::Event(ServerEvent::read(r)?),
            Opcode::AuthChallenge => Response::AuthChallenge(r.shared_bytes()?),
            Opcode::AuthSuccess => Response::AuthSuccess(r.shared_bytes()?),
            _ => return Err(r.error(ProtocolErrorKind::WrongDirection)),
        };
        Ok(Envelope {
            tracing_id,
            warnings,
            custom_payload,
            response,
        })
    }

    fn check_header(&self, features: &ProtocolFeatures) -> Result<(), ProtocolError> {
        let FrameHeader {
            direction,
            version,
            flags,
            opcode,
            length,
            ..
        } = self.header;
        let fail = |kind| Err(ProtocolError::new(kind, 0));
        if direction != Direction::Response {
            return fail(ProtocolErrorKind::WrongDirection);
        }
        // A server that cannot speak the version says so in the one it can.
        let foreign = opcode == Opcode::Error && ERROR_VERSIONS.contains(&version);
        if version != features.version.byte() && !foreign {
            return fail(ProtocolErrorKind::UnexpectedVersion(version));
        }
        // In version 5 the flag has no meaning: there, segments are compressed.
        if flags.contains(Flags::COMPRESSION) && version < ProtocolVersion::V5.byte() {
            return fail(ProtocolErrorKind::CompressionNotAgreed);
        }
        if usize::try_from(length) != Ok(self.body.len()) {
            return fail(ProtocolErrorKind::BodyLength {
                header: length,
                body: self.body.len(),
            });
        }
        Ok(())
    }
}

/// Returns the stream of the frame that starts here if that is a RESULT of kind Void with nothing around it, and all of
/// it is there: the answer to most writes, known by its bytes.
#[inline]
pub(crate) fn void_stream(frame: &[u8], version: u8) -> Option<i16> {
    let head = u64::from_be_bytes(*frame.first_chunk()?);
    let rest = u64::from_be_bytes(*frame.get(LENGTH_AT..)?.first_chunk()?);
    let [_, _, s0, s1, ..] = head.to_be_bytes();
    let expected = [version | 0x80, 0, s0, s1, Opcode::Result.byte(), 0, 0, 0];
    (head == u64::from_be_bytes(expected) && rest == VOID_REST)
        .then_some(i16::from_be_bytes([s0, s1]))
}

/// The body of a RESULT of kind Void, the most common one of all.
pub(crate) const VOID: &[u8; 4] = &KIND_VOID.to_be_bytes();
const VOID_LEN: u32 = 4;
/// Length and body of a RESULT of kind Void.
const VOID_REST: u64 = {
    let ([l0, l1, l2, l3], [v0, v1, v2, v3]) = (VOID_LEN.to_be_bytes(), *VOID);
    u64::from_be_bytes([l0, l1, l2, l3, v0, v1, v2, v3])
};
/// The place of the body's length in a frame.
const LENGTH_AT: usize = 5;

/// The versions whose ERROR messages are understood, whatever was agreed on.
const ERROR_VERSIONS: RangeInclusive<u8> = 3..=5;
/// The shortest text: its length.
const STRING_LEN_MIN: usize = 2;
