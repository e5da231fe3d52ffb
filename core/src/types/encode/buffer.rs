//! The bytes of encoded values: inside the set of values first, on the heap when they are many.

/// Bytes that stay inside until they are too many.
#[derive(Clone, Debug)]
pub(super) struct ValueBuffer {
    inline: [u8; INLINE],
    /// How many bytes there are, wherever they are.
    len: usize,
    heap: Vec<u8>,
    on_heap: bool,
}

impl ValueBuffer {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            inline: [0; INLINE],
            len: 0,
            heap: Vec::new(),
            on_heap: false,
        }
    }

    /// Continues behind the bytes of a vector.
    pub(super) fn append_to(heap: Vec<u8>) -> Self {
        Self {
            inline: [0; INLINE],
            len: heap.len(),
            heap,
            on_heap: true,
        }
    }

    /// Gives the vector back that [`Self::append_to`] took.
    pub(super) fn into_heap(self) -> Vec<u8> {
        self.heap
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        if self.on_heap {
            &self.heap
        } else {
            self.inline.get(..self.len).unwrap_or_default()
        }
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.push_two(&[], bytes);
    }

    /// Appends a length and what it counts; with lengths known at compile time this is a few stores.
    #[inline(always)]
    pub(super) fn push_two(&mut self, first: &[u8], second: &[u8]) {
        if !self.on_heap
            && let Some(room) = self.inline.get_mut(self.len..)
            && let Some((one, rest)) = room.split_at_mut_checked(first.len())
            && let Some(two) = rest.get_mut(..second.len())
        {
            one.copy_from_slice(first);
            copy(second, two);
            // Both fit, so the sum is no more than there is room.
            self.len = self
                .len
                .wrapping_add(first.len())
                .wrapping_add(second.len());
            return;
        }
        self.push_heap(first, second);
    }

    #[inline(never)]
    fn push_heap(&mut self, first: &[u8], second: &[u8]) {
        if !self.on_heap {
            let used = self.inline.get(..self.len).unwrap_or_default();
            let needed = used.len() + first.len() + second.len();
            self.heap.clear();
            self.heap.reserve(needed.max(HEAP_MIN));
            self.heap.extend_from_slice(used);
            self.on_heap = true;
        }
        self.heap.extend_from_slice(first);
        self.heap.extend_from_slice(second);
        self.len = self.heap.len();
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.on_heap {
            &mut self.heap
        } else {
            self.inline.get_mut(..self.len).unwrap_or_default()
        }
    }

    /// Fills in a length that was left open.
    pub(super) fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        let place = self.bytes_mut().get_mut(at..);
        if let Some(place) = place.and_then(|rest| rest.first_chunk_mut()) {
            *place = bytes;
        }
    }

    /// Puts bytes in front of what was written from `at` on.
    pub(super) fn insert(&mut self, at: usize, bytes: &[u8]) {
        self.push(bytes);
        if let Some(moved) = self.bytes_mut().get_mut(at..) {
            moved.rotate_right(bytes.len());
        }
    }

    /// Cuts to a length that was reached before; from the heap nothing comes back inside unless all of it goes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        if self.on_heap {
            self.heap.truncate(len);
            self.on_heap = len != 0;
        }
    }
}

/// Copies bytes of the same length; the most frequent lengths without a call.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() <= 16
        && let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>())
        && let Some(place) = to.first_chunk_mut()
    {
        *place = *first;
        if let Some(place) = to.last_chunk_mut() {
            *place = *last;
        }
        return;
    }
    to.copy_from_slice(from);
}

/// The bytes that a set of values keeps without the heap: an ordinary row of a few numbers, ids and short strings.
const INLINE: usize = 256;

/// The first size on the heap, so that a row that outgrows the inline bytes does not grow step by step.
const HEAP_MIN: usize = 1024;
