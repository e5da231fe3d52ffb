//! Runs seeds of the simulation and sums up what happened: `simulate --seeds 2000`, or one seed with `--seed 0x1f`.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use messina_testkit::sim::{ClientKind, Counts, Report, RunOptions, run};

/// Runs the driver in a simulated world where everything fails, once for each seed.
#[derive(Parser)]
struct Arguments {
    /// How many seeds are run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them; by default one that depends on the time.
    #[arg(long, value_parser = number)]
    from: Option<u64>,
    /// Runs only this seed, and says what it did.
    #[arg(long, value_parser = number)]
    seed: Option<u64>,
    /// Writes each step of the run to the standard error output.
    #[arg(long)]
    trace: bool,
    /// Leaves everything whole: no fault is inflicted.
    #[arg(long)]
    no_faults: bool,
    /// Sends the requests of all runs with the core's driver instead of the engine's session.
    #[arg(long)]
    driver: bool,
    /// How many broken seeds end the program.
    #[arg(long, default_value_t = 10)]
    broken: usize,
    /// Runs each seed once instead of twice.
    #[arg(long)]
    once: bool,
    /// Prints the hash of the run and nothing else.
    #[arg(long)]
    hash: bool,
}

fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut options = RunOptions::default();
    options.faults = !arguments.no_faults;
    options.spoken = arguments.trace;
    if arguments.driver {
        options.client = ClientKind::Driver;
    }
    if let Some(seed) = arguments.seed {
        return one(seed, options, &arguments);
    }
    let first = arguments.from.unwrap_or_else(by_the_clock);
    many(first, options, &arguments)
}

fn by_the_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs()) << 20
}

fn one(seed: u64, options: RunOptions, arguments: &Arguments) -> ExitCode {
    let report = run(seed, options);
    if arguments.hash {
        println!("{:#x}", report.hash);
        return ExitCode::SUCCESS;
    }
    for (what, count) in report.counts.iter() {
        println!("{count:>9} {what}");
    }
    println!(
        "seed {seed:#x}: {:.1} s of virtual time, {} polls, hash {:#x}",
        report.time.as_secs_f64(),
        report.polls,
        report.hash
    );
    match tell(&report) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Says what a run broke; whether that is nothing.
fn tell(report: &Report) -> bool {
    for violation in &report.violations {
        println!("BROKEN seed {:#x}: {violation}", report.seed);
    }
    report.violations.is_empty()
}

fn many(first: u64, options: RunOptions, arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let (mut counts, mut broken, mut ran) = (Counts::default(), Vec::new(), 0);
    for seed in first..first.saturating_add(arguments.seeds) {
        let report = run(seed, options);
        let mut good = tell(&report);
        if !arguments.once {
            // On another thread, so that nothing of the first run is in its way.
            let again = thread::spawn(move || run(seed, options)).join();
            let difference = match &again {
                Ok(again) => report.difference(again),
                Err(_) => Some("the second run of the same seed panicked".to_owned()),
            };
            if let Some(difference) = difference {
                println!("BROKEN seed {seed:#x}: {difference}");
                good = false;
            }
        }
        ran += 1;
        counts.merge(&report.counts);
        if !good {
            let client = if arguments.driver { " --driver" } else { "" };
            println!(
                "  repeat: cargo run --release -p messina-testkit --bin simulate -- --seed {seed:#x}{client}"
            );
            broken.push(seed);
            if arguments.broken <= broken.len() {
                break;
            }
        }
    }
    for (what, count) in counts.iter() {
        println!("{count:>9} {what}");
    }
    println!(
        "{ran} seeds from {first:#x}, {} broken, {:.1} s",
        broken.len(),
        began.elapsed().as_secs_f64()
    );
    match broken.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
