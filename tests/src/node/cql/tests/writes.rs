//! Counters, time limits of statements, and limits on the use of a partition.

use std::time::Duration;

use messina_core::wire::consistency::Consistency;
use messina_core::wire::request::{
    BatchKind, BatchRef, BatchStatementRef, ParamsRef, RequestRef, StatementRef, ValuesRef,
};
use messina_core::wire::result::ResultBody;
use messina_core::wire::server_error::{OperationKind, ServerErrorDetail, WriteType};

use super::{start, start_with};
use crate::node::CqlError;
use crate::node::testing::{Link, World, encode_values, outcome};

#[test]
fn no_counter_update_is_lost_to_another_of_the_same_microsecond() {
    let (mut world, mut link) = start_with("CREATE TABLE t (k int PRIMARY KEY, c counter)");
    let count = |world: &mut World, link: &mut Link| -> i64 {
        world.rows::<(i64,)>(link, "SELECT c FROM t WHERE k = 1")[0].0
    };
    // No time passes between any of these.
    world.run(&mut link, "UPDATE t SET c = c + 5 WHERE k = 1");
    world.run(&mut link, "UPDATE t SET c = c + -2 WHERE k = 1");
    assert_eq!(count(&mut world, &mut link), 3);
    world.run(
        &mut link,
        "BEGIN COUNTER BATCH UPDATE t SET c = c + 5 WHERE k = 1; UPDATE t SET c = c - 7 WHERE k = 1; APPLY BATCH",
    );
    assert_eq!(count(&mut world, &mut link), 1);
    let add = world
        .prepare(&mut link, "UPDATE t SET c = c + ? WHERE k = ?")
        .id;
    let of = |by: i64| encode_values(&[Some(&by.to_be_bytes()), Some(&1_i32.to_be_bytes())]);
    let (five, minus_two) = (of(5), of(-2));
    let child = |bytes| BatchStatementRef {
        statement: StatementRef::Prepared(&add),
        values: ValuesRef {
            count: 2,
            bytes,
            ..ValuesRef::default()
        },
    };
    let batch = BatchRef {
        kind: BatchKind::Counter,
        statements: &[child(&five), child(&minus_two)],
        consistency: Consistency::One,
        serial_consistency: None,
        // Counters have times of the server's, whatever the client says.
        timestamp: Some(7),
        keyspace: None,
        now_in_seconds: None,
    };
    for expected in [4, 7] {
        let answer = outcome(world.ask(&mut link, RequestRef::Batch(batch)));
        assert_eq!(answer.unwrap(), ResultBody::Void);
        assert_eq!(count(&mut world, &mut link), expected);
    }
}

#[test]
fn a_statement_may_limit_its_own_time() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    for text in [
        "INSERT INTO t (a, v) VALUES (1, 2) USING TIMEOUT 50ms AND TTL 100",
        "UPDATE t USING TIMEOUT 1s SET v = 3 WHERE a = 1",
        "SELECT * FROM t WHERE a = 1 USING TIMEOUT 2000ms",
        "DELETE v FROM t USING TIMEOUT 1m WHERE a = 1",
        "BEGIN BATCH USING TIMEOUT 1s INSERT INTO t (a) VALUES (1); APPLY BATCH",
        "TRUNCATE t USING TIMEOUT 1s",
    ] {
        world.run(&mut link, text);
    }
    for (time, message) in [
        ("null", "Timeout value cannot be null"),
        ("1mo", "Timeout values cannot be expressed in days/months"),
        ("1d", "Timeout values cannot be expressed in days/months"),
        (
            "1us",
            "Timeout values cannot have granularity finer than milliseconds",
        ),
        ("-5ms", "Timeout values must be non-negative"),
    ] {
        let text = format!("SELECT * FROM t USING TIMEOUT {time}");
        let refusal = world.refusal(&mut link, &text);
        assert_eq!(refusal, (CqlError::INVALID, message.to_owned()), "{text}");
    }
    let prepared = world.prepare(&mut link, "SELECT v FROM t WHERE a = ? USING TIMEOUT ?");
    let marker = &prepared.bind_columns[1];
    assert_eq!(
        format!("{} {}", marker.name, marker.ty),
        "[timeout] duration"
    );
}

