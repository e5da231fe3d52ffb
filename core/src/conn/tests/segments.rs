//! Protocol version 5: bare frames up to the answer to STARTUP, segments from the next byte on, in both directions.

use bytes::Bytes;

use super::*;
use crate::wire::segment::{EnvelopeJoiner, PAYLOAD_MAX, SegmentCodec};
use crate::wire::{Compression, LargeValue, ProtocolVersion, ValuesRef};

fn plan_5(change: impl FnOnce(&mut SessionConfig)) -> ConnectionPlan {
    ConnectionPlan {
        version: ProtocolVersion::V5,
        ..plan(change)
    }
}

/// Makes a frame one of version 5.
fn v5(mut frame: Vec<u8>) -> Vec<u8> {
    frame[0] = 0x85;
    frame
}

/// Opens a connection that speaks in segments.
fn open_with(change: impl FnOnce(&mut SessionConfig)) -> Bench {
    let mut bench = Bench::new(plan_5(change));
    bench.peer(&v5(supported(1, &[("COMPRESSION", "lz4")])));
    bench.peer(&v5(ready(1)));
    assert!(matches!(bench.outputs()[..], [ConnectionOutput::Ready(_)]));
    bench.written();
    bench
}

fn open() -> Bench {
    open_with(|_| ())
}

fn codec(compression: Option<Compression>) -> SegmentCodec {
    SegmentCodec::new(compression).unwrap()
}

/// Puts frames into segments as a server does.
fn seal(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    codec(None).seal(&frames.concat(), &mut out);
    out
}

/// Cuts a frame into pieces of this size, whatever its own is.
fn pieces(frame: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in frame.chunks(size) {
        let mut segment = Vec::new();
        // A frame over the limit of a payload is cut; this one is as long and carries the piece in front.
        let codec = &mut codec(None);
        let start = codec.begin(&mut segment);
        segment.extend_from_slice(piece);
        codec.finish(start, false, &mut segment);
        out.extend(segment);
    }
    out
}

/// A frame: opcode, stream and body.
type Sent = (u8, i16, Vec<u8>);

/// Takes segments apart: the frames, and whether each segment said that it has whole ones.
fn unseal(bytes: &[u8], compression: Option<Compression>) -> (Vec<Sent>, Vec<bool>) {
    let codec = codec(compression);
    let mut joiner = EnvelopeJoiner::new();
    let (mut frames, mut whole) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    while let Some(header) = codec.read_header(rest).unwrap() {
        let (segment, later) = rest.split_at(codec.segment_len(&header));
        rest = later;
        whole.push(header.self_contained);
        let payload = codec
            .open(&header, &Bytes::copy_from_slice(segment))
            .unwrap();
        joiner
            .join(payload, header.self_contained, u32::MAX, |raw, body| {
                assert_eq!((raw.direction, raw.version), (Direction::Request, 5));
                frames.push((raw.opcode, raw.stream, body.to_vec()));
            })
            .unwrap();
    }
    assert!(rest.is_empty(), "half a segment");
    (frames, whole)
}

fn counting(len: usize) -> Vec<u8> {
    (0..251_u8).cycle().take(len).collect()
}

/// Returns stream-independent proof of each answer: ticket and body.
fn answers(bench: &mut Bench) -> Vec<(u64, Vec<u8>)> {
    let answer = |output: &ConnectionOutput| match output {
        ConnectionOutput::Reply {
            ticket,
            reply: Ok(frame),
        } => (ticket.0, frame.body.to_vec()),
        other => panic!("{other:?}"),
    };
    bench.outputs().iter().map(answer).collect()
}

#[test]
fn the_first_bytes_after_ready_are_a_segment_even_in_the_same_read() {
    let event = [
        string("STATUS_CHANGE"),
        string("UP"),
        hex("04c0000202"),
        9042_u32.to_be_bytes().to_vec(),
    ];
    let event = seal(&[v5(frame(-1, 0x0c, &event.concat()))]);
    let bytes = [v5(supported(1, &[])), v5(ready(1)), event].concat();
    for cut in 0..=bytes.len() {
        let mut bench = Bench::new(plan_5(|_| ()));
        bench.peer(&bytes[..cut]);
        bench.peer(&bytes[cut..]);
        let outputs = bench.outputs();
        assert!(
            matches!(
                outputs[..],
                [ConnectionOutput::Ready(_), ConnectionOutput::Event(_)]
            ),
            "cut at {cut}: {outputs:?}"
        );
    }
}

