//! ALTER, DROP and TRUNCATE, and what the schema tables tell of them.

use messina_core::types::Value;
use messina_core::wire::request::ParamsRef;
use uuid::Uuid;

use super::{start, start_with};
use crate::node::CqlError;

#[test]
fn an_altered_table_keeps_the_rest_of_its_data() {
    let (mut world, mut link) = start_with(
        "CREATE TABLE t (a int, b int, v int, w text, PRIMARY KEY (a, b)) WITH comment = 'old'",
    );
    world.run(
        &mut link,
        "INSERT INTO t (a, b, v, w) VALUES (1, 2, 3, 'w')",
    );
    world.run(&mut link, "ALTER TABLE t ADD x list<int>, y text static");
    world.run(&mut link, "ALTER TABLE t DROP v");
    world.run(&mut link, "ALTER TABLE t RENAME b TO c");
    world.run(
        &mut link,
        "ALTER TABLE t WITH comment = 'new' AND default_time_to_live = 60",
    );
    let rows: Vec<Vec<Value>> = world.rows(&mut link, "SELECT * FROM t");
    let expected = vec![
        Value::Int(1),
        Value::Int(2),
        Value::Null,
        Value::Text("w".to_owned()),
        Value::Null,
    ];
    assert_eq!(rows, [expected]);
    type Column = (String, String);
    let columns: Vec<Column> = world.rows(
        &mut link,
        "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 't'",
    );
    let kinds = [
        "a partition_key",
        "c clustering",
        "w regular",
        "x regular",
        "y static",
    ];
    let found: Vec<String> = columns
        .iter()
        .map(|(name, kind)| format!("{name} {kind}"))
        .collect();
    assert_eq!(found, kinds);
    let options: Vec<(String, i32)> = world.rows(
        &mut link,
        "SELECT comment, default_time_to_live FROM system_schema.tables WHERE keyspace_name = 'k'",
    );
    assert_eq!(options, [("new".to_owned(), 60)]);
    // A column that comes back is empty.
    world.run(&mut link, "ALTER TABLE t ADD v int");
    let rows: Vec<(Option<i32>,)> = world.rows(&mut link, "SELECT v FROM t");
    assert_eq!(rows, [(None,)]);
    for (text, message) in [
        ("ALTER TABLE t ADD w int", "w"),
        ("ALTER TABLE t DROP a", "a"),
        ("ALTER TABLE t DROP nope", "nope"),
        ("ALTER TABLE t RENAME w TO z", "w"),
        ("ALTER TABLE nope ADD w int", "nope"),
    ] {
        let (code, text) = world.refusal(&mut link, text);
        assert_eq!(code, CqlError::INVALID, "{text}");
        assert!(text.contains(message), "{text}");
    }
    world.run(&mut link, "ALTER TABLE IF EXISTS nope ADD w int");
}

#[test]
fn what_is_dropped_is_gone_and_dropping_it_again_must_be_allowed() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    world.run(&mut link, "CREATE TYPE u (f int)");
    world.run(&mut link, "CREATE INDEX i ON t (v)");
    world.run(&mut link, "INSERT INTO t (a, v) VALUES (1, 2)");
    for what in ["INDEX i", "TABLE t", "TYPE u", "KEYSPACE k"] {
        world.run(&mut link, &format!("DROP {what}"));
        let (code, text) = world.refusal(&mut link, &format!("DROP {what}"));
        assert!(
            code == CqlError::INVALID || code == CqlError::CONFIG,
            "{what}: {code:x} {text}"
        );
        let (kind, name) = what.split_once(' ').unwrap();
        world.run(&mut link, &format!("DROP {kind} IF EXISTS {name}"));
    }
    // The same names stand for something new.
    world.run(
        &mut link,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    world.run(&mut link, "CREATE TABLE t (a int PRIMARY KEY, v text)");
    let rows: Vec<(i32, String)> = world.rows(&mut link, "SELECT * FROM t");
    assert!(rows.is_empty());
}

#[test]
fn a_type_that_is_in_use_cannot_be_dropped() {
    let (mut world, mut link) = start();
    world.run(&mut link, "CREATE TYPE inner (f int)");
    world.run(&mut link, "CREATE TYPE outer (f frozen<inner>)");
    world.run(
        &mut link,
        "CREATE TABLE t (a int PRIMARY KEY, v list<frozen<outer>>)",
    );
    for name in ["inner", "outer"] {
        let (code, _) = world.refusal(&mut link, &format!("DROP TYPE {name}"));
        assert_eq!(code, CqlError::INVALID, "{name}");
    }
    world.run(&mut link, "DROP TABLE t");
    world.run(&mut link, "DROP TYPE outer");
    world.run(&mut link, "DROP TYPE inner");
}

