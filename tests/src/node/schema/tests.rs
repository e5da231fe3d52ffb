//! What statements do to the schema.

use messina_core::wire::event::SchemaChangeKind;

use super::super::cql::ast::Statement;
use super::super::cql::parser::parse;
use super::*;

fn run(schema: &mut Schema, text: &str) -> Result<SchemaEffect, CqlError> {
    match parse(text)?.statement {
        Statement::Ddl(ddl) => schema.apply(&ddl, None, &[("dc1".into(), 3), ("dc2".into(), 1)]),
        other => panic!("{other:?}"),
    }
}

fn with_keyspace() -> Schema {
    let mut schema = Schema::new();
    run(
        &mut schema,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    schema
}

#[test]
fn the_replication_factor_is_expanded_to_every_datacenter() {
    let mut schema = Schema::new();
    run(
        &mut schema,
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 2, 'dc2': 0}",
    )
    .unwrap();
    let class = "org.apache.cassandra.locator.NetworkTopologyStrategy";
    let expected = [
        ("class".to_owned(), class.to_owned()),
        ("dc1".to_owned(), "2".to_owned()),
    ];
    assert_eq!(schema.keyspaces["k"].replication, expected);
    let error = run(
        &mut schema,
        "CREATE KEYSPACE l WITH replication = {'class': 'NetworkTopologyStrategy', 'dc3': 1}",
    );
    assert_eq!(error.unwrap_err().code, CqlError::CONFIG);
}

#[test]
fn every_change_has_a_new_version_and_what_changes_nothing_has_not() {
    let mut schema = with_keyspace();
    let before = schema.version;
    let effect = run(&mut schema, "CREATE TABLE k.t (a int PRIMARY KEY)").unwrap();
    assert_eq!(effect.events.len(), 1);
    assert_ne!(schema.version, before);
    let after = schema.version;
    let effect = run(
        &mut schema,
        "CREATE TABLE IF NOT EXISTS k.t (a int PRIMARY KEY)",
    )
    .unwrap();
    assert_eq!(effect.result.unwrap().change, SchemaChangeKind::Created);
    assert!(effect.events.is_empty());
    assert_eq!(schema.version, after);
    let error = run(&mut schema, "CREATE TABLE k.t (a int PRIMARY KEY)").unwrap_err();
    assert_eq!(error.code, CqlError::ALREADY_EXISTS);
    assert_eq!(
        error.message,
        "Cannot add already existing table \"t\" to keyspace \"k\""
    );
}

#[test]
fn columns_stand_in_the_order_of_select_star() {
    let mut schema = with_keyspace();
    run(&mut schema, "CREATE TABLE k.t (z int, y int, s2 int STATIC, b int, s1 int STATIC, a int, PRIMARY KEY (y, z))").unwrap();
    let table = schema.keyspaces["k"].tables["t"].clone();
    let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["y", "z", "s1", "s2", "a", "b"]);
    run(&mut schema, "ALTER TABLE k.t ADD (aa int, s0 int STATIC)").unwrap();
    let table = schema.keyspaces["k"].tables["t"].clone();
    let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["y", "z", "s0", "s1", "s2", "a", "aa", "b"]);
}

#[test]
fn impossible_tables_are_refused() {
    let mut schema = with_keyspace();
    for text in [
        "CREATE TABLE k.t (a int)",
        "CREATE TABLE k.t (a int, PRIMARY KEY (b))",
        "CREATE TABLE k.t (a int PRIMARY KEY, a int)",
        "CREATE TABLE k.t (a list<int> PRIMARY KEY)",
        "CREATE TABLE k.t (a counter PRIMARY KEY)",
        "CREATE TABLE k.t (a int PRIMARY KEY, b counter, c int)",
        "CREATE TABLE k.t (a int PRIMARY KEY, b int STATIC)",
        "CREATE TABLE k.t (a nope PRIMARY KEY)",
        "CREATE TABLE k.t (a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (a DESC)",
        "CREATE TABLE nope.t (a int PRIMARY KEY)",
        "CREATE TABLE t (a int PRIMARY KEY)",
    ] {
        assert_eq!(
            run(&mut schema, text).unwrap_err().code,
            CqlError::INVALID,
            "{text}"
        );
    }
}

#[test]
fn dropping_a_keyspace_announces_everything_in_it() {
    let mut schema = with_keyspace();
    run(&mut schema, "CREATE TYPE k.u (f int)").unwrap();
    run(
        &mut schema,
        "CREATE TABLE k.t (a int PRIMARY KEY, b frozen<u>)",
    )
    .unwrap();
    assert!(run(&mut schema, "DROP TYPE k.u").is_err(), "still in use");
    let effect = run(&mut schema, "DROP KEYSPACE k").unwrap();
    assert_eq!(effect.events.len(), 3);
    assert_eq!(effect.dropped_tables.len(), 1);
    assert!(
        run(&mut schema, "DROP KEYSPACE IF EXISTS k")
            .unwrap()
            .result
            .is_none()
    );
    assert!(run(&mut schema, "DROP KEYSPACE k").is_err());
}

#[test]
fn a_changed_type_changes_the_columns_that_have_it() {
    let mut schema = with_keyspace();
    run(&mut schema, "CREATE TYPE k.u (f int)").unwrap();
    run(
        &mut schema,
        "CREATE TABLE k.t (a int PRIMARY KEY, b frozen<u>)",
    )
    .unwrap();
    let effect = run(&mut schema, "ALTER TYPE k.u ADD g text").unwrap();
    assert_eq!(effect.stale, [("k".to_owned(), Some("t".to_owned()))]);
    match &schema.keyspaces["k"].tables["t"].columns[1].ty {
        ColumnType::Udt(udt) => assert_eq!(udt.fields.len(), 2),
        other => panic!("{other}"),
    }
}

#[test]
fn an_index_is_announced_as_its_view_and_its_table() {
    let mut schema = with_keyspace();
    run(&mut schema, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").unwrap();
    let effect = run(&mut schema, "CREATE INDEX ON k.t (b)").unwrap();
    assert_eq!(effect.events.len(), 2);
    assert!(
        schema.keyspaces["k"].tables["t"]
            .indexes
            .contains_key("t_b_idx")
    );
    run(&mut schema, "DROP INDEX k.t_b_idx").unwrap();
    assert!(schema.keyspaces["k"].tables["t"].indexes.is_empty());
}

#[test]
fn types_that_would_grow_without_bound_are_refused() {
    let mut schema = with_keyspace();
    run(&mut schema, "CREATE TYPE k.t0 (a int)").unwrap();
    let mut refused = None;
    for at in 1..100 {
        let before = at - 1;
        let text = format!("CREATE TYPE k.t{at} (a frozen<t{before}>, b frozen<t{before}>)");
        if let Err(error) = run(&mut schema, &text) {
            refused = Some((at, error.code));
            break;
        }
    }
    assert_eq!(refused, Some((13, CqlError::INVALID)));
    // A type that refers to itself in a circle would be endless.
    let circle = run(&mut schema, "ALTER TYPE k.t0 ADD c frozen<t1>");
    assert_eq!(circle.unwrap_err().code, CqlError::INVALID);
}
