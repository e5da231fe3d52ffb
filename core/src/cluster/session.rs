//! Owns the workflow of the control connection: who is tried in which order, and what happens when one is found,
//! fails or is lost. What is read over it belongs to the refreshes.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::conns::Use;
use super::fetch::SystemTable;
use super::publish::Start;
use super::timers::Timer;
use super::topology::Member;
use super::{ConnId, ControlOutput, ControlPlane, ResolveId};
use crate::conn::{Address, CloseReason, ConnectionInfo, Role};
use crate::error::connect::{ConnectCause, ConnectError};
use crate::error::session::{NodeCause, NodeFailure, NodeName, SessionErrorKind};
use crate::notify::Note;
use crate::routing::{HostIdx, HostState};
use crate::wire::ProtocolVersion;

/// How far the control connection is.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    /// Candidates are tried.
    #[default]
    Seeking,
    /// One is in use.
    Connected(Link),
    /// All failed; the next round has its time.
    Waiting,
    /// Nothing is wanted any more.
    Closed,
}

/// The control connection in use.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) conn: ConnId,
    pub(super) candidate: Candidate,
    pub(super) info: ConnectionInfo,
    /// The peers table this server has.
    pub(super) peers: SystemTable,
    pub(super) scylla: bool,
    /// Whether reads may carry a time-out for the server.
    pub(super) server_timeout: bool,
    /// The host it leads to, once the members were read.
    pub(super) host: Option<HostIdx>,
    /// Reads of the members or the schema that failed in a row.
    pub(super) failures: u32,
}

impl Link {
    /// Whether the members were read over it.
    pub(super) fn synced(&self) -> bool {
        self.host.is_some()
    }
}

/// An address where the control connection may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) address: SocketAddr,
    /// The contact point's name that led to the address.
    pub(super) contact_point: Option<Arc<str>>,
    /// The host that is thought to be there.
    pub(super) host: Option<HostIdx>,
}

/// One round over all candidates.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    queue: VecDeque<Candidate>,
    /// Addresses that were tried or are queued.
    known: BTreeSet<SocketAddr>,
    attempts: Vec<ConnId>,
    resolving: Vec<(ResolveId, Arc<str>)>,
    failures: Vec<NodeFailure>,
}

/// A healthy server answers in a fraction of this; waiting longer before the next one is tried beside it only makes
/// the start slow when a contact point is dead.
const STAGGER: Duration = Duration::from_secs(1);
/// More attempts beside each other would not find a living server sooner, only load the network.
const ATTEMPTS_MAX: usize = 3;
/// An application notices a cluster that is back within this time, however long it was away.
const ROUND_DELAY_MAX: Duration = Duration::from_secs(10);
/// A control connection that cannot read this often in a row leads to a node of little use.
pub(super) const READ_FAILURES_MAX: u32 = 3;

impl<H: Clone> ControlPlane<H> {
    /// Begins a round: known hosts first, then the contact points, whose names are resolved again.
    pub(super) fn round_begin(&mut self) {
        self.timers.cancel(Timer::Round);
        self.stage = Stage::Seeking;
        self.round = Round::default();
        let mut hosts: Vec<(bool, bool, HostIdx)> = Vec::new();
        for (idx, member) in self.members.current() {
            // A host that must not get requests gets no control connection either, unless it is a contact point.
            if self.wants(idx) {
                hosts.push((member.host.state != HostState::Up, !member.host.local, idx));
            }
        }
        self.random.shuffle(&mut hosts);
        hosts.sort_by_key(|(down, remote, _)| (*down, *remote));
        for (_, _, host) in hosts {
            if let Ok(address) = self.dial_address(host) {
                self.candidate(Candidate {
                    address,
                    contact_point: None,
                    host: Some(host),
                });
            }
        }
        let mut points = self.config.contact_points.clone();
        self.random.shuffle(&mut points);
        for point in points {
            match point.host.parse::<IpAddr>() {
                Ok(ip) => {
                    let address = SocketAddr::new(ip, point.port);
                    self.candidate(Candidate {
                        address,
                        contact_point: None,
                        host: None,
                    });
                }
                Err(_) => self.resolve(point.host, point.port),
            }
        }
        self.round_advance();
    }

    fn candidate(&mut self, candidate: Candidate) {
        if self.round.known.insert(candidate.address) {
            self.round.queue.push_back(candidate);
        }
    }

    fn resolve(&mut self, host: Arc<str>, port: u16) {
        let id = ResolveId(self.next_id());
        self.timers.set(
            Timer::Resolving(id),
            self.after(self.config.connection.connect_timeout),
        );
        self.round.resolving.push((id, Arc::clone(&host)));
        self.output(ControlOutput::Resolve { id, host, port });
    }

