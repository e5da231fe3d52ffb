//! What a run cost: CPU time, allocations, bytes, and the JSON line that tells. Measures this process only.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Map, Value, json};

/// Calls of the allocator that asked for memory, where the program counts them.
pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that were asked for.
pub static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);
/// Bytes that were given back.
pub static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the bytes in use.
pub fn live_bytes() -> u64 {
    let freed = FREED_BYTES.load(Ordering::Relaxed);
    ALLOCATED_BYTES
        .load(Ordering::Relaxed)
        .saturating_sub(freed)
}

/// Returns the CPU time of all threads of this process in nanoseconds; zero where the system does not tell.
pub fn cpu_nanos() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of_thread = |path: PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks
        .flatten()
        .filter_map(|task| of_thread(task.path()))
        .sum()
}

/// Returns how often the threads of this process gave up their core to wait.
fn waits() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of_thread = |path: PathBuf| {
        let text = fs::read_to_string(path.join("status")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks
        .flatten()
        .filter_map(|task| of_thread(task.path()))
        .sum()
}

/// Returns the memory that the system counts for this process, in KiB.
fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The state of the books when a window began.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    start: Instant,
    cpu: u64,
    allocations: u64,
    bytes: u64,
    waits: u64,
}

impl Window {
    /// Begins a window.
    pub fn open() -> Self {
        Self {
            allocations: ALLOCATIONS.load(Ordering::Relaxed),
            bytes: ALLOCATED_BYTES.load(Ordering::Relaxed),
            waits: waits(),
            cpu: cpu_nanos(),
            start: Instant::now(),
        }
    }

    /// Ends it after so many requests.
    pub fn close(self, requests: u64) -> Measured {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_nanos = cpu_nanos().saturating_sub(self.cpu);
        Measured {
            requests,
            seconds,
            cpu_nanos,
            allocations: ALLOCATIONS.load(Ordering::Relaxed) - self.allocations,
            bytes: ALLOCATED_BYTES.load(Ordering::Relaxed) - self.bytes,
            waits: waits().saturating_sub(self.waits),
            live_bytes: live_bytes(),
        }
    }
}

/// What a window cost.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Requests that were answered in it.
    pub requests: u64,
    /// Its length.
    pub seconds: f64,
    /// CPU time of all threads.
    pub cpu_nanos: u64,
    /// Calls of the allocator that asked for memory.
    pub allocations: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// How often a thread waited.
    pub waits: u64,
    /// Bytes in use at its end.
    pub live_bytes: u64,
}

impl Measured {
    /// Tells it as the fields of a JSON line, after those that say what was measured.
    pub fn to_json(&self, what: Value) -> Value {
        let mut line = match what {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let each = |sum: u64| sum as f64 / self.requests.max(1) as f64;
        let rounded = |value: f64, digits: i32| {
            let scale = 10_f64.powi(digits);
            (value * scale).round() / scale
        };
        let more = json!({
            "requests": self.requests,
            "seconds": rounded(self.seconds, 3),
            "rate": (self.requests as f64 / self.seconds.max(1e-9)).round(),
            "cpu_ns_per_request": each(self.cpu_nanos).round(),
            "allocations_per_request": rounded(each(self.allocations), 4),
            "bytes_per_request": rounded(each(self.bytes), 1),
            "waits_per_request": rounded(each(self.waits), 4),
            "live_bytes": self.live_bytes,
            "resident_kib": resident_kib(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        if let Value::Object(more) = more {
            line.extend(more);
        }
        Value::Object(line)
    }
}
