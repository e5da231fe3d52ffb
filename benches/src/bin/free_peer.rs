//! A peer that costs nothing: one thread, nine bytes of each request looked at, canned answers copied.
//! It knows just enough of the protocol for a driver to connect; all else is left out on purpose.
//!
//! Prints `listening 127.0.0.1:PORT` and serves until it is killed.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(0);
const HEADER: usize = 9;
const READ_CHUNK: usize = 256 * 1024;

fn main() -> io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .unwrap_or(0_u16);
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(([127, 0, 0, 1], port).into())?;
    let port = listener.local_addr()?.port();
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("listening 127.0.0.1:{port}");
    let mut events = Events::with_capacity(256);
    let mut clients: HashMap<Token, Client> = HashMap::new();
    let mut next = 1;
    let mut chunk = vec![0; READ_CHUNK];
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let token = Token(next);
                    next += 1;
                    stream.set_nodelay(true)?;
                    poll.registry().register(
                        &mut stream,
                        token,
                        Interest::READABLE | Interest::WRITABLE,
                    )?;
                    clients.insert(token, Client::new(stream, port));
                }
                continue;
            }
            if let Some(client) = clients.get_mut(&event.token())
                && client.turn(&mut chunk).is_err()
            {
                clients.remove(&event.token());
            }
        }
    }
}

struct Client {
    stream: TcpStream,
    port: u16,
    /// Bytes of an incomplete request.
    rest: Vec<u8>,
    /// Bytes of a request body that are thrown away as they arrive.
    skip: usize,
    out: Vec<u8>,
    void: Vec<u8>,
    row: Vec<u8>,
}

impl Client {
    fn new(stream: TcpStream, port: u16) -> Self {
        Self {
            stream,
            port,
            rest: Vec::new(),
            skip: 0,
            out: Vec::new(),
            void: frame(8, &int(1)),
            row: frame(8, &select_row()),
        }
    }

    fn turn(&mut self, chunk: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        loop {
            let len = match self.stream.read(chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if self.rest.is_empty() {
                let used = self.consume(&chunk[..len]);
                self.rest.extend_from_slice(&chunk[used..len]);
            } else {
                let mut bytes = std::mem::take(&mut self.rest);
                bytes.extend_from_slice(&chunk[..len]);
                let used = self.consume(&bytes);
                bytes.drain(..used);
                self.rest = bytes;
            }
            self.flush()?;
            if len < chunk.len() {
                return Ok(());
            }
        }
    }

    fn consume(&mut self, bytes: &[u8]) -> usize {
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
            if opcode == 10 {
                if left.len() < HEADER + 18 {
                    return at;
                }
                let canned = if left[HEADER + 17] == 2 {
                    &self.row
                } else {
                    &self.void
                };
                let start = self.out.len();
                self.out.extend_from_slice(canned);
                self.out[start + 2..start + 4].copy_from_slice(&stream);
                let here = (HEADER + body).min(left.len());
                self.skip = HEADER + body - here;
                at += here;
                continue;
            }
            if left.len() < HEADER + body {
                return at;
            }
            let mut answer = self.answer(opcode, &left[HEADER..HEADER + body]);
            answer[2..4].copy_from_slice(&stream);
            self.out.extend_from_slice(&answer);
            at += HEADER + body;
        }
    }

