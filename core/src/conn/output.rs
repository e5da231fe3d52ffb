//! Owns what a connection gives out, and the names under which requests are known.

use std::sync::Arc;

use thiserror::Error;

use crate::conn::{Connection, ConnectionInfo};
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::protocol::FrameEncodeError;
use crate::notify::Note;
use crate::wire::{ProtocolVersion, ResponseFrame, ServerEvent};

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

/// Answers, fails or expires one request, as [`Connection::poll_reply`](super::Connection::poll_reply) gives it out.
#[derive(Debug)]
pub enum Reply {
    /// A RESULT of kind Void with nothing around it: what most writes are answered with.
    Void,
    /// Any other answer.
    Frame(ResponseFrame),
    /// No answer.
    Failed(AttemptError),
}

impl Reply {
    /// Returns the frame of the answer, on a connection of this version; that of a bare Void is on no stream.
    ///
    /// # Errors
    /// There is no answer.
    pub fn into_frame(self, version: ProtocolVersion) -> Result<ResponseFrame, AttemptError> {
        match self {
            Self::Void => Ok(ResponseFrame::void(0, version)),
            Self::Frame(frame) => Ok(frame),
            Self::Failed(error) => Err(error),
        }
    }
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
    Void(Done),
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
            Self::Void(Done { key, .. })
            | Self::Answered { key, .. }
            | Self::Failed { key, .. } => *key == wanted,
            Self::Rare(_) => false,
        }
    }

    /// Makes the output, of a connection of this version.
    #[inline]
    fn into_output(self, version: ProtocolVersion) -> ConnectionOutput {
        let (ticket, reply) = match self {
            Self::Void(done) => return done.into_output(version),
            Self::Answered { ticket, frame, .. } => (ticket, Ok(frame)),
            Self::Failed { ticket, error, .. } => (ticket, Err(error)),
            Self::Rare(output) => return *output,
        };
        ConnectionOutput::Reply { ticket, reply }
    }
}

/// Holds the answer of a request that is a RESULT of kind Void with nothing around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) ticket: Ticket,
    pub(crate) key: StreamKey,
    pub(crate) stream: i16,
}

impl Done {
    /// Makes the output, of a connection of this version.
    const fn into_output(self, version: ProtocolVersion) -> ConnectionOutput {
        ConnectionOutput::Reply {
            ticket: self.ticket,
            reply: Ok(ResponseFrame::void(self.stream, version)),
        }
    }
}

impl Connection {
    /// Says whether [`poll_done`](Self::poll_done) would give out anything.
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Gives out the next replies that say no more than that something was done, at most `max`, as long as they are what
    /// comes next. Returns how many there were.
    #[inline]
    pub fn poll_done(&mut self, max: usize, mut each: impl FnMut(Ticket)) -> usize {
        let end = self.done_given.saturating_add(max).min(self.done.len());
        let done = self.done.get(self.done_given..end).unwrap_or_default();
        let count = done.len();
        done.iter().for_each(|done| each(done.ticket));
        self.gave_done(end);
        count
    }

    /// Returns the next output if that is a reply, in a form that costs less to pass on; when there is none, ask
    /// [`poll_output`](Self::poll_output).
    #[inline]
    pub fn poll_reply(&mut self) -> Option<(Ticket, Reply)> {
        if let Some(done) = self.next_done() {
            return Some((done.ticket, Reply::Void));
        }
        if let Queued::Rare(_) = self.outputs.front()? {
            return None;
        }
        match self.outputs.pop_front()? {
            Queued::Void(done) => Some((done.ticket, Reply::Void)),
            Queued::Answered { ticket, frame, .. } => Some((ticket, Reply::Frame(frame))),
            Queued::Failed { ticket, error, .. } => Some((ticket, Reply::Failed(error))),
            Queued::Rare(_) => None,
        }
    }

    #[inline]
    fn next_done(&mut self) -> Option<Done> {
        let done = *self.done.get(self.done_given)?;
        self.gave_done(self.done_given + 1);
        Some(done)
    }

    #[inline]
    fn gave_done(&mut self, count: usize) {
        self.done_given = count;
        if count == self.done.len() {
            self.done.clear();
            self.done_given = 0;
        }
    }

    /// Returns the next output; to be called until there is none.
    #[inline]
    pub fn poll_output(&mut self) -> Option<ConnectionOutput> {
        if let Some(done) = self.next_done() {
            return Some(done.into_output(self.plan.version));
        }
        let queued = self.outputs.pop_front()?;
        Some(queued.into_output(self.plan.version))
    }
}
