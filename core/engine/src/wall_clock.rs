//! The time of day, told from the monotonic time that a request has read anyway.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

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
        let passed = self.passed(now);
        if self.look_at.load(Ordering::Relaxed) <= passed {
            self.look(passed, runtime);
        }
        self.at_base.load(Ordering::Relaxed).saturating_add(passed)
    }

    /// Returns the time of day at `now` and whether it should be looked up [again](Self::look_again); asks no clock.
    pub(crate) fn tell(&self, now: Instant) -> (i64, bool) {
        let passed = self.passed(now);
        let told = self.at_base.load(Ordering::Relaxed).saturating_add(passed);
        (told, self.look_at.load(Ordering::Relaxed) <= passed)
    }

    /// Looks the time of day up at `now`.
    #[cold]
    pub(crate) fn look_again(&self, now: Instant, runtime: &impl Runtime) {
        self.look(self.passed(now), runtime);
    }

    #[inline]
    fn passed(&self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(self.base);
        let seconds = i64::try_from(passed.as_secs()).unwrap_or(i64::MAX);
        seconds
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(passed.subsec_micros()))
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

/// How long a time of day that was told is good enough: far below what the clocks of two machines differ by.
const GRAIN: Duration = Duration::from_micros(50);

/// The time of day as it was told last; telling it costs more than comparing instants.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    until: Option<Instant>,
    micros: i64,
}

impl Stamp {
    /// Returns the time of day at `now`, from `tell` unless it was told a moment before.
    #[inline]
    pub(crate) fn at(&mut self, now: Instant, tell: impl FnOnce() -> i64) -> i64 {
        if self.until.is_none_or(|until| until <= now) {
            self.micros = tell();
            self.until = now.checked_add(GRAIN);
        }
        self.micros
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_told_again_after_its_moment() {
        // Any instant does; the stamp only compares.
        #[allow(clippy::disallowed_methods, reason = "a test has no runtime to ask")]
        let start = Instant::now();
        let mut stamp = Stamp::default();
        assert_eq!(stamp.at(start, || 7), 7);
        let within = start + GRAIN / 2;
        assert_eq!(stamp.at(within, || 8), 7, "it was told a moment before");
        assert_eq!(stamp.at(start + GRAIN, || 9), 9);
        assert_eq!(stamp.at(start + GRAIN, || 10), 9);
    }
}
