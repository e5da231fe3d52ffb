//! The stream and the timer that smol and async-std share: both run on the `async-io` reactor.
//! Spawning and name resolution stay in the adapters.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ::async_io::{Async, Timer};
use futures_io::{AsyncRead, AsyncWrite};
use messina_core::conn::ConnectSpec;

use crate::net::{self, Started};

/// A connected socket registered with the `async-io` reactor.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// Set by a short read: the socket is empty, so the next read waits for readiness
    /// instead of asking the system in vain.
    drained: bool,
}

#[derive(Debug)]
enum Socket {
    Tcp(Async<TcpStream>),
    #[cfg(unix)]
    Unix(Async<UnixStream>),
}

impl Stream {
    /// Makes one attempt to connect.
    pub async fn connect(spec: ConnectSpec) -> io::Result<Self> {
        let socket = match net::start_connect(&spec)? {
            Started::Tcp(tcp) => {
                let tcp = Async::new_nonblocking(tcp)?;
                tcp.writable().await?;
                net::finish_connect(tcp.get_ref())?;
                Socket::Tcp(tcp)
            }
            #[cfg(unix)]
            Started::Unix(unix) => {
                let unix = Async::new_nonblocking(unix)?;
                unix.writable().await?;
                net::finish_connect(unix.get_ref())?;
                Socket::Unix(unix)
            }
        };
        Ok(Self {
            socket,
            drained: false,
        })
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.drained {
            match &self.socket {
                Socket::Tcp(tcp) => ready!(tcp.poll_readable(cx))?,
                #[cfg(unix)]
                Socket::Unix(unix) => ready!(unix.poll_readable(cx))?,
            }
            self.drained = false;
        }
        let room = buf.len();
        let read = match &mut self.socket {
            Socket::Tcp(tcp) => ready!(Pin::new(tcp).poll_read(cx, buf))?,
            #[cfg(unix)]
            Socket::Unix(unix) => ready!(Pin::new(unix).poll_read(cx, buf))?,
        };
        self.drained = 0 < read && read < room;
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_write(cx, buf),
            #[cfg(unix)]
            Socket::Unix(unix) => Pin::new(unix).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            #[cfg(unix)]
            Socket::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_close(cx),
            #[cfg(unix)]
            Socket::Unix(unix) => Pin::new(unix).poll_close(cx),
        }
    }
}

/// A timer of the `async-io` reactor.
#[derive(Debug)]
pub struct Sleep(Timer);

impl Sleep {
    /// Makes a timer that completes at `at`.
    pub fn until(at: Instant) -> Self {
        Self(Timer::at(at))
    }

    /// Arms the timer again.
    pub fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.set_at(at);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}
