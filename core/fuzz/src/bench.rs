//! Owns a connection that is driven by an input, and the checks of what it does.
//! Leaves out which settings and which first steps a target chooses.

mod milestones;
mod peer;

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

use messina_core::conn::{
    CloseReason, Connection, ConnectionOutput, ConnectionPlan, StreamKey, SubmitError, Ticket,
};
use messina_core::wire::{Compression, Flags, Opcode, ParamsRef, RequestOptionsRef, RequestRef};

use self::milestones::milestone;
use self::peer::{OFFER_OF_LZ4, Peer, error, string, supported};
use crate::input::Input;

pub use self::milestones::Milestones;
pub(crate) use self::peer::frame;

/// Drives a connection and checks, after each input, that its outputs keep the promises:
///
/// - a request that was taken gets one reply, or none after it was abandoned;
/// - `Ready` comes at most once, `Closed` comes once and last;
/// - outputs, timers and bytes to write are bounded by what came in.
pub(crate) struct Bench {
    conn: Connection,
    now: Instant,
    origin: Instant,
    next_ticket: u64,
    waiting: BTreeMap<u64, StreamKey>,
    /// Keys of requests that are over; they must be harmless.
    stale: VecDeque<StreamKey>,
    peer: Peer,
    ready: bool,
    draining: bool,
    closed: bool,
    /// How many outputs may still come for what was put in.
    budget: usize,
    /// Whether outputs are left where they are until the input says otherwise.
    lazy: bool,
    seen: Milestones,
}

impl Bench {
    pub(crate) fn new(plan: ConnectionPlan) -> Self {
        let now = Instant::now();
        Self {
            peer: Peer::new(plan.version),
            conn: Connection::new(now, plan),
            now,
            origin: now,
            next_ticket: 0,
            waiting: BTreeMap::new(),
            stale: VecDeque::new(),
            ready: false,
            draining: false,
            closed: false,
            budget: BUDGET_START,
            lazy: false,
            seen: Milestones::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Plays the rest of the input, then ends the connection and checks that nothing is left over.
    pub(crate) fn play(mut self, mut input: Input<'_>) -> Milestones {
        while !input.is_empty() {
            self.step(&mut input);
            if !self.lazy {
                self.drain();
            }
        }
        self.end()
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() & 0x1f {
            step @ 0..=3 => {
                let said = self.peer.say_raw(input.stretch(), step != 3);
                self.receive(&said);
            }
            4 => {
                let len = usize::from(input.short() & 0x3fff);
                let bytes = input.take(len);
                self.peer.say_bare(bytes);
                self.receive(bytes);
            }
            5 => {
                let len = usize::from(input.short() & 0x3fff);
                let said = self.peer.say_raw(input.take(len), true);
                self.receive(&said);
            }
            6 | 7 => self.answer_well(input),
            8 => self.answer_with(input),
            9 => self.answer_packed(input),
            10 => self.answer_all(),
            11 => {
                let event = self.peer.frame(-1, Opcode::Event.byte(), input.stretch());
                self.answer(event);
            }
            12 => self.receive_in_pieces(input),
            13..=15 => self.submit(input),
            16 => {
                for _ in 0..input.byte() & 0x3f {
                    self.submit(input);
                }
            }
            17 | 18 => self.abandon(input),
            19 | 20 => {
                let time = input.choose(&TIMES_MS);
                self.pass(Duration::from_millis(time));
            }
            21 => {
                let time = input.choose(&TIMES_MS);
                self.now += Duration::from_millis(time);
                self.conn.handle_timeout(self.now);
            }
            22 => self.conn.handle_timeout(self.origin),
            23 | 24 => {
                let max = usize::from(input.byte());
                self.write(max);
            }
            25 | 26 => self.write(usize::MAX),
            27 => self.conn.probe(self.now),
            28 => self.lazy = !self.lazy,
            29 => self.drain(),
            _ => self.disturb(input),
        }
    }

    /// Ends the connection by one of the ways there are; most values do nothing, so that inputs get further.
    fn disturb(&mut self, input: &mut Input<'_>) {
        match input.byte() {
            0 => self.conn.handle_eof(self.now),
            1 => self
                .conn
                .handle_io_error(self.now, ErrorKind::ConnectionReset),
            2 | 3 => self
                .conn
                .handle_write_error(self.now, ErrorKind::BrokenPipe),
            4 | 5 => self.conn.drain(self.now, CloseReason::Surplus),
            6 => self.conn.close(self.now, CloseReason::SessionClosed),
            _ => (),
        }
    }

    /// Lets bytes arrive, in as many reads as the buffer needs.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let window = self.conn.recv_buffer();
            let len = window.len().min(rest.len());
            if len == 0 {
                self.drain();
                assert!(self.closed, "an open connection takes no bytes");
                return;
            }
            window[..len].copy_from_slice(&rest[..len]);
            // A frame has nine bytes and becomes an output or a reply; in the handshake warnings are added.
            self.budget += len / 9 + 1;
            self.conn.handle_received(self.now, len);
            rest = &rest[len..];
        }
    }

