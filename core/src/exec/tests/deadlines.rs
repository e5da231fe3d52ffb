//! Time that passes while a request is under way.

use std::sync::Arc;
use std::time::Duration;

use super::Always;
use crate::config::profile::ExecutionProfile;
use crate::error::connect::{AttemptErrorKind, Fate};
use crate::error::request::RequestErrorKind;
use crate::exec::fixtures::*;
use crate::exec::statement::Choice;
use crate::policy::retry::RetryDecision;

#[test]
fn a_pause_is_waited_for_and_counts_against_the_deadline() {
    let pause = Duration::from_millis(40);
    for (decision, next) in [
        (RetryDecision::SameAfter(pause), 0),
        (RetryDecision::NextAfter(pause), 1),
    ] {
        let profile = ExecutionProfile {
            retry: Arc::new(Always(decision)),
            ..ExecutionProfile::default()
        };
        let mut setup = Setup {
            profile,
            ..Setup::default()
        };
        setup.options.timeout = Choice::Set(Duration::from_millis(60));
        let mut drive = Drive::new(setup);
        drive.start();
        assert!(drive.answer(overloaded()).is_empty());
        assert_eq!(drive.wakes_at_ms(), Some(40));
        assert!(drive.at_ms(39).is_empty());
        assert_eq!(sent_to(&drive.at_ms(40)), next);
        assert!(drive.answer(overloaded()).is_empty());
        assert_eq!(
            drive.wakes_at_ms(),
            Some(60),
            "the deadline comes before the pause ends"
        );
        let error = failed(drive.at_ms(60));
        assert!(matches!(error.kind(), RequestErrorKind::Expired));
        assert_eq!(error.attempts().len(), 2);
    }
}

#[test]
fn retries_end_with_the_deadline_of_the_request() {
    let profile = ExecutionProfile {
        retry: Arc::new(Always(RetryDecision::Same)),
        ..ExecutionProfile::default()
    };
    let mut setup = Setup {
        profile,
        ..Setup::default()
    };
    setup.options.timeout = Choice::Set(Duration::from_millis(50));
    let mut drive = Drive::new(setup);
    drive.start();
    for ms in [20, 40] {
        drive.at_ms(ms);
        assert_eq!(sent_to(&drive.answer(overloaded())), 0);
    }
    drive.now = drive.start + Duration::from_millis(60);
    let error = failed(drive.answer(overloaded()));
    assert!(matches!(error.kind(), RequestErrorKind::Expired));
    assert_eq!(error.attempts().len(), 3);
}

#[test]
fn an_expired_request_ends_naming_the_node_and_is_not_repeated() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    drive.now = drive.start + Duration::from_secs(30);
    let error = failed(drive.lose(AttemptErrorKind::Expired, Fate::MaybeApplied));
    assert!(matches!(error.kind(), RequestErrorKind::Expired));
    assert_eq!(error.fate(), Fate::MaybeApplied);
    assert_eq!(error.attempts().len(), 1);
    assert_eq!(error.attempts()[0].on_wire, Duration::from_secs(30));
    assert_eq!(
        error.to_string(),
        "the request was not answered in time (node 10.0.0.1:9042)"
    );
}

#[test]
fn an_expired_attempt_is_the_policys_business() {
    let profile = ExecutionProfile {
        attempt_timeout: Some(Duration::from_secs(1)),
        ..ExecutionProfile::default()
    };
    let mut drive = Drive::new(Setup {
        profile,
        ..Setup::default()
    });
    drive.start();
    drive.now = drive.start + Duration::from_secs(1);
    assert_eq!(
        sent_to(&drive.lose(AttemptErrorKind::Expired, Fate::MaybeApplied)),
        1
    );
}

#[test]
fn an_owner_that_reports_the_deadline_itself_gets_its_attempt_back() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    let seen = drive.at_ms(30_000);
    assert!(
        matches!(&seen[..], [Seen::Abandon, Seen::Done(Err(error))] if error.fate() == Fate::MaybeApplied)
    );
}

#[test]
fn a_request_without_a_deadline_arms_no_timer_and_waits() {
    let mut setup = Setup::default();
    setup.options.timeout = Choice::Off;
    let mut drive = Drive::new(setup);
    drive.start();
    assert_eq!(drive.wakes_at_ms(), None);
    assert!(drive.at_ms(1_000_000_000).is_empty());
    done(drive.answer(void()));
}

#[test]
fn a_request_whose_time_is_over_before_it_starts_is_not_sent() {
    let mut setup = Setup::default();
    setup.options.timeout = Choice::Set(Duration::ZERO);
    let error = failed(Drive::new(setup).start());
    assert!(matches!(error.kind(), RequestErrorKind::Expired));
    assert_eq!(error.fate(), Fate::NotSent);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let profile = ExecutionProfile {
        retry: Arc::new(Always(RetryDecision::SameAfter(Duration::from_millis(10)))),
        ..ExecutionProfile::default()
    };
    let mut drive = Drive::new(Setup {
        profile,
        ..Setup::default()
    });
    drive.start();
    drive.at_ms(100);
    drive.now = drive.start;
    drive.answer(overloaded());
    assert_eq!(drive.wakes_at_ms(), Some(110));
}
