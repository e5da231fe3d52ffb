//! DESCRIBE: the schema as CQL text.

use std::fmt::Write;
use std::sync::Arc;

use messina_core::types::column_type::ColumnType;
use messina_core::wire::result::ColumnSpec;

use crate::node::CqlError;
use crate::node::schema::{ColumnKind, Keyspace, Schema, Table};
use crate::node::values::put_cell;

use super::ast::{Describe, Direction};
use super::executor::RowSet;
use super::types::{UserType, quoted};

/// The columns of the result.
pub(crate) fn columns(what: &Describe) -> Arc<[ColumnSpec]> {
    let names: &[&str] = match what {
        Describe::Cluster => &["cluster", "partitioner", "snitch"],
        Describe::Keyspaces | Describe::Tables | Describe::Types => {
            &["keyspace_name", "type", "name"]
        }
        _ => &["keyspace_name", "type", "name", "create_statement"],
    };
    let spec = |name: &&str| ColumnSpec {
        keyspace: "system".into(),
        table: "describe".into(),
        name: (*name).into(),
        ty: ColumnType::Text,
    };
    names.iter().map(spec).collect()
}

/// Describes what is asked for.
pub(crate) fn run(
    what: &Describe,
    in_use: Option<&str>,
    schema: &Schema,
    cluster_name: &str,
) -> Result<RowSet, CqlError> {
    let mut out = RowSet::new(columns(what));
    let user_keyspaces = || schema.keyspaces.values();
    match what {
        Describe::Cluster => {
            let partitioner = "org.apache.cassandra.dht.Murmur3Partitioner";
            let snitch = "org.apache.cassandra.locator.SimpleSnitch";
            put(&mut out, &[cluster_name, partitioner, snitch]);
        }
        Describe::Keyspaces => {
            for keyspace in user_keyspaces() {
                put(
                    &mut out,
                    &[&keyspace.name, "keyspace", &quoted(&keyspace.name)],
                );
            }
        }
        Describe::Tables => {
            for table in user_keyspaces().flat_map(|keyspace| keyspace.tables.values()) {
                put(&mut out, &[&table.keyspace, "table", &quoted(&table.name)]);
            }
        }
        Describe::Types => {
            for keyspace in user_keyspaces() {
                for name in keyspace.types.keys() {
                    put(&mut out, &[&keyspace.name, "type", &quoted(name)]);
                }
            }
        }
        Describe::Schema => {
            user_keyspaces()
                .filter(|keyspace| !keyspace.is_system)
                .for_each(|k| put_keyspace(&mut out, k));
        }
        Describe::Keyspace(name) => {
            let name = Schema::keyspace_of(name.as_deref(), in_use)?;
            let keyspace = schema
                .keyspaces
                .get(name)
                .ok_or_else(|| CqlError::invalid(format!("'{name}' not found in keyspaces")))?;
            put_keyspace(&mut out, keyspace);
        }
        Describe::Table(name) => put_table(&mut out, schema.table(name, in_use)?),
        Describe::Type(name) => {
            let keyspace =
                schema.keyspace(Schema::keyspace_of(name.keyspace.as_deref(), in_use)?)?;
            let udt = keyspace.types.get(&name.name).ok_or_else(|| {
                CqlError::invalid(format!(
                    "'{}' not found in keyspace '{}'",
                    name.name, keyspace.name
                ))
            })?;
            put_type(&mut out, keyspace, &name.name, udt);
        }
    }
    Ok(out)
}

fn put(out: &mut RowSet, texts: &[&str]) {
    for text in texts {
        put_cell(Some(text.as_bytes()), &mut out.cells);
    }
    out.row_count += 1;
}

fn put_keyspace(out: &mut RowSet, keyspace: &Keyspace) {
    let options: Vec<String> = keyspace
        .replication
        .iter()
        .map(|(key, value)| format!("'{key}': '{value}'"))
        .collect();
    let text = format!(
        "CREATE KEYSPACE {} WITH replication = {{{}}} AND durable_writes = {};",
        quoted(&keyspace.name),
        options.join(", "),
        keyspace.durable_writes
    );
    put(
        out,
        &[&keyspace.name, "keyspace", &quoted(&keyspace.name), &text],
    );
    for (name, udt) in &keyspace.types {
        put_type(out, keyspace, name, udt);
    }
    for table in keyspace.tables.values() {
        put_table(out, table);
    }
}

fn put_type(out: &mut RowSet, keyspace: &Keyspace, name: &str, udt: &UserType) {
    let fields: Vec<String> = udt
        .fields
        .iter()
        .map(|(field, ty)| format!("    {} {}", quoted(field), ty.text()))
        .collect();
    let text = format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quoted(&keyspace.name),
        quoted(name),
        fields.join(",\n")
    );
    put(out, &[&keyspace.name, "type", &quoted(name), &text]);
}

fn put_table(out: &mut RowSet, table: &Table) {
    let mut text = format!(
        "CREATE TABLE {}.{} (\n",
        quoted(&table.keyspace),
        quoted(&table.name)
    );
    for column in &table.columns {
        let is_static = if column.kind == ColumnKind::Static {
            " static"
        } else {
            ""
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "    {} {}{is_static},",
            quoted(&column.name),
            column.cql_type.text()
        );
    }
    let names = |columns: Vec<&str>| {
        columns
            .into_iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let partition = names(table.partition_key().map(|column| &*column.name).collect());
    let clustering = names(table.clustering_key().map(|column| &*column.name).collect());
    let comma = if clustering.is_empty() { "" } else { ", " };
    let _ = write!(
        text,
        "    PRIMARY KEY (({partition}){comma}{clustering})\n) WITH "
    );
    let orders = table.clustering_key().map(|column| {
        let order = match column.kind {
            ColumnKind::Clustering(Direction::Descending) => "DESC",
            _ => "ASC",
        };
        format!("{} {order}", quoted(&column.name))
    });
    let orders: Vec<String> = orders.collect();
    if !orders.is_empty() {
        let _ = write!(
            text,
            "CLUSTERING ORDER BY ({})\n    AND ",
            orders.join(", ")
        );
    }
    let _ = write!(
        text,
        "comment = '{}'",
        table.options.comment.replace('\'', "''")
    );
    let limits = table.options.per_partition_rate_limit.entries();
    if !limits.is_empty() {
        let limits: Vec<String> = limits
            .iter()
            .map(|(key, limit)| format!("'{key}': '{limit}'"))
            .collect();
        let _ = write!(
            text,
            "\n    AND per_partition_rate_limit = {{{}}}",
            limits.join(", ")
        );
    }
    text.push(';');
    put(
        out,
        &[&table.keyspace, "table", &quoted(&table.name), &text],
    );
    for (name, target) in &table.indexes {
        let text = format!(
            "CREATE INDEX {} ON {}.{}({target});",
            quoted(name),
            quoted(&table.keyspace),
            quoted(&table.name)
        );
        put(out, &[&table.keyspace, "index", &quoted(name), &text]);
    }
}
