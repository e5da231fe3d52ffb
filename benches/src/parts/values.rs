//! Values bound into frames and rows read out of them.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::routing::{Partitioner, Token, TokenHasher};
use messina_core::types::column_type::ColumnType;
use messina_core::types::{ColumnSpec, EncodedValues, RowWriter, Rows, ToRow};
use messina_core::wire::ValuesRef;

use super::connection::NOWHERE;
use crate::BenchError;
use crate::client::{Borrowed, Owned};
use crate::peer::wide_cells;
use crate::workload::{BLOB, PAGE_ROWS, TEXT};

/// The values of the insert, bound again and again into the same room.
#[derive(Debug)]
pub struct Insert {
    columns: Vec<ColumnSpec>,
    room: EncodedValues,
}

impl Insert {
    /// Knows the columns.
    pub fn new() -> Self {
        let columns = [
            ("pk", ColumnType::BigInt),
            ("v", ColumnType::Text),
            ("data", ColumnType::Blob),
        ];
        Self {
            columns: columns.map(|(name, ty)| column(name, ty)).into(),
            room: EncodedValues::new(),
        }
    }

    /// Binds the values for a key and hashes it.
    ///
    /// # Errors
    ///
    /// The values do not fit the columns.
    pub fn bind(&mut self, key: i64) -> Result<(ValuesRef<'_>, Token), BenchError> {
        self.room.clear();
        let values = (key, TEXT, &BLOB[..]);
        values.to_row(&self.columns, &mut RowWriter::new(&mut self.room))?;
        let mut hasher = TokenHasher::new(Partitioner::Murmur3, 1);
        hasher.part(self.room.value_at(0).unwrap_or_default())?;
        let token = hasher.finish().unwrap_or(NOWHERE);
        Ok((self.room.values(), token))
    }
}

impl Default for Insert {
    fn default() -> Self {
        Self::new()
    }
}

/// A page of wide rows, as it lies in an answer.
#[derive(Debug)]
pub struct Page {
    columns: Arc<[ColumnSpec]>,
    cells: Bytes,
}

impl Page {
    /// Makes the page.
    pub fn new() -> Self {
        let types = [
            ColumnType::Int,
            ColumnType::Text,
            ColumnType::Blob,
            ColumnType::BigInt,
            ColumnType::Double,
            ColumnType::Uuid,
            ColumnType::Timestamp,
            ColumnType::Boolean,
            ColumnType::Text,
            ColumnType::Int,
        ];
        let columns = types
            .into_iter()
            .enumerate()
            .map(|(at, ty)| column(&format!("c{at}"), ty));
        let mut cells = Vec::new();
        (0..PAGE_ROWS).for_each(|_| wide_cells(&mut cells));
        Self {
            columns: columns.collect(),
            cells: Bytes::from(cells),
        }
    }

    /// Reads every row into a struct that borrows.
    ///
    /// # Errors
    ///
    /// A row cannot be read.
    pub fn borrowed(&self) -> Result<(), BenchError> {
        for row in Rows::<Borrowed<'_>>::new(&self.columns, PAGE_ROWS, &self.cells)? {
            black_box(row?);
        }
        Ok(())
    }

    /// Reads every row into a struct of its own.
    ///
    /// # Errors
    ///
    /// A row cannot be read.
    pub fn owned(&self) -> Result<(), BenchError> {
        for row in Rows::<Owned>::new(&self.columns, PAGE_ROWS, &self.cells)? {
            black_box(row?);
        }
        Ok(())
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

fn column(name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "bench".into(),
        table: "kv".into(),
        name: name.into(),
        ty,
    }
}