#[test]
fn a_login_goes_in_segments_and_startup_does_not() {
    let mut bench = Bench::new(plan_5(|session| {
        session.credentials = Some(Arc::new(PlainCredentials::new("ada", "secret")));
        session.keyspace = Some("ks".into());
    }));
    assert_eq!(bench.written(), hex("050000010500000000"));
    bench.peer(&v5(supported(1, &[])));
    let startup = bench.written();
    assert_eq!((startup[0], startup[4]), (5, 1));
    bench.peer(&v5(frame(
        1,
        0x03,
        &string("org.apache.cassandra.auth.PasswordAuthenticator"),
    )));
    let (frames, whole) = unseal(&bench.written(), None);
    assert_eq!((frames[0].0, &whole[..]), (0x0f, &[true][..]));
    bench.peer(&seal(&[v5(frame(1, 0x10, &[0xff; 4]))]));
    let (frames, _) = unseal(&bench.written(), None);
    assert_eq!(frames[0].0, 0x07, "USE");
    let used = [hex("00000003"), string("ks")].concat();
    bench.peer(&seal(&[v5(frame(1, 0x08, &used))]));
    assert_eq!(bench.told(), ["ready"]);
}

#[test]
fn a_batch_of_requests_is_one_segment() {
    let mut bench = open();
    bench.submit_all(1..=100);
    let (frames, whole) = unseal(&bench.written(), None);
    assert_eq!((frames.len(), whole), (100, vec![true]));
}

#[test]
fn a_large_request_is_cut_and_small_ones_do_not_share_its_segments() {
    let mut bench = open();
    bench.submit(1);
    let value = Bytes::from(counting(300_000));
    let large = [LargeValue {
        at: 4,
        bytes: value.clone(),
    }];
    let params = ParamsRef {
        values: ValuesRef {
            count: 1,
            bytes: &300_000_u32.to_be_bytes(),
            large: &large,
            names: None,
        },
        ..ParamsRef::default()
    };
    let request = RequestRef::Query {
        text: "INSERT",
        params,
    };
    let options = RequestOptionsRef::default();
    bench
        .conn
        .submit(bench.now, Ticket(2), request, &options, None)
        .unwrap();
    bench.submit(3);
    let (frames, whole) = unseal(&bench.written(), None);
    assert_eq!(whole, [true, false, false, false, true]);
    assert!(frames.len() == 3 && frames[1].2.ends_with(&value));
}

#[test]
fn a_request_of_exactly_one_payload_is_whole_and_one_byte_more_is_not() {
    let overhead = 9 + 4 + 6;
    for (more, expected) in [(0, vec![true]), (1, vec![false, false])] {
        let mut bench = open();
        let text = "x".repeat(PAYLOAD_MAX - overhead + more);
        bench.query(1, &text, None).unwrap();
        let (frames, whole) = unseal(&bench.written(), None);
        assert_eq!((frames.len(), whole), (1, expected));
    }
}

#[cfg(feature = "lz4")]
#[test]
fn segments_are_compressed_where_that_helps() {
    let lz4 = Some(Compression::Lz4);
    let mut bench = open_with(|session| session.connection.compression = lz4);
    bench.query(1, &"x".repeat(100_000), None).unwrap();
    let sent = bench.written();
    assert!(sent.len() < 2_000, "{}", sent.len());
    assert_eq!(unseal(&sent, lz4).0[0].2[4..6], *b"xx");

    let mut answer = Vec::new();
    codec(lz4).seal(&v5(frame(1, 0x08, &[7; 100_000])), &mut answer);
    bench.peer(&answer);
    assert_eq!(answers(&mut bench), [(1, vec![7; 100_000])]);

    bench.submit(2);
    bench.written();
    let plain = hex("0900000004c2b8958500000002000000004f5a5d99");
    bench.peer(&plain);
    assert!(!bench.conn.is_open(), "a stray READY, which was read");
    let error = protocol_error(&bench.outputs());
    assert_eq!(error.kind, ProtocolErrorKind::UnknownStream(0));
}

