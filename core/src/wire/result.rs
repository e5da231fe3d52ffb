//! The kinds of RESULT, and result metadata. Rows are not walked here: see [`crate::types::row`].

use std::sync::Arc;

use bytes::Bytes;

use crate::types::column_type::ColumnType;
use crate::wire::event::SchemaChange;

/// The body of a RESULT.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultBody {
    /// Done, nothing to show.
    Void,
    /// Rows.
    Rows(RowsBody),
    /// The connection's keyspace is now this one.
    SetKeyspace(String),
    /// A statement was prepared.
    Prepared(PreparedBody),
    /// The schema was changed.
    SchemaChange(SchemaChange),
}

/// One page of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsBody {
    /// What the rows look like.
    pub metadata: ResultMetadata,
    /// How many rows there are; the cells are long enough for as many.
    pub row_count: usize,
    /// Everything from the first cell to the end of the body, not walked yet.
    pub cells: Bytes,
}

/// What rows look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultMetadata {
    /// How many cells each row has.
    pub column_count: usize,
    /// The columns; none when they were left out on request.
    pub columns: Option<Arc<[ColumnSpec]>>,
    /// Where the next page starts.
    pub paging_state: Option<Bytes>,
    /// Whether there is a next page.
    pub more_pages: bool,
    /// The id of these metadata, when they are not those the client knows.
    pub new_metadata_id: Option<Bytes>,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedBody {
    /// The id to execute it by.
    pub id: Bytes,
    /// The id of the result's metadata.
    pub result_metadata_id: Option<Bytes>,
    /// The bind markers.
    pub bind_columns: Arc<[ColumnSpec]>,
    /// For each column of the partition key, the bind marker that gives it; each is in range. Empty: the statement
    /// does not bind the whole key.
    pub pk_indexes: Vec<u16>,
    /// Whether the statement is a conditional one, by the agreed mark.
    pub conditional: bool,
    /// What the result looks like.
    pub result: ResultMetadata,
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of the table.
    pub keyspace: Arc<str>,
    /// The table.
    pub table: Arc<str>,
    /// The name of the column or marker.
    pub name: Arc<str>,
    /// Its type.
    pub ty: ColumnType,
}
