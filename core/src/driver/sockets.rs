//! The byte ports of a driver: what sockets report, and what its connections say.
//! What becomes of requests is in `requests`.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;

use super::table::{Entry, Stage};
use super::{Driver, DriverOutput, Due};
use crate::cluster::{ConnId, ResolveId};
use crate::conn::{CloseReason, ConnectSpec, Connection, ConnectionOutput, ConnectionPlan};
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase, ConnectionError};
use crate::error::io::IoError;
use crate::metrics::Metrics;
use crate::notify::Note;

impl Driver {
    /// Takes note of the addresses of a name, or of why there are none.
    pub fn handle_resolved(
        &mut self,
        now: Instant,
        id: ResolveId,
        found: Result<Vec<SocketAddr>, IoError>,
    ) {
        self.turn(now, |driver| {
            driver.plane.handle_resolved(driver.now, id, found);
        });
    }

    /// Takes note that a socket is open.
    pub fn handle_connected(&mut self, now: Instant, conn: ConnId) {
        self.turn(now, |driver| {
            let Some(entry) = driver.table.get_mut(conn) else {
                return;
            };
            if let Stage::Opening(plan) = &entry.stage {
                let connection = Connection::new(driver.now, (**plan).clone());
                entry.stage = Stage::Live(Box::new(connection));
                driver.wake(conn);
            }
        });
    }

    /// Takes note that a socket could not be opened.
    pub fn handle_connect_failed(&mut self, now: Instant, conn: ConnId, error: impl Into<IoError>) {
        self.turn(now, |driver| {
            let opening = |entry: &&Entry| matches!(entry.stage, Stage::Opening(_));
            if driver.table.get(conn).filter(opening).is_some() {
                driver.attempt_failed(conn, ConnectCause::Io(error.into()));
            }
        });
    }

    /// Returns where to read the next bytes of a connection into; empty when it has ended.
    pub fn recv_buffer(&mut self, conn: ConnId) -> &mut [u8] {
        let live = self.table.live_mut(conn);
        live.map_or(&mut [], Connection::recv_buffer)
    }

    /// Takes note of `len` bytes read into the buffer of a connection.
    pub fn handle_received(&mut self, now: Instant, conn: ConnId, len: usize) {
        self.connection(now, conn, |live, now| live.handle_received(now, len));
    }

