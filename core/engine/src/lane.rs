//! The lane between callers and the task of one connection: an inbox, an arena of frames and reply slots behind one lock.
//! A caller writes its frame straight into the arena; the task gives it a stream id and looks at no body.
//!
//! A caller takes the lock twice, to hand a request in and to take its reply.
//! The task takes it once a turn to swap the inbox out and once per [`DELIVER_MAX`] replies.
//! No waker is cloned, woken or dropped while the lock is held: dropping one can drop a task whose own request
//! comes back to this very lane.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use messina_core::conn::{CloseReason, ConnectionInfo, Ticket};
use messina_core::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use messina_core::error::protocol::FrameEncodeError;
use messina_core::routing::Shard;
use messina_core::wire::{
    EncodedRef, FrameSink, LargeValue, Opcode, ProtocolFeatures, RequestRef, ResponseFrame,
};

/// How many replies are delivered under one lock: enough to spread its cost, few enough to keep callers from waiting.
pub(crate) const DELIVER_MAX: usize = 64;

/// The way to one open connection; this is the handle that routing data carries.
pub struct Lane {
    state: Mutex<State>,
    in_flight: AtomicU32,
    in_flight_max: u32,
    /// How many requests can be on the wire; more have to wait for one of these.
    streams_max: u32,
    info: ConnectionInfo,
}

/// What came back for a request, and when the connection's task saw it.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) at: Instant,
    pub(crate) reply: Result<ResponseFrame, AttemptError>,
}

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

/// From 1 KiB on, copying a payload costs more than handing it over.
const LARGE_MIN: usize = 1024;
/// An empty arena above this is given back: one burst should not cost memory for ever.
const KEEP_MAX: usize = 256 * 1024;

impl Arena {
    /// Writes one frame; nothing is left of it when that fails.
    #[inline]
    fn write<E>(
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

    /// Forgets all frames and keeps the memory, unless it is much.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        if KEEP_MAX < self.bytes.capacity() {
            self.bytes = Vec::new();
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
        if bytes.len() < LARGE_MIN {
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

/// What the task takes from the lane in one turn; its vectors are swapped, so they are reused.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub(crate) inbox: Vec<Submission>,
    pub(crate) arena: Arena,
    pub(crate) abandoned: Vec<Ticket>,
    /// Set once, when the connection shall take no more requests and end after those it has.
    pub(crate) drain: Option<CloseReason>,
    /// Set once, when the connection shall end.
    pub(crate) close: Option<CloseReason>,
    /// Requests that are not answered yet, the inbox included.
    pub(crate) in_flight: u32,
}

/// Why a lane did not take a request.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The connection has ended.
    Closed(ConnectionError),
    /// The connection and its backlog are full.
    Full,
    /// The request cannot be expressed on this connection.
    Encode(FrameEncodeError),
}

struct State {
    inbox: Vec<Submission>,
    arena: Arena,
    abandoned: Vec<Ticket>,
    slots: Vec<Slot>,
    free: u32,
    in_flight: u32,
    /// Counts the turns of the task: a submission of the current turn lies in the inbox still.
    turn: u32,
    task: Option<Waker>,
    drain: Option<CloseReason>,
    close: Option<CloseReason>,
    closed: Option<ConnectionError>,
    /// Who waits for the last request to be over.
    idle: Option<Waker>,
}

struct Slot {
    generation: u32,
    state: SlotState,
}

enum SlotState {
    Free {
        next: u32,
    },
    Waiting {
        waker: Waker,
        turn: u32,
        position: u32,
    },
    Done(Delivery),
}

const NONE: u32 = u32::MAX;

impl Lane {
    /// Makes the lane of a connection that has just become ready.
    pub(crate) fn new(info: ConnectionInfo, in_flight_max: u32, streams_max: u32) -> Self {
        let state = State {
            inbox: Vec::new(),
            arena: Arena::default(),
            abandoned: Vec::new(),
            slots: Vec::new(),
            free: NONE,
            in_flight: 0,
            turn: 0,
            task: None,
            drain: None,
            close: None,
            closed: None,
            idle: None,
        };
        Self {
            state: Mutex::new(state),
            in_flight: AtomicU32::new(0),
            in_flight_max,
            streams_max,
            info,
        }
    }

