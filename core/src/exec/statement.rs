//! Statements as text, statements with their values, and the options that a single request may set.
//!
//! This module leaves out how a prepared statement is made (`exec::prepared`) and where a request is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::config::profile::{ExecutionProfile, PageSize};
use crate::exec::paging::PagingState;
use crate::exec::prepared::{PreparedStatement, ResultShape};
use crate::exec::targets::Planned;
use crate::routing::Token;
use crate::types::encode::EncodedValues;
use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::request::{ParamsRef, RequestOptionsRef, RequestRef, ValuesRef};
use crate::wire::supported::ProtocolFeatures;

/// Holds a statement as text with the options of its requests.
///
/// A text without values is sent as it is. A text with values is prepared first, so that the values can be typed;
/// for anything that is executed more than once a [`PreparedStatement`] saves that round trip.
#[derive(Clone, Debug)]
pub struct Statement {
    text: Arc<str>,
    options: StatementOptions,
}

impl Statement {
    /// Makes a statement of a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            options: StatementOptions::default(),
        }
    }

    /// Returns the text.
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl From<&str> for Statement {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Statement {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// Holds a prepared statement with encoded values, ready to be sent any number of times.
///
/// It keeps the result columns it was bound under, so an answer without columns is decoded with those that its
/// request announced, whatever happens to the statement in between.
#[derive(Clone, Debug)]
pub struct Bound {
    statement: PreparedStatement,
    values: EncodedValues,
    shape: Arc<ResultShape>,
    token: Option<Token>,
    options: StatementOptions,
}

impl Bound {
    pub(super) fn new(
        statement: PreparedStatement,
        values: EncodedValues,
        shape: Arc<ResultShape>,
        token: Option<Token>,
        options: StatementOptions,
    ) -> Self {
        Self {
            statement,
            values,
            shape,
            token,
            options,
        }
    }

    /// Returns the statement.
    pub const fn statement(&self) -> &PreparedStatement {
        &self.statement
    }

    /// Returns the encoded values.
    pub const fn values(&self) -> &EncodedValues {
        &self.values
    }

    /// Returns the result columns that an answer without columns is decoded with.
    pub const fn shape(&self) -> &Arc<ResultShape> {
        &self.shape
    }

    /// Returns the token of the partition key; none where the key is not fully bound or its partitioner unknown.
    pub const fn token(&self) -> Option<Token> {
        self.token
    }

    /// Returns the request to send on a connection that has agreed on `features`.
    pub fn request<'a>(
        &'a self,
        settings: &RequestSettings,
        consistency: Consistency,
        features: &ProtocolFeatures,
    ) -> RequestRef<'a> {
        let paging = self.options.paging_state.as_ref();
        let params = settings.params(consistency, self.values.values(), paging);
        self.statement.execute(&self.shape, params, features)
    }
}

/// Holds what a single request may set; what it leaves open comes from the execution profile.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StatementOptions {
    /// The profile to take defaults from, instead of the session's.
    pub profile: Option<Arc<ExecutionProfile>>,
    /// How many replicas must answer.
    pub consistency: Option<Consistency>,
    /// The consistency of the conditional part.
    pub serial_consistency: Choice<SerialConsistency>,
    /// How many rows a page may have; off leaves the cut to the server.
    pub page_size: Choice<PageSize>,
    /// How long the request may take; off waits for ever.
    pub timeout: Choice<Duration>,
    /// Whether sending the request twice does no harm.
    pub idempotent: Option<bool>,
    /// The write timestamp in microseconds since 1970, instead of a generated one.
    pub timestamp: Option<i64>,
    /// Whether the server records a trace.
    pub tracing: bool,
    /// Where to resume a paged read.
    pub paging_state: Option<PagingState>,
    /// The only place the request may be sent to.
    pub target: Option<Planned>,
    /// Named bytes for the server's extensions, sent with the request.
    pub custom_payload: Option<Arc<[PayloadEntry]>>,
}

/// One entry of a custom payload: a name, and bytes or null.
pub type PayloadEntry = (String, Option<Bytes>);

