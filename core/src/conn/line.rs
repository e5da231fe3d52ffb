//! Owns the requests that wait for a stream id, first come, first served.
//! Leaves out their deadlines.

use std::collections::VecDeque;
use std::time::Instant;

use crate::collections::{Slab, SlabKey};
use crate::conn::send::LooseFrame;
use crate::conn::{StreamKey, Ticket};
use crate::wire::Opcode;

/// Keeps encoded requests in line. A request that got its id leaves a trace, so that its first key stays valid.
#[derive(Debug, Default)]
pub(crate) struct Line {
    places: Slab<Place>,
    queue: VecDeque<SlabKey>,
    waiting: u32,
}

#[derive(Debug)]
enum Place {
    Waiting(Waiting),
    /// Is on the wire under this key now.
    Sent(StreamKey),
}

/// Describes a request in line.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) opcode: Opcode,
    pub(crate) frame: LooseFrame,
    pub(crate) deadline: Option<Instant>,
}

/// Says where a request from the line is.
pub(crate) enum Found {
    /// Was still in line and has been taken out.
    Waiting(Waiting),
    /// Is on the wire.
    Sent(StreamKey),
    Gone,
}

/// Marks keys of requests in line; stream ids never reach it.
const LINE_BIT: u32 = 1 << 31;

impl Line {
    /// Counts the requests in line.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.waiting
    }

    /// Adds a request at the end.
    pub(crate) fn push(&mut self, waiting: Waiting) -> Option<StreamKey> {
        let key = self.places.try_insert(Place::Waiting(waiting))?;
        self.queue.push_back(key);
        self.waiting += 1;
        Some(first_key(key))
    }

    /// Takes the first request out of the line; [`sent`](Self::sent) must follow.
    pub(crate) fn pop(&mut self) -> Option<(StreamKey, Waiting)> {
        while let Some(key) = self.queue.pop_front() {
            let Some(place) = self.places.get_mut(key) else {
                continue;
            };
            if let Place::Waiting(waiting) = std::mem::replace(place, Place::Sent(NOWHERE)) {
                self.waiting -= 1;
                return Some((first_key(key), waiting));
            }
        }
        None
    }

    /// Notes under which key a request from the line went out.
    pub(crate) fn sent(&mut self, first: StreamKey, key: StreamKey) {
        if let Some(place) = self.places.get_mut(slab_key(first)) {
            *place = Place::Sent(key);
        }
    }

    /// Forgets a request that is over.
    pub(crate) fn forget(&mut self, first: StreamKey) {
        self.places.remove(slab_key(first));
    }

    /// Tells whether a key is one of this line's.
    #[inline]
    pub(crate) fn is_key(key: StreamKey) -> bool {
        key.index & LINE_BIT != 0
    }

    /// Returns the place of a request by its first key.
    pub(crate) fn place_of(key: StreamKey) -> u32 {
        key.index & !LINE_BIT
    }

    /// Finds a request by its first key; takes it out if it is still in line.
    pub(crate) fn take(&mut self, first: StreamKey) -> Found {
        let key = slab_key(first);
        match self.places.get(key) {
            Some(Place::Sent(stream)) => return Found::Sent(*stream),
            Some(Place::Waiting(_)) => (),
            None => return Found::Gone,
        }
        match self.places.remove(key) {
            Some(Place::Waiting(waiting)) => {
                self.waiting -= 1;
                self.prune();
                Found::Waiting(waiting)
            }
            Some(Place::Sent(_)) | None => Found::Gone,
        }
    }

    /// Returns the first key of the request at this place.
    pub(crate) fn key_at(&self, index: u32) -> Option<StreamKey> {
        self.places.key_at(index).map(first_key)
    }

    /// Takes all requests out of the line, in order.
    pub(crate) fn drain(&mut self) -> Vec<(StreamKey, Waiting)> {
        std::iter::from_fn(|| {
            let (first, waiting) = self.pop()?;
            self.forget(first);
            Some((first, waiting))
        })
        .collect()
    }

    /// Drops the places in line of requests that left it, once they are the greater part.
    fn prune(&mut self) {
        let waiting = usize::try_from(self.waiting).unwrap_or(usize::MAX);
        if waiting.saturating_add(PRUNE_MIN) < self.queue.len() / 2 {
            let places = &self.places;
            self.queue
                .retain(|key| matches!(places.get(*key), Some(Place::Waiting(_))));
        }
    }
}

/// Below this many, places of requests that left cost less than looking for them.
const PRUNE_MIN: usize = 64;
const NOWHERE: StreamKey = StreamKey::over(0);

fn first_key(key: SlabKey) -> StreamKey {
    StreamKey {
        index: key.index | LINE_BIT,
        generation: key.generation,
    }
}

fn slab_key(first: StreamKey) -> SlabKey {
    SlabKey {
        index: first.index & !LINE_BIT,
        generation: first.generation,
    }
}
