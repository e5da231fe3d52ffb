//! Owns one connection: framing, handshake, stream ids, deadlines, keepalive.
//! Leaves out sockets, and every decision about which connections there are.
//!
//! Layers, bottom up: records of TLS (`tls`), segments of protocol version 5 (`segments`), bytes (`recv`, `send`),
//! frames (`frames`), compression of version 4 (`pack`), the handshake (`phase`), requests (`requests`, `streams`,
//! `line`). What is not in use costs nothing: plain frames are read and written where they lie, and `layers` takes over
//! only where records or segments are.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Instant;

use crate::error::connect::{
    AttemptError, AttemptErrorKind, ConnectCause, ConnectError, ConnectionError, Fate,
};
use crate::error::io::IoError;
use crate::notify::Note;
use crate::time::{DeadlineWheel, later};
use crate::wire::{ProtocolFeatures, RequestOptionsRef, RequestRef};

#[cfg(not(all(feature = "v5", feature = "rustls-023")))]
mod absent;
mod adopt;
mod frames;
mod idle;
mod keepalive;
mod layers;
mod line;
mod output;
mod pack;
mod phase;
pub mod plan;
mod recv;
mod requests;
#[cfg(feature = "v5")]
mod segments;
mod send;
mod streams;
#[cfg(test)]
mod tests;
#[cfg(feature = "rustls-023")]
pub mod tls;
mod wrapped;

pub use adopt::AdoptedFrame;
pub use output::{ConnectionOutput, Reply, StreamKey, SubmitError, Ticket};
pub use plan::{Address, CloseReason, ConnectSpec, ConnectionInfo, ConnectionPlan, Role};

use idle::Idle;
use keepalive::{Keepalive, Verdict};
use layers::Layers;
use line::Line;
use output::{Done, Queued};
use pack::Packer;
use phase::Handshake;
use recv::RecvBuffer;
use send::SendBuffer;
use streams::Streams;

/// Speaks the protocol with one server over one socket that the owner holds.
///
/// Bytes that arrive are read into [`recv_buffer`](Self::recv_buffer) and reported by
/// [`handle_received`](Self::handle_received). Bytes to send are taken from
/// [`poll_transmit`](Self::poll_transmit); how many were written is reported by
/// [`handle_transmitted`](Self::handle_transmitted) before any other input. After the inputs, take
/// [`poll_output`](Self::poll_output) until there is none, and arm one timer for
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {
    plan: ConnectionPlan,
    /// Is the latest instant seen; time does not go backwards here.
    now: Instant,
    /// Is when a deadline can be due next; at times too early, never too late.
    due_at: Option<Instant>,
    phase: Phase,
    features: ProtocolFeatures,
    /// Bounds the body of a frame; tighter until the connection is open.
    body_max: u32,
    info: Option<Box<ConnectionInfo>>,
    recv: RecvBuffer,
    send: SendBuffer,
    /// Are the layers below frames, where there are any.
    layers: Option<Box<Layers>>,
    /// Compresses requests, where that was agreed on and bodies are what is compressed.
    packer: Option<Box<Packer>>,
    streams: Streams,
    line: Line,
    deadlines: DeadlineWheel,
    keepalive: Keepalive,
    idle: Option<Box<Idle>>,
    /// Are answers that say no more than that something was done; they come before `outputs`.
    done: Vec<Done>,
    /// Counts how many of them were given out.
    done_given: usize,
    outputs: VecDeque<Queued>,
    /// Counts requests that were over before they began, to tell their keys apart.
    over: u32,
}

/// Says what the connection is good for.
#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    Open,
    Draining(Draining),
    Closed(ConnectionError),
}

#[derive(Debug)]
struct Draining {
    why: ConnectionError,
    /// Is whether nothing can be written any more, and until when answers are waited for then.
    deaf_until: Option<Instant>,
}

/// Is the stream of the handshake's requests; one is under way at a time.
const HANDSHAKE_STREAM: i16 = 1;
/// Is the stream of keepalive requests: the highest, which no other request gets.
const KEEPALIVE_STREAM: i16 = i16::MAX;
/// Is the stream of events.
const EVENT_STREAM: i16 = -1;
/// Bounds the answers of a handshake: whoever answers has proven nothing yet. The longest real one, what a server
/// supports, takes a few KiB.
const HANDSHAKE_BODY_MAX: u32 = 1024 * 1024;