    fn answer(&self, opcode: u8, body: &[u8]) -> Vec<u8> {
        match opcode {
            5 => {
                let mut options = short(2);
                string(&mut options, "CQL_VERSION");
                options.extend(short(1));
                string(&mut options, "3.4.5");
                string(&mut options, "COMPRESSION");
                options.extend(short(0));
                frame(6, &options)
            }
            1 | 11 => frame(2, &[]),
            9 => frame(8, &prepared(&long_string(body))),
            7 => frame(8, &system_rows(&long_string(body), self.port)),
            _ => frame(8, &int(1)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.out.drain(..sent);
        Ok(())
    }
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x84, 0, 0, 0, opcode];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn short(value: u16) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend(short(text.len() as u16));
    out.extend(text.as_bytes());
}

fn cell(out: &mut Vec<u8>, value: &[u8]) {
    out.extend(int(value.len() as i32));
    out.extend(value);
}

fn long_string(body: &[u8]) -> String {
    let len = u32::from_be_bytes([body[0], body[1], body[2], body[3]]) as usize;
    String::from_utf8_lossy(&body[4..4 + len]).into_owned()
}

const KV: [(&str, u16); 3] = [("pk", 2), ("v", 13), ("data", 3)];

fn columns(out: &mut Vec<u8>, columns: &[(&str, u16)]) {
    string(out, "bench");
    string(out, "kv");
    for (name, kind) in columns {
        string(out, name);
        out.extend(short(*kind));
    }
}

/// A RESULT of kind PREPARED; the last byte of the id says which canned answer an EXECUTE gets.
fn prepared(text: &str) -> Vec<u8> {
    let select = text.trim_start().starts_with("SELECT");
    let mut id = [0; 16];
    id[15] = if select { 2 } else { 1 };
    let mut out = int(4);
    out.extend(short(16));
    out.extend(id);
    let bound = if select { &KV[..1] } else { &KV[..] };
    out.extend(int(1));
    out.extend(int(bound.len() as i32));
    out.extend(int(1));
    out.extend(short(0));
    columns(&mut out, bound);
    if select {
        out.extend(int(1));
        out.extend(int(3));
        columns(&mut out, &KV);
    } else {
        out.extend(int(4));
        out.extend(int(0));
    }
    out
}

fn select_row() -> Vec<u8> {
    let mut out = int(2);
    out.extend(int(1));
    out.extend(int(3));
    columns(&mut out, &KV);
    out.extend(int(1));
    cell(&mut out, &7_i64.to_be_bytes());
    cell(&mut out, b"sixteen letters.");
    cell(&mut out, &[0xab; 16]);
    out
}

/// Answers a read of a system table: one row for the local node, the keyspace and the table, none for all others.
fn system_rows(text: &str, port: u16) -> Vec<u8> {
    let lower = text.to_lowercase();
    let Some((list, rest)) = lower
        .strip_prefix("select")
        .and_then(|list| list.split_once(" from "))
    else {
        return int(1);
    };
    let table = rest.split_whitespace().next().unwrap_or_default();
    let filled = [
        "system.local",
        "system_schema.keyspaces",
        "system_schema.tables",
    ]
    .contains(&table);
    let names: Vec<&str> = match list.trim() {
        "*" => KNOWN.to_vec(),
        list => list.split(',').map(str::trim).collect(),
    };
    let cells: Vec<(&str, Vec<u8>, Vec<u8>)> = names
        .into_iter()
        .map(|name| local_cell(name, port))
        .collect();
    let mut out = int(2);
    out.extend(int(1));
    out.extend(int(cells.len() as i32));
    string(&mut out, "system");
    string(&mut out, "any");
    for (name, kind, _) in &cells {
        string(&mut out, name);
        out.extend(kind);
    }
    out.extend(int(i32::from(filled)));
    for (_, _, value) in cells.iter().filter(|_| filled) {
        if value.is_empty() {
            out.extend(int(-1));
        } else {
            cell(&mut out, value);
        }
    }
    out
}

const KNOWN: [&str; 15] = [
    "peer",
    "key",
    "bootstrapped",
    "broadcast_address",
    "cluster_name",
    "cql_version",
    "data_center",
    "host_id",
    "listen_address",
    "partitioner",
    "rack",
    "release_version",
    "rpc_address",
    "schema_version",
    "tokens",
];

fn local_cell(name: &str, port: u16) -> (&str, Vec<u8>, Vec<u8>) {
    let (kind, value) = match name {
        "host_id" | "schema_version" => (short(12), vec![0x41; 16]),
        "peer" | "rpc_address" | "broadcast_address" | "listen_address" => {
            (short(16), vec![127, 0, 0, 1])
        }
        "native_port" | "rpc_port" => (short(9), int(i32::from(port))),
        "data_center" => (short(13), b"dc1".to_vec()),
        "rack" => (short(13), b"r1".to_vec()),
        "partitioner" => (
            short(13),
            b"org.apache.cassandra.dht.Murmur3Partitioner".to_vec(),
        ),
        "release_version" => (short(13), b"3.0.8".to_vec()),
        "cluster_name" => (short(13), b"free".to_vec()),
        "key" => (short(13), b"local".to_vec()),
        "keyspace_name" => (short(13), b"bench".to_vec()),
        "table_name" => (short(13), b"kv".to_vec()),
        "replication" => {
            let mut map = int(2);
            for text in [
                "class",
                "org.apache.cassandra.locator.NetworkTopologyStrategy",
                "dc1",
                "1",
            ] {
                cell(&mut map, text.as_bytes());
            }
            let mut kind = short(0x21);
            kind.extend(short(13));
            kind.extend(short(13));
            (kind, map)
        }
        "tokens" => {
            let mut set = int(1);
            cell(&mut set, b"0");
            let mut kind = short(0x22);
            kind.extend(short(13));
            (kind, set)
        }
        _ => (short(13), Vec::new()),
    };
    (name, kind, value)
}
