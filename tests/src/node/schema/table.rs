//! CREATE, ALTER and DROP of tables and indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use messina_core::types::column_type::ColumnType;
use messina_core::wire::event::SchemaChangeKind;
use uuid::Uuid;

use super::super::CqlError;
use super::super::cql::ast::{ColumnDefinition, CreateTable, Direction, TableChange, TableName};
use super::super::cql::types::CqlType;
use super::ddl::{check_name, table_change};
use super::{Column, ColumnKind, Keyspace, Schema, SchemaEffect, Table, TableOptions};

impl Schema {
    pub(super) fn create_table(
        &mut self,
        create: &CreateTable,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(create.table.keyspace.as_deref(), in_use)?.to_owned();
        if !self.keyspaces.contains_key(&keyspace_name) {
            return Err(CqlError::invalid(format!(
                "Cannot create a table in a non-existent keyspace: {keyspace_name}"
            )));
        }
        let id = self.next_id();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let name = &create.table.name;
        let change = table_change(SchemaChangeKind::Created, &keyspace_name, name);
        if keyspace.tables.contains_key(name) {
            return if create.if_not_exists {
                Ok(SchemaEffect::silent(change))
            } else {
                Err(CqlError::table_exists(&keyspace_name, name))
            };
        }
        check_name("Table", name)?;
        let table = keyspace.new_table(create, id)?;
        keyspace.tables.insert(name.clone(), Arc::new(table));
        Ok(SchemaEffect::announced(change))
    }

    /// Ids of tables and of their versions, made without a clock.
    fn next_id(&self) -> Uuid {
        let [_, _, _, _, a, b, c, d] = (self.changes + 1).to_be_bytes();
        let low = u32::from_be_bytes([a, b, c, d]);
        Uuid::from_fields(
            low,
            0x7ab1,
            0x11f0,
            &[0x9a, 0x11, 0x02, 0x42, 0xac, 0x11, 0x00, 0x02],
        )
    }

    pub(super) fn alter_table(
        &mut self,
        name: &TableName,
        if_exists: bool,
        change: &TableChange,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        let version = self.next_id();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let Some(table) = keyspace.tables.get(&name.name) else {
            return if if_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(unconfigured(name))
            };
        };
        let mut table = Table::clone(table);
        table.version = version;
        let mut effect = SchemaEffect::announced(table_change(
            SchemaChangeKind::Updated,
            &keyspace_name,
            &name.name,
        ));
        match change {
            TableChange::Add(columns) => {
                for column in columns {
                    keyspace.add_column(&mut table, column)?;
                }
            }
            TableChange::Drop(columns) => {
                for column in columns {
                    table.drop_column(column)?;
                }
                effect.dropped_columns.push((table.id, columns.clone()));
            }
            TableChange::Rename(renames) => {
                for (from, to) in renames {
                    table.rename_column(from, to)?;
                }
            }
            TableChange::Properties(properties) => table.options.apply(properties)?,
        }
        table.sort_columns();
        keyspace.tables.insert(name.name.clone(), Arc::new(table));
        effect.stale.push((keyspace_name, Some(name.name.clone())));
        Ok(effect)
    }

    pub(super) fn drop_table(
        &mut self,
        name: &TableName,
        if_exists: bool,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        if if_exists && !self.keyspaces.contains_key(&keyspace_name) {
            return Ok(SchemaEffect::default());
        }
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let Some(table) = keyspace.tables.remove(&name.name) else {
            return if if_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(CqlError::invalid(format!(
                    "Cannot drop non existing table '{}' in keyspace '{keyspace_name}'.",
                    name.name
                )))
            };
        };
        let change = table_change(SchemaChangeKind::Dropped, &keyspace_name, &name.name);
        let mut effect = SchemaEffect::announced(change);
        effect.dropped_tables.push(table.id);
        effect.stale.push((keyspace_name, Some(name.name.clone())));
        Ok(effect)
    }

    pub(super) fn create_index(
        &mut self,
        index: Option<&str>,
        if_not_exists: bool,
        name: &TableName,
        target: &str,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let table = keyspace
            .tables
            .get(&name.name)
            .ok_or_else(|| unconfigured(name))?;
        let column = indexed_column(target);
        if table.column(column).is_none() {
            return Err(CqlError::invalid(format!(
                "No column definition found for column {column}"
            )));
        }
        let index = match index {
            Some(index) => index.to_owned(),
            None => format!("{}_{column}_idx", name.name),
        };
        let taken = keyspace
            .tables
            .values()
            .any(|table| table.indexes.contains_key(&index));
        if taken {
            return if if_not_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(CqlError::invalid(format!("Index {index} already exists")))
            };
        }
        let mut table = Table::clone(table);
        table.indexes.insert(index.clone(), target.to_owned());
        keyspace.tables.insert(name.name.clone(), Arc::new(table));
        let updated = table_change(SchemaChangeKind::Updated, &keyspace_name, &name.name);
        let view = format!("{index}_index");
        let created = table_change(SchemaChangeKind::Created, &keyspace_name, &view);
        Ok(SchemaEffect {
            result: Some(updated.clone()),
            events: vec![created, updated],
            stale: vec![(keyspace_name, Some(name.name.clone()))],
            ..SchemaEffect::default()
        })
    }

    pub(super) fn drop_index(
        &mut self,
        index: &TableName,
        if_exists: bool,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(index.keyspace.as_deref(), in_use)?.to_owned();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let mut tables = keyspace.tables.values_mut();
        let Some(table) = tables.find(|table| table.indexes.contains_key(&index.name)) else {
            return if if_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(CqlError::invalid(format!(
                    "Index '{}' could not be found in any of the tables of keyspace '{keyspace_name}'",
                    index.name
                )))
            };
        };
        Arc::make_mut(table).indexes.remove(&index.name);
        let updated = table_change(SchemaChangeKind::Updated, &keyspace_name, &table.name);
        let view = format!("{}_index", index.name);
        let dropped = table_change(SchemaChangeKind::Dropped, &keyspace_name, &view);
        let stale = vec![(keyspace_name, Some(table.name.to_string()))];
        Ok(SchemaEffect {
            result: Some(updated.clone()),
            events: vec![dropped, updated],
            stale,
            ..SchemaEffect::default()
        })
    }
}

