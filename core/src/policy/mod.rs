//! Policies: pure functions that choose, order and judge. They keep no state and do nothing themselves; machines
//! carry out what they answer.

pub mod address;
pub mod auth;
pub mod explain;
pub mod host_filter;
pub mod latency;
pub mod load_balancing;
pub mod reconnect;
pub mod retry;
pub mod speculative;
pub mod timestamp;
