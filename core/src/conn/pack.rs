//! Owns the compression of frames of protocol version 4 that were just encoded.
//! Leaves out what arrives, and version 5, which compresses whole segments.

use crate::conn::send::SendBuffer;
use crate::wire::compress::try_pack_frame;
use crate::wire::{Compression, FrameHeader, FrameSink};

/// Compresses the bodies of one connection's requests, with memory that is used again.
#[derive(Debug)]
pub(crate) struct Packer {
    compression: Compression,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

/// 128 bytes: a shorter body has little in it that occurs twice, and fits one packet with its neighbours anyway.
const BODY_MIN: usize = 128;
/// Gives memory above this back: one large request should not cost it for ever.
const KEEP_MAX: usize = 64 * 1024;

impl Packer {
    pub(crate) const fn new(compression: Compression) -> Self {
        Self {
            compression,
            plain: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Puts the compressed form of the frame that was encoded last and starts here in its place, if it is smaller.
    #[cold]
    pub(crate) fn pack(&mut self, send: &mut SendBuffer, start: u64) {
        self.plain.clear();
        self.packed.clear();
        let plain = match send.last(start) {
            Some(frame) => frame,
            None => {
                send.copy_last(start, &mut self.plain);
                &self.plain
            }
        };
        if BODY_MIN + FrameHeader::LEN <= plain.len()
            && try_pack_frame(plain, self.compression, &mut self.packed)
        {
            send.truncate(start);
            send.put(&self.packed);
        }
        for buffer in [&mut self.plain, &mut self.packed] {
            if KEEP_MAX < buffer.capacity() {
                *buffer = Vec::new();
            }
        }
    }
}
