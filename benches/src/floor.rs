//! The floor: a program that does only what no client can avoid. A blocking socket, EXECUTE frames encoded beforehand,
//! one write for all frames that are due, one read, a scan of the answers' headers, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use messina_core::wire::consistency::Consistency;
use messina_core::wire::header::FrameHeader;
use messina_core::wire::request::{ParamsRef, RequestOptionsRef, RequestRef, ValuesRef};
use messina_core::wire::supported::ProtocolFeatures;

use crate::BenchError;
use crate::books::{Measured, Window};
use crate::open::{self, Latencies};
use crate::workload::{BLOB, LARGE, OVER, Span, TEXT, Workload};

/// What the floor is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is asked.
    pub workload: Workload,
    /// Requests in flight.
    pub in_flight: usize,
    /// Copies a template, the key and the stream id for each request, instead of sending the same bytes again.
    pub encode: bool,
    /// What is done before the books open.
    pub warmup: Span,
    /// What is measured.
    pub span: Span,
    /// Requests that fall due each second, for an open loop.
    pub rate: Option<u64>,
}

/// Runs the floor against the peer at this address.
///
/// # Errors
///
/// The peer went away, or answered with something else than a result.
pub fn run(address: &str, mut plan: Plan) -> Result<(Measured, Option<Latencies>), BenchError> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let each = plan.rate.map_or(0, open::each_tick);
    plan.in_flight = plan.in_flight.max(usize::try_from(each)?);
    let mut floor = Floor::new(socket, plan)?;
    floor.run(plan.warmup)?;
    let window = Window::open();
    if plan.rate.is_none() {
        let requests = floor.run(plan.span)?;
        return Ok((window.close(requests), None));
    }
    let latencies = floor.run_open(each, open::ticks(plan.span, each)?)?;
    Ok((window.close(latencies.count()), Some(latencies)))
}

struct Floor {
    socket: TcpStream,
    frames: Vec<u8>,
    frame_len: usize,
    in_flight: usize,
    encode: bool,
    copied: Vec<u8>,
    key_at: usize,
    key: i64,
    next: usize,
    read: Vec<u8>,
    kept: usize,
    /// Bytes of an answer that are thrown away as they arrive.
    skip: usize,
}

impl Floor {
    fn new(socket: TcpStream, plan: Plan) -> Result<Self, BenchError> {
        let template = template(plan.workload)?;
        let key_at = template
            .windows(8)
            .position(|window| window == KEY.to_be_bytes())
            .ok_or("the template has no key")?;
        let mut frames = Vec::new();
        // Twice, so that any run of frames that are due lies in one piece.
        let streams = u16::try_from(plan.in_flight)?;
        for stream in (0..streams).chain(0..streams) {
            let at = frames.len();
            frames.extend_from_slice(&template);
            frames[at + 2..at + 4].copy_from_slice(&stream.to_be_bytes());
        }
        Ok(Self {
            socket,
            frame_len: template.len(),
            frames,
            in_flight: plan.in_flight,
            encode: plan.encode,
            copied: Vec::new(),
            key_at,
            key: 0,
            next: 0,
            read: vec![0; READ_CHUNK],
            kept: 0,
            skip: 0,
        })
    }

    fn run(&mut self, span: Span) -> Result<u64, BenchError> {
        span.ring(&OVER);
        let limit = span.share(0, 1);
        let (mut sent, mut answered) = (0, 0);
        let mut due = limit.min(self.in_flight as u64);
        while 0 < due || answered < sent {
            self.send(due as usize)?;
            sent += due;
            let got = self.receive()?;
            answered += got;
            due = match OVER.load(Ordering::Relaxed) {
                true => 0,
                false => got.min(limit - sent),
            };
        }
        Ok(answered)
    }

