//! The sans-IO core of Messina, a ScyllaDB and Cassandra driver: bytes and instants in, bytes and effects out.
//!
//! Nothing in this crate opens a socket, reads a clock, starts a thread, takes a lock or logs. Everything it does follows
//! from its inputs and from a [`Seed`](seed::Seed) that is given once, so what happened can be replayed, simulated in
//! virtual time and fuzzed. Applications pick an adapter (`messina-tokio`, `messina-smol`, `messina-async-std`); this
//! crate is for those who have an event loop of their own, or who write a driver, a proxy or a test.
//!
//! # The four ports
//!
//! A machine is a plain value with one owner. It meets the world through four ports:
//!
//! | port | in | out |
//! |---|---|---|
//! | bytes from the peer | [`recv_buffer`], [`handle_received`], [`handle_eof`], [`handle_io_error`] | |
//! | bytes to the peer | [`handle_transmitted`] | [`poll_transmit`] |
//! | commands and what came of them | plain verbs, such as [`submit`] and [`abandon`] | [`poll_output`] |
//! | time | [`handle_timeout`], and `now` as the first argument of every input | [`poll_timeout`] |
//!
//! # The driving rule
//!
//! After any input, call [`poll_output`] until it returns nothing, write what [`poll_transmit`] gives, then arm one timer
//! for [`poll_timeout`]. Inputs may be batched before draining; outputs keep their order and do not depend on when they
//! are taken. [`handle_timeout`] may be called early, late or for nothing.
//!
//! # A question without a runtime
//!
//! This is all that it takes to connect, ask and wait for the answer over a blocking socket. The example `blocking` of
//! this crate is the same as a whole program.
//!
//! ```no_run
//! use std::io::{ErrorKind, IoSlice, Read, Write};
//! use std::net::{SocketAddr, TcpStream};
//! use std::time::{Duration, Instant};
//!
//! use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Ticket};
//! use messina_core::wire::{RequestOptionsRef, RequestRef, ResponseFrame};
//!
//! fn ask(address: SocketAddr, plan: ConnectionPlan, request: RequestRef<'_>) -> Result<ResponseFrame, Box<dyn std::error::Error>> {
//!     let mut socket = TcpStream::connect(address)?;
//!     let mut conn = Connection::new(Instant::now(), plan);
//!     loop {
//!         while let Some(output) = conn.poll_output() {
//!             match output {
//!                 ConnectionOutput::Ready(_) => {
//!                     conn.submit(Instant::now(), Ticket(1), request, &RequestOptionsRef::default(), None)?;
//!                 }
//!                 ConnectionOutput::Reply { reply, .. } => return Ok(reply?),
//!                 ConnectionOutput::Closed(error) => return Err(error.into()),
//!                 _ => (), // events, notes: nothing that this question needs
//!             }
//!         }
//!         loop {
//!             let mut slices = [IoSlice::new(&[]); 16];
//!             let count = conn.poll_transmit(&mut slices);
//!             if count == 0 {
//!                 break;
//!             }
//!             let len = socket.write_vectored(&slices[..count])?;
//!             conn.handle_transmitted(Instant::now(), len);
//!         }
//!         let wait = |at: Instant| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
//!         socket.set_read_timeout(conn.poll_timeout().map(wait))?;
//!         match socket.read(conn.recv_buffer()) {
//!             Ok(0) => conn.handle_eof(Instant::now()),
//!             Ok(len) => conn.handle_received(Instant::now(), len),
//!             Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => conn.handle_timeout(Instant::now()),
//!             Err(e) => conn.handle_io_error(Instant::now(), e),
//!         }
//!     }
//! }
//! ```
//!
//! # How the pieces fit
//!
//! ```text
//!  application ──► adapter (tokio │ smol │ async-std) ──► messina-engine: one task a connection, one for the cluster
//!                                                                  │
//!  your own loop ──────────────────────────────────────────► messina-core
//!        driver   Driver: all of it under one owner                                 one per session
//!        exec     Execution: where does a request go, what if it fails            one per request, in the caller
//!        cluster  ControlPlane: who is in the cluster, whom to connect to         one per session
//!        routing  Routing: an immutable snapshot that both sides read             one per change
//!        conn     Connection: frames, streams, handshake, deadlines               one per socket
//!        types    values and rows      wire    every message of the protocol, both directions
//! ```
//!
//! - [`Connection`](conn::Connection) speaks with one server. A submitted request yields exactly one reply: answered,
//!   failed or expired; after `abandon` it yields none.
//! - [`ControlPlane`](cluster::ControlPlane) says what to resolve, connect, close and ask, and publishes
//!   [`Routing`](routing::snapshot::Routing) snapshots. It owns no socket and no connection.
//! - [`Execution`](exec::Execution) is the brain of one request: targets, retries, preparing again, its one deadline.
//! - [`Driver`](driver::Driver) is all of these under one owner, with everything that a session has: for loops of one's
//!   own, for threads that block, for simulations. The example `blocking_cluster` shows one.
//! - [`policy`] holds what applications can choose: load balancing, retries, reconnection, credentials. Policies are pure
//!   functions on snapshots, so they run in simulations too.
//! - Bodies are decoded by whoever asked ([`exec::result`]); connections look at headers only.
//!
//! # Hostile peers
//!
//! Every length and count is checked against what is there before it is believed, by one cursor
//! ([`wire::read::Reader`]); every buffer has a cap in [`Limits`](config::limits::Limits). A peer that does not keep to
//! the protocol ends its own connection with a typed error that names opcode and offset; each request in flight then
//! fails once, and its error says whether it can have had an effect ([`Fate`](error::connect::Fate)).
//!
//! [`recv_buffer`]: conn::Connection::recv_buffer
//! [`handle_received`]: conn::Connection::handle_received
//! [`handle_eof`]: conn::Connection::handle_eof
//! [`handle_io_error`]: conn::Connection::handle_io_error
//! [`handle_transmitted`]: conn::Connection::handle_transmitted
//! [`handle_timeout`]: conn::Connection::handle_timeout
//! [`poll_transmit`]: conn::Connection::poll_transmit
//! [`poll_output`]: conn::Connection::poll_output
//! [`poll_timeout`]: conn::Connection::poll_timeout
//! [`submit`]: conn::Connection::submit
//! [`abandon`]: conn::Connection::abandon
#![forbid(unsafe_code)]

// The derives write `::messina_core`, also where they are used in this crate.
extern crate self as messina_core;

pub mod cluster;
pub mod collections;
pub mod config;
pub mod conn;
pub mod driver;
pub mod error;
pub mod exec;
pub mod metrics;
pub mod notify;
pub mod policy;
mod pool;
pub mod report;
pub mod routing;
pub mod seed;
pub mod time;
pub mod types;
pub mod wire;

#[doc(no_inline)]
pub use {bytes, uuid};

pub use types::{FromRow, FromValue, ToRow, ToValue};
