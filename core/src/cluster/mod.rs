//! Owns what a session knows of its cluster: the control connection, the members, the schema as far as routing
//! needs it, which connections to open and close. It publishes snapshots; it is not on the path of any request.

mod agreement;
mod budget;
mod conns;
mod events;
mod fetch;
mod hosts;
mod keyspace;
mod pools;
mod publish;
mod refresh;
mod schema;
mod session;
mod timers;
mod topology;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use self::agreement::Agreement;
use self::budget::Budget;
use self::conns::{Conn, Pending, Purpose, Use};
use self::keyspace::KeyspaceChanges;
use self::publish::{Changed, Start};
use self::refresh::{SchemaRefresh, TopologyRefresh};
use self::schema::Schema;
use self::session::{Round, Stage};
use self::timers::{Timer, Timers};
use self::topology::Members;
use crate::collections::{Slab, SlabKey};
use crate::config::session::SessionConfig;
use crate::conn::{CloseReason, ConnectSpec, ConnectionInfo, ConnectionPlan};
use crate::error::connect::{AttemptError, ConnectError, ConnectionError};
use crate::error::io::IoError;
use crate::error::session::{NodeCause, SessionError, SessionErrorKind};
use crate::notify::{ClusterEvent, Note};
use crate::policy::load_balancing::LoadBalancingPolicy;
use crate::pool::Pool;
use crate::routing::{HostIdx, Partitioner, Routing, Shard};
use crate::seed::{Random, Seed};
use crate::wire::{ProtocolVersion, Request, ResponseFrame, SchemaChange, ServerEvent};

/// Names one attempt to connect, and the connection it becomes, until its end was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// The place, used again once the end was reported.
    pub index: u32,
    /// How often the place was used before.
    pub generation: u32,
}

impl ConnId {
    const fn key(self) -> SlabKey {
        SlabKey {
            index: self.index,
            generation: self.generation,
        }
    }

    const fn of(key: SlabKey) -> Self {
        Self {
            index: key.index,
            generation: key.generation,
        }
    }
}

/// Names one of the control plane's own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(u64);

/// Names one resolution of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResolveId(u64);

/// Names a command whose outcome comes as an output; chosen by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// What the owner of a [`ControlPlane`] has to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlOutput<H> {
    /// Resolve a host name, and report the addresses with [`ControlPlane::handle_resolved`].
    Resolve {
        /// Names the resolution.
        id: ResolveId,
        /// The name.
        host: Arc<str>,
        /// The port that belongs to each address found.
        port: u16,
    },
    /// Open a socket and run a connection over it. Report exactly once that it became usable or that it failed, and
    /// of a usable one finally that it closed.
    Connect {
        /// Names the attempt.
        conn: ConnId,
        /// What to dial.
        spec: ConnectSpec,
        /// How to speak to it.
        plan: Box<ConnectionPlan>,
    },
    /// Give up an attempt or close a connection; its end is reported all the same.
    Disconnect {
        /// Which.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// Let a connection take no more requests and close after those in flight; its end is reported.
    Drain {
        /// Which.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// Send a request of the control plane's own, and report the reply with [`ControlPlane::handle_reply`].
    Submit {
        /// On which connection.
        conn: ConnId,
        /// Names the request.
        query: QueryId,
        /// The request.
        request: Request,
        /// When to give up waiting; `None`: when the connection ends.
        deadline: Option<Instant>,
    },
    /// Route by this snapshot from now on.
    Publish(Arc<Routing<H>>),
    /// The session is ready; comes once.
    Ready(Readiness),
    /// Tell an operator.
    Note(Note),
    /// Tell the application.
    Notify(ClusterEvent),
    /// A wait for schema agreement is over.
    Agreement {
        /// The command.
        id: CommandId,
        /// How it ended.
        outcome: AgreementOutcome,
    },
    /// A change of the keyspace is over.
    KeyspaceUsed {
        /// The command.
        id: CommandId,
        /// Success when at least one connection entered it and none refused.
        result: Result<(), SessionError>,
    },
    /// The session cannot start. Comes at most once, never after [`ControlOutput::Ready`].
    Fatal(SessionError),
}

/// How far the session is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// How many hosts have an open connection for requests.
    pub connected: usize,
    /// How many hosts should have one.
    pub wanted: usize,
}

