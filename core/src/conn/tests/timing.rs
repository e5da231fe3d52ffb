//! Deadlines, orphans and keepalive in virtual time.

use super::*;

#[test]
fn an_answer_in_time_leaves_no_deadline_behind() {
    let mut bench = Bench::open(|session| session.connection.keepalive_interval = None);
    assert_eq!(bench.conn.poll_timeout(), None);
    bench.submit_within(1, secs(30));
    bench.written();
    assert!(bench.conn.poll_timeout().is_some());
    bench.peer(&void(1));
    assert_eq!(bench.conn.poll_timeout(), None);
    bench.pass(secs(60));
    assert_eq!(bench.told(), ["1 answered Result [0, 0, 0, 1]"]);
}

#[test]
fn deadlines_fire_with_whatever_input_comes_next() {
    let inputs: [fn(&mut Bench); 5] = [
        |bench| bench.peer(&void(2)),
        |bench| bench.submit_all([9]),
        |bench| bench.conn.handle_transmitted(bench.now, 0),
        |bench| bench.conn.probe(bench.now),
        |bench| {
            bench.conn.abandon(
                bench.now,
                StreamKey {
                    index: 77,
                    generation: 0,
                },
            )
        },
    ];
    for input in inputs {
        let mut bench = Bench::open(|_| ());
        bench.submit_within(1, ms(100));
        bench.submit(2);
        bench.written();
        bench.now += ms(100);
        input(&mut bench);
        let told = bench.told();
        assert!(
            told.contains(&"1 failed: no answer in time (maybe applied)".into()),
            "{told:?}"
        );
    }
}

#[test]
fn an_answer_that_arrives_with_its_deadline_counts() {
    let mut bench = Bench::open(|_| ());
    bench.submit_within(1, ms(100));
    bench.written();
    bench.now += ms(100);
    bench.peer(&void(1));
    assert_eq!(bench.told(), ["1 answered Result [0, 0, 0, 1]"]);
}

#[test]
fn time_that_goes_backwards_is_held() {
    let mut bench = Bench::open(|_| ());
    bench.jump(secs(10));
    bench.submit_within(1, ms(100));
    bench.written();
    bench.now = bench.now.checked_sub(secs(9)).unwrap();
    bench.conn.handle_timeout(bench.now);
    // Ten milliseconds ahead of the old time are still in the past of the connection.
    bench.query(2, "SELECT", Some(ms(10))).unwrap();
    assert_eq!(bench.told(), ["2 failed: no answer in time (not sent)"]);
    assert!(bench.conn.is_open());
}

#[test]
fn one_timer_serves_many_deadlines_and_rarely_moves() {
    let mut bench = Bench::open(|session| session.connection.keepalive_interval = None);
    let mut moves = std::collections::BTreeSet::new();
    for round in 0..10_000 {
        bench.submit_within(round, secs(30));
        moves.extend(bench.conn.poll_timeout());
        bench.written();
        bench.peer(&void(1));
        bench.now += ms(1);
    }
    bench.outputs();
    assert!(moves.len() <= 4, "{} moves", moves.len());
}

#[test]
fn requests_that_expire_at_different_times_do_so_in_that_order() {
    let mut bench = Bench::open(|_| ());
    for ticket in 0..100 {
        bench.submit_within(ticket, ms(1 + (ticket * 37) % 100));
    }
    bench.written();
    bench.pass(ms(200));
    let mut order: Vec<u64> = (0..100).collect();
    order.sort_by_key(|ticket| (ticket * 37) % 100);
    let expected: Vec<String> = order
        .iter()
        .map(|ticket| format!("{ticket} failed: no answer in time (maybe applied)"))
        .collect();
    assert_eq!(bench.told(), expected);
}

