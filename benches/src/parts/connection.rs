//! The core alone: requests routed, bound, submitted and transmitted, answers received and handed out, in batches.

use std::hint::black_box;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_core::config::session::SessionConfig;
use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::routing::Token;
use messina_core::seed::Seed;
use messina_core::wire::{Consistency, ParamsRef, RequestOptionsRef, RequestRef, ValuesRef};
use messina_testkit::peer::ScriptedPeer;

use super::routing::Map;
use super::values::Insert;
use crate::BenchError;

/// A warm connection that is asked and answered in batches.
#[derive(Debug)]
pub struct Loop {
    conn: Connection,
    now: Instant,
    answers: Vec<u8>,
    batch: u64,
    map: Map,
    insert: Insert,
    key: i64,
}

impl Loop {
    /// Opens a connection over which so many requests are in flight at a time; each answer is Void.
    ///
    /// # Errors
    ///
    /// The handshake failed.
    pub fn new(batch: u16) -> Result<Self, BenchError> {
        let now = Instant::now();
        let session = Arc::new(SessionConfig::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 9042));
        let plan = ConnectionPlan::new(address, session, Seed::from_u64(1));
        let mut conn = Connection::new(now, plan);
        let mut peer = ScriptedPeer::new().handshake();
        while !conn.is_open() {
            let asked = sent(&mut conn, now);
            if asked.is_empty() {
                return Err("the handshake did not come to an end".into());
            }
            peer.receive(&asked);
            receive(&mut conn, now, &peer.take());
            while conn.poll_output().is_some() {}
        }
        let mut answers = Vec::new();
        for stream in 1..=batch {
            answers.extend([0x84, 0]);
            answers.extend(stream.to_be_bytes());
            answers.extend([8, 0, 0, 0, 4, 0, 0, 0, 1]);
        }
        Ok(Self {
            conn,
            now,
            answers,
            batch: u64::from(batch),
            map: Map::new(3, 16, 8),
            insert: Insert::new(),
            key: 0,
        })
    }

    /// Does one batch, routing and binding included; the replies are dropped.
    ///
    /// # Errors
    ///
    /// The connection took no request, or answered one wrongly.
    pub fn turn(&mut self) -> Result<(), BenchError> {
        self.now += Duration::from_micros(50);
        let deadline = Some(self.now + Duration::from_secs(30));
        for ticket in 0..self.batch {
            self.key += 1;
            let (values, token) = self.insert.bind(self.key)?;
            black_box(self.map.connection(token));
            let request = execute(values);
            let options = RequestOptionsRef::default();
            self.conn
                .submit(self.now, Ticket(ticket), request, &options, deadline)?;
        }
        transmit(&mut self.conn, self.now, |_| ());
        receive(&mut self.conn, self.now, &self.answers);
        let mut replies = 0;
        while let Some(output) = self.conn.poll_output() {
            let ConnectionOutput::Reply { reply, .. } = output else {
                continue;
            };
            black_box(reply?);
            replies += 1;
        }
        match replies == self.batch {
            true => Ok(()),
            false => Err("an answer is missing".into()),
        }
    }
}

/// The EXECUTE of the insert.
pub(super) fn execute(values: ValuesRef<'_>) -> RequestRef<'_> {
    RequestRef::Execute {
        id: &[7; 16],
        result_metadata_id: None,
        tablet_block: 0,
        params: ParamsRef {
            consistency: Consistency::LocalQuorum,
            values,
            timestamp: Some(1_700_000_000_000_000),
            ..ParamsRef::default()
        },
    }
}

fn transmit(conn: &mut Connection, now: Instant, mut each: impl FnMut(&[u8])) {
    loop {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = conn.poll_transmit(&mut slices);
        if count == 0 {
            return;
        }
        let mut len = 0;
        for slice in &slices[..count] {
            each(slice);
            len += slice.len();
        }
        conn.handle_transmitted(now, len);
    }
}

fn sent(conn: &mut Connection, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    transmit(conn, now, |slice| bytes.extend_from_slice(slice));
    bytes
}

fn receive(conn: &mut Connection, now: Instant, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let window = conn.recv_buffer();
        let len = window.len().min(bytes.len());
        window[..len].copy_from_slice(&bytes[..len]);
        conn.handle_received(now, len);
        bytes = &bytes[len..];
    }
}

/// A token where the hash gives none.
pub(super) const NOWHERE: Token = Token(0);
