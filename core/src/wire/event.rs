//! What a server tells without being asked, and schema changes, which also come as results. What follows from an
//! event is decided in [`crate::cluster`].

use std::net::SocketAddr;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::read::Reader;

/// Something happened in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A node joined, left or moved.
    Topology {
        /// What the node did.
        change: TopologyChange,
        /// The node, by the address that the cluster knows; the port is that of the connection that was told.
        address: SocketAddr,
    },
    /// A node went up or down, as the sender sees it.
    Status {
        /// Whether it is up.
        up: bool,
        /// The node, by the address that the cluster knows.
        address: SocketAddr,
    },
    /// The schema changed.
    Schema(SchemaChange),
    /// Routes of private endpoints changed. The lists are read as pairs: one connection id and one host id each.
    ClientRoutes {
        /// The connection ids of the changed routes.
        connection_ids: Vec<String>,
        /// The host ids of the changed routes, as text.
        host_ids: Vec<String>,
    },
    /// An event of a kind, or with a detail, that this driver does not know. To be skipped.
    Unknown {
        /// The kind as sent: may be a known kind when only the detail is new.
        kind: String,
    },
}

/// What a node did to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyChange {
    /// It joined.
    NewNode,
    /// It left.
    RemovedNode,
    /// It moved to another place on the ring.
    MovedNode,
}

/// The kinds of events that a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// Nodes join and leave.
    TopologyChange,
    /// Nodes go up and down.
    StatusChange,
    /// The schema changes.
    SchemaChange,
    /// Routes of private endpoints change (ScyllaDB).
    ClientRoutesChange,
}

/// One change of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub change: SchemaChangeKind,
    /// To what.
    pub target: SchemaTarget,
    /// The keyspace it happened in, or to.
    pub keyspace: String,
}

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// A part of the schema, within its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table, or a view.
    Table {
        /// Its name.
        name: String,
    },
    /// A user-defined type.
    Type {
        /// Its name.
        name: String,
    },
    /// A function.
    Function {
        /// Its name.
        name: String,
        /// The types of its arguments.
        args: Vec<String>,
    },
    /// An aggregate.
    Aggregate {
        /// Its name.
        name: String,
        /// The types of its arguments.
        args: Vec<String>,
    },
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::TopologyChange,
        Self::StatusChange,
        Self::SchemaChange,
        Self::ClientRoutesChange,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
            Self::ClientRoutesChange => "CLIENT_ROUTES_CHANGE",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl TopologyChange {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewNode => "NEW_NODE",
            Self::RemovedNode => "REMOVED_NODE",
            Self::MovedNode => "MOVED_NODE",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::NewNode, Self::RemovedNode, Self::MovedNode]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

impl SchemaChangeKind {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Created, Self::Updated, Self::Dropped]
            .into_iter()
            .find(|c| c.name() == name)
    }
}

impl SchemaTarget {
    /// The name of the kind of target on the wire.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Keyspace => "KEYSPACE",
            Self::Table { .. } => "TABLE",
            Self::Type { .. } => "TYPE",
            Self::Function { .. } => "FUNCTION",
            Self::Aggregate { .. } => "AGGREGATE",
        }
    }
}

impl ServerEvent {
    /// The name of the event's kind on the wire.
    pub fn kind_name(&self) -> &str {
        match self {
            Self::Topology { .. } => EventKind::TopologyChange.name(),
            Self::Status { .. } => EventKind::StatusChange.name(),
            Self::Schema(_) => EventKind::SchemaChange.name(),
            Self::ClientRoutes { .. } => EventKind::ClientRoutesChange.name(),
            Self::Unknown { kind } => kind,
        }
    }

    /// Reads the body of an EVENT. What is well-formed but new to this driver becomes [`Self::Unknown`].
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let name = r.string()?;
        let unknown = || {
            Ok(Self::Unknown {
                kind: name.to_owned(),
            })
        };
        let Some(kind) = EventKind::from_name(name) else {
            return unknown();
        };
        match kind {
            EventKind::TopologyChange => match TopologyChange::from_name(r.string()?) {
                Some(change) => Ok(Self::Topology {
                    change,
                    address: r.inet()?,
                }),
                None => unknown(),
            },
            EventKind::StatusChange => match r.string()? {
                "UP" => Ok(Self::Status {
                    up: true,
                    address: r.inet()?,
                }),
                "DOWN" => Ok(Self::Status {
                    up: false,
                    address: r.inet()?,
                }),
                _ => unknown(),
            },
            EventKind::SchemaChange => match SchemaChange::read(r) {
                Ok(change) => Ok(Self::Schema(change)),
                Err(error) if error.kind.is_unknown_schema_part() => unknown(),
                Err(error) => Err(error),
            },
            EventKind::ClientRoutesChange => match r.string()? {
                UPDATE_NODES => Ok(Self::ClientRoutes {
                    connection_ids: r.string_list()?,
                    host_ids: r.string_list()?,
                }),
                _ => unknown(),
            },
        }
    }
}

impl SchemaChange {
    /// Reads a schema change, which is the same in a RESULT and in an EVENT.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let at = r.offset();
        let Some(change) = SchemaChangeKind::from_name(r.string()?) else {
            return Err(ProtocolError::new(
                ProtocolErrorKind::UnknownSchemaChange,
                at,
            ));
        };
        let at = r.offset();
        let target = r.string()?;
        let keyspace = r.string()?.to_owned();
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table {
                name: r.string()?.to_owned(),
            },
            "TYPE" => SchemaTarget::Type {
                name: r.string()?.to_owned(),
            },
            "FUNCTION" => SchemaTarget::Function {
                name: r.string()?.to_owned(),
                args: r.string_list()?,
            },
            "AGGREGATE" => SchemaTarget::Aggregate {
                name: r.string()?.to_owned(),
                args: r.string_list()?,
            },
            _ => {
                return Err(ProtocolError::new(
                    ProtocolErrorKind::UnknownSchemaTarget,
                    at,
                ));
            }
        };
        Ok(Self {
            change,
            target,
            keyspace,
        })
    }
}

/// The only change of routes that exists.
pub(crate) const UPDATE_NODES: &str = "UPDATE_NODES";
