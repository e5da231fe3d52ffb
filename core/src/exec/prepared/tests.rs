//! Binding, and what becomes of result columns when servers tell of newer ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::config::profile::{ExecutionProfile, PageSize};
use crate::exec::fixtures::*;
use crate::exec::paging::PagingState;
use crate::exec::result::QueryResult;
use crate::exec::statement::{AnyStatement, AsStatement, Statement};
use crate::routing::TableRouting;
use crate::types::value::Value;
use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::header::FrameHeader;
use crate::wire::request::RequestOptionsRef;
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::ResultBody;

#[test]
fn binding_encodes_the_values_and_hashes_the_key_where_it_lies() {
    let bound = prepared(b"id", &[], None).bind((1, "x")).expect("they fit");
    assert_eq!(
        bound.values().values().bytes,
        [0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'x']
    );
    assert_eq!(
        bound.token(),
        Partitioner::Murmur3.token(&1_i32.to_be_bytes())
    );
}

#[test]
fn values_that_do_not_fit_are_told_before_anything_is_sent() {
    let statement = prepared(b"id", &[], None);
    assert!(matches!(statement.bind((1,)), Err(BindError::Values(_))));
    assert!(matches!(
        statement.bind(("1", "x")),
        Err(BindError::Values(_))
    ));
    let error = statement
        .bind((Value::Null, "x"))
        .expect_err("a key needs a value");
    assert_eq!(
        error.to_string(),
        "column \"k\" of the partition key has no value"
    );
}

#[test]
fn columns_are_skipped_only_with_an_id_columns_and_the_extension() {
    let two = [("a", INT), ("b", INT)];
    let plain = ProtocolFeatures::default();
    let extended = ProtocolFeatures {
        metadata_id: true,
        ..plain
    };
    let v5 = ProtocolFeatures {
        version: ProtocolVersion::V5,
        metadata_id: true,
        ..plain
    };
    let whole = prepared(b"id", &two, Some(b"h"));
    let no_id = prepared(b"id", &two, None);
    let no_columns = prepared(b"id", &[], Some(b"h"));
    for (statement, features, id, skip) in [
        (&whole, plain, None, false),
        (&whole, extended, Some(&b"h"[..]), true),
        (&whole, v5, Some(&b"h"[..]), false),
        (&no_id, extended, None, false),
        (&no_columns, extended, None, false),
    ] {
        let shape = statement.shape();
        assert_eq!(
            shape.announce(&features),
            Announcement {
                id,
                skip_metadata: skip
            },
            "{features:?}"
        );
        let RequestRef::Execute {
            result_metadata_id,
            params,
            ..
        } = statement.execute(&shape, ParamsRef::default(), &features)
        else {
            panic!("an EXECUTE")
        };
        assert_eq!((result_metadata_id, params.skip_metadata), (id, skip));
    }
}

#[test]
fn a_request_sent_to_another_kind_of_connection_is_made_anew() {
    let bound = prepared(b"id", &[("a", INT)], Some(b"h"))
        .bind((1, "x"))
        .expect("they fit");
    let skips = |features: &ProtocolFeatures| match bound.request(
        &settings(),
        Consistency::One,
        features,
    ) {
        RequestRef::Execute {
            params,
            result_metadata_id,
            ..
        } => (params.skip_metadata, result_metadata_id.is_some()),
        _ => panic!("an EXECUTE"),
    };
    assert_eq!(
        skips(&ProtocolFeatures {
            metadata_id: true,
            ..ProtocolFeatures::default()
        }),
        (true, true)
    );
    assert_eq!(skips(&ProtocolFeatures::default()), (false, false));
}

#[test]
fn news_from_rows_replace_columns_and_id_together() {
    let statement = with_cell(&[("a", INT)], Some(b"h1"));
    let seen = statement.shape();
    learn(&statement, &seen, &rows_changed(b"h2", &["a", "b"]));
    assert_eq!(pair(&statement), (2, Some(b"h2".to_vec())));
}

#[test]
fn late_news_do_not_overwrite_newer_ones() {
    let statement = with_cell(&[("a", INT)], Some(b"h1"));
    let seen = statement.shape();
    relearn(
        &statement,
        &[("a", INT), ("b", INT), ("c", INT)],
        Some(b"h3"),
    );
    let result = learn(&statement, &seen, &rows_changed(b"h2", &["a", "b"]));
    assert_eq!(
        result.columns().len(),
        2,
        "the answer is read with its own columns"
    );
    assert_eq!(pair(&statement), (3, Some(b"h3".to_vec())));
}

