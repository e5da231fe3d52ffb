//! Owns the two notions of time that machines share: many deadlines with one timer, and growing waits.
//! Leaves out any clock: instants are always passed in.

use std::time::{Duration, Instant};

use crate::seed::Random;

/// Is the instant after a wait; a wait that has no end on the clock counts as a year.
#[inline]
pub fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or_else(|| now + FAR)
}

/// Keeps one deadline for each of many small keys, in buckets of a millisecond.
///
/// Setting, clearing and firing cost O(1) amortised. A cleared or postponed deadline stays in its old bucket until
/// that comes up, so a key whose deadline only ever moves later (a reused stream id) costs two comparisons; there is
/// never more than one entry for a key. A deadline never fires early and at most a millisecond late.
///
/// Costs 56 bytes for each key up to the largest one used, and 264 bytes for each magnitude of time in use.
#[derive(Clone, Debug)]
pub struct DeadlineWheel {
    /// Is the instant of tick 0.
    epoch: Instant,
    /// Is the tick up to which everything has fired.
    elapsed: u64,
    levels: Vec<Level>,
    nodes: Vec<Node>,
    /// Counts the keys that have a deadline.
    live: usize,
    /// Is the start of the earliest occupied bucket.
    next: Option<Instant>,
}

/// Holds 64 buckets, each 64 times as long as those of the level below.
#[derive(Clone, Debug)]
struct Level {
    occupied: u64,
    heads: [u32; BUCKETS],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Is when the key's deadline passes.
    due: Option<Instant>,
    /// Is what the key's entry was filed under, if it has one.
    filed: Option<Instant>,
    level: u8,
    bucket: u8,
    previous: u32,
    next: u32,
}

/// 64 buckets fit one occupancy word.
const BUCKETS: usize = 64;
const BUCKET_BITS: u32 = 6;
/// Six levels of 64 buckets span two years, beyond any sensible deadline; later ones are filed at the end and refiled.
const LEVELS_MAX: u32 = 6;
const SPAN: u64 = 1 << (LEVELS_MAX * BUCKET_BITS);
/// Leaves room above for one span, so that no sum overflows.
const TICK_MAX: u64 = u64::MAX - SPAN;
const NONE: u32 = u32::MAX;
const UNUSED: Node = Node {
    due: None,
    filed: None,
    level: 0,
    bucket: 0,
    previous: NONE,
    next: NONE,
};

