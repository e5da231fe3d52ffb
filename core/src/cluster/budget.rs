//! Owns the order in which pools open connections, and how many open at the same time over the whole session.
//! What a pool wants is the pool's business.

use std::collections::BTreeSet;

use super::ConnId;
use crate::pool::Urgency;
use crate::routing::HostIdx;

/// The wishes of all pools and the attempts under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    opening: BTreeSet<ConnId>,
    queue: BTreeSet<(Rank, HostIdx)>,
    ranks: Vec<Option<Rank>>,
}

/// Who comes first.
///
/// Hosts that are equal in need take turns: who has fewer attempts under way comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) urgency: Urgency,
    pub(super) is_remote: bool,
    pub(super) opening: usize,
}

impl Budget {
    /// Sets or takes back the wish of a host.
    pub(super) fn ask(&mut self, host: HostIdx, rank: Option<Rank>) {
        if self.ranks.len() <= host.at() {
            self.ranks.resize(host.at() + 1, None);
        }
        let Some(known) = self.ranks.get_mut(host.at()) else {
            return;
        };
        if *known == rank {
            return;
        }
        if let Some(old) = std::mem::replace(known, rank) {
            self.queue.remove(&(old, host));
        }
        self.queue.extend(rank.map(|rank| (rank, host)));
    }

    /// The host whose turn it is, if so many attempts may be under way.
    pub(super) fn next(&self, opening_max: usize) -> Option<HostIdx> {
        if opening_max <= self.opening.len() {
            return None;
        }
        self.queue.first().map(|(_, host)| *host)
    }

    /// Takes note that an attempt began.
    pub(super) fn begun(&mut self, conn: ConnId) {
        self.opening.insert(conn);
    }

    /// Takes note that an attempt is over, whatever came of it; repeating that does no harm.
    pub(super) fn over(&mut self, conn: ConnId) {
        self.opening.remove(&conn);
    }

    /// Drops every wish.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(urgency: Urgency, is_remote: bool, opening: usize) -> Option<Rank> {
        Some(Rank {
            urgency,
            is_remote,
            opening,
        })
    }

    fn order(budget: &mut Budget) -> Vec<u16> {
        let mut order = Vec::new();
        while let Some(host) = budget.next(1) {
            order.push(host.0);
            budget.ask(host, None);
        }
        order
    }

    #[test]
    fn hosts_without_a_connection_come_before_shards_and_these_before_more_of_the_same() {
        let mut budget = Budget::default();
        budget.ask(HostIdx(0), rank(Urgency::More, false, 0));
        budget.ask(HostIdx(1), rank(Urgency::Shard, true, 0));
        budget.ask(HostIdx(2), rank(Urgency::Shard, false, 3));
        budget.ask(HostIdx(3), rank(Urgency::Shard, false, 1));
        budget.ask(HostIdx(4), rank(Urgency::Host, true, 0));
        assert_eq!(order(&mut budget), [4, 3, 2, 1, 0]);
    }

    #[test]
    fn a_wish_that_changed_counts_once() {
        let mut budget = Budget::default();
        budget.ask(HostIdx(7), rank(Urgency::More, false, 0));
        budget.ask(HostIdx(7), rank(Urgency::Host, false, 0));
        assert_eq!(order(&mut budget), [7]);
    }

    #[test]
    fn attempts_under_way_use_the_budget_up_until_they_are_over() {
        let mut budget = Budget::default();
        let conn = |index| ConnId {
            index,
            generation: 0,
        };
        budget.ask(HostIdx(0), rank(Urgency::Host, false, 0));
        budget.begun(conn(1));
        budget.begun(conn(2));
        assert_eq!(budget.next(2), None);
        budget.over(conn(1));
        budget.over(conn(1));
        assert_eq!(budget.next(2), Some(HostIdx(0)));
    }
}