impl Connection {
    /// Starts the handshake over a socket that was just opened.
    pub fn new(now: Instant, plan: ConnectionPlan) -> Self {
        let handshake = Handshake::new(now, &plan);
        let limits = &plan.session.limits;
        let timeout = plan.session.connection.keepalive_timeout;
        let mut connection = Self {
            now,
            due_at: Some(now),
            features: *handshake.features(),
            body_max: limits.frame_bytes_max.min(HANDSHAKE_BODY_MAX),
            phase: Phase::Handshake(Box::new(handshake)),
            info: None,
            recv: RecvBuffer::new(),
            send: SendBuffer::default(),
            layers: None,
            packer: None,
            streams: Streams::new(limits.in_flight_effective()),
            line: Line::default(),
            deadlines: DeadlineWheel::new(now),
            // The handshake has a deadline of its own.
            keepalive: Keepalive::new(now, None, timeout),
            idle: None,
            done: Vec::new(),
            done_given: 0,
            outputs: VecDeque::new(),
            over: 0,
            plan,
        };
        connection.begin_handshake();
        connection
    }

    /// Returns where to read the next bytes into; empty only after the end.
    pub fn recv_buffer(&mut self) -> &mut [u8] {
        if matches!(self.phase, Phase::Closed(_)) {
            return &mut [];
        }
        if let Some(tls) = self.layers.as_mut().and_then(|layers| layers.tls.as_mut()) {
            return tls.window();
        }
        self.recv.window()
    }

    /// Takes note of `len` bytes read into the buffer.
    pub fn handle_received(&mut self, now: Instant, len: usize) {
        let now = self.clamp(now);
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        self.keepalive.heard(now);
        if self.layers.is_some() {
            self.read_wrapped(now, len);
        } else {
            self.recv.received(len);
            if let Err(error) = self.read_frames(now) {
                self.fail(error.into());
            }
        }
        self.settle();
        self.fire(now);
    }

    /// Takes note that the server closed its side.
    pub fn handle_eof(&mut self, now: Instant) {
        self.begin(now);
        self.end_of_input();
    }

    fn end_of_input(&mut self) {
        match &self.phase {
            Phase::Handshake(_) => self.fail_connect(ConnectCause::Closed),
            Phase::Draining(draining) => self.fail(draining.why.clone()),
            Phase::Open | Phase::Closed(_) => self.fail(ConnectionError::Eof),
        }
    }

    /// Takes note that the socket failed; nothing more will be read.
    pub fn handle_io_error(&mut self, now: Instant, error: impl Into<IoError>) {
        self.begin(now);
        let error = error.into();
        match self.phase {
            Phase::Handshake(_) => self.fail_connect(ConnectCause::Io(error)),
            _ => self.fail(ConnectionError::Io(error)),
        }
    }

    /// Takes note that writing failed while answers may still be read.
    ///
    /// What was sent whole before keeps waiting for its answer, everything else fails, and the connection closes after
    /// the last answer, at the end of input, or after the keepalive timeout.
    pub fn handle_write_error(&mut self, now: Instant, error: impl Into<IoError>) {
        let now = self.begin(now);
        let error = error.into();
        let why = ConnectionError::Io(error.clone());
        match &self.phase {
            Phase::Handshake(_) => self.fail_connect(ConnectCause::Io(error)),
            Phase::Open => {
                self.stop_sending(&why);
                self.begin_drain(why, Some(later(now, self.keepalive.timeout())));
            }
            Phase::Draining(draining) if draining.deaf_until.is_none() => {
                self.stop_sending(&why);
                self.phase = Phase::Draining(Draining {
                    why,
                    deaf_until: Some(later(now, self.keepalive.timeout())),
                });
                self.look_again();
                self.settle();
            }
            Phase::Draining(_) | Phase::Closed(_) => (),
        }
    }

    /// Fills in what to write next and returns how many slices were filled; 0 when there is nothing.
    ///
    /// An encrypted connection may have a last word after [`ConnectionOutput::Closed`]: write it once, if the socket
    /// takes it at once, before closing.
    pub fn poll_transmit<'a>(&'a mut self, out: &mut [IoSlice<'a>]) -> usize {
        if self.layers.is_some() {
            return self.gather_wrapped(out);
        }
        self.send.gather(out)
    }

    /// Says whether [`poll_transmit`](Self::poll_transmit) has something.
    pub fn has_transmit(&mut self) -> bool {
        match &self.layers {
            Some(layers) => layers.has_output(&mut self.send),
            None => !self.send.is_empty(),
        }
    }

