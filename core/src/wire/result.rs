//! The kinds of RESULT, and result metadata. Rows are not walked here: see [`crate::types::row`].

use std::sync::Arc;

use bytes::Bytes;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::types::column_type::{ColumnType, TYPE_DEPTH_MAX, UdtType};
use crate::types::custom_type;
use crate::wire::event::SchemaChange;
use crate::wire::read::{EMPTY_ITEMS_MAX, Reader};
use crate::wire::supported::ProtocolFeatures;

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

impl ResultBody {
    pub(crate) fn read(
        r: &mut Reader<'_>,
        features: &ProtocolFeatures,
        known: Option<&Arc<[ColumnSpec]>>,
    ) -> Result<Self, ProtocolError> {
        let at = r.offset();
        match r.int()? {
            KIND_VOID => Ok(Self::Void),
            KIND_ROWS => RowsBody::read(r, features, known).map(Self::Rows),
            KIND_SET_KEYSPACE => Ok(Self::SetKeyspace(r.string()?.to_owned())),
            KIND_PREPARED => PreparedBody::read(r, features).map(Self::Prepared),
            KIND_SCHEMA_CHANGE => SchemaChange::read(r).map(Self::SchemaChange),
            kind => Err(ProtocolError::new(
                ProtocolErrorKind::UnknownResultKind(kind),
                at,
            )),
        }
    }
}

impl RowsBody {
    fn read(
        r: &mut Reader<'_>,
        features: &ProtocolFeatures,
        known: Option<&Arc<[ColumnSpec]>>,
    ) -> Result<Self, ProtocolError> {
        let metadata = ResultMetadata::read(r, features, known)?;
        let row_len_min = metadata.column_count.saturating_mul(CELL_LEN_MIN);
        let row_count = r.int_count(row_len_min)?;
        Ok(Self {
            metadata,
            row_count,
            cells: r.shared_rest(),
        })
    }

    /// Walks all cells without looking into them, and says whether they are whole.
    pub fn check_cells(&self) -> Result<(), ProtocolError> {
        let mut r = Reader::of_bytes(&self.cells);
        for _ in 0..self.row_count {
            for _ in 0..self.metadata.column_count {
                r.bytes()?;
            }
        }
        Ok(())
    }
}

impl ResultMetadata {
    fn read(
        r: &mut Reader<'_>,
        features: &ProtocolFeatures,
        known: Option<&Arc<[ColumnSpec]>>,
    ) -> Result<Self, ProtocolError> {
        let at = r.offset();
        let flags = r.int()?.cast_unsigned();
        // Where ids were not agreed on, the bit has no meaning.
        let changed = features.has_metadata_id() && has(flags, METADATA_CHANGED);
        if has(flags, NO_METADATA) && changed {
            return Err(ProtocolError::new(
                ProtocolErrorKind::MetadataFlags(flags),
                at,
            ));
        }
        let column_count = read_column_count(r)?;
        let more_pages = has(flags, MORE_PAGES);
        let paging_state = if more_pages { r.shared_bytes()? } else { None };
        let new_metadata_id = if changed {
            Some(r.shared_short_bytes()?)
        } else {
            None
        };
        // Servers leave the mark of a global table on when there are no columns at all: test this one first.
        let columns = if has(flags, NO_METADATA) {
            None
        } else {
            let global = has(flags, GLOBAL_TABLE);
            Some(
                match known.and_then(|known| read_known(r, known, column_count, global)) {
                    Some(same) => same,
                    None => read_columns(r, column_count, global)?,
                },
            )
        };
        Ok(Self {
            column_count,
            columns,
            paging_state,
            more_pages,
            new_metadata_id,
        })
    }
}

impl PreparedBody {
    fn read(r: &mut Reader<'_>, features: &ProtocolFeatures) -> Result<Self, ProtocolError> {
        let id = r.shared_short_bytes()?;
        let result_metadata_id = if features.has_metadata_id() {
            Some(r.shared_short_bytes()?)
        } else {
            None
        };
        let flags = r.int()?.cast_unsigned();
        let column_count = read_column_count(r)?;
        let key_at = r.offset();
        let key_len = r.int_count(KEY_INDEX_LEN)?;
        let mut pk_indexes = Vec::with_capacity(key_len);
        for _ in 0..key_len {
            let index = r.short()?;
            if column_count <= usize::from(index) {
                let kind = ProtocolErrorKind::CountTooLarge {
                    count: index.into(),
                    left: column_count,
                };
                return Err(ProtocolError::new(kind, key_at));
            }
            pk_indexes.push(index);
        }
        let bind_columns = read_columns(r, column_count, has(flags, GLOBAL_TABLE))?;
        let conditional = features
            .lwt_mark_mask
            .is_some_and(|mask| mask != 0 && has(flags, mask));
        let result = ResultMetadata::read(r, features, None)?;
        Ok(Self {
            id,
            result_metadata_id,
            bind_columns,
            pk_indexes,
            conditional,
            result,
        })
    }
}