    /// Takes bytes that arrived, for an owner that has them in a buffer of its own; costs a copy.
    pub fn handle_bytes(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let window = self.recv_buffer(conn);
            let len = rest.len().min(window.len());
            let (now_in, later) = rest.split_at(len);
            let Some(window) = window.get_mut(..len).filter(|window| !window.is_empty()) else {
                return;
            };
            window.copy_from_slice(now_in);
            rest = later;
            self.handle_received(now, conn, len);
        }
    }

    /// Takes note that a server closed its side.
    pub fn handle_eof(&mut self, now: Instant, conn: ConnId) {
        self.connection(now, conn, Connection::handle_eof);
    }

    /// Takes note that a socket failed; nothing more will be read.
    pub fn handle_io_error(&mut self, now: Instant, conn: ConnId, error: impl Into<IoError>) {
        self.connection(now, conn, |live, now| live.handle_io_error(now, error));
    }

    /// Takes note that writing failed while answers may still be read.
    pub fn handle_write_error(&mut self, now: Instant, conn: ConnId, error: impl Into<IoError>) {
        self.connection(now, conn, |live, now| live.handle_write_error(now, error));
    }

    /// Fills in what to write next on a connection and returns how many slices were filled; 0 when there is nothing.
    ///
    /// What was written is reported with [`handle_transmitted`](Self::handle_transmitted) before any other input.
    pub fn poll_transmit<'a>(&'a mut self, conn: ConnId, out: &mut [IoSlice<'a>]) -> usize {
        let Some(Entry {
            stage: Stage::Live(live),
            told,
            woken,
            ..
        }) = self.table.get_mut(conn)
        else {
            return 0;
        };
        let expected = live.has_transmit();
        let count = live.poll_transmit(out);
        if count == 0 {
            *told = false;
            // What could not be wrapped ends the connection with the next input.
            if expected && !std::mem::replace(woken, true) {
                self.woken.push_back(conn);
            }
        }
        count
    }

    /// Takes note that `len` bytes of the last gather list were written.
    pub fn handle_transmitted(&mut self, now: Instant, conn: ConnId, len: usize) {
        self.connection(now, conn, |live, now| live.handle_transmitted(now, len));
    }

    /// Hands an input to a connection.
    fn connection(
        &mut self,
        now: Instant,
        conn: ConnId,
        input: impl FnOnce(&mut Connection, Instant),
    ) {
        self.turn(now, |driver| {
            let now = driver.now;
            if let Some(live) = driver.table.live_mut(conn) {
                input(live, now);
                driver.wake(conn);
            }
        });
    }

    /// Lets a connection say what it has to say.
    pub(super) fn wake(&mut self, conn: ConnId) {
        if let Some(entry) = self.table.get_mut(conn)
            && !std::mem::replace(&mut entry.woken, true)
        {
            self.woken.push_back(conn);
        }
    }

    pub(super) fn connect(&mut self, conn: ConnId, spec: ConnectSpec, plan: Box<ConnectionPlan>) {
        let limit = plan.session.connection.connect_timeout;
        let mut entry = Entry::new(conn, plan);
        let at = self.now.checked_add(limit);
        self.agenda.set(Due::Connection(conn), &mut entry.armed, at);
        self.table.insert(entry);
        self.output(DriverOutput::Connect { conn, spec });
    }

    pub(super) fn disconnect(&mut self, conn: ConnId, reason: CloseReason) {
        let now = self.now;
        match self.table.get_mut(conn).map(|entry| &mut entry.stage) {
            Some(Stage::Live(live)) => {
                live.close(now, reason);
                self.wake(conn);
            }
            Some(Stage::Opening(_)) => {
                self.give_attempt_up(conn, ConnectCause::GivenUp(reason));
            }
            None => (),
        }
    }

    pub(super) fn drain(&mut self, conn: ConnId, reason: CloseReason) {
        let now = self.now;
        if let Some(live) = self.table.live_mut(conn) {
            live.drain(now, reason);
            self.wake(conn);
        }
    }

    /// Acts on the deadline of a connection, which is not armed any more.
    pub(super) fn connection_due(&mut self, conn: ConnId) {
        let now = self.now;
        let Some(entry) = self.table.get_mut(conn) else {
            return;
        };
        entry.armed = None;
        match &mut entry.stage {
            Stage::Live(live) => {
                live.handle_timeout(now);
                self.wake(conn);
            }
            Stage::Opening(_) => self.give_attempt_up(conn, ConnectCause::Timeout),
        }
    }

    /// Ends an attempt that the owner is still busy with.
    fn give_attempt_up(&mut self, conn: ConnId, cause: ConnectCause) {
        self.output(DriverOutput::Disconnect {
            conn,
            last_words: Bytes::new(),
        });
        self.attempt_failed(conn, cause);
    }

    fn attempt_failed(&mut self, conn: ConnId, cause: ConnectCause) {
        let Some(entry) = self.remove(conn) else {
            return;
        };
        self.metrics.connect_failures += 1;
        let error = ConnectError {
            address: entry.address,
            phase: ConnectPhase::Tcp,
            cause,
        };
        self.plane.handle_connect_failed(self.now, conn, error);
    }

    fn remove(&mut self, conn: ConnId) -> Option<Entry> {
        let mut entry = self.table.remove(conn)?;
        self.agenda
            .set(Due::Connection(conn), &mut entry.armed, None);
        Some(entry)
    }

    /// Takes what a connection has to say, and arms its next deadline.
    pub(super) fn serve(&mut self, conn: ConnId) {
        if let Some(entry) = self.table.get_mut(conn) {
            entry.woken = false;
        }
        while let Some(output) = self.table.live_mut(conn).and_then(Connection::poll_output) {
            match output {
                ConnectionOutput::Reply { ticket, reply } => self.replied(ticket, reply),
                ConnectionOutput::Ready(info) => {
                    self.metrics.connections_opened += 1;
                    if let Some(entry) = self.table.get_mut(conn) {
                        entry.open = true;
                    }
                    self.plane.handle_connected(self.now, conn, info, conn);
                }
                ConnectionOutput::Event(event) => {
                    self.metrics.server_events += 1;
                    self.plane.handle_event(self.now, conn, event);
                }
                ConnectionOutput::Note(note) => self.note(note),
                ConnectionOutput::Reported(document) => self.driver_config = Some(document),
                ConnectionOutput::Draining(error) => {
                    self.plane.handle_draining(self.now, conn, error);
                }
                ConnectionOutput::Closed(error) => self.ended(conn, error),
            }
        }
        let Some(entry) = self.table.get_mut(conn) else {
            return;
        };
        let Stage::Live(live) = &mut entry.stage else {
            return;
        };
        // A later instant is met by coming early.
        let next = live.poll_timeout();
        if next.is_some_and(|at| entry.armed.is_none_or(|armed| at < armed)) {
            self.agenda
                .set(Due::Connection(conn), &mut entry.armed, next);
        }
        if live.has_transmit() && !std::mem::replace(&mut entry.told, true) {
            self.output(DriverOutput::Transmit { conn });
        }
    }

    fn ended(&mut self, conn: ConnId, error: ConnectionError) {
        let Some(mut entry) = self.remove(conn) else {
            return;
        };
        let last_words = entry.live_mut().map(last_words).unwrap_or_default();
        self.output(DriverOutput::Disconnect { conn, last_words });
        if entry.open {
            self.plane.handle_closed(self.now, conn, error);
        } else {
            self.metrics.connect_failures += 1;
            let error = ConnectError::of_end(entry.address, error);
            self.plane.handle_connect_failed(self.now, conn, error);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        self.metrics.notes += 1;
        self.metrics.connections_lost += u64::from(Metrics::is_loss(&note));
        self.output(DriverOutput::Note(note));
    }
}

/// Takes what an encrypted connection may still say after its end.
fn last_words(live: &mut Connection) -> Bytes {
    let mut slices = [IoSlice::new(&[]); 4];
    let count = live.poll_transmit(&mut slices);
    let words = slices.iter().take(count).flat_map(|slice| slice.iter());
    words.copied().collect()
}
