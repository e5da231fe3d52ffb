//! The decision tables of the policies that an application may choose instead of the default.

use super::*;
use crate::exec::fixtures::*;
use crate::wire::response::Response;
use crate::wire::supported::ProtocolFeatures;
use RetryDecision::{Ignore, Next, Same, SameAt, Stop};

fn server(frame: &crate::wire::response::ResponseFrame) -> RequestErrorKind {
    let envelope = frame
        .parse(&ProtocolFeatures::default())
        .expect("our own frame");
    let Response::Error(error) = envelope.response else {
        panic!("our own frame")
    };
    RequestErrorKind::Server(error)
}

/// What a policy decides about a failure of a request at `ALL`.
#[derive(Debug)]
struct Case {
    error: RequestErrorKind,
    fate: Fate,
    idempotent: bool,
    conditional: bool,
    consistency: Consistency,
    history: RetryHistory,
    seed: u64,
}

impl Case {
    fn of(frame: &crate::wire::response::ResponseFrame) -> Self {
        Self {
            error: server(frame),
            fate: Fate::Answered,
            idempotent: true,
            conditional: false,
            consistency: Consistency::All,
            history: RetryHistory::new(),
            seed: 0,
        }
    }

    fn decide(&self, policy: &dyn RetryPolicy) -> RetryDecision {
        policy.decide(&Failure {
            error: &self.error,
            fate: self.fate,
            idempotent: self.idempotent,
            conditional: self.conditional,
            consistency: self.consistency,
            history: &self.history,
            seed: self.seed,
        })
    }
}

fn lowered(case: &Case) -> RetryDecision {
    case.decide(&DowngradingRetry)
}

fn unavailable_at(consistency: u16, alive: i32) -> Case {
    Case::of(&error_with(0x1000, |body| {
        body.short(consistency).int(3).int(alive)
    }))
}

fn write_timeout_of(write_type: &str, received: i32) -> Case {
    Case::of(&error_with(0x1100, |body| {
        body.short(5).int(received).int(3).string(write_type)
    }))
}

#[test]
fn too_few_live_replicas_lower_the_consistency_to_what_they_can_give() {
    let [one, two, three] = [Consistency::One, Consistency::Two, Consistency::Three].map(SameAt);
    for (alive, decision) in [
        (0, Stop),
        (1, one),
        (2, two),
        (3, three),
        (7, three),
        (-1, Stop),
    ] {
        assert_eq!(lowered(&unavailable_at(5, alive)), decision, "{alive}");
    }
    // EACH_QUORUM counts one datacenter only, so none alive there does not mean none at all.
    assert_eq!(lowered(&unavailable_at(7, 0)), one);
}

#[test]
fn a_read_that_fewer_replicas_answered_is_lowered_and_one_without_data_repeated() {
    assert_eq!(
        lowered(&Case::of(&read_timeout(1, 2, 1))),
        SameAt(Consistency::One)
    );
    assert_eq!(lowered(&Case::of(&read_timeout(0, 2, 0))), Stop);
    assert_eq!(lowered(&Case::of(&read_timeout(2, 2, 0))), Same);
    assert_eq!(lowered(&Case::of(&read_timeout(2, 2, 1))), Stop);
}

#[test]
fn a_write_that_a_replica_has_counts_as_done_only_if_it_is_idempotent() {
    let table = [
        ("SIMPLE", 1, Ignore),
        ("SIMPLE", 0, Stop),
        ("BATCH", 1, Ignore),
        ("BATCH", 0, Stop),
        ("COUNTER", 1, Stop),
        ("UNLOGGED_BATCH", 2, SameAt(Consistency::Two)),
        ("UNLOGGED_BATCH", 0, Stop),
        ("BATCH_LOG", 0, Same),
        ("CAS", 1, Stop),
        ("VIEW", 1, Stop),
        ("CDC", 1, Stop),
        ("NEW", 1, Stop),
    ];
    for (write_type, received, decision) in table {
        let case = write_timeout_of(write_type, received);
        assert_eq!(lowered(&case), decision, "{write_type} {received}");
        let once = Case {
            idempotent: false,
            ..case
        };
        assert_eq!(
            lowered(&once),
            Stop,
            "{write_type} {received}, not idempotent"
        );
    }
}