    /// Returns what the connection negotiated.
    pub fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns how many requests wait for their answer on this connection.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the shard that serves the connection, where the server tells.
    #[inline]
    pub(crate) fn shard(&self) -> Option<Shard> {
        self.info.shard.map(|info| info.shard)
    }

    /// Says whether a further request would have to wait for one of those on the wire.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.streams_max <= self.in_flight()
    }

    /// Hands a request to the connection's task; `waker` is woken when the reply is there.
    ///
    /// `encode` writes the frame, for the features of this connection, while the lock is held: it may copy bytes
    /// and nothing else.
    #[inline]
    pub(crate) fn submit(
        &self,
        deadline: Option<Instant>,
        waker: &Waker,
        encode: impl FnOnce(&mut Arena, &ProtocolFeatures) -> Result<Opcode, FrameEncodeError>,
    ) -> Result<Ticket, Refused> {
        let waker = waker.clone();
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.closed.is_some() || self.in_flight_max <= state.in_flight {
            let closed = state.closed.clone();
            drop(guard);
            drop(waker);
            return Err(closed.map_or(Refused::Full, Refused::Closed));
        }
        let frame = match state
            .arena
            .write(|arena| encode(arena, &self.info.features))
        {
            Ok(frame) => frame,
            Err(error) => {
                drop(guard);
                drop(waker);
                return Err(Refused::Encode(error));
            }
        };
        let position = u32::try_from(state.inbox.len()).unwrap_or(NONE);
        let turn = state.turn;
        let ticket = state.occupy(SlotState::Waiting {
            waker,
            turn,
            position,
        });
        state.inbox.push(Submission {
            ticket,
            deadline,
            frame,
            withdrawn: false,
        });
        self.count(state, 1);
        let task = state.task.take();
        drop(guard);
        if let Some(task) = task {
            task.wake();
        }
        Ok(ticket)
    }

    /// Takes the reply of a request, or leaves the waker of the caller behind.
    #[inline]
    pub(crate) fn poll_reply(&self, ticket: Ticket, cx: &Context<'_>) -> Poll<Delivery> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let free = state.free;
        let Some(slot) = state.slot(ticket) else {
            debug_assert!(false, "a reply is taken once");
            return Poll::Pending;
        };
        match &slot.state {
            SlotState::Done(_) => {
                let taken = mem::replace(&mut slot.state, SlotState::Free { next: free });
                slot.generation = slot.generation.wrapping_add(1);
                state.free = index_of(ticket);
                drop(guard);
                match taken {
                    SlotState::Done(delivery) => Poll::Ready(delivery),
                    SlotState::Waiting { .. } | SlotState::Free { .. } => Poll::Pending,
                }
            }
            SlotState::Waiting { waker, .. } if waker.will_wake(cx.waker()) => Poll::Pending,
            SlotState::Waiting { .. } | SlotState::Free { .. } => {
                drop(guard);
                self.replace_waker(ticket, cx)
            }
        }
    }

