//! Owns tokens: the partitioners' hash functions and the incremental hashing of a partition key.
//! It does not know which columns form a key; the caller hands over the parts in key order.

/// A position on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The mark "before every token", which no key ever hashes to.
    pub const MIN: Self = Self(i64::MIN);
    /// The greatest token.
    pub const MAX: Self = Self(i64::MAX);

    /// Makes a token of a hash; the smallest number is reserved and becomes the greatest.
    #[must_use]
    pub const fn from_hash(hash: i64) -> Self {
        if hash == i64::MIN {
            Self::MAX
        } else {
            Self(hash)
        }
    }
}

/// The function that maps a partition key to a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Partitioner {
    /// The default partitioner of ScyllaDB and Cassandra.
    #[default]
    Murmur3,
    /// ScyllaDB's partitioner of change data capture logs: the stream id carries its token.
    Cdc,
    /// A partitioner whose tokens we do not compute; such tables are not routed by token.
    Other,
}

impl Partitioner {
    /// Reads a class name with or without its package.
    #[must_use]
    pub fn from_class_name(name: &str) -> Self {
        match name.rsplit('.').next() {
            Some("Murmur3Partitioner") => Self::Murmur3,
            Some("CDCPartitioner") => Self::Cdc,
            _ => Self::Other,
        }
    }

    /// Computes the token of a serialised partition key; `None` where the partitioner is not known.
    #[inline]
    #[must_use]
    pub fn token(self, key: &[u8]) -> Option<Token> {
        if self == Self::Murmur3 {
            return Some(Token::from_hash(Murmur3::whole(key)));
        }
        let mut hasher = TokenHasher::new(self, 1);
        hasher.part(key).ok()?;
        hasher.finish()
    }
}

/// A part of a composite partition key does not fit its two-byte length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the partition key has {len} bytes where at most 65535 fit")]
pub struct KeyPartTooLong {
    /// How long the part is.
    pub len: usize,
}

/// Hashes the parts of a partition key where they lie, without gathering them first.
///
/// Costs no allocation.
#[derive(Clone, Debug)]
pub struct TokenHasher {
    state: State,
    composite: bool,
}

#[derive(Clone, Debug)]
enum State {
    Murmur3(Murmur3),
    Cdc { head: [u8; 8], len: usize },
    Other,
}

impl TokenHasher {
    /// Starts a key of `parts` columns; with more than one, each part is framed as the servers frame it.
    #[must_use]
    pub fn new(partitioner: Partitioner, parts: usize) -> Self {
        let state = match partitioner {
            Partitioner::Murmur3 => State::Murmur3(Murmur3::default()),
            Partitioner::Cdc => State::Cdc {
                head: [0; 8],
                len: 0,
            },
            Partitioner::Other => State::Other,
        };
        Self {
            state,
            composite: 1 < parts,
        }
    }

    /// Adds the next part of the key, in key order.
    ///
    /// # Errors
    /// A part of a composite key is longer than 65535 bytes. The hasher is then of no more use.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), KeyPartTooLong> {
        if !self.composite {
            self.write(bytes);
            return Ok(());
        }
        let len = u16::try_from(bytes.len()).map_err(|_| KeyPartTooLong { len: bytes.len() })?;
        self.write(&len.to_be_bytes());
        self.write(bytes);
        self.write(&[0]);
        Ok(())
    }

    /// Ends the key; `None` where the partitioner is not known.
    #[must_use]
    pub fn finish(self) -> Option<Token> {
        match self.state {
            State::Murmur3(murmur) => Some(Token::from_hash(murmur.finish())),
            // Only a stream id of at least eight bytes carries a token; a shorter one has the server's minimum.
            State::Cdc { len, .. } if len < 8 => Some(Token::MIN),
            State::Cdc { head, .. } => Some(Token::from_hash(i64::from_be_bytes(head))),
            State::Other => None,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Murmur3(murmur) => murmur.write(bytes),
            State::Cdc { head, len } => {
                for (to, from) in head.iter_mut().skip(*len).zip(bytes) {
                    *to = *from;
                }
                *len = len.saturating_add(bytes.len());
            }
            State::Other => (),
        }
    }
}

/// Murmur3 x64 128 with seed 0, first half, with the servers' sign extension of the tail.
#[derive(Clone, Debug, Default)]
struct Murmur3 {
    h1: u64,
    h2: u64,
    len: u64,
    tail: [u8; BLOCK],
    fill: usize,
}

const BLOCK: usize = 16;
const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