fn unconfigured(name: &TableName) -> CqlError {
    CqlError::invalid(format!("unconfigured table {}", name.name))
}

/// The column of an index target such as `keys(m)`.
pub(crate) fn indexed_column(target: &str) -> &str {
    match target.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')'),
        None => target,
    }
}

impl Keyspace {
    /// Checks and builds a table.
    pub(crate) fn new_table(&self, create: &CreateTable, id: Uuid) -> Result<Table, CqlError> {
        if create.partition_key.is_empty() {
            return Err(CqlError::invalid(
                "No PRIMARY KEY specifed (exactly one required)",
            ));
        }
        let mut table = Table {
            id,
            keyspace: self.name.clone(),
            name: create.table.name.as_str().into(),
            columns: Vec::new(),
            options: TableOptions::default(),
            indexes: BTreeMap::new(),
            version: id,
            is_virtual: false,
        };
        let keys = create.partition_key.iter().chain(&create.clustering_key);
        for name in keys {
            let Some(definition) = create.columns.iter().find(|column| column.name == *name) else {
                return Err(CqlError::invalid(format!(
                    "Unknown definition {name} referenced in PRIMARY KEY"
                )));
            };
            if table.column(name).is_some() {
                return Err(CqlError::invalid(format!(
                    "Multiple definition of identifier {name}"
                )));
            }
            let kind = if create.partition_key.contains(name) {
                ColumnKind::PartitionKey
            } else {
                ColumnKind::Clustering(direction_of(name, create))
            };
            table.columns.push(self.column(definition, kind)?);
        }
        for (name, _) in &create.clustering_order {
            if !create.clustering_key.contains(name) {
                return Err(CqlError::invalid(format!(
                    "Missing CLUSTERING ORDER for column {name} or only clustering key columns can be defined in CLUSTERING ORDER directive"
                )));
            }
        }
        let mut key_seen: Vec<&str> = Vec::new();
        for definition in &create.columns {
            if key_seen.contains(&definition.name.as_str()) {
                return Err(CqlError::invalid(format!(
                    "Multiple definition of identifier {}",
                    definition.name
                )));
            }
            key_seen.push(&definition.name);
            if table.column(&definition.name).is_some() {
                continue;
            }
            self.add_column(&mut table, definition)?;
        }
        table.check_counters()?;
        table.options.apply(&create.properties)?;
        table.sort_columns();
        Ok(table)
    }

