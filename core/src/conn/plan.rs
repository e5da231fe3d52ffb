//! Owns what is decided before a connection exists: whom to dial, and how to speak to them.
//! Leaves out the choice itself, which is the pool's and the control plane's.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::config::connection::SocketOptions;
use crate::config::session::SessionConfig;
use crate::seed::Seed;
use crate::wire::{EventKind, ProtocolFeatures, ProtocolVersion, ShardInfo};

/// Is what an adapter dials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// Is an IP address and a port.
    Tcp(SocketAddr),
    /// Is the path of a Unix socket, such as a server's maintenance socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Describes one attempt to open a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectSpec {
    /// Is what to dial.
    pub address: Address,
    /// Binds this local port first; a busy port is an error of the attempt.
    pub source_port: Option<u16>,
    /// Binds this local address first.
    pub local_ip: Option<IpAddr>,
    /// Sets these options before connecting.
    pub socket: SocketOptions,
}

impl ConnectSpec {
    /// Describes an attempt with a port and options of the system's choice.
    pub fn new(address: impl Into<Address>) -> Self {
        Self {
            address: address.into(),
            source_port: None,
            local_ip: None,
            socket: SocketOptions::default(),
        }
    }
}

/// Tells apart what a connection is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Registers for events and carries the driver's own reads.
    Control,
    /// Carries the application's requests.
    #[default]
    Data,
}

/// Says why this side closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The session ends.
    SessionClosed,
    /// Nobody needs the connection: it is beyond what the pool wants.
    Surplus,
    /// The node left the cluster, or is filtered out.
    HostRemoved,
    /// The node is reached at another address now.
    AddressChanged,
    /// The attempt took too long.
    TimedOut,
    /// Another control connection was chosen.
    Replaced,
    /// The connection reached its maximum age.
    Aged,
    /// The node has other shards than when the connection was opened.
    Resharded,
    /// Nobody used the connection for a while.
    Idle,
    /// The runtime dropped what drives the connection.
    RuntimeGone,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionClosed => "the session was closed",
            Self::Surplus => "the connection was not needed",
            Self::HostRemoved => "the host was removed",
            Self::AddressChanged => "the host has another address",
            Self::TimedOut => "the attempt took too long",
            Self::Replaced => "another connection took its place",
            Self::Aged => "the connection reached its maximum age",
            Self::Resharded => "the node has other shards now",
            Self::Idle => "the connection was idle",
            Self::RuntimeGone => "the runtime dropped the connection",
        })
    }
}

/// Says everything that a [`Connection`](crate::conn::Connection) needs to know to become usable.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// Is whom the socket leads to; for logins and messages.
    pub address: Address,
    /// Is the host name that led to the address, if one did; a certificate may be for it.
    pub host_name: Option<Arc<str>>,
    /// Is what the connection is for.
    pub role: Role,
    /// Is the protocol version to ask for.
    pub version: ProtocolVersion,
    /// Gives reporting, credentials, timings and limits.
    pub session: Arc<SessionConfig>,
    /// Is the local datacenter, where it had to be inferred; only reported.
    pub datacenter: Option<Arc<str>>,
    /// Is the local rack, where it had to be inferred; only reported.
    pub rack: Option<Arc<str>>,
    /// Is the keyspace to enter, by its exact name: case matters, no quotes.
    pub keyspace: Option<Arc<str>>,
    /// Are the events to register for; only a control connection does.
    pub events: Vec<EventKind>,
    /// Closes the connection after this time without a request, or up to twice as long; none keeps it open.
    pub idle_max: Option<Duration>,
    /// Is an instant that the connections of a session share: their keepalive questions fall on the same beats, counted
    /// from it and a thirty-second part of the interval apart, so that they wake a process together. None asks on the
    /// instant.
    pub keepalive_beat: Option<Instant>,
    /// Gives all randomness of the connection.
    pub seed: Seed,
}

impl ConnectionPlan {
    /// Plans a data connection with the session's settings.
    pub fn new(address: impl Into<Address>, session: Arc<SessionConfig>, seed: Seed) -> Self {
        Self {
            address: address.into(),
            host_name: None,
            role: Role::Data,
            version: ProtocolVersion::default(),
            keyspace: session.keyspace.clone(),
            session,
            datacenter: None,
            rack: None,
            events: Vec::new(),
            idle_max: None,
            keepalive_beat: None,
            seed,
        }
    }
}

/// Describes a usable connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Is whom it leads to.
    pub address: Address,
    /// Are the protocol features both sides agreed on.
    pub features: ProtocolFeatures,
    /// Is the shard that serves it, and how the node is sharded; none with servers that have no shards.
    pub shard: Option<ShardInfo>,
    /// Is the node's id, where the server tells it.
    pub host_id: Option<Uuid>,
}