impl Murmur3 {
    fn write(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if 0 < self.fill {
            let take = bytes.len().min(BLOCK - self.fill);
            let (head, rest) = bytes.split_at(take);
            self.tail[self.fill..self.fill + take].copy_from_slice(head);
            self.fill += take;
            bytes = rest;
            if self.fill < BLOCK {
                return;
            }
            let block = self.tail;
            self.block(&block);
            self.fill = 0;
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            if let Ok(block) = block.try_into() {
                self.block(block);
            }
        }
        let rest = blocks.remainder();
        self.tail[..rest.len()].copy_from_slice(rest);
        self.fill = rest.len();
    }

    fn block(&mut self, block: &[u8; BLOCK]) {
        let whole = u128::from_le_bytes(*block);
        let (k1, k2) = (low(whole), low(whole >> 64));
        self.h1 ^= mix1(k1);
        self.h1 = self
            .h1
            .rotate_left(27)
            .wrapping_add(self.h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        self.h2 ^= mix2(k2);
        self.h2 = self
            .h2
            .rotate_left(31)
            .wrapping_add(self.h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }

    /// Hashes a key that lies in one piece.
    #[inline]
    fn whole(bytes: &[u8]) -> i64 {
        // The most frequent keys are one number, or one UUID.
        if let Ok(word) = bytes.try_into() {
            let murmur = Self {
                h1: mix1(signed_tail(u64::from_le_bytes(word))),
                len: 8,
                ..Self::default()
            };
            return murmur.mixed();
        }
        Self::whole_of_any_length(bytes)
    }

    #[inline(never)]
    fn whole_of_any_length(bytes: &[u8]) -> i64 {
        let mut murmur = Self {
            len: bytes.len() as u64,
            ..Self::default()
        };
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            if let Ok(block) = block.try_into() {
                murmur.block(block);
            }
        }
        murmur.end(blocks.remainder())
    }

    fn finish(self) -> i64 {
        let (tail, fill) = (self.tail, self.fill);
        self.end(tail.get(..fill).unwrap_or(&tail))
    }

    /// Adds the bytes behind the last whole block and mixes everything.
    #[inline]
    fn end(mut self, rest: &[u8]) -> i64 {
        let mut tail = [0; BLOCK];
        if let Some(place) = tail.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        let whole = u128::from_le_bytes(tail);
        let (k1, k2) = (signed_tail(low(whole)), signed_tail(low(whole >> 64)));
        if 8 < rest.len() {
            self.h2 ^= mix2(k2);
        }
        if !rest.is_empty() {
            self.h1 ^= mix1(k1);
        }
        self.mixed()
    }

    /// Mixes everything.
    #[inline]
    fn mixed(mut self) -> i64 {
        self.h1 ^= self.len;
        self.h2 ^= self.len;
        self.h1 = self.h1.wrapping_add(self.h2);
        self.h2 = self.h2.wrapping_add(self.h1);
        final_mix(self.h1)
            .wrapping_add(final_mix(self.h2))
            .cast_signed()
    }
}

/// Up to eight bytes of a tail, as the servers read them: they shift a signed byte, so a high bit spreads over all the
/// bits above it.
#[inline]
const fn signed_tail(plain: u64) -> u64 {
    // A byte is inverted when an odd number of the bytes below it is negative. The product sums up all bytes below
    // and the byte itself, the shift leaves those below.
    let negative = (plain >> 7) & EACH;
    let below = negative.wrapping_mul(EACH) << 8;
    plain ^ (below & EACH).wrapping_mul(0xff)
}

/// One in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The low half of a wide number.
const fn low(wide: u128) -> u64 {
    (wide & u64::MAX as u128) as u64
}

const fn mix1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

const fn mix2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

const fn final_mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn murmur(key: &[u8]) -> i64 {
        Partitioner::Murmur3.token(key).expect("murmur is known").0
    }

    fn cdc(key: &[u8]) -> Token {
        Partitioner::Cdc.token(key).expect("cdc is known")
    }

    #[test]
    fn keys_of_every_tail_length_class_hash_as_the_servers_hash_them() {
        assert_eq!(murmur(b""), 0);
        assert_eq!(murmur(b"a"), -8_839_064_797_231_613_815);
        assert_eq!(murmur(b"100000"), 2_739_050_094_959_918_959);
        assert_eq!(murmur(&0_i32.to_be_bytes()), -3_485_513_579_396_041_028);
        assert_eq!(murmur(b"0123456789abcdef"), 5_467_490_433_528_156_583);
    }

