//! Frames: requests written, answers parsed.

use std::hint::black_box;

use bytes::Bytes;
use messina_core::wire::{FrameHeader, ProtocolFeatures, RequestOptionsRef, ResponseFrame};

use super::connection::execute;
use super::values::Insert;
use crate::BenchError;
use crate::peer::select1_frame;

/// What is written into and read from.
#[derive(Debug)]
pub struct Frames {
    features: ProtocolFeatures,
    insert: Insert,
    out: Vec<u8>,
    answer: ResponseFrame,
}

impl Frames {
    /// Makes the answer of a select of one row.
    ///
    /// # Errors
    ///
    /// The canned answer is none.
    pub fn new() -> Result<Self, BenchError> {
        let frame = select1_frame();
        let (head, body) = frame.split_at(FrameHeader::LEN);
        let answer = ResponseFrame {
            header: FrameHeader::parse(head.try_into()?)?,
            body: Bytes::copy_from_slice(body),
        };
        Ok(Self {
            features: ProtocolFeatures::default(),
            insert: Insert::new(),
            out: Vec::with_capacity(1024),
            answer,
        })
    }

    /// Writes an EXECUTE of three values.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn write(&mut self) -> Result<(), BenchError> {
        self.out.clear();
        let (values, _) = self.insert.bind(7)?;
        let options = RequestOptionsRef::default();
        execute(values).encode(&mut self.out, &self.features, 7, &options)?;
        black_box(&self.out);
        Ok(())
    }

    /// Parses an answer of one row, its columns included.
    ///
    /// # Errors
    ///
    /// It cannot be parsed.
    pub fn parse(&self) -> Result<(), BenchError> {
        black_box(self.answer.parse(&self.features)?);
        Ok(())
    }
}
