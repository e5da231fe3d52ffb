//! Owns the errors of a session as a whole: bad settings, a start that failed, a session that was closed.
//! Errors of single requests are elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::connect::{ConnectError, ConnectionError};
use super::io::IoError;
use super::protocol::ProtocolError;
use crate::conn::plan::Address;
use crate::wire::server_error::ServerError;
use crate::wire::{Compression, ProtocolVersion};

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is nothing to connect to.
    #[error("no contact point is given")]
    NoContactPoint,
    /// A contact point cannot be read.
    #[error("contact point {text:?} is not usable: {problem}")]
    ContactPoint {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        problem: ContactPointProblem,
    },
    /// A name that no keyspace can have.
    #[error("{name:?} is not the name of a keyspace: 1 to 48 letters, digits and underscores are")]
    Keyspace {
        /// The name as given.
        name: String,
    },
    /// No host is in the datacenter that is to be preferred.
    #[error("no host is in datacenter {name:?}; there are {known:?}")]
    LocalDatacenter {
        /// The name as given.
        name: Arc<str>,
        /// The names that hosts are in.
        known: Vec<Arc<str>>,
    },
    /// Every host of the cluster is ruled out.
    #[error(
        "none of {hosts} hosts may be connected to: the host filter refuses {filtered}, and the load-balancing policy \
         reaches none of the others"
    )]
    NoHostAllowed {
        /// How many hosts there are.
        hosts: usize,
        /// How many of them the host filter refuses.
        filtered: usize,
    },
    /// A rack is to be preferred, and no datacenter.
    #[error(
        "a rack is preferred inside of a datacenter, and no datacenter is configured or inferred"
    )]
    RackWithoutDatacenter,
    /// Two ports that are no range of ports for connections to start from.
    #[error("{low} to {high} is no range of source ports: 1024 to 65535 is the largest")]
    SourcePorts {
        /// The lowest port as given.
        low: u16,
        /// The highest port as given.
        high: u16,
    },
    /// A setting that must not be zero is.
    #[error("{setting} must not be zero")]
    Zero {
        /// The path of the setting.
        setting: &'static str,
    },
    /// Two settings are in the wrong order.
    #[error("{low} must not be above {high}")]
    Order {
        /// The path of the setting that must not be above the other one.
        low: &'static str,
        /// The path of the other setting.
        high: &'static str,
    },
    /// A protocol version that this build does not speak.
    #[error("this build does not speak protocol version {}: enable the feature `v5`", .version.byte())]
    VersionNotBuiltIn {
        /// The version.
        version: ProtocolVersion,
    },
    /// A compression algorithm that this build does not have.
    #[error("this build has no {0} compression: enable the feature `{0}`", .compression.name())]
    CompressionNotBuiltIn {
        /// The algorithm.
        compression: Compression,
    },
    /// A text that is longer than the protocol can hold.
    #[error("{setting} has {len} bytes, and {len_max} are the most")]
    TooLong {
        /// The path of the setting.
        setting: &'static str,
        /// How long it is, in bytes.
        len: usize,
        /// How long it may be.
        len_max: usize,
    },
    /// Two ways to find the addresses of nodes.
    #[error("client routes and an address translator exclude each other")]
    TranslatorAndRoutes,
    /// Client routes that are not usable.
    #[error("client routes are not usable: {0}")]
    ClientRoutes(ClientRoutesProblem),
    /// Snappy and protocol version 5, which has no Snappy.
    #[error("protocol version 5 has no snappy compression")]
    SnappyNeedsVersion4,
}

impl ConfigError {
    /// Refuses a setting that is zero.
    pub(crate) fn if_zero(is_zero: bool, setting: &'static str) -> Result<(), Self> {
        match is_zero {
            true => Err(Self::Zero { setting }),
            false => Ok(()),
        }
    }
}

