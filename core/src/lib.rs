//! The sans-IO core of Messina: bytes and instants in, bytes and effects out.
#![forbid(unsafe_code)]

// The derives write `::messina_core`, also where they are used in this crate.
extern crate self as messina_core;

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

pub use types::{FromRow, FromValue, ToRow, ToValue};
