//! Statements that are prepared on several nodes.

use std::num::NonZeroU16;

use bytes::Bytes;

use super::*;
use crate::exec::fixtures::*;
use crate::routing::{PoolView, Sharder};
use crate::wire::server_error::{ServerError, ServerErrorDetail};

/// Three nodes of two shards each, every shard with a connection.
fn sharded() -> Routing<u32> {
    let sharder = Sharder {
        shards: NonZeroU16::new(2).expect("not zero"),
        ignore_msb: 12,
    };
    let pool = |n: u32| {
        let connections = vec![(Some(Shard(0)), 2 * n), (Some(Shard(1)), 2 * n + 1)];
        PoolView::new(Some(sharder), connections)
    };
    let mut routing = routing(3, &[]);
    routing.pools = (0..3).map(pool).collect();
    routing
}

fn body(id: &[u8]) -> Result<PreparedBody, RequestError> {
    Ok(prepared_body(id, &[("k", INT)]))
}

fn refused(message: &str) -> Result<PreparedBody, RequestError> {
    Err(RequestError::new(RequestErrorKind::Server(ServerError {
        code: 0,
        message: message.into(),
        detail: ServerErrorDetail::ServerError,
    })))
}

#[track_caller]
fn asked(step: PreparingStep) -> Vec<Option<Planned>> {
    match step {
        PreparingStep::Ask(places) => places,
        other => panic!("places are expected, not {other:?}"),
    }
}

#[track_caller]
fn ended(step: PreparingStep) -> Result<PreparedBody, RequestError> {
    match step {
        PreparingStep::Done(outcome) => outcome,
        other => panic!("an end is expected, not {other:?}"),
    }
}

#[test]
fn every_connected_node_is_asked_once_and_all_are_waited_for() {
    let routing = routing(4, &[2]);
    let (mut preparing, step) = Preparing::start(PrepareOn::EveryNode, &routing);
    assert_eq!(asked(step), [0, 1, 3].map(|host| Some(place(host))));
    for _ in 0..2 {
        let step = preparing.handle_outcome(body(b"1"), &routing);
        assert!(matches!(step, PreparingStep::WaitFor(_)), "{step:?}");
    }
    ended(preparing.handle_outcome(body(b"1"), &routing)).expect("prepared");
}

#[test]
fn one_good_answer_is_enough_and_slow_nodes_are_not_waited_for_without_end() {
    let routing = sharded();
    let (mut preparing, _) = Preparing::start(PrepareOn::EveryNode, &routing);
    let step = preparing.handle_outcome(refused("a"), &routing);
    assert!(matches!(step, PreparingStep::Wait), "{step:?}");
    let step = preparing.handle_outcome(body(b"1"), &routing);
    assert!(matches!(step, PreparingStep::WaitFor(limit) if limit < Duration::from_secs(1)));
    ended(preparing.late()).expect("prepared");

    let (mut preparing, _) = Preparing::start(PrepareOn::EveryNode, &routing);
    preparing.handle_outcome(refused("a"), &routing);
    preparing.handle_outcome(refused("b"), &routing);
    ended(preparing.handle_outcome(body(b"1"), &routing)).expect("one of three is enough");
}

#[test]
fn when_all_nodes_refuse_every_shard_is_asked_and_the_first_error_reported() {
    let routing = sharded();
    let (mut preparing, _) = Preparing::start(PrepareOn::EveryNode, &routing);
    preparing.handle_outcome(refused("the first"), &routing);
    preparing.handle_outcome(refused("another"), &routing);
    let places = asked(preparing.handle_outcome(refused("another"), &routing));
    let shard = |at: u16| {
        Some(Planned {
            host: HostIdx(at / 2),
            shard: Some(Shard(at % 2)),
        })
    };
    assert_eq!(places, (0..6).map(shard).collect::<Vec<_>>());
    for _ in 0..5 {
        let step = preparing.handle_outcome(refused("a shard"), &routing);
        assert!(matches!(step, PreparingStep::Wait), "{step:?}");
    }
    let error = ended(preparing.handle_outcome(refused("a shard"), &routing)).expect_err("refused");
    assert_eq!(
        error.server_error().map(|error| &*error.message),
        Some("the first")
    );
}

