//! Client-side timestamps: values that never repeat and never go back, as plain arithmetic.
//!
//! This module leaves out the clock (its owner reads it) and how several tasks share one generator.

use std::time::Duration;

use crate::notify::Note;

/// Produces strictly growing timestamps from a clock that may stand still or go back.
///
/// An owner with one task keeps the value and calls [`next`](Self::next). An owner with many keeps the last
/// timestamp in an atomic cell and puts [`after`](Self::after) into its compare-and-swap loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicTimestamps {
    last: i64,
}

impl MonotonicTimestamps {
    /// Makes a generator whose first timestamp is the clock's.
    pub const fn new() -> Self {
        Self { last: 0 }
    }

    /// Returns the next timestamp for a clock that shows `unix_micros`.
    pub fn next(&mut self, unix_micros: i64) -> i64 {
        self.last = Self::after(self.last, unix_micros);
        self.last
    }

    /// Returns how far the timestamps run ahead of a clock that shows `unix_micros`.
    ///
    /// More than [`DRIFT_WORTH_A_NOTE`] means that the clock went back or that more than a million requests a
    /// second have asked for timestamps.
    pub fn drift(&self, unix_micros: i64) -> Duration {
        Duration::from_micros(u64::try_from(self.last.saturating_sub(unix_micros)).unwrap_or(0))
    }

    /// Says whether a timestamp runs so far ahead of a clock that shows `unix_micros` that an operator should know.
    #[inline]
    pub const fn is_adrift(timestamp: i64, unix_micros: i64) -> bool {
        DRIFT_MICROS < timestamp.saturating_sub(unix_micros)
    }

    /// Computes the timestamp that follows `last` when the clock shows `unix_micros`.
    #[inline]
    pub const fn after(last: i64, unix_micros: i64) -> i64 {
        if last < unix_micros {
            unix_micros
        } else {
            last.saturating_add(1)
        }
    }
}

/// Tells of timestamps that run ahead of the clock, at most once a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriftWatch {
    told_at: Option<i64>,
}

impl DriftWatch {
    /// Makes a note of a timestamp given out while the clock shows `unix_micros`; none where it is close to the clock, or
    /// where it was told less than a second ago.
    pub fn note(&mut self, timestamp: i64, unix_micros: i64) -> Option<Note> {
        if !MonotonicTimestamps::is_adrift(timestamp, unix_micros) {
            return None;
        }
        // A clock that went back since then makes the old telling count for nothing.
        let recently = |told: i64| (0..DRIFT_MICROS).contains(&unix_micros.saturating_sub(told));
        if self.told_at.is_some_and(recently) {
            return None;
        }
        self.told_at = Some(unix_micros);
        let ahead = u64::try_from(timestamp.saturating_sub(unix_micros)).unwrap_or(0);
        Some(Note::TimestampsAhead {
            ahead: Duration::from_micros(ahead),
        })
    }
}

/// [`DRIFT_WORTH_A_NOTE`] in microseconds; also how long there is silence after a note.
const DRIFT_MICROS: i64 = 1_000_000;

/// From which drift on an operator should hear of it: a second is far beyond what a burst of requests explains.
pub const DRIFT_WORTH_A_NOTE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_grow_while_the_clock_stands_still_or_goes_back() {
        let mut timestamps = MonotonicTimestamps::new();
        let seen: Vec<i64> = [100, 100, 99, 200]
            .iter()
            .map(|&now| timestamps.next(now))
            .collect();
        assert_eq!(seen, [100, 101, 102, 200]);
    }

    #[test]
    fn drift_is_what_the_timestamps_run_ahead() {
        let mut timestamps = MonotonicTimestamps::new();
        timestamps.next(5_000_000);
        assert_eq!(timestamps.drift(2_000_000), Duration::from_secs(3));
        assert_eq!(timestamps.drift(6_000_000), Duration::ZERO);
    }

    #[test]
    fn timestamps_far_ahead_are_told_once_a_second_and_close_ones_never() {
        let mut watch = DriftWatch::default();
        let (mut timestamps, mut told) = (MonotonicTimestamps { last: 13_000_000 }, 0);
        // The clock stands three seconds behind for five seconds, while many ask.
        for millis in 0..5_000 {
            let now = 10_000_000 + millis * 1_000;
            let next = timestamps.next(now).max(now + 3_000_000);
            told += u32::from(watch.note(next, now).is_some());
        }
        assert_eq!(told, 5);
        assert!(
            DriftWatch::default().note(11_000_000, 10_000_000).is_none(),
            "a second is no drift"
        );
        let note = DriftWatch::default()
            .note(13_000_000, 10_000_000)
            .expect("three are");
        assert!(note.to_string().contains("3s"), "{note}");
    }

    #[test]
    fn a_clock_before_the_epoch_and_one_at_the_end_of_time_still_give_timestamps() {
        assert_eq!(MonotonicTimestamps::new().next(-5), 1);
        assert_eq!(MonotonicTimestamps::after(i64::MAX, 0), i64::MAX);
    }
}
