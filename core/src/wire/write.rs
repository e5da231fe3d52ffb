//! Where frames are written to.

use bytes::{Bytes, BytesMut};

/// Takes the bytes of a frame.
pub trait FrameSink {
    /// Makes room for `n` more bytes; called once per frame, before the first byte.
    fn reserve(&mut self, n: usize);

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends bytes that the sink may keep instead of copying them.
    fn chain(&mut self, bytes: &Bytes);
}

impl FrameSink for Vec<u8> {
    #[inline]
    fn reserve(&mut self, n: usize) {
        Self::reserve(self, n);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn chain(&mut self, bytes: &Bytes) {
        self.extend_from_slice(bytes);
    }
}

impl FrameSink for BytesMut {
    #[inline]
    fn reserve(&mut self, n: usize) {
        Self::reserve(self, n);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn chain(&mut self, bytes: &Bytes) {
        self.extend_from_slice(bytes);
    }
}
