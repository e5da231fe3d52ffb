//! The reference: the crate `scylla` with its default settings under the same loads, on tokio.

use std::hint::black_box;
use std::sync::Arc;

use scylla::DeserializeRow;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use uuid::Uuid;

use crate::BenchError;
use crate::books::{Measured, Window};
use crate::client::Plan;
use crate::open;
use crate::workload::{BLOB, LARGE, OVER, Span, TEXT, Workload, more};

/// Connects and runs the plan in the current tokio runtime; version 5 and encryption are left out.
///
/// # Errors
///
/// The session could not be made, or a request failed.
pub async fn run(
    address: &str,
    plan: &Plan,
) -> Result<(Measured, Option<open::Latencies>), BenchError> {
    if plan.v5 || plan.ca_file.is_some() {
        return Err("the reference runs in plain version 4 only".into());
    }
    let session = SessionBuilder::new().known_node(address).build().await?;
    let statement = session.prepare(plan.workload.statement()).await?;
    let load = Load {
        session: Arc::new(session),
        statement: Arc::new(statement),
        workload: plan.workload,
        blob: Arc::new(vec![0xab; LARGE]),
    };
    if !plan.warmup.is_empty() {
        closed(&load, plan.warmup, plan.in_flight).await?;
    }
    let window = Window::open();
    let Some(rate) = plan.rate else {
        let requests = closed(&load, plan.span, plan.in_flight).await?;
        return Ok((window.close(requests), None));
    };
    let spawn = |task| drop(tokio::spawn(task));
    let one = |n| {
        let load = load.clone();
        async move { load.one(n as i64).await }
    };
    let latencies = open::run(plan.span, rate, spawn, one).await?;
    Ok((window.close(latencies.count()), Some(latencies)))
}

async fn closed(load: &Load, span: Span, in_flight: u64) -> Result<u64, BenchError> {
    span.ring(&OVER);
    let mut tasks = Vec::new();
    for task in 0..in_flight {
        let (load, share) = (load.clone(), span.share(task, in_flight));
        tasks.push(tokio::spawn(async move { load.many(task, share).await }));
    }
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok(done)
}

#[derive(Clone)]
struct Load {
    session: Arc<Session>,
    statement: Arc<PreparedStatement>,
    workload: Workload,
    blob: Arc<Vec<u8>>,
}

impl Load {
    async fn many(&self, task: u64, share: u64) -> Result<u64, BenchError> {
        let mut done = 0;
        while more(done, share) {
            self.one((task << 32) as i64 + done as i64).await?;
            done += 1;
        }
        Ok(done)
    }

    async fn one(&self, key: i64) -> Result<(), BenchError> {
        let (session, statement) = (&self.session, &*self.statement);
        match self.workload {
            Workload::Insert => {
                let values = (key, TEXT, &BLOB[..]);
                session.execute_unpaged(statement, values).await?;
            }
            Workload::BlobPut => {
                let values = (key, &self.blob[..]);
                session.execute_unpaged(statement, values).await?;
            }
            Workload::Select1 => {
                let result = session.execute_unpaged(statement, (key,)).await?;
                for row in result.into_rows_result()?.rows::<(i64, &str, &[u8])>()? {
                    black_box(row?);
                }
            }
            Workload::BlobGet => {
                let result = session.execute_unpaged(statement, (key,)).await?;
                for row in result.into_rows_result()?.rows::<(i64, &[u8])>()? {
                    black_box(row?);
                }
            }
            Workload::PageBorrowed => {
                let result = session.execute_unpaged(statement, (key,)).await?;
                for row in result.into_rows_result()?.rows::<Borrowed<'_>>()? {
                    black_box(row?);
                }
            }
            Workload::PageOwned => {
                let result = session.execute_unpaged(statement, (key,)).await?;
                for row in result.into_rows_result()?.rows::<Owned>()? {
                    black_box(row?);
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, DeserializeRow)]
#[expect(dead_code, reason = "rows are decoded, and that is all")]
struct Borrowed<'r> {
    c0: i32,
    c1: &'r str,
    c2: &'r [u8],
    c3: i64,
    c4: f64,
    c5: Uuid,
    c6: CqlTimestamp,
    c7: bool,
    c8: &'r str,
    c9: i32,
}

#[derive(Debug, DeserializeRow)]
#[expect(dead_code, reason = "rows are decoded, and that is all")]
struct Owned {
    c0: i32,
    c1: String,
    c2: Vec<u8>,
    c3: i64,
    c4: f64,
    c5: Uuid,
    c6: CqlTimestamp,
    c7: bool,
    c8: String,
    c9: i32,
}
