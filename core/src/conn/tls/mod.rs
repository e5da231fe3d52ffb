//! Owns the encryption of one connection: ciphertext in, plaintext out, and the reverse, over rustls' unbuffered client.
//! Leaves out sockets, clocks (the plan carries a time provider) and everything above: frames know nothing of records.

mod error;
mod plan;

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};

pub use rustls;

pub use self::error::{TlsError, TlsErrorKind};
pub use self::plan::{ServerNameRule, TlsConfigError, TlsPlan, TlsPlanBuilder};
use crate::conn::ConnectionPlan;
use crate::conn::layers::Progress;
use crate::conn::recv::RecvBuffer;

/// Is the state of encryption of one connection. What it has to send goes to the end of a buffer of its owner.
pub(crate) struct TlsLayer {
    session: UnbufferedClientConnection,
    /// Holds ciphertext: what is before `start` was digested, what is before `filled` arrived.
    incoming: Vec<u8>,
    start: usize,
    filled: usize,
    /// Is how large the buffer is to be; doubles when a read filled all there was.
    size: usize,
    open: bool,
    heard: bool,
    /// Says that this side sends nothing any more.
    over: bool,
}

impl fmt::Debug for TlsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayer")
            .field("open", &self.open)
            .field("heard", &self.heard)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl TlsLayer {
    /// Starts a handshake: its first flight is in `out` then.
    pub(crate) fn new(
        tls: &TlsPlan,
        plan: &ConnectionPlan,
        out: &mut Vec<u8>,
    ) -> Result<Self, TlsError> {
        let name = tls.server_name(plan)?;
        let session = UnbufferedClientConnection::new(Arc::clone(tls.config()), name)
            .map_err(|error| TlsError::new(&error, true))?;
        let mut layer = Self {
            session,
            incoming: Vec::new(),
            start: 0,
            filled: 0,
            size: SIZE_MIN,
            open: false,
            heard: false,
            over: false,
        };
        // Nothing can have arrived.
        layer.read(&mut RecvBuffer::new(), out)?;
        Ok(layer)
    }

    /// Tells whether plaintext can be sealed: the handshake is over.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// Tells whether any plaintext arrived: only then is it certain that the server is content with the handshake.
    pub(crate) const fn has_heard(&self) -> bool {
        self.heard
    }

    /// Returns room for ciphertext; never empty.
    pub(crate) fn window(&mut self) -> &mut [u8] {
        let missing = record_len(self.pending()).saturating_sub(self.filled - self.start);
        let room = (self.size / 4).max(missing);
        if self.incoming.len() - self.filled < room {
            self.incoming.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
            let len = self.size.max(self.filled + room);
            if self.incoming.len() < len {
                self.incoming.resize(len, 0);
            }
        }
        self.incoming.get_mut(self.filled..).unwrap_or_default()
    }

    /// Takes note of ciphertext that arrived in the window.
    pub(crate) fn received(&mut self, len: usize) {
        let room = self.incoming.len() - self.filled;
        self.filled += len.min(room);
        if room <= len && self.size < SIZE_MAX {
            self.size *= 2;
        }
    }

    /// Digests what arrived until something is worth telling; plaintext goes to `plain`.
    pub(crate) fn read(
        &mut self,
        plain: &mut RecvBuffer,
        out: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        loop {
            let pending = self.incoming.get_mut(self.start..self.filled);
            let UnbufferedStatus {
                mut discard, state, ..
            } = self
                .session
                .process_tls_records(pending.unwrap_or_default());
            let progress = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| TlsError::new(&error, false))?;
                        discard += record.discard;
                        plain.feed(record.payload);
                    }
                    self.heard = true;
                    Some(Progress::Plain)
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, out)?;
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(_)) if !self.open => {
                    self.open = true;
                    Some(Progress::Opened)
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    Some(Progress::PeerClosed)
                }
                // A client has no early data to read.
                Ok(_) => Some(Progress::Waiting),
                Err(error) => {
                    self.digest(discard);
                    self.explain(out);
                    return Err(TlsError::new(&error, !self.open));
                }
            };
            self.digest(discard);
            if let Some(progress) = progress {
                return self.within_bounds(progress);
            }
        }
    }

    /// Encrypts plaintext into records at the end of `out`.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        // Whole records were digested when they came, so the state is the writing one, but for a key update or an
        // alert that goes out first.
        for _ in 0..ROUNDS_MAX {
            let pending = self.incoming.get_mut(self.start..self.filled);
            let UnbufferedStatus { discard, state, .. } = self
                .session
                .process_tls_records(pending.unwrap_or_default());
            let mut done = false;
            match state.map_err(|error| TlsError::new(&error, false))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let records = plain.len() / PLAIN_MAX + 1;
                    let guess = plain.len() + records * RECORD_OVERHEAD;
                    append(out, guess, |room| match traffic.encrypt(plain, room) {
                        Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                        result => result.map_err(|_| None),
                    })
                    .map_err(|()| TlsError::exhausted())?;
                    done = true;
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, out)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                _ => return Err(TlsError::not_open()),
            }
            self.digest(discard);
            if done {
                return Ok(());
            }
        }
        Err(TlsError::not_open())
    }

    /// Tells the peer that nothing more will come.
    pub(crate) fn close_notify(&mut self, out: &mut Vec<u8>) {
        if self.over || !self.open {
            return;
        }
        self.over = true;
        for _ in 0..ROUNDS_MAX {
            let pending = self.incoming.get_mut(self.start..self.filled);
            let UnbufferedStatus { discard, state, .. } = self
                .session
                .process_tls_records(pending.unwrap_or_default());
            let mut done = false;
            match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    // Without it the peer sees an end of stream, as it would after a crash.
                    let _ = append(out, RECORD_OVERHEAD, |room| {
                        match traffic.queue_close_notify(room) {
                            Err(EncryptError::InsufficientSize(size)) => {
                                Err(Some(size.required_size))
                            }
                            result => result.map_err(|_| None),
                        }
                    });
                    done = true;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    done = encode(&mut data, out).is_err()
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // What the peer still says is not read any more.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while traffic.next_record().is_some() {}
                }
                Ok(ConnectionState::PeerClosed) => (),
                _ => done = true,
            }
            self.digest(discard);
            if done {
                return;
            }
        }
    }

    /// Gives back memory that holds nothing.
    pub(crate) fn shrink(&mut self) {
        if self.start == self.filled {
            self.incoming = Vec::new();
            self.start = 0;
            self.filled = 0;
            self.size = SIZE_MIN;
        }
    }

    fn pending(&self) -> &[u8] {
        self.incoming
            .get(self.start..self.filled)
            .unwrap_or_default()
    }

    fn digest(&mut self, discard: usize) {
        self.start = (self.start + discard).min(self.filled);
        if self.start == self.filled {
            self.start = 0;
            self.filled = 0;
        }
    }

    /// Refuses to hold more than a handshake message may have.
    fn within_bounds(&self, progress: Progress) -> Result<Progress, TlsError> {
        let pending = self.filled - self.start;
        if progress == Progress::Waiting && PENDING_MAX < pending {
            return Err(TlsError::too_large(pending));
        }
        Ok(progress)
    }

    /// Puts the alert that explains a failure, if there is one, to the end of `out`.
    fn explain(&mut self, out: &mut Vec<u8>) {
        self.over = true;
        // Only what is queued is asked for: bytes that failed once must not be looked at again.
        while self.session.wants_write() {
            let pending = self.incoming.get_mut(self.start..self.filled);
            let UnbufferedStatus { discard, state, .. } = self
                .session
                .process_tls_records(pending.unwrap_or_default());
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else {
                return;
            };
            if encode(&mut data, out).is_err() {
                return;
            }
            self.digest(discard);
        }
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> Result<(), TlsError> {
    append(out, HANDSHAKE_GUESS, |room| match data.encode(room) {
        Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
        result => result.map_err(|_| None),
    })
    .map_err(|()| TlsError::not_open())
}

/// Lets `write` fill room at the end of `out`, once more with as much as it asks for if the first guess is too small.
fn append(
    out: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), ()> {
    let start = out.len();
    let mut wanted = guess;
    for _ in 0..2 {
        out.resize(start + wanted, 0);
        match write(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(Some(more)) => wanted = more,
            Err(None) => break,
        }
    }
    out.truncate(start);
    Err(())
}

/// Returns the length of the record that starts here, once that is known.
fn record_len(bytes: &[u8]) -> usize {
    match bytes {
        [_, _, _, high, low, ..] => {
            (usize::from(u16::from_be_bytes([*high, *low])) + RECORD_HEADER).min(RECORD_MAX)
        }
        _ => RECORD_HEADER,
    }
}

/// Is the length of a record's header.
const RECORD_HEADER: usize = 5;
/// Is the most plaintext of one record.
const PLAIN_MAX: usize = 16 * 1024;
/// Is a whole record as TLS 1.2 allows it: 16 KiB, 2 KiB of expansion, and the header.
const RECORD_MAX: usize = PLAIN_MAX + 2048 + RECORD_HEADER;
/// Is enough for header, content type, nonce and tag of each cipher suite there is.
const RECORD_OVERHEAD: usize = 64;
/// Is the first try for a handshake message; a client hello takes a few hundred bytes.
const HANDSHAKE_GUESS: usize = 1024;
/// 4 KiB: the flights of a handshake fit, and an idle connection costs little.
const SIZE_MIN: usize = 4 * 1024;
/// 64 KiB: as much as one read of a socket usually brings.
const SIZE_MAX: usize = 64 * 1024;
/// Bounds undigested input: the largest handshake message that rustls takes, and a record.
const PENDING_MAX: usize = 0xffff + 2 * RECORD_MAX;
/// Bounds the queued messages that can stand before the writing state.
const ROUNDS_MAX: usize = 16;
