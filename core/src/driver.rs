//! A whole session for programs with a loop of their own: the control plane, every connection and every request under
//! one owner, with no socket, clock or task inside.
//!
//! It has what a `Session` of the adapters has and decides nothing itself: which connections there are is the
//! [`ControlPlane`]'s decision, how bytes become answers the [`Connection`](crate::conn::Connection)'s, where a request
//! goes and what follows a failure the [`Execution`](crate::exec::Execution)'s. This module carries what one of them
//! says to the others.
//!
//! # Driving it
//!
//! After any input or request, take [`poll_output`](Driver::poll_output) until there is nothing, do what it says, then
//! wait for the first of three things: something on a socket, a name or a socket that was asked for, or the time of
//! [`poll_timeout`](Driver::poll_timeout).
//!
//! | what happens | what to call |
//! |---|---|
//! | `Resolve` was done | [`handle_resolved`](Driver::handle_resolved) |
//! | `Connect` was done | [`handle_connected`](Driver::handle_connected) or [`handle_connect_failed`](Driver::handle_connect_failed) |
//! | a socket can be read | read into [`recv_buffer`](Driver::recv_buffer), then [`handle_received`](Driver::handle_received), [`handle_eof`](Driver::handle_eof) or [`handle_io_error`](Driver::handle_io_error) |
//! | `Transmit`, or a full socket can be written again | write [`poll_transmit`](Driver::poll_transmit), then [`handle_transmitted`](Driver::handle_transmitted), until there is nothing |
//! | `Disconnect` | write the last words, drop the socket |
//! | the time has come | [`handle_timeout`](Driver::handle_timeout) |
//!
//! A connection that has ended is unknown: whatever is still reported of it changes nothing. The example
//! `blocking_cluster` of this crate drives a cluster this way from one thread.
//!
//! ```
//! use std::time::Instant;
//!
//! use messina_core::config::session::SessionConfig;
//! use messina_core::driver::{Driver, DriverOutput};
//! use messina_core::error::session::ConfigError;
//! use messina_core::seed::Seed;
//!
//! # fn main() -> Result<(), ConfigError> {
//! // Time and randomness are inputs: a program takes them from the system, a test makes them up.
//! let (now, unix_micros, seed) = (Instant::now(), 1_700_000_000_000_000, Seed::from_u64(7));
//! let mut config = SessionConfig::default();
//! config.contact_points.push("node1.example:9042".parse()?);
//! let mut driver = Driver::new(now, unix_micros, config, seed);
//! let request = driver.execute(now, "SELECT release_version FROM system.local", ());
//! while let Some(output) = driver.poll_output() {
//!     match output {
//!         DriverOutput::Resolve { host, .. } => assert_eq!(&*host, "node1.example"),
//!         // Nothing is connected yet, so the request has nowhere to go.
//!         DriverOutput::Answer { request: answered, result } => {
//!             assert_eq!(answered, request);
//!             assert!(result.is_err());
//!         }
//!         other => println!("{other:?}"),
//!     }
//! }
//! assert!(driver.poll_timeout().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Requests
//!
//! Each request has one answer, as an output with its [`RequestId`]; after [`abandon`](Driver::abandon) it has none.
//! Deadlines, retries, copies of slow requests and statements that a node has forgotten are seen to as in a session.

mod agenda;
mod calls;
mod output;
mod pages;
mod prepare;
mod question;
mod requests;
mod sockets;
mod table;
mod tracing;
mod wall_clock;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use self::agenda::{Agenda, Due};
use self::calls::{Call, CallId, Flight, Reply, Served};
use self::question::Question;
use self::requests::Pending;
use self::table::{Table, View};
use self::wall_clock::WallClock;
use crate::cluster::{ConnId, ControlOutput, ControlPlane};
use crate::config::profile::ExecutionProfile;
use crate::config::session::SessionConfig;
use crate::conn::Ticket;
use crate::error::request::RequestError;
use crate::exec::batch::Batch;
use crate::exec::cache::StatementCache;
use crate::exec::plan::{Aim, seed_of_request};
use crate::exec::statement::{AsStatement, Bound};
use crate::metrics::Metrics;
use crate::policy::explain::RoutePlan;
use crate::policy::timestamp::{DriftWatch, MonotonicTimestamps};
use crate::routing::{HostStatus, Routing, ShardAwareStats};
use crate::seed::Seed;
use crate::types::ToRow;

pub use self::output::{DriverOutput, RequestId};
pub use self::pages::Pages;