    /// Sends what falls due each millisecond and reads until it is answered; latencies count from the due time.
    fn run_open(&mut self, each: u64, ticks: u64) -> Result<Latencies, BenchError> {
        let start = Instant::now();
        let mut nanos = Vec::new();
        for tick in 1..=ticks {
            let due = start + Duration::from_millis(tick);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.send(usize::try_from(each)?)?;
            let mut answered = 0;
            while answered < each {
                let got = self.receive()?;
                let took = u64::try_from(due.elapsed().as_nanos())?;
                nanos.extend((0..got).map(|_| took));
                answered += got;
            }
        }
        Ok(Latencies::of(nanos))
    }

    fn send(&mut self, count: usize) -> Result<(), BenchError> {
        if count == 0 {
            return Ok(());
        }
        let (start, end) = (self.next, self.next + count);
        if self.encode {
            self.encode(start..end);
            self.socket.write_all(&self.copied)?;
        } else {
            let frames = start * self.frame_len..end * self.frame_len;
            self.socket.write_all(&self.frames[frames])?;
        }
        self.next = end % self.in_flight;
        Ok(())
    }

    fn encode(&mut self, frames: Range<usize>) {
        self.copied.clear();
        for index in frames {
            let at = self.copied.len();
            self.copied
                .extend_from_slice(&self.frames[..self.frame_len]);
            let frame = &mut self.copied[at..];
            frame[2..4].copy_from_slice(&((index % self.in_flight) as u16).to_be_bytes());
            frame[self.key_at..self.key_at + 8].copy_from_slice(&self.key.to_be_bytes());
            self.key += 1;
        }
    }

    /// Reads once and counts the answers that are complete.
    fn receive(&mut self) -> Result<u64, BenchError> {
        let len = self.socket.read(&mut self.read[self.kept..])?;
        if len == 0 {
            return Err("the peer closed the connection".into());
        }
        let filled = self.kept + len;
        let mut count = 0;
        let mut at = self.skip.min(filled);
        self.skip -= at;
        if 0 < at && self.skip == 0 {
            count += 1;
        }
        while at + FrameHeader::LEN <= filled {
            let body = [5, 6, 7, 8].map(|byte| self.read[at + byte]);
            let end = at + FrameHeader::LEN + u32::from_be_bytes(body) as usize;
            if self.read[at + 4] != RESULT {
                return Err("the peer answered with something else than a result".into());
            }
            if filled < end {
                self.skip = end - filled;
                at = filled;
                break;
            }
            at = end;
            count += 1;
        }
        self.read.copy_within(at..filled, 0);
        self.kept = filled - at;
        Ok(count)
    }
}

/// The frame that a driver would send, with [`KEY`] for a key.
fn template(workload: Workload) -> Result<Vec<u8>, BenchError> {
    let mut bytes = Vec::new();
    let mut count = 0;
    let mut value = |content: &[u8]| {
        bytes.extend_from_slice(&(content.len() as i32).to_be_bytes());
        bytes.extend_from_slice(content);
        count += 1;
    };
    value(&KEY.to_be_bytes());
    match workload {
        Workload::Insert => {
            value(TEXT.as_bytes());
            value(&BLOB);
        }
        Workload::BlobPut => value(&vec![0xab; LARGE]),
        _ => (),
    }
    // The peer's ids are sixteen bytes, and their last one tells which answer it gives.
    let mut id = [0; 16];
    id[15] = workload.id();
    let values = ValuesRef {
        count,
        bytes: &bytes,
        ..ValuesRef::default()
    };
    let params = ParamsRef {
        consistency: Consistency::LocalQuorum,
        values,
        skip_metadata: true,
        page_size: Some(5000),
        timestamp: Some(1),
        ..ParamsRef::default()
    };
    let request = RequestRef::Execute {
        id: &id,
        result_metadata_id: None,
        tablet_block: 0,
        params,
    };
    let mut frame = Vec::new();
    request.encode(
        &mut frame,
        &ProtocolFeatures::default(),
        0,
        &RequestOptionsRef::default(),
    )?;
    Ok(frame)
}

/// A key that nothing else in the frame looks like.
const KEY: i64 = 0x5ee5_1234_4321_5ee5;

/// The opcode of every answer that is expected.
const RESULT: u8 = 8;

const READ_CHUNK: usize = 256 * 1024;
