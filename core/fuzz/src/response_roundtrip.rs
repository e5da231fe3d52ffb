//! Owns the target `response_roundtrip`: what can be read can be written, and reads as the same again.

use bytes::Bytes;
use messina_core::wire::{FrameHeader, Response, ResponseFrame, ServerEvent};

use crate::input::AS_IS;
use crate::response_body::response_frame;

/// Reads a response, writes it and reads it again: the first byte chooses the features, then comes a frame.
pub fn response_roundtrip(data: &[u8]) {
    let mut data = data.to_vec();
    if let Some(bits) = data.first_mut() {
        // An ERROR of another version than was agreed on would be written in the agreed one.
        *bits &= !AS_IS;
    }
    let Some((frame, features)) = response_frame(&data) else {
        return;
    };
    let Ok(envelope) = frame.parse(&features) else {
        return;
    };
    if let Response::Event(ServerEvent::Unknown { .. }) = envelope.response {
        return; // Only its kind is kept.
    }
    let mut bytes = Vec::new();
    if envelope.encode(&mut bytes, &features, 1).is_err() {
        // Texts grow when what is not UTF-8 is replaced, class names by their package.
        assert!(
            usize::from(u16::MAX) / 40 < data.len(),
            "a small response cannot be written: {envelope:?}"
        );
        return;
    }
    let (head, body) = bytes
        .split_first_chunk::<{ FrameHeader::LEN }>()
        .expect("a header was written");
    let frame = ResponseFrame {
        header: FrameHeader::parse(head).expect("the header is valid"),
        body: Bytes::copy_from_slice(body),
    };
    let again = frame.parse(&features);
    assert_eq!(
        again.as_ref(),
        Ok(&envelope),
        "a response changed on its way"
    );
}
