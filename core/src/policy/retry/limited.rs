//! Retry policies with a number of tries: at once, or after growing pauses.

use std::time::Duration;

use super::{Failure, FailureClass, RetryDecision, RetryPolicy};

/// Repeats a request up to a number of times, on the next node each time and without a pause.
///
/// Errors that every node would give are never repeated, and what is not idempotent only while it certainly was not
/// executed. A conditional statement stays on its node, because moving it makes coordinators contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedRetry {
    /// How many times at most.
    pub retries_max: u16,
}

impl Default for LimitedRetry {
    /// Three times, which covers every replica of the usual replication factor.
    fn default() -> Self {
        Self { retries_max: 3 }
    }
}

impl RetryPolicy for LimitedRetry {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        match (may_help(failure, self.retries_max), failure.conditional) {
            (false, _) => RetryDecision::Stop,
            (true, true) => RetryDecision::Same,
            (true, false) => RetryDecision::Next,
        }
    }
}

/// Repeats a request as [`LimitedRetry`] does, after pauses that double from one to the next.
///
/// The pauses are spread at random, so that many clients do not return in step. They count against the deadline of the
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffRetry {
    /// How many times at most.
    pub retries_max: u16,
    /// The first pause; each one is up to half of it longer or shorter.
    pub pause_min: Duration,
    /// The longest pause, before it is spread.
    pub pause_max: Duration,
}

impl Default for BackoffRetry {
    /// Three times, from a tenth of a second up to ten seconds.
    fn default() -> Self {
        Self {
            retries_max: 3,
            pause_min: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
        }
    }
}

impl BackoffRetry {
    fn pause(&self, failure: &Failure<'_>) -> Duration {
        let doubled = 1_u32
            .checked_shl(u32::from(failure.history.retries()))
            .unwrap_or(u32::MAX);
        let middle = self.pause_min.saturating_mul(doubled).min(self.pause_max);
        // The upper half of the seed picks a point in the range, which is as wide as the first pause.
        let spread = self
            .pause_min
            .as_nanos()
            .saturating_mul(u128::from(failure.seed >> 32))
            >> 32;
        let spread = Duration::from_nanos(u64::try_from(spread).unwrap_or(u64::MAX));
        middle
            .saturating_add(spread)
            .saturating_sub(self.pause_min / 2)
    }
}

impl RetryPolicy for BackoffRetry {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        match (may_help(failure, self.retries_max), failure.conditional) {
            (false, _) => RetryDecision::Stop,
            (true, true) => RetryDecision::SameAfter(self.pause(failure)),
            (true, false) => RetryDecision::NextAfter(self.pause(failure)),
        }
    }
}

/// Whether another try is allowed, can do no harm, and may end differently.
fn may_help(failure: &Failure<'_>, retries_max: u16) -> bool {
    let hopeless = matches!(
        failure.class(),
        FailureClass::Rejected
            | FailureClass::RateLimit
            | FailureClass::CasUnknown
            | FailureClass::Protocol
    );
    let harmless = match failure.class() {
        FailureClass::Bootstrapping | FailureClass::Unavailable => true,
        FailureClass::ReadTimeout | FailureClass::ReadFailure => true,
        _ => failure.is_safe(),
    };
    failure.history.retries() < retries_max
        && !hopeless
        && harmless
        && !failure.is_conditional_write_timeout()
}
