//! What a server offers (SUPPORTED), what both sides agree on, and what that does to the layout of messages.
//! The full list of STARTUP options is made in [`crate::report::startup`].

use std::num::NonZeroU16;
use std::str::FromStr;

use uuid::Uuid;

use crate::routing::shard::Shard;
use crate::routing::token::Partitioner;
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

/// What a server says of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// Nothing: it has none, or does not tell clients.
    None,
    /// How it is sharded, and the shard of this connection.
    Known(ShardInfo),
    /// Something, but by halves, with numbers that cannot be, or another way of mapping tokens to shards. It can be
    /// used like a server without shards; nothing else it offers is touched.
    Unreadable,
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

    /// The only or first value of a key, if it says anything.
    fn value(&self, key: &str) -> Option<&str> {
        self.values(key)?
            .first()
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    /// A key whose value is a number; a number that cannot be read counts as absent.
    fn number<N: FromStr>(&self, key: &str) -> Option<N> {
        self.value(key)?.parse().ok()
    }

    /// A parameter of the form `NAME=VALUE` among the values of a key.
    fn parameter<N: FromStr>(&self, key: &str, name: &str) -> Option<N> {
        let mut values = self.values(key)?.iter();
        values.find_map(|value| {
            let (found, value) = value.split_once('=')?;
            if found.trim() == name {
                value.trim().parse().ok()
            } else {
                None
            }
        })
    }

    /// What of this the driver can use. Numbers that cannot be read act as if their key were absent.
    pub fn offered(&self) -> Offered {
        let has = |key| self.values(key).is_some();
        let compression = |name: &str| {
            let listed = self.values(COMPRESSION).unwrap_or_default();
            listed
                .iter()
                .any(|value| value.trim().eq_ignore_ascii_case(name))
        };
        Offered {
            lwt_mark_mask: self
                .parameter(LWT_MARK, LWT_MARK_PARAMETER)
                .filter(|mask: &u32| *mask != 0),
            rate_limit_error: self.parameter(RATE_LIMIT_ERROR, RATE_LIMIT_PARAMETER),
            metadata_id: has(METADATA_ID),
            tablets_v1: has(TABLETS_V1),
            tablets_v2: has(TABLETS_V2),
            lz4: compression(Compression::Lz4.name()),
            snappy: compression(Compression::Snappy.name()),
            client_options: has(CLIENT_OPTIONS),
        }
    }

    /// What the server says of its shards.
    pub fn sharding(&self) -> Sharding {
        let keys = [SHARD, SHARD_COUNT, SHARDING_IGNORE_MSB];
        if keys.iter().all(|key| self.values(key).is_none()) {
            return Sharding::None;
        }
        self.shard_info_checked()
            .map_or(Sharding::Unreadable, Sharding::Known)
    }

    /// The shard of this connection, where [`sharding`](Self::sharding) knows it.
    pub fn shard_info(&self) -> Option<ShardInfo> {
        match self.sharding() {
            Sharding::Known(info) => Some(info),
            Sharding::None | Sharding::Unreadable => None,
        }
    }

    fn shard_info_checked(&self) -> Option<ShardInfo> {
        if self.value(SHARDING_ALGORITHM)? != KNOWN_SHARDING {
            return None;
        }
        let hashed_otherwise = |class| Partitioner::from_class_name(class) != Partitioner::Murmur3;
        if self.partitioner().is_some_and(hashed_otherwise) {
            return None;
        }
        let shard = self.number(SHARD)?;
        let shards: NonZeroU16 = self.number(SHARD_COUNT)?;
        let ignore_msb = self.number(SHARDING_IGNORE_MSB)?;
        if shards.get() <= shard || IGNORE_MSB_MAX < ignore_msb {
            return None;
        }
        let port = |key| self.number(key).filter(|port| *port != 0);
        Some(ShardInfo {
            shard: Shard(shard),
            shards,
            ignore_msb,
            port: port(SHARD_AWARE_PORT),
            tls_port: port(SHARD_AWARE_TLS_PORT),
        })
    }

    /// Says whether the server is a ScyllaDB, which it may be without telling of shards.
    pub fn is_scylla(&self) -> bool {
        let offered = self.offered();
        matches!(self.sharding(), Sharding::Known(_))
            || offered.lwt_mark_mask.is_some()
            || offered.rate_limit_error.is_some()
            || offered.metadata_id
            || offered.tablets_v1
            || offered.tablets_v2
    }

    /// The id of the node (ScyllaDB).
    pub fn host_id(&self) -> Option<Uuid> {
        self.number(HOST_ID)
    }

    /// The class name of the partitioner (ScyllaDB).
    pub fn partitioner(&self) -> Option<&str> {
        self.value(PARTITIONER)
    }

    /// The keys and values to put into STARTUP so that the server turns on what `features` says.
    pub fn startup_extensions(&self, features: &ProtocolFeatures) -> Vec<(&'static str, String)> {
        let mut keys = Vec::new();
        if let Some(compression) = features.compression {
            keys.push((COMPRESSION, compression.name().to_owned()));
        }
        if let Some(mask) = features.lwt_mark_mask {
            keys.push((LWT_MARK, format!("{LWT_MARK_PARAMETER}={mask}")));
        }
        if features.rate_limit_error.is_some() {
            keys.push((RATE_LIMIT_ERROR, String::new()));
        }
        if features.metadata_id && self.values(METADATA_ID).is_some() {
            keys.push((METADATA_ID, String::new()));
        }
        if features.tablets_v2 {
            keys.push((TABLETS_V2, String::new()));
        } else if features.tablets_v1 {
            keys.push((TABLETS_V1, String::new()));
        }
        keys
    }
}

