//! Owns the segments of one connection of protocol version 5: which frames go into which segment, in both directions.
//! Leaves out their format, and from when on they are in force.

use bytes::Bytes;

use crate::conn::recv::RecvBuffer;
use crate::conn::send::SendBuffer;
use crate::error::protocol::ProtocolError;
use crate::wire::segment::{EnvelopeJoiner, PAYLOAD_MAX, SegmentCodec};
use crate::wire::{Compression, RawHeader};

/// Puts frames into segments, and takes them out.
#[derive(Debug)]
pub(crate) struct Segments {
    codec: SegmentCodec,
    joiner: EnvelopeJoiner,
    /// Counts the bytes of a large frame that were not put into segments yet.
    large_left: usize,
}

impl Segments {
    /// Begins with the first segment; none where a connection cannot speak this way.
    pub(crate) fn new(compression: Option<Compression>) -> Option<Self> {
        Some(Self {
            codec: SegmentCodec::new(compression)?,
            joiner: EnvelopeJoiner::new(),
            large_left: 0,
        })
    }

    /// Takes the next segment in, if it is whole; to be called when no frame is left of the one before.
    pub(crate) fn read(&mut self, recv: &mut RecvBuffer) -> Result<bool, ProtocolError> {
        let Some(header) = self.codec.read_header(recv.rest())? else {
            return Ok(false);
        };
        let Some(segment) = recv.take(self.codec.segment_len(&header)) else {
            return Ok(false);
        };
        let payload = self.codec.open(&header, &segment)?;
        self.joiner.push(payload, header.self_contained)?;
        Ok(true)
    }

    /// Takes out the next frame that is whole.
    pub(crate) fn take(
        &mut self,
        body_max: u32,
    ) -> Result<Option<(RawHeader, Bytes)>, ProtocolError> {
        self.joiner.take(body_max)
    }

    /// Puts the next frames into segments until `out` has grown by `max` bytes or a little more.
    pub(crate) fn seal(&mut self, send: &mut SendBuffer, max: usize, out: &mut Vec<u8>) {
        let stop = out.len().saturating_add(max);
        while out.len() < stop {
            if self.large_left == 0 {
                let Some(first) = send.frame_len() else {
                    return;
                };
                if first <= PAYLOAD_MAX {
                    self.seal_whole(send, first, out);
                    continue;
                }
                self.large_left = first;
            }
            let start = self.codec.begin(out);
            let piece = send.pull(self.large_left.min(PAYLOAD_MAX), out);
            self.codec.finish(start, false, out);
            self.large_left -= piece;
            if piece == 0 {
                // A frame is queued whole, so this is the end of a connection that lost what it had to send.
                self.large_left = 0;
                return;
            }
        }
    }

    /// Puts as many frames as fit into one segment; the first one does.
    fn seal_whole(&mut self, send: &mut SendBuffer, first: usize, out: &mut Vec<u8>) {
        let start = self.codec.begin(out);
        let mut len = first;
        let mut room = PAYLOAD_MAX;
        while len <= room {
            send.pull(len, out);
            room -= len;
            match send.frame_len() {
                Some(next) => len = next,
                None => break,
            }
        }
        self.codec.finish(start, true, out);
    }
}