#[test]
fn an_answer_without_columns_is_read_with_those_of_its_request() {
    let statement = with_cell(&[("a", INT), ("b", INT)], Some(b"h1"));
    let seen = statement.shape();
    learn(&statement, &seen, &rows_changed(b"h2", &["a", "b", "c"]));
    let late = cells(Body::default().int(2).int(4).int(2), &[&[1, 2]]);
    let result = learn(&statement, &seen, &late);
    assert_eq!(result.one::<(i32, i32)>().expect("one"), (1, 2));
    assert_eq!(pair(&statement).0, 3);
}

#[test]
fn preparing_again_never_leaves_an_id_beside_other_columns() {
    let two: &[(&str, u16)] = &[("a", INT), ("b", INT)];
    let three: &[(&str, u16)] = &[("a", INT), ("b", INT), ("c", INT)];
    for (old, old_id, new, new_id, expected) in [
        (
            two,
            Some(&b"h1"[..]),
            three,
            Some(&b"h2"[..]),
            (3, Some(&b"h2"[..])),
        ),
        (two, Some(b"h1"), three, None, (3, None)),
        (two, Some(b"h1"), two, None, (2, None)),
        (three, Some(b"h1"), &[], Some(b"h2"), (3, Some(&b"h1"[..]))),
        (three, Some(b"h1"), &[], None, (3, Some(&b"h1"[..]))),
        (three, None, &[], None, (0, None)),
        (&[], Some(b"h1"), &[], Some(b"h2"), (0, Some(&b"h2"[..]))),
    ] {
        let statement = with_cell(old, old_id);
        relearn(&statement, new, new_id);
        assert_eq!(
            pair(&statement),
            (expected.0, expected.1.map(<[u8]>::to_vec)),
            "{old:?} {new:?} {new_id:?}"
        );
    }
}

#[test]
fn a_first_run_without_an_id_learns_one() {
    let statement = with_cell(&[("a", INT)], None);
    let extended = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    let seen = statement.shape();
    assert_eq!(
        seen.announce(&extended),
        Announcement {
            id: None,
            skip_metadata: false
        }
    );
    learn(&statement, &seen, &rows_changed(b"h1", &["a"]));
    let now = statement.shape();
    assert_eq!(
        now.announce(&extended),
        Announcement {
            id: Some(b"h1"),
            skip_metadata: true
        }
    );
}

#[test]
fn without_a_cell_the_columns_stay_as_prepared() {
    let statement = prepared(b"id", &[("a", INT)], Some(b"h1"));
    let seen = statement.shape();
    let result = learn(&statement, &seen, &rows_changed(b"h2", &["a", "b"]));
    assert_eq!(result.columns().len(), 2);
    assert_eq!(pair(&statement), (1, Some(b"h1".to_vec())));
}

#[test]
fn the_table_is_found_also_when_it_became_known_after_preparing() {
    let statement = prepared(b"id", &[], None);
    assert_eq!(statement.table(&routing(1, &[])), None);
    let mut known = routing(1, &[]);
    let (keyspace, name, partitioner) = ("ks".into(), "t".into(), Partitioner::Murmur3);
    known.tables = [TableRouting {
        keyspace,
        name,
        partitioner,
        placement: None,
    }]
    .into();
    known.table_order = [TableIdx(0)].into();
    assert_eq!(statement.table(&known), Some(TableIdx(0)));
}

#[test]
fn options_of_the_statement_win_over_the_profile() {
    let statement = prepared(b"id", &[], None)
        .consistency(Consistency::One)
        .serial_consistency(None)
        .page_size(PageSize::new(10))
        .timeout(Duration::from_secs(1))
        .idempotent(true)
        .timestamp(5)
        .tracing(true);
    let bound = statement
        .bind((1, "x"))
        .expect("they fit")
        .paging_state(PagingState::from_bytes(bytes(b"p")));
    let now = virtual_start();
    let settings = bound
        .options()
        .settle(now, &ExecutionProfile::default(), || 1000);
    assert_eq!(settings.deadline, Some(now + Duration::from_secs(1)));
    assert!(settings.idempotent && settings.tracing);
    let request = bound.request(
        &settings,
        settings.consistency,
        &ProtocolFeatures::default(),
    );
    let RequestRef::Execute { params, .. } = request else {
        panic!("an EXECUTE")
    };
    assert_eq!(
        (params.consistency, params.serial_consistency),
        (Consistency::One, None)
    );
    assert_eq!(
        (params.page_size, params.paging_state),
        (Some(10), Some(&b"p"[..]))
    );
    assert_eq!((params.timestamp, params.values.count), (Some(5), 2));
}

