//! Batches as they reach the wire.

use std::time::Duration;

use super::*;
use crate::exec::fixtures::*;
use crate::exec::statement::Statement;
use crate::routing::Routing;
use crate::types::value::Value;
use crate::wire::supported::ProtocolFeatures;

#[test]
fn children_keep_their_order_and_their_own_values() {
    let insert = prepared(b"p1", &[], None);
    let batch = Batch::unlogged()
        .add(&insert, (7, "ada"))
        .add("DELETE", ())
        .add(&insert, (8, "bob"));
    batch.check().expect("everything fits");
    assert_eq!(batch.len(), 3);
    batch.with_request(&settings(), Consistency::Quorum, |request| {
        let RequestRef::Batch(batch) = request else {
            panic!("a batch")
        };
        assert_eq!(
            (batch.kind, batch.consistency, batch.timestamp),
            (BatchKind::Unlogged, Consistency::Quorum, Some(1000))
        );
        let [first, text, last] = batch.statements else {
            panic!("three children")
        };
        assert!(matches!(first.statement, StatementRef::Prepared(b"p1")));
        assert_eq!(
            first.values.bytes,
            [0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 3, b'a', b'd', b'a']
        );
        assert!(matches!(text.statement, StatementRef::Text("DELETE")) && text.values.count == 0);
        assert_eq!(
            last.values.bytes,
            [0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 3, b'b', b'o', b'b']
        );
        assert_eq!(last.values.count, 2);
    });
}

#[test]
fn large_values_travel_beside_their_child() {
    let insert = prepared(b"p1", &[], None);
    let long = "x".repeat(5000);
    let batch = Batch::logged()
        .add(&insert, (1, &*long))
        .add(&insert, (2, "y"));
    batch.check().expect("everything fits");
    batch.with_request(&settings(), Consistency::One, |request| {
        let RequestRef::Batch(batch) = request else {
            panic!("a batch")
        };
        let [first, second] = batch.statements else {
            panic!("two children")
        };
        let spliced: usize = first
            .values
            .large
            .iter()
            .map(|large| large.bytes.len())
            .sum();
        assert_eq!(first.values.bytes.len() + spliced, 8 + 4 + 5000);
        assert!(second.values.large.is_empty());
    });
}

#[test]
fn the_first_error_is_kept_until_the_batch_is_sent() {
    let insert = prepared(b"p1", &[], None);
    let batch = Batch::logged().add(&insert, (7,)).add(&insert, (7, "ada"));
    assert!(batch.check().is_err());
    assert!(batch.is_empty(), "nothing half done is kept");

    let mut batch = Batch::logged();
    assert!(
        batch.push("INSERT", (1,)).is_err(),
        "a text with values has to be prepared"
    );
    assert!(
        batch.push(&insert, (Value::Null, "x")).is_err(),
        "a key without a value"
    );
    assert!(batch.push(&insert, (1, "x")).is_ok());
    assert!(batch.check().is_ok());
}

#[test]
fn a_batch_takes_as_many_statements_as_its_count_can_say() {
    let mut batch = Batch::unlogged();
    for _ in 0..65_535 {
        batch.push("DELETE", ()).expect("room");
    }
    assert!(batch.push("DELETE", ()).is_err());
    assert_eq!(batch.len(), 65_535);
}

#[test]
fn a_batch_is_idempotent_when_it_says_so_or_all_its_children_do() {
    let yes = || Statement::new("A").idempotent(true);
    let no = || Statement::new("B").idempotent(false);
    let silent = || Statement::new("C");
    assert!(
        Batch::logged()
            .add(yes(), ())
            .add(yes(), ())
            .is_idempotent(false)
    );
    assert!(
        !Batch::logged()
            .add(yes(), ())
            .add(no(), ())
            .is_idempotent(true)
    );
    assert!(
        !Batch::logged()
            .add(yes(), ())
            .add(silent(), ())
            .is_idempotent(false)
    );
    assert!(
        Batch::logged()
            .add(yes(), ())
            .add(silent(), ())
            .is_idempotent(true)
    );
    assert!(
        Batch::logged()
            .add(no(), ())
            .idempotent(true)
            .is_idempotent(false)
    );
    assert!(!Batch::counter().add(yes(), ()).is_idempotent(true));
    assert!(
        Batch::counter()
            .add(yes(), ())
            .idempotent(true)
            .is_idempotent(false)
    );
    assert!(
        !Batch::logged()
            .add(yes(), ())
            .idempotent(false)
            .is_idempotent(true)
    );
}

