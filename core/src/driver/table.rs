//! The connections of a driver by their names, and how busy they are. Which there are is the control plane's decision.

use std::cell::RefCell;
use std::time::Instant;

use crate::cluster::ConnId;
use crate::config::limits::Limits;
use crate::conn::{Address, Connection, ConnectionPlan};
use crate::exec::Connections;
use crate::routing::{HostIdx, Loads, Shard};
use crate::wire::ProtocolFeatures;

/// Keeps connections from the wish to open them to their end.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Option<Entry>>);

/// A connection, or an attempt to get one.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: ConnId,
    pub(super) address: Address,
    pub(super) stage: Stage,
    /// Whether it became usable, and the control plane knows.
    pub(super) open: bool,
    /// Whether the owner knows that there are bytes to write.
    pub(super) told: bool,
    /// Whether it waits for its turn.
    pub(super) woken: bool,
    pub(super) armed: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The owner opens a socket.
    Opening(Box<ConnectionPlan>),
    /// There is a socket.
    Live(Box<Connection>),
}

impl Entry {
    pub(super) fn new(id: ConnId, plan: Box<ConnectionPlan>) -> Self {
        Self {
            id,
            address: plan.address.clone(),
            stage: Stage::Opening(plan),
            open: false,
            told: false,
            woken: false,
            armed: None,
        }
    }

    pub(super) fn live(&self) -> Option<&Connection> {
        match &self.stage {
            Stage::Live(conn) => Some(conn),
            Stage::Opening(_) => None,
        }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.stage {
            Stage::Live(conn) => Some(conn),
            Stage::Opening(_) => None,
        }
    }
}

impl Table {
    pub(super) fn insert(&mut self, entry: Entry) {
        let at = place(entry.id);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.0.get_mut(at) {
            *slot = Some(entry);
        }
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Entry> {
        let entry = self.0.get(place(id))?.as_ref();
        entry.filter(|entry| entry.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Entry> {
        let entry = self.0.get_mut(place(id))?.as_mut();
        entry.filter(|entry| entry.id == id)
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<Entry> {
        let slot = self.0.get_mut(place(id))?;
        slot.take_if(|entry| entry.id == id)
    }

    pub(super) fn live_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.get_mut(id)?.live_mut()
    }

    pub(super) fn in_flight(&self, id: ConnId) -> u32 {
        self.get(id)
            .and_then(Entry::live)
            .map_or(0, Connection::in_flight)
    }
}

fn place(id: ConnId) -> usize {
    usize::try_from(id.index).unwrap_or(usize::MAX - 1)
}

/// Tells an execution about connections, and collects which shards it missed.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) table: &'a Table,
    pub(super) limits: &'a Limits,
    pub(super) missed: RefCell<Vec<(HostIdx, Shard)>>,
    /// Is what was agreed on the connection of the reply at hand, which may have ended right after it.
    pub(super) served: ProtocolFeatures,
}

impl<'a> View<'a> {
    pub(super) fn new(table: &'a Table, limits: &'a Limits) -> Self {
        let missed = RefCell::new(Vec::new());
        Self {
            table,
            limits,
            missed,
            served: ProtocolFeatures::default(),
        }
    }
}

impl Loads<ConnId> for View<'_> {
    fn in_flight(&self, handle: &ConnId) -> u32 {
        self.table.in_flight(*handle)
    }

    fn is_full(&self, handle: &ConnId) -> bool {
        u32::from(self.limits.in_flight_effective()) <= self.in_flight(handle)
    }

    fn missed(&self, host: HostIdx, shard: Shard) {
        self.missed.borrow_mut().push((host, shard));
    }
}

impl Connections<ConnId> for View<'_> {
    fn features(&self, handle: &ConnId) -> ProtocolFeatures {
        let info = self
            .table
            .get(*handle)
            .and_then(|entry| entry.live()?.info());
        info.map_or(self.served, |info| info.features)
    }
}