#[test]
fn a_silent_statement_takes_the_profiles_defaults() {
    let calls = AtomicUsize::new(0);
    let generator = || {
        calls.fetch_add(1, Ordering::Relaxed);
        1000
    };
    let settings = Statement::new("SELECT").options().settle(
        virtual_start(),
        &ExecutionProfile::default(),
        generator,
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let RequestRef::Query { text, params } = settings.query("SELECT", settings.consistency, None)
    else {
        panic!("a QUERY")
    };
    assert_eq!(
        (text, params.consistency, params.page_size),
        ("SELECT", Consistency::LocalQuorum, Some(5000))
    );
    assert_eq!(
        params.serial_consistency,
        Some(SerialConsistency::LocalSerial)
    );
    assert_eq!(params.timestamp, Some(1000));

    let unpaged = Statement::new("SELECT").page_size(None);
    let settings = unpaged
        .options()
        .settle(virtual_start(), &ExecutionProfile::default(), || 1);
    assert_eq!(
        settings.query("SELECT", Consistency::One, None).opcode(),
        crate::wire::header::Opcode::Query
    );
    assert_eq!(settings.page_size, None);
}

#[test]
fn a_page_size_is_positive() {
    assert!(PageSize::new(0).is_none() && PageSize::new(-1).is_none());
    assert_eq!(PageSize::new(1).map(PageSize::rows), Some(1));
}

#[test]
fn text_and_prepared_statements_are_told_apart() {
    let kinds = |statement: &dyn AsStatement| match statement.as_statement() {
        AnyStatement::Text { options, .. } => options.is_some(),
        AnyStatement::Prepared(_) => panic!("a text"),
    };
    assert!(!kinds(&"SELECT") && !kinds(&String::from("SELECT")));
    assert!(kinds(&Statement::new("SELECT")));
    assert!(matches!(
        prepared(b"id", &[], None).as_statement(),
        AnyStatement::Prepared(_)
    ));
}

#[test]
fn a_statement_without_columns_sends_an_empty_id_for_ever() {
    let statement = with_cell(&[], Some(b"h"));
    let extended = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    for _ in 0..3 {
        let seen = statement.shape();
        let announced = seen.announce(&extended);
        assert_eq!((announced.id, announced.skip_metadata), (None, false));
        let request = statement.execute(&seen, ParamsRef::default(), &extended);
        let mut sent = Vec::new();
        request
            .encode(&mut sent, &extended, 1, &RequestOptionsRef::default())
            .expect("a short request");
        // The id of the statement, the empty one of its columns, the consistency, and flags that leave nothing out.
        let id = [0, 2, b'i', b'd'];
        let (consistency, flags) = (&[0, 6], &[0]);
        assert_eq!(
            sent[FrameHeader::LEN..],
            [&id[..], &[0, 0], consistency, flags].concat()
        );
        let result = learn(&statement, &seen, &void());
        assert!(!result.is_rows());
    }
}

#[test]
fn columns_that_were_not_told_when_preparing_are_learned_with_the_first_rows() {
    let statement = with_cell(&[], Some(b"h"));
    let extended = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    let seen = statement.shape();
    assert!(!seen.announce(&extended).skip_metadata);
    let first = learn(
        &statement,
        &seen,
        &rows_changed(b"h2", &["role", "super", "login"]),
    );
    assert_eq!(first.columns().len(), 3);
    let seen = statement.shape();
    let announced = seen.announce(&extended);
    assert_eq!(
        (announced.id, announced.skip_metadata),
        (Some(&b"h2"[..]), true)
    );
    let bare = cells(Body::default().int(2).int(4).int(3), &[&[1, 2, 3]]);
    let second = learn(&statement, &seen, &bare);
    assert_eq!(second.one::<(i32, i32, i32)>().expect("one"), (1, 2, 3));
}

#[test]
fn in_a_mixed_cluster_each_node_is_told_what_it_can_read_and_only_the_newer_ones_teach() {
    let statement = with_cell(&[("a", INT)], None);
    let old = ProtocolFeatures::default();
    let new = ProtocolFeatures {
        metadata_id: true,
        ..old
    };
    let seen = statement.shape();
    let told = |shape: &ResultShape, features| {
        let announced = shape.announce(features);
        (announced.id.map(<[u8]>::to_vec), announced.skip_metadata)
    };
    assert_eq!(told(&seen, &new), (None, false));
    learn(&statement, &seen, &rows_changed(b"h1", &["a"]));
    let seen = statement.shape();
    assert_eq!(
        told(&seen, &old),
        (None, false),
        "an older node is told nothing"
    );
    let plain = rows(&["a"], &[&[1]], None);
    let read = QueryResult::parse(&plain, &old, Some((statement.preparation(), &seen)), None);
    assert_eq!(read.expect("rows").one::<(i32,)>().expect("one"), (1,));
    assert_eq!(
        pair(&statement),
        (1, Some(b"h1".to_vec())),
        "and teaches nothing"
    );
    assert_eq!(told(&statement.shape(), &new), (Some(b"h1".to_vec()), true));
}

#[test]
fn an_id_without_its_columns_fails_the_request_and_is_told_once() {
    let statement = with_cell(&[("a", INT)], Some(b"h1"));
    let features = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    let seen = statement.shape();
    let odd = || {
        let body = Body::default()
            .int(2)
            .int(12)
            .int(1)
            .short_bytes(b"\xab\xcd");
        let announced = Some((&**statement.preparation(), &seen));
        let error = QueryResult::parse(&body.int(0).result(), &features, announced, None);
        let error = error.expect_err("a server that contradicts itself");
        statement.preparation().learn_unreadable(&error)
    };
    let note = odd().expect("the first one is told");
    assert!(note.to_string().contains("SELECT"), "{note}");
    for _ in 0..10 {
        assert!(odd().is_none(), "once is enough");
    }
    assert_eq!(pair(&statement), (1, Some(b"h1".to_vec())));
    assert!(
        seen.announce(&features).skip_metadata,
        "the next request tells the old id"
    );
    learn(&statement, &seen, &rows_changed(b"h2", &["a", "b"]));
    assert!(odd().is_some(), "after good news it is worth telling again");
}

#[test]
fn an_answer_without_news_teaches_the_statement_nothing() {
    let statement = with_cell(&[("a", INT)], Some(b"h1"));
    let frame = rows(&["a", "b"], &[&[1, 2]], None);
    let result = learn(&statement, &statement.shape(), &frame);
    assert_eq!(result.columns().len(), 2, "it is read by its own columns");
    assert_eq!(pair(&statement), (1, Some(b"h1".to_vec())));
}

/// A cell as an owner with several tasks brings one.
#[derive(Debug)]
#[expect(
    clippy::disallowed_types,
    reason = "stands in for an owner that may lock"
)]
struct Cell(std::sync::Mutex<Arc<ResultShape>>);

