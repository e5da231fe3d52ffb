//! Owns the bytes to send: one buffer that frames are encoded into, large payloads beside it, holes where frames were
//! withdrawn.
//! Leaves out which frame belongs to which request.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use crate::wire::{CHAIN_MIN, FRAMES_KEEP_MAX, FrameSink};
#[cfg(feature = "v5")]
use crate::wire::{FrameHeader, RawHeader};

/// Queues frames in the order they are sent.
///
/// Positions count the bytes ever encoded into the buffer, chained payloads aside; they stay valid while the buffer
/// is emptied and filled again.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    /// Is the position of the first byte of `bytes`.
    base: u64,
    /// Counts how many of `bytes` were sent.
    head: usize,
    /// Are the places where the stream is not just the next byte of the buffer, in order.
    splices: VecDeque<Splice>,
}

#[derive(Debug)]
struct Splice {
    at: u64,
    kind: SpliceKind,
}

#[derive(Debug)]
enum SpliceKind {
    /// Sends this before the byte at its place.
    Chain(Bytes),
    /// Skips as many bytes.
    Hole(u64),
}

/// Moves what is left to the front once this much was sent, so that a buffer that never empties does not grow.
const COMPACT_MIN: usize = 64 * 1024;

impl SendBuffer {
    /// Returns the position of the next byte to be encoded.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.base + to_u64(self.bytes.len())
    }

    /// Returns the position of the first byte that is still here.
    pub(crate) const fn start(&self) -> u64 {
        self.base
    }

    /// Tells whether no byte of a frame that starts here was sent.
    #[inline]
    pub(crate) fn is_unsent(&self, start: u64) -> bool {
        self.base + to_u64(self.head) <= start
    }

    /// Tells whether all of a frame with these bounds was sent.
    pub(crate) fn is_sent(&self, end: u64) -> bool {
        let head = self.base + to_u64(self.head);
        let chained = self.splices.iter().take_while(|splice| splice.at <= end);
        end <= head
            && !chained
                .into_iter()
                .any(|splice| matches!(splice.kind, SpliceKind::Chain(_)))
    }

    /// Tells whether there is nothing to send.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.skip_holes();
        self.head == self.bytes.len() && self.splices.is_empty()
    }

    /// Takes frames that were encoded elsewhere in exchange for an empty buffer, if there is nothing to send.
    pub(crate) fn adopt(&mut self, frames: &mut Vec<u8>) -> bool {
        if !self.bytes.is_empty() || !self.splices.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.bytes, frames);
        true
    }

    /// Writes a stream id into the header of a frame that starts here and was not sent.
    #[inline]
    pub(crate) fn address(&mut self, start: u64, stream: i16) {
        let at = self.index(start);
        if let Some(place) = self.bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            let [_, _, id @ ..]: &mut [u8; 4] = place;
            *id = stream.to_be_bytes();
        }
    }

    /// Takes back what was encoded from this position on.
    pub(crate) fn truncate(&mut self, start: u64) {
        let keep = usize::try_from(start.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.bytes.truncate(keep.max(self.head));
        while self.splices.back().is_some_and(|last| start < last.at) {
            self.splices.pop_back();
        }
    }

    /// Takes out an unsent frame with these bounds.
    pub(crate) fn withdraw(&mut self, start: u64, end: u64) {
        if end == self.end() {
            self.truncate(start);
            return;
        }
        // The frame's own payloads lie behind its header; one at its start belongs to the frame before.
        let from = self.splices.partition_point(|splice| splice.at <= start);
        let own = |splice: &Splice| {
            splice.at < end || (splice.at == end && matches!(splice.kind, SpliceKind::Chain(_)))
        };
        let to = self.splices.partition_point(own);
        let mut hole = end - start;
        self.splices.drain(from..to);
        if let Some(Splice {
            at,
            kind: SpliceKind::Hole(len),
        }) = self.splices.get(from)
            && *at == end
        {
            hole += len;
            self.splices.remove(from);
        }
        if let Some(Splice {
            at,
            kind: SpliceKind::Hole(len),
        }) = from.checked_sub(1).and_then(|at| self.splices.get_mut(at))
            && *at + *len == start
        {
            *len += hole;
            return;
        }
        self.splices.insert(
            from,
            Splice {
                at: start,
                kind: SpliceKind::Hole(hole),
            },
        );
    }

    /// Drops everything, sent or not.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            base: self.end(),
            ..Self::default()
        };
    }

    /// Returns the frame that was encoded last and starts here; none when payloads are chained to it.
    pub(crate) fn last(&self, start: u64) -> Option<&[u8]> {
        if self.splices.back().is_some_and(|last| start < last.at) {
            return None;
        }
        self.bytes.get(self.index(start)..)
    }

    /// Copies the frame that was encoded last and starts here, its chained payloads included.
    pub(crate) fn copy_last(&self, start: u64, out: &mut Vec<u8>) {
        let mut cursor = self.index(start);
        let own = self.splices.partition_point(|splice| splice.at <= start);
        for splice in self.splices.iter().skip(own) {
            let at = self.index(splice.at);
            out.extend_from_slice(self.bytes.get(cursor..at).unwrap_or_default());
            cursor = at;
            if let SpliceKind::Chain(payload) = &splice.kind {
                out.extend_from_slice(payload);
            }
        }
        out.extend_from_slice(self.bytes.get(cursor..).unwrap_or_default());
    }

    /// Returns the position of the next byte to be sent, and whether a chained payload comes before it.
    pub(crate) fn front(&mut self) -> (u64, bool) {
        self.skip_holes();
        let head = self.base + to_u64(self.head);
        let chained = self.splices.front().is_some_and(|first| first.at == head);
        (head, chained)
    }

    /// Returns the length of the next frame; to be asked only where one starts.
    #[cfg(feature = "v5")]
    pub(crate) fn frame_len(&mut self) -> Option<usize> {
        self.skip_holes();
        let header = self.bytes.get(self.head..)?.first_chunk()?;
        let body = usize::try_from(RawHeader::parse(header).length).ok()?;
        FrameHeader::LEN.checked_add(body)
    }

    /// Moves the next bytes, at most `max`, to the end of `out`: they count as sent. Returns how many there were.
    pub(crate) fn pull(&mut self, max: usize, out: &mut Vec<u8>) -> usize {
        let mut left = max;
        while 0 < left {
            self.skip_holes();
            let until = match self.splices.front() {
                Some(splice) => self.index(splice.at),
                None => self.bytes.len(),
            };
            let next = match self.splices.front() {
                _ if self.head < until => self.bytes.get(self.head..until).unwrap_or_default(),
                Some(Splice {
                    kind: SpliceKind::Chain(payload),
                    ..
                }) => payload,
                _ => break,
            };
            let part = next.len().min(left);
            out.extend_from_slice(next.get(..part).unwrap_or_default());
            left -= part;
            self.sent(part);
        }
        max - left
    }

    /// Queues a frame that was encoded elsewhere.
    pub(crate) fn append(&mut self, frame: LooseFrame) {
        let mut done = 0;
        for (at, payload) in &frame.chained {
            self.put(frame.bytes.get(done..*at).unwrap_or_default());
            self.chain(payload);
            done = *at;
        }
        self.put(frame.bytes.get(done..).unwrap_or_default());
    }

    /// Fills in what to write next.
    pub(crate) fn gather<'a>(&'a mut self, out: &mut [IoSlice<'a>]) -> usize {
        if self.splices.is_empty() {
            let rest = self.bytes.get(self.head..).unwrap_or_default();
            return match out.first_mut() {
                Some(place) if !rest.is_empty() => {
                    *place = IoSlice::new(rest);
                    1
                }
                _ => 0,
            };
        }
        self.gather_spliced(out)
    }

    fn gather_spliced<'a>(&'a mut self, out: &mut [IoSlice<'a>]) -> usize {
        self.skip_holes();
        let mut count = 0;
        let mut cursor = self.head;
        let mut add = |bytes: &'a [u8]| {
            if bytes.is_empty() {
                return true;
            }
            match out.get_mut(count) {
                Some(place) => {
                    *place = IoSlice::new(bytes);
                    count += 1;
                    true
                }
                None => false,
            }
        };
        for splice in &self.splices {
            let at = usize::try_from(splice.at - self.base).unwrap_or(usize::MAX);
            if !add(self.bytes.get(cursor..at).unwrap_or_default()) {
                return count;
            }
            cursor = at;
            match &splice.kind {
                SpliceKind::Chain(payload) => {
                    if !add(payload) {
                        return count;
                    }
                }
                SpliceKind::Hole(len) => cursor += usize::try_from(*len).unwrap_or(usize::MAX),
            }
        }
        add(self.bytes.get(cursor..).unwrap_or_default());
        count
    }

    /// Takes note that this many bytes were written; returns how many were more than there was to write.
    pub(crate) fn sent(&mut self, mut len: usize) -> usize {
        loop {
            let until = match self.splices.front() {
                Some(splice) => usize::try_from(splice.at - self.base).unwrap_or(usize::MAX),
                None => self.bytes.len(),
            };
            let plain = len.min(until.saturating_sub(self.head));
            self.head += plain;
            len -= plain;
            if self.head < until {
                break;
            }
            match self.splices.front_mut() {
                Some(Splice {
                    kind: SpliceKind::Chain(payload),
                    ..
                }) => {
                    let part = len.min(payload.len());
                    len -= part;
                    *payload = payload.split_off(part);
                    if !payload.is_empty() {
                        break;
                    }
                    self.splices.pop_front();
                }
                Some(Splice {
                    kind: SpliceKind::Hole(hole),
                    ..
                }) => {
                    self.head += usize::try_from(*hole).unwrap_or(usize::MAX);
                    self.splices.pop_front();
                }
                None => break,
            }
        }
        self.tidy();
        len
    }

    /// Gives back memory that holds nothing.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
            self.splices.shrink_to_fit();
        }
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    fn skip_holes(&mut self) {
        while let Some(Splice {
            at,
            kind: SpliceKind::Hole(len),
        }) = self.splices.front()
            && *at == self.base + to_u64(self.head)
        {
            self.head += usize::try_from(*len).unwrap_or(usize::MAX);
            self.splices.pop_front();
        }
        self.tidy();
    }

    #[inline]
    fn tidy(&mut self) {
        if self.head == self.bytes.len() {
            if self.splices.is_empty() && 0 < self.head {
                self.base += to_u64(self.head);
                self.head = 0;
                self.bytes.clear();
                if FRAMES_KEEP_MAX < self.bytes.capacity() {
                    self.bytes = Vec::new();
                }
            }
        } else if COMPACT_MIN <= self.head && self.bytes.len() / 2 < self.head {
            self.bytes.drain(..self.head);
            self.base += to_u64(self.head);
            self.head = 0;
        }
    }
}

