//! TODO

pub mod events;
pub mod fetch;
pub mod session;
pub mod topology;