#[test]
fn a_truncated_table_is_empty_and_its_statements_still_run() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    let select = world.prepare(&mut link, "SELECT count(*) FROM t").id;
    for a in 0..5 {
        world.run(&mut link, &format!("INSERT INTO t (a, v) VALUES ({a}, 1)"));
    }
    for text in ["TRUNCATE t", "TRUNCATE TABLE k.t"] {
        world.run(&mut link, "INSERT INTO t (a, v) VALUES (9, 1)");
        world.run(&mut link, text);
        let rows: Vec<(i64,)> = world.rows(&mut link, "SELECT count(*) FROM t");
        assert_eq!(rows, [(0,)]);
    }
    let again = world.execute(&mut link, &select, &[], ParamsRef::default());
    assert!(again.is_ok());
    let (code, text) = world.refusal(&mut link, "TRUNCATE nope");
    assert_eq!(
        (code, text.as_str()),
        (CqlError::INVALID, "unconfigured table nope")
    );
    assert_eq!(
        world.refusal(&mut link, "TRUNCATE system.local").0,
        CqlError::UNAUTHORIZED
    );
}

#[test]
fn the_tables_that_only_scylla_has_are_there() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY)");
    type Row = (String, Option<String>, Uuid);
    let text = "SELECT table_name, partitioner, version FROM system_schema.scylla_tables WHERE keyspace_name = ?";
    let prepared = world.prepare(&mut link, text);
    assert_eq!(prepared.pk_indexes, [0]);
    let text = "SELECT table_name, partitioner, version FROM system_schema.scylla_tables WHERE keyspace_name = 'k'";
    let before: Vec<Row> = world.rows(&mut link, text);
    assert_eq!((before[0].0.as_str(), &before[0].1), ("t", &None));
    world.run(&mut link, "ALTER TABLE t ADD v int");
    let after: Vec<Row> = world.rows(&mut link, text);
    assert_ne!(
        before[0].2, after[0].2,
        "each change has a version of its own"
    );
    for table in [
        "system_schema.scylla_keyspaces",
        "system_schema.scylla_aggregates",
        "system_schema.functions",
        "system_schema.aggregates",
        "system_schema.views",
        "system_schema.triggers",
        "system_schema.dropped_columns",
        "system_schema.computed_columns",
        "system_schema.view_virtual_columns",
        "system.client_routes",
        "system_traces.sessions",
        "system_traces.events",
    ] {
        let rows: Vec<Vec<Value>> = world.rows(&mut link, &format!("SELECT * FROM {table}"));
        assert!(rows.is_empty(), "{table}");
    }
    let versions: Vec<(String, String)> =
        world.rows(&mut link, "SELECT version, build_mode FROM system.versions");
    assert_eq!(versions[0].1, "release");
}

#[test]
fn the_queries_of_drivers_about_client_routes_find_an_empty_table() {
    let (mut world, mut link) = start();
    let columns = "connection_id, host_id, address, port, tls_port";
    for (clause, markers) in [
        (
            "WHERE connection_id IN (?, ?)",
            vec!["connection_id text", "connection_id text"],
        ),
        (
            "where connection_id in ? and host_id in ?",
            vec!["IN(connection_id) list<text>", "IN(host_id) list<uuid>"],
        ),
        (
            "WHERE host_id IN ? ALLOW FILTERING",
            vec!["IN(host_id) list<uuid>"],
        ),
        ("ALLOW FILTERING", vec![]),
    ] {
        let text = format!("SELECT {columns} FROM system.client_routes {clause}");
        let prepared = world.prepare(&mut link, &text);
        let found: Vec<String> = prepared
            .bind_columns
            .iter()
            .map(|spec| format!("{} {}", spec.name, spec.ty))
            .collect();
        assert_eq!(found, markers, "{clause}");
        assert_eq!(prepared.result.column_count, 5);
    }
    type Row = (String, Uuid);
    let text =
        "SELECT connection_id, host_id FROM system.client_routes WHERE connection_id IN ('a', 'b')";
    assert!(world.rows::<Row>(&mut link, text).is_empty());
}