    #[test]
    fn high_bytes_in_the_tail_are_sign_extended() {
        assert_eq!(murmur(&[0xff; 3]), -9_154_616_442_117_352_147);
        assert_eq!(murmur("naïve".as_bytes()), -8_781_071_836_231_099_793);
        let long: Vec<u8> = (0x80..=0x93).collect();
        assert_eq!(murmur(&long), 4_445_046_086_399_922_156);
        assert_eq!(murmur(&[0xff; 13]), 5_402_220_310_222_980_743);
        assert_eq!(murmur(&[0x80; 12]), 732_398_096_133_221_117);
        assert_eq!(murmur(&[0x80; 15]), -5_979_218_241_483_680_930);
        let last = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
        assert_eq!(murmur(&last), -799_793_088_034_146_062);
    }

    #[test]
    fn a_key_of_one_number_hashes_as_it_does_in_pieces() {
        for seed in 0..2_000_u64 {
            let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed << 56);
            let key = word.to_le_bytes();
            let mut pieces = Murmur3::default();
            pieces.write(&key[..3]);
            pieces.write(&key[3..]);
            assert_eq!(pieces.finish(), murmur(&key), "{key:?}");
            assert_eq!(signed_tail(word), signed_byte_by_byte(word), "{key:?}");
        }
    }

    /// What the servers do: each byte is shifted with its sign.
    fn signed_byte_by_byte(plain: u64) -> u64 {
        let bytes = plain.to_le_bytes().into_iter().enumerate();
        bytes.fold(0, |folded, (at, byte)| {
            folded ^ (i64::from(byte.cast_signed()).cast_unsigned() << (8 * at))
        })
    }

    #[test]
    fn a_composite_key_is_framed_and_hashed_without_being_gathered() {
        let mut hasher = TokenHasher::new(Partitioner::Murmur3, 2);
        hasher.part(&1_i32.to_be_bytes()).expect("short");
        hasher.part(b"abc").expect("short");
        assert_eq!(hasher.finish(), Some(Token(8_771_735_466_527_499_816)));
    }

    #[test]
    fn the_order_of_the_parts_matters() {
        let hash = |parts: [&[u8]; 2]| {
            let mut hasher = TokenHasher::new(Partitioner::Murmur3, 2);
            for part in parts {
                hasher.part(part).expect("short");
            }
            hasher.finish()
        };
        assert_ne!(hash([b"a", b"b"]), hash([b"b", b"a"]));
    }

    #[test]
    fn any_cut_of_a_key_into_writes_gives_the_same_hash() {
        let key: Vec<u8> = (0..70_u8).map(|n| n.wrapping_mul(37)).collect();
        for first in 0..key.len() {
            for second in first..key.len() {
                let mut murmur3 = Murmur3::default();
                murmur3.write(&key[..first]);
                murmur3.write(&key[first..second]);
                murmur3.write(&key[second..]);
                assert_eq!(murmur3.finish(), murmur(&key));
            }
        }
    }

    #[test]
    fn a_part_over_sixty_four_kib_is_refused_in_a_composite_key_only() {
        let long = vec![0; 65_536];
        let mut composite = TokenHasher::new(Partitioner::Murmur3, 2);
        assert_eq!(composite.part(&long), Err(KeyPartTooLong { len: 65_536 }));
        let mut single = TokenHasher::new(Partitioner::Murmur3, 1);
        assert_eq!(single.part(&long), Ok(()));
    }

    #[test]
    fn the_reserved_hash_becomes_the_greatest_token() {
        assert_eq!(Token::from_hash(i64::MIN), Token::MAX);
        assert_eq!(Token::from_hash(i64::MIN + 1), Token(i64::MIN + 1));
    }

    #[test]
    fn a_stream_id_carries_its_token_in_its_first_eight_bytes() {
        let id = [
            0xc8, 0xa5, 0xf1, 0xe2, 0xd3, 0xb4, 0xa6, 0x97, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        assert_eq!(cdc(&id), Token(-3_988_515_938_449_971_561));
        let mut reserved = [0; 16];
        reserved[0] = 0x80;
        assert_eq!(cdc(&reserved), Token::MAX);
    }

    #[test]
    fn a_short_stream_id_has_the_minimum_token() {
        assert_eq!(cdc(&[1, 2, 3, 4]), Token::MIN);
    }

    #[test]
    fn partitioners_are_known_by_the_last_part_of_their_class_name() {
        assert_eq!(
            Partitioner::from_class_name("org.apache.cassandra.dht.Murmur3Partitioner"),
            Partitioner::Murmur3
        );
        assert_eq!(
            Partitioner::from_class_name("com.scylladb.dht.CDCPartitioner"),
            Partitioner::Cdc
        );
        assert_eq!(
            Partitioner::from_class_name("CDCPartitioner"),
            Partitioner::Cdc
        );
        assert_eq!(
            Partitioner::from_class_name("org.apache.cassandra.dht.RandomPartitioner"),
            Partitioner::Other
        );
        assert_eq!(Partitioner::Other.token(b"a"), None);
    }
}
