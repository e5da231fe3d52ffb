//! Compressed bodies of protocol version 4. Whether to compress is agreed on by the connection; segments of version
//! 5 have a module of their own and share only the blocks.
//!
//! A declared length is compared with the limit, and with what the algorithm can make of so many bytes at best,
//! before any memory is taken.

use bytes::Bytes;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::header::{Flags, FrameHeader, Opcode, ProtocolVersion, RawHeader};
use crate::wire::read::Reader;
use crate::wire::supported::Compression;

impl Compression {
    /// Whether this build can do it: features `lz4` and `snappy`.
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Snappy => cfg!(feature = "snappy"),
        }
    }

    /// Appends the compressed form of a body. False, and nothing appended, when this build cannot do it.
    pub fn compress(self, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let done = match self {
            Self::Lz4 => {
                let length = u32::try_from(plain.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&length.to_be_bytes());
                lz4::compress(plain, out)
            }
            Self::Snappy => snappy::compress(plain, out),
        };
        if !done {
            out.truncate(start);
        }
        done
    }

    /// Gives the plain form of a body, which may have at most `max` bytes.
    ///
    /// Errors: a length over the limit, a body that cannot be read or does not give what it says, or an algorithm
    /// that this build does not have.
    pub fn decompress(self, packed: &[u8], max: u32) -> Result<Bytes, ProtocolError> {
        match self {
            Self::Lz4 => {
                let mut r = Reader::new(packed);
                let length = r.int()?;
                let length = u32::try_from(length).map_err(|_| {
                    ProtocolError::new(ProtocolErrorKind::NegativeLength(length), 0)
                })?;
                check_length(length, max)?;
                lz4::decompress(r.rest(), length)
            }
            Self::Snappy => {
                let length = snappy::plain_length(packed)?;
                check_length(length, max)?;
                snappy::decompress(packed, length)
            }
        }
    }
}

/// Takes the compression off a body, if its header says that there is one, and mends the header accordingly.
///
/// Version 5 has no compressed bodies. Errors: nothing was agreed on, or those of [`Compression::decompress`].
pub fn unpack_body(
    header: &mut FrameHeader,
    body: Bytes,
    agreed: Option<Compression>,
    max: u32,
) -> Result<Bytes, ProtocolError> {
    let packed =
        header.flags.contains(Flags::COMPRESSION) && header.version < ProtocolVersion::V5.byte();
    if !packed {
        return Ok(body);
    }
    let opcode = header.opcode.byte();
    let Some(compression) = agreed else {
        let error = ProtocolError::new(ProtocolErrorKind::CompressionNotAgreed, 0);
        return Err(error.in_frame(opcode));
    };
    let plain = compression
        .decompress(&body, max)
        .map_err(|error| error.in_frame(opcode))?;
    header.flags = header.flags.without(Flags::COMPRESSION);
    // The limit is a u32, so the length is one too.
    header.length = u32::try_from(plain.len()).unwrap_or(u32::MAX);
    Ok(plain)
}

/// Appends a frame, compressed where that makes it smaller and the protocol allows it.
///
/// `frame` is one whole frame of version 4. OPTIONS and STARTUP come before an agreement is in force and stay plain.
pub fn pack_frame(frame: &[u8], compression: Compression, out: &mut Vec<u8>) {
    if !try_pack_frame(frame, compression, out) {
        out.extend_from_slice(frame);
    }
}

/// Appends a frame in compressed form, or nothing where that does not make it smaller or is not allowed.
pub(crate) fn try_pack_frame(frame: &[u8], compression: Compression, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if let Some((head, body)) = frame.split_first_chunk::<{ FrameHeader::LEN }>() {
        let raw = RawHeader::parse(head);
        let early = [Opcode::Options.byte(), Opcode::Startup.byte()].contains(&raw.opcode);
        if let (false, false, Ok(mut header)) = (early, body.is_empty(), FrameHeader::try_from(raw))
        {
            out.extend_from_slice(head);
            let packed = compression.compress(body, out);
            let length = out.len() - start - FrameHeader::LEN;
            if let (true, true, Ok(length)) = (packed, length < body.len(), u32::try_from(length)) {
                header.flags = header.flags.union(Flags::COMPRESSION);
                header.length = length;
                if let Some(place) = out.get_mut(start..start + FrameHeader::LEN) {
                    place.copy_from_slice(&header.to_bytes());
                }
                return true;
            }
            out.truncate(start);
        }
    }
    false
}

fn check_length(length: u32, max: u32) -> Result<(), ProtocolError> {
    if length <= max {
        return Ok(());
    }
    Err(ProtocolError::new(
        ProtocolErrorKind::BodyTooLong { length, max },
        0,
    ))
}

