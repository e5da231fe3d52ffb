//! The session: what an application holds. Hands its calls to the request path and its commands to the control task.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use messina_core::cluster::AgreementOutcome;
use messina_core::config::profile::ExecutionProfile;
use messina_core::config::session::SessionConfig;
use messina_core::error::request::RequestError;
use messina_core::error::session::{SessionError, SessionErrorKind};
use messina_core::exec::Coordinator;
use messina_core::exec::batch::Batch;
use messina_core::exec::cache::StatementCache;
use messina_core::exec::plan::seed_of_request;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::{AsStatement, Bound};
use messina_core::exec::trace::Trace;
use messina_core::metrics::Metrics;
use messina_core::notify::Note;
use messina_core::policy::explain::RoutePlan;
use messina_core::policy::timestamp::{DriftWatch, MonotonicTimestamps};
use messina_core::routing::ShardAwareStats;
use messina_core::time::later;
use messina_core::types::{FromRow, ToRow};
use messina_core::wire::SchemaChange;
use uuid::Uuid;

use crate::builder::SessionBuilder;
use crate::execute::{self, Execute};
use crate::mailbox::{Input, Mailbox};
use crate::metrics::Counters;
use crate::notes::{Events, Notes};
use crate::pager::{Pages, RowStream};
use crate::pipeline::Pipeline;
use crate::prepare::{prepare, prepare_cached};
use crate::promise::{Outcome, promise};
use crate::published::{Phase, Published};
use crate::runtime::Runtime;
use crate::snapshot::{ClusterSnapshot, InFlight};
use crate::source::StatementSource;
use crate::trace;
use crate::wall_clock::WallClock;

/// A session with one cluster.
///
/// A clone is cheap and is the same session. Dropping the last one closes every connection without waiting.
pub struct Session<R: Runtime> {
    handle: Arc<Handle<R>>,
}

/// Ends the session with its last clone.
struct Handle<R: Runtime> {
    shared: Shared<R>,
}

/// What the requests of a session share.
pub(crate) struct Shared<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) config: Arc<SessionConfig>,
    pub(crate) profile: Arc<ExecutionProfile>,
    pub(crate) published: Arc<Published>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) statements: Mutex<StatementCache>,
    pub(crate) drift: Mutex<DriftWatch>,
    /// Mixed with a counter for the random number of each request.
    pub(crate) seed: u64,
    pub(crate) requests: AtomicU64,
    pub(crate) last_timestamp: AtomicI64,
    pub(crate) clock: WallClock,
}

impl<R: Runtime> Session<R> {
    /// Starts to collect settings; the runtime is that of the task that calls [`SessionBuilder::build`].
    pub fn builder() -> SessionBuilder<R> {
        SessionBuilder::new(None)
    }

    /// Starts to collect settings for a session on a given runtime.
    pub fn builder_on(runtime: R) -> SessionBuilder<R> {
        SessionBuilder::new(Some(runtime))
    }

    pub(crate) fn of(shared: Shared<R>) -> Self {
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    /// Prepares a statement on every connected node at once; it succeeds when one of them answers well.
    ///
    /// A node that misses the statement later learns it when it is first needed there.
    ///
    /// # Errors
    /// No node could prepare it; the first node's error is reported.
    pub async fn prepare(
        &self,
        text: impl Into<Arc<str>>,
    ) -> Result<PreparedStatement, RequestError> {
        prepare(self.shared(), text.into()).await
    }

    /// Returns the statement of this text that was prepared last in the session's keyspace, or prepares it.
    ///
    /// The session remembers as many statements as its settings say, and forgets those used least recently; what was
    /// handed out stays good. For programs that make texts at run time; where a text is known beforehand,
    /// [`prepare`](Self::prepare) it once and keep the statement.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub async fn prepare_cached(
        &self,
        text: impl Into<Arc<str>>,
    ) -> Result<PreparedStatement, RequestError> {
        prepare_cached(self.shared(), text.into()).await
    }

    /// Executes a statement and returns its result, or the first page of it.
    ///
    /// The statement is a text or prepared. A text with values is prepared first, on the connection that then
    /// executes it. The values are encoded now; nothing is sent before the first poll.
    pub fn execute<'s, S, V>(&'s self, statement: &'s S, values: V) -> Execute<'s, R, V>
    where
        S: AsStatement + ?Sized,
        V: ToRow,
    {
        Execute::new(
            self.shared(),
            StatementSource::new(statement, values),
            false,
        )
    }