/// How a wait for schema agreement ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgreementOutcome {
    /// All live hosts have the same schema, and what changed was read again.
    Agreed,
    /// The deadline passed while hosts had different schemas.
    Different {
        /// How many different schemas there were.
        versions: usize,
    },
    /// The deadline passed and the hosts' schemas could not be read.
    Unknown {
        /// What last went wrong, where something did.
        cause: Option<NodeCause>,
    },
}

/// Knows the cluster and decides which connections there are.
///
/// `H` is the owner's handle of an open connection. After any input or command, take [`poll_output`](Self::poll_output)
/// until there is none, then arm one timer for [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct ControlPlane<H> {
    config: Arc<SessionConfig>,
    policy: Arc<dyn LoadBalancingPolicy>,
    random: Random,
    /// Is when the session began; its connections count the beats of their keepalive from it.
    started: Instant,
    now: Instant,
    last_id: u64,
    timers: Timers,
    outputs: VecDeque<ControlOutput<H>>,
    /// What the application is told after the snapshot that shows it.
    news: VecDeque<ControlOutput<H>>,
    conns: Slab<Conn>,
    queries: BTreeMap<QueryId, Pending>,
    /// Is the protocol version to ask for: lowered once, when a server does not speak the first choice.
    version: ProtocolVersion,
    /// The names of contact points that led to addresses: what certificates there may be for.
    names: Vec<(SocketAddr, Arc<str>)>,
    keyspace: Option<Arc<str>>,
    /// The datacenter that counts as local, as configured or as inferred.
    local_datacenter: Option<Arc<str>>,
    /// The rack that counts as local, as configured or as inferred.
    local_rack: Option<Arc<str>>,
    /// The name of the cluster: another one is none of ours.
    cluster_name: Option<Arc<str>>,

    stage: Stage,
    round: Round,
    /// From when on the control connection may leave a host that requests avoid.
    may_leave_from: Instant,
    /// Rounds over all candidates that failed in a row.
    failed_rounds: u32,
    topology: TopologyRefresh,
    schema_reads: SchemaRefresh,
    /// Whether events may have been missed and not everything was read again since.
    gap: bool,
    /// Whether the members were read once.
    surveyed: bool,
    partitioner: Partitioner,
    members: Members,
    schema: Schema,
    pools: Vec<Pool<H>>,
    budget: Budget,
    agreement: Agreement,
    keyspaces: KeyspaceChanges,

    start: Start,
    changed: Changed,
    /// Whether a host of a remote datacenter came or went whose place another one may take.
    remotes_changed: bool,
    routing: Arc<Routing<H>>,
}

impl<H: Clone> ControlPlane<H> {
    /// Starts to look for the cluster.
    #[must_use]
    pub fn new(now: Instant, config: Arc<SessionConfig>, seed: Seed) -> Self {
        let mut plane = Self {
            policy: Arc::clone(&config.profile.load_balancing),
            random: seed.random(),
            started: now,
            now,
            last_id: 0,
            timers: Timers::default(),
            outputs: VecDeque::new(),
            news: VecDeque::new(),
            conns: Slab::new(),
            queries: BTreeMap::new(),
            version: config.connection.first_version(),
            names: Vec::new(),
            keyspace: config.keyspace.clone(),
            local_datacenter: config.local_datacenter.clone(),
            local_rack: config.local_rack.clone(),
            cluster_name: None,
            stage: Stage::Seeking,
            round: Round::default(),
            may_leave_from: now,
            failed_rounds: 0,
            topology: TopologyRefresh::default(),
            schema_reads: SchemaRefresh::default(),
            gap: false,
            surveyed: false,
            partitioner: Partitioner::Murmur3,
            members: Members::default(),
            schema: Schema::default(),
            pools: Vec::new(),
            budget: Budget::default(),
            agreement: Agreement::default(),
            keyspaces: KeyspaceChanges::default(),
            start: Start::Starting,
            changed: Changed::default(),
            remotes_changed: false,
            routing: Arc::default(),
            config,
        };
        match plane.config.check() {
            Ok(()) => {
                plane.timers.set(
                    Timer::Readiness,
                    plane.after(plane.config.readiness_timeout),
                );
                plane.round_begin();
            }
            Err(error) => plane.fatal(SessionErrorKind::Config(error), Vec::new()),
        }
        plane.settle();
        plane
    }

