//! The shortest way to write the request that most programs send most: an EXECUTE with its values in one
//! block and nothing unusual around them. The parts around the values are put together on the stack and appended
//! at once. Everything else is written by `encode`, and so would this be, byte for byte the same.

use super::encode::{FLAG_PAGE_SIZE, FLAG_SERIAL, FLAG_SKIP_METADATA, FLAG_TIMESTAMP, FLAG_VALUES};
use super::{ParamsRef, RequestOptionsRef, RequestRef};
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion};
use crate::wire::supported::ProtocolFeatures;
use crate::wire::write::FrameSink;

/// Ids are 16 bytes; longer ones than this go the long way.
const ID_MAX: usize = 32;
/// Values longer than this go the long way, which checks the length of the whole.
const VALUES_MAX: usize = 1 << 20;
/// Header, two ids, consistency, flags and count of values.
const HEAD: usize = FrameHeader::LEN + 2 * (2 + ID_MAX) + 2 + 4 + 2;
/// Page size, serial consistency, timestamp and tablet block.
const TAIL: usize = 4 + 2 + 8 + 1;

/// Appends the frame and returns true, or appends nothing when the request is not a plain EXECUTE.
#[inline]
pub(super) fn put_plain(
    out: &mut impl FrameSink,
    request: &RequestRef<'_>,
    features: &ProtocolFeatures,
    stream: i16,
    options: &RequestOptionsRef<'_>,
) -> bool {
    let RequestRef::Execute {
        id,
        result_metadata_id,
        tablet_block,
        params,
    } = request
    else {
        return false;
    };
    let metadata_id = result_metadata_id.unwrap_or_default();
    let unusual = options.custom_payload.is_some()
        || ID_MAX < id.len()
        || ID_MAX < metadata_id.len()
        || !is_plain(params);
    if unusual {
        return false;
    }
    let values = &params.values;
    let page_size = params.page_size.filter(|rows| 0 < *rows);
    let flags = bit(values.count != 0, FLAG_VALUES)
        | bit(params.skip_metadata, FLAG_SKIP_METADATA)
        | bit(page_size.is_some(), FLAG_PAGE_SIZE)
        | bit(params.serial_consistency.is_some(), FLAG_SERIAL)
        | bit(params.timestamp.is_some(), FLAG_TIMESTAMP);
    let mut tail = Piece::<TAIL>::new();
    if let Some(rows) = page_size {
        tail.put(rows.to_be_bytes());
    }
    if let Some(serial) = params.serial_consistency {
        tail.put(serial.code().to_be_bytes());
    }
    if let Some(timestamp) = params.timestamp {
        tail.put(timestamp.to_be_bytes());
    }
    if features.tablets_v2 {
        tail.put([*tablet_block]);
    }
    let mut head = Piece::<HEAD>::new();
    // The header comes first; its length is filled in when all lengths are known.
    head.put([0; FrameHeader::LEN]);
    head.put_short_bytes(id);
    if features.has_metadata_id() {
        head.put_short_bytes(metadata_id);
    }
    let [c0, c1] = params.consistency.code().to_be_bytes();
    let [n0, n1] = values.count.to_be_bytes();
    match (features.version, values.count) {
        (ProtocolVersion::V4, 0) => head.put([c0, c1, flags]),
        (ProtocolVersion::V4, _) => head.put([c0, c1, flags, n0, n1]),
        (ProtocolVersion::V5, 0) => head.put([c0, c1, 0, 0, 0, flags]),
        (ProtocolVersion::V5, _) => head.put([c0, c1, 0, 0, 0, flags, n0, n1]),
    }
    let body = head.len - FrameHeader::LEN + values.bytes.len() + tail.len;
    let header = FrameHeader {
        direction: Direction::Request,
        version: features.version.byte(),
        flags: if options.tracing {
            Flags::TRACING
        } else {
            Flags::empty()
        },
        stream,
        opcode: Opcode::Execute,
        // Bounded by the checks above.
        length: u32::try_from(body).unwrap_or(u32::MAX),
    };
    if let Some(place) = head.bytes.first_chunk_mut() {
        *place = header.to_bytes();
    }
    out.reserve(FrameHeader::LEN + body);
    out.put(head.bytes());
    out.put(values.bytes);
    out.put(tail.bytes());
    true
}

/// Says whether the parameters have nothing that few requests have.
#[inline]
fn is_plain(params: &ParamsRef<'_>) -> bool {
    let values = &params.values;
    params.paging_state.is_none()
        && params.keyspace.is_none()
        && params.now_in_seconds.is_none()
        && values.names.is_none()
        && values.large.is_empty()
        && values.bytes.len() <= VALUES_MAX
        && (values.count != 0 || values.bytes.is_empty())
}

#[inline]
const fn bit(set: bool, bit: u16) -> u8 {
    if set { bit.to_be_bytes()[1] } else { 0 }
}

/// A few bytes on the stack; what does not fit is left out, and the sizes above let everything fit.
struct Piece<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Piece<N> {
    #[inline]
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    #[inline]
    fn put<const M: usize>(&mut self, bytes: [u8; M]) {
        if let Some(place) = self
            .bytes
            .get_mut(self.len..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            *place = bytes;
            self.len += M;
        }
    }

    #[inline]
    fn put_short_bytes(&mut self, bytes: &[u8]) {
        let [.., high, low] = bytes.len().to_be_bytes();
        self.put([high, low]);
        // The usual length, as two words instead of a call.
        if let Ok(id) = <[u8; 16]>::try_from(bytes) {
            return self.put(id);
        }
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
