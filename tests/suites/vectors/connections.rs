//! Recorded compressed bodies and damaged segments, through a whole connection.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use messina_core::config::session::SessionConfig;
use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::error::connect::ConnectionError;
use messina_core::error::protocol::ProtocolErrorKind;
use messina_core::seed::Seed;
use messina_core::wire::{
    Compression, Envelope, ParamsRef, ProtocolFeatures, ProtocolVersion, RequestOptionsRef,
    RequestRef, Response, Supported,
};
use serde_json::Value as Json;

use crate::compression::{named, plain_body};
use crate::files::{VectorFile, bytes, none, text};

#[test]
fn a_connection_reads_compressed_bodies_as_recorded() {
    if let Some(file) = VectorFile::open("compression_v4.json") {
        file.run("bodies", none, read_body);
    }
}

fn read_body(case: &Json) -> Result<(), String> {
    let mut talk = Talk::new(ProtocolVersion::V4, Some(named(text(case, "algorithm"))));
    let body = bytes(case, "encoded_hex");
    let mut frame = vec![0x84, 1, 0, 1, 8];
    frame.extend(
        u32::try_from(body.len())
            .expect("a short body")
            .to_be_bytes(),
    );
    frame.extend(body);
    talk.hear(&frame);
    match talk.conn.poll_output() {
        Some(ConnectionOutput::Reply {
            reply: Ok(frame), ..
        }) if frame.body == plain_body(case) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn a_connection_ends_with_a_damaged_segment() {
    if let Some(file) = VectorFile::open("segments_v5.json") {
        file.run("corrupt", none, end);
    }
}

fn end(case: &Json) -> Result<(), String> {
    let compression = match text(case, "compression") {
        "none" => None,
        name => Some(named(name)),
    };
    let mut talk = Talk::new(ProtocolVersion::V5, compression);
    talk.hear(&bytes(case, "wire_hex"));
    let outputs: Vec<_> = std::iter::from_fn(|| talk.conn.poll_output()).collect();
    match &outputs[..] {
        [
            ConnectionOutput::Reply { reply: Err(_), .. },
            ConnectionOutput::Closed(ConnectionError::Protocol(error)),
        ] if [
            ProtocolErrorKind::SegmentHeader,
            ProtocolErrorKind::SegmentPayload,
        ]
        .contains(&error.kind) =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    }
}

/// An open connection with one question under way, on stream 1.
struct Talk {
    conn: Connection,
    now: Instant,
}

impl Talk {
    fn new(version: ProtocolVersion, compression: Option<Compression>) -> Self {
        let mut session = SessionConfig::new(&mut Seed::from_u64(1).random());
        session.connection.compression = compression;
        let address: SocketAddr = ([192, 0, 2, 1], 9042).into();
        let mut plan = ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2));
        plan.version = version;
        let now = Instant::now();
        let conn = Connection::new(now, plan);
        let mut talk = Self { conn, now };
        let offer = ["lz4", "snappy"].map(str::to_owned).to_vec();
        let options = vec![("COMPRESSION".to_owned(), offer)];
        for response in [Response::Supported(Supported { options }), Response::Ready] {
            let features = ProtocolFeatures {
                version,
                ..ProtocolFeatures::default()
            };
            let mut frame = Vec::new();
            Envelope::from(response)
                .encode(&mut frame, &features, 1)
                .expect("a short answer");
            talk.send();
            talk.hear(&frame);
        }
        assert!(talk.conn.is_open());
        while talk.conn.poll_output().is_some() {}
        let request = RequestRef::Query {
            text: "SELECT",
            params: ParamsRef::default(),
        };
        let options = RequestOptionsRef::default();
        let taken = talk.conn.submit(now, Ticket(1), request, &options, None);
        taken.expect("an open connection takes requests");
        talk.send();
        talk
    }

    fn send(&mut self) {
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.conn.poll_transmit(&mut slices);
            let len = slices[..count].iter().map(|slice| slice.len()).sum();
            if len == 0 {
                return;
            }
            self.conn.handle_transmitted(self.now, len);
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let window = self.conn.recv_buffer();
            let len = window.len().min(rest.len());
            if len == 0 {
                return;
            }
            window[..len].copy_from_slice(&rest[..len]);
            self.conn.handle_received(self.now, len);
            rest = &rest[len..];
        }
    }
}
