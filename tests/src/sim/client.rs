//! What the workload needs of a driver, so that everything that is one runs the same requests.
//! What the requests are is in `work`.

use std::future::Future;
use std::net::SocketAddr;

use messina_core::error::request::RequestError;
use messina_core::error::session::SessionError;
use messina_core::exec::batch::Batch;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::{Bound, Statement};
use messina_core::notify::Note;
use messina_core::routing::{HostState, Routing, Shard};
use messina_engine::Session;
use uuid::Uuid;

use super::runtime::SimRuntime;
use super::setup::Setup;

type Outcome<T> = Result<T, RequestError>;

/// Something that sends requests.
pub(super) trait Client: Clone + Send + Sync + 'static {
    /// Connects to the cluster.
    fn start(
        runtime: &SimRuntime,
        setup: &Setup,
    ) -> impl Future<Output = Result<Self, SessionError>> + Send;
    fn prepare(&self, text: &str) -> impl Future<Output = Outcome<PreparedStatement>> + Send;
    fn run(&self, bound: &Bound) -> impl Future<Output = Outcome<QueryResult>> + Send;
    fn text(&self, statement: &Statement) -> impl Future<Output = Outcome<QueryResult>> + Send;
    fn text_with(
        &self,
        statement: &Statement,
        key: i32,
        value: &str,
    ) -> impl Future<Output = Outcome<QueryResult>> + Send;
    fn batch(&self, batch: &Batch) -> impl Future<Output = Outcome<QueryResult>> + Send;
    /// Reads all pages; a page that fails is asked for again, so many times in all.
    fn pages(
        &self,
        bound: Bound,
        again: usize,
    ) -> impl Future<Output = Outcome<Vec<(i32, String)>>> + Send;
    /// The members of the cluster as the client sees them.
    fn picture(&self) -> Picture;
    /// The notes since the last time.
    fn notes(&self) -> Vec<Note>;
    /// Closes; gives how many requests were cut off.
    fn close(&self, deadline: std::time::Duration) -> impl Future<Output = usize> + Send;
}

/// The cluster as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) hosts: Vec<HostPicture>,
    pub(super) tokens: Vec<i64>,
}

/// A member of the cluster as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPicture {
    pub(super) id: Uuid,
    pub(super) address: SocketAddr,
    pub(super) up: bool,
    pub(super) shards: Option<u16>,
    pub(super) connections: usize,
    /// The shards without a connection.
    pub(super) bare: Vec<u16>,
}

impl Picture {
    pub(super) fn of<H>(routing: &Routing<H>) -> Self {
        let hosts = routing.hosts.iter().zip(routing.pools.iter());
        let hosts = hosts
            .filter(|(host, _)| host.state != HostState::Removed)
            .map(|(host, pool)| {
                let shards = pool.sharder().map(|sharder| sharder.shards.get());
                HostPicture {
                    id: host.id,
                    address: host.address,
                    up: host.state == HostState::Up,
                    shards,
                    connections: pool.connections().len(),
                    bare: (0..shards.unwrap_or(0))
                        .filter(|shard| pool.on_shard(Shard(*shard)).is_empty())
                        .collect(),
                }
            });
        let tokens = routing.ring.tokens().iter().map(|token| token.0);
        Self {
            hosts: hosts.collect(),
            tokens: tokens.collect(),
        }
    }
}

impl Client for Session<SimRuntime> {
    fn start(
        runtime: &SimRuntime,
        setup: &Setup,
    ) -> impl Future<Output = Result<Self, SessionError>> + Send {
        let config = setup.session.clone();
        Self::builder_on(runtime.clone())
            .config(|own| *own = config)
            .profile(setup.profile.clone())
            .agreement_timeout(setup.agreement)
            .coalesce(setup.coalesce)
            .build()
    }

    fn prepare(&self, text: &str) -> impl Future<Output = Outcome<PreparedStatement>> + Send {
        self.prepare(text.to_owned())
    }

    fn run(&self, bound: &Bound) -> impl Future<Output = Outcome<QueryResult>> + Send {
        self.run(bound)
    }

    async fn text(&self, statement: &Statement) -> Outcome<QueryResult> {
        self.execute(statement, ()).await
    }

    async fn text_with(
        &self,
        statement: &Statement,
        key: i32,
        value: &str,
    ) -> Outcome<QueryResult> {
        self.execute(statement, (key, value)).await
    }

    fn batch(&self, batch: &Batch) -> impl Future<Output = Outcome<QueryResult>> + Send {
        self.batch(batch)
    }

    async fn pages(&self, bound: Bound, again: usize) -> Outcome<Vec<(i32, String)>> {
        let mut pages = self.pages_of(bound);
        let (mut rows, mut failures) = (Vec::new(), 0);
        loop {
            match pages.next().await {
                Ok(Some(page)) => collect_rows(&page, &mut rows)?,
                Ok(None) => return Ok(rows),
                Err(error) if failures == again => return Err(error),
                Err(_) => failures += 1,
            }
        }
    }

    fn picture(&self) -> Picture {
        Picture::of(&self.cluster())
    }

    fn notes(&self) -> Vec<Note> {
        self.notes()
    }

    fn close(&self, deadline: std::time::Duration) -> impl Future<Output = usize> + Send {
        self.close(deadline)
    }
}

/// Adds the rows of a page.
pub(super) fn collect_rows(
    page: &QueryResult,
    rows: &mut Vec<(i32, String)>,
) -> Result<(), RequestError> {
    for row in page.rows::<(i32, String)>()? {
        // A row that cannot be read is one that nobody wrote.
        rows.push(row.unwrap_or_else(|error| (i32::MIN, error.to_string())));
    }
    Ok(())
}

/// The name under which a note is counted.
pub(super) fn name_of(note: &Note) -> &'static str {
    match note {
        Note::ConnectionLost { .. } => "note: connection lost",
        Note::ConnectFailed(_) => "note: connect failed",
        Note::Draining { .. } => "note: draining",
        Note::Resharded { .. } => "note: resharded",
        Note::SourcePortIgnored { .. } => "note: source port ignored",
        Note::ShardsNotReached { .. } => "note: shards not reached",
        Note::NoControlConnection { .. } => "note: no control connection",
        Note::ReadFailed { .. } => "note: read failed",
        Note::NameUnresolved { .. } => "note: name unresolved",
        _ => "note: other",
    }
}
