//! The error of a request: what went wrong, what is known about the request's effect, and what was tried.
//!
//! This module leaves out errors of reading a result that did arrive (`error::result`) and of opening a session.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::protocol::{FrameEncodeError, ProtocolError};
use crate::error::result::ResultError;
use crate::error::session::{NodeFailure, SessionError};
use crate::error::value::BindError;
use crate::policy::retry::FailureClass;
use crate::routing::Shard;
use crate::wire::header::Opcode;
use crate::wire::server_error::ServerError;

/// A line of text names a few nodes; all of them are in [`RequestError::absent_nodes`].
const ABSENT_SHOWN_MAX: usize = 3;

/// Says why a request failed; one pointer wide, so results stay small.
#[derive(Clone, Debug)]
pub struct RequestError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: RequestErrorKind,
    fate: Fate,
    attempts: Vec<Attempt>,
    /// What keeps nodes away, where no node could be tried.
    absent: Vec<Arc<NodeFailure>>,
}

impl RequestError {
    /// Makes an error of a request that never left.
    pub fn new(kind: RequestErrorKind) -> Self {
        Self::after(kind, Vec::new())
    }

    /// Makes an error of a request with these failed attempts behind it.
    pub fn after(kind: RequestErrorKind, attempts: Vec<Attempt>) -> Self {
        let fate = attempts
            .iter()
            .map(|attempt| attempt.fate)
            .fold(Fate::NotSent, worse);
        Self(Box::new(Inner {
            kind,
            fate,
            attempts,
            absent: Vec::new(),
        }))
    }

    /// Adds what keeps the nodes away to an error that says that none could be tried; any other stays as it is.
    #[must_use]
    pub fn with_absent_nodes(mut self, failures: impl FnOnce() -> Vec<Arc<NodeFailure>>) -> Self {
        if matches!(self.0.kind, RequestErrorKind::NoTarget) {
            self.0.absent = failures();
        }
        self
    }

    /// Makes an error of an answer that arrived but cannot be used.
    pub fn unreadable(error: ResultError) -> Self {
        Self(Box::new(Inner {
            kind: RequestErrorKind::Result(error),
            fate: Fate::Answered,
            attempts: Vec::new(),
            absent: Vec::new(),
        }))
    }

    /// Makes an error of a statement that entered a keyspace where other nodes did not follow.
    pub fn keyspace(error: SessionError) -> Self {
        Self(Box::new(Inner {
            kind: RequestErrorKind::Keyspace(error),
            fate: Fate::Answered,
            attempts: Vec::new(),
            absent: Vec::new(),
        }))
    }

    /// Returns what went wrong; after several attempts, what ended the last one.
    pub fn kind(&self) -> &RequestErrorKind {
        &self.0.kind
    }

    /// Returns whose error it is.
    pub fn category(&self) -> ErrorCategory {
        self.0.kind.category()
    }

    /// Says what is known about the request's effect, over all attempts.
    ///
    /// `Answered` means that the server's error is the last word; whether a write that it timed out on was applied
    /// is for that error to say.
    pub fn fate(&self) -> Fate {
        self.0.fate
    }

    /// Says whether the same request may succeed later.
    ///
    /// Whether it is safe to repeat it is another question: see [`fate`](Self::fate).
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_transient()
    }

    /// Lists the attempts that failed, in the order they ended.
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// Lists what last failed at each node without a connection and when it is tried again, where no node could be
    /// tried.
    pub fn absent_nodes(&self) -> &[Arc<NodeFailure>] {
        &self.0.absent
    }

    /// Returns the server's error, when a server answered with one.
    pub fn server_error(&self) -> Option<&ServerError> {
        match &self.0.kind {
            RequestErrorKind::Server(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, attempts) = (&self.0.kind, self.attempts());
        write!(out, "{kind}")?;
        if let (RequestErrorKind::NoTarget, false) = (kind, attempts.is_empty()) {
            write!(
                out,
                ": none of {} nodes has an open connection",
                attempts.len()
            )?;
        } else if let Some(last) = attempts.last() {
            write!(out, " (node {}", last.address)?;
            if 1 < attempts.len() {
                write!(out, ", after {} attempts", attempts.len())?;
            }
            out.write_str(")")?;
        }
        let absent = &self.0.absent;
        for (at, failure) in absent.iter().take(ABSENT_SHOWN_MAX).enumerate() {
            write!(out, "{}{failure}", if at == 0 { ": " } else { "; " })?;
        }
        if ABSENT_SHOWN_MAX < absent.len() {
            write!(out, "; and {} more", absent.len() - ABSENT_SHOWN_MAX)?;
        }
        Ok(())
    }
}

