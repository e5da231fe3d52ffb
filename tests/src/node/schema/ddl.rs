//! What CREATE, ALTER and DROP do to the schema, and what is told about it. Tables and columns are in `schema::table`.

use std::collections::BTreeMap;

use messina_core::wire::event::{SchemaChange, SchemaChangeKind, SchemaTarget};

use super::super::CqlError;
use super::super::cql::ast::{Ddl, Properties, RawType, TableName, TypeChange};
use super::super::cql::types::{CqlType, UserType, quoted};
use super::options::{map, simple};
use super::{Keyspace, Schema, SchemaEffect};

/// A datacenter as replication sees it: its name and its number of racks.
pub(crate) type DatacenterRacks = (String, usize);

impl Schema {
    /// Changes the schema as a statement says.
    pub(crate) fn apply(
        &mut self,
        ddl: &Ddl,
        in_use: Option<&str>,
        datacenters: &[DatacenterRacks],
    ) -> Result<SchemaEffect, CqlError> {
        let effect = match ddl {
            Ddl::CreateKeyspace {
                name,
                if_not_exists,
                properties,
            } => self.create_keyspace(name, *if_not_exists, properties, datacenters),
            Ddl::AlterKeyspace {
                name,
                if_exists,
                properties,
            } => self.alter_keyspace(name, *if_exists, properties, datacenters),
            Ddl::DropKeyspace { name, if_exists } => self.drop_keyspace(name, *if_exists),
            Ddl::CreateTable(create) => self.create_table(create, in_use),
            Ddl::AlterTable {
                table,
                if_exists,
                change,
            } => self.alter_table(table, *if_exists, change, in_use),
            Ddl::DropTable { table, if_exists } => self.drop_table(table, *if_exists, in_use),
            Ddl::CreateType {
                name,
                if_not_exists,
                fields,
            } => self.create_type(name, *if_not_exists, fields, in_use),
            Ddl::AlterType { name, change } => self.alter_type(name, change, in_use),
            Ddl::DropType { name, if_exists } => self.drop_type(name, *if_exists, in_use),
            Ddl::CreateIndex {
                name,
                if_not_exists,
                table,
                target,
            } => self.create_index(name.as_deref(), *if_not_exists, table, target, in_use),
            Ddl::DropIndex { name, if_exists } => self.drop_index(name, *if_exists, in_use),
        }?;
        if !effect.events.is_empty() {
            self.touch();
        }
        Ok(effect)
    }

    fn create_keyspace(
        &mut self,
        name: &str,
        if_not_exists: bool,
        properties: &Properties,
        datacenters: &[DatacenterRacks],
    ) -> Result<SchemaEffect, CqlError> {
        let change = keyspace_change(SchemaChangeKind::Created, name);
        if self.keyspaces.contains_key(name) {
            return if if_not_exists {
                Ok(SchemaEffect::silent(change))
            } else {
                Err(CqlError::keyspace_exists(name))
            };
        }
        check_name("Keyspace", name)?;
        let mut keyspace = Keyspace {
            name: name.into(),
            replication: default_replication(datacenters),
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            is_system: false,
        };
        keyspace.apply(properties, datacenters)?;
        self.keyspaces.insert(name.to_owned(), keyspace);
        Ok(SchemaEffect::announced(change))
    }

    fn alter_keyspace(
        &mut self,
        name: &str,
        if_exists: bool,
        properties: &Properties,
        datacenters: &[DatacenterRacks],
    ) -> Result<SchemaEffect, CqlError> {
        if if_exists && !self.keyspaces.contains_key(name) {
            return Ok(SchemaEffect::default());
        }
        let mut keyspace = self.changeable(name)?.clone();
        keyspace.apply(properties, datacenters)?;
        self.keyspaces.insert(name.to_owned(), keyspace);
        Ok(SchemaEffect::announced(keyspace_change(
            SchemaChangeKind::Updated,
            name,
        )))
    }