/// Makes room for the plain form of `packed`, unless no block of that size can give so much.
#[cfg(any(feature = "lz4", feature = "snappy"))]
fn room(packed: &[u8], length: u32, ratio_max: usize) -> Result<Vec<u8>, ProtocolError> {
    match usize::try_from(length) {
        Ok(length) if length <= packed.len().saturating_mul(ratio_max) => Ok(vec![0; length]),
        _ => Err(broken()),
    }
}

const fn broken() -> ProtocolError {
    ProtocolError::new(ProtocolErrorKind::Compression, 0)
}

/// Bare LZ4 blocks, without any length.
pub(crate) mod lz4 {
    use bytes::Bytes;

    use crate::error::protocol::ProtocolError;

    #[cfg(feature = "lz4")]
    pub(crate) fn compress(plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.resize(
            start + lz4_flex::block::get_maximum_output_size(plain.len()),
            0,
        );
        let room = out.get_mut(start..).unwrap_or_default();
        match lz4_flex::block::compress_into(plain, room) {
            Ok(length) => {
                out.truncate(start + length);
                true
            }
            Err(_) => {
                out.truncate(start);
                false
            }
        }
    }

    #[cfg(feature = "lz4")]
    pub(crate) fn decompress(packed: &[u8], length: u32) -> Result<Bytes, ProtocolError> {
        /// A match can be lengthened by 255 bytes with each byte of the block.
        const RATIO_MAX: usize = 255;
        let mut plain = super::room(packed, length, RATIO_MAX)?;
        match lz4_flex::block::decompress_into(packed, &mut plain) {
            Ok(given) if given == plain.len() => Ok(plain.into()),
            _ => Err(super::broken()),
        }
    }

    #[cfg(not(feature = "lz4"))]
    pub(crate) fn compress(_plain: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    #[cfg(not(feature = "lz4"))]
    pub(crate) fn decompress(_packed: &[u8], _length: u32) -> Result<Bytes, ProtocolError> {
        Err(super::broken())
    }
}

/// Snappy blocks, which begin with their plain length.
mod snappy {
    use bytes::Bytes;

    use crate::error::protocol::ProtocolError;

