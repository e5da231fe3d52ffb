//! The async engine of Messina, generic over a small Runtime trait; no executor inside.
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
mod prepare;
mod promise;
mod published;
pub mod runtime;
mod session;
mod shape;
mod source;
#[cfg(feature = "rustls-023")]
pub mod tls;
mod wall_clock;

pub use messina_core as core;

pub use builder::SessionBuilder;
pub use runtime::Runtime;
pub use session::Session;
