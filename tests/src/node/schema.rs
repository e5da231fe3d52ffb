//! The schema of the cluster: keyspaces, tables, types, indexes, and the version they have together. How statements
//! change it is in `schema::ddl`.

pub(crate) mod ddl;
mod options;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use messina_core::types::column_type::ColumnType;
use messina_core::wire::event::SchemaChange;
use messina_core::wire::result::ColumnSpec;
use uuid::Uuid;

use super::CqlError;
use super::cql::ast::{Direction, TableName};
use super::cql::types::{CqlType, UserTypes};

pub(crate) use options::TableOptions;

/// All keyspaces.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) keyspaces: BTreeMap<String, Keyspace>,
    /// The same on all nodes; changes with every statement that changes anything.
    pub(crate) version: Uuid,
    changes: u64,
}

/// One keyspace.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    pub(crate) name: Arc<str>,
    /// The class first, with its full name, then the options.
    pub(crate) replication: Vec<(String, String)>,
    pub(crate) durable_writes: bool,
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) types: UserTypes,
    /// Belongs to the server and cannot be changed.
    pub(crate) is_system: bool,
}

/// One table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) id: Uuid,
    pub(crate) keyspace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Partition key, clustering key, then static and regular columns by name.
    pub(crate) columns: Vec<Column>,
    pub(crate) options: TableOptions,
    /// Indexes by name, with what they index.
    pub(crate) indexes: BTreeMap<String, String>,
    /// Changes with the table.
    pub(crate) version: Uuid,
    /// Made up when it is read.
    pub(crate) is_virtual: bool,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: Arc<str>,
    pub(crate) cql_type: CqlType,
    pub(crate) ty: ColumnType,
    pub(crate) kind: ColumnKind,
}

/// What a column is for. The order is the one of `SELECT *`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    PartitionKey,
    Clustering(Direction),
    Static,
    Regular,
}

/// What a statement did to the schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaEffect {
    /// What its result says; nothing is void.
    pub(crate) result: Option<SchemaChange>,
    /// What is announced, in order; nothing when nothing changed.
    pub(crate) events: Vec<SchemaChange>,
    /// Tables that are gone, whose data must go too.
    pub(crate) dropped_tables: Vec<Uuid>,
    /// Columns that are gone, by table.
    pub(crate) dropped_columns: Vec<(Uuid, Vec<String>)>,
    /// Tables whose prepared statements must be forgotten; without a name, those of the keyspace.
    pub(crate) stale: Vec<(String, Option<String>)>,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self {
            keyspaces: BTreeMap::new(),
            version: version_uuid(0),
            changes: 0,
        }
    }

    /// Every change of the schema has a version of its own, made without a clock.
    fn touch(&mut self) {
        self.changes += 1;
        self.version = version_uuid(self.changes);
    }

    /// The keyspace of a statement: the one it names, or the one in use.
    pub(crate) fn keyspace_of<'a>(
        written: Option<&'a str>,
        in_use: Option<&'a str>,
    ) -> Result<&'a str, CqlError> {
        written.or(in_use).ok_or_else(|| {
            CqlError::invalid(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
            )
        })
    }

    pub(crate) fn keyspace(&self, name: &str) -> Result<&Keyspace, CqlError> {
        self.keyspaces
            .get(name)
            .ok_or_else(|| CqlError::invalid(format!("Keyspace {name} does not exist")))
    }

    pub(crate) fn table(
        &self,
        name: &TableName,
        in_use: Option<&str>,
    ) -> Result<&Arc<Table>, CqlError> {
        let keyspace = Self::keyspace_of(name.keyspace.as_deref(), in_use)?;
        self.keyspace(keyspace)?
            .tables
            .get(&name.name)
            .ok_or_else(|| CqlError::invalid(format!("unconfigured table {}", name.name)))
    }
}

/// A version-1 UUID from a counter.
fn version_uuid(count: u64) -> Uuid {
    let [_, _, _, _, a, b, c, d] = count.to_be_bytes();
    let low = u32::from_be_bytes([a, b, c, d]);
    Uuid::from_fields(
        low,
        0x5c4e,
        0x11f0,
        &[0x8a, 0x5c, 0x02, 0x42, 0xac, 0x11, 0x00, 0x02],
    )
}

impl Table {
    pub(crate) fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns
            .iter()
            .enumerate()
            .find(|(_, column)| &*column.name == name)
    }

    pub(crate) fn partition_key(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| column.kind == ColumnKind::PartitionKey)
    }

    pub(crate) fn clustering_key(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| column.kind.is_clustering())
    }

    pub(crate) fn partition_key_len(&self) -> usize {
        self.partition_key().count()
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.columns
            .iter()
            .any(|column| column.ty == ColumnType::Counter)
    }

    pub(crate) fn spec(&self, name: &str, ty: &ColumnType) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.keyspace.clone(),
            table: self.name.clone(),
            name: name.into(),
            ty: ty.clone(),
        }
    }

    pub(crate) fn column_spec(&self, column: &Column) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.keyspace.clone(),
            table: self.name.clone(),
            name: column.name.clone(),
            ty: column.ty.clone(),
        }
    }

    /// Puts static and regular columns into the order of `SELECT *`.
    fn sort_columns(&mut self) {
        self.columns.sort_by(|a, b| {
            let rank = |column: &Column| column.kind.rank();
            rank(a).cmp(&rank(b)).then_with(|| match a.kind {
                ColumnKind::Static | ColumnKind::Regular => a.name.cmp(&b.name),
                _ => std::cmp::Ordering::Equal,
            })
        });
    }
}

impl ColumnKind {
    pub(crate) fn is_key(self) -> bool {
        matches!(self, Self::PartitionKey | Self::Clustering(_))
    }

    pub(crate) fn is_clustering(self) -> bool {
        matches!(self, Self::Clustering(_))
    }

    fn rank(self) -> u8 {
        match self {
            Self::PartitionKey => 0,
            Self::Clustering(_) => 1,
            Self::Static => 2,
            Self::Regular => 3,
        }
    }
}

#[cfg(test)]
mod tests;
