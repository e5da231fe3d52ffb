//! What a server offers (SUPPORTED), what both sides agree on, and what that does to the layout of messages.
//! The full list of STARTUP options is made in [`crate::report::startup`].

use std::num::NonZeroU16;

use uuid::Uuid;

use crate::routing::shard::Shard;
use crate::wire::header::ProtocolVersion;

/// The answer to OPTIONS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supported {
    /// The offered keys with their values, in the order of the wire.
    pub options: Vec<(String, Vec<String>)>,
}

/// What both sides agreed on; decides the layout of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolFeatures {
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The bits in the flags of prepared metadata that mark a conditional statement.
    pub lwt_mark_mask: Option<u32>,
    /// The error code for partitions that are used too often.
    pub rate_limit_error: Option<i32>,
    /// Whether results carry an id of their metadata: always in version 5, by agreement in version 4.
    pub metadata_id: bool,
    /// Whether misrouted requests bring their tablet in the answer.
    pub tablets_v1: bool,
    /// Whether EXECUTE ends with a byte of the tablet's version, and answers correct it.
    pub tablets_v2: bool,
    /// How bodies may be compressed.
    pub compression: Option<Compression>,
}

/// A compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// LZ4 blocks.
    Lz4,
    /// Snappy blocks.
    Snappy,
}

/// Which shard serves a connection, and how to reach the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo {
    /// The shard of this connection.
    pub shard: Shard,
    /// How many shards the node has.
    pub shards: NonZeroU16,
    /// How many high bits of a token are ignored when it is mapped to a shard.
    pub ignore_msb: u8,
    /// The port where the client's own port chooses the shard.
    pub port: Option<u16>,
    /// The same for TLS.
    pub tls_port: Option<u16>,
}

/// What a server offers, as far as this driver can use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The mask of the mark on conditional statements.
    pub lwt_mark_mask: Option<u32>,
    /// The error code for partitions that are used too often.
    pub rate_limit_error: Option<i32>,
    /// The metadata id in version 4.
    pub metadata_id: bool,
    /// Tablets in answers.
    pub tablets_v1: bool,
    /// Tablets in answers, with versions.
    pub tablets_v2: bool,
    /// LZ4.
    pub lz4: bool,
    /// Snappy.
    pub snappy: bool,
    /// Whether a CLIENT_OPTIONS text is welcome.
    pub client_options: bool,
}

impl Supported {
    /// The values of a key.
    pub fn values(&self, key: &str) -> Option<&[String]> {
        self.options
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, values)| values.as_slice())
    }

    /// What of this the driver can use.
    pub fn offered(&self) -> Offered {
        todo!()
    }

    /// The shard of this connection; none when a key is absent or not a number in range.
    pub fn shard_info(&self) -> Option<ShardInfo> {
        todo!()
    }

    /// The id of the node (ScyllaDB).
    pub fn host_id(&self) -> Option<Uuid> {
        todo!()
    }

    /// The class name of the partitioner (ScyllaDB).
    pub fn partitioner(&self) -> Option<&str> {
        todo!()
    }

    /// The keys and values to put into STARTUP so that the server turns on what `features` says.
    pub fn startup_extensions(&self, _features: &ProtocolFeatures) -> Vec<(&'static str, String)> {
        todo!()
    }
}
