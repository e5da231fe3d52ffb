//! Owns the target `compression`: blocks of any content are decompressed within their limit, and what was compressed
//! comes back.

use bytes::Bytes;
use messina_core::wire::compress::{pack_frame, unpack_body};
use messina_core::wire::{Compression, Flags, FrameHeader};

use crate::input::Input;

/// Compresses or decompresses: the first byte chooses the algorithm and the direction.
pub fn compression(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let algorithm = if choice & 1 == 0 {
        Compression::Lz4
    } else {
        Compression::Snappy
    };
    if choice & 2 == 0 {
        decompress(algorithm, input.rest());
    } else {
        there_and_back(algorithm, &mut input);
    }
}

fn decompress(algorithm: Compression, packed: &[u8]) {
    for max in [0, 1_000, PLAIN_MAX] {
        if let Ok(plain) = algorithm.decompress(packed, max) {
            assert!(
                u32::try_from(plain.len()).is_ok_and(|len| len <= max),
                "more than was allowed"
            );
        }
    }
}

fn there_and_back(algorithm: Compression, input: &mut Input<'_>) {
    let header = [4, 0, 0, 1, 0x07];
    let repeat = 1 + usize::from(input.byte());
    let plain = input.rest().repeat(repeat);
    let mut frame = header.to_vec();
    frame.extend(u32::try_from(plain.len()).unwrap_or(0).to_be_bytes());
    frame.extend_from_slice(&plain);
    let mut packed = Vec::new();
    pack_frame(&frame, algorithm, &mut packed);
    assert!(
        packed.len() <= frame.len(),
        "compression made a frame larger"
    );
    let (head, body) = packed
        .split_first_chunk::<{ FrameHeader::LEN }>()
        .expect("a header was written");
    let mut header = FrameHeader::parse(head).expect("the header is valid");
    let body = Bytes::copy_from_slice(body);
    let again =
        unpack_body(&mut header, body, Some(algorithm), u32::MAX).expect("our own block is valid");
    assert_eq!(again, plain);
    assert!(!header.flags.contains(Flags::COMPRESSION));
    assert_eq!(usize::try_from(header.length), Ok(plain.len()));
}

/// Allows blocks to grow as far as their ratio does.
const PLAIN_MAX: u32 = 16 * 1024 * 1024;
