//! Owns the connections of one host: which to open and close, which of them requests may use.
//!
//! It opens nothing itself and names no address: the control plane asks [`Pool::wish`], starts an attempt when the
//! session's budget allows, and reports what becomes of it. After any input, take [`Pool::poll_output`] until there
//! is none.

mod layout;
mod ports;
mod refill;
pub(crate) mod view;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::refill::{Route, Urgency};

use self::layout::{Layout, Member, Standing};
use self::refill::{Again, Attempt, Source};
use self::view::PoolView;
use crate::cluster::ConnId;
use crate::config::session::SessionConfig;
use crate::conn::{CloseReason, ConnectionInfo};
use crate::error::connect::{ConnectCause, ConnectError, ConnectionError};
use crate::error::session::NodeCause;
use crate::notify::Note;
use crate::routing::Shard;
use crate::seed::{Random, Seed};

/// The connections of one host.
#[derive(Debug)]
pub(crate) struct Pool<H> {
    config: Arc<SessionConfig>,
    random: Random,
    now: Instant,
    /// Whether connections are wanted.
    is_on: bool,
    layout: Layout,
    members: Vec<Member<H>>,
    attempts: Vec<Attempt>,
    /// Attempts that do not wait for the end of a pause.
    again: Vec<Again>,
    source: Source,
    patience: Patience,
    /// The shards that requests asked for, where connections are opened on demand.
    demanded: BTreeSet<u16>,
    /// Whether the next attempt takes the host's own address though another one has led to it.
    own_address: bool,
    outputs: VecDeque<PoolOutput>,
    view: PoolView<H>,
}

/// What the control plane has to do for a pool.
#[derive(Debug)]
pub(crate) enum PoolOutput {
    /// Send this connection into the session's keyspace.
    Enter(ConnId),
    /// Ask this connection for a sign of life.
    Probe(ConnId),
    /// End this attempt or connection now.
    Close(ConnId, CloseReason),
    /// Let this connection end after the requests in flight.
    Drain(ConnId, CloseReason),
    /// The connections that requests use are others now.
    Changed,
    /// An attempt failed or a connection ended too early; when the next attempt comes.
    Failed(NodeCause, Option<Duration>),
    Note(Note),
}

/// How long to wait for what.
#[derive(Clone, Debug, Default)]
struct Patience {
    /// Attempts that failed since connections lasted.
    failures: u32,
    /// Since when every attempt succeeded.
    healthy_since: Option<Instant>,
    /// When attempts go on.
    retry_at: Option<Instant>,
    /// How often in a row more connections did not reach more shards.
    stalls: u32,
    /// Whether a slot was filled since the last time connections in excess were closed.
    progressed: bool,
    resharded: Option<Instant>,
    /// When a status event last moved the next attempt forward.
    hinted: Option<Instant>,
}

/// A connection that lasted as long as this ended for a reason of the moment, and the next may come at once.
const LASTED: Duration = Duration::from_secs(10);
/// A server that repeats that a host is up makes us try no more often than this.
const HINT_INTERVAL: Duration = Duration::from_secs(1);
/// Whatever a policy says, attempts that fail at once do not follow each other in a tight loop.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// A connection's life ends up to this much before the maximum, so that those opened together do not end together.
const AGE_SPREAD_PERCENT: u64 = 15;

impl<H: Clone> Pool<H> {
    pub(crate) fn new(now: Instant, config: Arc<SessionConfig>, seed: Seed) -> Self {
        Self {
            config,
            random: seed.random(),
            now,
            is_on: false,
            layout: Layout::default(),
            members: Vec::new(),
            attempts: Vec::new(),
            again: Vec::new(),
            source: Source::default(),
            patience: Patience::default(),
            demanded: BTreeSet::new(),
            own_address: false,
            outputs: VecDeque::new(),
            view: PoolView::default(),
        }
    }

    /// Begins to want connections.
    pub(crate) fn turn_on(&mut self, now: Instant) {
        self.clock(now);
        self.is_on = true;
    }

    /// Ends everything, and forgets what was learnt of the host.
    pub(crate) fn turn_off(&mut self, now: Instant, reason: CloseReason) {
        self.clock(now);
        self.is_on = false;
        for attempt in std::mem::take(&mut self.attempts) {
            self.put(PoolOutput::Close(attempt.conn, reason));
        }
        for member in std::mem::take(&mut self.members) {
            self.put(PoolOutput::Close(member.conn, reason));
        }
        self.again.clear();
        self.demanded.clear();
        self.layout = Layout {
            generation: self.layout.generation.wrapping_add(1),
            ..Layout::default()
        };
        self.source = Source::default();
        self.patience = Patience::default();
        self.own_address = false;
        self.put(PoolOutput::Changed);
    }

