//! Owns the names of what a connection did, to see whether inputs reach what they are meant to.

use std::collections::BTreeSet;

use messina_core::conn::ConnectionOutput;
use messina_core::error::connect::{AttemptErrorKind, ConnectCause, ConnectionError, Fate};
use messina_core::notify::Note;

/// What happened in a run, by name.
pub type Milestones = BTreeSet<&'static str>;

pub(super) fn milestone(output: &ConnectionOutput) -> &'static str {
    match output {
        ConnectionOutput::Ready(_) => "ready",
        ConnectionOutput::Reply { reply: Ok(_), .. } => "answered",
        ConnectionOutput::Reply {
            reply: Err(error), ..
        } => match (&error.kind, error.fate) {
            (AttemptErrorKind::Expired, Fate::NotSent) => "expired before it was sent",
            (AttemptErrorKind::Expired, _) => "expired",
            (_, Fate::NotSent) => "lost before it was sent",
            _ => "lost",
        },
        ConnectionOutput::Event(_) => "event",
        ConnectionOutput::Note(Note::EventUnreadable { .. }) => "event unreadable",
        ConnectionOutput::Note(Note::EventUnknown { .. }) => "event unknown",
        ConnectionOutput::Note(Note::ServerWarning { .. }) => "warning",
        ConnectionOutput::Draining(ConnectionError::Orphans { .. }) => "too many orphans",
        ConnectionOutput::Draining(_) => "draining",
        ConnectionOutput::Closed(error) => match error {
            ConnectionError::Protocol(_) => "closed: protocol",
            ConnectionError::Server(_) => "closed: error of the server",
            ConnectionError::KeepaliveTimeout(_) => "closed: silence",
            ConnectionError::Connect(error) => match error.cause {
                ConnectCause::Timeout => "not opened: time-out",
                ConnectCause::Server(_) => "not opened: refused",
                ConnectCause::Protocol(_) => "not opened: protocol",
                ConnectCause::Version { .. } => "not opened: version",
                ConnectCause::NoCredentials { .. } => "not opened: no credentials",
                ConnectCause::AuthenticatorRefused { .. } => "not opened: authenticator",
                ConnectCause::UnexpectedChallenge => "not opened: challenge",
                _ => "not opened",
            },
            _ => "closed",
        },
        _ => "note",
    }
}
