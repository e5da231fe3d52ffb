//! Statements and their results, seen from a client.

#![expect(
    clippy::type_complexity,
    reason = "rows are tuples of what their columns hold"
)]

mod changes;
mod reads;
mod writes;

use std::collections::BTreeMap;
use std::time::Duration;

use messina_core::types::Value;
use messina_core::wire::request::{ParamsRef, ValuesRef};
use messina_core::wire::result::ResultBody;

use crate::node::CqlError;
use crate::node::testing::{BEGIN, Link, World, encode_values};

fn start() -> (World, Link) {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(
        &mut link,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    world.run(&mut link, "USE k");
    (world, link)
}

fn start_with(table: &str) -> (World, Link) {
    let (mut world, mut link) = start();
    world.run(&mut link, table);
    (world, link)
}

#[test]
fn every_type_comes_back_as_it_was_written() {
    let (mut world, mut link) = start();
    world.run(&mut link, "CREATE TYPE address (street text, number int)");
    world.run(
        &mut link,
        "CREATE TABLE t (k int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, h duration, i float, j inet, l smallint, m text, n time, o timestamp, p timeuuid, q tinyint, r uuid, s varint, t list<int>, u set<text>, v map<text, int>, w tuple<int, text>, x frozen<address>, y vector<float, 2>)",
    );
    world.run(
        &mut link,
        "INSERT INTO t (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s, t, u, v, w, x, y) VALUES (1, 'a', -2, 0xcafe, true, '1970-01-02', 1.50, -2.5, 1mo2d3ns, 1e3, '::1', 300, 'ä', '00:00:01', '1970-01-01 00:00:01+0000', 50554d6e-29bb-11e5-b345-feff819cdc9f, -128, 11111111-2222-4333-8444-555555555555, -129, [3, 1], {'b', 'a'}, {'x': 1}, (5, null), {street: 's', number: 6}, [1, 2.5])",
    );
    let rows: Vec<Vec<Value>> = world.rows(&mut link, "SELECT * FROM t");
    let shown: Vec<String> = rows[0].iter().map(|value| format!("{value:?}")).collect();
    let insert_again = world.prepare(
        &mut link,
        "INSERT INTO t (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s, t, u, v, w, x, y) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    );
    // What the driver decoded, it encodes again, and the node takes it.
    let mut bytes = Vec::new();
    for (value, spec) in rows[0].iter().zip(insert_again.bind_columns.iter()) {
        value.encode(&spec.ty, &mut bytes).unwrap();
    }
    world.run(&mut link, "TRUNCATE t");
    let values = ValuesRef {
        count: 25,
        bytes: &bytes,
        ..ValuesRef::default()
    };
    let params = ParamsRef {
        values,
        ..ParamsRef::default()
    };
    let text = "INSERT INTO t (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s, t, u, v, w, x, y) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    world.query_with(&mut link, text, params).unwrap();
    let again: Vec<Vec<Value>> = world.rows(&mut link, "SELECT * FROM t");
    let shown_again: Vec<String> = again[0].iter().map(|value| format!("{value:?}")).collect();
    assert_eq!(shown, shown_again);
    let texts: Vec<(Vec<i32>, Vec<String>, BTreeMap<String, i32>)> =
        world.rows(&mut link, "SELECT t, u, v FROM t");
    let map = BTreeMap::from([("x".to_owned(), 1)]);
    assert_eq!(
        texts,
        [(vec![3, 1], vec!["a".to_owned(), "b".to_owned()], map)]
    );
}

#[test]
fn collections_grow_and_shrink_in_place() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (k int PRIMARY KEY, l list<int>, s set<int>, m map<text, int>)");
    for text in [
        "UPDATE t SET l = l + [2, 3], s = s + {3, 1}, m = m + {'a': 1, 'b': 2} WHERE k = 1",
        "UPDATE t SET l = [1] + l, s = s - {3}, m = m - {'a'} WHERE k = 1",
        "UPDATE t SET l[2] = 9, m['c'] = 5, m['b'] = null WHERE k = 1",
        "DELETE l[0] FROM t WHERE k = 1",
    ] {
        world.run(&mut link, text);
    }
    let rows: Vec<(Vec<i32>, Vec<i32>, BTreeMap<String, i32>)> =
        world.rows(&mut link, "SELECT l, s, m FROM t");
    assert_eq!(
        rows,
        [(vec![2, 9], vec![1], BTreeMap::from([("c".to_owned(), 5)]))]
    );
    let (_, text) = world.refusal(&mut link, "UPDATE t SET l[7] = 1 WHERE k = 1");
    assert_eq!(text, "List index 7 out of bound, list has size 2");
    world.run(&mut link, "UPDATE t SET s = {}, l = l - [2, 9] WHERE k = 1");
    let rows: Vec<(Option<Vec<i32>>, Option<Vec<i32>>)> =
        world.rows(&mut link, "SELECT l, s FROM t");
    assert_eq!(rows, [(None, None)], "an empty collection is null");
    let found: Vec<(i32,)> = world.rows(
        &mut link,
        "SELECT k FROM t WHERE m CONTAINS KEY 'c' AND m['c'] = 5 ALLOW FILTERING",
    );
    assert_eq!(found, [(1,)]);
}

#[test]
fn counters_count() {
    let (mut world, mut link) = start_with("CREATE TABLE t (k int PRIMARY KEY, c counter)");
    world.run(&mut link, "UPDATE t SET c = c + 5 WHERE k = 1");
    world.run(&mut link, "UPDATE t SET c = c - 7 WHERE k = 1");
    let rows: Vec<(i64,)> = world.rows(&mut link, "SELECT c FROM t");
    assert_eq!(rows, [(-2,)]);
    assert_eq!(
        world
            .refusal(&mut link, "INSERT INTO t (k, c) VALUES (1, 1)")
            .0,
        CqlError::INVALID
    );
    assert_eq!(
        world.refusal(&mut link, "UPDATE t SET c = 1 WHERE k = 1").0,
        CqlError::INVALID
    );
}

#[test]
fn static_columns_belong_to_the_partition() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, s text STATIC, v int, PRIMARY KEY (a, b))");
    world.run(&mut link, "INSERT INTO t (a, s) VALUES (1, 'one')");
    let rows: Vec<(i32, Option<i32>, String, Option<i32>)> =
        world.rows(&mut link, "SELECT * FROM t WHERE a = 1");
    assert_eq!(rows, [(1, None, "one".to_owned(), None)]);
    world.run(&mut link, "INSERT INTO t (a, b, v) VALUES (1, 1, 1)");
    world.run(
        &mut link,
        "UPDATE t SET s = 'two', v = 2 WHERE a = 1 AND b = 2",
    );
    let rows: Vec<(i32, String)> = world.rows(&mut link, "SELECT b, s FROM t WHERE a = 1");
    assert_eq!(rows, [(1, "two".to_owned()), (2, "two".to_owned())]);
    let distinct: Vec<(i32, String)> = world.rows(&mut link, "SELECT DISTINCT a, s FROM t");
    assert_eq!(distinct, [(1, "two".to_owned())]);
    world.run(&mut link, "DELETE s FROM t WHERE a = 1");
    let rows: Vec<(Option<String>,)> =
        world.rows(&mut link, "SELECT s FROM t WHERE a = 1 AND b = 1");
    assert_eq!(rows, [(None,)]);
}

