//! Owns the order in which a client's own ports are tried to reach one shard of a node.
//! Binding a port is the owner's business; so is what follows when none is free.

use std::num::NonZeroU16;

use crate::config::pool::SourcePorts;
use crate::routing::Shard;
use crate::seed::Random;

/// Walks once around the ports that lead to one shard, from a random one.
#[derive(Clone, Debug)]
pub(crate) struct PortWalk {
    first: u32,
    step: u32,
    count: u32,
    start: u32,
    taken: u32,
}

impl PortWalk {
    /// Starts a walk; one to a shard that no port of the range leads to is over at once.
    pub(crate) fn new(
        range: SourcePorts,
        shards: NonZeroU16,
        shard: Shard,
        random: &mut Random,
    ) -> Self {
        let step = u32::from(shards.get());
        let (low, high) = (u32::from(range.low()), u32::from(range.high()));
        let ahead = (step + u32::from(shard.0) % step - low % step) % step;
        let first = low + ahead;
        let count = match high.checked_sub(first) {
            Some(rest) => rest / step + 1,
            None => 0,
        };
        let start = u32::try_from(random.below(u64::from(count))).unwrap_or(0);
        Self {
            first,
            step,
            count,
            start,
            taken: 0,
        }
    }

    /// The next port; each comes once.
    pub(crate) fn next(&mut self) -> Option<u16> {
        if self.count <= self.taken {
            return None;
        }
        let at = (self.start + self.taken) % self.count;
        self.taken += 1;
        u16::try_from(self.first + at * self.step).ok()
    }

    /// Says whether no port was taken so far and none can be.
    pub(crate) fn is_over(&self) -> bool {
        self.count <= self.taken
    }

    /// How many ports were taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn walk(range: SourcePorts, shards: u16, shard: u16, seed: u64) -> Vec<u16> {
        let shards = NonZeroU16::new(shards).expect("not zero");
        let mut random = Seed::from_u64(seed).random();
        let mut walk = PortWalk::new(range, shards, Shard(shard), &mut random);
        std::iter::from_fn(|| walk.next()).collect()
    }

    fn ports(shards: u16, shard: u16) -> Vec<u16> {
        let mut ports = walk(SourcePorts::default(), shards, shard, 1);
        ports.sort_unstable();
        ports
    }

    #[test]
    fn every_port_of_a_shard_comes_exactly_once() {
        let ports = ports(4, 3);
        assert_eq!(ports.len(), 4_096);
        assert_eq!(
            (ports.first(), ports.last()),
            (Some(&49_155), Some(&65_535))
        );
        assert!(ports.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ports.iter().all(|port| port % 4 == 3));
    }

    #[test]
    fn the_ports_of_a_shard_are_counted_over_the_whole_range() {
        for (shards, shard, count, first, last) in [
            (1, 0, 16_384, 49_152, 65_535),
            (4, 0, 4_096, 49_152, 65_532),
            (7, 2, 2_340, 49_156, 65_529),
            (14, 13, 1_171, 49_153, 65_533),
            (16_384, 0, 1, 49_152, 49_152),
        ] {
            let ports = ports(shards, shard);
            assert_eq!(
                (ports.len(), ports.first(), ports.last()),
                (count, Some(&first), Some(&last)),
                "{shard} of {shards}"
            );
        }
    }

    #[test]
    fn a_walk_wraps_from_the_highest_port_to_the_lowest() {
        let range = SourcePorts::new(60_000, 60_011).expect("a range");
        let wrapped = (0..200)
            .map(|seed| walk(range, 4, 1, seed))
            .find(|ports| ports[0] == 60_009)
            .expect("some seed starts at the end");
        assert_eq!(wrapped, [60_009, 60_001, 60_005]);
    }

    #[test]
    fn the_start_depends_on_the_seed_alone() {
        let range = SourcePorts::default();
        assert_eq!(walk(range, 4, 1, 9), walk(range, 4, 1, 9));
        let mut starts: Vec<u16> = (0..40).map(|seed| walk(range, 4, 1, seed)[0]).collect();
        starts.sort_unstable();
        starts.dedup();
        assert!(35 < starts.len());
    }

    #[test]
    fn a_shard_that_no_port_leads_to_has_an_empty_walk() {
        let range = |low, high| SourcePorts::new(low, high).expect("a range");
        assert_eq!(walk(range(50_001, 50_001), 8, 1, 1), [50_001]);
        assert!(walk(range(50_001, 50_001), 8, 5, 1).is_empty());
        assert!(walk(range(60_000, 65_535), 30_000, 29_000, 1).is_empty());
        assert_eq!(ports(16_385, 0), [49_155]);
        assert!(ports(16_385, 16_381).is_empty());
        let mut both = walk(range(65_533, 65_535), 2, 1, 1);
        both.sort_unstable();
        assert_eq!(both, [65_533, 65_535], "no overflow at the end");
    }
}