#[test]
fn a_connection_with_too_many_orphans_drains_and_closes() {
    let mut bench = Bench::open(|session| {
        session.limits.in_flight_max = 1_024;
        session.limits.orphans_max = 256;
    });
    bench.submit_all_within(0..256, ms(100));
    let last = bench.query(1_000, "SELECT", Some(secs(5))).unwrap();
    bench.written();
    bench.pass(ms(100));
    assert_eq!(bench.outputs().len(), 256);
    assert!(bench.conn.is_open(), "a slow server may still answer");
    bench.pass(secs(1));
    let told = bench.told();
    assert_eq!(told[1], "draining: 256 requests were never answered");
    assert!(!bench.conn.is_open());
    let _ = last;
    bench.pass(secs(5));
    assert_eq!(
        bench.told(),
        [
            "1000 failed: no answer in time (maybe applied)",
            "closed: 256 requests were never answered"
        ]
    );
}

#[test]
fn orphans_that_are_answered_late_do_not_count() {
    let mut bench = Bench::open(|session| {
        session.limits.in_flight_max = 1_024;
        session.limits.orphans_max = 256;
    });
    for _ in 0..20 {
        bench.submit_all_within(0..255, ms(100));
        let seen = bench.requests();
        bench.pass(secs(2));
        seen.iter().for_each(|seen| bench.peer(&void(seen.stream)));
        assert_eq!(bench.outputs().len(), 255);
    }
    assert!(bench.conn.is_open());
}

#[test]
fn a_burst_of_abandoned_requests_is_not_held_against_the_server() {
    let mut bench = Bench::open(|session| {
        session.limits.in_flight_max = 1_024;
        session.limits.orphans_max = 256;
    });
    let keys: Vec<StreamKey> = (0..500).map(|ticket| bench.submit(ticket)).collect();
    let seen = bench.requests();
    keys.iter()
        .for_each(|key| bench.conn.abandon(bench.now, *key));
    assert_eq!(bench.conn.in_flight(), 0);
    bench.pass(ms(900));
    seen.iter().for_each(|seen| bench.peer(&void(seen.stream)));
    bench.pass(secs(10));
    assert!(bench.conn.is_open());
    assert!(bench.outputs().is_empty());
}

#[test]
fn a_silent_server_is_asked_for_a_sign_of_life() {
    let mut bench = Bench::open(|_| ());
    bench.pass(ms(29_999));
    assert_eq!(bench.written(), [0_u8; 0]);
    bench.pass(ms(1));
    let seen = bench.requests();
    assert_eq!(
        seen,
        [Seen {
            stream: i16::MAX,
            opcode: 0x05,
            body: vec![]
        }]
    );
    bench.peer(&supported(i16::MAX, &[]));
    bench.pass(secs(29));
    assert_eq!(bench.written(), [0_u8; 0]);
    bench.pass(secs(1));
    assert_eq!(bench.requests().len(), 1);
    assert!(bench.outputs().is_empty());
}

#[test]
fn a_busy_connection_is_not_asked() {
    let mut bench = Bench::open(|_| ());
    for round in 0..100 {
        bench.submit(round);
        assert_eq!(bench.requests().len(), 1);
        bench.peer(&void(1));
        bench.pass(secs(5));
    }
}

#[test]
fn a_server_that_gives_no_sign_of_life_is_given_up() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.pass(ms(39_999));
    assert_eq!(bench.requests().len(), 1);
    assert!(bench.outputs().is_empty());
    bench.pass(ms(1));
    assert_eq!(
        bench.told(),
        [
            "1 failed: the connection ended (maybe applied)",
            "closed: the server gave no sign of life for 10000 ms"
        ]
    );
}

#[test]
fn any_byte_is_a_sign_of_life() {
    let mut bench = Bench::open(|_| ());
    bench.submit(1);
    bench.written();
    bench.pass(secs(30));
    assert_eq!(bench.requests().len(), 1);
    // A large answer on a slow link keeps the answer to the question waiting.
    let answer = frame(1, 0x08, &[0; 20]);
    for byte in &answer {
        bench.pass(secs(9));
        bench.peer(std::slice::from_ref(byte));
    }
    assert_eq!(bench.told().len(), 1);
    bench.peer(&supported(i16::MAX, &[]));
    assert!(bench.conn.is_open());
    bench.pass(secs(29));
    assert_eq!(bench.written(), [0_u8; 0]);
}