    /// Executes a statement and asks for the whole result in one answer, which may be large.
    ///
    /// The server may cut it into pages all the same; that is an error here.
    pub fn execute_unpaged<'s, S, V>(&'s self, statement: &'s S, values: V) -> Execute<'s, R, V>
    where
        S: AsStatement + ?Sized,
        V: ToRow,
    {
        Execute::new(self.shared(), StatementSource::new(statement, values), true)
    }

    /// Executes a bound statement.
    ///
    /// # Errors
    /// The request failed.
    pub async fn run(&self, bound: &Bound) -> Result<QueryResult, RequestError> {
        execute::run(self.shared(), bound).await
    }

    /// Executes the statements of a batch as one.
    ///
    /// Texts with values in it are prepared first, or found among those [prepared before](Self::prepare_cached).
    ///
    /// # Errors
    /// A statement of the batch could not be bound, or the request failed.
    pub async fn batch(&self, batch: &Batch) -> Result<QueryResult, RequestError> {
        execute::batch(self.shared(), batch).await
    }

    /// Starts to execute one statement many times from one task, many requests at once.
    ///
    /// Cheaper than as many futures, with the same routing and the same retries; see [`Pipeline`].
    pub fn pipeline<'s, V: ToRow>(
        &'s self,
        statement: &'s PreparedStatement,
    ) -> Pipeline<'s, R, V> {
        Pipeline::new(self.shared(), statement)
    }

    /// Reads the trace that a server recorded about a request, with its events; the id is in the
    /// [result](QueryResult::tracing_id) of a statement that asked for [tracing](messina_core::exec::statement::StatementOptions::tracing).
    ///
    /// Servers write traces after they have answered, so this asks for up to two seconds until it is complete.
    ///
    /// # Errors
    /// The trace is not ready in time, or it could not be read.
    pub async fn trace(&self, id: Uuid) -> Result<Trace, RequestError> {
        trace::read(self, id).await
    }

    /// Reads a result page by page.
    pub fn pages<'s, S, V>(&'s self, statement: &S, values: V) -> Pages<'s, R>
    where
        S: AsStatement + ?Sized,
        V: ToRow + Send + 's,
    {
        Pages::new(self.shared(), statement, values)
    }

    /// Reads the result of a bound statement page by page.
    pub fn pages_of(&self, bound: Bound) -> Pages<'_, R> {
        Pages::bound(self.shared(), bound)
    }

    /// Reads a result as a stream of owned rows, over all pages.
    pub fn stream<'s, T, S, V>(&'s self, statement: &S, values: V) -> RowStream<'s, R, T>
    where
        T: for<'r> FromRow<'r>,
        S: AsStatement + ?Sized,
        V: ToRow + Send + 's,
    {
        RowStream::new(self.pages(statement, values))
    }

    /// Returns the identity that every connection of this session tells the server.
    pub fn id(&self) -> Uuid {
        self.shared().config.session_id
    }

    /// Returns the DRIVER_CONFIG document as the session last sent it: what the server's operators see of its settings.
    ///
    /// None before the first control connection, where reporting is switched off
    /// ([`SessionConfig::driver_config_reporting`]), and where the document could not be made; a note tells why then.
    pub fn driver_config(&self) -> Option<Arc<str>> {
        self.shared().published.reported()
    }

    /// Returns the settings.
    pub fn config(&self) -> &SessionConfig {
        &self.shared().config
    }

    /// Takes a picture of the cluster.
    pub fn cluster(&self) -> ClusterSnapshot {
        ClusterSnapshot::new(self.shared().published.snapshot())
    }

    /// Says whether any node is connected to shard by shard.
    pub fn is_shard_aware(&self) -> bool {
        self.shared().published.routing().is_shard_aware()
    }

    /// Tells for each node with shards how many there are and how many have a connection.
    ///
    /// Every shard can be reached on its own once both numbers of every node are the same.
    pub fn shard_aware_stats(&self) -> Vec<ShardAwareStats> {
        self.shared().published.routing().shard_aware_stats()
    }

    /// Explains where a request with this bound statement would go now, and why; sends nothing.
    ///
    /// The plan is that of the next request of the session. Another request may find equal nodes in another order.
    pub fn plan(&self, bound: &Bound) -> RoutePlan {
        let shared = self.shared();
        let seed = shared.seed_of(shared.requests.load(Ordering::Relaxed));
        let routing = shared.published.snapshot();
        RoutePlan::of_bound(bound, &shared.profile, seed, &routing, &InFlight)
    }

    /// Starts to collect the changes of the cluster from now on, as a stream.
    ///
    /// A reader that falls behind by more than 1,024 events loses the oldest; see [`Events::lost`].
    pub fn events(&self) -> Events {
        self.shared().notes.subscribe()
    }

    /// Takes the notes for operators that nobody has read yet; of more than 256 the oldest give way.
    ///
    /// A note shows itself as a sentence and knows how urgent it is. With the feature `tracing` every one of them is a
    /// `tracing` event as well, with the target `messina`.
    pub fn notes(&self) -> Vec<Note> {
        self.shared().notes.take()
    }

    /// Counts connections, requests and what happened to them.
    pub fn metrics(&self) -> Metrics {
        let shared = self.shared();
        let requests = shared.requests.load(Ordering::Relaxed);
        shared
            .counters
            .read(requests)
            .beside(&self.cluster(), &InFlight)
    }

    /// Reads members and schema again, soon.
    pub fn refresh(&self) {
        self.shared().mailbox.push(Input::Refresh);
    }

    /// Waits until all live nodes have the same schema, at most as long as the session's agreement time-out says: a
    /// minute, unless set otherwise. While no node can be reached, that is how long it takes.
    ///
    /// # Errors
    /// The session was closed meanwhile.
    pub async fn await_agreement(&self) -> Result<AgreementOutcome, SessionError> {
        self.shared()
            .await_agreement(None, None)
            .await
            .ok_or_else(closed)
    }

    /// Enters a keyspace on every connection, those to come included.
    ///
    /// A statement keeps the keyspace it was prepared in. Once the session has left that one, a node that has forgotten
    /// the statement cannot be told it again over protocol version 4, because its unqualified names would mean other
    /// tables: the request fails with [`KeyspacesDiffer`](messina_core::error::request::UnpreparedError::KeyspacesDiffer). Prepare statements with qualified names
    /// where a session changes its keyspace, or prepare them anew. In version 5 the keyspace travels with the statement.
    ///
    /// # Errors
    /// The name cannot be that of a keyspace, or no node entered it: then the session stays where it was. Or some nodes
    /// refused, and the session is in the new keyspace.
    pub async fn use_keyspace(&self, keyspace: impl Into<Arc<str>>) -> Result<(), SessionError> {
        self.shared()
            .use_keyspace(keyspace.into())
            .await
            .ok_or_else(closed)?
    }

    /// Closes the session: refuses new requests, waits for those under way until `deadline` has passed, retries
    /// included, then closes every connection. Returns how many requests were cut off.
    ///
    /// Closing again, or from another clone, waits for the same end; the shorter deadline holds.
    pub async fn close(&self, deadline: Duration) -> usize {
        let shared = self.shared();
        shared.published.stop_admission();
        let now = shared.runtime.now();
        let until = later(now, deadline);
        shared.mailbox.push(Input::Close { until });
        let mut sleep = pin!(shared.runtime.sleep_until(until + CLOSING));
        poll_fn(|cx| {
            let ended = shared
                .published
                .poll_phase(cx, |phase| matches!(phase, Phase::Ended).then_some(()));
            if ended.is_ready() {
                ended
            } else {
                sleep.as_mut().poll(cx)
            }
        })
        .await;
        shared.published.cut()
    }

    pub(crate) fn shared(&self) -> &Shared<R> {
        &self.handle.shared
    }

    /// Waits until the session is ready.
    pub(crate) async fn ready(&self) -> Result<(), SessionError> {
        poll_fn(|cx| {
            self.shared().published.poll_phase(cx, |phase| match phase {
                Phase::Starting => None,
                Phase::Ready => Some(Ok(())),
                Phase::Failed(error) => Some(Err(error.clone())),
                Phase::Ended => Some(Err(closed())),
            })
        })
        .await
    }
}

