//! The consistency, the timestamp and the ignored errors of requests that are sent several times.

use std::sync::Arc;

use crate::config::profile::ExecutionProfile;
use crate::exec::fixtures::*;
use crate::exec::statement::Statement;
use crate::policy::retry::{DowngradingRetry, Failure, RetryDecision, RetryPolicy};
use crate::wire::consistency::Consistency;
use crate::wire::request::RequestRef;

fn lowering(consistency: Consistency) -> Drive {
    let mut setup = Setup {
        profile: ExecutionProfile {
            retry: Arc::new(DowngradingRetry),
            ..ExecutionProfile::default()
        },
        ..Setup::default()
    };
    setup.options.consistency = Some(consistency);
    Drive::new(setup)
}

#[track_caller]
fn sent_at(seen: &[Seen]) -> (u16, Consistency) {
    match seen {
        [Seen::Send { to, at }] => (*to, *at),
        other => panic!("one send is expected, not {other:?}"),
    }
}

#[test]
fn too_few_live_replicas_are_asked_again_at_what_they_can_give() {
    let mut drive = lowering(Consistency::All);
    assert_eq!(sent_at(&drive.start()), (0, Consistency::All));
    assert_eq!(
        sent_at(&drive.answer(unavailable(2))),
        (0, Consistency::Two)
    );
    let error = failed(drive.answer(unavailable(1)));
    assert_eq!(error.attempts().len(), 2, "it is lowered once");

    let mut drive = lowering(Consistency::All);
    drive.start();
    assert_eq!(failed(drive.answer(unavailable(0))).attempts().len(), 1);

    let mut drive = lowering(Consistency::EachQuorum);
    drive.start();
    let each_quorum = error_with(0x1000, |body| body.short(7).int(2).int(0));
    assert_eq!(sent_at(&drive.answer(each_quorum)), (0, Consistency::One));
}

#[test]
fn a_write_that_a_replica_has_is_an_empty_success_under_the_lowering_policy() {
    let mut drive = lowering(Consistency::Quorum);
    drive.start();
    assert_eq!(
        done(drive.answer(write_timeout("SIMPLE"))).body,
        void().body
    );
}

/// Goes on twice, then ignores.
#[derive(Debug)]
struct IgnoreAfter(u16);

impl RetryPolicy for IgnoreAfter {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        match self.0 <= failure.history.retries() {
            true => RetryDecision::Ignore,
            false => RetryDecision::Next,
        }
    }
}

#[test]
fn an_error_is_ignored_after_any_number_of_attempts() {
    for before in 0..3 {
        let profile = ExecutionProfile {
            retry: Arc::new(IgnoreAfter(before)),
            ..ExecutionProfile::default()
        };
        let mut drive = Drive::new(Setup {
            profile,
            ..Setup::default()
        });
        drive.start();
        for _ in 0..before {
            sent_to(&drive.answer(overloaded()));
        }
        assert_eq!(
            done(drive.answer(overloaded())).body,
            void().body,
            "{before}"
        );
    }
}

#[test]
fn every_attempt_of_a_request_carries_one_timestamp() {
    let mut asked = 0;
    let settings = Statement::new("INSERT").options().settle(
        virtual_start(),
        &ExecutionProfile::default(),
        || {
            asked += 1;
            1000 + asked
        },
    );
    let timestamp = |consistency| match settings.query("INSERT", consistency, None) {
        RequestRef::Query { params, .. } => params.timestamp,
        _ => panic!("a QUERY"),
    };
    let attempts = [Consistency::All, Consistency::Two, Consistency::One].map(timestamp);
    assert_eq!(attempts, [Some(1001); 3]);
    assert_eq!(asked, 1);
}
