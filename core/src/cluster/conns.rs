//! Owns the books of connections and of our own requests on them: from the wish to the report of the end.
//! Which connections there should be is decided elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::refresh::Read;
use super::session::Candidate;
use super::timers::Timer;
use super::{CommandId, ConnId, ControlOutput, ControlPlane, QueryId};
use crate::conn::{Address, CloseReason, ConnectSpec, ConnectionInfo, ConnectionPlan, Role};
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase, ConnectionError};
use crate::error::session::NodeCause;
use crate::routing::HostIdx;
use crate::wire::{EventKind, Request};

/// A connection from the wish to open it until its end was reported.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    pub(super) usage: Use,
    pub(super) address: Address,
    pub(super) phase: Phase,
    /// The keyspace it is in, or will be in once it is open.
    pub(super) keyspace: Option<Arc<str>>,
}

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Control(Candidate),
    Pool(HostIdx),
    /// Takes no more requests and ends after those in flight.
    Draining(HostIdx),
    /// Its end is waited for.
    Nothing,
}

impl Use {
    /// The host whose requests it carries.
    pub(super) fn host(&self) -> Option<HostIdx> {
        match self {
            Self::Pool(host) | Self::Draining(host) => Some(*host),
            Self::Control(_) | Self::Nothing => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Opening,
    Open { info: Box<ConnectionInfo> },
    Leaving,
}

/// What a new connection dials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    pub(super) address: SocketAddr,
    pub(super) source_port: Option<u16>,
    /// After how much idle time it closes by itself.
    pub(super) idle_max: Option<Duration>,
}

impl From<SocketAddr> for Dial {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            source_port: None,
            idle_max: None,
        }
    }
}

/// A request of our own that was not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) conn: ConnId,
    pub(super) purpose: Purpose,
}

#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Read(Read),
    Keyspace {
        keyspace: Arc<str>,
        command: Option<CommandId>,
    },
    /// A sign of life of a host that is said to be down.
    Probe(HostIdx),
    /// The version of the schema that a host has, for the look of this number.
    Version {
        host: HostIdx,
        look: u64,
    },
}

impl<H: Clone> ControlPlane<H> {
    /// Asks the owner for a connection; `None` when there are too many.
    pub(super) fn connect(
        &mut self,
        role: Role,
        dial: impl Into<Dial>,
        usage: Use,
    ) -> Option<ConnId> {
        let Dial {
            address,
            source_port,
            idle_max,
        } = dial.into();
        let keyspace = self.keyspace.clone().filter(|_| role == Role::Data);
        let record = Conn {
            usage,
            address: address.into(),
            phase: Phase::Opening,
            keyspace: keyspace.clone(),
        };
        let conn = ConnId::of(self.conns.try_insert(record)?);
        let mut spec = ConnectSpec::new(address);
        spec.socket = self.config.connection.socket;
        spec.source_port = source_port;
        let mut plan = ConnectionPlan::new(address, Arc::clone(&self.config), self.random.seed());
        plan.host_name = self
            .names
            .iter()
            .find_map(|(known, name)| (*known == address).then(|| Arc::clone(name)));
        plan.role = role;
        plan.version = self.version;
        plan.keyspace = keyspace;
        plan.idle_max = idle_max;
        plan.keepalive_beat = Some(self.started);
        if role == Role::Control {
            plan.events = vec![
                EventKind::TopologyChange,
                EventKind::StatusChange,
                EventKind::SchemaChange,
            ];
            plan.datacenter = self
                .local_datacenter
                .clone()
                .filter(|_| self.config.local_datacenter.is_none());
            plan.rack = self
                .local_rack
                .clone()
                .filter(|_| self.config.local_rack.is_none());
        }
        let timings = &self.config.connection;
        let limit = timings
            .connect_timeout
            .saturating_add(timings.handshake_timeout);
        if let Some(at) = self.now.checked_add(limit) {
            self.timers.set(Timer::Opening(conn), at);
        }
        self.output(ControlOutput::Connect {
            conn,
            spec,
            plan: Box::new(plan),
        });
        Some(conn)
    }

