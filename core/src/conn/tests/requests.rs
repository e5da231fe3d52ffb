//! Requests from submission to their one reply: streams, the line, abandoning, closing.

use super::*;
use bytes::Bytes;

use crate::wire::{LargeValue, ValuesRef};

fn in_flight_max(max: u16) -> impl FnOnce(&mut SessionConfig) {
    move |session| {
        session.limits.in_flight_max = max;
        session.limits.orphans_max = (max / 2).max(1);
    }
}

fn streams(seen: &[Seen]) -> Vec<i16> {
    seen.iter().map(|seen| seen.stream).collect()
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut bench = Bench::open(|_| ());
    for ticket in 10..15 {
        bench.submit(ticket);
    }
    assert_eq!(streams(&bench.requests()), [1, 2, 3, 4, 5]);
    assert_eq!(bench.conn.in_flight(), 5);
    for stream in [3, 1, 5, 2, 4] {
        bench.peer(&result(stream, u8::try_from(stream).unwrap()));
    }
    let told = bench.told();
    let expected: Vec<String> = [3, 1, 5, 2, 4]
        .map(|n| format!("{} answered Result [0, 0, 0, 2, {n}, 0, 0, 0]", n + 9))
        .into();
    assert_eq!(told, expected);
    assert_eq!(bench.conn.in_flight(), 0);
}

#[test]
fn the_stream_freed_last_is_used_first() {
    let mut bench = Bench::open(|_| ());
    bench.submit_all(1..=3);
    bench.written();
    bench.peer(&void(1));
    bench.peer(&void(3));
    bench.submit_all(4..=6);
    assert_eq!(streams(&bench.requests()), [3, 1, 4]);
}

#[test]
fn streams_stay_in_range_and_skip_the_one_that_never_answers() {
    let mut bench = Bench::open(|_| ());
    bench.submit(0);
    assert_eq!(streams(&bench.requests()), [1]);
    for lap in 0..7_000 {
        for ticket in 0..10 {
            bench.submit(lap * 10 + ticket);
        }
        let streams = streams(&bench.requests());
        assert!(
            streams.iter().all(|stream| (2..=11).contains(stream)),
            "{streams:?}"
        );
        for stream in streams {
            bench.peer(&void(stream));
        }
        assert_eq!(bench.outputs().len(), 10);
    }
}