#[test]
fn large_answers_follow_each_other_intact_byte_by_byte_too() {
    let (a, b) = (counting(400_000), vec![0x5c; 140_000]);
    for turned in [false, true] {
        for step in [usize::MAX, 1_000, 1] {
            let mut bench = open();
            bench.submit_all(1..=6);
            bench.written();
            let mut frames = [v5(frame(5, 0x08, &a)), v5(frame(6, 0x08, &b))];
            let mut expected = [(5, a.clone()), (6, b.clone())];
            if turned {
                frames.reverse();
                expected.reverse();
            }
            let bytes = seal(&frames);
            bytes
                .chunks(step.min(bytes.len()))
                .for_each(|part| bench.peer(part));
            assert_eq!(answers(&mut bench), expected);
        }
    }
}

#[test]
fn an_answer_in_thousands_of_segments_is_joined_in_linear_time() {
    let mut bench = open();
    bench.submit(1);
    bench.written();
    let body = counting(2_000_000);
    bench.peer(&pieces(&v5(frame(1, 0x08, &body)), 100));
    assert_eq!(answers(&mut bench), [(1, body)]);
}

#[test]
fn a_large_answer_over_the_limit_is_refused_with_its_first_piece() {
    let mut bench = open_with(|session| session.limits.frame_bytes_max = 1_000_000);
    bench.submit(1);
    bench.written();
    let mut head = v5(frame(1, 0x08, &[]));
    head[5..9].copy_from_slice(&1_000_001_u32.to_be_bytes());
    bench.peer(&pieces(&head, 9));
    let (length, max) = (1_000_001, 1_000_000);
    let error = protocol_error(&bench.outputs());
    assert_eq!(error.kind, ProtocolErrorKind::BodyTooLong { length, max });
}

#[test]
fn the_end_of_one_frame_and_the_start_of_the_next_in_a_segment_are_refused() {
    for cut in [5, 9, 150] {
        let mut bench = open();
        bench.submit_all(1..=2);
        bench.written();
        let (a, b) = (v5(frame(1, 0x08, &[1; 60])), v5(frame(2, 0x08, &[2; 300])));
        let first = [&a[..], &b[..cut]].concat();
        bench.peer(&pieces(&first, first.len()));
        let outputs = bench.outputs();
        assert_eq!(outputs.len(), 3, "both requests end");
        assert_eq!(
            protocol_error(&outputs).kind,
            ProtocolErrorKind::SegmentBoundary
        );
    }
}

#[test]
fn a_damaged_segment_ends_the_connection_before_its_length_is_believed() {
    let damaged = [
        (
            "290002a4c8c18500000002000000004f5a5d99",
            ProtocolErrorKind::SegmentHeader,
        ),
        (
            "090002a4c8c18500000002000000004f5a5d98",
            ProtocolErrorKind::SegmentPayload,
        ),
        (
            "090002a4c8c18500000002010000004f5a5d99",
            ProtocolErrorKind::SegmentPayload,
        ),
    ];
    for (bytes, expected) in damaged {
        let mut bench = open();
        bench.submit(1);
        bench.written();
        bench.peer(&hex(bytes));
        let outputs = bench.outputs();
        assert_eq!(outputs.len(), 2);
        assert_eq!(protocol_error(&outputs).kind, expected);
    }
}

