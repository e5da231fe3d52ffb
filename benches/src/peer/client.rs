//! One client of the peer: what it sends, in frames, segments or records, and the answers on their way to it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use messina_core::conn::tls::rustls::{ServerConfig, ServerConnection};
use messina_core::wire::segment::SegmentCodec;
use messina_core::wire::{ProtocolFeatures, Response, ResultBody};
use mio::net::TcpStream;

use super::canned::Canned;
use super::{World, frame, system};

pub(crate) struct Client {
    stream: TcpStream,
    node: u16,
    shard: u16,
    version: u8,
    tls: Option<Box<ServerConnection>>,
    /// Both sides speak in segments: version 5, once the handshake is over.
    segments: Option<SegmentCodec>,
    begins_segments: bool,
    /// Bytes of an incomplete segment.
    cut: Vec<u8>,
    /// Bytes of an incomplete request.
    rest: Vec<u8>,
    /// Bytes of a request body that are thrown away as they arrive.
    skip: usize,
    /// Frames that were answered in this turn and go into segments or records.
    frames: Vec<u8>,
    out: VecDeque<Piece>,
    /// How much of the first piece is written.
    sent: usize,
    spare: Vec<u8>,
}

enum Piece {
    Bytes(Vec<u8>),
    Canned(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Canned(bytes) => bytes,
        }
    }
}

