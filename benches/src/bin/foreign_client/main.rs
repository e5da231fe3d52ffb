//! Runs a foreign CQL client, the crate `scylla`, against a simulated cluster without special settings.
//!
//! Owns the checks that only a client which shares no code with this project can make. It starts nothing: the contact
//! points and the shape of the cluster come as arguments, and the exit status is 0 only when every check passed.

mod checks;
mod outage;

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryRowsResult;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use checks::*;
use outage::*;

/// Checks a simulated cluster with the crate `scylla`.
#[derive(Debug, Parser)]
struct Arguments {
    /// Addresses with ports.
    #[arg(required = true, value_delimiter = ',')]
    contact_points: Vec<String>,
    /// How many nodes the cluster has.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How many shards each node has.
    #[arg(long, default_value_t = 4)]
    shards: u16,
    /// The only datacenter.
    #[arg(long, default_value = "datacenter1")]
    dc: String,
    /// The pipe that the cluster reads commands from.
    #[arg(long)]
    commands: PathBuf,
    /// Seconds after which the program gives up.
    #[arg(long, default_value_t = 240)]
    deadline: u64,
}

/// How a check ends.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// What the checks share.
struct World {
    arguments: Arguments,
    session: Arc<Session>,
    keyspace: String,
}

/// How many checks went which way.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let deadline = Duration::from_secs(arguments.deadline);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome =
        runtime.map(|runtime| runtime.block_on(async { timeout(deadline, run(arguments)).await }));
    match outcome {
        Ok(Ok(Ok(tally))) => {
            println!("{} passed, {} failed", tally.passed, tally.failed);
            ExitCode::from(u8::from(0 < tally.failed))
        }
        Ok(Ok(Err(error))) => {
            eprintln!("no session: {error}");
            ExitCode::FAILURE
        }
        Ok(Err(_)) => {
            eprintln!("deadline passed");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("no runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<Tally, Box<dyn Error + Send + Sync>> {
    let session = SessionBuilder::new()
        .known_nodes(&arguments.contact_points)
        .build()
        .await?;
    let world = World {
        arguments,
        session: Arc::new(session),
        keyspace: format!("peer_{}", &Uuid::new_v4().simple().to_string()[..10]),
    };
    let mut tally = Tally::default();
    // The order matters: later checks use what earlier ones made.
    macro_rules! check {
        ($($name:ident),* $(,)?) => {
            $(tally.note(stringify!($name), $name(&world)).await;)*
        };
    }
    check!(
        every_node_is_a_host_that_is_up,
        every_node_has_a_connection_for_each_shard,
        a_keyspace_and_tables_are_made_and_read_back,
        every_type_survives_a_prepared_round_trip,
        a_partition_is_read_in_pages_in_clustering_order,
        two_thousand_concurrent_writes_are_all_found_by_a_paged_scan,
        batches_apply_as_a_whole,
        conditional_statements_tell_whether_they_were_applied,
        timestamps_and_time_to_live_are_kept,
        a_prepared_select_of_all_columns_follows_an_alter,
        errors_arrive_with_their_types,
        a_partition_that_is_written_too_often_is_refused_by_name,
        a_traced_request_is_found_by_its_id,
        a_second_session_notices_a_schema_change,
        a_node_that_is_stopped_and_started_is_left_out_and_used_again,
        a_truncated_table_is_empty_and_a_dropped_keyspace_is_gone,
    );
    Ok(tally)
}

impl Tally {
    async fn note(&mut self, name: &str, check: impl Future<Output = Outcome>) {
        match check.await {
            Ok(()) => {
                self.passed += 1;
                println!("ok      {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED  {name}");
                eprintln!("  {error}");
            }
        }
    }
}

impl World {
    /// Runs a statement that gives no rows.
    async fn run(&self, text: &str) -> Outcome {
        self.session.query_unpaged(text, ()).await?;
        Ok(())
    }

    async fn rows(&self, text: &str) -> Result<QueryRowsResult, Box<dyn Error + Send + Sync>> {
        Ok(self
            .session
            .query_unpaged(text, ())
            .await?
            .into_rows_result()?)
    }

    /// The port of every node; connections may lead to another one, where the source port chooses the shard.
    fn port(&self) -> Result<u16, Box<dyn Error + Send + Sync>> {
        let address: SocketAddr = self.arguments.contact_points[0].parse()?;
        Ok(address.port())
    }

    /// The only value of the only row.
    async fn count(&self, text: &str) -> Result<i64, Box<dyn Error + Send + Sync>> {
        Ok(self.rows(text).await?.single_row::<(i64,)>()?.0)
    }
}

/// Writes that run at the same time.
struct Writes<T> {
    tasks: JoinSet<Result<T, ExecutionError>>,
}

impl<T: Send + 'static> Writes<T> {
    fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
        }
    }

    /// Starts one more, when fewer than this many run.
    async fn start(
        &mut self,
        most: usize,
        write: impl Future<Output = Result<T, ExecutionError>> + Send + 'static,
    ) -> Outcome {
        while most <= self.tasks.len() {
            if let Some(done) = self.tasks.join_next().await {
                done??;
            }
        }
        self.tasks.spawn(write);
        Ok(())
    }

    async fn finish(mut self) -> Outcome {
        while let Some(done) = self.tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// How long background tasks of the client may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until a condition holds that background tasks of the client make true.
async fn wait_until(condition: impl Fn() -> bool, what: &str) -> Outcome {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        if end < Instant::now() {
            return Err(format!("not in time: {what}").into());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

fn same<T: Debug + PartialEq>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}").into())
}
