//! Compressed bodies of protocol version 4: agreed on once, then decided frame by frame.

use bytes::Bytes;

use super::*;
use crate::notify::Note;
use crate::wire::compress::pack_frame;
use crate::wire::{Compression, LargeValue, ValuesRef};

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Snappy];

fn wants(compression: Compression) -> ConnectionPlan {
    plan(|session| session.connection.compression = Some(compression))
}

/// Opens a connection that compresses.
fn open(compression: Compression) -> Bench {
    let mut bench = Bench::new(wants(compression));
    bench.peer(&supported(1, &[("COMPRESSION", compression.name())]));
    bench.peer(&ready(1));
    assert!(bench.conn.is_open());
    bench.outputs();
    bench.written();
    bench
}

fn packed(frame: &[u8], compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    pack_frame(frame, compression, &mut out);
    assert_ne!(out, frame, "it does not get smaller");
    out
}

/// Builds a frame with the compression flag, whatever its body is.
fn flagged(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = frame(stream, opcode, body);
    bytes[1] = 1;
    bytes
}

#[test]
fn compression_is_asked_for_only_where_it_is_offered() {
    for compression in BOTH {
        let mut bench = Bench::new(wants(compression));
        bench.peer(&supported(1, &[("COMPRESSION", compression.name())]));
        let startup = bench.requests().pop().unwrap();
        let text = String::from_utf8_lossy(&startup.body).into_owned();
        assert!(text.contains("COMPRESSION"), "{text}");
        assert!(bench.outputs().is_empty());

        let mut bench = Bench::new(wants(compression));
        bench.peer(&supported(1, &[("COMPRESSION", "zstd")]));
        let startup = bench.requests().pop().unwrap();
        assert!(!String::from_utf8_lossy(&startup.body).contains("COMPRESSION"));
        let outputs = bench.outputs();
        let [
            ConnectionOutput::Note(Note::CompressionNotOffered {
                compression: of, ..
            }),
        ] = &outputs[..]
        else {
            panic!("{outputs:?}")
        };
        assert_eq!(*of, compression);
        bench.peer(&ready(1));
        assert_eq!(bench.conn.info().unwrap().features.compression, None);
    }
}

#[test]
fn nothing_is_compressed_by_default() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.peer(&supported(1, &[("COMPRESSION", "lz4")]));
    bench.peer(&ready(1));
    bench.written();
    bench.query(1, &"x".repeat(2_048), None).unwrap();
    let sent = bench.written();
    assert_eq!((sent[1] & 1, sent.len()), (0, 9 + 4 + 2_048 + 3));
}

#[test]
fn a_long_body_is_compressed_and_a_short_one_is_not() {
    for compression in BOTH {
        let mut bench = open(compression);
        bench.query(1, &"x".repeat(2_048), None).unwrap();
        bench.query(2, "xxx", None).unwrap();
        let sent = bench.written();
        let length = u32::from_be_bytes(sent[5..9].try_into().unwrap());
        let (long, short) = sent.split_at(9 + usize::try_from(length).unwrap());
        assert_eq!((long[1], short[1]), (1, 0));
        assert!(long.len() < 200, "{}", long.len());
        if compression == Compression::Lz4 {
            assert_eq!(long[9..13], (4 + 2_048 + 3_u32).to_be_bytes());
        }
        let plain = compression.decompress(&long[9..], 4_096).unwrap();
        assert_eq!(plain[4..4 + 2_048], *"x".repeat(2_048).as_bytes());
        assert_eq!(short[13..16], *b"xxx");
    }
}

#[test]
fn a_large_value_is_compressed_with_its_statement() {
    let mut bench = open(Compression::Lz4);
    let value = Bytes::from(vec![7; 5_000]);
    let large = [LargeValue {
        at: 4,
        bytes: value.clone(),
    }];
    let values = ValuesRef {
        count: 1,
        bytes: &5_000_u32.to_be_bytes(),
        large: &large,
        names: None,
    };
    let params = ParamsRef {
        values,
        ..ParamsRef::default()
    };
    let request = RequestRef::Query {
        text: "INSERT",
        params,
    };
    let options = RequestOptionsRef::default();
    bench.submit(1);
    let key = bench
        .conn
        .submit(bench.now, Ticket(2), request, &options, None);
    bench.submit(3);
    let sent = bench.written();
    let first = 9 + usize::from(sent[8]);
    let body = 9 + usize::from(sent[first + 8]);
    assert!(body < 200);
    let plain = Compression::Lz4
        .decompress(&sent[first + 9..first + body], 10_000)
        .unwrap();
    assert!(plain.ends_with(&value));
    assert_eq!(sent.len(), first + body + first);
    bench.conn.abandon(bench.now, key.unwrap());
}