    /// Takes note of the addresses of a name, or of why there are none.
    pub fn handle_resolved(
        &mut self,
        now: Instant,
        id: ResolveId,
        found: Result<Vec<SocketAddr>, IoError>,
    ) {
        self.turn(now, |plane| {
            plane.resolved(id, found.map_err(NodeCause::Resolve))
        });
    }

    /// Takes note that a connection became usable.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        conn: ConnId,
        info: ConnectionInfo,
        handle: H,
    ) {
        self.turn(now, |plane| plane.connected(conn, info, handle));
    }

    /// Takes note that an attempt failed.
    pub fn handle_connect_failed(&mut self, now: Instant, conn: ConnId, error: ConnectError) {
        self.turn(now, |plane| {
            let usage = plane
                .conns
                .get(conn.key())
                .map(|record| record.usage.clone());
            plane.timers.cancel(Timer::Opening(conn));
            plane.budget.over(conn);
            plane.conns.remove(conn.key());
            match usage {
                Some(Use::Control(candidate)) => {
                    plane.control_connect_failed(conn, candidate, error)
                }
                Some(Use::Pool(host)) => plane.pool_connect_failed(host, conn, error),
                Some(Use::Draining(_) | Use::Nothing) | None => (),
            }
        });
    }

    /// Takes note that a connection takes no more requests and will end by itself: it is out of use from now on, and
    /// another one takes its place.
    pub fn handle_draining(&mut self, now: Instant, conn: ConnId, error: ConnectionError) {
        self.turn(now, |plane| plane.draining(conn, error));
    }

    /// Takes note that a request found no connection to its shard; only a pool that opens connections on demand cares.
    pub fn handle_demand(&mut self, now: Instant, host: HostIdx, shard: Shard) {
        self.turn(now, |plane| plane.pool_demand(host, shard));
    }

    /// Takes note that a usable connection ended.
    pub fn handle_closed(&mut self, now: Instant, conn: ConnId, error: ConnectionError) {
        self.turn(now, |plane| plane.closed(conn, error));
    }

    /// Takes the reply to a request of [`ControlOutput::Submit`].
    pub fn handle_reply(
        &mut self,
        now: Instant,
        conn: ConnId,
        query: QueryId,
        reply: Result<ResponseFrame, AttemptError>,
    ) {
        self.turn(now, |plane| {
            if plane
                .queries
                .get(&query)
                .is_none_or(|pending| pending.conn != conn)
            {
                return;
            }
            match plane.queries.remove(&query).map(|pending| pending.purpose) {
                Some(Purpose::Read(read)) => plane.read_reply(conn, read, reply),
                Some(Purpose::Keyspace { keyspace, command }) => {
                    plane.keyspace_reply(conn, &keyspace, command, reply)
                }
                Some(Purpose::Probe(host)) => plane.probed(host, conn, reply.is_ok()),
                Some(Purpose::Version { host, look }) => {
                    let version = plane.version_in(conn, reply);
                    plane.agreement_version(host, look, version);
                }
                None => (),
            }
        });
    }

    /// Takes an event that a server sent on the control connection; costs no memory.
    pub fn handle_event(&mut self, now: Instant, conn: ConnId, event: ServerEvent) {
        self.turn(now, |plane| plane.event(conn, event));
    }

    /// Acts on deadlines that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.turn(now, |_| ());
    }

    /// Reads members and schema again, soon.
    pub fn refresh(&mut self, now: Instant) {
        self.turn(now, |plane| {
            plane.topology_dirty(Duration::ZERO);
            plane.schema_dirty_all();
        });
    }

    /// Takes note of a schema change that a request of the application brought about; it is read again soon.
    pub fn schema_changed(&mut self, now: Instant, change: &SchemaChange) {
        self.turn(now, |plane| {
            let delay = plane.random_part(plane.config.refresh.schema_delay_max);
            plane.schema_change(change, delay);
        });
    }

    /// Waits until all live hosts have the same schema and what changed was read again.
    ///
    /// `coordinator` is the host that made a change: there is no agreement without its word. Every host that has a
    /// connection is asked for itself, because another one may not have heard of the change yet.
    pub fn await_agreement(
        &mut self,
        now: Instant,
        id: CommandId,
        coordinator: Option<Uuid>,
        deadline: Instant,
    ) {
        self.turn(now, |plane| match plane.start {
            Start::Over => {
                let outcome = AgreementOutcome::Unknown { cause: None };
                plane.output(ControlOutput::Agreement { id, outcome });
            }
            _ => plane.agreement_wait(id, coordinator, deadline),
        });
    }

    /// Enters a keyspace on every connection, those to come included.
    ///
    /// Changes are carried out one after the other. One that no host accepts leaves everything as it was.
    pub fn use_keyspace(
        &mut self,
        now: Instant,
        id: CommandId,
        keyspace: Arc<str>,
        deadline: Instant,
    ) {
        self.turn(now, |plane| match plane.start {
            Start::Over => {
                let error = SessionError::new(SessionErrorKind::Closed, Vec::new());
                plane.output(ControlOutput::KeyspaceUsed {
                    id,
                    result: Err(error),
                });
            }
            _ => plane.keyspace_change(id, keyspace, deadline),
        });
    }

    /// Closes every connection and opens none any more; more calls change nothing.
    pub fn close(&mut self, now: Instant) {
        self.turn(now, |plane| plane.shut_down(CloseReason::SessionClosed));
    }

    /// Says whether it was closed and the end of every connection was reported.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.start == Start::Over && self.conns.is_empty()
    }

    /// The current picture of the cluster.
    #[must_use]
    pub fn routing(&self) -> &Arc<Routing<H>> {
        &self.routing
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<ControlOutput<H>> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Takes one input, then whatever is due, then brings the outputs in line.
    fn turn(&mut self, now: Instant, input: impl FnOnce(&mut Self)) {
        self.now = self.now.max(now);
        input(self);
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.due(timer);
        }
        self.settle();
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Opening(conn) => self.opening_timed_out(conn),
            Timer::Resolving(id) => {
                self.resolved(id, Err(NodeCause::Resolve(io::ErrorKind::TimedOut.into())))
            }
            Timer::Stagger => self.stagger(),
            Timer::Round => self.round_begin(),
            Timer::Host(host) => self.pool_timer(host),
            Timer::Topology => self.topology_begin(),
            Timer::Schema => self.schema_begin(),
            Timer::Agreement => self.agreement_look(),
            Timer::AgreementEnd(id) => self.agreement_end(id),
            Timer::KeyspaceEnd(id) => self.keyspace_end(id),
            Timer::Readiness => self.readiness_missed(),
        }
    }

    /// The instant after this delay; one that the platform cannot express is as good as one that is far away.
    fn after(&self, delay: Duration) -> Instant {
        self.now
            .checked_add(delay)
            .unwrap_or_else(|| self.now + FAR)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Draws the random number that places a delay's jitter.
    fn draw(&mut self) -> u32 {
        u32::try_from(self.random.below(1 << 32)).unwrap_or(0)
    }
}

/// Stands for instants that the platform cannot express.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

#[cfg(test)]
mod tests;
