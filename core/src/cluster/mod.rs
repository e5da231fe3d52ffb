//! TODO

pub mod session;
pub mod fetch;
pub mod topology;
pub mod events;
