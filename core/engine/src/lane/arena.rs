//! The frames of the requests that a lane has taken and its task has not, one behind the other.
//! What becomes of the requests is the lane's matter.

use std::time::Instant;

use bytes::Bytes;
use messina_core::conn::{AdoptedFrame, Ticket};
use messina_core::wire::{
    CHAIN_MIN, EncodedRef, FRAMES_KEEP_MAX, FrameSink, LargeValue, Opcode, RequestRef,
};

/// One request on its way to the connection's task.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) ticket: Ticket,
    pub(crate) deadline: Option<Instant>,
    pub(crate) frame: FrameAt,
    /// Set when the caller gave up before the task took it.
    pub(crate) withdrawn: bool,
}

/// Where the encoded frame of one request lies in the lane's arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameAt {
    opcode: Opcode,
    start: usize,
    end: usize,
    large_start: usize,
    large_end: usize,
}

/// The frames of the requests in the inbox, one behind the other, with their stream ids still open.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    /// Payloads too large to copy, with their places in their frames.
    large: Vec<LargeValue>,
    /// Where the frame that is being written starts.
    start: usize,
}

impl Arena {
    /// Writes one frame; nothing is left of it when that fails.
    #[inline(always)] // On the path of every request.
    pub(super) fn write<E>(
        &mut self,
        encode: impl FnOnce(&mut Self) -> Result<Opcode, E>,
    ) -> Result<FrameAt, E> {
        let (start, large_start) = (self.bytes.len(), self.large.len());
        self.start = start;
        match encode(self) {
            Ok(opcode) => {
                let (end, large_end) = (self.bytes.len(), self.large.len());
                Ok(FrameAt {
                    opcode,
                    start,
                    end,
                    large_start,
                    large_end,
                })
            }
            Err(error) => {
                self.bytes.truncate(start);
                self.large.truncate(large_start);
                Err(error)
            }
        }
    }

    /// Writes an EXECUTE without large payloads.
    #[inline(always)] // On the path of every request.
    pub(crate) fn put_execute(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> FrameAt {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let large = self.large.len();
        FrameAt {
            opcode: Opcode::Execute,
            start,
            end: self.bytes.len(),
            large_start: large,
            large_end: large,
        }
    }

    /// Returns the frames, when all of them lie in one piece.
    #[inline]
    pub(crate) fn whole(&mut self) -> Option<&mut Vec<u8>> {
        self.large.is_empty().then_some(&mut self.bytes)
    }

    /// Returns a frame as a request to submit.
    #[inline]
    pub(crate) fn request(&self, at: FrameAt) -> RequestRef<'_> {
        RequestRef::Encoded(EncodedRef {
            opcode: at.opcode,
            frame: self.bytes.get(at.start..at.end).unwrap_or_default(),
            large: self
                .large
                .get(at.large_start..at.large_end)
                .unwrap_or_default(),
        })
    }

    /// Says whether there is no frame and nothing left of one.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.large.is_empty()
    }

    /// Forgets all frames and keeps the memory, unless it is much.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        if FRAMES_KEEP_MAX < self.bytes.capacity() {
            self.bytes = Vec::new();
        }
    }
}

impl Submission {
    /// Describes the frame to a connection that takes all frames at once.
    #[inline]
    pub(crate) fn adopted(&self) -> AdoptedFrame {
        AdoptedFrame {
            ticket: self.ticket,
            opcode: self.frame.opcode,
            start: self.frame.start,
            end: self.frame.end,
            deadline: self.deadline,
            withdrawn: self.withdrawn,
        }
    }
}

impl FrameSink for Arena {
    #[inline]
    fn reserve(&mut self, n: usize) {
        self.bytes.reserve(n);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn chain(&mut self, bytes: &Bytes) {
        if bytes.len() < CHAIN_MIN {
            self.put(bytes);
        } else {
            let at = self.bytes.len() - self.start;
            self.large.push(LargeValue {
                at,
                bytes: bytes.clone(),
            });
        }
    }
}
