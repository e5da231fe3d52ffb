//! Owns the short way of many requests at once: frames that were encoded elsewhere, taken over in one piece.
//! Leaves out every case in which a frame needs more than its stream id; those go one by one.

use std::time::Instant;

use crate::conn::output::Queued;
use crate::conn::streams::InFlight;
use crate::conn::{Connection, Phase, StreamKey, Ticket};
use crate::error::connect::{AttemptError, AttemptErrorKind, Fate};
use crate::wire::{FrameHeader, Opcode};

/// Describes one of several frames that lie one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct AdoptedFrame {
    /// Is the owner's name for the request.
    pub ticket: Ticket,
    /// Is the opcode in the header.
    pub opcode: Opcode,
    /// Is where the frame starts in the buffer.
    pub start: usize,
    /// Is where it ends, and where the next one starts.
    pub end: usize,
    /// Is when the request has failed if it is not answered.
    pub deadline: Option<Instant>,
    /// Says that nobody waits for it any more: it is not sent, and no reply follows.
    pub withdrawn: bool,
}

impl Connection {
    /// Submits many encoded frames at once, without copying them: `frames` is exchanged for an empty buffer.
    ///
    /// The frames fill the buffer without gaps and in order, with any stream ids; `taken` is told the key of each. All
    /// or none are taken. None when the connection is not open, cannot give each an id at once, compresses bodies, or
    /// has something to send already: [`submit`](Self::submit) them one by one then.
    pub fn submit_encoded(
        &mut self,
        now: Instant,
        frames: &mut Vec<u8>,
        requests: impl ExactSizeIterator<Item = AdoptedFrame>,
        mut taken: impl FnMut(Ticket, StreamKey),
    ) -> bool {
        let now = self.begin(now);
        let is_simple = matches!(self.phase, Phase::Open)
            && self.line.len() == 0
            && self.packer.is_none()
            && self.streams.has_room(requests.len());
        if !is_simple || !self.send.adopt(frames) {
            return false;
        }
        let base = self.send.start();
        for request in requests {
            let AdoptedFrame {
                ticket,
                opcode,
                deadline,
                ..
            } = request;
            let (start, end) = (position(base, request.start), position(base, request.end));
            let is_over = deadline.is_some_and(|deadline| deadline <= now);
            debug_assert!(request.start + FrameHeader::LEN <= request.end);
            if request.withdrawn || is_over {
                self.send.withdraw(start, end);
                if !request.withdrawn {
                    taken(ticket, self.put_over(ticket));
                }
                continue;
            }
            let sent = InFlight {
                ticket,
                opcode,
                start,
                end,
                line: None,
            };
            let Some((stream, key)) = self.streams.occupy_next(sent) else {
                debug_assert!(false, "there was room for all");
                continue;
            };
            self.send.address(start, stream);
            if let Some(deadline) = deadline {
                self.set_deadline(key.index, deadline);
            }
            taken(ticket, key);
        }
        true
    }

    /// Fails a request that was over before it began.
    #[cold]
    pub(super) fn put_over(&mut self, ticket: Ticket) -> StreamKey {
        self.over = self.over.wrapping_add(1);
        let key = StreamKey::over(self.over);
        let error = AttemptError::new(AttemptErrorKind::Expired, Fate::NotSent);
        self.outputs
            .push_back(Queued::Failed { ticket, key, error });
        key
    }
}

#[inline]
fn position(base: u64, at: usize) -> u64 {
    // No platform has lengths above 64 bits.
    base + u64::try_from(at).unwrap_or(u64::MAX)
}
