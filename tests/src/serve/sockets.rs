//! The thread of a served cluster: readiness in, bytes between sockets and the simulation.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use bytes::{Buf, Bytes};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::proxy::ProxyHeader;
use super::tls::{Heard, TlsServer, TlsStream};
use crate::cluster::{Cluster, ClusterOutput, ConnectionId};
use crate::node::PortKind;

/// Something to do on the thread of the cluster; what it returns is called when the effects are done.
pub(super) type Command = Box<dyn FnOnce(&mut Cluster, Instant) -> Box<dyn FnOnce() + Send> + Send>;

/// The token of the waker.
pub(super) const WAKER: Token = Token(0);

/// How much is read at once.
const READ_LEN: usize = 64 * 1024;
/// How often one connection is read before the others have their turn.
const READS_PER_TURN: usize = 8;
/// Readiness events taken at once.
const EVENTS_LEN: usize = 256;

/// The sockets of all nodes.
pub(super) struct Server {
    poll: Poll,
    cluster: Cluster,
    inbox: Receiver<Command>,
    listeners: BTreeMap<Token, Listener>,
    streams: BTreeMap<Token, Stream>,
    tokens: BTreeMap<ConnectionId, Token>,
    next_token: usize,
    buffer: Vec<u8>,
    tls: Option<TlsServer>,
}

struct Listener {
    node: usize,
    kind: PortKind,
    socket: TcpListener,
}

struct Stream {
    caller: Caller,
    socket: TcpStream,
    tls: Option<TlsStream>,
    /// Bytes that the socket did not take yet.
    waiting: Vec<Bytes>,
    closing: bool,
    eof: bool,
    wants_write: bool,
    /// There may be more to read than one turn allowed.
    readable: bool,
}

/// Who is at the other end.
enum Caller {
    Known(ConnectionId),
    /// A proxy that has still to say for whom it speaks.
    Unnamed {
        node: usize,
        kind: PortKind,
        peer: SocketAddr,
        /// What it has said so far.
        said: Vec<u8>,
    },
}

impl Server {
    pub(super) fn new(
        poll: Poll,
        cluster: Cluster,
        inbox: Receiver<Command>,
        tls: Option<TlsServer>,
    ) -> Self {
        Self {
            poll,
            cluster,
            inbox,
            listeners: BTreeMap::new(),
            streams: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next_token: 1,
            buffer: vec![0; READ_LEN],
            tls,
        }
    }

    pub(super) fn add_listener(
        &mut self,
        node: usize,
        kind: PortKind,
        mut socket: TcpListener,
    ) -> io::Result<()> {
        let token = self.new_token();
        self.poll
            .registry()
            .register(&mut socket, token, Interest::READABLE)?;
        self.listeners
            .insert(token, Listener { node, kind, socket });
        Ok(())
    }