impl Error for RequestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.kind.cause()
    }
}

impl From<BindError> for RequestError {
    fn from(error: BindError) -> Self {
        Self::new(RequestErrorKind::Bind(error))
    }
}

impl From<ResultError> for RequestError {
    fn from(error: ResultError) -> Self {
        Self::unreadable(error)
    }
}

/// Says what went wrong with a request or with one attempt of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// The server answered with an error.
    Server(ServerError),
    /// There was no answer in time.
    Expired,
    /// The connection ended before an answer came.
    Connection(ConnectionError),
    /// The connection took no further request.
    Overloaded,
    /// The node had no open connection; only an attempt ends this way.
    NoConnection,
    /// No node could be tried.
    NoTarget,
    /// The answer breaks the protocol.
    Protocol(ProtocolError),
    /// The answer is of a kind that does not belong to this request.
    UnexpectedAnswer {
        /// The kind.
        opcode: Opcode,
    },
    /// A prepared statement could not be brought back to a node that had forgotten it.
    Unprepared(UnpreparedError),
    /// The values do not fit the statement.
    Bind(BindError),
    /// The request does not fit into a frame.
    Encode(FrameEncodeError),
    /// The answer arrived but is not what the caller asked to read.
    Result(ResultError),
    /// A statement entered a keyspace on one connection, and not every other node followed; the failures tell which.
    Keyspace(SessionError),
    /// The session is closed.
    Closed,
    /// The driver contradicts itself.
    Internal(&'static str),
}

impl RequestErrorKind {
    /// Takes the kind of an attempt that the connection reported as failed.
    pub(crate) fn of_attempt(error: AttemptError) -> Self {
        match error.kind {
            AttemptErrorKind::Expired => Self::Expired,
            AttemptErrorKind::Connection(cause) => Self::Connection(cause),
            AttemptErrorKind::Overloaded => Self::Overloaded,
            AttemptErrorKind::Encode(cause) => Self::Encode(cause),
        }
    }

    /// Returns whose error it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Server(_) | Self::Unprepared(_) | Self::Keyspace(_) => ErrorCategory::Server,
            Self::Protocol(_) | Self::UnexpectedAnswer { .. } => ErrorCategory::Protocol,
            Self::Expired
            | Self::Connection(_)
            | Self::Overloaded
            | Self::NoConnection
            | Self::NoTarget => ErrorCategory::Environment,
            Self::Bind(_) | Self::Encode(_) | Self::Closed => ErrorCategory::Caller,
            Self::Result(error) => error.category(),
            Self::Internal(_) => ErrorCategory::Internal,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Server(error) => FailureClass::of_server(error) != FailureClass::Rejected,
            _ => self.category() == ErrorCategory::Environment,
        }
    }

    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Server(error) => Some(error),
            Self::Connection(error) => Some(error),
            Self::Encode(error) => Some(error),
            Self::Protocol(error) => Some(error),
            Self::Unprepared(error) => Some(error),
            Self::Keyspace(error) => Some(error),
            Self::Bind(error) => Some(error),
            Self::Result(error) => Some(error),
            Self::Expired
            | Self::Overloaded
            | Self::NoConnection
            | Self::NoTarget
            | Self::UnexpectedAnswer { .. }
            | Self::Closed
            | Self::Internal(_) => None,
        }
    }
}

