//! One request among three nodes, in virtual time.

mod connections;
mod copies;
mod deadlines;
mod levels;
mod reprepare;

use std::sync::Arc;

use super::fixtures::*;
use super::{Execution, ExecutionPlan};
use crate::config::profile::ExecutionProfile;
use crate::error::connect::{AttemptErrorKind, Fate};
use crate::error::protocol::FrameEncodeError;
use crate::error::request::{ErrorCategory, RequestErrorKind};
use crate::policy::retry::{Failure, FallthroughRetry, RetryDecision, RetryPolicy};
use crate::wire::consistency::Consistency;
use crate::wire::header::{Flags, Opcode};

#[test]
fn an_answer_of_the_first_target_ends_the_request_unread() {
    let mut drive = Drive::new(Setup::default());
    assert_eq!(sent_to(&drive.start()), 0);
    assert_eq!(
        drive.wakes_at_ms(),
        None,
        "the attempt carries the deadline"
    );
    // The body is no RESULT at all: whoever asked finds out when reading it.
    let garbage = Body::default().byte(9).result();
    assert_eq!(done(drive.answer(garbage.clone())), garbage);
    assert_eq!(drive.execution.coordinator(), Some(place(0)));
    assert!(drive.execution.attempts().is_empty());
    assert!(drive.execution.trouble.is_none(), "nothing was allocated");
}

#[test]
fn an_ended_execution_ignores_everything() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    done(drive.answer(void()));
    assert!(drive.answer(void()).is_empty());
    assert!(drive.answer(overloaded()).is_empty());
    assert!(drive.at_ms(60_000).is_empty());
    assert!(drive.start().is_empty());
    assert_eq!(drive.wakes_at_ms(), None);
}

#[test]
fn a_request_that_was_not_sent_goes_to_the_next_target_even_if_not_idempotent() {
    for kind in [broken(), AttemptErrorKind::Overloaded] {
        let mut drive = Drive::new(Setup {
            idempotent: false,
            ..Setup::default()
        });
        drive.start();
        assert_eq!(sent_to(&drive.lose(kind, Fate::NotSent)), 1);
        done(drive.answer(void()));
        assert_eq!(drive.execution.coordinator(), Some(place(1)));
        assert_eq!(drive.execution.attempts().len(), 1);
    }
}

