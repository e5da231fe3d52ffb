//! Owns how the pools are driven: which hosts have one, where they dial, and what follows from what they say.
//! Requests travel on the connections without this module.

use std::sync::Arc;

use super::budget::Rank;
use super::conns::{Conn, Dial, Phase, Purpose, Use};
use super::timers::Timer;
use super::{ConnId, ControlPlane};
use crate::conn::{CloseReason, ConnectionInfo, Role};
use crate::error::connect::{ConnectError, ConnectionError};
use crate::error::session::{NodeCause, NodeFailure, NodeName};
use crate::notify::{ClusterEvent, Note};
use crate::pool::{Pool, PoolOutput, Route};
use crate::routing::{Host, HostIdx, HostState, Shard};
use crate::wire::Request;

/// How many hosts have connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolCounts {
    /// At least one.
    pub(super) connected: usize,
    /// At least one, or tried and failed.
    pub(super) tried: usize,
    /// All they should have, or as many as can be had for the moment.
    pub(super) settled: usize,
    /// Hosts that should have connections.
    pub(super) wanted: usize,
}

impl<H: Clone> ControlPlane<H> {
    /// Opens and closes pools after members, facts or the filter's answers changed.
    pub(super) fn pools_follow_members(&mut self) {
        while self.pools.len() < self.members.slots.len() {
            let seed = self.random.seed();
            let pool = Pool::new(self.now, Arc::clone(&self.config), seed);
            self.pools.push(pool);
        }
        for host in HostIdx::all().take(self.pools.len()) {
            let wanted = self.wants(host);
            if let Some(member) = self.members.get_mut(host) {
                let before = std::mem::replace(&mut member.host.wanted, wanted);
                self.changed.hosts |= before != wanted;
            }
            let now = self.now;
            let Some(pool) = self.pools.get_mut(host.at()) else {
                continue;
            };
            match (wanted, pool.is_on()) {
                (true, false) => {
                    pool.turn_on(now);
                    self.pool_settle(host);
                }
                (false, true) => self.pool_off(host, CloseReason::HostRemoved),
                // Which datacenter is the local one may be news.
                _ => self.pool_settle(host),
            }
        }
    }

    /// Says whether requests may go to a host, so that it needs connections.
    pub(super) fn wants(&self, host: HostIdx) -> bool {
        let Some(member) = self.members.get(host) else {
            return false;
        };
        let reached = |host: &Host| host.usable() && self.policy.reaches(host);
        if !reached(&member.host) {
            return false;
        }
        let Some(limit) = self
            .policy
            .remote_hosts_max()
            .filter(|_| !member.host.local)
        else {
            return true;
        };
        // Those that are down stay wanted, or nobody would notice that they are back.
        let ahead = self.members.slots.iter().take(host.at()).filter(|other| {
            let other = &other.host;
            other.datacenter == member.host.datacenter
                && other.state != HostState::Down
                && reached(other)
        });
        ahead.take(usize::from(limit.get())).count() < usize::from(limit.get())
    }

    /// Lets another host of a remote datacenter take the place of one whose health has changed.
    pub(super) fn pools_follow_health(&mut self) {
        while std::mem::take(&mut self.remotes_changed) {
            self.pools_follow_members();
        }
    }

    /// Starts anew with a host that has another address.
    pub(super) fn pool_moved(&mut self, host: HostIdx) {
        if self.pools.get(host.at()).is_some_and(Pool::is_on) {
            self.pool_off(host, CloseReason::AddressChanged);
            self.pool_turn(host, |pool, now| pool.turn_on(now));
        }
    }

    fn pool_off(&mut self, host: HostIdx, reason: CloseReason) {
        self.pool_turn(host, |pool, now| pool.turn_off(now, reason));
        // A host that is not wanted any more has no next try, and what failed before is no news.
        if let Some(member) = self.members.get(host)
            && matches!(member.host.state, HostState::Up | HostState::Down)
        {
            self.set_state(host, HostState::Down, None);
        }
    }

    /// Gives a pool an input and does what follows.
    fn pool_turn(&mut self, host: HostIdx, input: impl FnOnce(&mut Pool<H>, std::time::Instant)) {
        let now = self.now;
        if let Some(pool) = self.pools.get_mut(host.at()) {
            input(pool, now);
            self.pool_settle(host);
        }
    }

    /// Does what a pool says, and brings its timer and its wish in line.
    fn pool_settle(&mut self, host: HostIdx) {
        while let Some(output) = self.pools.get_mut(host.at()).and_then(Pool::poll_output) {
            self.pool_output(host, output);
        }
        let Some(pool) = self.pools.get(host.at()) else {
            return;
        };
        match pool.poll_timeout() {
            Some(at) => self.timers.set(Timer::Host(host), at),
            None => self.timers.cancel(Timer::Host(host)),
        }
        let is_remote = !self
            .members
            .get(host)
            .is_some_and(|member| member.host.local);
        let rank = pool.wish().map(|urgency| Rank {
            urgency,
            is_remote,
            opening: pool.opening(),
        });
        self.budget.ask(host, rank);
    }

