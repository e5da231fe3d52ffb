//! Drives a whole cluster from one thread: no async runtime, no thread of the driver's, one loop over all sockets.
//!
//! With `MESSINA_CONTACT_POINTS=192.0.2.1:9042,192.0.2.2:9042` it talks to that cluster; without, it starts a simulated
//! one of three nodes with four shards each.
//!
//! ```text
//! cargo run -p messina-core --example blocking_cluster
//! ```

// An example is the outside world: it may own sockets and read the clock.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use messina_core::cluster::ConnId;
use messina_core::config::session::{ReadinessRule, SessionConfig};
use messina_core::conn::ConnectSpec;
use messina_core::driver::{Driver, DriverOutput, RequestId};
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::seed::Seed;
use messina_engine::net::{Started, finish_connect, start_connect};
use messina_testkit::SimulatedCluster;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let given = std::env::var("MESSINA_CONTACT_POINTS").ok();
    let simulated = match given {
        Some(_) => None,
        None => Some(SimulatedCluster::builder().nodes(3).shards(4).start()?),
    };
    let points = match &simulated {
        Some(cluster) => cluster.contact_points(),
        None => given
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect(),
    };
    let mut client = Client::connect(&points)?;
    client.execute(
        "CREATE KEYSPACE IF NOT EXISTS blocking WITH replication = \
         {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
    )?;
    client.execute("CREATE TABLE IF NOT EXISTS blocking.words (id int PRIMARY KEY, word text)")?;

    // All requests are under way at the same time, each on the connection to the shard that owns its row.
    let insert = client.prepare("INSERT INTO blocking.words (id, word) VALUES (?, ?)")?;
    let now = Instant::now();
    let requests: Vec<RequestId> = (0..1_000)
        .map(|id| {
            client
                .driver
                .execute(now, &insert, (id, format!("word {id}")))
        })
        .collect();
    for request in requests {
        client.wait_for(request)?;
    }

    let select = client.prepare("SELECT word FROM blocking.words WHERE id = ?")?;
    let request = client.driver.execute(Instant::now(), &select, (42,));
    let (word,) = client.wait_for(request)?.one::<(String,)>()?;
    println!("row 42 holds {word:?}");
    for host in client.driver.status() {
        println!("{host}");
    }
    let cut = client.close()?;
    println!("closed; {cut} requests were cut off");
    Ok(())
}

/// A driver with its sockets.
struct Client {
    driver: Driver,
    poll: Poll,
    sockets: BTreeMap<ConnId, Socket>,
    ready: bool,
    closed: Option<usize>,
    /// The answers that nobody has asked for yet.
    answers: BTreeMap<RequestId, DriverOutput>,
}

struct Socket {
    stream: TcpStream,
    connected: bool,
}

impl Client {
    /// Connects to every shard of the cluster.
    fn connect(points: &[String]) -> Result<Self, Failure> {
        let mut config = SessionConfig::default();
        for point in points {
            config.contact_points.push(point.parse()?);
        }
        config.ready = ReadinessRule::EveryShard;
        let clock = SystemTime::now().duration_since(UNIX_EPOCH)?;
        // Randomness is an input as well; a program would take all of it from the system.
        let seed = Seed::from_u64(u64::from(clock.subsec_nanos()));
        let micros = i64::try_from(clock.as_micros())?;
        let mut client = Self {
            driver: Driver::new(Instant::now(), micros, config, seed),
            poll: Poll::new()?,
            sockets: BTreeMap::new(),
            ready: false,
            closed: None,
            answers: BTreeMap::new(),
        };
        while !client.ready {
            client.turn()?;
        }
        Ok(client)
    }

    fn execute(&mut self, text: &str) -> Result<QueryResult, Failure> {
        let request = self.driver.execute(Instant::now(), text, ());
        self.wait_for(request)
    }

    fn prepare(&mut self, text: &str) -> Result<PreparedStatement, Failure> {
        let request = self.driver.prepare(Instant::now(), text);
        match self.answer_to(request)? {
            DriverOutput::Prepared { result, .. } => Ok(result?),
            other => Err(format!("not an answer to a PREPARE: {other:?}").into()),
        }
    }

    fn wait_for(&mut self, request: RequestId) -> Result<QueryResult, Failure> {
        match self.answer_to(request)? {
            DriverOutput::Answer { result, .. } => Ok(result?),
            other => Err(format!("not an answer to a statement: {other:?}").into()),
        }
    }

    fn answer_to(&mut self, request: RequestId) -> Result<DriverOutput, Failure> {
        loop {
            if let Some(answer) = self.answers.remove(&request) {
                return Ok(answer);
            }
            self.turn()?;
        }
    }