    fn new_token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    /// Serves until the owner is gone.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_LEN);
        // The listeners of the first nodes are there already.
        while self.cluster.poll_output().is_some() {}
        loop {
            let busy = self.streams.values().any(|stream| stream.readable);
            let now = Instant::now();
            let due = self
                .cluster
                .poll_timeout()
                .map(|due| due.saturating_duration_since(now));
            let wait = if busy {
                Some(std::time::Duration::ZERO)
            } else {
                due
            };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
            for event in &events {
                self.note(
                    event.token(),
                    event.is_readable() || event.is_read_closed(),
                    event.is_writable(),
                );
            }
            if !self.turn() {
                return;
            }
        }
    }

    fn note(&mut self, token: Token, readable: bool, writable: bool) {
        if let Some(stream) = self.streams.get_mut(&token) {
            stream.readable |= readable;
            if writable {
                stream.wants_write = true;
            }
        }
        if self.listeners.contains_key(&token) {
            self.accept(token);
        }
    }

    /// One round over everything that may have something to do; false when the owner is gone.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.cluster.handle_timeout(now);
        let ready: Vec<Token> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.readable || stream.wants_write)
            .map(|(token, _)| *token)
            .collect();
        for token in ready {
            self.write(token);
            self.read(token);
        }
        self.drain();
        loop {
            match self.inbox.try_recv() {
                Ok(command) => {
                    let done = command(&mut self.cluster, Instant::now());
                    self.drain();
                    done();
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn accept(&mut self, token: Token) {
        loop {
            let Some(listener) = self.listeners.get(&token) else {
                return;
            };
            let (node, kind) = (listener.node, listener.kind);
            let Ok((socket, peer)) = listener.socket.accept() else {
                return;
            };
            self.adopt(node, kind, socket, peer);
        }
    }

    fn adopt(&mut self, node: usize, kind: PortKind, mut socket: TcpStream, peer: SocketAddr) {
        let caller = if kind.is_proxied() {
            Caller::Unnamed {
                node,
                kind,
                peer,
                said: Vec::new(),
            }
        } else {
            match self.cluster.accept(Instant::now(), node, kind, peer) {
                Some(id) => Caller::Known(id),
                None => return,
            }
        };
        let token = self.new_token();
        // Answers are small and must not wait for each other.
        let _ = socket.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self
            .poll
            .registry()
            .register(&mut socket, token, interest)
            .is_err()
        {
            if let Caller::Known(id) = caller {
                self.cluster.handle_closed(id);
            }
            return;
        }
        if let Caller::Known(id) = caller {
            self.tokens.insert(id, token);
        }
        let stream = Stream {
            caller,
            socket,
            tls: self.tls.as_ref().and_then(TlsServer::accept),
            waiting: Vec::new(),
            closing: false,
            eof: false,
            wants_write: false,
            readable: false,
        };
        self.streams.insert(token, stream);
    }

    fn read(&mut self, token: Token) {
        for _ in 0..READS_PER_TURN {
            let Some(stream) = self.streams.get_mut(&token) else {
                return;
            };
            if !stream.readable || stream.closing || stream.eof {
                stream.readable = false;
                return;
            }
            match (stream.socket.read(&mut self.buffer), &stream.caller) {
                (Ok(0), Caller::Known(id)) => {
                    let id = *id;
                    stream.eof = true;
                    stream.readable = false;
                    self.cluster.handle_eof(Instant::now(), id);
                }
                (Ok(0), Caller::Unnamed { .. }) => {
                    self.forget(token);
                    return;
                }
                (Ok(len), Caller::Known(id)) => {
                    let id = *id;
                    self.hear(token, id, len);
                }
                (Ok(len), Caller::Unnamed { .. }) => self.introduce(token, len),
                (Err(error), _) if error.kind() == ErrorKind::WouldBlock => {
                    stream.readable = false;
                }
                (Err(error), _) if error.kind() == ErrorKind::Interrupted => {}
                (Err(_), _) => {
                    self.forget(token);
                    return;
                }
            }
        }
    }

    /// Takes what is in the buffer as the words of a proxy, and what follows them as those of its client.
    fn introduce(&mut self, token: Token, len: usize) {
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        let Caller::Unnamed {
            node,
            kind,
            peer,
            said,
        } = &mut stream.caller
        else {
            return;
        };
        said.extend_from_slice(self.buffer.get(..len).unwrap_or(&[]));
        let (header_len, client) = match ProxyHeader::read(said) {
            ProxyHeader::Incomplete => return,
            ProxyHeader::Nonsense => return self.forget(token),
            ProxyHeader::Whole { len, client } => (len, client),
        };
        let peer = client.unwrap_or(*peer);
        let Some(id) = self.cluster.accept(Instant::now(), *node, *kind, peer) else {
            return self.forget(token);
        };
        // No more than was read just now follows the header, so the buffer has room for it.
        let rest = said.get(header_len..).unwrap_or(&[]);
        let rest_len = rest.len().min(self.buffer.len());
        for (to, from) in self.buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        stream.caller = Caller::Known(id);
        self.tokens.insert(id, token);
        if 0 < rest_len {
            self.hear(token, id, rest_len);
        }
    }

    /// Hands what is in the buffer to the node, after decrypting it where that is needed.
    fn hear(&mut self, token: Token, id: ConnectionId, len: usize) {
        let bytes = self.buffer.get(..len).unwrap_or(&[]);
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        let Some(tls) = &mut stream.tls else {
            self.cluster.handle_received(Instant::now(), id, bytes);
            return self.drain();
        };
        let mut plain = Vec::new();
        let heard = tls.hear(bytes, &mut plain);
        stream.waiting.extend(tls.take());
        if !plain.is_empty() {
            self.cluster.handle_received(Instant::now(), id, &plain);
            self.drain();
        }
        if let (Heard::End | Heard::Nonsense, Some(stream)) = (heard, self.streams.get_mut(&token))
        {
            stream.closing |= heard == Heard::Nonsense;
            stream.eof = true;
            self.cluster.handle_eof(Instant::now(), id);
        }
        self.write(token);
    }

    /// Does what the cluster asks for.
    fn drain(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                ClusterOutput::Transmit(id) => self.transmit(id, false),
                ClusterOutput::Close(id) => self.transmit(id, true),
                ClusterOutput::Listen(node) => self.listen(node),
                ClusterOutput::Unlisten(node) => {
                    self.listeners.retain(|_, listener| listener.node != node)
                }
            }
        }
    }

    fn transmit(&mut self, id: ConnectionId, close: bool) {
        let Some(token) = self.tokens.get(&id).copied() else {
            return;
        };
        let bytes = self.cluster.poll_transmit(id);
        if let Some(stream) = self.streams.get_mut(&token) {
            match &mut stream.tls {
                None => stream.waiting.extend(bytes),
                Some(tls) => {
                    bytes.iter().for_each(|bytes| tls.say(bytes));
                    if close {
                        tls.say_goodbye();
                    }
                    stream.waiting.extend(tls.take());
                }
            }
            stream.closing |= close;
        }
        self.write(token);
    }

    fn write(&mut self, token: Token) {
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        stream.wants_write = false;
        match write_all(&mut stream.socket, &mut stream.waiting) {
            Ok(true) if stream.closing => {
                // The client must see the end even while it has bytes on the way to us.
                let _ = stream.socket.shutdown(Shutdown::Write);
                self.forget(token);
            }
            Ok(_) => {}
            Err(_) => self.forget(token),
        }
    }

    fn listen(&mut self, node: usize) {
        let Some(address) = self.cluster.address(node) else {
            return;
        };
        for kind in [
            PortKind::Normal,
            PortKind::ShardAware,
            PortKind::Proxied,
            PortKind::ProxiedShardAware,
        ] {
            let Some(port) = self.cluster.port(kind) else {
                continue;
            };
            // Whoever asked for the node finds out by connecting.
            if let Ok(socket) = TcpListener::bind(SocketAddr::new(address.ip(), port)) {
                let _ = self.add_listener(node, kind, socket);
            }
        }
    }

    fn forget(&mut self, token: Token) {
        let Some(mut stream) = self.streams.remove(&token) else {
            return;
        };
        let _ = self.poll.registry().deregister(&mut stream.socket);
        // What the client sent last is read, or closing would destroy what it has not read yet.
        while let Ok(1..) = stream.socket.read(&mut self.buffer) {}
        if let Caller::Known(id) = stream.caller {
            self.tokens.remove(&id);
            self.cluster.handle_closed(id);
        }
    }
}

/// Writes until everything is written or the socket takes no more; true when everything is written.
fn write_all(socket: &mut TcpStream, waiting: &mut Vec<Bytes>) -> io::Result<bool> {
    let mut sent = 0;
    let result = loop {
        let Some(bytes) = waiting.get_mut(sent) else {
            break Ok(true);
        };
        if bytes.is_empty() {
            sent += 1;
            continue;
        }
        match socket.write(bytes) {
            Ok(0) => break Err(ErrorKind::WriteZero.into()),
            Ok(len) => bytes.advance(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    waiting.drain(..sent);
    result
}