impl StatementOptions {
    /// Settles every option for one request: the option if set, else the profile's default.
    ///
    /// `timestamp` is asked at most once, so that all attempts of the request carry the same value.
    pub fn settle(
        &self,
        now: Instant,
        profile: &ExecutionProfile,
        timestamp: impl FnOnce() -> i64,
    ) -> RequestSettings {
        let timeout = self.timeout.or(profile.request_timeout);
        let generated = || profile.client_timestamps.then(timestamp);
        let timeless = self.settle_timeless(profile);
        RequestSettings {
            deadline: timeout.and_then(|timeout| now.checked_add(timeout)),
            timestamp: timeless.timestamp.or_else(generated),
            ..timeless
        }
    }

    /// Settles every option that does not depend on the time: neither deadline nor generated timestamp.
    pub(super) fn settle_timeless(&self, profile: &ExecutionProfile) -> RequestSettings {
        RequestSettings {
            consistency: self.consistency.unwrap_or(profile.consistency),
            serial_consistency: self.serial_consistency.or(profile.serial_consistency),
            page_size: self.page_size.or(profile.page_size),
            deadline: None,
            idempotent: self.idempotent.unwrap_or(profile.idempotent),
            timestamp: self.timestamp,
            tracing: self.tracing,
        }
    }
}

/// Says what a request does about one setting: take the default, do without, or use a value of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice<T> {
    /// Takes the profile's value.
    #[default]
    Inherit,
    /// Does without.
    Off,
    /// Uses this value.
    Set(T),
}

impl<T> Choice<T> {
    /// Settles the choice with the default it may inherit.
    #[inline]
    pub fn or(self, inherited: Option<T>) -> Option<T> {
        match self {
            Self::Inherit => inherited,
            Self::Off => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl<T> From<Option<T>> for Choice<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Off, Self::Set)
    }
}

/// Holds the settled options of one request; all its attempts share them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestSettings {
    /// How many replicas must answer; a retry policy may change it for a later attempt.
    pub consistency: Consistency,
    /// The consistency of the conditional part.
    pub serial_consistency: Option<SerialConsistency>,
    /// How many rows a page may have.
    pub page_size: Option<PageSize>,
    /// When the request has failed if it is not answered.
    pub deadline: Option<Instant>,
    /// Whether sending the request twice does no harm.
    pub idempotent: bool,
    /// The write timestamp in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// Whether the server records a trace.
    pub tracing: bool,
}

impl RequestSettings {
    /// Makes the parameters of a QUERY or an EXECUTE.
    pub fn params<'a>(
        &self,
        consistency: Consistency,
        values: ValuesRef<'a>,
        paging_state: Option<&'a PagingState>,
    ) -> ParamsRef<'a> {
        ParamsRef {
            consistency,
            serial_consistency: self.serial_consistency,
            values,
            skip_metadata: false,
            page_size: self.page_size.map(PageSize::rows),
            paging_state: paging_state.map(PagingState::as_bytes),
            timestamp: self.timestamp,
            ..ParamsRef::default()
        }
    }

    /// Makes what comes with a request, whatever it is.
    pub fn request_options<'a>(&self, options: &'a StatementOptions) -> RequestOptionsRef<'a> {
        RequestOptionsRef {
            tracing: self.tracing,
            custom_payload: options.custom_payload.as_deref(),
        }
    }

    /// Makes the request of a text without values.
    pub fn query<'a>(
        &self,
        text: &'a str,
        consistency: Consistency,
        paging_state: Option<&'a PagingState>,
    ) -> RequestRef<'a> {
        RequestRef::Query {
            text,
            params: self.params(consistency, ValuesRef::default(), paging_state),
        }
    }
}

/// Lets a function take a statement as text, with options, or prepared.
pub trait AsStatement {
    /// Returns what to execute.
    fn as_statement(&self) -> AnyStatement<'_>;
}

/// Borrows a statement of either kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyStatement<'a> {
    /// A text, with options where it has some.
    Text {
        /// The CQL text.
        text: &'a str,
        /// The options; none for a bare text.
        options: Option<&'a StatementOptions>,
    },
    /// A prepared statement.
    Prepared(&'a PreparedStatement),
}

impl AsStatement for str {
    fn as_statement(&self) -> AnyStatement<'_> {
        AnyStatement::Text {
            text: self,
            options: None,
        }
    }
}

impl AsStatement for String {
    fn as_statement(&self) -> AnyStatement<'_> {
        self.as_str().as_statement()
    }
}

impl AsStatement for Statement {
    fn as_statement(&self) -> AnyStatement<'_> {
        AnyStatement::Text {
            text: &self.text,
            options: Some(&self.options),
        }
    }
}

