//! Requests to bytes. The length of the body is summed up first, checking every part against its length field;
//! then header and body are written in one pass that cannot fail. EXECUTE is on the path of every request: nothing
//! here allocates, and values are copied as one block.

use bytes::Bytes;

use super::execute;
use super::values::{put_values, values_len};
use super::{
    BatchKind, BatchRef, EncodedRef, ParamsRef, RequestOptionsRef, RequestRef, StatementRef,
    ValuesRef,
};
use crate::error::protocol::{FrameEncodeError, FramePart};
use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion};
use crate::wire::supported::ProtocolFeatures;
use crate::wire::write::FrameSink;

impl RequestRef<'_> {
    /// The opcode of the request.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Options => Opcode::Options,
            Self::Startup(_) => Opcode::Startup,
            Self::AuthResponse(_) => Opcode::AuthResponse,
            Self::Register(_) => Opcode::Register,
            Self::Query { .. } => Opcode::Query,
            Self::Prepare { .. } => Opcode::Prepare,
            Self::Execute { .. } => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
            Self::Encoded(encoded) => encoded.opcode,
        }
    }

    /// How many bytes the body will have.
    ///
    /// Errors: a part that does not fit its length field, or that the version cannot carry.
    #[inline]
    pub fn body_len(
        &self,
        features: &ProtocolFeatures,
        options: &RequestOptionsRef<'_>,
    ) -> Result<usize, FrameEncodeError> {
        let mut len = match self {
            Self::Execute {
                id,
                result_metadata_id,
                params,
                ..
            } => {
                let mut len = SHORT + short(FramePart::StatementId, id.len())?;
                if features.has_metadata_id() {
                    let known = result_metadata_id.unwrap_or_default();
                    len += SHORT + short(FramePart::StatementId, known.len())?;
                }
                len += usize::from(features.tablets_v2);
                len.saturating_add(params_len(params, features)?)
            }
            _ => self.rare_len(features)?,
        };
        if let Some(payload) = options.custom_payload
            && self.takes_options()
        {
            len = len.saturating_add(payload_len(payload)?);
        }
        // No part with a length field of four bytes can be too long without the whole being so.
        fits(FramePart::Body, len, BODY_MAX)
    }

    /// The length of a message that is not an EXECUTE.
    #[inline(never)]
    fn rare_len(&self, features: &ProtocolFeatures) -> Result<usize, FrameEncodeError> {
        Ok(match self {
            Self::Options | Self::Execute { .. } => 0,
            Self::Encoded(encoded) => {
                let large = encoded.large.iter().map(|large| large.bytes.len());
                let len = large.fold(encoded.frame.len(), usize::saturating_add);
                len.saturating_sub(FrameHeader::LEN)
            }
            Self::Startup(options) => {
                short(FramePart::List, options.len())?;
                let mut len = SHORT;
                for (key, value) in *options {
                    len += string_len(FramePart::Name, key)? + string_len(FramePart::Text, value)?;
                }
                len
            }
            Self::AuthResponse(token) => INT.saturating_add(token.map_or(0, <[u8]>::len)),
            Self::Register(kinds) => {
                short(FramePart::List, kinds.len())?;
                SHORT
                    + kinds
                        .iter()
                        .map(|kind| SHORT + kind.name().len())
                        .sum::<usize>()
            }
            Self::Query { text, params } => INT
                .saturating_add(text.len())
                .saturating_add(params_len(params, features)?),
            Self::Prepare { text, keyspace } => {
                let flags = match features.version {
                    ProtocolVersion::V4 => 0,
                    ProtocolVersion::V5 => INT,
                };
                let keyspace = keyspace_len(*keyspace, features)?;
                (INT + flags + keyspace).saturating_add(text.len())
            }
            Self::Batch(batch) => batch_len(batch, features)?,
        })
    }

    /// Appends header and body: one reservation, one pass, no allocation. Nothing is appended when there is an
    /// error; the errors are those of [`Self::body_len`].
    #[inline]
    pub fn encode(
        &self,
        out: &mut impl FrameSink,
        features: &ProtocolFeatures,
        stream: i16,
        options: &RequestOptionsRef<'_>,
    ) -> Result<(), FrameEncodeError> {
        if let Self::Encoded(encoded) = self {
            return put_encoded(out, encoded, stream);
        }
        if execute::put_plain(out, self, features, stream, options) {
            return Ok(());
        }
        self.encode_any(out, features, stream, options)
    }

    /// Appends any request that was not encoded before.
    pub(super) fn encode_any(
        &self,
        out: &mut impl FrameSink,
        features: &ProtocolFeatures,
        stream: i16,
        options: &RequestOptionsRef<'_>,
    ) -> Result<(), FrameEncodeError> {
        let len = self.body_len(features, options)?;
        let too_long = FrameEncodeError::TooLong {
            part: FramePart::Body,
            len,
            max: BODY_MAX,
        };
        let Ok(length) = u32::try_from(len) else {
            return Err(too_long);
        };
        // Payloads that are handed over as they lie need no room.
        out.reserve(FrameHeader::LEN + len - self.large_len().min(len));
        let takes_options = self.takes_options();
        let payload = options.custom_payload.filter(|_| takes_options);
        let mut flags = Flags::empty();
        if takes_options && options.tracing {
            flags = flags.union(Flags::TRACING);
        }
        if payload.is_some() {
            flags = flags.union(Flags::CUSTOM_PAYLOAD);
        }
        let header = FrameHeader {
            direction: Direction::Request,
            version: features.version.byte(),
            flags,
            stream,
            opcode: self.opcode(),
            length,
        };
        out.put(&header.to_bytes());
        if let Some(entries) = payload {
            put_payload(out, entries);
        }
        match self {
            Self::Execute {
                id,
                result_metadata_id,
                tablet_block,
                params,
            } => {
                put_short_bytes(out, id);
                if features.has_metadata_id() {
                    put_short_bytes(out, result_metadata_id.unwrap_or_default());
                }
                put_params(out, params, features);
                if features.tablets_v2 {
                    out.put(&[*tablet_block]);
                }
            }
            _ => self.put_rare(out, features),
        }
        Ok(())
    }

    /// Writes a message that is not an EXECUTE.
    #[inline(never)]
    fn put_rare(&self, out: &mut impl FrameSink, features: &ProtocolFeatures) {
        match self {
            Self::Options | Self::Execute { .. } | Self::Encoded(_) => {}
            Self::Startup(options) => {
                put_short(out, options.len());
                for (key, value) in *options {
                    put_string(out, key);
                    put_string(out, value);
                }
            }
            Self::AuthResponse(token) => put_bytes(out, *token),
            Self::Register(kinds) => {
                put_short(out, kinds.len());
                for kind in *kinds {
                    put_string(out, kind.name());
                }
            }
            Self::Query { text, params } => {
                put_bytes(out, Some(text.as_bytes()));
                put_params(out, params, features);
            }
            Self::Prepare { text, keyspace } => {
                put_bytes(out, Some(text.as_bytes()));
                if features.version == ProtocolVersion::V5 {
                    out.put(&u32::from(keyspace.is_some()).to_be_bytes());
                    if let Some(keyspace) = keyspace {
                        put_string(out, keyspace);
                    }
                }
            }
            Self::Batch(batch) => put_batch(out, batch, features),
        }
    }

    /// How many bytes of the body lie elsewhere.
    fn large_len(&self) -> usize {
        let sum = |values: &ValuesRef<'_>| -> usize {
            let large = values.large.iter().map(|large| large.bytes.len());
            large.fold(0, usize::saturating_add)
        };
        match self {
            Self::Query { params, .. } | Self::Execute { params, .. } => sum(&params.values),
            Self::Batch(batch) => {
                let each = batch.statements.iter().map(|one| sum(&one.values));
                each.fold(0, usize::saturating_add)
            }
            _ => 0,
        }
    }

    /// Whether a request of this kind can be traced and can have a custom payload.
    const fn takes_options(&self) -> bool {
        matches!(
            self,
            Self::Query { .. } | Self::Prepare { .. } | Self::Execute { .. } | Self::Batch(_)
        )
    }
}

