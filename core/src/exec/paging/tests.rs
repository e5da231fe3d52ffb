//! Walks over pages, each a request of its own.

use super::*;
use crate::exec::fixtures::*;
use crate::exec::plan::{Coordinator, StatementKind};
use crate::wire::response::ResponseFrame;
use crate::wire::supported::ProtocolFeatures;

#[test]
fn empty_pages_in_between_do_not_end_the_walk() {
    // The second page as a server sent it: no rows, more to come at state 01.
    let empty = Body::default()
        .int(2)
        .int(3)
        .int(1)
        .bytes(&[1])
        .columns(&[("c", INT)])
        .int(0)
        .result();
    let pages = [
        rows(&["c"], &[], Some(b"\x01")),
        empty,
        rows(&["c"], &[&[1]], Some(b"\x02")),
        rows(&["c"], &[], Some(b"\x03")),
        rows(&["c"], &[&[2], &[3]], None),
    ];
    let mut paging = Paging::new();
    let (mut seen, mut states) = (Vec::new(), Vec::new());
    for frame in pages {
        let next = paging.next().expect("the server said that there is more");
        states.push(next.state.map(|state| state.as_bytes().to_vec()));
        let page = page(&frame, 0);
        paging.handle_page(&page).expect("a page of rows");
        for row in page.rows::<(i32,)>().expect("ints") {
            seen.push(row.expect("an int").0);
        }
    }
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(
        states,
        [
            None,
            Some(vec![1]),
            Some(vec![1]),
            Some(vec![2]),
            Some(vec![3])
        ]
    );
    assert!(paging.next().is_none() && !paging.more() && paging.state().is_none());
}

#[test]
fn an_empty_last_page_is_a_normal_end() {
    let mut paging = Paging::new();
    paging
        .handle_page(&page(&rows(&["c"], &[&[1]], Some(b"x")), 0))
        .expect("rows");
    paging
        .handle_page(&page(&rows(&["c"], &[], None), 0))
        .expect("rows");
    assert!(!paging.more());
}

#[test]
fn many_pages_with_a_failure_each_never_use_up_the_plan() {
    let mut paging = Paging::new();
    for number in 0..10_u16 {
        let prefer = paging.next().expect("more").prefer;
        let mut drive = Drive::new(Setup {
            prefer,
            kind: StatementKind::Text,
            ..Setup::default()
        });
        let first = sent_to(&drive.start());
        assert_eq!(
            Some(place(first)),
            prefer.or_else(|| Some(place(0))),
            "the last good node comes first"
        );
        let second = sent_to(&drive.answer(overloaded()));
        assert_ne!(first, second);
        let state = (number < 9).then_some(&b"more"[..]);
        let frame = done(drive.answer(rows(&["c"], &[&[1]], state)));
        let place = drive.execution.coordinator().expect("answered");
        let coordinator = Coordinator::of(place, &drive.routing);
        let page = QueryResult::parse(&frame, &ProtocolFeatures::default(), None, coordinator)
            .expect("rows");
        paging.handle_page(&page).expect("rows");
    }
    assert!(!paging.more());
}

#[test]
fn a_failed_page_is_next_again_and_prefers_no_node() {
    let mut paging = Paging::new();
    paging
        .handle_page(&page(&rows(&["c"], &[&[1]], Some(b"two")), 2))
        .expect("rows");
    assert_eq!(paging.next().expect("more").prefer, Some(place(2)));
    paging.handle_failure();
    let next = paging.next().expect("still more");
    assert_eq!(next.state.map(PagingState::as_bytes), Some(&b"two"[..]));
    assert_eq!(next.prefer, None);
    let stored = paging.state().expect("the place to resume at").detach();
    assert_eq!(
        Paging::resume(Some(stored)).next().expect("more").state,
        paging.state()
    );
}

#[test]
fn an_ignored_error_or_a_write_is_an_empty_read() {
    let mut paging = Paging::new();
    let page = page(&void(), 0);
    paging
        .handle_page(&page)
        .expect("a first page may be anything");
    assert!(!paging.more());
    assert_eq!(page.row_count(), 0);
}

#[test]
fn a_later_page_that_is_no_rows_is_an_error_and_can_be_asked_for_again() {
    let mut paging = Paging::new();
    paging
        .handle_page(&page(&rows(&["c"], &[], Some(b"x")), 0))
        .expect("rows");
    assert!(matches!(
        paging.handle_page(&page(&void(), 0)),
        Err(ResultError::PageNotRows)
    ));
    assert!(paging.more());
}

#[test]
fn an_empty_state_means_from_the_start() {
    let paging = Paging::resume(Some(PagingState::from_bytes(bytes(b""))));
    assert_eq!(paging.next().expect("the first page").state, None);
}

#[test]
fn a_stopped_walk_has_no_next_page() {
    let mut paging = Paging::new();
    paging.stop();
    assert!(paging.next().is_none());
}

fn page(frame: &ResponseFrame, host: u16) -> QueryResult {
    let coordinator = Coordinator::of(place(host), &routing(3, &[]));
    QueryResult::parse(frame, &ProtocolFeatures::default(), None, coordinator)
        .expect("our own frame")
}
