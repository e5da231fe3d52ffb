//! Bytes in any pieces, malformed frames, large frames, events, partial writes.

use super::*;
use crate::notify::Note;
use bytes::Bytes;

/// Is a conversation with everything in it: handshake, answers out of order, an error, events, a large answer.
fn conversation() -> Vec<Vec<u8>> {
    let mut status = string("STATUS_CHANGE");
    status.extend(string("UP"));
    status.extend([4, 192, 0, 2, 1, 0, 0, 0x23, 0x52]);
    vec![
        supported(1, &[("SCYLLA_USE_METADATA_ID", ""), ("COMPRESSION", "lz4")]),
        ready(1),
        [
            result(2, 7),
            frame(-1, 0x0c, &status),
            void(1),
            error(3, 0x2200, "bad"),
            frame(4, 0x08, &vec![0xab; 3_000]),
            hex("8400ffff0c000000150010504152544954494f4e5f4348414e4745000158"),
            result(5, 9),
            frame(6, 0x08, &vec![0xcd; 70_000]),
            void(7),
        ]
        .concat(),
    ]
}

/// Plays the conversation with reads of these lengths and returns all outputs and all bytes written.
fn play(mut piece: impl FnMut() -> usize) -> (Vec<String>, Vec<u8>) {
    let mut bench = Bench::new(plan(|_| ()));
    let mut told = Vec::new();
    let mut written = Vec::new();
    for (index, bytes) in conversation().into_iter().enumerate() {
        if index == 2 {
            bench.submit_all(1..=7);
        }
        written.extend(bench.written());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, len) = rest.split_at(piece().clamp(1, rest.len()));
            bench.peer(now);
            rest = len;
            told.extend(bench.told());
        }
    }
    (told, written)
}

#[test]
fn a_conversation_means_the_same_however_its_bytes_are_cut() {
    let whole = play(|| usize::MAX);
    assert_eq!(
        whole.0.len(),
        10,
        "{:?}",
        whole
            .0
            .iter()
            .map(|told| &told[..told.len().min(30)])
            .collect::<Vec<_>>()
    );
    assert_eq!(play(|| 1), whole);
    for seed in 0..50 {
        let mut random = Seed::from_u64(seed).random();
        assert_eq!(play(|| 1 + random.index(200)), whole, "seed {seed}");
        let mut random = Seed::from_u64(seed).random();
        assert_eq!(play(|| 1 + random.index(20_000)), whole, "seed {seed}");
    }
}

#[test]
fn a_conversation_means_the_same_when_cut_once_at_any_byte() {
    let short = [
        result(2, 7),
        void(1),
        error(3, 0x2200, "bad"),
        frame(-1, 0x0c, &string("NEW")),
    ]
    .concat();
    let run = |cut: usize| {
        let mut bench = Bench::open(|_| ());
        bench.submit_all(1..=3);
        bench.written();
        bench.peer(&short[..cut]);
        let mut told = bench.told();
        bench.peer(&short[cut..]);
        told.extend(bench.told());
        told
    };
    let whole = run(short.len());
    assert_eq!(whole.len(), 4);
    for cut in 0..short.len() {
        assert_eq!(run(cut), whole, "cut at {cut}");
    }
}

#[test]
fn an_end_of_input_at_any_byte_gives_each_request_one_reply() {
    let bytes = [result(2, 7), void(1), error(3, 0x2200, "bad")].concat();
    for cut in 0..=bytes.len() {
        let mut bench = Bench::open(|_| ());
        bench.submit_all(1..=4);
        bench.written();
        bench.peer(&bytes[..cut]);
        bench.conn.handle_eof(bench.now);
        let outputs = bench.outputs();
        assert!(matches!(closed(&outputs), ConnectionError::Eof));
        let mut tickets: Vec<u64> = outputs
            .iter()
            .filter_map(|output| match output {
                ConnectionOutput::Reply { ticket, .. } => Some(ticket.0),
                _ => None,
            })
            .collect();
        tickets.sort_unstable();
        assert_eq!(tickets, [1, 2, 3, 4], "cut at {cut}");
        assert_eq!(outputs.len(), 5);
    }
}

