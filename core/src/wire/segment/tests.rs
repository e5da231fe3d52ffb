use super::*;

const MAX: u32 = 1 << 20;

fn codecs() -> Vec<SegmentCodec> {
    let mut codecs = vec![SegmentCodec::new(None).unwrap()];
    codecs.extend(SegmentCodec::new(Some(Compression::Lz4)));
    codecs
}

fn envelope_of(stream: u8, body: usize) -> Vec<u8> {
    let length = u32::try_from(body).unwrap().to_be_bytes();
    let head = [
        0x85, 0, 0, stream, 8, length[0], length[1], length[2], length[3],
    ];
    let body = (0..body).map(|i| (i * i % 251).to_be_bytes()[7]);
    head.into_iter().chain(body).collect()
}

/// Opens all segments and joins what is in them.
fn unseal(codec: &SegmentCodec, wire: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut joiner = EnvelopeJoiner::new();
    let mut rest = Bytes::copy_from_slice(wire);
    let mut found = Vec::new();
    while let Some(header) = codec.read_header(&rest)? {
        let len = codec.segment_len(&header).min(rest.len());
        let payload = codec.open(&header, &rest.split_to(len))?;
        joiner.join(payload, header.self_contained, MAX, |header, body| {
            let header = FrameHeader::try_from(header).unwrap().to_bytes();
            found.push([&header, &body[..]].concat());
        })?;
    }
    assert!(rest.is_empty(), "half a header is left");
    Ok(found)
}

#[test]
fn known_checksums_are_met() {
    assert_eq!(crc24(&[0, 0, 0]).to_le_bytes(), [0x77, 0xe7, 0x7d, 0]);
    assert_eq!(crc32(&[]).to_le_bytes(), [0xd3, 0x7e, 0x77, 0x44]);
}

#[test]
fn envelopes_come_back_whatever_their_size() {
    let sizes = [
        0,
        1,
        PAYLOAD_MAX - 10,
        PAYLOAD_MAX - 9,
        PAYLOAD_MAX - 8,
        3 * PAYLOAD_MAX,
    ];
    for mut codec in codecs() {
        let envelopes: Vec<Vec<u8>> = sizes
            .iter()
            .zip(1..)
            .map(|(size, stream)| envelope_of(stream, *size))
            .collect();
        let mut wire = Vec::new();
        codec.seal(&envelopes.concat(), &mut wire);
        assert_eq!(unseal(&codec, &wire), Ok(envelopes));
    }
}

#[test]
fn small_envelopes_share_a_segment() {
    for mut codec in codecs() {
        let envelopes: Vec<Vec<u8>> = (0..100).map(|stream| envelope_of(stream, 20)).collect();
        let mut wire = Vec::new();
        codec.seal(&envelopes.concat(), &mut wire);
        let header = codec.read_header(&wire).unwrap().unwrap();
        assert!(header.self_contained);
        assert_eq!(codec.segment_len(&header), wire.len());
        assert_eq!(unseal(&codec, &wire), Ok(envelopes));
    }
}

#[test]
fn what_does_not_get_smaller_is_stored_as_it_is() {
    let Some(mut codec) = SegmentCodec::new(Some(Compression::Lz4)) else {
        return;
    };
    let mut wire = Vec::new();
    codec.seal(&envelope_of(1, 3), &mut wire);
    let header = codec.read_header(&wire).unwrap().unwrap();
    assert_eq!((header.payload_len, header.plain_len), (12, 0));
    assert!(
        SegmentCodec::new(Some(Compression::Snappy)).is_none(),
        "version 5 does not have it"
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    for mut codec in codecs() {
        let mut wire = Vec::new();
        codec.seal(&envelope_of(1, 60), &mut wire);
        let checked = codec.header_len();
        for bit in 0..wire.len() * 8 {
            let mut broken = wire.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let kind = unseal(&codec, &broken).unwrap_err().kind;
            let expected = if bit / 8 < checked {
                ProtocolErrorKind::SegmentHeader
            } else {
                ProtocolErrorKind::SegmentPayload
            };
            assert_eq!(kind, expected, "bit {bit}");
        }
    }
}

#[test]
fn envelopes_that_do_not_end_with_their_segment_are_refused() {
    let one = envelope_of(1, 5);
    let join = |pieces: &[(&[u8], bool)]| {
        let mut joiner = EnvelopeJoiner::new();
        let mut count = 0;
        for (piece, whole) in pieces {
            joiner.join(Bytes::copy_from_slice(piece), *whole, MAX, |_, _| {
                count += 1
            })?;
        }
        Ok::<_, ProtocolError>(count)
    };
    assert_eq!(join(&[(&one, true), (&one, false)]), Ok(2));
    assert_eq!(
        join(&[(&one[..4], false), (&one[4..8], false), (&one[8..], false)]),
        Ok(1)
    );
    let longer = [&one[..], b"x"].concat();
    for pieces in [
        &[(&one[..13], true)][..],
        &[(&one[..4], true)],
        &[(&longer, true)],
        &[(&longer, false)],
        &[(&one[..4], false), (&one, true)],
    ] {
        assert_eq!(
            join(pieces).unwrap_err().kind,
            ProtocolErrorKind::SegmentBoundary
        );
    }
}

#[test]
fn a_large_body_over_the_limit_is_refused_with_its_first_piece() {
    let head = [0x85, 0, 0, 1, 8, 0x7f, 0xff, 0xff, 0xff];
    let error = EnvelopeJoiner::new()
        .join(Bytes::copy_from_slice(&head), false, MAX, |_, _| {})
        .unwrap_err();
    assert_eq!(
        error.kind,
        ProtocolErrorKind::BodyTooLong {
            length: 0x7fff_ffff,
            max: MAX
        }
    );
}
