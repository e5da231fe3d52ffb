//! Owns the peer's side of the wire: how it makes frames and segments, and which of our requests it has seen.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use messina_core::wire::segment::{EnvelopeJoiner, SegmentCodec, crc24, crc32};
use messina_core::wire::{Compression, Opcode, ProtocolVersion, RawHeader};

use crate::input::Input;

/// Speaks for a server.
pub(super) struct Peer {
    version: ProtocolVersion,
    /// What was written and is not whole yet.
    wire: BytesMut,
    /// What the peer said that is not a whole frame yet, as far as it makes sense.
    said: Vec<u8>,
    /// Whether it said something of its own, which may answer requests that it was never asked.
    raw: bool,
    /// Requests that it has seen and not answered: stream and opcode.
    asked: VecDeque<(i16, u8)>,
    /// Whether the client asked for compression.
    compressed: bool,
    segments: Option<Segments>,
}

struct Segments {
    codec: SegmentCodec,
    joiner: EnvelopeJoiner,
    compressed: bool,
}

impl Peer {
    pub(super) fn new(version: ProtocolVersion) -> Self {
        Self {
            version,
            wire: BytesMut::new(),
            said: Vec::new(),
            raw: false,
            asked: VecDeque::new(),
            compressed: false,
            segments: None,
        }
    }

    /// Speaks in segments from now on, if the version has them.
    pub(super) fn start_segments(&mut self) {
        if self.version != ProtocolVersion::V5 || self.segments.is_some() || self.raw {
            return;
        }
        assert!(
            self.wire.is_empty(),
            "something was written before its time"
        );
        let compression = self.compressed.then_some(Compression::Lz4);
        self.segments = Some(Segments {
            codec: SegmentCodec::new(compression).expect("this build has the algorithm"),
            joiner: EnvelopeJoiner::new(),
            compressed: self.compressed,
        });
    }

    /// Builds a response frame of the version that is spoken.
    pub(super) fn frame(&self, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = frame(stream, opcode, body);
        bytes[0] = 0x80 | self.version.byte();
        bytes
    }

    /// Puts a whole frame into segments, if they are spoken.
    pub(super) fn wrap(&mut self, frame: Vec<u8>) -> Vec<u8> {
        match &mut self.segments {
            Some(segments) => {
                let mut sealed = Vec::new();
                segments.codec.seal(&frame, &mut sealed);
                sealed
            }
            None => frame,
        }
    }

    /// Says bytes of any kind: as they are, or as the payload of a segment with the right checksums.
    pub(super) fn say_raw(&mut self, payload: &[u8], self_contained: bool) -> Vec<u8> {
        self.raw = true;
        self.strike_out(payload);
        match &self.segments {
            Some(segments) => segment(payload, self_contained, segments.compressed),
            None => payload.to_vec(),
        }
    }

    /// Says bytes that stand in no segment, whatever is spoken.
    pub(super) fn say_bare(&mut self, bytes: &[u8]) {
        self.raw = true;
        if self.segments.is_none() {
            self.strike_out(bytes);
        }
    }

    /// Takes note of an answer that may have been more than it looks: in version 5 one to STARTUP starts segments.
    pub(super) fn said_odd(&mut self) {
        self.raw |= self.version == ProtocolVersion::V5 && self.segments.is_none();
    }

    /// Strikes out requests that any whole frame answered: their streams may be used again.
    fn strike_out(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
        while let Some((head, rest)) = self.said.split_first_chunk::<9>() {
            let raw = RawHeader::parse(head);
            // After a length that makes no sense the connection is over.
            let Ok(len) = usize::try_from(raw.length) else {
                return;
            };
            if rest.len() < len {
                return;
            }
            self.asked.retain(|(stream, _)| *stream != raw.stream);
            self.said.drain(..9 + len);
        }
    }

