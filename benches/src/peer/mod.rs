//! A peer that costs nothing: one thread, nine bytes of each request looked at, canned answers copied or sent from where
//! they lie. It pretends nodes and shards, and knows just enough of the protocol for drivers to connect; all else is left
//! out on purpose.

mod canned;
mod client;
mod system;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use messina_core::conn::tls::rustls::{self, ServerConfig};
use messina_core::wire::{Envelope, ProtocolFeatures, Response};
use messina_testkit::certificates::Authority;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use self::canned::Canned;
pub(crate) use self::canned::{select1_frame, wide_cells};
use self::client::Client;

/// What the peer pretends to be.
#[derive(Args, Clone, Debug)]
pub struct PeerArgs {
    /// The port of every node; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// How many nodes there are: 127.0.0.1, 127.0.0.2 and so on.
    #[arg(long, default_value_t = 1)]
    pub nodes: u16,
    /// How many shards each node has; 0 for a server without shards.
    #[arg(long, default_value_t = 0)]
    pub shards: u16,
    /// How many tokens each node owns.
    #[arg(long, default_value_t = 1)]
    pub tokens: u16,
    /// Encrypts, and writes the certificate to trust to this file, in PEM.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// What all clients of the peer see.
pub(crate) struct World {
    pub(crate) nodes: u16,
    pub(crate) shards: u16,
    pub(crate) tokens: u16,
    pub(crate) port: u16,
    pub(crate) shard_port: u16,
    pub(crate) canned: Vec<Canned>,
    tls: Option<Arc<ServerConfig>>,
}

impl World {
    pub(crate) fn address(&self, node: u16) -> Ipv4Addr {
        address(node)
    }
}

/// Appends an answer as a frame.
fn frame(answer: Response, out: &mut Vec<u8>, features: &ProtocolFeatures, stream: i16) {
    Envelope::from(answer)
        .encode(out, features, stream)
        .expect("what the peer tells fits its length fields");
}

/// The address of a node: 250 of them to each network of 127.
fn address(node: u16) -> Ipv4Addr {
    let [high, low] = (node / 250).to_be_bytes();
    Ipv4Addr::new(127, high, low, (node % 250) as u8 + 1)
}

/// Serves until the process is killed; prints `listening ADDRESS` once clients can come.
///
/// # Errors
///
/// No port that is free on all addresses was found, or the system refuses to wait for sockets.
pub fn serve(args: &PeerArgs) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let (port, mut listeners) = listen_everywhere(args.port, args.nodes)?;
    let (shard_port, by_shard) = match args.shards {
        0 => (0, Vec::new()),
        _ => listen_everywhere(0, args.nodes)?,
    };
    let regular = listeners.len();
    listeners.extend(by_shard);
    for (index, listener) in listeners.iter_mut().enumerate() {
        poll.registry()
            .register(listener, Token(index), Interest::READABLE)?;
    }
    let tls = args.ca_file.as_ref().map(|file| {
        let authority = Authority::new();
        std::fs::write(file, authority.pem())?;
        let names = ["127.0.0.1", "localhost"];
        let config = authority
            .issue(&names)
            .server_config(None, &[&rustls::version::TLS13]);
        Ok::<_, io::Error>(config)
    });
    let world = World {
        nodes: args.nodes,
        shards: args.shards,
        tokens: args.tokens,
        port,
        shard_port,
        canned: canned::all(),
        tls: tls.transpose()?,
    };
    println!("listening {}:{port}", address(0));
    let mut peer = Peer {
        world,
        regular,
        clients: HashMap::new(),
        next: listeners.len(),
        chunk: vec![0; READ_CHUNK],
    };
    let mut events = Events::with_capacity(1024);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            let Token(index) = event.token();
            match listeners.get(index) {
                Some(listener) => peer.accept(&poll, listener, index)?,
                None => peer.turn(index),
            }
        }
    }
}

fn listen_everywhere(port: u16, nodes: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    let mut last = None;
    for _ in 0..PORTS_TRIED {
        let first = TcpListener::bind(SocketAddr::from((address(0), port)))?;
        let found = first.local_addr()?.port();
        let rest =
            (1..nodes).map(|node| TcpListener::bind(SocketAddr::from((address(node), found))));
        match std::iter::once(Ok(first)).chain(rest).collect() {
            Ok(all) => return Ok((found, all)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

struct Peer {
    world: World,
    /// How many of the listeners are regular ports; the others are those where the client's port chooses the shard.
    regular: usize,
    clients: HashMap<usize, Client>,
    next: usize,
    chunk: Vec<u8>,
}

impl Peer {
    fn accept(&mut self, poll: &Poll, listener: &TcpListener, index: usize) -> io::Result<()> {
        while let Ok((mut stream, from)) = listener.accept() {
            let token = self.next;
            self.next += 1;
            stream.set_nodelay(true)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut stream, Token(token), interest)?;
            let shard = match (self.world.shards, index < self.regular) {
                (0, _) => 0,
                (shards, false) => from.port() % shards,
                (shards, true) => (token % usize::from(shards)) as u16,
            };
            let node = (index % self.regular) as u16;
            let client = Client::new(stream, node, shard, self.world.tls.clone())?;
            self.clients.insert(token, client);
        }
        Ok(())
    }

    fn turn(&mut self, token: usize) {
        if let Some(client) = self.clients.get_mut(&token)
            && client.turn(&self.world, &mut self.chunk).is_err()
        {
            self.clients.remove(&token);
        }
    }
}

const READ_CHUNK: usize = 256 * 1024;
/// How many free ports are tried until one is free on every address.
const PORTS_TRIED: u32 = 16;
