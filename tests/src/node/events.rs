//! What a node tells without being asked, and which connections hear it.

use std::net::SocketAddr;

use messina_core::wire::event::{EventKind, SchemaChange, ServerEvent, TopologyChange};

/// Something that nodes announce. Addresses get the port of the connection that hears it.
#[derive(Clone, Debug)]
pub(crate) enum Announcement {
    Topology { change: TopologyChange, node: usize },
    Status { up: bool, node: usize },
    Schema(SchemaChange),
}

impl Announcement {
    pub(crate) fn kind(&self) -> EventKind {
        match self {
            Self::Topology { .. } => EventKind::TopologyChange,
            Self::Status { .. } => EventKind::StatusChange,
            Self::Schema(_) => EventKind::SchemaChange,
        }
    }

    /// The node that it is about, which never announces itself.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::Topology { node, .. } | Self::Status { node, .. } => Some(*node),
            Self::Schema(_) => None,
        }
    }

    /// The event as it is sent, with the address of the node that it is about.
    pub(crate) fn event(&self, address: SocketAddr) -> ServerEvent {
        match self {
            Self::Topology { change, .. } => ServerEvent::Topology {
                change: *change,
                address,
            },
            Self::Status { up, .. } => ServerEvent::Status { up: *up, address },
            Self::Schema(change) => ServerEvent::Schema(change.clone()),
        }
    }
}
