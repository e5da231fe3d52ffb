//! Builds, binds and starts connecting sockets, once for all adapters; an adapter only awaits readiness.
//! Decides nothing: address, source port and options come from the core.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;

use messina_core::config::connection::SocketOptions;
use messina_core::conn::{Address, ConnectSpec};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

/// A non-blocking socket whose connection attempt has begun.
///
/// It becomes writable when the attempt is over; [`finish_connect`] then tells how it went.
#[derive(Debug)]
#[non_exhaustive]
pub enum Started {
    /// A TCP socket.
    Tcp(TcpStream),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Makes a socket, binds it when the core names a source, and starts to connect without blocking.
pub fn start_connect(spec: &ConnectSpec) -> io::Result<Started> {
    match &spec.address {
        Address::Tcp(address) => start_tcp(*address, spec).map(Started::Tcp),
        #[cfg(unix)]
        Address::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            connect(&socket, &SockAddr::unix(path)?)?;
            Ok(Started::Unix(socket.into()))
        }
        #[allow(
            unreachable_patterns,
            reason = "the address kinds depend on the platform"
        )]
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Tells how a connection attempt ended, once its socket has become writable.
pub fn finish_connect<'a, S>(socket: &'a S) -> io::Result<()>
where
    SockRef<'a>: From<&'a S>,
{
    match SockRef::from(socket).take_error()? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn start_tcp(address: SocketAddr, spec: &ConnectSpec) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    set_options(&socket, &spec.socket)?;
    if let Some(source) = source_address(address, spec) {
        // A source port is bound for one peer only, so an old connection of ours in TIME_WAIT is no obstacle.
        #[cfg(not(windows))]
        if source.port() != 0 {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&source.into())?;
    }
    connect(&socket, &address.into())?;
    Ok(socket.into())
}

fn source_address(peer: SocketAddr, spec: &ConnectSpec) -> Option<SocketAddr> {
    if spec.local_ip.is_none() && spec.source_port.is_none() {
        return None;
    }
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Some(SocketAddr::new(
        spec.local_ip.unwrap_or(any),
        spec.source_port.unwrap_or(0),
    ))
}

fn set_options(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(idle) = options.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))?;
    }
    if let Some(bytes) = options.recv_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if options.reuse_address {
        socket.set_reuse_address(true)?;
    }
    if let Some(linger) = options.linger {
        socket.set_linger(Some(linger.min(LINGER_MAX)))?;
    }
    Ok(())
}

/// The longest that systems with 16 bits for it can hold.
const LINGER_MAX: std::time::Duration = std::time::Duration::from_secs(65_535);

fn connect(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        Err(error) if is_in_progress(&error) => Ok(()),
        other => other,
    }
}

#[cfg(unix)]
fn is_in_progress(error: &io::Error) -> bool {
    // "Would block" means in progress for TCP on some systems, but a full queue for a Unix socket.
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

#[cfg(not(unix))]
fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
