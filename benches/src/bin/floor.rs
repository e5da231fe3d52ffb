//! The floor: a program that does only what no client can avoid. A blocking socket, EXECUTE frames encoded beforehand,
//! one write for all frames that are due, one read, a scan of the answers' headers, and nothing else.
//!
//! It measures only itself: the peer is another process. Prints one JSON line a run, as `client` does, so that the cost
//! of a driver can be told as a multiple of this.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use messina_benches::{Peer, cpu_nanos};
use messina_core::wire::consistency::Consistency;
use messina_core::wire::header::FrameHeader;
use messina_core::wire::request::{ParamsRef, RequestOptionsRef, RequestRef, ValuesRef};
use messina_core::wire::supported::ProtocolFeatures;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    Insert,
    Select1,
}

/// Sends a counted number of ready-made requests over one socket and says what they cost.
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, value_enum, default_value = "insert")]
    workload: Workload,
    /// Requests in flight.
    #[arg(long, default_value_t = 64)]
    conc: usize,
    /// Requests in all.
    #[arg(long, default_value_t = 9216)]
    ops: usize,
    /// Requests before the measured ones.
    #[arg(long, default_value_t = 0)]
    warmup: usize,
    /// Copies a template, the key and the stream id for each request, instead of sending the same bytes again.
    #[arg(long)]
    encode: bool,
    /// The address of a peer that runs already; otherwise one is started.
    #[arg(long)]
    peer: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let peer = args.peer.is_none().then(Peer::start).transpose()?;
    let address = args
        .peer
        .clone()
        .or_else(|| peer.as_ref().map(|peer| peer.address.clone()))
        .ok_or("no peer")?;
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let mut floor = Floor::new(socket, &args)?;
    floor.run(args.warmup)?;
    let (cpu, start) = (cpu_nanos(), Instant::now());
    floor.run(args.ops)?;
    let (cpu, seconds) = (
        cpu_nanos().saturating_sub(cpu),
        start.elapsed().as_secs_f64(),
    );
    let requests = args.ops.max(1);
    println!(
        "{{\"floor\":\"{}\",\"workload\":\"{:?}\",\"conc\":{},\"requests\":{requests},\"seconds\":{seconds:.3},\
         \"rate\":{:.0},\"cpu_ns_per_request\":{}}}",
        if args.encode { "encode" } else { "ready" },
        args.workload,
        args.conc,
        requests as f64 / seconds,
        cpu / requests as u64,
    );
    Ok(())
}

struct Floor {
    socket: TcpStream,
    /// One frame per stream, one after the other, the whole sequence twice: any run of frames is one slice.
    frames: Vec<u8>,
    frame_len: usize,
    /// Where the key lies in a frame.
    key_at: usize,
    conc: usize,
    encode: bool,
    /// The next frame to send. The peer answers in order, so the stream of the oldest frame is always free.
    next: usize,
    key: i64,
    /// The frames of one write, where they are copied for each.
    copied: Vec<u8>,
    read: Vec<u8>,
    /// Bytes of an answer whose rest has not arrived.
    kept: usize,
}

impl Floor {
    fn new(socket: TcpStream, args: &Args) -> Result<Self, Box<dyn Error>> {
        let template = template(args.workload)?;
        let key_at = template
            .windows(8)
            .position(|bytes| bytes == KEY.to_be_bytes())
            .ok_or("the key is not there")?;
        let conc = args.conc.clamp(1, 32_768);
        let mut frames = Vec::with_capacity(2 * conc * template.len());
        for index in 0..2 * conc {
            let start = frames.len();
            frames.extend_from_slice(&template);
            frames[start + 2..start + 4].copy_from_slice(&((index % conc) as u16).to_be_bytes());
        }
        let frame_len = template.len();
        let read = vec![0; READ_CHUNK];
        let copied = Vec::with_capacity(conc * frame_len);
        Ok(Self {
            socket,
            frames,
            frame_len,
            key_at,
            conc,
            encode: args.encode,
            next: 0,
            key: 0,
            copied,
            read,
            kept: 0,
        })
    }

    fn run(&mut self, requests: usize) -> Result<(), Box<dyn Error>> {
        let mut sent = requests.min(self.conc);
        self.send(sent)?;
        let mut answered = 0;
        while answered < requests {
            let count = self.receive()?;
            answered += count;
            let due = count.min(requests - sent);
            self.send(due)?;
            sent += due;
        }
        Ok(())
    }

    fn send(&mut self, count: usize) -> Result<(), Box<dyn Error>> {
        if count == 0 {
            return Ok(());
        }
        let (start, end) = (
            self.next * self.frame_len,
            (self.next + count) * self.frame_len,
        );
        if self.encode {
            self.copied.clear();
            for index in self.next..self.next + count {
                let at = self.copied.len();
                self.copied
                    .extend_from_slice(&self.frames[..self.frame_len]);
                let frame = &mut self.copied[at..];
                frame[2..4].copy_from_slice(&((index % self.conc) as u16).to_be_bytes());
                frame[self.key_at..self.key_at + 8].copy_from_slice(&self.key.to_be_bytes());
                self.key += 1;
            }
            self.socket.write_all(&self.copied)?;
        } else {
            self.socket.write_all(&self.frames[start..end])?;
        }
        self.next = (self.next + count) % self.conc;
        Ok(())
    }

    /// Reads once and counts the answers that are complete.
    fn receive(&mut self) -> Result<usize, Box<dyn Error>> {
        let len = self.socket.read(&mut self.read[self.kept..])?;
        if len == 0 {
            return Err("the peer closed the connection".into());
        }
        let filled = self.kept + len;
        let (mut at, mut count) = (0, 0);
        while at + FrameHeader::LEN <= filled {
            let body = [5, 6, 7, 8].map(|byte| self.read[at + byte]);
            let end = at + FrameHeader::LEN + u32::from_be_bytes(body) as usize;
            if filled < end {
                break;
            }
            if self.read[at + 4] != RESULT {
                return Err("the peer answered with something else than a result".into());
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
fn template(workload: Workload) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    let mut value = |content: &[u8]| {
        bytes.extend_from_slice(&(content.len() as i32).to_be_bytes());
        bytes.extend_from_slice(content);
    };
    value(&KEY.to_be_bytes());
    // The peer's ids are sixteen bytes, and their last one tells which answer it gives.
    let mut id = [0; 16];
    let count = match workload {
        Workload::Insert => {
            value(b"sixteen letters.");
            value(&[0xab; 16]);
            id[15] = 1;
            3
        }
        Workload::Select1 => {
            id[15] = 2;
            1
        }
    };
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
