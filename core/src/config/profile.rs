//! Execution profiles: the defaults that a group of requests shares.
//!
//! This module leaves out what a single statement overrides (`exec::statement`) and what belongs to the session
//! as a whole (`config::session`).

use std::sync::Arc;
use std::time::Duration;

use crate::error::session::ConfigError;
use crate::policy::load_balancing::{DefaultLoadBalancing, LoadBalancingPolicy};
use crate::policy::retry::{DefaultRetry, RetryPolicy};
use crate::policy::speculative::SpeculativePolicy;
use crate::wire::consistency::{Consistency, SerialConsistency};

/// Groups the defaults of requests; an option set on a statement wins over the profile's.
#[derive(Clone, Debug)]
pub struct ExecutionProfile {
    /// How many replicas must answer. Default: `LocalQuorum`.
    pub consistency: Consistency,
    /// The consistency of the conditional part of a statement; none leaves it to the server. Default:
    /// `LocalSerial`, so that a conditional write does not wait for a remote datacenter unasked.
    pub serial_consistency: Option<SerialConsistency>,
    /// How many rows a page may have; none leaves the cut to the server. Default: 5000.
    pub page_size: Option<PageSize>,
    /// How long a request may take, all its attempts and pauses included; none waits for ever. Zero is refused when
    /// the session is built. Default: 30 s.
    pub request_timeout: Option<Duration>,
    /// How long one attempt may take before the retry policy is asked; none leaves it to the request's own limit.
    /// Default: none.
    pub attempt_timeout: Option<Duration>,
    /// Whether statements may be sent twice when they do not say so themselves. Default: false.
    pub idempotent: bool,
    /// Whether writes carry a timestamp from this client. Default: true.
    pub client_timestamps: bool,
    /// What happens after a failed attempt. Default: [`DefaultRetry`].
    pub retry: Arc<dyn RetryPolicy>,
    /// When copies of a slow request are sent. Default: never.
    pub speculative: SpeculativePolicy,
    /// Which nodes a request is sent to, in which order. Default: [`DefaultLoadBalancing`].
    pub load_balancing: Arc<dyn LoadBalancingPolicy>,
}

impl Default for ExecutionProfile {
    fn default() -> Self {
        Self {
            consistency: Consistency::LocalQuorum,
            serial_consistency: Some(SerialConsistency::LocalSerial),
            page_size: Some(PageSize::DEFAULT),
            request_timeout: Some(REQUEST_TIMEOUT),
            attempt_timeout: None,
            idempotent: false,
            client_timestamps: true,
            retry: Arc::new(DefaultRetry),
            speculative: SpeculativePolicy::None,
            load_balancing: Arc::new(DefaultLoadBalancing::default()),
        }
    }
}

impl ExecutionProfile {
    /// Checks what can be checked before anything is sent.
    ///
    /// # Errors
    /// A limit of zero would make every request fail; to have no limit, leave it unset.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let zero = |limit, setting| ConfigError::if_zero(limit == Some(Duration::ZERO), setting);
        zero(self.request_timeout, "profile.request_timeout")?;
        zero(self.attempt_timeout, "profile.attempt_timeout")
    }
}

/// Counts the rows of a page; always positive, because zero would mean "no paging" to one server and an error to
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(i32);

impl PageSize {
    /// The page size unless told otherwise: large enough to hide a round trip, small enough to hold in memory.
    pub const DEFAULT: Self = Self(5000);

    /// Makes a page size; none for zero and negative numbers.
    pub const fn new(rows: i32) -> Option<Self> {
        if 0 < rows { Some(Self(rows)) } else { None }
    }

    /// Returns the number of rows.
    pub const fn rows(self) -> i32 {
        self.0
    }
}

/// How long a request may take: long enough for a server's own timeouts to answer first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
