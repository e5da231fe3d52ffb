//! The time of day, told from the instants that come in anyway.

use std::time::Instant;

/// Knows how late it was at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    base: Instant,
    at_base: i64,
}

impl WallClock {
    pub(super) const fn new(now: Instant, unix_micros: i64) -> Self {
        Self {
            base: now,
            at_base: unix_micros,
        }
    }

    /// Returns the microseconds after 1970 at an instant.
    pub(super) fn unix_micros(&self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(self.base).as_micros();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.at_base.saturating_add(passed)
    }
}
