//! The server's side: reads requests and writes responses. What to answer is the peer's own business.

mod encode;
#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::event::EventKind;
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion};
use crate::wire::read::{Reader, WireValue};
use crate::wire::request::encode::{
    FLAG_KEYSPACE, FLAG_NAMES, FLAG_NOW, FLAG_PAGE_SIZE, FLAG_PAGING_STATE, FLAG_SERIAL,
    FLAG_SKIP_METADATA, FLAG_TIMESTAMP, FLAG_VALUES, STATEMENT_PREPARED, STATEMENT_TEXT,
};
use crate::wire::request::{
    Batch, BatchKind, BatchStatement, Params, Request, RequestOptions, StatementSource, Values,
};
use crate::wire::supported::ProtocolFeatures;

impl Request {
    /// Reads a request. Bytes behind the message are ignored.
    ///
    /// Errors: the frame is not a request of the agreed version, is still compressed, or its body does not follow
    /// the protocol.
    pub fn decode(
        header: &FrameHeader,
        body: &Bytes,
        features: &ProtocolFeatures,
    ) -> Result<(RequestOptions, Self), ProtocolError> {
        decode(header, body, features).map_err(|error| error.in_frame(header.opcode.byte()))
    }
}

fn decode(
    header: &FrameHeader,
    body: &Bytes,
    features: &ProtocolFeatures,
) -> Result<(RequestOptions, Request), ProtocolError> {
    check_header(header, body, features)?;
    let mut reader = RequestReader {
        r: Reader::of_bytes(body),
        body,
        features,
    };
    let paid = header.flags.contains(Flags::CUSTOM_PAYLOAD);
    let custom_payload = if paid {
        Some(reader.r.bytes_map()?)
    } else {
        None
    };
    let tracing = header.flags.contains(Flags::TRACING);
    let request = reader.message(header.opcode)?;
    Ok((
        RequestOptions {
            tracing,
            custom_payload,
        },
        request,
    ))
}

fn check_header(
    header: &FrameHeader,
    body: &Bytes,
    features: &ProtocolFeatures,
) -> Result<(), ProtocolError> {
    let fail = |kind| Err(ProtocolError::new(kind, 0));
    if header.direction != Direction::Request {
        return fail(ProtocolErrorKind::WrongDirection);
    }
    if header.version != features.version.byte() {
        return fail(ProtocolErrorKind::UnexpectedVersion(header.version));
    }
    let wrapped = features.version == ProtocolVersion::V5;
    if header.flags.contains(Flags::COMPRESSION) && !wrapped {
        return fail(ProtocolErrorKind::CompressionNotAgreed);
    }
    if usize::try_from(header.length) != Ok(body.len()) {
        let kind = ProtocolErrorKind::BodyLength {
            header: header.length,
            body: body.len(),
        };
        return fail(kind);
    }
    Ok(())
}

struct RequestReader<'a> {
    r: Reader<'a>,
    body: &'a Bytes,
    features: &'a ProtocolFeatures,
}