// Lengths. Each function gives the length with its own length field and checks what it measures.

/// Checks a length against a `[short]`.
fn short(part: FramePart, len: usize) -> Result<usize, FrameEncodeError> {
    fits(part, len, SHORT_MAX)
}

#[inline]
fn fits(part: FramePart, len: usize, max: usize) -> Result<usize, FrameEncodeError> {
    if len <= max {
        Ok(len)
    } else {
        Err(FrameEncodeError::TooLong { part, len, max })
    }
}

pub(super) fn string_len(part: FramePart, text: &str) -> Result<usize, FrameEncodeError> {
    Ok(SHORT + short(part, text.len())?)
}

fn payload_len(payload: &[(String, Option<Bytes>)]) -> Result<usize, FrameEncodeError> {
    short(FramePart::CustomPayload, payload.len())?;
    let mut len = SHORT;
    for (key, value) in payload {
        len = len.saturating_add(string_len(FramePart::Name, key)? + INT);
        len = len.saturating_add(value.as_ref().map_or(0, Bytes::len));
    }
    Ok(len)
}

fn keyspace_len(
    keyspace: Option<&str>,
    features: &ProtocolFeatures,
) -> Result<usize, FrameEncodeError> {
    match (keyspace, features.version) {
        (None, _) => Ok(0),
        (Some(keyspace), ProtocolVersion::V5) => string_len(FramePart::Keyspace, keyspace),
        (Some(_), ProtocolVersion::V4) => Err(FrameEncodeError::NeedsV5(FramePart::Keyspace)),
    }
}

