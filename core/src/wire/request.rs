//! Requests: borrowed forms for sending, owned twins for the control plane and for peers. Which values to bind is
//! decided in [`crate::exec`]; reading requests is the business of peers (`wire::peer`).

pub(crate) mod encode;
mod execute;
#[cfg(test)]
mod tests;
mod values;

use bytes::Bytes;

pub use execute::{ExecuteLayout, ExecuteTemplate};

use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::event::EventKind;
use crate::wire::header::Opcode;

/// A request to send; borrows everything.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RequestRef<'a> {
    /// Asks what the server offers.
    Options,
    /// Opens the conversation.
    Startup(&'a [(String, String)]),
    /// The client's step of a login.
    AuthResponse(Option<&'a [u8]>),
    /// Asks for events.
    Register(&'a [EventKind]),
    /// Runs a text.
    Query {
        /// The statement.
        text: &'a str,
        /// Its parameters.
        params: ParamsRef<'a>,
    },
    /// Prepares a text.
    Prepare {
        /// The statement.
        text: &'a str,
        /// The keyspace to prepare it in, if not the connection's (version 5).
        keyspace: Option<&'a str>,
    },
    /// Runs a prepared statement.
    Execute {
        /// The id of the statement.
        id: &'a [u8],
        /// The id of the result metadata that the client knows; sent where ids were agreed on, empty when none is
        /// known.
        result_metadata_id: Option<&'a [u8]>,
        /// What is known of the tablet's version; sent where tablets with versions were agreed on.
        tablet_block: u8,
        /// The parameters.
        params: ParamsRef<'a>,
    },
    /// Runs several statements as one.
    Batch(BatchRef<'a>),
    /// Any request that was encoded before.
    Encoded(EncodedRef<'a>),
}

/// A frame that was encoded before, for the same features; only its stream id is still open.
#[derive(Clone, Copy, Debug)]
pub struct EncodedRef<'a> {
    /// The kind of request.
    pub opcode: Opcode,
    /// The frame with its header, payloads that lie elsewhere aside.
    pub frame: &'a [u8],
    /// Payloads that belong into the frame, in ascending order of their places.
    pub large: &'a [LargeValue],
}

/// The parameters of QUERY and EXECUTE.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParamsRef<'a> {
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// How far the agreement of a conditional write reaches.
    pub serial_consistency: Option<SerialConsistency>,
    /// The bound values.
    pub values: ValuesRef<'a>,
    /// Whether the server may leave out the column specs of the result.
    pub skip_metadata: bool,
    /// How many rows a page should have; only a positive number is sent.
    pub page_size: Option<i32>,
    /// Where the page starts.
    pub paging_state: Option<&'a [u8]>,
    /// The time of the write, in microseconds.
    pub timestamp: Option<i64>,
    /// The keyspace, if not the connection's (version 5).
    pub keyspace: Option<&'a str>,
    /// What the server takes as the current time, in seconds (version 5).
    pub now_in_seconds: Option<i32>,
}

/// Bound values, encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValuesRef<'a> {
    /// How many values there are.
    pub count: u16,
    /// The values one after the other, each with its `[int]` length.
    pub bytes: &'a [u8],
    /// Payloads that are not in `bytes` but belong there, in ascending order of their places.
    pub large: &'a [LargeValue],
    /// The names of the values, when they are bound by name.
    pub names: Option<&'a [&'a str]>,
}

/// The payload of a value that is too large to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeValue {
    /// Where in the values' bytes the payload belongs: just behind its `[int]` length, which is there.
    pub at: usize,
    /// The payload.
    pub bytes: Bytes,
}

