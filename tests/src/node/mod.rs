//! One simulated ScyllaDB node: bytes in, bytes out per connection. Sockets and threads belong to the module `serve`.

pub(crate) mod cql;
mod error;
pub(crate) mod schema;
pub(crate) mod store;
pub(crate) mod values;

pub use error::{CqlError, CqlErrorDetail};
