//! Owns what a session knows of its cluster: the control connection, the members, the schema as far as routing
//! needs it, which connections to open and close. It publishes snapshots; it is not on the path of any request.

pub mod agreement;
pub mod events;
pub mod fetch;
pub mod session;
pub mod topology;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::config::session::SessionConfig;
use crate::conn::{CloseReason, ConnectSpec, ConnectionInfo, ConnectionPlan};
use crate::error::connect::{AttemptError, ConnectError, ConnectionError};
use crate::error::session::SessionError;
use crate::notify::{ClusterEvent, Note};
use crate::routing::Routing;
use crate::seed::Seed;
use crate::wire::{Request, ResponseFrame, SchemaChange, ServerEvent};

/// Names one attempt to connect, and the connection it becomes, until its end was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// The place, used again once the end was reported.
    pub index: u32,
    /// How often the place was used before.
    pub generation: u32,
}

/// Names one of the control plane's own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(u64);

/// Names one resolution of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResolveId(u64);

/// Names a command whose outcome comes as an output; chosen by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// What the owner of a [`ControlPlane`] has to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlOutput<H> {
    /// Resolve a host name, and report the addresses with [`ControlPlane::handle_resolved`].
    Resolve {
        /// Names the resolution.
        id: ResolveId,
        /// The name.
        host: Arc<str>,
        /// The port that belongs to each address found.
        port: u16,
    },
    /// Open a socket and run a connection over it. Report exactly once that it became usable or that it failed, and
    /// of a usable one finally that it closed.
    Connect {
        /// Names the attempt.
        conn: ConnId,
        /// What to dial.
        spec: ConnectSpec,
        /// How to speak to it.
        plan: Box<ConnectionPlan>,
    },
    /// Give up an attempt or close a connection; its end is reported all the same.
    Disconnect {
        /// Which.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// Send a request of the control plane's own, and report the reply with [`ControlPlane::handle_reply`].
    Submit {
        /// On which connection.
        conn: ConnId,
        /// Names the request.
        query: QueryId,
        /// The request.
        request: Request,
        /// When to give up waiting; `None`: when the connection ends.
        deadline: Option<Instant>,
    },
    /// Route by this snapshot from now on.
    Publish(Arc<Routing<H>>),
    /// The session is ready; comes once.
    Ready(Readiness),
    /// Tell an operator.
    Note(Note),
    /// Tell the application.
    Notify(ClusterEvent),
    /// A wait for schema agreement is over.
    Agreement {
        /// The command.
        id: CommandId,
        /// How it ended.
        outcome: AgreementOutcome,
    },
    /// A change of the keyspace is over.
    KeyspaceUsed {
        /// The command.
        id: CommandId,
        /// Success when at least one connection entered it and none refused.
        result: Result<(), SessionError>,
    },
    /// The session cannot start. Comes at most once, never after [`ControlOutput::Ready`].
    Fatal(SessionError),
}

/// How far the session is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// How many hosts have an open connection for requests.
    pub connected: usize,
    /// How many hosts should have one.
    pub wanted: usize,
}

/// How a wait for schema agreement ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgreementOutcome {
    /// All live hosts have the same schema, and what changed was read again.
    Agreed,
    /// The deadline passed while hosts had different schemas.
    Different {
        /// How many different schemas there were.
        versions: usize,
    },
    /// The deadline passed and the hosts' schemas could not be read.
    Unknown {
        /// What last went wrong, where something did.
        cause: Option<crate::error::session::NodeCause>,
    },
}

/// Knows the cluster and decides which connections there are.
///
/// `H` is the owner's handle of an open connection. After any input or command, take [`poll_output`](Self::poll_output)
/// until there is none, then arm one timer for [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct ControlPlane<H> {
    routing: Arc<Routing<H>>,
}

impl<H: Clone> ControlPlane<H> {
    /// Starts to look for the cluster.
    #[must_use]
    pub fn new(_now: Instant, _config: Arc<SessionConfig>, _seed: Seed) -> Self {
        Self {
            routing: Arc::default(),
        }
    }

    /// Takes note of the addresses of a name, or of why there are none.
    pub fn handle_resolved(
        &mut self,
        _now: Instant,
        _id: ResolveId,
        _found: Result<Vec<SocketAddr>, io::ErrorKind>,
    ) {
        todo!()
    }

    /// Takes note that a connection became usable.
    pub fn handle_connected(
        &mut self,
        _now: Instant,
        _conn: ConnId,
        _info: ConnectionInfo,
        _handle: H,
    ) {
        todo!()
    }

    /// Takes note that an attempt failed.
    pub fn handle_connect_failed(&mut self, _now: Instant, _conn: ConnId, _error: ConnectError) {
        todo!()
    }

    /// Takes note that a usable connection ended.
    pub fn handle_closed(&mut self, _now: Instant, _conn: ConnId, _error: ConnectionError) {
        todo!()
    }

    /// Takes the reply to a request of [`ControlOutput::Submit`].
    pub fn handle_reply(
        &mut self,
        _now: Instant,
        _conn: ConnId,
        _query: QueryId,
        _reply: Result<ResponseFrame, AttemptError>,
    ) {
        todo!()
    }

    /// Takes an event that a server sent on the control connection; costs no memory.
    pub fn handle_event(&mut self, _now: Instant, _conn: ConnId, _event: ServerEvent) {
        todo!()
    }

    /// Acts on deadlines that are due.
    pub fn handle_timeout(&mut self, _now: Instant) {
        todo!()
    }

    /// Reads members and schema again, soon.
    pub fn refresh(&mut self, _now: Instant) {
        todo!()
    }

    /// Takes note of a schema change that a request of the application brought about; it is read again soon.
    pub fn schema_changed(&mut self, _now: Instant, _change: &SchemaChange) {
        todo!()
    }

    /// Waits until all live hosts have the same schema and what changed was read again.
    pub fn await_agreement(&mut self, _now: Instant, _id: CommandId, _deadline: Instant) {
        todo!()
    }

    /// Enters a keyspace on every connection, those to come included.
    pub fn use_keyspace(
        &mut self,
        _now: Instant,
        _id: CommandId,
        _keyspace: Arc<str>,
        _deadline: Instant,
    ) {
        todo!()
    }

    /// Closes every connection and opens none any more.
    pub fn close(&mut self, _now: Instant) {
        todo!()
    }

    /// Says whether it was closed and the end of every connection was reported.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        false
    }

    /// The current picture of the cluster.
    #[must_use]
    pub fn routing(&self) -> &Arc<Routing<H>> {
        &self.routing
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<ControlOutput<H>> {
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
