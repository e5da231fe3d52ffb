//! Owns the token ring: which node owns a token, and the precomputed replica lists of each replication strategy.
//! It does not know tables or keyspaces; a table names its placement.

use std::sync::Arc;

use super::replicas::{Placement, PlacementIdx, Strategy};
use super::snapshot::{Host, HostIdx};
use super::token::Token;

/// All tokens of all nodes in order, with the replica lists that hold at each.
///
/// Costs ten bytes a token, and for each distinct replication strategy four more plus its distinct lists.
/// Cloning copies no token.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    tokens: Arc<[Token]>,
    owners: Arc<[HostIdx]>,
    placements: Arc<[Placement]>,
}

impl Ring {
    /// Builds the ring of `entries` in any order; of two nodes that claim one token the lower index keeps it.
    #[must_use]
    pub fn new(
        mut entries: Vec<(Token, HostIdx)>,
        hosts: &[Host],
        strategies: &[Strategy],
    ) -> Self {
        entries.sort_unstable();
        entries.dedup_by_key(|(token, _)| *token);
        let (tokens, owners): (Vec<Token>, Vec<HostIdx>) = entries.into_iter().unzip();
        let ring = Self {
            tokens: tokens.into(),
            owners: owners.into(),
            placements: Arc::default(),
        };
        ring.with_strategies(hosts, strategies)
    }

    /// Builds a ring of the same tokens with other strategies; lists that stay are shared, not built again.
    ///
    /// `hosts` must be those the ring was built with.
    #[must_use]
    pub fn with_strategies(&self, hosts: &[Host], strategies: &[Strategy]) -> Self {
        let placement = |strategy: &Strategy| {
            let known = self
                .placements
                .iter()
                .find(|placement| placement.strategy() == strategy);
            known
                .cloned()
                .unwrap_or_else(|| Placement::new(strategy.clone(), &self.owners, hosts))
        };
        let placements = strategies.iter().map(placement).collect();
        Self {
            tokens: Arc::clone(&self.tokens),
            owners: Arc::clone(&self.owners),
            placements,
        }
    }

    /// All tokens in order.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The owners of the tokens, in the same order.
    #[must_use]
    pub fn owners(&self) -> &[HostIdx] {
        &self.owners
    }

    /// The placements, by [`PlacementIdx`].
    #[must_use]
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// Finds the node whose range holds `token`: the first at or after it, past the last one the first.
    #[must_use]
    pub fn owner(&self, token: Token) -> Option<HostIdx> {
        self.owners.get(self.position(token)).copied()
    }

    /// Lists the replicas of `token` in ring order; empty where nothing is known.
    ///
    /// Costs one binary search over the tokens.
    #[inline]
    #[must_use]
    pub fn replicas(&self, placement: PlacementIdx, token: Token) -> &[HostIdx] {
        let Some(placement) = self.placements.get(usize::from(placement.0)) else {
            return &[];
        };
        placement.replicas(self.position(token), &self.owners)
    }

    #[inline]
    fn position(&self, token: Token) -> usize {
        let at = self.tokens.partition_point(|own| *own < token);
        if at < self.tokens.len() { at } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use uuid::Uuid;

    use super::*;

    fn ring(entries: &[(i64, u16)]) -> Ring {
        let hosts: Vec<Host> = (1..=4)
            .map(|id| {
                Host::new(
                    Uuid::from_u128(id),
                    SocketAddr::from(([192, 0, 2, 1], 9042)),
                )
            })
            .collect();
        let entries = entries
            .iter()
            .map(|(token, host)| (Token(*token), HostIdx(*host)))
            .collect();
        Ring::new(entries, &hosts, &[Strategy::Simple { factor: 2 }])
    }

    #[test]
    fn a_token_belongs_to_the_first_at_or_after_it() {
        let ring = ring(&[(30, 2), (10, 0), (20, 1)]);
        let owners = [9, 10, 11, 20, 30].map(|token| ring.owner(Token(token)).map(|host| host.0));
        assert_eq!(owners, [Some(0), Some(0), Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn past_the_last_token_the_ring_starts_again() {
        let ring = ring(&[(10, 0), (20, 1)]);
        assert_eq!(ring.owner(Token(21)), Some(HostIdx(0)));
        assert_eq!(ring.owner(Token::MAX), Some(HostIdx(0)));
        assert_eq!(ring.owner(Token::MIN), Some(HostIdx(0)));
        assert_eq!(
            ring.replicas(PlacementIdx(0), Token::MAX),
            [HostIdx(0), HostIdx(1)]
        );
    }

    #[test]
    fn an_empty_ring_has_no_owner_and_no_replica() {
        let ring = ring(&[]);
        assert_eq!(ring.owner(Token(0)), None);
        assert!(ring.replicas(PlacementIdx(0), Token(0)).is_empty());
    }

    #[test]
    fn an_unknown_placement_has_no_replica() {
        assert!(
            ring(&[(10, 0)])
                .replicas(PlacementIdx(7), Token(0))
                .is_empty()
        );
    }

    #[test]
    fn a_token_claimed_twice_has_one_owner_whatever_the_order() {
        for entries in [[(10, 3), (10, 1)], [(10, 1), (10, 3)]] {
            let ring = ring(&entries);
            assert_eq!(ring.owner(Token(5)), Some(HostIdx(1)));
            assert_eq!(ring.tokens().len(), 1);
        }
    }

    #[test]
    fn a_strategy_that_stays_is_not_computed_again() {
        let hosts = [Host::new(
            Uuid::from_u128(1),
            SocketAddr::from(([192, 0, 2, 1], 9042)),
        )];
        let two = Strategy::Simple { factor: 2 };
        let before = Ring::new(
            vec![(Token(1), HostIdx(0))],
            &hosts,
            std::slice::from_ref(&two),
        );
        let after = before.with_strategies(&hosts, &[Strategy::Local, two]);
        let lists =
            |ring: &Ring, at: usize| ring.placements()[at].replicas(0, ring.owners()).as_ptr();
        assert_eq!(lists(&before, 0), lists(&after, 1));
    }
}
