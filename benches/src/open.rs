//! The open loop: each millisecond so many requests fall due at once, and their latency counts from then. A thread of
//! its own tells the time, because runtimes round up to whole milliseconds.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::workload::Span;

/// Latencies of requests, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    sorted: Vec<u64>,
}

impl Latencies {
    /// Sorts latencies in nanoseconds.
    pub(crate) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        Self { sorted: all }
    }

    /// Counts them.
    pub fn count(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Returns the latency in microseconds that so many thousandths of the requests do not exceed.
    pub fn micros_at(&self, thousandths: usize) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let at = (self.sorted.len() * thousandths / 1000).min(last);
        self.sorted.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }
}

/// How many requests fall due in a millisecond.
pub(crate) fn each_tick(rate: u64) -> u64 {
    (rate / 1000).max(1)
}

/// How many milliseconds a span takes.
pub(crate) fn ticks(span: Span, each: u64) -> Result<u64, BenchError> {
    Ok(match span {
        Span::Requests(all) => all / each,
        Span::Time(time) => u64::try_from(time.as_millis())?,
    })
}

/// A task for a runtime to run.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs an open loop of `rate` requests a second and waits for the answers.
///
/// # Errors
///
/// The error of a request that failed.
pub async fn run<F, W>(
    span: Span,
    rate: u64,
    spawn: impl Fn(Task),
    one: F,
) -> Result<Latencies, BenchError>
where
    F: Fn(u64) -> W,
    W: Future<Output = Result<(), BenchError>> + Send + 'static,
{
    let each = each_tick(rate);
    let ticks = ticks(span, each)?;
    let clock = Arc::new(Clock::default());
    let start = Instant::now();
    let ticker = Arc::clone(&clock);
    thread::spawn(move || ticker.tick(start, ticks));
    let results = Arc::new(Results::default());
    let mut seen = 0;
    while seen < ticks {
        let now = clock.after(seen).await;
        for tick in seen..now {
            let due = start + Duration::from_millis(tick + 1);
            for n in 0..each {
                let work = one(tick * each + n);
                let results = Arc::clone(&results);
                spawn(Box::pin(async move {
                    let result = work.await;
                    results.put(result.map(|()| due.elapsed()));
                }));
            }
        }
        seen = now;
    }
    results.all(ticks * each).await
}

/// Milliseconds that have passed, and who waits for the next one.
#[derive(Default)]
struct Clock {
    ticks: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Clock {
    fn tick(&self, start: Instant, ticks: u64) {
        for tick in 1..=ticks {
            let at = start + Duration::from_millis(tick);
            thread::sleep(at.saturating_duration_since(Instant::now()));
            self.ticks.store(tick, Ordering::Release);
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = { waker }.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    async fn after(&self, seen: u64) -> u64 {
        poll_fn(|cx| {
            let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            match self.ticks.load(Ordering::Acquire) {
                ticks if seen < ticks => Poll::Ready(ticks),
                _ => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[derive(Default)]
struct Results {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    nanos: Vec<u64>,
    failed: Option<BenchError>,
    over: u64,
    waker: Option<Waker>,
}

impl Results {
    fn put(&self, result: Result<Duration, BenchError>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.over += 1;
        match result {
            Ok(took) => inner.nanos.push(took.as_nanos() as u64),
            Err(error) => inner.failed = Some(error),
        }
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn all(&self, count: u64) -> Result<Latencies, BenchError> {
        poll_fn(|cx| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if inner.over < count {
                inner.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let nanos = std::mem::take(&mut inner.nanos);
            Poll::Ready(inner.failed.take().map_or(Ok(Latencies::of(nanos)), Err))
        })
        .await
    }
}
