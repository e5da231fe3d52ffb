//! Owns what follows from a server's events: marks of what to read again, hints for pools. No event is kept.

use std::time::Duration;

use super::schema::Scope;
use super::{ConnId, ControlPlane};
use crate::notify::{ClusterEvent, Note};
use crate::wire::{SchemaChange, SchemaTarget, ServerEvent, TopologyChange};

impl<H: Clone> ControlPlane<H> {
    pub(super) fn event(&mut self, conn: ConnId, event: ServerEvent) {
        let Some(link) = self.link().filter(|link| link.conn == conn) else {
            return;
        };
        match event {
            ServerEvent::Topology { .. }
                if self.config.refresh.topology_delay_max == Duration::MAX => {}
            // A node that left is known to have left; a new one's row may need a moment.
            ServerEvent::Topology {
                change: TopologyChange::RemovedNode,
                ..
            } => self.topology_dirty(Duration::ZERO),
            ServerEvent::Topology { .. } => {
                let delay = self.random_part(self.config.refresh.topology_delay_max);
                self.topology_dirty(delay);
            }
            ServerEvent::Status { up, address } => match self.members.at_address(address.ip()) {
                Some(host) if up => self.hint_up(host),
                Some(host) => self.hint_down(host),
                None if self.config.refresh.status_delay_max == Duration::MAX => (),
                None => {
                    let delay = self.random_part(self.config.refresh.status_delay_max);
                    self.topology_dirty(delay);
                }
            },
            ServerEvent::Schema(change) => {
                let delay = self.random_part(self.config.refresh.schema_delay_max);
                if self.config.refresh.schema_delay_max < Duration::MAX {
                    self.schema_change(&change, delay);
                }
                self.notify(ClusterEvent::SchemaChanged(change));
            }
            ServerEvent::ClientRoutes { .. } => (),
            ServerEvent::Unknown { kind } => {
                let address = link.info.address.clone();
                self.note(Note::EventUnknown { address, kind });
            }
        }
    }

    /// Marks the part of the schema that changed, if routing needs to know it.
    pub(super) fn schema_change(&mut self, change: &SchemaChange, delay: Duration) {
        match &change.target {
            SchemaTarget::Keyspace | SchemaTarget::Table { .. } => {
                let mut scope = Scope::default();
                scope.add(&change.keyspace);
                self.schema_dirty(&scope, delay);
            }
            SchemaTarget::Type { .. }
            | SchemaTarget::Function { .. }
            | SchemaTarget::Aggregate { .. } => (),
        }
    }
}
