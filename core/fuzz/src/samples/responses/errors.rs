//! Owns the sample errors: one of each code.

use bytes::Bytes;
use messina_core::wire::server_error::code;
use messina_core::wire::{
    Consistency, FailureReason, OperationKind, ReplicaFailures, ServerError,
    ServerErrorDetail as Detail, WriteType,
};

use crate::input::{RATE_LIMIT, V5};

/// One error of each code, by a name that a file can have.
pub(super) fn errors(bits: u8) -> Vec<(String, ServerError)> {
    let mut errors = plain();
    errors.extend(of_replicas(bits));
    errors.extend(of_names());
    if bits & RATE_LIMIT != 0 {
        let detail = Detail::RateLimit {
            operation: OperationKind::Write,
            rejected_by_coordinator: true,
        };
        errors.push((0xf000, detail));
    }
    errors
        .into_iter()
        .map(|(code, detail)| {
            let name = format!("error-{}", detail.name().replace(' ', "-"));
            let message = "no".into();
            (
                name,
                ServerError {
                    code,
                    message,
                    detail,
                },
            )
        })
        .collect()
}

/// Errors that are a code and a message.
fn plain() -> Vec<(i32, Detail)> {
    vec![
        (code::SERVER_ERROR, Detail::ServerError),
        (code::PROTOCOL_ERROR, Detail::ProtocolError),
        (code::AUTHENTICATION_FAILED, Detail::AuthenticationFailed),
        (code::OVERLOADED, Detail::Overloaded),
        (code::IS_BOOTSTRAPPING, Detail::IsBootstrapping),
        (code::TRUNCATE_ERROR, Detail::TruncateError),
        (code::CDC_WRITE_FAILURE, Detail::CdcWriteFailure),
        (code::SYNTAX_ERROR, Detail::SyntaxError),
        (code::UNAUTHORIZED, Detail::Unauthorized),
        (code::INVALID, Detail::Invalid),
        (code::CONFIG_ERROR, Detail::ConfigError),
        (0x7abc, Detail::Unknown),
    ]
}

/// Errors that tell how many replicas did what.
fn of_replicas(bits: u8) -> Vec<(i32, Detail)> {
    let consistency = Consistency::LocalQuorum;
    let (received, block_for) = (1, 2);
    let reasons = if bits & V5 == 0 {
        Vec::new()
    } else {
        vec![([192, 0, 2, 3].into(), FailureReason(3))]
    };
    let failures = ReplicaFailures { count: 1, reasons };
    let unavailable = Detail::Unavailable {
        consistency,
        required: 2,
        alive: 1,
    };
    let write_timeout = Detail::WriteTimeout {
        consistency,
        received,
        block_for,
        write_type: WriteType::Cas,
        contentions: (bits & V5 != 0).then_some(5),
    };
    let read_timeout = Detail::ReadTimeout {
        consistency,
        received,
        block_for,
        data_present: true,
    };
    let read_failure = Detail::ReadFailure {
        consistency,
        received,
        block_for,
        failures: failures.clone(),
        data_present: false,
    };
    let write_failure = Detail::WriteFailure {
        consistency,
        received,
        block_for,
        failures,
        write_type: WriteType::Simple,
    };
    let cas_write_unknown = Detail::CasWriteUnknown {
        consistency,
        received,
        block_for,
    };
    vec![
        (code::UNAVAILABLE, unavailable),
        (code::WRITE_TIMEOUT, write_timeout),
        (code::READ_TIMEOUT, read_timeout),
        (code::READ_FAILURE, read_failure),
        (code::WRITE_FAILURE, write_failure),
        (code::CAS_WRITE_UNKNOWN, cas_write_unknown),
    ]
}

/// Errors that name what they are about.
fn of_names() -> Vec<(i32, Detail)> {
    let function_failure = Detail::FunctionFailure {
        keyspace: "ks".into(),
        function: "f".into(),
        arg_types: vec!["int".into()],
    };
    let already_exists = Detail::AlreadyExists {
        keyspace: "ks".into(),
        table: "t".into(),
    };
    let id = Bytes::from_static(b"0123456789abcdef");
    vec![
        (code::FUNCTION_FAILURE, function_failure),
        (code::ALREADY_EXISTS, already_exists),
        (code::UNPREPARED, Detail::Unprepared { id }),
    ]
}