#[test]
fn a_compressed_request_that_was_not_sent_is_withdrawn_whole() {
    let mut bench = open(Compression::Lz4);
    let long = "x".repeat(2_048);
    let first = bench.query(1, &long, None).unwrap();
    bench.submit(2);
    bench.conn.abandon(bench.now, first);
    let [left] = &bench.requests()[..] else {
        panic!("more than one request")
    };
    assert_eq!(left.body[4..10], *b"SELECT");
}

#[test]
fn a_request_from_the_line_is_compressed_too() {
    let mut bench = Bench::new(plan(|session| {
        session.connection.compression = Some(Compression::Lz4);
        session.limits.in_flight_max = 1;
    }));
    bench.peer(&supported(1, &[("COMPRESSION", "lz4")]));
    bench.peer(&ready(1));
    bench.written();
    bench.submit(1);
    bench.query(2, &"x".repeat(2_048), None).unwrap();
    bench.written();
    bench.peer(&void(1));
    let sent = bench.written();
    assert!(sent[1] == 1 && sent.len() < 200, "{}", sent.len());
}

#[test]
fn answers_are_decompressed_from_the_first_one_on() {
    for compression in BOTH {
        let mut bench = Bench::new(wants(compression));
        bench.peer(&supported(1, &[("COMPRESSION", compression.name())]));
        let mut empty = Vec::new();
        assert!(compression.compress(&[], &mut empty));
        bench.peer(&flagged(1, 0x02, &empty));
        assert_eq!(bench.told(), ["ready"]);
        bench.submit_all(1..=3);
        bench.written();
        let long = frame(1, 0x08, &[5; 1_000]);
        let bytes = [
            packed(&long, compression),
            void(2),
            packed(&frame(3, 0x08, &[6; 500]), compression),
        ];
        for byte in bytes.concat() {
            bench.peer(&[byte]);
        }
        let lengths: Vec<_> = bench
            .outputs()
            .iter()
            .map(|output| match output {
                ConnectionOutput::Reply {
                    reply: Ok(frame), ..
                } => {
                    assert!(!frame.header.flags.contains(crate::wire::Flags::COMPRESSION));
                    frame.body.len()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lengths, [1_000, 4, 500]);
    }
}

#[test]
fn a_compressed_body_that_cannot_be_read_fails_what_is_pending() {
    let broken = [
        (Compression::Lz4, hex("84010001080000000200ff")),
        (Compression::Lz4, flagged(1, 0x08, &[])),
        (Compression::Snappy, flagged(1, 0x08, &[])),
        (
            Compression::Lz4,
            flagged(1, 0x08, &[0, 0, 0, 9, 0xff, 0xff]),
        ),
    ];
    for (compression, bytes) in broken {
        let mut bench = open(compression);
        bench.submit_all(1..=2);
        bench.written();
        bench.peer(&bytes);
        let outputs = bench.outputs();
        assert_eq!(outputs.len(), 3);
        protocol_error(&outputs);
    }
}

#[test]
fn a_declared_length_over_the_limit_is_refused_before_any_memory_is_taken() {
    let mut bench = Bench::new(plan(|session| {
        session.connection.compression = Some(Compression::Lz4);
        session.limits.frame_bytes_max = 10_000;
    }));
    bench.peer(&supported(1, &[("COMPRESSION", "lz4")]));
    bench.peer(&ready(1));
    bench.outputs();
    bench.submit(1);
    bench.written();
    bench.peer(&packed(&frame(1, 0x08, &[0; 10_001]), Compression::Lz4));
    let error = protocol_error(&bench.outputs());
    let (length, max) = (10_001, 10_000);
    assert_eq!(error.kind, ProtocolErrorKind::BodyTooLong { length, max });
}

#[test]
fn a_compressed_answer_without_an_agreement_ends_the_connection() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&packed(&frame(1, 0x08, &[0; 100]), Compression::Lz4));
    let error = protocol_error(&bench.outputs());
    assert_eq!(error.kind, ProtocolErrorKind::CompressionNotAgreed);
}