fn now_len(now: Option<i32>, features: &ProtocolFeatures) -> Result<usize, FrameEncodeError> {
    match (now, features.version) {
        (None, _) => Ok(0),
        (Some(_), ProtocolVersion::V5) => Ok(INT),
        (Some(_), ProtocolVersion::V4) => Err(FrameEncodeError::NeedsV5(FramePart::NowInSeconds)),
    }
}

const fn flags_len(features: &ProtocolFeatures) -> usize {
    match features.version {
        ProtocolVersion::V4 => 1,
        ProtocolVersion::V5 => INT,
    }
}

#[inline]
fn params_len(
    params: &ParamsRef<'_>,
    features: &ProtocolFeatures,
) -> Result<usize, FrameEncodeError> {
    let mut len = SHORT + flags_len(features);
    if params.values.count != 0 || params.values.names.is_some() {
        len = values_len(&params.values)?.saturating_add(len + SHORT);
    }
    if params.page_size.is_some_and(|rows| 0 < rows) {
        len += INT;
    }
    if let Some(state) = params.paging_state {
        len = len.saturating_add(INT).saturating_add(state.len());
    }
    if params.serial_consistency.is_some() {
        len += SHORT;
    }
    if params.timestamp.is_some() {
        len += LONG;
    }
    len += keyspace_len(params.keyspace, features)? + now_len(params.now_in_seconds, features)?;
    Ok(len)
}

fn batch_len(batch: &BatchRef<'_>, features: &ProtocolFeatures) -> Result<usize, FrameEncodeError> {
    short(FramePart::Statements, batch.statements.len())?;
    let mut len = 1 + SHORT + SHORT + flags_len(features);
    for one in batch.statements {
        if one.values.names.is_some() {
            return Err(FrameEncodeError::NamesMismatch);
        }
        let source = match one.statement {
            StatementRef::Text(text) => INT.saturating_add(text.len()),
            StatementRef::Prepared(id) => SHORT + short(FramePart::StatementId, id.len())?,
        };
        let values = SHORT.saturating_add(values_len(&one.values)?);
        len = len
            .saturating_add(1)
            .saturating_add(source)
            .saturating_add(values);
    }
    if batch.serial_consistency.is_some() {
        len += SHORT;
    }
    if batch.timestamp.is_some() {
        len += LONG;
    }
    let keyspace = keyspace_len(batch.keyspace, features)?;
    Ok(len.saturating_add(keyspace + now_len(batch.now_in_seconds, features)?))
}

