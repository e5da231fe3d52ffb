//! The workloads that every contender runs: statements, values, rows, and when a loop ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// One small row written.
    Insert,
    /// One small row read, every cell decoded.
    Select1,
    /// 5,000 rows of ten columns (770 KB) read into structs that borrow from the answer.
    PageBorrowed,
    /// The same rows read into structs that own what they hold.
    PageOwned,
    /// One row with 1 MiB read.
    BlobGet,
    /// 1 MiB written.
    BlobPut,
}

impl Workload {
    /// The text that is prepared.
    pub const fn statement(self) -> &'static str {
        match self {
            Self::Insert => "INSERT INTO bench.kv (pk, v, data) VALUES (?, ?, ?)",
            Self::Select1 => "SELECT pk, v, data FROM bench.kv WHERE pk = ?",
            Self::PageBorrowed | Self::PageOwned => {
                "SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 FROM bench.wide WHERE pk = ?"
            }
            Self::BlobGet => "SELECT pk, data FROM bench.blobs WHERE pk = ?",
            Self::BlobPut => "INSERT INTO bench.blobs (pk, data) VALUES (?, ?)",
        }
    }

    /// The name on the command line and in the reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Select1 => "select1",
            Self::PageBorrowed => "page-borrowed",
            Self::PageOwned => "page-owned",
            Self::BlobGet => "blob-get",
            Self::BlobPut => "blob-put",
        }
    }

    /// The last byte of the statement's id, by which the peer knows the answer.
    pub const fn id(self) -> u8 {
        match self {
            Self::Insert => 1,
            Self::Select1 => 2,
            Self::PageBorrowed | Self::PageOwned => 3,
            Self::BlobGet => 4,
            Self::BlobPut => 5,
        }
    }

    /// Requests in flight where nothing else is asked for.
    pub const fn usual_in_flight(self) -> u64 {
        match self {
            Self::Insert | Self::Select1 => 64,
            _ => 2,
        }
    }

    /// The two numbers of requests whose difference is counted.
    pub const fn counted(self) -> (u64, u64) {
        match self {
            Self::Insert | Self::Select1 => (1024, 9216),
            _ => (4, 12),
        }
    }
}

/// The text of an insert and of the row that a select gives.
pub const TEXT: &str = "sixteen letters.";
/// The blob of an insert and of the row that a select gives.
pub const BLOB: [u8; 16] = [0xab; 16];
/// Length of a large blob.
pub const LARGE: usize = 1024 * 1024;
/// Rows of a page.
pub const PAGE_ROWS: usize = 5_000;

/// When a loop ends: after a number of requests, or after a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// So many requests over all tasks.
    Requests(u64),
    /// So long.
    Time(Duration),
}

impl Span {
    /// Makes it of what a command line says; a time goes before a number.
    pub fn of(seconds: Option<f64>, requests: u64) -> Self {
        seconds.map_or(Self::Requests(requests), |seconds| {
            Self::Time(Duration::from_secs_f64(seconds))
        })
    }

    /// Says whether there is anything to do.
    pub fn is_empty(self) -> bool {
        self == Self::Requests(0) || self == Self::Time(Duration::ZERO)
    }

    /// How many requests one of several tasks has to do.
    pub fn share(self, task: u64, tasks: u64) -> u64 {
        match self {
            Self::Requests(all) => all / tasks + u64::from(task < all % tasks),
            Self::Time(_) => u64::MAX,
        }
    }

    /// Sets the flag when the time is over; a counted span needs none.
    pub fn ring(self, over: &'static AtomicBool) {
        over.store(false, Ordering::Relaxed);
        if let Self::Time(time) = self {
            thread::spawn(move || {
                thread::sleep(time);
                over.store(true, Ordering::Relaxed);
            });
        }
    }
}

/// Says that the time of the loop that runs now is over.
pub static OVER: AtomicBool = AtomicBool::new(false);

/// Says whether one more request is due after so many of a share.
#[inline]
pub fn more(done: u64, share: u64) -> bool {
    done < share && !OVER.load(Ordering::Relaxed)
}
