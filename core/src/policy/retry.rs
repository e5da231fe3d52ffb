//! Retry policies: what to do after an attempt failed, as a pure function of the failure.
//!
//! This module leaves out how a retry is carried out (`Execution`), the request's deadline, and targets without
//! a connection, which are passed over without asking anybody.

mod downgrading;
mod limited;

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

pub use downgrading::DowngradingRetry;
pub use limited::{BackoffRetry, LimitedRetry};

use crate::error::connect::Fate;
use crate::error::request::RequestErrorKind;
use crate::wire::consistency::Consistency;
use crate::wire::server_error::{ServerError, ServerErrorDetail, WriteType};

/// Decides what follows a failed attempt.
///
/// A policy is asked about every failure of an attempt, with the request's idempotence and what is known about
/// its fate. It is not asked when the request's own deadline has passed, when the caller's values cannot be
/// encoded, when a statement has to be prepared again, or the first time that a request never left because its
/// connection was being replaced while the node is fine. It keeps no state: what happened before is in the
/// failure's [`RetryHistory`].
///
/// Two answers are overruled: a request that is not idempotent and might have been applied (the connection was
/// lost, the attempt's time ran out) is never sent again, and a serial consistency is never replaced by one that
/// is not serial.
pub trait RetryPolicy: Any + Debug + Send + Sync {
    /// Answers what to do now.
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision;

    /// Returns the one thing that is reported of a policy that is not built in: the name of its type unless it says
    /// otherwise. No configured value belongs into it.
    fn name(&self) -> &'static str {
        super::short_type_name(std::any::type_name::<Self>())
    }
}

/// Says what follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryDecision {
    /// Sends the request to the same node again.
    Same,
    /// Sends the request to the same node again, at another consistency.
    SameAt(Consistency),
    /// Sends the request to the same node again after a pause, which counts against the deadline.
    SameAfter(Duration),
    /// Sends the request to the next target of the plan.
    Next,
    /// Sends the request to the next target of the plan, at another consistency.
    NextAt(Consistency),
    /// Sends the request to the next target of the plan after a pause, which counts against the deadline.
    NextAfter(Duration),
    /// Hands the error to the caller.
    Stop,
    /// Reports success with an empty result.
    Ignore,
}

/// Describes one failed attempt to a policy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// What went wrong.
    pub error: &'a RequestErrorKind,
    /// What is known about the request's effect at the server; "not sent" also when the server refused to prepare
    /// a statement that it does not know.
    pub fate: Fate,
    /// Whether the caller said that sending the request twice does no harm.
    pub idempotent: bool,
    /// Whether the statement is a conditional one (a lightweight transaction).
    pub conditional: bool,
    /// The consistency of the failed attempt, which an earlier decision may have changed.
    pub consistency: Consistency,
    /// What this request has met before this failure.
    pub history: &'a RetryHistory,
    /// A number for jitter, another one for every failure and the same one in a replay.
    pub seed: u64,
}

impl Failure<'_> {
    /// Returns the kind of the failure.
    pub fn class(&self) -> FailureClass {
        FailureClass::of(self.error)
    }

    /// Returns how many failures of this kind this request has met before this one.
    pub fn earlier_of_class(&self) -> u8 {
        self.history.count(self.class())
    }

    /// Says whether sending the request once more can do no harm: it never left, or it may be applied twice.
    pub fn is_safe(&self) -> bool {
        self.idempotent || self.fate == Fate::NotSent
    }

    /// Says whether a conditional write timed out: its outcome is unknown until somebody reads it.
    fn is_conditional_write_timeout(&self) -> bool {
        matches!(
            self.detail(),
            Some(ServerErrorDetail::WriteTimeout {
                write_type: WriteType::Cas,
                ..
            })
        )
    }

    fn detail(&self) -> Option<&ServerErrorDetail> {
        match self.error {
            RequestErrorKind::Server(error) => Some(&error.detail),
            _ => None,
        }
    }
}

/// Groups failures that a policy treats alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum FailureClass {
    /// The connection ended.
    Connection,
    /// The connection takes no more requests.
    Full,
    /// The attempt's own time ran out, not the request's.
    Expired,
    /// The server is overloaded.
    Overloaded,
    /// The server failed in an unforeseen way.
    ServerError,
    /// A truncation failed.
    Truncate,
    /// The server is still joining the ring.
    Bootstrapping,
    /// Too few replicas are alive.
    Unavailable,
    /// Too few replicas answered a read in time.
    ReadTimeout,
    /// Too few replicas answered a write in time.
    WriteTimeout,
    /// A replica failed to read.
    ReadFailure,
    /// A replica failed to write, its change log included.
    WriteFailure,
    /// The outcome of a conditional write is unknown.
    CasUnknown,
    /// The server limits this partition's rate.
    RateLimit,
    /// The request is wrong or not allowed and will fail again.
    Rejected,
    /// The answer was not one that the protocol allows here.
    Protocol,
}

impl FailureClass {
    /// Returns the class of a failure.
    pub fn of(error: &RequestErrorKind) -> Self {
        match error {
            RequestErrorKind::Server(error) => Self::of_server(error),
            RequestErrorKind::Expired => Self::Expired,
            RequestErrorKind::Overloaded => Self::Full,
            RequestErrorKind::Connection(_)
            | RequestErrorKind::NoConnection
            | RequestErrorKind::NoTarget => Self::Connection,
            RequestErrorKind::Protocol(_) | RequestErrorKind::UnexpectedAnswer { .. } => {
                Self::Protocol
            }
            RequestErrorKind::Unprepared(_)
            | RequestErrorKind::Bind(_)
            | RequestErrorKind::Encode(_)
            | RequestErrorKind::Result(_)
            | RequestErrorKind::Keyspace(_)
            | RequestErrorKind::Closed
            | RequestErrorKind::Internal(_) => Self::Rejected,
        }
    }

