//! The program `real-cassandra`: starts a real Apache Cassandra, prints its contact points, and runs until it is ended.
//!
//! It needs Java 17, and Maven for the first start. Ending it in any way, Ctrl-C included, ends the nodes and removes
//! their data.

use std::error::Error;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use messina_testkit::cassandra::{Cassandra, CassandraError};

/// Starts a real Apache Cassandra on loopback addresses and keeps it running until Ctrl-C.
#[derive(Parser)]
#[command(name = "real-cassandra", version)]
struct Options {
    /// How many nodes to start.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=250))]
    nodes: u8,
    /// Over how many racks to spread them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    racks: u8,
    /// Ask clients for a password; the first role is `cassandra` with the password `cassandra`.
    #[arg(long)]
    passwords: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match start(&options) {
        Ok(cassandra) => {
            println!("{}", cassandra.contact_points().join(","));
            eprintln!(
                "Cassandra {} runs, logs in {}; end with Ctrl-C",
                Cassandra::VERSION,
                cassandra.folder().display()
            );
            loop {
                thread::park();
            }
        }
        Err(error) => {
            eprintln!("real-cassandra: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn start(options: &Options) -> Result<Cassandra, CassandraError> {
    let racks = usize::from(options.racks);
    Cassandra::builder()
        .nodes(options.nodes.into())
        .racks(racks)
        .passwords(options.passwords)
        .start()
}
