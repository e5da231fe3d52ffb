//! A connection against a peer made of bytes, in virtual time. Here are the helpers; the cases are below.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_testkit::virtual_start;

use super::*;
use crate::config::session::SessionConfig;
use crate::error::connect::ConnectPhase;
use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::policy::auth::PlainCredentials;
use crate::seed::Seed;
use crate::wire::{Direction, EventKind, ParamsRef, RawHeader, Response, ServerEvent};

mod adopt;
#[cfg(all(feature = "lz4", feature = "snappy"))]
mod compression;
mod framing;
mod handshake;
mod report;
mod requests;
#[cfg(feature = "v5")]
mod segments;
mod timing;

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Builds a response frame.
pub(super) fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x84, 0];
    bytes.extend(stream.to_be_bytes());
    bytes.push(opcode);
    bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn string(text: &str) -> Vec<u8> {
    let mut bytes = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

pub(super) fn hex(digits: &str) -> Vec<u8> {
    let nibbles: Vec<u8> = digits
        .bytes()
        .map(|digit| u8::try_from(char::from(digit).to_digit(16).unwrap()).unwrap())
        .collect();
    nibbles
        .chunks_exact(2)
        .map(|pair| pair[0] * 16 + pair[1])
        .collect()
}

pub(super) fn supported(stream: i16, options: &[(&str, &str)]) -> Vec<u8> {
    let mut body = u16::try_from(options.len()).unwrap().to_be_bytes().to_vec();
    for (key, value) in options {
        body.extend(string(key));
        body.extend([0, 1]);
        body.extend(string(value));
    }
    frame(stream, 0x06, &body)
}

pub(super) fn error(stream: i16, code: i32, text: &str) -> Vec<u8> {
    let mut body = code.to_be_bytes().to_vec();
    body.extend(string(text));
    frame(stream, 0x00, &body)
}

pub(super) fn ready(stream: i16) -> Vec<u8> {
    frame(stream, 0x02, &[])
}

pub(super) fn void(stream: i16) -> Vec<u8> {
    frame(stream, 0x08, &[0, 0, 0, 1])
}

/// Builds a RESULT that no window is spared for, told apart by one byte.
pub(super) fn result(stream: i16, mark: u8) -> Vec<u8> {
    frame(stream, 0x08, &[0, 0, 0, 2, mark, 0, 0, 0])
}

/// Is a request as the peer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stream: i16,
    pub(super) opcode: u8,
    pub(super) body: Vec<u8>,
}

/// Cuts what was written into frames; what is left over is returned too.
pub(super) fn frames(bytes: &[u8]) -> (Vec<Seen>, Vec<u8>) {
    let mut rest = bytes;
    let mut seen = Vec::new();
    while let Some((header, tail)) = rest.split_first_chunk::<9>() {
        let raw = RawHeader::parse(header);
        assert_eq!((raw.direction, raw.version), (Direction::Request, 4));
        let len = usize::try_from(raw.length).unwrap();
        if tail.len() < len {
            break;
        }
        seen.push(Seen {
            stream: raw.stream,
            opcode: raw.opcode,
            body: tail[..len].to_vec(),
        });
        rest = &tail[len..];
    }
    (seen, rest.to_vec())
}

/// Drives a connection by hand.
pub(super) struct Bench {
    pub(super) conn: Connection,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new(plan: ConnectionPlan) -> Self {
        let now = virtual_start();
        Self {
            conn: Connection::new(now, plan),
            now,
        }
    }

    /// Opens a data connection with these settings.
    pub(super) fn open(change: impl FnOnce(&mut SessionConfig)) -> Self {
        let mut bench = Self::new(plan(change));
        bench.peer(&supported(1, &[]));
        bench.peer(&ready(1));
        assert!(matches!(bench.outputs()[..], [ConnectionOutput::Ready(_)]));
        bench.written();
        bench
    }

