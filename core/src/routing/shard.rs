//! Owns the arithmetic of shards: which shard of a node owns a token, which shard a source port leads to.
//! It does not know nodes; each node brings its own shard count.

use std::num::NonZeroU16;

use super::token::Token;

/// One shard (core) of a ScyllaDB node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// The sharding of one node: nodes of one cluster may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sharder {
    /// How many shards the node has.
    pub shards: NonZeroU16,
    /// How many of the token's highest bits the node ignores, 0 to 63.
    pub ignore_msb: u8,
}

impl Sharder {
    /// Computes the shard that owns `token` on this node.
    #[must_use]
    pub fn shard_of(self, token: Token) -> Shard {
        let biased = token.0.cast_unsigned().wrapping_add(1 << 63);
        let shifted = biased.checked_shl(u32::from(self.ignore_msb)).unwrap_or(0);
        let product = u128::from(shifted) * u128::from(self.shards.get());
        // The high half is below the shard count, so it fits.
        Shard(u16::try_from(product >> 64).unwrap_or(0))
    }

    /// Computes the shard that a connection from `port` reaches on the shard-aware port.
    #[must_use]
    pub fn shard_of_source_port(self, port: u16) -> Shard {
        Shard(port % self.shards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::token::Partitioner;

    fn sharder(shards: u16, ignore_msb: u8) -> Sharder {
        Sharder {
            shards: NonZeroU16::new(shards).expect("not zero"),
            ignore_msb,
        }
    }

    fn shards_of(shards: u16, keys: &[&[u8]]) -> Vec<u16> {
        let token = |key: &&[u8]| Partitioner::Murmur3.token(key).expect("murmur is known");
        keys.iter()
            .map(|key| sharder(shards, 12).shard_of(token(key)).0)
            .collect()
    }

    #[test]
    fn keys_land_on_the_shards_of_a_twelve_shard_node() {
        assert_eq!(
            shards_of(12, &[b"a", b"b", b"c", b"e", b"100000"]),
            [4, 6, 6, 4, 2]
        );
    }

    #[test]
    fn tokens_near_both_ends_land_on_the_last_of_four_shards() {
        assert_eq!(
            sharder(4, 12).shard_of(Token(-9_219_783_007_514_621_794)),
            Shard(3)
        );
        assert_eq!(
            sharder(4, 12).shard_of(Token(9_222_582_454_147_032_830)),
            Shard(3)
        );
    }

    #[test]
    fn a_single_shard_owns_every_token() {
        for ignore_msb in [0, 12, 63, 200] {
            for token in [Token::MIN, Token(-1), Token(0), Token(1), Token::MAX] {
                assert_eq!(sharder(1, ignore_msb).shard_of(token), Shard(0));
            }
        }
    }

    #[test]
    fn without_ignored_bits_the_ring_is_cut_into_equal_arcs() {
        let shards: Vec<_> = [Token::MIN, Token(0), Token::MAX]
            .map(|token| sharder(8, 0).shard_of(token).0)
            .into();
        assert_eq!(shards, [0, 4, 7]);
    }

    #[test]
    fn neighbouring_tokens_may_be_on_far_shards() {
        assert_eq!(sharder(14, 12).shard_of(Token(0)), Shard(0));
        assert_eq!(sharder(14, 12).shard_of(Token(-1)), Shard(13));
    }

    #[test]
    fn a_source_port_leads_to_its_remainder() {
        assert_eq!(sharder(7, 12).shard_of_source_port(49_156), Shard(2));
    }

    #[test]
    fn nodes_with_different_shard_counts_have_a_token_on_different_shards() {
        let token = Token(6_148_914_691_236_517_206);
        assert_eq!(sharder(4, 12).shard_of(token), Shard(1));
        assert_eq!(sharder(7, 12).shard_of(token), Shard(2));
    }

    #[test]
    fn stream_ids_whole_and_short_have_a_shard() {
        let cdc = |key: &[u8]| Partitioner::Cdc.token(key).expect("cdc is known");
        let id = [
            0xc8, 0xa5, 0xf1, 0xe2, 0xd3, 0xb4, 0xa6, 0x97, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(sharder(8, 12).shard_of(cdc(&id)), Shard(2));
        assert_eq!(sharder(8, 12).shard_of(cdc(&[1, 2, 3, 4])), Shard(0));
    }
}