#[test]
fn random_bytes_never_do_more_than_close_the_connection() {
    for seed in 0..2_000 {
        let mut random = Seed::from_u64(seed).random();
        let mut bench = if seed % 2 == 0 {
            Bench::open(|_| ())
        } else {
            Bench::new(plan(|_| ()))
        };
        if bench.conn.is_open() {
            bench.submit_all(1..=8);
            bench.written();
        }
        // Start from something valid and spoil it, so that more than the first byte is reached.
        let mut bytes = conversation().concat();
        bytes.truncate(1 + random.index(4_000));
        for _ in 0..1 + random.index(6) {
            let at = random.index(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).unwrap();
        }
        bench.peer(&bytes);
        bench.conn.handle_eof(bench.now);
        let outputs = bench.outputs();
        closed(&outputs);
        let ends = outputs
            .iter()
            .filter(|output| matches!(output, ConnectionOutput::Closed(_)))
            .count();
        assert_eq!(ends, 1, "seed {seed}");
    }
}

#[test]
fn a_server_that_has_not_let_us_in_yet_cannot_make_us_reserve_much() {
    let mut bench = Bench::new(plan(|_| ()));
    bench.written();
    bench.peer(&hex("840000010600100001"));
    let outputs = bench.outputs();
    let (phase, cause) = connect_error(&outputs);
    assert_eq!(phase, ConnectPhase::Options);
    let ConnectCause::Protocol(error) = cause else {
        panic!("another cause: {cause}")
    };
    let (length, max) = (1024 * 1024 + 1, 1024 * 1024);
    assert_eq!(error.kind, ProtocolErrorKind::BodyTooLong { length, max });
}

#[test]
fn a_whole_answer_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    for (len, fits) in [(100, true), (101, false)] {
        let mut bench = Bench::open(|session| session.limits.frame_bytes_max = 100);
        bench.submit(7);
        let asked = bench.requests();
        let mut body = vec![0; len];
        body[3] = 1;
        bench.peer(&frame(asked[0].stream, 0x08, &body));
        let outputs = bench.outputs();
        let answered = matches!(
            outputs.first(),
            Some(ConnectionOutput::Reply { reply: Ok(_), .. })
        );
        assert_eq!(answered, fits, "{outputs:?}");
        if !fits {
            let kind = protocol_error(&outputs).kind;
            assert_eq!(
                kind,
                ProtocolErrorKind::BodyTooLong {
                    length: 101,
                    max: 100
                }
            );
        }
    }
}

#[test]
fn a_frame_that_claims_two_gib_or_a_negative_length_is_refused_before_anything_is_reserved() {
    for (header, kind) in [
        ("8400000108ffffffff", ProtocolErrorKind::NegativeLength(-1)),
        (
            "84000001087fffffff",
            ProtocolErrorKind::BodyTooLong {
                length: 0x7fff_ffff,
                max: 256 * 1024 * 1024,
            },
        ),
        (
            "840000010810000001",
            ProtocolErrorKind::BodyTooLong {
                length: 268_435_457,
                max: 256 * 1024 * 1024,
            },
        ),
    ] {
        let mut bench = Bench::open(|_| ());
        bench.submit(1);
        bench.written();
        bench.peer(&hex(header));
        let outputs = bench.outputs();
        let error = protocol_error(&outputs);
        assert_eq!((error.kind, error.opcode), (kind, Some(0x08)));
        assert_eq!(
            tell(&outputs[0]),
            "1 failed: the connection ended (maybe applied)"
        );
        assert!(bench.conn.recv_buffer().is_empty());
    }
}

#[test]
fn a_large_answer_arrives_whole_in_small_pieces() {
    let body: Vec<u8> = (0..20 * 1024 * 1024_u32)
        .map(|index| index.to_le_bytes()[1])
        .collect();
    let bytes = frame(1, 0x08, &body);
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    for piece in bytes.chunks(4_096) {
        bench.peer(piece);
    }
    bench.submit(2);
    bench.peer(&void(1));
    let outputs = bench.outputs();
    let [
        ConnectionOutput::Reply {
            reply: Ok(large), ..
        },
        ConnectionOutput::Reply {
            reply: Ok(small), ..
        },
    ] = &outputs[..]
    else {
        panic!("two answers")
    };
    assert!(large.body == body);
    assert_eq!(&small.body[..], [0, 0, 0, 1]);
}

#[test]
fn the_memory_of_a_large_answer_is_used_again_once_it_was_dropped() {
    let mut bench = Bench::open(|_| ());
    let ask = |bench: &mut Bench, mark: u8| -> Bytes {
        bench.submit(1);
        bench.written();
        bench.peer(&frame(1, 0x08, &vec![mark; 200_000]));
        match bench.outputs().pop() {
            Some(ConnectionOutput::Reply {
                reply: Ok(frame), ..
            }) => frame.body,
            other => panic!("{other:?}"),
        }
    };
    let first = ask(&mut bench, 1);
    let place = first.as_ptr();
    let second = ask(&mut bench, 2);
    assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
    drop(first);
    let third = ask(&mut bench, 3);
    assert_eq!(third.as_ptr(), place);
    assert!(second.iter().all(|byte| *byte == 2) && third.iter().all(|byte| *byte == 3));
}

