//! Speculative execution: when to send a second copy of a request that is slow to be answered.
//!
//! This module leaves out the race itself (`Execution`) and how long requests take (`policy::latency`). Copies are only
//! ever sent of idempotent requests that are free to go to any node.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::latency::LatencyPause;

/// Says when further copies of an unanswered request are sent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum SpeculativePolicy {
    /// Never sends a copy.
    #[default]
    None,
    /// Sends a copy after each pause without a final answer, up to a number of copies.
    Constant {
        /// The pause between one copy and the next.
        delay: Duration,
        /// The greatest number of copies beside the first attempt.
        copies_max: u8,
    },
    /// Sends a copy when a request takes longer than most of those before it.
    Percentile(Arc<LatencyPause>),
}

impl SpeculativePolicy {
    /// Sends a copy when a request takes longer than `percent` of those before it; see [`LatencyPause::new`].
    pub fn percentile(percent: f64, copies_max: u8) -> Self {
        Self::Percentile(Arc::new(LatencyPause::new(percent, copies_max)))
    }

    /// Returns the pause before the next copy, when `copies` have been sent and another one is allowed.
    #[inline]
    pub fn pause_after(&self, copies: u8) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Constant { delay, copies_max } => (copies < *copies_max).then_some(*delay),
            Self::Percentile(pause) if copies < pause.copies_max() => pause.pause(),
            Self::Percentile(_) => None,
        }
    }

    /// Says whether a request may need a copy, or has to be measured for those after it.
    #[inline]
    pub const fn is_watching(&self) -> bool {
        match self {
            Self::None => false,
            Self::Constant { copies_max, .. } => *copies_max != 0,
            Self::Percentile(_) => true,
        }
    }

    /// Takes note of how long a request took, where that decides about the next ones.
    pub(crate) fn record(&self, sample: Duration) {
        if let Self::Percentile(pause) = self {
            pause.record(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_copies_is_limited() {
        let delay = Duration::from_millis(50);
        let policy = SpeculativePolicy::Constant {
            delay,
            copies_max: 2,
        };
        assert_eq!(
            [0, 1, 2].map(|copies| policy.pause_after(copies)),
            [Some(delay), Some(delay), None]
        );
        assert_eq!(SpeculativePolicy::default().pause_after(0), None);
    }

    #[test]
    fn a_percentile_watches_from_the_start_and_copies_once_it_knows() {
        let policy = SpeculativePolicy::percentile(50.0, 1);
        assert!(policy.is_watching() && policy.pause_after(0).is_none());
        (0..100).for_each(|_| policy.record(Duration::from_millis(4)));
        let pause = policy.pause_after(0).expect("enough was seen");
        assert!((4..5).contains(&pause.as_millis()), "{pause:?}");
        assert_eq!(policy.pause_after(1), None);
    }
}
