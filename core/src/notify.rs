//! Owns what machines tell: [`ClusterEvent`]s for applications, [`Note`]s for operators.
//! Leaves out how they are shown: the engine turns notes into log records, applications do as they like.

mod words;

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::conn::Address;
use crate::error::connect::{ConnectError, ConnectionError};
use crate::error::protocol::ProtocolError;
use crate::error::session::{NodeCause, NodeFailure};
use crate::report::driver_config::NotReported;
use crate::routing::Shard;
use crate::wire::{Compression, EventKind, SchemaChange};

/// Tells an application what changed in the cluster, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// A node is new in the cluster.
    HostAdded {
        /// Is its id.
        host_id: Uuid,
        /// Is where it is reached.
        address: SocketAddr,
    },
    /// A node left the cluster.
    HostRemoved {
        /// Is its id.
        host_id: Uuid,
        /// Is where it was reached.
        address: SocketAddr,
    },
    /// A node can be reached again.
    HostUp {
        /// Is its id.
        host_id: Uuid,
        /// Is where it is reached.
        address: SocketAddr,
    },
    /// A node can no longer be reached.
    HostDown {
        /// Is its id.
        host_id: Uuid,
        /// Is where it was reached.
        address: SocketAddr,
    },
    /// A part of the schema changed.
    SchemaChanged(SchemaChange),
    /// Events may have been missed, and everything was read again since.
    Resynced,
}

/// How urgent a [`Note`] is to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Is of use when something is looked into.
    Debug,
    /// Is worth knowing and nothing to act on.
    Info,
    /// May need somebody to act: something works less well than it could.
    Warning,
    /// Needs somebody to act: something does not work.
    Error,
}

/// Tells an operator about something rare and worth knowing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// An event from a server could not be read and was skipped.
    EventUnreadable {
        /// Is the server.
        address: Address,
        /// Is what is wrong with it.
        error: ProtocolError,
    },
    /// An event of an unknown kind, or with an unknown detail, was skipped.
    EventUnknown {
        /// Is the server.
        address: Address,
        /// Is its kind as sent.
        kind: String,
    },
    /// A server knows no events of this kind; the connection goes on without them.
    EventNotOffered {
        /// Is the server.
        address: Address,
        /// Is the kind.
        kind: EventKind,
    },
    /// Credentials are configured, and the server did not ask for them.
    LoginNotAsked {
        /// Is the server.
        address: Address,
    },
    /// The server does not offer the compression that was asked for; the connection goes on without.
    CompressionNotOffered {
        /// Is the server.
        address: Address,
        /// Is the algorithm.
        compression: Compression,
    },
    /// The limit on orphans is not below the number of requests in flight and was lowered.
    OrphanLimitLowered {
        /// Is what was asked for.
        configured: u16,
        /// Is what holds.
        effective: u16,
    },
    /// A message of the handshake could not hold one of its options; it was left out.
    StartupOptionLeftOut {
        /// Is the option's key.
        key: &'static str,
        /// Is the length of its value in bytes.
        len: usize,
        /// Is how long it may be.
        len_max: usize,
    },
    /// The server is not shown how the session is configured, because the document could not be made.
    DriverConfigLeftOut(NotReported),
    /// The server refused the first message of a connection; it was told again without anything about the application,
    /// the session and the driver's configuration.
    StartupShortened {
        /// Is the server.
        address: Address,
        /// Is its answer.
        answer: String,
    },
    /// The server attached a warning to an answer of the driver's own.
    ServerWarning {
        /// Is the server.
        address: Address,
        /// Is its text.
        text: String,
    },
    /// A connection takes no more requests and closes after those in flight.
    Draining {
        /// Is the server.
        address: Address,
        /// Is why.
        error: ConnectionError,
    },
    /// An attempt to connect failed.
    ConnectFailed(Arc<ConnectError>),
    /// A host has no open connection, and the last attempt to get one failed.
    HostUnreachable(Arc<NodeFailure>),
    /// An open connection ended.
    ConnectionLost {
        /// Is the server.
        address: Address,
        /// Is why.
        error: ConnectionError,
    },
    /// A row of a system table was skipped.
    RowSkipped {
        /// Is the table.
        table: &'static str,
        /// Is what is wrong with the row.
        why: &'static str,
    },
    /// The name of a contact point could not be resolved.
    NameUnresolved {
        /// Is the name.
        name: Arc<str>,
        /// Is why.
        cause: NodeCause,
    },
    /// A read of the system tables failed; what was known before stays.
    ReadFailed {
        /// Is the server.
        address: Address,
        /// Is why.
        cause: NodeCause,
        /// Is how long it takes until the next try.
        retry_in: Duration,
    },
    /// Every candidate for the control connection was tried and failed.
    NoControlConnection {
        /// Lists the failures.
        failures: Vec<NodeFailure>,
        /// Is how long it takes until all are tried again.
        retry_in: Duration,
    },
    /// No host is in the configured local datacenter.
    LocalDatacenterMissing {
        /// Is its name.
        name: Arc<str>,
        /// Lists the datacenters there are.
        known: Vec<Arc<str>>,
    },
    /// No host is in a datacenter that requests may fail over to.
    RemoteDatacenterMissing {
        /// Is its name.
        name: Arc<str>,
        /// Lists the datacenters there are.
        known: Vec<Arc<str>>,
    },
    /// No host of the local datacenter is in the configured local rack.
    LocalRackMissing {
        /// Is its name.
        name: Arc<str>,
        /// Lists the racks there are.
        known: Vec<Arc<str>>,
    },
    /// A node that answers at a contact point, or at the address of a host, belongs to another cluster and is not used.
    OtherCluster {
        /// Is the server.
        address: Address,
        /// Is the name of its cluster.
        name: Arc<str>,
        /// Is the name of the session's cluster.
        expected: Arc<str>,
    },
    /// A server describes its shards in a way that makes no sense, or that is not known; it is used without them.
    ShardsUnreadable {
        /// Is the server.
        address: Address,
    },
    /// The source port of a connection did not lead to its shard, as behind a translation of addresses (NAT).
    ///
    /// Connections to this host are opened without chosen source ports for a while. The setting
    /// `pool.shard_aware_port` switches them off for good.
    SourcePortIgnored {
        /// Is the server.
        address: Address,
        /// Is the shard that was meant.
        wanted: Shard,
        /// Is the shard that was reached.
        reached: Shard,
        /// Is how long source ports are left alone.
        pause: Duration,
    },
    /// However many connections are opened, some shards of a host get none; their requests use the other shards.
    ShardsNotReached {
        /// Is the server.
        address: Address,
        /// Counts the shards without a connection.
        missing: usize,
        /// Counts the shards.
        shards: usize,
        /// Is how long it takes until the next try.
        retry_in: Duration,
    },
    /// A host has other shards than before.
    Resharded {
        /// Is the server.
        address: Address,
        /// Counts the shards before; none where the host had none.
        before: Option<NonZeroU16>,
        /// Counts the shards now.
        now: Option<NonZeroU16>,
    },
    /// A server announced new columns for a statement and did not send them. Its answers cannot be read until it does;
    /// further ones of this kind are not told.
    ColumnsContradicted {
        /// Is the text of the statement.
        text: Arc<str>,
    },
    /// The timestamps of writes run ahead of the clock: it was set back, or more than a million requests a second ask
    /// for them.
    TimestampsAhead {
        /// Is how far.
        ahead: Duration,
    },
    /// The cluster has more hosts than a session can hold.
    HostsRefused {
        /// Counts those that were left out.
        count: usize,
    },
}