    fn receive_in_pieces(&mut self, input: &mut Input<'_>) {
        let piece = usize::from(input.byte()).max(1);
        let said = self.peer.say_raw(input.stretch(), true);
        said.chunks(piece).for_each(|piece| self.receive(piece));
    }

    /// Lets a whole frame arrive.
    fn answer(&mut self, frame: Vec<u8>) {
        let said = self.peer.wrap(frame);
        self.receive(&said);
    }

    /// Answers the oldest or another request as a server would.
    fn answer_well(&mut self, input: &mut Input<'_>) {
        self.write(usize::MAX);
        let Some((stream, opcode)) = self.peer.next_asked(input.below(4)) else {
            return;
        };
        let choice = input.byte();
        let (answer, body) = match Opcode::from_byte(opcode) {
            Some(Opcode::Options) => (Opcode::Supported, supported(input, choice)),
            Some(Opcode::Startup) if choice & 1 == 0 => (Opcode::Ready, Vec::new()),
            Some(Opcode::Startup) => {
                let names = ["com.example.Authenticator", "com.example.Other"];
                let name = names[usize::from(choice >> 4 & 1)];
                (Opcode::Authenticate, string(name))
            }
            Some(Opcode::AuthResponse) if choice < 0xe0 => (Opcode::AuthSuccess, vec![0xff; 4]),
            Some(Opcode::AuthResponse) => (Opcode::AuthChallenge, vec![0, 0, 0, 0]),
            Some(Opcode::Register) if choice & 3 != 3 => (Opcode::Ready, Vec::new()),
            Some(Opcode::Register) => (Opcode::Error, error(0x000a, "no such event")),
            Some(Opcode::Query) if !self.ready => {
                let mut body = vec![0, 0, 0, 3];
                body.extend(string("ks"));
                (Opcode::Result, body)
            }
            _ if choice & 7 == 7 => (Opcode::Error, error(0x2200, "no")),
            _ => (Opcode::Result, vec![0, 0, 0, 1]),
        };
        self.answer(self.peer.frame(stream, answer.byte(), &body));
        if matches!(answer, Opcode::Ready | Opcode::Authenticate) {
            self.peer.start_segments();
        }
    }

    /// Answers a request with an opcode and a body of the input's choice.
    fn answer_with(&mut self, input: &mut Input<'_>) {
        self.write(usize::MAX);
        let Some((stream, _)) = self.peer.next_asked(input.below(8)) else {
            return;
        };
        let opcode = input.choose(&[0x08, 0x08, 0x08, 0x00, 0x02, 0x03, 0x06, 0x0c, 0x0e, 0x10]);
        let body = input.stretch();
        self.peer.said_odd();
        self.answer(self.peer.frame(stream, opcode, body));
    }

    /// Answers a request with a compressed body, or one that only says that it is.
    fn answer_packed(&mut self, input: &mut Input<'_>) {
        self.write(usize::MAX);
        let Some((stream, opcode)) = self.peer.next_asked(input.below(8)) else {
            return;
        };
        let choice = input.byte();
        let body = input.stretch();
        let mut packed = Vec::new();
        if choice & 1 == 0 {
            let mut plain = vec![0, 0, 0, 2];
            plain.extend(body.repeat(1 + usize::from(choice) * 5));
            Compression::Lz4.compress(&plain, &mut packed);
        } else {
            packed.extend_from_slice(body);
        }
        let opcode = match Opcode::from_byte(opcode) {
            Some(Opcode::Options) => Opcode::Supported,
            Some(Opcode::Startup) => Opcode::Authenticate,
            _ => Opcode::Result,
        };
        let mut bytes = self.peer.frame(stream, opcode.byte(), &packed);
        bytes[1] = Flags::COMPRESSION.bits();
        self.peer.said_odd();
        self.answer(bytes);
    }

    pub(crate) fn answer_all(&mut self) {
        self.write(usize::MAX);
        while let Some((stream, opcode)) = self.peer.next_asked(0) {
            let (answer, body): (u8, &[u8]) = match Opcode::from_byte(opcode) {
                Some(Opcode::Options) => (0x06, OFFER_OF_LZ4),
                Some(Opcode::Startup) => (0x02, &[]),
                _ => (0x08, &[0, 0, 0, 1]),
            };
            self.answer(self.peer.frame(stream, answer, body));
            if opcode == Opcode::Startup.byte() {
                self.peer.start_segments();
            }
        }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let deadline = match choice >> 4 & 3 {
            0 => None,
            at => Some(self.now + Duration::from_millis([0, 0, 30, 2_000][usize::from(at)])),
        };
        let params = ParamsRef::default();
        let request = match choice & 7 {
            0 => RequestRef::Options,
            1 => RequestRef::Prepare {
                text: "SELECT",
                keyspace: None,
            },
            2 => RequestRef::Execute {
                id: b"id",
                result_metadata_id: None,
                tablet_block: 0,
                params,
            },
            // The protocol's version 4 cannot say this.
            3 if choice & 8 != 0 => RequestRef::Prepare {
                text: "SELECT",
                keyspace: Some("ks"),
            },
            4 => RequestRef::Query {
                text: &"x".repeat(3_000),
                params,
            },
            _ => RequestRef::Query {
                text: "SELECT",
                params,
            },
        };
        let ticket = Ticket(self.next_ticket);
        let options = RequestOptionsRef::default();
        match self
            .conn
            .submit(self.now, ticket, request, &options, deadline)
        {
            Ok(key) => {
                self.next_ticket += 1;
                self.budget += 1;
                assert!(self.waiting.insert(ticket.0, key).is_none());
            }
            Err(SubmitError::NotOpen) => assert!(!self.is_over(), "not open after the end"),
            Err(SubmitError::Closed(_)) => {
                self.drain();
                assert!(self.is_over(), "closed without an output");
            }
            Err(SubmitError::Overloaded) => drop(self.seen.insert("overloaded")),
            Err(_) => drop(self.seen.insert("not encoded")),
        }
    }