/// Keeps a session with one cluster, as a plain value with one owner; see the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Driver {
    config: Arc<SessionConfig>,
    profile: Arc<ExecutionProfile>,
    /// Is the latest instant seen; time does not go backwards here.
    now: Instant,
    clock: WallClock,
    timestamps: MonotonicTimestamps,
    drift: DriftWatch,
    statements: StatementCache,
    /// Is mixed with the count of requests for the random number of each.
    seed: u64,
    plane: ControlPlane<ConnId>,
    table: Table,
    /// Are the connections that have something to say.
    woken: VecDeque<ConnId>,
    requests: BTreeMap<RequestId, Pending>,
    last_request: u64,
    calls: BTreeMap<CallId, Call>,
    /// Are the calls whose executions have something to say.
    stirred: VecDeque<CallId>,
    flights: BTreeMap<Ticket, Flight>,
    last_ticket: u64,
    /// Are the replies that no execution has seen yet.
    replies: VecDeque<(Ticket, Served, Reply)>,
    agenda: Agenda,
    metrics: Metrics,
    /// Is what a control connection last told the server about the configuration.
    driver_config: Option<Arc<str>>,
    closing: Closing,
    outputs: VecDeque<DriverOutput>,
}

/// Says how far the end of the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    NotAsked,
    /// Requests under way have until then.
    Draining {
        until: Instant,
    },
    /// Connections are being closed.
    Closed {
        cut: usize,
    },
    Over,
}

impl Driver {
    /// Starts to look for the cluster, at a moment that is `unix_micros` microseconds after 1970.
    ///
    /// A session id of zeros is replaced by one made from the seed. A setting that makes no sense is reported by
    /// [`DriverOutput::Failed`].
    #[must_use]
    pub fn new(now: Instant, unix_micros: i64, mut config: SessionConfig, seed: Seed) -> Self {
        let mut random = seed.random();
        if config.session_id.is_nil() {
            config.session_id = random.uuid();
        }
        let config = Arc::new(config);
        let mut driver = Self {
            profile: Arc::new(config.profile.clone()),
            now,
            clock: WallClock::new(now, unix_micros),
            timestamps: MonotonicTimestamps::new(),
            drift: DriftWatch::default(),
            statements: StatementCache::new(config.statements_cached_max),
            plane: ControlPlane::new(now, Arc::clone(&config), random.seed()),
            seed: random.next_u64(),
            table: Table::default(),
            woken: VecDeque::new(),
            requests: BTreeMap::new(),
            last_request: 0,
            calls: BTreeMap::new(),
            stirred: VecDeque::new(),
            flights: BTreeMap::new(),
            last_ticket: 0,
            replies: VecDeque::new(),
            agenda: Agenda::default(),
            metrics: Metrics::default(),
            driver_config: None,
            closing: Closing::NotAsked,
            outputs: VecDeque::new(),
            config,
        };
        driver.turn(now, |_| ());
        driver
    }