impl ProtocolFeatures {
    /// Whether there is a feature among them that ScyllaDB alone has.
    pub fn are_of_scylla(&self) -> bool {
        self.lwt_mark_mask.is_some()
            || self.rate_limit_error.is_some()
            || self.tablets_v1
            || self.tablets_v2
            || (self.metadata_id && self.version == ProtocolVersion::V4)
    }

    /// Whether prepared statements, EXECUTE and changed results carry an id of the result's metadata.
    pub fn has_metadata_id(&self) -> bool {
        self.metadata_id || self.version == ProtocolVersion::V5
    }
}

impl Offered {
    /// What a connection of this version agrees on when it takes everything that is offered, apart from compression,
    /// which is the user's choice. Of the two kinds of tablets only the newer one is taken.
    pub fn accept(&self, version: ProtocolVersion) -> ProtocolFeatures {
        ProtocolFeatures {
            version,
            lwt_mark_mask: self.lwt_mark_mask,
            rate_limit_error: self.rate_limit_error,
            metadata_id: self.metadata_id || version == ProtocolVersion::V5,
            tablets_v1: self.tablets_v1 && !self.tablets_v2,
            tablets_v2: self.tablets_v2,
            compression: None,
        }
    }
}

impl Compression {
    /// The name in SUPPORTED and STARTUP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }
}

