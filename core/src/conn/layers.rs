//! Owns what lies between frames and the socket where frames do not travel as they are: segments of protocol version
//! 5, records of TLS, and what of both waits to be written.
//! Leaves out what the frames mean.

use std::collections::VecDeque;

#[cfg(not(feature = "v5"))]
use crate::conn::absent::Segments;
#[cfg(not(feature = "rustls-023"))]
use crate::conn::absent::{TlsError, TlsLayer};
#[cfg(feature = "v5")]
use crate::conn::segments::Segments;
use crate::conn::send::SendBuffer;
#[cfg(feature = "rustls-023")]
use crate::conn::tls::{TlsError, TlsLayer};

/// Wraps frames: first into segments, then into records, each where it is in use.
///
/// Frames are wrapped in batches, and only when all of the batch before was written: what is not wrapped can still be
/// withdrawn, and many small frames become few segments and few records.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) tls: Option<TlsLayer>,
    pub(crate) segments: Option<Segments>,
    pub(crate) outbox: Outbox,
    /// Holds what goes into records next.
    stage: Vec<u8>,
    /// Is why nothing can be wrapped any more, until somebody asks.
    broken: Option<TlsError>,
    /// Says that nothing more can be written.
    mute: bool,
}

/// Says how a step of reading records ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "rustls-023"),
    expect(dead_code, reason = "nobody reads records")
)]
pub(crate) enum Progress {
    /// More bytes are needed.
    Waiting,
    /// The handshake is over.
    Opened,
    /// There is plaintext.
    Plain,
    /// The peer said that nothing more will come.
    PeerClosed,
}

/// Holds wrapped bytes until they are written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    /// Counts how many of `bytes` were written.
    head: usize,
    /// Is the position of the first of `bytes` among all that was ever wrapped.
    base: u64,
    batches: VecDeque<Batch>,
}

/// Describes frames that were wrapped together.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// Is where they begin among all frames, as the send buffer counts.
    from: u64,
    /// Is whether a chained payload comes first, which has no position of its own.
    chained: bool,
    /// Are their bounds in the outbox.
    start: u64,
    end: u64,
}

/// 64 KiB: what one write of a socket usually takes.
const BATCH_MAX: usize = 64 * 1024;
/// Gives memory above this back: one large request should not cost it for ever.
const KEEP_MAX: usize = 256 * 1024;

impl Layers {
    /// Begins with encryption.
    #[cfg(feature = "rustls-023")]
    pub(crate) fn encrypted(tls: TlsLayer, outbox: Outbox) -> Self {
        Self {
            tls: Some(tls),
            outbox,
            ..Self::default()
        }
    }

    /// Says whether there is something to write, wrapped or to be wrapped.
    pub(crate) fn has_output(&self, send: &mut SendBuffer) -> bool {
        !self.outbox.rest().is_empty() || self.may_seal(send)
    }

    fn may_seal(&self, send: &mut SendBuffer) -> bool {
        let is_open = self.tls.as_ref().is_none_or(TlsLayer::is_open);
        self.outbox.batches.is_empty() && is_open && !self.mute && !send.is_empty()
    }

    /// Wraps the next frames, if everything before was written.
    pub(crate) fn seal(&mut self, send: &mut SendBuffer) -> Result<(), ()> {
        if self.broken.is_some() {
            return Err(());
        }
        if self.may_seal(send) {
            self.seal_batch(send)
                .map_err(|error| self.broken = Some(error))?;
        }
        Ok(())
    }

    /// Puts everything from now on into segments.
    pub(crate) fn begin_segments(&mut self, segments: Segments, send: &mut SendBuffer) {
        // A server may answer before it read the whole question; what is left of that goes the old way.
        while !send.is_empty() && self.broken.is_none() {
            self.broken = self.seal_batch(send).err();
        }
        self.segments = Some(segments);
    }

    fn seal_batch(&mut self, send: &mut SendBuffer) -> Result<(), TlsError> {
        let (from, chained) = send.front();
        let Outbox {
            bytes,
            base,
            batches,
            ..
        } = &mut self.outbox;
        let start = *base + to_u64(bytes.len());
        self.stage.clear();
        let plain = match &self.tls {
            Some(_) => &mut self.stage,
            None => &mut *bytes,
        };
        match &mut self.segments {
            Some(segments) => segments.seal(send, BATCH_MAX, plain),
            None => {
                send.pull(BATCH_MAX, plain);
            }
        }
        if let Some(tls) = &mut self.tls {
            tls.seal(&self.stage, bytes)?;
            if KEEP_MAX < self.stage.capacity() {
                self.stage = Vec::new();
            }
        }
        batches.push_back(Batch {
            from,
            chained,
            start,
            end: *base + to_u64(bytes.len()),
        });
        Ok(())
    }

    /// Returns why nothing can be wrapped any more, once.
    pub(crate) fn take_broken(&mut self) -> Option<TlsError> {
        self.broken.take()
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Drops what was not written; nothing more will be.
    pub(crate) fn silence(&mut self) {
        self.mute = true;
        self.outbox = Outbox::default();
    }

    /// Keeps what may still be said after the end: an alert, a last record. Requests that failed must not follow.
    pub(crate) fn farewell(&mut self) -> bool {
        self.segments = None;
        self.stage = Vec::new();
        if self.mute || !self.outbox.batches.is_empty() {
            return false;
        }
        if let Some(tls) = &mut self.tls {
            tls.close_notify(&mut self.outbox.bytes);
        }
        self.tls = None;
        !self.outbox.rest().is_empty()
    }

    /// Gives back memory that holds nothing.
    pub(crate) fn shrink(&mut self) {
        self.stage = Vec::new();
        if self.outbox.rest().is_empty() {
            self.outbox.bytes.shrink_to_fit();
        }
        if let Some(tls) = &mut self.tls {
            tls.shrink();
        }
    }
}

impl Outbox {
    /// Returns what is to be written next.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    /// Takes note that this many bytes were written; returns how many were more than there was to write.
    pub(crate) fn sent(&mut self, len: usize) -> usize {
        let part = len.min(self.bytes.len() - self.head);
        self.head += part;
        let written = self.written();
        while self
            .batches
            .front()
            .is_some_and(|batch| batch.end <= written)
        {
            self.batches.pop_front();
        }
        if self.head == self.bytes.len() {
            self.base = written;
            self.head = 0;
            self.bytes.clear();
            if KEEP_MAX < self.bytes.capacity() {
                self.bytes = Vec::new();
            }
        }
        len - part
    }

    /// Tells whether no byte was written of the batch with the frame that starts here.
    pub(crate) fn is_untouched(&self, start: u64) -> bool {
        let batch = self.batches.iter().rfind(|batch| batch.from <= start);
        batch.is_some_and(|batch| self.written() <= batch.start)
    }

    /// Tells whether everything was written of the frame that ends here, which was wrapped.
    pub(crate) fn is_written(&self, end: u64) -> bool {
        !self
            .batches
            .iter()
            .any(|batch| batch.from < end || (batch.from == end && batch.chained))
    }

    fn written(&self) -> u64 {
        self.base + to_u64(self.head)
    }
}

fn to_u64(len: usize) -> u64 {
    // No platform has lengths above 64 bits.
    u64::try_from(len).unwrap_or(u64::MAX)
}