#[test]
fn conditional_statements_tell_whether_they_were_applied_and_what_was_there() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int, w int)");
    type Whole = (bool, Option<i32>, Option<i32>, Option<i32>);
    let insert = "INSERT INTO t (a, v) VALUES (1, 2) IF NOT EXISTS";
    assert_eq!(
        world.rows::<Whole>(&mut link, insert),
        [(true, None, None, None)]
    );
    assert_eq!(
        world.rows::<Whole>(&mut link, insert),
        [(false, Some(1), Some(2), None)]
    );
    type One = (bool, Option<i32>);
    let update = "UPDATE t SET v = 3 WHERE a = 1 IF v = 2";
    assert_eq!(world.rows::<One>(&mut link, update), [(true, Some(2))]);
    assert_eq!(world.rows::<One>(&mut link, update), [(false, Some(3))]);
    let other = "UPDATE t SET v = 4 WHERE a = 1 IF w = null AND v IN (3, 5)";
    assert_eq!(
        world.rows::<(bool, Option<i32>, Option<i32>)>(&mut link, other),
        [(true, Some(3), None)]
    );
    let absent = "UPDATE t SET v = 3 WHERE a = 9 IF EXISTS";
    assert_eq!(
        world.rows::<Whole>(&mut link, absent),
        [(false, None, None, None)]
    );
    let delete = "DELETE FROM t WHERE a = 1 IF v > 3";
    assert_eq!(world.rows::<One>(&mut link, delete), [(true, Some(4))]);
}

