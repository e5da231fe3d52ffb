//! Owns the published picture of one host's connections, by shard.
//! Which connections there are is the pool's matter.

use std::sync::Arc;

use crate::routing::shard::{Shard, Sharder};

/// The open connections of one host, by shard.
///
/// Cloning copies no connection.
#[derive(Debug)]
pub struct PoolView<H> {
    sharder: Option<Sharder>,
    /// Ordered by shard.
    connections: Arc<[H]>,
    /// Where each shard's connections start, and at the end where the last ones stop; empty without shards.
    starts: Arc<[u32]>,
}

impl<H> Clone for PoolView<H> {
    fn clone(&self) -> Self {
        Self {
            sharder: self.sharder,
            connections: Arc::clone(&self.connections),
            starts: Arc::clone(&self.starts),
        }
    }
}

impl<H> Default for PoolView<H> {
    fn default() -> Self {
        Self {
            sharder: None,
            connections: Arc::new([]),
            starts: Arc::new([]),
        }
    }
}

impl<H> PoolView<H> {
    /// Arranges open connections; those of shards the node does not have are left out.
    #[must_use]
    pub fn new(sharder: Option<Sharder>, connections: Vec<(Option<Shard>, H)>) -> Self {
        let Some(known) = sharder else {
            let connections = connections.into_iter().map(|(_, handle)| handle).collect();
            return Self {
                sharder,
                connections,
                starts: Arc::new([]),
            };
        };
        let mut sharded: Vec<(Shard, H)> = connections
            .into_iter()
            .filter_map(|(shard, handle)| Some((shard?, handle)))
            .filter(|(shard, _)| shard.0 < known.shards.get())
            .collect();
        sharded.sort_by_key(|(shard, _)| *shard);
        let start = |shard| {
            u32::try_from(sharded.partition_point(|(own, _)| own.0 < shard)).unwrap_or(u32::MAX)
        };
        let starts = (0..known.shards.get())
            .map(start)
            .chain([u32::try_from(sharded.len()).unwrap_or(u32::MAX)]);
        let starts = starts.collect();
        Self {
            sharder,
            connections: sharded.into_iter().map(|(_, handle)| handle).collect(),
            starts,
        }
    }

    /// How the node maps tokens to shards; `None` for a node without shards.
    #[inline]
    #[must_use]
    pub fn sharder(&self) -> Option<Sharder> {
        self.sharder
    }

    /// All usable connections, ordered by shard.
    #[inline]
    #[must_use]
    pub fn connections(&self) -> &[H] {
        &self.connections
    }

    /// The connections that reach `shard`; empty when the node has no such shard or none is connected.
    #[inline]
    #[must_use]
    pub fn on_shard(&self, shard: Shard) -> &[H] {
        let start = |at: usize| {
            self.starts
                .get(at)
                .and_then(|start| usize::try_from(*start).ok())
        };
        let (from, to) = (start(usize::from(shard.0)), start(usize::from(shard.0) + 1));
        match (from, to) {
            (Some(from), Some(to)) => self.connections.get(from..to).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// All usable connections with the shard that each one reaches, where the node has shards.
    pub fn by_shard(&self) -> impl Iterator<Item = (Option<Shard>, &H)> {
        let shard_at = move |at: usize| {
            // The last shard that starts at or before this place has it: shards without a connection start there too.
            let after = self
                .starts
                .partition_point(|start| usize::try_from(*start).is_ok_and(|start| start <= at));
            u16::try_from(after.checked_sub(1)?).ok().map(Shard)
        };
        self.connections
            .iter()
            .enumerate()
            .map(move |(at, handle)| (shard_at(at), handle))
    }

    /// Counts the shards that have a connection.
    #[must_use]
    pub fn shards_connected(&self) -> u16 {
        let filled = self.starts.windows(2).filter(|pair| pair[0] < pair[1]);
        u16::try_from(filled.count()).unwrap_or(u16::MAX)
    }

    /// Says whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn sharder(shards: u16) -> Option<Sharder> {
        Some(Sharder {
            shards: NonZeroU16::new(shards).expect("not zero"),
            ignore_msb: 12,
        })
    }

    #[test]
    fn connections_are_found_by_their_shard() {
        let view = PoolView::new(
            sharder(3),
            vec![
                (Some(Shard(2)), 'c'),
                (Some(Shard(0)), 'a'),
                (Some(Shard(2)), 'd'),
            ],
        );
        assert_eq!(view.on_shard(Shard(0)), ['a']);
        assert!(view.on_shard(Shard(1)).is_empty());
        assert_eq!(view.on_shard(Shard(2)), ['c', 'd']);
        assert!(view.on_shard(Shard(3)).is_empty());
        assert_eq!(view.connections(), ['a', 'c', 'd']);
        let by_shard: Vec<_> = view.by_shard().collect();
        let (zero, two) = (Some(Shard(0)), Some(Shard(2)));
        assert_eq!(by_shard, [(zero, &'a'), (two, &'c'), (two, &'d')]);
    }

    #[test]
    fn a_connection_on_a_shard_the_node_does_not_have_is_not_used() {
        let view = PoolView::new(
            sharder(2),
            vec![(Some(Shard(2)), 'x'), (None, 'y'), (Some(Shard(1)), 'z')],
        );
        assert_eq!(view.connections(), ['z']);
    }

    #[test]
    fn a_node_without_shards_has_connections_all_the_same() {
        let view = PoolView::new(None, vec![(None, 'a'), (Some(Shard(1)), 'b')]);
        assert_eq!(view.connections(), ['a', 'b']);
        assert!(view.on_shard(Shard(0)).is_empty());
        assert!(view.by_shard().all(|(shard, _)| shard.is_none()));
    }

    #[test]
    fn shards_with_a_connection_are_counted_once() {
        let connections = vec![
            (Some(Shard(2)), 'a'),
            (Some(Shard(2)), 'b'),
            (Some(Shard(0)), 'c'),
        ];
        assert_eq!(PoolView::new(sharder(4), connections).shards_connected(), 2);
        assert_eq!(PoolView::<char>::default().shards_connected(), 0);
        assert_eq!(PoolView::new(None, vec![(None, 'a')]).shards_connected(), 0);
    }
}
