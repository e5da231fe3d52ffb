//! Owns the bounds on what one connection may hold.
//! Leaves out timings, which belong to what they time.

use crate::error::session::ConfigError;

/// Bounds memory and queues, so that neither a peer nor an overload can grow them without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Refuses larger frames from a peer before anything is allocated for them. 256 MiB is the protocol's own limit.
    /// Until a connection is open, 1 MiB is the most.
    pub frame_bytes_max: u32,
    /// Bounds the requests on the wire of one connection; at most [`Limits::STREAMS_MAX`], which is the default.
    pub in_flight_max: u16,
    /// Bounds the requests that wait for a free stream id; beyond it they fail as overloaded. None by default: they
    /// wait under their deadlines.
    pub waiting_max: Option<u32>,
    /// Bounds the requests that were given up and never answered; a connection that has as many is replaced. 1,024:
    /// far more than a healthy server leaves, far fewer than the ids there are. Must be below `in_flight_max`.
    pub orphans_max: u16,
    /// Bounds the requests that callers hold ready for one connection before the next target is tried. 1,024: a few
    /// milliseconds of work.
    pub backlog_max: u32,
}

impl Limits {
    /// Is the number of stream ids that requests can have: 0 is left to errors that the server cannot tie to a
    /// request, the last one to keepalive.
    pub const STREAMS_MAX: u16 = 32_766;

    /// Checks what clamping cannot mend.
    ///
    /// # Errors
    /// A limit of zero would let nothing through.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::if_zero(self.frame_bytes_max == 0, "limits.frame_bytes_max")?;
        ConfigError::if_zero(self.in_flight_max == 0, "limits.in_flight_max")
    }

    /// Returns the limit on requests on the wire that holds after clamping.
    pub fn in_flight_effective(&self) -> u16 {
        self.in_flight_max.clamp(1, Self::STREAMS_MAX)
    }

    /// Returns how many requests one connection takes in all: on the wire, and ready for it.
    pub fn requests_effective(&self) -> u32 {
        let waiting = self.waiting_max.unwrap_or(u32::MAX).min(self.backlog_max);
        u32::from(self.in_flight_effective()).saturating_add(waiting)
    }

    /// Returns the limit on orphans that holds after clamping: it must be reached before the ids run out.
    pub fn orphans_effective(&self) -> u16 {
        self.orphans_max
            .clamp(1, (self.in_flight_effective() / 2).max(1))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 256 * 1024 * 1024,
            in_flight_max: Self::STREAMS_MAX,
            waiting_max: None,
            orphans_max: 1_024,
            backlog_max: 1_024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_limit_above_the_ids_there_are_is_clamped() {
        let limits = Limits {
            in_flight_max: 1_024,
            orphans_max: 24_576,
            ..Limits::default()
        };
        assert_eq!(limits.orphans_effective(), 512);
        let limits = Limits {
            in_flight_max: 1_024,
            orphans_max: 256,
            ..Limits::default()
        };
        assert_eq!(limits.orphans_effective(), 256);
        let limits = Limits {
            in_flight_max: 0,
            orphans_max: 0,
            ..Limits::default()
        };
        assert_eq!(
            (limits.in_flight_effective(), limits.orphans_effective()),
            (1, 1)
        );
        let limits = Limits {
            in_flight_max: u16::MAX,
            ..Limits::default()
        };
        assert_eq!(limits.in_flight_effective(), Limits::STREAMS_MAX);
    }
}