impl fmt::Display for RequestErrorKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(_) => out.write_str("the server answered with an error"),
            Self::Expired => out.write_str("the request was not answered in time"),
            Self::Connection(_) => {
                out.write_str("the connection ended before the request was answered")
            }
            Self::Overloaded => out.write_str("the connection takes no more requests"),
            Self::NoConnection => out.write_str("the node has no open connection"),
            Self::NoTarget => out.write_str("there is no node to send the request to"),
            Self::Protocol(_) => out.write_str("the answer to the request cannot be understood"),
            Self::UnexpectedAnswer { opcode } => write!(
                out,
                "the server answered with {opcode:?}, which is no answer"
            ),
            Self::Unprepared(_) => {
                out.write_str("the prepared statement cannot be executed on the node")
            }
            Self::Bind(_) => out.write_str("the values do not fit the statement"),
            Self::Encode(_) => out.write_str("the request does not fit into a frame"),
            Self::Result(_) => out.write_str("the result cannot be read as asked"),
            Self::Keyspace(_) => {
                out.write_str("the keyspace was entered on one connection and not by every node")
            }
            Self::Closed => out.write_str("the session is closed"),
            Self::Internal(what) => write!(out, "the driver contradicts itself: {what}"),
        }
    }
}

/// Says why a statement could not be brought back to a node that had forgotten it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpreparedError {
    /// The node does not know a statement that is not part of the request.
    #[error(
        "the server misses statement {}, which is not part of the request",
        Hex(id)
    )]
    Foreign {
        /// The id that the node named.
        id: Bytes,
    },
    /// The text has another id on this node now, so it would run as another statement.
    #[error(
        "the statement had id {} and has id {} after it was prepared again, as it is when the keyspace in use \
         changed meanwhile; prepare it anew",
        Hex(before),
        Hex(after)
    )]
    IdChanged {
        /// The id the statement was prepared with.
        before: Bytes,
        /// The id that the node gave it now.
        after: Bytes,
    },
    /// The session is in another keyspace than the one the statement was prepared in, so its unqualified names would
    /// mean other tables. Nothing was prepared.
    #[error(
        "the keyspaces differ: the statement was prepared in \"{prepared_in}\" and the session is in {}; prepare it anew, \
         or go back to its keyspace",
        Keyspace(in_use.as_deref())
    )]
    KeyspacesDiffer {
        /// The keyspace that the statement was prepared in.
        prepared_in: Arc<str>,
        /// The keyspace of the session now; none where it is in none.
        in_use: Option<Arc<str>>,
    },
    /// Nodes gave one text different ids, so they would not run the same statement.
    #[error(
        "the nodes disagree about the statement: one calls it {}, another {}",
        Hex(one),
        Hex(other)
    )]
    NodesDisagree {
        /// The id of the first node that answered.
        one: Bytes,
        /// The id of another one.
        other: Bytes,
    },
    /// The text has other markers now, so the values of the request would be read as something else.
    #[error(
        "the markers of statement {} changed since it was prepared; prepare it anew",
        Hex(id)
    )]
    MarkersChanged {
        /// The id of the statement, which stayed the same.
        id: Bytes,
    },
    /// The node forgot the statement right after it was prepared again.
    #[error(
        "the server still misses statement {} after it was prepared again",
        Hex(id)
    )]
    Again {
        /// The id of the statement.
        id: Bytes,
    },
}

/// Describes one attempt that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The node.
    pub host_id: Uuid,
    /// The node's address, as the cluster gives it to clients.
    pub address: SocketAddr,
    /// The shard that was asked for.
    pub shard: Option<Shard>,
    /// How long the request waited before it was written, as far as the connection can tell.
    pub queued: Duration,
    /// How long the request was out at the node.
    pub on_wire: Duration,
    /// What is known about the effect of this attempt.
    pub fate: Fate,
    /// What ended the attempt.
    pub error: RequestErrorKind,
}

/// Says whose error an error is, and with it what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCategory {
    /// A server answered no.
    Server,
    /// A peer does not follow the protocol.
    Protocol,
    /// A connection, a node or the time is missing.
    Environment,
    /// The caller's input is wrong.
    Caller,
    /// The driver has a defect.
    Internal,
}

/// Returns the one of two fates that a caller has to be more careful about.
fn worse(one: Fate, other: Fate) -> Fate {
    match (one, other) {
        (Fate::MaybeApplied, _) | (_, Fate::MaybeApplied) => Fate::MaybeApplied,
        (Fate::Answered, _) | (_, Fate::Answered) => Fate::Answered,
        (Fate::NotSent, Fate::NotSent) => Fate::NotSent,
    }
}

/// Shows the name of a keyspace, or that there is none.
struct Keyspace<'a>(Option<&'a str>);

impl fmt::Display for Keyspace<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(out, "\"{name}\""),
            None => out.write_str("none"),
        }
    }
}

/// Shows bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests;