#[test]
fn a_statement_that_gives_itself_no_time_times_out() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v int)");
    world.run(&mut link, "CREATE TABLE c (a int PRIMARY KEY, n counter)");
    let mut fail = |text: &str| {
        let params = ParamsRef {
            consistency: Consistency::Quorum,
            ..ParamsRef::default()
        };
        world.query_with(&mut link, text, params).unwrap_err()
    };
    let read = fail("SELECT * FROM t USING TIMEOUT 0ms");
    assert_eq!(
        read.message,
        "Operation timed out for k.t - received only 0 responses from 1 CL=QUORUM."
    );
    let detail = ServerErrorDetail::ReadTimeout {
        consistency: Consistency::Quorum,
        received: 0,
        block_for: 1,
        data_present: false,
    };
    assert_eq!((read.code, read.detail), (CqlError::READ_TIMEOUT, detail));
    for (text, write_type) in [
        (
            "INSERT INTO t (a) VALUES (1) USING TIMEOUT 0ms",
            WriteType::Simple,
        ),
        (
            "UPDATE t USING TIMEOUT 0ms SET v = 1 WHERE a = 1 IF v = 2",
            WriteType::Cas,
        ),
        (
            "UPDATE c USING TIMEOUT 0ms SET n = n + 1 WHERE a = 1",
            WriteType::Counter,
        ),
        (
            "BEGIN BATCH USING TIMEOUT 0ms INSERT INTO t (a) VALUES (1); APPLY BATCH",
            WriteType::Batch,
        ),
    ] {
        let detail = ServerErrorDetail::WriteTimeout {
            consistency: Consistency::Quorum,
            received: 0,
            block_for: 1,
            write_type,
            contentions: None,
        };
        assert_eq!(fail(text).detail, detail, "{text}");
    }
    let truncate = fail("TRUNCATE t USING TIMEOUT 0ms");
    assert_eq!(truncate.detail, ServerErrorDetail::TruncateError);
    let rows: Vec<(i32,)> = world.rows(&mut link, "SELECT a FROM t");
    assert!(rows.is_empty(), "nothing was written");
}

/// A connection that asked for the error of rate limits, and one that did not.
fn start_limited() -> (World, Link, Link) {
    let (mut world, mut plain) = start();
    let text = "CREATE TABLE t (a int, b int, PRIMARY KEY (a, b)) WITH per_partition_rate_limit = {'max_reads_per_second': 3, 'max_writes_per_second': 2}";
    world.run(&mut plain, text);
    let mut link = world.connect(0);
    let options = [("SCYLLA_RATE_LIMIT_ERROR".to_owned(), String::new())];
    world.ask(&mut link, RequestRef::Startup(&options));
    link.features.rate_limit_error = Some(0xF000);
    world.run(&mut link, "USE k");
    (world, plain, link)
}

#[test]
fn a_partition_that_is_used_too_often_is_refused_until_the_next_second() {
    let (mut world, mut plain, mut link) = start_limited();
    let insert = "INSERT INTO t (a, b) VALUES (1, 1)";
    for _ in 0..2 {
        world.run(&mut link, insert);
    }
    let error = world.query(&mut link, insert).unwrap_err();
    assert_eq!(error.code, 0xF000);
    assert_eq!(
        error.message,
        "Per-partition rate limit reached for write in table k.t, rejected by coordinator"
    );
    let detail = ServerErrorDetail::RateLimit {
        operation: OperationKind::Write,
        rejected_by_coordinator: true,
    };
    assert_eq!(error.detail, detail);
    // Whoever did not ask for that error gets one that everybody knows, with the same words.
    let plainly = world.query(&mut plain, insert).unwrap_err();
    assert_eq!(
        (plainly.code, plainly.detail),
        (CqlError::CONFIG, ServerErrorDetail::ConfigError)
    );
    assert_eq!(plainly.message, error.message);
    // Reads have a limit of their own, and so has every partition.
    for _ in 0..3 {
        world.run(&mut link, "SELECT * FROM t WHERE a = 1");
    }
    let error = world.query(&mut link, "SELECT * FROM t WHERE a = 1 AND b = 9");
    let detail = ServerErrorDetail::RateLimit {
        operation: OperationKind::Read,
        rejected_by_coordinator: true,
    };
    assert_eq!(error.unwrap_err().detail, detail);
    world.run(&mut link, "INSERT INTO t (a, b) VALUES (2, 1)");
    world.run(&mut link, "SELECT * FROM t");
    world.pass(Duration::from_secs(1));
    world.run(&mut link, insert);
    world.run(&mut link, "SELECT * FROM t WHERE a = 1");
}

