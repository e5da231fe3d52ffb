//! Where frames are written to.

use bytes::{Bytes, BytesMut};

/// 1 KiB: from here on, copying a payload costs more than handing it over.
pub const CHAIN_MIN: usize = 1024;
/// 256 KiB: more memory of frames than this is given back once none is left, for one burst should not cost it for ever.
pub const FRAMES_KEEP_MAX: usize = 256 * 1024;

/// Takes the bytes of a frame.
pub trait FrameSink {
    /// Makes room for `n` more bytes; called once per frame, before the first byte.
    fn reserve(&mut self, n: usize);

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends bytes that the sink may keep instead of copying them, as is worth it from [`CHAIN_MIN`] on.
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
