//! Rows whose columns the client knows: told by comparing bytes, without reading what they say.
//! Leaves out everything unusual, which is read from the start by `result`.

use std::sync::Arc;

use bytes::Bytes;

use crate::types::column_type::ColumnType;
use crate::wire::result::{
    CELL_LEN_MIN, ColumnSpec, GLOBAL_TABLE, KIND_ROWS, NO_METADATA, TYPE_LIST, TYPE_MAP, TYPE_SET,
    simple_type_id,
};

/// Keeps columns with the bytes that a server describes them by.
#[derive(Clone, Debug)]
pub(crate) struct KnownColumns {
    count: u32,
    encoded: Box<[u8]>,
}

/// Says where the cells of plain rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainRows {
    pub(crate) row_count: usize,
    pub(crate) cells_at: usize,
}

/// Kind, flags and count of columns.
const HEAD: usize = 12;

impl KnownColumns {
    /// Writes columns of one table as servers do; none where they are of several, or of types that are written in more
    /// than one way.
    pub(crate) fn new(columns: &[ColumnSpec]) -> Option<Self> {
        let first = columns.first()?;
        let mut encoded = Vec::new();
        put_string(&mut encoded, &first.keyspace)?;
        put_string(&mut encoded, &first.table)?;
        for column in columns {
            if column.keyspace != first.keyspace || column.table != first.table {
                return None;
            }
            put_string(&mut encoded, &column.name)?;
            put_type(&mut encoded, &column.ty)?;
        }
        Some(Self {
            count: u32::try_from(columns.len()).ok()?,
            encoded: encoded.into(),
        })
    }

    /// Recognises the body of a RESULT with rows of these columns, named or left out, and with nothing else to it: no
    /// further page, no news of the columns.
    #[inline]
    pub(crate) fn rows(&self, body: &Bytes) -> Option<PlainRows> {
        let (kind, rest) = body.split_first_chunk::<4>()?;
        let (flags, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        if i32::from_be_bytes(*kind) != KIND_ROWS || u32::from_be_bytes(*count) != self.count {
            return None;
        }
        let named = match u32::from_be_bytes(*flags) {
            GLOBAL_TABLE if rest.starts_with(&self.encoded) => self.encoded.len(),
            NO_METADATA => 0,
            _ => return None,
        };
        let (rows, cells) = rest.get(named..)?.split_first_chunk::<4>()?;
        let row_count = usize::try_from(i32::from_be_bytes(*rows)).ok()?;
        let columns = usize::try_from(self.count).ok()?;
        let least = columns.checked_mul(CELL_LEN_MIN)?.checked_mul(row_count)?;
        (least <= cells.len()).then_some(PlainRows {
            row_count,
            cells_at: HEAD + named + 4,
        })
    }
}

fn put_string(out: &mut Vec<u8>, text: &Arc<str>) -> Option<()> {
    out.extend_from_slice(&u16::try_from(text.len()).ok()?.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn put_type(out: &mut Vec<u8>, ty: &ColumnType) -> Option<()> {
    match ty {
        ColumnType::List(element) => put_nested(out, TYPE_LIST, &[element]),
        ColumnType::Map(entry) => put_nested(out, TYPE_MAP, &[&entry.0, &entry.1]),
        ColumnType::Set(element) => put_nested(out, TYPE_SET, &[element]),
        _ => put_nested(out, simple_type_id(ty)?, &[]),
    }
}

fn put_nested(out: &mut Vec<u8>, id: u16, parts: &[&ColumnType]) -> Option<()> {
    out.extend_from_slice(&id.to_be_bytes());
    parts.iter().try_for_each(|part| put_type(out, part))
}

#[cfg(test)]
mod tests;
