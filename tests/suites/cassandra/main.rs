//! The driver against a real Apache Cassandra: what no simulation can promise.
//!
//! The tests share two nodes, one without and one with passwords, which end with the test process. Where no Cassandra
//! can run, every test says so and passes; in CI (`CI=true`) that is a failure.

mod changes;
mod encryption;
mod identity;
mod keyspaces;
mod login;
mod loss;
mod modes;
mod nodes;
mod samples;
mod statements;
mod three_nodes;
mod types;

use std::error::Error;
use std::io::{self, Write};
use std::sync::LazyLock;

use messina_testkit::cassandra::{Cassandra, CassandraError};
use messina_tokio::Session;

use modes::Mode;

/// A node that lets everybody in.
static OPEN: LazyLock<Result<Cassandra, CassandraError>> =
    LazyLock::new(|| Cassandra::builder().start());

/// A node that asks for a password.
static GUARDED: LazyLock<Result<Cassandra, CassandraError>> =
    LazyLock::new(|| Cassandra::builder().passwords(true).start());

/// A session on the open node with a new keyspace in use, or `None` when the test has to be skipped.
async fn open_session(keyspace: &str) -> Option<Session> {
    session_in(Mode::Version5, keyspace).await
}

/// Does the same in every mode, each with a session on the open node and a new keyspace in use.
async fn in_each_mode(keyspace: &str, case: impl AsyncFn(Session)) {
    for mode in Mode::ALL {
        // Of a test that fails this is shown: the last one is the mode that it fails in.
        println!("in mode {mode:?}");
        let Some(session) = session_in(mode, &format!("{keyspace}{}", mode.suffix())).await else {
            return;
        };
        case(session).await;
    }
}

async fn session_in(mode: Mode, keyspace: &str) -> Option<Session> {
    let address = contact_point(&OPEN)?;
    let session = mode
        .choose(Session::builder())
        .contact_point(&address)
        .local_datacenter("dc1")
        .build()
        .await
        .expect("the node is up");
    // Every run has nodes of its own, so a name that is new in this run is new to the node.
    let create = format!(
        "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 1}}"
    );
    session
        .execute(&create, ())
        .await
        .expect("the keyspace is new");
    session
        .use_keyspace(keyspace)
        .await
        .expect("the keyspace is there");
    Some(session)
}

/// Where a shared node listens, or `None` when the test has to be skipped.
fn contact_point(started: &'static Result<Cassandra, CassandraError>) -> Option<String> {
    available(started.as_ref()).map(|cassandra| cassandra.contact_points().swap_remove(0))
}

/// What was started; `None` when this machine cannot run Cassandra at all and need not.
///
/// # Panics
///
/// When Cassandra should have started, which is always so in CI.
fn available<T>(started: Result<T, &CassandraError>) -> Option<T> {
    let error = match started {
        Ok(started) => return Some(started),
        Err(error) => error,
    };
    let reason = in_full(error);
    let must_run = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        error.is_unavailable() && !must_run,
        "no Cassandra: {reason}"
    );
    // The harness would swallow `eprintln` of a test that passes.
    let _ = writeln!(io::stderr(), "SKIPPED, no Cassandra can run here: {reason}");
    None
}

/// An error with all its causes.
fn in_full(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", in_full(cause)),
        None => error.to_string(),
    }
}
