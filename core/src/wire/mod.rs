//! The wire format, in both directions: clients encode requests and decode responses, peers (feature `peer`) do
//! the reverse. Knows bytes only: which frame may come when is the business of [`crate::conn`], the meaning of
//! values that of [`crate::types`].

pub mod compress;
pub mod consistency;
pub mod event;
pub mod header;
pub(crate) mod known;
pub mod read;
pub mod request;
pub mod response;
pub mod result;
#[cfg(feature = "v5")]
pub mod segment;
pub mod server_error;
pub mod supported;
pub mod write;

#[cfg(all(test, feature = "peer"))]
mod mutations;
#[cfg(feature = "peer")]
pub mod peer;

pub use consistency::{Consistency, SerialConsistency};
pub use event::{
    EventKind, SchemaChange, SchemaChangeKind, SchemaTarget, ServerEvent, TopologyChange,
};
pub use header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion, RawHeader};
pub use read::Reader;
pub use request::{
    Batch, BatchKind, BatchRef, BatchStatement, BatchStatementRef, EncodedRef, ExecuteLayout,
    ExecuteTemplate, LargeValue, Params, ParamsRef, Request, RequestOptions, RequestOptionsRef,
    RequestRef, StatementRef, StatementSource, Values, ValuesRef,
};
pub use response::{Envelope, Response, ResponseFrame};
pub use result::{ColumnSpec, PreparedBody, ResultBody, ResultMetadata, RowsBody};
pub use server_error::{
    FailureReason, OperationKind, ReplicaFailures, ServerError, ServerErrorDetail, WriteType,
};
pub use supported::{Compression, Offered, ProtocolFeatures, ShardInfo, Sharding, Supported};
pub use write::{CHAIN_MIN, FRAMES_KEEP_MAX, FrameSink};
