//! The errors a node answers with, before they are put on the wire.

use bytes::Bytes;

/// Why a statement was refused, with the code and the text that ScyllaDB uses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CqlError {
    /// The error code of the protocol.
    pub code: i32,
    /// The text for people.
    pub message: String,
    /// What else the error carries, by its code.
    pub detail: CqlErrorDetail,
}

/// The extra fields of a [`CqlError`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CqlErrorDetail {
    /// Nothing but code and text.
    #[default]
    None,
    /// What exists already; the table is empty when it is a keyspace.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, or nothing.
        table: String,
    },
    /// The prepared statement that this node does not know.
    Unprepared(Bytes),
    /// Too few replicas are up.
    Unavailable {
        /// The consistency level by its number on the wire.
        consistency: u16,
        /// How many replicas are needed.
        required: i32,
        /// How many are up.
        alive: i32,
    },
    /// The time that a read had was over.
    ReadTimeout {
        /// The consistency level by its number on the wire.
        consistency: u16,
        /// How many replicas were needed; none answered.
        required: i32,
    },
    /// The time that a write had was over.
    WriteTimeout {
        /// The consistency level by its number on the wire.
        consistency: u16,
        /// How many replicas were needed; none answered.
        required: i32,
        /// The kind of write.
        write_type: &'static str,
    },
    /// A partition was used too often; the code is the one that SUPPORTED offers.
    RateLimit {
        /// Whether it was written, and not read.
        is_write: bool,
        /// Whether the coordinator refused, and not the replicas.
        by_coordinator: bool,
    },
}

impl CqlError {
    /// The code of errors inside the server.
    pub const SERVER: i32 = 0x0000;
    /// The code of violations of the protocol.
    pub const PROTOCOL: i32 = 0x000A;
    /// The code of failed logins.
    pub const BAD_CREDENTIALS: i32 = 0x0100;
    /// The code of too few live replicas.
    pub const UNAVAILABLE: i32 = 0x1000;
    /// The code of tables that could not be emptied.
    pub const TRUNCATE: i32 = 0x1003;
    /// The code of writes whose time was over.
    pub const WRITE_TIMEOUT: i32 = 0x1100;
    /// The code of reads whose time was over.
    pub const READ_TIMEOUT: i32 = 0x1200;
    /// The code of texts that are not CQL.
    pub const SYNTAX: i32 = 0x2000;
    /// The code of statements that this user may not run.
    pub const UNAUTHORIZED: i32 = 0x2100;
    /// The code of statements that make no sense here.
    pub const INVALID: i32 = 0x2200;
    /// The code of refused configurations.
    pub const CONFIG: i32 = 0x2300;
    /// The code of things that exist already.
    pub const ALREADY_EXISTS: i32 = 0x2400;
    /// The code of unknown prepared statements.
    pub const UNPREPARED: i32 = 0x2500;

    /// An error without extra fields.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: CqlErrorDetail::None,
        }
    }

    /// A statement that makes no sense here.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID, message)
    }

    /// A text that is not CQL.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(Self::SYNTAX, message)
    }

    /// A violation of the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(Self::PROTOCOL, message)
    }

    /// The refusal to create a table or type that exists.
    #[must_use]
    pub fn table_exists(keyspace: &str, table: &str) -> Self {
        Self {
            code: Self::ALREADY_EXISTS,
            message: format!(
                "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
            ),
            detail: CqlErrorDetail::AlreadyExists {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
            },
        }
    }

    /// The refusal to create a keyspace that exists.
    #[must_use]
    pub fn keyspace_exists(keyspace: &str) -> Self {
        Self {
            code: Self::ALREADY_EXISTS,
            message: format!("Cannot add existing keyspace \"{keyspace}\""),
            detail: CqlErrorDetail::AlreadyExists {
                keyspace: keyspace.to_owned(),
                table: String::new(),
            },
        }
    }

    /// The answer to an unknown prepared id.
    #[must_use]
    pub fn unprepared(id: Bytes) -> Self {
        use std::fmt::Write;
        let mut hex = String::with_capacity(id.len() * 2);
        for byte in &id {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self {
            code: Self::UNPREPARED,
            message: format!("No prepared statement with ID {hex} found."),
            detail: CqlErrorDetail::Unprepared(id),
        }
    }
}
