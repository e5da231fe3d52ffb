//! The segments of protocol version 5: checksums, compression, and envelopes cut into pieces and joined again. From
//! which moment on a connection speaks in segments is its own decision.

use bytes::{Bytes, BytesMut};

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::compress::lz4;
use crate::wire::header::{FrameHeader, RawHeader};
use crate::wire::supported::Compression;

/// Puts envelopes into segments and takes segments apart, in the format of one connection.
#[derive(Debug)]
pub struct SegmentCodec {
    compressed: bool,
    scratch: Vec<u8>,
}

/// What a segment's header says; it matches its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Length of the payload as it was sent.
    pub payload_len: u32,
    /// Length of the payload after decompression; 0: it is not compressed.
    pub plain_len: u32,
    /// Whether the payload is whole envelopes, and not a piece of a large one.
    pub self_contained: bool,
}

impl SegmentCodec {
    /// Makes a codec for a connection that agreed on this compression.
    ///
    /// None for what version 5 does not have (Snappy) or this build cannot do.
    pub fn new(compression: Option<Compression>) -> Option<Self> {
        let compressed = match compression {
            None => false,
            Some(Compression::Lz4) if Compression::Lz4.is_built_in() => true,
            Some(_) => return None,
        };
        Some(Self {
            compressed,
            scratch: Vec::new(),
        })
    }

    /// Length of a segment's header with its checksum.
    pub const fn header_len(&self) -> usize {
        if self.compressed {
            COMPRESSED_HEADER_LEN + CRC24_LEN
        } else {
            HEADER_LEN + CRC24_LEN
        }
    }

    /// Length of a whole segment with this header.
    pub fn segment_len(&self, header: &SegmentHeader) -> usize {
        self.header_len() + to_usize(header.payload_len) + CRC32_LEN
    }

    /// Reads the header of the segment that starts here; none while it is not all there.
    ///
    /// Errors: the checksum does not match, after which nothing that follows can be trusted.
    pub fn read_header(&self, bytes: &[u8]) -> Result<Option<SegmentHeader>, ProtocolError> {
        let Some(header) = bytes.get(..self.header_len()) else {
            return Ok(None);
        };
        let (fields, crc) = header.split_at(header.len() - CRC24_LEN);
        if little_endian(crc) != u64::from(crc24(fields)) {
            return Err(ProtocolError::new(ProtocolErrorKind::SegmentHeader, 0));
        }
        let bits = little_endian(fields);
        let length = |bits: u64| u32::try_from(bits & LENGTH_MASK).unwrap_or_default();
        Ok(Some(if self.compressed {
            SegmentHeader {
                payload_len: length(bits),
                plain_len: length(bits >> LENGTH_BITS),
                self_contained: bits >> (2 * LENGTH_BITS) & 1 == 1,
            }
        } else {
            SegmentHeader {
                payload_len: length(bits),
                plain_len: 0,
                self_contained: bits >> LENGTH_BITS & 1 == 1,
            }
        }))
    }

    /// Takes the payload out of a whole segment: a window into it, unless it has to be decompressed.
    ///
    /// Errors: the segment is not as long as its header says, the checksum does not match, or the payload cannot be
    /// decompressed to the length that was declared.
    pub fn open(&self, header: &SegmentHeader, segment: &Bytes) -> Result<Bytes, ProtocolError> {
        let fail = |kind| ProtocolError::new(kind, self.header_len());
        let payload_end = segment.len().checked_sub(CRC32_LEN);
        let payload_end = match payload_end {
            Some(end) if segment.len() == self.segment_len(header) => end,
            _ => {
                let needed = self.segment_len(header);
                return Err(fail(ProtocolErrorKind::Truncated {
                    needed,
                    left: segment.len(),
                }));
            }
        };
        let payload = segment.slice(self.header_len()..payload_end);
        let crc = segment.get(payload_end..).unwrap_or_default();
        if little_endian(crc) != u64::from(crc32(&payload)) {
            return Err(fail(ProtocolErrorKind::SegmentPayload));
        }
        if header.plain_len == 0 {
            Ok(payload)
        } else {
            lz4::decompress(&payload, header.plain_len)
        }
    }