impl Client {
    pub(crate) fn new(
        stream: TcpStream,
        node: u16,
        shard: u16,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let tls = tls.map(|config| ServerConnection::new(config).map_err(io::Error::other));
        let mut tls = tls.transpose()?.map(Box::new);
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(None);
        }
        Ok(Self {
            stream,
            node,
            shard,
            version: 4,
            tls,
            segments: None,
            begins_segments: false,
            cut: Vec::new(),
            rest: Vec::new(),
            skip: 0,
            frames: Vec::new(),
            out: VecDeque::new(),
            sent: 0,
            spare: Vec::new(),
        })
    }

    pub(crate) fn turn(&mut self, world: &World, chunk: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        loop {
            let len = match self.stream.read(chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            match self.tls.take() {
                None => self.received(world, &chunk[..len]),
                Some(mut tls) => {
                    self.decrypt(world, &mut tls, &chunk[..len])?;
                    self.tls = Some(tls);
                }
            }
            self.flush()?;
            if len < chunk.len() {
                return Ok(());
            }
        }
    }

    fn decrypt(
        &mut self,
        world: &World,
        tls: &mut ServerConnection,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        let mut plain = [0; 16 * 1024];
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            loop {
                match tls.reader().read(&mut plain) {
                    Ok(0) => break,
                    Ok(len) => self.received(world, &plain[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn received(&mut self, world: &World, bytes: &[u8]) {
        if self.segments.is_none() {
            return self.requests(world, bytes);
        }
        let mut cut = std::mem::take(&mut self.cut);
        cut.extend_from_slice(bytes);
        let mut at = 0;
        while let Some([a, b, c, ..]) = cut.get(at..) {
            let len = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c & 1) << 16;
            let start = at + SEGMENT_HEADER;
            let Some(payload) = cut.get(start..start + len + SEGMENT_TRAILER) else {
                break;
            };
            self.requests(world, &payload[..len]);
            at = start + len + SEGMENT_TRAILER;
        }
        cut.drain(..at);
        self.cut = cut;
    }

    fn requests(&mut self, world: &World, bytes: &[u8]) {
        if self.rest.is_empty() {
            let used = self.consume(world, bytes);
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(bytes);
            let used = self.consume(world, &joined);
            joined.drain(..used);
            self.rest = joined;
        }
    }

    fn consume(&mut self, world: &World, bytes: &[u8]) -> usize {
        let mut at = self.skip.min(bytes.len());
        self.skip -= at;
        loop {
            let left = &bytes[at..];
            if left.len() < HEADER {
                return at;
            }
            let opcode = left[4];
            let body = u32::from_be_bytes([left[5], left[6], left[7], left[8]]) as usize;
            let stream = [left[2], left[3]];
            if opcode == EXECUTE {
                if left.len() < HEADER + ID {
                    return at;
                }
                self.answer_execute(world, left[HEADER + ID - 1], stream);
                let here = (HEADER + body).min(left.len());
                self.skip = HEADER + body - here;
                at += here;
                continue;
            }
            if left.len() < HEADER + body {
                return at;
            }
            self.version = left[0];
            let answer = self.answer(world, opcode, &left[HEADER..HEADER + body]);
            let version = self.version;
            let features = ProtocolFeatures {
                metadata_id: version == 5,
                ..ProtocolFeatures::default()
            };
            let out = self.tail();
            let start = out.len();
            frame(answer, out, &features, i16::from_be_bytes(stream));
            out[start] = 0x80 | version;
            at += HEADER + body;
            if std::mem::take(&mut self.begins_segments) {
                self.flush_frames();
                self.segments = SegmentCodec::new(None);
            }
        }
    }

    /// Answers with the canned frame whose statement's id ends in this byte.
    fn answer_execute(&mut self, world: &World, id: u8, stream: [u8; 2]) {
        let known = |canned: &&Canned| canned.id == id;
        let first = world.canned.first();
        let Some(canned) = world.canned.iter().find(known).or(first) else {
            return;
        };
        let (version, wrapped) = (self.version, self.is_wrapped());
        let out = self.tail();
        let start = out.len();
        out.extend_from_slice(&canned.head);
        out[start] = 0x80 | version;
        out[start + 2..start + 4].copy_from_slice(&stream);
        match &canned.large {
            Some(body) if wrapped => out.extend_from_slice(body),
            Some(body) => self.out.push_back(Piece::Canned(Arc::clone(body))),
            None => (),
        }
    }

    fn answer(&mut self, world: &World, opcode: u8, body: &[u8]) -> Response {
        match opcode {
            5 => system::supported(world, self.shard),
            1 => {
                self.begins_segments = self.version == 5;
                Response::Ready
            }
            11 => Response::Ready,
            9 => {
                let text = system::long_string(body);
                let known = world.canned.iter().find(|canned| canned.text == text);
                match known {
                    Some(canned) => canned.prepared(),
                    None => system::statement(world, self.node, &text),
                }
            }
            7 => system::rows(world, self.node, &system::long_string(body)),
            _ => Response::Result(ResultBody::Void),
        }
    }

    fn is_wrapped(&self) -> bool {
        self.tls.is_some() || self.segments.is_some()
    }

    /// Where the next small answer goes.
    fn tail(&mut self) -> &mut Vec<u8> {
        if self.is_wrapped() {
            return &mut self.frames;
        }
        if !matches!(self.out.back(), Some(Piece::Bytes(_))) {
            let spare = std::mem::take(&mut self.spare);
            self.out.push_back(Piece::Bytes(spare));
        }
        match self.out.back_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => &mut self.frames,
        }
    }

    /// Wraps what was answered, where the connection does.
    fn flush_frames(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        if frames.is_empty() {
            return;
        }
        let mut sealed = std::mem::take(&mut self.spare);
        match &mut self.segments {
            Some(codec) => codec.seal(&frames, &mut sealed),
            None => sealed.extend_from_slice(&frames),
        }
        self.out.push_back(Piece::Bytes(sealed));
        self.frames = frames;
        self.frames.clear();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_frames();
        if let Some(tls) = &mut self.tls {
            for piece in self.out.drain(..) {
                tls.writer().write_all(piece.bytes())?;
            }
            while tls.wants_write() {
                match tls.write_tls(&mut self.stream) {
                    Ok(_) => (),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); 8];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.out) {
                let from = if count == 0 { self.sent } else { 0 };
                *slice = IoSlice::new(&piece.bytes()[from..]);
                count += 1;
            }
            match self.stream.write_vectored(&slices[..count]) {
                Ok(len) => self.wrote(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wrote(&mut self, len: usize) {
        self.sent += len;
        while let Some(first) = self.out.front()
            && first.bytes().len() <= self.sent
        {
            self.sent -= first.bytes().len();
            if let Some(Piece::Bytes(mut bytes)) = self.out.pop_front() {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}

const HEADER: usize = 9;
const EXECUTE: u8 = 10;
/// Length of a statement's id, its own length included.
const ID: usize = 18;
const SEGMENT_HEADER: usize = 6;
const SEGMENT_TRAILER: usize = 4;