#[test]
fn timestamps_decide_which_write_wins() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    world.run(
        &mut link,
        "INSERT INTO t (a, v) VALUES (1, 2) USING TIMESTAMP 200",
    );
    world.run(
        &mut link,
        "INSERT INTO t (a, v) VALUES (1, 1) USING TIMESTAMP 100",
    );
    let params = ParamsRef {
        timestamp: Some(150),
        ..ParamsRef::default()
    };
    world
        .query_with(&mut link, "UPDATE t SET v = 9 WHERE a = 1", params)
        .unwrap();
    let rows: Vec<(i32, i64)> = world.rows(&mut link, "SELECT v, writetime(v) FROM t");
    assert_eq!(rows, [(2, 200)]);
    world.run(&mut link, "DELETE FROM t USING TIMESTAMP 199 WHERE a = 1");
    assert_eq!(world.rows::<(i32,)>(&mut link, "SELECT v FROM t"), [(2,)]);
    world.run(&mut link, "DELETE FROM t WHERE a = 1");
    assert!(
        world
            .rows::<(i32,)>(&mut link, "SELECT v FROM t")
            .is_empty()
    );
    world.run(&mut link, "INSERT INTO t (a, v) VALUES (1, 5)");
    let rows: Vec<(i64,)> = world.rows(&mut link, "SELECT writetime(v) FROM t");
    assert!(BEGIN <= rows[0].0);
}

#[test]
fn what_has_a_ttl_is_gone_when_its_time_is_over() {
    let (mut world, mut link) = start_with(
        "CREATE TABLE t (a int PRIMARY KEY, v int, w int) WITH default_time_to_live = 100",
    );
    world.run(&mut link, "INSERT INTO t (a, v) VALUES (1, 2) USING TTL 10");
    world.run(&mut link, "UPDATE t SET w = 3 WHERE a = 1");
    world.run(&mut link, "INSERT INTO t (a, v) VALUES (2, 2) USING TTL 0");
    type Row = (i32, Option<i32>, Option<i32>, Option<i32>);
    let text = "SELECT a, v, w, ttl(v) FROM t WHERE a IN (1, 2)";
    assert_eq!(
        world.rows::<Row>(&mut link, text),
        [(1, Some(2), Some(3), Some(10)), (2, Some(2), None, None)]
    );
    world.pass(Duration::from_secs(10));
    assert_eq!(
        world.rows::<Row>(&mut link, text)[0],
        (1, None, Some(3), None)
    );
    world.pass(Duration::from_secs(90));
    assert_eq!(
        world.rows::<Row>(&mut link, text),
        [(2, Some(2), None, None)]
    );
    assert_eq!(
        world
            .refusal(&mut link, "INSERT INTO t (a) VALUES (1) USING TTL -1")
            .0,
        CqlError::INVALID
    );
}

#[test]
fn deletions_take_cells_rows_ranges_and_partitions() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b))");
    for b in 0..6 {
        world.run(
            &mut link,
            &format!("INSERT INTO t (a, b, v) VALUES (1, {b}, {b})"),
        );
    }
    world.run(&mut link, "DELETE v FROM t WHERE a = 1 AND b = 0");
    world.run(&mut link, "DELETE FROM t WHERE a = 1 AND b = 1");
    world.run(&mut link, "DELETE FROM t WHERE a = 1 AND b >= 4");
    type Row = (i32, Option<i32>);
    let text = "SELECT b, v FROM t WHERE a = 1";
    assert_eq!(
        world.rows::<Row>(&mut link, text),
        [(0, None), (2, Some(2)), (3, Some(3))]
    );
    world.run(&mut link, "DELETE FROM t WHERE a = 1 AND b IN (2, 3)");
    assert_eq!(world.rows::<Row>(&mut link, text), [(0, None)]);
    world.run(&mut link, "DELETE FROM t WHERE a = 1");
    assert!(world.rows::<Row>(&mut link, text).is_empty());
}