#[test]
fn a_request_that_may_have_been_applied_is_repeated_only_if_idempotent() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    assert_eq!(sent_to(&drive.lose(broken(), Fate::MaybeApplied)), 1);

    let mut drive = Drive::new(Setup {
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    let error = failed(drive.lose(broken(), Fate::MaybeApplied));
    assert!(matches!(error.kind(), RequestErrorKind::Connection(_)));
    assert_eq!(error.fate(), Fate::MaybeApplied);
    assert!(error.is_retryable());
}

#[test]
fn no_policy_can_repeat_what_may_have_been_applied_twice() {
    let profile = ExecutionProfile {
        retry: Arc::new(Always(RetryDecision::Same)),
        ..ExecutionProfile::default()
    };
    let mut drive = Drive::new(Setup {
        idempotent: false,
        profile,
        ..Setup::default()
    });
    drive.start();
    failed(drive.lose(broken(), Fate::MaybeApplied));
}

#[test]
fn overload_is_answered_by_the_next_target_or_at_once() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    assert_eq!(sent_to(&drive.answer(overloaded())), 1);
    done(drive.answer(void()));
    assert_eq!(
        drive.execution.attempts()[0].address.to_string(),
        "10.0.0.1:9042"
    );

    let mut drive = Drive::new(Setup {
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    let error = failed(drive.answer(overloaded()));
    assert_eq!(error.attempts().len(), 1);
    assert_eq!(error.fate(), Fate::Answered);
}

#[test]
fn a_node_that_is_still_joining_hands_on_any_request() {
    let mut drive = Drive::new(Setup {
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    assert_eq!(sent_to(&drive.answer(error(0x1002))), 1);
}

#[test]
fn unavailable_moves_on_once() {
    let mut drive = Drive::new(Setup {
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    assert_eq!(sent_to(&drive.answer(unavailable(1))), 1);
    let error = failed(drive.answer(unavailable(0)));
    assert_eq!(error.server_error().map(|error| error.code), Some(0x1000));
}

#[test]
fn a_read_whose_data_was_late_is_repeated_on_the_same_node_once() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    assert_eq!(sent_to(&drive.answer(read_timeout(2, 2, 0))), 0);
    failed(drive.answer(read_timeout(2, 2, 0)));
    for answer in [read_timeout(1, 2, 0), read_timeout(2, 2, 1)] {
        let mut drive = Drive::new(Setup::default());
        drive.start();
        failed(drive.answer(answer));
    }
}

#[test]
fn a_write_timeout_is_repeated_only_when_the_batch_log_was_late() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    assert_eq!(sent_to(&drive.answer(write_timeout("BATCH_LOG"))), 0);
    failed(drive.answer(write_timeout("BATCH_LOG")));
    for (write_type, idempotent) in [
        ("BATCH_LOG", false),
        ("SIMPLE", true),
        ("BATCH", true),
        ("CAS", true),
    ] {
        let mut drive = Drive::new(Setup {
            idempotent,
            ..Setup::default()
        });
        drive.start();
        failed(drive.answer(write_timeout(write_type)));
    }
}

#[test]
fn a_conditional_statement_stays_on_its_node_for_one_repetition() {
    let mut drive = Drive::new(Setup {
        idempotent: false,
        conditional: true,
        ..Setup::default()
    });
    drive.start();
    assert_eq!(sent_to(&drive.answer(unavailable(1))), 0);
    assert_eq!(sent_to(&drive.answer(unavailable(1))), 1);
    failed(drive.answer(unavailable(1)));

    let mut drive = Drive::new(Setup {
        idempotent: false,
        conditional: true,
        ..Setup::default()
    });
    drive.start();
    failed(drive.answer(overloaded()));
    let mut drive = Drive::new(Setup {
        conditional: true,
        routing: routing(3, &[0]),
        ..Setup::default()
    });
    assert_eq!(sent_to(&drive.start()), 1, "the next replica in order");
}

#[test]
fn a_target_without_a_connection_is_passed_over_without_asking_the_policy() {
    let profile = ExecutionProfile {
        retry: Arc::new(Always(RetryDecision::Stop)),
        ..ExecutionProfile::default()
    };
    let setup = Setup {
        idempotent: false,
        profile,
        routing: routing(3, &[0, 1]),
        ..Setup::default()
    };
    let mut drive = Drive::new(setup);
    assert_eq!(sent_to(&drive.start()), 2);
    assert_eq!(drive.execution.retries(), 0);
    assert_eq!(drive.execution.attempts().len(), 2);
}

#[test]
fn a_used_up_plan_tells_what_each_node_answered() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    drive.answer(overloaded());
    drive.answer(overloaded());
    let error = failed(drive.answer(overloaded()));
    let addresses: Vec<String> = error
        .attempts()
        .iter()
        .map(|attempt| attempt.address.to_string())
        .collect();
    assert_eq!(
        addresses,
        ["10.0.0.1:9042", "10.0.0.2:9042", "10.0.0.3:9042"]
    );
    assert!(
        error
            .attempts()
            .iter()
            .all(|attempt| matches!(attempt.error, RequestErrorKind::Server(_)))
    );
    assert_eq!(error.server_error().map(|error| error.code), Some(0x1001));
}

#[test]
fn a_cluster_without_connections_or_without_nodes_is_an_ordinary_error() {
    let mut drive = Drive::new(Setup {
        routing: routing(3, &[0, 1, 2]),
        ..Setup::default()
    });
    let error = failed(drive.start());
    assert!(matches!(error.kind(), RequestErrorKind::NoTarget));
    assert_eq!(error.fate(), Fate::NotSent);
    assert_eq!(error.attempts().len(), 3, "each node with its reason");
    assert_eq!(
        error.to_string(),
        "there is no node to send the request to: none of 3 nodes has an open connection"
    );

    let mut drive = Drive::new(Setup {
        routing: routing(0, &[]),
        ..Setup::default()
    });
    assert_eq!(
        failed(drive.start()).to_string(),
        "there is no node to send the request to"
    );
}

#[test]
fn a_request_for_one_node_goes_nowhere_else() {
    let mut drive = Drive::new(Setup {
        only: Some(place(1)),
        ..Setup::default()
    });
    assert_eq!(sent_to(&drive.start()), 1);
    assert_eq!(failed(drive.answer(overloaded())).attempts().len(), 1);
    let mut drive = Drive::new(Setup {
        only: Some(place(9)),
        ..Setup::default()
    });
    assert!(matches!(
        failed(drive.start()).kind(),
        RequestErrorKind::NoTarget
    ));
}

#[test]
fn the_preferred_node_comes_before_the_plan_and_is_not_tried_twice() {
    let mut drive = Drive::new(Setup {
        prefer: Some(place(2)),
        ..Setup::default()
    });
    assert_eq!(sent_to(&drive.start()), 2);
    assert_eq!(sent_to(&drive.answer(overloaded())), 0);
    assert_eq!(sent_to(&drive.answer(overloaded())), 1);
    failed(drive.answer(overloaded()));
}

#[test]
fn the_fall_through_policy_only_moves_what_was_not_sent() {
    let profile = || ExecutionProfile {
        retry: Arc::new(FallthroughRetry),
        ..ExecutionProfile::default()
    };
    let mut drive = Drive::new(Setup {
        profile: profile(),
        ..Setup::default()
    });
    drive.start();
    failed(drive.answer(unavailable(1)));
    let mut drive = Drive::new(Setup {
        profile: profile(),
        ..Setup::default()
    });
    drive.start();
    assert_eq!(sent_to(&drive.lose(broken(), Fate::NotSent)), 1);
}

#[test]
fn an_ignored_error_is_an_empty_success() {
    let profile = ExecutionProfile {
        retry: Arc::new(Always(RetryDecision::Ignore)),
        ..ExecutionProfile::default()
    };
    let mut drive = Drive::new(Setup {
        profile,
        idempotent: false,
        ..Setup::default()
    });
    drive.start();
    let frame = done(drive.answer(write_timeout("SIMPLE")));
    assert_eq!(
        (frame.header.opcode, frame.body),
        (Opcode::Result, void().body)
    );
}

#[test]
fn a_policy_is_told_the_consistency_of_the_failed_attempt() {
    let profile = ExecutionProfile {
        retry: Arc::new(Downgrade),
        ..ExecutionProfile::default()
    };
    let mut setup = Setup {
        profile,
        ..Setup::default()
    };
    setup.options.consistency = Some(Consistency::All);
    let mut drive = Drive::new(setup);
    assert!(matches!(
        drive.start()[..],
        [Seen::Send {
            to: 0,
            at: Consistency::All
        }]
    ));
    assert!(matches!(
        drive.answer(unavailable(2))[..],
        [Seen::Send {
            to: 0,
            at: Consistency::Two
        }]
    ));
    assert!(matches!(
        drive.answer(unavailable(1))[..],
        [Seen::Send {
            to: 1,
            at: Consistency::One
        }]
    ));
}

#[test]
fn a_serial_read_is_never_repeated_at_a_level_that_is_not() {
    let profile = ExecutionProfile {
        retry: Arc::new(Downgrade),
        ..ExecutionProfile::default()
    };
    let mut setup = Setup {
        profile,
        ..Setup::default()
    };
    setup.options.consistency = Some(Consistency::Serial);
    let mut drive = Drive::new(setup);
    drive.start();
    assert!(matches!(
        drive.answer(unavailable(2))[..],
        [Seen::Send {
            at: Consistency::Serial,
            ..
        }]
    ));
}

#[test]
fn values_that_fit_no_frame_are_the_callers_error() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    let error = failed(drive.lose(
        AttemptErrorKind::Encode(FrameEncodeError::NamesMismatch),
        Fate::NotSent,
    ));
    assert_eq!(error.category(), ErrorCategory::Caller);
    assert_eq!(error.fate(), Fate::NotSent);
}

#[test]
fn an_answer_that_cannot_be_understood_leaves_the_fate_open() {
    let mut drive = Drive::new(Setup::default());
    drive.start();
    let error = failed(
        drive.answer(
            Body::default()
                .short(1)
                .frame(Opcode::Error, Flags::empty()),
        ),
    );
    assert!(matches!(error.kind(), RequestErrorKind::Protocol(_)));
    assert_eq!(error.fate(), Fate::MaybeApplied);

    let mut drive = Drive::new(Setup::default());
    drive.start();
    let error = failed(drive.answer(Body::default().frame(Opcode::Ready, Flags::empty())));
    assert!(matches!(
        error.kind(),
        RequestErrorKind::UnexpectedAnswer {
            opcode: Opcode::Ready
        }
    ));
    assert_eq!(error.category(), ErrorCategory::Protocol);
}

#[test]
fn a_rate_limit_is_not_retried() {
    let mut setup = Setup::default();
    setup.features.rate_limit_error = Some(0x4321);
    let mut drive = Drive::new(setup);
    drive.start();
    let limit = error_with(0x4321, |body| body.byte(1).byte(0));
    let error = failed(drive.answer(limit));
    assert_eq!(error.attempts().len(), 1);
    assert!(error.is_retryable(), "later");
}

#[test]
fn an_execution_is_small_enough_to_live_in_the_callers_future() {
    assert!(
        size_of::<Execution<Arc<u8>>>() <= 320,
        "{}",
        size_of::<Execution<Arc<u8>>>()
    );
    assert!(
        size_of::<ExecutionPlan>() <= 192,
        "{}",
        size_of::<ExecutionPlan>()
    );
}

/// Answers the same to every failure.
#[derive(Debug)]
struct Always(RetryDecision);

impl RetryPolicy for Always {
    fn decide(&self, _: &Failure<'_>) -> RetryDecision {
        self.0
    }
}

/// Asks for less and less.
#[derive(Debug)]
struct Downgrade;

impl RetryPolicy for Downgrade {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        match failure.consistency {
            Consistency::All => RetryDecision::SameAt(Consistency::Two),
            _ => RetryDecision::NextAt(Consistency::One),
        }
    }
}