/// A batch to send.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    /// How the batch is applied.
    pub kind: BatchKind,
    /// The statements, in order.
    pub statements: &'a [BatchStatementRef<'a>],
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// How far the agreement of a conditional batch reaches.
    pub serial_consistency: Option<SerialConsistency>,
    /// The time of the write, in microseconds.
    pub timestamp: Option<i64>,
    /// The keyspace, if not the connection's (version 5).
    pub keyspace: Option<&'a str>,
    /// What the server takes as the current time, in seconds (version 5).
    pub now_in_seconds: Option<i32>,
}

/// A statement of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchStatementRef<'a> {
    /// What to run.
    pub statement: StatementRef<'a>,
    /// The bound values; never by name.
    pub values: ValuesRef<'a>,
}

/// What a statement of a batch runs.
#[derive(Clone, Copy, Debug)]
pub enum StatementRef<'a> {
    /// A text.
    Text(&'a str),
    /// A prepared statement, by its id.
    Prepared(&'a [u8]),
}

/// How a batch is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// All or nothing, in the end.
    #[default]
    Logged,
    /// One partition after the other.
    Unlogged,
    /// Counter updates only.
    Counter,
}

/// What comes with a request, whatever it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestOptionsRef<'a> {
    /// Whether the server should trace it.
    pub tracing: bool,
    /// Further data by name.
    pub custom_payload: Option<&'a [(String, Option<Bytes>)]>,
}

/// A request that owns what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Asks what the server offers.
    Options,
    /// Opens the conversation.
    Startup(Vec<(String, String)>),
    /// The client's step of a login.
    AuthResponse(Option<Bytes>),
    /// Asks for events.
    Register(Vec<EventKind>),
    /// Runs a text.
    Query {
        /// The statement.
        text: String,
        /// Its parameters.
        params: Params,
    },
    /// Prepares a text.
    Prepare {
        /// The statement.
        text: String,
        /// The keyspace to prepare it in, if not the connection's (version 5).
        keyspace: Option<String>,
    },
    /// Runs a prepared statement.
    Execute {
        /// The id of the statement.
        id: Bytes,
        /// The id of the result metadata that the client knows.
        result_metadata_id: Option<Bytes>,
        /// What is known of the tablet's version.
        tablet_block: u8,
        /// The parameters.
        params: Params,
    },
    /// Runs several statements as one.
    Batch(Batch),
}

/// The owned twin of [`ParamsRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// How far the agreement of a conditional write reaches.
    pub serial_consistency: Option<SerialConsistency>,
    /// The bound values.
    pub values: Values,
    /// Whether the server may leave out the column specs of the result.
    pub skip_metadata: bool,
    /// How many rows a page should have.
    pub page_size: Option<i32>,
    /// Where the page starts.
    pub paging_state: Option<Bytes>,
    /// The time of the write, in microseconds.
    pub timestamp: Option<i64>,
    /// The keyspace, if not the connection's (version 5).
    pub keyspace: Option<String>,
    /// What the server takes as the current time, in seconds (version 5).
    pub now_in_seconds: Option<i32>,
}

/// The owned twin of [`ValuesRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// How many values there are.
    pub count: u16,
    /// The values one after the other, each with its `[int]` length.
    pub bytes: Bytes,
    /// The names of the values, when they are bound by name.
    pub names: Option<Vec<String>>,
}

/// The owned twin of [`BatchRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// How the batch is applied.
    pub kind: BatchKind,
    /// The statements, in order.
    pub statements: Vec<BatchStatement>,
    /// How many replicas must answer.
    pub consistency: Consistency,
    /// How far the agreement of a conditional batch reaches.
    pub serial_consistency: Option<SerialConsistency>,
    /// The time of the write, in microseconds.
    pub timestamp: Option<i64>,
    /// The keyspace, if not the connection's (version 5).
    pub keyspace: Option<String>,
    /// What the server takes as the current time, in seconds (version 5).
    pub now_in_seconds: Option<i32>,
}

/// The owned twin of [`BatchStatementRef`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchStatement {
    /// What to run.
    pub statement: StatementSource,
    /// The bound values.
    pub values: Values,
}

