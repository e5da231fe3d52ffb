//! The time of day, told from the monotonic time that a request has read anyway.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use crate::runtime::Runtime;

/// How long the two clocks are taken to run alike: after a second the time of day is looked up again, so that a step
/// of it is followed soon.
const LOOK_AGAIN: i64 = 1_000_000;

/// Turns instants into microseconds since 1970.
#[derive(Debug)]
pub(crate) struct WallClock {
    base: Instant,
    /// The time of day at `base`, as last looked up.
    at_base: AtomicI64,
    /// Microseconds after `base` at which it is looked up again.
    look_at: AtomicI64,
}

impl WallClock {
    /// Starts with one look at both clocks.
    pub(crate) fn new(runtime: &impl Runtime) -> Self {
        let base = runtime.now();
        let at_base = AtomicI64::new(runtime.unix_micros());
        Self {
            base,
            at_base,
            look_at: AtomicI64::new(LOOK_AGAIN),
        }
    }

    /// Returns the time of day at `now`.
    #[inline]
    pub(crate) fn unix_micros(&self, now: Instant, runtime: &impl Runtime) -> i64 {
        let passed = now.saturating_duration_since(self.base);
        let seconds = i64::try_from(passed.as_secs()).unwrap_or(i64::MAX);
        let passed = seconds
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(passed.subsec_micros()));
        if self.look_at.load(Ordering::Relaxed) <= passed {
            self.look(passed, runtime);
        }
        self.at_base.load(Ordering::Relaxed).saturating_add(passed)
    }

    #[cold]
    fn look(&self, passed: i64, runtime: &impl Runtime) {
        self.at_base.store(
            runtime.unix_micros().saturating_sub(passed),
            Ordering::Relaxed,
        );
        self.look_at
            .store(passed.saturating_add(LOOK_AGAIN), Ordering::Relaxed);
    }
}
