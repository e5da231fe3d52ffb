//! The keyspace `system_schema`: the schema as rows.

use crate::node::cql::ast::Direction;
use crate::node::schema::{Column, ColumnKind, Keyspace, Schema, Table};

use super::rows::{
    Rows, blob_map, boolean, double, int, text, text_list, text_map, text_set, uuid,
};

pub(super) const TABLES: &str = "
CREATE TABLE system_schema.keyspaces (keyspace_name text PRIMARY KEY, durable_writes boolean,
    next_replication frozen<map<text, text>>, replication frozen<map<text, text>>,
    replication_v2 frozen<map<text, text>>);
CREATE TABLE system_schema.scylla_keyspaces (keyspace_name text PRIMARY KEY, consistency text, initial_tablets int,
    storage_options frozen<map<text, text>>, storage_type text);
CREATE TABLE system_schema.tables (keyspace_name text, table_name text, bloom_filter_fp_chance double,
    caching frozen<map<text, text>>, comment text, compaction frozen<map<text, text>>,
    compression frozen<map<text, text>>, crc_check_chance double, dclocal_read_repair_chance double,
    default_time_to_live int, extensions frozen<map<text, blob>>, flags frozen<set<text>>, gc_grace_seconds int,
    id uuid, max_index_interval int, memtable_flush_period_in_ms int, min_index_interval int,
    read_repair_chance double, speculative_retry text, PRIMARY KEY (keyspace_name, table_name));
CREATE TABLE system_schema.scylla_tables (keyspace_name text, table_name text, cdc frozen<map<text, text>>,
    committed_by_group0 boolean, in_memory boolean, large_data_guardrails_enabled boolean, partitioner text,
    storage_engine text, tablets frozen<map<text, text>>, version uuid, PRIMARY KEY (keyspace_name, table_name));
CREATE TABLE system_schema.columns (keyspace_name text, table_name text, column_name text, clustering_order text,
    column_name_bytes blob, kind text, position int, type text,
    PRIMARY KEY (keyspace_name, table_name, column_name));
CREATE TABLE system_schema.view_virtual_columns (keyspace_name text, table_name text, column_name text,
    clustering_order text, column_name_bytes blob, kind text, position int, type text,
    PRIMARY KEY (keyspace_name, table_name, column_name));
CREATE TABLE system_schema.computed_columns (keyspace_name text, table_name text, column_name text, computation blob,
    PRIMARY KEY (keyspace_name, table_name, column_name));
CREATE TABLE system_schema.dropped_columns (keyspace_name text, table_name text, column_name text,
    dropped_time timestamp, type text, PRIMARY KEY (keyspace_name, table_name, column_name));
CREATE TABLE system_schema.triggers (keyspace_name text, table_name text, trigger_name text,
    options frozen<map<text, text>>, PRIMARY KEY (keyspace_name, table_name, trigger_name));
CREATE TABLE system_schema.views (keyspace_name text, view_name text, base_table_id uuid, base_table_name text,
    bloom_filter_fp_chance double, caching frozen<map<text, text>>, comment text,
    compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double,
    dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>,
    gc_grace_seconds int, id uuid, include_all_columns boolean, max_index_interval int,
    memtable_flush_period_in_ms int, min_index_interval int, read_repair_chance double, speculative_retry text,
    where_clause text, PRIMARY KEY (keyspace_name, view_name));
CREATE TABLE system_schema.indexes (keyspace_name text, table_name text, index_name text, kind text,
    options frozen<map<text, text>>, PRIMARY KEY (keyspace_name, table_name, index_name));
CREATE TABLE system_schema.types (keyspace_name text, type_name text, field_names frozen<list<text>>,
    field_types frozen<list<text>>, PRIMARY KEY (keyspace_name, type_name));
CREATE TABLE system_schema.functions (keyspace_name text, function_name text, argument_types frozen<list<text>>,
    argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, return_type text,
    PRIMARY KEY (keyspace_name, function_name, argument_types));
CREATE TABLE system_schema.aggregates (keyspace_name text, aggregate_name text, argument_types frozen<list<text>>,
    final_func text, initcond text, return_type text, state_func text, state_type text,
    PRIMARY KEY (keyspace_name, aggregate_name, argument_types));
CREATE TABLE system_schema.scylla_aggregates (keyspace_name text, aggregate_name text,
    argument_types frozen<list<text>>, reduce_func text, state_type text,
    PRIMARY KEY (keyspace_name, aggregate_name, argument_types));
";

