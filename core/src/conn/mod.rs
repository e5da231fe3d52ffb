//! TODO

pub mod plan;
pub mod phase;
pub mod streams;
pub mod recv;
pub mod send;
pub mod keepalive;
