//! What a server answers when it cannot do what it was asked for. What the driver makes of it is decided in
//! [`crate::policy::retry`].

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;

use crate::error::protocol::ProtocolError;
use crate::wire::consistency::Consistency;
use crate::wire::read::Reader;
use crate::wire::supported::ProtocolFeatures;

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

impl ServerError {
    /// Reads the body of an ERROR. `version` is that of the frame, which may differ from the one that was asked for.
    pub(crate) fn read(
        r: &mut Reader<'_>,
        version: u8,
        features: &ProtocolFeatures,
    ) -> Result<Self, ProtocolError> {
        let code = r.int()?;
        let message = r.lossy_string()?;
        let detail = if features.rate_limit_error == Some(code) {
            ServerErrorDetail::read_rate_limit(r)?
        } else {
            ServerErrorDetail::read(r, code, version)?
        };
        Ok(Self {
            code,
            message,
            detail,
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "server error 0x{:04x} ({}): {}",
            self.code,
            self.detail.name(),
            self.message
        )
    }
}

impl std::error::Error for ServerError {}

impl ServerErrorDetail {
    fn read(r: &mut Reader<'_>, code: i32, version: u8) -> Result<Self, ProtocolError> {
        Ok(match code {
            code::SERVER_ERROR => Self::ServerError,
            code::PROTOCOL_ERROR => Self::ProtocolError,
            code::AUTHENTICATION_FAILED => Self::AuthenticationFailed,
            code::UNAVAILABLE => Self::Unavailable {
                consistency: r.consistency()?,
                required: r.int()?,
                alive: r.int()?,
            },
            code::OVERLOADED => Self::Overloaded,
            code::IS_BOOTSTRAPPING => Self::IsBootstrapping,
            code::TRUNCATE_ERROR => Self::TruncateError,
            code::WRITE_TIMEOUT => Self::read_write_timeout(r, version)?,
            code::READ_TIMEOUT => Self::ReadTimeout {
                consistency: r.consistency()?,
                received: r.int()?,
                block_for: r.int()?,
                data_present: r.byte()? != 0,
            },
            code::READ_FAILURE => Self::ReadFailure {
                consistency: r.consistency()?,
                received: r.int()?,
                block_for: r.int()?,
                failures: ReplicaFailures::read(r, version)?,
                data_present: r.byte()? != 0,
            },
            code::FUNCTION_FAILURE => Self::FunctionFailure {
                keyspace: r.string()?.to_owned(),
                function: r.string()?.to_owned(),
                arg_types: r.string_list()?,
            },
            code::WRITE_FAILURE => Self::WriteFailure {
                consistency: r.consistency()?,
                received: r.int()?,
                block_for: r.int()?,
                failures: ReplicaFailures::read(r, version)?,
                write_type: WriteType::from_name(r.string()?),
            },
            code::CDC_WRITE_FAILURE => Self::CdcWriteFailure,
            code::CAS_WRITE_UNKNOWN => Self::CasWriteUnknown {
                consistency: r.consistency()?,
                received: r.int()?,
                block_for: r.int()?,
            },
            code::SYNTAX_ERROR => Self::SyntaxError,
            code::UNAUTHORIZED => Self::Unauthorized,
            code::INVALID => Self::Invalid,
            code::CONFIG_ERROR => Self::ConfigError,
            code::ALREADY_EXISTS => Self::AlreadyExists {
                keyspace: r.string()?.to_owned(),
                table: r.string()?.to_owned(),
            },
            code::UNPREPARED => Self::Unprepared {
                id: r.shared_short_bytes()?,
            },
            _ => Self::Unknown,
        })
    }

    fn read_write_timeout(r: &mut Reader<'_>, version: u8) -> Result<Self, ProtocolError> {
        let consistency = r.consistency()?;
        let received = r.int()?;
        let block_for = r.int()?;
        let write_type = WriteType::from_name(r.string()?);
        // Servers before this field was added say the rest just the same.
        let counted = REASONS_SINCE <= version && write_type == WriteType::Cas;
        let contentions = if counted { r.short().ok() } else { None };
        Ok(Self::WriteTimeout {
            consistency,
            received,
            block_for,
            write_type,
            contentions,
        })
    }

    fn read_rate_limit(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self::RateLimit {
            operation: match r.byte()? {
                0 => OperationKind::Read,
                1 => OperationKind::Write,
                other => OperationKind::Other(other),
            },
            rejected_by_coordinator: r.byte()? != 0,
        })
    }

