//! Prepared statements, bound values and batches at the level of frames.

use messina_core::wire::consistency::Consistency;
use messina_core::wire::request::{
    BatchKind, BatchRef, BatchStatementRef, ParamsRef, RequestRef, StatementRef, ValuesRef,
};
use messina_core::wire::result::ResultBody;
use messina_core::wire::server_error::ServerErrorDetail;

use super::{KEYSPACE, startup};
use crate::node::testing::{World, decode, encode_values, outcome};

#[test]
fn prepared_statements_tell_their_markers_their_key_and_their_result() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(
        &mut link,
        "CREATE TABLE k.t (a int, b text, c int, v set<int>, PRIMARY KEY ((a, b), c))",
    );
    let insert = world.prepare(
        &mut link,
        "INSERT INTO k.t (c, b, a, v) VALUES (?, ?, ?, ?) USING TTL ?",
    );
    let names: Vec<&str> = insert.bind_columns.iter().map(|spec| &*spec.name).collect();
    assert_eq!(names, ["c", "b", "a", "v", "[ttl]"]);
    assert_eq!(insert.pk_indexes, [2, 1]);
    assert_eq!(
        (insert.result.column_count, insert.result.columns),
        (0, None)
    );
    assert_eq!(insert.id.len(), 16);
    let select = world.prepare(
        &mut link,
        "SELECT v, c FROM k.t WHERE a = :x AND b = ? AND c IN ?",
    );
    let names: Vec<String> = select
        .bind_columns
        .iter()
        .map(|spec| format!("{} {}", spec.name, spec.ty))
        .collect();
    assert_eq!(names, ["x int", "b text", "IN(c) list<int>"]);
    assert_eq!(select.pk_indexes, [0, 1]);
    assert_eq!(select.result.columns.unwrap().len(), 2);
    let partial = world.prepare(&mut link, "SELECT v FROM k.t WHERE a = ? AND b = 'x'");
    assert!(partial.pk_indexes.is_empty());
}

#[test]
fn prepared_statements_run_and_an_unknown_one_is_named() {
    let mut world = World::with_nodes(2);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY, v text)");
    let insert = world
        .prepare(&mut link, "INSERT INTO k.t (a, v) VALUES (?, ?)")
        .id;
    let one = 1_i32.to_be_bytes();
    let params = ParamsRef::default();
    let result = world.execute(&mut link, &insert, &[Some(&one), Some(b"x")], params);
    assert_eq!(result.unwrap(), ResultBody::Void);
    let select = world.prepare(&mut link, "SELECT a, v FROM k.t WHERE a = ?");
    let skipping = ParamsRef {
        skip_metadata: true,
        ..params
    };
    let result = world.execute(&mut link, &select.id, &[Some(&one)], skipping);
    let Ok(ResultBody::Rows(mut body)) = result else {
        panic!("{result:?}")
    };
    assert_eq!(body.metadata.columns, None);
    body.metadata.columns = select.result.columns;
    assert_eq!(decode::<(i32, String)>(&body), [(1, "x".to_owned())]);
    // The other node does not know it, and this one forgets it.
    let mut other = world.open(1);
    let error = world.execute(&mut other, &insert, &[], params).unwrap_err();
    assert_eq!(
        error.detail,
        ServerErrorDetail::Unprepared { id: insert.clone() }
    );
    world.cluster.forget_prepared_statements(0);
    let error = world.execute(&mut link, &insert, &[], params).unwrap_err();
    assert_eq!(error.code, 0x2500);
    assert!(
        error.message.starts_with("No prepared statement with ID "),
        "{}",
        error.message
    );
    assert_eq!(
        world
            .prepare(&mut link, "INSERT INTO k.t (a, v) VALUES (?, ?)")
            .id,
        insert
    );
    assert_eq!(world.cluster.statistics(0).unwrap().unprepared, 1);
}