    /// Returns the class of a server's error.
    pub fn of_server(error: &ServerError) -> Self {
        match &error.detail {
            ServerErrorDetail::ServerError => Self::ServerError,
            ServerErrorDetail::Overloaded => Self::Overloaded,
            ServerErrorDetail::TruncateError => Self::Truncate,
            ServerErrorDetail::IsBootstrapping => Self::Bootstrapping,
            ServerErrorDetail::Unavailable { .. } => Self::Unavailable,
            ServerErrorDetail::ReadTimeout { .. } => Self::ReadTimeout,
            ServerErrorDetail::WriteTimeout { .. } => Self::WriteTimeout,
            ServerErrorDetail::ReadFailure { .. } => Self::ReadFailure,
            ServerErrorDetail::WriteFailure { .. } | ServerErrorDetail::CdcWriteFailure => {
                Self::WriteFailure
            }
            ServerErrorDetail::CasWriteUnknown { .. } => Self::CasUnknown,
            ServerErrorDetail::RateLimit { .. } => Self::RateLimit,
            _ => Self::Rejected,
        }
    }
}

/// Counts the failures a request has met, by class; starts at zero with each request and each page.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryHistory {
    counts: [u8; CLASSES],
    retries: u16,
}

impl RetryHistory {
    /// Makes an empty history.
    pub const fn new() -> Self {
        Self {
            counts: [0; CLASSES],
            retries: 0,
        }
    }

    /// Returns how many failures of a class came before.
    pub fn count(&self, class: FailureClass) -> u8 {
        self.counts
            .get(usize::from(class as u8))
            .copied()
            .unwrap_or(0)
    }

    /// Returns how many times the request was sent again, for whatever reason.
    pub const fn retries(&self) -> u16 {
        self.retries
    }

    /// Takes note of a failure.
    pub fn failed(&mut self, class: FailureClass) {
        if let Some(count) = self.counts.get_mut(usize::from(class as u8)) {
            *count = count.saturating_add(1);
        }
    }

    pub(crate) const fn retried(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }
}

/// Retries where another node or another moment is likely to help, and never what might be applied twice.
///
/// A request that is not idempotent is sent again only when it certainly was not executed: it never left, the node
/// was still joining, or too few replicas were alive. Timeouts that the server reports are repeated once, on the
/// same node, where the reason says that this helps. A conditional statement stays on its coordinator for one
/// repetition, because moving it makes coordinators contend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultRetry;

impl RetryPolicy for DefaultRetry {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        let earlier = failure.earlier_of_class();
        match failure.class() {
            FailureClass::Connection | FailureClass::Full | FailureClass::Expired => {
                next_if(failure.is_safe())
            }
            FailureClass::Overloaded | FailureClass::ServerError | FailureClass::Truncate => {
                next_if(failure.is_safe())
            }
            FailureClass::Bootstrapping | FailureClass::Unavailable
                if failure.conditional && earlier == 0 =>
            {
                RetryDecision::Same
            }
            FailureClass::Bootstrapping => RetryDecision::Next,
            FailureClass::Unavailable => next_if(earlier <= u8::from(failure.conditional)),
            FailureClass::ReadTimeout => same_if(earlier == 0 && data_is_late(failure)),
            FailureClass::WriteTimeout => {
                same_if(earlier == 0 && failure.idempotent && batch_log_is_late(failure))
            }
            FailureClass::ReadFailure
            | FailureClass::WriteFailure
            | FailureClass::CasUnknown
            | FailureClass::RateLimit
            | FailureClass::Rejected
            | FailureClass::Protocol => RetryDecision::Stop,
        }
    }
}

/// Hands every error to the caller; only a request that never left still goes to the next target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallthroughRetry;

impl RetryPolicy for FallthroughRetry {
    fn decide(&self, failure: &Failure<'_>) -> RetryDecision {
        let of_the_way = matches!(
            failure.class(),
            FailureClass::Connection | FailureClass::Full | FailureClass::Expired
        );
        next_if(of_the_way && failure.fate == Fate::NotSent)
    }
}

const fn next_if(yes: bool) -> RetryDecision {
    if yes {
        RetryDecision::Next
    } else {
        RetryDecision::Stop
    }
}

const fn same_if(yes: bool) -> RetryDecision {
    if yes {
        RetryDecision::Same
    } else {
        RetryDecision::Stop
    }
}

/// Enough replicas answered, only the one with the data was late: the next try asks a faster one for it.
fn data_is_late(failure: &Failure<'_>) -> bool {
    match failure.detail() {
        Some(ServerErrorDetail::ReadTimeout {
            received,
            block_for,
            data_present,
            ..
        }) => block_for <= received && !data_present,
        _ => false,
    }
}

/// The batch was not applied, because its log was not written.
fn batch_log_is_late(failure: &Failure<'_>) -> bool {
    matches!(
        failure.detail(),
        Some(ServerErrorDetail::WriteTimeout {
            write_type: WriteType::BatchLog,
            ..
        })
    )
}

const CLASSES: usize = FailureClass::Protocol as usize + 1;

#[cfg(test)]
mod choices;
#[cfg(test)]
mod tests;