    fn drop_keyspace(&mut self, name: &str, if_exists: bool) -> Result<SchemaEffect, CqlError> {
        if !self.keyspaces.contains_key(name) {
            return if if_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(CqlError::new(
                    CqlError::CONFIG,
                    format!("Cannot drop non existing keyspace '{name}'."),
                ))
            };
        }
        let keyspace = self.changeable(name)?.clone();
        self.keyspaces.remove(name);
        let mut effect = SchemaEffect::announced(keyspace_change(SchemaChangeKind::Dropped, name));
        for udt in keyspace.types.keys() {
            effect
                .events
                .push(type_change(SchemaChangeKind::Dropped, name, udt));
        }
        for table in keyspace.tables.values() {
            effect
                .events
                .push(table_change(SchemaChangeKind::Dropped, name, &table.name));
            effect.dropped_tables.push(table.id);
        }
        effect.stale.push((name.to_owned(), None));
        Ok(effect)
    }

    fn create_type(
        &mut self,
        name: &TableName,
        if_not_exists: bool,
        fields: &[(String, RawType)],
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let change = type_change(SchemaChangeKind::Created, &keyspace_name, &name.name);
        if keyspace.types.contains_key(&name.name) {
            return if if_not_exists {
                Ok(SchemaEffect::silent(change))
            } else {
                Err(CqlError::invalid(format!(
                    "A user type of name {keyspace_name}.{} already exists",
                    name.name
                )))
            };
        }
        check_name("Type", &name.name)?;
        let mut udt = UserType { fields: Vec::new() };
        for (field, raw) in fields {
            keyspace.add_field(&mut udt, field, raw)?;
        }
        keyspace.types.insert(name.name.clone(), udt);
        Ok(SchemaEffect::announced(change))
    }

    fn alter_type(
        &mut self,
        name: &TableName,
        change: &TypeChange,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        let Some(mut udt) = keyspace.types.get(&name.name).cloned() else {
            return Err(CqlError::invalid(format!(
                "No user type named {} exists.",
                name.name
            )));
        };
        match change {
            TypeChange::Add(fields) => {
                for (field, raw) in fields {
                    keyspace.add_field(&mut udt, field, raw)?;
                }
            }
            TypeChange::Rename(renames) => {
                for (from, to) in renames {
                    if udt.fields.iter().any(|(field, _)| field == to) {
                        return Err(CqlError::invalid(format!(
                            "Duplicate field name {to} in type {}",
                            name.name
                        )));
                    }
                    let Some(field) = udt.fields.iter_mut().find(|(field, _)| field == from) else {
                        return Err(CqlError::invalid(format!(
                            "Unknown field {from} in type {}",
                            name.name
                        )));
                    };
                    field.0.clone_from(to);
                }
            }
        }
        let mut types = keyspace.types.clone();
        types.insert(name.name.clone(), udt);
        for (_, ty) in types.values().flat_map(|udt| &udt.fields) {
            ty.check_size(&types)?;
        }
        keyspace.types = types;
        keyspace.resolve_types();
        let change = type_change(SchemaChangeKind::Updated, &keyspace_name, &name.name);
        let mut effect = SchemaEffect::announced(change);
        for table in keyspace.tables.values() {
            if table
                .columns
                .iter()
                .any(|column| column.cql_type.mentions(&name.name))
            {
                effect
                    .stale
                    .push((keyspace_name.clone(), Some(table.name.to_string())));
            }
        }
        Ok(effect)
    }

    fn drop_type(
        &mut self,
        name: &TableName,
        if_exists: bool,
        in_use: Option<&str>,
    ) -> Result<SchemaEffect, CqlError> {
        let keyspace_name = Self::keyspace_of(name.keyspace.as_deref(), in_use)?.to_owned();
        let keyspace = self.changeable_mut(&keyspace_name)?;
        if !keyspace.types.contains_key(&name.name) {
            return if if_exists {
                Ok(SchemaEffect::default())
            } else {
                Err(CqlError::invalid(format!(
                    "No user type named {} exists.",
                    name.name
                )))
            };
        }
        let in_types = keyspace
            .types
            .values()
            .flat_map(|udt| &udt.fields)
            .map(|(_, ty)| ty);
        let in_tables = keyspace.tables.values().flat_map(|table| &table.columns);
        let in_tables = in_tables.map(|column| &column.cql_type);
        if in_types.chain(in_tables).any(|ty| ty.mentions(&name.name)) {
            return Err(CqlError::invalid(format!(
                "Cannot drop user type {keyspace_name}.{} as it is still in use",
                quoted(&name.name)
            )));
        }
        keyspace.types.remove(&name.name);
        Ok(SchemaEffect::announced(type_change(
            SchemaChangeKind::Dropped,
            &keyspace_name,
            &name.name,
        )))
    }

    /// A keyspace that users may change.
    pub(super) fn changeable(&self, name: &str) -> Result<&Keyspace, CqlError> {
        let keyspace = self.keyspace(name)?;
        if keyspace.is_system {
            return Err(not_modifiable(name));
        }
        Ok(keyspace)
    }

    pub(super) fn changeable_mut(&mut self, name: &str) -> Result<&mut Keyspace, CqlError> {
        self.changeable(name)?;
        self.keyspaces
            .get_mut(name)
            .ok_or_else(|| CqlError::invalid(format!("Keyspace {name} does not exist")))
    }
}