    fn column(&self, definition: &ColumnDefinition, kind: ColumnKind) -> Result<Column, CqlError> {
        let name = &definition.name;
        let cql_type = CqlType::from_raw(&definition.ty, &self.name, &self.types)?;
        cql_type.check_size(&self.types)?;
        if kind.is_key() {
            if definition.is_static {
                return Err(CqlError::invalid(format!(
                    "Static column {name} cannot be part of the PRIMARY KEY"
                )));
            }
            if cql_type.is_multi_cell() {
                return Err(CqlError::invalid(format!(
                    "Invalid non-frozen collection type for PRIMARY KEY component {name}"
                )));
            }
            if let CqlType::Native(native @ (ColumnType::Counter | ColumnType::Duration)) =
                &cql_type
            {
                return Err(CqlError::invalid(format!(
                    "{native} type is not supported for PRIMARY KEY part {name}"
                )));
            }
        }
        let ty = cql_type.on_wire(&self.name, &self.types);
        Ok(Column {
            name: name.as_str().into(),
            cql_type,
            ty,
            kind,
        })
    }

    fn add_column(&self, table: &mut Table, definition: &ColumnDefinition) -> Result<(), CqlError> {
        let name = &definition.name;
        if table.column(name).is_some() {
            return Err(CqlError::invalid(format!(
                "Invalid column name {name} because it conflicts with an existing column"
            )));
        }
        let kind = if definition.is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        if kind == ColumnKind::Static && table.clustering_key().next().is_none() {
            return Err(CqlError::invalid(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
            ));
        }
        let column = self.column(definition, kind)?;
        table.columns.push(column);
        table.check_counters()
    }

    /// Looks up the fields of a user type again after it changed.
    pub(super) fn resolve_types(&mut self) {
        let (name, types) = (self.name.clone(), self.types.clone());
        // A type inside a type may have changed, so every column is looked up.
        for table in self.tables.values_mut() {
            for column in &mut Arc::make_mut(table).columns {
                column.ty = column.cql_type.on_wire(&name, &types);
            }
        }
    }
}

fn direction_of(name: &str, create: &CreateTable) -> Direction {
    create
        .clustering_order
        .iter()
        .find(|(column, _)| column == name)
        .map_or(Direction::Ascending, |(_, direction)| *direction)
}

impl Table {
    fn check_counters(&self) -> Result<(), CqlError> {
        let mut values = self.columns.iter().filter(|column| !column.kind.is_key());
        let counters = values
            .clone()
            .any(|column| column.ty == ColumnType::Counter);
        if counters && values.any(|column| column.ty != ColumnType::Counter) {
            return Err(CqlError::invalid(
                "Cannot mix counter and non counter columns in the same table",
            ));
        }
        Ok(())
    }

    fn drop_column(&mut self, name: &str) -> Result<(), CqlError> {
        let Some((at, column)) = self.column(name) else {
            return Err(CqlError::invalid(format!(
                "Column {name} was not found in table {}",
                self.name
            )));
        };
        if column.kind.is_key() {
            return Err(CqlError::invalid(format!(
                "Cannot drop PRIMARY KEY part {name}"
            )));
        }
        self.columns.remove(at);
        Ok(())
    }

    fn rename_column(&mut self, from: &str, to: &str) -> Result<(), CqlError> {
        if self.column(to).is_some() {
            return Err(CqlError::invalid(format!(
                "Cannot rename column {from} to {to} in table {}; another column of that name already exist",
                self.name
            )));
        }
        let name = self.name.clone();
        let Some(column) = self.columns.iter_mut().find(|column| &*column.name == from) else {
            return Err(CqlError::invalid(format!(
                "Cannot rename unknown column {from} in table {name}"
            )));
        };
        if !column.kind.is_key() {
            return Err(CqlError::invalid(format!(
                "Cannot rename non PRIMARY KEY part {from}"
            )));
        }
        column.name = to.into();
        Ok(())
    }
}