// Writing. The lengths were checked, so nothing here can fail.

#[inline]
fn put_short(out: &mut impl FrameSink, n: usize) {
    let [.., high, low] = n.to_be_bytes();
    out.put(&[high, low]);
}

fn put_int_len(out: &mut impl FrameSink, n: usize) {
    out.put(&u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes());
}

pub(super) fn put_string(out: &mut impl FrameSink, text: &str) {
    put_short_bytes(out, text.as_bytes());
}

#[inline]
fn put_short_bytes(out: &mut impl FrameSink, bytes: &[u8]) {
    put_short(out, bytes.len());
    out.put(bytes);
}

fn put_bytes(out: &mut impl FrameSink, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_int_len(out, bytes.len());
            out.put(bytes);
        }
        None => out.put(&NULL),
    }
}

fn put_payload(out: &mut impl FrameSink, payload: &[(String, Option<Bytes>)]) {
    put_short(out, payload.len());
    for (key, value) in payload {
        put_string(out, key);
        put_bytes(out, value.as_deref());
    }
}

/// Writes consistency and flags, which stand together in QUERY, EXECUTE and BATCH.
#[inline]
fn put_consistency_flags(
    out: &mut impl FrameSink,
    consistency: Consistency,
    flags: u16,
    features: &ProtocolFeatures,
) {
    let [c0, c1] = consistency.code().to_be_bytes();
    let [f0, f1] = flags.to_be_bytes();
    match features.version {
        ProtocolVersion::V4 => out.put(&[c0, c1, f1]),
        ProtocolVersion::V5 => out.put(&[c0, c1, 0, 0, f0, f1]),
    }
}

#[inline]
fn put_params(out: &mut impl FrameSink, params: &ParamsRef<'_>, features: &ProtocolFeatures) {
    let values = &params.values;
    let page_size = params.page_size.filter(|rows| 0 < *rows);
    let mut flags = tail_flags(
        params.serial_consistency,
        params.timestamp,
        params.keyspace,
        params.now_in_seconds,
    );
    let has_values = values.count != 0 || values.names.is_some();
    flags |= flag(has_values, FLAG_VALUES);
    flags |= flag(params.skip_metadata, FLAG_SKIP_METADATA);
    flags |= flag(page_size.is_some(), FLAG_PAGE_SIZE);
    flags |= flag(params.paging_state.is_some(), FLAG_PAGING_STATE);
    flags |= flag(values.names.is_some(), FLAG_NAMES);
    put_consistency_flags(out, params.consistency, flags, features);
    if has_values {
        put_values(out, values);
    }
    if let Some(rows) = page_size {
        out.put(&rows.to_be_bytes());
    }
    if let Some(state) = params.paging_state {
        put_bytes(out, Some(state));
    }
    put_tail(
        out,
        params.serial_consistency,
        params.timestamp,
        params.keyspace,
        params.now_in_seconds,
    );
}

/// Writes a frame that was encoded before, with its stream id.
#[inline]
fn put_encoded(
    out: &mut impl FrameSink,
    encoded: &EncodedRef<'_>,
    stream: i16,
) -> Result<(), FrameEncodeError> {
    let Some((header, body)) = encoded.frame.split_first_chunk::<{ FrameHeader::LEN }>() else {
        return Err(FrameEncodeError::NotAFrame);
    };
    let mut header = *header;
    [header[2], header[3]] = stream.to_be_bytes();
    out.reserve(encoded.frame.len());
    out.put(&header);
    let mut done = 0;
    for large in encoded.large {
        let at = large.at.saturating_sub(FrameHeader::LEN);
        out.put(body.get(done..at).unwrap_or_default());
        out.chain(&large.bytes);
        done = at;
    }
    out.put(body.get(done..).unwrap_or_default());
    Ok(())
}