/// Fills a table of `system_schema`.
pub(super) fn fill(schema: &Schema, table: &Table, rows: &mut Rows<'_>) {
    for keyspace in schema.keyspaces.values() {
        match &*table.name {
            "keyspaces" => keyspace_row(keyspace, rows),
            "tables" => keyspace
                .tables
                .values()
                .for_each(|table| table_row(table, rows)),
            "scylla_tables" => keyspace.tables.values().for_each(|table| {
                rows.add(&[
                    ("keyspace_name", text(&table.keyspace)),
                    ("table_name", text(&table.name)),
                    ("committed_by_group0", boolean(true)),
                    ("in_memory", boolean(false)),
                    ("version", uuid(table.version)),
                ]);
            }),
            "columns" => {
                for table in keyspace.tables.values() {
                    column_rows(table, rows);
                }
            }
            "indexes" => keyspace
                .tables
                .values()
                .for_each(|table| index_rows(table, rows)),
            "types" => type_rows(keyspace, rows),
            _ => {}
        }
    }
}

fn keyspace_row(keyspace: &Keyspace, rows: &mut Rows<'_>) {
    rows.add(&[
        ("keyspace_name", text(&keyspace.name)),
        ("durable_writes", boolean(keyspace.durable_writes)),
        ("replication", text_map(&keyspace.replication)),
    ]);
}

fn table_row(table: &Table, rows: &mut Rows<'_>) {
    let options = &table.options;
    let limits = options.per_partition_rate_limit.serialized();
    let extensions: Vec<_> = limits
        .map(|limits| ("per_partition_rate_limit", limits))
        .into_iter()
        .collect();
    let flags: &[&str] = if table.is_counter() {
        &["compound", "counter"]
    } else {
        &["compound"]
    };
    rows.add(&[
        ("keyspace_name", text(&table.keyspace)),
        ("table_name", text(&table.name)),
        (
            "bloom_filter_fp_chance",
            double(options.bloom_filter_fp_chance),
        ),
        ("caching", text_map(&options.caching)),
        ("comment", text(&options.comment)),
        ("compaction", text_map(&options.compaction)),
        ("compression", text_map(&options.compression)),
        ("crc_check_chance", double(options.crc_check_chance)),
        ("default_time_to_live", int(options.default_time_to_live)),
        ("extensions", blob_map(&extensions)),
        ("flags", text_set(flags)),
        ("gc_grace_seconds", int(options.gc_grace_seconds)),
        ("id", uuid(table.id)),
        ("max_index_interval", int(options.max_index_interval)),
        (
            "memtable_flush_period_in_ms",
            int(options.memtable_flush_period_in_ms),
        ),
        ("min_index_interval", int(options.min_index_interval)),
        ("speculative_retry", text(&options.speculative_retry)),
    ]);
}

fn column_rows(table: &Table, rows: &mut Rows<'_>) {
    let keys = table.partition_key_len();
    for (index, column) in table.columns.iter().enumerate() {
        let (kind, position) = match column.kind {
            ColumnKind::PartitionKey => ("partition_key", Some(index)),
            ColumnKind::Clustering(_) => ("clustering", index.checked_sub(keys)),
            ColumnKind::Static => ("static", None),
            ColumnKind::Regular => ("regular", None),
        };
        let position = position.and_then(|at| i32::try_from(at).ok()).unwrap_or(-1);
        rows.add(&[
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(&column.name)),
            ("clustering_order", text(clustering_order(column))),
            ("column_name_bytes", text(&column.name)),
            ("kind", text(kind)),
            ("position", int(position)),
            ("type", text(&column.cql_type.text())),
        ]);
    }
}

fn clustering_order(column: &Column) -> &'static str {
    match column.kind {
        ColumnKind::Clustering(Direction::Ascending) => "ASC",
        ColumnKind::Clustering(Direction::Descending) => "DESC",
        _ => "NONE",
    }
}

fn index_rows(table: &Table, rows: &mut Rows<'_>) {
    for (name, target) in &table.indexes {
        rows.add(&[
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("index_name", text(name)),
            ("kind", text("COMPOSITES")),
            (
                "options",
                text_map(&[("target".to_owned(), target.clone())]),
            ),
        ]);
    }
}

fn type_rows(keyspace: &Keyspace, rows: &mut Rows<'_>) {
    for (name, udt) in &keyspace.types {
        let names: Vec<&str> = udt.fields.iter().map(|(field, _)| field.as_str()).collect();
        let types: Vec<String> = udt.fields.iter().map(|(_, ty)| ty.text()).collect();
        rows.add(&[
            ("keyspace_name", text(&keyspace.name)),
            ("type_name", text(name)),
            ("field_names", text_list(&names)),
            ("field_types", text_list(&types)),
        ]);
    }
}
