//! Owns one connection: framing, handshake, stream ids, deadlines, keepalive.
//! Leaves out sockets, and every decision about which connections there are.

use std::io::{self, IoSlice};
use std::time::Instant;

use thiserror::Error;

use crate::error::connect::{AttemptError, ConnectionError};
use crate::error::protocol::FrameEncodeError;
use crate::notify::Note;
use crate::wire::{RequestOptionsRef, RequestRef, ResponseFrame, ServerEvent};

pub mod plan;

pub use plan::{Address, CloseReason, ConnectSpec, ConnectionInfo, ConnectionPlan, Role};

/// Speaks the protocol with one server over one socket that the owner holds.
///
/// Bytes that arrive are read into [`recv_buffer`](Self::recv_buffer) and reported by
/// [`handle_received`](Self::handle_received); bytes to send are taken from
/// [`poll_transmit`](Self::poll_transmit) and reported by [`handle_transmitted`](Self::handle_transmitted), before
/// any other input. After every input, take [`poll_output`](Self::poll_output) until there is none, then arm one
/// timer for [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {
    plan: ConnectionPlan,
}

impl Connection {
    /// Starts the handshake over a socket that was just opened.
    pub fn new(now: Instant, plan: ConnectionPlan) -> Self {
        let _ = now;
        Self { plan }
    }

    /// Returns where to read the next bytes into; never empty before the connection is closed.
    pub fn recv_buffer(&mut self) -> &mut [u8] {
        todo!()
    }

    /// Takes note of `len` bytes read into the buffer.
    pub fn handle_received(&mut self, now: Instant, len: usize) {
        let _ = (now, len);
        todo!()
    }

    /// Takes note that the server closed its side.
    pub fn handle_eof(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// Takes note that the socket failed.
    pub fn handle_io_error(&mut self, now: Instant, kind: io::ErrorKind) {
        let _ = (now, kind);
        todo!()
    }

    /// Takes note that writing failed, while answers may still be read: what was sent before keeps waiting for
    /// them, everything else fails, and the connection closes after the last.
    pub fn handle_write_error(&mut self, now: Instant, kind: io::ErrorKind) {
        let _ = (now, kind);
        todo!()
    }

    /// Fills in what to write next and returns how many slices were filled; 0 when there is nothing.
    pub fn poll_transmit<'a>(&'a mut self, out: &mut [IoSlice<'a>]) -> usize {
        let _ = out;
        todo!()
    }

    /// Takes note that `len` bytes of the last gather list were written.
    pub fn handle_transmitted(&mut self, now: Instant, len: usize) {
        let _ = (now, len);
        todo!()
    }

    /// Acts on deadlines that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// Encodes a request for sending; exactly one reply with its ticket follows, unless it is abandoned.
    ///
    /// When no stream id is free the request waits in line under its deadline.
    pub fn submit(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: RequestRef<'_>,
        options: &RequestOptionsRef<'_>,
        deadline: Option<Instant>,
    ) -> Result<StreamKey, SubmitError> {
        let _ = (now, ticket, request, options, deadline);
        todo!()
    }

    /// Gives a request up: no reply follows. What was not sent yet is not sent.
    pub fn abandon(&mut self, now: Instant, key: StreamKey) {
        let _ = (now, key);
        todo!()
    }

    /// Asks the server for a sign of life now.
    pub fn probe(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// Takes no more requests and closes after the last one in flight was answered or expired.
    pub fn drain(&mut self, now: Instant, reason: CloseReason) {
        let _ = (now, reason);
        todo!()
    }

    /// Closes at once; everything in flight fails.
    pub fn close(&mut self, now: Instant, reason: CloseReason) {
        let _ = (now, reason);
        todo!()
    }

    /// Returns the next output; to be called until there is none.
    pub fn poll_output(&mut self) -> Option<ConnectionOutput> {
        todo!()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Counts the requests that wait for a reply, in line or on the wire.
    pub fn in_flight(&self) -> u32 {
        todo!()
    }

    /// Tells whether requests are taken.
    pub fn is_open(&self) -> bool {
        todo!()
    }

    /// Describes the connection, once it became usable.
    pub fn info(&self) -> Option<&ConnectionInfo> {
        todo!()
    }

    /// Returns the plan it was made from.
    pub fn plan(&self) -> &ConnectionPlan {
        &self.plan
    }
}

/// Is what a connection tells its owner.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionOutput {
    /// All steps of the plan are over: requests are taken from now on.
    Ready(ConnectionInfo),
    /// Answers, fails or expires one request.
    Reply {
        /// Is the request's ticket.
        ticket: Ticket,
        /// Is the server's answer, or why there is none.
        reply: Result<ResponseFrame, AttemptError>,
    },
    /// Passes on what the server tells without being asked.
    Event(ServerEvent),
    /// Tells an operator something worth knowing.
    Note(Note),
    /// No more requests are taken; `Closed` follows after those in flight.
    Draining(ConnectionError),
    /// The connection is over; the last output.
    Closed(ConnectionError),
}

/// Is the owner's name for a request; comes back with the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Is the connection's name for a request, on the wire or in line; out of date once the request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    index: u32,
    generation: u32,
}

/// Says why a request was not taken; no reply follows.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The connection is not usable yet.
    #[error("the connection is not ready")]
    NotOpen,
    /// The connection takes no more requests.
    #[error("the connection is closed")]
    Closed(#[source] ConnectionError),
    /// Too many requests wait in line, and a limit says not to wait.
    #[error("too many requests wait for this connection")]
    Overloaded,
    /// The request does not fit the protocol.
    #[error("the request cannot be encoded")]
    Encode(#[source] FrameEncodeError),
}