    /// Lets bytes arrive, in as many reads as the buffer needs.
    pub(super) fn peer(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let window = self.conn.recv_buffer();
            let len = window.len().min(rest.len());
            if len == 0 {
                break;
            }
            window[..len].copy_from_slice(&rest[..len]);
            self.conn.handle_received(self.now, len);
            rest = &rest[len..];
        }
    }

    /// Writes at most this much of what there is to write.
    pub(super) fn write(&mut self, max: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = self.conn.poll_transmit(&mut slices);
        let mut bytes: Vec<u8> = slices[..count]
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        bytes.truncate(max);
        if !bytes.is_empty() {
            self.conn.handle_transmitted(self.now, bytes.len());
        }
        bytes
    }

    pub(super) fn written(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let bytes = self.write(usize::MAX);
            if bytes.is_empty() {
                return all;
            }
            all.extend(bytes);
        }
    }

    /// Writes everything and returns it as frames.
    pub(super) fn requests(&mut self) -> Vec<Seen> {
        let (seen, rest) = frames(&self.written());
        assert_eq!(rest, [0_u8; 0], "half a frame");
        seen
    }

    pub(super) fn outputs(&mut self) -> Vec<ConnectionOutput> {
        std::iter::from_fn(|| self.conn.poll_output()).collect()
    }

    /// Returns the outputs in words, for comparisons.
    pub(super) fn told(&mut self) -> Vec<String> {
        self.outputs().iter().map(tell).collect()
    }

    pub(super) fn query(
        &mut self,
        ticket: u64,
        text: &str,
        deadline: Option<Duration>,
    ) -> Result<StreamKey, SubmitError> {
        let request = RequestRef::Query {
            text,
            params: ParamsRef::default(),
        };
        let deadline = deadline.map(|after| self.now + after);
        self.conn.submit(
            self.now,
            Ticket(ticket),
            request,
            &RequestOptionsRef::default(),
            deadline,
        )
    }

    pub(super) fn submit(&mut self, ticket: u64) -> StreamKey {
        self.query(ticket, "SELECT", None).unwrap()
    }

    pub(super) fn submit_all(&mut self, tickets: impl IntoIterator<Item = u64>) {
        for ticket in tickets {
            self.submit(ticket);
        }
    }

    pub(super) fn submit_all_within(
        &mut self,
        tickets: impl IntoIterator<Item = u64>,
        deadline: Duration,
    ) {
        for ticket in tickets {
            self.submit_within(ticket, deadline);
        }
    }

    pub(super) fn submit_within(&mut self, ticket: u64, deadline: Duration) -> StreamKey {
        self.query(ticket, "SELECT", Some(deadline)).unwrap()
    }

    /// Lets time pass, firing the timer whenever it is due, and counts how often.
    pub(super) fn pass(&mut self, time: Duration) -> usize {
        let end = self.now + time;
        let mut fired = 0;
        while let Some(at) = self.conn.poll_timeout()
            && at <= end
        {
            assert!(fired < 10_000, "the timer never rests");
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            fired += 1;
        }
        self.now = end;
        fired
    }

    /// Jumps ahead and fires the timer once.
    pub(super) fn jump(&mut self, time: Duration) {
        self.now += time;
        self.conn.handle_timeout(self.now);
    }
}

pub(super) fn plan(change: impl FnOnce(&mut SessionConfig)) -> ConnectionPlan {
    let mut session = SessionConfig::new(&mut Seed::from_u64(1).random());
    change(&mut session);
    let address: std::net::SocketAddr = ([192, 0, 2, 1], 9042).into();
    ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2))
}

/// Puts an output into words: what matters of it, without what differs between two equal runs.
pub(super) fn tell(output: &ConnectionOutput) -> String {
    match output {
        ConnectionOutput::Ready(_) => "ready".into(),
        ConnectionOutput::Reply {
            ticket,
            reply: Ok(frame),
        } => {
            format!(
                "{} answered {:?} {:?}",
                ticket.0,
                frame.header.opcode,
                &frame.body[..]
            )
        }
        ConnectionOutput::Reply {
            ticket,
            reply: Err(error),
        } => format!("{} failed: {error}", ticket.0),
        ConnectionOutput::Event(event) => format!("event {event:?}"),
        ConnectionOutput::Note(note) => format!("note {note:?}"),
        ConnectionOutput::Reported(document) => format!("reported {document}"),
        ConnectionOutput::Draining(error) => format!("draining: {error}"),
        ConnectionOutput::Closed(error) => format!("closed: {error}"),
    }
}

/// Returns why the connection closed, if that is its last output.
pub(super) fn closed(outputs: &[ConnectionOutput]) -> &ConnectionError {
    match outputs.last() {
        Some(ConnectionOutput::Closed(error)) => error,
        other => panic!("not closed: {other:?}"),
    }
}

pub(super) fn connect_error(outputs: &[ConnectionOutput]) -> (ConnectPhase, &ConnectCause) {
    let error = closed(outputs)
        .as_connect()
        .expect("a failure of connecting");
    (error.phase, &error.cause)
}

pub(super) fn protocol_error(outputs: &[ConnectionOutput]) -> ProtocolError {
    match closed(outputs) {
        ConnectionError::Protocol(error) => **error,
        other => panic!("not a protocol error: {other:?}"),
    }
}
