//! Owns the question whether a silent server is still there.
//! Leaves out sending it.

use std::time::{Duration, Instant};

use crate::time::later;

/// Asks after a silence and gives up when nothing at all arrives in time.
///
/// Any byte is a sign of life, so a busy server that answers late, or a large answer on a slow link, is not mistaken
/// for a dead one. A check that comes late asks once, however long it was overdue.
#[derive(Debug)]
pub(crate) struct Keepalive {
    interval: Option<Duration>,
    timeout: Duration,
    heard: Instant,
    /// Is when the server was asked, while it has not answered.
    asked: Option<Instant>,
    /// Is when to look again. Hearing something does not move it: the check does.
    check_at: Option<Instant>,
    /// Is an instant that the questions are aligned to, so that the connections of a session ask together and a
    /// process with many idle connections wakes up for all of them at once.
    beat: Option<Instant>,
}

/// Is how much of the interval lies between two beats: a question comes this much too late at most.
const BEATS: u32 = 32;

/// Says what follows from a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Ask,
    Dead,
}

impl Keepalive {
    pub(crate) fn new(now: Instant, interval: Option<Duration>, timeout: Duration) -> Self {
        let interval = interval.filter(|interval| !interval.is_zero());
        Self {
            interval,
            timeout,
            heard: now,
            asked: None,
            check_at: interval.map(|interval| later(now, interval)),
            beat: None,
        }
    }

    /// Aligns the questions to beats that are counted from an instant.
    pub(crate) fn with_beat(mut self, beat: Option<Instant>) -> Self {
        self.beat = beat;
        self.check_at = self.interval.map(|interval| self.due(interval));
        self
    }

    /// Says when the silence will have lasted for the interval, at the next beat where there are beats.
    fn due(&self, interval: Duration) -> Instant {
        let at = later(self.heard, interval);
        let (Some(beat), step) = (self.beat, interval / BEATS) else {
            return at;
        };
        let since = at.saturating_duration_since(beat).as_nanos();
        let over = since.checked_rem(step.as_nanos()).unwrap_or(0);
        match u64::try_from(over) {
            Ok(over) if 0 < over => later(at, step.saturating_sub(Duration::from_nanos(over))),
            _ => at,
        }
    }

    #[inline]
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Takes note that the question was sent.
    pub(crate) fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
        self.check_at = Some(later(now, self.timeout));
    }

    /// Takes note of the answer; false if nothing was asked.
    pub(crate) fn answered(&mut self) -> bool {
        self.check_at = self.interval.map(|interval| self.due(interval));
        self.asked.take().is_some()
    }

    /// Looks no more; for a connection that cannot ask.
    pub(crate) fn stop(&mut self) {
        self.interval = None;
        self.check_at = None;
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    #[inline]
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.check_at
    }

    /// Looks at the clock.
    #[inline]
    pub(crate) fn check(&mut self, now: Instant) -> Verdict {
        if self.check_at.is_none_or(|at| now < at) {
            Verdict::Fine
        } else {
            self.check_due(now)
        }
    }

    fn check_due(&mut self, now: Instant) -> Verdict {
        let (next, verdict) = match (self.asked, self.interval) {
            (Some(asked), _) => (Some(self.heard.max(asked) + self.timeout), Verdict::Dead),
            (None, Some(interval)) => (Some(self.due(interval)), Verdict::Ask),
            (None, None) => (None, Verdict::Fine),
        };
        self.check_at = next;
        if next.is_some_and(|next| next <= now) {
            verdict
        } else {
            Verdict::Fine
        }
    }
}
