//! Owns the DRIVER_CONFIG document: what an operator can see of a session's settings in the server's list of clients.
//! Leaves out the message that carries it, and everything that identifies somebody or opens something: names of users,
//! hosts and keyspaces, credentials, certificates.
//!
//! The document describes the default profile, in version 1 of the schema that the drivers of ScyllaDB share. A key that
//! is absent does not apply or cannot be known; it never stands for "no". What a setting is called there and here differs
//! now and then, so each group below says where its values come from.

mod policies;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use thiserror::Error;

use super::json::{Json, Object};
use crate::config::session::SessionConfig;

/// Is what one document is made from.
#[derive(Clone, Copy, Debug)]
pub struct DriverConfigFacts<'a> {
    /// Are the settings.
    pub session: &'a SessionConfig,
    /// Tells whether the server is a ScyllaDB, which takes time limits for single statements.
    pub scylla: bool,
    /// Is the local datacenter, where it is inferred and known by now.
    pub datacenter: Option<&'a str>,
    /// Is the local rack, where it is inferred and known by now.
    pub rack: Option<&'a str>,
}

/// Says why there is no document.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReported {
    /// It is longer than [`DRIVER_CONFIG_LEN_MAX`].
    #[error("it has {len} bytes, and {DRIVER_CONFIG_LEN_MAX} are the most")]
    TooLong {
        /// Is how long it would have been, in bytes.
        len: usize,
    },
    /// A policy of the application panicked when it was asked what it is.
    #[error("a policy panicked when it was asked for its name")]
    PolicyPanicked,
}

/// Is the length of the longest document that is sent, in bytes: half of what an option of the message can hold.
pub const DRIVER_CONFIG_LEN_MAX: usize = 32_768;

/// Makes the document.
///
/// # Errors
/// It is too long, or a policy of the application panicked; the connection does without it then.
pub fn driver_config(facts: &DriverConfigFacts<'_>) -> Result<String, NotReported> {
    // A name comes from code of the application, and that must not end a connection.
    let made = catch_unwind(AssertUnwindSafe(|| document(facts).to_string()));
    let text = made.map_err(|_| NotReported::PolicyPanicked)?;
    match text.len() {
        len if DRIVER_CONFIG_LEN_MAX < len => Err(NotReported::TooLong { len }),
        _ => Ok(text),
    }
}

fn document(facts: &DriverConfigFacts<'_>) -> Json {
    Object::new()
        .with("version", 1_u64)
        .with("connection", connection(facts.session))
        .with("control-plane", control_plane(facts))
        .with("query", query(facts))
        .into()
}

fn connection(session: &SessionConfig) -> Object {
    let limits = &session.limits;
    // A connection is replaced when it has as many orphans as the limit says: one less is tolerated.
    let orphans_max = limits.orphans_effective().saturating_sub(1);
    let requests = Object::new()
        .with(
            "in-flight",
            Object::new().with("max", limits.in_flight_effective()),
        )
        .with("orphaned", Object::new().with("max", orphans_max));
    let shard_aware = Object::new().with("enabled", session.uses_shard_aware_port());
    Object::new()
        .with(
            "connect",
            Object::new().with_some(
                "timeout-ms",
                limit(Some(session.connection.connect_timeout)),
            ),
        )
        .with("requests", requests)
        .with("pool", shard_aware.under("shard-aware"))
        .with("socket", socket(session))
        .with(
            "reconnection",
            Object::new().with("policy", policies::reconnection(&session.reconnect)),
        )
        .with_some("node-preference", policies::connected_datacenter(session))
        .with_some("tls", tls(session))
}

/// Says what sockets are told to do; what is on or off without being told is off on every system.
fn socket(session: &SessionConfig) -> Object {
    let options = &session.connection.socket;
    let linger = options.linger.map(|linger| linger.as_secs());
    let size = |bytes: Option<usize>| {
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| *bytes != 0)?;
        Some(Object::new().with("size-bytes", bytes.min(WHOLE_MAX)))
    };
    Object::new()
        .with("tcp-no-delay", options.nodelay)
        .with("keep-alive", options.keepalive.is_some())
        .with("reuse-address", options.reuse_address)
        .with_some(
            "linger",
            linger.map(|seconds| Object::new().with("interval-s", seconds.min(WHOLE_MAX))),
        )
        .with_some("receive-buffer", size(options.recv_buffer))
        .with_some("send-buffer", size(options.send_buffer))
}

#[cfg(feature = "rustls-023")]
fn tls(session: &SessionConfig) -> Option<Object> {
    let plan = session.encryption.plan()?;
    Some(Object::new().with_some("hostname-verification", plan.verifies_host_name()))
}

#[cfg(not(feature = "rustls-023"))]
const fn tls(_: &SessionConfig) -> Option<Object> {
    None
}

fn control_plane(facts: &DriverConfigFacts<'_>) -> Object {
    let timeout = facts.session.metadata_timeout;
    // The clause and the wait have one setting, and a server that is no ScyllaDB gets no clause.
    let timeout = Object::new()
        .with_some("client-side-ms", limit(timeout))
        .with_some("server-side-ms", limit(timeout).filter(|_| facts.scylla));
    let agreement = Object::new().with("timeout-ms", millis(facts.session.agreement_timeout));
    Object::new()
        .with("queries", timeout.under("timeout").under("system"))
        .with("schema", agreement.under("agreement"))
}

fn query(facts: &DriverConfigFacts<'_>) -> Object {
    let profile = &facts.session.profile;
    let page = profile
        .page_size
        .and_then(|size| u64::try_from(size.rows()).ok());
    let request = limit(profile.request_timeout);
    let defaults = Object::new()
        .with("consistency", profile.consistency.name())
        .with_some(
            "serial-consistency",
            profile.serial_consistency.map(|level| level.name()),
        )
        .with("idempotence", profile.idempotent)
        .with("client-timestamps", profile.client_timestamps)
        .with_some("page", page.map(|size| Object::new().with("size", size)))
        .with_some(
            "request",
            request.map(|timeout| Object::new().with("timeout-ms", timeout)),
        );
    Object::new()
        .with("defaults", defaults)
        .with("retry", policies::retry(&*profile.retry))
        .with("load-balancing", policies::load_balancing(facts))
        .with_some(
            "speculative-execution",
            policies::speculative(&profile.speculative),
        )
}

/// Is the length of a limit in milliseconds; none where there is no limit.
fn limit(limit: Option<Duration>) -> Option<u64> {
    limit
        .filter(|limit| !limit.is_zero() && *limit != Duration::MAX)
        .map(millis)
}

/// Is the length of a wait in milliseconds. Only no wait at all is zero, and no number is too large for JSON.
fn millis(wait: Duration) -> u64 {
    match u64::try_from(wait.as_millis()) {
        Ok(0) if !wait.is_zero() => 1,
        Ok(millis) => millis.min(WHOLE_MAX),
        Err(_) => WHOLE_MAX,
    }
}

/// Is the largest whole number that all readers of JSON read exactly.
const WHOLE_MAX: u64 = 9_007_199_254_740_991;

#[cfg(test)]
mod tests;