    /// Appends segments that carry these envelopes, which must be whole: as many as fit together in one segment, a
    /// large one cut into several.
    pub fn seal(&mut self, envelopes: &[u8], out: &mut Vec<u8>) {
        let mut rest = envelopes;
        while !rest.is_empty() {
            let run = run_len(rest);
            let (now, later) = rest.split_at_checked(run).unwrap_or((rest, &[]));
            rest = later;
            if now.len() <= PAYLOAD_MAX {
                self.seal_payload(now, true, out);
            } else {
                now.chunks(PAYLOAD_MAX)
                    .for_each(|piece| self.seal_payload(piece, false, out));
            }
        }
    }

    /// Appends one segment. The payload must not be longer than [`PAYLOAD_MAX`].
    fn seal_payload(&mut self, plain: &[u8], self_contained: bool, out: &mut Vec<u8>) {
        let start = self.begin(out);
        out.extend_from_slice(plain);
        self.finish(start, self_contained, out);
    }

    /// Makes room for the header of a segment whose payload is appended next; returns where it starts.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.resize(start + self.header_len(), 0);
        start
    }

    /// Makes a segment of the payload that was appended since it began, at most [`PAYLOAD_MAX`] bytes.
    pub(crate) fn finish(&mut self, start: usize, self_contained: bool, out: &mut Vec<u8>) {
        let payload_at = start + self.header_len();
        let mut plain_len = 0;
        if self.compressed {
            let plain = out.get(payload_at..).unwrap_or_default();
            self.scratch.clear();
            if lz4::compress(plain, &mut self.scratch) && self.scratch.len() < plain.len() {
                plain_len = plain.len();
                out.truncate(payload_at);
                out.extend_from_slice(&self.scratch);
            }
        }
        let payload = out.get(payload_at..).unwrap_or_default();
        let header = to_u64(payload.len())
            | if self.compressed {
                to_u64(plain_len) << LENGTH_BITS | u64::from(self_contained) << (2 * LENGTH_BITS)
            } else {
                u64::from(self_contained) << LENGTH_BITS
            };
        let payload_crc = crc32(payload);
        let header = header.to_le_bytes();
        let fields_len = self.header_len() - CRC24_LEN;
        let fields = header.get(..fields_len).unwrap_or(&header);
        let [c0, c1, c2, _] = crc24(fields).to_le_bytes();
        for (place, byte) in out
            .iter_mut()
            .skip(start)
            .zip(fields.iter().chain(&[c0, c1, c2]))
        {
            *place = *byte;
        }
        out.extend_from_slice(&payload_crc.to_le_bytes());
    }
}

/// How many bytes of whole envelopes go together: up to the limit of a payload, but at least one envelope.
fn run_len(envelopes: &[u8]) -> usize {
    let mut end = 0;
    while let Some((head, _)) = envelopes
        .get(end..)
        .and_then(|rest| rest.split_first_chunk::<{ FrameHeader::LEN }>())
    {
        let body = usize::try_from(RawHeader::parse(head).length).unwrap_or_default();
        let next = (end + FrameHeader::LEN).saturating_add(body);
        if end != 0 && PAYLOAD_MAX < next {
            return end;
        }
        end = next;
    }
    envelopes.len()
}

/// Finds the envelopes in payloads, and joins the pieces of large ones.
#[derive(Debug, Default)]
pub struct EnvelopeJoiner {
    /// The envelopes of a self-contained payload that were not taken yet.
    whole: Bytes,
    /// The pieces of a large envelope so far.
    large: BytesMut,
}

impl EnvelopeJoiner {
    /// Makes a joiner that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the payload of the next segment and hands out each envelope that is whole now, as header and body.
    ///
    /// Errors: those of [`push`](Self::push) and [`take`](Self::take).
    pub fn join(
        &mut self,
        payload: Bytes,
        self_contained: bool,
        body_max: u32,
        mut each: impl FnMut(RawHeader, Bytes),
    ) -> Result<(), ProtocolError> {
        self.push(payload, self_contained)?;
        while let Some((header, body)) = self.take(body_max)? {
            each(header, body);
        }
        Ok(())
    }

