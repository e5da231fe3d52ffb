//! A response frame and what is in it: tracing id, warnings, custom payload, message.

use bytes::Bytes;
use uuid::Uuid;

use crate::error::protocol::ProtocolError;
use crate::wire::event::ServerEvent;
use crate::wire::header::{FrameHeader, Opcode};
use crate::wire::result::ResultBody;
use crate::wire::server_error::ServerError;
use crate::wire::supported::{ProtocolFeatures, Supported};

/// A response as it came: the header is read, the body is not. Cheap to move and to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFrame {
    /// The header; `length` is that of the body as it stands here.
    pub header: FrameHeader,
    /// The body, not compressed any more.
    pub body: Bytes,
}

/// A response with everything around its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The id of the trace, when one was asked for.
    pub tracing_id: Option<Uuid>,
    /// The server's warnings.
    pub warnings: Vec<String>,
    /// Further data by name, in the order of the wire.
    pub custom_payload: Vec<(String, Option<Bytes>)>,
    /// The message.
    pub response: Response,
}

/// A server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// The server cannot do it.
    Error(ServerError),
    /// The connection may be used, or the registration is made.
    Ready,
    /// The server wants a login with this authenticator.
    Authenticate(String),
    /// What the server offers.
    Supported(Supported),
    /// The answer to a statement.
    Result(ResultBody),
    /// Something happened in the cluster.
    Event(ServerEvent),
    /// The next step of a login.
    AuthChallenge(Option<Bytes>),
    /// The login is done.
    AuthSuccess(Option<Bytes>),
}

impl ResponseFrame {
    /// The kind of message.
    pub fn opcode(&self) -> Opcode {
        self.header.opcode
    }

    /// Reads the whole response. Rows stay bytes.
    pub fn parse(&self, _features: &ProtocolFeatures) -> Result<Envelope, ProtocolError> {
        todo!()
    }
}
