//! Owns the bytes that arrive: a chunk to read into, whole frames or segments cut off it without copying.
//! Leaves out what a header means; it is told how long a unit is.

use bytes::{Buf, Bytes, BytesMut};

use crate::wire::FrameHeader;
use crate::wire::response::{VOID, void_stream};

/// Is a chunk of initialised memory with two marks: bytes before `start` were consumed, bytes before `filled` arrived.
///
/// A body leaves as a window into the chunk. When the rest of the chunk gets small, the chunk is reused if nobody
/// holds a window into it, else one of two spares, else a new one is made. A frame above the largest chunk gets a
/// chunk of exactly its size, so that it too is never copied.
#[derive(Debug)]
pub(crate) struct RecvBuffer {
    chunk: BytesMut,
    start: usize,
    filled: usize,
    /// Is how large the next chunk will be; doubles when a read filled all there was.
    size: usize,
    /// Is the length of the unit that has begun, once it is known and if it fits a chunk.
    begun: usize,
    spares: Vec<Spare>,
    large: Option<LargeFrame>,
    /// Holds whole chunks of large frames, to be taken back once nobody else holds them.
    large_spares: Vec<Bytes>,
}

#[derive(Debug)]
struct Spare {
    chunk: BytesMut,
    size: usize,
}

/// Collects one frame that is larger than a chunk.
#[derive(Debug)]
struct LargeFrame {
    chunk: BytesMut,
    filled: usize,
    /// Is the length of the frame with its header; the chunk may be longer.
    len: usize,
}

/// 1 KiB: what a server offers fits, and an idle connection costs little.
const CHUNK_MIN: usize = 1024;
/// 64 KiB: as much as one read of a socket usually brings.
const CHUNK_MAX: usize = 64 * 1024;
/// Two: one read into, one whose windows are still being looked at.
const SPARES_MAX: usize = 2;
/// Three large answers at a time are more than one connection's share of the memory.
const LARGE_SPARES_MAX: usize = 3;
/// 4 MiB: larger chunks go back to the allocator at once.
const LARGE_SPARE_BYTES_MAX: usize = 4 * 1024 * 1024;

impl RecvBuffer {
    pub(crate) fn new() -> Self {
        Self {
            chunk: BytesMut::new(),
            start: 0,
            filled: 0,
            size: CHUNK_MIN,
            begun: 0,
            spares: Vec::new(),
            large: None,
            large_spares: Vec::new(),
        }
    }

    /// Returns the place for the next bytes; never empty.
    pub(crate) fn window(&mut self) -> &mut [u8] {
        if self.large.is_none() && self.chunk.len() - self.filled < self.room_wanted() {
            self.renew(1);
        }
        match &mut self.large {
            Some(large) => large
                .chunk
                .get_mut(large.filled..large.len)
                .unwrap_or_default(),
            None => self.chunk.get_mut(self.filled..).unwrap_or_default(),
        }
    }

    /// Takes note of bytes read into the window.
    pub(crate) fn received(&mut self, len: usize) {
        if let Some(large) = &mut self.large {
            large.filled = large.filled.saturating_add(len).min(large.len);
            return;
        }
        let room = self.chunk.len() - self.filled;
        self.filled += len.min(room);
        if room <= len && self.size < CHUNK_MAX {
            self.size *= 2;
        }
    }

