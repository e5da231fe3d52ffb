//! Owns the small collections that hot paths need: a vector that starts inline, a slab with checked keys, a hasher
//! whose values do not change from run to run.
//! Leaves out everything that the standard library does well enough.

use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::ops::{Deref, DerefMut};

/// Holds up to `N` items in place and moves to the heap only beyond that.
#[derive(Clone, Debug)]
pub struct InlineVec<T, const N: usize> {
    inline: [T; N],
    len: usize,
    /// Holds all items once there were more than `N`.
    spilled: Vec<T>,
}

impl<T: Default, const N: usize> InlineVec<T, N> {
    /// Makes an empty vector without allocating.
    pub fn new() -> Self {
        Self {
            inline: std::array::from_fn(|_| T::default()),
            len: 0,
            spilled: Vec::new(),
        }
    }

    /// Appends an item; allocates only when the inline places are full.
    pub fn push(&mut self, item: T) {
        if !self.spilled.is_empty() {
            self.spilled.push(item);
            return;
        }
        match self.inline.get_mut(self.len) {
            Some(place) => {
                *place = item;
                self.len += 1;
            }
            None => {
                self.spilled.reserve(N + 1);
                self.spilled.extend(self.inline.iter_mut().map(mem::take));
                self.spilled.push(item);
                self.len = 0;
            }
        }
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<T> {
        if !self.spilled.is_empty() {
            return self.spilled.pop();
        }
        self.len = self.len.checked_sub(1)?;
        self.inline.get_mut(self.len).map(mem::take)
    }

    /// Removes all items; keeps what was allocated.
    pub fn clear(&mut self) {
        let len = mem::take(&mut self.len);
        self.inline
            .iter_mut()
            .take(len)
            .for_each(|place| *place = T::default());
        self.spilled.clear();
    }
}

impl<T: Default, const N: usize> Default for InlineVec<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for InlineVec<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        if self.spilled.is_empty() {
            self.inline.get(..self.len).unwrap_or(&[])
        } else {
            &self.spilled
        }
    }
}

impl<T, const N: usize> DerefMut for InlineVec<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.spilled.is_empty() {
            self.inline.get_mut(..self.len).unwrap_or(&mut [])
        } else {
            &mut self.spilled
        }
    }
}

impl<T: Default, const N: usize> Extend<T> for InlineVec<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Default, const N: usize> FromIterator<T> for InlineVec<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut collected = Self::new();
        collected.extend(items);
        collected
    }
}

impl<T: PartialEq, const N: usize> PartialEq for InlineVec<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for InlineVec<T, N> {}

impl<'a, T, const N: usize> IntoIterator for &'a InlineVec<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Names one stay of an item in a [`Slab`]; a key whose item has gone never finds the next one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabKey {
    /// Is the place in the table.
    pub index: u32,
    /// Counts how many items had this place before.
    pub generation: u32,
}

/// Keeps items in a dense table with reused places and checked keys.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    /// Lists free places; the one freed last is taken first, so that hot places stay in the cache.
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct SlabEntry<T> {
    generation: u32,
    item: Option<T>,
}

impl<T> Slab<T> {
    /// Makes an empty slab without allocating.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds an item and returns its key; none when 2^32 places are in use.
    pub fn try_insert(&mut self, item: T) -> Option<SlabKey> {
        if let Some(index) = self.free.pop() {
            let entry = self.entries.get_mut(usize::try_from(index).ok()?)?;
            entry.item = Some(item);
            return Some(SlabKey {
                index,
                generation: entry.generation,
            });
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        self.entries.push(SlabEntry {
            generation: 0,
            item: Some(item),
        });
        Some(SlabKey {
            index,
            generation: 0,
        })
    }

    /// Removes an item; none when the key is out of date.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        let entry = self.entry_mut(key)?;
        let item = entry.item.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(item)
    }

