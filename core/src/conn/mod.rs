//! Owns one connection: framing, handshake, stream ids, deadlines, keepalive.
//! Leaves out sockets, and every decision about which connections there are.

pub mod plan;

pub use plan::{Address, CloseReason, ConnectSpec, Role};
