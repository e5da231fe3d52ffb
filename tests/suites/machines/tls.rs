//! A connection against a TLS server in memory, in virtual time. Here are the helpers; the cases are below.

use std::io::{IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use messina_core::config::session::SessionConfig;
use messina_core::conn::tls::{TlsError, TlsErrorKind, TlsPlan, TlsPlanBuilder};
use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::error::connect::{ConnectCause, ConnectError, ConnectPhase, ConnectionError};
use messina_core::seed::Seed;
use messina_core::wire::{ParamsRef, RequestOptionsRef, RequestRef};
use messina_testkit::certificates::{Authority, Identity};
use messina_testkit::peer::{Reply, ScriptedPeer};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::connection::STEPS_MAX;

mod handshake;
mod records;

/// The authority that signs for most servers here.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);
/// A server's certificate for the address that is dialled.
static SERVER: LazyLock<Identity> = LazyLock::new(|| AUTHORITY.issue(&["192.0.2.1"]));

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A clock that stands still.
#[derive(Debug)]
struct At(Duration);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0))
    }
}

/// Starts a plan that trusts the authority, in the middle of 2026.
fn trusting() -> TlsPlanBuilder {
    in_year(2026).roots_pem(AUTHORITY.pem().as_bytes())
}

fn in_year(year: u64) -> TlsPlanBuilder {
    let days = (year - 1970) * 365 + 200;
    TlsPlan::builder(Arc::new(At(Duration::from_secs(days * 86_400))))
}

fn plan(tls: &TlsPlan) -> ConnectionPlan {
    let mut session = SessionConfig::new(&mut Seed::from_u64(1).random());
    session.encryption = tls.clone().into();
    let address: SocketAddr = ([192, 0, 2, 1], 9042).into();
    ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2))
}

/// A server that shows the usual certificate.
fn server(version: &'static SupportedProtocolVersion) -> Arc<ServerConfig> {
    SERVER.server_config(None, &[version])
}

/// A peer that answers the handshake and then everything.
fn peer() -> ScriptedPeer {
    ScriptedPeer::new()
        .handshake()
        .otherwise(Reply::Bytes(hex_void()))
}

/// A RESULT without rows, version 4.
fn hex_void() -> Vec<u8> {
    vec![0x84, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 1]
}

/// A connection and a server, with a cable between them that a test can cut anywhere.
struct Tunnel {
    conn: Connection,
    server: ServerConnection,
    peer: ScriptedPeer,
    now: Instant,
    outputs: Vec<ConnectionOutput>,
    /// Counts the writes of the client.
    writes: usize,
    /// What the server's TLS found wrong.
    complaint: Option<rustls::Error>,
    heard_goodbye: bool,
}

impl Tunnel {
    fn new(tls: &TlsPlan, server: Arc<ServerConfig>) -> Self {
        Self::with(plan(tls), server, peer())
    }

    fn with(plan: ConnectionPlan, server: Arc<ServerConfig>, peer: ScriptedPeer) -> Self {
        let now = Instant::now();
        Self {
            conn: Connection::new(now, plan),
            server: ServerConnection::new(server).expect("usable settings"),
            peer,
            now,
            outputs: Vec::new(),
            writes: 0,
            complaint: None,
            heard_goodbye: false,
        }
    }

    /// Opens a connection for requests.
    fn open(tls: &TlsPlan, server: Arc<ServerConfig>) -> Self {
        let mut tunnel = Self::new(tls, server);
        tunnel.run();
        assert!(tunnel.conn.is_open(), "{:?}", tunnel.outputs);
        tunnel.outputs.clear();
        tunnel
    }

    fn run(&mut self) {
        self.run_in_pieces(usize::MAX);
    }

    /// Carries bytes both ways until nothing moves, in pieces of this size.
    fn run_in_pieces(&mut self, size: usize) {
        for _ in 0..STEPS_MAX {
            let sent = self.client_says();
            sent.chunks(size.min(sent.len().max(1)))
                .for_each(|piece| self.hear(piece));
            let said = self.server_says();
            self.feed_in_pieces(&said, size);
            if sent.is_empty() && said.is_empty() {
                return;
            }
        }
        panic!("the tunnel does not come to rest");
    }

