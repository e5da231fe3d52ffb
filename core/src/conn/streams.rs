//! Owns stream ids: which are free, which wait for an answer, which were given up and must not be reused yet.
//! Leaves out deadlines and frames.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::conn::{StreamKey, Ticket};
use crate::wire::Opcode;

/// Keeps a dense table of stream ids, sized by use. The id freed last is taken first.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Bounds the table.
    max: u16,
    /// Counts requests that wait for an answer.
    waiting: u32,
    /// Counts requests that were given up and not answered.
    orphans: u32,
    /// Counts the orphans above the age at which they matter.
    old: u32,
    /// Lists younger orphans by age; some were answered since.
    young: VecDeque<(Instant, StreamKey)>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    state: SlotState,
    sent: InFlight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Free,
    Waiting,
    Young,
    Old,
}

/// Describes a request that has a stream id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) ticket: Ticket,
    /// Is the request's opcode, which decides what may answer it.
    pub(crate) opcode: Opcode,
    /// Are the bounds of its frame in the send buffer.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Is the key it got when it stood in line, if it did; its owner knows it by that.
    pub(crate) line: Option<StreamKey>,
}

/// Says what an answer on a stream belongs to.
pub(crate) enum Answered {
    /// Is a request that waits.
    Request(Freed),
    /// Is a request that was given up: its id is free again.
    Orphan(Freed),
}

/// Describes a request whose stream id is free again.
pub(crate) struct Freed {
    pub(crate) ticket: Ticket,
    pub(crate) key: StreamKey,
    /// Is the key it got when it stood in line, if it did.
    pub(crate) line: Option<StreamKey>,
}

/// One second: a server that is merely slow has answered by then, so younger orphans say nothing about it.
pub(crate) const ORPHAN_AGE: Duration = Duration::from_secs(1);

impl Streams {
    /// Sums up how often each id was used; looks at all of them, for rare use.
    pub(crate) fn used(&self) -> u64 {
        let slots = self.slots.iter();
        slots.map(|slot| u64::from(slot.generation)).sum()
    }

