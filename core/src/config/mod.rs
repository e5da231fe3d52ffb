//! Settings as plain structs with defaults. They are read by machines and never change while in use.

pub mod client_routes;
pub mod connection;
pub mod encryption;
pub mod identity;
pub mod limits;
pub mod pool;
pub mod profile;
pub mod session;