    /// Acts on deadlines that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.turn(now, |_| ());
    }

    /// Takes note of the time of day, which timestamps of writes are made from.
    ///
    /// In between it is told from the instants that come in anyway; once a second or so is often enough to follow a
    /// clock that is set.
    pub fn handle_wall_clock(&mut self, now: Instant, unix_micros: i64) {
        self.clock = WallClock::new(now, unix_micros);
        self.turn(now, |_| ());
    }

    /// Executes a statement; the answer is its result, or the first page of it.
    ///
    /// The statement is a text or prepared. The values of a prepared one are encoded now; a text with values is prepared
    /// first, on the connection that then executes it. Values that are borrowed go with
    /// [`bind`](crate::exec::prepared::PreparedStatement::bind) and [`run`](Self::run).
    pub fn execute<S, V>(&mut self, now: Instant, statement: &S, values: V) -> RequestId
    where
        S: AsStatement + ?Sized,
        V: ToRow + Send + 'static,
    {
        let question = Question::new(statement, values).map_err(RequestError::from);
        self.ask(now, question, Aim::default())
    }

    /// Executes a statement and asks for the whole result in one answer, which may be large.
    ///
    /// The server may cut it into pages all the same; that is an error here.
    pub fn execute_unpaged<S, V>(&mut self, now: Instant, statement: &S, values: V) -> RequestId
    where
        S: AsStatement + ?Sized,
        V: ToRow + Send + 'static,
    {
        let question = Question::new(statement, values).map_err(RequestError::from);
        let aim = Aim {
            unpaged: true,
            ..Aim::default()
        };
        self.ask(now, question, aim)
    }

    /// Executes a bound statement.
    pub fn run(&mut self, now: Instant, bound: impl Into<Box<Bound>>) -> RequestId {
        self.ask(now, Ok(Question::Bound(bound.into())), Aim::default())
    }

    /// Executes the statements of a batch as one.
    ///
    /// Texts with values in it are prepared first, or found among those [prepared before](Self::prepare_cached). Each of
    /// these has the limit on the time of any request, and the limit of the batch counts from when they are done.
    pub fn batch(&mut self, now: Instant, batch: impl Into<Box<Batch>>) -> RequestId {
        let batch = batch.into();
        self.request(now, |driver, request| driver.batch_begin(request, batch))
    }

    /// Prepares a statement on every connected node at once; it succeeds when one of them answers well.
    ///
    /// A node that misses the statement later learns it when it is first needed there.
    pub fn prepare(&mut self, now: Instant, text: impl Into<Arc<str>>) -> RequestId {
        let text = text.into();
        self.request(now, |driver, request| {
            driver.prepare_begin(request, text, false);
        })
    }

    /// Gives the statement of this text that was prepared last in the session's keyspace, or prepares it.
    ///
    /// As many statements are remembered as the settings say; those used least recently are forgotten first.
    pub fn prepare_cached(&mut self, now: Instant, text: impl Into<Arc<str>>) -> RequestId {
        let text = text.into();
        self.request(now, |driver, request| {
            driver.prepare_begin(request, text, true);
        })
    }

    /// Fetches the next page of a read, which comes back with it.
    pub fn next_page(&mut self, now: Instant, pages: impl Into<Box<Pages>>) -> RequestId {
        let pages = pages.into();
        self.request(now, |driver, request| driver.page_begin(request, *pages))
    }

    /// Reads the trace that a server recorded about a request, with its events; the id is in the result of a statement
    /// that asked for tracing.
    ///
    /// Servers write traces after they have answered, so this asks for up to two seconds until it is complete.
    pub fn trace(&mut self, now: Instant, id: Uuid) -> RequestId {
        self.request(now, |driver, request| driver.trace_begin(request, id))
    }

    /// Enters a keyspace on every connection, those to come included.
    pub fn use_keyspace(&mut self, now: Instant, keyspace: impl Into<Arc<str>>) -> RequestId {
        let keyspace = keyspace.into();
        self.request(now, |driver, request| {
            driver.keyspace_begin(request, keyspace);
        })
    }

    /// Waits until all live nodes have the same schema, at most as long as the session's agreement time-out says.
    pub fn await_agreement(&mut self, now: Instant) -> RequestId {
        self.request(now, Self::agreement_begin)
    }

    /// Reads members and schema again, soon.
    pub fn refresh(&mut self, now: Instant) {
        self.turn(now, |driver| driver.plane.refresh(driver.now));
    }

    /// Gives a request up: no answer follows, also not one that was ready to be taken.
    pub fn abandon(&mut self, now: Instant, request: RequestId) {
        self.turn(now, |driver| driver.give_up(request));
    }

    /// Closes the session: refuses new requests, waits for those under way until then, retries included, then closes
    /// every connection. [`DriverOutput::Closed`] is the end.
    ///
    /// Of several calls the earliest instant holds.
    pub fn close(&mut self, now: Instant, until: Instant) {
        self.turn(now, |driver| {
            driver.closing = match driver.closing {
                Closing::NotAsked => Closing::Draining { until },
                Closing::Draining { until: own } => Closing::Draining {
                    until: own.min(until),
                },
                over => over,
            };
        });
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<DriverOutput> {
        self.outputs.pop_front()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.woken.is_empty() {
            return Some(self.now);
        }
        let drained = match self.closing {
            Closing::Draining { until } => Some(until),
            _ => None,
        };
        let all = [self.plane.poll_timeout(), self.agenda.next(), drained];
        all.into_iter().flatten().min()
    }

    /// Says whether it was closed and nothing is left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Over
    }

    /// Returns the identity that every connection of this session tells the server.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.config.session_id
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Returns the picture of the cluster that requests go by.
    #[must_use]
    pub fn routing(&self) -> &Arc<Routing<ConnId>> {
        self.plane.routing()
    }

    /// Describes every member of the cluster: health, shards, connections with the requests in flight now, and while no
    /// connection is open the last failure and the time of the next try.
    #[must_use]
    pub fn status(&self) -> Vec<HostStatus> {
        self.routing().status(&self.view())
    }

    /// Says whether any node is connected to shard by shard.
    #[must_use]
    pub fn is_shard_aware(&self) -> bool {
        self.routing().is_shard_aware()
    }

    /// Tells for each node with shards how many there are and how many have a connection.
    #[must_use]
    pub fn shard_aware_stats(&self) -> Vec<ShardAwareStats> {
        self.routing().shard_aware_stats()
    }

    /// Counts connections, requests and what happened to them.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.beside(self.routing(), &self.view())
    }

    /// Returns the DRIVER_CONFIG document as it was last sent; none before the first control connection, and where there
    /// is none.
    pub fn driver_config(&self) -> Option<&Arc<str>> {
        self.driver_config.as_ref()
    }

    /// Explains where a request with this bound statement would go now, and why; sends nothing.
    ///
    /// The plan is that of the next request. Another request may find equal nodes in another order.
    #[must_use]
    pub fn plan(&self, bound: &Bound) -> RoutePlan {
        let seed = self.next_seed();
        RoutePlan::of_bound(bound, &self.profile, seed, self.routing(), &self.view())
    }

    fn view(&self) -> View<'_> {
        View::new(&self.table, &self.config.limits)
    }

    /// Returns the random number of the next request.
    const fn next_seed(&self) -> u64 {
        seed_of_request(self.seed, self.metrics.requests)
    }

    /// Takes one input, then whatever is due, then carries what the machines say to each other until they are silent.
    fn turn(&mut self, now: Instant, input: impl FnOnce(&mut Self)) {
        self.now = self.now.max(now);
        input(self);
        if self.plane.poll_timeout().is_some_and(|at| at <= self.now) {
            self.plane.handle_timeout(self.now);
        }
        while let Some(due) = self.agenda.pop_due(self.now) {
            self.due(due);
        }
        self.carry();
        self.end_draining();
        self.end();
    }

    fn due(&mut self, due: Due) {
        match due {
            Due::Connection(conn) => self.connection_due(conn),
            Due::Call(call) => self.call_due(call),
            Due::Stragglers(request) => self.stragglers_due(request),
            Due::Trace(request) => self.trace_due(request),
        }
    }

    /// What the control plane decides comes first: requests that follow go by it.
    fn carry(&mut self) {
        loop {
            if let Some(output) = self.plane.poll_output() {
                self.perform(output);
            } else if let Some(conn) = self.woken.pop_front() {
                self.serve(conn);
            } else if let Some((ticket, served, reply)) = self.replies.pop_front() {
                self.take_reply(ticket, served, reply);
            } else if let Some(call) = self.stirred.pop_front() {
                self.advance(call);
            } else {
                return;
            }
        }
    }

    fn perform(&mut self, output: ControlOutput<ConnId>) {
        match output {
            ControlOutput::Resolve { id, host, port } => {
                self.output(DriverOutput::Resolve { id, host, port });
            }
            ControlOutput::Connect { conn, spec, plan } => self.connect(conn, spec, plan),
            ControlOutput::Disconnect { conn, reason } => self.disconnect(conn, reason),
            ControlOutput::Drain { conn, reason } => self.drain(conn, reason),
            ControlOutput::Submit {
                conn,
                query,
                request,
                deadline,
            } => {
                self.submit_query(conn, query, &request, deadline);
            }
            ControlOutput::Ready(readiness) => self.output(DriverOutput::Ready(readiness)),
            ControlOutput::Agreement { id, outcome } => {
                self.agreed(RequestId::of_command(id), outcome);
            }
            ControlOutput::KeyspaceUsed { id, result } => {
                self.keyspace_used(RequestId::of_command(id), result);
            }
            ControlOutput::Note(note) => self.note(note),
            ControlOutput::Notify(event) => self.output(DriverOutput::Notify(event)),
            ControlOutput::Fatal(error) => {
                let cut = self.under_way();
                self.closing = Closing::Closed { cut };
                self.output(DriverOutput::Failed(error));
            }
            // The plane keeps the picture itself.
            ControlOutput::Publish(_) => (),
        }
    }

    /// Closes the connections once no request is under way or the time has passed.
    fn end_draining(&mut self) {
        let Closing::Draining { until } = self.closing else {
            return;
        };
        let under_way = self.under_way();
        if 0 < under_way && self.now < until {
            return;
        }
        self.closing = Closing::Closed { cut: under_way };
        self.plane.close(self.now);
        self.carry();
    }

    /// Says the last word when every connection has ended.
    fn end(&mut self) {
        let Closing::Closed { cut } = self.closing else {
            return;
        };
        if self.plane.is_closed() {
            self.cut_off();
            self.closing = Closing::Over;
            self.output(DriverOutput::Closed { cut });
        }
    }

    fn output(&mut self, output: DriverOutput) {
        self.outputs.push_back(output);
    }
}
