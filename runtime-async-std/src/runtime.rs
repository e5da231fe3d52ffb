//! `Runtime` on async-std. No policy: one attempt, one timer, one look-up at a time.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use messina_engine::async_io::{Sleep, Stream};
use messina_engine::core::conn::ConnectSpec;
use messina_engine::core::seed::Seed;
use messina_engine::runtime::{Runtime, os_seed};

/// async-std's global executor, which a session runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Stream = Stream;
    type Sleep = Sleep;

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        async_std::task::spawn(task);
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::until(at)
    }

    fn reset(sleep: Pin<&mut Sleep>, at: Instant) {
        sleep.reset(at);
    }

    async fn connect(&self, spec: ConnectSpec) -> io::Result<Stream> {
        Stream::connect(spec).await
    }

    async fn resolve(&self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        async_std::task::spawn_blocking(move || {
            (host.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect)
        })
        .await
    }

    /// The executor is global, so there is always one.
    fn current() -> io::Result<Self> {
        Ok(Self)
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