#[test]
fn user_types_are_read_by_field_and_keep_up_with_changes() {
    let (mut world, mut link) = start();
    world.run(&mut link, "CREATE TYPE name (first text, last text)");
    world.run(&mut link, "CREATE TABLE t (k int PRIMARY KEY, n name)");
    world.run(&mut link, "INSERT INTO t (k, n) VALUES (1, {first: 'A'})");
    world.run(&mut link, "UPDATE t SET n.last = 'B' WHERE k = 1");
    let rows: Vec<(String, String)> = world.rows(&mut link, "SELECT n.first, n.last FROM t");
    assert_eq!(rows, [("A".to_owned(), "B".to_owned())]);
    world.run(&mut link, "ALTER TYPE name ADD middle text");
    let rows: Vec<(Option<String>,)> = world.rows(&mut link, "SELECT n.middle FROM t");
    assert_eq!(rows, [(None,)]);
    let types: Vec<(Vec<String>, Vec<String>)> = world.rows(
        &mut link,
        "SELECT field_names, field_types FROM system_schema.types WHERE keyspace_name = 'k'",
    );
    assert_eq!(types[0].0, ["first", "last", "middle"]);
    assert_eq!(types[0].1, ["text", "text", "text"]);
}

#[test]
fn the_schema_tables_show_what_was_created() {
    let (mut world, mut link) = start();
    world.run(&mut link, "CREATE TABLE t (a int, b timeuuid, s text STATIC, m frozen<map<text, list<int>>>, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC) AND comment = 'hi'");
    type Column = (String, String, String, i32, String);
    let columns: Vec<Column> = world.rows(
        &mut link,
        "SELECT column_name, clustering_order, kind, position, type FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 't' USING TIMEOUT 2000ms",
    );
    let column = |name: &str, order: &str, kind: &str, position, ty: &str| {
        (
            name.to_owned(),
            order.to_owned(),
            kind.to_owned(),
            position,
            ty.to_owned(),
        )
    };
    let expected = [
        column("a", "NONE", "partition_key", 0, "int"),
        column("b", "DESC", "clustering", 0, "timeuuid"),
        column(
            "m",
            "NONE",
            "regular",
            -1,
            "frozen<map<text, frozen<list<int>>>>",
        ),
        column("s", "NONE", "static", -1, "text"),
    ];
    assert_eq!(columns, expected);
    let tables: Vec<(String, String, Vec<String>)> = world.rows(
        &mut link,
        "SELECT table_name, comment, flags FROM system_schema.tables WHERE keyspace_name IN ('k')",
    );
    assert_eq!(
        tables,
        [("t".to_owned(), "hi".to_owned(), vec!["compound".to_owned()])]
    );
    let keyspaces: Vec<(BTreeMap<String, String>, bool)> = world.rows(
        &mut link,
        "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = 'k'",
    );
    assert_eq!(
        keyspaces[0].0["class"],
        "org.apache.cassandra.locator.SimpleStrategy"
    );
    assert_eq!(keyspaces[0].0["replication_factor"], "1");
    let described: Vec<(String, String, String, String)> =
        world.rows(&mut link, "DESCRIBE KEYSPACE k WITH INTERNALS");
    assert!(
        described[0]
            .3
            .starts_with("CREATE KEYSPACE k WITH replication")
    );
    assert!(
        described[1].3.contains("PRIMARY KEY ((a), b)"),
        "{}",
        described[1].3
    );
}

#[test]
fn the_system_tables_show_node_and_clients() {
    let mut world = World::with_nodes(3);
    let mut link = world.open(1);
    type Local = (
        std::net::IpAddr,
        String,
        String,
        uuid::Uuid,
        String,
        Vec<String>,
    );
    let text = "SELECT rpc_address, data_center, rack, host_id, release_version, tokens FROM system.local WHERE key='local'";
    let local: Vec<Local> = world.rows(&mut link, text);
    assert_eq!(local[0].0.to_string(), "127.0.0.2");
    assert_eq!(
        (&*local[0].1, &*local[0].2, &*local[0].4),
        ("dc1", "rack1", "3.0.8")
    );
    assert_eq!(local[0].5.len(), 16);
    let peers: Vec<(std::net::IpAddr, uuid::Uuid)> =
        world.rows(&mut link, "SELECT peer, host_id FROM system.peers");
    assert_eq!(peers.len(), 2);
    assert!(peers.iter().all(|(_, id)| *id != local[0].3));
    assert_eq!(
        world.refusal(&mut link, "SELECT * FROM system.peers_v2").1,
        "unconfigured table peers_v2"
    );
    assert_eq!(
        world
            .refusal(&mut link, "SELECT dse_version FROM system.local")
            .1,
        "Unrecognized name dse_version"
    );
    let clients: Vec<(i32, String, BTreeMap<String, String>)> = world.rows(
        &mut link,
        "SELECT shard_id, connection_stage, client_options FROM system.clients",
    );
    assert_eq!((clients[0].0, &*clients[0].1), (0, "READY"));
    assert_eq!(clients[0].2["CQL_VERSION"], "3.0.0");
    let now: Vec<(uuid::Uuid,)> = world.rows(&mut link, "SELECT now()");
    assert_eq!(now[0].0.get_version_num(), 1);
    assert_eq!(
        world
            .refusal(&mut link, "INSERT INTO system.local (key) VALUES ('x')")
            .0,
        CqlError::UNAUTHORIZED
    );
    assert_eq!(
        world.refusal(&mut link, "DROP TABLE system.local").0,
        CqlError::UNAUTHORIZED
    );
}