#[test]
fn an_explicit_timestamp_wins_over_the_generator() {
    let profile = crate::config::profile::ExecutionProfile::default();
    let settle = |batch: &Batch| {
        batch
            .options()
            .settle(virtual_start(), &profile, || 1000)
            .timestamp
    };
    assert_eq!(settle(&Batch::logged()), Some(1000));
    assert_eq!(
        settle(&Batch::logged().timestamp(5).timeout(Duration::from_secs(1))),
        Some(5)
    );
}

#[test]
fn the_execution_learns_the_prepared_children() {
    let batch = Batch::logged()
        .add("A", ())
        .add(prepared(b"1", &[], None), (1, "x"));
    let StatementKind::Batch(children) = batch.statement_kind() else {
        panic!("a batch")
    };
    assert_eq!(
        children
            .iter()
            .map(|child| child.id().clone())
            .collect::<Vec<_>>(),
        [bytes(b"1")]
    );
    assert_eq!(
        batch.route(&Routing::<u32>::default()),
        None,
        "the table is not known"
    );
    assert!(!batch.is_conditional());
}

#[test]
fn a_text_with_values_is_bound_once_its_text_is_prepared() {
    let insert = prepared(b"p1", &[], None);
    let mut batch = Batch::logged()
        .add("DELETE", ())
        .add(&insert, (1, "a"))
        .add_text("TYPED", (2, "b"))
        .add_text("TYPED", (3, String::from("c")));
    batch.check().expect("nothing is known to be wrong");
    let texts: Vec<&str> = batch.texts_to_prepare().map(|text| &**text).collect();
    assert_eq!(texts, ["TYPED", "TYPED"]);
    assert!(matches!(batch.check_markers(), Err(BindError::NotPrepared)));
    batch
        .bind_text(&prepared_text("OTHER", "ks"))
        .expect("it is of no concern");
    batch
        .bind_text(&prepared_text("TYPED", "ks"))
        .expect("the values fit");
    batch.check_markers().expect("everything is prepared");
    batch.with_request(&settings(), Consistency::One, |request| {
        let RequestRef::Batch(batch) = request else {
            panic!("a batch")
        };
        let kinds: Vec<bool> = batch
            .statements
            .iter()
            .map(|child| matches!(child.statement, StatementRef::Prepared(_)))
            .collect();
        assert_eq!(kinds, [false, true, true, true]);
        let last = batch.statements.last().expect("four");
        assert_eq!(last.values.count, 2);
        assert_eq!(
            last.values.bytes,
            [0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 1, b'c']
        );
    });
}

#[test]
fn values_that_do_not_fit_their_text_are_told_and_leave_the_batch_as_it_was() {
    let mut batch = Batch::logged().add_text("TYPED", ("no int", "b"));
    let error = batch.bind_text(&prepared_text("TYPED", "ks"));
    assert!(matches!(error, Err(BindError::Values(_))), "{error:?}");
    assert_eq!((batch.len(), batch.texts_to_prepare().count()), (1, 1));
    assert!(
        !format!("{batch:?}").contains("no int"),
        "values are secrets"
    );
}

#[test]
fn a_text_whose_later_values_do_not_fit_is_bound_nowhere() {
    let mut batch = Batch::logged()
        .add_text("TYPED", (1, "a"))
        .add_text("TYPED", ("no int", "b"));
    let before = batch.values.end();
    let error = batch.bind_text(&prepared_text("TYPED", "ks"));
    assert!(matches!(error, Err(BindError::Values(_))), "{error:?}");
    assert_eq!((batch.len(), batch.texts_to_prepare().count()), (2, 2));
    assert_eq!(batch.values.end(), before, "no values are left behind");
}