/// What is wrong with [`ClientRoutes`](crate::config::client_routes::ClientRoutes).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRoutesProblem {
    /// There is no endpoint.
    #[error("at least one endpoint is needed")]
    NoEndpoint,
    /// An endpoint has no connection id, or one of blanks.
    #[error("endpoint {index} has no connection id")]
    NoConnectionId {
        /// The place of the endpoint in the list, from 0.
        index: usize,
    },
    /// The address of an endpoint has a port; the server tells the ports.
    #[error("the address {address:?} of endpoint {index} must not carry a port")]
    Port {
        /// The place of the endpoint in the list, from 0.
        index: usize,
        /// The address as given.
        address: Arc<str>,
    },
    /// The address of an endpoint is neither a name nor an IP address.
    #[error("the address {address:?} of endpoint {index} is neither a name nor an IP address")]
    Address {
        /// The place of the endpoint in the list, from 0.
        index: usize,
        /// The address as given.
        address: Arc<str>,
    },
    /// Two endpoints have one connection id and different addresses.
    #[error("connection id {id:?} has two addresses")]
    Duplicate {
        /// The connection id.
        id: Arc<str>,
    },
    /// The table that routes are read from has no name.
    #[error("the table has no name")]
    NoTable,
}

/// What is wrong with the text of a contact point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContactPointProblem {
    /// There is no host.
    #[error("the host is missing")]
    Empty,
    /// A bracket is opened and not closed.
    #[error("the closing bracket is missing")]
    Bracket,
    /// The host is neither a name nor an address.
    #[error("the host is neither a name nor an IP address")]
    Address,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// Something other than a port follows the bracket.
    #[error("something other than a port follows the bracket")]
    Trailing,
}

/// Why a session could not start, or ended.
#[derive(Clone, Debug)]
pub struct SessionError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: SessionErrorKind,
    failures: Vec<NodeFailure>,
}

/// The kinds of [`SessionError`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionErrorKind {
    /// A setting cannot be used.
    #[error("the settings cannot be used")]
    Config(#[source] ConfigError),
    /// Every contact point was tried and none can be used.
    #[error("no contact point can be used")]
    NoContactPoint,
    /// The cluster was reached in part, but not as far as the readiness rule asks in the time given.
    #[error("the session was not ready within {timeout:?}")]
    NotReady {
        /// The time given.
        timeout: Duration,
    },
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// The runtime did not let the session start.
    #[error("the runtime cannot be used: {0}")]
    Runtime(IoError),
    /// Some nodes entered the keyspace and others refused; the failures tell which. The session stays in it, and the
    /// connections that refused are replaced.
    #[error("some nodes refused to enter keyspace {name:?}")]
    KeyspaceInPart {
        /// The name of the keyspace.
        name: Arc<str>,
    },
    /// No host entered the keyspace.
    #[error("keyspace {name:?} cannot be used")]
    Keyspace {
        /// The name of the keyspace.
        name: Arc<str>,
    },
}

impl SessionError {
    /// Makes an error with what last failed at each node.
    #[must_use]
    pub fn new(kind: SessionErrorKind, failures: Vec<NodeFailure>) -> Self {
        Self(Box::new(Inner { kind, failures }))
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> &SessionErrorKind {
        &self.0.kind
    }

    /// The last failure of each node that has one, contact points first.
    #[must_use]
    pub fn failures(&self) -> &[NodeFailure] {
        &self.0.failures
    }
}

impl From<ConfigError> for SessionError {
    fn from(error: ConfigError) -> Self {
        Self::new(SessionErrorKind::Config(error), Vec::new())
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.kind)?;
        for (at, failure) in self.0.failures.iter().enumerate() {
            write!(out, "{}{failure}", if at == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            SessionErrorKind::Config(error) => Some(error),
            _ => None,
        }
    }
}

/// What last failed at one node, and when it is tried again.
#[derive(Clone, Debug)]
pub struct NodeFailure {
    /// Which node.
    pub node: NodeName,
    /// Its last failure.
    pub cause: NodeCause,
    /// How long after the failure the next attempt comes; `None` when none is planned.
    pub retry_in: Option<Duration>,
}

impl fmt::Display for NodeFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.node, self.cause)?;
        // Several failures share one error, which can have one source: each tells its causes itself.
        let mut cause = std::error::Error::source(&self.cause);
        while let Some(error) = cause {
            write!(out, ": {error}")?;
            cause = error.source();
        }
        match self.retry_in {
            Some(delay) => write!(out, " (next try after {delay:?})"),
            None => Ok(()),
        }
    }
}

