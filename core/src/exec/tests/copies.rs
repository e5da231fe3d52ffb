//! Copies of a request that race with each other.

use std::sync::Arc;
use std::time::Duration;

use crate::config::profile::ExecutionProfile;
use crate::error::connect::{AttemptError, Fate};
use crate::error::request::RequestErrorKind;
use crate::exec::AttemptId;
use crate::exec::fixtures::*;
use crate::exec::statement::Choice;
use crate::policy::retry::FallthroughRetry;
use crate::policy::speculative::SpeculativePolicy;

#[test]
fn a_second_copy_wins_and_the_first_is_abandoned() {
    let mut drive = Drive::new(copies(50, 2));
    drive.start();
    assert_eq!(drive.wakes_at_ms(), Some(50));
    assert!(drive.at_ms(49).is_empty());
    assert_eq!(sent_to(&drive.at_ms(50)), 1);
    assert_eq!(drive.wakes_at_ms(), Some(100));
    let seen = drive.answer(void());
    assert!(matches!(seen[..], [Seen::Abandon, Seen::Done(Ok(_))]));
    assert_eq!(drive.execution.coordinator(), Some(place(1)));
}

#[test]
fn a_request_that_is_not_idempotent_or_has_its_node_is_never_copied() {
    for setup in [
        Setup {
            idempotent: false,
            ..copies(50, 2)
        },
        Setup {
            only: Some(place(0)),
            ..copies(50, 2)
        },
    ] {
        let mut drive = Drive::new(setup);
        drive.start();
        assert_eq!(drive.wakes_at_ms(), None);
        assert!(drive.at_ms(1000).is_empty());
    }
}

#[test]
fn there_are_no_more_copies_than_targets() {
    let mut drive = Drive::new(Setup {
        routing: routing(2, &[]),
        ..copies(10, 5)
    });
    drive.start();
    assert_eq!(sent_to(&drive.at_ms(10)), 1);
    assert!(drive.at_ms(20).is_empty());
    assert_eq!(drive.wakes_at_ms(), None);
    assert!(
        drive.lose(broken(), Fate::MaybeApplied).is_empty(),
        "the other one still runs"
    );
    let seen = drive.reply(
        AttemptId(1),
        Err(AttemptError::new(broken(), Fate::MaybeApplied)),
    );
    assert_eq!(failed(seen).attempts().len(), 2);
}

#[test]
fn a_failure_another_node_may_avoid_waits_for_the_copy() {
    let mut setup = copies(50, 1);
    setup.profile.retry = Arc::new(FallthroughRetry);
    let mut drive = Drive::new(setup);
    drive.start();
    assert!(drive.answer(overloaded()).is_empty());
    assert_eq!(sent_to(&drive.at_ms(50)), 1);
    done(drive.answer(void()));
}

#[test]
fn a_used_up_plan_does_not_wait_for_a_copy_that_cannot_start() {
    let mut drive = Drive::new(copies(50, 5));
    drive.start();
    assert_eq!(sent_to(&drive.answer(overloaded())), 1);
    assert_eq!(sent_to(&drive.answer(overloaded())), 2);
    assert_eq!(failed(drive.answer(overloaded())).attempts().len(), 3);
}

#[test]
fn a_failure_no_node_avoids_ends_the_race() {
    let mut drive = Drive::new(copies(50, 1));
    drive.start();
    drive.at_ms(50);
    let seen = drive.answer(error(0x2000));
    assert!(matches!(seen[..], [Seen::Abandon, Seen::Done(Err(_))]));
}

#[test]
fn a_race_in_which_everything_breaks_ends_with_an_ordinary_error() {
    let mut drive = Drive::new(copies(10, 2));
    drive.start();
    drive.at_ms(10);
    drive.at_ms(20);
    let lost = || Err(AttemptError::new(broken(), Fate::MaybeApplied));
    assert!(drive.reply(AttemptId(1), lost()).is_empty());
    assert!(drive.reply(AttemptId(2), lost()).is_empty());
    let error = failed(drive.reply(AttemptId(3), lost()));
    assert_eq!(error.attempts().len(), 3);
}

#[test]
fn the_deadline_ends_all_copies() {
    let mut setup = copies(40, 2);
    setup.options.timeout = Choice::Set(Duration::from_millis(100));
    let mut drive = Drive::new(setup);
    drive.start();
    drive.at_ms(40);
    drive.at_ms(80);
    let seen = drive.at_ms(100);
    assert!(
        matches!(&seen[..], [Seen::Abandon, Seen::Abandon, Seen::Abandon, Seen::Done(Err(error))]
        if matches!(error.kind(), RequestErrorKind::Expired))
    );
}

#[test]
fn a_request_slower_than_most_of_those_before_it_is_copied() {
    let speculative = SpeculativePolicy::percentile(90.0, 1);
    let mut slow = 0;
    for turn in 0..200 {
        let mut drive = Drive::new(Setup {
            profile: ExecutionProfile {
                speculative: speculative.clone(),
                ..ExecutionProfile::default()
            },
            ..Setup::default()
        });
        drive.start();
        if let Some(wakes) = drive.wakes_at_ms() {
            assert!(100 <= turn && (10..=11).contains(&wakes), "{turn} {wakes}");
            slow += 1;
        }
        drive.now = drive.start + Duration::from_millis(10);
        done(drive.answer(void()));
        assert!(!drive.execution.won_by_copy());
    }
    assert_eq!(
        slow, 100,
        "once there are enough samples every request is watched"
    );
    let mut drive = Drive::new(Setup {
        profile: ExecutionProfile {
            speculative,
            ..ExecutionProfile::default()
        },
        ..Setup::default()
    });
    drive.start();
    assert_eq!(sent_to(&drive.at_ms(12)), 1);
    drive.answer(void());
    assert!(drive.execution.won_by_copy());
}

/// Makes a request that is copied `max` times, `delay_ms` apart.
fn copies(delay_ms: u64, max: u8) -> Setup {
    let delay = Duration::from_millis(delay_ms);
    let speculative = SpeculativePolicy::Constant {
        delay,
        copies_max: max,
    };
    Setup {
        profile: ExecutionProfile {
            speculative,
            ..ExecutionProfile::default()
        },
        ..Setup::default()
    }
}