impl DeadlineWheel {
    /// Makes an empty wheel without allocating.
    pub const fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            elapsed: 0,
            levels: Vec::new(),
            nodes: Vec::new(),
            live: 0,
            next: None,
        }
    }

    /// Sets or moves the deadline of a key.
    #[inline]
    pub fn set(&mut self, key: u32, at: Instant) {
        let index = to_index(key);
        if let Some(node) = self.nodes.get_mut(index) {
            self.live += usize::from(node.due.is_none());
            node.due = Some(at);
            // An entry filed earlier than the new deadline is good enough: it is refiled when its bucket comes up.
            if node.filed.is_some_and(|filed| filed <= at) {
                return;
            }
        } else {
            self.nodes.resize(index.saturating_add(1), UNUSED);
            if let Some(node) = self.nodes.get_mut(index) {
                node.due = Some(at);
                self.live += 1;
            }
        }
        self.refile(key, at);
    }

    /// Forgets the deadline of a key, if it has one.
    #[inline]
    pub fn clear(&mut self, key: u32) {
        if let Some(node) = self.nodes.get_mut(to_index(key)) {
            self.live -= usize::from(node.due.take().is_some());
        }
    }

    /// Takes out one key whose deadline has passed; call it until it returns none.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        // The usual case: nothing is due and only the clock is compared.
        if self.next.is_none_or(|at| now < at) {
            None
        } else {
            self.pop_due_now(now)
        }
    }

    fn pop_due_now(&mut self, now: Instant) -> Option<u32> {
        let tick = self.tick_before(now);
        while let Some((level, bucket, start)) = self.earliest() {
            if tick < start {
                break;
            }
            self.elapsed = self.elapsed.max(start);
            let key = self.unlink_first(level, bucket);
            let Some(node) = self.nodes.get_mut(to_index(key)) else {
                continue;
            };
            match node.due {
                Some(due) if due <= now => {
                    node.due = None;
                    self.live -= 1;
                    self.find_next();
                    return Some(key);
                }
                Some(due) => self.refile(key, due),
                None => (),
            }
        }
        self.elapsed = self.elapsed.max(tick);
        self.find_next();
        None
    }

    /// Tells when [`pop_due`](Self::pop_due) is worth calling again: never after the earliest deadline's millisecond,
    /// at times before it.
    #[inline]
    pub fn next_due(&self) -> Option<Instant> {
        if self.live == 0 { None } else { self.next }
    }

    /// Counts the keys that have a deadline.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Tells whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Gives back all memory, if no key has a deadline.
    pub fn shrink(&mut self) {
        if self.live == 0 {
            self.levels = Vec::new();
            self.nodes = Vec::new();
            self.next = None;
        }
    }

    /// Files a key's entry under its deadline, taking it from where it was.
    fn refile(&mut self, key: u32, due: Instant) {
        let Some(node) = self.nodes.get(to_index(key)).copied() else {
            return;
        };
        if node.filed.is_some() {
            self.unlink(key, node);
        }
        let filed = self
            .tick_after(due)
            .clamp(self.elapsed, self.elapsed + (SPAN - 1));
        let differing = (self.elapsed ^ filed) | 1;
        // A long way to a carry into the bits above the last level is filed in the last level all the same.
        let level = ((63 - differing.leading_zeros()) / BUCKET_BITS).min(LEVELS_MAX - 1);
        let bucket = (filed >> (level * BUCKET_BITS)) & 63;
        while self.levels.len() <= to_index(level) {
            self.levels.push(Level {
                occupied: 0,
                heads: [NONE; BUCKETS],
            });
        }
        let (level_at, bucket_at) = (to_index(level), usize::try_from(bucket).unwrap_or(0));
        let Some(head) = self.levels.get_mut(level_at).and_then(|level| {
            level.occupied |= 1 << bucket;
            level.heads.get_mut(bucket_at)
        }) else {
            return;
        };
        let old_head = std::mem::replace(head, key);
        if let Some(old) = self.nodes.get_mut(to_index(old_head)) {
            old.previous = key;
        }
        let filed_at = self.instant(filed);
        if let Some(node) = self.nodes.get_mut(to_index(key)) {
            node.filed = Some(filed_at);
            node.level = u8::try_from(level).unwrap_or(0);
            node.bucket = u8::try_from(bucket).unwrap_or(0);
            node.previous = NONE;
            node.next = old_head;
        }
        let start = self.instant(self.start_of(level, bucket_at));
        if self.next.is_none_or(|next| start < next) {
            self.next = Some(start);
        }
    }

    fn unlink(&mut self, key: u32, node: Node) {
        match self.nodes.get_mut(to_index(node.previous)) {
            Some(previous) => previous.next = node.next,
            None => {
                if let Some(level) = self.levels.get_mut(usize::from(node.level))
                    && let Some(head) = level.heads.get_mut(usize::from(node.bucket))
                {
                    *head = node.next;
                    if node.next == NONE {
                        level.occupied &= !(1 << node.bucket);
                    }
                }
            }
        }
        if let Some(next) = self.nodes.get_mut(to_index(node.next)) {
            next.previous = node.previous;
        }
        if let Some(node) = self.nodes.get_mut(to_index(key)) {
            node.filed = None;
        }
    }

    fn unlink_first(&mut self, level: u32, bucket: usize) -> u32 {
        let key = self
            .levels
            .get(to_index(level))
            .and_then(|level| level.heads.get(bucket))
            .map_or(NONE, |key| *key);
        match self.nodes.get(to_index(key)).copied() {
            Some(node) => self.unlink(key, node),
            None => {
                // An occupied bucket has a head; clearing the mark keeps a broken one from looping.
                if let Some(level) = self.levels.get_mut(to_index(level)) {
                    level.occupied &= !(1 << bucket);
                }
            }
        }
        key
    }

    /// Finds the earliest occupied bucket.
    ///
    /// All levels are compared: a higher level's current bucket, of which some entries were refiled lower already,
    /// comes before what was refiled.
    fn earliest(&self) -> Option<(u32, usize, u64)> {
        let of_level = |(level, buckets): (u32, &Level)| {
            if buckets.occupied == 0 {
                return None;
            }
            let current = u32::try_from((self.elapsed >> (level * BUCKET_BITS)) & 63).unwrap_or(0);
            let ahead = buckets.occupied.rotate_right(current).trailing_zeros();
            let bucket = to_index((current + ahead) & 63);
            Some((level, bucket, self.start_of(level, bucket)))
        };
        (0..)
            .zip(&self.levels)
            .filter_map(of_level)
            .min_by_key(|(_, _, start)| *start)
    }

    /// Computes the first tick of a bucket, seen from the current one; buckets behind it belong to the next turn.
    fn start_of(&self, level: u32, bucket: usize) -> u64 {
        let shift = level * BUCKET_BITS;
        let current = (self.elapsed >> shift) & 63;
        let ahead = u64::try_from(bucket).unwrap_or(0).wrapping_sub(current) & 63;
        if ahead == 0 {
            self.elapsed
        } else {
            ((self.elapsed >> shift) + ahead) << shift
        }
    }

    fn find_next(&mut self) {
        self.next = self.earliest().map(|(_, _, start)| self.instant(start));
    }

    /// Rounds up, so that nothing fires early.
    fn tick_after(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        let millis = u64::from(since.subsec_nanos().div_ceil(1_000_000));
        since
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(millis)
            .min(TICK_MAX)
    }

    fn tick_before(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        let millis = u64::from(since.subsec_millis());
        since
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(millis)
            .min(TICK_MAX)
    }

    fn instant(&self, tick: u64) -> Instant {
        // An instant the platform cannot express is as good as one that is far away.
        self.epoch
            .checked_add(Duration::from_millis(tick))
            .unwrap_or_else(|| self.epoch + FAR)
    }
}

/// Stands for instants that the platform cannot express.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

#[inline]
fn to_index(key: u32) -> usize {
    usize::try_from(key).unwrap_or(usize::MAX)
}

/// Counts failed rounds and says how long to wait before the next: doubling from `first` to `max`, ± 15 %.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

/// Spreads out clients that lost the same server at the same moment.
const JITTER_PERCENT: u8 = 15;

impl Backoff {
    /// Starts with no failure.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            failures: 0,
        }
    }

    /// Counts a failure and returns how long to wait.
    pub fn next(&mut self, random: &mut Random) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        random
            .jitter(
                self.first.saturating_mul(doubled).min(self.max),
                JITTER_PERCENT,
            )
            .min(self.max)
    }

    /// Starts anew after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts the failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests;
