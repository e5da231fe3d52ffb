//! TODO

pub mod connection;
pub mod limits;
pub mod pool;
pub mod profile;
pub mod session;