    /// Takes the outcome of a resolution; one that is not waited for any more is ignored.
    pub(super) fn resolved(&mut self, id: ResolveId, found: Result<Vec<SocketAddr>, NodeCause>) {
        self.timers.cancel(Timer::Resolving(id));
        let Some(at) = self.round.resolving.iter().position(|(own, _)| *own == id) else {
            return;
        };
        let (_, name) = self.round.resolving.swap_remove(at);
        match found {
            Ok(addresses) if !addresses.is_empty() => {
                self.names.retain(|(_, known)| *known != name);
                for address in addresses.into_iter().take(ADDRESSES_MAX) {
                    self.names.push((address, Arc::clone(&name)));
                    let contact_point = Some(Arc::clone(&name));
                    self.candidate(Candidate {
                        address,
                        contact_point,
                        host: None,
                    });
                }
            }
            Ok(_) => self.unresolved(name, NodeCause::NoAddress),
            Err(cause) => self.unresolved(name, cause),
        }
        self.round_advance();
    }

    fn unresolved(&mut self, name: Arc<str>, cause: NodeCause) {
        self.note(Note::NameUnresolved {
            name: Arc::clone(&name),
            cause: cause.clone(),
        });
        self.round.failures.push(NodeFailure {
            node: NodeName::ContactPoint(name),
            cause,
            retry_in: None,
        });
    }

    /// Keeps one attempt under way; ends the round when there is nobody left to try.
    pub(super) fn round_advance(&mut self) {
        while matches!(self.stage, Stage::Seeking) && self.round.attempts.is_empty() {
            if self.try_next() {
                return;
            }
            if self.round.queue.is_empty() {
                if self.round.resolving.is_empty() {
                    self.round_failed();
                }
                return;
            }
        }
    }

    /// Tries the next candidate beside those that do not answer.
    pub(super) fn stagger(&mut self) {
        if matches!(self.stage, Stage::Seeking) && self.round.attempts.len() < ATTEMPTS_MAX {
            self.try_next();
        }
    }

    fn try_next(&mut self) -> bool {
        let Some(candidate) = self.round.queue.pop_front() else {
            return false;
        };
        self.timers.set(Timer::Stagger, self.after(STAGGER));
        match self.connect(
            Role::Control,
            candidate.address,
            Use::Control(candidate.clone()),
        ) {
            Some(conn) => {
                self.round.attempts.push(conn);
                true
            }
            None => {
                self.candidate_failed(&candidate, NodeCause::NotTried);
                false
            }
        }
    }

    fn candidate_failed(&mut self, candidate: &Candidate, cause: NodeCause) {
        let node = self.node_name(candidate);
        self.round.failures.retain(|failure| failure.node != node);
        self.round.failures.push(NodeFailure {
            node,
            cause,
            retry_in: None,
        });
    }

    fn node_name(&self, candidate: &Candidate) -> NodeName {
        let address = Address::Tcp(candidate.address);
        match candidate.host.and_then(|host| self.members.get(host)) {
            Some(member) => NodeName::Host {
                id: member.host.id,
                address,
            },
            None => NodeName::Address {
                contact_point: candidate.contact_point.clone(),
                address,
            },
        }
    }

    fn round_failed(&mut self) {
        self.timers.cancel(Timer::Stagger);
        let failures = std::mem::take(&mut self.round.failures);
        if self.starting() {
            return self.fatal(SessionErrorKind::NoContactPoint, failures);
        }
        let random = self.draw();
        let delay = self
            .config
            .reconnect
            .delay(self.failed_rounds, random)
            .min(ROUND_DELAY_MAX);
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        self.note(Note::NoControlConnection {
            failures,
            retry_in: delay,
        });
        self.stage = Stage::Waiting;
        self.timers.set(Timer::Round, self.after(delay));
    }