#[test]
fn refusals_have_the_server_s_codes_and_words() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b))");
    for (text, code, message) in [
        (
            "SELECT * FROM nope.t",
            0x2200,
            "Keyspace nope does not exist",
        ),
        ("SELECT * FROM nope", 0x2200, "unconfigured table nope"),
        ("SELECT nope FROM t", 0x2200, "Unrecognized name nope"),
        (
            "SELECT * FROM t WHERE nope = 1 ALLOW FILTERING",
            0x2200,
            "Unrecognized name nope",
        ),
        (
            "INSERT INTO t (a, b, nope) VALUES (1, 1, 1)",
            0x2200,
            "Unknown identifier nope",
        ),
        (
            "INSERT INTO t (a, v) VALUES (1, 1)",
            0x2200,
            "Missing mandatory PRIMARY KEY part b",
        ),
        (
            "UPDATE t SET v = 1 WHERE a = 1",
            0x2200,
            "Missing mandatory PRIMARY KEY part b",
        ),
        (
            "UPDATE t SET a = 1 WHERE a = 1 AND b = 1",
            0x2200,
            "PRIMARY KEY part a found in SET part",
        ),
        (
            "DELETE FROM t WHERE b = 1",
            0x2200,
            "Missing mandatory PRIMARY KEY part a",
        ),
        (
            "INSERT INTO t (a, b) VALUES (null, 1)",
            0x2200,
            "Invalid null value in condition for column a",
        ),
        (
            "SELECT * FROM t WHERE a = 1 LIMIT 0",
            0x2200,
            "LIMIT must be strictly positive",
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY)",
            0x2400,
            "Cannot add already existing table \"t\" to keyspace \"k\"",
        ),
        (
            "SELEC",
            0x2000,
            "line 1:0 no viable alternative at input 'selec'",
        ),
        (
            "SELECT * FROM t WHERE a = 'x'",
            0x2200,
            "Invalid STRING constant (x) for \"a\" of type int",
        ),
    ] {
        assert_eq!(
            world.refusal(&mut link, text),
            (code, message.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn a_batch_text_runs_as_one_with_its_own_timestamp() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    let text = "BEGIN BATCH USING TIMESTAMP 77 INSERT INTO t (a, v) VALUES (?, 1); UPDATE t SET v = ? WHERE a = 2; APPLY BATCH";
    let prepared = world.prepare(&mut link, text);
    assert_eq!(prepared.bind_columns.len(), 2);
    let (one, nine) = (1_i32.to_be_bytes(), 9_i32.to_be_bytes());
    let values = [Some(&one[..]), Some(&nine[..])];
    let result = world.execute(&mut link, &prepared.id, &values, ParamsRef::default());
    assert_eq!(result.unwrap(), ResultBody::Void);
    let rows: Vec<(i32, i32, i64)> = world.rows(
        &mut link,
        "SELECT a, v, writetime(v) FROM t WHERE a IN (1, 2)",
    );
    assert_eq!(rows, [(1, 1, 77), (2, 9, 77)]);
}

#[test]
fn functions_compute_in_selections_and_values() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int PRIMARY KEY, u timeuuid, w uuid)");
    world.run(
        &mut link,
        "INSERT INTO t (a, u, w) VALUES (1, now(), uuid())",
    );
    type Row = (messina_core::types::Timestamp, Vec<u8>, i32);
    let rows: Vec<Row> = world.rows(
        &mut link,
        "SELECT toTimestamp(u), intAsBlob(a), blobAsInt(intAsBlob(a)) FROM t",
    );
    assert_eq!(rows[0].0.0, BEGIN / 1000);
    assert_eq!((rows[0].1.as_slice(), rows[0].2), (&[0, 0, 0, 1][..], 1));
    let none = encode_values(&[]);
    assert!(none.is_empty());
}
