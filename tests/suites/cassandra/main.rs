//! The driver against a real Apache Cassandra: what no simulation can promise.
//!
//! The tests share two nodes, one without and one with passwords, which end with the test process. Where no Cassandra
//! can run, every test says so and passes; in CI (`CI=true`) that is a failure.

mod nodes;

use std::error::Error;
use std::io::{self, Write};

use messina_testkit::cassandra::CassandraError;

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