const fn has(flags: u32, mask: u32) -> bool {
    flags & mask == mask
}

fn read_column_count(r: &mut Reader<'_>) -> Result<usize, ProtocolError> {
    let at = r.offset();
    let count = r.int()?;
    match usize::try_from(count) {
        Ok(count) if count <= COLUMNS_MAX => Ok(count),
        Ok(count) => {
            let kind = ProtocolErrorKind::CountTooLarge {
                count,
                left: r.remaining(),
            };
            Err(ProtocolError::new(kind, at))
        }
        Err(_) => Err(ProtocolError::new(
            ProtocolErrorKind::NegativeCount(count),
            at,
        )),
    }
}

/// Says whether the next `[string]` is this one; bytes that are equal need no check for being text.
fn is_next(r: &mut Reader<'_>, text: &str) -> bool {
    r.short_bytes().is_ok_and(|bytes| bytes == text.as_bytes())
}

/// Reads columns that are most likely the known ones, and shares those: comparing costs no allocation. Where they
/// differ nothing is read.
fn read_known(
    r: &mut Reader<'_>,
    known: &Arc<[ColumnSpec]>,
    count: usize,
    global: bool,
) -> Option<Arc<[ColumnSpec]>> {
    let first = known.first().filter(|_| known.len() == count)?;
    let mut ahead = r.clone();
    let ahead = &mut ahead;
    let same_table = |r: &mut Reader<'_>, column: &ColumnSpec| {
        let keyspace = is_next(r, &column.keyspace);
        keyspace && is_next(r, &column.table)
    };
    if global && !same_table(ahead, first) {
        return None;
    }
    for column in known.iter() {
        let table = if global {
            column.keyspace == first.keyspace && column.table == first.table
        } else {
            same_table(ahead, column)
        };
        let same = table
            && is_next(ahead, &column.name)
            && read_type(ahead, TYPE_DEPTH_MAX).is_ok_and(|ty| ty == column.ty);
        if !same {
            return None;
        }
    }
    *r = ahead.clone();
    Some(Arc::clone(known))
}

fn read_columns(
    r: &mut Reader<'_>,
    count: usize,
    global: bool,
) -> Result<Arc<[ColumnSpec]>, ProtocolError> {
    let spec_len_min = if global {
        COLUMN_LEN_MIN
    } else {
        COLUMN_LEN_MIN + TABLE_LEN_MIN
    };
    if r.remaining() / spec_len_min < count {
        let kind = ProtocolErrorKind::CountTooLarge {
            count,
            left: r.remaining(),
        };
        return Err(r.error(kind));
    }
    // Without columns there is a table only where the mark says so; some servers leave out both.
    let mut table = if global && count != 0 {
        Some(read_table(r, None)?)
    } else {
        None
    };
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        if !global {
            table = Some(read_table(r, table)?);
        }
        let Some((keyspace, name)) = &table else {
            return Err(r.error(ProtocolErrorKind::Truncated {
                needed: TABLE_LEN_MIN,
                left: 0,
            }));
        };
        columns.push(ColumnSpec {
            keyspace: Arc::clone(keyspace),
            table: Arc::clone(name),
            name: Arc::from(r.string()?),
            ty: read_type(r, TYPE_DEPTH_MAX)?,
        });
    }
    Ok(Arc::from(columns))
}

/// A keyspace and a table in it.
type TableName = (Arc<str>, Arc<str>);

/// Reads the table of a column, and shares the names of the column before where they are the same.
fn read_table(r: &mut Reader<'_>, before: Option<TableName>) -> Result<TableName, ProtocolError> {
    let keyspace = r.string()?;
    let table = r.string()?;
    match before {
        Some(before) if *before.0 == *keyspace && *before.1 == *table => Ok(before),
        _ => Ok((Arc::from(keyspace), Arc::from(table))),
    }
}