    /// Takes what the client writes, in one write.
    fn client_says(&mut self) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = self.conn.poll_transmit(&mut slices);
        let sent: Vec<u8> = slices[..count].iter().flat_map(|s| s.to_vec()).collect();
        if !sent.is_empty() {
            self.conn.handle_transmitted(self.now, sent.len());
            self.writes += 1;
        }
        sent
    }

    /// Lets the server read these bytes, and its peer what they decrypt to.
    fn hear(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.complaint.is_none() {
            self.server.read_tls(&mut rest).expect("memory");
            match self.server.process_new_packets() {
                Ok(state) => {
                    self.heard_goodbye |= state.peer_has_closed();
                    let mut plain = vec![0; state.plaintext_bytes_to_read()];
                    self.server.reader().read_exact(&mut plain).expect("there");
                    self.peer.receive(&plain);
                }
                Err(error) => self.complaint = Some(error),
            }
        }
    }

    /// Takes what the server writes.
    fn server_says(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        if !self.server.is_handshaking() {
            // The server's buffer takes no more than this at once.
            for part in self.peer.take().chunks(32 * 1024) {
                self.server.writer().write_all(part).expect("memory");
                while self.server.wants_write() {
                    self.server.write_tls(&mut said).expect("memory");
                }
            }
        }
        while self.server.wants_write() {
            self.server.write_tls(&mut said).expect("memory");
        }
        said
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.feed_in_pieces(bytes, usize::MAX);
    }

    fn feed_in_pieces(&mut self, bytes: &[u8], size: usize) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let window = self.conn.recv_buffer();
            let len = window.len().min(rest.len()).min(size);
            if len == 0 {
                break;
            }
            window[..len].copy_from_slice(&rest[..len]);
            self.conn.handle_received(self.now, len);
            rest = &rest[len..];
        }
        while let Some(output) = self.conn.poll_output() {
            self.outputs.push(output);
        }
    }

    fn submit(&mut self, ticket: u64, text: &str) {
        let request = RequestRef::Query {
            text,
            params: ParamsRef::default(),
        };
        let options = RequestOptionsRef::default();
        self.conn
            .submit(self.now, Ticket(ticket), request, &options, None)
            .expect("an open connection takes requests");
    }

    /// Counts the answers since the last call; anything else is a failure.
    fn answers(&mut self) -> usize {
        let is_answer = |output: &ConnectionOutput| {
            matches!(output, ConnectionOutput::Reply { reply: Ok(_), .. })
        };
        assert!(self.outputs.iter().all(is_answer), "{:?}", self.outputs);
        self.outputs.drain(..).count()
    }

    fn collect(&mut self) {
        self.feed(&[]);
    }

    /// Returns why the connection ended.
    fn end(&self) -> &ConnectionError {
        match self.outputs.last() {
            Some(ConnectionOutput::Closed(error)) => error,
            other => panic!("not closed: {other:?}"),
        }
    }

    /// Returns why the connection never became usable.
    fn failure(&self) -> &ConnectError {
        self.end().as_connect().expect("a failure of connecting")
    }

    fn tls_failure(&self) -> (ConnectPhase, &TlsError) {
        let ConnectError { phase, cause, .. } = self.failure();
        match cause {
            ConnectCause::Tls(error) => (*phase, error),
            other => panic!("not about tls: {other:?}"),
        }
    }
}

#[test]
fn what_is_known_of_the_check_of_host_names_is_told() {
    let told = |plan: &TlsPlan| plan.verifies_host_name();
    let named = trusting().server_name("node1.example").build();
    assert_eq!(told(&named.expect("a plan")), Some(true));
    // What is dialed may be a bare address.
    assert_eq!(told(&trusting().build().expect("a plan")), None);
    let unchecked = trusting().dangerous_accept_any_certificate().build();
    assert_eq!(told(&unchecked.expect("a plan")), Some(false));
}
