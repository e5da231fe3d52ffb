//! Owns the question whether a connection was left unused for so long that it is closed.
//! Costs the path of requests nothing: it looks at what was used since it last looked.

use std::time::{Duration, Instant};

use crate::time::later;

/// Looks at regular times whether there was a request since the last look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    max: Duration,
    check_at: Instant,
    /// Is how often streams had been used when it last looked.
    used: u64,
}

impl Idle {
    pub(crate) fn new(now: Instant, max: Duration) -> Self {
        Self {
            max,
            check_at: later(now, max),
            used: 0,
        }
    }

    pub(crate) fn check_at(&self) -> Instant {
        self.check_at
    }

    /// Looks, if it is time to; tells whether nothing was used since it last looked.
    pub(crate) fn check(&mut self, now: Instant, used: impl FnOnce() -> u64) -> bool {
        if now < self.check_at {
            return false;
        }
        self.check_at = later(now, self.max);
        let used = used();
        std::mem::replace(&mut self.used, used) == used
    }
}