#[test]
fn wrong_values_are_refused() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY, v text)");
    let insert = world
        .prepare(&mut link, "INSERT INTO k.t (a, v) VALUES (?, ?)")
        .id;
    let one = 1_i32.to_be_bytes();
    let mut refusal = |values: &[Option<&[u8]>]| {
        world
            .execute(&mut link, &insert, values, ParamsRef::default())
            .unwrap_err()
            .message
    };
    assert_eq!(
        refusal(&[Some(&one)]),
        "Invalid amount of bind variables: expected 2 received 1"
    );
    assert!(refusal(&[Some(b"xyz"), None]).contains("expected 4 bytes, got 3"));
    assert_eq!(
        refusal(&[None, None]),
        "Invalid null value in condition for column a"
    );
}

#[test]
fn named_values_are_taken_by_the_names_that_prepare_reports() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY, v text)");
    let bytes = encode_values(&[Some(b"x"), Some(&7_i32.to_be_bytes())]);
    let values = ValuesRef {
        count: 2,
        bytes: &bytes,
        names: Some(&["v", "key"]),
        ..ValuesRef::default()
    };
    let params = ParamsRef {
        values,
        ..ParamsRef::default()
    };
    let text = "INSERT INTO k.t (a, v) VALUES (:key, ?)";
    world.query_with(&mut link, text, params).unwrap();
    let rows: Vec<(i32, String)> = world.rows(&mut link, "SELECT * FROM k.t");
    assert_eq!(rows, [(7, "x".to_owned())]);
    let text = "INSERT INTO k.t (a, v) VALUES (:key, :other)";
    let error = world.query_with(&mut link, text, params).unwrap_err();
    assert_eq!(
        error.message,
        "Missing value for bind marker with name: other"
    );
}

#[test]
fn unset_values_leave_columns_alone() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(
        &mut link,
        "CREATE TABLE k.t (a int PRIMARY KEY, v text, w text)",
    );
    world.run(&mut link, "INSERT INTO k.t (a, v, w) VALUES (1, 'v', 'w')");
    let mut bytes = encode_values(&[Some(&1_i32.to_be_bytes()), None]);
    bytes.extend_from_slice(&(-2_i32).to_be_bytes());
    let values = ValuesRef {
        count: 3,
        bytes: &bytes,
        ..ValuesRef::default()
    };
    let params = ParamsRef {
        values,
        ..ParamsRef::default()
    };
    world
        .query_with(
            &mut link,
            "INSERT INTO k.t (a, v, w) VALUES (?, ?, ?)",
            params,
        )
        .unwrap();
    let rows: Vec<(i32, Option<String>, Option<String>)> =
        world.rows(&mut link, "SELECT * FROM k.t");
    assert_eq!(rows, [(1, None, Some("w".to_owned()))]);
}

#[test]
fn extensions_change_what_prepare_and_execute_say() {
    let mut world = World::with_nodes(1);
    let mut plain = world.open(0);
    world.run(&mut plain, KEYSPACE);
    world.run(&mut plain, "CREATE TABLE k.t (a int PRIMARY KEY, v int)");
    world.run(&mut plain, "INSERT INTO k.t (a, v) VALUES (1, 2)");
    let text = "INSERT INTO k.t (a) VALUES (?) IF NOT EXISTS";
    assert!(!world.prepare(&mut plain, text).conditional);
    let mut link = world.connect(0);
    let options = startup(&[
        ("SCYLLA_LWT_ADD_METADATA_MARK", "x"),
        ("SCYLLA_USE_METADATA_ID", ""),
    ]);
    world.ask(&mut link, RequestRef::Startup(&options));
    link.features.lwt_mark_mask = Some(0x8000_0000);
    link.features.metadata_id = true;
    assert!(world.prepare(&mut link, text).conditional);
    let select = world.prepare(&mut link, "SELECT v FROM k.t WHERE a = 1");
    assert!(!select.conditional);
    let known = select.result_metadata_id.clone().unwrap();
    let mut execute = |id: &[u8]| {
        let params = ParamsRef {
            skip_metadata: true,
            ..ParamsRef::default()
        };
        let request = RequestRef::Execute {
            id: &select.id,
            result_metadata_id: Some(id),
            tablet_block: 0,
            params,
        };
        match outcome(world.ask(&mut link, request)) {
            Ok(ResultBody::Rows(body)) => body.metadata,
            other => panic!("{other:?}"),
        }
    };
    let same = execute(&known);
    assert_eq!((same.columns, same.new_metadata_id), (None, None));
    let unknown = execute(&[]);
    assert_eq!(unknown.new_metadata_id, Some(known));
    assert_eq!(unknown.columns.unwrap().len(), 1);
}

