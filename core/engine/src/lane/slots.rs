//! What a lane keeps behind its lock: the inbox, and a slot for each request until its reply is fetched.
//! When the lock is taken is the lane's matter.

use std::mem;
use std::task::Waker;

use messina_core::conn::{CloseReason, Reply, Ticket};
use messina_core::error::connect::ConnectionError;

use super::arena::{Arena, Submission};
use crate::wall_clock::Stamp;

/// What a lane keeps behind its lock.
pub(super) struct State {
    pub(super) inbox: Vec<Submission>,
    pub(super) arena: Arena,
    pub(super) abandoned: Vec<Ticket>,
    pub(super) slots: Vec<Slot>,
    pub(super) free: u32,
    pub(super) in_flight: u32,
    /// Counts the turns of the task: a submission of the current turn lies in the inbox still.
    pub(super) turn: u32,
    pub(super) task: Option<Waker>,
    pub(super) stamp: Stamp,
    pub(super) drain: Option<CloseReason>,
    pub(super) close: Option<CloseReason>,
    pub(super) closed: Option<ConnectionError>,
    /// Who waits for the last request to be over.
    pub(super) idle: Option<Waker>,
}

/// The place of one request; its generation tells old tickets from new ones.
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) state: SlotState,
}

pub(super) enum SlotState {
    Free {
        next: u32,
    },
    Waiting {
        waker: Waker,
        turn: u32,
        position: u32,
    },
    Done(Reply),
}

pub(super) const NONE: u32 = u32::MAX;

impl State {
    #[inline]
    pub(super) fn take_idle(&mut self) -> Option<Waker> {
        if self.in_flight == 0 {
            self.idle.take()
        } else {
            None
        }
    }

    #[inline(always)] // On the path of every request.
    pub(super) fn occupy(&mut self, state: SlotState) -> Ticket {
        let index = self.free;
        let slot = usize::try_from(index)
            .ok()
            .and_then(|index| self.slots.get_mut(index));
        if let Some(slot) = slot
            && let SlotState::Free { next } = slot.state
        {
            self.free = next;
            // A free slot has nothing to drop.
            mem::forget(mem::replace(&mut slot.state, state));
            return ticket(index, slot.generation);
        }
        self.occupy_new(state)
    }

    #[inline(never)]
    fn occupy_new(&mut self, state: SlotState) -> Ticket {
        // The slots are bounded by `in_flight_max`, which is a u32, plus the replies nobody has fetched yet.
        let index = u32::try_from(self.slots.len()).expect("fewer slots than u32::MAX");
        self.slots.push(Slot {
            generation: 0,
            state,
        });
        ticket(index, 0)
    }

    #[inline]
    pub(super) fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        let (index, generation) = parts(ticket);
        self.slots
            .get_mut(index)
            .filter(|slot| slot.generation == generation)
    }

    /// Finds a request that waits for its reply.
    #[inline]
    pub(super) fn waiting(&mut self, ticket: Ticket) -> Option<&mut SlotState> {
        let slot = self.slot(ticket)?;
        matches!(slot.state, SlotState::Waiting { .. }).then_some(&mut slot.state)
    }

    /// Takes a reply out of its slot, which is free then.
    #[inline(never)]
    pub(super) fn take_done(&mut self, ticket: Ticket) -> Option<Reply> {
        match self.vacate(ticket)? {
            SlotState::Done(reply) => Some(reply),
            SlotState::Waiting { .. } | SlotState::Free { .. } => None,
        }
    }

    pub(super) fn vacate(&mut self, ticket: Ticket) -> Option<SlotState> {
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
pub(super) fn ticket(index: u32, generation: u32) -> Ticket {
    Ticket(u64::from(generation) << 32 | u64::from(index))
}

#[inline]
pub(super) fn parts(ticket: Ticket) -> (usize, u32) {
    let index = ticket.0 & u64::from(u32::MAX);
    let generation = ticket.0 >> 32;
    (
        usize::try_from(index).unwrap_or(usize::MAX),
        u32::try_from(generation).unwrap_or(NONE),
    )
}

#[inline]
pub(super) fn index_of(ticket: Ticket) -> u32 {
    u32::try_from(ticket.0 & u64::from(u32::MAX)).unwrap_or(NONE)
}
