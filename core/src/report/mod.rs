//! Owns what the driver tells servers about itself.
//! Leaves out when: that is a step of the connection's handshake.

pub mod driver_config;
mod json;
pub mod startup;
