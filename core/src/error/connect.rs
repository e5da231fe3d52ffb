//! Owns the errors of connections: why one could not be opened, why an open one ended, why one attempt of a request
//! got no answer, and what is known about the fate of that request.
//! Leaves out errors of whole requests and sessions, which collect these.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

#[cfg(feature = "rustls-023")]
use crate::conn::tls::TlsError;
use crate::conn::{Address, CloseReason};
use crate::error::io::IoError;
use crate::error::protocol::{FrameEncodeError, ProtocolError};
use crate::policy::auth::LoginError;
use crate::wire::ServerError;

/// Tells whether a request can have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// No byte of it left this process, so it had no effect.
    NotSent,
    /// It may have been carried out: it, or a part of it, was sent and no answer came.
    MaybeApplied,
    /// The server answered it.
    Answered,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "not sent",
            Self::MaybeApplied => "maybe applied",
            Self::Answered => "answered",
        })
    }
}

/// Says why a connection did not become usable.
#[derive(Clone, Debug, Error)]
#[error("cannot connect to {address}: {phase} failed")]
pub struct ConnectError {
    /// Is whom we tried to connect to.
    pub address: Address,
    /// Is how far it came.
    pub phase: ConnectPhase,
    /// Is what went wrong there.
    #[source]
    pub cause: ConnectCause,
}

impl ConnectError {
    /// Says why a connection that ended before it was usable did not become so.
    #[must_use]
    pub fn of_end(address: Address, end: ConnectionError) -> Self {
        let cause = match end {
            ConnectionError::Connect(error) => return (*error).clone(),
            ConnectionError::Closed(reason) => ConnectCause::GivenUp(reason),
            ConnectionError::Io(error) => ConnectCause::Io(error),
            _ => ConnectCause::Closed,
        };
        Self {
            address,
            phase: ConnectPhase::Tcp,
            cause,
        }
    }
}

/// Names the steps from a host name to a usable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConnectPhase {
    /// Resolves the name.
    Dns,
    /// Opens the socket.
    Tcp,
    /// Agrees on encryption.
    Tls,
    /// Asks what the server supports.
    Options,
    /// Says which of that is wanted.
    Startup,
    /// Logs in.
    Auth,
    /// Registers for events.
    Register,
    /// Enters the keyspace.
    Keyspace,
}

impl fmt::Display for ConnectPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "name resolution",
            Self::Tcp => "opening the socket",
            Self::Tls => "the tls handshake",
            Self::Options => "asking for the supported options",
            Self::Startup => "startup",
            Self::Auth => "authentication",
            Self::Register => "registering for events",
            Self::Keyspace => "entering the keyspace",
        })
    }
}

/// Says what went wrong while connecting.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ConnectCause {
    /// The system reported an error.
    #[error("{0}")]
    Io(IoError),
    /// Nothing happened in time.
    #[error("no answer in time")]
    Timeout,
    /// The two sides did not agree on encryption.
    #[cfg(feature = "rustls-023")]
    #[error("{0}")]
    Tls(TlsError),
    /// The server answered with an error.
    #[error("the server refused")]
    Server(#[source] Arc<ServerError>),
    /// The peer does not keep to the protocol.
    #[error("the peer does not keep to the protocol")]
    Protocol(#[source] ProtocolError),
    /// The server does not speak the protocol version that was asked for.
    #[error("the server speaks protocol version {server}")]
    Version {
        /// Is the version to try next, on a new connection.
        server: u8,
    },
    /// The server wants a login and none is configured.
    #[error("the server wants a login for {authenticator:?} and no credentials are configured")]
    NoCredentials {
        /// Is the class name of the server's authenticator.
        authenticator: String,
    },
    /// The provider of credentials gave none.
    #[error("there is no usable login")]
    Login(#[source] Arc<LoginError>),
    /// The server's authenticator is not among the allowed ones.
    #[error("the authenticator {authenticator:?} is not allowed by the configuration")]
    AuthenticatorRefused {
        /// Is the class name of the server's authenticator.
        authenticator: String,
    },
    /// The server asked for another round of authentication, which a plain login does not have.
    #[error("the server asked for another round of authentication")]
    UnexpectedChallenge,
    /// A message of the handshake cannot be expressed.
    #[error("a message of the handshake cannot be encoded")]
    Encode(#[source] FrameEncodeError),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// This side gave the attempt up.
    #[error("{0}")]
    GivenUp(CloseReason),
    /// The name does not exist, or has no address.
    #[error("the name has no address")]
    UnknownHost,
}

/// Says why an open connection ended, or why it never became usable.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The system reported an error.
    #[error("the connection failed: {0}")]
    Io(IoError),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Eof,
    /// Encryption failed.
    #[cfg(feature = "rustls-023")]
    #[error("encryption failed: {0}")]
    Tls(TlsError),
    /// The peer does not keep to the protocol.
    #[error("the peer does not keep to the protocol")]
    Protocol(#[source] Arc<ProtocolError>),
    /// The server reported an error that belongs to no request.
    #[error("the server reported an error of the whole connection")]
    Server(#[source] Arc<ServerError>),
    /// The server gave no sign of life.
    #[error("the server gave no sign of life for {}", Millis(*.0))]
    KeepaliveTimeout(Duration),
    /// Too many requests were given up and never answered.
    #[error("{count} requests were never answered")]
    Orphans {
        /// Counts them.
        count: u32,
    },
    /// This side closed it.
    #[error("{0}")]
    Closed(CloseReason),
    /// It never became usable.
    #[error("the connection did not become usable")]
    Connect(#[source] Arc<ConnectError>),
}

impl ConnectionError {
    /// Returns the reason of a connection that never became usable.
    pub fn as_connect(&self) -> Option<&ConnectError> {
        match self {
            Self::Connect(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ConnectError> for ConnectionError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(Arc::new(error))
    }
}

impl From<ProtocolError> for ConnectionError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(Arc::new(error))
    }
}

/// Says why one attempt of a request got no answer, and whether it can have had an effect.
#[derive(Clone, Debug, Error)]
#[error("{kind} ({fate})")]
pub struct AttemptError {
    /// Is what went wrong.
    #[source]
    pub kind: AttemptErrorKind,
    /// Tells whether the request can have had an effect.
    pub fate: Fate,
}

impl AttemptError {
    /// Pairs a failure with what is known about the request's fate.
    pub const fn new(kind: AttemptErrorKind, fate: Fate) -> Self {
        Self { kind, fate }
    }
}

/// Says what went wrong with one attempt.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AttemptErrorKind {
    /// Its deadline passed.
    #[error("no answer in time")]
    Expired,
    /// Its connection ended.
    #[error("the connection ended")]
    Connection(#[source] ConnectionError),
    /// The connection had no room, and a limit says not to wait.
    #[error("too many requests wait for this connection")]
    Overloaded,
    /// It cannot be expressed on this connection.
    #[error("the request cannot be encoded")]
    Encode(#[source] FrameEncodeError),
}

/// Shows a duration in milliseconds.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}