    /// Lets what is under way end within a second, then closes; tells how many requests were cut off.
    fn close(&mut self) -> Result<usize, Failure> {
        let now = Instant::now();
        self.driver.close(now, now + Duration::from_secs(1));
        loop {
            if let Some(cut) = self.closed {
                return Ok(cut);
            }
            self.turn()?;
        }
    }

    /// Does what the driver says, then waits for the first thing that happens.
    fn turn(&mut self) -> Result<(), Failure> {
        let mut some = false;
        while let Some(output) = self.driver.poll_output() {
            self.perform(output)?;
            some = true;
        }
        if some {
            // Whoever waits may have its answer now.
            return Ok(());
        }
        let wait = self
            .driver
            .poll_timeout()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let mut events = Events::with_capacity(64);
        match self.poll.poll(&mut events, wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            other => other?,
        }
        for event in &events {
            let conn = name_of(event.token());
            if event.is_writable() {
                self.writable(conn);
            }
            if event.is_readable() {
                self.read(conn);
            }
        }
        self.driver.handle_timeout(Instant::now());
        Ok(())
    }

    fn perform(&mut self, output: DriverOutput) -> Result<(), Failure> {
        let now = Instant::now();
        match output {
            DriverOutput::Resolve { id, host, port } => {
                // It blocks; a program with more to do would ask a thread of its own.
                let found = (&*host, port).to_socket_addrs();
                let found = found.map(Iterator::collect::<Vec<SocketAddr>>);
                self.driver
                    .handle_resolved(now, id, found.map_err(Into::into));
            }
            DriverOutput::Connect { conn, spec } => {
                if let Err(error) = self.dial(conn, &spec) {
                    self.driver.handle_connect_failed(now, conn, error);
                }
            }
            DriverOutput::Transmit { conn } => self.write(conn),
            DriverOutput::Disconnect { conn, last_words } => {
                if let Some(mut socket) = self.sockets.remove(&conn) {
                    // The peer may miss it: the connection ends all the same.
                    drop(socket.stream.write(&last_words));
                    self.poll.registry().deregister(&mut socket.stream)?;
                }
            }
            DriverOutput::Ready(_) => self.ready = true,
            DriverOutput::Failed(error) => return Err(error.into()),
            DriverOutput::Closed { cut } => self.closed = Some(cut),
            DriverOutput::Note(note) => eprintln!("{note}"),
            other => {
                if let Some(request) = other.request() {
                    self.answers.insert(request, other);
                }
            }
        }
        Ok(())
    }

    fn dial(&mut self, conn: ConnId, spec: &ConnectSpec) -> io::Result<()> {
        let Started::Tcp(stream) = start_connect(spec)? else {
            return Err(ErrorKind::Unsupported.into());
        };
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, token_of(conn), interest)?;
        let connected = false;
        self.sockets.insert(conn, Socket { stream, connected });
        Ok(())
    }

    /// Ends an attempt to connect, or goes on where the socket was full.
    fn writable(&mut self, conn: ConnId) {
        let now = Instant::now();
        let Some(socket) = self.sockets.get_mut(&conn) else {
            return;
        };
        if socket.connected {
            return self.write(conn);
        }
        match finish_connect(&socket.stream) {
            Ok(()) => {
                socket.connected = true;
                self.driver.handle_connected(now, conn);
            }
            Err(error) => {
                self.sockets.remove(&conn);
                self.driver.handle_connect_failed(now, conn, error);
            }
        }
    }

    fn write(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get_mut(&conn) else {
            return;
        };
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = self.driver.poll_transmit(conn, &mut slices);
            let Some(slices) = slices.get(..count).filter(|slices| !slices.is_empty()) else {
                return;
            };
            let wrote = socket.stream.write_vectored(slices);
            let now = Instant::now();
            match wrote {
                Ok(0) => {
                    let error = ErrorKind::WriteZero;
                    return self.driver.handle_write_error(now, conn, error);
                }
                Ok(len) => self.driver.handle_transmitted(now, conn, len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return self.driver.handle_write_error(now, conn, error),
            }
        }
    }

    fn read(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get_mut(&conn).filter(|own| own.connected) else {
            return;
        };
        loop {
            let buffer = self.driver.recv_buffer(conn);
            if buffer.is_empty() {
                return;
            }
            let read = socket.stream.read(buffer);
            let now = Instant::now();
            match read {
                Ok(0) => return self.driver.handle_eof(now, conn),
                Ok(len) => self.driver.handle_received(now, conn, len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return self.driver.handle_io_error(now, conn, error),
            }
        }
    }
}

/// The name of a connection as a number for the poll, and back.
fn token_of(conn: ConnId) -> Token {
    Token((conn.generation as usize) << 32 | conn.index as usize)
}

fn name_of(token: Token) -> ConnId {
    ConnId {
        index: (token.0 & 0xffff_ffff) as u32,
        generation: (token.0 >> 32) as u32,
    }
}
