//! The runtime that sessions of a run stand on: tasks of the seeded executor, virtual time, the simulated network.
//! It decides nothing; every effect is the world's.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_io::{AsyncRead, AsyncWrite};
use messina_core::conn::ConnectSpec;
use messina_core::seed::Seed;
use messina_engine::Runtime;

use super::net::LinkId;
use super::world::{Shared, World};

/// A runtime in which nothing happens by chance and no time passes for real.
#[derive(Clone)]
pub struct SimRuntime {
    pub(super) shared: Arc<Shared>,
}

impl SimRuntime {
    /// Looks at the world or changes it.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.shared.world())
    }

    /// Waits.
    pub(super) async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
    }
}

impl fmt::Debug for SimRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimRuntime")
    }
}

impl Runtime for SimRuntime {
    type Stream = SimStream;
    type Sleep = SimSleep;

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.executor.spawn(task);
    }

    fn sleep_until(&self, at: Instant) -> SimSleep {
        let id = self.with(|world| world.new_sleep(at));
        SimSleep {
            shared: Arc::clone(&self.shared),
            id,
        }
    }

    fn reset(sleep: Pin<&mut SimSleep>, at: Instant) {
        sleep.shared.world().reset_sleep(sleep.id, at);
    }

    async fn connect(&self, spec: ConnectSpec) -> io::Result<SimStream> {
        let link = self.with(|world| world.dial(&spec))?;
        let stream = SimStream {
            shared: Arc::clone(&self.shared),
            link,
        };
        std::future::poll_fn(|cx| stream.shared.world().poll_dialled(link, cx.waker())).await?;
        Ok(stream)
    }

    async fn resolve(&self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        let pause = self.with(|world| world.resolving_takes());
        self.sleep(pause).await;
        self.with(|world| world.look_up(&host, port))
    }

    fn current() -> io::Result<Self> {
        // No task knows where it runs, so that no session can start on the wrong one.
        Err(io::ErrorKind::NotFound.into())
    }

    fn now(&self) -> Instant {
        self.with(|world| world.now)
    }

    fn unix_micros(&self) -> i64 {
        self.with(|world| world.unix_micros())
    }

    fn entropy(&self) -> Seed {
        self.with(World::entropy)
    }
}

/// A timer in virtual time.
pub struct SimSleep {
    shared: Arc<Shared>,
    id: u64,
}

impl Future for SimSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.shared.world().poll_sleep(self.id, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        self.shared.world().end_sleep(self.id);
    }
}

impl fmt::Debug for SimSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimSleep").field(&self.id).finish()
    }
}

/// The client's end of a simulated connection.
pub struct SimStream {
    shared: Arc<Shared>,
    link: LinkId,
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.world().poll_read(self.link, cx.waker(), buf)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.world().poll_write(self.link, cx.waker(), buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.world().hang_up(self.link);
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.shared.world().hang_up(self.link);
    }
}

impl fmt::Debug for SimStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimStream").field(&self.link).finish()
    }
}
