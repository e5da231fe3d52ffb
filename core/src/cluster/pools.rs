//! Owns the connections for requests: one for each host that is wanted, opened again with growing delays.
//! Requests travel on them without this module; it only knows that they are open.

use std::collections::BTreeSet;
use std::time::Instant;

use super::conns::{Conn, Phase, Purpose, Use};
use super::timers::Timer;
use super::{ConnId, ControlPlane};
use crate::conn::{CloseReason, ConnectionInfo, Role};
use crate::error::connect::{ConnectCause, ConnectError, ConnectionError};
use crate::error::session::{NodeCause, NodeFailure, NodeName};
use crate::notify::{ClusterEvent, Note};
use crate::routing::{HostIdx, HostState, PoolView, Sharder};
use crate::wire::Request;

/// The connections of one host.
#[derive(Clone, Debug)]
pub(super) struct Pool<H> {
    pub(super) state: PoolState,
    pub(super) view: PoolView<H>,
    /// Attempts that failed since the last connection that lasted.
    failures: u32,
    /// Whether the next attempt takes the host's own address though another one has led to it.
    own_address: bool,
    /// When a status event last moved the next attempt forward.
    hinted: Option<Instant>,
    /// Whether a probe is under way.
    probing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    /// No connection is wanted.
    Off,
    /// The next attempt waits for its time.
    Waiting,
    /// The next attempt waits for others to end.
    Queued,
    Opening(ConnId),
    /// Usable, but on its way into another keyspace.
    Entering(ConnId),
    Open(ConnId),
}

impl<H> Default for Pool<H> {
    fn default() -> Self {
        Self {
            state: PoolState::Off,
            view: PoolView::default(),
            failures: 0,
            own_address: false,
            hinted: None,
            probing: false,
        }
    }
}

/// What concerns all pools.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// How many attempts are under way.
    opening: usize,
    /// Hosts whose time has come, the preferred ones first.
    queue: BTreeSet<(bool, HostIdx)>,
}

/// A connection that lasted as long as this ended for a reason of the moment, and the next may come at once.
const LASTED: std::time::Duration = std::time::Duration::from_secs(10);
/// A server that repeats that a host is up makes us try no more often than this.
const HINT_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

impl<H: Clone> ControlPlane<H> {
    /// Opens and closes pools after members, facts or the filter's answers changed.
    pub(super) fn pools_follow_members(&mut self) {
        self.pools
            .resize_with(self.members.slots.len(), Pool::default);
        let hosts: Vec<HostIdx> = (0..=u16::MAX)
            .take(self.members.slots.len())
            .map(HostIdx)
            .collect();
        for host in hosts {
            let wanted = self.wants(host);
            let off = self
                .pools
                .get(host.at())
                .is_none_or(|pool| pool.state == PoolState::Off);
            match (wanted, off) {
                (true, true) => self.pool_try_at(host, self.now),
                (false, false) => self.pool_close(host, CloseReason::HostRemoved, PoolState::Off),
                _ => (),
            }
        }
    }

    /// Says whether requests may go to a host, so that it needs a connection.
    pub(super) fn wants(&self, host: HostIdx) -> bool {
        let Some(member) = self.members.get(host) else {
            return false;
        };
        let remote = self.policy.reaches_remote_datacenters();
        member.host.usable() && (member.host.local || remote)
    }