    /// Takes note that an attempt became a usable connection; `entered` says whether it is in the right keyspace.
    pub(crate) fn handle_connected(
        &mut self,
        now: Instant,
        conn: ConnId,
        info: &ConnectionInfo,
        handle: H,
        entered: bool,
    ) {
        self.clock(now);
        match self.take_attempt(conn) {
            Some(attempt) => self.place(&attempt, info, handle, entered),
            None => self.put(PoolOutput::Close(conn, CloseReason::Surplus)),
        }
    }

    /// Takes note that a connection is in the right keyspace now.
    pub(crate) fn handle_entered(&mut self, now: Instant, conn: ConnId) {
        self.clock(now);
        if self.is_entering(conn) {
            self.serve(conn);
        }
    }

    /// Takes note that an attempt failed.
    pub(crate) fn handle_connect_failed(&mut self, now: Instant, conn: ConnId, cause: NodeCause) {
        self.clock(now);
        let Some(attempt) = self.take_attempt(conn) else {
            return;
        };
        match self.way_out(attempt, &cause) {
            Some(again) => self.at_once(again),
            None => self.fail(cause),
        }
    }

    /// Takes note that an attempt ended for no fault of the host and is to be repeated.
    pub(crate) fn handle_repeat(&mut self, now: Instant, conn: ConnId) {
        self.clock(now);
        if self.take_attempt(conn).is_some() {
            self.at_once(Again::Regular);
        }
    }

    /// Takes note that the host has no address to dial.
    pub(crate) fn handle_no_route(&mut self, now: Instant, cause: NodeCause) {
        self.clock(now);
        self.fail(cause);
    }

    /// Takes note that a connection takes no more requests; its end is none of the pool's business.
    pub(crate) fn handle_draining(&mut self, now: Instant, conn: ConnId, error: ConnectionError) {
        self.clock(now);
        let Some(member) = self.take_member(conn) else {
            return;
        };
        if matches!(error, ConnectionError::Closed(CloseReason::Idle)) {
            if let Some(shard) = member.shard {
                self.demanded.remove(&shard.0);
            }
            if !self.is_up() {
                self.put(PoolOutput::Failed(NodeCause::Connection(error), None));
            }
            return;
        }
        self.lost(&member, NodeCause::Connection(error));
    }

    /// Takes note that a connection ended, or is of no use.
    pub(crate) fn handle_lost(&mut self, now: Instant, conn: ConnId, cause: NodeCause) {
        self.clock(now);
        let Some(member) = self.take_member(conn) else {
            return;
        };
        let silent = matches!(
            cause,
            NodeCause::Connection(ConnectionError::KeepaliveTimeout(_))
        );
        self.lost(&member, cause);
        if silent {
            // What silenced one connection may have silenced the others.
            self.probe_all();
        }
    }

    /// Takes a server's word that the host is up: the next attempt comes at once.
    pub(crate) fn handle_up(&mut self, now: Instant) {
        self.clock(now);
        let patience = &mut self.patience;
        let early = patience
            .hinted
            .is_some_and(|at| self.now.saturating_duration_since(at) < HINT_INTERVAL);
        if early || patience.retry_at.is_none() {
            return;
        }
        patience.hinted = Some(self.now);
        patience.failures = 0;
        patience.retry_at = None;
    }

    /// Takes a server's word that the host is down: its connections are asked for a sign of life.
    pub(crate) fn handle_down(&mut self, now: Instant) {
        self.clock(now);
        self.probe_all();
    }

    /// Takes the outcome of a probe.
    pub(crate) fn handle_probed(&mut self, now: Instant, conn: ConnId, is_alive: bool) {
        self.clock(now);
        let Some(member) = self.members.iter_mut().find(|member| member.conn == conn) else {
            return;
        };
        member.probing = false;
        if !is_alive {
            let error = ConnectionError::KeepaliveTimeout(self.config.connection.keepalive_timeout);
            self.put(PoolOutput::Close(conn, CloseReason::TimedOut));
            if let Some(mut member) = self.take_member(conn) {
                // It does not count that it lasted: the next attempt will probably hang like this one.
                member.since = self.now;
                self.lost(&member, NodeCause::Connection(error));
            }
        }
    }

    /// Takes note that a request wanted a shard without a connection.
    pub(crate) fn handle_demand(&mut self, now: Instant, shard: Shard) {
        self.clock(now);
        if self.opens_on_demand()
            && self
                .layout
                .sharder
                .is_some_and(|sharder| shard.0 < sharder.shards.get())
        {
            self.demanded.insert(shard.0);
        }
    }

