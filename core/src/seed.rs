//! Owns all randomness of the core: a seed given from outside and a small generator made from it.
//! Leaves out where the seed comes from, and anything that must resist a guessing attacker.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

/// Holds the 32 bytes from which a session draws every random choice.
///
/// The same seed and the same inputs give the same outputs, byte for byte. Machines that need randomness of their
/// own get a child seed through [`Seed::derive`], so that one machine's draws never shift another's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// Spreads one number over a whole seed, for tests and replays.
    pub fn from_u64(number: u64) -> Self {
        let mut state = number;
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(bytes)
    }

    /// Makes the seed of a part of this machine; different labels give unrelated seeds.
    #[must_use]
    pub fn derive(&self, label: u64) -> Self {
        let mut random = Random::new(*self);
        let mut state = random.next_u64() ^ label.wrapping_mul(GOLDEN);
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&(split_mix(&mut state) ^ random.next_u64()).to_le_bytes());
        }
        Self(bytes)
    }

    /// Starts a generator at this seed.
    pub fn random(self) -> Random {
        Random::new(self)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// Generates pseudo-random numbers (xoshiro256++): a few instructions a draw, 32 bytes of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Starts at a seed; a seed of zeros, for which this generator would stand still, is replaced by a fixed one.
    pub fn new(seed: Seed) -> Self {
        let mut state = [0; 4];
        for (word, chunk) in state.iter_mut().zip(seed.0.chunks_exact(8)) {
            *word = chunk
                .iter()
                .rev()
                .fold(0, |word, byte| (word << 8) | u64::from(*byte));
        }
        if state == [0; 4] {
            let mut filler = 0;
            state = std::array::from_fn(|_| split_mix(&mut filler));
        }
        Self { state }
    }

    /// Draws 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let drawn = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        drawn
    }

    /// Draws a number below `limit`; 0 when `limit` is 0.
    ///
    /// Uses a multiplication instead of a division. The bias is below `limit` / 2^64, which no choice here can notice.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Draws an index of a slice of this length; 0 when the length is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        let limit = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(limit)).unwrap_or(0)
    }

    /// Picks one item, or none of an empty slice.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// Puts the items into a random order, every order being equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Draws a duration from `base` ± `percent`, so that many clients do not act at once.
    pub fn jitter(&mut self, base: Duration, percent: u8) -> Duration {
        let nanos = u64::try_from(base.as_nanos()).unwrap_or(u64::MAX);
        let spread = (nanos / 100).saturating_mul(u64::from(percent.min(100)));
        let drawn = self.below(spread.saturating_mul(2).saturating_add(1));
        Duration::from_nanos((nanos - spread).saturating_add(drawn))
    }

    /// Makes a random (version 4) UUID.
    pub fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.next_u64(), self.next_u64());
        uuid::Builder::from_u128((u128::from(high) << 64) | u128::from(low))
            .with_version(uuid::Version::Random)
            .with_variant(uuid::Variant::RFC4122)
            .into_uuid()
    }

    /// Draws a seed for another machine.
    pub fn seed(&mut self) -> Seed {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        Seed(bytes)
    }
}

/// The step of SplitMix64 between two states: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws from SplitMix64, which turns similar inputs into unrelated outputs.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_numbers() {
        let mut left = Seed::from_u64(7).random();
        let mut right = Seed::from_u64(7).random();
        let drawn: Vec<u64> = (0..100).map(|_| left.next_u64()).collect();
        assert!(drawn.iter().all(|number| *number == right.next_u64()));
        assert_ne!(drawn[0], Seed::from_u64(8).random().next_u64());
    }

    #[test]
    fn a_seed_of_zeros_still_draws_different_numbers() {
        let mut random = Seed([0; 32]).random();
        let (first, second) = (random.next_u64(), random.next_u64());
        assert_ne!(first, second);
    }

    #[test]
    fn derived_seeds_differ_by_label_and_from_their_parent() {
        let parent = Seed::from_u64(1);
        assert_ne!(parent.derive(1), parent.derive(2));
        assert_ne!(parent.derive(0), parent);
        assert_eq!(parent.derive(3), parent.derive(3));
    }

    #[test]
    fn numbers_below_a_limit_cover_it_evenly() {
        let mut random = Seed::from_u64(3).random();
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[random.index(10)] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1_200).contains(count)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Seed::from_u64(4).random().shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn jitter_stays_within_its_percentage() {
        let mut random = Seed::from_u64(5).random();
        let base = Duration::from_secs(10);
        let drawn: Vec<Duration> = (0..1_000).map(|_| random.jitter(base, 20)).collect();
        assert!(
            drawn
                .iter()
                .all(|d| (8_000..=12_000).contains(&d.as_millis()))
        );
        assert!(
            drawn.iter().any(|d| d.as_millis() < 9_000)
                && drawn.iter().any(|d| 11_000 < d.as_millis())
        );
        assert_eq!(random.jitter(Duration::ZERO, 50), Duration::ZERO);
        assert!(random.jitter(Duration::MAX, 100) <= Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_uuid_is_of_version_four() {
        let mut random = Seed::from_u64(6).random();
        let (first, second) = (random.uuid(), random.uuid());
        assert_eq!(first.get_version_num(), 4);
        assert_eq!(first.get_variant(), uuid::Variant::RFC4122);
        assert_ne!(first, second);
    }
}
