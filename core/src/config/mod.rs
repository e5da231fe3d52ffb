//! TODO

pub mod session;
pub mod connection;
pub mod pool;
pub mod profile;
pub mod limits;