    /// Takes in what was written.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
    }

    /// Notes the requests that are whole.
    pub(super) fn see(&mut self) {
        if self.raw && self.version == ProtocolVersion::V5 && self.segments.is_none() {
            // Whether these are segments is anybody's guess.
            self.wire.clear();
            return;
        }
        while let Some((header, body)) = self.next_frame() {
            assert_eq!(header.version, self.version.byte());
            let taken = self
                .asked
                .iter()
                .any(|(stream, _)| *stream == header.stream);
            assert!(self.raw || !taken, "stream {} is used twice", header.stream);
            if header.opcode == Opcode::Startup.byte() {
                self.compressed = body.windows(11).any(|text| text == b"COMPRESSION");
            }
            self.asked.retain(|(stream, _)| *stream != header.stream);
            self.asked.push_back((header.stream, header.opcode));
        }
    }

    fn next_frame(&mut self) -> Option<(RawHeader, Bytes)> {
        let Some(segments) = &mut self.segments else {
            let header = RawHeader::parse(self.wire.first_chunk::<9>()?);
            let len = usize::try_from(header.length).expect("our own lengths are positive");
            if self.wire.len() < 9 + len {
                return None;
            }
            let frame = self.wire.split_to(9 + len).freeze();
            return Some((header, frame.slice(9..)));
        };
        loop {
            let next = segments
                .joiner
                .take(u32::MAX)
                .expect("our own frames are whole");
            if next.is_some() {
                return next;
            }
            let header = segments
                .codec
                .read_header(&self.wire)
                .expect("our own segments are valid")?;
            let len = segments.codec.segment_len(&header);
            if self.wire.len() < len {
                return None;
            }
            let segment = self.wire.split_to(len).freeze();
            let payload = segments
                .codec
                .open(&header, &segment)
                .expect("our own segments are valid");
            segments
                .joiner
                .push(payload, header.self_contained)
                .expect("our own segments are in order");
        }
    }

    /// Takes a request to answer: the oldest, or another one of the first few.
    pub(super) fn next_asked(&mut self, at: usize) -> Option<(i16, u8)> {
        let at = at.min(self.asked.len().saturating_sub(1));
        self.asked.remove(at)
    }
}

/// Builds a segment that is not compressed, with any payload.
fn segment(payload: &[u8], self_contained: bool, compressed: bool) -> Vec<u8> {
    let len = u64::try_from(payload.len()).expect("inputs are short");
    let contained = u64::from(self_contained);
    let (fields, width) = if compressed {
        (len | contained << 34, 5)
    } else {
        (len | contained << 17, 3)
    };
    let mut bytes = fields.to_le_bytes()[..width].to_vec();
    let crc = crc24(&bytes).to_le_bytes();
    bytes.extend(&crc[..3]);
    bytes.extend_from_slice(payload);
    bytes.extend(crc32(payload).to_le_bytes());
    bytes
}

/// Builds a response frame.
pub(crate) fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let [s0, s1] = stream.to_be_bytes();
    let mut bytes = vec![0x84, 0, s0, s1, opcode];
    let length = u32::try_from(body.len()).expect("inputs are short");
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn string(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("texts are short");
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

pub(super) fn error(code: i32, text: &str) -> Vec<u8> {
    let mut bytes = code.to_be_bytes().to_vec();
    bytes.extend(string(text));
    bytes
}

/// Offers some of what servers offer, with values of the input's choice.
pub(super) fn supported(input: &mut Input<'_>, choice: u8) -> Vec<u8> {
    let count = u16::from(choice & 0x0f);
    let mut body = count.to_be_bytes().to_vec();
    for _ in 0..count {
        let (key, usual) = input.choose(&OFFERS);
        body.extend(string(key));
        body.extend([0, 1]);
        match input.byte() {
            0..=0xbf => body.extend(string(usual)),
            _ => {
                let value = input.stretch();
                body.extend([0, u8::try_from(value.len()).unwrap_or(0)]);
                body.extend(value);
            }
        }
    }
    body
}

/// Offers one kind of compression; whether it is wanted is up to the settings.
pub(super) const OFFER_OF_LZ4: &[u8] = b"\0\x01\0\x0bCOMPRESSION\0\x01\0\x03lz4";

const OFFERS: [(&str, &str); 14] = [
    ("CQL_VERSION", "3.3.1"),
    ("COMPRESSION", "lz4"),
    ("CLIENT_OPTIONS", ""),
    ("SCYLLA_SHARD", "2"),
    ("SCYLLA_NR_SHARDS", "4"),
    ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
    ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
    ("SCYLLA_SHARD_AWARE_PORT", "19042"),
    ("SCYLLA_HOST_ID", "6a1b2c3d-0000-4000-8000-000000000001"),
    (
        "SCYLLA_LWT_ADD_METADATA_MARK",
        "LWT_OPTIMIZATION_META_BIT_MASK=2147483648",
    ),
    ("SCYLLA_RATE_LIMIT_ERROR", "ERROR_CODE=61440"),
    ("SCYLLA_USE_METADATA_ID", ""),
    ("TABLETS_ROUTING_V1", ""),
    (
        "SCYLLA_PARTITIONER",
        "org.apache.cassandra.dht.Murmur3Partitioner",
    ),
];