    /// A sign that the cluster can be reached: the next round need not wait.
    pub(super) fn round_hint(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            self.timers.set_earlier(Timer::Round, self.now);
        }
    }

    pub(super) fn control_connected(
        &mut self,
        conn: ConnId,
        candidate: Candidate,
        info: ConnectionInfo,
    ) {
        self.round.attempts.retain(|own| *own != conn);
        if !matches!(self.stage, Stage::Seeking) {
            return self.disconnect(conn, CloseReason::Replaced);
        }
        for other in std::mem::take(&mut self.round.attempts) {
            // Whoever was slower may still be needed when this one turns out to be of no use.
            if let Some(Use::Control(other)) =
                self.conns.get(other.key()).map(|conn| conn.usage.clone())
            {
                self.round.queue.push_back(other);
            }
            self.disconnect(other, CloseReason::Replaced);
        }
        self.timers.cancel(Timer::Stagger);
        let scylla = is_scylla(&info);
        let link = Link {
            conn,
            candidate,
            peers: if scylla {
                SystemTable::Peers
            } else {
                SystemTable::PeersV2
            },
            scylla,
            server_timeout: scylla,
            info,
            host: None,
            failures: 0,
        };
        self.stage = Stage::Connected(link);
        self.topology_dirty(Duration::ZERO);
        self.schema_dirty_all();
        self.topology_begin();
        self.schema_begin();
    }

    pub(super) fn control_connect_failed(
        &mut self,
        conn: ConnId,
        candidate: Candidate,
        error: ConnectError,
    ) {
        self.round.attempts.retain(|own| *own != conn);
        if !matches!(self.stage, Stage::Seeking) {
            return;
        }
        if self.learn_version(&error) {
            self.round.queue.push_front(candidate);
        } else {
            self.note(Note::ConnectFailed(Arc::new(error.clone())));
            self.candidate_failed(&candidate, NodeCause::Connect(error));
        }
        self.round_advance();
    }

    /// Gives the control connection up because of what it leads to.
    pub(super) fn link_unusable(&mut self, cause: NodeCause) {
        if let Some(link) = self.link() {
            let conn = link.conn;
            self.disconnect(conn, CloseReason::Replaced);
            self.link_lost(cause);
        }
    }

    /// Moves the control connection from a host that requests avoid to one that is known to work, once there is one.
    pub(super) fn leave_unwanted_host(&mut self) {
        if self.start != Start::Ready || self.now < self.may_leave_from {
            return;
        }
        let Some(host) = self.link().and_then(|link| link.host) else {
            return;
        };
        let serves = |(idx, member): (HostIdx, &Member)| {
            member.host.state == HostState::Up && self.wants(idx)
        };
        if self.wants(host) || !self.members.current().any(serves) {
            return;
        }
        // Where the others turn out to be of no use for this, it is not tried again and again.
        self.may_leave_from = self.after(ROUND_DELAY_MAX);
        self.link_unusable(NodeCause::Unwanted);
    }

    /// Takes note that the control connection is gone: everything is read again over the next one.
    pub(super) fn link_lost(&mut self, cause: NodeCause) {
        let Stage::Connected(link) = std::mem::take(&mut self.stage) else {
            return;
        };
        self.forget_reads();
        if link.synced() {
            self.gap = true;
            self.round_begin();
        } else {
            self.candidate_failed(&link.candidate, cause);
            self.round_advance();
        }
    }

    /// Takes note that the members were read over the control connection for the first time.
    pub(super) fn link_synced(&mut self) {
        self.failed_rounds = 0;
        let resolving = std::mem::take(&mut self.round).resolving;
        resolving
            .iter()
            .for_each(|(id, _)| self.timers.cancel(Timer::Resolving(*id)));
    }

    pub(super) fn link(&self) -> Option<&Link> {
        match &self.stage {
            Stage::Connected(link) => Some(link),
            _ => None,
        }
    }

    pub(super) fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.stage {
            Stage::Connected(link) => Some(link),
            _ => None,
        }
    }

    /// Every failure there is to tell: of the contact points that were tried or not, and of the hosts.
    pub(super) fn all_failures(&self) -> Vec<NodeFailure> {
        let mut failures = self.round.failures.clone();
        let not_tried = |node| NodeFailure {
            node,
            cause: NodeCause::NotTried,
            retry_in: None,
        };
        let too_slow = |node| NodeFailure {
            node,
            cause: NodeCause::Unanswered,
            retry_in: None,
        };
        let resolving = self.round.resolving.iter();
        failures
            .extend(resolving.map(|(_, name)| too_slow(NodeName::ContactPoint(Arc::clone(name)))));
        for attempt in &self.round.attempts {
            if let Some(Use::Control(candidate)) =
                self.conns.get(attempt.key()).map(|conn| &conn.usage)
            {
                failures.push(too_slow(self.node_name(candidate)));
            }
        }
        failures.extend(
            self.round
                .queue
                .iter()
                .map(|candidate| not_tried(self.node_name(candidate))),
        );
        let hosts = self
            .members
            .current()
            .filter_map(|(_, member)| member.host.failure.as_deref());
        failures.extend(hosts.cloned());
        failures
    }

    /// Speaks the version from now on that a server asked for, if there is a choice; then the server is worth another
    /// attempt at once.
    pub(super) fn learn_version(&mut self, error: &ConnectError) -> bool {
        let ConnectCause::Version { server } = error.cause else {
            return false;
        };
        let lower = self.config.connection.version.is_none() && server == LOWEST.byte();
        if lower {
            self.version = LOWEST;
        }
        lower
    }
}

/// The version that every server of our time speaks; a server that was asked for it never asks for it.
const LOWEST: ProtocolVersion = ProtocolVersion::V4;
/// A name with more addresses than this is not worth trying them all.
const ADDRESSES_MAX: usize = 256;

/// Says whether the server is ScyllaDB, by what only it offers.
fn is_scylla(info: &ConnectionInfo) -> bool {
    info.shard.is_some() || info.features.are_of_scylla()
}