    /// Takes in bytes that arrived otherwise, such as those of a record that was decrypted.
    #[cfg(feature = "rustls-023")]
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(large) = &mut self.large {
            let part = rest.len().min(large.len - large.filled);
            let (first, later) = rest.split_at_checked(part).unwrap_or((rest, &[]));
            if let Some(place) = large.chunk.get_mut(large.filled..large.filled + part) {
                place.copy_from_slice(first);
            }
            large.filled += part;
            rest = later;
        }
        if rest.is_empty() {
            return;
        }
        if self.size < 2 * rest.len() && self.size < CHUNK_MAX {
            self.size *= 2;
        }
        if self.chunk.len() - self.filled < rest.len() {
            self.renew(rest.len());
        }
        let end = self.filled + rest.len();
        if let Some(place) = self.chunk.get_mut(self.filled..end) {
            place.copy_from_slice(rest);
            self.filled = end;
        }
    }

    /// Returns what is there of the next unit, and of those behind it.
    #[cfg(feature = "v5")]
    pub(crate) fn rest(&self) -> &[u8] {
        match &self.large {
            Some(large) => large.chunk.get(..large.filled).unwrap_or_default(),
            None => self.chunk.get(self.start..self.filled).unwrap_or_default(),
        }
    }

    /// Cuts off the next unit, which is this long, once all of it is there; else makes room for it.
    #[cfg(feature = "v5")]
    pub(crate) fn take(&mut self, len: usize) -> Option<Bytes> {
        if self.large.is_some() || self.filled - self.start < len {
            return self.take_unfinished(0, len);
        }
        let end = self.start + len;
        let mut unit = self.chunk.split_to(end);
        unit.advance(self.start);
        self.filled -= end;
        self.start = 0;
        Some(unit.freeze())
    }

    /// Returns the header of the next frame, once it is there.
    #[inline]
    pub(crate) fn header(&self) -> Option<&[u8; FrameHeader::LEN]> {
        match &self.large {
            Some(large) => large.chunk.first_chunk(),
            None => self.chunk.get(self.start..self.filled)?.first_chunk(),
        }
    }

    /// Returns the stream of the next frame if that is a RESULT of kind Void with nothing around it, and all of it is
    /// there.
    #[inline]
    pub(crate) fn void_ahead(&self, version: u8) -> Option<i16> {
        void_stream(self.chunk.get(self.start..self.filled)?, version)
    }

    /// Goes past the frame that [`void_ahead`](Self::void_ahead) has found.
    #[inline]
    pub(crate) fn skip_void(&mut self) {
        self.start += FrameHeader::LEN + VOID.len();
    }

    /// Returns the first byte of the next frame, once it is there.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.chunk.get(self.start..self.filled)?.first().copied()
    }

    /// Cuts off the next frame and returns its body, once all of it is there; else makes room for it.
    #[inline(always)] // Its two callers differ in what they know of the length.
    pub(crate) fn take_body(&mut self, body_len: u32) -> Option<Bytes> {
        let body_len = usize::try_from(body_len).ok()?;
        let len = FrameHeader::LEN.checked_add(body_len)?;
        if self.large.is_some() || self.filled - self.start < len {
            return self.take_unfinished(FrameHeader::LEN, len);
        }
        let body_at = self.start + FrameHeader::LEN;
        let end = self.start + len;
        match self.chunk.get(body_at..end) {
            Some(body) if body == VOID => {
                self.start = end;
                Some(Bytes::from_static(VOID))
            }
            Some([]) => {
                self.start = end;
                Some(Bytes::new())
            }
            _ => {
                let mut frame = self.chunk.split_to(end);
                frame.advance(body_at);
                self.filled -= end;
                self.start = 0;
                Some(frame.freeze())
            }
        }
    }

    /// Uses the same memory again, when all that arrived was consumed.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.start == self.filled {
            self.start = 0;
            self.filled = 0;
            self.begun = 0;
        }
    }

    /// Gives back all memory that holds nothing; for connections that are idle.
    pub(crate) fn shrink(&mut self) {
        if self.start == self.filled && self.large.is_none() {
            *self = Self::new();
        }
    }

    /// Takes the unit that has begun, from this offset on, if it is complete.
    #[cold]
    fn take_unfinished(&mut self, from: usize, len: usize) -> Option<Bytes> {
        match &mut self.large {
            Some(large) => {
                if large.filled < large.len {
                    return None;
                }
                let whole = self.large.take()?.chunk.freeze();
                let body = whole.slice(from..len.min(whole.len()));
                if whole.len() <= LARGE_SPARE_BYTES_MAX {
                    if self.large_spares.len() == LARGE_SPARES_MAX {
                        self.large_spares.remove(0);
                    }
                    self.large_spares.push(whole);
                }
                Some(body)
            }
            None => {
                if CHUNK_MAX < len {
                    self.begin_large(len);
                    return None;
                }
                self.begun = len;
                if self.size < len {
                    self.size = len.next_power_of_two().min(CHUNK_MAX);
                }
                None
            }
        }
    }

    /// Moves what is there of a frame to a chunk of its own. Memory that is taken back is as long as it was and needs
    /// no clearing.
    fn begin_large(&mut self, len: usize) {
        let fits =
            |spare: &Bytes| len <= spare.len() && spare.len() / 4 <= len && spare.is_unique();
        let taken = self
            .large_spares
            .iter()
            .position(fits)
            .map(|at| self.large_spares.swap_remove(at));
        let mut chunk = match taken.map(Bytes::try_into_mut) {
            Some(Ok(chunk)) => chunk,
            Some(Err(_)) | None => BytesMut::zeroed(len),
        };
        let arrived = self.chunk.get(self.start..self.filled).unwrap_or_default();
        if let Some(place) = chunk.get_mut(..arrived.len()) {
            place.copy_from_slice(arrived);
        }
        self.large = Some(LargeFrame {
            chunk,
            filled: arrived.len(),
            len,
        });
        self.start = 0;
        self.filled = 0;
        self.begun = 0;
    }

    /// Says how much room makes a read worth its system call: a quarter of a chunk, and what the unit that has begun
    /// still needs.
    fn room_wanted(&self) -> usize {
        let missing = self.begun.saturating_sub(self.filled - self.start);
        (self.size / 4).max(missing).max(1)
    }

    /// Makes a chunk of the current size, and at least with this room, with what arrived at its front.
    fn renew(&mut self, room: usize) {
        if 0 < self.start {
            self.chunk.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
            if self.room_wanted().max(room) <= self.chunk.len() - self.filled {
                return;
            }
        }
        let filled = self.filled;
        self.chunk.truncate(filled);
        // What arrived is part of a unit that fits a chunk, so the size is at least that.
        let size = self.size.max(filled + room);
        if self.chunk.try_reclaim(size - filled) {
            self.chunk.resize(size, 0);
            return;
        }
        let mut next = self.take_spare(size);
        if let (Some(place), Some(arrived)) = (next.get_mut(..filled), self.chunk.get(..filled)) {
            place.copy_from_slice(arrived);
        }
        let old = std::mem::replace(&mut self.chunk, next);
        // A chunk that never was allocated, or was too small to be reclaimed, is not worth keeping.
        self.spares.retain(|spare| size <= spare.size);
        if 0 < old.capacity() && self.spares.len() < SPARES_MAX {
            self.spares.push(Spare { chunk: old, size });
        }
    }

    fn take_spare(&mut self, size: usize) -> BytesMut {
        let free = self.spares.iter_mut().position(|spare| {
            spare.chunk.clear();
            size <= spare.size && spare.chunk.try_reclaim(size)
        });
        match free.map(|at| self.spares.swap_remove(at)) {
            Some(mut spare) => {
                spare.chunk.resize(size, 0);
                spare.chunk
            }
            None => BytesMut::zeroed(size),
        }
    }
}
