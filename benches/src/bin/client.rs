//! The client of the request-path measurement: a counted or timed loop of one workload against the free peer.
//! It measures only itself: the peer is another process. Prints one JSON line a run.
//!
//! Unsafe code is allowed here for the counting allocator and nothing else.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use messina_benches::{Peer, cpu_nanos};
use messina_tokio::{PreparedStatement, Session};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    Insert,
    Select1,
}

/// Sends a counted number of requests over one session and says what they cost.
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, value_enum, default_value = "insert")]
    workload: Workload,
    /// Requests in flight: one task each.
    #[arg(long, default_value_t = 64)]
    conc: u64,
    /// Requests in all.
    #[arg(long, default_value_t = 9216)]
    ops: u64,
    /// Worker threads; one means a current-thread runtime.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Requests before the measured ones.
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// The address of a peer that runs already; otherwise one is started.
    #[arg(long)]
    peer: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let peer = match &args.peer {
        Some(_) => None,
        None => Some(Peer::start()?),
    };
    let address = match (&args.peer, &peer) {
        (Some(address), _) => address.clone(),
        (None, Some(peer)) => peer.address.clone(),
        (None, None) => return Err("no peer".into()),
    };
    let runtime = if args.workers == 1 {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
    } else {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(args.workers)
            .enable_all()
            .build()?
    };
    runtime.block_on(run(&args, &address))
}

async fn run(args: &Args, address: &str) -> Result<(), Box<dyn Error>> {
    let session = Session::builder()
        .contact_point(address)
        .local_datacenter("dc1")
        .build()
        .await?;
    let text = match args.workload {
        Workload::Insert => "INSERT INTO bench.kv (pk, v, data) VALUES (?, ?, ?)",
        Workload::Select1 => "SELECT pk, v, data FROM bench.kv WHERE pk = ?",
    };
    let statement = Arc::new(session.prepare(text).await?);
    if 0 < args.warmup {
        load(args, args.warmup, &session, &statement).await?;
    }
    let (allocs, bytes) = (
        ALLOCS.load(Ordering::Relaxed),
        BYTES.load(Ordering::Relaxed),
    );
    let (cpu, start) = (cpu_nanos(), Instant::now());
    load(args, args.ops, &session, &statement).await?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = cpu_nanos().saturating_sub(cpu);
    let allocs = ALLOCS.load(Ordering::Relaxed) - allocs;
    let bytes = BYTES.load(Ordering::Relaxed) - bytes;
    let ops = args.ops.max(1);
    println!(
        "{{\"workload\":\"{:?}\",\"conc\":{},\"workers\":{},\"requests\":{ops},\"seconds\":{seconds:.3},\
         \"rate\":{:.0},\"cpu_ns_per_request\":{},\"allocs\":{allocs},\"allocs_per_request\":{:.4},\"bytes_per_request\":{:.1}}}",
        args.workload,
        args.conc,
        args.workers,
        ops as f64 / seconds,
        cpu / ops,
        allocs as f64 / ops as f64,
        bytes as f64 / ops as f64,
    );
    Ok(())
}

async fn load(
    args: &Args,
    ops: u64,
    session: &Session,
    statement: &Arc<PreparedStatement>,
) -> Result<(), Box<dyn Error>> {
    let mut tasks = Vec::new();
    for task in 0..args.conc {
        let share = ops / args.conc + u64::from(task < ops % args.conc);
        let (session, statement, workload) =
            (session.clone(), Arc::clone(statement), args.workload);
        tasks.push(tokio::spawn(async move {
            match workload {
                Workload::Insert => inserts(&session, &statement, task, share).await,
                Workload::Select1 => selects(&session, &statement, task, share).await,
            }
        }));
    }
    for task in tasks {
        task.await?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

async fn inserts(
    session: &Session,
    statement: &PreparedStatement,
    task: u64,
    share: u64,
) -> Outcome {
    for n in 0..share {
        let key = (task << 32 | n) as i64;
        session
            .execute(statement, (key, "sixteen letters.", &[0xab_u8; 16][..]))
            .await?;
    }
    Ok(())
}

async fn selects(
    session: &Session,
    statement: &PreparedStatement,
    task: u64,
    share: u64,
) -> Outcome {
    for n in 0..share {
        let key = (task << 32 | n) as i64;
        let result = session.execute(statement, (key,)).await?;
        for row in result.rows::<(i64, &str, &[u8])>()? {
            std::hint::black_box(row?);
        }
    }
    Ok(())
}

struct Counting;

static ALLOCS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
