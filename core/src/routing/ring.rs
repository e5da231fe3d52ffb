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
    pub fn new(mut entries: Vec<(Token, HostIdx)>, hosts: &[Host], strategies: &[Strategy]) -> Self {
        entries.sort_unstable();
        entries.dedup_by_key(|(token, _)| *token);
        let (tokens, owners): (Vec<Token>, Vec<HostIdx>) = entries.into_iter().unzip();
        let ring = Self { tokens: tokens.into(), owners: owners.into(), placements: Arc::default() };
        ring.with_strategies(hosts, strategies)
    }

    /// Builds a ring of the same tokens with other strategies; lists that stay are shared, not built again.
    ///
    /// `hosts` must be those the ring was built with.
    #[must_use]
    pub fn with_strategies(&self, hosts: &[Host], strategies: &[Strategy]) -> Self {
        let placement = |strategy: &Strategy| {
            let known = self.placements.iter().find(|placement| placement.strategy() == strategy);
            known.cloned().unwrap_or_else(|| Placement::new(strategy.clone(), &self.owners, hosts))
        };
        let placements = strategies.iter().map(placement).collect();
        Self { tokens: Arc::clone(&self.tokens), owners: Arc::clone(&self.owners), placements }
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
    #[must_use]
    pub fn replicas(&self, placement: PlacementIdx, token: Token) -> &[HostIdx] {
        let Some(placement) = self.placements.get(usize::from(placement.0)) else { return &[] };
        placement.replicas(self.position(token), &self.owners)
    }

    fn position(&self, token: Token) -> usize {
        let at = self.tokens.partition_point(|own| *own < token);
        if at < self.tokens.len() { at } else { 0 }
    }
}