    fn pool_output(&mut self, host: HostIdx, output: PoolOutput) {
        match output {
            PoolOutput::Enter(conn) => self.enter_keyspace(conn, None),
            PoolOutput::Probe(conn) => {
                let deadline = Some(self.after(self.config.connection.keepalive_timeout));
                self.submit(conn, Purpose::Probe(host), Request::Options, deadline);
            }
            PoolOutput::Close(conn, reason) => self.disconnect(conn, reason),
            PoolOutput::Drain(conn, reason) => self.drain(conn, reason),
            PoolOutput::Changed => {
                self.changed.pools = true;
                let Some(pool) = self.pools.get_mut(host.at()) else {
                    return;
                };
                pool.arrange();
                if pool.is_up() {
                    self.set_state(host, HostState::Up, None);
                    self.round_hint();
                }
            }
            PoolOutput::Failed(cause, retry_in) => {
                if self.pools.get(host.at()).is_some_and(Pool::is_up) {
                    // The host works, only not as well as it could.
                    if let NodeCause::Connect(error) = cause {
                        self.note(Note::ConnectFailed(Arc::new(error)));
                    }
                    return;
                }
                let failure = self.failure(host, cause, retry_in);
                if retry_in.is_some() {
                    self.note(Note::HostUnreachable(Arc::new(failure.clone())));
                }
                self.set_state(host, HostState::Down, Some(failure));
            }
            PoolOutput::Note(note) => self.note(note),
        }
    }

    /// Starts as many attempts as may be under way.
    pub(super) fn pools_advance(&mut self) {
        while let Some(host) = self.budget.next(self.config.pool.opening_max) {
            self.pool_open(host);
        }
    }

