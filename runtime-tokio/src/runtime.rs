//! `Runtime` on tokio. No policy: one attempt, one timer, one look-up at a time.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Says whether something ends without a panic: tokio has no other way to tell which of its drivers are there.
fn works(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

fn lacking(driver: &str) -> io::Error {
    io::Error::other(format!(
        "the tokio runtime has no {driver}: build it with `enable_all`"
    ))
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

    fn check(&self) -> io::Result<()> {
        let _context = self.handle.enter();
        if !works(|| drop(tokio::time::sleep(Duration::ZERO))) {
            return Err(lacking("time driver"));
        }
        // Where not even the loopback address can be bound, nothing is learnt about the driver.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        let registers = |socket| works(|| drop(tokio::net::UdpSocket::from_std(socket)));
        if !socket.map_or(true, registers) {
            return Err(lacking("IO driver"));
        }
        Ok(())
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
