//! `Runtime` on tokio. No policy: one attempt, one timer, one look-up at a time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use messina_engine::core::conn::ConnectSpec;
use messina_engine::core::seed::Seed;
use messina_engine::runtime::{Runtime, os_seed};
use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::stream::Stream;

/// The tokio runtime that a session runs on; it needs tokio's IO and time drivers (`enable_all`).
#[derive(Clone, Debug)]
pub struct Tokio {
    handle: Handle,
}

impl Tokio {
    /// Uses the runtime behind a handle instead of the one of the calling task.
    pub fn on(handle: Handle) -> Self {
        Self { handle }
    }
}

impl Runtime for Tokio {
    type Stream = Stream;
    type Sleep = Sleep;

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let _context = self.handle.enter();
        tokio::time::sleep_until(at.into())
    }

    fn reset(sleep: Pin<&mut Sleep>, at: Instant) {
        sleep.reset(at.into());
    }

    async fn connect(&self, spec: ConnectSpec) -> io::Result<Stream> {
        Stream::connect(spec).await
    }

    async fn resolve(&self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    fn current() -> io::Result<Self> {
        Handle::try_current()
            .map(Self::on)
            .map_err(io::Error::other)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn unix_micros(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn entropy(&self) -> Seed {
        os_seed()
    }
}
