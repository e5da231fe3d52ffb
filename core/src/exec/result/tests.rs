//! Results as a caller reads them.

use std::error::Error;

use super::*;
use crate::error::request::{ErrorCategory, RequestError, RequestErrorKind};
use crate::error::session::{SessionError, SessionErrorKind};
use crate::exec::fixtures::*;
use crate::exec::prepared::PreparedStatement;
use crate::wire::header::{Flags, Opcode};

#[test]
fn rows_are_read_in_place_as_often_as_asked() {
    let result = read(&rows(&["a", "b"], &[&[1, 2], &[3, 4]], None));
    for _ in 0..2 {
        let pairs: Result<Vec<(i32, i32)>, _> = result.rows().expect("two ints").collect();
        assert_eq!(pairs.expect("whole rows"), [(1, 2), (3, 4)]);
    }
    assert_eq!(result.row_count(), 2);
    let names: Vec<&str> = result
        .columns()
        .iter()
        .map(|column| &*column.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
    let first = result
        .dynamic_rows()
        .expect("rows")
        .next()
        .expect("two")
        .expect("whole");
    assert_eq!(first.read::<i32>("b").expect("an int"), 2);
}

#[test]
fn one_row_is_one_row() {
    let none = read(&rows(&["a"], &[], None));
    let one = read(&rows(&["a"], &[&[7]], None));
    let two = read(&rows(&["a"], &[&[7], &[8]], None));
    let more = read(&rows(&["a"], &[&[7]], Some(b"x")));
    let gap = read(&rows(&["a"], &[], Some(b"x")));

    assert!(matches!(none.one::<(i32,)>(), Err(ResultError::NoRow)));
    assert_eq!(none.maybe_one::<(i32,)>().expect("no row is fine"), None);
    assert_eq!(none.first::<(i32,)>().expect("no row is fine"), None);
    assert_eq!(one.one::<(i32,)>().expect("one"), (7,));
    assert!(matches!(
        two.one::<(i32,)>(),
        Err(ResultError::ManyRows { rows: 2 })
    ));
    assert!(matches!(
        two.maybe_one::<(i32,)>(),
        Err(ResultError::ManyRows { rows: 2 })
    ));
    assert_eq!(two.first::<(i32,)>().expect("a first"), Some((7,)));
    assert!(matches!(more.one::<(i32,)>(), Err(ResultError::MorePages)));
    assert!(
        matches!(gap.maybe_one::<(i32,)>(), Err(ResultError::MorePages)),
        "rows may follow"
    );
    assert!(matches!(
        more.expect_last_page(),
        Err(ResultError::MorePages)
    ));
    assert!(one.expect_last_page().is_ok());
}

#[test]
fn the_errors_of_reading_say_what_is_wrong_once() {
    let two = read(&rows(&["a"], &[&[7], &[8]], None));
    let error = two.one::<(i32,)>().expect_err("two rows");
    assert_eq!(
        error.to_string(),
        "the result has 2 rows where one was expected"
    );

    let error = two.rows::<(String,)>().expect_err("an int is no text");
    assert_eq!(error.to_string(), "the row type does not fit the columns");
    assert!(error.source().is_some());
    assert_eq!(error.category(), ErrorCategory::Caller);

    let error = RequestError::from(read(&void()).rows::<(i32,)>().expect_err("no rows"));
    assert_eq!(error.to_string(), "the result cannot be read as asked");
    assert_eq!(
        error.source().map(ToString::to_string),
        Some("the statement returns no rows".into())
    );
    assert_eq!(
        (error.category(), error.fate()),
        (ErrorCategory::Caller, Fate::Answered)
    );
}

#[test]
fn warnings_and_the_trace_stand_beside_the_rows() {
    let body = Body::default()
        .short(1)
        .string("w1")
        .int(2)
        .int(1)
        .int(1)
        .columns(&[("a", INT)]);
    let mut frame = cells(body, &[&[1]]);
    frame.header.flags = Flags::WARNING;
    let result = read(&frame);
    assert_eq!(result.warnings(), ["w1"]);
    assert_eq!(result.one::<(i32,)>().expect("one"), (1,));
    assert_eq!(result.tracing_id(), None);

    let id = Uuid::from_u128(5);
    let body = id
        .as_bytes()
        .iter()
        .fold(Body::default(), |body, byte| body.byte(*byte));
    let result = read(&body.int(1).frame(Opcode::Result, Flags::TRACING));
    assert_eq!(result.tracing_id(), Some(id));
    assert!(!result.is_rows());
}

#[test]
fn use_and_schema_statements_say_what_they_did() {
    let result = read(&Body::default().int(3).string("ks2").result());
    assert_eq!(result.set_keyspace(), Some("ks2"));
    assert_eq!(result.follow_up(), Some(FollowUp::Keyspace("ks2")));
    let change = Body::default()
        .int(5)
        .string("CREATED")
        .string("TABLE")
        .string("ks")
        .string("t")
        .result();
    let result = read(&change);
    assert_eq!(
        result.schema_change().map(|change| &*change.keyspace),
        Some("ks")
    );
    assert_eq!(result.set_keyspace(), None);
    let change = result.schema_change().expect("a change");
    assert_eq!(result.follow_up(), Some(FollowUp::Schema(change)));
}

#[test]
fn only_a_change_of_the_schema_or_of_the_keyspace_has_to_be_followed() {
    let void = read(&Body::default().int(1).result());
    assert_eq!(void.follow_up(), None);
    let rows = read(&rows(&["k"], &[&[1]], None));
    assert!(rows.is_rows());
    assert_eq!(rows.follow_up(), None);
}

#[test]
fn a_keyspace_that_not_all_have_entered_is_an_error_in_place_of_the_answer() {
    let answer = || read(&Body::default().int(3).string("ks2").result());
    let entered = answer().with_keyspace(Ok(())).expect("all have");
    assert_eq!(entered.set_keyspace(), Some("ks2"));
    let kind = SessionErrorKind::KeyspaceInPart { name: "ks2".into() };
    let error = SessionError::new(kind, Vec::new());
    let error = answer().with_keyspace(Err(error)).expect_err("not all");
    assert!(
        matches!(error.kind(), RequestErrorKind::Keyspace(_)),
        "{error:?}"
    );
}

#[test]
fn a_conditional_result_says_whether_it_was_applied() {
    for (byte, applied) in [(1, true), (0, false)] {
        let columns = &[("[applied]", BOOLEAN), ("v", INT)];
        let body = Body::default().int(2).int(1).int(2).columns(columns).int(1);
        let frame = body.bytes(&[byte]).bytes(&7_i32.to_be_bytes()).result();
        let result = read(&frame);
        assert_eq!(result.applied().expect("a mark"), applied);
        assert_eq!(
            result.one::<(bool, i32)>().expect("one row"),
            (applied, 7),
            "other columns stay readable"
        );
    }
}

/// A row of a conditional statement on `v int`, `w int`.
fn conditional(applied: u8, cells: &[Option<i32>]) -> ResponseFrame {
    let columns = [("[applied]", BOOLEAN), ("v", INT), ("w", INT)];
    let columns = &columns[..=cells.len()];
    let count = i32::try_from(columns.len()).expect("few");
    let body = Body::default()
        .int(2)
        .int(1)
        .int(count)
        .columns(columns)
        .int(1);
    let body = body.bytes(&[applied]);
    let put = |body: Body, cell: &Option<i32>| match cell {
        Some(value) => body.bytes(&value.to_be_bytes()),
        None => body.int(-1),
    };
    cells.iter().fold(body, put).result()
}

#[test]
fn the_row_that_a_conditional_statement_found_stands_behind_the_mark() {
    let refused = read(&conditional(0, &[Some(7), None]));
    assert_eq!(
        refused.previous::<(i32, Option<i32>)>().expect("typed"),
        Some((7, None))
    );
    let row: Row<'_> = refused.previous().expect("dynamic").expect("a row");
    assert_eq!(row.read::<i32>("v").expect("an int"), 7);
    assert!(!row.has("[applied]"));
    let error = refused
        .previous::<(String, i32)>()
        .expect_err("an int is no text");
    assert!(matches!(error, ResultError::Type(_)), "{error:?}");
    // No row was there: all its columns are null.
    let nothing = read(&conditional(0, &[None, None]));
    assert_eq!(nothing.previous::<(i32, i32)>().expect("no row"), None);
    // A server of another kind tells nothing but the mark when the statement was applied.
    let bare = read(&conditional(1, &[]));
    assert!(bare.applied().expect("a mark"));
    assert_eq!(bare.previous::<(i32, i32)>().expect("no row"), None);
    let plain = read(&rows(&["a"], &[&[1]], None));
    assert!(matches!(
        plain.previous::<(i32,)>(),
        Err(ResultError::NotConditional)
    ));
}

#[test]
fn a_page_can_be_read_column_by_column() {
    let result = read(&rows(&["a", "b"], &[&[1, 2], &[3, 4]], None));
    let columns = result.by_column().expect("a page");
    let b: Result<Vec<i32>, _> = columns.named("b").expect("ints").collect();
    assert_eq!(b.expect("ints"), [2, 4]);
    assert!(matches!(
        read(&void()).by_column(),
        Err(ResultError::NotRows)
    ));
}

#[test]
fn how_the_schema_was_agreed_on_stands_beside_the_answer() {
    let plain = read(&void());
    assert!(plain.schema_agreement().is_none() && !plain.won_by_copy());
    let told = plain.with_agreement(AgreementOutcome::Different { versions: 2 });
    assert!(matches!(
        told.schema_agreement(),
        Some(AgreementOutcome::Different { versions: 2 })
    ));
    assert!(told.with_copy().won_by_copy());
}

#[test]
fn what_is_no_conditional_result_says_so() {
    let no_rows = Body::default()
        .int(2)
        .int(1)
        .int(1)
        .columns(&[("[applied]", BOOLEAN)])
        .int(0)
        .result();
    for frame in [
        void(),
        rows(&["[applied]"], &[&[1]], None),
        rows(&["applied"], &[&[1]], None),
        no_rows,
    ] {
        assert!(matches!(
            read(&frame).applied(),
            Err(ResultError::NotConditional)
        ));
    }
}

#[test]
fn a_detached_result_shares_no_memory_with_its_frame() {
    let frame = rows(&["a"], &[&[7]], Some(b"state"));
    let body = frame.body.clone();
    let result = read(&frame).detach();
    let lies_in = |bytes: &[u8]| body.as_ptr_range().contains(&bytes.as_ptr());
    let Answer::Rows(page) = &result.body else {
        panic!("rows")
    };
    assert!(!lies_in(&page.cells));
    assert!(!lies_in(result.paging_state().expect("more").as_bytes()));
    assert_eq!(result.first::<(i32,)>().expect("a row"), Some((7,)));

    let Answer::Rows(page) = read(&frame).body else {
        panic!("rows")
    };
    assert!(lies_in(&page.cells), "without detaching nothing is copied");
}

#[test]
fn rows_without_columns_are_read_with_those_the_request_announced() {
    let statement = prepared(b"id", &[("a", INT), ("b", INT)], Some(b"h1"));
    let announced = statement.shape();
    let bare = || cells(Body::default().int(2).int(4).int(2), &[&[1, 2]]);
    let result = parse(&bare(), Some((&statement, &announced))).expect("the columns are known");
    assert_eq!(result.one::<(i32, i32)>().expect("one"), (1, 2));

    assert!(matches!(parse(&bare(), None), Err(ResultError::NoColumns)));
    let other = prepared(b"id", &[("a", INT)], Some(b"h1"));
    let shape = other.shape();
    let wrong = parse(&bare(), Some((&other, &shape)));
    assert!(matches!(
        wrong,
        Err(ResultError::ColumnCount {
            columns: 1,
            cells: 2
        })
    ));
    let nothing = prepared(b"id", &[], Some(b"h1"));
    let shape = nothing.shape();
    assert!(matches!(
        parse(&bare(), Some((&nothing, &shape))),
        Err(ResultError::NoColumns)
    ));
}

#[test]
fn the_paging_state_comes_from_the_answer_also_without_columns() {
    let statement = prepared(b"id", &[("a", INT)], Some(b"h1"));
    let announced = statement.shape();
    let bare = cells(Body::default().int(2).int(6).int(1).bytes(b"xy"), &[&[1]]);
    let result = parse(&bare, Some((&statement, &announced))).expect("known columns");
    assert_eq!(
        result.paging_state().map(PagingState::as_bytes),
        Some(&b"xy"[..])
    );
    assert!(result.has_more_pages());
}

#[test]
fn rows_with_new_columns_are_read_with_these() {
    let statement = prepared(b"id", &[("a", INT)], Some(b"h1"));
    let announced = statement.shape();
    let result = parse(
        &changed(b"h2", &["a", "b"], &[&[1, 2]]),
        Some((&statement, &announced)),
    )
    .expect("rows");
    assert_eq!(result.one::<(i32, i32)>().expect("one"), (1, 2));
    assert!(
        result.rows::<(i32,)>().is_err(),
        "the old row type is told, not misread"
    );
}

#[test]
fn an_answer_that_is_no_result_is_refused() {
    assert!(matches!(
        parse(&overloaded(), None),
        Err(ResultError::NotAResult)
    ));
    assert!(matches!(
        parse(&prepared_frame(b"id", &[], Some(b"h")), None),
        Err(ResultError::NotAResult)
    ));
    assert!(matches!(
        parse(&Body::default().int(77).result(), None),
        Err(ResultError::Protocol(_))
    ));
}

/// Rows that report new columns with a new id.
fn changed(id: &[u8], columns: &[&str], values: &[&[i32]]) -> ResponseFrame {
    let specs: Vec<(&str, u16)> = columns.iter().map(|name| (*name, INT)).collect();
    let count = i32::try_from(columns.len()).expect("few");
    cells(
        Body::default()
            .int(2)
            .int(9)
            .int(count)
            .short_bytes(id)
            .columns(&specs),
        values,
    )
}

fn read(frame: &ResponseFrame) -> QueryResult {
    parse(frame, None).expect("our own frame")
}

fn parse(
    frame: &ResponseFrame,
    announced: Option<(&PreparedStatement, &Arc<ResultShape>)>,
) -> Result<QueryResult, ResultError> {
    let features = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    let announced = announced.map(|(statement, shape)| (&**statement.preparation(), shape));
    QueryResult::parse(frame, &features, announced, None)
}
