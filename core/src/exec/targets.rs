//! Owns the list of targets that a load-balancing policy fills for one request.
//! It does not choose; it only keeps order and drops repeated hosts.

use crate::routing::{HostIdx, Shard};

/// One place to send a request to, as a policy names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The host.
    pub host: HostIdx,
    /// The shard that should serve it; `None` lets the pool choose.
    pub shard: Option<Shard>,
}

/// A place to send a request to, together with the owner's handle of an open connection to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<H> {
    /// The host.
    pub host: HostIdx,
    /// The shard that was asked for; the connection may reach another one when that shard has none.
    pub shard: Option<Shard>,
    /// The owner's handle of the connection.
    pub handle: H,
}

/// The targets of one request in the order they are to be tried.
///
/// Small plans lie inline; longer ones spill to the heap.
#[derive(Clone, Debug)]
pub struct Targets {
    inline: [Planned; INLINE],
    len: usize,
    spilled: Vec<Planned>,
}

/// Enough for the replicas of the usual replication factors without an allocation.
const INLINE: usize = 8;

impl Default for Targets {
    fn default() -> Self {
        Self::new()
    }
}

impl Targets {
    /// Makes an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            inline: [Planned {
                host: HostIdx(0),
                shard: None,
            }; INLINE],
            len: 0,
            spilled: Vec::new(),
        }
    }

    /// Appends a target unless its host is in the list already.
    pub fn push(&mut self, target: Planned) {
        if self.contains(target.host) {
            return;
        }
        match self.inline.get_mut(self.len) {
            Some(slot) => *slot = target,
            None => self.spilled.push(target),
        }
        self.len += 1;
    }

    /// Says whether a host is in the list.
    #[must_use]
    pub fn contains(&self, host: HostIdx) -> bool {
        self.iter().any(|target| target.host == host)
    }

    /// The target at a place of the order.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Planned> {
        if self.len <= at {
            return None;
        }
        self.inline
            .get(at)
            .or_else(|| self.spilled.get(at - INLINE))
            .copied()
    }

    /// How many targets there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Says whether there is no target.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties the list and keeps its storage.
    pub fn clear(&mut self) {
        self.len = 0;
        self.spilled.clear();
    }

    /// The targets in order.
    pub fn iter(&self) -> impl Iterator<Item = Planned> {
        self.inline
            .iter()
            .take(self.len)
            .chain(&self.spilled)
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: u16) -> Planned {
        Planned {
            host: HostIdx(host),
            shard: None,
        }
    }

    #[test]
    fn a_list_keeps_its_order_when_it_spills() {
        let mut targets = Targets::new();
        for host in 0..20 {
            targets.push(target(host));
        }
        assert_eq!(targets.len(), 20);
        assert_eq!(targets.get(7), Some(target(7)));
        assert_eq!(targets.get(8), Some(target(8)));
        assert_eq!(targets.get(20), None);
        assert_eq!(
            targets
                .iter()
                .map(|target| target.host.0)
                .collect::<Vec<_>>(),
            (0..20).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_repeated_host_is_dropped() {
        let mut targets = Targets::new();
        for host in [3, 1, 3] {
            targets.push(target(host));
        }
        assert_eq!(targets.len(), 2);
        targets.clear();
        assert!(targets.is_empty());
        assert!(!targets.contains(HostIdx(3)));
    }
}