    fn pool_open(&mut self, host: HostIdx) {
        let route = match self.route(host) {
            Ok(route) => route,
            Err(cause) => {
                return self.pool_turn(host, |pool, now| pool.handle_no_route(now, cause));
            }
        };
        let now = self.now;
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return self.budget.ask(host, None);
        };
        let start = pool.next(now, route);
        let dial = Dial {
            address: start.address,
            source_port: start.source_port,
            idle_max: start.idle_max,
        };
        match self.connect(Role::Data, dial, Use::Pool(host)) {
            Some(conn) => {
                self.budget.begun(conn);
                self.pool_turn(host, |pool, _| pool.begun(conn, start));
            }
            None => {
                let cause = NodeCause::NotTried;
                self.pool_turn(host, |pool, now| pool.handle_no_route(now, cause));
            }
        }
    }

    /// The address to dial for a host now.
    pub(super) fn dial_address(&self, host: HostIdx) -> Result<std::net::SocketAddr, NodeCause> {
        self.route(host).map(|route| route.address)
    }

    fn route(&self, host: HostIdx) -> Result<Route, NodeCause> {
        let member = self.members.get(host).ok_or(NodeCause::NotTried)?;
        let own = member.host.address;
        let address = match &self.config.address_translator {
            Some(translator) => translator
                .translate(&member.host)
                .ok_or(NodeCause::Untranslated)?,
            None => {
                let takes_own = self
                    .pools
                    .get(host.at())
                    .is_some_and(Pool::takes_own_address);
                member.reached.filter(|_| !takes_own).unwrap_or(own)
            }
        };
        Ok(Route {
            address,
            is_own_port: address.port() == own.port(),
        })
    }

    pub(super) fn pool_timer(&mut self, host: HostIdx) {
        self.pool_turn(host, |pool, now| pool.handle_timeout(now));
    }

    pub(super) fn pool_connected(
        &mut self,
        host: HostIdx,
        conn: ConnId,
        info: &ConnectionInfo,
        handle: H,
    ) {
        let id = self.members.get(host).map(|member| member.host.id);
        if let (Some(told), Some(id)) = (info.host_id, id)
            && told != id
        {
            // The address leads to another node now: its rows say to which.
            self.topology_doubted();
            self.disconnect(conn, CloseReason::AddressChanged);
            let cause = NodeCause::WrongHost { told };
            return self.pool_turn(host, |pool, now| {
                pool.handle_connect_failed(now, conn, cause);
            });
        }
        let entered = self.entered(conn);
        self.pool_turn(host, |pool, now| {
            pool.handle_connected(now, conn, info, handle, entered);
        });
    }

    /// Hands a connection that is in its keyspace now to requests.
    pub(super) fn pool_entered(&mut self, host: HostIdx, conn: ConnId) {
        self.pool_turn(host, |pool, now| pool.handle_entered(now, conn));
    }

    /// Takes note that an attempt for a host failed.
    pub(super) fn pool_connect_failed(&mut self, host: HostIdx, conn: ConnId, error: ConnectError) {
        if self.learn_version(&error) {
            return self.pool_turn(host, |pool, now| pool.handle_repeat(now, conn));
        }
        let cause = NodeCause::Connect(error);
        self.pool_turn(host, |pool, now| {
            pool.handle_connect_failed(now, conn, cause);
        });
    }

    /// Takes note that a connection for requests ended, or never got into its keyspace.
    pub(super) fn pool_lost(&mut self, host: HostIdx, conn: ConnId, cause: NodeCause) {
        self.pool_turn(host, |pool, now| pool.handle_lost(now, conn, cause));
    }

    /// Takes note that a connection takes no more requests.
    pub(super) fn draining(&mut self, conn: ConnId, error: ConnectionError) {
        let Some(record) = self.conns.get_mut(conn.key()) else {
            return;
        };
        match record.usage {
            Use::Pool(host) => {
                record.usage = Use::Draining(host);
                self.pool_turn(host, |pool, now| pool.handle_draining(now, conn, error));
            }
            // What is read over it is answered still; then it ends.
            Use::Control(_) | Use::Draining(_) | Use::Nothing => (),
        }
    }

    /// Lets a connection end after the requests in flight.
    fn drain(&mut self, conn: ConnId, reason: CloseReason) {
        if let Some(Conn {
            usage,
            phase: Phase::Open { .. },
            ..
        }) = self.conns.get_mut(conn.key())
            && let Use::Pool(host) = *usage
        {
            *usage = Use::Draining(host);
            // The snapshot without it comes first, so that requests do not run into a closed door.
            self.outcome(super::ControlOutput::Drain { conn, reason });
        }
    }

    /// Takes note that a request wanted a shard without a connection.
    pub(super) fn pool_demand(&mut self, host: HostIdx, shard: Shard) {
        self.pool_turn(host, |pool, now| pool.handle_demand(now, shard));
    }

    /// Names the host that failed by the address that is dialled for it.
    pub(super) fn failure(
        &self,
        host: HostIdx,
        cause: NodeCause,
        retry_in: Option<std::time::Duration>,
    ) -> NodeFailure {
        let (id, address) = self
            .members
            .get(host)
            .map_or_else(Default::default, |member| {
                (member.host.id, Some(member.host.address))
            });
        let unknown = || std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let address = self
            .dial_address(host)
            .ok()
            .or(address)
            .unwrap_or_else(unknown)
            .into();
        NodeFailure {
            node: NodeName::Host { id, address },
            cause,
            retry_in,
        }
    }

    /// Changes what is known of a host's health; a removed host stays removed.
    fn set_state(&mut self, host: HostIdx, state: HostState, failure: Option<NodeFailure>) {
        let Some(member) = self.members.get_mut(host) else {
            return;
        };
        let before = member.host.state;
        let retry_in = failure.as_ref().and_then(|failure| failure.retry_in);
        member.host.next_try = retry_in.and_then(|delay| self.now.checked_add(delay));
        if before == state && member.host.failure.is_none() && failure.is_none() {
            return;
        }
        member.host.failure = failure.map(Arc::new);
        self.changed.hosts = true;
        if before == HostState::Removed || before == state {
            return;
        }
        member.host.state = state;
        self.remotes_changed |= !member.host.local && self.policy.remote_hosts_max().is_some();
        let (host_id, address) = (member.host.id, member.host.address);
        match (before, state) {
            (_, HostState::Up) => self.notify(ClusterEvent::HostUp { host_id, address }),
            (HostState::Up, _) => self.notify(ClusterEvent::HostDown { host_id, address }),
            _ => (),
        }
    }

    /// Takes a server's word that a host is up, or a sign of life of it: its next attempt comes at once.
    pub(super) fn hint_up(&mut self, host: HostIdx) {
        self.pool_turn(host, |pool, now| pool.handle_up(now));
    }

    /// Takes a server's word that a host is down: its connections are asked for a sign of life.
    pub(super) fn hint_down(&mut self, host: HostIdx) {
        self.pool_turn(host, |pool, now| pool.handle_down(now));
    }

    pub(super) fn probed(&mut self, host: HostIdx, conn: ConnId, alive: bool) {
        self.pool_turn(host, |pool, now| pool.handle_probed(now, conn, alive));
    }

    /// Drops every connection and every wish for one.
    pub(super) fn pools_shut_down(&mut self) {
        for host in HostIdx::all().take(self.pools.len()) {
            self.pool_off(host, CloseReason::SessionClosed);
            self.set_state(host, HostState::Down, None);
        }
        self.budget.clear();
    }

    pub(super) fn pool_counts(&self) -> PoolCounts {
        let mut counts = PoolCounts::default();
        for (host, _) in self.members.current() {
            let Some(pool) = self.pools.get(host.at()).filter(|pool| pool.is_on()) else {
                continue;
            };
            let is_up = pool.is_up();
            let given_up = pool.is_paused() || (!is_up && pool.has_failed());
            counts.connected += usize::from(is_up);
            counts.tried += usize::from(is_up || pool.has_failed());
            counts.settled += usize::from(given_up || pool.is_complete());
            counts.wanted += 1;
        }
        counts
    }

    /// Notes a lost or failed connection for the operator.
    pub(super) fn note_lost(&mut self, address: crate::conn::Address, error: ConnectionError) {
        if !matches!(error, ConnectionError::Closed(_)) {
            self.note(Note::ConnectionLost { address, error });
        }
    }
}
