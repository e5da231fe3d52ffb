//! Runs the shipping engine and the driver without one in the simulated world: a fixed list of seeds, and fresh ones each time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use messina_testkit::sim::{ClientKind, Counts, RunOptions, run};

/// Seeds that once found something, and a few that cover much.
const FIXED: &[u64] = &[
    // A PREPARE that never arrived counted as if the node knew the statement since.
    0x4, // Answers and a reset cross during the first handshake.
    0x47, 0x7, 0x16, 0x64, 0x8d,
];
/// The same for the driver without an engine.
const FIXED_DRIVER: &[u64] = &[
    // The answer to a PREPARE was read as if nothing had been agreed, once its connection had ended.
    0x4e32, 0x4e8d, 0x4, 0x47,
];
/// How many fresh seeds one run of the suite adds: some 30 seconds of two busy cores in a build for debugging.
const FRESH: u64 = 32;

#[test]
fn the_fixed_seeds_break_no_rule_and_repeat_exactly() {
    if asked_seed().is_none() {
        run_all(FIXED, ClientKind::Session);
        run_all(FIXED_DRIVER, ClientKind::Driver);
    }
}

#[test]
fn fresh_seeds_break_no_rule_repeat_exactly_and_are_not_empty() {
    if let Some(seed) = asked_seed() {
        run_all(&[seed], ClientKind::Session);
        run_all(&[seed], ClientKind::Driver);
        return;
    }
    let first = RandomState::new().build_hasher().finish();
    let seeds: Vec<u64> = (0..FRESH).map(|at| first.wrapping_add(at)).collect();
    let counts = run_all(&seeds, ClientKind::Session);
    // The same seeds: the same cluster, the same faults, the same workers, and the same rules.
    run_all(&seeds, ClientKind::Driver);
    for (what, least) in LEAST {
        let count = counts.of(what);
        assert!(
            *least <= count,
            "only {count} times: {what}; from seed {first:#x} on: {counts:?}"
        );
    }
}

#[test]
fn another_process_repeats_a_run_exactly() {
    let seed = 0x2a;
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--hash", "--seed", &seed.to_string()])
        .output()
        .expect("the program that was built with this test");
    let printed = String::from_utf8_lossy(&output.stdout);
    let own = run(seed, RunOptions::default());
    assert_eq!(printed.trim(), format!("{:#x}", own.hash));
}

#[test]
fn no_request_fails_where_nothing_goes_wrong() {
    let mut options = RunOptions::default();
    options.faults = false;
    for seed in 0..8 {
        options.client = match seed % 2 {
            0 => ClientKind::Session,
            _ => ClientKind::Driver,
        };
        let report = run(seed, options);
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed:#x}");
        assert_eq!(
            report.counts.of("requests"),
            report.counts.of("requests answered"),
            "seed {seed:#x}"
        );
    }
}

/// How often each kind of event occurs at least in a batch of fresh seeds: far less than usual, but not never.
const LEAST: &[(&str, u64)] = &[
    ("requests answered", 1_500),
    ("requests given up", 20),
    ("failed: not sent", 20),
    ("failed: maybe applied", 20),
    ("failed: answered", 20),
    ("answers out of order", 500),
    ("answers late", 10),
    ("done and not answered", 5),
    ("not done and not answered", 5),
    ("answered by hanging up", 5),
    ("done and denied", 1),
    ("refused", 10),
    ("connections dialled", 500),
    ("connections refused", 20),
    ("first packets lost", 20),
    ("source ports busy", 1),
    ("names looked up", 5),
    ("fault: stop", 5),
    ("fault: power loss", 5),
    ("fault: another address", 1),
    ("fault: other shards", 1),
    ("fault: other tokens", 3),
    ("fault: clog", 3),
    ("fault: slow", 3),
    ("fault: reset", 3),
    ("fault: cut", 3),
    ("fault: silence", 3),
    ("fault: refuse", 3),
    ("fault: swallow", 3),
    ("fault: translate", 3),
    ("fault: busy ports", 3),
    ("fault: no names", 3),
    ("fault: sick", 10),
    ("fault: forget", 3),
    ("fault: join", 3),
    ("fault: leave", 1),
    ("fault: rumours", 3),
    ("fault: schema", 3),
    ("statements prepared again", 5),
    ("sessions closed", 5),
    ("sessions dropped", 1),
    ("note: connection lost", 30),
    ("note: connect failed", 20),
    ("note: resharded", 1),
];

/// The seed that somebody wants to see again.
fn asked_seed() -> Option<u64> {
    let text = std::env::var("SIM_SEED").ok()?;
    let digits = text
        .strip_prefix("0x")
        .expect("SIM_SEED is a number like 0x1f");
    Some(u64::from_str_radix(digits, 16).expect("SIM_SEED is a number like 0x1f"))
}

/// Runs each seed twice, the second time on another thread than the first; gives the counts of all.
fn run_all(seeds: &[u64], client: ClientKind) -> Counts {
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Counts::default()));
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        let work = || {
            while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                let counts = run_twice(*seed, client);
                total.lock().expect("no other worker failed").merge(&counts);
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    total.into_inner().expect("no worker failed")
}

fn run_twice(seed: u64, client: ClientKind) -> Counts {
    let mut options = RunOptions::default();
    options.client = client;
    let report = run(seed, options);
    let repeat = format!("SIM_SEED={seed:#x} cargo test -p messina-testkit --test simulation");
    assert!(
        report.violations.is_empty(),
        "{client:?}: {}\nrepeat: {repeat}",
        report.violations.join("\n")
    );
    let again = thread::spawn(move || run(seed, options));
    let again = again.join().expect("a second run that does not panic");
    if let Some(difference) = report.difference(&again) {
        panic!("{difference}\nrepeat: {repeat}");
    }
    report.counts
}
