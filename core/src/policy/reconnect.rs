//! Owns the delays between attempts to connect to one host.
//! It keeps no state: who waits counts its own failed attempts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::session::ConfigError;

/// How long to wait before connecting to a host again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReconnectPolicy {
    /// Doubles the delay with each failure, with jitter so that sessions do not move in step.
    Exponential {
        /// The delay after the first failure, and the least one.
        base: Duration,
        /// The greatest delay.
        max: Duration,
    },
    /// Waits the same time after each failure.
    Constant {
        /// The delay.
        delay: Duration,
    },
    /// Waits as a user's own policy says, between 10 milliseconds and one hour.
    Custom(Arc<dyn ReconnectDelays>),
}

/// Says how long to wait before connecting to a host again; a pure function of its arguments.
pub trait ReconnectDelays: fmt::Debug + Send + Sync {
    /// The delay after `failures` failures in a row, the first of which is number 0; `random` is there for jitter.
    fn delay(&self, failures: u32, random: u32) -> Duration;

    /// Returns the one thing that is reported of the policy to servers: the name of its type unless it says otherwise.
    fn name(&self) -> &str {
        super::short_type_name(std::any::type_name::<Self>())
    }
}

impl PartialEq for ReconnectPolicy {
    /// Compares settings; a user's own policy equals nothing but itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Exponential { base, max },
                Self::Exponential {
                    base: other_base,
                    max: other_max,
                },
            ) => base == other_base && max == other_max,
            (Self::Constant { delay }, Self::Constant { delay: other }) => delay == other,
            (Self::Custom(own), Self::Custom(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl Eq for ReconnectPolicy {}

impl Default for ReconnectPolicy {
    /// From one second, so that a restart is noticed soon, to one minute, so that a dead host costs little.
    fn default() -> Self {
        Self::Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        }
    }
}

impl ReconnectPolicy {
    /// Checks the delays.
    ///
    /// # Errors
    /// A delay of zero would open connections without a pause, and a first delay above the greatest one is a mistake.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let zero = |delay: &Duration, setting| ConfigError::if_zero(delay.is_zero(), setting);
        match self {
            Self::Exponential { base, max } => {
                zero(base, "reconnect.base")?;
                zero(max, "reconnect.max")?;
                match base <= max {
                    true => Ok(()),
                    false => Err(ConfigError::Order {
                        low: "reconnect.base",
                        high: "reconnect.max",
                    }),
                }
            }
            Self::Constant { delay } => zero(delay, "reconnect.delay"),
            Self::Custom(_) => Ok(()),
        }
    }

    /// The delay after `failures` failures in a row, the first of which is number 0; `random` places the jitter.
    #[must_use]
    pub fn delay(&self, failures: u32, random: u32) -> Duration {
        match self {
            Self::Constant { delay } => *delay,
            Self::Custom(delays) => delays.delay(failures, random).clamp(CUSTOM_MIN, CUSTOM_MAX),
            Self::Exponential { base, max } => {
                let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
                let raw = base.saturating_mul(factor).min(*max);
                let percent =
                    JITTER_PERCENT_MIN + random % (JITTER_PERCENT_MAX - JITTER_PERCENT_MIN + 1);
                let jittered = raw.saturating_mul(percent) / 100;
                jittered.min(*max).max((*base).min(*max))
            }
        }
    }
}

/// With a spread of 15 percent each way many sessions part after a few rounds and delays still look exponential.
const JITTER_PERCENT_MIN: u32 = 85;
const JITTER_PERCENT_MAX: u32 = 115;
/// A policy that answers nothing would make attempts follow each other without a pause.
const CUSTOM_MIN: Duration = Duration::from_millis(10);
/// A policy that answers too much would never notice that a host is back.
const CUSTOM_MAX: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    /// Places the jitter at a factor of exactly one.
    const MIDDLE: u32 = 15;

    fn policy(base: u64, max: u64) -> ReconnectPolicy {
        ReconnectPolicy::Exponential {
            base: Duration::from_millis(base),
            max: Duration::from_millis(max),
        }
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let delays = [0, 1, 2, 9, 10, 11]
            .map(|failures| policy(1_000, 600_000).delay(failures, MIDDLE).as_millis());
        assert_eq!(delays, [1_000, 2_000, 4_000, 512_000, 600_000, 600_000]);
    }

    #[test]
    fn jitter_stays_between_base_and_cap() {
        let low = 0;
        let high = 30;
        assert_eq!(policy(1_000, 60_000).delay(0, low).as_millis(), 1_000);
        assert_eq!(policy(1_000, 60_000).delay(0, high).as_millis(), 1_150);
        assert_eq!(policy(1_000, 60_000).delay(2, low).as_millis(), 3_400);
        assert_eq!(policy(1_000, 60_000).delay(20, low).as_millis(), 51_000);
        assert_eq!(policy(1_000, 60_000).delay(20, high).as_millis(), 60_000);
    }

    #[test]
    fn a_huge_number_of_failures_gives_the_cap() {
        for failures in [31, 32, 63, 5_000, u32::MAX] {
            assert_eq!(
                policy(1_000, 60_000).delay(failures, MIDDLE).as_millis(),
                60_000
            );
        }
    }

    #[test]
    fn a_cap_below_the_base_wins() {
        assert_eq!(policy(5_000, 1_000).delay(0, MIDDLE).as_millis(), 1_000);
    }

    #[derive(Debug)]
    struct Linear;

    impl ReconnectDelays for Linear {
        fn delay(&self, failures: u32, _: u32) -> Duration {
            Duration::from_secs(u64::from(failures))
        }
    }

    #[test]
    fn a_policy_of_ones_own_is_asked_and_kept_within_reason() {
        let policy = ReconnectPolicy::Custom(Arc::new(Linear));
        let delays = [0, 3, u32::MAX].map(|failures| policy.delay(failures, MIDDLE).as_millis());
        assert_eq!(delays, [10, 3_000, 3_600_000]);
        assert_eq!(policy, policy.clone());
        assert_ne!(policy, ReconnectPolicy::default());
    }

    #[test]
    fn a_constant_delay_does_not_grow() {
        let policy = ReconnectPolicy::Constant {
            delay: Duration::from_secs(3),
        };
        assert_eq!(policy.delay(0, 0), policy.delay(100, 77));
    }
}
