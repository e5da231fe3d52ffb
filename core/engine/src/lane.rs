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
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use messina_core::conn::{CloseReason, Connection, ConnectionInfo, Reply, Ticket};
use messina_core::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use messina_core::error::protocol::FrameEncodeError;
use messina_core::exec::Coordinator;
use messina_core::exec::targets::Planned;
use messina_core::routing::{HostIdx, Routing, Shard};
use messina_core::wire::{ExecuteLayout, Opcode, ProtocolFeatures};

mod arena;
mod slots;
#[cfg(test)]
mod tests;

use crate::wall_clock::Stamp;

pub(crate) use arena::{Arena, FrameAt, Submission};
use slots::{NONE, SlotState, State, index_of};

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
    /// The node it leads to, once a request was sent there.
    coordinator: OnceLock<Option<Coordinator>>,
    layout: ExecuteLayout,
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

/// A lane that is locked to hand one request in; nothing happens when it is dropped without.
pub(crate) struct Entry<'a> {
    lane: &'a Lane,
    guard: MutexGuard<'a, State>,
    waker: Waker,
}

impl Entry<'_> {
    /// Returns where frames are written.
    #[inline(always)]
    pub(crate) fn arena(&mut self) -> &mut Arena {
        &mut self.guard.arena
    }

    /// Returns the time of day as the lane knows it.
    #[inline(always)]
    pub(crate) fn stamp(&mut self) -> &mut Stamp {
        &mut self.guard.stamp
    }

    /// Hands the request in whose frame was written last, and wakes the task.
    #[inline(always)] // On the path of every request.
    pub(crate) fn submit(self, frame: FrameAt, deadline: Option<Instant>) -> Ticket {
        let Entry {
            lane,
            mut guard,
            waker,
        } = self;
        let state = &mut *guard;
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
        lane.count(state, 1);
        let task = state.task.take();
        drop(guard);
        if let Some(task) = task {
            task.wake();
        }
        ticket
    }

    #[cold]
    fn refuse(self) -> Refused {
        let closed = self.guard.closed.clone();
        closed.map_or(Refused::Full, Refused::Closed)
    }
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
            stamp: Stamp::default(),
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
            layout: ExecuteLayout::of(&info.features),
            info,
            coordinator: OnceLock::new(),
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

    /// Returns how an EXECUTE is laid out on the connection.
    #[inline]
    pub(crate) const fn layout(&self) -> ExecuteLayout {
        self.layout
    }

    /// Looks the node up that the lane leads to, the first time that a request is sent there.
    #[inline]
    pub(crate) fn leads_to<H>(&self, host: HostIdx, routing: &Routing<H>) {
        self.coordinator.get_or_init(|| {
            let place = Planned {
                host,
                shard: self.shard(),
            };
            Coordinator::of(place, routing)
        });
    }

    /// Returns the node that a request was sent to.
    #[inline]
    pub(crate) fn coordinator(&self) -> Option<&Coordinator> {
        self.coordinator.get()?.as_ref()
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
    pub(crate) fn submit(
        &self,
        deadline: Option<Instant>,
        waker: &Waker,
        encode: impl FnOnce(&mut Arena, &ProtocolFeatures) -> Result<Opcode, FrameEncodeError>,
    ) -> Result<Ticket, Refused> {
        let mut entry = self.enter(waker)?;
        match entry
            .guard
            .arena
            .write(|arena| encode(arena, &self.info.features))
        {
            Ok(frame) => Ok(entry.submit(frame, deadline)),
            Err(error) => Err(Refused::Encode(error)),
        }
    }

    /// Takes the lock to hand a request in, if the lane takes any.
    #[inline(always)] // On the path of every request.
    pub(crate) fn enter(&self, waker: &Waker) -> Result<Entry<'_>, Refused> {
        // Fields are dropped in order: the guard before the waker.
        let waker = waker.clone();
        let guard = self.lock();
        let entry = Entry {
            lane: self,
            guard,
            waker,
        };
        let state = &entry.guard;
        if state.closed.is_none() && state.in_flight < self.in_flight_max {
            Ok(entry)
        } else {
            Err(entry.refuse())
        }
    }

    /// Takes the reply of a request, or leaves the waker of the caller behind.
    pub(crate) fn poll_reply(&self, ticket: Ticket, cx: &Context<'_>) -> Poll<Reply> {
        let mut reply = None;
        self.poll_into(ticket, cx, &mut reply)
            .map(|()| reply.unwrap_or(Reply::Void))
    }

    /// Does what [`poll_reply`](Self::poll_reply) does, and writes to `reply` only where it is more than a word.
    #[inline(always)] // On the path of every request.
    pub(crate) fn poll_into(
        &self,
        ticket: Ticket,
        cx: &Context<'_>,
        reply: &mut Option<Reply>,
    ) -> Poll<()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let free = state.free;
        let Some(slot) = state.slot(ticket) else {
            debug_assert!(false, "a reply is taken once");
            return Poll::Pending;
        };
        match &slot.state {
            SlotState::Done(Reply::Void) => {
                slot.state = SlotState::Free { next: free };
                slot.generation = slot.generation.wrapping_add(1);
                state.free = index_of(ticket);
                Poll::Ready(())
            }
            SlotState::Done(_) => {
                *reply = state.take_done(ticket);
                Poll::Ready(())
            }
            SlotState::Waiting { waker, .. } if waker.will_wake(cx.waker()) => Poll::Pending,
            SlotState::Waiting { .. } | SlotState::Free { .. } => {
                drop(guard);
                self.replace_waker(ticket, cx, reply)
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

    /// Tells the callers of requests that are done, as long as the connection has such replies in front.
    ///
    /// `wakers` is empty before and after; only its memory is used.
    pub(crate) fn deliver_done(&self, conn: &mut Connection, wakers: &mut Vec<Waker>) {
        while conn.has_done() {
            // Enough room beforehand, so that nothing is allocated under the lock.
            wakers.reserve(DELIVER_MAX + 1);
            let mut guard = self.lock();
            let state = &mut *guard;
            let mut woken = 0;
            conn.poll_done(DELIVER_MAX, |ticket| {
                if let Some(slot) = state.waiting(ticket)
                    && let SlotState::Waiting { waker, .. } =
                        mem::replace(slot, SlotState::Done(Reply::Void))
                {
                    wakers.push(waker);
                    woken += 1;
                }
            });
            state.in_flight = state.in_flight.saturating_sub(woken);
            self.in_flight.store(state.in_flight, Ordering::Relaxed);
            wakers.extend(state.take_idle());
            drop(guard);
            wakers.drain(..).for_each(Waker::wake);
        }
    }

    /// Puts replies into their slots and wakes their callers; replies nobody waits for are dropped.
    ///
    /// `next` gives the replies, while the lock is held: it may move them and nothing else. `wakers` is empty before
    /// and after; only its memory is used.
    pub(crate) fn deliver(
        &self,
        mut next: impl FnMut() -> Option<(Ticket, Reply)>,
        wakers: &mut Vec<Waker>,
    ) {
        let mut first = next();
        while let Some(reply) = first.take() {
            let mut unwanted = None;
            // Enough room beforehand, so that nothing is allocated under the lock.
            wakers.reserve(DELIVER_MAX + 1);
            let mut guard = self.lock();
            let state = &mut *guard;
            let mut current = Some(reply);
            let mut left = DELIVER_MAX;
            while let Some((ticket, reply)) = current {
                match state.slot(ticket) {
                    Some(slot) if matches!(slot.state, SlotState::Waiting { .. }) => {
                        if let SlotState::Waiting { waker, .. } =
                            mem::replace(&mut slot.state, SlotState::Done(reply))
                        {
                            wakers.push(waker);
                        }
                        state.in_flight = state.in_flight.saturating_sub(1);
                    }
                    _ => unwanted.get_or_insert_with(Vec::new).push(reply),
                }
                left -= 1;
                if left == 0 {
                    break;
                }
                current = next();
            }
            self.in_flight.store(state.in_flight, Ordering::Relaxed);
            let idle = state.take_idle();
            drop(guard);
            drop(unwanted);
            wakers.drain(..).for_each(Waker::wake);
            if let Some(idle) = idle {
                idle.wake();
            }
            if left == 0 {
                first = next();
            }
        }
    }

    /// Ends the lane: nothing is taken any more, and whoever still waits learns why.
    pub(crate) fn fail(&self, error: &ConnectionError) {
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
                let reply = Reply::Failed(AttemptError { kind, fate });
                if let SlotState::Waiting { waker, .. } =
                    mem::replace(&mut slot.state, SlotState::Done(reply))
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
    fn replace_waker(
        &self,
        ticket: Ticket,
        cx: &Context<'_>,
        reply: &mut Option<Reply>,
    ) -> Poll<()> {
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
            self.poll_into(ticket, cx, reply)
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