/// Reads a type option, at most `depth` types deep.
pub(crate) fn read_type(r: &mut Reader<'_>, depth: usize) -> Result<ColumnType, ProtocolError> {
    let at = r.offset();
    let Some(depth) = depth.checked_sub(1) else {
        return Err(ProtocolError::new(ProtocolErrorKind::TypeTooDeep, at));
    };
    Ok(match r.short()? {
        TYPE_CUSTOM => {
            let name_at = r.offset() + 2;
            let name = r.string()?;
            custom_type::parse_nested(name, depth + 1).map_err(|error| ProtocolError {
                offset: name_at + error.offset,
                ..error
            })?
        }
        0x0001 => ColumnType::Ascii,
        0x0002 => ColumnType::BigInt,
        0x0003 => ColumnType::Blob,
        0x0004 => ColumnType::Boolean,
        0x0005 => ColumnType::Counter,
        0x0006 => ColumnType::Decimal,
        0x0007 => ColumnType::Double,
        0x0008 => ColumnType::Float,
        0x0009 => ColumnType::Int,
        0x000a | 0x000d => ColumnType::Text,
        0x000b => ColumnType::Timestamp,
        0x000c => ColumnType::Uuid,
        0x000e => ColumnType::Varint,
        0x000f => ColumnType::Timeuuid,
        0x0010 => ColumnType::Inet,
        0x0011 => ColumnType::Date,
        0x0012 => ColumnType::Time,
        0x0013 => ColumnType::SmallInt,
        0x0014 => ColumnType::TinyInt,
        0x0015 => ColumnType::Duration,
        TYPE_LIST => ColumnType::List(Arc::new(read_type(r, depth)?)),
        TYPE_MAP => {
            let key = read_type(r, depth)?;
            ColumnType::Map(Arc::new((key, read_type(r, depth)?)))
        }
        TYPE_SET => ColumnType::Set(Arc::new(read_type(r, depth)?)),
        TYPE_UDT => ColumnType::Udt(Arc::new(UdtType {
            keyspace: Arc::from(r.string()?),
            name: Arc::from(r.string()?),
            fields: r.list(COLUMN_LEN_MIN, |r| {
                Ok((Arc::from(r.string()?), read_type(r, depth)?))
            })?,
        })),
        TYPE_TUPLE => ColumnType::Tuple(Arc::from(r.list(TYPE_LEN_MIN, |r| read_type(r, depth))?)),
        id => return Err(ProtocolError::new(ProtocolErrorKind::UnknownType(id), at)),
    })
}

/// Returns the id of a type that is written as nothing but its id: the other direction of [`read_type`]'s table.
pub(crate) const fn simple_type_id(ty: &ColumnType) -> Option<u16> {
    Some(match ty {
        ColumnType::Ascii => 0x0001,
        ColumnType::BigInt => 0x0002,
        ColumnType::Blob => 0x0003,
        ColumnType::Boolean => 0x0004,
        ColumnType::Counter => 0x0005,
        ColumnType::Decimal => 0x0006,
        ColumnType::Double => 0x0007,
        ColumnType::Float => 0x0008,
        ColumnType::Int => 0x0009,
        ColumnType::Timestamp => 0x000b,
        ColumnType::Uuid => 0x000c,
        ColumnType::Text => 0x000d,
        ColumnType::Varint => 0x000e,
        ColumnType::Timeuuid => 0x000f,
        ColumnType::Inet => 0x0010,
        ColumnType::Date => 0x0011,
        ColumnType::Time => 0x0012,
        ColumnType::SmallInt => 0x0013,
        ColumnType::TinyInt => 0x0014,
        ColumnType::Duration => 0x0015,
        ColumnType::List(_)
        | ColumnType::Set(_)
        | ColumnType::Map(_)
        | ColumnType::Tuple(_)
        | ColumnType::Udt(_)
        | ColumnType::Vector { .. }
        | ColumnType::Custom(_) => return None,
    })
}

/// The class name of a custom type follows.
pub(crate) const TYPE_CUSTOM: u16 = 0x0000;
/// What collections hold follows their ids.
pub(crate) const TYPE_LIST: u16 = 0x0020;
pub(crate) const TYPE_MAP: u16 = 0x0021;
pub(crate) const TYPE_SET: u16 = 0x0022;
/// Names and fields follow.
pub(crate) const TYPE_UDT: u16 = 0x0030;
/// The list of component types follows.
pub(crate) const TYPE_TUPLE: u16 = 0x0031;

pub(crate) const KIND_VOID: i32 = 1;
pub(crate) const KIND_ROWS: i32 = 2;
pub(crate) const KIND_SET_KEYSPACE: i32 = 3;
pub(crate) const KIND_PREPARED: i32 = 4;
pub(crate) const KIND_SCHEMA_CHANGE: i32 = 5;

/// All columns are of one table, which is named once.
pub(crate) const GLOBAL_TABLE: u32 = 0x0001;
/// There is a next page, and here is where it starts.
pub(crate) const MORE_PAGES: u32 = 0x0002;
/// The columns are left out.
pub(crate) const NO_METADATA: u32 = 0x0004;
/// These are not the metadata the client knows; their id follows.
pub(crate) const METADATA_CHANGED: u32 = 0x0008;

/// How many columns a result can have: as many as there can be bind markers. More would only be a way to keep us
/// busy with a row of nothing.
const COLUMNS_MAX: usize = EMPTY_ITEMS_MAX;
/// The shortest cell: its length.
pub(crate) const CELL_LEN_MIN: usize = 4;
/// The shortest type: its id.
const TYPE_LEN_MIN: usize = 2;
/// The shortest column spec: an empty name and a type.
const COLUMN_LEN_MIN: usize = 2 + TYPE_LEN_MIN;
/// The shortest table: two empty names.
const TABLE_LEN_MIN: usize = 4;
/// An entry of the list of partition key indexes.
const KEY_INDEX_LEN: usize = 2;