    pub(crate) const fn new(max: u16) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            max,
            waiting: 0,
            orphans: 0,
            old: 0,
            young: VecDeque::new(),
        }
    }

    /// Counts requests that wait for an answer.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Counts requests that were given up and not answered, however young.
    pub(crate) fn orphans(&self) -> u32 {
        self.orphans
    }

    /// Returns the id that [`occupy`](Self::occupy) will use next.
    #[inline]
    pub(crate) fn next_free(&mut self) -> Option<i16> {
        let index = match self.free.last() {
            Some(index) => *index,
            None => {
                let index = u16::try_from(self.slots.len())
                    .ok()
                    .filter(|index| *index < self.max)?;
                self.slots.push(Slot {
                    generation: 0,
                    state: SlotState::Free,
                    sent: NOBODY,
                });
                self.free.push(index);
                index
            }
        };
        stream_of(index)
    }

    /// Gives the next free id to a request and tells it; none when there is none.
    #[inline]
    pub(crate) fn occupy_next(&mut self, sent: InFlight) -> Option<(i16, StreamKey)> {
        if self.free.is_empty() {
            self.next_free()?;
        }
        let key = self.occupy(sent)?;
        // The index came from a list of 16-bit numbers.
        let stream = u16::try_from(key.index).ok().and_then(stream_of)?;
        Some((stream, key))
    }

    /// Gives the next free id to a request.
    #[inline]
    pub(crate) fn occupy(&mut self, sent: InFlight) -> Option<StreamKey> {
        let index = self.free.pop()?;
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.state = SlotState::Waiting;
        slot.sent = sent;
        self.waiting += 1;
        Some(StreamKey {
            index: u32::from(index),
            generation: slot.generation,
        })
    }

    /// Finds a request by its key, unless it is over.
    #[inline]
    pub(crate) fn find(&self, key: StreamKey) -> Option<&InFlight> {
        let slot = self.slots.get(usize::try_from(key.index).ok()?)?;
        (slot.generation == key.generation && slot.state == SlotState::Waiting)
            .then_some(&slot.sent)
    }

    /// Returns the key of the request that waits on this index.
    pub(crate) fn key_at(&self, index: u32) -> Option<StreamKey> {
        let slot = self.slots.get(usize::try_from(index).ok()?)?;
        (slot.state == SlotState::Waiting).then_some(StreamKey {
            index,
            generation: slot.generation,
        })
    }

    /// Tells whether a request waits on a stream that a RESULT can answer.
    #[inline]
    pub(crate) fn awaits_result(&self, stream: i16) -> bool {
        let slot = index_of(stream).and_then(|index| self.slots.get(usize::from(index)));
        slot.is_some_and(|slot| {
            slot.state == SlotState::Waiting && is_answered_by_result(slot.sent.opcode)
        })
    }

    /// Returns the request that a stream is in use for, given up or not.
    pub(crate) fn request_on(&self, stream: i16) -> Option<Opcode> {
        let slot = self.slots.get(usize::from(index_of(stream)?))?;
        (slot.state != SlotState::Free).then_some(slot.sent.opcode)
    }

    /// Frees the id of a request that waits for a RESULT; none if there is no such request on it.
    #[inline]
    pub(crate) fn free_result(&mut self, stream: i16) -> Option<Freed> {
        let index = index_of(stream)?;
        let slot = self.slots.get_mut(usize::from(index))?;
        if slot.state != SlotState::Waiting || !is_answered_by_result(slot.sent.opcode) {
            return None;
        }
        self.waiting -= 1;
        Some(slot.release(index, &mut self.free))
    }

    /// Says whether this many requests can have an id.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let unused = usize::from(self.max).saturating_sub(self.slots.len());
        count <= self.free.len() + unused
    }

    /// Frees a stream id whose answer arrived; none if it is not in use.
    #[inline]
    pub(crate) fn free_stream(&mut self, stream: i16) -> Option<Answered> {
        let index = index_of(stream)?;
        let slot = self.slots.get_mut(usize::from(index))?;
        let state = slot.state;
        if state == SlotState::Free {
            return None;
        }
        let freed = slot.release(index, &mut self.free);
        if state == SlotState::Waiting {
            self.waiting -= 1;
            return Some(Answered::Request(freed));
        }
        self.orphans -= 1;
        self.old -= u32::from(state == SlotState::Old);
        Some(Answered::Orphan(freed))
    }

    /// Frees the id of a request that was never sent.
    pub(crate) fn free(&mut self, key: StreamKey) {
        if let Some(slot) = self.waiting_slot(key) {
            slot.state = SlotState::Free;
            slot.generation = slot.generation.wrapping_add(1);
            self.waiting -= 1;
            self.free.push(u16::try_from(key.index).unwrap_or(u16::MAX));
        }
    }

    /// Keeps the id of a request that nobody waits for any more.
    pub(crate) fn orphan(&mut self, now: Instant, key: StreamKey) {
        if let Some(slot) = self.waiting_slot(key) {
            slot.state = SlotState::Young;
            self.waiting -= 1;
            self.orphans += 1;
            self.young.push_back((now, key));
        }
    }

    /// Counts the orphans that are old enough to matter.
    pub(crate) fn old_orphans(&mut self, now: Instant) -> u32 {
        while let Some((since, key)) = self.young.front()
            && *since + ORPHAN_AGE <= now
        {
            let key = *key;
            self.young.pop_front();
            if let Some(slot) = usize::try_from(key.index)
                .ok()
                .and_then(|index| self.slots.get_mut(index))
                && slot.generation == key.generation
                && slot.state == SlotState::Young
            {
                slot.state = SlotState::Old;
                self.old += 1;
            }
        }
        self.old
    }

    /// Tells when the number of old orphans can next grow.
    pub(crate) fn next_aging(&self) -> Option<Instant> {
        self.young.front().map(|(since, _)| *since + ORPHAN_AGE)
    }

    /// Takes out every waiting request, in the order of stream ids.
    pub(crate) fn drain_waiting(&mut self) -> impl Iterator<Item = (StreamKey, InFlight)> {
        self.waiting = 0;
        (0..)
            .zip(&mut self.slots)
            .filter(|(_, slot)| slot.state == SlotState::Waiting)
            .map(|(index, slot)| {
                slot.state = SlotState::Free;
                let key = StreamKey {
                    index,
                    generation: slot.generation,
                };
                slot.generation = slot.generation.wrapping_add(1);
                (key, slot.sent)
            })
    }

    /// Lists the waiting requests in the order of stream ids.
    pub(crate) fn iter_waiting(&self) -> impl Iterator<Item = (StreamKey, &InFlight)> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.state == SlotState::Waiting)
            .map(|(index, slot)| {
                (
                    StreamKey {
                        index,
                        generation: slot.generation,
                    },
                    &slot.sent,
                )
            })
    }

    fn waiting_slot(&mut self, key: StreamKey) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(usize::try_from(key.index).ok()?)?;
        (slot.generation == key.generation && slot.state == SlotState::Waiting).then_some(slot)
    }
}

impl Slot {
    /// Frees this slot's id for the next request.
    #[inline(always)] // Two callers, one of them the path of the answers to most writes.
    fn release(&mut self, index: u16, free: &mut Vec<u16>) -> Freed {
        let key = StreamKey {
            index: u32::from(index),
            generation: self.generation,
        };
        self.state = SlotState::Free;
        self.generation = self.generation.wrapping_add(1);
        free.push(index);
        Freed {
            ticket: self.sent.ticket,
            key,
            line: self.sent.line,
        }
    }
}

const NOBODY: InFlight = InFlight {
    ticket: Ticket(0),
    opcode: Opcode::Options,
    start: 0,
    end: 0,
    line: None,
};

/// Streams count from 1: a server reports errors that belong to no request on stream 0.
#[inline]
fn stream_of(index: u16) -> Option<i16> {
    i16::try_from(index.checked_add(1)?).ok()
}

#[inline]
fn index_of(stream: i16) -> Option<u16> {
    u16::try_from(stream).ok()?.checked_sub(1)
}

/// Tells whether RESULT is what answers a request.
#[inline]
pub(crate) fn is_answered_by_result(asked: Opcode) -> bool {
    matches!(
        asked,
        Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch
    )
}