    #[cfg(feature = "snappy")]
    pub(super) fn compress(plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.resize(start + snap::raw::max_compress_len(plain.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        match snap::raw::Encoder::new().compress(plain, room) {
            Ok(length) => {
                out.truncate(start + length);
                true
            }
            Err(_) => false,
        }
    }

    #[cfg(feature = "snappy")]
    pub(super) fn plain_length(packed: &[u8]) -> Result<u32, ProtocolError> {
        let length = snap::raw::decompress_len(packed).map_err(|_| super::broken())?;
        // An empty input has length zero for the library, but it is not a block.
        match u32::try_from(length) {
            Ok(length) if !packed.is_empty() => Ok(length),
            _ => Err(super::broken()),
        }
    }

    #[cfg(feature = "snappy")]
    pub(super) fn decompress(packed: &[u8], length: u32) -> Result<Bytes, ProtocolError> {
        /// A copy gives up to 64 bytes for three.
        const RATIO_MAX: usize = 22;
        let mut plain = super::room(packed, length, RATIO_MAX)?;
        match snap::raw::Decoder::new().decompress(packed, &mut plain) {
            Ok(given) if given == plain.len() => Ok(plain.into()),
            _ => Err(super::broken()),
        }
    }

    #[cfg(not(feature = "snappy"))]
    pub(super) fn compress(_plain: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    #[cfg(not(feature = "snappy"))]
    pub(super) fn plain_length(_packed: &[u8]) -> Result<u32, ProtocolError> {
        Err(super::broken())
    }

    #[cfg(not(feature = "snappy"))]
    pub(super) fn decompress(_packed: &[u8], _length: u32) -> Result<Bytes, ProtocolError> {
        Err(super::broken())
    }
}

#[cfg(all(test, feature = "lz4", feature = "snappy"))]
mod tests {
    use super::*;

    const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Snappy];
    const MAX: u32 = 1 << 20;

    fn header(opcode: u8, body: &[u8]) -> FrameHeader {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let [l0, l1, l2, l3] = length;
        FrameHeader::parse(&[0x84, 1, 0, 1, opcode, l0, l1, l2, l3]).unwrap()
    }

    fn refused(compression: Compression, packed: &[u8]) -> ProtocolErrorKind {
        compression.decompress(packed, MAX).unwrap_err().kind
    }

    #[test]
    fn bodies_come_back_as_they_were() {
        let bodies: [&[u8]; 4] = [
            b"",
            b"a",
            &[7; 100_000],
            b"select k from t where k = 1 and k = 1",
        ];
        for compression in BOTH {
            for body in bodies {
                let mut packed = b"before".to_vec();
                assert!(compression.compress(body, &mut packed));
                assert_eq!(compression.decompress(&packed[6..], MAX).unwrap(), body);
            }
        }
    }

    #[test]
    fn a_compressed_body_shorter_than_its_length_prefix_is_refused() {
        let body = Bytes::from_static(&[0, 0xff]);
        let mut head = header(8, &body);
        let error = unpack_body(&mut head, body, Some(Compression::Lz4), MAX).unwrap_err();
        assert_eq!(
            error.kind,
            ProtocolErrorKind::Truncated { needed: 4, left: 2 }
        );
        assert_eq!(error.opcode, Some(8));
        for compression in BOTH {
            let mut head = header(8, &[]);
            assert!(unpack_body(&mut head, Bytes::new(), Some(compression), MAX).is_err());
        }
    }

    #[test]
    fn a_declared_length_is_believed_only_within_the_limit_and_the_possible() {
        let too_long = |length| ProtocolErrorKind::BodyTooLong { length, max: MAX };
        assert_eq!(
            refused(Compression::Lz4, &[0x7f, 0xff, 0xff, 0xff, 0]),
            too_long(0x7fff_ffff)
        );
        assert_eq!(
            refused(Compression::Lz4, &[0xff, 0xff, 0xff, 0xff, 0]),
            ProtocolErrorKind::NegativeLength(-1)
        );
        assert_eq!(
            refused(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
            too_long(0xffff_ffff)
        );
        // A mebibyte out of a single byte: within the limit, but no block can do that.
        let bomb = [0, 0x10, 0, 0, 0];
        assert_eq!(
            refused(Compression::Lz4, &bomb),
            ProtocolErrorKind::Compression
        );
        assert_eq!(
            refused(Compression::Snappy, &[0x80, 0x80, 0x40, 0]),
            ProtocolErrorKind::Compression
        );
    }

    #[test]
    fn a_block_that_gives_less_or_more_than_it_says_is_refused() {
        let mut packed = Vec::new();
        assert!(Compression::Lz4.compress(b"abcd", &mut packed));
        for length in [3, 5] {
            packed[3] = length;
            assert_eq!(
                refused(Compression::Lz4, &packed),
                ProtocolErrorKind::Compression
            );
        }
    }

    #[test]
    fn a_compressed_body_without_an_agreement_is_refused() {
        let mut head = header(8, &[0, 0, 0, 1]);
        let error = unpack_body(&mut head, Bytes::from_static(&[0, 0, 0, 1]), None, MAX);
        assert_eq!(
            error.unwrap_err().kind,
            ProtocolErrorKind::CompressionNotAgreed
        );
    }

    #[test]
    fn frames_are_compressed_only_where_it_helps_and_is_allowed() {
        for compression in BOTH {
            let frame = |opcode: u8, body: &[u8]| {
                let mut head = header(opcode, body);
                head.flags = Flags::TRACING;
                [&head.to_bytes(), body].concat()
            };
            for plain in [frame(0, b"x"), frame(2, b""), frame(8, b"0123456789")] {
                let mut out = Vec::new();
                pack_frame(&plain, compression, &mut out);
                assert_eq!(out, plain);
            }
            let mut startup = frame(2, &[9; 1000]);
            startup[0] = 4;
            startup[4] = Opcode::Startup.byte();
            let mut out = Vec::new();
            pack_frame(&startup, compression, &mut out);
            assert_eq!(out, startup);

            let large = frame(8, &[9; 1000]);
            let mut out = b"before".to_vec();
            pack_frame(&large, compression, &mut out);
            let (head, body) = out[6..].split_first_chunk().unwrap();
            let mut head = FrameHeader::parse(head).unwrap();
            assert!(head.flags.contains(Flags::COMPRESSION) && body.len() < 100);
            let body = Bytes::copy_from_slice(body);
            let body = unpack_body(&mut head, body, Some(compression), MAX).unwrap();
            assert_eq!([&head.to_bytes(), &body[..]].concat(), large);
        }
    }

    #[test]
    fn broken_blocks_do_not_panic() {
        for compression in BOTH {
            let mut packed = Vec::new();
            let plain: Vec<u8> = (0..300_u32).map(|n| (n * n % 7).to_be_bytes()[3]).collect();
            compression.compress(&plain, &mut packed);
            for at in 0..packed.len() {
                for byte in [0, 0x7f, 0x80, 0xff] {
                    let mut broken = packed.clone();
                    broken[at] = byte;
                    let _ = compression.decompress(&broken, MAX);
                }
                assert!(compression.decompress(&packed[..at], MAX).is_err());
            }
        }
    }
}