    /// Takes in the payload of the next segment; the envelopes of the one before must have been taken out.
    ///
    /// Errors: whole envelopes come where the rest of a large one has to.
    pub fn push(&mut self, payload: Bytes, self_contained: bool) -> Result<(), ProtocolError> {
        if !self_contained {
            self.large.extend_from_slice(&payload);
        } else if self.large.is_empty() {
            self.whole = payload;
        } else {
            return Err(BOUNDARY);
        }
        Ok(())
    }

    /// Takes out the next envelope that is whole, as header and body.
    ///
    /// When this was called after each segment, what is kept never grows over one header, a body of `body_max` bytes
    /// and one segment. Errors: a body over that limit, or envelopes and segments that do not end together where they
    /// must.
    pub fn take(&mut self, body_max: u32) -> Result<Option<(RawHeader, Bytes)>, ProtocolError> {
        if !self.whole.is_empty() {
            let Some((header, len)) = envelope(&self.whole, body_max)? else {
                return Err(BOUNDARY);
            };
            if self.whole.len() < len {
                return Err(BOUNDARY);
            }
            let body = self.whole.split_to(len).slice(FrameHeader::LEN..);
            return Ok(Some((header, body)));
        }
        let Some((header, len)) = envelope(&self.large, body_max)? else {
            return Ok(None);
        };
        if self.large.len() < len {
            return Ok(None);
        }
        if len < self.large.len() {
            return Err(BOUNDARY);
        }
        let whole = std::mem::take(&mut self.large).freeze();
        Ok(Some((header, whole.slice(FrameHeader::LEN..))))
    }
}

/// Envelopes and segments do not end together where they must.
const BOUNDARY: ProtocolError = ProtocolError::new(ProtocolErrorKind::SegmentBoundary, 0);

/// The header of the envelope that starts here and the length of both; none while the header is not all there.
fn envelope(bytes: &[u8], body_max: u32) -> Result<Option<(RawHeader, usize)>, ProtocolError> {
    let Some((head, _)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
        return Ok(None);
    };
    let header = RawHeader::parse(head);
    let fail = |kind| ProtocolError::new(kind, 0).in_frame(header.opcode);
    match u32::try_from(header.length) {
        Err(_) => Err(fail(ProtocolErrorKind::NegativeLength(header.length))),
        Ok(length) if body_max < length => Err(fail(ProtocolErrorKind::BodyTooLong {
            length,
            max: body_max,
        })),
        Ok(length) => Ok(Some((header, FrameHeader::LEN + to_usize(length)))),
    }
}

/// The checksum of a segment's header.
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_START, |crc, byte| {
        let [_, high, ..] = crc.to_be_bytes();
        // The table has an entry for every byte.
        (crc << 8 & 0x00ff_ffff) ^ CRC24_TABLE[usize::from(high ^ byte)]
    })
}

/// The checksum of a segment's payload.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&CRC32_PREFIX);
    crc.update(bytes);
    crc.finalize()
}

const fn crc24_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    let mut byte: u32 = 0;
    while i < table.len() {
        let mut crc = byte << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[i] = crc;
        i += 1;
        byte += 1;
    }
    table
}

/// Reads up to eight bytes, lowest first.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Lengths of segments have 17 bits, so this never changes a number.
fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Where a length does not fit a `usize`, no buffer can be that long either.
fn to_usize(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// The longest payload, compressed or not: what 17 bits can say.
pub const PAYLOAD_MAX: usize = 131_071;

const LENGTH_BITS: u32 = 17;
const LENGTH_MASK: u64 = 0x0001_ffff;
/// Header fields without compression.
const HEADER_LEN: usize = 3;
/// Header fields with compression.
const COMPRESSED_HEADER_LEN: usize = 5;
const CRC24_LEN: usize = 3;
const CRC32_LEN: usize = 4;
const CRC24_START: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4f0b;
const CRC24_TABLE: [u32; 256] = crc24_table();
/// What a payload's checksum starts with, so that zeros do not look right.
const CRC32_PREFIX: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];

#[cfg(test)]
mod tests;