/// The refusal to change what belongs to the server.
pub(crate) fn not_modifiable(keyspace: &str) -> CqlError {
    CqlError::new(
        CqlError::UNAUTHORIZED,
        format!("{keyspace} keyspace is not user-modifiable."),
    )
}

/// Names are file names on the server, which limits them.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), CqlError> {
    let fine = !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if fine || what == "Type" {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "\"{name}\" is not a valid {} name (must be alphanumeric or underscore and at most {NAME_LEN_MAX} characters)",
        what.to_ascii_lowercase()
    )))
}

const NAME_LEN_MAX: usize = 192;

impl Keyspace {
    fn apply(
        &mut self,
        properties: &Properties,
        datacenters: &[DatacenterRacks],
    ) -> Result<(), CqlError> {
        for (name, property) in properties {
            match name.as_str() {
                "replication" => {
                    self.replication = replication(&self.name, map(name, property)?, datacenters)?;
                }
                "durable_writes" => {
                    self.durable_writes = match simple(name, property)? {
                        "true" => true,
                        "false" => false,
                        other => {
                            return Err(CqlError::syntax(format!(
                                "Invalid value '{other}' for 'durable_writes', expecting true or false"
                            )));
                        }
                    };
                }
                // Every keyspace of the simulated cluster is replicated by token ranges.
                "tablets" | "storage" => {}
                _ => return Err(CqlError::syntax(format!("Unknown property '{name}'"))),
            }
        }
        Ok(())
    }

    fn add_field(&self, udt: &mut UserType, field: &str, raw: &RawType) -> Result<(), CqlError> {
        if udt.fields.iter().any(|(known, _)| known == field) {
            return Err(CqlError::invalid(format!("Duplicate field name {field}")));
        }
        let ty = CqlType::from_raw(raw, &self.name, &self.types)?;
        if matches!(ty, CqlType::Udt { frozen: false, .. }) {
            return Err(CqlError::invalid(
                "A user type cannot contain non-frozen user type fields",
            ));
        }
        ty.check_size(&self.types)?;
        udt.fields.push((field.to_owned(), ty));
        Ok(())
    }
}

/// One replica in each rack of each datacenter.
fn default_replication(datacenters: &[DatacenterRacks]) -> Vec<(String, String)> {
    let mut replication = vec![("class".to_owned(), format!("{LOCATOR}{NETWORK}"))];
    replication.extend(
        datacenters
            .iter()
            .map(|(name, racks)| (name.clone(), racks.to_string())),
    );
    replication
}

const LOCATOR: &str = "org.apache.cassandra.locator.";
const NETWORK: &str = "NetworkTopologyStrategy";
const SIMPLE: &str = "SimpleStrategy";

