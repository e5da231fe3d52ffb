//! What the errors of requests say, and to whom they belong.

use super::*;
use crate::error::protocol::ProtocolErrorKind;
use crate::error::value::{EncodeError, EncodeErrorKind};
use crate::wire::server_error::ServerErrorDetail;

#[test]
fn an_error_is_one_pointer() {
    assert_eq!(size_of::<RequestError>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), RequestError>>(), size_of::<usize>());
}

#[test]
fn each_kind_says_one_lower_case_sentence_and_keeps_its_cause_apart() {
    for (kind, category, retryable) in kinds() {
        let error = RequestError::new(kind);
        let text = error.to_string();
        assert!(
            text.starts_with(|first: char| first.is_lowercase()),
            "{text}"
        );
        assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        if let Some(cause) = error.source() {
            assert!(!text.contains(&cause.to_string()), "{text} repeats {cause}");
        }
        assert_eq!(
            (error.category(), error.is_retryable()),
            (category, retryable),
            "{text}"
        );
    }
}

#[test]
fn kinds_with_a_cause_hand_it_out() {
    let with_cause = kinds()
        .into_iter()
        .filter(|(kind, ..)| RequestError::new(kind.clone()).source().is_some());
    assert_eq!(with_cause.count(), 8);
}

#[test]
fn the_servers_error_is_at_hand() {
    let error = RequestError::new(server(0x2200, ServerErrorDetail::Invalid));
    assert_eq!(error.server_error().map(|error| error.code), Some(0x2200));
    assert_eq!(
        RequestError::new(RequestErrorKind::Expired).server_error(),
        None
    );
}

#[test]
fn the_fate_of_a_request_is_that_of_its_most_dangerous_attempt() {
    for (fates, expected) in [
        (&[][..], Fate::NotSent),
        (&[Fate::NotSent, Fate::NotSent], Fate::NotSent),
        (&[Fate::NotSent, Fate::Answered], Fate::Answered),
        (&[Fate::MaybeApplied, Fate::Answered], Fate::MaybeApplied),
        (
            &[Fate::Answered, Fate::MaybeApplied, Fate::NotSent],
            Fate::MaybeApplied,
        ),
    ] {
        let attempts = fates.iter().map(|fate| attempt(*fate)).collect();
        assert_eq!(
            RequestError::after(RequestErrorKind::Expired, attempts).fate(),
            expected,
            "{fates:?}"
        );
    }
}

#[test]
fn several_attempts_are_counted_in_the_text() {
    let attempts = vec![attempt(Fate::NotSent), attempt(Fate::MaybeApplied)];
    let error = RequestError::after(RequestErrorKind::Connection(ConnectionError::Eof), attempts);
    assert_eq!(
        error.to_string(),
        "the connection ended before the request was answered (node 10.0.0.1:9042, after 2 attempts)"
    );
}

fn kinds() -> Vec<(RequestErrorKind, ErrorCategory, bool)> {
    let protocol = ProtocolError::new(ProtocolErrorKind::NotUtf8, 3);
    let values = BindError::from(EncodeError::new(EncodeErrorKind::OutOfRange));
    let id = Bytes::from_static(b"\x0a\xff");
    vec![
        (
            server(0x1001, ServerErrorDetail::Overloaded),
            ErrorCategory::Server,
            true,
        ),
        (
            server(0x2000, ServerErrorDetail::SyntaxError),
            ErrorCategory::Server,
            false,
        ),
        (RequestErrorKind::Expired, ErrorCategory::Environment, true),
        (
            RequestErrorKind::Connection(ConnectionError::Eof),
            ErrorCategory::Environment,
            true,
        ),
        (
            RequestErrorKind::Overloaded,
            ErrorCategory::Environment,
            true,
        ),
        (
            RequestErrorKind::NoConnection,
            ErrorCategory::Environment,
            true,
        ),
        (RequestErrorKind::NoTarget, ErrorCategory::Environment, true),
        (
            RequestErrorKind::Protocol(protocol),
            ErrorCategory::Protocol,
            false,
        ),
        (
            RequestErrorKind::UnexpectedAnswer {
                opcode: Opcode::Ready,
            },
            ErrorCategory::Protocol,
            false,
        ),
        (
            RequestErrorKind::Unprepared(UnpreparedError::Again { id }),
            ErrorCategory::Server,
            false,
        ),
        (RequestErrorKind::Bind(values), ErrorCategory::Caller, false),
        (
            RequestErrorKind::Encode(FrameEncodeError::NamesMismatch),
            ErrorCategory::Caller,
            false,
        ),
        (
            RequestErrorKind::Result(ResultError::NoRow),
            ErrorCategory::Caller,
            false,
        ),
        (RequestErrorKind::Closed, ErrorCategory::Caller, false),
        (
            RequestErrorKind::Internal("two answers"),
            ErrorCategory::Internal,
            false,
        ),
    ]
}

fn server(code: i32, detail: ServerErrorDetail) -> RequestErrorKind {
    RequestErrorKind::Server(ServerError {
        code,
        message: "no".into(),
        detail,
    })
}

fn attempt(fate: Fate) -> Attempt {
    Attempt {
        host_id: Uuid::nil(),
        address: SocketAddr::from(([10, 0, 0, 1], 9042)),
        shard: None,
        queued: Duration::ZERO,
        on_wire: Duration::ZERO,
        fate,
        error: RequestErrorKind::Expired,
    }
}