#[test]
fn a_stall_of_the_clock_asks_once() {
    let mut bench = Bench::open(|_| ());
    bench.jump(secs(300));
    assert_eq!(bench.requests().len(), 1);
    bench.peer(&supported(i16::MAX, &[]));
    assert_eq!(bench.pass(secs(29)), 0);
    assert_eq!(bench.written(), [0_u8; 0]);
    bench.pass(secs(1));
    assert_eq!(bench.requests().len(), 1);
}

#[test]
fn a_keepalive_interval_of_zero_or_none_means_off() {
    for interval in [None, Some(Duration::ZERO)] {
        let mut bench = Bench::open(|session| {
            session.connection.keepalive_interval = interval;
            session.connection.keepalive_timeout = Duration::ZERO;
        });
        assert_eq!(bench.pass(secs(10_000)), 0);
        assert_eq!(bench.written(), [0_u8; 0]);
        assert!(bench.conn.is_open());
    }
}

#[test]
fn a_probe_asks_at_once_and_once() {
    let mut bench = Bench::open(|session| session.connection.keepalive_interval = None);
    bench.conn.probe(bench.now);
    bench.conn.probe(bench.now);
    assert_eq!(bench.requests().len(), 1);
    bench.pass(secs(9));
    bench.peer(&supported(i16::MAX, &[]));
    bench.pass(secs(60));
    assert!(bench.outputs().is_empty() && bench.conn.is_open());
    bench.conn.probe(bench.now);
    bench.written();
    bench.pass(secs(10));
    assert!(matches!(
        closed(&bench.outputs()),
        ConnectionError::KeepaliveTimeout(_)
    ));
}

#[test]
fn an_idle_connection_gives_its_memory_back() {
    let mut bench = Bench::open(|_| ());
    for _ in 0..50 {
        bench.submit_all_within(0..512, secs(5));
        let answers: Vec<u8> = bench
            .requests()
            .iter()
            .flat_map(|seen| result(seen.stream, 1))
            .collect();
        bench.peer(&answers);
        bench.outputs();
    }
    let busy = bench.conn.recv_buffer().len();
    bench.pass(secs(30));
    bench.written();
    bench.peer(&supported(i16::MAX, &[]));
    let idle = bench.conn.recv_buffer().len();
    assert!(4_096 <= busy && idle <= 1_024, "{busy} then {idle}");
}

/// Opens a connection that closes after a minute without a request.
fn short_lived() -> Bench {
    let mut plan = plan(|session| session.connection.keepalive_interval = Some(secs(20)));
    plan.idle_max = Some(secs(60));
    let mut bench = Bench::new(plan);
    bench.peer(&supported(1, &[]));
    bench.peer(&ready(1));
    bench.outputs();
    bench.written();
    bench
}

/// Lets time pass; the server answers the driver's own questions, which count for nothing.
fn quiet(bench: &mut Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.pass(secs(1));
        if bench.conn.is_open() && !bench.written().is_empty() {
            bench.peer(&supported(KEEPALIVE_STREAM, &[]));
        }
    }
}

#[test]
fn an_idle_connection_takes_no_more_requests_and_closes() {
    let mut bench = short_lived();
    quiet(&mut bench, 59);
    assert!(bench.conn.is_open());
    quiet(&mut bench, 1);
    let outputs = bench.outputs();
    let idle =
        |error: &ConnectionError| matches!(error, ConnectionError::Closed(CloseReason::Idle));
    let draining =
        |own: &ConnectionOutput| matches!(own, ConnectionOutput::Draining(error) if idle(error));
    assert!(outputs.iter().any(draining), "{outputs:?}");
    assert!(matches!(outputs.last(), Some(ConnectionOutput::Closed(error)) if idle(error)));
}

#[test]
fn a_connection_that_is_used_now_and_then_stays_open() {
    let mut bench = short_lived();
    for ticket in 0..20 {
        quiet(&mut bench, 50);
        bench.submit(ticket);
        bench.written();
        bench.peer(&void(1));
    }
    assert!(bench.conn.is_open());
    quiet(&mut bench, 120);
    assert!(!bench.conn.is_open());
}

#[test]
fn a_connection_that_waits_for_an_answer_is_not_idle() {
    let mut bench = short_lived();
    quiet(&mut bench, 50);
    bench.submit(1);
    bench.written();
    quiet(&mut bench, 300);
    assert!(bench.conn.is_open());
}
