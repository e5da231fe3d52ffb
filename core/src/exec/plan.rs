//! What an execution is given and what it gives back: the plan of a request, and its outputs.
//!
//! This module leaves out every decision; `Execution` takes them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use crate::config::profile::ExecutionProfile;
use crate::error::request::RequestError;
use crate::exec::prepared::Preparation;
use crate::exec::statement::{RequestSettings, StatementOptions};
use crate::exec::targets::{Planned, Target};
use crate::routing::{Loads, Routing, Shard, TableIdx, Token};
use crate::wire::consistency::Consistency;
use crate::wire::response::ResponseFrame;
use crate::wire::supported::ProtocolFeatures;

/// Holds what an execution needs to know of a request; the statement's bytes stay with the owner.
#[derive(Clone, Debug)]
pub struct ExecutionPlan {
    /// What is sent.
    pub kind: StatementKind,
    /// The table that the request is routed by.
    pub table: Option<TableIdx>,
    /// The token that the request is routed by.
    pub token: Option<Token>,
    /// The policies and defaults.
    pub profile: Arc<ExecutionProfile>,
    /// The settled options.
    pub settings: RequestSettings,
    /// Whether the statement is a conditional one.
    pub conditional: bool,
    /// The only place that the request may be sent to.
    pub only: Option<Planned>,
    /// The place to try first, before the policy's choice: the coordinator of the page before.
    pub prefer: Option<Planned>,
    /// The random number of this request.
    pub seed: u64,
}

impl ExecutionPlan {
    /// Makes a plan for a request that may go anywhere.
    pub const fn new(
        kind: StatementKind,
        profile: Arc<ExecutionProfile>,
        settings: RequestSettings,
        seed: u64,
    ) -> Self {
        Self {
            kind,
            table: None,
            token: None,
            profile,
            settings,
            conditional: false,
            only: None,
            prefer: None,
            seed,
        }
    }
}

/// Says where a request is to go, beside the policy's choice, and whether its answer may come in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The only place that it may be sent to.
    pub only: Option<Planned>,
    /// The place to try first: the coordinator of the page before.
    pub prefer: Option<Planned>,
    /// Whether the server may not cut the answer into pages.
    pub unpaged: bool,
}

impl Aim {
    /// Says whether the policy and the options alone decide.
    #[inline]
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.only.is_none() && self.prefer.is_none() && !self.unpaged
    }

    /// Adds the place that the request's options name, unless there is one already.
    #[inline]
    #[must_use]
    pub fn within(self, options: Option<&StatementOptions>) -> Self {
        let named = || options.and_then(|options| options.target);
        Self {
            only: self.only.or_else(named),
            ..self
        }
    }
}

/// Finds the profile that a request takes its policies and defaults from.
#[inline]
#[must_use]
pub fn profile_of<'a>(
    options: Option<&'a StatementOptions>,
    session: &'a Arc<ExecutionProfile>,
) -> &'a Arc<ExecutionProfile> {
    let own = options.and_then(|options| options.profile.as_ref());
    own.unwrap_or(session)
}

/// Settles the options of a request that started at `since`.
///
/// `is_idempotent` is what the statement makes of the setting, and `timestamp` is asked at most once.
#[inline]
pub fn settle(
    options: Option<&StatementOptions>,
    profile: &ExecutionProfile,
    since: Instant,
    unpaged: bool,
    is_idempotent: impl FnOnce(bool) -> bool,
    timestamp: impl FnOnce() -> i64,
) -> RequestSettings {
    let mut settings = match options {
        Some(options) => options.settle(since, profile, timestamp),
        None => StatementOptions::default().settle(since, profile, timestamp),
    };
    settings.idempotent = is_idempotent(settings.idempotent);
    if unpaged {
        settings.page_size = None;
    }
    settings
}

/// Draws the random number of a session's request from its count.
#[inline]
#[must_use]
pub const fn seed_of_request(session: u64, count: u64) -> u64 {
    // An odd multiplier spreads neighbouring counts over the whole range.
    (session ^ count).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Says what a request sends, as far as its execution has to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StatementKind {
    /// A text without values.
    Text,
    /// A text with values: it is prepared on the connection that then executes it.
    ///
    /// The owner binds the values when it has reported the answer to the PREPARE, before it polls.
    TextWithValues(Arc<str>),
    /// A prepared statement.
    Prepared(Arc<Preparation>),
    /// A batch with these prepared statements among its children.
    Batch(Arc<[Arc<Preparation>]>),
    /// A PREPARE.
    Prepare,
}

impl StatementKind {
    /// Finds the statement that a server knows by `id`.
    pub(super) fn preparation(&self, id: &[u8]) -> Option<&Arc<Preparation>> {
        match self {
            Self::Prepared(preparation) => {
                Some(preparation).filter(|preparation| preparation.id() == id)
            }
            Self::Batch(children) => children.iter().find(|child| child.id() == id),
            Self::Text | Self::TextWithValues(_) | Self::Prepare => None,
        }
    }
}

/// Names one attempt of an execution: all exchanges with one target, a PREPARE in between included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u32);

/// Says what the owner of an execution has to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExecutionOutput<H> {
    /// Sends the request.
    Send {
        /// Which attempt to report the reply for.
        attempt: AttemptId,
        /// Where to.
        to: Target<H>,
        /// How this attempt's request differs from that of others.
        params: SendParams,
    },
    /// Sends a PREPARE on the connection that has forgotten a statement, or does not know it yet.
    Prepare {
        /// Which attempt to report the reply for.
        attempt: AttemptId,
        /// Where to.
        to: Target<H>,
        /// The text.
        text: Arc<str>,
        /// The keyspace to prepare it in, if not the connection's (protocol version 5).
        keyspace: Option<Arc<str>>,
        /// When the attempt has failed if the PREPARE is not answered.
        deadline: Option<Instant>,
    },
    /// Gives up an attempt: nobody waits for its reply any more, and none may be reported.
    Abandon {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// Ends the execution, as its last output.
    Done(Result<ResponseFrame, RequestError>),
}

/// Says how one attempt's request differs from that of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendParams {
    /// The consistency, which a retry policy may have changed.
    pub consistency: Consistency,
    /// When the attempt has failed if it is not answered.
    pub deadline: Option<Instant>,
}

impl SendParams {
    pub(super) const fn new(consistency: Consistency, deadline: Option<Instant>) -> Self {
        Self {
            consistency,
            deadline,
        }
    }
}

/// Tells an execution about its owner's connections.
pub trait Connections<H>: Loads<H> {
    /// Returns what a connection has agreed on; errors and prepared statements are read by it.
    fn features(&self, handle: &H) -> ProtocolFeatures;
}

/// Names the node that answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coordinator {
    /// The node's identity.
    pub host_id: Uuid,
    /// The node's address, as the cluster gives it to clients.
    pub address: SocketAddr,
    /// The shard that was asked for, or where known the one whose connection served the request.
    pub shard: Option<Shard>,
    /// Its place in the routing snapshots; a paged read goes on there.
    pub place: Planned,
}

impl Coordinator {
    /// Looks up a place in a snapshot.
    pub fn of<H>(place: Planned, routing: &Routing<H>) -> Option<Self> {
        let host = routing.host(place.host)?;
        Some(Self {
            host_id: host.id,
            address: host.address,
            shard: place.shard,
            place,
        })
    }

    /// Tells the shard of the connection that served the request.
    #[inline]
    #[must_use]
    pub fn served_on(mut self, shard: Option<Shard>) -> Self {
        self.shard = shard;
        self
    }
}

#[cfg(test)]
mod tests;