    fn is_over(&self) -> bool {
        self.closed || self.draining
    }

    /// Abandons a request, or one that is long over.
    fn abandon(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let at = usize::from(choice >> 1);
        if choice & 1 == 1
            && let Some(key) = self.stale.get(at % self.stale.len().max(1))
        {
            self.conn.abandon(self.now, *key);
            return;
        }
        let Some((ticket, key)) = self.waiting.iter().nth(at % self.waiting.len().max(1)) else {
            return;
        };
        let (ticket, key) = (*ticket, *key);
        self.waiting.remove(&ticket);
        self.keep_stale(key);
        self.conn.abandon(self.now, key);
    }

    fn keep_stale(&mut self, key: StreamKey) {
        self.stale.push_back(key);
        if STALE_MAX < self.stale.len() {
            self.stale.pop_front();
        }
    }

    /// Lets time pass and fires the timer whenever it is due.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut fired = 0;
        while let Some(at) = self.conn.poll_timeout()
            && at <= end
        {
            assert!(fired < TIMER_MAX, "the timer never rests");
            fired += 1;
            self.now = self.now.max(at);
            self.conn.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Writes at most so many bytes, and lets the peer see the requests that are whole.
    fn write(&mut self, max: usize) {
        let mut left = max;
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.conn.poll_transmit(&mut slices);
            let mut taken = 0;
            for slice in &slices[..count] {
                assert!(!slice.is_empty(), "an empty slice to write");
                let len = slice.len().min(left - taken);
                self.peer.hear(&slice[..len]);
                taken += len;
            }
            if taken == 0 {
                break;
            }
            self.conn.handle_transmitted(self.now, taken);
            left -= taken;
        }
        self.peer.see();
    }

    /// Takes all outputs and checks them.
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.conn.poll_output() {
            assert!(!self.closed, "{output:?} comes after the end");
            self.budget = self
                .budget
                .checked_sub(1)
                .expect("more outputs than inputs explain");
            self.seen.insert(milestone(&output));
            match output {
                ConnectionOutput::Ready(_) => {
                    assert!(!std::mem::replace(&mut self.ready, true), "ready twice");
                }
                ConnectionOutput::Reply { ticket, .. } => {
                    let key = self.waiting.remove(&ticket.0);
                    let key = key.unwrap_or_else(|| {
                        panic!("a second reply, or an abandoned one: {ticket:?}")
                    });
                    self.keep_stale(key);
                }
                ConnectionOutput::Draining(_) => {
                    assert!(
                        !std::mem::replace(&mut self.draining, true),
                        "draining twice"
                    );
                }
                ConnectionOutput::Closed(error) => {
                    assert_eq!(self.ready, error.as_connect().is_none(), "{error}");
                    self.closed = true;
                }
                _ => (),
            }
        }
        if self.closed {
            assert!(self.waiting.is_empty(), "closed with requests in flight");
            assert_eq!(self.conn.poll_timeout(), None);
        }
    }

    fn end(mut self) -> Milestones {
        self.drain();
        let in_flight = usize::try_from(self.conn.in_flight());
        assert_eq!(
            in_flight,
            Ok(self.waiting.len()),
            "requests are lost or doubled"
        );
        self.conn.handle_eof(self.now);
        self.drain();
        assert!(self.closed, "the end of input does not end the connection");
        assert_eq!(self.conn.in_flight(), 0);
        self.conn.probe(self.now);
        self.conn
            .handle_timeout(self.now + Duration::from_secs(3_600));
        self.conn.close(self.now, CloseReason::SessionClosed);
        let mut slices = [IoSlice::new(&[]); 1];
        assert_eq!(self.conn.poll_transmit(&mut slices), 0);
        assert!(self.conn.poll_output().is_none());
        self.seen
    }
}

const TIMES_MS: [u64; 8] = [0, 1, 7, 40, 1_000, 5_000, 31_000, 3_600_000];
/// The warnings of six steps of the handshake; ready, closed, draining and its note, notes of the handshake.
const BUDGET_START: usize = 6 * 16 + 16;
/// More timers than the longest pause can have: one keepalive every ten seconds for an hour, and one for each request.
const TIMER_MAX: usize = 10_000;
const STALE_MAX: usize = 64;
