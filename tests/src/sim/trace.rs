//! What happened in a run, as one number that two equal runs share, and as counts by kind.
//! What is worth an entry is decided where it happens.

use std::collections::BTreeMap;
use std::time::Duration;

/// How many single entries are kept to find the first difference of two runs.
const KEPT_MAX: usize = 1 << 22;

/// The running hash over everything that happened.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    kept: Vec<u64>,
    spoken: bool,
}

impl Trace {
    /// Starts empty; a spoken trace is also written to the standard error output.
    pub(super) fn new(spoken: bool) -> Self {
        Self {
            hash: 0x243f_6a88_85a3_08d3,
            kept: Vec::new(),
            spoken,
        }
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, at: Duration, what: &str, one: u64, other: u64) {
        if self.spoken {
            eprintln!("{:>12.6} {what} {one} {other:x}", at.as_secs_f64());
        }
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        for word in [at, hash_of(what.as_bytes()), one, other] {
            self.hash = mixed(self.hash, word);
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.push(self.hash);
        }
    }

    /// Adds a remark for a human reader, which is part of the hash too.
    pub(super) fn say(&mut self, at: Duration, text: &str) {
        self.add(at, text, 0, 0);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn kept(self) -> Vec<u64> {
        self.kept
    }
}

/// Hashes bytes in order.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn mixed(hash: u64, word: u64) -> u64 {
    let sum = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ (sum >> 29)
}

/// How often each kind of event occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn add(&mut self, what: &'static str) {
        self.add_many(what, 1);
    }

    pub(super) fn add_many(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// How often an event occurred.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All events with their counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, count)| (*what, *count))
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (what, count) in other.iter() {
            self.add_many(what, count);
        }
    }
}