#[test]
fn a_batch_changes_everything_or_nothing() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(
        &mut link,
        "CREATE TABLE k.t (a int, b int, v int, PRIMARY KEY (a, b))",
    );
    let insert = world
        .prepare(&mut link, "INSERT INTO k.t (a, b, v) VALUES (1, ?, ?)")
        .id;
    let bytes = encode_values(&[Some(&2_i32.to_be_bytes()), Some(&3_i32.to_be_bytes())]);
    let two = ValuesRef {
        count: 2,
        bytes: &bytes,
        ..ValuesRef::default()
    };
    let text = |text| BatchStatementRef {
        statement: StatementRef::Text(text),
        values: ValuesRef::default(),
    };
    let prepared = BatchStatementRef {
        statement: StatementRef::Prepared(&insert),
        values: two,
    };
    let mut batch = |statements: &[BatchStatementRef<'_>]| {
        let batch = BatchRef {
            kind: BatchKind::Logged,
            statements,
            consistency: Consistency::One,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        };
        outcome(world.ask(&mut link, RequestRef::Batch(batch)))
    };
    assert_eq!(
        batch(&[prepared, text("UPDATE k.t SET v = 9 WHERE a = 1 AND b = 1")]).unwrap(),
        ResultBody::Void
    );
    let refused = batch(&[
        text("INSERT INTO k.t (a, b) VALUES (5, 5)"),
        text("SELECT * FROM k.t"),
    ]);
    assert!(
        refused
            .unwrap_err()
            .message
            .starts_with("Invalid statement in batch")
    );
    let conditional = [
        text("INSERT INTO k.t (a, b) VALUES (1, 4)"),
        text("UPDATE k.t SET v = 1 WHERE a = 1 AND b = 1 IF v = 8"),
    ];
    let Ok(ResultBody::Rows(body)) = batch(&conditional) else {
        panic!()
    };
    let rows: Vec<(bool, Option<i32>, Option<i32>, Option<i32>)> = decode(&body);
    assert_eq!(
        rows,
        [
            (false, None, None, None),
            (false, Some(1), Some(1), Some(9))
        ]
    );
    let rows: Vec<(i32, i32, Option<i32>)> = world.rows(&mut link, "SELECT * FROM k.t");
    assert_eq!(rows, [(1, 1, Some(9)), (1, 2, Some(3))]);
}

#[test]
fn use_changes_the_connection_and_the_ids_of_what_it_prepares() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY)");
    let (_, text) = world.refusal(&mut link, "SELECT * FROM t");
    assert!(
        text.starts_with("No keyspace has been specified."),
        "{text}"
    );
    let before = world.prepare(&mut link, "SELECT * FROM k.t").id;
    assert_eq!(
        world.query(&mut link, "USE K").unwrap(),
        ResultBody::SetKeyspace("k".to_owned())
    );
    assert_ne!(world.prepare(&mut link, "SELECT * FROM k.t").id, before);
    world.run(&mut link, "SELECT * FROM t");
    assert_eq!(
        world.refusal(&mut link, "USE nope").1,
        "Keyspace 'nope' does not exist"
    );
}

#[test]
fn an_altered_table_makes_nodes_forget_its_statements() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    world.run(&mut link, KEYSPACE);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY)");
    world.run(&mut link, "CREATE TABLE k.u (a int PRIMARY KEY)");
    let t = world.prepare(&mut link, "SELECT * FROM k.t").id;
    let u = world.prepare(&mut link, "SELECT * FROM k.u").id;
    world.run(&mut link, "ALTER TABLE k.t ADD b int");
    let error = world
        .execute(&mut link, &t, &[], ParamsRef::default())
        .unwrap_err();
    assert_eq!(error.code, 0x2500);
    assert!(
        world
            .execute(&mut link, &u, &[], ParamsRef::default())
            .is_ok()
    );
    assert_eq!(
        world
            .prepare(&mut link, "SELECT * FROM k.t")
            .result
            .column_count,
        2
    );
}
