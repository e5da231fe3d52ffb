//! Speculative execution: when to send a second copy of a request that is slow to be answered.
//!
//! This module leaves out the race itself (`Execution`). Copies are only ever sent of idempotent requests that
//! are free to go to any node.

use std::time::Duration;

/// Says when further copies of an unanswered request are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

impl SpeculativePolicy {
    /// Returns the pause before the next copy, when `copies` have been sent and another one is allowed.
    #[inline]
    pub fn pause_after(self, copies: u8) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Constant { delay, copies_max } => (copies < copies_max).then_some(delay),
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
}
