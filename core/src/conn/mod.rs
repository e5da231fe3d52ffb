//! TODO

pub mod keepalive;
pub mod phase;
pub mod plan;
pub mod recv;
pub mod send;
pub mod streams;
