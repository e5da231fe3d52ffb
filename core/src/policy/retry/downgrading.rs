//! A retry policy that lowers the consistency to what is still there. It has no table for other reasons: those it
//! leaves to the default policy.

use super::{DefaultRetry, Failure, FailureClass, RetryDecision, RetryPolicy, WriteType};
use crate::wire::consistency::Consistency;
use crate::wire::server_error::ServerErrorDetail;

/// Repeats a request once at the highest consistency that as many replicas as answered can give.
///
/// Use it where an answer from fewer replicas is better than none, and never where a read has to see what was written:
/// a lowered write is acknowledged although fewer replicas have it than was asked for. A write that at least one replica
/// has is reported as a success if it is idempotent. Serial consistency is never lowered, and what is not idempotent is
/// never sent twice once it may have been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DowngradingRetry;

impl RetryPolicy for DowngradingRetry {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        match failure.class() {
            FailureClass::Unavailable | FailureClass::ReadTimeout | FailureClass::WriteTimeout => {
                match was_lowered(failure) {
                    true => RetryDecision::Stop,
                    false => lower(failure),
                }
            }
            _ => DefaultRetry.decide(failure),
        }
    }
}

/// Whether the request was repeated because too few replicas took part: that is done once.
fn was_lowered(failure: &Failure<'_>) -> bool {
    let classes = [
        FailureClass::Unavailable,
        FailureClass::ReadTimeout,
        FailureClass::WriteTimeout,
    ];
    classes
        .iter()
        .any(|class| 0 < failure.history.count(*class))
}

fn lower(failure: &Failure<'_>) -> RetryDecision {
    let serial = failure.consistency.is_serial();
    let Some(detail) = failure.detail() else {
        return RetryDecision::Stop;
    };
    match detail {
        ServerErrorDetail::Unavailable { .. } if serial => RetryDecision::Next,
        ServerErrorDetail::Unavailable {
            consistency: Consistency::EachQuorum,
            alive: 0,
            ..
        } => RetryDecision::SameAt(Consistency::One),
        ServerErrorDetail::Unavailable { alive, .. } => same_at(*alive),
        _ if serial => RetryDecision::Stop,
        ServerErrorDetail::ReadTimeout {
            received,
            block_for,
            data_present,
            ..
        } => match (received < block_for, data_present) {
            (true, _) => same_at(*received),
            (false, false) => RetryDecision::Same,
            (false, true) => RetryDecision::Stop,
        },
        ServerErrorDetail::WriteTimeout {
            received,
            write_type,
            ..
        } if failure.idempotent => after_write(*received, write_type),
        _ => RetryDecision::Stop,
    }
}

fn after_write(received: i32, write_type: &WriteType) -> RetryDecision {
    match write_type {
        // It will reach the other replicas in time: by hints, repairs or the log of the batch.
        WriteType::Simple | WriteType::Batch if 0 < received => RetryDecision::Ignore,
        WriteType::UnloggedBatch => same_at(received),
        WriteType::BatchLog => RetryDecision::Same,
        _ => RetryDecision::Stop,
    }
}

/// Chooses the consistency that so many replicas can give.
const fn same_at(replicas: i32) -> RetryDecision {
    match replicas {
        i32::MIN..=0 => RetryDecision::Stop,
        1 => RetryDecision::SameAt(Consistency::One),
        2 => RetryDecision::SameAt(Consistency::Two),
        _ => RetryDecision::SameAt(Consistency::Three),
    }
}
