//! Owns what a connection gives out, and the names under which requests are known.

use std::sync::Arc;

use thiserror::Error;

use crate::conn::ConnectionInfo;
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::protocol::FrameEncodeError;
use crate::notify::Note;
use crate::wire::{ResponseFrame, ServerEvent};

/// Is what a connection tells its owner.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionOutput {
    /// All steps of the plan are over: requests are taken from now on.
    Ready(ConnectionInfo),
    /// Answers, fails or expires one request.
    Reply {
        /// Is the request's ticket.
        ticket: Ticket,
        /// Is the server's answer, or why there is none.
        reply: Result<ResponseFrame, AttemptError>,
    },
    /// Passes on what the server tells without being asked.
    Event(ServerEvent),
    /// Tells an operator something worth knowing.
    Note(Note),
    /// The first message is under way and holds this DRIVER_CONFIG document; comes on control connections only.
    Reported(Arc<str>),
    /// No more requests are taken; `Closed` follows after those in flight.
    Draining(ConnectionError),
    /// The connection is over; the last output.
    Closed(ConnectionError),
}

/// Is the owner's name for a request; comes back with the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Is the connection's name for a request, on the wire or in line; out of date once the request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl StreamKey {
    /// Names a request that is over before it began.
    pub(crate) const fn over(count: u32) -> Self {
        Self {
            index: OVER,
            generation: count,
        }
    }
}

/// Is above every stream and every place in line.
const OVER: u32 = u32::MAX >> 1;

/// Says why a request was not taken; no reply follows.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The connection is not usable yet.
    #[error("the connection is not ready")]
    NotOpen,
    /// The connection takes no more requests.
    #[error("the connection is closed")]
    Closed(#[source] ConnectionError),
    /// Too many requests wait in line, and a limit says not to wait.
    #[error("too many requests wait for this connection")]
    Overloaded,
    /// The request does not fit the protocol.
    #[error("the request cannot be encoded")]
    Encode(#[source] FrameEncodeError),
}

impl From<SubmitError> for AttemptError {
    /// Says what a request that was not taken means to the attempt that it was.
    fn from(error: SubmitError) -> Self {
        let kind = match error {
            SubmitError::Closed(error) => AttemptErrorKind::Connection(error),
            SubmitError::Encode(error) => AttemptErrorKind::Encode(error),
            // Whoever comes too early, or too many, may be better off elsewhere.
            SubmitError::NotOpen | SubmitError::Overloaded => AttemptErrorKind::Overloaded,
        };
        Self::new(kind, Fate::NotSent)
    }
}

/// Holds an output until it is taken; replies are small, everything else is rare and boxed.
#[derive(Debug)]
pub(crate) enum Queued {
    Answered {
        ticket: Ticket,
        key: StreamKey,
        frame: ResponseFrame,
    },
    Failed {
        ticket: Ticket,
        key: StreamKey,
        error: AttemptError,
    },
    Rare(Box<ConnectionOutput>),
}

impl Queued {
    /// Tells whether this is the reply of the request with this key.
    pub(crate) fn is_reply_to(&self, wanted: StreamKey) -> bool {
        match self {
            Self::Answered { key, .. } | Self::Failed { key, .. } => *key == wanted,
            Self::Rare(_) => false,
        }
    }
}

impl From<Queued> for ConnectionOutput {
    #[inline]
    fn from(queued: Queued) -> Self {
        match queued {
            Queued::Answered { ticket, frame, .. } => Self::Reply {
                ticket,
                reply: Ok(frame),
            },
            Queued::Failed { ticket, error, .. } => Self::Reply {
                ticket,
                reply: Err(error),
            },
            Queued::Rare(output) => *output,
        }
    }
}