    pub(super) fn connected(&mut self, conn: ConnId, info: ConnectionInfo, handle: H) {
        self.timers.cancel(Timer::Opening(conn));
        self.budget.over(conn);
        let Some(record) = self.conns.get_mut(conn.key()) else {
            return;
        };
        if matches!(record.usage, Use::Draining(_) | Use::Nothing) {
            // It was told to leave while it became usable; its end is still to be reported.
            record.phase = Phase::Leaving;
            return;
        }
        record.phase = Phase::Open {
            info: Box::new(info.clone()),
        };
        match record.usage.clone() {
            Use::Control(candidate) => self.control_connected(conn, candidate, info),
            Use::Pool(host) => self.pool_connected(host, conn, &info, handle),
            Use::Draining(_) | Use::Nothing => (),
        }
    }

    pub(super) fn opening_timed_out(&mut self, conn: ConnId) {
        let Some(record) = self.conns.get(conn.key()) else {
            return;
        };
        let (usage, address) = (record.usage.clone(), record.address.clone());
        self.disconnect(conn, CloseReason::TimedOut);
        let error = ConnectError {
            address,
            phase: ConnectPhase::Tcp,
            cause: ConnectCause::Timeout,
        };
        match usage {
            Use::Control(candidate) => self.control_connect_failed(conn, candidate, error),
            Use::Pool(host) => self.pool_connect_failed(host, conn, error),
            Use::Draining(_) | Use::Nothing => (),
        }
    }

    pub(super) fn closed(&mut self, conn: ConnId, error: ConnectionError) {
        let Some(record) = self.conns.remove(conn.key()) else {
            return;
        };
        self.timers.cancel(Timer::Opening(conn));
        self.budget.over(conn);
        let lost: Vec<QueryId> = self
            .queries
            .iter()
            .filter(|(_, pending)| pending.conn == conn)
            .map(|(id, _)| *id)
            .collect();
        let lost: Vec<Purpose> = lost
            .iter()
            .filter_map(|id| self.queries.remove(id))
            .map(|pending| pending.purpose)
            .collect();
        let cause = NodeCause::Connection(error.clone());
        let host = record.usage.host();
        match record.usage {
            Use::Control(_) => {
                self.note_lost(record.address, error);
                if self.link().is_some_and(|link| link.conn == conn) {
                    self.link_lost(cause.clone());
                }
            }
            Use::Pool(host) => {
                self.note_lost(record.address, error);
                self.pool_lost(host, conn, cause.clone());
            }
            Use::Draining(_) => self.note_lost(record.address, error),
            Use::Nothing => (),
        }
        for purpose in lost {
            match purpose {
                Purpose::Keyspace {
                    command: Some(id), ..
                } => self.keyspace_lost(id, host, conn, cause.clone()),
                Purpose::Version { host, look } => self.agreement_version(host, look, None),
                _ => (),
            }
        }
    }

    /// Asks the owner to end a connection that is of no use any more.
    pub(super) fn disconnect(&mut self, conn: ConnId, reason: CloseReason) {
        self.timers.cancel(Timer::Opening(conn));
        self.budget.over(conn);
        let Some(record) = self.conns.get_mut(conn.key()) else {
            return;
        };
        if std::mem::replace(&mut record.usage, Use::Nothing) == Use::Nothing {
            return;
        }
        if matches!(record.phase, Phase::Open { .. }) {
            record.phase = Phase::Leaving;
        }
        self.output(ControlOutput::Disconnect { conn, reason });
    }

    pub(super) fn submit(
        &mut self,
        conn: ConnId,
        purpose: Purpose,
        request: Request,
        deadline: Option<Instant>,
    ) {
        let query = QueryId(self.next_id());
        self.queries.insert(query, Pending { conn, purpose });
        self.output(ControlOutput::Submit {
            conn,
            query,
            request,
            deadline,
        });
    }
}