impl AsStatement for PreparedStatement {
    fn as_statement(&self) -> AnyStatement<'_> {
        AnyStatement::Prepared(self)
    }
}

impl<T: AsStatement + ?Sized> AsStatement for &T {
    fn as_statement(&self) -> AnyStatement<'_> {
        (**self).as_statement()
    }
}

/// Gives a type with [`StatementOptions`] one method per option.
macro_rules! option_methods {
    ($($type:ty),*) => {$(
        impl $type {
            /// Returns the options.
            pub const fn options(&self) -> &crate::exec::statement::StatementOptions {
                &self.options
            }

            /// Returns the options to change them.
            ///
            /// The requests of a prepared statement are put together one by one from then on, until one of the methods
            /// that say what all its requests have in common, such as [`consistency`](Self::consistency), is called.
            pub fn options_mut(&mut self) -> &mut crate::exec::statement::StatementOptions {
                self.forget_ready();
                &mut self.options
            }

            /// Takes defaults from this profile instead of the session's.
            #[must_use]
            pub fn profile(mut self, profile: std::sync::Arc<crate::config::profile::ExecutionProfile>) -> Self {
                self.options.profile = Some(profile);
                self.make_ready()
            }

            /// Says how many replicas must answer.
            #[must_use]
            pub fn consistency(mut self, consistency: crate::wire::consistency::Consistency) -> Self {
                self.options.consistency = Some(consistency);
                self.make_ready()
            }

            /// Says the consistency of the conditional part; none leaves it to the server.
            #[must_use]
            pub fn serial_consistency(mut self, consistency: impl Into<Option<crate::wire::consistency::SerialConsistency>>) -> Self {
                self.options.serial_consistency = crate::exec::statement::Choice::from(consistency.into());
                self.make_ready()
            }

            /// Says how many rows a page may have; none leaves the cut to the server.
            #[must_use]
            pub fn page_size(mut self, size: impl Into<Option<crate::config::profile::PageSize>>) -> Self {
                self.options.page_size = crate::exec::statement::Choice::from(size.into());
                self.make_ready()
            }

            /// Limits how long the request may take, all attempts included; none waits for ever.
            #[must_use]
            pub fn timeout(mut self, timeout: impl Into<Option<std::time::Duration>>) -> Self {
                self.options.timeout = crate::exec::statement::Choice::from(timeout.into());
                self.make_ready()
            }

            /// Says whether sending the request twice does no harm.
            #[must_use]
            pub fn idempotent(mut self, idempotent: bool) -> Self {
                self.options.idempotent = Some(idempotent);
                self.make_ready()
            }

            /// Sets the write timestamp, in microseconds since 1970.
            #[must_use]
            pub fn timestamp(mut self, micros: i64) -> Self {
                self.options.timestamp = Some(micros);
                self.forget_ready();
                self
            }

            /// Asks the server to record a trace.
            #[must_use]
            pub fn tracing(mut self, tracing: bool) -> Self {
                self.options.tracing = tracing;
                self.make_ready()
            }

            /// Sends named bytes for the server's extensions with the request.
            #[must_use]
            pub fn custom_payload(
                mut self,
                payload: impl Into<std::sync::Arc<[crate::exec::statement::PayloadEntry]>>,
            ) -> Self {
                self.options.custom_payload = Some(payload.into());
                self.forget_ready();
                self
            }

            /// Sends the request to this place and nowhere else.
            #[must_use]
            pub fn target(mut self, target: crate::exec::targets::Planned) -> Self {
                self.options.target = Some(target);
                self.forget_ready();
                self
            }

            /// Resumes a paged read where a page left off.
            #[must_use]
            pub fn paging_state(mut self, state: impl Into<Option<crate::exec::paging::PagingState>>) -> Self {
                self.options.paging_state = state.into();
                self.forget_ready();
                self
            }
        }
    )*};
}
pub(super) use option_methods;

option_methods!(Statement, Bound);

/// Has nothing that depends on its options.
macro_rules! nothing_ready {
    ($($type:ty),*) => {$(
        impl $type {
            const fn forget_ready(&mut self) {}

            const fn make_ready(self) -> Self {
                self
            }
        }
    )*};
}
pub(super) use nothing_ready;

nothing_ready!(Statement, Bound);