#[test]
fn surplus_requests_wait_in_line_and_every_one_ends_once() {
    let mut bench = Bench::open(in_flight_max(4));
    bench.submit_all(0..14);
    assert_eq!(bench.conn.in_flight(), 14);
    let mut answered = Vec::new();
    loop {
        let seen = bench.requests();
        if seen.is_empty() {
            break;
        }
        assert!(seen.len() <= 4 && seen.iter().all(|seen| (1..=4).contains(&seen.stream)));
        seen.iter().for_each(|seen| bench.peer(&void(seen.stream)));
        for output in bench.outputs() {
            match output {
                ConnectionOutput::Reply {
                    ticket,
                    reply: Ok(_),
                } => answered.push(ticket.0),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(answered, (0..14).collect::<Vec<_>>());
}

#[test]
fn all_ids_there_are_can_be_in_flight_and_the_rest_wait() {
    let mut bench = Bench::open(|_| ());
    let all = u64::from(crate::config::limits::Limits::STREAMS_MAX);
    bench.submit_all(0..all + 10);
    let seen = bench.requests();
    assert_eq!(u64::try_from(seen.len()).unwrap(), all);
    assert_eq!(
        seen.iter().map(|seen| seen.stream).max(),
        Some(i16::MAX - 1)
    );
    assert_eq!(seen.iter().map(|seen| seen.stream).min(), Some(1));
    for seen in &seen {
        bench.peer(&void(seen.stream));
    }
    let seen = bench.requests();
    assert_eq!(seen.len(), 10);
    seen.iter().for_each(|seen| bench.peer(&void(seen.stream)));
    assert_eq!(u64::try_from(bench.outputs().len()).unwrap(), all + 10);
}

#[test]
fn a_limit_on_the_line_answers_overloaded() {
    let mut bench = Bench::open(|session| {
        session.limits.in_flight_max = 1;
        session.limits.orphans_max = 1;
        session.limits.waiting_max = Some(1);
    });
    bench.submit(1);
    bench.submit(2);
    assert!(matches!(
        bench.query(3, "SELECT", None),
        Err(SubmitError::Overloaded)
    ));
    bench.written();
    bench.peer(&void(1));
    bench.submit(4);
    assert_eq!(bench.conn.in_flight(), 2);
}

#[test]
fn a_request_in_line_expires_unsent() {
    let mut bench = Bench::open(in_flight_max(1));
    bench.submit(1);
    bench.submit_within(2, ms(100));
    bench.submit_within(3, ms(200));
    bench.written();
    bench.pass(ms(150));
    assert_eq!(bench.told(), ["2 failed: no answer in time (not sent)"]);
    bench.peer(&void(1));
    assert_eq!(bench.requests().len(), 1);
    bench.pass(ms(100));
    assert_eq!(
        bench.told(),
        [
            "1 answered Result [0, 0, 0, 1]",
            "3 failed: no answer in time (maybe applied)"
        ]
    );
}

#[test]
fn a_request_keeps_its_key_when_it_leaves_the_line() {
    let mut bench = Bench::open(in_flight_max(2));
    bench.submit(1);
    bench.submit(2);
    let waiting = bench.submit(3);
    let gone = bench.submit(4);
    bench.conn.abandon(bench.now, gone);
    assert_eq!(bench.requests().len(), 2);
    bench.peer(&void(1));
    assert_eq!(bench.requests().len(), 1);
    bench.conn.abandon(bench.now, waiting);
    assert_eq!(bench.conn.in_flight(), 1);
    // The answer of an abandoned request is swallowed, and its id is free again after it.
    bench.peer(&void(1));
    bench.submit(5);
    assert_eq!(streams(&bench.requests()), [1]);
    bench.peer(&void(1));
    bench.peer(&void(2));
    bench.conn.abandon(bench.now, waiting);
    bench.conn.abandon(bench.now, gone);
    assert_eq!(
        bench.told(),
        ["1", "5", "2"].map(|ticket| format!("{ticket} answered Result [0, 0, 0, 1]"))
    );
}

#[test]
fn a_request_abandoned_before_it_was_sent_is_never_sent() {
    let mut bench = Bench::open(|_| ());
    let keys: Vec<StreamKey> = (1..=5)
        .map(|ticket| bench.query(ticket, &format!("Q{ticket}"), None).unwrap())
        .collect();
    for index in [1, 2, 4] {
        bench.conn.abandon(bench.now, keys[index]);
    }
    assert_eq!(bench.conn.in_flight(), 2);
    let seen = bench.requests();
    let texts: Vec<&[u8]> = seen.iter().map(|seen| &seen.body[4..6]).collect();
    assert_eq!(texts, [b"Q1", b"Q4"]);
    // The ids are free at once.
    bench.submit_all(6..=8);
    let mut used = streams(&bench.requests());
    used.sort_unstable();
    assert_eq!(used, [2, 3, 5]);
}

#[test]
fn a_request_abandoned_half_written_is_written_to_its_end_and_its_id_kept() {
    let mut bench = Bench::open(|_| ());
    let key = bench.query(1, &"x".repeat(1024 * 1024), None).unwrap();
    let mut sent = bench.write(500_000);
    bench.conn.abandon(bench.now, key);
    bench.submit(2);
    sent.extend(bench.written());
    let (seen, rest) = frames(&sent);
    assert_eq!((streams(&seen), rest.len()), (vec![1, 2], 0));
    bench.peer(&void(1));
    bench.peer(&void(2));
    assert_eq!(bench.told(), ["2 answered Result [0, 0, 0, 1]"]);
}

#[test]
fn a_reply_that_was_not_taken_yet_does_not_come_out_after_abandoning() {
    let mut bench = Bench::open(|_| ());
    let first = bench.submit(1);
    bench.submit(2);
    let late = bench.query(3, "SELECT", Some(Duration::ZERO)).unwrap();
    bench.written();
    bench.peer(&void(1));
    bench.peer(&void(2));
    bench.conn.abandon(bench.now, first);
    bench.conn.abandon(bench.now, late);
    assert_eq!(bench.told(), ["2 answered Result [0, 0, 0, 1]"]);
    // A key that is out of date harms nobody who has its stream now.
    bench.submit(4);
    bench.submit(5);
    bench.conn.abandon(bench.now, first);
    assert_eq!(bench.requests().len(), 2);
    assert_eq!(bench.conn.in_flight(), 2);
}

#[test]
fn the_answer_of_an_expired_request_never_reaches_the_next_one() {
    let mut bench = Bench::open(in_flight_max(4));
    bench.submit_within(1, ms(10));
    bench.submit_all(2..=4);
    bench.written();
    bench.pass(ms(10));
    assert_eq!(
        bench.told(),
        ["1 failed: no answer in time (maybe applied)"]
    );
    bench.submit(5);
    assert_eq!(bench.written(), [0_u8; 0], "no id is free");
    bench.peer(&result(1, 0xaa));
    assert_eq!(streams(&bench.requests()), [1]);
    bench.peer(&result(1, 0xbb));
    assert_eq!(
        bench.told(),
        ["5 answered Result [0, 0, 0, 2, 187, 0, 0, 0]"]
    );
}

#[test]
fn a_deadline_that_has_passed_is_answered_without_sending() {
    let mut bench = Bench::open(|_| ());
    bench.submit_within(1, Duration::ZERO);
    assert_eq!(bench.written(), [0_u8; 0]);
    assert_eq!(bench.told(), ["1 failed: no answer in time (not sent)"]);
}

#[test]
fn an_expired_request_that_was_not_sent_is_withdrawn() {
    let mut bench = Bench::open(|_| ());
    bench.query(1, "AAAA", None).unwrap();
    bench.query(2, "BBBB", Some(ms(50))).unwrap();
    bench.query(3, "CCCC", None).unwrap();
    // The first has begun to leave, the second has not.
    let mut sent = bench.write(3);
    bench.pass(ms(50));
    assert_eq!(bench.told(), ["2 failed: no answer in time (not sent)"]);
    sent.extend(bench.written());
    let (seen, rest) = frames(&sent);
    assert_eq!((streams(&seen), rest.len()), (vec![1, 3], 0));
    assert_eq!(&seen[1].body[4..8], b"CCCC");
}

#[test]
fn withdrawn_frames_and_large_payloads_mix_in_any_order() {
    for seed in 0..300 {
        let mut random = Seed::from_u64(seed).random();
        let mut bench = Bench::open(|_| ());
        let mut sent = Vec::new();
        let mut waiting: Vec<(StreamKey, u8)> = Vec::new();
        let mut begun = 0;
        let mut marks = Vec::new();
        for mark in 0..60_u8 {
            let large = [LargeValue {
                at: 4,
                bytes: Bytes::from(vec![mark; 1 + random.index(5_000)]),
            }];
            let len = i32::try_from(large[0].bytes.len()).unwrap();
            let large = if mark % 3 == 0 { &large[..] } else { &[] };
            let length = if large.is_empty() { 0_i32 } else { len };
            let values = ValuesRef {
                count: 1,
                bytes: &length.to_be_bytes(),
                large,
                names: None,
            };
            let params = ParamsRef {
                values,
                ..ParamsRef::default()
            };
            let text = char::from(b'!' + mark).to_string();
            let request = RequestRef::Query {
                text: &text,
                params,
            };
            let key = bench
                .conn
                .submit(
                    bench.now,
                    Ticket(u64::from(mark)),
                    request,
                    &RequestOptionsRef::default(),
                    None,
                )
                .unwrap();
            waiting.push((key, b'!' + mark));
            match random.below(4) {
                0 => {
                    let (key, _) = waiting.swap_remove(random.index(waiting.len()));
                    bench.conn.abandon(bench.now, key);
                }
                1 => {
                    let bytes = bench.write(1 + random.index(3_000));
                    begun += bytes.len();
                    sent.extend(bytes);
                }
                _ => (),
            }
        }
        sent.extend(bench.written());
        let (seen, rest) = frames(&sent);
        assert!(rest.is_empty() && begun <= sent.len());
        for seen in &seen {
            marks.push(seen.body[4]);
        }
        // Nobody's frame was lost, and only those that had begun to leave are there without a waiting request.
        assert!(
            waiting.iter().all(|(_, mark)| marks.contains(mark)),
            "seed {seed}"
        );
        assert!(marks.is_sorted(), "seed {seed}");
        let in_flight = usize::try_from(bench.conn.in_flight()).unwrap();
        assert_eq!(in_flight, waiting.len(), "seed {seed}");
        for seen in &seen {
            bench.peer(&void(seen.stream));
        }
        assert_eq!(bench.outputs().len(), waiting.len(), "seed {seed}");
        assert!(bench.conn.is_open());
    }
}

#[test]
fn a_large_payload_leaves_as_a_slice_of_its_own() {
    let mut bench = Bench::open(|_| ());
    let payload = Bytes::from(vec![7; 1_000_000]);
    let large = [LargeValue {
        at: 4,
        bytes: payload.clone(),
    }];
    let values = ValuesRef {
        count: 1,
        bytes: &1_000_000_i32.to_be_bytes(),
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
    bench
        .conn
        .submit(
            bench.now,
            Ticket(1),
            request,
            &RequestOptionsRef::default(),
            None,
        )
        .unwrap();
    let mut slices = [IoSlice::new(&[]); 8];
    let count = bench.conn.poll_transmit(&mut slices);
    assert!(
        slices[..count]
            .iter()
            .any(|slice| slice.as_ptr() == payload.as_ptr())
    );
    assert_eq!(bench.requests().len(), 1);
}

#[test]
fn a_short_gather_list_is_filled_and_the_rest_comes_next() {
    let mut bench = Bench::open(|_| ());
    for ticket in 0..5 {
        let large = [LargeValue {
            at: 4,
            bytes: Bytes::from(vec![1; 2_000]),
        }];
        let values = ValuesRef {
            count: 1,
            bytes: &2_000_i32.to_be_bytes(),
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
        bench
            .conn
            .submit(
                bench.now,
                Ticket(ticket),
                request,
                &RequestOptionsRef::default(),
                None,
            )
            .unwrap();
    }
    let mut none: [IoSlice<'_>; 0] = [];
    assert_eq!(bench.conn.poll_transmit(&mut none), 0);
    let mut sent = Vec::new();
    loop {
        let mut one = [IoSlice::new(&[])];
        if bench.conn.poll_transmit(&mut one) == 0 {
            break;
        }
        let bytes = one[0].to_vec();
        bench.conn.handle_transmitted(bench.now, bytes.len());
        sent.extend(bytes);
    }
    assert_eq!(frames(&sent).0.len(), 5);
}

#[test]
fn a_lost_connection_says_of_each_request_whether_it_was_sent() {
    let mut bench = Bench::open(in_flight_max(3));
    bench.submit_all(1..=4);
    let all = bench.write(5).len();
    assert_eq!(all, 5);
    bench
        .conn
        .handle_io_error(bench.now, std::io::ErrorKind::ConnectionReset);
    let told = bench.told();
    assert_eq!(told[0], "1 failed: the connection ended (maybe applied)");
    assert_eq!(
        told[1..4],
        [2, 3, 4].map(|ticket| format!("{ticket} failed: the connection ended (not sent)"))
    );
    assert_eq!(told[4], "closed: the connection failed: connection reset");
    assert_eq!(told.len(), 5);
}

#[test]
fn nothing_happens_after_the_end() {
    let mut bench = Bench::open(|_| ());
    let key = bench.submit(1);
    bench.conn.close(bench.now, CloseReason::SessionClosed);
    assert_eq!(bench.told().len(), 2);
    assert!(bench.conn.recv_buffer().is_empty());
    bench.conn.handle_received(bench.now, 100);
    bench.conn.handle_eof(bench.now);
    bench
        .conn
        .handle_io_error(bench.now, std::io::ErrorKind::BrokenPipe);
    bench
        .conn
        .handle_write_error(bench.now, std::io::ErrorKind::BrokenPipe);
    bench.conn.abandon(bench.now, key);
    bench.conn.probe(bench.now);
    bench.conn.drain(bench.now, CloseReason::Aged);
    bench.conn.close(bench.now, CloseReason::Surplus);
    bench.jump(secs(1_000));
    assert_eq!(bench.written(), [0_u8; 0]);
    assert_eq!(bench.conn.poll_timeout(), None);
    assert!(bench.told().is_empty());
    assert!(matches!(
        bench.query(2, "SELECT", None),
        Err(SubmitError::Closed(ConnectionError::Closed(
            CloseReason::SessionClosed
        )))
    ));
}

#[test]
fn a_draining_connection_finishes_what_was_sent_and_takes_nothing_new() {
    let mut bench = Bench::open(in_flight_max(2));
    bench.submit(1);
    bench.submit_within(2, ms(100));
    bench.submit(3);
    bench.written();
    bench.conn.drain(bench.now, CloseReason::Aged);
    let told = bench.told();
    assert_eq!(told[0], "3 failed: the connection ended (not sent)");
    assert_eq!(told[2], "draining: the connection reached its maximum age");
    assert!(!bench.conn.is_open());
    assert!(matches!(
        bench.query(4, "SELECT", None),
        Err(SubmitError::Closed(_))
    ));
    bench.peer(&void(1));
    assert_eq!(bench.told(), ["1 answered Result [0, 0, 0, 1]"]);
    bench.pass(ms(100));
    assert_eq!(
        bench.told(),
        [
            "2 failed: no answer in time (maybe applied)",
            "closed: the connection reached its maximum age"
        ]
    );
}

#[test]
fn a_connection_with_nothing_in_flight_drains_at_once() {
    let mut bench = Bench::open(|_| ());
    bench.conn.drain(bench.now, CloseReason::Aged);
    assert!(matches!(
        closed(&bench.outputs()),
        ConnectionError::Closed(CloseReason::Aged)
    ));
}

#[test]
fn one_failed_write_does_not_spoil_requests_that_were_sent() {
    let mut bench = Bench::open(|_| ());
    bench.submit_all(1..=5);
    bench.written();
    bench.submit(6);
    bench.write(4);
    bench.submit(7);
    bench
        .conn
        .handle_write_error(bench.now, std::io::ErrorKind::BrokenPipe);
    let told = bench.told();
    assert_eq!(told[0], "6 failed: the connection ended (maybe applied)");
    assert_eq!(told[1], "7 failed: the connection ended (not sent)");
    assert!(told[3].starts_with("draining"));
    assert_eq!(bench.written(), [0_u8; 0]);
    (1..=4).for_each(|stream| bench.peer(&void(stream)));
    assert_eq!(bench.told().len(), 4);
    bench.conn.handle_eof(bench.now);
    assert_eq!(
        bench.told(),
        [
            "5 failed: the connection ended (maybe applied)",
            "closed: the connection failed: broken pipe"
        ]
    );
}

#[test]
fn a_connection_that_cannot_write_does_not_wait_for_ever() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench
        .conn
        .handle_write_error(bench.now, std::io::ErrorKind::BrokenPipe);
    bench.outputs();
    bench.pass(secs(10));
    assert_eq!(
        bench.told().last().unwrap(),
        "closed: the connection failed: broken pipe"
    );
}

#[test]
fn an_orphan_limit_above_the_ids_is_lowered_with_a_note() {
    let mut bench = Bench::new(plan(|session| {
        session.limits.in_flight_max = 1_024;
        session.limits.orphans_max = 24_576;
    }));
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    assert!(bench.told()[1].contains("OrphanLimitLowered { configured: 24576, effective: 512 }"));
}
