//! Statements that a node has forgotten.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crate::conn::CloseReason;
use crate::error::connect::{AttemptErrorKind, ConnectionError, Fate};
use crate::error::request::{RequestError, RequestErrorKind, UnpreparedError};
use crate::error::value::BindError;
use crate::exec::StatementKind;
use crate::exec::fixtures::*;
use crate::exec::statement::Choice;
use crate::wire::header::{FrameHeader, ProtocolVersion};
use crate::wire::response::ResponseFrame;

/// Starts the request that `setup` describes for the prepared statement `id`.
fn started(id: &[u8], setup: Setup) -> Drive {
    let kind = StatementKind::Prepared(preparation(id));
    let mut drive = Drive::new(Setup { kind, ..setup });
    assert_eq!(sent_to(&drive.start()), 0);
    drive
}

/// The same up to the first node's answer that it does not know the statement.
fn forgotten(id: &[u8], setup: Setup) -> Drive {
    let mut drive = started(id, setup);
    let seen = drive.answer(unprepared(id));
    assert!(matches!(seen[..], [Seen::Prepare { to: 0, .. }]));
    drive
}

fn written() -> Setup {
    Setup {
        idempotent: false,
        ..Setup::default()
    }
}

#[track_caller]
fn cause(error: &RequestError) -> &UnpreparedError {
    match error.kind() {
        RequestErrorKind::Unprepared(cause) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_forgotten_statement_is_prepared_again_on_the_same_node() {
    let kind = StatementKind::Prepared(preparation(b"id"));
    let mut drive = Drive::new(Setup {
        kind,
        idempotent: false,
        prefer: Some(place(1)),
        ..Setup::default()
    });
    assert_eq!(sent_to(&drive.start()), 1);
    let attempt = drive.last_attempt;
    let seen = drive.answer(unprepared(b"id"));
    assert!(matches!(&seen[..], [Seen::Prepare { to: 1, text }] if text == "SELECT"));
    assert_eq!(sent_to(&drive.answer(prepared_frame(b"id", &[], None))), 1);
    assert_eq!(drive.last_attempt, attempt, "it is all one attempt");
    done(drive.answer(void()));
    assert_eq!(
        (drive.execution.retries(), drive.execution.attempts().len()),
        (0, 0)
    );
}

#[test]
fn a_statement_that_stays_unknown_ends_the_request() {
    let mut drive = forgotten(b"id", Setup::default());
    drive.answer(prepared_frame(b"id", &[], None));
    let error = failed(drive.answer(unprepared(b"id")));
    assert_eq!(*cause(&error), UnpreparedError::Again { id: bytes(b"id") });
}

#[test]
fn a_foreign_id_is_an_error_without_a_prepare() {
    for kind in [
        StatementKind::Prepared(preparation(b"\x01")),
        StatementKind::Text,
    ] {
        let mut drive = Drive::new(Setup {
            kind,
            ..Setup::default()
        });
        drive.start();
        let error = failed(drive.answer(unprepared(b"\x02")));
        assert_eq!(
            cause(&error).to_string(),
            "the server misses statement 02, which is not part of the request"
        );
    }
}

#[test]
fn a_changed_id_is_an_error_that_names_both() {
    let mut drive = forgotten(b"\xaa\xbb", Setup::default());
    let error = failed(drive.answer(prepared_frame(b"\xcc\xdd", &[], None)));
    assert_eq!(
        cause(&error).to_string(),
        "the statement had id aabb and has id ccdd after it was prepared again, as it is when the keyspace in use \
         changed meanwhile; prepare it anew"
    );
}

#[test]
fn a_statement_whose_markers_have_other_types_now_is_neither_executed_nor_ever_bound_again() {
    let statement = prepared(b"id", &[], None);
    let kind = StatementKind::Prepared(Arc::clone(statement.preparation()));
    let mut drive = Drive::new(Setup {
        kind,
        ..Setup::default()
    });
    statement.bind((1, "a")).expect("the values fit");
    drive.start();
    drive.answer(unprepared(b"id"));
    // The table was dropped and made again with the types the other way round; the id depends on the text alone.
    let markers = [("k", TEXT), ("v", INT)];
    let answer = Body::default().int(4).short_bytes(b"id");
    let answer = answer.int(1).int(2).int(1).short(0).columns(&markers);
    let error = failed(drive.answer(answer.int(4).int(0).columns(&[]).result()));
    assert_eq!(
        *cause(&error),
        UnpreparedError::MarkersChanged { id: bytes(b"id") }
    );
    for values in [statement.bind((1, "a")), statement.clone().bind(("a", 1))] {
        assert!(matches!(values, Err(BindError::Outdated)), "{values:?}");
    }
}

#[test]
fn a_statement_of_another_keyspace_is_refused_before_it_is_prepared_there() {
    for in_use in [Some("ks2"), None] {
        let mut setup = Setup::default();
        setup.routing.keyspace = in_use.map(Arc::from);
        let mut drive = started(b"id", setup);
        let error = failed(drive.answer(unprepared(b"id")));
        let UnpreparedError::KeyspacesDiffer {
            prepared_in,
            in_use: named,
        } = cause(&error)
        else {
            panic!("{error:?}")
        };
        assert_eq!((&**prepared_in, named.as_deref()), ("ks", in_use));
        let text = error.source().expect("the cause").to_string();
        assert!(text.contains("keyspaces differ"), "{text}");
    }
}

#[test]
fn a_batch_with_a_statement_of_another_keyspace_is_refused_as_well() {
    let mut setup = Setup {
        kind: StatementKind::Batch([preparation(b"1")].into()),
        ..Setup::default()
    };
    setup.routing.keyspace = Some("ks2".into());
    let mut drive = Drive::new(setup);
    drive.start();
    let error = failed(drive.answer(unprepared(b"1")));
    let differ = |cause: &UnpreparedError| matches!(cause, UnpreparedError::KeyspacesDiffer { .. });
    assert!(differ(cause(&error)), "{error:?}");
}

#[test]
fn in_version_5_the_keyspace_travels_with_the_statement_wherever_the_session_is() {
    let mut setup = Setup::default();
    setup.features.version = ProtocolVersion::V5;
    setup.routing.keyspace = Some("ks2".into());
    let mut drive = started(b"id", setup);
    let v5 = |frame: ResponseFrame| {
        let header = FrameHeader {
            version: 5,
            ..frame.header
        };
        ResponseFrame { header, ..frame }
    };
    assert!(matches!(
        drive.answer(v5(unprepared(b"id")))[..],
        [Seen::Prepare { to: 0, .. }]
    ));
    assert_eq!(drive.last_keyspace.as_deref(), Some("ks"));
    let body = Body::default().int(4).short_bytes(b"id").short_bytes(b"h1");
    let body = body.int(1).int(2).int(1).short(0);
    let body = body.columns(&[("k", INT), ("v", TEXT)]).int(4).int(0);
    assert_eq!(sent_to(&drive.answer(v5(body.result()))), 0);
}

#[test]
fn a_statement_that_became_invalid_ends_with_the_servers_words() {
    let mut drive = forgotten(b"id", Setup::default());
    let error = failed(drive.answer(error(0x2200)));
    assert_eq!(error.server_error().map(|error| error.code), Some(0x2200));
    assert!(!error.is_retryable());
}

#[test]
fn a_refused_prepare_leaves_the_next_target_because_nothing_was_executed() {
    let mut drive = forgotten(b"id", written());
    assert_eq!(sent_to(&drive.answer(overloaded())), 1);
    done(drive.answer(void()));
    assert_eq!(drive.execution.attempts()[0].fate, Fate::Answered);
}

#[test]
fn a_connection_that_breaks_while_preparing_again_leaves_the_next_target() {
    let mut drive = forgotten(b"id", written());
    assert_eq!(sent_to(&drive.lose(broken(), Fate::MaybeApplied)), 1);
    // The next node may have forgotten it as well.
    assert!(matches!(
        drive.answer(unprepared(b"id"))[..],
        [Seen::Prepare { to: 1, .. }]
    ));
}

#[test]
fn a_connection_that_ends_before_the_prepare_arrives_leaves_the_same_node_to_be_told() {
    let mut drive = forgotten(b"id", written());
    let aged = AttemptErrorKind::Connection(ConnectionError::Closed(CloseReason::Aged));
    assert_eq!(sent_to(&drive.lose(aged, Fate::NotSent)), 0);
    // The node still does not know the statement: its PREPARE never came.
    assert!(matches!(
        drive.answer(unprepared(b"id"))[..],
        [Seen::Prepare { to: 0, .. }]
    ));
    assert_eq!(sent_to(&drive.answer(prepared_frame(b"id", &[], None))), 0);
    done(drive.answer(void()));
}

#[test]
fn the_deadline_spans_preparing_again() {
    let mut setup = Setup::default();
    setup.options.timeout = Choice::Set(Duration::from_millis(100));
    let mut drive = forgotten(b"id", setup);
    drive.now = drive.start + Duration::from_millis(100);
    let error = failed(drive.lose(AttemptErrorKind::Expired, Fate::MaybeApplied));
    assert!(matches!(error.kind(), RequestErrorKind::Expired));
    assert_eq!(
        error.fate(),
        Fate::NotSent,
        "the statement itself was refused"
    );
}

#[test]
fn each_forgotten_child_of_a_batch_is_prepared_again_once() {
    let kind = || StatementKind::Batch([preparation(b"1"), preparation(b"2")].into());
    let mut drive = Drive::new(Setup {
        kind: kind(),
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    for id in [b"2", b"1"] {
        assert!(matches!(
            drive.answer(unprepared(id))[..],
            [Seen::Prepare { to: 0, .. }]
        ));
        assert_eq!(sent_to(&drive.answer(prepared_frame(id, &[], None))), 0);
    }
    done(drive.answer(void()));

    let mut drive = Drive::new(Setup {
        kind: kind(),
        ..Setup::default()
    });
    drive.start();
    failed(drive.answer(unprepared(b"3")));
}

#[test]
fn a_text_with_values_is_prepared_and_executed_on_one_connection() {
    let kind = StatementKind::TextWithValues("INSERT".into());
    let mut drive = Drive::new(Setup {
        kind,
        ..Setup::default()
    });
    assert!(matches!(&drive.start()[..], [Seen::Prepare { to: 0, text }] if text == "INSERT"));
    assert!(matches!(
        drive.answer(overloaded())[..],
        [Seen::Prepare { to: 1, .. }]
    ));
    assert_eq!(sent_to(&drive.answer(prepared_frame(b"id", &[], None))), 1);
    done(drive.answer(void()));
}
