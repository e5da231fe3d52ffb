//! The driver under load: the same loops on each runtime, one task for each request in flight.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use messina_engine::api::{FromRow, PreparedStatement, ProtocolVersion, Timestamp};
use messina_engine::core::uuid::Uuid;
use messina_engine::{Runtime, Session, tls};

use crate::BenchError;
use crate::books::{Measured, Window};
use crate::open;
use crate::workload::{BLOB, LARGE, OVER, Span, TEXT, Workload, more};

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub workload: Workload,
    /// Requests in flight.
    pub in_flight: u64,
    /// What is done before the books open.
    pub warmup: Span,
    /// What is measured.
    pub span: Span,
    /// Requests that fall due each second, for an open loop.
    pub rate: Option<u64>,
    /// Speaks version 5 instead of 4.
    pub v5: bool,
    /// Encrypts, and trusts the certificate in this file.
    pub ca_file: Option<PathBuf>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the window cost.
    pub measured: Measured,
    /// How many connections for requests were open.
    pub connections: usize,
    /// Latencies of an open loop.
    pub latencies: Option<open::Latencies>,
}

/// Connects on the runtime of the calling task and runs the plan.
///
/// # Errors
///
/// The session could not be made, or a request failed.
pub async fn run<R: Runtime>(address: &str, plan: &Plan) -> Result<Outcome, BenchError> {
    let version = match plan.v5 {
        true => ProtocolVersion::V5,
        false => ProtocolVersion::V4,
    };
    let mut builder = Session::<R>::builder()
        .contact_point(address)
        .local_datacenter("dc1")
        .protocol_version(version)
        .ready(messina_engine::api::ReadinessRule::EveryShard);
    if let Some(file) = &plan.ca_file {
        builder = builder.tls(tls::plan().roots_pem(&std::fs::read(file)?).build()?);
    }
    let session = builder.build().await?;
    let statement = Arc::new(session.prepare(plan.workload.statement()).await?);
    let load = Load {
        session,
        statement,
        workload: plan.workload,
        blob: Bytes::from(vec![0xab; LARGE]),
    };
    let runtime = R::current()?;
    if !plan.warmup.is_empty() {
        closed(&runtime, &load, plan.warmup, plan.in_flight).await?;
    }
    let window = Window::open();
    let (requests, latencies) = match plan.rate {
        None => (
            closed(&runtime, &load, plan.span, plan.in_flight).await?,
            None,
        ),
        Some(rate) => {
            let spawn = |task| runtime.spawn(task);
            let one = |n| {
                let load = load.clone();
                async move { load.one(n as i64).await }
            };
            let latencies = open::run(plan.span, rate, spawn, one).await?;
            (latencies.count(), Some(latencies))
        }
    };
    Ok(Outcome {
        measured: window.close(requests),
        connections: load.session.metrics().connections,
        latencies,
    })
}

/// Runs tasks that each send their next request when the last one was answered; returns how many were answered.
async fn closed<R: Runtime>(
    runtime: &R,
    load: &Load<R>,
    span: Span,
    in_flight: u64,
) -> Result<u64, BenchError> {
    span.ring(&OVER);
    let crew = Crew::default();
    for task in 0..in_flight {
        let (load, share) = (load.clone(), span.share(task, in_flight));
        crew.send_out(runtime, async move { load.many(task, share).await });
    }
    crew.home().await
}

/// What the tasks share.
struct Load<R: Runtime> {
    session: Session<R>,
    statement: Arc<PreparedStatement>,
    workload: Workload,
    blob: Bytes,
}

impl<R: Runtime> Clone for Load<R> {
    fn clone(&self) -> Self {
        Self {
            session: self.session.clone(),
            statement: Arc::clone(&self.statement),
            workload: self.workload,
            blob: self.blob.clone(),
        }
    }
}

impl<R: Runtime> Load<R> {
    async fn many(&self, task: u64, share: u64) -> Result<u64, BenchError> {
        let mut done = 0;
        let first = (task << 32) as i64;
        // Each workload has its loop, so that none pays for the others' futures.
        match self.workload {
            Workload::Insert => {
                while more(done, share) {
                    self.insert(first + done as i64).await?;
                    done += 1;
                }
            }
            Workload::Select1 => {
                while more(done, share) {
                    self.select(first + done as i64).await?;
                    done += 1;
                }
            }
            _ => {
                while more(done, share) {
                    self.one(first + done as i64).await?;
                    done += 1;
                }
            }
        }
        Ok(done)
    }

