//! Owns the target `request_roundtrip`: a request that a peer can read can be written, and reads as the same again.

use bytes::Bytes;
use messina_core::wire::{
    Direction, FrameHeader, ProtocolFeatures, Request, RequestOptions, ResponseFrame,
};

use crate::kinds::{Kind, of_request};
use crate::response_body::frame;

/// Reads a request, writes it and reads it again: the first byte chooses the features, then comes a frame.
pub fn request_roundtrip(data: &[u8]) {
    let _ = read_request(data);
}

/// Does the same and says as what the request was read, unless it is refused.
pub fn read_request(data: &[u8]) -> Option<Kind> {
    let (header, body, features) = frame(data, Direction::Request)?;
    let (options, request) = Request::decode(&header, &body, &features).ok()?;
    // A request is none of the things that a server says.
    let as_response = ResponseFrame { header, body };
    assert!(as_response.parse(&features).is_err());
    let first = encode(&request, &options, &features);
    let (options_again, again) = decode(&first, &features);
    let second = encode(&again, &options_again, &features);
    assert_eq!(
        first, second,
        "a request changed on its second way: {request:?}"
    );
    assert_eq!(
        normal(again),
        normal(request.clone()),
        "a request changed on its way"
    );
    Some(of_request(&request))
}

fn encode(request: &Request, options: &RequestOptions, features: &ProtocolFeatures) -> Vec<u8> {
    let mut bytes = Vec::new();
    request
        .with_ref(|request| {
            let length = request.body_len(features, &options.as_ref());
            let written = request.encode(&mut bytes, features, 1, &options.as_ref());
            assert_eq!(length.map(|_| ()), written);
            written.map(|()| length)
        })
        .expect("what was read can be written")
        .inspect(|length| assert_eq!(*length + FrameHeader::LEN, bytes.len()))
        .expect("the length is known");
    bytes
}

fn decode(bytes: &[u8], features: &ProtocolFeatures) -> (RequestOptions, Request) {
    let (head, body) = bytes
        .split_first_chunk::<{ FrameHeader::LEN }>()
        .expect("a header was written");
    let header = FrameHeader::parse(head).expect("the header is valid");
    Request::decode(&header, &Bytes::copy_from_slice(body), features)
        .expect("what was written can be read")
}

/// Leaves out differences without a meaning: a page size that asks for nothing, and no values with names.
fn normal(mut request: Request) -> Request {
    if let Request::Query { params, .. } | Request::Execute { params, .. } = &mut request {
        params.page_size = params.page_size.filter(|size| 0 < *size);
        params.values.names = params.values.names.take().filter(|names| !names.is_empty());
    }
    request
}