/// How long connections may take to say good-bye: closing a socket is a matter of moments.
const CLOSING: Duration = Duration::from_secs(1);

impl<R: Runtime> Shared<R> {
    /// Returns the random number of the next request.
    pub(crate) fn next_seed(&self) -> u64 {
        self.seed_of(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    const fn seed_of(&self, turn: u64) -> u64 {
        seed_of_request(self.seed, turn)
    }

    /// Returns the write timestamp of a request: the time, but later than every one before.
    pub(crate) fn timestamp(&self, now: Instant) -> i64 {
        let now = self.clock.unix_micros(now, &self.runtime);
        let timestamp = self.stamp(now);
        self.watch_drift(timestamp, now);
        timestamp
    }

    /// Returns the write timestamp of a request at this time of day, in microseconds since 1970.
    ///
    /// [`watch_drift`](Self::watch_drift) has to look at it, where no lock is held: a note can reach code of the
    /// application.
    #[inline]
    pub(crate) fn stamp(&self, now: i64) -> i64 {
        let mut last = self.last_timestamp.load(Ordering::Relaxed);
        loop {
            let next = MonotonicTimestamps::after(last, now);
            match self.last_timestamp.compare_exchange_weak(
                last,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return next,
                Err(current) => last = current,
            }
        }
    }

    /// Tells operators of a timestamp that is far from the time of day it was made at.
    #[inline]
    pub(crate) fn watch_drift(&self, timestamp: i64, now: i64) {
        if MonotonicTimestamps::is_adrift(timestamp, now) {
            self.note_drift(timestamp, now);
        }
    }

    /// Says what keeps the nodes away, if that is why a request failed.
    #[cold]
    pub(crate) fn with_absent_nodes(&self, error: RequestError) -> RequestError {
        error.with_absent_nodes(|| self.published.routing().failures())
    }

    #[cold]
    fn note_drift(&self, timestamp: i64, unix_micros: i64) {
        let note = self
            .drift
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(timestamp, unix_micros);
        if let Some(note) = note {
            self.notes.push(note);
        }
    }

    /// Finds a statement prepared in the keyspace of the session now.
    pub(crate) fn find_statement(&self, text: &Arc<str>) -> Option<PreparedStatement> {
        let routing = self.published.routing();
        self.statements().find(routing.keyspace.as_ref(), text)
    }

    /// The statements prepared last; locked for moments, by those who prepare only.
    pub(crate) fn statements(&self) -> MutexGuard<'_, StatementCache> {
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the cluster agree on a schema change of ours.
    pub(crate) fn follow_schema(
        &self,
        change: &SchemaChange,
        coordinator: Option<&Coordinator>,
    ) -> Outcome<AgreementOutcome> {
        self.await_agreement(Some(change.clone()), coordinator.map(|own| own.host_id))
    }

    /// Enters the keyspace that a statement of ours has entered on one connection, on all others.
    pub(crate) fn follow_keyspace(&self, keyspace: &str) -> Outcome<Result<(), SessionError>> {
        self.use_keyspace(keyspace.into())
    }

    fn await_agreement(
        &self,
        change: Option<SchemaChange>,
        coordinator: Option<Uuid>,
    ) -> Outcome<AgreementOutcome> {
        let (promise, outcome) = promise();
        let deadline = later(self.runtime.now(), self.config.agreement_timeout);
        self.mailbox.push(Input::AwaitAgreement {
            change,
            coordinator,
            deadline,
            promise,
        });
        outcome
    }

    fn use_keyspace(&self, keyspace: Arc<str>) -> Outcome<Result<(), SessionError>> {
        let (promise, outcome) = promise();
        let deadline = later(self.runtime.now(), self.config.connection.handshake_timeout);
        self.mailbox.push(Input::UseKeyspace {
            keyspace,
            deadline,
            promise,
        });
        outcome
    }
}

fn closed() -> SessionError {
    SessionError::new(SessionErrorKind::Closed, Vec::new())
}

impl<R: Runtime> Clone for Session<R> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
        }
    }
}

impl<R: Runtime> fmt::Debug for Session<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Drop for Handle<R> {
    fn drop(&mut self) {
        self.shared.published.stop_admission();
        // Nobody is left who could wait for an answer.
        let until = self.shared.runtime.now();
        self.shared.mailbox.push(Input::Close { until });
    }
}