/// Checks and completes the replication of a keyspace.
fn replication(
    keyspace: &str,
    entries: Vec<(String, String)>,
    datacenters: &[DatacenterRacks],
) -> Result<Vec<(String, String)>, CqlError> {
    let class = entries
        .iter()
        .find(|(key, _)| key == "class")
        .map(|(_, class)| class.clone());
    let Some(class) = class else {
        return Err(config("Missing mandatory replication strategy class"));
    };
    let short = class.strip_prefix(LOCATOR).unwrap_or(&class);
    let options: Vec<(String, String)> = entries
        .into_iter()
        .filter(|(key, _)| key != "class")
        .collect();
    let mut replication = vec![("class".to_owned(), format!("{LOCATOR}{short}"))];
    match short {
        SIMPLE => replication.extend(simple_options(keyspace, options)?),
        NETWORK if options.is_empty() => return Ok(default_replication(datacenters)),
        NETWORK => replication.extend(network_options(keyspace, &options, datacenters)?),
        "EverywhereStrategy" => {}
        _ => {
            return Err(config(format!(
                "Unable to find replication strategy class '{LOCATOR}{short}'"
            )));
        }
    }
    Ok(replication)
}

fn config(text: impl Into<String>) -> CqlError {
    CqlError::new(CqlError::CONFIG, text)
}

fn factor(text: &str) -> Result<u16, CqlError> {
    text.parse()
        .map_err(|_| config(format!("Replication factor must be numeric; found {text}")))
}

fn simple_options(
    keyspace: &str,
    options: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, CqlError> {
    if let Some((key, _)) = options.iter().find(|(key, _)| key != "replication_factor") {
        return Err(config(format!(
            "Unrecognized strategy option {key} passed to {LOCATOR}{SIMPLE} for keyspace {keyspace}"
        )));
    }
    if options.is_empty() {
        return Err(config(
            "SimpleStrategy requires a replication_factor strategy option.",
        ));
    }
    options
        .into_iter()
        .map(|(key, value)| Ok((key, factor(&value)?.to_string())))
        .collect()
}

/// One entry for each datacenter; `replication_factor` stands for all that are not named.
fn network_options(
    keyspace: &str,
    options: &[(String, String)],
    datacenters: &[DatacenterRacks],
) -> Result<Vec<(String, String)>, CqlError> {
    let mut by_datacenter: BTreeMap<String, u16> = BTreeMap::new();
    for (_, value) in options
        .iter()
        .filter(|(key, _)| key == "replication_factor")
    {
        let factor = factor(value)?;
        by_datacenter.extend(datacenters.iter().map(|(name, _)| (name.clone(), factor)));
    }
    for (key, value) in options
        .iter()
        .filter(|(key, _)| key != "replication_factor")
    {
        if !datacenters.iter().any(|(name, _)| name == key) {
            return Err(config(format!(
                "Unrecognized strategy option {{{key}}} passed to {LOCATOR}{NETWORK} for keyspace {keyspace}"
            )));
        }
        by_datacenter.insert(key.clone(), factor(value)?);
    }
    let kept = by_datacenter.into_iter().filter(|(_, factor)| 0 < *factor);
    Ok(kept
        .map(|(name, factor)| (name, factor.to_string()))
        .collect())
}

impl SchemaEffect {
    /// A change that happened.
    pub(super) fn announced(change: SchemaChange) -> Self {
        Self {
            result: Some(change.clone()),
            events: vec![change],
            ..Self::default()
        }
    }

    /// A change that had happened before.
    pub(super) fn silent(change: SchemaChange) -> Self {
        Self {
            result: Some(change),
            ..Self::default()
        }
    }
}

fn keyspace_change(change: SchemaChangeKind, keyspace: &str) -> SchemaChange {
    SchemaChange {
        change,
        target: SchemaTarget::Keyspace,
        keyspace: keyspace.to_owned(),
    }
}

pub(super) fn table_change(change: SchemaChangeKind, keyspace: &str, name: &str) -> SchemaChange {
    let target = SchemaTarget::Table {
        name: name.to_owned(),
    };
    SchemaChange {
        change,
        target,
        keyspace: keyspace.to_owned(),
    }
}

fn type_change(change: SchemaChangeKind, keyspace: &str, name: &str) -> SchemaChange {
    let target = SchemaTarget::Type {
        name: name.to_owned(),
    };
    SchemaChange {
        change,
        target,
        keyspace: keyspace.to_owned(),
    }
}
