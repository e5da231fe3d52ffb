//! TODO

pub mod load_balancing;
pub mod retry;
pub mod speculative;
pub mod reconnect;
pub mod timestamp;
pub mod address;
pub mod host_filter;
pub mod auth;