    /// Finds an item; none when the key is out of date.
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        let entry = self.entries.get(usize::try_from(key.index).ok()?)?;
        if entry.generation == key.generation {
            entry.item.as_ref()
        } else {
            None
        }
    }

    /// Finds an item to change it; none when the key is out of date.
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        self.entry_mut(key)?.item.as_mut()
    }

    /// Tells whether the key still names an item.
    pub fn contains(&self, key: SlabKey) -> bool {
        self.get(key).is_some()
    }

    /// Returns the current key of a place, if an item is there.
    pub fn key_at(&self, index: u32) -> Option<SlabKey> {
        let entry = self.entries.get(usize::try_from(index).ok()?)?;
        entry.item.as_ref().map(|_| SlabKey {
            index,
            generation: entry.generation,
        })
    }

    /// Counts the items.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Tells whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Goes through the items in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        (0..).zip(&self.entries).filter_map(|(index, entry)| {
            entry.item.as_ref().map(|item| {
                (
                    SlabKey {
                        index,
                        generation: entry.generation,
                    },
                    item,
                )
            })
        })
    }

    /// Goes through the items in the order of their places, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SlabKey, &mut T)> {
        (0..).zip(&mut self.entries).filter_map(|(index, entry)| {
            let key = SlabKey {
                index,
                generation: entry.generation,
            };
            entry.item.as_mut().map(|item| (key, item))
        })
    }

    fn entry_mut(&mut self, key: SlabKey) -> Option<&mut SlabEntry<T>> {
        let entry = self.entries.get_mut(usize::try_from(key.index).ok()?)?;
        (entry.generation == key.generation).then_some(entry)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes the same input to the same number in every run (FNV-1a).
///
/// For maps inside the core, which must not depend on per-process randomness. Keys come from the application or from
/// the schema; a map keyed by what a peer may choose freely should be an ordered one.
#[derive(Clone, Copy, Debug)]
pub struct StableHasher(u64);

/// Builds [`StableHasher`]s.
pub type StableState = BuildHasherDefault<StableHasher>;

impl Default for StableHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        // The low bits of FNV are the weakest, and hash tables use them first.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_vector_keeps_its_items_when_it_spills() {
        let mut items: InlineVec<u32, 3> = InlineVec::new();
        for item in 0..10 {
            items.push(item);
            assert_eq!(*items, (0..=item).collect::<Vec<_>>());
        }
        for item in (0..10).rev() {
            assert_eq!(items.pop(), Some(item));
        }
        assert_eq!(items.pop(), None);
        items.push(7);
        assert_eq!(*items, [7]);
    }

    #[test]
    fn a_cleared_inline_vector_drops_what_it_held() {
        let shared = std::sync::Arc::new(());
        let mut items: InlineVec<Option<std::sync::Arc<()>>, 2> = InlineVec::new();
        items.extend([
            Some(shared.clone()),
            Some(shared.clone()),
            Some(shared.clone()),
        ]);
        assert_eq!(std::sync::Arc::strong_count(&shared), 4);
        items.clear();
        assert!(items.is_empty());
        assert_eq!(std::sync::Arc::strong_count(&shared), 1);
    }

    #[test]
    fn an_outdated_slab_key_never_finds_the_next_item() {
        let mut slab = Slab::new();
        let first = slab.try_insert("first").unwrap();
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.try_insert("second").unwrap();
        assert_eq!(second.index, first.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.key_at(second.index), Some(second));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_slab_lists_its_items_in_the_order_of_their_places() {
        let mut slab = Slab::new();
        let keys: Vec<_> = (0..5).map(|item| slab.try_insert(item).unwrap()).collect();
        slab.remove(keys[1]);
        slab.remove(keys[3]);
        assert_eq!(
            slab.iter().map(|(_, item)| *item).collect::<Vec<_>>(),
            [0, 2, 4]
        );
        slab.iter_mut().for_each(|(_, item)| *item *= 10);
        assert_eq!(slab.try_insert(99).unwrap().index, 3);
        assert_eq!(
            slab.iter().map(|(_, item)| *item).collect::<Vec<_>>(),
            [0, 20, 99, 40]
        );
    }

    #[test]
    fn the_stable_hasher_gives_the_published_value() {
        use std::hash::Hasher as _;
        let mut hasher = StableHasher::default();
        hasher.write(b"a");
        let fnv = 0xaf63_dc4c_8601_ec8c_u64;
        assert_eq!(hasher.finish(), fnv ^ (fnv >> 32));
    }
}