#[test]
fn batches_count_and_conditional_statements_do_not() {
    let (mut world, _, mut link) = start_limited();
    let batch = "BEGIN BATCH INSERT INTO t (a, b) VALUES (1, 1); INSERT INTO t (a, b) VALUES (1, 2); APPLY BATCH";
    world.run(&mut link, batch);
    assert_eq!(world.query(&mut link, batch).unwrap_err().code, 0xF000);
    for _ in 0..5 {
        world.run(
            &mut link,
            "INSERT INTO t (a, b) VALUES (1, 3) IF NOT EXISTS",
        );
    }
}

#[test]
fn a_coordinator_without_the_partition_hears_of_the_limit_from_the_replicas() {
    let mut world = World::with_nodes(2);
    let mut links = [world.open(0), world.open(1)];
    let [link, _] = &mut links;
    world.run(
        link,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    world.run(
        link,
        "CREATE TABLE k.t (a int PRIMARY KEY) WITH per_partition_rate_limit = {'max_writes_per_second': 0}",
    );
    let mut endings: Vec<String> = links
        .iter_mut()
        .map(|link| world.refusal(link, "INSERT INTO k.t (a) VALUES (1)").1)
        .map(|text| text.rsplit(' ').next().unwrap_or_default().to_owned())
        .collect();
    endings.sort_unstable();
    assert_eq!(endings, ["coordinator", "replicas"]);
}

#[test]
fn the_rate_limit_is_shown_in_the_schema_and_can_be_changed() {
    use std::collections::BTreeMap;
    let (mut world, _, mut link) = start_limited();
    let text = "SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'k'";
    let shown: Vec<(BTreeMap<String, Vec<u8>>,)> = world.rows(&mut link, text);
    let mut expected = vec![2, 0, 0, 0];
    for part in ["max_reads_per_second", "3", "max_writes_per_second", "2"] {
        expected.extend([u8::try_from(part.len()).unwrap(), 0, 0, 0]);
        expected.extend(part.as_bytes());
    }
    assert_eq!(shown[0].0["per_partition_rate_limit"], expected);
    let described: Vec<(String, String, String, String)> = world.rows(&mut link, "DESC TABLE t");
    let limit =
        "per_partition_rate_limit = {'max_reads_per_second': '3', 'max_writes_per_second': '2'}";
    assert!(described[0].3.contains(limit), "{}", described[0].3);
    world.run(
        &mut link,
        "ALTER TABLE t WITH per_partition_rate_limit = {}",
    );
    for _ in 0..5 {
        world.run(&mut link, "INSERT INTO t (a, b) VALUES (1, 1)");
    }
    let shown: Vec<(Option<BTreeMap<String, Vec<u8>>>,)> = world.rows(&mut link, text);
    assert_eq!(shown[0].0, Some(BTreeMap::new()));
    for bad in ["{'max_reads_per_second': -1}", "{'max_reads': 1}"] {
        let text = format!("ALTER TABLE t WITH per_partition_rate_limit = {bad}");
        assert_eq!(world.refusal(&mut link, &text).0, CqlError::CONFIG, "{bad}");
    }
}
