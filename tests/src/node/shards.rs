//! The shards of a node: which one serves a new connection, and what SUPPORTED says about them.

use std::net::SocketAddr;

/// The number of high token bits that the sharding formula skips, as the server has it by default.
pub(crate) const IGNORE_MSB: u8 = 12;

/// The port that a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// The node chooses the shard.
    Normal,
    /// The source port chooses the shard.
    ShardAware,
    /// The node chooses the shard; a proxy tells who the client is.
    Proxied,
    /// The source port that a proxy tells chooses the shard.
    ProxiedShardAware,
}

impl PortKind {
    /// Whether every connection begins with the header of a proxy.
    pub(crate) fn is_proxied(self) -> bool {
        matches!(self, Self::Proxied | Self::ProxiedShardAware)
    }
}

/// How many connections each shard has.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    /// Whether clients are told about them.
    told: bool,
    by_normal_port: Vec<u64>,
    by_proxied_port: Vec<u64>,
}

impl Shards {
    /// A node with this many shards; none is a node that does not tell, with one shard inside.
    pub(crate) fn new(count: u16) -> Self {
        Self {
            told: 0 < count,
            by_normal_port: vec![0; usize::from(count.max(1))],
            by_proxied_port: vec![0; usize::from(count.max(1))],
        }
    }

    /// The number that clients are told; none of a node that does not tell.
    pub(crate) fn told(&self) -> Option<u16> {
        self.told.then(|| self.count())
    }

    fn count(&self) -> u16 {
        u16::try_from(self.by_normal_port.len()).unwrap_or(u16::MAX)
    }

    /// The connections of each shard, where the node chooses; each port counts for itself.
    fn counts_mut(&mut self, port: PortKind) -> Option<&mut Vec<u64>> {
        match port {
            PortKind::Normal => Some(&mut self.by_normal_port),
            PortKind::Proxied => Some(&mut self.by_proxied_port),
            PortKind::ShardAware | PortKind::ProxiedShardAware => None,
        }
    }

    /// Chooses the shard of a connection.
    ///
    /// Where the node chooses, that is the one with the fewest connections, the lowest of several.
    pub(crate) fn accept(&mut self, port: PortKind, peer: SocketAddr) -> u16 {
        let Some(counts) = self.counts_mut(port) else {
            return peer.port() % self.count();
        };
        let fewest = counts.iter().min().copied().unwrap_or(0);
        let at = counts.iter().position(|count| *count == fewest);
        let at = at.unwrap_or(0);
        if let Some(count) = counts.get_mut(at) {
            *count += 1;
        }
        u16::try_from(at).unwrap_or(0)
    }

    /// A connection is gone.
    pub(crate) fn release(&mut self, port: PortKind, shard: u16) {
        let counts = self.counts_mut(port);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(usize::from(shard))) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn connections_go_to_the_shard_with_the_fewest() {
        let mut shards = Shards::new(3);
        let chosen: Vec<u16> = (0..4)
            .map(|_| shards.accept(PortKind::Normal, peer(1)))
            .collect();
        assert_eq!(chosen, [0, 1, 2, 0]);
        shards.release(PortKind::Normal, 2);
        assert_eq!(shards.accept(PortKind::Normal, peer(1)), 2);
        assert_eq!(shards.accept(PortKind::Proxied, peer(2)), 0);
    }

    #[test]
    fn on_the_shard_aware_port_the_source_port_chooses() {
        let mut shards = Shards::new(3);
        assert_eq!(
            shards.accept(PortKind::ShardAware, peer(40_000)),
            40_000 % 3
        );
        assert_eq!(shards.accept(PortKind::ProxiedShardAware, peer(7)), 1);
        assert_eq!(shards.accept(PortKind::Normal, peer(1)), 0);
    }
}
