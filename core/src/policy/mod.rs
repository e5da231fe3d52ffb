//! TODO

pub mod address;
pub mod auth;
pub mod host_filter;
pub mod load_balancing;
pub mod reconnect;
pub mod retry;
pub mod speculative;
pub mod timestamp;
