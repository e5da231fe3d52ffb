//! Lets a test decide what becomes of single requests: answered, refused, delayed, never answered.

use std::fmt;
use std::time::Duration;

use super::CqlError;
use crate::cluster::ConnectionId;
use messina_core::wire::Consistency;
use messina_core::wire::server_error::ServerError;

/// A request as an interceptor sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SeenRequest<'a> {
    /// The connection that it came over.
    pub connection: ConnectionId,
    /// The number of the node that got it.
    pub node: usize,
    /// The shard whose connection it came over.
    pub shard: u16,
    /// Which request it is.
    pub kind: RequestKind,
    /// The statement; of a batch, the first one. Absent when the prepared statement is not known.
    pub text: Option<&'a str>,
    /// The consistency that it asks for; absent where a request has none.
    pub consistency: Option<Consistency>,
}

/// The requests that can be intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// OPTIONS.
    Options,
    /// STARTUP.
    Startup,
    /// AUTH_RESPONSE.
    AuthResponse,
    /// REGISTER.
    Register,
    /// QUERY.
    Query,
    /// PREPARE.
    Prepare,
    /// EXECUTE.
    Execute,
    /// BATCH.
    Batch,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reaction {
    /// It is answered as usual.
    Answer,
    /// It is answered as usual, but late.
    Delay(Duration),
    /// It is done, but nobody is told.
    Forget,
    /// It is not done, and nobody is told.
    Ignore,
    /// It is refused with this error.
    Refuse(CqlError),
    /// It is refused with an error of the protocol that statements do not cause by themselves.
    Fail(ServerError),
    /// It is done, and answered with this error all the same, as a coordinator does that did not hear of it in time.
    Deny(ServerError),
    /// The connection ends.
    Disconnect,
}

/// Decides about each request.
pub struct Interceptor(pub(crate) Box<dyn FnMut(&SeenRequest<'_>) -> Reaction + Send>);

impl Interceptor {
    /// Wraps a function that is asked about each request before it is carried out.
    pub fn new(decide: impl FnMut(&SeenRequest<'_>) -> Reaction + Send + 'static) -> Self {
        Self(Box::new(decide))
    }
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interceptor")
    }
}
