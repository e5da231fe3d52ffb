//! The sans-IO core of Messina: bytes and instants in, bytes and effects out.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod collections;
pub mod config;
pub mod conn;
pub mod error;
pub mod exec;
pub mod notify;
pub mod policy;
pub mod report;
pub mod routing;
pub mod seed;
pub mod time;
pub mod types;
pub mod wire;