#[test]
fn a_consistency_is_lowered_once_and_a_serial_one_never() {
    let mut again = unavailable_at(5, 2);
    again.history.failed(FailureClass::ReadTimeout);
    assert_eq!(lowered(&again), Stop);
    let serial = |case| Case {
        consistency: Consistency::Serial,
        ..case
    };
    assert_eq!(lowered(&serial(unavailable_at(8, 2))), Next);
    assert_eq!(lowered(&serial(Case::of(&read_timeout(1, 2, 1)))), Stop);
    assert_eq!(lowered(&serial(write_timeout_of("SIMPLE", 1))), Stop);
}

#[test]
fn what_has_nothing_to_do_with_replicas_is_treated_as_by_default() {
    for frame in [
        overloaded(),
        error(0),
        error(0x1002),
        error(0x2200),
        error(0x1003),
    ] {
        for (idempotent, conditional) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let case = Case {
                idempotent,
                conditional,
                ..Case::of(&frame)
            };
            assert_eq!(lowered(&case), case.decide(&DefaultRetry), "{case:?}");
        }
    }
    let mut late = Case::of(&overloaded());
    late.history.failed(FailureClass::Overloaded);
    assert_eq!(
        lowered(&late),
        Next,
        "overload moves on as often as there are nodes"
    );
}

#[test]
fn a_limited_policy_counts_and_repeats_only_what_does_no_harm() {
    let policy = LimitedRetry { retries_max: 2 };
    let mut case = Case::of(&overloaded());
    for decision in [Next, Next, Stop] {
        assert_eq!(case.decide(&policy), decision);
        case.history.retried();
    }
    for (frame, twice, once) in [
        (error(0x1000 + 2), Next, Next),
        (unavailable(1), Next, Next),
        (read_timeout(1, 2, 1), Next, Next),
        (write_timeout("SIMPLE"), Next, Stop),
        (error(0), Next, Stop),
        (error(0x2000), Stop, Stop),
        (error(0x2200), Stop, Stop),
        (error(0x000a), Stop, Stop),
    ] {
        let case = Case::of(&frame);
        assert_eq!(case.decide(&policy), twice, "{case:?}");
        let case = Case {
            idempotent: false,
            ..case
        };
        assert_eq!(case.decide(&policy), once, "{case:?}");
    }
    let conditional = Case {
        conditional: true,
        ..Case::of(&unavailable(1))
    };
    assert_eq!(conditional.decide(&policy), Same);
    let unknown = Case {
        conditional: true,
        ..Case::of(&write_timeout("CAS"))
    };
    assert_eq!(unknown.decide(&policy), Stop);
}

#[test]
fn pauses_double_up_to_their_limit_and_are_spread_by_half_of_the_first() {
    let policy = BackoffRetry {
        retries_max: 40,
        ..BackoffRetry::default()
    };
    let pause = |retries: u16, seed: u64| {
        let mut case = Case {
            seed,
            ..Case::of(&overloaded())
        };
        (0..retries).for_each(|_| case.history.retried());
        match case.decide(&policy) {
            RetryDecision::NextAfter(pause) => pause.as_millis(),
            other => panic!("a pause is expected, not {other:?}"),
        }
    };
    for (retries, low, high) in [
        (0, 50, 150),
        (1, 150, 250),
        (2, 350, 450),
        (39, 9_950, 10_050),
    ] {
        assert_eq!(pause(retries, 0), low);
        assert_eq!(pause(retries, u64::MAX), high - 1);
        let middle = pause(retries, u64::MAX / 2);
        assert!(low < middle && middle < high, "{middle}");
    }
}

#[test]
fn no_policy_makes_up_the_success_of_a_read() {
    let policies: [&dyn RetryPolicy; 5] = [
        &DefaultRetry,
        &FallthroughRetry,
        &DowngradingRetry,
        &LimitedRetry::default(),
        &BackoffRetry::default(),
    ];
    let read_failure = error_with(0x1300, |body| body.short(4).int(1).int(2).int(1).byte(1));
    let reads = [
        read_timeout(0, 2, 0),
        read_timeout(1, 2, 0),
        read_timeout(1, 2, 1),
        read_timeout(2, 2, 0),
        read_timeout(2, 2, 1),
        read_failure,
        unavailable(0),
        unavailable(1),
        overloaded(),
    ];
    for policy in policies {
        for frame in &reads {
            for idempotent in [true, false] {
                let case = Case {
                    idempotent,
                    ..Case::of(frame)
                };
                assert_ne!(case.decide(policy), Ignore, "{policy:?} {case:?}");
            }
        }
    }
}