/// Key of the compression algorithms.
pub const COMPRESSION: &str = "COMPRESSION";
/// Key that says that a text about the client's configuration is welcome.
pub const CLIENT_OPTIONS: &str = "CLIENT_OPTIONS";
/// Key of the node's id.
pub const HOST_ID: &str = "SCYLLA_HOST_ID";
/// Key of the mark on conditional statements.
pub const LWT_MARK: &str = "SCYLLA_LWT_ADD_METADATA_MARK";
/// Key of the error for partitions that are used too often.
pub const RATE_LIMIT_ERROR: &str = "SCYLLA_RATE_LIMIT_ERROR";
/// Key of the metadata id in version 4.
pub const METADATA_ID: &str = "SCYLLA_USE_METADATA_ID";
/// Key of tablets in answers.
pub const TABLETS_V1: &str = "TABLETS_ROUTING_V1";
/// Key of tablets in answers, with versions.
pub const TABLETS_V2: &str = "TABLETS_ROUTING_V2_EXPERIMENTAL";
/// Key of this connection's shard.
pub const SHARD: &str = "SCYLLA_SHARD";
/// Key of the number of shards.
pub const SHARD_COUNT: &str = "SCYLLA_NR_SHARDS";
/// Key of the partitioner's class.
pub const PARTITIONER: &str = "SCYLLA_PARTITIONER";
/// Key of the way tokens are mapped to shards.
pub const SHARDING_ALGORITHM: &str = "SCYLLA_SHARDING_ALGORITHM";
/// Key of the number of high bits that sharding ignores.
pub const SHARDING_IGNORE_MSB: &str = "SCYLLA_SHARDING_IGNORE_MSB";
/// Key of the port where the client's port chooses the shard.
pub const SHARD_AWARE_PORT: &str = "SCYLLA_SHARD_AWARE_PORT";
/// Key of the same for TLS.
pub const SHARD_AWARE_TLS_PORT: &str = "SCYLLA_SHARD_AWARE_PORT_SSL";
/// The parameter of [`LWT_MARK`].
pub const LWT_MARK_PARAMETER: &str = "LWT_OPTIMIZATION_META_BIT_MASK";
/// The parameter of [`RATE_LIMIT_ERROR`].
pub const RATE_LIMIT_PARAMETER: &str = "ERROR_CODE";
/// The only way of sharding that this driver knows.
pub const KNOWN_SHARDING: &str = "biased-token-round-robin";
/// A token has 64 bits, and at least one must be left.
const IGNORE_MSB_MAX: u8 = 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn supported(options: &[(&str, &[&str])]) -> Supported {
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let options = options
            .iter()
            .map(|(key, values)| ((*key).to_owned(), owned(values)));
        Supported {
            options: options.collect(),
        }
    }

    const SHARDED: [(&str, &[&str]); 6] = [
        (SHARD, &["3"]),
        (SHARD_COUNT, &["8"]),
        (SHARDING_ALGORITHM, &[KNOWN_SHARDING]),
        (SHARDING_IGNORE_MSB, &["12"]),
        (SHARD_AWARE_PORT, &["19042"]),
        (SHARD_AWARE_TLS_PORT, &["0"]),
    ];

    #[test]
    fn extensions_are_found_with_their_numbers() {
        let offered = supported(&[
            (COMPRESSION, &["lz4", "snappy"]),
            (LWT_MARK, &["LWT_OPTIMIZATION_META_BIT_MASK=2147483648"]),
            (RATE_LIMIT_ERROR, &["FUTURE=1", " ERROR_CODE = 61440 "]),
            (METADATA_ID, &[""]),
            (TABLETS_V1, &[""]),
            (TABLETS_V2, &[""]),
            ("SCYLLA_FUTURE", &["x"]),
        ])
        .offered();
        assert_eq!(
            offered,
            Offered {
                lwt_mark_mask: Some(0x8000_0000),
                rate_limit_error: Some(0xf000),
                metadata_id: true,
                tablets_v1: true,
                tablets_v2: true,
                lz4: true,
                snappy: true,
                client_options: false,
            }
        );
        let features = offered.accept(ProtocolVersion::V4);
        assert!(
            features.tablets_v2 && !features.tablets_v1,
            "the newer one alone"
        );
    }

    #[test]
    fn numbers_that_cannot_be_read_act_as_if_the_key_were_absent() {
        for value in [
            "",
            "ERROR_CODE",
            "ERROR_CODE=",
            "ERROR_CODE=x",
            "ERROR_CODE=4294967296",
        ] {
            assert_eq!(
                supported(&[(RATE_LIMIT_ERROR, &[value])]).offered(),
                Offered::default()
            );
        }
        for value in ["2147483648", "LWT_OPTIMIZATION_META_BIT_MASK=-1", "MASK=1"] {
            assert_eq!(
                supported(&[(LWT_MARK, &[value])]).offered().lwt_mark_mask,
                None
            );
        }
        let zero = supported(&[(LWT_MARK, &["LWT_OPTIMIZATION_META_BIT_MASK=0"])]);
        assert_eq!(
            zero.offered().lwt_mark_mask,
            None,
            "no bit would mark every statement"
        );
        assert_eq!(supported(&[(HOST_ID, &["not-a-uuid"])]).host_id(), None);
    }

    #[test]
    fn the_shard_is_known_only_when_every_key_makes_sense() {
        let info = supported(&SHARDED).shard_info().unwrap();
        assert_eq!(
            (info.shard, info.shards.get(), info.ignore_msb),
            (Shard(3), 8, 12)
        );
        assert_eq!((info.port, info.tls_port), (Some(19_042), None));
        for (key, value) in [
            (SHARD, "8"),
            (SHARD, "-1"),
            (SHARD_COUNT, "0"),
            (SHARD_COUNT, "65536"),
            (SHARDING_IGNORE_MSB, "64"),
            (SHARDING_ALGORITHM, "another"),
            (SHARD, ""),
            (SHARD_COUNT, "eight"),
            (SHARDING_IGNORE_MSB, "12.5"),
        ] {
            let mut options = supported(&SHARDED);
            for (name, values) in &mut options.options {
                if name == key {
                    *values = vec![value.to_owned()];
                }
            }
            assert_eq!(options.sharding(), Sharding::Unreadable, "{key}={value}");
            assert_eq!(options.shard_info(), None, "{key}={value}");
        }
        for absent in 0..4 {
            let mut options = supported(&SHARDED);
            options.options.remove(absent);
            assert_eq!(options.shard_info(), None);
        }
    }

    #[test]
    fn a_partitioner_that_hashes_otherwise_hides_the_shards() {
        for (class, known) in [
            ("org.apache.cassandra.dht.Murmur3Partitioner", true),
            ("org.apache.cassandra.dht.RandomPartitioner", false),
        ] {
            let mut options = supported(&SHARDED);
            options
                .options
                .push((PARTITIONER.to_owned(), vec![class.to_owned()]));
            assert_eq!(options.shard_info().is_some(), known, "{class}");
        }
    }

    #[test]
    fn the_last_shard_is_one_below_the_count_and_no_bits_may_be_ignored() {
        let mut options = SHARDED;
        options[0] = (SHARD, &["7"]);
        options[3] = (SHARDING_IGNORE_MSB, &["0"]);
        let info = supported(&options).shard_info().unwrap();
        assert_eq!((info.shard, info.ignore_msb), (Shard(7), 0));
    }

    #[test]
    fn a_server_without_readable_shards_keeps_its_extensions_and_its_kind() {
        let mut options = SHARDED.to_vec();
        options.remove(3);
        options.push((LWT_MARK, &["LWT_OPTIMIZATION_META_BIT_MASK=2147483648"]));
        let halves = supported(&options);
        assert_eq!(halves.sharding(), Sharding::Unreadable);
        assert_eq!(halves.offered().lwt_mark_mask, Some(0x8000_0000));
        assert!(halves.is_scylla());
        let silent = supported(&[
            (LWT_MARK, &["LWT_OPTIMIZATION_META_BIT_MASK=2147483648"]),
            (RATE_LIMIT_ERROR, &["ERROR_CODE=-16777216"]),
        ]);
        assert_eq!(silent.sharding(), Sharding::None);
        assert!(silent.is_scylla());
        assert!(supported(&[(METADATA_ID, &[""])]).is_scylla());
        assert!(
            !supported(&[(SHARD_AWARE_PORT, &["19042"])]).is_scylla(),
            "a port proves nothing"
        );
        assert!(!supported(&[(COMPRESSION, &["lz4"])]).is_scylla());
    }

    #[test]
    fn a_port_that_is_no_port_does_not_hide_the_shard() {
        let mut options = SHARDED;
        options[4] = (SHARD_AWARE_PORT, &["99999"]);
        let info = supported(&options).shard_info().unwrap();
        assert_eq!((info.shard, info.port), (Shard(3), None));
    }

    #[test]
    fn startup_repeats_what_was_agreed_on() {
        let all = supported(&[
            (LWT_MARK, &["LWT_OPTIMIZATION_META_BIT_MASK=8"]),
            (RATE_LIMIT_ERROR, &["ERROR_CODE=5"]),
            (METADATA_ID, &[""]),
            (TABLETS_V1, &[""]),
        ]);
        let features = ProtocolFeatures {
            compression: Some(Compression::Lz4),
            ..all.offered().accept(ProtocolVersion::V4)
        };
        assert_eq!(
            all.startup_extensions(&features),
            [
                (COMPRESSION, "lz4".to_owned()),
                (LWT_MARK, "LWT_OPTIMIZATION_META_BIT_MASK=8".to_owned()),
                (RATE_LIMIT_ERROR, String::new()),
                (METADATA_ID, String::new()),
                (TABLETS_V1, String::new()),
            ]
        );
        let cassandra = supported(&[(COMPRESSION, &["lz4"])]);
        let v5 = cassandra.offered().accept(ProtocolVersion::V5);
        assert!(v5.metadata_id, "part of version 5");
        assert_eq!(cassandra.startup_extensions(&v5), []);
    }
}
