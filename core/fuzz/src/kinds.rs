//! Owns the names of what an input was read as, to count which decoders mutated inputs still reach.

use messina_core::wire::{
    Request, Response, ResultBody, SchemaTarget, ServerError, ServerEvent, StatementSource,
};

/// Says as what an input was read: the message, and the kind of its body.
pub type Kind = (&'static str, &'static str);

/// Every kind of response that there is.
pub const RESPONSE_KINDS: &[Kind] = &[
    ("READY", ""),
    ("AUTHENTICATE", ""),
    ("SUPPORTED", ""),
    ("AUTH_CHALLENGE", ""),
    ("AUTH_SUCCESS", ""),
    ("RESULT", "void"),
    ("RESULT", "rows"),
    ("RESULT", "rows without metadata"),
    ("RESULT", "set keyspace"),
    ("RESULT", "prepared"),
    ("RESULT", "schema change of a keyspace"),
    ("RESULT", "schema change of a table"),
    ("RESULT", "schema change of a type"),
    ("RESULT", "schema change of a function"),
    ("RESULT", "schema change of an aggregate"),
    ("EVENT", "topology"),
    ("EVENT", "status"),
    ("EVENT", "schema change of a keyspace"),
    ("EVENT", "schema change of a table"),
    ("EVENT", "schema change of a type"),
    ("EVENT", "schema change of a function"),
    ("EVENT", "schema change of an aggregate"),
    ("EVENT", "client routes"),
    ("EVENT", "unknown"),
    ("ERROR", "server error"),
    ("ERROR", "protocol error"),
    ("ERROR", "authentication failed"),
    ("ERROR", "unavailable"),
    ("ERROR", "overloaded"),
    ("ERROR", "is bootstrapping"),
    ("ERROR", "truncate error"),
    ("ERROR", "write timeout"),
    ("ERROR", "read timeout"),
    ("ERROR", "read failure"),
    ("ERROR", "function failure"),
    ("ERROR", "write failure"),
    ("ERROR", "cdc write failure"),
    ("ERROR", "cas write unknown"),
    ("ERROR", "syntax error"),
    ("ERROR", "unauthorized"),
    ("ERROR", "invalid"),
    ("ERROR", "config error"),
    ("ERROR", "already exists"),
    ("ERROR", "unprepared"),
    ("ERROR", "rate limit"),
    ("ERROR", "unknown code"),
];

/// Every kind of request that there is.
pub const REQUEST_KINDS: &[Kind] = &[
    ("OPTIONS", ""),
    ("STARTUP", ""),
    ("AUTH_RESPONSE", ""),
    ("REGISTER", ""),
    ("QUERY", "values"),
    ("QUERY", "named values"),
    ("PREPARE", ""),
    ("EXECUTE", ""),
    ("BATCH", "texts"),
    ("BATCH", "with prepared statements"),
];

pub(crate) fn of_response(response: &Response) -> Kind {
    match response {
        Response::Error(ServerError { detail, .. }) => ("ERROR", detail.name()),
        Response::Ready => ("READY", ""),
        Response::Authenticate(_) => ("AUTHENTICATE", ""),
        Response::Supported(_) => ("SUPPORTED", ""),
        Response::Result(result) => ("RESULT", of_result(result)),
        Response::Event(event) => ("EVENT", of_event(event)),
        Response::AuthChallenge(_) => ("AUTH_CHALLENGE", ""),
        Response::AuthSuccess(_) => ("AUTH_SUCCESS", ""),
        _ => ("?", ""),
    }
}

fn of_result(result: &ResultBody) -> &'static str {
    match result {
        ResultBody::Void => "void",
        ResultBody::Rows(rows) if rows.metadata.columns.is_none() => "rows without metadata",
        ResultBody::Rows(_) => "rows",
        ResultBody::SetKeyspace(_) => "set keyspace",
        ResultBody::Prepared(_) => "prepared",
        ResultBody::SchemaChange(change) => of_target(&change.target),
        _ => "?",
    }
}

fn of_event(event: &ServerEvent) -> &'static str {
    match event {
        ServerEvent::Topology { .. } => "topology",
        ServerEvent::Status { .. } => "status",
        ServerEvent::Schema(change) => of_target(&change.target),
        ServerEvent::ClientRoutes { .. } => "client routes",
        ServerEvent::Unknown { .. } => "unknown",
        _ => "?",
    }
}

fn of_target(target: &SchemaTarget) -> &'static str {
    match target {
        SchemaTarget::Keyspace => "schema change of a keyspace",
        SchemaTarget::Table { .. } => "schema change of a table",
        SchemaTarget::Type { .. } => "schema change of a type",
        SchemaTarget::Function { .. } => "schema change of a function",
        SchemaTarget::Aggregate { .. } => "schema change of an aggregate",
        _ => "?",
    }
}

pub(crate) fn of_request(request: &Request) -> Kind {
    match request {
        Request::Options => ("OPTIONS", ""),
        Request::Startup(_) => ("STARTUP", ""),
        Request::AuthResponse(_) => ("AUTH_RESPONSE", ""),
        Request::Register(_) => ("REGISTER", ""),
        Request::Query { params, .. } if params.values.names.is_some() => ("QUERY", "named values"),
        Request::Query { .. } => ("QUERY", "values"),
        Request::Prepare { .. } => ("PREPARE", ""),
        Request::Execute { .. } => ("EXECUTE", ""),
        Request::Batch(batch) => {
            let prepared = batch
                .statements
                .iter()
                .any(|one| matches!(one.statement, StatementSource::Prepared(_)));
            if prepared {
                ("BATCH", "with prepared statements")
            } else {
                ("BATCH", "texts")
            }
        }
        _ => ("?", ""),
    }
}
