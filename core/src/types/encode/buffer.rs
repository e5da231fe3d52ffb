//! The bytes of encoded values: inside the set of values first, on the heap when they are many.

/// Bytes that stay inside until they are too many.
#[derive(Clone, Debug)]
pub(super) struct ValueBuffer {
    inline: [u8; INLINE],
    /// How much of `inline` is used; not used once the bytes are on the heap.
    len: usize,
    heap: Vec<u8>,
    on_heap: bool,
}

impl ValueBuffer {
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
            len: 0,
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
        if self.on_heap {
            self.heap.len()
        } else {
            self.len
        }
    }

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

    #[inline]
    pub(super) fn push_two(&mut self, first: &[u8], second: &[u8]) {
        let end = self
            .len
            .saturating_add(first.len())
            .saturating_add(second.len());
        match self.inline.get_mut(self.len..end) {
            Some(room) if !self.on_heap => {
                let (a, b) = room.split_at_mut(first.len());
                a.copy_from_slice(first);
                b.copy_from_slice(second);
                self.len = end;
            }
            _ => self.push_heap(first, second),
        }
    }

    #[inline(never)]
    fn push_heap(&mut self, first: &[u8], second: &[u8]) {
        if !self.on_heap {
            let used = self.inline.get(..self.len).unwrap_or_default();
            self.heap.clear();
            self.heap
                .reserve((used.len() + first.len() + second.len()).max(HEAP_MIN));
            self.heap.extend_from_slice(used);
            self.on_heap = true;
        }
        self.heap.extend_from_slice(first);
        self.heap.extend_from_slice(second);
    }

    pub(super) fn patch(&mut self, at: usize, bytes: [u8; 4]) {
        let all = if self.on_heap {
            self.heap.as_mut_slice()
        } else {
            self.inline.as_mut_slice()
        };
        if let Some(place) = all.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = bytes;
        }
    }

    pub(super) fn insert(&mut self, at: usize, bytes: &[u8]) {
        let end = self.len();
        self.push(bytes);
        let all = if self.on_heap {
            self.heap.as_mut_slice()
        } else {
            self.inline.as_mut_slice()
        };
        if let Some(moved) = all.get_mut(at..end + bytes.len()) {
            moved.rotate_right(bytes.len());
        }
    }

    /// Cuts to a length that was reached before; from the heap nothing comes back inside unless all of it goes.
    pub(super) fn truncate(&mut self, len: usize) {
        if self.on_heap {
            self.heap.truncate(len);
            if len == 0 {
                self.on_heap = false;
                self.len = 0;
            }
        } else {
            self.len = self.len.min(len);
        }
    }
}

/// The bytes that a set of values keeps without the heap: an ordinary row of a few numbers, ids and short strings.
const INLINE: usize = 256;

/// The first size on the heap, so that a row that outgrows the inline bytes does not grow step by step.
const HEAP_MIN: usize = 1024;