    /// Gives a request up: not yet taken means never sent, taken means that its stream becomes an orphan.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        let mut state = self.lock();
        let Some(slot) = state.vacate(ticket) else {
            return;
        };
        let mut task = None;
        let mut idle = None;
        if let SlotState::Waiting { turn, position, .. } = &slot {
            self.discount(&mut state);
            idle = state.take_idle();
            if *turn == state.turn {
                let position = usize::try_from(*position).unwrap_or(usize::MAX);
                let submission = state.inbox.get_mut(position);
                if let Some(submission) =
                    submission.filter(|submission| submission.ticket == ticket)
                {
                    submission.withdrawn = true;
                }
            } else {
                state.abandoned.push(ticket);
                task = state.task.take();
            }
        }
        drop(state);
        drop(slot);
        [task, idle].into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until nobody waits for an answer any more.
    pub(crate) fn poll_idle(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let mut state = self.lock();
        let busy = 0 < state.in_flight;
        if busy {
            mem::swap(&mut state.idle, &mut waker);
        }
        drop(state);
        drop(waker);
        if busy { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Asks the connection to take no more requests and to end after those it has.
    pub(crate) fn drain(&self, reason: CloseReason) {
        self.end(|state| state.drain.get_or_insert(reason));
    }

    /// Asks the connection to end for a reason.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.end(|state| state.close.get_or_insert(reason));
    }

    fn end(&self, ask: impl FnOnce(&mut State) -> &mut CloseReason) {
        let mut state = self.lock();
        ask(&mut state);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Swaps what was handed in since the last turn out of the lane and leaves the task's waker behind.
    ///
    /// `spare` holds a waker of the task; what comes back in it is to be dropped or reused outside.
    pub(crate) fn take(&self, intake: &mut Intake, spare: &mut Option<Waker>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        mem::swap(&mut state.inbox, &mut intake.inbox);
        mem::swap(&mut state.arena, &mut intake.arena);
        mem::swap(&mut state.abandoned, &mut intake.abandoned);
        intake.drain = state.drain.take();
        intake.close = state.close.take();
        intake.in_flight = state.in_flight;
        state.turn = state.turn.wrapping_add(1);
        mem::swap(&mut state.task, spare);
    }

    /// Gives back the memory of an idle lane; returns whether it is idle.
    pub(crate) fn give_back_memory(&self) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        if 0 < state.in_flight || !state.abandoned.is_empty() {
            return false;
        }
        // The slots stay: their generations tell old tickets from new ones.
        let (inbox, arena) = (mem::take(&mut state.inbox), mem::take(&mut state.arena));
        drop(guard);
        drop((inbox, arena));
        true
    }

    /// Puts replies into their slots and wakes their callers; replies nobody waits for are dropped.
    ///
    /// `wakers` is empty before and after; only its memory is used.
    pub(crate) fn deliver(&self, replies: &mut Vec<(Ticket, Delivery)>, wakers: &mut Vec<Waker>) {
        while !replies.is_empty() {
            let block = replies.len().min(DELIVER_MAX);
            let mut unwanted = None;
            // Enough room beforehand, so that nothing is allocated under the lock.
            wakers.reserve(block + 1);
            let mut state = self.lock();
            for (ticket, delivery) in replies.drain(..block) {
                match state.slot(ticket) {
                    Some(slot) => match mem::replace(&mut slot.state, SlotState::Done(delivery)) {
                        SlotState::Waiting { waker, .. } => {
                            wakers.push(waker);
                            self.discount(&mut state);
                        }
                        other => slot.state = other,
                    },
                    None => unwanted.get_or_insert_with(Vec::new).push(delivery),
                }
            }
            wakers.extend(state.take_idle());
            drop(state);
            drop(unwanted);
            wakers.drain(..).for_each(Waker::wake);
        }
    }

    /// Ends the lane: nothing is taken any more, and whoever still waits learns why.
    pub(crate) fn fail(&self, now: Instant, error: &ConnectionError) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.closed.get_or_insert_with(|| error.clone());
        let task = state.task.take();
        let inbox = mem::take(&mut state.inbox);
        let arena = mem::take(&mut state.arena);
        let mut wakers = Vec::new();
        let this_turn = state.turn;
        for slot in &mut state.slots {
            if let SlotState::Waiting { turn, .. } = slot.state {
                let fate = if turn == this_turn {
                    Fate::NotSent
                } else {
                    Fate::MaybeApplied
                };
                let kind = AttemptErrorKind::Connection(error.clone());
                let delivery = Delivery {
                    at: now,
                    reply: Err(AttemptError { kind, fate }),
                };
                if let SlotState::Waiting { waker, .. } =
                    mem::replace(&mut slot.state, SlotState::Done(delivery))
                {
                    wakers.push(waker);
                }
            }
        }
        state.in_flight = 0;
        self.in_flight.store(0, Ordering::Relaxed);
        wakers.extend(state.idle.take());
        drop(guard);
        drop((task, inbox, arena));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Exchanges the waker of a caller that has moved to another task.
    #[cold]
    fn replace_waker(&self, ticket: Ticket, cx: &Context<'_>) -> Poll<Delivery> {
        let mut fresh = cx.waker().clone();
        let mut state = self.lock();
        let done = match state.slot(ticket).map(|slot| &mut slot.state) {
            Some(SlotState::Waiting { waker, .. }) => {
                mem::swap(waker, &mut fresh);
                false
            }
            Some(SlotState::Done(_)) => true,
            Some(SlotState::Free { .. }) | None => false,
        };
        drop(state);
        drop(fresh);
        // The reply came in between; it can only be taken once, so this does not go round in circles.
        if done {
            self.poll_reply(ticket, cx)
        } else {
            Poll::Pending
        }
    }

    #[inline]
    fn count(&self, state: &mut State, more: u32) {
        state.in_flight += more;
        // The lock orders the writers, so a plain store is enough.
        self.in_flight.store(state.in_flight, Ordering::Relaxed);
    }

    #[inline]
    fn discount(&self, state: &mut State) {
        state.in_flight = state.in_flight.saturating_sub(1);
        self.in_flight.store(state.in_flight, Ordering::Relaxed);
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half-way, so a poisoned lane is as good as any.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("info", &self.info)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl State {
    #[inline]
    fn take_idle(&mut self) -> Option<Waker> {
        if self.in_flight == 0 {
            self.idle.take()
        } else {
            None
        }
    }

    #[inline]
    fn occupy(&mut self, state: SlotState) -> Ticket {
        if let Some(slot) = usize::try_from(self.free)
            .ok()
            .and_then(|index| self.slots.get_mut(index))
        {
            let index = self.free;
            if let SlotState::Free { next } = mem::replace(&mut slot.state, state) {
                self.free = next;
            }
            return ticket(index, slot.generation);
        }
        // The slots are bounded by `in_flight_max`, which is a u32, plus the replies nobody has fetched yet.
        let index = u32::try_from(self.slots.len()).expect("fewer slots than u32::MAX");
        self.slots.push(Slot {
            generation: 0,
            state,
        });
        ticket(index, 0)
    }

    #[inline]
    fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        let (index, generation) = parts(ticket);
        self.slots
            .get_mut(index)
            .filter(|slot| slot.generation == generation)
    }

    fn vacate(&mut self, ticket: Ticket) -> Option<SlotState> {
        let next = self.free;
        let slot = self.slot(ticket)?;
        if matches!(slot.state, SlotState::Free { .. }) {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        let state = mem::replace(&mut slot.state, SlotState::Free { next });
        self.free = index_of(ticket);
        Some(state)
    }
}

#[inline]
fn ticket(index: u32, generation: u32) -> Ticket {
    Ticket(u64::from(generation) << 32 | u64::from(index))
}

#[inline]
fn parts(ticket: Ticket) -> (usize, u32) {
    let index = ticket.0 & u64::from(u32::MAX);
    let generation = ticket.0 >> 32;
    (
        usize::try_from(index).unwrap_or(usize::MAX),
        u32::try_from(generation).unwrap_or(NONE),
    )
}

#[inline]
fn index_of(ticket: Ticket) -> u32 {
    u32::try_from(ticket.0 & u64::from(u32::MAX)).unwrap_or(NONE)
}

#[cfg(test)]
mod tests;