    /// Acts on deadlines that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.clock(now);
        if self.patience.retry_at.is_some_and(|at| at <= now) {
            self.patience.retry_at = None;
        }
        for member in &mut self.members {
            if member.standing == Standing::Serving && member.ages_at.is_some_and(|at| at <= now) {
                member.standing = Standing::Aged;
            }
        }
    }

    /// The next thing to do.
    pub(crate) fn poll_output(&mut self) -> Option<PoolOutput> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let ages = self
            .members
            .iter()
            .filter(|member| member.standing == Standing::Serving)
            .filter_map(|member| member.ages_at);
        ages.chain(self.patience.retry_at).min()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Says whether requests can be sent.
    pub(crate) fn is_up(&self) -> bool {
        self.members.iter().any(Member::is_serving)
    }

    /// Says whether an attempt failed since connections lasted.
    pub(crate) fn has_failed(&self) -> bool {
        0 < self.patience.failures
    }

    /// Says whether attempts wait for better times.
    pub(crate) fn is_paused(&self) -> bool {
        self.patience.retry_at.is_some()
    }

    /// How many attempts are under way.
    pub(crate) fn opening(&self) -> usize {
        self.attempts.len()
    }

    pub(crate) fn takes_own_address(&self) -> bool {
        self.own_address
    }

    /// The connections that requests use.
    pub(crate) fn serving(&self) -> impl Iterator<Item = ConnId> + '_ {
        let serving = self.members.iter().filter(|member| member.is_serving());
        serving.map(|member| member.conn)
    }

    pub(crate) fn is_entering(&self, conn: ConnId) -> bool {
        self.members
            .iter()
            .any(|member| member.conn == conn && member.standing == Standing::Entering)
    }

    /// The picture of the connections that requests use, as last arranged.
    pub(crate) fn view(&self) -> PoolView<H> {
        self.view.clone()
    }

    /// Makes the picture anew, after a change.
    pub(crate) fn arrange(&mut self) {
        let serving = self.members.iter().filter(|member| member.is_serving());
        let connections = serving.map(|member| (member.shard, member.handle.clone()));
        self.view = PoolView::new(self.layout.sharder, connections.collect());
    }

    fn clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn put(&mut self, output: PoolOutput) {
        self.outputs.push_back(output);
    }

    fn take_attempt(&mut self, conn: ConnId) -> Option<Attempt> {
        let at = self.attempts.iter().position(|own| own.conn == conn)?;
        Some(self.attempts.swap_remove(at))
    }

    fn take_member(&mut self, conn: ConnId) -> Option<Member<H>> {
        let at = self.members.iter().position(|own| own.conn == conn)?;
        let member = self.members.remove(at);
        if member.is_serving() {
            self.put(PoolOutput::Changed);
        }
        Some(member)
    }

    fn probe_all(&mut self) {
        let mut probes = Vec::new();
        for member in &mut self.members {
            if member.is_serving() && !std::mem::replace(&mut member.probing, true) {
                probes.push(PoolOutput::Probe(member.conn));
            }
        }
        self.outputs.extend(probes);
    }

    /// Repeats an attempt without a pause; a host without any connection has attempts one at a time.
    fn at_once(&mut self, again: Again) {
        if self.is_up() {
            self.again.push(again);
        }
    }

    /// Decides when a connection that is gone is replaced.
    fn lost(&mut self, member: &Member<H>, cause: NodeCause) {
        if member.standing == Standing::Excess {
            return;
        }
        let is_last = !self.is_up();
        if is_last {
            // Whatever failed beside connections that worked says nothing about the whole host.
            self.patience.retry_at = None;
            self.again.clear();
        }
        if LASTED <= self.now.saturating_duration_since(member.since) {
            if is_last {
                self.patience.failures = 0;
                self.put(PoolOutput::Failed(cause, None));
            } else {
                self.at_once(Again::Usual);
            }
        } else {
            self.fail(cause);
        }
    }

    /// Counts a failure and arms the pause that follows; failures of attempts that ran side by side count once.
    fn fail(&mut self, cause: NodeCause) {
        if self.patience.retry_at.is_some_and(|at| self.now < at) {
            return;
        }
        let lasted = self
            .patience
            .healthy_since
            .take()
            .is_some_and(|since| LASTED <= self.now.saturating_duration_since(since));
        if lasted {
            self.patience.failures = 0;
        }
        // A wrong login does not heal in a second, and servers count failed logins.
        let is_patient = matches!(&cause, NodeCause::Connect(error) if !heals_soon(error));
        let failures = if is_patient {
            u32::MAX
        } else {
            self.patience.failures
        };
        let delay = self.pause(failures);
        self.patience.failures = self.patience.failures.saturating_add(1);
        self.source.has_failed = false;
        if !self.is_up() {
            self.own_address = !self.own_address;
            self.again.clear();
        }
        self.put(PoolOutput::Failed(cause, Some(delay)));
    }

    /// Arms a pause before the next attempt.
    fn pause(&mut self, failures: u32) -> Duration {
        let random = u32::try_from(self.random.below(1 << 32)).unwrap_or(0);
        let delay = self.config.reconnect.delay(failures, random).max(PAUSE_MIN);
        self.patience.retry_at = Some(self.now.checked_add(delay).unwrap_or(self.now + LASTED));
        delay
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