    async fn one(&self, key: i64) -> Result<(), BenchError> {
        match self.workload {
            Workload::Insert => self.insert(key).await,
            Workload::Select1 => self.select(key).await,
            Workload::PageBorrowed => self.page(key).await,
            Workload::PageOwned => self.page_owned(key).await,
            Workload::BlobGet => self.blob_get(key).await,
            Workload::BlobPut => self.blob_put(key).await,
        }
    }

    async fn insert(&self, key: i64) -> Result<(), BenchError> {
        let values = (key, TEXT, &BLOB[..]);
        self.session.execute(&*self.statement, values).await?;
        Ok(())
    }

    async fn select(&self, key: i64) -> Result<(), BenchError> {
        let result = self.session.execute(&*self.statement, (key,)).await?;
        for row in result.rows::<(i64, &str, &[u8])>()? {
            black_box(row?);
        }
        Ok(())
    }

    async fn page(&self, key: i64) -> Result<(), BenchError> {
        let result = self.session.execute(&*self.statement, (key,)).await?;
        for row in result.rows::<Borrowed<'_>>()? {
            black_box(row?);
        }
        Ok(())
    }

    async fn page_owned(&self, key: i64) -> Result<(), BenchError> {
        let result = self.session.execute(&*self.statement, (key,)).await?;
        for row in result.rows::<Owned>()? {
            black_box(row?);
        }
        Ok(())
    }

    async fn blob_get(&self, key: i64) -> Result<(), BenchError> {
        let result = self.session.execute(&*self.statement, (key,)).await?;
        for row in result.rows::<(i64, &[u8])>()? {
            black_box(row?);
        }
        Ok(())
    }

    async fn blob_put(&self, key: i64) -> Result<(), BenchError> {
        let values = (key, self.blob.clone());
        self.session.execute(&*self.statement, values).await?;
        Ok(())
    }
}

/// A row of the wide table that borrows from the answer.
#[derive(Debug, FromRow)]
#[expect(dead_code, reason = "rows are decoded, and that is all")]
pub(crate) struct Borrowed<'r> {
    c0: i32,
    c1: &'r str,
    c2: &'r [u8],
    c3: i64,
    c4: f64,
    c5: Uuid,
    c6: Timestamp,
    c7: bool,
    c8: &'r str,
    c9: i32,
}

/// The same row with everything of its own.
#[derive(Debug, FromRow)]
#[expect(dead_code, reason = "rows are decoded, and that is all")]
pub(crate) struct Owned {
    c0: i32,
    c1: String,
    c2: Vec<u8>,
    c3: i64,
    c4: f64,
    c5: Uuid,
    c6: Timestamp,
    c7: bool,
    c8: String,
    c9: i32,
}

/// Tasks whose end somebody waits for, on any runtime.
#[derive(Clone, Default)]
pub struct Crew {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    out: AtomicUsize,
    ended: Mutex<Ended>,
}

#[derive(Default)]
struct Ended {
    done: u64,
    failed: Option<BenchError>,
    waker: Option<Waker>,
}

impl Crew {
    /// Starts a task that tells at its end how much it has done.
    pub fn send_out<R: Runtime>(
        &self,
        runtime: &R,
        work: impl Future<Output = Result<u64, BenchError>> + Send + 'static,
    ) {
        self.shared.out.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            let result = work.await;
            let mut ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(done) => ended.done += done,
                Err(error) => ended.failed = Some(error),
            }
            let waker = match shared.out.fetch_sub(1, Ordering::Relaxed) {
                1 => ended.waker.take(),
                _ => None,
            };
            drop(ended);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
    }

    /// Waits until all tasks are over and returns what they have done together.
    ///
    /// # Errors
    ///
    /// The last error of a task that failed.
    pub async fn home(self) -> Result<u64, BenchError> {
        poll_fn(|cx| {
            let mut ended = self
                .shared
                .ended
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if 0 < self.shared.out.load(Ordering::Relaxed) {
                ended.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(ended.failed.take().map_or(Ok(ended.done), Err))
        })
        .await
    }
}
