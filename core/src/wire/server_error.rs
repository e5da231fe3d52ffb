//! What a server answers when it cannot do what it was asked for. What the driver makes of it is decided in
//! [`crate::policy::retry`].

use std::net::IpAddr;

use bytes::Bytes;

use crate::wire::consistency::Consistency;

/// An ERROR: the server's answer no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The number of the error.
    pub code: i32,
    /// The server's own words.
    pub message: String,
    /// What kind of error it is, with the facts the server gave.
    pub detail: ServerErrorDetail,
}

/// The kinds of server errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerErrorDetail {
    /// Something went wrong inside of the server.
    ServerError,
    /// The server did not understand us.
    ProtocolError,
    /// The login failed.
    AuthenticationFailed,
    /// Not enough replicas are alive; nothing was tried.
    Unavailable {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas the level needs.
        required: i32,
        /// How many are alive.
        alive: i32,
    },
    /// The coordinator has too much to do.
    Overloaded,
    /// The coordinator is starting.
    IsBootstrapping,
    /// A TRUNCATE failed.
    TruncateError,
    /// Not enough replicas acknowledged a write in time.
    WriteTimeout {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas acknowledged.
        received: i32,
        /// How many had to.
        block_for: i32,
        /// Which write it was.
        write_type: WriteType,
        /// How often other writers came first (version 5, conditional writes).
        contentions: Option<u16>,
    },
    /// Not enough replicas answered a read in time.
    ReadTimeout {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas answered.
        received: i32,
        /// How many had to.
        block_for: i32,
        /// Whether the replica that was asked for the data, and not only for a digest, answered.
        data_present: bool,
    },
    /// Replicas failed during a read.
    ReadFailure {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas answered.
        received: i32,
        /// How many had to.
        block_for: i32,
        /// Which replicas failed.
        failures: ReplicaFailures,
        /// Whether the replica that was asked for the data, and not only for a digest, answered.
        data_present: bool,
    },
    /// A user-defined function failed.
    FunctionFailure {
        /// The keyspace of the function.
        keyspace: String,
        /// Its name.
        function: String,
        /// The types of its arguments.
        arg_types: Vec<String>,
    },
    /// Replicas failed during a write.
    WriteFailure {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas acknowledged.
        received: i32,
        /// How many had to.
        block_for: i32,
        /// Which replicas failed.
        failures: ReplicaFailures,
        /// Which write it was.
        write_type: WriteType,
    },
    /// A write to a log of changes failed.
    CdcWriteFailure,
    /// A conditional write may or may not have been applied.
    CasWriteUnknown {
        /// The level that was asked for.
        consistency: Consistency,
        /// How many replicas acknowledged.
        received: i32,
        /// How many had to.
        block_for: i32,
    },
    /// The text is not CQL.
    SyntaxError,
    /// The user may not do this.
    Unauthorized,
    /// The text is CQL but cannot be run.
    Invalid,
    /// The server's configuration forbids it.
    ConfigError,
    /// What was to be created is there already.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty when a keyspace was to be created.
        table: String,
    },
    /// The node does not know this prepared statement (any more).
    Unprepared {
        /// The id of the statement.
        id: Bytes,
    },
    /// The partition was used too often (ScyllaDB).
    RateLimit {
        /// What was refused.
        operation: OperationKind,
        /// Whether the coordinator refused it, and not the replicas.
        rejected_by_coordinator: bool,
    },
    /// An error that this driver does not know.
    Unknown,
}

/// Which replicas failed, as far as the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaFailures {
    /// How many.
    pub count: i32,
    /// Which, and why (version 5).
    pub reasons: Vec<(IpAddr, FailureReason)>,
}

/// Why a replica failed, by number; the list of numbers grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailureReason(pub u16);

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// Something else, by number.
    Other(u8),
}

/// Which part of a write did not come through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteType {
    /// A write to one partition.
    Simple,
    /// A logged batch; its log was written, so it will be applied.
    Batch,
    /// A batch without a log.
    UnloggedBatch,
    /// A counter update.
    Counter,
    /// The log of a batch; the batch was not applied.
    BatchLog,
    /// A conditional write.
    Cas,
    /// An update of a view.
    View,
    /// A log of changes.
    Cdc,
    /// Another type, as the server names it.
    Other(String),
}
