//! The shortest ways to write the request that most programs send most: an EXECUTE with its values in one
//! block and nothing unusual around them. The parts around the values are put together on the stack and appended
//! at once, or kept and copied for each set of values. Everything else is written by `encode`, and so would this be,
//! byte for byte the same.

use super::encode::{FLAG_PAGE_SIZE, FLAG_SERIAL, FLAG_SKIP_METADATA, FLAG_TIMESTAMP, FLAG_VALUES};
use super::{ParamsRef, RequestOptionsRef, RequestRef};
use crate::types::encode::EncodedValues;
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
/// What a kept head has room for: two ids of 16 bytes, and a few bytes that make it whole words.
const KEPT_HEAD: usize = 64;
/// The same of a tail.
const KEPT_TAIL: usize = 16;
/// The place of the body's length in a header.
const LENGTH_AT: usize = 5;

/// Everything of a plain EXECUTE but its values, put together once for many of them.
#[derive(Clone, Debug)]
pub struct ExecuteTemplate {
    layout: ExecuteLayout,
    /// How many values the head announces.
    count: u16,
    head: [u8; KEPT_HEAD],
    head_len: usize,
    tail: [u8; KEPT_TAIL],
    tail_len: usize,
    /// Where in the tail each frame has a timestamp of its own.
    timestamp_at: Option<usize>,
}

/// What the layout of an EXECUTE depends on, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecuteLayout(u8);

impl ExecuteLayout {
    /// Returns that of connections that have agreed on `features`.
    pub fn of(features: &ProtocolFeatures) -> Self {
        let version = match features.version {
            ProtocolVersion::V4 => 0,
            ProtocolVersion::V5 => 1,
        };
        let metadata_id = 2 * u8::from(features.has_metadata_id());
        Self(version | metadata_id | (4 * u8::from(features.tablets_v2)))
    }
}

impl ExecuteTemplate {
    /// Keeps what stands around the values of this request, whose own values are counted and not looked at; none where
    /// it is not a plain EXECUTE.
    ///
    /// With `stamped`, a timestamp of the request is a place for that of each frame.
    pub fn new(
        request: &RequestRef<'_>,
        features: &ProtocolFeatures,
        options: &RequestOptionsRef<'_>,
        stamped: bool,
    ) -> Option<Self> {
        let around = Around::of(request, features, 0, options)?;
        Some(Self {
            layout: ExecuteLayout::of(features),
            count: around.params.values.count,
            head: padded(around.head.bytes())?,
            head_len: around.head.len,
            tail: padded(around.tail.bytes())?,
            tail_len: around.tail.len,
            timestamp_at: around.timestamp_at.filter(|_| stamped),
        })
    }

    /// Says whether each frame has a timestamp of its own.
    #[inline]
    pub const fn is_stamped(&self) -> bool {
        self.timestamp_at.is_some()
    }

    /// Says whether [`write`](Self::write) can write these values for a connection of this layout.
    #[inline]
    pub fn fits(&self, layout: ExecuteLayout, values: &EncodedValues) -> bool {
        // One branch for all of it: each more on the way to `write` would be taken for a sign that it is rare.
        (self.layout == layout)
            & (self.count == values.count())
            & values.is_one_block()
            & (values.block().len() <= VALUES_MAX)
    }

