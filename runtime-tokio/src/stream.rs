//! Tokio's sockets behind the byte-stream traits of the engine.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use messina_engine::core::conn::ConnectSpec;
use messina_engine::net::{self, Started};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// A connected tokio socket.
#[derive(Debug)]
pub struct Stream(Socket);

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    /// Makes one attempt to connect.
    pub(crate) async fn connect(spec: ConnectSpec) -> io::Result<Self> {
        match net::start_connect(&spec)? {
            Started::Tcp(tcp) => {
                let tcp = TcpStream::from_std(tcp)?;
                tcp.writable().await?;
                net::finish_connect(&tcp)?;
                Ok(Self(Socket::Tcp(tcp)))
            }
            #[cfg(unix)]
            Started::Unix(unix) => {
                let unix = UnixStream::from_std(unix)?;
                unix.writable().await?;
                net::finish_connect(&unix)?;
                Ok(Self(Socket::Unix(unix)))
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        match &mut self.0 {
            Socket::Tcp(tcp) => ready!(Pin::new(tcp).poll_read(cx, &mut buf))?,
            #[cfg(unix)]
            Socket::Unix(unix) => ready!(Pin::new(unix).poll_read(cx, &mut buf))?,
        }
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
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
        match &mut self.0 {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            #[cfg(unix)]
            Socket::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Socket::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            #[cfg(unix)]
            Socket::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
        }
    }
}
