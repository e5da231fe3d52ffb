//! Measures Messina: `peer` serves, `floor`, `client` and `reference` load it, `compare` and `count` set them side by
//! side. Owns the command line; what is measured and how lies in the library.

mod alloc;
mod compare;
mod contender;
mod count;
mod load;
mod part;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use messina_benches::BenchError;
use messina_benches::peer::{self, PeerArgs};

/// Measures Messina against the floor and a reference, in counts and in ratios.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves canned answers and costs nothing; prints `listening ADDRESS`.
    Peer(PeerArgs),
    /// Does only what no client can avoid.
    Floor(load::FloorArgs),
    /// Runs Messina on one runtime.
    Client(load::ClientArgs),
    /// Runs the crate `scylla` with its default settings (feature `reference`).
    Reference(load::LoadArgs),
    /// Runs all contenders in alternating rounds and prints ratios.
    Compare(compare::CompareArgs),
    /// Runs a part of the core in a loop, without sockets.
    Part(part::PartArgs),
    /// Counts instructions per request, by callgrind.
    Count(count::CountArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Peer(args) => peer::serve(&args).map_err(BenchError::from),
        Command::Floor(args) => load::floor(&args),
        Command::Client(args) => load::client(&args),
        Command::Reference(args) => load::reference(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Part(args) => part::run(&args),
        Command::Count(args) => count::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messina-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