fn put_batch(out: &mut impl FrameSink, batch: &BatchRef<'_>, features: &ProtocolFeatures) {
    out.put(&[batch.kind.byte()]);
    put_short(out, batch.statements.len());
    for one in batch.statements {
        match one.statement {
            StatementRef::Text(text) => {
                out.put(&[STATEMENT_TEXT]);
                put_bytes(out, Some(text.as_bytes()));
            }
            StatementRef::Prepared(id) => {
                out.put(&[STATEMENT_PREPARED]);
                put_short_bytes(out, id);
            }
        }
        put_values(out, &one.values);
    }
    let BatchRef {
        serial_consistency,
        timestamp,
        keyspace,
        now_in_seconds,
        ..
    } = *batch;
    let flags = tail_flags(serial_consistency, timestamp, keyspace, now_in_seconds);
    put_consistency_flags(out, batch.consistency, flags, features);
    put_tail(out, serial_consistency, timestamp, keyspace, now_in_seconds);
}

const fn flag(set: bool, bit: u16) -> u16 {
    if set { bit } else { 0 }
}

/// The flags of the fields that end both query parameters and batches.
const fn tail_flags(
    serial: Option<SerialConsistency>,
    timestamp: Option<i64>,
    keyspace: Option<&str>,
    now: Option<i32>,
) -> u16 {
    flag(serial.is_some(), FLAG_SERIAL)
        | flag(timestamp.is_some(), FLAG_TIMESTAMP)
        | flag(keyspace.is_some(), FLAG_KEYSPACE)
        | flag(now.is_some(), FLAG_NOW)
}

#[inline]
fn put_tail(
    out: &mut impl FrameSink,
    serial: Option<SerialConsistency>,
    timestamp: Option<i64>,
    keyspace: Option<&str>,
    now: Option<i32>,
) {
    if let Some(serial) = serial {
        out.put(&serial.code().to_be_bytes());
    }
    if let Some(timestamp) = timestamp {
        out.put(&timestamp.to_be_bytes());
    }
    if let Some(keyspace) = keyspace {
        put_string(out, keyspace);
    }
    if let Some(now) = now {
        out.put(&now.to_be_bytes());
    }
}

impl BatchKind {
    /// The number of this kind on the wire.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Logged => 0,
            Self::Unlogged => 1,
            Self::Counter => 2,
        }
    }

    /// The kind with this number.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Logged),
            1 => Some(Self::Unlogged),
            2 => Some(Self::Counter),
            _ => None,
        }
    }
}

/// Values follow.
pub(crate) const FLAG_VALUES: u16 = 0x01;
/// Rows may come without column specs.
pub(crate) const FLAG_SKIP_METADATA: u16 = 0x02;
/// A page size follows.
pub(crate) const FLAG_PAGE_SIZE: u16 = 0x04;
/// A paging state follows.
pub(crate) const FLAG_PAGING_STATE: u16 = 0x08;
/// A serial consistency follows.
pub(crate) const FLAG_SERIAL: u16 = 0x10;
/// A timestamp follows.
pub(crate) const FLAG_TIMESTAMP: u16 = 0x20;
/// Each value has its name in front.
pub(crate) const FLAG_NAMES: u16 = 0x40;
/// A keyspace follows (version 5).
pub(crate) const FLAG_KEYSPACE: u16 = 0x80;
/// The current time follows (version 5).
pub(crate) const FLAG_NOW: u16 = 0x100;

/// A statement of a batch that is a text.
pub(crate) const STATEMENT_TEXT: u8 = 0;
/// A statement of a batch that is a prepared id.
pub(crate) const STATEMENT_PREPARED: u8 = 1;

const SHORT: usize = 2;
pub(super) const INT: usize = 4;
const LONG: usize = 8;
/// What a `[short]` can count.
const SHORT_MAX: usize = 0xffff;
/// The longest body that servers take, whatever the length field could say: one that is longer costs the connection
/// and every other request on it.
const BODY_MAX: usize = 256 * 1024 * 1024;
/// The length of what is null.
const NULL: [u8; 4] = [0xff; 4];
