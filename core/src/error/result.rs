//! Errors of reading a result: it is not of the expected kind, not of the expected size, or its rows do not fit.
//!
//! This module leaves out errors of getting the result (`error::request`).

use thiserror::Error;
use uuid::Uuid;

use crate::error::protocol::ProtocolError;
use crate::error::request::ErrorCategory;
use crate::error::value::{DecodeError, TypeError};

/// Says why a result could not be read as the caller asked.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The bytes of the result break the protocol.
    #[error("the result breaks the protocol")]
    Protocol(#[source] ProtocolError),
    /// Rows came without columns, and the request had announced none.
    #[error("the server sent rows without their columns although it was not told to")]
    NoColumns,
    /// Rows came without columns and with another number of cells than the columns announced.
    #[error("the rows have {cells} cells where the statement has {columns} columns")]
    ColumnCount {
        /// How many columns the statement has.
        columns: usize,
        /// How many cells a row has.
        cells: usize,
    },
    /// The answer is not a result that a request of this kind can have.
    #[error("the server's answer is not the result of a statement")]
    NotAResult,
    /// The statement returned no rows at all, not even none.
    #[error("the statement returns no rows")]
    NotRows,
    /// The Rust type does not fit the columns.
    #[error("the row type does not fit the columns")]
    Type(#[source] TypeError),
    /// A value does not fit its Rust type.
    #[error("a value cannot be read")]
    Decode(#[source] DecodeError),
    /// One row was asked for, and there is none.
    #[error("the result has no row where one was expected")]
    NoRow,
    /// One row was asked for, and there are more.
    #[error("the result has {rows} rows where one was expected")]
    ManyRows {
        /// How many rows the page has.
        rows: usize,
    },
    /// All rows were asked for, and the page is not the last one.
    #[error("the result has further pages where one was expected")]
    MorePages,
    /// A page says that there are more and not where they start.
    #[error("the server announces a further page without saying where it starts")]
    NoPagingState,
    /// A page after the first brought no rows.
    #[error("the server answered a request for a further page with something other than rows")]
    PageNotRows,
    /// The server had not finished recording a trace when the time to wait for it was over.
    #[error("trace {id} is not ready yet")]
    TraceNotReady {
        /// The id of the trace.
        id: Uuid,
    },
    /// The `[applied]` column of a conditional statement is missing or no boolean.
    #[error("the result does not say whether the statement was applied")]
    NotConditional,
}

impl ResultError {
    /// Returns whose error it is.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Protocol(_)
            | Self::NoColumns
            | Self::ColumnCount { .. }
            | Self::NotAResult
            | Self::NoPagingState
            | Self::PageNotRows => ErrorCategory::Protocol,
            Self::TraceNotReady { .. } => ErrorCategory::Environment,
            Self::NotRows
            | Self::Type(_)
            | Self::Decode(_)
            | Self::NoRow
            | Self::ManyRows { .. }
            | Self::MorePages
            | Self::NotConditional => ErrorCategory::Caller,
        }
    }
}