    /// A few words that name the kind of error.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ServerError => "server error",
            Self::ProtocolError => "protocol error",
            Self::AuthenticationFailed => "authentication failed",
            Self::Unavailable { .. } => "unavailable",
            Self::Overloaded => "overloaded",
            Self::IsBootstrapping => "is bootstrapping",
            Self::TruncateError => "truncate error",
            Self::WriteTimeout { .. } => "write timeout",
            Self::ReadTimeout { .. } => "read timeout",
            Self::ReadFailure { .. } => "read failure",
            Self::FunctionFailure { .. } => "function failure",
            Self::WriteFailure { .. } => "write failure",
            Self::CdcWriteFailure => "cdc write failure",
            Self::CasWriteUnknown { .. } => "cas write unknown",
            Self::SyntaxError => "syntax error",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::ConfigError => "config error",
            Self::AlreadyExists { .. } => "already exists",
            Self::Unprepared { .. } => "unprepared",
            Self::RateLimit { .. } => "rate limit",
            Self::Unknown => "unknown code",
        }
    }
}

impl ReplicaFailures {
    fn read(r: &mut Reader<'_>, version: u8) -> Result<Self, ProtocolError> {
        if version < REASONS_SINCE {
            return Ok(Self {
                count: r.int()?,
                reasons: Vec::new(),
            });
        }
        let count = r.int_count(REASON_LEN_MIN)?;
        let mut reasons = Vec::with_capacity(count);
        for _ in 0..count {
            reasons.push((r.inet_addr()?, FailureReason(r.short()?)));
        }
        Ok(Self {
            count: i32::try_from(count).unwrap_or(i32::MAX),
            reasons,
        })
    }
}

impl WriteType {
    /// The type with this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "SIMPLE" => Self::Simple,
            "BATCH" => Self::Batch,
            "UNLOGGED_BATCH" => Self::UnloggedBatch,
            "COUNTER" => Self::Counter,
            "BATCH_LOG" => Self::BatchLog,
            "CAS" => Self::Cas,
            "VIEW" => Self::View,
            "CDC" => Self::Cdc,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
            Self::View => "VIEW",
            Self::Cdc => "CDC",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for WriteType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The numbers of server errors.
pub mod code {
    /// Something went wrong inside of the server.
    pub const SERVER_ERROR: i32 = 0x0000;
    /// The server did not understand the request.
    pub const PROTOCOL_ERROR: i32 = 0x000a;
    /// The login failed.
    pub const AUTHENTICATION_FAILED: i32 = 0x0100;
    /// Not enough replicas are alive.
    pub const UNAVAILABLE: i32 = 0x1000;
    /// The coordinator has too much to do.
    pub const OVERLOADED: i32 = 0x1001;
    /// The coordinator is starting.
    pub const IS_BOOTSTRAPPING: i32 = 0x1002;
    /// A TRUNCATE failed.
    pub const TRUNCATE_ERROR: i32 = 0x1003;
    /// A write took too long.
    pub const WRITE_TIMEOUT: i32 = 0x1100;
    /// A read took too long.
    pub const READ_TIMEOUT: i32 = 0x1200;
    /// Replicas failed during a read.
    pub const READ_FAILURE: i32 = 0x1300;
    /// A user-defined function failed.
    pub const FUNCTION_FAILURE: i32 = 0x1400;
    /// Replicas failed during a write.
    pub const WRITE_FAILURE: i32 = 0x1500;
    /// A write to a log of changes failed.
    pub const CDC_WRITE_FAILURE: i32 = 0x1600;
    /// A conditional write may or may not have been applied.
    pub const CAS_WRITE_UNKNOWN: i32 = 0x1700;
    /// The text is not CQL.
    pub const SYNTAX_ERROR: i32 = 0x2000;
    /// The user may not do this.
    pub const UNAUTHORIZED: i32 = 0x2100;
    /// The text cannot be run.
    pub const INVALID: i32 = 0x2200;
    /// The configuration forbids it.
    pub const CONFIG_ERROR: i32 = 0x2300;
    /// What was to be created is there already.
    pub const ALREADY_EXISTS: i32 = 0x2400;
    /// The node does not know the prepared statement.
    pub const UNPREPARED: i32 = 0x2500;
}

/// The first version that names the replicas that failed and counts contentions.
pub(crate) const REASONS_SINCE: u8 = 5;
/// The shortest entry of the list of failed replicas: a length, an IPv4 address, a reason.
const REASON_LEN_MIN: usize = 7;
