//! How the options of a request become its plan.

use std::time::Duration;

use super::*;
use crate::config::profile::PageSize;
use crate::exec::fixtures::{place, virtual_start};
use crate::exec::statement::Choice;

fn options() -> StatementOptions {
    StatementOptions {
        target: Some(place(1)),
        ..StatementOptions::default()
    }
}

#[test]
fn a_place_that_the_options_name_holds_unless_the_owner_has_one() {
    let open = Aim::default();
    assert!(open.within(None).is_open());
    let named = open.within(Some(&options()));
    assert_eq!((named.only, named.is_open()), (Some(place(1)), false));
    let own = Aim {
        only: Some(place(2)),
        ..open
    };
    assert_eq!(own.within(Some(&options())), own);
}

#[test]
fn a_profile_of_the_statements_own_comes_before_the_sessions() {
    let (session, own) = (Arc::default(), Arc::default());
    let options = StatementOptions {
        profile: Some(Arc::clone(&own)),
        ..options()
    };
    assert!(Arc::ptr_eq(profile_of(Some(&options), &session), &own));
    let bare = StatementOptions::default();
    assert!(Arc::ptr_eq(profile_of(Some(&bare), &session), &session));
    assert!(Arc::ptr_eq(profile_of(None, &session), &session));
}

#[test]
fn the_statement_has_the_last_word_on_repeating_and_the_owner_on_pages() {
    let (profile, now) = (ExecutionProfile::default(), virtual_start());
    let options = StatementOptions {
        idempotent: Some(true),
        timeout: Choice::Set(Duration::from_secs(1)),
        page_size: Choice::Set(PageSize::DEFAULT),
        ..options()
    };
    let settled = |unpaged| {
        let never = |option: bool| {
            assert!(option, "what the options say is told");
            false
        };
        settle(Some(&options), &profile, now, unpaged, never, || 7)
    };
    let paged = settled(false);
    assert!(paged.page_size.is_some() && !paged.idempotent);
    assert_eq!(paged.deadline, now.checked_add(Duration::from_secs(1)));
    assert_eq!(paged.timestamp, Some(7));
    assert_eq!(settled(true).page_size, None);
}