impl FrameSink for SendBuffer {
    #[inline]
    fn reserve(&mut self, n: usize) {
        self.bytes.reserve(n);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    fn chain(&mut self, bytes: &Bytes) {
        if bytes.len() < CHAIN_MIN {
            self.put(bytes);
        } else {
            self.splices.push_back(Splice {
                at: self.end(),
                kind: SpliceKind::Chain(bytes.clone()),
            });
        }
    }
}

/// Holds one encoded frame that waits for its stream id.
#[derive(Debug, Default)]
pub(crate) struct LooseFrame {
    bytes: Vec<u8>,
    chained: Vec<(usize, Bytes)>,
}

impl LooseFrame {
    /// Writes the stream id into the header.
    pub(crate) fn address_to(&mut self, stream: i16) {
        if let Some(place) = self.bytes.get_mut(2..4) {
            place.copy_from_slice(&stream.to_be_bytes());
        }
    }
}

impl FrameSink for LooseFrame {
    fn reserve(&mut self, n: usize) {
        self.bytes.reserve(n);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn chain(&mut self, bytes: &Bytes) {
        if bytes.len() < CHAIN_MIN {
            self.put(bytes);
        } else {
            self.chained.push((self.bytes.len(), bytes.clone()));
        }
    }
}

#[inline]
fn to_u64(len: usize) -> u64 {
    // No platform has lengths above 64 bits.
    u64::try_from(len).unwrap_or(u64::MAX)
}