    /// Appends the frame with these values, byte for byte what the general way would write. The stream id is left open.
    ///
    /// `timestamp` counts where [`is_stamped`](Self::is_stamped) says so.
    #[inline(always)] // On the path of every request.
    pub fn write(&self, out: &mut Vec<u8>, values: &[u8], timestamp: i64) {
        let start = out.len();
        let body = self.head_len - FrameHeader::LEN + values.len() + self.tail_len;
        out.reserve(KEPT_HEAD + values.len() + KEPT_TAIL);
        // Whole arrays cost a few stores; what is too much is cut off again.
        out.extend_from_slice(&self.head);
        out.truncate(start + self.head_len);
        let place = out.get_mut(start + LENGTH_AT..).unwrap_or_default();
        if let (Some(place), Ok(body)) = (place.first_chunk_mut(), u32::try_from(body)) {
            *place = body.to_be_bytes();
        }
        out.extend_from_slice(values);
        let mut tail = self.tail;
        if let Some(at) = self.timestamp_at
            && let Some(place) = tail.get_mut(at..)
            && let Some(place) = place.first_chunk_mut()
        {
            *place = timestamp.to_be_bytes();
        }
        let end = out.len() + self.tail_len;
        out.extend_from_slice(&tail);
        out.truncate(end);
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut padded = [0; N];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(padded)
}

/// Appends the frame and returns true, or appends nothing when the request is not a plain EXECUTE.
#[inline]
pub(super) fn put_plain(
    out: &mut impl FrameSink,
    request: &RequestRef<'_>,
    features: &ProtocolFeatures,
    stream: i16,
    options: &RequestOptionsRef<'_>,
) -> bool {
    let Some(mut around) = Around::of(request, features, stream, options) else {
        return false;
    };
    let values = around.params.values.bytes;
    let body = around.head.len - FrameHeader::LEN + values.len() + around.tail.len;
    if let Some(place) = around.head.bytes.get_mut(LENGTH_AT..)
        && let Some(place) = place.first_chunk_mut()
    {
        // Bounded by what is plain.
        *place = u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes();
    }
    out.reserve(FrameHeader::LEN + body);
    out.put(around.head.bytes());
    out.put(values);
    out.put(around.tail.bytes());
    true
}

/// What stands around the values of a plain EXECUTE. Its length, which is theirs too, is left open.
struct Around<'a> {
    params: &'a ParamsRef<'a>,
    head: Piece<HEAD>,
    tail: Piece<TAIL>,
    /// Where in the tail a timestamp stands.
    timestamp_at: Option<usize>,
}

impl<'a> Around<'a> {
    /// Puts it together; none when the request is not a plain EXECUTE.
    #[inline(always)] // On the path of every request that has no template.
    fn of(
        request: &'a RequestRef<'a>,
        features: &ProtocolFeatures,
        stream: i16,
        options: &RequestOptionsRef<'_>,
    ) -> Option<Self> {
        let RequestRef::Execute {
            id,
            result_metadata_id,
            tablet_block,
            params,
        } = request
        else {
            return None;
        };
        let metadata_id = result_metadata_id.unwrap_or_default();
        let unusual = options.custom_payload.is_some()
            || ID_MAX < id.len()
            || ID_MAX < metadata_id.len()
            || !is_plain(params);
        if unusual {
            return None;
        }
        let count = params.values.count;
        let page_size = params.page_size.filter(|rows| 0 < *rows);
        let flags = bit(count != 0, FLAG_VALUES)
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
        let timestamp_at = params.timestamp.map(|timestamp| {
            let at = tail.len;
            tail.put(timestamp.to_be_bytes());
            at
        });
        if features.tablets_v2 {
            tail.put([*tablet_block]);
        }
        let mut head = Piece::<HEAD>::new();
        head.put(header(features, stream, options).to_bytes());
        head.put_short_bytes(id);
        if features.has_metadata_id() {
            head.put_short_bytes(metadata_id);
        }
        let [c0, c1] = params.consistency.code().to_be_bytes();
        let [n0, n1] = count.to_be_bytes();
        match (features.version, count) {
            (ProtocolVersion::V4, 0) => head.put([c0, c1, flags]),
            (ProtocolVersion::V4, _) => head.put([c0, c1, flags, n0, n1]),
            (ProtocolVersion::V5, 0) => head.put([c0, c1, 0, 0, 0, flags]),
            (ProtocolVersion::V5, _) => head.put([c0, c1, 0, 0, 0, flags, n0, n1]),
        }
        Some(Self {
            params,
            head,
            tail,
            timestamp_at,
        })
    }
}

/// Makes the header, of a body whose length is not known yet.
#[inline]
fn header(
    features: &ProtocolFeatures,
    stream: i16,
    options: &RequestOptionsRef<'_>,
) -> FrameHeader {
    FrameHeader {
        direction: Direction::Request,
        version: features.version.byte(),
        flags: if options.tracing {
            Flags::TRACING
        } else {
            Flags::empty()
        },
        stream,
        opcode: Opcode::Execute,
        length: 0,
    }
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
