//! Owns how an input is read: small numbers and stretches of bytes from the front, zeros behind the end.
//! Leaves out what they mean, but for the byte that chooses protocol features.

use messina_core::wire::{ProtocolFeatures, ProtocolVersion};

/// Reads choices from the front of an input.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the front.
    pub const fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Says whether everything was read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a byte; zero behind the end.
    pub fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    /// Takes two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Takes four bytes.
    pub fn int(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Takes a byte as an index below `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// Takes one of several things.
    pub fn choose<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// Takes a stretch of bytes, or what is left of it.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes a stretch whose length is the first byte.
    pub fn stretch(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.take(len)
    }

    /// Takes a short text.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.stretch()).into_owned()
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// The protocol features that a byte chooses.
pub fn features(bits: u8) -> ProtocolFeatures {
    let has = |bit: u8| bits & bit != 0;
    ProtocolFeatures {
        version: if has(V5) {
            ProtocolVersion::V5
        } else {
            ProtocolVersion::V4
        },
        lwt_mark_mask: has(LWT).then_some(0x8000_0000),
        rate_limit_error: has(RATE_LIMIT).then_some(0xf000),
        metadata_id: has(METADATA_ID) || has(V5),
        tablets_v1: false,
        tablets_v2: has(TABLETS),
        compression: None,
    }
}

/// Protocol version 5.
pub(crate) const V5: u8 = 0x01;
/// Marks on conditional statements.
pub(crate) const LWT: u8 = 0x02;
/// The error of partitions that are used too often.
pub(crate) const RATE_LIMIT: u8 = 0x04;
/// Ids of metadata.
pub(crate) const METADATA_ID: u8 = 0x08;
/// The byte of the tablet's version.
pub(crate) const TABLETS: u8 = 0x10;
/// All of the above that version 4 can have.
pub(crate) const EXTENDED: u8 = LWT | RATE_LIMIT | METADATA_ID | TABLETS;
/// Leaves version and length of a header as they are, instead of making them fit.
pub(crate) const AS_IS: u8 = 0x80;