impl ShapeCell for Cell {
    fn load(&self) -> Arc<ResultShape> {
        Arc::clone(&self.0.lock().expect("one thread"))
    }

    fn replace(&self, seen: &Arc<ResultShape>, new: Arc<ResultShape>) {
        let mut current = self.0.lock().expect("one thread");
        if Arc::ptr_eq(&current, seen) {
            *current = new;
        }
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "stands in for an owner that may lock"
)]
pub(super) fn with_cell(result: &[(&str, u16)], metadata_id: Option<&[u8]>) -> PreparedStatement {
    prepared(b"id", result, metadata_id)
        .with_shape_cell(|shape| Arc::new(Cell(std::sync::Mutex::new(shape))))
}

/// Returns how many columns the statement has, and their id.
fn pair(statement: &PreparedStatement) -> (usize, Option<Vec<u8>>) {
    let shape = statement.shape();
    (
        shape.columns().map_or(0, |columns| columns.len()),
        shape.metadata_id().map(|id| id.to_vec()),
    )
}

/// Reads an answer to a request that announced `seen`.
fn learn(
    statement: &PreparedStatement,
    seen: &Arc<ResultShape>,
    frame: &ResponseFrame,
) -> QueryResult {
    let features = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    QueryResult::parse(
        frame,
        &features,
        Some((statement.preparation(), seen)),
        None,
    )
    .expect("our own frame")
}

pub(super) fn relearn(
    statement: &PreparedStatement,
    result: &[(&str, u16)],
    metadata_id: Option<&[u8]>,
) {
    let features = ProtocolFeatures {
        metadata_id: metadata_id.is_some(),
        ..ProtocolFeatures::default()
    };
    let frame = prepared_frame(b"id", result, metadata_id);
    let response = frame.parse(&features).expect("our own frame").response;
    let Response::Result(ResultBody::Prepared(body)) = response else {
        panic!("our own frame")
    };
    let learned = statement.preparation().learn_prepared(&body);
    learned.expect("the same markers");
}

#[test]
fn an_answer_that_repeats_what_is_known_leaves_a_statement_as_prepared() {
    for (result, metadata_id) in [
        (&[][..], None),
        (&[][..], Some(&b"m1"[..])),
        (&[("v", INT)][..], Some(&b"m1"[..])),
    ] {
        let statement = with_cell(result, metadata_id);
        relearn(&statement, result, metadata_id);
        assert!(
            statement.preparation().is_as_prepared(),
            "{result:?} {metadata_id:?}"
        );
    }
}

fn rows_changed(id: &[u8], columns: &[&str]) -> ResponseFrame {
    let specs: Vec<(&str, u16)> = columns.iter().map(|name| (*name, INT)).collect();
    let count = i32::try_from(columns.len()).expect("few");
    let row: Vec<i32> = (0..count).collect();
    cells(
        Body::default()
            .int(2)
            .int(9)
            .int(count)
            .short_bytes(id)
            .columns(&specs),
        &[&row],
    )
}