impl RequestReader<'_> {
    fn message(&mut self, opcode: Opcode) -> Result<Request, ProtocolError> {
        Ok(match opcode {
            Opcode::Options => Request::Options,
            Opcode::Startup => Request::Startup(self.r.string_map()?),
            Opcode::AuthResponse => Request::AuthResponse(self.r.shared_bytes()?),
            Opcode::Register => Request::Register(self.r.list(2, |r| {
                let at = r.offset();
                let unknown = ProtocolError::new(ProtocolErrorKind::UnknownEvent, at);
                EventKind::from_name(r.string()?).ok_or(unknown)
            })?),
            Opcode::Query => {
                let text = self.r.long_string()?.to_owned();
                Request::Query {
                    text,
                    params: self.params()?,
                }
            }
            Opcode::Prepare => self.prepare()?,
            Opcode::Execute => self.execute()?,
            Opcode::Batch => Request::Batch(self.batch()?),
            _ => return Err(self.r.error(ProtocolErrorKind::WrongDirection)),
        })
    }

    fn prepare(&mut self) -> Result<Request, ProtocolError> {
        let text = self.r.long_string()?.to_owned();
        let mut keyspace = None;
        if self.features.version == ProtocolVersion::V5 {
            let at = self.r.offset();
            match self.r.int()? {
                0 => {}
                PREPARE_KEYSPACE => keyspace = Some(self.r.string()?.to_owned()),
                flags => {
                    let kind = ProtocolErrorKind::QueryFlags(flags.cast_unsigned());
                    return Err(ProtocolError::new(kind, at));
                }
            }
        }
        Ok(Request::Prepare { text, keyspace })
    }

    fn execute(&mut self) -> Result<Request, ProtocolError> {
        let id = self.r.shared_short_bytes()?;
        let known = self.features.has_metadata_id();
        let result_metadata_id = if known {
            Some(self.r.shared_short_bytes()?)
        } else {
            None
        };
        let params = self.params()?;
        let tablet_block = if self.features.tablets_v2 {
            self.r.byte()?
        } else {
            0
        };
        Ok(Request::Execute {
            id,
            result_metadata_id,
            tablet_block,
            params,
        })
    }

    /// Reads query flags, which must all be among those of `known_v4` or, in version 5, of its own ones.
    fn flags(&mut self, known_v4: u16) -> Result<u16, ProtocolError> {
        let at = self.r.offset();
        let (flags, known) = match self.features.version {
            ProtocolVersion::V4 => (u32::from(self.r.byte()?), known_v4),
            ProtocolVersion::V5 => (
                self.r.int()?.cast_unsigned(),
                known_v4 | FLAG_KEYSPACE | FLAG_NOW,
            ),
        };
        match u16::try_from(flags) {
            Ok(flags) if flags & !known == 0 => Ok(flags),
            _ => Err(ProtocolError::new(ProtocolErrorKind::QueryFlags(flags), at)),
        }
    }

    fn params(&mut self) -> Result<Params, ProtocolError> {
        let consistency = self.r.consistency()?;
        let flags = self.flags(QUERY_FLAGS_V4)?;
        let has = |bit: u16| flags & bit != 0;
        let values = match (has(FLAG_VALUES), has(FLAG_NAMES)) {
            (false, _) => Values::default(),
            (true, false) => self.values()?,
            (true, true) => self.named_values()?,
        };
        Ok(Params {
            consistency,
            values,
            skip_metadata: has(FLAG_SKIP_METADATA),
            page_size: if has(FLAG_PAGE_SIZE) {
                Some(self.r.int()?)
            } else {
                None
            },
            paging_state: if has(FLAG_PAGING_STATE) {
                self.r.shared_bytes()?
            } else {
                None
            },
            serial_consistency: if has(FLAG_SERIAL) {
                Some(self.r.serial_consistency()?)
            } else {
                None
            },
            timestamp: if has(FLAG_TIMESTAMP) {
                Some(self.r.long()?)
            } else {
                None
            },
            keyspace: if has(FLAG_KEYSPACE) {
                Some(self.r.string()?.to_owned())
            } else {
                None
            },
            now_in_seconds: if has(FLAG_NOW) {
                Some(self.r.int()?)
            } else {
                None
            },
        })
    }

    fn values(&mut self) -> Result<Values, ProtocolError> {
        let count = self.r.short()?;
        let start = self.r.offset();
        for _ in 0..count {
            self.r.value()?;
        }
        Ok(Values {
            count,
            bytes: self.body.slice(start..self.r.offset()),
            names: None,
        })
    }

    fn named_values(&mut self) -> Result<Values, ProtocolError> {
        let mut bytes = BytesMut::new();
        let names = self.r.list(NAMED_VALUE_LEN_MIN, |r| {
            let name = r.string()?.to_owned();
            match r.value()? {
                WireValue::Null => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
                WireValue::Unset => bytes.extend_from_slice(&(-2_i32).to_be_bytes()),
                WireValue::Bytes(value) => {
                    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(value);
                }
            }
            Ok(name)
        })?;
        let count = u16::try_from(names.len()).unwrap_or(u16::MAX);
        Ok(Values {
            count,
            bytes: bytes.freeze(),
            names: Some(names),
        })
    }

    fn batch(&mut self) -> Result<Batch, ProtocolError> {
        let at = self.r.offset();
        let kind = self.r.byte()?;
        let Some(kind) = BatchKind::from_byte(kind) else {
            return Err(ProtocolError::new(
                ProtocolErrorKind::UnknownBatchKind(kind),
                at,
            ));
        };
        let count = self.r.short_count(BATCH_STATEMENT_LEN_MIN)?;
        let mut statements = Vec::with_capacity(count);
        for _ in 0..count {
            statements.push(self.batch_statement()?);
        }
        let consistency = self.r.consistency()?;
        let flags = self.flags(BATCH_FLAGS_V4)?;
        let has = |bit: u16| flags & bit != 0;
        let serial = has(FLAG_SERIAL);
        Ok(Batch {
            kind,
            statements,
            consistency,
            serial_consistency: if serial {
                Some(self.r.serial_consistency()?)
            } else {
                None
            },
            timestamp: if has(FLAG_TIMESTAMP) {
                Some(self.r.long()?)
            } else {
                None
            },
            keyspace: if has(FLAG_KEYSPACE) {
                Some(self.r.string()?.to_owned())
            } else {
                None
            },
            now_in_seconds: if has(FLAG_NOW) {
                Some(self.r.int()?)
            } else {
                None
            },
        })
    }

    fn batch_statement(&mut self) -> Result<BatchStatement, ProtocolError> {
        let at = self.r.offset();
        let statement = match self.r.byte()? {
            STATEMENT_TEXT => StatementSource::Text(self.r.long_string()?.to_owned()),
            STATEMENT_PREPARED => StatementSource::Prepared(self.r.shared_short_bytes()?),
            kind => {
                let kind = ProtocolErrorKind::UnknownStatementKind(kind);
                return Err(ProtocolError::new(kind, at));
            }
        };
        Ok(BatchStatement {
            statement,
            values: self.values()?,
        })
    }
}

/// The flags of query parameters that version 4 has.
const QUERY_FLAGS_V4: u16 = 0x7f;
/// The flags of a batch that version 4 has.
const BATCH_FLAGS_V4: u16 = FLAG_SERIAL | FLAG_TIMESTAMP;
/// The flag of PREPARE that a keyspace follows (version 5).
const PREPARE_KEYSPACE: i32 = 1;
/// The shortest value with a name.
const NAMED_VALUE_LEN_MIN: usize = 6;
/// The shortest statement of a batch: its kind, an empty id, no values.
const BATCH_STATEMENT_LEN_MIN: usize = 5;
