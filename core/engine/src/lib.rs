//! The async engine of Messina, generic over a small [`Runtime`] trait; no executor inside.
//!
//! Applications use one of the adapters, `messina-tokio`, `messina-async-std` or `messina-smol`, which lend a runtime to
//! this crate and offer [`api`] under their own names. An executor of another kind implements [`Runtime`] and starts
//! with [`Session::builder_on`].
//!
//! What runs where:
//!
//! - **One control task** drives the core's `ControlPlane`: it resolves names, starts connections, sends the reads of
//!   system tables and publishes a routing snapshot. No request of the application passes through it.
//! - **One task per connection** owns the core's `Connection` and the stream. A turn takes what callers have handed in,
//!   writes it with one system call, reads until the socket is empty, and hands the answers out.
//! - **Callers** choose a node, write their frame and read their answer in their own future. Between them and a
//!   connection's task lies a [lane](api::Lane): one lock, taken twice a request by the caller and a few times a turn by
//!   the task, never while user code or a system call runs, and no waker is cloned, woken or dropped under it.
//!
//! A request that its first node answers costs no allocation, no channel, no timer and no task. What happens when
//! something goes wrong is decided by the core's `Execution`, which is made only then.
#![forbid(unsafe_code)]

pub mod api;
#[cfg(feature = "async-io")]
pub mod async_io;
mod builder;
mod call;
mod conn_task;
mod control_task;
mod execute;
mod lane;
mod mailbox;
mod metrics;
pub mod net;
mod notes;
mod pager;
mod pipeline;
mod prepare;
mod promise;
mod published;
pub mod runtime;
mod session;
mod shape;
mod snapshot;
mod source;
#[cfg(feature = "rustls-023")]
pub mod tls;
mod trace;
mod wall_clock;
mod winding;

pub use messina_core as core;

pub use builder::SessionBuilder;
pub use runtime::Runtime;
pub use session::Session;
