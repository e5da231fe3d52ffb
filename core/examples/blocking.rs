//! Asks one question over one blocking socket: no async runtime, no thread, no timer but the socket's own.
//!
//! With `MESSINA_CONTACT_POINTS=192.0.2.1:9042` it asks that server; without, it starts a simulated one.
//!
//! ```text
//! cargo run -p messina-core --example blocking
//! ```

// An example is the outside world: it may own a socket and read the clock.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::error::Error;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use messina_core::config::session::SessionConfig;
use messina_core::conn::{Connection, ConnectionInfo, ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::exec::result::QueryResult;
use messina_core::seed::Seed;
use messina_core::wire::{ParamsRef, RequestOptionsRef, RequestRef, ResponseFrame};
use messina_testkit::SimulatedCluster;

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::var("MESSINA_CONTACT_POINTS").ok();
    let simulated = match given {
        Some(_) => None,
        None => Some(SimulatedCluster::builder().start()?),
    };
    let points = match &simulated {
        Some(cluster) => cluster.contact_points(),
        None => given
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect(),
    };
    let first = points.first().ok_or("no contact point")?;
    let address = first.to_socket_addrs()?.next().ok_or("no address")?;

    // Randomness is an input as well; a program would take it from the system.
    let seed = Seed::from_u64(u64::from(std::process::id()));
    let session = SessionConfig::new(&mut seed.random());
    let plan = ConnectionPlan::new(address, Arc::new(session), seed.derive(1));
    let text = "SELECT cluster_name, release_version FROM system.local";
    let (info, frame) = ask(address, plan, text)?;

    if let Some(shard) = info.shard {
        println!(
            "{address} serves us from shard {} of {}",
            shard.shard.0, shard.shards
        );
    }
    let result = QueryResult::parse(&frame, &info.features, None, None)?;
    for row in result.rows::<(String, String)>()? {
        let (cluster, version) = row?;
        println!("{address} belongs to {cluster:?} and runs {version}");
    }
    Ok(())
}

/// Connects, asks and waits for the answer.
fn ask(
    address: SocketAddr,
    plan: ConnectionPlan,
    text: &str,
) -> Result<(ConnectionInfo, ResponseFrame), Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    let mut conn = Connection::new(Instant::now(), plan);
    let mut info = None;
    loop {
        // 1. Act on what the connection says.
        while let Some(output) = conn.poll_output() {
            match output {
                ConnectionOutput::Ready(ready) => {
                    info = Some(ready);
                    let now = Instant::now();
                    let request = RequestRef::Query {
                        text,
                        params: ParamsRef::default(),
                    };
                    let deadline = now + REQUEST_TIMEOUT;
                    let options = RequestOptionsRef::default();
                    conn.submit(now, Ticket(1), request, &options, Some(deadline))?;
                }
                ConnectionOutput::Reply { reply, .. } => {
                    return Ok((
                        info.ok_or("a reply before the connection was ready")?,
                        reply?,
                    ));
                }
                ConnectionOutput::Closed(error) => return Err(error.into()),
                _ => (),
            }
        }
        // 2. Write what it wants to say.
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = conn.poll_transmit(&mut slices);
            if count == 0 {
                break;
            }
            let len = socket.write_vectored(&slices[..count])?;
            conn.handle_transmitted(Instant::now(), len);
        }
        // 3. Wait for bytes, or for the next deadline.
        let until = |at: Instant| {
            at.saturating_duration_since(Instant::now())
                .max(MILLISECOND)
        };
        socket.set_read_timeout(conn.poll_timeout().map(until))?;
        match socket.read(conn.recv_buffer()) {
            Ok(0) => conn.handle_eof(Instant::now()),
            Ok(len) => conn.handle_received(Instant::now(), len),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                conn.handle_timeout(Instant::now());
            }
            Err(error) => conn.handle_io_error(Instant::now(), error),
        }
    }
}

/// Is how long the one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A socket does not take a timeout of zero.
const MILLISECOND: Duration = Duration::from_millis(1);