#[test]
fn answers_that_are_kept_stay_as_they_were_while_the_buffer_moves_on() {
    let mut bench = Bench::open(|_| ());
    let mut kept: Vec<(u8, Bytes)> = Vec::new();
    let mut random = Seed::from_u64(3).random();
    for round in 0..2_000_u32 {
        let mark = round.to_le_bytes()[0];
        bench.submit(1);
        bench.written();
        let len = 5 + random.index(3_000);
        bench.peer(&frame(1, 0x08, &vec![mark; len]));
        match bench.outputs().pop() {
            Some(ConnectionOutput::Reply {
                reply: Ok(frame), ..
            }) if frame.body.len() == len => {
                kept.push((mark, frame.body));
            }
            other => panic!("{other:?}"),
        }
        if 64 < kept.len() {
            kept.swap_remove(random.index(kept.len()));
        }
        assert!(
            kept.iter()
                .all(|(mark, body)| body.iter().all(|byte| byte == mark))
        );
    }
}

#[test]
fn a_stream_of_small_answers_needs_no_new_memory() {
    let mut bench = Bench::open(|_| ());
    let mut places = std::collections::BTreeSet::new();
    for round in 0..10_000 {
        bench.submit_all(1..=8);
        bench.written();
        places.insert(bench.conn.recv_buffer().as_ptr().addr() >> 17);
        (1..=8).for_each(|stream| {
            bench.peer(&if round % 2 == 0 {
                result(stream, 1)
            } else {
                void(stream)
            })
        });
        assert_eq!(bench.outputs().len(), 8);
    }
    assert!(places.len() <= 8, "{} places", places.len());
}

#[test]
fn an_unknown_opcode_or_a_request_from_the_server_ends_the_connection() {
    for (bytes, opcode, kind) in [
        (
            "840000017f00000000",
            0x7f,
            ProtocolErrorKind::UnknownOpcode(0x7f),
        ),
        (
            "840000010700000000",
            0x07,
            ProtocolErrorKind::WrongDirection,
        ),
        (
            "040000010800000000",
            0x08,
            ProtocolErrorKind::WrongDirection,
        ),
        (
            "040000010700000000",
            0x07,
            ProtocolErrorKind::WrongDirection,
        ),
        (
            "850000010800000000",
            0x08,
            ProtocolErrorKind::UnexpectedVersion(5),
        ),
        (
            "840100010800000004",
            0x08,
            ProtocolErrorKind::CompressionNotAgreed,
        ),
    ] {
        let mut bench = Bench::open(|_| ());
        bench.submit(1);
        bench.written();
        bench.peer(&hex(bytes));
        let outputs = bench.outputs();
        let error = protocol_error(&outputs);
        assert_eq!((error.kind, error.opcode), (kind, Some(opcode)), "{bytes}");
        assert_eq!(outputs.len(), 2);
    }
}

#[test]
fn an_answer_where_nobody_waits_ends_the_connection_and_never_reaches_another_request() {
    for (bytes, stream) in [
        ("8400004d080000000400000001", 77),
        ("8400fffe080000000400000001", -2),
        ("84000000080000000400000001", 0),
        ("84007fff0600000002 0000", i16::MAX),
    ] {
        let mut bench = Bench::open(|_| ());
        bench.submit(1);
        bench.written();
        bench.peer(&hex(&bytes.replace(' ', "")));
        let outputs = bench.outputs();
        assert_eq!(
            protocol_error(&outputs).kind,
            ProtocolErrorKind::UnknownStream(stream)
        );
        assert_eq!(
            tell(&outputs[0]),
            "1 failed: the connection ended (maybe applied)"
        );
    }
}

#[test]
fn a_second_answer_to_one_request_ends_the_connection() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&void(1));
    bench.peer(&void(1));
    let outputs = bench.outputs();
    assert_eq!(tell(&outputs[0]), "1 answered Result [0, 0, 0, 1]");
    assert_eq!(
        protocol_error(&outputs).kind,
        ProtocolErrorKind::UnknownStream(1)
    );
}

#[test]
fn a_message_that_does_not_answer_what_was_asked_ends_the_connection() {
    for (opcode, body) in [
        (0x06, vec![0, 0]),
        (0x02, vec![]),
        (0x10, vec![0; 4]),
        (0x0c, string("X")),
    ] {
        let mut bench = Bench::open(|_| ());
        bench.submit(1);
        bench.submit(2);
        bench.written();
        bench.peer(&frame(1, opcode, &body));
        let outputs = bench.outputs();
        let error = protocol_error(&outputs);
        assert_eq!(error.kind, ProtocolErrorKind::UnexpectedAnswer);
        assert_eq!((error.opcode, error.offset), (Some(opcode), 4));
        assert_eq!(outputs.len(), 3);
    }
}