    /// Starts anew with a host that has another address.
    pub(super) fn pool_moved(&mut self, host: HostIdx) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        pool.failures = 0;
        pool.own_address = false;
        if pool.state != PoolState::Off {
            self.pool_close(host, CloseReason::AddressChanged, PoolState::Waiting);
            self.pool_try_at(host, self.now);
        }
    }

    fn pool_try_at(&mut self, host: HostIdx, at: Instant) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        if at <= self.now {
            pool.state = PoolState::Queued;
            let local = self
                .members
                .get(host)
                .is_some_and(|member| member.host.local);
            self.pacing.queue.insert((!local, host));
        } else {
            pool.state = PoolState::Waiting;
            self.timers.set(Timer::Host(host), at);
        }
    }

    /// Starts as many attempts as may be under way.
    pub(super) fn pools_advance(&mut self) {
        while self.pacing.opening < self.config.pool.opening_max {
            let Some((_, host)) = self.pacing.queue.pop_first() else {
                return;
            };
            self.pool_open(host);
        }
    }

    fn pool_open(&mut self, host: HostIdx) {
        let dialled = match self.dial_address(host) {
            Ok(address) => address,
            Err(cause) => return self.pool_failed(host, cause),
        };
        match self.connect(Role::Data, dialled, Use::Pool(host)) {
            Some(conn) => {
                self.pacing.opening += 1;
                if let Some(pool) = self.pools.get_mut(host.at()) {
                    pool.state = PoolState::Opening(conn);
                }
            }
            None => self.pool_failed(host, NodeCause::NotTried),
        }
    }

    /// The address to dial for a host now.
    pub(super) fn dial_address(&self, host: HostIdx) -> Result<std::net::SocketAddr, NodeCause> {
        let member = self.members.get(host).ok_or(NodeCause::NotTried)?;
        if let Some(translator) = &self.config.address_translator {
            return translator
                .translate(&member.host)
                .ok_or(NodeCause::Untranslated);
        }
        let own = self
            .pools
            .get(host.at())
            .is_some_and(|pool| pool.own_address);
        Ok(member
            .reached
            .filter(|_| !own)
            .unwrap_or(member.host.address))
    }

    pub(super) fn pool_timer(&mut self, host: HostIdx) {
        if self
            .pools
            .get(host.at())
            .is_some_and(|pool| pool.state == PoolState::Waiting)
        {
            self.pool_try_at(host, self.now);
        }
    }

    pub(super) fn pool_connected(&mut self, host: HostIdx, conn: ConnId, info: &ConnectionInfo) {
        if !self
            .pools
            .get(host.at())
            .is_some_and(|pool| pool.state == PoolState::Opening(conn))
        {
            return self.disconnect(conn, CloseReason::Surplus);
        }
        self.pacing.opening = self.pacing.opening.saturating_sub(1);
        let id = self.members.get(host).map(|member| member.host.id);
        if let (Some(told), Some(id)) = (info.host_id, id)
            && told != id
        {
            // The address leads to another node now: its rows say to which.
            self.topology_dirty_soon();
            self.disconnect(conn, CloseReason::AddressChanged);
            return self.pool_failed(host, NodeCause::WrongHost { told });
        }
        if self.entered(conn) {
            self.pool_use(host, conn);
        } else {
            if let Some(pool) = self.pools.get_mut(host.at()) {
                pool.state = PoolState::Entering(conn);
            }
            self.enter_keyspace(conn, None);
        }
    }

    /// Hands a usable connection to requests.
    pub(super) fn pool_use(&mut self, host: HostIdx, conn: ConnId) {
        let Some(Conn {
            phase: Phase::Open { info, handle, .. },
            ..
        }) = self.conns.get(conn.key())
        else {
            return;
        };
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        let sharder = info.shard.map(|shard| Sharder {
            shards: shard.shards,
            ignore_msb: shard.ignore_msb,
        });
        pool.view = PoolView::new(
            sharder,
            vec![(info.shard.map(|shard| shard.shard), handle.clone())],
        );
        pool.state = PoolState::Open(conn);
        self.changed.pools = true;
        self.set_state(host, HostState::Up, None);
        self.round_hint();
    }

    /// Takes note that an attempt for a host failed.
    pub(super) fn pool_connect_failed(&mut self, host: HostIdx, conn: ConnId, error: ConnectError) {
        if !self
            .pools
            .get(host.at())
            .is_some_and(|pool| pool.state == PoolState::Opening(conn))
        {
            return;
        }
        self.pacing.opening = self.pacing.opening.saturating_sub(1);
        if self.learn_version(&error) {
            return self.pool_try_at(host, self.now);
        }
        self.pool_failed(host, NodeCause::Connect(error));
    }

    /// Takes note that a connection for requests ended, or never got into its keyspace.
    pub(super) fn pool_lost(
        &mut self,
        host: HostIdx,
        conn: ConnId,
        since: Instant,
        error: NodeCause,
    ) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        if !matches!(pool.state, PoolState::Open(own) | PoolState::Entering(own) if own == conn) {
            return;
        }
        self.drop_view(host);
        if LASTED <= self.now.saturating_duration_since(since) {
            if let Some(pool) = self.pools.get_mut(host.at()) {
                pool.failures = 0;
            }
            let failure = self.failure(host, error, None);
            self.set_state(host, HostState::Down, Some(failure));
            self.pool_try_at(host, self.now);
        } else {
            self.pool_failed(host, error);
        }
    }

    fn pool_failed(&mut self, host: HostIdx, cause: NodeCause) {
        let random = self.draw();
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        // A wrong login does not heal in a second, and servers count failed logins.
        let patient = matches!(&cause, NodeCause::Connect(error) if !heals_soon(error));
        let failures = if patient { u32::MAX } else { pool.failures };
        let delay = self.config.reconnect.delay(failures, random);
        pool.failures = pool.failures.saturating_add(1);
        pool.own_address = !pool.own_address;
        let failure = self.failure(host, cause, Some(delay));
        self.set_state(host, HostState::Down, Some(failure));
        self.pool_try_at(host, self.after(delay));
    }

    fn failure(
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

    /// Closes what a host has; it goes on in `next`.
    fn pool_close(&mut self, host: HostIdx, reason: CloseReason, next: PoolState) {
        self.timers.cancel(Timer::Host(host));
        self.pacing.queue.remove(&(true, host));
        self.pacing.queue.remove(&(false, host));
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        let before = std::mem::replace(&mut pool.state, next);
        self.drop_view(host);
        match before {
            PoolState::Opening(conn) => {
                self.pacing.opening = self.pacing.opening.saturating_sub(1);
                self.disconnect(conn, reason);
            }
            PoolState::Entering(conn) | PoolState::Open(conn) => self.disconnect(conn, reason),
            PoolState::Off | PoolState::Waiting | PoolState::Queued => (),
        }
        if let Some(member) = self.members.get(host)
            && member.host.state == HostState::Up
        {
            self.set_state(host, HostState::Down, None);
        }
    }

    fn drop_view(&mut self, host: HostIdx) {
        if let Some(pool) = self.pools.get_mut(host.at()) {
            self.changed.pools |= !pool.view.is_empty();
            pool.view = PoolView::default();
            pool.probing = false;
        }
    }

    /// Changes what is known of a host's health; a removed host stays removed.
    fn set_state(&mut self, host: HostIdx, state: HostState, failure: Option<NodeFailure>) {
        let Some(member) = self.members.get_mut(host) else {
            return;
        };
        member.host.failure = failure.map(std::sync::Arc::new);
        self.changed.hosts = true;
        let before = member.host.state;
        if before == HostState::Removed || before == state {
            return;
        }
        member.host.state = state;
        let (host_id, address) = (member.host.id, member.host.address);
        match (before, state) {
            (_, HostState::Up) => self.notify(ClusterEvent::HostUp { host_id, address }),
            (HostState::Up, _) => self.notify(ClusterEvent::HostDown { host_id, address }),
            _ => (),
        }
    }

    /// Takes a server's word that a host is up: its next attempt comes at once.
    pub(super) fn hint_up(&mut self, host: HostIdx) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        let early = pool
            .hinted
            .is_some_and(|at| self.now.saturating_duration_since(at) < HINT_INTERVAL);
        if early || pool.state != PoolState::Waiting {
            return;
        }
        pool.hinted = Some(self.now);
        pool.failures = 0;
        self.timers.cancel(Timer::Host(host));
        self.pool_try_at(host, self.now);
    }

    /// Takes a server's word that a host is down: its connection is asked for a sign of life.
    pub(super) fn hint_down(&mut self, host: HostIdx) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        if let PoolState::Open(conn) = pool.state
            && !pool.probing
        {
            pool.probing = true;
            let deadline = Some(self.after(self.config.connection.keepalive_timeout));
            self.submit(conn, Purpose::Probe(host), Request::Options, deadline);
        }
    }

    pub(super) fn probed(&mut self, host: HostIdx, conn: ConnId, alive: bool) {
        let Some(pool) = self.pools.get_mut(host.at()) else {
            return;
        };
        if pool.state != PoolState::Open(conn) {
            return;
        }
        pool.probing = false;
        if !alive {
            let error = ConnectionError::KeepaliveTimeout(self.config.connection.keepalive_timeout);
            self.disconnect(conn, CloseReason::TimedOut);
            self.pool_lost(host, conn, self.now, NodeCause::Connection(error));
        }
    }

    /// Drops every connection and every wish for one; the connections themselves are ended by the caller.
    pub(super) fn pools_shut_down(&mut self) {
        self.pacing = Pacing::default();
        for at in 0..self.pools.len() {
            let Ok(host) = u16::try_from(at).map(HostIdx) else {
                return;
            };
            self.drop_view(host);
            if let Some(pool) = self.pools.get_mut(at) {
                pool.state = PoolState::Off;
            }
            self.set_state(host, HostState::Down, None);
        }
    }

    /// How many hosts have a connection, how many failed or have one, how many should have one.
    pub(super) fn pool_counts(&self) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for (host, _) in self.members.current() {
            let Some(pool) = self.pools.get(host.at()) else {
                continue;
            };
            if pool.state == PoolState::Off {
                continue;
            }
            let open = matches!(pool.state, PoolState::Open(_));
            counts.0 += usize::from(open);
            counts.1 += usize::from(open || 0 < pool.failures);
            counts.2 += 1;
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

/// Says whether an attempt that failed like this may succeed without anybody changing something.
fn heals_soon(error: &ConnectError) -> bool {
    use crate::wire::ServerErrorDetail;
    match &error.cause {
        ConnectCause::NoCredentials { .. } | ConnectCause::AuthenticatorRefused { .. } => false,
        ConnectCause::Server(error) => {
            !matches!(error.detail, ServerErrorDetail::AuthenticationFailed)
        }
        _ => true,
    }
}
