//! The server's side: reads requests and writes responses. What to answer is the peer's own business.

use bytes::Bytes;

use crate::error::protocol::{FrameEncodeError, ProtocolError};
use crate::wire::header::FrameHeader;
use crate::wire::request::{Request, RequestOptions};
use crate::wire::response::Envelope;
use crate::wire::supported::ProtocolFeatures;

impl Request {
    /// Reads a request.
    pub fn decode(
        _header: &FrameHeader,
        _body: &Bytes,
        _features: &ProtocolFeatures,
    ) -> Result<(RequestOptions, Self), ProtocolError> {
        todo!()
    }
}

impl Envelope {
    /// Appends header and body. Nothing is appended when there is an error.
    pub fn encode(
        &self,
        _out: &mut Vec<u8>,
        _features: &ProtocolFeatures,
        _stream: i16,
    ) -> Result<(), FrameEncodeError> {
        todo!()
    }
}
