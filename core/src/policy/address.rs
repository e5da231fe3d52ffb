//! Owns the translation of a host's own address to the one we dial.
//! Contact points are dialled as configured and never pass through here.

use std::fmt;
use std::net::SocketAddr;

use crate::routing::Host;

/// Maps a host's own address to the address that reaches it from here.
///
/// Asked for every attempt to connect, so an answer may change; it must not block.
pub trait AddressTranslator: fmt::Debug + Send + Sync {
    /// The address to dial, or `None` when this host cannot be reached now.
    fn translate(&self, host: &Host) -> Option<SocketAddr>;
}
