//! The decision tables of the built-in policies.

use super::*;
use crate::error::connect::ConnectionError;
use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::server_error::{OperationKind, ReplicaFailures};
use RetryDecision::{Next, Same, Stop};

/// What happened, the fate, and the decisions: idempotent, not idempotent, and the second time when idempotent.
type Row = (
    RequestErrorKind,
    Fate,
    RetryDecision,
    RetryDecision,
    RetryDecision,
);

#[test]
fn the_default_policy_follows_its_table() {
    let table: [Row; 24] = [
        (lost(), Fate::MaybeApplied, Next, Stop, Next),
        (lost(), Fate::NotSent, Next, Next, Next),
        (
            RequestErrorKind::Overloaded,
            Fate::NotSent,
            Next,
            Next,
            Next,
        ),
        (
            RequestErrorKind::Expired,
            Fate::MaybeApplied,
            Next,
            Stop,
            Next,
        ),
        (
            server(ServerErrorDetail::Overloaded),
            Fate::Answered,
            Next,
            Stop,
            Next,
        ),
        (
            server(ServerErrorDetail::ServerError),
            Fate::Answered,
            Next,
            Stop,
            Next,
        ),
        (
            server(ServerErrorDetail::TruncateError),
            Fate::Answered,
            Next,
            Stop,
            Next,
        ),
        (
            server(ServerErrorDetail::IsBootstrapping),
            Fate::Answered,
            Next,
            Next,
            Next,
        ),
        (server(unavailable()), Fate::Answered, Next, Next, Stop),
        (
            server(read_timeout(2, false)),
            Fate::Answered,
            Same,
            Same,
            Stop,
        ),
        (
            server(read_timeout(3, false)),
            Fate::Answered,
            Same,
            Same,
            Stop,
        ),
        (
            server(read_timeout(2, true)),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(read_timeout(1, false)),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(write_timeout(WriteType::BatchLog)),
            Fate::Answered,
            Same,
            Stop,
            Stop,
        ),
        (
            server(write_timeout(WriteType::Simple)),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(write_timeout(WriteType::Batch)),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(write_timeout(WriteType::Cas)),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(write_timeout(WriteType::Other("NEW".into()))),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (server(read_failure()), Fate::Answered, Stop, Stop, Stop),
        (
            server(ServerErrorDetail::CdcWriteFailure),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (server(rate_limit()), Fate::Answered, Stop, Stop, Stop),
        (
            server(ServerErrorDetail::Invalid),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (
            server(ServerErrorDetail::Unknown),
            Fate::Answered,
            Stop,
            Stop,
            Stop,
        ),
        (protocol(), Fate::MaybeApplied, Stop, Stop, Stop),
    ];
    for (error, fate, idempotent, not_idempotent, second) in table {
        let mut history = RetryHistory::new();
        let case = |idempotent, history: &RetryHistory| {
            DefaultRetry.decide(&failure(&error, fate, idempotent, false, history))
        };
        assert_eq!(case(true, &history), idempotent, "{error:?}, idempotent");
        assert_eq!(
            case(false, &history),
            not_idempotent,
            "{error:?}, not idempotent"
        );
        history.failed(FailureClass::of(&error));
        assert_eq!(case(true, &history), second, "{error:?}, the second time");
    }
}

#[test]
fn each_kind_of_failure_has_its_own_count() {
    let mut history = RetryHistory::new();
    history.failed(FailureClass::Unavailable);
    history.failed(FailureClass::ReadTimeout);
    let error = server(write_timeout(WriteType::BatchLog));
    assert_eq!(
        DefaultRetry.decide(&failure(&error, Fate::Answered, true, false, &history)),
        Same
    );
}

#[test]
fn a_conditional_statement_is_repeated_on_its_node_before_it_moves() {
    for (detail, then) in [
        (unavailable(), Stop),
        (ServerErrorDetail::IsBootstrapping, Next),
    ] {
        let error = server(detail);
        let mut history = RetryHistory::new();
        for expected in [Same, Next, then] {
            let failure = failure(&error, Fate::Answered, false, true, &history);
            assert_eq!(DefaultRetry.decide(&failure), expected, "{error:?}");
            history.failed(FailureClass::of(&error));
        }
    }
    let error = server(write_timeout(WriteType::Cas));
    let history = RetryHistory::new();
    assert_eq!(
        DefaultRetry.decide(&failure(&error, Fate::Answered, true, true, &history)),
        Stop
    );
}

#[test]
fn the_fall_through_policy_hands_on_whatever_was_sent() {
    let history = RetryHistory::new();
    for (error, unsent) in [
        (lost(), Next),
        (RequestErrorKind::Overloaded, Next),
        (server(unavailable()), Stop),
        (server(ServerErrorDetail::Invalid), Stop),
    ] {
        let decide = |fate| FallthroughRetry.decide(&failure(&error, fate, true, false, &history));
        assert_eq!(
            (decide(Fate::Answered), decide(Fate::NotSent)),
            (Stop, unsent),
            "{error:?}"
        );
    }
}

#[test]
fn a_history_counts_up_to_its_end_and_stays_there() {
    let mut history = RetryHistory::new();
    for _ in 0..1000 {
        history.failed(FailureClass::Protocol);
    }
    assert_eq!(history.count(FailureClass::Protocol), u8::MAX);
    assert_eq!(history.count(FailureClass::Connection), 0);
}

fn failure<'a>(
    error: &'a RequestErrorKind,
    fate: Fate,
    idempotent: bool,
    conditional: bool,
    history: &'a RetryHistory,
) -> Failure<'a> {
    Failure {
        error,
        fate,
        idempotent,
        conditional,
        consistency: Consistency::Quorum,
        history,
        seed: 1,
    }
}

fn server(detail: ServerErrorDetail) -> RequestErrorKind {
    RequestErrorKind::Server(ServerError {
        code: 0,
        message: String::new(),
        detail,
    })
}

fn lost() -> RequestErrorKind {
    RequestErrorKind::Connection(ConnectionError::Eof)
}

fn protocol() -> RequestErrorKind {
    RequestErrorKind::Protocol(ProtocolError::new(ProtocolErrorKind::NotUtf8, 0))
}

fn unavailable() -> ServerErrorDetail {
    ServerErrorDetail::Unavailable {
        consistency: Consistency::Quorum,
        required: 2,
        alive: 1,
    }
}

fn read_timeout(received: i32, data_present: bool) -> ServerErrorDetail {
    ServerErrorDetail::ReadTimeout {
        consistency: Consistency::Quorum,
        received,
        block_for: 2,
        data_present,
    }
}

fn write_timeout(write_type: WriteType) -> ServerErrorDetail {
    let (consistency, received, block_for) = (Consistency::Quorum, 1, 2);
    ServerErrorDetail::WriteTimeout {
        consistency,
        received,
        block_for,
        write_type,
        contentions: None,
    }
}

fn read_failure() -> ServerErrorDetail {
    let (consistency, received, block_for) = (Consistency::Quorum, 1, 2);
    let failures = ReplicaFailures::default();
    ServerErrorDetail::ReadFailure {
        consistency,
        received,
        block_for,
        failures,
        data_present: false,
    }
}

fn rate_limit() -> ServerErrorDetail {
    ServerErrorDetail::RateLimit {
        operation: OperationKind::Write,
        rejected_by_coordinator: false,
    }
}