/// The owned twin of [`StatementRef`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementSource {
    /// A text.
    Text(String),
    /// A prepared statement, by its id.
    Prepared(Bytes),
}

/// The owned twin of [`RequestOptionsRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Whether the server should trace the request.
    pub tracing: bool,
    /// Further data by name; none and empty are different on the wire.
    pub custom_payload: Option<Vec<(String, Option<Bytes>)>>,
}

impl Request {
    /// Lends the request in its borrowed form, for instance to submit it.
    ///
    /// Allocates only for values bound by name and for batches.
    pub fn with_ref<R>(&self, f: impl FnOnce(RequestRef<'_>) -> R) -> R {
        match self {
            Self::Options => f(RequestRef::Options),
            Self::Startup(options) => f(RequestRef::Startup(options)),
            Self::AuthResponse(token) => f(RequestRef::AuthResponse(token.as_deref())),
            Self::Register(kinds) => f(RequestRef::Register(kinds)),
            Self::Query { text, params } => {
                params.with_ref(|params| f(RequestRef::Query { text, params }))
            }
            Self::Prepare { text, keyspace } => f(RequestRef::Prepare {
                text,
                keyspace: keyspace.as_deref(),
            }),
            Self::Execute {
                id,
                result_metadata_id,
                tablet_block,
                params,
            } => params.with_ref(|params| {
                f(RequestRef::Execute {
                    id,
                    result_metadata_id: result_metadata_id.as_deref(),
                    tablet_block: *tablet_block,
                    params,
                })
            }),
            Self::Batch(batch) => batch.with_ref(|batch| f(RequestRef::Batch(batch))),
        }
    }

    /// The opcode of the request.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Options => Opcode::Options,
            Self::Startup(_) => Opcode::Startup,
            Self::AuthResponse(_) => Opcode::AuthResponse,
            Self::Register(_) => Opcode::Register,
            Self::Query { .. } => Opcode::Query,
            Self::Prepare { .. } => Opcode::Prepare,
            Self::Execute { .. } => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
        }
    }
}

impl Params {
    fn with_ref<R>(&self, f: impl FnOnce(ParamsRef<'_>) -> R) -> R {
        let names: Option<Vec<&str>> = self
            .values
            .names
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        f(ParamsRef {
            consistency: self.consistency,
            serial_consistency: self.serial_consistency,
            values: ValuesRef {
                names: names.as_deref(),
                ..self.values.without_names()
            },
            skip_metadata: self.skip_metadata,
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            timestamp: self.timestamp,
            keyspace: self.keyspace.as_deref(),
            now_in_seconds: self.now_in_seconds,
        })
    }
}

impl Values {
    fn without_names(&self) -> ValuesRef<'_> {
        ValuesRef {
            count: self.count,
            bytes: &self.bytes,
            large: &[],
            names: None,
        }
    }
}

impl Batch {
    fn with_ref<R>(&self, f: impl FnOnce(BatchRef<'_>) -> R) -> R {
        let statements: Vec<BatchStatementRef<'_>> = self
            .statements
            .iter()
            .map(|one| BatchStatementRef {
                statement: match &one.statement {
                    StatementSource::Text(text) => StatementRef::Text(text),
                    StatementSource::Prepared(id) => StatementRef::Prepared(id),
                },
                values: one.values.without_names(),
            })
            .collect();
        f(BatchRef {
            kind: self.kind,
            statements: &statements,
            consistency: self.consistency,
            serial_consistency: self.serial_consistency,
            timestamp: self.timestamp,
            keyspace: self.keyspace.as_deref(),
            now_in_seconds: self.now_in_seconds,
        })
    }
}

impl RequestOptions {
    /// The borrowed form.
    pub fn as_ref(&self) -> RequestOptionsRef<'_> {
        RequestOptionsRef {
            tracing: self.tracing,
            custom_payload: self.custom_payload.as_deref(),
        }
    }
}