#[test]
fn an_error_that_belongs_to_no_request_ends_the_connection_with_the_servers_words() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&error(0, 0x000a, "Invalid message version"));
    let outputs = bench.outputs();
    match closed(&outputs) {
        ConnectionError::Server(error) => assert_eq!(error.message, "Invalid message version"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_with_an_unknown_code_is_an_answer_like_any_other() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&hex("84000001000000000d0000777700056e6f76656c0102"));
    assert!(bench.told()[0].starts_with("1 answered Error"));
    assert!(bench.conn.is_open());
}

#[test]
fn an_error_behind_trace_id_warnings_and_payload_is_an_answer_like_any_other() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&hex(concat!(
        "840e00010000000029000102030405060708090a0b0c0d0e0f0001000277310001",
        "00016b0000000101000022000003626164"
    )));
    let outputs = bench.outputs();
    let [
        ConnectionOutput::Reply {
            reply: Ok(frame), ..
        },
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    let envelope = frame.parse(&ProtocolFeatures::default()).unwrap();
    assert_eq!(envelope.warnings, ["w1"]);
    assert!(matches!(envelope.response, Response::Error(error) if error.message == "bad"));
}

#[test]
fn events_of_unknown_kinds_are_skipped_with_a_note() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.peer(&hex(
        "8400ffff0c000000150010504152544954494f4e5f4348414e4745000158",
    ));
    bench.peer(&hex(concat!(
        "8400ffff0c0000002a000d534348454d415f4348414e47450007555044415445",
        "4400075452494747455200036b733100027431"
    )));
    let outputs = bench.outputs();
    assert!(
        outputs
            .iter()
            .all(|output| matches!(output, ConnectionOutput::Note(Note::EventUnknown { .. }))),
        "{outputs:?}"
    );
    assert_eq!(outputs.len(), 2);
    bench.peer(&void(1));
    assert_eq!(bench.told(), ["1 answered Result [0, 0, 0, 1]"]);
}

#[test]
fn an_event_that_cannot_be_read_is_skipped_with_a_note() {
    let mut bench = Bench::open(|_| ());
    // A port above 65535, and a body that ends early.
    bench.peer(&hex(
        "8400ffff0c0000001c000d5354415455535f4348414e47450002555004c000020100012342",
    ));
    bench.peer(&frame(-1, 0x0c, &[0, 200, b'S']));
    let outputs = bench.outputs();
    assert!(
        outputs
            .iter()
            .all(|output| matches!(output, ConnectionOutput::Note(Note::EventUnreadable { .. }))),
        "{outputs:?}"
    );
    assert_eq!(outputs.len(), 2);
    assert!(bench.conn.is_open());
}

#[test]
fn short_writes_send_every_byte_once_and_in_order() {
    let text = "x".repeat(100 * 1024);
    let whole = {
        let mut bench = Bench::open(|_| ());
        bench.query(1, &text, None).unwrap();
        bench.query(2, "SELECT", None).unwrap();
        bench.written()
    };
    let mut bench = Bench::open(|_| ());
    bench.query(1, &text, None).unwrap();
    bench.query(2, "SELECT", None).unwrap();
    let mut pieces = [1, 16_384, 7, 40_000, 3].into_iter().cycle();
    let mut sent = Vec::new();
    loop {
        let bytes = bench.write(pieces.next().unwrap());
        if bytes.is_empty() {
            break;
        }
        sent.extend(bytes);
    }
    assert!(sent == whole);
    assert_eq!(frames(&sent).0.len(), 2);
}

#[test]
fn a_request_that_cannot_be_encoded_leaves_nothing_behind() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    let id = vec![0; 70_000];
    let request = RequestRef::Execute {
        id: &id,
        result_metadata_id: None,
        tablet_block: 0,
        params: ParamsRef::default(),
    };
    let refused = bench.conn.submit(
        bench.now,
        Ticket(2),
        request,
        &RequestOptionsRef::default(),
        None,
    );
    assert!(
        matches!(refused, Err(SubmitError::Encode(_))),
        "{refused:?}"
    );
    bench.submit(3);
    let seen = bench.requests();
    assert_eq!(
        seen.iter().map(|seen| seen.stream).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(bench.conn.in_flight(), 2);
    assert!(bench.outputs().is_empty());
}
