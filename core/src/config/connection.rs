//! Owns the settings of single connections: timings and socket options.
//! Leaves out how many connections there are and to whom.

use std::time::Duration;

use crate::error::session::ConfigError;
use crate::wire::{Compression, ProtocolVersion};

/// Says how connections are opened, kept alive and given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// Limits one attempt to open a socket. 5 s: a packet lost twice still gets through, a dead host does not hold up
    /// the next attempt for long.
    pub connect_timeout: Duration,
    /// Limits everything between an open socket and a usable connection. 5 s: a handshake is a handful of round
    /// trips, and a busy server should not be asked again too soon.
    pub handshake_timeout: Duration,
    /// Sets after how long a silence the server is asked whether it is still there; none or zero switches that off.
    /// 30 s: below the idle limits of common firewalls and load balancers. The connections of a session ask on common
    /// beats, up to a thirty-second part of the interval later, so that they wake the process together.
    pub keepalive_interval: Option<Duration>,
    /// Limits the wait for a sign of life after such a question. 10 s: longer than any pause of a healthy server.
    pub keepalive_timeout: Duration,
    /// Fixes the protocol version. Unset, the newest that this build and the cluster have in common is found and kept
    /// for the whole session.
    pub version: Option<ProtocolVersion>,
    /// Asks for this compression where the server offers it; none by default, because within one network the work
    /// costs more than the bytes it saves. Version 5 has LZ4 alone.
    pub compression: Option<Compression>,
    /// Sets the socket options.
    pub socket: SocketOptions,
}

impl ConnectionConfig {
    /// Returns the protocol version to try first.
    pub fn first_version(&self) -> ProtocolVersion {
        self.version.unwrap_or(NEWEST)
    }

    /// Checks what can be checked before anything is dialled.
    ///
    /// # Errors
    /// This build cannot do what is asked for, or no server could.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (limit, setting) in [
            (self.connect_timeout, "connection.connect_timeout"),
            (self.handshake_timeout, "connection.handshake_timeout"),
            (self.keepalive_timeout, "connection.keepalive_timeout"),
        ] {
            ConfigError::if_zero(limit.is_zero(), setting)?;
        }
        if let Some(version) = self.version.filter(|version| NEWEST < *version) {
            return Err(ConfigError::VersionNotBuiltIn { version });
        }
        match self.compression {
            Some(compression) if !compression.is_built_in() => {
                Err(ConfigError::CompressionNotBuiltIn { compression })
            }
            Some(Compression::Snappy) if self.version == Some(ProtocolVersion::V5) => {
                Err(ConfigError::SnappyNeedsVersion4)
            }
            _ => Ok(()),
        }
    }
}

/// Is the newest protocol version that this build speaks.
const NEWEST: ProtocolVersion = if cfg!(feature = "v5") {
    ProtocolVersion::V5
} else {
    ProtocolVersion::V4
};

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            keepalive_interval: Some(Duration::from_secs(30)),
            keepalive_timeout: Duration::from_secs(10),
            version: None,
            compression: None,
            socket: SocketOptions::default(),
        }
    }
}

/// Says what the adapter sets on a socket before it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Sends small packets at once. On by default: batches are made above the socket.
    pub nodelay: bool,
    /// Sets the idle time before TCP's own keepalive starts; off by default, because requests are watched anyway.
    pub keepalive: Option<Duration>,
    /// Sets the size of the kernel's receive buffer in bytes; the system's choice by default.
    pub recv_buffer: Option<usize>,
    /// Sets the size of the kernel's send buffer in bytes; the system's choice by default.
    pub send_buffer: Option<usize>,
    /// Lets a local address be used again that a closed connection still holds. Off by default; sockets whose own port
    /// chooses the shard always do that.
    pub reuse_address: bool,
    /// Sets how long closing waits for what was not sent yet, in whole seconds; zero cuts the connection. Unset by
    /// default: the system goes on sending by itself.
    pub linger: Option<Duration>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            keepalive: None,
            recv_buffer: None,
            send_buffer: None,
            reuse_address: false,
            linger: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snappy_is_refused_where_the_version_has_none() {
        let mut config = ConnectionConfig {
            compression: Some(Compression::Snappy),
            ..ConnectionConfig::default()
        };
        let built_in = |error| match Compression::Snappy.is_built_in() {
            true => error,
            false => Err(ConfigError::CompressionNotBuiltIn {
                compression: Compression::Snappy,
            }),
        };
        assert_eq!(config.check(), built_in(Ok(())));
        config.version = Some(ProtocolVersion::V5);
        if cfg!(feature = "v5") {
            assert_eq!(
                config.check(),
                built_in(Err(ConfigError::SnappyNeedsVersion4))
            );
        }
    }
}