/// How a node is named in a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeName {
    /// A contact point whose name has no address so far.
    ContactPoint(Arc<str>),
    /// An address that was dialled for a contact point.
    Address {
        /// The contact point as configured, when it is a name.
        contact_point: Option<Arc<str>>,
        /// The address.
        address: Address,
    },
    /// A member of the cluster.
    Host {
        /// Its identity.
        id: Uuid,
        /// The address dialled.
        address: Address,
    },
}

impl fmt::Display for NodeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContactPoint(name) => write!(out, "{name}"),
            Self::Address {
                contact_point: None,
                address,
            } => write!(out, "{address}"),
            Self::Address {
                contact_point: Some(name),
                address,
            } => write!(out, "{name} ({address})"),
            Self::Host { id, address } => write!(out, "{address} (host {id})"),
        }
    }
}

/// Why a node cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeCause {
    /// Its name could not be resolved.
    #[error("the name cannot be resolved: {0}")]
    Resolve(IoError),
    /// Its name has no address.
    #[error("the name has no address")]
    NoAddress,
    /// The address translator knows no way to it.
    #[error("the address translator knows no address for it")]
    Untranslated,
    /// It could not be connected to.
    #[error(transparent)]
    Connect(ConnectError),
    /// Its connection was lost.
    #[error(transparent)]
    Connection(ConnectionError),
    /// It answered a read of its system tables with an error.
    #[error("reading its {table} table failed: {}", .error.message)]
    Server {
        /// The table.
        table: &'static str,
        /// Its answer.
        error: Arc<ServerError>,
    },
    /// Its system tables made no sense.
    #[error("reading its {table} table failed: {error}")]
    Protocol {
        /// The table.
        table: &'static str,
        /// What is wrong.
        error: ProtocolError,
    },
    /// Its system tables lack something that must be there.
    #[error("its {table} table has no usable {what}")]
    Incomplete {
        /// The table.
        table: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// It did not answer in time.
    #[error("reading its {table} table took too long")]
    Timeout {
        /// The table.
        table: &'static str,
    },
    /// One of its connections did not enter the keyspace.
    #[error("entering the keyspace failed: {0}")]
    Keyspace(KeyspaceCause),
    /// Another node answered at its address.
    #[error("another node answers there: {told}")]
    WrongHost {
        /// The identity of that node.
        told: Uuid,
    },
    /// It belongs to another cluster than the nodes that answered before.
    #[error("it belongs to cluster {name:?}, and the session to {expected:?}")]
    OtherCluster {
        /// The name of its cluster.
        name: Arc<str>,
        /// The name of the session's cluster.
        expected: Arc<str>,
    },
    /// It works, and requests may not go there: the control connection moved on.
    #[error("requests may not go there")]
    Unwanted,
    /// It was asked and did not answer so far.
    #[error("no answer so far")]
    Unanswered,
    /// Not tried so far.
    #[error("not tried yet")]
    NotTried,
}

/// Why a connection did not enter a keyspace.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyspaceCause {
    /// The node refused.
    #[error("{}", .0.message)]
    Server(Arc<ServerError>),
    /// Its answer cannot be read.
    #[error("{0}")]
    Protocol(ProtocolError),
    /// It answered something else than that the keyspace is entered.
    #[error("the answer does not say so")]
    OtherAnswer,
    /// It did not answer in time.
    #[error("no answer in time")]
    Timeout,
}
