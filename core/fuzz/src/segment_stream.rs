//! Owns the target `segment_stream`: segments of protocol version 5 that are whole, flipped, cut or made up.

use bytes::{Bytes, BytesMut};
use messina_core::error::protocol::ProtocolError;
use messina_core::wire::segment::{EnvelopeJoiner, SegmentCodec};
use messina_core::wire::{Compression, FrameHeader, RawHeader};

use crate::input::Input;

/// Reads segments: the first byte chooses compression and what is done to the segments, then come envelopes to seal,
/// each with a length in front, or bytes as they are.
pub fn segment_stream(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let compression = (choice & 1 == 1).then_some(Compression::Lz4);
    let mut codec = SegmentCodec::new(compression).expect("this build has the algorithm");
    match choice >> 1 & 3 {
        0 => {
            let _ = read(&codec, input.rest(), |_, _| ());
        }
        1 => sealed_comes_back(&mut codec, &mut input),
        2 => flips_are_found(&mut codec, &mut input),
        _ => {
            let (at, drop) = (input.short(), input.byte());
            let mut bytes = seal(&mut codec, &mut input).1;
            let at = usize::from(at).min(bytes.len());
            let end = (at + usize::from(drop)).min(bytes.len());
            bytes.drain(at..end);
            let _ = read(&codec, &bytes, |_, _| ());
        }
    }
}

type Envelopes = Vec<(RawHeader, Vec<u8>)>;

/// Makes envelopes of the input and seals them.
fn seal(codec: &mut SegmentCodec, input: &mut Input<'_>) -> (Envelopes, Vec<u8>) {
    let mut envelopes = Vec::new();
    let mut plain = Vec::new();
    while !input.is_empty() && envelopes.len() < ENVELOPES_MAX {
        let len = usize::from(input.short());
        let repeat = 1 + input.below(12);
        let body = input.take(len).repeat(repeat);
        let mut head = [4, 0, 0, 1, 8, 0, 0, 0, 0];
        let length = i32::try_from(body.len()).expect("inputs are short");
        head[5..].copy_from_slice(&length.to_be_bytes());
        plain.extend(head);
        plain.extend_from_slice(&body);
        envelopes.push((RawHeader::parse(&head), body));
    }
    let mut sealed = Vec::new();
    codec.seal(&plain, &mut sealed);
    (envelopes, sealed)
}

fn sealed_comes_back(codec: &mut SegmentCodec, input: &mut Input<'_>) {
    let (envelopes, sealed) = seal(codec, input);
    let mut opened: Envelopes = Vec::new();
    let left = read(codec, &sealed, |header, body| {
        opened.push((header, body.to_vec()))
    });
    assert_eq!(left, Ok(0), "our own segments are refused");
    assert!(opened == envelopes, "envelopes changed on their way");
}

/// Every checksum here finds any single flipped bit.
fn flips_are_found(codec: &mut SegmentCodec, input: &mut Input<'_>) {
    let (at, bit) = (usize::from(input.short()), input.byte() & 7);
    let (_, mut sealed) = seal(codec, input);
    if sealed.is_empty() {
        return;
    }
    let at = at % sealed.len();
    sealed[at] ^= 1 << bit;
    let left = read(codec, &sealed, |_, _| ());
    assert!(left.is_err(), "a flipped bit was not found");
}

/// Reads segments one after the other, as a connection does; says how many bytes do not make a whole one.
fn read(
    codec: &SegmentCodec,
    bytes: &[u8],
    mut each: impl FnMut(RawHeader, Bytes),
) -> Result<usize, ProtocolError> {
    let mut rest = BytesMut::from(bytes);
    let mut joiner = EnvelopeJoiner::new();
    while let Some(header) = codec.read_header(&rest)? {
        let len = codec.segment_len(&header);
        assert!(len <= 131_071 + 12, "a segment is longer than any can be");
        if rest.len() < len {
            break;
        }
        let segment = rest.split_to(len).freeze();
        let payload = codec.open(&header, &segment)?;
        joiner.join(payload, header.self_contained, BODY_MAX, |header, body| {
            assert_eq!(usize::try_from(header.length), Ok(body.len()));
            assert!(u32::try_from(body.len()).is_ok_and(|len| len <= BODY_MAX));
            each(header, body);
        })?;
    }
    Ok(rest.len())
}

/// More than the largest envelope that inputs make.
const BODY_MAX: u32 = 1024 * 1024;
/// Enough to fill more than one segment.
const ENVELOPES_MAX: usize = 64;
const _: () = assert!(FrameHeader::LEN == 9);