#[test]
fn one_bad_shard_of_each_node_is_made_good_by_the_second_round() {
    let routing = sharded();
    let (mut preparing, _) = Preparing::start(PrepareOn::EveryNode, &routing);
    for _ in 0..3 {
        preparing.handle_outcome(refused("one bad shard"), &routing);
    }
    for at in 0..6 {
        let outcome = if at % 2 == 0 {
            refused("again")
        } else {
            body(b"1")
        };
        let step = preparing.handle_outcome(outcome, &routing);
        if at == 5 {
            ended(step).expect("prepared");
        }
    }
}

#[test]
fn nodes_that_give_one_text_different_ids_are_an_error_that_names_both() {
    let routing = sharded();
    let (mut preparing, _) = Preparing::start(PrepareOn::EveryNode, &routing);
    preparing.handle_outcome(body(b"\x01"), &routing);
    let error = ended(preparing.handle_outcome(body(b"\x02"), &routing)).expect_err("no agreement");
    let RequestErrorKind::Unprepared(cause) = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!(
        cause.to_string(),
        "the nodes disagree about the statement: one calls it 01, another 02"
    );
}

#[test]
fn a_statement_for_one_node_is_asked_of_the_policys_choice_alone() {
    let routing = routing(3, &[]);
    let (mut preparing, step) = Preparing::start(PrepareOn::OneNode, &routing);
    assert_eq!(asked(step), [None]);
    ended(preparing.handle_outcome(body(b"1"), &routing)).expect("prepared");
}

#[test]
fn without_a_connected_node_one_request_is_made_for_the_error_it_gives() {
    let routing = routing(2, &[0, 1]);
    let (mut preparing, step) = Preparing::start(PrepareOn::EveryNode, &routing);
    assert_eq!(asked(step), [None]);
    let error = ended(preparing.handle_outcome(refused("nobody"), &routing)).expect_err("refused");
    assert!(error.server_error().is_some(), "{error:?}");
}

#[test]
fn a_text_is_prepared_anew_when_the_keyspace_has_changed_but_not_for_ever() {
    let (one, same, other) = (Arc::from("ks"), Arc::from("ks"), Arc::from("other"));
    assert!(!is_to_be_repeated(Some(&one), Some(&same), 1));
    assert!(!is_to_be_repeated(None, None, 1));
    assert!(is_to_be_repeated(None, Some(&one), 1));
    assert!(is_to_be_repeated(Some(&one), Some(&other), TIMES_MAX - 1));
    assert!(!is_to_be_repeated(Some(&one), Some(&other), TIMES_MAX));
}

#[test]
fn what_does_not_answer_a_prepare_is_refused_and_an_answer_that_is_no_result_is_not_even_read() {
    let features = ProtocolFeatures::default();
    let read = |frame: &ResponseFrame| read_prepared(frame, &features);
    let body = read(&prepared_frame(b"1", &[("k", INT)], None)).expect("prepared");
    assert_eq!(&*body.id, b"1");
    let mut broken = overloaded();
    broken.body = Bytes::new();
    for (frame, opcode) in [
        (broken, Opcode::Error),
        (rows(&["k"], &[&[1]], None), Opcode::Result),
    ] {
        let error = read(&frame).expect_err("another answer");
        let RequestErrorKind::UnexpectedAnswer { opcode: told } = error.kind() else {
            panic!("{error:?}")
        };
        assert_eq!(*told, opcode);
    }
    let error = read(&Body::default().int(4).result()).expect_err("cut short");
    assert!(
        matches!(error.kind(), RequestErrorKind::Protocol(_)),
        "{error:?}"
    );
}