#[test]
fn several_frames_of_one_segment_are_all_delivered() {
    let mut bench = open();
    bench.submit_all(1..=3);
    bench.written();
    let sent = [v5(void(2)), v5(result(1, 9)), v5(void(3))];
    let bytes = seal(&sent);
    let (first, rest) = bytes.split_at(bytes.len() - 1);
    bench.peer(first);
    assert!(bench.outputs().is_empty());
    bench.peer(rest);
    let tickets: Vec<_> = answers(&mut bench)
        .iter()
        .map(|(ticket, _)| *ticket)
        .collect();
    assert_eq!(tickets, [2, 1, 3]);
}

#[test]
fn a_request_in_a_segment_that_was_not_written_is_not_withdrawn_and_not_sent_at_the_end() {
    let mut bench = open();
    let wrapped = bench.submit(1);
    let mut slices = [IoSlice::new(&[]); 4];
    assert_eq!(bench.conn.poll_transmit(&mut slices), 1);
    let loose = bench.submit(2);
    bench.conn.abandon(bench.now, loose);
    bench.submit(3);
    bench.conn.abandon(bench.now, wrapped);
    bench.conn.close(bench.now, CloseReason::Surplus);
    let told = bench.told();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("3 failed") && told[0].ends_with("(not sent)"),
        "{told:?}"
    );
    assert_eq!(bench.written(), [0_u8; 0], "nothing of what failed follows");
}

#[test]
fn the_fate_of_a_wrapped_request_turns_with_the_first_byte_of_its_segment() {
    for (written, fate) in [
        (0, "(not sent)"),
        (1, "(maybe applied)"),
        (7, "(maybe applied)"),
    ] {
        let mut bench = open();
        bench.submit_all(1..=2);
        bench.write(written);
        bench.submit(3);
        bench
            .conn
            .handle_io_error(bench.now, std::io::ErrorKind::ConnectionReset);
        let told = bench.told();
        assert!(
            told[0].ends_with(fate) && told[1].ends_with(fate),
            "{told:?}"
        );
        assert!(told[2].ends_with("(not sent)"), "{told:?}");
    }
}

#[test]
fn after_a_write_error_only_requests_in_whole_segments_are_waited_for() {
    let mut bench = open();
    bench.submit(1);
    bench.written();
    bench.submit(2);
    bench.write(10);
    bench
        .conn
        .handle_write_error(bench.now, std::io::ErrorKind::BrokenPipe);
    let told = bench.told();
    assert!(
        told[0].starts_with("2 failed") && told[0].ends_with("(maybe applied)"),
        "{told:?}"
    );
    assert_eq!(bench.conn.in_flight(), 1);
    bench.peer(&seal(&[v5(void(1))]));
    assert!(bench.told()[0].starts_with("1 answered"));
    assert_eq!(bench.written(), [0_u8; 0]);
}

#[test]
fn a_server_that_knows_version_5_only_as_beta_is_asked_for_version_4() {
    let mut bench = Bench::new(plan_5(|_| ()));
    bench.peer(&hex(
        "84000000000000001c0000000a00167635206e6565647320746865206265746120666c6167",
    ));
    let outputs = bench.outputs();
    let (phase, cause) = connect_error(&outputs);
    assert_eq!(phase, ConnectPhase::Options);
    assert!(
        matches!(cause, ConnectCause::Version { server: 4 }),
        "{cause:?}"
    );
}

#[cfg(feature = "snappy")]
#[test]
fn snappy_is_not_asked_for_with_version_5() {
    let mut bench = Bench::new(plan_5(|session| {
        session.connection.compression = Some(Compression::Snappy);
    }));
    bench.peer(&v5(supported(1, &[("COMPRESSION", "snappy")])));
    bench.peer(&v5(ready(1)));
    let told = bench.told();
    assert!(
        told[0].contains("CompressionNotOffered") && told[1] == "ready",
        "{told:?}"
    );
}

#[test]
fn an_idle_connection_is_kept_alive_in_segments() {
    let mut bench = open();
    bench.pass(secs(30));
    let (frames, _) = unseal(&bench.written(), None);
    assert_eq!((frames[0].0, frames[0].1), (0x05, i16::MAX));
    bench.peer(&seal(&[v5(supported(i16::MAX, &[]))]));
    bench.pass(secs(20));
    assert!(bench.conn.is_open());
}