    /// Takes note that `len` bytes of the last gather list were written.
    pub fn handle_transmitted(&mut self, now: Instant, len: usize) {
        let now = self.clamp(now);
        let surplus = match &mut self.layers {
            Some(layers) => layers.outbox.sent(len),
            None => self.send.sent(len),
        };
        debug_assert_eq!(surplus, 0, "more bytes were written than there were");
        self.fire(now);
    }

    /// Acts on deadlines that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.look_again();
        self.begin(now);
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
        let now = self.begin(now);
        match &self.phase {
            Phase::Open => self.send_request(now, ticket, request, options, deadline),
            Phase::Handshake(_) => Err(SubmitError::NotOpen),
            Phase::Draining(Draining { why, .. }) | Phase::Closed(why) => {
                Err(SubmitError::Closed(why.clone()))
            }
        }
    }

    /// Gives a request up: no reply follows. What has not begun to be sent is not sent.
    pub fn abandon(&mut self, now: Instant, key: StreamKey) {
        let now = self.clamp(now);
        self.give_up(now, key);
        self.settle();
        self.fire(now);
    }

    /// Asks the server for a sign of life now, unless that is under way.
    pub fn probe(&mut self, now: Instant) {
        let now = self.begin(now);
        if matches!(
            self.phase,
            Phase::Open
                | Phase::Draining(Draining {
                    deaf_until: None,
                    ..
                })
        ) {
            self.ask(now);
        }
    }

    /// Takes no more requests and closes after the last one in flight was answered or expired.
    pub fn drain(&mut self, now: Instant, reason: CloseReason) {
        self.begin(now);
        match self.phase {
            Phase::Handshake(_) => self.fail_connect(ConnectCause::GivenUp(reason)),
            Phase::Open => self.begin_drain(ConnectionError::Closed(reason), None),
            Phase::Draining(_) | Phase::Closed(_) => (),
        }
    }

    /// Closes at once; everything in flight fails.
    pub fn close(&mut self, now: Instant, reason: CloseReason) {
        self.begin(now);
        match self.phase {
            Phase::Handshake(_) => self.fail_connect(ConnectCause::GivenUp(reason)),
            _ => self.fail(ConnectionError::Closed(reason)),
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self
            .layers
            .as_ref()
            .is_some_and(|layers| layers.is_broken())
        {
            return Some(self.now);
        }
        match &self.phase {
            Phase::Handshake(handshake) => Some(handshake.deadline),
            Phase::Open => earliest([
                self.deadlines.next_due(),
                self.keepalive.next_check(),
                self.next_orphan_check(),
                self.idle.as_deref().map(Idle::check_at),
            ]),
            Phase::Draining(draining) => earliest([
                self.deadlines.next_due(),
                self.keepalive.next_check(),
                draining.deaf_until,
            ]),
            Phase::Closed(_) => None,
        }
    }

    /// Counts the requests that wait for a reply, in line or on the wire.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.streams.waiting().saturating_add(self.line.len())
    }

    /// Tells whether requests are taken.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Describes the connection, once it became usable.
    pub fn info(&self) -> Option<&ConnectionInfo> {
        self.info.as_deref()
    }

    /// Returns the plan it was made from.
    pub fn plan(&self) -> &ConnectionPlan {
        &self.plan
    }

    /// Does what every input begins with: acts on deadlines that are due.
    #[inline]
    fn begin(&mut self, now: Instant) -> Instant {
        let now = self.clamp(now);
        self.fire(now);
        now
    }

    #[inline]
    fn clamp(&mut self, now: Instant) -> Instant {
        if self.now < now {
            self.now = now;
        }
        self.now
    }

    /// Acts on every deadline that is due.
    #[inline(always)] // One comparison on the path of every request.
    fn fire(&mut self, now: Instant) {
        if self.due_at.is_some_and(|at| at <= now) {
            self.fire_due(now);
            self.settle();
            self.due_at = self.poll_timeout();
        }
    }

    /// Looks at all deadlines with the next input, because one of them may be earlier now.
    fn look_again(&mut self) {
        self.due_at = Some(self.now);
    }

    #[cold]
    fn fire_due(&mut self, now: Instant) {
        if let Some(error) = self.layers.as_mut().and_then(|layers| layers.take_broken()) {
            return self.fail_tls(error);
        }
        match &self.phase {
            Phase::Open => self.fire_open(now),
            Phase::Handshake(handshake) => {
                if handshake.deadline <= now {
                    self.fail_connect(ConnectCause::Timeout);
                }
            }
            Phase::Draining(Draining {
                why,
                deaf_until: Some(until),
            }) if *until <= now => {
                self.fail(why.clone());
            }
            Phase::Draining(_) => self.fire_open(now),
            Phase::Closed(_) => (),
        }
    }

    fn fire_open(&mut self, now: Instant) {
        while let Some(key) = self.deadlines.pop_due(now) {
            self.expire(now, key);
        }
        match self.keepalive.check(now) {
            Verdict::Fine => (),
            Verdict::Ask => {
                self.give_back_memory();
                self.ask(now);
            }
            Verdict::Dead => {
                self.fail(ConnectionError::KeepaliveTimeout(self.keepalive.timeout()));
                return;
            }
        }
        if 0 < self.streams.orphans() {
            self.count_orphans(now);
        }
        self.close_idle(now);
    }

    /// Closes a connection that nobody used for long.
    fn close_idle(&mut self, now: Instant) {
        let streams = &self.streams;
        let is_unused = self
            .idle
            .as_mut()
            .is_some_and(|idle| idle.check(now, || streams.used()));
        if is_unused && self.in_flight() == 0 && matches!(self.phase, Phase::Open) {
            self.begin_drain(ConnectionError::Closed(CloseReason::Idle), None);
        }
    }

    /// Sends one question, unless one is under way.
    fn ask(&mut self, now: Instant) {
        if !self.keepalive.is_asking() {
            self.say(RequestRef::Options, KEEPALIVE_STREAM);
            self.keepalive.asked(now);
            self.look_again();
        }
    }

    /// Gives back what a burst of requests made grow; for connections that are silent.
    fn give_back_memory(&mut self) {
        if self.in_flight() == 0 {
            self.recv.shrink();
            self.send.shrink();
            if let Some(layers) = &mut self.layers {
                layers.shrink();
            }
            self.deadlines.shrink();
            self.outputs.shrink_to_fit();
            self.done.shrink_to_fit();
        }
    }

    fn open(&mut self, now: Instant, info: ConnectionInfo) {
        let session = &self.plan.session;
        let config = &session.connection;
        self.keepalive = Keepalive::new(now, config.keepalive_interval, config.keepalive_timeout)
            .with_beat(self.plan.keepalive_beat);
        let (configured, effective) = (
            session.limits.orphans_max,
            session.limits.orphans_effective(),
        );
        let idle = |max| Box::new(Idle::new(now, max));
        self.idle = self.plan.idle_max.map(idle);
        self.body_max = session.limits.frame_bytes_max;
        self.phase = Phase::Open;
        self.look_again();
        self.info = Some(Box::new(info.clone()));
        self.put(ConnectionOutput::Ready(info));
        if effective < configured {
            self.put(ConnectionOutput::Note(Note::OrphanLimitLowered {
                configured,
                effective,
            }));
        }
    }

    /// Sends a request of the connection's own.
    fn say(&mut self, request: RequestRef<'_>, stream: i16) {
        let encoded = request.encode(
            &mut self.send,
            &self.features,
            stream,
            &RequestOptionsRef::default(),
        );
        if let Err(error) = encoded {
            self.fail_connect(ConnectCause::Encode(error));
        }
    }

    fn put(&mut self, output: ConnectionOutput) {
        self.outputs.push_back(Queued::Rare(Box::new(output)));
    }

    /// Ends a connection that never became usable.
    fn fail_connect(&mut self, cause: ConnectCause) {
        if let Phase::Handshake(handshake) = &self.phase {
            let address = self.plan.address.clone();
            let error = ConnectError {
                address,
                phase: handshake.phase(),
                cause,
            };
            self.end(error.into());
        }
    }

    /// Ends the connection; a failure before it became usable is one of connecting.
    fn fail(&mut self, error: ConnectionError) {
        match (&self.phase, error) {
            (Phase::Closed(_), _) => (),
            (Phase::Handshake(_), ConnectionError::Protocol(error)) => {
                self.fail_connect(ConnectCause::Protocol(*error));
            }
            (_, error) => self.end(error),
        }
    }

    fn end(&mut self, error: ConnectionError) {
        self.fail_all(&error);
        self.put(ConnectionOutput::Closed(error.clone()));
        self.phase = Phase::Closed(error);
        self.recv = RecvBuffer::new();
        self.send.clear();
        self.say_farewell();
        self.deadlines = DeadlineWheel::new(self.now);
    }

    fn failed(kind: &ConnectionError, fate: Fate) -> AttemptError {
        AttemptError::new(AttemptErrorKind::Connection(kind.clone()), fate)
    }
}

fn earliest<const N: usize>(instants: [Option<Instant>; N]) -> Option<Instant> {
    instants.into_iter().flatten().min()
}
