//! What the parser accepts and refuses.

use super::super::ast::{
    AssignmentKind, Change, Condition, Ddl, Literal, Operator, Part, RawType, RelationValue,
    Statement, Target, Term,
};
use super::*;

fn statement(text: &str) -> Statement {
    parse(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .statement
}

fn modify(text: &str) -> Modify {
    match statement(text) {
        Statement::Modify(modify) => modify,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_metadata_queries_of_the_official_drivers_parse() {
    for text in [
        "SELECT peer, data_center, host_id, rack, release_version, rpc_address, schema_version, tokens FROM system.peers USING TIMEOUT 2000ms",
        "SELECT schema_version FROM system.local WHERE key='local'",
        "SELECT * FROM system_schema.views WHERE keyspace_name = ? AND base_table_name = ? ALLOW FILTERING USING TIMEOUT 10ms",
        "SELECT keyspace_name, initial_tablets FROM system_schema.scylla_keyspaces where keyspace_name in ?",
        "SELECT connection_id, host_id, address, port, tls_port FROM system.client_routes WHERE connection_id IN (?, ?)",
        "SELECT * FROM system_schema.functions WHERE keyspace_name = 'k' AND function_name = 'f' AND argument_types = ['int']",
        "DESCRIBE KEYSPACE k WITH INTERNALS",
        "USE \"k\"",
        "SELECT now() FROM system.local;;",
        "SELECT token(id), writetime(v), ttl(v) AS t, count(*) FROM ks.t BYPASS CACHE USING TIMEOUT 1s",
    ] {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn markers_are_counted_in_their_order_and_equal_names_share_one() {
    let parsed = parse("SELECT * FROM t WHERE a = :x AND b IN (?, :y) AND c > :x LIMIT ?").unwrap();
    let expected = [Some("x".to_owned()), None, Some("y".to_owned()), None];
    assert_eq!(parsed.markers, expected);
    let Statement::Select(select) = parsed.statement else {
        panic!()
    };
    assert_eq!(
        select.relations[2].value,
        RelationValue::One(Term::Marker(0))
    );
    assert_eq!(select.limit, Some(Term::Marker(3)));
}

#[test]
fn relations_know_their_targets_and_operators() {
    let Statement::Select(select) = statement(
        "SELECT * FROM t WHERE token(a, b) >= -5 AND (c, d) < (1, 2) AND m['k'] = 3 AND s CONTAINS KEY 4",
    ) else {
        panic!()
    };
    let operators: Vec<_> = select.relations.iter().map(|r| r.operator).collect();
    let expected = [
        Operator::GreaterOrEqual,
        Operator::Less,
        Operator::Equal,
        Operator::ContainsKey,
    ];
    assert_eq!(operators, expected);
    assert_eq!(
        select.relations[0].target,
        Target::Token(vec!["a".into(), "b".into()])
    );
    assert_eq!(
        select.relations[1].target,
        Target::Tuple(vec!["c".into(), "d".into()])
    );
    let literal = Term::Literal(Literal::Integer("-5".into()));
    assert_eq!(select.relations[0].value, RelationValue::One(literal));
}

#[test]
fn braces_are_sets_maps_or_user_types() {
    let modify = modify(
        "INSERT INTO t (a, b, c, d) VALUES ({1, 2}, {'x': 1}, { name : 'x' , age : 1 }, {})",
    );
    let Change::Insert { values, .. } = modify.change else {
        panic!()
    };
    assert!(matches!(&values[0], Term::Set(items) if items.len() == 2));
    assert!(matches!(&values[1], Term::Map(entries) if entries.len() == 1));
    assert!(matches!(&values[2], Term::Fields(fields) if fields[1].0 == "age"));
    assert_eq!(values[3], Term::Set(Vec::new()));
}

#[test]
fn assignments_add_prepend_and_subtract() {
    let modify = modify(
        "UPDATE t USING TTL 5 AND TIMESTAMP ? SET a = 1, b = b + ?, c = ? + c, d = d - {1}, e['k'] = 2, f += 1, g.h = 3 WHERE k = 1 IF EXISTS",
    );
    let Change::Update(assignments) = modify.change else {
        panic!()
    };
    let kinds: Vec<_> = assignments.iter().map(|a| a.kind).collect();
    use AssignmentKind::{Add, Prepend, Set, Subtract};
    assert_eq!(kinds, [Set, Add, Prepend, Subtract, Set, Add, Set]);
    assert!(matches!(assignments[4].place.part, Part::Element(_)));
    assert!(matches!(&assignments[6].place.part, Part::Field(field) if field == "h"));
    assert_eq!(modify.condition, Condition::Exists);
    assert_eq!(modify.using.timestamp, Some(Term::Marker(0)));
}

#[test]
fn a_table_knows_its_keys_and_orders() {
    let Statement::Ddl(Ddl::CreateTable(create)) = statement(
        "CREATE TABLE IF NOT EXISTS ks.t (a int, b text, c timeuuid, d frozen<map<text, list<int>>> static, e vector<float, 3>, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND compaction = {'class': 'Y'}",
    ) else {
        panic!()
    };
    assert!(create.if_not_exists);
    assert_eq!(create.partition_key, ["a", "b"]);
    assert_eq!(create.clustering_key, ["c"]);
    assert!(create.columns[3].is_static);
    assert!(matches!(&create.columns[4].ty, RawType::Vector(_, 3)));
    assert_eq!(create.properties.len(), 2);
}

#[test]
fn durations_are_understood_in_both_notations() {
    for (text, months, days, nanoseconds) in [
        ("14mo3d5000000001ns", 14, 3, 5_000_000_001),
        ("-1mo2d3ns", -1, -2, -3),
        ("1y2w3h", 12, 14, 10_800_000_000_000),
        ("P1Y2M3DT4H", 14, 3, 14_400_000_000_000),
    ] {
        let modify = modify(&format!("INSERT INTO t (a) VALUES ({text})"));
        let Change::Insert { values, .. } = modify.change else {
            panic!()
        };
        let expected = Literal::Duration {
            months,
            days,
            nanoseconds,
        };
        assert_eq!(values[0], Term::Literal(expected), "{text}");
    }
}

#[test]
fn batches_hold_modifications_only() {
    let text = "BEGIN UNLOGGED BATCH USING TIMESTAMP 4 INSERT INTO t (a) VALUES (?); DELETE FROM t WHERE a = ?; APPLY BATCH;";
    let Statement::Batch(batch) = statement(text) else {
        panic!()
    };
    assert_eq!(batch.statements.len(), 2);
    assert!(parse("BEGIN BATCH SELECT * FROM t; APPLY BATCH").is_err());
    assert!(parse("BEGIN BATCH INSERT INTO t (a) VALUES (1)").is_err());
}

#[test]
fn wrong_texts_are_syntax_errors_with_a_place() {
    for text in [
        "",
        ";",
        "SELEC * FROM t",
        "SELECT * FROM",
        "SELECT * FROM t WHERE",
        "INSERT INTO t VALUES (1)",
        "SELECT * FROM t; SELECT * FROM u",
        "SELECT * FROM select",
        "UPDATE t SET a WHERE b = 1",
        "CREATE TABLE t (a int PRIMARY KEY",
        "SELECT * FROM t LIMIT",
        "SELECT a FROM t WHERE a = {1: }",
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.code, CqlError::SYNTAX, "{text}");
        assert!(
            error.message.starts_with("line "),
            "{text}: {}",
            error.message
        );
    }
}

#[test]
fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
    for (open, close) in [("[", "]"), ("(", ")"), ("{", "}")] {
        let text = format!(
            "INSERT INTO t (a) VALUES ({}1{})",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        assert_eq!(parse(&text).unwrap_err().code, CqlError::SYNTAX);
    }
    let ty = format!(
        "CREATE TABLE t (a {}int{} PRIMARY KEY)",
        "list<".repeat(100_000),
        ">".repeat(100_000)
    );
    assert_eq!(parse(&ty).unwrap_err().code, CqlError::SYNTAX);
    let relation = format!("SELECT * FROM t WHERE {}a = 1", "(".repeat(100_000));
    assert_eq!(parse(&relation).unwrap_err().code, CqlError::SYNTAX);
}
