//! The server's side of TLS on the sockets of a served cluster. Whom to trust is made by the builder.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use rustls::{ServerConfig, ServerConnection};

use crate::certificates::Authority;

/// How the nodes of a served cluster encrypt their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// The nodes show a certificate.
    Server,
    /// The nodes show a certificate and let only those in that show one of the same authority.
    Mutual,
}

/// Makes the encryption of each connection.
#[derive(Clone, Debug)]
pub(super) struct TlsServer {
    pub(super) authority: Arc<Authority>,
    config: Arc<ServerConfig>,
}

/// The encryption of one connection.
pub(super) struct TlsStream {
    connection: Box<ServerConnection>,
}

/// What became of bytes that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// All is well.
    More,
    /// The client says that nothing more comes.
    End,
    /// The client does not keep to the protocol.
    Nonsense,
}

impl TlsServer {
    /// Makes an authority and a certificate for `localhost` and every address that a node can have.
    pub(super) fn new(tls: Tls) -> Self {
        let authority = Authority::new();
        let addresses: Vec<_> = (1..=254).map(|node| format!("127.0.0.{node}")).collect();
        let mut names: Vec<_> = addresses.iter().map(String::as_str).collect();
        names.push("localhost");
        let identity = authority.issue(&names);
        let clients = (tls == Tls::Mutual).then_some(&authority);
        Self {
            config: identity.server_config(clients, rustls::ALL_VERSIONS),
            authority: Arc::new(authority),
        }
    }

    /// Begins a connection; `None` when the settings do not allow one.
    pub(super) fn accept(&self) -> Option<TlsStream> {
        let mut connection = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        // Answers are bounded by what clients ask for.
        connection.set_buffer_limit(None);
        Some(TlsStream {
            connection: Box::new(connection),
        })
    }
}

impl TlsStream {
    /// Decrypts what arrived to the end of `plain`.
    pub(super) fn hear(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Heard {
        let mut rest = bytes;
        while !rest.is_empty() {
            if !matches!(self.connection.read_tls(&mut rest), Ok(1..)) {
                return Heard::Nonsense;
            }
            let Ok(state) = self.connection.process_new_packets() else {
                return Heard::Nonsense;
            };
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            let room = plain.get_mut(start..).unwrap_or_default();
            if self.connection.reader().read_exact(room).is_err() {
                return Heard::Nonsense;
            }
            if state.peer_has_closed() {
                return Heard::End;
            }
        }
        Heard::More
    }

    /// Encrypts what a node says.
    pub(super) fn say(&mut self, plain: &[u8]) {
        // The buffer has no limit, so it takes everything.
        let _ = self.connection.writer().write_all(plain);
    }

    /// Says that nothing more comes.
    pub(super) fn say_goodbye(&mut self) {
        self.connection.send_close_notify();
    }

    /// Takes what is to be written to the socket.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut out).is_err() {
                break;
            }
        }
        (!out.is_empty()).then(|| out.into())
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}
