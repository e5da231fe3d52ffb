//! What every adapter re-exports: the whole interface of the driver but for the runtime.

pub use messina_core as core;
pub use messina_core::cluster::AgreementOutcome;
pub use messina_core::config::connection::{ConnectionConfig, SocketOptions};
pub use messina_core::config::encryption::Encryption;
pub use messina_core::config::limits::Limits;
pub use messina_core::config::profile::{ExecutionProfile, PageSize};
pub use messina_core::config::session::{ContactPoint, Inference, ReadinessRule, SessionConfig};
pub use messina_core::conn::Ticket;
pub use messina_core::error::connect::Fate;
pub use messina_core::error::request::{
    Attempt, ErrorCategory, RequestError, RequestErrorKind, UnpreparedError,
};
pub use messina_core::error::result::ResultError;
pub use messina_core::error::session::{
    ConfigError, NodeCause, NodeFailure, SessionError, SessionErrorKind,
};
pub use messina_core::exec::Coordinator;
pub use messina_core::exec::batch::Batch;
pub use messina_core::exec::columns::{ColumnValues, PageColumns};
pub use messina_core::exec::paging::PagingState;
pub use messina_core::exec::prepared::PreparedStatement;
pub use messina_core::exec::preparing::PrepareOn;
pub use messina_core::exec::result::{Page, QueryResult};
pub use messina_core::exec::statement::{AsStatement, Bound, Statement};
pub use messina_core::exec::trace::{Trace, TraceEvent};
pub use messina_core::exec::using::UsingTimeout;
pub use messina_core::metrics::Metrics;
pub use messina_core::notify::{ClusterEvent, Note, Severity};
pub use messina_core::policy;
pub use messina_core::policy::explain::RoutePlan;
pub use messina_core::routing::{
    ConnectionStatus, Host, HostIdx, HostState, HostStatus, Shard, ShardAwareStats, Token,
};
pub use messina_core::types;
pub use messina_core::types::*;
pub use messina_core::wire::{Compression, Consistency, ProtocolVersion, SerialConsistency};

pub use crate::execute::Execute;
pub use crate::lane::Lane;
pub use crate::notes::Events;
pub use crate::pager::{Pages, RowStream};
pub use crate::pipeline::{Completion, Full, Pipeline};
pub use crate::runtime::Runtime;
pub use crate::snapshot::ClusterSnapshot;
#[cfg(feature = "rustls-023")]
pub use crate::tls;