#[test]
fn a_statement_is_added_with_all_its_values_or_not_at_all() {
    let insert = prepared(b"p1", &[], None);
    let mut batch = Batch::logged();
    batch
        .extend(&insert, (1..=3).map(|id| (id, "x")))
        .expect("they fit");
    assert!(batch.push(&insert, (4,)).is_err(), "a value is missing");
    assert!(
        batch.push(&insert, (4, "x", "y")).is_err(),
        "there is one too many"
    );
    batch
        .push_bound(&insert.bind((4, "bound")).expect("they fit"))
        .expect("room");
    let counts = batch.with_request(&settings(), Consistency::One, |request| {
        let RequestRef::Batch(batch) = request else {
            panic!("a batch")
        };
        batch
            .statements
            .iter()
            .map(|child| child.values.count)
            .collect::<Vec<_>>()
    });
    assert_eq!(counts, [2, 2, 2, 2]);
}

/// Knows `ks.t`, so that tokens have a table.
fn known() -> Routing<u32> {
    let mut known = routing(1, &[]);
    known.tables = [crate::routing::TableRouting {
        keyspace: "ks".into(),
        name: "t".into(),
        partitioner: crate::routing::Partitioner::Murmur3,
        placement: None,
    }]
    .into();
    known.table_order = [TableIdx(0)].into();
    known
}

#[test]
fn the_first_statement_with_a_token_says_where_the_batch_goes() {
    let body = prepared_body(b"p1", &[("k", INT), ("v", TEXT)]);
    let insert = PreparedStatement::new("INSERT".into(), Some("ks".into()), body, &known());
    let token = |key| insert.bind((key, "x")).expect("they fit").token();
    assert_ne!(token(1), token(2));
    let batch = Batch::logged()
        .add(&insert, (1, "x"))
        .add(&insert, (2, "x"));
    assert_eq!(batch.route(&known()).map(|(_, token)| token), token(1));
    let text_first = Batch::logged().add("DELETE", ()).add(&insert, (2, "x"));
    assert_eq!(text_first.route(&known()).map(|(_, token)| token), token(2));
    assert_eq!(Batch::logged().add("DELETE", ()).route(&known()), None);
}

#[test]
fn a_batch_tells_neither_a_metadata_id_nor_a_tablet_version() {
    let insert = prepared(b"p1", &[("a", INT)], Some(b"h1"));
    let batch = Batch::logged().add(&insert, (1, "x"));
    let plain = ProtocolFeatures::default();
    let extended = ProtocolFeatures {
        metadata_id: true,
        tablets_v2: true,
        ..plain
    };
    let encoded = |features: &ProtocolFeatures| {
        let mut out = Vec::new();
        batch
            .with_request(&settings(), Consistency::One, |request| {
                let options = crate::wire::request::RequestOptionsRef::default();
                request.encode(&mut out, features, 1, &options)
            })
            .expect("it fits");
        out
    };
    assert_eq!(encoded(&extended), encoded(&plain));
}

#[test]
fn a_batch_over_what_servers_take_is_refused_before_it_is_sent() {
    const BLOB: u16 = 0x0003;
    let body = prepared_body(b"p1", &[("k", INT), ("v", BLOB)]);
    let insert = PreparedStatement::new("INSERT".into(), Some("ks".into()), body, &routing(1, &[]));
    // All share one piece of memory.
    let value = bytes::Bytes::from(vec![0; 16 << 20]);
    let size = |count: i32| {
        let mut batch = Batch::unlogged();
        batch
            .extend(&insert, (0..count).map(|k| (k, value.clone())))
            .expect("they fit");
        batch.with_request(&settings(), Consistency::One, |request| {
            let options = crate::wire::request::RequestOptionsRef::default();
            request.body_len(&ProtocolFeatures::default(), &options)
        })
    };
    assert!(size(15).is_ok());
    let error = size(16).expect_err("256 MiB and a little more");
    assert!(error.to_string().contains("268435456"), "{error}");
}
