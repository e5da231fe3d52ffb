//! What a driver gives out, and the names of requests.

use std::sync::Arc;

use bytes::Bytes;

use super::pages::Pages;
use crate::cluster::{AgreementOutcome, CommandId, ConnId, Readiness, ResolveId};
use crate::conn::ConnectSpec;
use crate::error::request::RequestError;
use crate::error::session::SessionError;
use crate::exec::prepared::PreparedStatement;
use crate::exec::result::{Page, QueryResult};
use crate::exec::trace::Trace;
use crate::notify::{ClusterEvent, Note};

/// Names a request of the application; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

impl RequestId {
    pub(super) const fn command(self) -> CommandId {
        CommandId(self.0)
    }

    pub(super) const fn of_command(command: CommandId) -> Self {
        Self(command.0)
    }
}

/// What the owner of a [`Driver`](super::Driver) has to do, or to know.
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverOutput {
    /// Resolve a host name, and report the addresses with
    /// [`handle_resolved`](super::Driver::handle_resolved).
    Resolve {
        /// Names the resolution.
        id: ResolveId,
        /// The name.
        host: Arc<str>,
        /// The port that belongs to each address found.
        port: u16,
    },
    /// Open a socket, and report it with [`handle_connected`](super::Driver::handle_connected) or
    /// [`handle_connect_failed`](super::Driver::handle_connect_failed).
    Connect {
        /// Names the attempt, and the connection that it becomes.
        conn: ConnId,
        /// What to dial, and how.
        spec: ConnectSpec,
    },
    /// Write what [`poll_transmit`](super::Driver::poll_transmit) gives for this connection, until it gives nothing.
    ///
    /// Comes once until then: a socket that is full is watched by the owner.
    Transmit {
        /// The connection.
        conn: ConnId,
    },
    /// Drop the socket, or the attempt to get one; the last that is heard of this name.
    Disconnect {
        /// The connection.
        conn: ConnId,
        /// What an encrypted connection still has to say: to be written if the socket takes it at once. Empty for all
        /// others.
        last_words: Bytes,
    },
    /// The session is ready, as its [`ReadinessRule`](crate::config::session::ReadinessRule) says; comes once.
    Ready(Readiness),
    /// The session cannot start. Comes at most once, never after `Ready`; `Closed` follows.
    Failed(SessionError),
    /// Answers a statement or a batch.
    Answer {
        /// The request.
        request: RequestId,
        /// What came of it.
        result: Result<QueryResult, RequestError>,
    },
    /// Answers a request to prepare a statement.
    Prepared {
        /// The request.
        request: RequestId,
        /// What came of it.
        result: Result<PreparedStatement, RequestError>,
    },
    /// Answers a request to read a trace.
    Traced {
        /// The request.
        request: RequestId,
        /// What came of it.
        result: Result<Box<Trace>, RequestError>,
    },
    /// Answers a request for a page.
    Page {
        /// The request.
        request: RequestId,
        /// The read, for its next page.
        pages: Box<Pages>,
        /// The page; none behind the last one.
        result: Result<Option<Page>, RequestError>,
    },
    /// Answers a request to enter a keyspace.
    KeyspaceUsed {
        /// The request.
        request: RequestId,
        /// What came of it.
        result: Result<(), SessionError>,
    },
    /// Answers a request to wait until all nodes have the same schema.
    Agreement {
        /// The request.
        request: RequestId,
        /// How the wait ended.
        outcome: AgreementOutcome,
    },
    /// Tells an operator something.
    Note(Note),
    /// Tells the application what changed in the cluster.
    Notify(ClusterEvent),
    /// Nothing is left: no connection, no request, no timer. The last output.
    Closed {
        /// How many requests were cut off.
        cut: usize,
    },
}

impl DriverOutput {
    /// Returns the request that this answers.
    pub const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Answer { request, .. }
            | Self::Prepared { request, .. }
            | Self::Traced { request, .. }
            | Self::Page { request, .. }
            | Self::KeyspaceUsed { request, .. }
            | Self::Agreement { request, .. } => Some(*request),
            _ => None,
        }
    }
}
